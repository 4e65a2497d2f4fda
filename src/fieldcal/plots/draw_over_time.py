"""Shares of one group over windows of time: band of the interval, mean prediction, labelled shares, alarms."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.errors import InputError, option
from fieldcal.objects import Prevalence, group_keys
from fieldcal.objects.alarms import Alarms
from fieldcal.objects.over_time import OverTime
from fieldcal.options import check_kind
from fieldcal.plots import style
from fieldcal.plots.style import (
    ABOVE,
    BAND,
    ESTIMATE,
    INK,
    MEAN_PREDICTION,
    MUTED,
    SHAPES,
    Table,
    floats,
    short_names,
    table_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = 4
#: Labelled rows that a window needs for a point.
_LABELLED = 5


def over_time_table(
    prev: Prevalence, *, of: Hashable = None, group: Hashable = ..., alarms: Alarms | None = None
) -> Table:
    """Share of one class in every window, of the whole field or of a group, with the windows that raised alarms."""
    from fieldcal.plots.tables import focus

    check_kind("prev", prev, Prevalence)
    over, k = prev.over_time, focus(prev, of)
    if over is None:
        raise InputError(
            f"This estimate has no windows of time. Count with {option('time')} and {option('every', '1w')}, and "
            "estimate again."
        )
    r = 0 if group is ... else prev.row_of(group) + 1 if prev.field.grouped else 0
    known = over.labelled[r, :, None] >= _LABELLED
    raised = [a for a in alarms or () if group_keys.identity(a.group) == group_keys.identity(over.groups[r])]
    shares = {
        name: _gaps(getattr(over, name)[r, :, k])
        for name in ("mean_prediction", "estimate", "lower", "upper")
    }
    return {
        "class": short_names(prev.classes)[k],
        "group": None if r == 0 else short_names([over.groups[r]])[0],
        "level": over.level,
        "windows": over.names,
        "n": over.n[r].tolist(),
        **shares,
        "labelled_share": _gaps(np.where(known, over.labelled_share[r], np.nan)[:, k]),
        "alarms": sorted({over.place(a.window) for a in raised}),
    }


def _gaps(values: np.ndarray) -> list[float | None]:
    return [None if v != v else v for v in values.tolist()]


def most_changed(over: OverTime, k: int, alarms: Alarms | None, limit: int) -> list[Hashable]:
    """Groups with alarms, and then those whose share moved most, beyond the uncertainty of its changes."""
    name = over.classes[k]
    changes = over.changes(of=name)
    sd = np.maximum((changes.upper - changes.lower) / 3.3, 1e-9)
    moved = np.where(over.n > 0, np.abs(changes.estimate) / sd, 0.0).max(axis=1)
    raised = {group_keys.identity(a.group) for a in alarms or ()}
    rows = range(1, len(over.groups))
    order = sorted(rows, key=lambda r: (group_keys.identity(over.groups[r]) not in raised, -moved[r]))
    return [over.groups[r] for r in order[:limit]]


def over_time(
    prev: Prevalence | Table, *, of: Hashable = None, group: Hashable = ..., ax: Axes | None = None
) -> Axes:
    """Share of one class over windows of time: the estimate with its interval, mean prediction, labelled shares.

    Parameters
    ----------
    prev : Prevalence
        Of a field with windows: ``count(…, time=, every=)``.
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
    group : optional
        By default the whole field.
    ax : Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data, lab, *_ = fieldcal.datasets.example()
    >>> days = [f"2026-03-{1 + i % 5:02}" for i in range(4000)]
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, time=days, every="1d"))
    >>> plots.over_time(prev, ax=Figure().subplots()).get_ylabel()
    'share of 1'
    >>> plots.tables.over_time(prev)["windows"][:2]
    ['2026-03-01', '2026-03-02']
    """
    table = table_of(prev, "windows", over_time_table, of=of, group=group)
    ax = style.axes(ax, "over_time", table)
    group = "" if table["group"] is None else f", {style.shortened(table['group'], 24)}"
    style.plain(ax, x="", y=f"share of {style.shortened(table['class'], 24)}{group}", grid="y")
    x, lower, upper = np.arange(len(table["windows"])), floats(table["lower"]), floats(table["upper"])
    ax.fill_between(x, lower, upper, color=BAND, linewidth=0)
    handles = ax.plot(
        x, floats(table["mean_prediction"]), color=MEAN_PREDICTION, linestyle="--", linewidth=1.2
    )
    handles += ax.plot(x, floats(table["estimate"]), color=ESTIMATE, linewidth=1.8)
    words = ["mean prediction", style.estimate_words(table)]
    if any(share is not None for share in table["labelled_share"]):
        handles += ax.plot(x, floats(table["labelled_share"]), linestyle="none", **SHAPES["truth"])
        words.append("labelled rows")
    bottom, top = ax.get_ylim()
    marks = (("alarm", table["alarms"], top, "v", INK), ("no rows", _empty(table), bottom, "x", MUTED))
    for word, windows, height, marker, color in marks:
        if windows:
            looks: dict[str, Any] = {"linestyle": "none", "marker": marker, "markersize": 6, "clip_on": False}
            handles += ax.plot(windows, np.full(len(windows), height), color=color, **looks)
            words.append(word)
    for t in table["alarms"]:
        ax.axvline(t, color=INK, linewidth=1.0, linestyle=":")
    ax.set_ylim(bottom, top)
    shown = style.thinned(len(x), _TICKS)
    style.name_ticks(ax.xaxis, [float(i) for i in shown], [table["windows"][i] for i in shown])
    style.legend(ax, handles, words, ncols=3, **ABOVE)
    return ax


def _empty(table: Table) -> list[int]:
    """Windows without rows."""
    return [t for t, n in enumerate(table["n"]) if not n]
