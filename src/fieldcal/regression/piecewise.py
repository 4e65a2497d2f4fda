"""PiecewiseLinear: piecewise linear distribution functions, from quantiles, grids, masses or samples.

All of these forms become knots of the same function. Each constructor documents how it interpolates and extrapolates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.errors import InputError, Word, option
from fieldcal.objects import Intervals
from fieldcal.options import as_number, check_kind, check_options
from fieldcal.regression.intervals import Transport, check_masses, follow, ratio, slope
from fieldcal.regression.predictions import Form, Predictions, chunks, matrix, vector
from fieldcal.types import Crossing, Floats, Ints

#: Quantiles that cross by less than this share of the row's range, and distribution functions that fall by less than
#: this, are rounding errors and are straightened; more is refused.
ROUNDING = 1e-9
#: Tolerance for the end of a distribution function.
END_TOLERANCE = 1e-6
#: Levels this many samples above a step are rounding errors, and still belong to the step.
_STEP = 1e-9


@dataclass(frozen=True, eq=False)
class PiecewiseLinear(Predictions):
    """Distribution functions that are linear between the knots (``x``, ``c``), both (n, P), increasing.

    Two knots at the same x are an atom. The mass ``c[:, 0]`` below the first knot has an exponential tail of scale
    ``low``, the mass above the last one a tail of scale ``high``, both (n,). Means, variances and the CRPS are exact.
    Build it with `from_quantiles`, `from_cdf`, `from_masses` or `from_samples`, which also keep the columns as
    ``form``; from other knots, with ``through``.
    """

    x: Floats
    c: Floats
    low: Floats
    high: Floats

    @classmethod
    def through(
        cls, x: Floats, c: Floats, *, low: Floats, high: Floats, form: Form | None = None
    ) -> PiecewiseLinear:
        """Distributions through these knots; with a scale of 0 the mass beyond an end is an atom at that end.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldcal.regression import PiecewiseLinear
        >>> x, c = np.array([[0.0, 2.0]]), np.array([[0.5, 0.9]])
        >>> one = PiecewiseLinear.through(x, c, low=np.array([0.0]), high=np.array([1.0]))
        >>> one.cdf([-1.0, 0.0, 1.0, 3.0]).round(3).tolist()
        [[0.0, 0.5, 0.7, 0.963]]
        """
        first = np.where(low[:, None] > 0.0, c[:, :1], 0.0)
        last = np.where(high[:, None] > 0.0, c[:, -1:], 1.0)
        knots = np.hstack([x[:, :1], x, x[:, -1:]]), np.hstack([first, c, last])
        return cls(*knots, low, high, form=form)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def _samples(self) -> int:
        return self.values.shape[1] if self.form and self.form.kind == "samples" else 0

    @property
    def _tails(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Mass and scale of either tail, (n, 1); scales of tails without mass are arbitrary."""
        low, high = (np.where(s > 0.0, s, 1.0)[:, None] for s in (self.low, self.high))
        return self.c[:, :1], low, 1.0 - self.c[:, -1:], high

    def _cdf(self, x: Floats, before: bool) -> Floats:
        below, low, above, high = self._tails
        c = follow(self.x, self.c, x, equal=not before)
        left, right = np.minimum(x - self.x[:, :1], 0.0), np.maximum(x - self.x[:, -1:], 0.0)
        c = np.where(left < 0.0, below * np.exp(left / low), c)
        return np.where(right > 0.0, 1.0 - above * np.exp(-right / high), c)

    def _pdf(self, x: Floats) -> Floats:
        if self._samples:
            raise InputError(
                "Samples have no density, so no log score. Use crps(y), or pass the predictions in another form, "
                "such as from_quantiles or from_moments."
            )
        below, low, above, high = self._tails
        density = slope(self.x, self.c, x)
        left, right = np.minimum(x - self.x[:, :1], 0.0), np.maximum(x - self.x[:, -1:], 0.0)
        density = np.where(x <= self.x[:, :1], below / low * np.exp(left / low), density)
        return np.where(right > 0.0, above / high * np.exp(-right / high), density)

    def _ppf(self, u: Floats) -> Floats:
        if S := self._samples:
            step = np.clip(np.ceil(u * S - _STEP) - 1.0, 0.0, S - 1.0)
            return np.take_along_axis(self.values, step.astype(np.intp), axis=1)
        below, low, above, high = self._tails
        x = follow(self.c, self.x, u, equal=u <= 0.0)
        with np.errstate(divide="ignore"):
            left = low * np.log(np.where(u < below, ratio(u, below), 1.0))
            right = high * np.log(np.where(1.0 - u < above, ratio(1.0 - u, above), 1.0))
        return np.where(u < below, self.x[:, :1] + left, np.where(1.0 - u < above, self.x[:, -1:] - right, x))

    def _take(self, rows: Ints) -> PiecewiseLinear:
        parts = (a[rows] for a in (self.x, self.c, self.low, self.high))
        return PiecewiseLinear(*parts, form=self.form and self.form.take(rows))

    def _breaks(self) -> Floats:
        return self.c

    def _inside(self, of: Callable[[Floats, Floats, slice], Floats]) -> Floats:
        out = np.empty(len(self))
        for block in chunks(len(self), 4 * self.x.shape[1]):
            rows = slice(block[0], block[-1] + 1)  # views, not copies
            out[rows] = of(self.x[rows], self.c[rows], rows).sum(axis=1)
        return out

    def mean(self) -> Floats:
        """The means, (n,), exact."""
        below, low, above, high = self._tails
        inside = self._inside(lambda x, c, rows: np.diff(c, axis=1) * (x[:, 1:] + x[:, :-1])) / 2.0
        outside = below * (self.x[:, :1] - low) + above * (self.x[:, -1:] + high)
        return np.asarray(inside + outside[:, 0])

    def var(self) -> Floats:
        """The variances, (n,), exact; for samples with divisor S."""
        below, low, above, high = self._tails
        centre = self.mean()[:, None]
        inside = self._inside(lambda x, c, rows: np.diff(c, axis=1) * _squares(x - centre[rows])) / 3.0
        first, last = self.x[:, :1] - centre, self.x[:, -1:] - centre
        outside = below * ((first - low) ** 2 + low**2) + above * ((last + high) ** 2 + high**2)
        return np.asarray(inside + outside[:, 0])

    def crps(self, y: ArrayLike) -> Floats:
        """The continuous ranked probability score, (n,), exact: the integral of (F(x) − [x ≥ y])²."""
        truth = vector(y, "numbers y", n=len(self))[:, None]
        below, low, above, high = self._tails
        short, far = np.maximum(self.x[:, :1] - truth, 0.0), np.maximum(truth - self.x[:, -1:], 0.0)
        tails = _tail_crps(below, low, short) + _tail_crps(above, high, far)
        inside = self._inside(lambda x, c, rows: _inner_crps(x, c, truth[rows])) / 3.0
        return np.asarray(tails[:, 0] + inside)

    def reshaped(self, support: Intervals, masses: ArrayLike) -> Predictions:
        """As in `Predictions.reshaped`; samples give samples.

        S samples approximate each cumulative mass to 1/(2 S), and likewise the shape inside an interval, relative to
        its mass.
        """
        new = super().reshaped(support, masses)
        return _steps(new.values) if self._samples else new

    def _transported(self, support: Intervals, T: Transport) -> Predictions:
        """Piecewise linear again, with the boundaries as new knots, unless a boundary cuts through a tail."""
        below, _, above, _ = self._tails
        cut_low = (support.points[0] < self.x[:, :1]) & (below > 0.0)
        cut_high = (support.points[-1] > self.x[:, -1:]) & (above > 0.0)
        if self._samples or (cut_low | cut_high).any():
            return super()._transported(support, T)
        x = np.hstack([self.x, np.broadcast_to(support.points, (len(self), len(support.points)))])
        c = np.hstack([self.c, T.old[:, 1:-1]])
        order = np.lexsort((c, x), axis=1)
        x, c = np.take_along_axis(x, order, axis=1), np.take_along_axis(c, order, axis=1)
        return PiecewiseLinear(x, T.forward(np.maximum.accumulate(c, axis=1)), self.low, self.high)


