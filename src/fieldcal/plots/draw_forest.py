"""The forest plot: estimates of the groups with their intervals."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.objects import Prevalence, show
from fieldcal.objects.verdict import WORDS
from fieldcal.plots import style, tables
from fieldcal.plots.style import (
    ABOVE,
    ESTIMATE,
    FONT,
    INK,
    MUTED,
    SHAPES,
    Table,
    floats,
    table_of,
)
from fieldcal.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    table = table_of(prev, "lab_each", tables.forest, of=of, limit=limit)
    ax = style.axes(ax, "forest", table)
    table = _with_whole(table)
    style.plain(ax, x="share" if table["class"] is None else f"share of {table['class']}", grid="x")
    y = np.arange(table["shown"], dtype=np.float64)
    references = _reference_lines(table, ax, y)
    ax.hlines(y, floats(table["mean_prediction"]), floats(table["estimate"]), color=MUTED, linewidth=0.8)
    _intervals(table, ax, y)
    points = [
        ("mean_prediction", "mean_prediction", "as judged" if table["judged"] else "mean prediction"),
        ("estimate", "estimate", style.estimate_words(table)),
    ]
    if any(share is not None for share in table["labelled"]):
        points.append(("labelled", "truth", "labelled rows"))
    handles, words = [], []
    for column, shape, word in points:
        handles += ax.plot(floats(table[column]), y, linestyle="none", zorder=3, **SHAPES[shape])
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
        return ax.plot(floats(table["lab_each"]), y, linestyle="none", **looks), ["lab"]
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
    lower, upper = floats(table["lower"]), floats(table["upper"])
    ax.hlines(y, np.maximum(lower, low), np.minimum(upper, high), color=ESTIMATE, linewidth=2.0)
    for cut, end, arrow in ((lower < low, low, "<"), (upper > high, high, ">")):
        ax.plot(np.full(cut.sum(), end), y[cut], linestyle="none", marker=arrow, markersize=5, color=ESTIMATE)


def _view(table: Table) -> tuple[float, float]:
    """Limits that show all points, and intervals as far as there is room."""
    columns = [table[name] for name in ("mean_prediction", "estimate", "labelled")]
    columns += [table["lab_each"] or [], [table["lab"]]]
    points = floats([x for column in columns for x in column if x is not None])
    if not table["shown"]:
        return 0.0, 1.0
    low, high = float(points.min()), float(points.max())
    ends = [floats(table[name]) for name in ("lower", "upper")] if table["level"] is not None else []
    if not ends:
        return low, max(high, low + 0.01)
    room = max(0.25 * (high - low), 2.0 * float(np.median(ends[1] - ends[0])), 0.01)
    return max(min(low, ends[0].min()), low - room), min(max(high, ends[1].max()), high + room)
