"""Plots that compare predictions with labels: reliability, PIT and coverage."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.objects import Lab
from fieldcal.plots import style, tables
from fieldcal.plots.style import (
    ABOVE,
    BAND,
    ESTIMATE,
    GRID,
    MEAN_PREDICTION,
    MUTED,
    SHAPES,
    Table,
    floats,
    table_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

#: Style and name of each series of a reliability curve.
SERIES: dict[str, tuple[str, str]] = {
    "lab": ("truth", "lab"),
    "before": ("mean_prediction", "raw predictions"),
    "after": ("estimate", "recalibrated"),
}


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
    table = table_of(lab, "series", tables.reliability, of=of)
    ax = style.axes(ax, "reliability", table)
    style.plain(ax, x=f"mean prediction of {table['class']}", y=f"share of {table['class']}")
    ax.plot([0.0, 1.0], [0.0, 1.0], color=GRID, linewidth=1.2)
    handles, words = [], []
    for series in table["series"]:
        shape, word = SERIES[series["name"]]
        mean, share, se = (floats(series[name]) for name in ("mean", "share", "se"))
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
    return style.unit_square(ax)


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
    table = table_of(before, "noise", tables.pit, after, y)
    ax = style.axes(ax, "pit", table)
    edges = floats(table["edges"])
    even, noise = 1.0 / (len(edges) - 1), table["noise"]
    style.plain(
        ax, x="predicted probability of a number up to the true one", y=f"share of {table['n']:,} rows"
    )
    band = ax.fill_between([0.0, 1.0], even - noise, even + noise, color=BAND, linewidth=0)
    middle, width = (edges[1:] + edges[:-1]) / 2.0, 0.38 * np.diff(edges)
    before = ax.bar(
        middle - 0.55 * width,
        floats(table["before"]),
        width,
        facecolor="none",
        edgecolor=MEAN_PREDICTION,
        linewidth=1.4,
    )
    after = ax.bar(middle + 0.55 * width, floats(table["after"]), width, color=ESTIMATE)
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
    table = table_of(before, "nominal", tables.coverage, after, y)
    ax = style.axes(ax, "coverage", table)
    from matplotlib.ticker import PercentFormatter

    nominal, se = floats(table["nominal"]), floats(table["se"])
    style.plain(ax, x="interval should hold", y=f"interval holds, of {table['n']:,} rows")
    band = ax.fill_between(nominal, nominal - 2 * se, nominal + 2 * se, color=BAND, linewidth=0)
    ax.plot(nominal, nominal, color=MUTED, linewidth=1.0)
    handles = []
    for column, shape in (("before", "mean_prediction"), ("after", "estimate")):
        handles += ax.plot(nominal, floats(table[column]), linestyle="none", zorder=3, **SHAPES[shape])
    words = ["raw", "recalibrated", "calibrated, ± 2 standard errors"]
    style.legend(ax, [*handles, band], words, ncols=2, **ABOVE)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xticks(nominal)
    ax.set_ylim(top=1.02)
    return ax
