"""Pictures of a lab and of an estimate, as functions that return matplotlib's axes.

Each is drawn from a table that can be had as data: ``fieldcal.plots.tables`` has a function of the same name.
Matplotlib is loaded when something is drawn, not before.

Group and class names are shown as they are, cut to one short line. Characters that the font does not have become
boxes, and matplotlib warns of them when it draws; ``with fieldcal.plots.quiet(): …`` keeps it silent.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fieldcal.errors import InputTypeError
from fieldcal.objects import Lab, Prevalence
from fieldcal.plots import style, tables
from fieldcal.plots.style import quiet
from fieldcal.plots.tables import Table
from fieldcal.storage import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
    "quiet",
    "reliability",
    "reliability_of",
    "response",
    "trust",
]


def trust(lab: Lab, *, used: float | None = None, ax: Axes | None = None) -> Axes:
    """How much trust helped when the lab's own groups played the field.

    The line is the change of log loss at each trust, below 0 is better, with one standard error. The filled point is
    the trust with the best gain for sure.

    Parameters
    ----------
    lab : Lab
        Learnt with ``groups=…``.
    used : float, optional
        The trust that was applied, marked if it is another.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

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
    return _drawn("trust", tables.trust(lab, used=used), ax)


def explanations(prev: Prevalence, *, ax: Axes | None = None) -> Axes:
    """What labelled rows of the field decided: how probable each explanation is, before they were seen and after.

    Label shift: only the mix of classes changed. The same: a prediction means what it meant in the lab. Other: neither.

    Parameters
    ----------
    prev : Prevalence
        Of a field with labels.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift(prevalence=[[0.9, 0.1]], n_field=2000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> y = [label if i < 200 else None for i, label in enumerate(data.y_field)]
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=y))
    >>> plots.explanations(prev, ax=Figure().subplots()).get_xlabel()
    'probability'
    >>> plots.tables.explanations(prev)["names"]
    ['label shift', 'same', 'other']
    """
    return _drawn("explanations", tables.explanations(prev), ax)


def forest(prev: Prevalence, *, of: Hashable = None, limit: int = 30, ax: Axes | None = None) -> Axes:
    """The share of one class in the whole field and per group: mean prediction, and estimate with its interval.

    Where there are more groups than lines, half of the lines are for the largest groups. The others are for those that
    no mixture of the classes explains, and for those whose estimate departs most, and for sure, from the mean
    prediction. One population has one line per class.

    Parameters
    ----------
    prev : Prevalence
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
    limit : int
        The most lines.
    ax : Axes, optional
        Where to draw; by default a new figure that is as high as the lines need.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift(prevalence=[[0.9, 0.1], [0.4, 0.6]], n_field=4000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> prev = fieldcal.estimate(lab, field, trust=1)
    >>> ax = plots.forest(prev, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['whole field', '1', '0']
    >>> plots.tables.forest(prev)["status"]
    ['care', 'care']
    """
    return _drawn("forest", tables.forest(prev, of=of, limit=limit), ax)


def bins(prev: Prevalence, *, group: Hashable = ..., ax: Axes | None = None) -> Axes:
    """Whether the field looks like a mixture of the lab's classes: rows per bin, observed and expected.

    Parameters
    ----------
    prev : Prevalence
    group : optional
        One group; by default the whole field.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift()
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=fieldcal.Edges([0.2, 0.6]))
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> ax = plots.bins(prev, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['0–0.2', '0.2–0.6', '0.6–1']
    """
    return _drawn("bins", tables.bins(prev, group=group), ax)


def curve(prev: Prevalence, *, of: Hashable = None, limit: int = 8, ax: Axes | None = None) -> Axes:
    """What recalibration does to a prediction: recalibrated against raw, per group and for the whole field.

    With more than two classes, the other classes count as one, mixed as in the group's mean prediction.

    Parameters
    ----------
    prev : Prevalence
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
    limit : int
        The most groups: those with the lowest and the highest curves, and the largest ones.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift(prevalence=[[0.9, 0.1], [0.4, 0.6]], n_field=4000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> prev = fieldcal.estimate(lab, field, trust=1)
    >>> plots.curve(prev, ax=Figure().subplots()).get_xlabel()
    'raw prediction of 1'
    >>> [line["name"] for line in plots.tables.curve(prev)["curves"]]
    ['1', '0']
    """
    return _drawn("curve", tables.curve(prev, of=of, limit=limit), ax)


