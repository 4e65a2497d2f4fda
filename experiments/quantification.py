"""The paper's comparison of quantifiers: its two figures of five sizes, and both grids of its appendix.

    python experiments/quantification.py [--quick] [--out DIR] [--jobs N]

A weak classifier, trained on 2,000 rows; a lab of 2,000 other rows with the same prevalence; fields of 50 to 3,000.
Balanced training: lab 50 %, field 5 to 95 %. Balanced test: lab 5 to 95 %, field 50 %. Methods: classify and count
(CC), adjusted (ACC), expectation maximisation (EM), URC with two bins split at the median of the lab as in the paper's
appendix, and fieldcal as it comes: its estimate of the prevalence (``urc``), and ``value``, the mean of the
predictions once they are recalibrated, which is the same unless fieldcal found a reason not to trust the estimate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import paper
from harness import Cell, Row, Study, command
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from tell import COLOURS, Claim, claims, legend_below, markdown, mean_error, percent, plain, standard_error

import fieldcal
from fieldcal.core import baselines
from fieldcal.datasets import QuantificationData, quantification

SIZES = (50, 100, 500, 1000, 3000)
SHARES = (0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95)
REPLICAS = 30
ROW = 0.05  # the prevalence in the paper's main text
SPAN = "5 to 95 %"
TRAINING, TEST = "balanced training", "balanced test"
#: Where the prevalence is moved; the other side has one half.
MOVED = {TRAINING: "field", TEST: "lab"}
#: What the box plots show, and their colours. "fieldcal (value)" is in the table only.
SHOWN = {
    "CC": COLOURS["muted"],
    "ACC": COLOURS["orange"],
    "EM": COLOURS["green"],
    "URC (2 bins)": COLOURS["sky"],
    "fieldcal": COLOURS["blue"],
}
METHODS = (*SHOWN, "fieldcal (value)")
ADJUSTING = ("ACC", "EM", "URC (2 bins)")
#: Mean errors that differ by no more are alike.
ALIKE = 0.02
#: A method has found the prevalence if its mean error on the largest field is no more.
FOUND = 0.1


def study(*, quick: bool = False) -> Study:
    """Every experiment, prevalence and replica is a cell; one classifier serves all sizes of it."""
    replicas, shares, sizes = (3, (0.05, 0.5), (50, 500)) if quick else (REPLICAS, SHARES, SIZES)
    mixes = [(TRAINING, 0.5, share) for share in shares] + [(TEST, share, 0.5) for share in shares]
    cells = [
        {"experiment": experiment, "lab": lab, "field": field, "replica": replica}
        for experiment, lab, field in mixes
        for replica in range(replicas)
    ]
    settings = {"replicas": replicas, "shares": shares, "sizes": sizes}
    run = partial(run_cell, sizes=sizes)
    return Study("quantification", "Quantification", settings, cells, run, figures, summary)


def run_cell(cell: Cell, *, sizes: Sequence[int]) -> list[Row]:
    """One classifier, all field sizes, all methods. The replica is the seed."""
    lab, field = cell["lab"], cell["field"]
    data = quantification(
        p_lab=(1 - lab, lab), p_fields=((1 - field, field),), sizes=sizes, random_state=cell["replica"]
    )
    truths = data.prevalence[:, 1].tolist()
    return [
        {"size": size, "truth": truth, "method": method, "estimate": estimate}
        for method, found in estimates(data).items()
        for size, truth, estimate in zip(sizes, truths, found, strict=True)
    ]


def estimates(data: QuantificationData) -> dict[str, list[float]]:
    """The prevalence of every field by every method."""
    known: dict[str, Any] = {"lab": data.proba_lab, "y": data.y_lab}
    two_bins, defaults = urc(data, paper.learn(2), **paper.ESTIMATE), urc(data, {})
    return {
        "CC": [float(baselines.classify_and_count(field)[1]) for field in data.proba_fields],
        "ACC": [float(baselines.adjusted_count(field, **known)[1]) for field in data.proba_fields],
        "EM": [float(baselines.em(field, **known)[1]) for field in data.proba_fields],
        "URC (2 bins)": [float(prev.urc[0, 1]) for prev in two_bins],
        "fieldcal": [float(prev.urc[0, 1]) for prev in defaults],
        "fieldcal (value)": [float(prev.estimate[0, 1]) for prev in defaults],
    }


def urc(data: QuantificationData, learning: dict[str, Any], **options: Any) -> list[fieldcal.Prevalence]:
    """Learn once, then count and estimate every field."""
    lab = fieldcal.learn(data.proba_lab[:, 1], data.y_lab, **learning)
    fields = [fieldcal.count(lab, field[:, 1]) for field in data.proba_fields]
    return [fieldcal.estimate(lab, field, **options) for field in fields]


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """For both experiments: the row of the main text, and the grid of the appendix."""
    made = {}
    for experiment, moved in MOVED.items():
        part = table[table.experiment == experiment]
        made[f"quantification_{experiment.split()[1]}_row"] = grid(part[part[moved] == ROW], moved)
        made[f"quantification_{experiment.split()[1]}_grid"] = grid(part, moved)
    return made


def grid(table: pd.DataFrame, moved: str) -> Figure:
    """Panels of box plots: sizes across, prevalences down."""
    shares, sizes = sorted(table[moved].unique()), sorted(table["size"].unique())
    figure = Figure(
        figsize=(max(7.0, 1.2 + 1.6 * len(sizes)), 0.9 + 1.75 * len(shares)), layout="constrained"
    )
    axes = figure.subplots(len(shares), len(sizes), sharex=True, sharey=True, squeeze=False)
    for (i, share), (j, size) in product(enumerate(shares), enumerate(sizes)):
        part = table[(table[moved] == share) & (table["size"] == size)]
        boxes(axes[i, j], part)
        title = f"field of {size:,} rows" if i == 0 else ""
        plain(axes[i, j], title=title, y="" if j else f"estimate, {moved} {percent(share)}")
    handles = [Patch(facecolor=colour, edgecolor=COLOURS["ink"]) for colour in SHOWN.values()]
    dots = Line2D([], [], color=COLOURS["ink"], linestyle=":", linewidth=1.5)
    legend_below(figure, [*handles, dots], [*SHOWN, "true prevalence"])
    return figure


def boxes(ax: Axes, part: pd.DataFrame) -> None:
    """One box per method over the replicas, and the truth."""
    ax.axhline(part.truth.mean(), color=COLOURS["ink"], linestyle=":", linewidth=1.5, zorder=3)
    drawn = ax.boxplot(
        [part.estimate[part.method == method] for method in SHOWN],
        widths=0.65,
        patch_artist=True,
        medianprops={"color": COLOURS["ink"]},
        flierprops={"marker": ".", "markersize": 3},
    )
    for box, colour in zip(drawn["boxes"], SHOWN.values(), strict=True):
        box.set_facecolor(colour)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xticks([])


def summary(table: pd.DataFrame) -> str:
    """Errors per experiment, method and size, and what they say of the paper's claims."""
    table = table.assign(error=(table.estimate - table.truth).abs())
    parts = [
        f"{table.replica.nunique()} replicas. Mean absolute error of the estimated prevalence; ± is a standard "
        "error over replicas. *fieldcal* is `estimate(lab, field).urc` with nothing set, *fieldcal (value)* its "
        "`.estimate`.",
    ]
    for experiment, moved in MOVED.items():
        part = table[table.experiment == experiment]
        parts += [f"**{experiment.capitalize()}, {moved} {percent(ROW)}**", errors(part[part[moved] == ROW])]
        parts += [f"**{experiment.capitalize()}, {moved} {SPAN}**", errors(part)]
    return "\n\n".join([*parts, "**The paper's claims**", claims(judge(table))])


