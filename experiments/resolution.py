"""The paper's images at decreasing resolution: its first table, and the two figures that belong to it.

    python experiments/resolution.py [--quick] [--out DIR] [--jobs N] [--predictions DIR]

A classifier is evaluated on 200 images of each class at full resolution (the lab) and used on other images that were
made smaller (the field), of which 11 % are beetles. It gets worse, and it believes in far too many beetles; global
URC knows neither the labels nor the resolution. Over 100 random evaluation sets: the paper's estimator (4 bins, maximum
likelihood; also 2, 3, 8 and 16 bins), fieldcal with its trust set to 1, and fieldcal as it comes. Images and
classifier are a stand-in (`images.digits`). ``--predictions`` runs the original on predictions computed elsewhere
(`images.read`), with their own base rate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import images
import numpy as np
import pandas as pd
import paper
import published
from harness import Cell, Row, Study, command
from matplotlib.figure import Figure
from tell import (
    COLOURS,
    Claim,
    claims,
    legend_below,
    markdown,
    mean_error,
    percent,
    plain,
    ribbons,
    standard_error,
)

import fieldcal

REPLICAS = 100
PER_CLASS = 200
BASE_RATE = 0.11
BINS = (2, 3, 4, 8, 16)
PAPER = "URC (4 bins)"
DEFAULTS = "fieldcal"
TRUSTED = "fieldcal, trust 1"
RAW = "raw"
#: A change by less is none: where fieldcal does not trust the estimate, it leaves predictions alone.
SAME = 0.0005
#: The rows of the paper's table, and which way is better.
MEASURES = {
    "log_loss": ("negative log likelihood", -1),
    "brier": ("Brier score", -1),
    "calibration": ("calibration component", -1),
    "accuracy": ("accuracy", +1),
}
LOOKS: dict[str, dict[str, Any]] = {
    RAW: {"color": COLOURS["vermilion"], "marker": "s", "linestyle": "--"},
    PAPER: {"color": COLOURS["sky"], "marker": "o"},
    TRUSTED: {"color": COLOURS["ink"], "marker": "x"},
    DEFAULTS: {"color": COLOURS["blue"], "marker": "^"},
}


def study(*, quick: bool = False, predictions: Path | None = None) -> Study:
    """Every source of images and evaluation set is a cell."""
    if predictions is None:
        name, base_rate = "resolution", BASE_RATE
        sources = {"even digits": images.digits(), "digits with a loop": images.digits(images.LOOPS)}
    else:
        name, base_rate = "resolution_predictions", None
        sources = {"beetles": images.read(predictions)}
    replicas, bins = (3, (2, 4)) if quick else (REPLICAS, BINS)
    settings = {
        "replicas": replicas,
        "bins": bins,
        "per_class": PER_CLASS,
        "base_rate": base_rate,
        "images": {source: images.digest(found) for source, found in sources.items()},
    }
    return Study(
        name,
        "Images at decreasing resolution",
        settings,
        [{"positive": source, "replica": replica} for source in sources for replica in range(replicas)],
        partial(run_cell, sources=sources, bins=bins, base_rate=base_rate),
        partial(figures, name=name),
        summary,
        lambda table: {f"{name}_table": before_after(main(table))},
        captions(name, stand_in=predictions is None),
    )


def captions(name: str, *, stand_in: bool) -> dict[str, str]:
    """What the figures have of the paper's."""
    if stand_in:
        other = (
            "Not the same: handwritten digits of 8 × 8 pixels and a linear classifier instead of photographs and a "
            "deep net, about 780 images in the field instead of 57,342; two lines more, fieldcal with trust 1 and with "
            "nothing set."
        )
    else:
        other = "Not the same: two lines more, fieldcal with trust 1 and with nothing set."
    same = f"raw against URC with 4 bins, ribbons that hold 95 % of {REPLICAS} evaluation sets of 200 images per class"
    return {
        f"{name}_accuracy": "The paper's figure of accuracy by image size. Same as the paper's: "
        f"{same}, base rate 11 %. {other}",
        f"{name}_brier": "The paper's figure of the Brier score by image size. Same as the paper's: "
        f"{same}, calibration and refinement by deciles; here in a panel each. {other}",
    }


