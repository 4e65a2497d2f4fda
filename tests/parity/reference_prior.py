"""The prior of the authors' R code, which fieldcal does not offer: a prior from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import fieldcal
from fieldcal.core.problem import Penalty, Problem


@dataclass(frozen=True)
class Reference(fieldcal.Prior):
    """``strength × KL(colSums(M) ‖ p @ M)``: ``strength × colSums(M)`` pseudo-rows per bin.

    Differs from the paper: the divergence is taken on bins, and its first argument sums to the number of classes and
    not to one, so it pulls to equal prevalences and not to those of the lab.
    """

    strength: float
    name: ClassVar[str] = "reference"

    def penalty(self, problem: Problem) -> Penalty:
        return Penalty.of(problem, bins=self.strength * problem.M.sum(axis=0))