def _squares(x: Floats) -> Floats:
    a, b = x[:, :-1], x[:, 1:]
    return np.asarray(a * a + a * b + b * b)


def _tail_crps(mass: Floats, scale: Floats, depth: Floats) -> Floats:
    """Contribution of a tail to the CRPS; ``depth`` is how far inside of it the truth lies."""
    return depth - 2.0 * mass * scale * -np.expm1(-depth / scale) + mass**2 * scale / 2.0


def _inner_crps(x: Floats, c: Floats, truth: Floats) -> Floats:
    """Three times the score of each segment: F is linear, so its square integrates to (a² + ab + b²) / 3."""
    left, right, a, b = x[:, :-1], x[:, 1:], c[:, :-1], c[:, 1:]
    middle = np.clip(truth, left, right)
    at = a + (b - a) * ratio(middle - left, right - left)
    lower = (middle - left) * (a * a + a * at + at * at)
    a, b = 1.0 - at, 1.0 - b
    upper = (right - middle) * (a * a + a * b + b * b)
    return np.asarray(lower + upper)


def from_quantiles(values: ArrayLike, levels: ArrayLike, *, crossing: Crossing = "error") -> PiecewiseLinear:
    """Predictive distributions from quantile columns.

    The quantile function is linear between two levels; equal quantiles are an atom. Beyond the outermost levels there
    are exponential tails that continue the density of the outermost segment. If that segment is an atom, the mass
    beyond it is added to the atom.

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
    u, q = _levels(levels), matrix(values, "quantiles")
    check_options(crossing=crossing)
    if q.shape[1] != len(u):
        raise InputError(
            f"There are {q.shape[1]} columns of quantiles but {len(u)} levels. Pass one level per column."
        )
    slack = ROUNDING * np.ptp(q, axis=1, keepdims=True) if q.size else 0.0
    crossed = (np.diff(q, axis=1) < -slack).any(axis=1)
    if crossing == "error" and crossed.any():
        raise InputError(
            f"The quantiles cross in {int(crossed.sum()):,} of {len(q):,} rows, the first is row "
            f"{int(crossed.argmax())}. Pass {option('crossing', 'sort')} to sort the quantiles of such rows, or check "
            "the order of the levels."
        )
    q = np.sort(q, axis=1)
    low = u[0] * (q[:, 1] - q[:, 0]) / (u[1] - u[0])
    high = (1.0 - u[-1]) * (q[:, -1] - q[:, -2]) / (u[-1] - u[-2])
    c, form = np.broadcast_to(u, q.shape), Form("quantiles", q, u)
    return PiecewiseLinear.through(q, c, low=low, high=high, form=form)


def from_cdf(values: ArrayLike, grid: ArrayLike, *, repair: bool = False) -> PiecewiseLinear:
    """Predictive distributions from distribution functions on a grid.

    They are linear between grid points. Mass below the first grid point is an atom at it. For an atom elsewhere,
    repeat its grid point: first with the probability below it, then with the probability up to it.

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
    check_options(repair=repair)
    x, c = _grid(grid), matrix(values, "distribution functions")
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
    zero, form = np.zeros(len(c)), Form("cdf", c, x)
    return PiecewiseLinear.through(np.broadcast_to(x, c.shape), c, low=zero, high=zero, form=form)


