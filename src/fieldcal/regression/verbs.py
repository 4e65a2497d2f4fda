"""The verbs on predictive distributions: a regression is a classification over intervals, with shapes inside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fieldcal import verbs
from fieldcal.core.partition import Expected, PartitionLike
from fieldcal.errors import InputError
from fieldcal.objects import Field, Lab, Prevalence, Support
from fieldcal.regression.intervals import (
    choose_support,
    given_support,
    indistinguishable_neighbours,
    merge_indistinguishable,
)
from fieldcal.regression.parametric import as_predictions
from fieldcal.regression.predictions import Predictions
from fieldcal.types import Floats, Unseen


def learn(
    predicted: Any,
    y: Any,
    *,
    groups: Any = None,
    intervals: int | Literal["auto"] | Sequence[float] = "auto",
    atoms: Sequence[float] | Literal["auto"] = "auto",
    sample_weight: Any = None,
    partition: PartitionLike = "auto",
    smoothing: float | Literal["auto"] = "auto",
    random_state: int = 0,
) -> Lab:
    """Learn from labelled lab data how predicted distributions are spread given the number.

    Parameters
    ----------
    predicted : Predictions, or an object with ``cdf`` and ``ppf``
        Predictive distributions of n rows that the model was not trained on: `from_quantiles`, `from_cdf`,
        `from_samples`, `from_masses`, `from_moments`, or a frozen distribution of scipy.
    y : array-like (n,)
        The true numbers.
    groups : array-like (n,), optional
        As in `fieldcal.learn`: with them, the correction is rehearsed.
    intervals : "auto", int or edges
        How many intervals of the support, equally filled by the lab's numbers; or where to cut it. By default 20, fewer
        where rows are few or where predictions cannot tell neighbours apart. Asked for explicitly, intervals that
        cannot be told apart are refused.
    atoms : "auto" or values
        Values that have an interval of their own, by default those of a twentieth of the rows or more.
    sample_weight, smoothing, random_state : as in `fieldcal.learn`
    partition : as in `fieldcal.learn`; by default quantiles of the predicted mean

    Returns
    -------
    Lab
        Whose classes are the intervals, in order, and whose ``support`` says where they lie.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import regression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=4000)
    >>> x = y + 0.7 * rng.normal(size=4000)
    >>> predicted = regression.from_moments(x / 1.49, np.full(4000, 0.57), family="normal")
    >>> lab = regression.learn(predicted, y, intervals=[-1, 0, 1])
    >>> lab.classes
    ('≤ -1', '(-1, 0]', '(0, 1]', '> 1')
    """
    predictions, numbers = as_predictions(predicted), _numbers(y)
    if len(predictions) != len(numbers):
        raise InputError(
            f"There are {len(predictions)} predictions but {len(numbers)} numbers. Give one each."
        )
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    support = _support(predictions, numbers, intervals, atoms, weight)
    codes = support.codes(numbers)
    if partition == "auto" and support.size > 2:
        means = np.bincount(codes, weights=numbers) / np.bincount(codes)
        bins = int(np.clip(len(numbers) // 50, 4, max(8, 3 * support.size // 2)))
        partition = Expected(bins, tuple(means.tolist()))
    labels = np.array(support.labels, dtype=object)
    lab = verbs.learn(
        predictions.masses(support),
        labels[codes],
        groups=groups,
        classes=support.labels,
        sample_weight=sample_weight,
        partition=partition,
        smoothing=smoothing,
        ordered=True,
        random_state=random_state,
    )
    return lab.model_copy(update={"support": support})


def count(
    lab: Lab,
    predicted: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    batch: str | None = None,
) -> Field:
    """Count predicted distributions per group and bin.

    Parameters
    ----------
    lab : Lab
        From `regression.learn`.
    predicted : as in `regression.learn`
    groups, sample_weight, batch : as in `fieldcal.count`

    Returns
    -------
    Field
        For `fieldcal.estimate`.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import regression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=4000)
    >>> predicted = regression.from_moments((y + 0.7 * rng.normal(size=4000)) / 1.49, np.full(4000, 0.57))
    >>> lab = regression.learn(predicted, y, intervals=[-1, 0, 1])
    >>> regression.count(lab, predicted.take(np.arange(100)))
    Field: 100 rows, one population, 8 bins
    """
    masses = as_predictions(predicted).masses(support_of(lab))
    return verbs.count(lab, masses, groups=groups, sample_weight=sample_weight, batch=batch)


def recalibrate(
    prev: Prevalence,
    predicted: Any,
    *,
    groups: Any = None,
    unseen: Unseen = "global",
    acknowledge: bool = False,
) -> Predictions:
    """New distributions for the same rows, in the same form: other masses of the intervals, the same shape inside each.

    Parameters
    ----------
    prev : Prevalence
        Estimated by `fieldcal.estimate` from a lab and a field of this module.
    predicted : as in `regression.learn`
    groups, unseen, acknowledge : as in `fieldcal.recalibrate`

    Returns
    -------
    Predictions
        Of the form that was given where that form can hold it (quantiles, a CDF, samples, masses); else an object with
        ``cdf``, ``ppf``, ``mean`` and so on.

    Examples
    --------
    >>> import fieldcal
    >>> import numpy as np
    >>> from fieldcal import regression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=4000)
    >>> predicted = regression.from_moments((y + 0.7 * rng.normal(size=4000)) / 1.49, np.full(4000, 0.57))
    >>> lab = regression.learn(predicted, y)
    >>> prev = fieldcal.estimate(lab, regression.count(lab, predicted), trust=1)
    >>> regression.recalibrate(prev, predicted).mean().shape
    (4000,)
    """
    predictions, support = as_predictions(predicted), support_of(prev.lab)
    masses = predictions.masses(support)
    new = verbs.recalibrate(prev, masses, groups=groups, unseen=unseen, acknowledge=acknowledge)
    return predictions.reshaped(support, new)


def support_of(lab: Lab) -> Support:
    """The intervals of a lab that was learnt from distributions."""
    if lab.support is None:
        raise InputError(
            "This lab was learnt from class probabilities. Use regression.learn for distributions."
        )
    return lab.support


def _numbers(y: Any) -> Floats:
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"The numbers y must be numbers, but got {type(y).__name__} of something else."
        ) from None
    if numbers.ndim != 1:
        raise InputError(f"The numbers y must be one column, but have shape {numbers.shape}.")
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{int((~np.isfinite(numbers)).sum()):,} of the numbers y are missing or infinite. Drop those rows."
        )
    return numbers


def _support(
    predictions: Predictions, y: Floats, intervals: Any, atoms: Any, weight: Floats | None
) -> Support:
    """The intervals that are asked for, if they can be told apart; or as many as can."""
    expected = predictions.mean()
    if isinstance(intervals, str):
        if intervals != "auto":
            raise InputError(f"intervals must be 'auto', a number or edges, but got {intervals!r}.")
        return merge_indistinguishable(choose_support(y, None, atoms, weight), expected, y)
    if isinstance(intervals, (int, np.integer)) and not isinstance(intervals, bool):
        if intervals < 2:
            raise InputError(f"At least two intervals are needed, but got {intervals}.")
        support = choose_support(y, int(intervals), atoms, weight)
    else:
        support = given_support(intervals, () if isinstance(atoms, str) else atoms)
    codes = support.codes(y)
    rows = np.bincount(codes, minlength=support.size)
    if not rows.all():
        empty = support.labels[int(rows.argmin())]
        raise InputError(f"No number of the lab lies in the interval {empty}. Choose other edges, or 'auto'.")
    alike = indistinguishable_neighbours(expected, codes, support.size)
    if alike:
        one, two = support.labels[alike[0]], support.labels[alike[0] + 1]
        raise InputError(
            f"The predictions cannot tell the intervals {one} and {two} apart ({len(alike)} of {support.size - 1} "
            "pairs of neighbours). Use fewer intervals, or intervals='auto'."
        )
    return support