def run_cell(
    cell: Cell, *, sources: dict[str, images.Predictions], bins: Sequence[int], base_rate: float | None
) -> list[Row]:
    """One evaluation set, all sizes, all methods."""
    found = sources[cell["positive"]]
    rng = np.random.default_rng(cell["replica"])
    lab_rows, field_rows = images.draw(found, rng, per_class=PER_CLASS, base_rate=base_rate)
    field, truth = {size: score[field_rows] for size, score in found.small.items()}, found.truth[field_rows]
    rows: list[Row] = [{"size": size, "method": RAW, **before(proba, truth)} for size, proba in field.items()]
    methods = {f"URC ({n} bins)": (paper.learn(n), paper.ESTIMATE) for n in bins}
    methods |= {TRUSTED: ({}, {"trust": 1}), DEFAULTS: ({}, {})}
    for method, (learning, options) in methods.items():
        lab = fieldcal.learn(found.full[lab_rows], found.truth[lab_rows], **learning)
        rows += [
            {"size": size, "method": method, **recalibrated(lab, proba, truth, options)}
            for size, proba in field.items()
        ]
    return rows


def before(proba: images.Floats, truth: images.Codes) -> Row:
    """Predictions as they are."""
    return {**images.scores_of(proba, truth), "rate": proba.mean(), "true_rate": truth.mean(), "verdict": "-"}


def recalibrated(
    lab: fieldcal.Lab, proba: images.Floats, truth: images.Codes, options: dict[str, Any]
) -> Row:
    """Count, estimate, recalibrate; then look at the labels."""
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba), **options)
    found = images.scores_of(fieldcal.recalibrate(prev, proba), truth)
    return {**found, "rate": prev.urc[0, 1], "true_rate": truth.mean(), "verdict": prev.verdict.level}


def main(table: pd.DataFrame) -> pd.DataFrame:
    """The source that takes the place of the paper's photographs."""
    return table[table.positive == table.positive.iloc[0]]


def before_after(table: pd.DataFrame) -> pd.DataFrame:
    """The paper's table: per measure, size and method the mean before and after, over evaluation sets."""
    mean = table.groupby(["size", "method"])[[*MEASURES]].mean()
    rows = []
    for size, method in mean.index:
        for measure, (_, better) in MEASURES.items():
            old, new = mean.loc[(size, RAW), measure], mean.loc[(size, method), measure]
            improved = bool(better * (new - old) > 0)
            row = {"size": size, "measure": measure, "method": method}
            rows.append(row | {"before": old, "after": new, "improved": improved})
    found = pd.DataFrame(rows)
    return found[found.method != RAW].reset_index(drop=True)


def figures(table: pd.DataFrame, *, name: str) -> dict[str, Figure]:
    """Accuracy, and the composition of the Brier score, against the size of the images."""
    parts = {"brier": "Brier score", "calibration": "calibration part", "refinement": "refinement part"}
    return {
        f"{name}_accuracy": panels(main(table), {"accuracy": "accuracy"}, width=6),
        f"{name}_brier": panels(main(table), parts, width=9.5),
    }


def panels(table: pd.DataFrame, measures: dict[str, str], *, width: float) -> Figure:
    """A panel per measure, with the range of 95 % of the evaluation sets."""
    figure = Figure(figsize=(width, 3.5), layout="constrained")
    axes = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
    for ax, (measure, title) in zip(axes, measures.items(), strict=True):
        ribbons(ax, table, LOOKS, x="size", y=measure, inside=0.95)
        ax.set_xticks(sorted(table["size"].unique()))
        plain(ax, x="image size in pixels", title=title)
        if len(measures) > 1:
            ax.set_ylim(bottom=0)  # parts of a sum are compared from 0 on
    legend_below(figure)
    return figure