def from_samples(samples: ArrayLike) -> PiecewiseLinear:
    """Predictive distributions from samples, such as posterior draws or the members of an ensemble.

    The distribution function is the empirical step function; there is no density.

    Parameters
    ----------
    samples : (n, S)

    Examples
    --------
    >>> from fieldcal.objects import Intervals
    >>> from fieldcal.regression import from_samples
    >>> draws = from_samples([[3.0, 1.0, 2.0, 4.0]])
    >>> draws.cdf([2.0, 2.5]).tolist(), draws.ppf([0.5]).tolist()
    ([[0.5, 0.5]], [[2.0]])
    >>> draws.reshaped(Intervals.of([2.0]), [[0.25, 0.75]]).values.tolist()
    [[1.0, 3.0, 3.0, 4.0]]
    """
    values = matrix(samples, "samples")
    if not values.shape[1]:
        raise InputError("Each row needs at least one sample, but there are no columns.")
    return _steps(np.sort(values, axis=1))


def _steps(values: Floats) -> PiecewiseLinear:
    """Each sorted sample as an atom: two knots each."""
    n, S = values.shape
    x = np.repeat(values, 2, axis=1)
    levels = np.repeat(np.arange(S + 1) / S, 2)[1:-1]
    form = Form("samples", x[:, ::2], (np.arange(S) + 0.5) / S)
    return PiecewiseLinear(x, np.broadcast_to(levels, x.shape), np.zeros(n), np.zeros(n), form=form)


