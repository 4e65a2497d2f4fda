"""The paper's comparison of quantifiers: its two figures of five sizes, and both grids of its appendix.

    python experiments/quantification.py [--quick] [--out DIR] [--jobs N]

A weak classifier, trained on 2,000 rows; a lab of 2,000 other rows with the same prevalence; fields of 50 to 3,000.
Balanced training: lab 50 %, field 5 to 95 %. Balanced test: lab 5 to 95 %, field 50 %. The data are the authors',
row by row (`authors.draw`). Methods: classify and count (CC), adjusted (ACC), expectation maximisation (EM), URC with
two bins split at the median of the lab as in the paper's appendix; and fieldcal with nothing set: the share that the
field would have under label shift (``urc``), and the estimate that it shows (``estimate``), which goes only as far
towards it as a histogram without labels earns trust.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import authors
import baselines
import pandas as pd
import paper
from harness import Cell, Row, Study, command
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from quantification_data import QuantificationData
from tell import COLOURS, Claim, claims, legend_below, markdown, mean_error, percent, plain, standard_error

import fieldcal

SIZES = (50, 100, 500, 1000, 3000)
SHARES = (0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95)
REPLICAS = 30  # as in the paper
MORE = 200  # of the prevalence in the main text, for a smaller error
ROW = 0.05  # the prevalence in the paper's main text
TRAINING, TEST = "balanced training", "balanced test"
#: Where the prevalence is moved; the other side has one half.
MOVED = {TRAINING: "field", TEST: "lab"}
URC, SHARE, ESTIMATE = "URC (2 bins)", "fieldcal, under label shift", "fieldcal, estimate"
#: What the box plots show, and their colours.
METHODS = {
    "CC": COLOURS["muted"],
    "ACC": COLOURS["orange"],
    "EM": COLOURS["green"],
    URC: COLOURS["sky"],
    SHARE: COLOURS["blue"],
    ESTIMATE: COLOURS["purple"],
}
#: Ours beside the authors'.
THEIRS = {"CC": "CC", "ACC": "ACC", "EM": "EM", URC: "URC"}
ADJUSTING = ("ACC", "EM", URC)
#: Mean errors that differ by no more are alike, where the paper's word is not met.
ALIKE = 0.02
#: A method has found the prevalence if its mean error on the largest field is no more.
FOUND = 0.1
BAR = f"no figure; judged by a mean error of {FOUND} at {SIZES[-1]:,} rows"
SAME = (
    "Same as the paper's: data (the authors' generator and seeds, row by row), sizes, prevalences, 30 replicas, the "
    "first four methods. Not the same: two boxes more, fieldcal with nothing set; URC is the exact maximum of the "
    "likelihood, where the authors take 5,000 steps of Adam, which end a little inside 0 and 1; ACC is the count "
    "itself where the classifier takes both classes for positive at one rate, where the authors divide by 1e-9 and "
    "get 0 or 1; the dotted line is the share of whole rows in the field (2 of 50 where 5 % are wanted)."
)
CAPTIONS = {
    "quantification_training_row": f"The paper's figure of balanced training (lab 50 %, field 5 %). {SAME}",
    "quantification_training_grid": f"The paper's appendix, balanced training with fields of 5 to 95 %. {SAME}",
    "quantification_test_row": f"The paper's figure of balanced test (lab 5 %, field 50 %). {SAME}",
    "quantification_test_grid": f"The paper's appendix, balanced test with labs of 5 to 95 %. {SAME}",
}


def study(*, quick: bool = False) -> Study:
    """Every experiment, prevalence and replica is a cell of all sizes."""
    replicas, more, shares, sizes = (
        (3, 4, (0.05, 0.5), (50, 500)) if quick else (REPLICAS, MORE, SHARES, SIZES)
    )
    cells = [
        {
            "experiment": experiment,
            "lab": share if moved == "lab" else 0.5,
            "field": share if moved == "field" else 0.5,
            "replica": replica,
        }
        for experiment, moved in MOVED.items()
        for share in shares
        for replica in range(more if share == ROW else replicas)
    ]
    settings = {"replicas": replicas, "more": more, "shares": shares, "sizes": sizes}
    run = partial(run_cell, sizes=sizes)
    figures_of = partial(figures, replicas=replicas)
    tell = partial(summary, replicas=replicas)
    return Study(
        "quantification", "Quantification", settings, cells, run, figures_of, tell, captions=CAPTIONS
    )


def run_cell(cell: Cell, *, sizes: Sequence[int]) -> list[Row]:
    """A classifier and a field per size, all methods. The replica is the seed."""
    rows = []
    for size in sizes:
        data = authors.draw(lab=cell["lab"], field=cell["field"], size=size, seed=cell["replica"])
        known = {"size": size, "truth": float(data.prevalence[0, 1]), "told_apart": told_apart(data)}
        rows += [known | {"method": method, "estimate": found} for method, found in estimates(data).items()]
    return rows


def told_apart(data: QuantificationData) -> bool:
    """Whether the two classes of the lab are taken for positive at different rates: else ACC cannot adjust."""
    positive = data.proba_lab.argmax(axis=1)
    return bool(abs(positive[data.y_lab == 1].mean() - positive[data.y_lab == 0].mean()) > 1e-12)


def estimates(data: QuantificationData) -> dict[str, float]:
    """The prevalence of the field by every method."""
    (proba,) = data.proba_fields
    known: dict[str, Any] = {"lab": data.proba_lab, "y": data.y_lab}
    two_bins, defaults = urc(data, paper.learn(2), **paper.ESTIMATE), urc(data, {})
    return {
        "CC": float(baselines.classify_and_count(proba)[1]),
        "ACC": float(baselines.adjusted_count(proba, **known)[1]),
        "EM": float(baselines.em(proba, **known)[1]),
        URC: float(two_bins.urc[0, 1]),
        SHARE: float(defaults.urc[0, 1]),
        ESTIMATE: float(defaults.estimate[0, 1]),
    }


def urc(data: QuantificationData, learning: dict[str, Any], **options: Any) -> fieldcal.Prevalence:
    """Learn, count, estimate."""
    lab = fieldcal.learn(data.proba_lab[:, 1], data.y_lab, **learning)
    return fieldcal.estimate(lab, fieldcal.count(lab, data.proba_fields[0][:, 1]), **options)


def figures(table: pd.DataFrame, *, replicas: int) -> dict[str, Figure]:
    """For both experiments: the row of the main text, and the grid of the appendix."""
    made = {}
    for experiment, moved in MOVED.items():
        part = table[(table.experiment == experiment) & (table.replica < replicas)]
        made[f"quantification_{experiment.split()[1]}_row"] = grid(part[part[moved] == ROW], moved)
        made[f"quantification_{experiment.split()[1]}_grid"] = grid(part, moved)
    return made


def grid(table: pd.DataFrame, moved: str) -> Figure:
    """Panels of box plots: sizes across, prevalences down."""
    shares, sizes = sorted(table[moved].unique()), sorted(table["size"].unique())
    highest = table.estimate.max()
    figure = Figure(
        figsize=(max(7.0, 1.2 + 1.6 * len(sizes)), 0.9 + 1.75 * len(shares)), layout="constrained"
    )
    axes = figure.subplots(len(shares), len(sizes), sharex=True, sharey=True, squeeze=False)
    for (i, share), (j, size) in product(enumerate(shares), enumerate(sizes)):
        part = table[(table[moved] == share) & (table["size"] == size)]
        boxes(axes[i, j], part)
        axes[i, j].set_ylim(-0.03 * highest, 1.03 * highest)
        title = f"field of {size:,} rows" if i == 0 else ""
        plain(axes[i, j], title=title, y="" if j else f"estimate, {moved} {percent(share)}")
    handles = [Patch(facecolor=colour, edgecolor=COLOURS["ink"]) for colour in METHODS.values()]
    dots = Line2D([], [], color=COLOURS["ink"], linestyle=":", linewidth=1.5)
    legend_below(figure, [*handles, dots], [*METHODS, "true prevalence"])
    return figure


def boxes(ax: Axes, part: pd.DataFrame) -> None:
    """One box per method over the replicas, and the truth."""
    ax.axhline(part.truth.mean(), color=COLOURS["ink"], linestyle=":", linewidth=1.5, zorder=3)
    drawn = ax.boxplot(
        [part.estimate[part.method == method] for method in METHODS],
        widths=0.65,
        patch_artist=True,
        medianprops={"color": COLOURS["ink"]},
        flierprops={"marker": ".", "markersize": 3},
    )
    for box, colour in zip(drawn["boxes"], METHODS.values(), strict=True):
        box.set_facecolor(colour)
    ax.set_xticks([])


def summary(table: pd.DataFrame, *, replicas: int) -> str:
    """Errors and boxes beside the authors', and what they say of the paper's claims."""
    table = with_error(table)
    theirs = with_error(authors.estimates().merge(truths(table), on=["experiment", "lab", "field", "size"]))
    theirs = theirs[theirs.replica < replicas]
    same = table[table.replica < replicas]
    parts = [
        "Mean absolute error of the estimated prevalence; ± is a standard error over replicas. *Authors' code*: their "
        f"commit f607f40 on seeds 0 to {replicas - 1}. *Here*: the same data sets, and more of them.",
    ]
    for experiment, moved in MOVED.items():
        mine, his = (found[found.experiment == experiment] for found in (same, theirs))
        more = table[(table.experiment == experiment) & (table[moved] == ROW)]
        title = experiment.capitalize()
        parts += [
            f"**{title}, {moved} {percent(ROW)}: error**",
            errors(mine[mine[moved] == ROW], his[his[moved] == ROW], more),
            f"**{title}, {moved} {percent(ROW)}: median (quartiles) of the estimates**",
            medians(mine[mine[moved] == ROW], his[his[moved] == ROW], experiment),
            f"**{title}, every prevalence of the {moved}: error over all sizes**",
            by_share(mine, his, moved),
            f"**{title}, every prevalence of the {moved}: median of the estimates, paper's figure / here**",
            grid_medians(mine, experiment, moved),
            apart(mine, his, experiment, moved),
        ]
    return "\n\n".join([*parts, "**The paper's claims**", claims(judge(same))])


def with_error(table: pd.DataFrame) -> pd.DataFrame:
    """With the distance from the true share."""
    return table.assign(error=(table.estimate - table.truth).abs())


def truths(table: pd.DataFrame) -> pd.DataFrame:
    """The share in the fields, which is that of whole rows: 2 of 50 where 5 % are wanted."""
    keys = ["experiment", "lab", "field", "size"]
    return table.groupby(keys, as_index=False).truth.first()


def errors(mine: pd.DataFrame, theirs: pd.DataFrame, more: pd.DataFrame) -> str:
    """MAE by method: authors' code, here, here with more replicas; and by size."""
    sizes = sorted(mine["size"].unique())
    lines = []
    for method in METHODS:
        own = mine[mine.method == method]
        by_size = own.groupby("size").error.mean()
        lines.append(
            [
                method,
                mean_error(per_replica(theirs[theirs.method == THEIRS[method]])) if method in THEIRS else "–",
                mean_error(per_replica(own)),
                mean_error(per_replica(more[more.method == method])),
                *(f"{by_size[size]:.3f}" for size in sizes),
            ]
        )
    counts = (f"here, {mine.replica.nunique()} replicas", f"here, {more.replica.nunique()} replicas")
    header = ["method", "authors' code", *counts, *(f"{size:,} rows" for size in sizes)]
    return markdown(header, lines)


