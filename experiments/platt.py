"""How well the classifier of the image experiments is calibrated: Platt scaling first, then field images and URC.

    python experiments/platt.py [--quick] [--out DIR] [--jobs N]

The paper scales its net's predictions on a balanced set before anything else. Here: the calibration part of the Brier
score at full resolution on balanced classes, before and after, with the curve fitted on all images as in the paper, and
fitted on one random half of them and judged on the other; then the scaled predictions of smaller images of which 11 %
are positive, before and after URC with 4 bins, over the evaluation sets of `resolution`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import images
import numpy as np
import pandas as pd
import paper
import published
from harness import Cell, Row, Study, command
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from resolution import BASE_RATE, PER_CLASS
from tell import COLOURS, Claim, claims, legend_below, markdown, mean_error, percent, plain

import fieldcal
from fieldcal import metrics, plots

REPLICAS = 100
SHOWN = 4  # pixels of the third panel
ALL, HALF, FIELD = "full resolution, fitted on all", "full resolution, fitted on half", "field"
BEFORE, AFTER = "before", "after"
LOOKS = {
    BEFORE: {"color": COLOURS["vermilion"], "marker": "s", "linestyle": "--"},
    AFTER: {"color": COLOURS["blue"], "marker": "o"},
}
CAPTION = (
    "The calibration that the paper tells in a footnote and its R code plots. Left, the authors' plot: "
    "predictions before and after Platt scaling, at full resolution. Middle: reliability on balanced "
    "classes before and after Platt scaling, by deciles. Right: reliability of Platt-scaled predictions "
    f"of images of {SHOWN} pixels, {percent(BASE_RATE)} of them positive, before and after URC. Same as "
    "the paper's: the curve, weighted to equal classes and fitted on all images, deciles. Not the same: "
    "digits instead of photographs; the paper draws only the first panel, in its code; on the right "
    f"points are means over {REPLICAS} draws of the field, bars hold 95 % of them."
)


def study(*, quick: bool = False) -> Study:
    """Every draw of images is a cell."""
    found = images.unscaled_digits()
    replicas = 3 if quick else REPLICAS
    sizes = (SHOWN,) if quick else tuple(found.small)
    settings = {"replicas": replicas, "sizes": sizes, "images": images.digest(found)}
    cells = [{"replica": replica} for replica in range(replicas)]
    run = partial(run_cell, found=found, sizes=sizes)
    return Study(
        "platt", "Platt scaling", settings, cells, run, figures, summary, captions={"platt": CAPTION}
    )


def run_cell(cell: Cell, *, found: images.Predictions, sizes: Sequence[int]) -> list[Row]:
    """Balanced images at full resolution before and after the scaling, then fields before and after URC."""
    rng = np.random.default_rng(cell["replica"])
    scaled, shuffled = found.platt(), rng.permutation(len(found.truth))
    first, second = np.array_split(shuffled, 2)
    fitted = {
        ALL: (scaled, balanced(found.truth, shuffled)),
        HALF: (found.platt(first), balanced(found.truth, second)),
    }
    rows = []
    for name, (new, judged) in fitted.items():
        rows += reliability(name, images.SIDE, found.full[judged], new.full[judged], found.truth[judged])
    lab_rows, field_rows = images.draw(
        scaled, np.random.default_rng(cell["replica"]), per_class=PER_CLASS, base_rate=BASE_RATE
    )
    lab = fieldcal.learn(scaled.full[lab_rows], scaled.truth[lab_rows], **paper.learn(4))
    for size in sizes:
        proba = scaled.small[size][field_rows]
        prev = fieldcal.estimate(lab, fieldcal.count(lab, proba), **paper.ESTIMATE)
        rows += reliability(FIELD, size, proba, fieldcal.recalibrate(prev, proba), scaled.truth[field_rows])
    return rows


def balanced(truth: images.Codes, rows: images.Codes) -> images.Codes:
    """As many of one class as of the other: the first of each."""
    each = [rows[truth[rows] == k] for k in (0, 1)]
    return np.concatenate([own[: min(map(len, each))] for own in each])


def reliability(
    name: str, size: int, old: images.Floats, new: images.Floats, truth: images.Codes
) -> list[Row]:
    """Deciles before and after, with the calibration part of each."""
    table = plots.tables.reliability_of(old, new, truth, classes=("odd", "even"))
    rows = []
    for series, proba in zip(table["series"], (old, new), strict=True):
        calibration = metrics.brier_parts(proba, truth).calibration
        points = zip(series["mean"], series["share"], strict=True)
        rows += [
            {
                "set": name,
                "size": size,
                "stage": series["name"],
                "calibration": calibration,
                "bin": j,
                "predicted": mean,
                "share": share,
            }
            for j, (mean, share) in enumerate(points)
        ]
    return rows


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """The curve, and reliability before and after twice."""
    figure = Figure(figsize=(9.8, 3.7), layout="constrained")
    curve, platt, urc = figure.subplots(1, 3)
    whole = table[table.set == ALL]
    wide = whole.pivot_table(index="bin", columns="stage", values="predicted")
    curve.plot(wide[BEFORE], wide[AFTER], color=COLOURS["ink"], marker="o", markersize=4)
    unit(curve)
    plain(
        curve,
        x="prediction before Platt scaling",
        y="prediction after",
        title="Platt scaling, full resolution",
    )
    draw(platt, whole)
    plain(platt, x="mean prediction", y="share of even digits", title="balanced classes, Platt scaling")
    draw(urc, table[(table.set == FIELD) & (table["size"] == SHOWN)])
    plain(urc, x="mean prediction", title=f"field of {SHOWN} pixels, {percent(BASE_RATE)} even: URC")
    handles, labels = platt.get_legend_handles_labels()
    legend_below(figure, handles, labels)
    return {"platt": figure}


def draw(ax: Axes, part: pd.DataFrame) -> None:
    """Mean prediction and share by decile, with the range of 95 % of the draws."""
    unit(ax)
    for stage, looks in LOOKS.items():
        bins = part[part.stage == stage].groupby("bin")
        mean, share = bins.predicted.mean(), bins.share.mean()
        low, high = bins.share.quantile(0.025), bins.share.quantile(0.975)
        ax.vlines(mean, low, high, color=looks["color"], linewidth=1.2)
        ax.plot(mean, share, label=stage, markersize=4, linewidth=1.2, **looks)


def unit(ax: Axes) -> None:
    """The unit square with its diagonal."""
    ax.plot([0, 1], [0, 1], color=COLOURS["muted"], linewidth=0.8, linestyle=":")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def calibrations(table: pd.DataFrame) -> pd.DataFrame:
    """The calibration part per set, size and draw, a column per stage."""
    return table.pivot_table(
        index=["set", "size", "replica"], columns="stage", values="calibration", sort=False
    )[[BEFORE, AFTER]]


def summary(table: pd.DataFrame) -> str:
    """The calibration part before and after, and what it says of the paper's claim."""
    parts = calibrations(table)
    lines = []
    for (name, size), part in parts.groupby(["set", "size"], sort=False):
        step = "URC" if name == FIELD else "Platt scaling"
        theirs = f"{published.PLATT[0]:.3f} → {published.PLATT[1]:.3f}" if name == ALL else "–"
        lines.append(
            [
                f"{name}, {size} pixels",
                step,
                theirs,
                *(mean_error(part[s], digits=4) for s in (BEFORE, AFTER)),
            ]
        )
    found = images.digits()
    right = [float(((found.full > 0.5) == found.truth)[found.truth == k].mean()) for k in (1, 0)]
    told = (
        "Calibration part of the Brier score by deciles, mean ± standard error over "
        f"{table.replica.nunique()} draws. With about 890 images of each class, ten bins of a perfectly "
        "calibrated classifier would show about .0005 by chance; on the half, about .001."
    )
    header = ["images", "step", "paper", "before", "after"]
    return "\n\n".join([told, markdown(header, lines), "**The paper's claims**", claims(judge(parts, right))])


