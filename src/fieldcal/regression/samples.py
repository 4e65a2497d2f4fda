"""Predictions that come as samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.errors import InputError
from fieldcal.objects import Support
from fieldcal.regression import checks
from fieldcal.regression.checks import Floats, Ints
from fieldcal.regression.predictions import Predictions
from fieldcal.regression.transport import passed

#: Levels this many samples above a step are rounding, and still belong to the step.
_STEP = 1e-9


@dataclass(frozen=True, eq=False)
class Samples(Predictions):
    """S samples of each row, ``values`` (n, S), sorted. The distribution function is the usual step function."""

    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        """How many samples a row has."""
        return int(self.values.shape[1])

    def _cdf(self, x: Floats, before: bool) -> Floats:
        return np.asarray(passed(self.values, x, equal=not before) / self.size)

    def _pdf(self, x: Floats) -> Floats:
        raise InputError(
            "Samples have no density, and so no log score. Use crps(y), or give the predictions in another form, "
            "such as from_quantiles or from_moments."
        )

    def _ppf(self, u: Floats) -> Floats:
        step = np.clip(np.ceil(u * self.size - _STEP) - 1.0, 0.0, self.size - 1.0)
        return np.take_along_axis(self.values, step.astype(np.intp), axis=1)

    def _take(self, rows: Ints) -> Samples:
        return Samples(self.values[rows])

    def mean(self) -> Floats:
        """The means, (n,), exact."""
        return np.asarray(self.values.mean(axis=1))

    def var(self) -> Floats:
        """The variances, (n,), exact for the step function: divided by S."""
        return np.asarray(self.values.var(axis=1))

    def crps(self, y: ArrayLike) -> Floats:
        """The continuous ranked probability score, (n,), exact: E|X − y| − E|X − X'| / 2."""
        truth = checks.vector(y, "numbers y", n=len(self))[:, None]
        ranks = 2.0 * np.arange(1, self.size + 1) - self.size - 1.0
        out = np.empty(len(self))
        for rows in checks.chunks(len(self), 2 * self.size):
            x = self.values[rows]
            out[rows] = np.abs(x - truth[rows]).mean(axis=1) - (x @ ranks) / self.size**2
        return out

    def reshaped(self, support: Support, masses: ArrayLike) -> Samples:
        """As many samples, in order, with new masses of the intervals: as near to them as S samples come.

        Each cumulative mass is met within 1/(2 S), and so is the shape inside an interval, relative to its mass.
        """
        T = self._transport(support, masses)
        u = (np.arange(self.size) + 0.5) / self.size
        out = np.empty_like(self.values)
        for rows in checks.chunks(len(self), 4 * self.size):
            level = np.broadcast_to(u, (len(rows), self.size))
            out[rows] = self._take(rows)._ppf(T.take(rows).backward(level))
        return Samples(out)


def from_samples(samples: ArrayLike) -> Samples:
    """Predictive distributions from samples, such as posterior draws or the members of an ensemble.

    Parameters
    ----------
    samples : (n, S)

    Examples
    --------
    >>> from fieldcal.objects import Support
    >>> from fieldcal.regression import from_samples
    >>> draws = from_samples([[3.0, 1.0, 2.0, 4.0]])
    >>> draws.cdf([2.0, 2.5]).tolist(), draws.ppf([0.5]).tolist()
    ([[0.5, 0.5]], [[2.0]])
    >>> draws.reshaped(Support.of([2.0]), [[0.25, 0.75]]).values.tolist()
    [[1.0, 3.0, 3.0, 4.0]]
    """
    values = checks.matrix(samples, "samples")
    if not values.shape[1]:
        raise InputError("Each row needs at least one sample, but there are no columns.")
    return Samples(np.sort(values, axis=1))