def per_replica(part: pd.DataFrame) -> pd.Series:
    """The mean error of every replica: replicas are independent, fields of one share a seed."""
    return part.groupby("replica").error.mean()


def quartiles(part: pd.DataFrame) -> pd.DataFrame:
    """By size."""
    found = part.groupby("size").estimate.quantile([0.25, 0.5, 0.75]).unstack()
    return found.set_axis(["q1", "median", "q3"], axis=1)


def medians(mine: pd.DataFrame, theirs: pd.DataFrame, experiment: str) -> str:
    """Boxes by method and size: read off the paper's figure, from the authors' code, and here."""
    read = authors.boxes()
    read = read[(read.experiment == experiment) & (read.share == ROW)]
    sizes = sorted(mine["size"].unique())
    lines = []
    for method in METHODS:
        sources = {f"{method}, here": quartiles(mine[mine.method == method])}
        if method in THEIRS:
            figure = read[read.method == THEIRS[method]].set_index("size")
            code = quartiles(theirs[theirs.method == THEIRS[method]])
            sources = {f"{method}, paper's figure": figure, f"{method}, authors' code": code} | sources
        for name, found in sources.items():
            boxes = (found.loc[size] for size in sizes)
            lines.append([name, *(f"{b['median']:.2f} ({b.q1:.2f}–{b.q3:.2f})" for b in boxes)])
    return markdown(["", *(f"{size:,} rows" for size in sizes)], lines)