def judge(parts: pd.DataFrame, right: Sequence[float]) -> list[Claim]:
    """The footnote, and the classifier's accuracy at full resolution."""
    old, new = published.PLATT
    found, held_out = parts.loc[ALL], parts.loc[HALF]
    evidence = (
        f"{found[BEFORE].mean():.4f} → {found[AFTER].mean():.4f}; fitted on half and judged on the other "
        f"{held_out[BEFORE].mean():.4f} → {held_out[AFTER].mean():.4f}"
    )
    beetles, butterflies = published.RECOGNISED
    return [
        Claim(
            f"Platt scaling brings the calibration part on a balanced set down to {percent1(new)}",
            bool(found[AFTER].mean() < new + 0.0005),
            evidence,
            f"{percent1(old)} → {percent1(new)}",
        ),
        Claim(
            "at full resolution the classifier recognises about 86 % and 88 % of the two classes",
            bool(max(abs(right[0] - beetles), abs(right[1] - butterflies)) < 0.02),
            f"{right[0]:.3f} and {right[1]:.3f}, made so by the strength of the regularisation",
            f"{beetles:.3f} and {butterflies:.3f}",
        ),
    ]


def percent1(share: float) -> str:
    """With a digit, where it has one."""
    return f"{100 * share:g} %"


if __name__ == "__main__":
    sys.exit(command(study, __doc__))
