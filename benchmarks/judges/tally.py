"""What becomes of answers: coverage, bias, error and width of a method in a cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.judges.trial import LEVEL


@dataclass(frozen=True)
class Answer:
    """Shares with their intervals, one for each that was asked."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, each: list[tuple[float, float, float]]) -> Answer:
        return cls(*np.array(each, dtype=float).T)


@dataclass
class Tally:
    """Answers of one method to the replicas of one cell. Where it gave none, its interval does not cover."""

    covered: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    absolute: list[float] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    failed: int = 0

    def add(self, answer: Answer | None, truth: np.ndarray) -> None:
        if answer is None or not np.isfinite(answer.estimate).all():
            self.failed += 1
            self.covered.append(0.0)
            return
        truth = truth.reshape(answer.estimate.shape)
        held = (answer.lower - 1e-12 <= truth) & (truth <= answer.upper + 1e-12)
        self.covered.append(float(held.mean()))
        self.error.append(float((answer.estimate - truth).mean()))
        self.absolute.append(float(np.abs(answer.estimate - truth).mean()))
        self.width.append(float((answer.upper - answer.lower).mean()))

    def record(self) -> dict[str, float]:
        n = len(self.covered)
        return {
            "replicas": n,
            "covered": float(np.mean(self.covered)),
            "covered_error": error_of_mean(self.covered),
            "bias": mean(self.error),
            "bias_error": error_of_mean(self.error),
            "mae": mean(self.absolute),
            "mae_error": error_of_mean(self.absolute),
            "width": mean(self.width),
            "failed": self.failed / n,
        }


def mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def error_of_mean(values: list[float]) -> float:
    """Of intervals that all cover, the error is that of one that does not."""
    n = len(values)
    if n < 2:
        return float("nan")
    spread = float(np.std(values, ddof=1))
    return max(spread / np.sqrt(n), 0.0)


@dataclass
class Tallies:
    """One tally for each method and part of the answer ("whole", "slices")."""

    of: dict[tuple[str, str], Tally] = field(default_factory=dict)

    def add(self, method: str, part: str, answer: Answer | None, truth: np.ndarray) -> None:
        self.of.setdefault((method, part), Tally()).add(answer, truth)

    def records(self, about: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for (method, part), tally in self.of.items():
            yield about | {"method": method, "part": part, "level": LEVEL} | tally.record()
