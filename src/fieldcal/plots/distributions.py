"""The tables of distributions: over classes that have an order, and of predicted numbers against true ones."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Prevalence
from fieldcal.plots.labels import class_labels, names
from fieldcal.plots.numbers import Table, plain

Floats = NDArray[np.float64]

#: Central intervals whose coverage is drawn.
NOMINAL = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_BARS = 10


def distribution(prev: Prevalence, *, group: Hashable = ...) -> Table:
    """Share of each class in its order: mean prediction, estimate with its interval, lab. By default the whole field.

    The whole of a field with groups has no interval: those of its groups do not add up to one.
    """
    if not prev.lab.ordered:
        raise InputError(
            "The classes of this lab have no order, so there is no distribution over them to draw. Learn it with "
            "ordered=True if they have one, or draw plots.forest."
        )
    whole = group is ... and prev.field.grouped
    at = 0 if group is ... else prev._row(group)
    ends = (None, None) if whole else (prev.lower, prev.upper)
    return {
        "group": None if group is ... else names([prev.groups[at]])[0],
        "labels": class_labels(prev.lab),
        "naive": plain(mean_over_rows(prev, prev.naive) if whole else prev.naive[at]),
        "value": plain(mean_over_rows(prev, prev.value) if whole else prev.value[at]),
        **{
            name: [None] * len(prev.classes) if end is None else plain(end[at])
            for name, end in zip(("lower", "upper"), ends, strict=True)
        },
        "lab": plain(prev.lab.p_lab),
        "level": None if whole else prev.level,
        "n": (np.sum(prev.n) if whole else prev.n[at]).item(),
    }


def pit(before: Any, after: Any, y: ArrayLike) -> Table:
    """Share of rows by which quantile of its prediction the number turned out to be: before, after, and by chance."""
    truth = _numbers_of(before, after, y)
    edges = np.linspace(0.0, 1.0, _BARS + 1)
    n = len(truth)
    shares = [np.histogram(_transform(p, truth), edges)[0] / n for p in (before, after)]
    even = 1.0 / _BARS
    return {
        "edges": plain(edges),
        "before": plain(shares[0]),
        "after": plain(shares[1]),
        "noise": float(2.0 * np.sqrt(even * (1.0 - even) / n)),
        "n": n,
    }


def coverage(before: Any, after: Any, y: ArrayLike) -> Table:
    """How many numbers lie in the central interval that should hold so many of them; ``se`` is that of chance."""
    truth = _numbers_of(before, after, y)
    nominal = np.array(NOMINAL)
    return {
        "nominal": plain(nominal),
        "before": plain(_held(before, truth)),
        "after": plain(_held(after, truth)),
        "se": plain(np.sqrt(nominal * (1.0 - nominal) / len(truth))),
        "n": len(truth),
    }


def mean_over_rows(prev: Prevalence, table: Floats) -> Floats:
    """The mean of a (G, K) table over all rows of the field, (K,); the lab's prevalences where there are no rows."""
    rows = np.asarray(prev.n, dtype=np.float64)
    return np.asarray(np.average(table, axis=0, weights=rows) if rows.sum() > 0 else prev.lab.p_lab)


def _transform(predicted: Any, y: Floats) -> Floats:
    """The probability integral transform; at an atom the middle of the jump."""
    at = y[:, None]
    middle = (predicted.cdf(at, before=True) + predicted.cdf(at))[:, 0] / 2.0
    return np.asarray(np.clip(middle, 0.0, 1.0))


def _held(predicted: Any, y: Floats) -> Floats:
    share = np.array(NOMINAL)
    ends = predicted.ppf(np.concatenate([1.0 - share, 1.0 + share]) / 2.0)
    lower, upper = np.hsplit(ends, 2)
    inside = (lower <= y[:, None]) & (y[:, None] <= upper)
    return np.asarray(inside.mean(axis=0))


def _numbers_of(before: Any, after: Any, y: ArrayLike) -> Floats:
    """The true numbers, one finite one for each prediction before and after."""
    for predicted in (before, after):
        if not all(hasattr(predicted, name) for name in ("cdf", "ppf", "__len__")):
            raise InputTypeError(
                f"before and after must be predictive distributions, but got {type(predicted).__name__}. "
                "Make them with fieldcal.regression.from_quantiles, from_moments and so on."
            )
    try:
        truth = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"y must be numbers, but holds {str(y)[:60]!r}.") from None
    if truth.ndim != 1 or not len(before) == len(after) == len(truth):
        raise InputError(
            f"before, after and y must be of the same rows, but there are {len(before):,} and {len(after):,} "
            f"predictions and y has shape {truth.shape}."
        )
    if not len(truth):
        raise InputError("There are no numbers to draw. Give at least one.")
    if not np.isfinite(truth).all():
        raise InputError(
            f"{int((~np.isfinite(truth)).sum()):,} of the numbers y are missing or infinite. Drop those rows."
        )
    return truth
