"""Reshaped: any predictive distributions, seen through the map T."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldcal.errors import InputError
from fieldcal.regression.predictions import Predictions
from fieldcal.regression.quadrature import FIRST, LAST
from fieldcal.regression.transport import Transport
from fieldcal.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Reshaped(Predictions):
    """Distributions whose cumulative masses at some boundaries went from ``old`` to ``new``, both (n, K − 1).

    Nothing is computed before it is asked for. Reshaping again puts one map after the other.

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
    old: Floats
    new: Floats

    def __post_init__(self) -> None:
        if self.old.shape != self.new.shape or len(self.old) != len(self.base):
            raise InputError(
                f"Old and new cumulative masses must have {len(self.base):,} rows and the same columns, but have "
                f"shapes {self.old.shape} and {self.new.shape}. Use predictions.reshaped(support, masses)."
            )

    def __len__(self) -> int:
        return len(self.base)

    @cached_property
    def transport(self) -> Transport:
        """The map T from levels of the base to levels of this."""
        return Transport.between(self.old, self.new)

    def _cdf(self, x: Floats, before: bool) -> Floats:
        return self.transport.forward(self.base._cdf(x, before))

    def _pdf(self, x: Floats) -> Floats:
        return self.transport.steepness(self.base._cdf(x, True)) * self.base._pdf(x)

    def _ppf(self, u: Floats) -> Floats:
        levels = self.transport.backward(u)
        # A level inside (0, 1) must not round to an end, where quantiles are infinite.
        inside = np.clip(levels, FIRST, LAST)
        return self.base._ppf(np.where((u > 0.0) & (u < 1.0), inside, levels))

    @property
    def _divisible(self) -> bool:
        return self.base._divisible

    def _take(self, rows: Ints) -> Reshaped:
        return Reshaped(self.base._take(rows), self.old[rows], self.new[rows])

    def _breaks(self) -> Floats:
        return np.hstack([self.new, self.transport.forward(self.base._breaks())])
