"""Thirty slices of sixty rows, 100 to 300 random labels in all: the share of every slice."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benchmarks.few_labels.files import rng_of
from benchmarks.judges.contest import Settings, contest
from benchmarks.judges.simulated import KINDER, verdicts
from benchmarks.judges.trial import Trial, trial_of

SLICES, ROWS = 30, 60
SIZES = (100, 200, 300)
SHARE, SPREAD = 0.7, 0.12
SENSITIVITY, SPECIFICITY = 0.9, 0.8
JUDGES = ("common", "by slice")


@dataclass(frozen=True)
class Cell:
    judge: str
    labels: int

    @property
    def key(self) -> str:
        return f"30 slices, judge {self.judge}, {self.labels} labels"

    def trial(self, replica: int) -> Trial:
        rng = rng_of(self.key, replica)
        like = SHARE * (1 - SHARE) / SPREAD**2 - 1  # rows that the Beta is worth
        shares = rng.beta(SHARE * like, (1 - SHARE) * like, SLICES)
        apart = KINDER if self.judge == "by slice" else 0.0
        sensitivity, specificity = (
            rate + apart * rng.choice([-1, 1], SLICES) for rate in (SENSITIVITY, SPECIFICITY)
        )
        each = np.column_stack([1 - shares, shares])
        return trial_of(
            verdicts(shares, sensitivity, specificity),
            rng,
            design="random",
            truth=each.mean(axis=0),
            slice_truth=each,
            rows=SLICES * ROWS,
            labels=self.labels,
        )


def cells() -> list[Cell]:
    return [Cell(judge, labels) for judge in JUDGES for labels in SIZES]


def measure(cell: Cell, settings: Settings) -> list[dict[str, Any]]:
    trials = (cell.trial(replica) for replica in range(settings.replicas))
    return list(contest(trials, settings, sliced=True).records({"cell": cell.key} | asdict(cell)))
