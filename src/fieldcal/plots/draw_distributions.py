"""The pictures of distributions. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import PercentFormatter

from fieldcal.plots import style
from fieldcal.plots.numbers import Table
from fieldcal.plots.style import BAND, ESTIMATE, GRID, MUTED, NAIVE, SHAPES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def distribution(table: Table, ax: Axes) -> Axes:
    """Share of each class in its order: mean prediction, estimate with interval, lab."""
    m = len(table["labels"])
    x = np.arange(m, dtype=np.float64)
    where = "whole field" if table["group"] is None else table["group"]
    style.plain(ax, x=f"{where}, {table['n']:,.6g} rows", y="share of rows", grid="y")
    lab = ax.stairs(style.floats(table["lab"]), np.arange(m + 1) - 0.5, fill=True, color=GRID)
    lower, upper = (style.floats(table[name]) for name in ("lower", "upper"))
    ax.vlines(x + 0.1, lower, upper, color=ESTIMATE, linewidth=2.0)
    handles = []
    for column, shape, aside in (("naive", "naive", -0.1), ("value", "estimate", 0.1)):
        looks = SHAPES[shape]
        share = style.floats(table[column])
        # Thin lines make the shape visible where there are many classes.
        ax.plot(x + aside, share, color=looks["color"], linewidth=0.8)
        handles += ax.plot(x + aside, share, linestyle="none", zorder=3, **looks)
    style.legend(
        ax, [*handles, lab], ["mean prediction", style.estimate_words(table), "lab"], ncols=3, **style.ABOVE
    )
    style.name_bins(ax, table["labels"], x)
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(-0.6, m - 0.4)
    return ax


def pit(table: Table, ax: Axes) -> Axes:
    """Bars before and after, and the band in which those of calibrated predictions lie."""
    edges = style.floats(table["edges"])
    even, noise = 1.0 / (len(edges) - 1), table["noise"]
    style.plain(
        ax, x="predicted probability of a number up to the true one", y=f"share of {table['n']:,} rows"
    )
    band = ax.fill_between([0.0, 1.0], even - noise, even + noise, color=BAND, linewidth=0)
    middle, width = (edges[1:] + edges[:-1]) / 2.0, 0.38 * np.diff(edges)
    before = ax.bar(
        middle - 0.55 * width,
        style.floats(table["before"]),
        width,
        facecolor="none",
        edgecolor=NAIVE,
        linewidth=1.4,
    )
    after = ax.bar(middle + 0.55 * width, style.floats(table["after"]), width, color=ESTIMATE)
    ax.axhline(even, color=MUTED, linewidth=1.0)
    words = ["before", "after", "calibrated, ± 2 standard errors"]
    style.legend(ax, [before, after, band], words, ncols=3, **style.ABOVE)
    ax.set_xticks(edges[::2])
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(bottom=0.0)
    return ax


def coverage(table: Table, ax: Axes) -> Axes:
    """Observed against nominal coverage, and the band in which that of calibrated predictions lies."""
    nominal, se = style.floats(table["nominal"]), style.floats(table["se"])
    style.plain(ax, x="interval should hold", y=f"interval holds, of {table['n']:,} rows")
    band = ax.fill_between(nominal, nominal - 2 * se, nominal + 2 * se, color=BAND, linewidth=0)
    ax.plot(nominal, nominal, color=MUTED, linewidth=1.0)
    handles = []
    for column, shape in (("before", "naive"), ("after", "estimate")):
        handles += ax.plot(nominal, style.floats(table[column]), linestyle="none", zorder=3, **SHAPES[shape])
    words = ["before", "after", "calibrated, ± 2 standard errors"]
    style.legend(ax, [*handles, band], words, ncols=3, **style.ABOVE)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xticks(nominal)
    ax.set_ylim(top=1.02)
    return ax