def reliability(lab: Lab, *, of: Hashable = None, ax: Axes | None = None) -> Axes:
    """Whether the model is calibrated on the lab: mean prediction and share of a class, bin by bin.

    Parameters
    ----------
    lab : Lab
    of : class, optional
        By default the second of two classes, or the most frequent one.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift()
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> plots.reliability(lab, ax=Figure().subplots()).get_xlabel()
    'mean prediction of 1'
    """
    return _drawn("reliability", tables.reliability(lab, of=of), ax)


def reliability_of(
    before: ArrayLike,
    after: ArrayLike,
    y: ArrayLike,
    *,
    classes: Sequence[Hashable],
    of: Hashable = None,
    ax: Axes | None = None,
) -> Axes:
    """Whether predictions are better calibrated after than before, on rows whose labels are known.

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
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift(prevalence=[[0.9, 0.1]], n_field=4000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> new = fieldcal.recalibrate(prev, data.proba_field)
    >>> ax = Figure().subplots()
    >>> plots.reliability_of(data.proba_field, new, data.y_field, classes=lab.classes, ax=ax).get_ylabel()
    'share of 1'
    """
    return _drawn("reliability", tables.reliability_of(before, after, y, classes=classes, of=of), ax)


def response(lab: Lab, *, ax: Axes | None = None) -> Axes:
    """What the lab taught: where the predictions of each class fall, as a heat map.

    Parameters
    ----------
    lab : Lab
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift()
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> plots.response(lab, ax=Figure().subplots()).get_xlabel()
    'bin of the prediction'
    """
    return _drawn("response", tables.response(lab), ax)


def changes(prev: Prevalence, *, of: Hashable = None, ax: Axes | None = None) -> Axes:
    """How far the estimate moves from the mean prediction, over all groups.

    Parameters
    ----------
    prev : Prevalence
    of : class, optional
        By default the second of two classes, or the one that is corrected most.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import fieldcal
    >>> from fieldcal import plots
    >>> from matplotlib.figure import Figure
    >>> data = fieldcal.datasets.label_shift(n_groups=50, n_field=20_000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> prev = fieldcal.estimate(lab, field, trust=1)
    >>> plots.changes(prev, ax=Figure().subplots()).get_ylabel()
    'share of rows'
    >>> sum(plots.tables.changes(prev)[way] for way in ("up", "down"))
    50
    """
    return _drawn("changes", tables.changes(prev, of=of), ax)


def distribution(prev: Prevalence, *, group: Hashable = ..., ax: Axes | None = None) -> Axes:
    """The distribution over classes that have an order, or over intervals: mean prediction, estimate, lab.

    Parameters
    ----------
    prev : Prevalence
        Of a lab whose classes have an order: from `fieldcal.learn`, or learnt with ``ordered=True``.
    group : optional
        One group; by default the whole field.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

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
    return _drawn("distribution", tables.distribution(prev, group=group), ax)


def pit(before: Any, after: Any, y: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Whether predicted distributions are calibrated, before and after: where in them the true numbers fall.

    Bars are the share of rows by the probability integral transform. They are even where predictions are calibrated;
    they slope where predictions are too low or too high, and have a hump where predictions are too wide. At a number
    that has a probability of its own, the middle of the jump counts, so that a few such numbers make a few high bars.

    Parameters
    ----------
    before, after : Predictions
        Predictive distributions of the same rows, see `fieldcal.regression`.
    y : array-like (n,)
        The true numbers.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

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
    return _drawn("pit", tables.pit(before, after, y), ax)


def coverage(before: Any, after: Any, y: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Whether intervals hold as many numbers as they should, before and after: central ones of 50 % to 95 %.

    Parameters
    ----------
    before, after : Predictions
        Predictive distributions of the same rows, see `fieldcal.regression`.
    y : array-like (n,)
        The true numbers.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

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
    return _drawn("coverage", tables.coverage(before, after, y), ax)


def _drawn(picture: str, table: Table, ax: Axes | None) -> Axes:
    if ax is not None and not hasattr(ax, "spines"):
        raise InputTypeError(f"ax must be matplotlib's Axes, but got {type(ax).__name__}.")
    if ax is None:
        ax = _figure(style.size(picture, table))
    _matplotlib()
    from fieldcal.plots import draw

    drawn: Axes = getattr(draw, picture)(table, ax)
    return drawn


def _figure(size: tuple[float, float]) -> Any:
    _matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def _matplotlib() -> ModuleType:
    return require("matplotlib", "report", purpose="to draw")
