"""The plots. Each function draws the table of the function of `fieldcal.plots.tables` with the same name."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.objects import Lab, Prevalence, show
from fieldcal.plots import style, tables
from fieldcal.plots.draw_break_even import breakdown
from fieldcal.plots.draw_evaluation import coverage, pit, reliability, reliability_of
from fieldcal.plots.draw_forest import forest
from fieldcal.plots.draw_over_time import over_time
from fieldcal.plots.style import (
    ABOVE,
    BAND,
    ESTIMATE,
    FONT,
    GRID,
    INK,
    MEAN_PREDICTION,
    MUTED,
    SHAPES,
    Table,
    floats,
    table_of,
)
from fieldcal.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh


__all__ = [
    "bins",
    "breakdown",
    "changes",
    "coverage",
    "curve",
    "distribution",
    "explanations",
    "forest",
    "over_time",
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
    table = table_of(lab, "chosen", tables.trust, used=used)
    ax = style.axes(ax, "trust", table)
    x, change, se = (floats(table[name]) for name in ("trust", "change", "se"))
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
    table = table_of(prev, "meanings", tables.explanations)
    ax = style.axes(ax, "explanations", table)
    style.plain(ax, x="probability", grid="x")
    y = np.arange(len(table["names"]), dtype=np.float64)
    before, after = floats(table["before"]), floats(table["after"])
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
    table = table_of(prev, "expected", tables.bins, group=group)
    ax = style.axes(ax, "bins", table)
    m = len(table["labels"])
    x = np.arange(m, dtype=np.float64)
    style.plain(ax, x=f"bin of the prediction ({_misfit_words(table)})", y="share of rows", grid="y")
    lab = ax.stairs(floats(table["lab"]), np.arange(m + 1) - 0.5, fill=True, color=GRID)
    (expected,) = ax.plot(x - 0.13, floats(table["expected"]), linestyle="none", **SHAPES["estimate"])
    observed, noise = floats(table["observed"]), floats(table["noise"])
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
    p_value = "p < 0.001" if p is not None and p < 0.001 else f"p {p:.3f}"
    return f"misfit: Cohen's w {table['effect']:.2f}, {p_value}"


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
    table = table_of(prev, "curves", tables.curve, of=of, limit=limit)
    ax = style.axes(ax, "curve", table)
    style.plain(ax, x=f"raw prediction of {table['class']}", y="recalibrated prediction")
    ax.plot([0.0, 1.0], [0.0, 1.0], color=GRID, linewidth=1.2)
    old = floats(table["old"])
    handles = ax.plot(old, floats(table["whole"]), color=ESTIMATE, linewidth=2.6, zorder=3)
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
            floats(line["new"]),
            color=MUTED,
            linewidth=0.9,
            markeredgecolor=INK,
            markevery=(5 + i, 10),
            **looks,
        )
        words.append(f"{names[i]} ({show.amount(line['n'])})")
    title = f"{len(table['curves'])} of {table['total']:,} groups (rows)" if table["total"] else None
    style.legend(ax, handles, words, title=title, ncols=2, **ABOVE)
    return style.unit_square(ax)


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
    table = table_of(lab, "M", tables.response)
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
    table = table_of(prev, "rows_share", tables.changes, of=of)
    ax = style.axes(ax, "changes", table)
    from matplotlib.ticker import MaxNLocator

    which = style.shortened(table["class"], _IN_LABEL)
    label = f"share of {which}: estimate − mean prediction"
    style.plain(ax, x=label, y="share of rows", grid="y")
    ax.stairs(floats(table["rows_share"]), floats(table["edges"]), fill=True, color=ESTIMATE)
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
    table = table_of(prev, "mean_prediction", tables.distribution, group=group)
    ax = style.axes(ax, "distribution", table)
    m = len(table["labels"])
    x = np.arange(m, dtype=np.float64)
    where = "whole field" if table["group"] is None else table["group"]
    style.plain(ax, x=f"{where}, {show.amount(table['n'])} rows", y="share of rows", grid="y")
    lab = ax.stairs(floats(table["lab"]), np.arange(m + 1) - 0.5, fill=True, color=GRID)
    lower, upper = (floats(table[name]) for name in ("lower", "upper"))
    ax.vlines(x + 0.1, lower, upper, color=ESTIMATE, linewidth=2.0)
    handles = []
    for column, shape, aside in (("mean_prediction", "mean_prediction", -0.1), ("estimate", "estimate", 0.1)):
        looks = SHAPES[shape]
        share = floats(table[column])
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