def errors(part: pd.DataFrame) -> str:
    """MAE by method, over all sizes and for each."""
    sizes = sorted(part["size"].unique())
    lines = []
    for method in METHODS:
        mine = part[part.method == method]
        by_size = mine.groupby("size").error.mean()
        lines.append([method, mean_error(per_replica(mine)), *(f"{by_size[size]:.3f}" for size in sizes)])
    return markdown(["method", "MAE ± se", *(f"{size:,} rows" for size in sizes)], lines)


def per_replica(part: pd.DataFrame) -> pd.Series:
    """The mean error of every replica: replicas are independent, fields of one are not."""
    return part.groupby("replica").error.mean()


def judge(table: pd.DataFrame) -> list[Claim]:
    """The paper's statements, each with its figures."""
    training, test = (table[table.experiment == experiment] for experiment in MOVED)
    row_training, row_test = training[training.field == ROW], test[test.lab == ROW]
    return [
        alike(row_training, f"balanced training, field {percent(ROW)}: ACC, EM and URC perform alike"),
        alike(training, "balanced training, all prevalences: ACC, EM and URC perform alike"),
        misses(row_training, ["CC"], f"balanced training, field {percent(ROW)}: CC does not recover it"),
        improves(training, "balanced training: ACC, EM and URC improve with the size of the field"),
        finds(row_test, f"balanced test, lab {percent(ROW)}: EM and URC converge to the true prevalence"),
        misses(
            row_test,
            ["CC", "ACC"],
            f"balanced test, lab {percent(ROW)}: CC and ACC do not recover it reliably",
        ),
        alternative(row_training, "URC (2 bins)", f"balanced training, field {percent(ROW)}"),
        alternative(row_test, "URC (2 bins)", f"balanced test, lab {percent(ROW)}"),
        alternative(row_training, "fieldcal", f"balanced training, field {percent(ROW)}"),
        alternative(row_test, "fieldcal", f"balanced test, lab {percent(ROW)}"),
    ]