def from_masses(
    masses: ArrayLike, support: Intervals, *, low: float | None = None, high: float | None = None
) -> PiecewiseLinear:
    """Predictive distributions from the probabilities of intervals.

    Inside an interval the distribution is uniform; an atom is exact. The first and the last interval are unbounded:
    they get exponential tails that continue the density of the nearest interval with a width, or end at ``low`` and
    ``high``. The scale of a tail is at most the width of all inner intervals together, so that a nearly empty
    neighbour does not make it arbitrarily long.

    Parameters
    ----------
    masses : (n, K), rows sum to one
    support : with K intervals
    low, high : finite ends, outside of all boundaries

    Examples
    --------
    >>> from fieldcal.objects import Intervals
    >>> from fieldcal.regression import from_masses
    >>> support = Intervals.of([1.0], atoms=[0.0])
    >>> support.labels
    ('< 0', '0', '(0, 1]', '> 1')
    >>> one = from_masses([[0.1, 0.4, 0.3, 0.2]], support, low=-1.0)
    >>> one.cdf([-0.5, 0.0, 0.5, 1.0]).round(3).tolist()
    [[0.05, 0.5, 0.65, 0.8]]
    >>> round(float(one.mean()[0]), 4)
    0.4333
    """
    check_kind("support", support, Intervals)
    values = check_masses(matrix(masses, "masses"), support)
    left, right = _end(low, support, below=True), _end(high, support, below=False)
    n, points = len(values), np.concatenate([left, support.points, right])
    inner = np.minimum(np.cumsum(values, axis=1)[:, :-1], 1.0)
    c = np.hstack([np.zeros((n, len(left))), inner, np.ones((n, len(right)))])
    return PiecewiseLinear.through(
        np.broadcast_to(points, c.shape),
        c,
        low=np.zeros(n) if len(left) else _scale(values, support, first=True),
        high=np.zeros(n) if len(right) else _scale(values, support, first=False),
        form=Form("masses", values, support),
    )


def _end(end: float | None, support: Intervals, *, below: bool) -> Floats:
    if end is None:
        return np.empty(0)
    edge = float(support.points[0] if below else support.points[-1])
    end = as_number("low" if below else "high", end)
    if end >= edge if below else end <= edge:
        name, side = ("low", "below") if below else ("high", "above")
        raise InputError(f"{name}={end:g} must be finite and {side} the outermost boundary {edge:g}.")
    return np.array([float(end)])


def _scale(masses: Floats, support: Intervals, *, first: bool) -> Floats:
    """Scale of an open end: its mass over the density of the nearest interval with a width."""
    own = masses[:, 0] if first else masses[:, -1]
    widths = np.diff(support.points)
    wide = np.flatnonzero(widths > 0.0)
    if not own.any():
        return np.zeros(len(own))
    if not len(wide):
        raise InputError(
            f"The support {support.labels} has no inner interval with a width, so the extent of its open ends is "
            f"unknown. Pass {option('low', Word('...'))} and {option('high', Word('...'))}, or a support with more "
            "edges."
        )
    near = wide[0] if first else wide[-1]
    neighbour = masses[:, near + 1]
    cap = float(support.points[-1] - support.points[0])
    with np.errstate(divide="ignore", over="ignore"):
        raw = own * widths[near] / np.where(neighbour > 0.0, neighbour, np.nan)
    return np.fmin(np.where(own > 0.0, raw, 0.0), cap)


def _levels(levels: ArrayLike) -> Floats:
    u = vector(levels, "levels")
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
    x = vector(grid, "grid points")
    if len(x) < 2 or (np.diff(x) < 0.0).any() or (x[2:] == x[:-2]).any():
        raise InputError(
            "A grid needs at least two increasing points, and a point at most twice (for an atom), but is "
            f"{str(x.tolist())[:60]}. Sort the grid and the columns with it."
        )
    return x


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
                f"check the columns, or pass {option('repair', True)} to straighten and rescale such rows."
            )