def by_share(mine: pd.DataFrame, theirs: pd.DataFrame, moved: str) -> str:
    """MAE by method and prevalence, the authors' code / here."""
    shares = sorted(mine[moved].unique())
    ours = mine.groupby(["method", moved]).error.mean()
    code = theirs.groupby(["method", moved]).error.mean()
    lines = []
    for method in METHODS:
        own = mine[mine.method == method]
        cells, total = [f"{ours[method, share]:.3f}" for share in shares], mean_error(per_replica(own))
        if method in THEIRS:
            his = theirs[theirs.method == THEIRS[method]]
            cells = [
                f"{code[THEIRS[method], share]:.3f} / {cell}"
                for share, cell in zip(shares, cells, strict=True)
            ]
            total = f"{mean_error(per_replica(his))} / {total}"
        lines.append([method, total, *cells])
    return markdown(["authors' code / here", "all", *map(percent, shares)], lines)


def grid_medians(mine: pd.DataFrame, experiment: str, moved: str) -> str:
    """Medians of the appendix's boxes, read off the paper's figure, beside ours."""
    read = authors.boxes()
    read = read[read.experiment == experiment].set_index(["method", "share", "size"])["median"]
    ours = mine.groupby(["method", moved, "size"]).estimate.median()
    shares, sizes = sorted(mine[moved].unique()), sorted(mine["size"].unique())
    lines = [
        [
            f"{method}, {percent(share)}",
            *(f"{read[THEIRS[method], share, size]:.2f} / {ours[method, share, size]:.2f}" for size in sizes),
        ]
        for method, share in product(THEIRS, shares)
    ]
    return markdown(["", *(f"{size:,} rows" for size in sizes)], lines)


