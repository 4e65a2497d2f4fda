"""Lines: distribution functions of straight lines and jumps, with exponential tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.objects import Support
from fieldcal.regression import checks
from fieldcal.regression.checks import Floats, Ints
from fieldcal.regression.predictions import Predictions
from fieldcal.regression.transport import Transport, follow, ratio, slope


@dataclass(frozen=True, eq=False)
class Lines(Predictions):
    """The distribution function runs straight through the knots (``x``, ``c``), both (n, P).

    Two knots at the same x are an atom. Below the first knot lies ``c[:, 0]`` in an exponential tail of scale ``low``,
    above the last one the rest in one of scale ``high``, both (n,). Build it with ``through``.
    """

    x: Floats
    c: Floats
    low: Floats
    high: Floats

    @classmethod
    def through(cls, x: Floats, c: Floats, *, low: Floats, high: Floats) -> Lines:
        """A scale of 0 makes the mass beyond the end an atom at the end.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldcal.regression.lines import Lines
        >>> x, c = np.array([[0.0, 2.0]]), np.array([[0.5, 0.9]])
        >>> line = Lines.through(x, c, low=np.array([0.0]), high=np.array([1.0]))
        >>> line.cdf([-1.0, 0.0, 1.0, 3.0]).round(3).tolist()
        [[0.0, 0.5, 0.7, 0.963]]
        """
        first = np.where(low[:, None] > 0.0, c[:, :1], 0.0)
        last = np.where(high[:, None] > 0.0, c[:, -1:], 1.0)
        return cls(np.hstack([x[:, :1], x, x[:, -1:]]), np.hstack([first, c, last]), low, high)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def _tails(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Mass and scale of either tail, (n, 1); a tail without mass has some scale."""
        low, high = (np.where(s > 0.0, s, 1.0)[:, None] for s in (self.low, self.high))
        return self.c[:, :1], low, 1.0 - self.c[:, -1:], high

    def _cdf(self, x: Floats, before: bool) -> Floats:
        below, low, above, high = self._tails
        c = follow(self.x, self.c, x, equal=not before)
        left, right = np.minimum(x - self.x[:, :1], 0.0), np.maximum(x - self.x[:, -1:], 0.0)
        c = np.where(left < 0.0, below * np.exp(left / low), c)
        return np.where(right > 0.0, 1.0 - above * np.exp(-right / high), c)

    def _pdf(self, x: Floats) -> Floats:
        below, low, above, high = self._tails
        density = slope(self.x, self.c, x)
        left, right = np.minimum(x - self.x[:, :1], 0.0), np.maximum(x - self.x[:, -1:], 0.0)
        density = np.where(x <= self.x[:, :1], below / low * np.exp(left / low), density)
        return np.where(right > 0.0, above / high * np.exp(-right / high), density)

    def _ppf(self, u: Floats) -> Floats:
        below, low, above, high = self._tails
        x = follow(self.c, self.x, u, equal=u <= 0.0)
        with np.errstate(divide="ignore"):
            left = low * np.log(np.where(u < below, ratio(u, below), 1.0))
            right = high * np.log(np.where(1.0 - u < above, ratio(1.0 - u, above), 1.0))
        return np.where(u < below, self.x[:, :1] + left, np.where(1.0 - u < above, self.x[:, -1:] - right, x))

    def _take(self, rows: Ints) -> Lines:
        return Lines(self.x[rows], self.c[rows], self.low[rows], self.high[rows])

    def _breaks(self) -> Floats:
        return self.c

    def mean(self) -> Floats:
        """The means, (n,), exact."""
        below, low, above, high = self._tails
        inside = (np.diff(self.c, axis=1) * (self.x[:, 1:] + self.x[:, :-1])).sum(axis=1) / 2.0
        outside = below * (self.x[:, :1] - low) + above * (self.x[:, -1:] + high)
        return np.asarray(inside + outside[:, 0])

    def var(self) -> Floats:
        """The variances, (n,), exact."""
        below, low, above, high = self._tails
        x = self.x - self.mean()[:, None]
        a, b = x[:, :-1], x[:, 1:]
        inside = (np.diff(self.c, axis=1) * (a * a + a * b + b * b)).sum(axis=1) / 3.0
        outside = below * ((x[:, :1] - low) ** 2 + low**2) + above * ((x[:, -1:] + high) ** 2 + high**2)
        return np.asarray(inside + outside[:, 0])

    def crps(self, y: ArrayLike) -> Floats:
        """The continuous ranked probability score, (n,), exact: the integral of (F(x) − [x ≥ y])²."""
        truth = checks.vector(y, "numbers y", n=len(self))[:, None]
        below, low, above, high = self._tails
        short, far = np.maximum(self.x[:, :1] - truth, 0.0), np.maximum(truth - self.x[:, -1:], 0.0)
        tails = _tail_crps(below, low, short) + _tail_crps(above, high, far)
        out = tails[:, 0]
        for rows in checks.chunks(len(self), 4 * self.x.shape[1]):
            out[rows] += _inner_crps(self.x[rows], self.c[rows], truth[rows])
        return out

    def reshaped(self, support: Support, masses: ArrayLike) -> Predictions:
        """With new masses of the intervals: lines again, unless a boundary cuts through a tail."""
        below, _, above, _ = self._tails
        cut_low = (support.points[0] < self.x[:, :1]) & (below > 0.0)
        cut_high = (support.points[-1] > self.x[:, -1:]) & (above > 0.0)
        if (cut_low | cut_high).any():
            return super().reshaped(support, masses)
        return self._bent(support, self._transport(support, masses))

    def _bent(self, support: Support, T: Transport) -> Lines:
        """The boundaries become knots, as the line bends there."""
        shape = (len(self), len(support.points))
        x = np.hstack([self.x, np.broadcast_to(support.points, shape)])
        c = np.hstack([self.c, T.old[:, 1:-1]])
        order = np.lexsort((c, x), axis=1)
        x, c = np.take_along_axis(x, order, axis=1), np.take_along_axis(c, order, axis=1)
        return Lines(x, T.forward(np.maximum.accumulate(c, axis=1)), self.low, self.high)


def _tail_crps(mass: Floats, scale: Floats, depth: Floats) -> Floats:
    """What a tail adds; ``depth`` is how far the truth lies inside of it."""
    return depth - 2.0 * mass * scale * -np.expm1(-depth / scale) + mass**2 * scale / 2.0


def _inner_crps(x: Floats, c: Floats, truth: Floats) -> Floats:
    """Between the knots F is linear, so its square integrates to a third of (a² + ab + b²)."""
    left, right, a, b = x[:, :-1], x[:, 1:], c[:, :-1], c[:, 1:]
    middle = np.clip(truth, left, right)
    at = a + (b - a) * ratio(middle - left, right - left)
    lower = (middle - left) * (a * a + a * at + at * at)
    a, b = 1.0 - at, 1.0 - b
    upper = (right - middle) * (a * a + a * b + b * b)
    return np.asarray((lower + upper).sum(axis=1) / 3.0)
