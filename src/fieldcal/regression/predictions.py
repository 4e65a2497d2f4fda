"""Predictions: the common interface of n predictive distributions of a number, in any form.

`Form` keeps the columns in which they were given, `Reshaped` is any of them with new masses of intervals, and the
functions at the end validate input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Intervals
from fieldcal.options import MOST, as_number, check_options, check_whole
from fieldcal.regression.intervals import Transport, check_masses, without_new_support
from fieldcal.types import Floats, Ints

_ORDER = 24
#: The first and the last level inside (0, 1).
FIRST, LAST = 1e-300, 1.0 - 2.0**-53


def _rule() -> tuple[Floats, Floats]:
    """Gauss–Legendre nodes, concentrated by a substitution at both ends, where quantiles may be infinite."""
    t, w = np.polynomial.legendre.leggauss(_ORDER)
    t, w = (t + 1.0) / 2.0, w / 2.0
    return t**3 * (10.0 - 15.0 * t + 6.0 * t**2), w * 30.0 * t**2 * (1.0 - t) ** 2


_NODES, _WEIGHTS = _rule()


def width(n_breaks: int) -> int:
    """Number of levels for a row with that many breaks."""
    return (n_breaks + 1) * _ORDER


def panels(breaks: Floats) -> tuple[Floats, Floats]:
    """Levels and weights, (n, P), for integrals over (0, 1) of functions that are smooth between the breaks.

    Exact for polynomials of degree 8 between breaks. For logarithmic or square-root singularities at 0 or 1, as in
    quantile functions of the usual families, the error is about 1e-7.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.regression.predictions import panels
    >>> u, w = panels(np.array([[0.25]]))
    >>> round(float((w * np.abs(u - 0.25)).sum()), 12)
    0.3125
    """
    zero, one = np.zeros((len(breaks), 1)), np.ones((len(breaks), 1))
    edges = np.hstack([zero, np.sort(breaks, axis=1), one])
    gaps = np.diff(edges, axis=1)[:, :, None]
    u = edges[:, :-1, None] + gaps * _NODES
    shape = (len(breaks), width(breaks.shape[1]))
    return np.clip(u.reshape(shape), FIRST, LAST), (gaps * _WEIGHTS).reshape(shape)


#: Approximate size of work arrays, whatever the number of rows.
WORK = 4_000_000
#: A smaller jump of the distribution function is a rounding error, not an atom.
_ATOM = 1e-12


@dataclass(frozen=True, eq=False)
class Form:
    """The columns ``values``, (n, P), in which distributions were given, so that results have the same form.

    ``at`` are their positions: the levels of "quantiles", the grid of a "cdf", the support of "masses". "samples" are
    sorted, with levels (i + 1/2) / S.
    """

    kind: Literal["quantiles", "cdf", "masses", "samples"]
    values: Floats
    at: Any

    def read(self, new: Predictions, support: Intervals, masses: ArrayLike) -> Form:
        """The same columns of ``new``, distributions with these masses."""
        if self.kind == "masses":
            own = np.array_equal(support.points, self.at.points) and np.array_equal(
                support.before, self.at.before
            )
            return replace(self, values=numbers(masses, "masses") if own else new.masses(self.at))
        if self.kind == "cdf":
            left = np.append(
                self.at[:-1] == self.at[1:], False
            )  # the first of two equal points is the limit from below
            values = np.where(left, new.cdf(self.at, before=True), new.cdf(self.at))
        else:
            values = new.ppf(self.at)
        return replace(self, values=np.maximum.accumulate(values, axis=1))

    def take(self, rows: Ints) -> Form:
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, eq=False)
class Predictions(ABC):
    """n predictive distributions of a number.

    Points are (P,), the same for all rows, or (n, P); results are (n, P). Means, variances and the CRPS are exact if
    the form allows it. Otherwise they are integrals over quantile levels, with a relative error below 1e-4 for normal,
    logistic, Laplace, gamma and Student (5) distributions, and of at most 3e-3 for a lognormal one with σ = 1.5.

    Examples
    --------
    >>> from fieldcal.regression import from_moments
    >>> two = from_moments([0.0, 1.0], [1.0, 2.0])
    >>> len(two), two.cdf([0.0, 1.0]).round(3).tolist()
    (2, [[0.5, 0.841], [0.309, 0.5]])
    >>> two.interval(0.9).round(2).tolist()
    [[-1.64, 1.64], [-2.29, 4.29]]
    >>> two.crps([0.0, 3.0]).round(4).tolist()
    [0.2337, 1.2049]
    """

    _: KW_ONLY
    form: Form | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _cdf(self, x: Floats, before: bool) -> Floats: ...

    @abstractmethod
    def _pdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _ppf(self, u: Floats) -> Floats: ...

    @abstractmethod
    def _take(self, rows: Ints) -> Self: ...

    @property
    def _divisible(self) -> bool:
        return True

    def _breaks(self) -> Floats:
        """Levels, (n, B), at which the quantile function has a kink or a jump."""
        return np.empty((len(self), 0))

    @property
    def values(self) -> Floats:
        """The columns in the given form: quantiles, distribution functions, masses or samples.

        After reweighting they are those of the new distributions. The object also keeps the boundaries between
        columns, so masses stay exact; distributions made from the values alone interpolate linearly across such
        boundaries.
        """
        if self.form is None:
            raise InputError(
                "These distributions were not given in columns, so they have no values. Use ppf(levels), cdf(grid) "
                "or masses(support)."
            )
        return self.form.values

    def cdf(self, x: ArrayLike, *, before: bool = False) -> Floats:
        """The probability of a number up to x, or below x with ``before``; the two differ at atoms only."""
        check_options(before=before)
        return self._in_blocks(lambda part, at: part._cdf(at, before), _points(x, len(self), "points"))

    def pdf(self, x: ArrayLike) -> Floats:
        """The density; with atoms, that of the continuous part."""
        return self._in_blocks(lambda part, at: part._pdf(at), _points(x, len(self), "points"))

    def ppf(self, u: ArrayLike) -> Floats:
        """The smallest number whose distribution function reaches u."""
        return self._in_blocks(lambda part, at: part._ppf(at), _levels(u, len(self)))

    def predict_quantiles(self, alpha: ArrayLike) -> Floats:
        """As ``ppf``, under skpro's name."""
        return self.ppf(alpha)

    def interval(self, coverage: float) -> Floats:
        """The central interval with this probability, (n, 2)."""
        share = as_number("coverage", coverage, least=0, words="a probability")
        if not 0.0 < share < 1.0:
            raise InputError(f"A coverage lies between 0 and 1, but is {share:g}. For 90 %, pass 0.9.")
        return self.ppf([(1.0 - share) / 2.0, (1.0 + share) / 2.0])

    def predict_interval(self, coverage: float) -> Floats:
        """As ``interval``, under skpro's name."""
        return self.interval(coverage)

    def sample(self, size: int, *, random_state: int | np.random.Generator = 0) -> Floats:
        """Random numbers from each distribution, (n, size)."""
        check_whole("size", size, least=0, most=MOST // max(len(self), 1))
        if not isinstance(random_state, np.random.Generator):
            check_whole("random_state", random_state, least=0)
        u = np.random.default_rng(random_state).random((len(self), size))
        return self.ppf(np.maximum(u, 2.0**-54))

    def mean(self) -> Floats:
        """The means, (n,)."""
        return self._expectation(lambda q, u, rows: q, self._breaks())

    def var(self) -> Floats:
        """The variances, (n,)."""
        centre = self.mean()[:, None]
        return self._expectation(lambda q, u, rows: (q - centre[rows]) ** 2, self._breaks())

    def sd(self) -> Floats:
        """The standard deviations, (n,)."""
        return np.sqrt(self.var())

    def moments(self) -> tuple[Floats, Floats]:
        return self.mean(), self.sd()

    def crps(self, y: ArrayLike) -> Floats:
        """The continuous ranked probability score, (n,): twice the integral of the pinball loss over all levels."""
        truth = vector(y, "numbers y", n=len(self))[:, None]
        breaks = np.hstack([self._breaks(), self._cdf(truth, False)])
        return self._expectation(
            lambda q, u, rows: 2.0 * np.where(q < truth[rows], u, u - 1.0) * (truth[rows] - q), breaks
        )

    def log_score(self, y: ArrayLike) -> Floats:
        """Minus the logarithm of the density at y, (n,); infinite if a prediction excludes y.

        At an atom, minus the logarithm of its mass. A mass is not a density: average and compare such scores only
        among predictions with atoms at the same numbers.
        """
        truth = vector(y, "numbers y", n=len(self))[:, None]
        mass = self._cdf(truth, False) - self._cdf(truth, True)
        likelihood = np.where(mass > _ATOM, mass, self._pdf(truth))[:, 0]
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(likelihood))

    def cumulative(self, support: Intervals) -> Floats:
        """The probability below each boundary of the support, (n, K − 1)."""
        out = np.empty((len(self), len(support.points)))
        for side in (True, False):
            chosen = support.before == side
            if chosen.any():
                out[:, chosen] = self.cdf(support.points[chosen], before=side)
        return np.maximum.accumulate(np.clip(out, 0.0, 1.0), axis=1)

    def masses(self, support: Intervals) -> Floats:
        """The probability of each interval, (n, K)."""
        c = self.cumulative(support)
        return np.diff(c, axis=1, prepend=0.0, append=1.0)

    def take(self, rows: Any) -> Self:
        """The given rows: a slice, a mask, or indices, which may repeat."""
        try:
            index = np.atleast_1d(np.arange(len(self), dtype=np.intp)[rows])
        except (IndexError, ValueError, TypeError):
            raise InputError(f"These are not rows of {len(self):,} predictions: {str(rows)[:60]}.") from None
        return self._take(index)

    def reshaped(self, support: Intervals, masses: ArrayLike) -> Predictions:
        """The distributions with new masses of the intervals and the same shape inside each interval.

        Columns stay columns: quantiles at the same levels, distribution functions on the same grid, masses of the same
        intervals, as many samples. An interval without mass has no shape, so its new mass must be 0.

        Examples
        --------
        >>> from fieldcal.objects import Intervals
        >>> from fieldcal.regression import from_quantiles
        >>> old = from_quantiles([[0.0, 1.0, 3.0]], [0.25, 0.5, 0.75])
        >>> old.reshaped(Intervals.of([1.0]), [[0.25, 0.75]]).values.round(4).tolist()
        [[1.0, 2.3333, 3.8109]]
        """
        old = self.cumulative(support)
        asked = check_masses(matrix(masses, "masses"), support, n=len(self))
        asked = without_new_support(asked, np.diff(old, axis=1, prepend=0.0, append=1.0), support)
        T = Transport.between(old, np.clip(np.cumsum(asked, axis=1)[:, :-1], 0.0, 1.0))
        new = self._transported(support, T)
        return new if self.form is None else replace(new, form=self.form.read(new, support, masses))

    def _transported(self, support: Intervals, T: Transport) -> Predictions:
        return Reshaped(self, T)

    def _expectation(self, of: Callable[[Floats, Floats, Ints], Floats], breaks: Floats) -> Floats:
        blocks = self._blocks(width(breaks.shape[1]))
        out = np.empty(len(self))
        for rows in blocks:
            part = self if len(blocks) == 1 else self._take(rows)
            u, weight = panels(breaks[rows])
            q = np.where(weight > 0.0, part._ppf(u), 0.0)
            out[rows] = (weight * of(q, u, rows)).sum(axis=1)
        return out

    def _in_blocks(self, do: Callable[[Self, Floats], Floats], at: Floats) -> Floats:
        blocks = self._blocks(at.shape[1])
        if len(blocks) <= 1:
            return do(self, at)
        out = np.empty(at.shape)
        for rows in blocks:
            out[rows] = do(self._take(rows), at[rows])
        return out

    def _blocks(self, wide: int) -> list[Ints]:
        blocks = list(chunks(len(self), wide))
        return blocks if self._divisible else [np.arange(len(self), dtype=np.intp)]


