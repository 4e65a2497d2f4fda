"""The plot of a break-even: which shares are possible if some rows are scored differently than in the lab."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from fieldcal.objects import Prevalence
from fieldcal.plots import style, tables
from fieldcal.plots.style import ABOVE, BAND, ESTIMATE, INK, MUTED, SHAPES, Table, floats, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_IN_LABEL = 22  # letters of a name in a label


def breakdown(
    prev: Prevalence | Table, *, of: Hashable = None, group: Hashable = ..., ax: Axes | None = None
) -> Axes:
    """Possible shares of a class by the share of rows that are scored differently than in the lab.

    The band is the set of shares that are possible without noise. Where it reaches the share in the lab is the
    break-even of the conclusion that the two differ. The interval of the estimate is at 0. The ticks along the axis
    mark violations that were measured with labels, in the lab's own groups or, without these, in groups of other real
    files: one, five and nine of ten groups are below them.

    Parameters
    ----------
    prev : Prevalence
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
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
    >>> plots.breakdown(prev, group=1, ax=Figure().subplots()).get_xlabel()
    'rows scored differently than in the lab'
    >>> round(plots.tables.breakdown(prev, group=1)["break_even"], 3)
    0.047
    """
    table = table_of(prev, "break_even", tables.breakdown, of=of, group=group)
    ax = style.axes(ax, "breakdown", table)
    from matplotlib.ticker import PercentFormatter

    which = style.shortened(table["class"], _IN_LABEL)
    style.plain(ax, x="rows scored differently than in the lab", y=f"share of {which}", grid="y")
    changes, lower, upper = (floats(table[name]) for name in ("changes", "lower", "upper"))
    handles: list[Any] = [ax.fill_between(changes, lower, upper, color=BAND, linewidth=0)]
    words = ["possible shares"]
    share, ends = table["estimate"], table["interval"]
    ax.vlines(0.0, ends[0], ends[1], color=ESTIMATE, linewidth=2.0)
    handles += ax.plot(0.0, share, linestyle="none", clip_on=False, zorder=3, **SHAPES["estimate"])
    words.append(style.estimate_words(table))
    if table["lab"] is not None:
        handles.append(ax.axhline(table["lab"], color=MUTED, linewidth=1.0, linestyle="--"))
        words.append("lab")
    if table["break_even"]:
        handles += ax.plot(
            table["break_even"], table["lab"], linestyle="none", marker="X", markersize=8, color=INK, zorder=4
        )
        words.append(f"break-even {table['break_even']:.1%}")
    top = ax.get_xaxis_transform()
    for place, name in zip(table["reference"], table["reference_names"], strict=True):
        if place <= changes[-1]:
            ax.plot([place, place], [0.0, 0.04], color=INK, linewidth=1.2, transform=top)
            style.write(ax, place, 0.05, name, transform=top, ha="center", va="bottom", fontsize=8)
    ax.set(xlim=(-0.01 * changes[-1], changes[-1]), ylim=(0.0, 1.0))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    style.legend(ax, handles, words, ncols=2, **ABOVE)
    return ax
