"""Predictions that come as columns of numbers: quantiles at some levels, or distribution functions on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.errors import InputError
from fieldcal.objects import Support
from fieldcal.regression import checks
from fieldcal.regression.checks import Floats, Ints
from fieldcal.regression.lines import Lines
from fieldcal.regression.predictions import Predictions
from fieldcal.regression.transport import ratio

#: Quantiles that cross by less than this share of the row's range, and a distribution function that falls by less
#: than this, are rounding and are straightened; more is an error.
ROUNDING = 1e-9
#: How far from 1 a distribution function may end.
END_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Table(Predictions):
    """Columns of numbers, ``values``, and the distributions they stand for, ``law``.

    After reshaping, ``values`` are what the new distributions have in the same columns, while ``law`` also keeps the
    boundaries that lie between columns. So masses stay exact as long as the object is used. Reading the values alone
    back in draws straight lines across such boundaries.
    """

    values: Floats
    law: Predictions

    def __len__(self) -> int:
        return len(self.values)

    def _cdf(self, x: Floats, before: bool) -> Floats:
        return self.law._cdf(x, before)

    def _pdf(self, x: Floats) -> Floats:
        return self.law._pdf(x)

    def _ppf(self, u: Floats) -> Floats:
        return self.law._ppf(u)

    def _breaks(self) -> Floats:
        return self.law._breaks()

    def mean(self) -> Floats:
        """The means, (n,)."""
        return self.law.mean()

    def var(self) -> Floats:
        """The variances, (n,)."""
        return self.law.var()

    def crps(self, y: ArrayLike) -> Floats:
        """The continuous ranked probability score, (n,)."""
        return self.law.crps(y)


@dataclass(frozen=True, eq=False)
class Quantiles(Table):
    """Quantiles ``values`` (n, Q) at ``levels`` (Q,)."""

    levels: Floats

    def _take(self, rows: Ints) -> Quantiles:
        return Quantiles(self.values[rows], self.law._take(rows), self.levels)

    def reshaped(self, support: Support, masses: ArrayLike) -> Quantiles:
        """Quantiles at the same levels, of the distributions with new masses of the intervals."""
        law = self.law.reshaped(support, masses)
        return Quantiles(np.maximum.accumulate(law.ppf(self.levels), axis=1), law, self.levels)


@dataclass(frozen=True, eq=False)
class GridCDF(Table):
    """Distribution functions ``values`` (n, P) on a ``grid`` (P,)."""

    grid: Floats

    def _take(self, rows: Ints) -> GridCDF:
        return GridCDF(self.values[rows], self.law._take(rows), self.grid)

    def reshaped(self, support: Support, masses: ArrayLike) -> GridCDF:
        """Distribution functions on the same grid, with new masses of the intervals."""
        law = self.law.reshaped(support, masses)
        values = np.where(_left(self.grid), law.cdf(self.grid, before=True), law.cdf(self.grid))
        return GridCDF(np.maximum.accumulate(values, axis=1), law, self.grid)


def from_quantiles(
    values: ArrayLike, levels: ArrayLike, *, crossing: Literal["error", "sort"] = "error"
) -> Quantiles:
    """Predictive distributions from quantile columns.

    Between two levels the quantile function is a straight line; equal quantiles are an atom. Beyond the outermost
    levels lie exponential tails that continue the density of the outermost segment. If that segment is an atom, the
    rest belongs to the atom.

    Parameters
    ----------
    values : (n, Q), increasing in each row
    levels : (Q,), strictly increasing, inside (0, 1), at least two
    crossing : ``"sort"`` repairs rows whose quantiles cross by sorting them

    Examples
    --------
    >>> from fieldcal.regression import from_quantiles
    >>> two = from_quantiles([[0.0, 0.0, 3.0], [1.0, 2.0, 4.0]], [0.1, 0.5, 0.9])
    >>> two.cdf([0.0, 2.0]).round(3).tolist()
    [[0.5, 0.767], [0.002, 0.5]]
    >>> from_quantiles([[1.0, 3.0, 2.0]], [0.1, 0.5, 0.9], crossing="sort").values.tolist()
    [[1.0, 2.0, 3.0]]
    """
    u, q = _levels(levels), checks.matrix(values, "quantiles")
    if crossing not in ("error", "sort"):
        raise InputError(f"crossing is 'error' or 'sort', not {crossing!r}.")
    if q.shape[1] != len(u):
        raise InputError(
            f"There are {q.shape[1]} columns of quantiles but {len(u)} levels. Pass one level per column."
        )
    slack = ROUNDING * np.ptp(q, axis=1, keepdims=True) if q.size else 0.0
    crossed = (np.diff(q, axis=1) < -slack).any(axis=1)
    if crossing == "error" and crossed.any():
        raise InputError(
            f"The quantiles cross in {int(crossed.sum()):,} of {len(q):,} rows, the first is row "
            f"{int(crossed.argmax())}. Pass crossing='sort' to sort the quantiles of such rows, or check the order "
            "of the levels."
        )
    q = np.sort(q, axis=1)
    low = u[0] * (q[:, 1] - q[:, 0]) / (u[1] - u[0])
    high = (1.0 - u[-1]) * (q[:, -1] - q[:, -2]) / (u[-1] - u[-2])
    return Quantiles(q, Lines.through(q, np.broadcast_to(u, q.shape), low=low, high=high), u)


def from_cdf(values: ArrayLike, grid: ArrayLike, *, repair: bool = False) -> GridCDF:
    """Predictive distributions from distribution functions on a grid.

    Between two grid points they are straight lines. What lies below the first grid point is an atom at it. For an
    atom elsewhere, repeat its grid point: first the probability below it, then the one up to it.

    Parameters
    ----------
    values : (n, P), probabilities that increase and end at 1
    grid : (P,), increasing; a point may stand there twice
    repair : whether to make rows increase (running maximum, within 0 and 1) and end at 1 (divided by their end)

    Examples
    --------
    >>> from fieldcal.regression import from_cdf
    >>> one = from_cdf([[0.0, 0.1, 0.6, 1.0]], [-1.0, 0.0, 0.0, 2.0])
    >>> one.cdf([-0.5, 0.0, 1.0]).round(3).tolist()
    [[0.05, 0.6, 0.8]]
    >>> float(one.cdf([0.0], before=True)[0, 0])
    0.1
    >>> from_cdf([[0.0, 0.6, 0.5, 0.8]], [0.0, 1.0, 2.0, 3.0], repair=True).values.round(3).tolist()
    [[0.0, 0.75, 0.75, 1.0]]
    """
    x, c = _grid(grid), checks.matrix(values, "distribution functions")
    if c.shape[1] != len(x):
        raise InputError(
            f"The distribution functions have {c.shape[1]} columns but the grid has {len(x)} points. "
            "Pass one column per grid point."
        )
    if not repair:
        _refuse_bad_cdf(c)
    c = np.maximum.accumulate(np.clip(c, 0.0, 1.0), axis=1)
    if (c[:, -1] <= 0.0).any():
        raise InputError(
            f"The distribution function of row {int((c[:, -1] <= 0.0).argmax())} is 0 on the whole grid, and "
            "cannot be repaired. Extend the grid, or drop the row."
        )
    c = ratio(c, c[:, -1:])
    zero = np.zeros(len(c))
    return GridCDF(c, Lines.through(np.broadcast_to(x, c.shape), c, low=zero, high=zero), x)


def _levels(levels: ArrayLike) -> Floats:
    u = checks.vector(levels, "levels")
    if len(u) < 2:
        raise InputError(f"Quantiles need at least two levels, but there are {len(u)}.")
    if (np.diff(u) <= 0.0).any():
        where = int((np.diff(u) <= 0.0).argmax())
        raise InputError(
            f"Levels must increase, but {u[where + 1]:g} follows {u[where]:g}. Sort the columns by their level, and "
            "pass each level once."
        )
    if u[0] <= 0.0 or u[-1] >= 1.0:
        raise InputError(
            f"Levels must lie strictly between 0 and 1, but run from {u[0]:g} to {u[-1]:g}. Divide percent by 100; "
            "drop the columns of a minimum or a maximum."
        )
    return u


def _grid(grid: ArrayLike) -> Floats:
    x = checks.vector(grid, "grid points")
    if len(x) < 2 or (np.diff(x) < 0.0).any() or (x[2:] == x[:-2]).any():
        raise InputError(
            "A grid needs at least two increasing points, and a point at most twice (for an atom), but is "
            f"{str(x.tolist())[:60]}. Sort the grid and the columns with it."
        )
    return x


def _left(grid: Floats) -> NDArray[np.bool_]:
    """Which grid points stand for the limit from below: the first of two that are equal."""
    return np.append(grid[:-1] == grid[1:], False)


def _refuse_bad_cdf(c: Floats) -> None:
    outside = ((c < -ROUNDING) | (c > 1.0 + ROUNDING)).any(axis=1)
    falls = (np.diff(c, axis=1) < -ROUNDING).any(axis=1)
    unfinished = np.abs(c[:, -1] - 1.0) > END_TOLERANCE
    for bad, what in ((outside, "leaves [0, 1]"), (falls, "falls"), (unfinished, "does not end at 1")):
        if bad.any():
            row = int(bad.argmax())
            raise InputError(
                f"The distribution function {what} in {int(bad.sum()):,} of {len(c):,} rows, the first is row {row} "
                f"(from {c[row].min():.6g} to {c[row].max():.6g}, ending at {c[row, -1]:.6g}). Extend the grid or "
                "check the columns, or pass repair=True to straighten and rescale such rows."
            )