@dataclass(frozen=True, eq=False)
class Reshaped(Predictions):
    """Predictive distributions, ``base``, transformed by the map T from old to new cumulative masses.

    Evaluated lazily. Reshaping again composes the maps.

    Examples
    --------
    >>> from fieldcal.objects import Intervals
    >>> from fieldcal.regression import from_moments
    >>> halves = Intervals.of([0.0])
    >>> new = from_moments([0.0], [1.0]).reshaped(halves, [[0.2, 0.8]])
    >>> new.masses(halves).tolist()
    [[0.2, 0.8]]
    >>> [x.round(4).tolist() for x in new.moments()]
    [[0.4787], [0.878]]
    """

    base: Predictions
    T: Transport

    def __len__(self) -> int:
        return len(self.base)

    def _cdf(self, x: Floats, before: bool) -> Floats:
        return self.T.forward(self.base._cdf(x, before))

    def _pdf(self, x: Floats) -> Floats:
        return self.T.steepness(self.base._cdf(x, True)) * self.base._pdf(x)

    def _ppf(self, u: Floats) -> Floats:
        levels = self.T.backward(u)
        # A level inside (0, 1) must not be rounded to an end, where quantiles are infinite.
        inside = np.clip(levels, FIRST, LAST)
        return self.base._ppf(np.where((u > 0.0) & (u < 1.0), inside, levels))

    @property
    def _divisible(self) -> bool:
        return self.base._divisible

    def _take(self, rows: Ints) -> Reshaped:
        form = self.form and self.form.take(rows)
        return Reshaped(self.base._take(rows), self.T.take(rows), form=form)

    def _breaks(self) -> Floats:
        return np.hstack([self.T.new[:, 1:-1], self.T.forward(self.base._breaks())])