def alike(part: pd.DataFrame, text: str) -> Claim:
    """No two of the three differ by more than `ALIKE` in their error."""
    mean = part[part.method.isin(ADJUSTING)].groupby("method").error.mean()
    evidence = ", ".join(f"{method} {mean[method]:.3f}" for method in ADJUSTING)
    return Claim(text, bool(mean.max() - mean.min() <= ALIKE), evidence)


def largest(part: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Bias and error of methods on the largest field."""
    found = part[(part["size"] == part["size"].max()) & part.method.isin(methods)]
    grouped = found.assign(bias=found.estimate - found.truth).groupby("method")
    return grouped[["bias", "error"]].mean().loc[list(methods)]


def misses(part: pd.DataFrame, methods: Sequence[str], text: str) -> Claim:
    """Even on the largest field the error stays above `FOUND`."""
    error = largest(part, methods).error
    return Claim(text, bool((error > FOUND).all()), on_largest(part, error))


def finds(part: pd.DataFrame, text: str) -> Claim:
    """The error falls with size, to at most `FOUND` on the largest field."""
    methods = ["EM", "URC (2 bins)"]
    error = largest(part, methods).error
    return Claim(text, bool((error <= FOUND).all()), on_largest(part, error))


def on_largest(part: pd.DataFrame, error: pd.Series) -> str:
    """The figures of `misses` and `finds`."""
    figures = ", ".join(f"{method} {value:.3f}" for method, value in error.items())
    return f"error at {part['size'].max():,} rows: {figures}; the line is drawn at {FOUND}"


def improves(part: pd.DataFrame, text: str) -> Claim:
    """Each of the three has a smaller error on the largest field than on the smallest."""
    error = part.groupby(["method", "size"]).error.mean().unstack().loc[list(ADJUSTING)]
    first, last = error.iloc[:, 0], error.iloc[:, -1]
    evidence = ", ".join(f"{method} {first[method]:.3f} → {last[method]:.3f}" for method in ADJUSTING)
    return Claim(text, bool((last < first).all()), evidence)


def alternative(part: pd.DataFrame, method: str, where: str) -> Claim:
    """Not worse than EM by more than two standard errors of the difference."""
    mine, em = (per_replica(part[part.method == name]) for name in (method, "EM"))
    worse = mine - em
    text = f"{where}: {method} is a plausible alternative to EM (no worse by two standard errors)"
    return Claim(
        text, bool(worse.mean() <= 2 * standard_error(worse)), f"error − EM's: {mean_error(worse, sign=True)}"
    )


if __name__ == "__main__":
    sys.exit(command(study, __doc__))