def apart(mine: pd.DataFrame, theirs: pd.DataFrame, experiment: str, moved: str) -> str:
    """How far estimates are from those of the authors' code on the same data, and boxes from the paper's figure."""
    keys = [moved, "size"]
    read = authors.boxes().query("experiment == @experiment").rename(columns={"share": moved})
    lines = []
    for method, name in THEIRS.items():
        own, his = mine[mine.method == method], theirs[theirs.method == name]
        both = own.merge(his, on=[*keys, "replica"])
        distance = (both.estimate_x - both.estimate_y).abs()
        boxes = own.groupby(keys).estimate.quantile([0.25, 0.5, 0.75]).unstack()
        figure = read[read.method == name].set_index(keys)[["q1", "median", "q3"]].loc[boxes.index]
        off = pd.Series(abs(boxes.to_numpy() - figure.to_numpy()).ravel())
        close = f"{(distance <= 0.001).sum():,} of {len(distance):,}"
        lines.append(
            [
                method,
                close,
                f"{distance.mean():.4f}",
                f"{distance.max():.3f}",
                f"{off.median():.4f}",
                f"{off.max():.3f}",
            ]
        )
    code, drawn = "authors' code, same replica", "figure's quartiles"
    header = [
        "distance from",
        f"{code}: within .001",
        "mean",
        "largest",
        f"{drawn}: median",
        "largest",
    ]
    return f"{markdown(header, lines)}\n\n{untold(mine, theirs, [*keys, 'replica'])}"