def chunks(n: int, width: int) -> Iterator[Ints]:
    """Row indices in blocks, so that arrays of that width stay below the size of work arrays."""
    step = max(1, WORK // max(width, 1))
    for start in range(0, n, step):
        yield np.arange(start, min(start + step, n), dtype=np.intp)


def numbers(values: Any, what: str) -> Floats:
    """The values as float64; anything that is not a number is refused."""
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
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(
            f"The {what} must be numbers in rows of equal length, but are {str(values)[:60]!r}. "
            "Convert them with np.asarray(..., dtype=float) first."
        ) from None


def matrix(values: Any, what: str) -> Floats:
    """A matrix with one row per prediction, all finite."""
    array = numbers(values, what)
    if array.ndim != 2:
        raise InputError(
            f"The {what} must have one row per prediction, but have shape {array.shape}. "
            "For a single prediction, pass a list with that one row."
        )
    _refuse_infinite(array, what)
    return array


def vector(values: Any, what: str, *, n: int | None = None) -> Floats:
    """A vector with one finite number per row (or per column)."""
    array = numbers(values, what)
    if array.ndim != 1 or (n is not None and len(array) != n):
        wanted = "in one list" if n is None else f"one for each of the {n:,} rows"
        raise InputError(f"The {what} must be {wanted}, but have shape {array.shape}. Check what was passed.")
    _refuse_infinite(array, what)
    return array


def _refuse_infinite(array: Floats, what: str) -> None:
    bad = np.asarray(~np.isfinite(array))
    if bad.any():
        rows = np.asarray(bad.reshape(len(array), -1).any(axis=1))
        raise InputError(
            f"{int(rows.sum()):,} of {len(rows):,} rows of the {what} hold NaN or infinity, the first is row "
            f"{int(rows.argmax())}. Drop those rows, or find out why the model left them empty."
        )


def _points(x: ArrayLike, n: int, what: str) -> Floats:
    """Points of evaluation, (P,) or (n, P); NaN is refused, infinity is not."""
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


def _levels(u: ArrayLike, n: int) -> Floats:
    array = _points(u, n, "quantile levels")
    if array.size and (array.min() < 0.0 or array.max() > 1.0):
        worst = array.max() if array.max() > 1.0 else array.min()
        raise InputError(
            f"Quantile levels must lie in [0, 1], but reach {worst:.4g}. If these are percent, divide by 100."
        )
    return array