def summary(table: pd.DataFrame) -> str:
    """The table, what it says of the paper's claims, and the case where the method must fail."""
    first, others = main(table), table[table.positive != table.positive.iloc[0]]
    parts = [
        f"Positive class: {first.positive.iloc[0]}, base rate {percent(first.true_rate.mean())}. Means over "
        f"{first.replica.nunique()} evaluation sets, before → after. For the log likelihood, predictions are kept "
        f"{images.CERTAIN:g} away from 0 and 1, before and after.",
    ]
    parts += [f"**{PAPER}, beside the paper's table**", paper_table(first)]
    for method in (TRUSTED, DEFAULTS):
        parts += [f"**{method}**", size_table(first, method)]
    parts += ["**The paper's claims**", claims(judge(first))]
    for name, part in others.groupby("positive"):
        parts += [f"**Where blurring looks like a class: {name}**", size_table(part, PAPER), contrary(part)]
    return "\n\n".join(parts)


def paper_table(table: pd.DataFrame) -> str:
    """Every cell of the paper's table above ours; ± is the standard error of the change over evaluation sets."""
    sizes = sorted(table["size"].unique())
    beside = published.counterpart(sizes)
    wide = table[table.method.isin([RAW, PAPER])].pivot_table(
        index=["size", "replica"], columns="method", values=[*MEASURES, "rate"]
    )
    lines = []
    for measure, (title, _) in (MEASURES | {"rate": ("mean prediction → base rate", 0)}).items():
        theirs = published.GLOBAL.get(measure)
        if beside and theirs:
            pairs = [theirs[published.SIZES.index(beside[size])] for size in sizes]
            lines.append([f"{title}, paper", *(f"{old:.3f} → {new:.3f}" for old, new in pairs)])
        cells = []
        for size in sizes:
            old, new = wide[measure].loc[size][RAW], wide[measure].loc[size][PAPER]
            cells.append(f"{old.mean():.3f} → {new.mean():.3f} ± {standard_error(new - old):.4f}")
        lines.append([f"{title}, here", *cells])
    header = [f"{size} pixels" + (f" (paper: {beside[size]})" if beside else "") for size in sizes]
    return markdown(["", *header], lines)


def size_table(table: pd.DataFrame, method: str) -> str:
    """The paper's table for one method, with the base rate below."""
    found = before_after(table)
    found = found[found.method == method]
    sizes = sorted(found["size"].unique())
    lines = []
    for measure, (title, _) in MEASURES.items():
        mine = found[found.measure == measure].set_index("size")
        cells = [f"{mine.before[size]:.3f} → {mine.after[size]:.3f}" for size in sizes]
        lines.append([title, *cells])
    rate = table.groupby(["method", "size"]).rate.mean()
    lines.append(
        [
            "mean prediction → under label shift",
            *(f"{rate[RAW, size]:.3f} → {rate[method, size]:.3f}" for size in sizes),
        ]
    )
    return markdown(["", *(f"{size} pixels" for size in sizes)], lines)


def contrary(table: pd.DataFrame) -> str:
    """What fieldcal does and says where the assumption is broken."""
    fieldcal_rows = table[table.method == DEFAULTS]
    said = (fieldcal_rows.verdict == "do_not_use").groupby(fieldcal_rows["size"]).mean()
    loss = table.groupby(["method", "size"]).log_loss.mean()
    lines = [
        [size, *(f"{loss[method, size]:.3f}" for method in (RAW, PAPER, DEFAULTS)), percent(said[size])]
        for size in said.index
    ]
    header = ["pixels", f"log loss, {RAW}", PAPER, DEFAULTS, "fieldcal's verdict: do not use"]
    return markdown(header, lines)


def judge(table: pd.DataFrame) -> list[Claim]:
    """The paper's statements on global recalibration, each with its figures."""
    return [
        all_improve(table, PAPER),
        all_improve(table, TRUSTED),
        all_improve(table, DEFAULTS),
        strongest(table),
        *gains(table),
        *sizes_compared(table),
        refinement(table),
        base_rate(table),
        *precisions(table),
        robust(table),
    ]


