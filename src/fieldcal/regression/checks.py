"""What callers can get wrong about predictive distributions, met once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Intervals
from fieldcal.types import Floats, Ints

#: Work arrays hold about this many numbers, however many rows there are.
WORK = 4_000_000
#: Rows of masses may miss a sum of one by this much, and are rescaled.
SUM_TOLERANCE = 1e-6
#: A mass below this, in an interval that had none, is rounding; more is an error.
NO_MASS = 1e-9


def numbers(values: Any, what: str) -> Floats:
    """As float64; anything that is not a number is refused."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
        text = array.dtype.kind == "O" and any(isinstance(v, (str, bytes)) for v in array.ravel())
        if array.dtype.kind not in "fiubO" or text:
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"The {what} must be numbers in rows of equal length, but are {str(values)[:60]!r}. "
            "Convert them with np.asarray(..., dtype=float) first."
        ) from None


def matrix(values: Any, what: str) -> Floats:
    """One row per prediction, every number finite."""
    array = numbers(values, what)
    if array.ndim != 2:
        raise InputError(
            f"The {what} must have one row per prediction, but have shape {array.shape}. "
            "For a single prediction, pass a list with that one row."
        )
    finite(array, what)
    return array


def vector(values: Any, what: str, *, n: int | None = None) -> Floats:
    """One finite number per row (or per column)."""
    array = numbers(values, what)
    if array.ndim != 1 or (n is not None and len(array) != n):
        wanted = "in one list" if n is None else f"one for each of the {n:,} rows"
        raise InputError(f"The {what} must be {wanted}, but have shape {array.shape}. Check what was passed.")
    finite(array, what)
    return array


def finite(array: Floats, what: str) -> None:
    """NaN and infinity are refused, with how many rows have them."""
    bad = np.asarray(~np.isfinite(array))
    if bad.any():
        rows = np.asarray(bad.reshape(len(array), -1).any(axis=1))
        raise InputError(
            f"{int(rows.sum()):,} of {len(rows):,} rows of the {what} hold NaN or infinity, the first is row "
            f"{int(rows.argmax())}. Drop those rows, or find out why the model left them empty."
        )


def points(x: ArrayLike, n: int, what: str) -> Floats:
    """Where to evaluate: (P,) for all rows alike, or (n, P); NaN is refused, infinity is not."""
    array = numbers(x, what)
    if np.isnan(array).any():
        raise InputError(f"{int(np.isnan(array).sum()):,} of the {what} are NaN. Drop them.")
    if array.ndim <= 1:
        return np.broadcast_to(array.reshape(1, -1), (n, array.size))
    if array.ndim != 2 or len(array) != n:
        raise InputError(
            f"The {what} must have shape (P,), the same for all rows, or ({n}, P), but have {array.shape}."
        )
    return array


def levels(u: ArrayLike, n: int) -> Floats:
    """Points that are levels of a quantile function."""
    array = points(u, n, "quantile levels")
    if array.size and (array.min() < 0.0 or array.max() > 1.0):
        worst = array.max() if array.max() > 1.0 else array.min()
        raise InputError(
            f"Quantile levels must lie in [0, 1], but reach {worst:.4g}. If these are percent, divide by 100."
        )
    return array


def index(rows: Any, n: int) -> Ints:
    """Numbers of rows, from a slice, a mask or numbers."""
    try:
        return np.atleast_1d(np.arange(n, dtype=np.intp)[rows])
    except IndexError:
        raise InputError(f"These are not rows of {n:,} predictions: {str(rows)[:60]}.") from None


def chunks(n: int, width: int) -> Iterator[Ints]:
    """Rows in blocks, so that an array of that width stays below the bound for work arrays."""
    step = max(1, WORK // max(width, 1))
    for start in range(0, n, step):
        yield np.arange(start, min(start + step, n), dtype=np.intp)


def interval_masses(masses: Any, support: Intervals, *, n: int | None = None) -> Floats:
    """Checked masses of the intervals, (n, K); every row sums to one."""
    array = matrix(masses, "masses")
    if array.shape[1] != support.size or (n is not None and len(array) != n):
        rows = "n" if n is None else f"{n}"
        raise InputError(
            f"The masses must have shape ({rows}, {support.size}), one column per interval of the support, but "
            f"have {array.shape}."
        )
    if array.size and array.min() < 0.0:
        row = int((array < 0.0).any(axis=1).argmax())
        raise InputError(
            f"Masses must not be negative, but row {row} holds {array[row].min():.4g}. Are these logarithms, or "
            "cumulative masses? Pass the probability of each interval."
        )
    total = array.sum(axis=1, keepdims=True)
    if array.size and np.abs(total - 1.0).max() > SUM_TOLERANCE:
        row = int(np.abs(total - 1.0).argmax())
        raise InputError(
            f"The masses of a row must sum to one, but those of row {row} sum to {total[row, 0]:.6g}. "
            "Divide each row by its sum if that is what you mean."
        )
    return np.asarray(array / total)


def without_new_support(new: Floats, old: Floats, support: Intervals) -> Floats:
    """New masses where there was mass before; a shape that does not exist cannot be kept."""
    ghost = (old <= 0.0) & (new > 0.0)
    if not ghost.any():
        return new
    worst = np.where(ghost, new, 0.0)
    if worst.max() > NO_MASS:
        row, k = np.unravel_index(int(worst.argmax()), worst.shape)
        raise InputError(
            f"Row {row} should get mass {worst[row, k]:.4g} in the interval {support.labels[k]!r}, where its "
            "distribution has none, so there is no shape to keep. Multiply the old masses by weights instead."
        )
    kept = np.where(ghost, 0.0, new)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))
