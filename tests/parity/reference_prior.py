"""The prior of the authors' R code, which fieldcal does not offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fieldcal.core.priors import Penalty


@dataclass(frozen=True)
class Reference:
    """``strength × KL(colSums(M) ‖ p @ M)``: ``strength × colSums(M)`` pseudo-rows per bin.

    Differs from the paper: the divergence is taken on bins, and its first argument sums to the number of classes and
    not to one, so it pulls to equal prevalences and not to those of the lab.
    """

    strength: float
    name: ClassVar[str] = "reference"

    def penalty(self, M: np.ndarray, p_lab: np.ndarray) -> Penalty:
        return Penalty(self.strength * M.sum(axis=0), np.zeros(len(M)), 0.0, p_lab)
