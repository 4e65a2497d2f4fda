"""The plots. Each function draws the table of the function of `fieldcal.plots.tables` with the same name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.objects import Lab, Prevalence, show
from fieldcal.objects.verdict import WORDS
from fieldcal.plots import style, tables
from fieldcal.plots.style import ABOVE, BAND, ESTIMATE, FONT, GRID, INK, MEAN_PREDICTION, MUTED, SHAPES
from fieldcal.plots.style import floats as _floats
from fieldcal.plots.tables import Table
from fieldcal.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from numpy.typing import ArrayLike


__all__ = [
    "bins",
    "changes",
    "coverage",
    "curve",
    "distribution",
    "explanations",
    "forest",
    "pit",
    "reliability",
    "reliability_of",
    "response",
    "trust",
]


_ANNOTATED = 120  # most cells with numbers in them
_RASTER = 300  # most cells drawn as vectors
_NARROW = 18  # letters of a name beside a plot
_IN_LABEL = 22  # letters of a name in a long label below one
_MARKERS = "osD^vPX*"
#: Style and name of each series of a reliability curve.
SERIES: dict[str, tuple[str, str]] = {
    "lab": ("truth", "lab"),
    "before": ("mean_prediction", "raw predictions"),
    "after": ("estimate", "recalibrated"),
}


def _table(given: Any, column: str, make: Callable[..., Table], *more: Any, **options: Any) -> Table:
    """The argument itself if it is a table with this column, else the table made from it."""
    return given if isinstance(given, dict) and column in given else make(given, *more, **options)


def trust(lab: Lab | Table, *, used: float | None = None, ax: Axes | None = None) -> Axes:
    """Change of log loss by trust, from cross-validation over the lab's groups.

    The line is the change of log loss at each trust (negative is an improvement) with one standard error. The filled
    point is the trust with the largest reliable gain.

    Parameters
    ----------
    lab : Lab
        Learnt with ``groups=…``.
    used : float, optional
        The applied trust, marked if it differs.
    ax : Axes, optional
        By default those of a new figure.

    Parameters
    ----------
    lab : Lab
        Learnt with ``groups=…``.
    used : float, optional
        The trust that was applied, marked if it is another.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift(n_lab=4000, n_groups=12)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    >>> plots.trust(lab, ax=Figure().subplots()).get_ylabel()
    'change of log loss (below 0 is better)'
    """
    table = _table(lab, "chosen", tables.trust, used=used)
    ax = style.axes(ax, "trust", table)
    x, change, se = (_floats(table[name]) for name in ("trust", "change", "se"))
    style.plain(
        ax,
        x="trust (0 leaves predictions alone, 1 is the full correction)",
        y="change of log loss (below 0 is better)",
    )
    band = ax.fill_between(x, change - se, change + se, color=BAND, linewidth=0)
    ax.axhline(0.0, color=MUTED, linewidth=0.8)
    (line,) = ax.plot(x, change, color=ESTIMATE, linewidth=1.8)
    handles, words = [line, band], [f"rehearsal, {table['groups']:,} groups of the lab", "± 1 standard error"]
    chosen, used = table["chosen"], table["used"]
    handles += ax.plot(chosen, np.interp(chosen, x, change), linestyle="none", **SHAPES["estimate"])
    words.append(f"chosen: {chosen:.2f}")
    if used is not None and abs(used - chosen) > 1e-9:
        looks: dict[str, Any] = {"marker": "s", "markersize": 7, "markerfacecolor": "none", "color": INK}
        handles += ax.plot(used, np.interp(used, x, change), linestyle="none", **looks)
        words.append(f"used: {used:.2f}")
    style.legend(ax, handles, words, ncols=2, **ABOVE)
    return ax


def explanations(prev: Prevalence | Table, *, ax: Axes | None = None) -> Axes:
    """Probability of each hypothesis about the field, before and after its labels.

    Label shift: only the class shares changed. Unchanged: the class probabilities given a prediction are those of the
    lab. Other: neither.

    Parameters
    ----------
    prev : Prevalence
        Of a field with labels.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data, lab, *_ = fieldcal.datasets.example()
    >>> y = [label if i < 200 else None for i, label in enumerate(data.y_field)]
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=y))
    >>> plots.explanations(prev, ax=Figure().subplots()).get_xlabel()
    'probability'
    >>> plots.tables.explanations(prev)["names"]
    ['label shift', 'unchanged', 'other']
    """
    table = _table(prev, "meanings", tables.explanations)
    ax = style.axes(ax, "explanations", table)
    style.plain(ax, x="probability", grid="x")
    y = np.arange(len(table["names"]), dtype=np.float64)
    before, after = _floats(table["before"]), _floats(table["after"])
    looks: dict[str, Any] = {"facecolor": "none", "edgecolor": MUTED, "linewidth": 1.4}
    old = ax.barh(y - 0.02, before, 0.2, **looks)
    new = ax.barh(y + 0.24, after, 0.26, color=ESTIMATE)
    for at, name, meaning in zip(y.tolist(), table["names"], table["meanings"], strict=True):
        style.write(ax, 0.0, at - 0.19, f"{name}: {meaning}", va="bottom", color=INK)
    for at, size, color in (
        *((at - 0.02, size, MUTED) for at, size in enumerate(before)),
        *((at + 0.24, size, INK) for at, size in enumerate(after)),
    ):
        style.write(ax, size + 0.012, at, f"{size:.2f}", va="center", color=color)
    words = ["before labels", f"after {show.amount(table['rows'])} labelled rows"]
    style.legend(ax, [old, new], words, ncols=2, **ABOVE)
    ax.set(xlim=(0.0, 1.08), ylim=(len(y) - 0.5, -0.55), yticks=[])
    ax.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    ax.spines["left"].set_visible(False)
    return ax


def forest(prev: Prevalence | Table, *, of: Hashable = None, limit: int = 30, ax: Axes | None = None) -> Axes:
    """Share of one class in the whole field and per group: mean prediction, and estimate with its interval.

    With more groups than lines, half of the lines show the largest groups; the others show groups that fit no mixture
    of the classes, and groups whose estimate differs most, beyond its interval, from the mean prediction. A field
    without groups has one line per class.

    Parameters
    ----------
    prev : Prevalence
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
    limit : int
        The most lines.
    ax : Axes, optional
        By default those of a new figure that is as high as the lines need.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> prev = fieldcal.datasets.example().prev
    >>> ax = plots.forest(prev, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['whole field', '1', '0']
    >>> plots.tables.forest(prev)["status"]
    ['care', 'care']
    """
    table = _table(prev, "lab_each", tables.forest, of=of, limit=limit)
    ax = style.axes(ax, "forest", table)
    table = _with_whole(table)
    style.plain(ax, x="share" if table["class"] is None else f"share of {table['class']}", grid="x")
    y = np.arange(table["shown"], dtype=np.float64)
    references = _reference_lines(table, ax, y)
    ax.hlines(y, _floats(table["mean_prediction"]), _floats(table["estimate"]), color=MUTED, linewidth=0.8)
    _intervals(table, ax, y)
    points = [
        ("mean_prediction", "mean_prediction", "as judged" if table["judged"] else "mean prediction"),
        ("estimate", "estimate", style.estimate_words(table)),
    ]
    if any(share is not None for share in table["labelled"]):
        points.append(("labelled", "truth", "labelled rows"))
    handles, words = [], []
    for column, shape, word in points:
        handles += ax.plot(_floats(table[column]), y, linestyle="none", zorder=3, **SHAPES[shape])
        words.append(word)
    style.name_ticks(ax.yaxis, y.tolist(), table["groups"])
    _frame_of_lines(table, ax)
    style.legend(ax, handles + references[0], words + references[1], ncols=2, **ABOVE)
    return ax


def _with_whole(table: Table) -> Table:
    whole = table["whole"]
    if whole is None:
        return table
    first = {"groups": "all rows" if table["judged"] else "whole field", "status": "ok", **whole}
    longer = {name: [value, *table[name]] for name, value in first.items()}
    return {**table, **longer, "shown": table["shown"] + 1, "total": table["total"] + 1}


def _reference_lines(table: Table, ax: Axes, y: Floats) -> tuple[list[Any], list[str]]:
    """Reference lines of the lab and the whole field: vertical lines, or ticks if each line has its own value."""
    if table["lab_each"] is not None:
        looks: dict[str, Any] = {"marker": "|", "markersize": 12, "markeredgewidth": 1.6, "color": INK}
        return ax.plot(_floats(table["lab_each"]), y, linestyle="none", **looks), ["lab"]
    if table["whole"] is None:
        return [], []
    handles, words = [], []
    common = table["whole"]["estimate"] if table["whole"]["n"] > 0 else None
    whole = "all rows" if table["judged"] else "whole field"
    for value, dashes, word in ((common, "--", whole), (table["lab"], ":", "lab")):
        if value is not None:
            color = ESTIMATE if word == whole else INK
            handles.append(ax.axvline(value, color=color, linestyle=dashes, linewidth=1.0, zorder=1))
            words.append(f"{word} {value:.3f}")
    return handles, words


def _frame_of_lines(table: Table, ax: Axes) -> None:
    ax.set_ylim(max(table["shown"], 1) - 0.4, -0.6)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    beside = ax.get_yaxis_transform()
    looks: dict[str, Any] = {"transform": beside, "va": "center", "fontsize": FONT - 1}
    for i, (n, status) in enumerate(zip(table["n"], table["status"], strict=True)):
        flags = (
            "" if status in WORDS else f"  {show.status(status)}"
        )  # a status that is only the verdict is not repeated
        rows = show.amount(n) if i else f"{show.amount(n)} rows"
        if table["class"] is not None or i == 0:  # without groups, all classes have the same rows
            style.write(ax, 1.02, i, rows + flags, **looks)
    hidden = table["total"] - table["shown"]
    if hidden:
        style.write(ax, 1.02, table["shown"], f"… {hidden:,} more", **looks)


def _intervals(table: Table, ax: Axes, y: Floats) -> None:
    """Interval bars. A bar that is much wider than the spread of the others is cut and ends in an arrow."""
    low, high = _view(table)
    pad = 0.03 * (high - low)
    ax.set_xlim(max(low - pad, -pad), min(high + pad, 1.0 + pad))
    if table["level"] is None:
        return
    lower, upper = _floats(table["lower"]), _floats(table["upper"])
    ax.hlines(y, np.maximum(lower, low), np.minimum(upper, high), color=ESTIMATE, linewidth=2.0)
    for cut, end, arrow in ((lower < low, low, "<"), (upper > high, high, ">")):
        ax.plot(np.full(cut.sum(), end), y[cut], linestyle="none", marker=arrow, markersize=5, color=ESTIMATE)


def _view(table: Table) -> tuple[float, float]:
    """Limits that show all points, and intervals as far as there is room."""
    columns = [table[name] for name in ("mean_prediction", "estimate", "labelled")]
    columns += [table["lab_each"] or [], [table["lab"]]]
    points = _floats([x for column in columns for x in column if x is not None])
    if not table["shown"]:
        return 0.0, 1.0
    low, high = float(points.min()), float(points.max())
    ends = [_floats(table[name]) for name in ("lower", "upper")] if table["level"] is not None else []
    if not ends:
        return low, max(high, low + 0.01)
    room = max(0.25 * (high - low), 2.0 * float(np.median(ends[1] - ends[0])), 0.01)
    return max(min(low, ends[0].min()), low - room), min(max(high, ends[1].max()), high + room)


def bins(prev: Prevalence | Table, *, group: Hashable = ..., ax: Axes | None = None) -> Axes:
    """Rows per bin, observed and expected under label shift: the fit of the field to a mixture of the lab's classes.

    Parameters
    ----------
    prev : Prevalence
    group : optional
        One group; by default the whole field.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> prev = fieldcal.datasets.example().prev
    >>> plots.bins(prev, ax=Figure().subplots()).get_xlabel()
    "bin of the prediction (misfit: Cohen's w 0.0..., p 0...)"
    """
    table = _table(prev, "expected", tables.bins, group=group)
    ax = style.axes(ax, "bins", table)
    m = len(table["labels"])
    x = np.arange(m, dtype=np.float64)
    style.plain(ax, x=f"bin of the prediction ({_misfit_words(table)})", y="share of rows", grid="y")
    lab = ax.stairs(_floats(table["lab"]), np.arange(m + 1) - 0.5, fill=True, color=GRID)
    (expected,) = ax.plot(x - 0.13, _floats(table["expected"]), linestyle="none", **SHAPES["estimate"])
    observed, noise = _floats(table["observed"]), _floats(table["noise"])
    ax.vlines(
        x + 0.13, np.maximum(observed - noise, 0.0), observed + noise, color=MEAN_PREDICTION, linewidth=1.2
    )
    (seen,) = ax.plot(x + 0.13, observed, linestyle="none", zorder=3, **SHAPES["mean_prediction"])
    where = "field" if table["group"] is None else table["group"]
    words = [f"{where}, ± 2 standard errors", "expected under label shift", "lab"]
    style.legend(ax, [seen, expected, lab], words, ncols=2, **ABOVE)
    style.name_bins(ax, table["labels"], x)
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(-0.6, m - 0.4)
    return ax


def _misfit_words(table: Table) -> str:
    if table["df"] <= 0 or table["effect"] is None or not table["n"]:
        return "misfit cannot be tested"
    p = table["p_value"]
    chance = "p < 0.001" if p is not None and p < 0.001 else f"p {p:.3f}"
    return f"misfit: Cohen's w {table['effect']:.2f}, {chance}"


def curve(prev: Prevalence | Table, *, of: Hashable = None, limit: int = 8, ax: Axes | None = None) -> Axes:
    """Recalibrated against raw predictions, per group and for the whole field.

    With more than two classes, the other classes are pooled with the proportions of the group's mean prediction.

    Parameters
    ----------
    prev : Prevalence
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
    limit : int
        The most groups: those with the lowest and the highest curves, and the largest ones.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> prev = fieldcal.datasets.example().prev
    >>> plots.curve(prev, ax=Figure().subplots()).get_xlabel()
    'raw prediction of 1'
    >>> [line["name"] for line in plots.tables.curve(prev)["curves"]]
    ['1', '0']
    """
    table = _table(prev, "curves", tables.curve, of=of, limit=limit)
    ax = style.axes(ax, "curve", table)
    style.plain(ax, x=f"raw prediction of {table['class']}", y="recalibrated prediction")
    ax.plot([0.0, 1.0], [0.0, 1.0], color=GRID, linewidth=1.2)
    old = _floats(table["old"])
    handles = ax.plot(old, _floats(table["whole"]), color=ESTIMATE, linewidth=2.6, zorder=3)
    words = ["whole field"]
    names = style.all_shortened([line["name"] for line in table["curves"]], _NARROW)
    for i, line in enumerate(table["curves"]):
        looks: dict[str, Any] = {
            "marker": _MARKERS[i % len(_MARKERS)],
            "markersize": 4.5,
            "markerfacecolor": "none",
        }
        handles += ax.plot(
            old,
            _floats(line["new"]),
            color=MUTED,
            linewidth=0.9,
            markeredgecolor=INK,
            markevery=(5 + i, 10),
            **looks,
        )
        words.append(f"{names[i]} ({show.amount(line['n'])})")
    title = f"{len(table['curves'])} of {table['total']:,} groups (rows)" if table["total"] else None
    style.legend(ax, handles, words, title=title, ncols=2, **ABOVE)
    return _unit_square(ax)


def reliability(lab: Lab | Table, *, of: Hashable = None, ax: Axes | None = None) -> Axes:
    """Calibration of the model on the lab: share of a class by mean prediction, per bin.

    Parameters
    ----------
    lab : Lab
    of : class, optional
        By default the second of two classes, or the most frequent one.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> lab = fieldcal.datasets.example().lab
    >>> plots.reliability(lab, ax=Figure().subplots()).get_xlabel()
    'mean prediction of 1'
    """
    table = _table(lab, "series", tables.reliability, of=of)
    ax = style.axes(ax, "reliability", table)
    style.plain(ax, x=f"mean prediction of {table['class']}", y=f"share of {table['class']}")
    ax.plot([0.0, 1.0], [0.0, 1.0], color=GRID, linewidth=1.2)
    handles, words = [], []
    for series in table["series"]:
        shape, word = SERIES[series["name"]]
        mean, share, se = (_floats(series[name]) for name in ("mean", "share", "se"))
        looks = SHAPES[shape]
        ax.vlines(
            mean,
            np.maximum(share - 2 * se, 0.0),
            np.minimum(share + 2 * se, 1.0),
            color=looks["color"],
            lw=1.2,
        )
        handles += ax.plot(mean, share, linestyle="none", zorder=3, **looks)
        words.append(f"{word}, ± 2 standard errors" if not handles[1:] else word)
    style.legend(ax, handles, words, ncols=2, **ABOVE)
    return _unit_square(ax)


def reliability_of(
    before: ArrayLike,
    after: ArrayLike,
    y: ArrayLike,
    *,
    classes: Sequence[Hashable],
    of: Hashable = None,
    ax: Axes | None = None,
) -> Axes:
    """Calibration before and after recalibration, on rows with known labels.

    Parameters
    ----------
    before, after : array-like (n,) or (n, K)
        Probabilities of the same rows.
    y : array-like (n,)
        Positions of the labels in ``classes``.
    classes : sequence of the K classes
    of : class, optional
        By default the second of two classes, or the one whose predictions changed most.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data, lab, _, prev = fieldcal.datasets.example()
    >>> new = fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field)
    >>> ax = Figure().subplots()
    >>> plots.reliability_of(data.proba_field, new, data.y_field, classes=lab.classes, ax=ax).get_ylabel()
    'share of 1'
    """
    return reliability(tables.reliability_of(before, after, y, classes=classes, of=of), ax=ax)


def _unit_square(ax: Axes) -> Axes:
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return ax


def response(lab: Lab | Table, *, ax: Axes | None = None) -> Axes:
    """Response matrix of the lab as a heat map: distribution of predictions within each class.

    Parameters
    ----------
    lab : Lab
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> lab = fieldcal.datasets.example().lab
    >>> plots.response(lab, ax=Figure().subplots()).get_xlabel()
    'bin of the prediction'
    """
    table = _table(lab, "M", tables.response)
    ax = style.axes(ax, "response", table)
    from matplotlib.colors import LinearSegmentedColormap

    M = np.array(table["M"])
    K, m = M.shape
    style.plain(ax, x="bin of the prediction", y="class")
    ramp = LinearSegmentedColormap.from_list("fieldcal", style.HEAT)
    mesh = ax.pcolormesh(
        np.arange(m + 1),
        np.arange(K + 1),
        M,
        cmap=ramp,
        vmin=0.0,
        vmax=max(float(M.max()), 1e-9),
        linewidth=0,
    )
    mesh.set_rasterized(M.size > _RASTER)
    if M.size <= _ANNOTATED:
        _numbers_on(M, ax)
    else:
        _scale_of(mesh, ax)
    style.name_bins(ax, table["labels"], np.arange(m, dtype=np.float64) + 0.5)
    shown = style.thinned(K, style.MOST_LABELS)
    rows = [f"{table['classes'][k]} ({show.amount(table['rows'][k])})" for k in shown]
    style.name_ticks(ax.yaxis, [k + 0.5 for k in shown], rows)
    ax.set(xlim=(0, m), ylim=(K, 0))
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    return ax


def _numbers_on(M: Floats, ax: Axes) -> None:
    for (k, j), share in np.ndenumerate(M):
        text = f"{share:.2f}".removeprefix("0")
        color = style.ON_DARK if share > 0.5 * M.max() else style.ON_LIGHT
        style.write(ax, j + 0.5, k + 0.5, text, ha="center", va="center", fontsize=FONT - 1, color=color)


def _scale_of(mesh: QuadMesh, ax: Axes) -> None:
    bar = ax.get_figure(root=True).colorbar(mesh, ax=ax, pad=0.02, fraction=0.04)  # type: ignore[union-attr]
    bar.outline.set_visible(False)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.ax.tick_params(labelsize=FONT, labelcolor=INK, color=MUTED)
    bar.set_label("share of the class", fontsize=FONT, color=INK)


def changes(prev: Prevalence | Table, *, of: Hashable = None, ax: Axes | None = None) -> Axes:
    """Histogram over groups of the difference between estimate and mean prediction.

    Parameters
    ----------
    prev : Prevalence
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> prev = fieldcal.datasets.example().prev
    >>> plots.changes(prev, ax=Figure().subplots()).get_ylabel()
    'share of rows'
    >>> plots.tables.changes(prev)["up"], plots.tables.changes(prev)["down"]
    (1, 1)
    """
    table = _table(prev, "rows_share", tables.changes, of=of)
    ax = style.axes(ax, "changes", table)
    from matplotlib.ticker import MaxNLocator

    which = style.shortened(table["class"], _IN_LABEL)
    label = f"share of {which}: estimate − mean prediction"
    style.plain(ax, x=label, y="share of rows", grid="y")
    ax.stairs(_floats(table["rows_share"]), _floats(table["edges"]), fill=True, color=ESTIMATE)
    ax.axvline(0.0, color=INK, linewidth=1.0)
    ax.xaxis.set_major_locator(MaxNLocator(7))
    ax.set_ylim(bottom=0.0)
    place: dict[str, Any] = {"transform": ax.transAxes, "va": "bottom", "color": INK}
    style.write(ax, 0.0, 1.02, f"estimate lower in {table['down']:,} of {table['groups']:,} groups", **place)
    style.write(ax, 1.0, 1.02, f"higher in {table['up']:,}", ha="right", **place)
    return ax


def distribution(prev: Prevalence | Table, *, group: Hashable = ..., ax: Axes | None = None) -> Axes:
    """Distribution over ordered classes or intervals: mean prediction, estimate, lab.

    Parameters
    ----------
    prev : Prevalence
        Of a lab with ordered classes (``ordered=True``) or with intervals of a number.
    group : optional
        One group; by default the whole field.
    ax : Axes, optional
        By default those of a new figure.

    Parameters
    ----------
    prev : Prevalence
        Of a lab whose classes have an order: from `fieldcal.learn`, or learnt with ``ordered=True``.
    group : optional
        One group; by default the whole field.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> import numpy as np
    >>> from fieldcal import plots, regression
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=4000)
    >>> predicted = regression.from_moments((y + 0.7 * rng.normal(size=4000)) / 1.49, 0.573)
    >>> lab = fieldcal.learn(predicted, y, intervals=[-1, 0, 1])
    >>> field = fieldcal.count(lab, predicted.take(y > -0.5))
    >>> prev = fieldcal.estimate(lab, field, trust=1)
    >>> ax = plots.distribution(prev, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['≤ -1', '(-1, 0]', '(0, 1]', '> 1']
    """
    table = _table(prev, "mean_prediction", tables.distribution, group=group)
    ax = style.axes(ax, "distribution", table)
    m = len(table["labels"])
    x = np.arange(m, dtype=np.float64)
    where = "whole field" if table["group"] is None else table["group"]
    style.plain(ax, x=f"{where}, {show.amount(table['n'])} rows", y="share of rows", grid="y")
    lab = ax.stairs(_floats(table["lab"]), np.arange(m + 1) - 0.5, fill=True, color=GRID)
    lower, upper = (_floats(table[name]) for name in ("lower", "upper"))
    ax.vlines(x + 0.1, lower, upper, color=ESTIMATE, linewidth=2.0)
    handles = []
    for column, shape, aside in (("mean_prediction", "mean_prediction", -0.1), ("estimate", "estimate", 0.1)):
        looks = SHAPES[shape]
        share = _floats(table[column])
        # Thin lines show the shape if there are many classes.
        ax.plot(x + aside, share, color=looks["color"], linewidth=0.8)
        handles += ax.plot(x + aside, share, linestyle="none", zorder=3, **looks)
    style.legend(
        ax, [*handles, lab], ["mean prediction", style.estimate_words(table), "lab"], ncols=2, **ABOVE
    )
    style.name_bins(ax, table["labels"], x)
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(-0.6, m - 0.4)
    return ax


def pit(before: Any, after: Any = None, y: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """Histogram of the probability integral transform of predictive distributions, before and after recalibration.

    It is flat for calibrated predictions, sloped for biased ones, and has a hump for predictions that are too wide. At
    an atom the middle of the jump counts, so a few atoms give a few high bars.

    Parameters
    ----------
    before, after : Predictions
        Predictive distributions of the same rows, see `fieldcal.regression`.
    y : array-like (n,)
        The true numbers.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import plots, regression
    >>> from matplotlib.figure import Figure
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> wide, right = (regression.from_moments(np.zeros(1000), sd) for sd in (2.0, 1.0))
    >>> plots.pit(wide, right, y, ax=Figure().subplots()).get_ylabel()
    'share of 1,000 rows'
    >>> plots.tables.pit(wide, right, y)["before"][0]
    0.007
    """
    table = _table(before, "noise", tables.pit, after, y)
    ax = style.axes(ax, "pit", table)
    edges = _floats(table["edges"])
    even, noise = 1.0 / (len(edges) - 1), table["noise"]
    style.plain(
        ax, x="predicted probability of a number up to the true one", y=f"share of {table['n']:,} rows"
    )
    band = ax.fill_between([0.0, 1.0], even - noise, even + noise, color=BAND, linewidth=0)
    middle, width = (edges[1:] + edges[:-1]) / 2.0, 0.38 * np.diff(edges)
    before = ax.bar(
        middle - 0.55 * width,
        _floats(table["before"]),
        width,
        facecolor="none",
        edgecolor=MEAN_PREDICTION,
        linewidth=1.4,
    )
    after = ax.bar(middle + 0.55 * width, _floats(table["after"]), width, color=ESTIMATE)
    ax.axhline(even, color=MUTED, linewidth=1.0)
    words = ["raw", "recalibrated", "calibrated, ± 2 standard errors"]
    style.legend(ax, [before, after, band], words, ncols=2, **ABOVE)
    ax.set_xticks(edges[::2])
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(bottom=0.0)
    return ax


def coverage(before: Any, after: Any = None, y: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """Coverage of central intervals of 50 % to 95 %, before and after recalibration.

    Parameters
    ----------
    before, after : Predictions
        Predictive distributions of the same rows, see `fieldcal.regression`.
    y : array-like (n,)
        The true numbers.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import plots, regression
    >>> from matplotlib.figure import Figure
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> narrow, right = (regression.from_moments(np.zeros(1000), sd) for sd in (0.5, 1.0))
    >>> plots.coverage(narrow, right, y, ax=Figure().subplots()).get_xlabel()
    'interval should hold'
    >>> plots.tables.coverage(narrow, right, y)["before"][4] < 0.65
    True
    """
    table = _table(before, "nominal", tables.coverage, after, y)
    ax = style.axes(ax, "coverage", table)
    from matplotlib.ticker import PercentFormatter

    nominal, se = _floats(table["nominal"]), _floats(table["se"])
    style.plain(ax, x="interval should hold", y=f"interval holds, of {table['n']:,} rows")
    band = ax.fill_between(nominal, nominal - 2 * se, nominal + 2 * se, color=BAND, linewidth=0)
    ax.plot(nominal, nominal, color=MUTED, linewidth=1.0)
    handles = []
    for column, shape in (("before", "mean_prediction"), ("after", "estimate")):
        handles += ax.plot(nominal, _floats(table[column]), linestyle="none", zorder=3, **SHAPES[shape])
    words = ["raw", "recalibrated", "calibrated, ± 2 standard errors"]
    style.legend(ax, [*handles, band], words, ncols=2, **ABOVE)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xticks(nominal)
    ax.set_ylim(top=1.02)
    return ax
