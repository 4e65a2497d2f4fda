"""Predictions: what every form of predictive distributions of a number can do, for n rows at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.errors import InputError
from fieldcal.objects import Intervals
from fieldcal.regression import checks
from fieldcal.regression.quadrature import panels, width
from fieldcal.regression.transport import Transport
from fieldcal.types import Floats, Ints

#: A jump of the distribution function below this is rounding, not an atom.
_ATOM = 1e-12


class Predictions(ABC):
    """n predictive distributions of a number.

    Points are (P,), the same for all rows, or (n, P); answers are (n, P). Means, variances and the CRPS are exact
    where the form allows it. Otherwise they are integrals over quantile levels, with a relative error below 1e-4 for
    normal, logistic, Laplace, gamma and Student (5) distributions, and of at most 3e-3 for a lognormal one as skew as
    σ = 1.5.

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
        """Whether rows can be taken, so that long work can be done in blocks."""
        return True

    def _breaks(self) -> Floats:
        """Levels, (n, B), where the quantile function bends or jumps."""
        return np.empty((len(self), 0))

    def cdf(self, x: ArrayLike, *, before: bool = False) -> Floats:
        """The probability of a number up to x; of one below x where ``before``. They differ at atoms alone."""
        return self._in_blocks(lambda part, at: part._cdf(at, before), checks.points(x, len(self), "points"))

    def pdf(self, x: ArrayLike) -> Floats:
        """The density; that of the part without atoms where there are some."""
        return self._in_blocks(lambda part, at: part._pdf(at), checks.points(x, len(self), "points"))

    def ppf(self, u: ArrayLike) -> Floats:
        """The smallest number whose distribution function reaches u."""
        return self._in_blocks(lambda part, at: part._ppf(at), checks.levels(u, len(self)))

    def predict_quantiles(self, alpha: ArrayLike) -> Floats:
        """The same as ``ppf``, under its name in skpro."""
        return self.ppf(alpha)

    def interval(self, coverage: float) -> Floats:
        """The central interval that holds the number with this probability, (n, 2)."""
        share = float(coverage)
        if not 0.0 < share < 1.0:
            raise InputError(f"A coverage lies between 0 and 1, but is {share:g}. For 90 %, pass 0.9.")
        return self.ppf([(1.0 - share) / 2.0, (1.0 + share) / 2.0])

    def predict_interval(self, coverage: float) -> Floats:
        """The same as ``interval``, under its name in skpro."""
        return self.interval(coverage)

    def sample(self, size: int, *, random_state: int | np.random.Generator = 0) -> Floats:
        """Random numbers from each distribution, (n, size)."""
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
        """Means and standard deviations."""
        return self.mean(), self.sd()

    def crps(self, y: ArrayLike) -> Floats:
        """The continuous ranked probability score, twice the integral of the pinball loss over all levels; (n,)."""
        truth = checks.vector(y, "numbers y", n=len(self))[:, None]
        breaks = np.hstack([self._breaks(), self._cdf(truth, False)])
        return self._expectation(
            lambda q, u, rows: 2.0 * np.where(q < truth[rows], u, u - 1.0) * (truth[rows] - q), breaks
        )

    def log_score(self, y: ArrayLike) -> Floats:
        """Minus the logarithm of the density at y, (n,); infinite where a prediction excludes y.

        At an atom it is minus the logarithm of its mass. A mass is not a density: average such scores, and compare
        them, only among predictions with atoms at the same numbers.
        """
        truth = checks.vector(y, "numbers y", n=len(self))[:, None]
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
        """Some of the rows: a slice, a mask, or their numbers, which may repeat."""
        return self._take(checks.index(rows, len(self)))

    def reshaped(self, support: Intervals, masses: ArrayLike) -> Predictions:
        """The distributions with new masses of the intervals, and the same shape inside each of them.

        An interval without mass has no shape, so it cannot get any.
        """
        from fieldcal.regression.reshaped import Reshaped  # a Predictions itself

        T = self._transport(support, masses)
        return Reshaped(self, T.old[:, 1:-1], T.new[:, 1:-1])

    def _transport(self, support: Intervals, masses: ArrayLike) -> Transport:
        old = self.cumulative(support)
        new = checks.interval_masses(masses, support, n=len(self))
        new = checks.without_new_support(new, np.diff(old, axis=1, prepend=0.0, append=1.0), support)
        return Transport.between(old, np.clip(np.cumsum(new, axis=1)[:, :-1], 0.0, 1.0))

    def _expectation(self, of: Callable[[Floats, Floats, Ints], Floats], breaks: Floats) -> Floats:
        """The integral over all levels u of a function of quantile, level and row."""
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
        """Rows in blocks of which arrays of that width are small, if rows can be taken."""
        blocks = list(checks.chunks(len(self), wide))
        return blocks if self._divisible else [np.arange(len(self), dtype=np.intp)]