def all_improve(table: pd.DataFrame, method: str) -> Claim:
    """In the mean over evaluation sets."""
    found = before_after(table)
    found = found[found.method == method]
    found = found.assign(
        better=found.measure.map(lambda name: MEASURES[name][1]) * (found.after - found.before)
    )
    left = found[found.better.abs() < SAME]
    worse = found[found.better <= -SAME]
    evidence = f"{(found.better >= SAME).sum()} of {len(found)} improve"
    for word, rows in {"unchanged": left, "worse": worse}.items():
        places = [f"{row.measure} at {row.size} pixels" for row in rows.itertuples(index=False)]
        evidence += f"; {word}: {', '.join(places)}" if places else ""
    return Claim(
        f"{method}: all four rows of the table improve at every size",
        len(left) + len(worse) == 0,
        evidence,
        "24 of 24 improve" if method == PAPER else "not in the paper; judged likewise",
    )


def accuracy(table: pd.DataFrame) -> pd.DataFrame:
    """Per size and evaluation set, a column per method."""
    return table.pivot_table(index=["size", "replica"], columns="method", values="accuracy")


def strongest(table: pd.DataFrame) -> Claim:
    """Most is gained where the classifier is weakest."""
    wide = accuracy(table)
    gain = (wide[PAPER] - wide[RAW]).groupby("size")
    evidence = ", ".join(f"{size}: {mean_error(part, sign=True)}" for size, part in gain)
    theirs = ", ".join(f"{new - old:+.3f}" for old, new in published.GLOBAL["accuracy"])
    mean = gain.mean()
    return Claim(
        "the gain in accuracy is largest for the smallest images",
        mean.idxmax() == mean.index.min(),
        evidence,
        theirs,
    )


def gains(table: pd.DataFrame) -> list[Claim]:
    """The accuracy rises by so much with every single evaluation set, for the smallest and the largest images."""
    wide = accuracy(table)
    gain = wide[PAPER] - wide[RAW]
    sizes = sorted(table["size"].unique())
    made = []
    for size, (least, mean) in zip((sizes[0], sizes[-1]), published.GAIN, strict=True):
        own = gain.loc[size]
        made.append(
            Claim(
                f"at {size} pixels the accuracy rises by at least {percent(least)} with every evaluation set",
                bool(own.min() >= least),
                f"least {own.min():+.3f}, mean {mean_error(own, sign=True)}",
                f"at least {percent(least)}, mean {percent(mean)}",
                (f"it rises with every one ({(own > 0).sum()} of {len(own)})", bool((own > 0).all())),
            )
        )
    return made


def sizes_compared(table: pd.DataFrame) -> list[Claim]:
    """The smallest images, recalibrated, against larger ones as they are; and whether more pixels help at all."""
    wide = accuracy(table)
    raw = wide[RAW].unstack("size")
    new = wide[PAPER].unstack("size").iloc[:, 0]
    smallest, largest, mean = raw.columns[0], raw.columns[-1], raw.mean()
    best = mean.idxmax()
    over, under = new - raw[largest], new - raw[best]
    theirs = published.GLOBAL["accuracy"]
    return [
        Claim(
            f"recalibrated, images of {smallest} pixels are classified more accurately than those of {largest} without",
            bool(over.mean() > 2 * standard_error(over)),
            f"{new.mean():.3f} against {mean[largest]:.3f}, difference {mean_error(over, sign=True)}",
            f"{theirs[0][1]:.3f} against {theirs[-1][0]:.3f}",
        ),
        Claim(
            f"recalibrated, images of {smallest} pixels are classified more accurately than those of any size without",
            bool(under.mean() > 2 * standard_error(under)),
            f"{new.mean():.3f} against {mean[best]:.3f} at {best} pixels, difference {mean_error(under, sign=True)}",
            f"{theirs[0][1]:.3f} against {max(old for old, _ in theirs):.3f}",
        ),
        Claim(
            "without recalibration the accuracy rises with every step of the image size",
            bool(mean.is_monotonic_increasing),
            ", ".join(f"{size}: {mean_error(raw[size])}" for size in raw),
            ", ".join(f"{old:.3f}" for old, _ in theirs),
        ),
    ]


