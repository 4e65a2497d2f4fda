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
from harness import Cell, Row, Study, command
from matplotlib.figure import Figure
from tell import COLOURS, Claim, claims, legend_below, markdown, percent, plain, ribbons

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
    replicas, bins = (5, (2, 4)) if quick else (REPLICAS, BINS)
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
    )


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
    for method in (PAPER, TRUSTED, DEFAULTS):
        parts += [f"**{method}**", size_table(first, method)]
    parts += ["**The paper's claims**", claims(judge(first))]
    for name, part in others.groupby("positive"):
        parts += [f"**Where blurring looks like a class: {name}**", size_table(part, PAPER), contrary(part)]
    return "\n\n".join(parts)


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
    lines.append(["base rate", *(f"{rate[RAW, size]:.3f} → {rate[method, size]:.3f}" for size in sizes)])
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
        *accuracy_claims(table),
        refinement(table),
        *rates(table),
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
    return Claim(f"{method}: all four rows improve at every size", len(left) + len(worse) == 0, evidence)


def accuracy_claims(table: pd.DataFrame) -> list[Claim]:
    """Higher in every single run; most at low resolution; the smallest, recalibrated, beats the largest, raw."""
    wide = table.pivot_table(index=["size", "replica"], columns="method", values="accuracy")
    gain = wide[PAPER] - wide[RAW]
    mean, by_size = wide.groupby("size").mean(), gain.groupby("size").mean()
    smallest, largest = by_size.index.min(), by_size.index.max()
    new, old = mean[PAPER][smallest], mean[RAW][largest]
    gains = ", ".join(f"{size}: {value:+.3f}" for size, value in by_size.items())
    return [
        Claim(
            "the accuracy increases with every evaluation set, at every size",
            bool((gain > 0).all()),
            f"in {(gain > 0).sum()} of {len(gain)}; worst {gain.min():+.3f}",
        ),
        Claim("the gain in accuracy is largest for the smallest images", by_size.idxmax() == smallest, gains),
        Claim(
            "recalibrated, the smallest images are classified more accurately than the largest without",
            bool(new > old),
            f"{new:.3f} against {old:.3f}",
        ),
    ]


def refinement(table: pd.DataFrame) -> Claim:
    """Recalibration with one set of weights keeps the order of predictions, and so the refinement."""
    mean = table.groupby(["method", "size"]).refinement.mean()
    change = (mean[PAPER] - mean[RAW]).abs().max()
    return Claim("the refinement is not changed", bool(change < 0.002), f"by at most {change:.4f}")


def rates(table: pd.DataFrame) -> list[Claim]:
    """The base rate, and the precision that depends on it."""
    mean = table.groupby(["method", "size"])[["rate", "precision_beetles", "precision_butterflies"]].mean()
    true, old, new = table.true_rate.mean(), mean.loc[RAW], mean.loc[PAPER]
    nearer = (new.rate - true).abs() < (old.rate - true).abs()
    up = new.precision_beetles - old.precision_beetles
    down = new.precision_butterflies - old.precision_butterflies
    return [
        Claim(
            f"the estimated base rate is nearer to the true one ({true:.3f}) at every size",
            bool(nearer.all()),
            f"{old.rate.min():.3f} to {old.rate.max():.3f} before, {new.rate.min():.3f} to {new.rate.max():.3f} after",
        ),
        Claim(
            "the precision of the rare class rises by more than that of the other falls, at every size",
            bool((up > -down).all()),
            f"{up.min():+.3f} to {up.max():+.3f}, and {down.min():+.3f} to {down.max():+.3f}",
        ),
    ]


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
    return Claim("no number of bins differs from 4 bins by more than 9 %", bool(rest.max() <= 0.09), evidence)


if __name__ == "__main__":
    sys.exit(command(study, __doc__, takes_predictions=True))