def untold(mine: pd.DataFrame, theirs: pd.DataFrame, keys: Sequence[str]) -> str:
    """Where ACC has nothing to adjust with, and what it says then."""
    both = mine[mine.method == "ACC"].merge(theirs[theirs.method == "ACC"], on=list(keys))
    differs, alike = (both.estimate_x - both.estimate_y).abs() > 0.001, ~both.told_apart
    among, others = (differs & alike).sum(), (differs & ~alike).sum()
    return (
        f"In {alike.sum()} of {len(both):,} data sets the classifier takes both classes of the lab for positive at one "
        "rate (mostly never, or always): ACC is the count itself here, and 0 or 1 in the authors' code, whose "
        f"denominator is then 1e-9. ACC differs in {among} of these data sets, and in {others} of the others."
    )


def judge(table: pd.DataFrame) -> list[Claim]:
    """The paper's statements, each with its figures."""
    training, test = (table[table.experiment == experiment] for experiment in MOVED)
    row_training, row_test = training[training.field == ROW], test[test.lab == ROW]
    first, second = f"balanced training, field {percent(ROW)}", f"balanced test, lab {percent(ROW)}"
    return [
        alike(row_training, f"{first}: no significant difference between ACC, EM and URC"),
        alike(training, "balanced training, all prevalences: ACC, EM and URC perform similarly"),
        misses(row_training, ["CC"], f"{first}: CC does not recover it"),
        improves(training, "balanced training: ACC, EM and URC improve with the size of the field"),
        finds(row_test, f"{second}: EM and URC converge to the true prevalence"),
        misses(row_test, ["CC", "ACC"], f"{second}: CC and ACC do not recover it reliably"),
        *(
            alternative(part, method, where)
            for method in (URC, SHARE, ESTIMATE)
            for part, where in ((row_training, first), (row_test, second))
        ),
    ]


def alike(part: pd.DataFrame, text: str) -> Claim:
    """No two of the three differ by more than two standard errors; or else by no more than `ALIKE`."""
    error = {method: per_replica(part[part.method == method]) for method in ADJUSTING}
    differences = {pair: error[pair[0]] - error[pair[1]] for pair in combinations(ADJUSTING, 2)}
    same = all(abs(found.mean()) <= 2 * standard_error(found) for found in differences.values())
    figures = [f"{method} {mean_error(found)}" for method, found in error.items()]
    figures += [f"{a} − {b} {mean_error(found, sign=True)}" for (a, b), found in differences.items()]
    mean = pd.Series({method: found.mean() for method, found in error.items()})
    weaker = (f"errors differ by at most {ALIKE}", bool(mean.max() - mean.min() <= ALIKE))
    paper_says = "no figure; judged by two standard errors of each difference"
    return Claim(text, same, "; ".join(figures), paper_says, weaker)


def largest(part: pd.DataFrame, methods: Sequence[str]) -> pd.Series:
    """The mean error of methods on the largest field."""
    found = part[part["size"] == part["size"].max()]
    return found.groupby("method").error.mean().loc[list(methods)]


def misses(part: pd.DataFrame, methods: Sequence[str], text: str) -> Claim:
    """Even on the largest field the error stays above `FOUND`."""
    error = largest(part, methods)
    return Claim(text, bool((error > FOUND).all()), on_largest(part, error), BAR)


def finds(part: pd.DataFrame, text: str) -> Claim:
    """The error falls with size, to at most `FOUND` on the largest field."""
    methods = ["EM", URC]
    error = largest(part, methods)
    by_size = part[part.method.isin(methods)].groupby(["method", "size"]).error.mean().unstack()
    falls = (by_size.iloc[:, -1] < by_size.iloc[:, 0]).all()
    return Claim(text, bool(falls and (error <= FOUND).all()), on_largest(part, error), BAR)


def on_largest(part: pd.DataFrame, error: pd.Series) -> str:
    """The figures of `misses` and `finds`."""
    figures = ", ".join(f"{method} {value:.3f}" for method, value in error.items())
    return f"error at {part['size'].max():,} rows: {figures}"


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
    return Claim(
        f"{where}: {method} is a plausible alternative to EM",
        bool(worse.mean() <= 2 * standard_error(worse)),
        f"error − EM's: {mean_error(worse, sign=True)}",
        "no figure; judged by two standard errors" if method == URC else "not in the paper; judged likewise",
    )


if __name__ == "__main__":
    sys.exit(command(study, __doc__))