def refinement(table: pd.DataFrame) -> Claim:
    """Recalibration with one set of weights keeps the order of predictions, and so the refinement."""
    mean = table.groupby(["method", "size"]).refinement.mean()
    change = (mean[PAPER] - mean[RAW]).abs().max()
    return Claim("the refinement is not changed", bool(change < 0.0005), f"by at most {change:.4f}")


def base_rate(table: pd.DataFrame) -> Claim:
    """In every run the estimate is at most 17 %, where 11 % is true."""
    true, runs = table.true_rate.mean(), table[table.method == PAPER]
    mean = table.groupby(["method", "size"]).rate.mean()
    old, new = mean[RAW], mean[PAPER]
    within = runs.rate <= published.MOST_RATE
    places = ", ".join(
        f"{size} pixels {(~part).sum()}" for size, part in within.groupby(runs["size"]) if not part.all()
    )
    low, high = published.RAW_RATE
    evidence = (
        f"largest {runs.rate.max():.3f}, {within.sum()} of {len(within)} runs within; beyond it: {places or 'none'}; "
        f"means {new.min():.3f} to {new.max():.3f}, raw {old.min():.3f} to {old.max():.3f}, true {true:.3f}"
    )
    nearer = bool(((new - true).abs() < (old - true).abs()).all())
    return Claim(
        f"in all runs the estimated base rate is at most {percent(published.MOST_RATE)}",
        bool(within.all()),
        evidence,
        f"at most {percent(published.MOST_RATE)}, raw {percent(low)} to {percent(high)}, true 11 %",
        ("in the mean it is nearer to the truth than the mean prediction at every size", nearer),
    )


def precisions(table: pd.DataFrame) -> list[Claim]:
    """Of the rare class it rises by far, of the other it falls a little, at the smallest and the largest size."""
    sizes = sorted(table["size"].unique())
    change = {}
    for measure in published.PRECISION:
        wide = table.pivot_table(index=["size", "replica"], columns="method", values=measure)[[RAW, PAPER]]
        change[measure] = wide.groupby("size").mean()
    up, down = (found[PAPER] - found[RAW] for found in change.values())
    better = bool((up > -down).all())
    weaker = ("at every size that of the rare class rises by more than that of the other falls", better)
    made = []
    for word, (measure, theirs) in zip(("rises", "falls"), published.PRECISION.items(), strict=True):
        for size, (old, new) in zip((sizes[0], sizes[-1]), theirs, strict=True):
            own = change[measure].loc[size]
            moved = own[PAPER] - own[RAW]
            bar = new - old
            made.append(
                Claim(
                    f"at {size} pixels the {measure.replace('_', ' of ')} {word} "
                    f"by {'at least' if bar > 0 else 'at most'} {percent(abs(bar))}",
                    bool(moved >= bar - 0.005),
                    f"{own[RAW]:.3f} → {own[PAPER]:.3f}",
                    f"{percent(old)} → {percent(new)}",
                    weaker,
                )
            )
    return made


def robust(table: pd.DataFrame) -> Claim:
    """The paper's footnote: other numbers of bins differ by less than 9 %, the small calibration part aside."""
    found = before_after(table)
    found = (
        found[~found.method.isin([TRUSTED, DEFAULTS])]
        .set_index(["measure", "size", "method"])
        .after.unstack()
    )
    apart = (found.div(found[PAPER], axis=0) - 1).abs().max(axis=1)
    rest, calibration = apart.drop("calibration"), apart["calibration"]
    inner = rest.drop(
        rest.index[rest.index.get_level_values("size") == rest.index.get_level_values("size").min()]
    )
    evidence = (
        f"{percent(rest.max())} ({rest.idxmax()[0]} at {rest.idxmax()[1]} pixels), {percent(inner.max())} without the "
        f"smallest images; calibration component {percent(calibration.max())}"
    )
    most, most_inside = published.ROBUST
    return Claim(
        f"no number of bins differs from 4 bins by more than {percent(most)}, without the smallest images "
        f"{percent(most_inside)}",
        bool(rest.max() <= most and inner.max() <= most_inside),
        evidence,
        f"{percent(most)}, {percent(most_inside)}",
    )


if __name__ == "__main__":
    sys.exit(command(study, __doc__, takes_predictions=True))
