"""A test of published sensitivity and specificity: a survey's prevalence, beside Wald on Rogan–Gladen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benchmarks.few_labels.files import LEVEL, rng_of
from benchmarks.judges import ours
from benchmarks.judges.contest import Settings
from benchmarks.judges.tally import Answer, Tallies
from scipy.stats import norm

SURVEYED = 1000
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)
TESTS = ((0.7, 0.7), (0.7, 0.95), (0.85, 0.85), (0.95, 0.95), (0.9, 0.99), (0.99, 0.9), (0.99, 0.99))
VALIDATED = (30, 100, 400)


@dataclass(frozen=True)
class Cell:
    sensitivity: float
    specificity: float
    share: float
    validated: int  # rows of each class by which the test's rates were measured

    @property
    def key(self) -> str:
        test = f"se={self.sensitivity:g} sp={self.specificity:g}"
        return f"rates {test} share={self.share:g} validated on {self.validated} + {self.validated}"


def cells() -> list[Cell]:
    return [
        Cell(sensitivity, specificity, share, validated)
        for sensitivity, specificity in TESTS
        for share in SHARES
        for validated in VALIDATED
    ]


def measure(cell: Cell, settings: Settings) -> list[dict[str, Any]]:
    found, truth, apart = Tallies(), np.array([cell.share]), 0.0
    n = (cell.validated, cell.validated)
    for replica in range(settings.replicas):
        rng = rng_of(cell.key, replica)
        sensitivity, specificity = rng.binomial(n, (cell.sensitivity, cell.specificity)) / n
        shown = cell.share * cell.sensitivity + (1 - cell.share) * (1 - cell.specificity)
        values = (rng.random(SURVEYED) < shown).astype(int)
        if (
            sensitivity + specificity <= 1
        ):  # validated as no test at all: no one would use it, and neither is asked
            continue
        point, wald = rogan_gladen(sensitivity, specificity, n, values.mean())
        answer, mode = ours.survey(sensitivity, specificity, n, values)
        found.add("fieldcal", "whole", answer, truth)
        found.add("Wald on Rogan–Gladen", "whole", wald, truth)
        apart = max(apart, abs(mode - min(max(point, 0.0), 1.0)))
    return list(found.records({"cell": cell.key, "apart": apart} | asdict(cell)))


def rogan_gladen(
    sensitivity: float, specificity: float, n: tuple[int, int], shown: float
) -> tuple[float, Answer]:
    """The closed form, and its interval by the delta method."""
    youden = sensitivity + specificity - 1
    share = (shown + specificity - 1) / youden
    variance = (
        shown * (1 - shown) / SURVEYED
        + share**2 * sensitivity * (1 - sensitivity) / n[0]
        + (1 - share) ** 2 * specificity * (1 - specificity) / n[1]
    ) / youden**2
    half = norm.ppf((1 + LEVEL) / 2) * np.sqrt(variance)
    limits = np.clip([share, share - half, share + half], 0, 1)
    return share, Answer(*limits[:, None])
