"""Judges of known sensitivity and specificity: 1,000 rows, 100 labels, one share; verdicts, ratings and slices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benchmarks.few_labels.files import rng_of
from benchmarks.judges.contest import Settings, contest
from benchmarks.judges.trial import Draw, Rows, Trial, trial_of
from scipy.special import expit, logit
from scipy.stats import norm

ROWS, LABELS = 1000, 100
JUDGES = ((0.6, 0.6), (0.6, 0.97), (0.75, 0.75), (0.9, 0.9), (0.97, 0.6), (0.97, 0.97), (0.9, 0.75))
KINDS = {"verdicts": JUDGES, "ratings": JUDGES, "slices": ((0.75, 0.75), (0.9, 0.75), (0.9, 0.9))}
SHARES = (0.05, 0.2, 0.5, 0.8, 0.9)
DESIGNS = ("random", "by_class")
STEPS = np.array([-1.4, -0.7, 0.0, 0.7])  # between ratings, in sd of what the judge sees; 4 and 5 pass
SLICES, KINDER = 10, 0.08  # slices, and by how much the judge's rates differ in each
BETWEEN = 0.5  # sd of the slices' shares, in logits


@dataclass(frozen=True)
class Cell:
    kind: str  # verdicts, ratings, slices
    sensitivity: float
    specificity: float
    share: float
    design: str

    @property
    def key(self) -> str:
        judge = f"se={self.sensitivity:g} sp={self.specificity:g}"
        return f"{self.kind} {judge} share={self.share:g} {self.design}"

    def trial(self, replica: int) -> Trial:
        rng = rng_of(self.key, replica)
        if self.kind == "slices":
            return self.sliced(rng)
        draw = verdicts(self.share, self.sensitivity, self.specificity)
        if self.kind == "ratings":
            draw = ratings(self.share, self.sensitivity, self.specificity)
        truth = np.array([1 - self.share, self.share])
        return trial_of(
            draw,
            rng,
            design=self.design,
            truth=truth,
            rows=ROWS,
            labels=LABELS,
            ratings=self.kind == "ratings",
        )

    def sliced(self, rng: np.random.Generator) -> Trial:
        """Slices of one size, each with its share and its judge."""
        shares = expit(logit(self.share) + BETWEEN * rng.standard_normal(SLICES))
        sensitivity, specificity = (
            np.clip(rate + KINDER * rng.choice([-1, 1], SLICES), 0, 0.99)
            for rate in (self.sensitivity, self.specificity)
        )
        each = np.column_stack([1 - shares, shares])
        return trial_of(
            verdicts(shares, sensitivity, specificity),
            rng,
            design=self.design,
            truth=each.mean(axis=0),
            slice_truth=each,
            rows=ROWS,
            labels=LABELS,
        )


def cells() -> list[Cell]:
    return [
        Cell(kind, sensitivity, specificity, share, design)
        for kind, judges in KINDS.items()
        for sensitivity, specificity in judges
        for share in SHARES
        for design in DESIGNS
    ]


def measure(cell: Cell, settings: Settings) -> list[dict[str, Any]]:
    trials = (cell.trial(replica) for replica in range(settings.replicas))
    found = contest(trials, settings, sliced=cell.kind == "slices")
    return list(found.records({"cell": cell.key} | asdict(cell)))


def verdicts(
    share: float | np.ndarray, sensitivity: float | np.ndarray, specificity: float | np.ndarray
) -> Draw:
    """Class and verdict of every row; a number for each slice, or one for all. Slices have one size."""
    share, sensitivity, specificity = np.broadcast_arrays(*np.atleast_1d(share, sensitivity, specificity))

    def draw(rng: np.random.Generator, n: int) -> Rows:
        slices = np.arange(n) % len(share)
        y = (rng.random(n) < share[slices]).astype(int)
        right = rng.random(n) < np.where(y == 1, sensitivity[slices], specificity[slices])
        return Rows(y, np.where(right, y, 1 - y), slices)

    return draw


def ratings(share: float, sensitivity: float, specificity: float) -> Draw:
    """Ratings 1 to 5 of a judge that sees a normal score; "4 or 5" has this sensitivity and specificity."""
    cut = norm.ppf(specificity)
    apart = norm.ppf(sensitivity) + cut

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = (rng.random(n) < share).astype(int)
        seen = rng.standard_normal(n) + apart * y
        return Rows(y, 1 + np.searchsorted(cut + STEPS, seen), np.zeros(n, dtype=int))

    return draw
