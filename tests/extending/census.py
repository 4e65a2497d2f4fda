"""A prior from outside: what a census says of the prevalences, and that a class is not above what it can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fieldcal.core.priors import register
from fieldcal.core.problem import Penalty
from fieldcal.priors import Prior


@dataclass(frozen=True)
class Excess:
    """``strength × max(p_k − most, 0)³``: convex, and smooth enough for Newton."""

    strength: float
    most: float

    def value(self, p):
        return self.strength * (np.maximum(p - self.most, 0) ** 3).sum(axis=-1)

    def gradient(self, p):
        return 3 * self.strength * np.maximum(p - self.most, 0) ** 2


@register
@dataclass(frozen=True)
class Census(Prior):
    shares: tuple[float, ...]
    rows: float = 50.0
    most: float = 1.0
    name: ClassVar[str] = "census"

    def penalty(self, problem):
        excess = (Excess(1e4, self.most),) if self.most < 1 else ()
        return Penalty.of(problem, classes=self.rows * np.asarray(self.shares), terms=excess)
