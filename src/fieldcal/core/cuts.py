"""Cuts of a number in [0, 1]: where they lie so that bins are equally filled, and which bin a number is in.

Bins are right-closed: a number that equals a cut belongs to the bin below it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldcal.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_FEW_CUTS = 32  # up to here, counting the cuts below a score beats a binary search
_CHUNK = 65_536  # rows that stay in cache while the cuts are compared


def quantile_cuts(scores: Floats, n: int, weight: Floats | None = None) -> Floats:
    """Interior cuts at the ``1/n, 2/n, …`` quantiles, ties merged, empty bins avoided."""
    if weight is not None:  # a row without weight is no row
        scores, weight = scores[weight > 0], weight[weight > 0]
    if n == 1 or not len(scores):
        return np.empty(0)
    at = np.arange(1, n) / n
    cuts = np.quantile(scores, at) if weight is None else _weighted_quantile(scores, at, weight)
    inner = scores[(scores > 0.0) & (scores < 1.0)]
    low, high = (inner.min(), inner.max()) if len(inner) else (1.0, 0.0)
    # Many scores of exactly 0 or 1 are a bin of their own: the cut lies between them and the next score.
    cuts = np.where(cuts <= 0.0, 0.5 * low, np.where(cuts >= 1.0, 0.5 * (1.0 + high), cuts))
    cuts = np.unique(cuts[(cuts > 0.0) & (cuts < 1.0)])
    # Two cuts with no score between them would leave a bin without lab rows, as would one above all scores.
    below, first = np.unique(np.searchsorted(np.sort(scores), cuts, side="right"), return_index=True)
    return np.asarray(cuts[first[below < len(scores)]])


def _weighted_quantile(values: Floats, at: Floats, weight: Floats) -> Floats:
    """Interpolated quantiles where a weight of 2 is the value twice; fractions are scaled to a mean of one."""
    if np.any(weight != np.floor(weight)):
        weight = weight * (len(weight) / weight.sum())
    order = np.argsort(values, kind="stable")
    ends = weight[order].cumsum()
    place = at * (ends[-1] - 1.0)
    below = np.floor(place)
    last = len(values) - 1
    low = values[order][np.minimum(np.searchsorted(ends, below, side="right"), last)]
    high = values[order][np.minimum(np.searchsorted(ends, below + 1.0, side="right"), last)]
    share = place - below  # the two sums round as in np.quantile, so that repeated rows get the same cuts
    return np.asarray(np.where(share < 0.5, low + share * (high - low), high - (1.0 - share) * (high - low)))


def cut(scores: Floats, cuts: Floats) -> Ints:
    """The number of cuts strictly below each score: right-closed bins."""
    if len(cuts) > _FEW_CUTS:
        return np.searchsorted(cuts, scores, side="left").astype(np.intp, copy=False)
    bins = np.zeros(len(scores), dtype=np.uint8)
    for start in range(0, len(scores), _CHUNK):
        part, out = scores[start : start + _CHUNK], bins[start : start + _CHUNK]
        for c in cuts:
            out += part > c
    return bins.astype(np.intp)


def as_columns(scores: Floats) -> Floats:
    """Predictions with one column per class; a binary score becomes two columns."""
    return np.column_stack([1.0 - scores, scores]) if scores.ndim == 1 else scores


def columns_of(scores: Floats, n_classes: int) -> Floats:
    """Predictions with one column per class, for a partition that knows so many classes."""
    proba = as_columns(scores)
    if proba.shape[1] != n_classes:
        raise InputError(
            f"This partition knows {n_classes} classes, but the predictions have {proba.shape[1]}."
        )
    return proba


def at_least(owner: str, name: str, value: int, least: int) -> None:
    """Refuse what is no whole number, or too small."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{owner}({name}=…) must be a whole number of at least {least}, but got {value!r}.")
