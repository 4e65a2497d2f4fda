"""What becomes of answers: coverage, bias, error and width of a method in a cell."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.few_labels.files import LEVEL


@dataclass(frozen=True)
class Answer:
    """Shares with their intervals, one for each that was asked."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, each: list[tuple[float, float, float]]) -> Answer:
        return cls(*np.array(each, dtype=float).T)

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Answer:
        """Of a method that refuses."""
        return cls(*np.full((3, *shape), np.nan))


@dataclass
class Tally:
    """Answers of one method to the replicas of one cell. Where it gave none, its interval does not cover."""

    held: list[np.ndarray] = field(default_factory=list)
    error: list[np.ndarray] = field(default_factory=list)
    width: list[np.ndarray] = field(default_factory=list)

    def add(self, answer: Answer, truth: np.ndarray) -> None:
        truth = truth.reshape(answer.estimate.shape)
        self.held.append((answer.lower - 1e-12 <= truth) & (truth <= answer.upper + 1e-12))
        self.error.append(answer.estimate - truth)
        self.width.append(answer.upper - answer.lower)

    def record(self) -> dict[str, float]:
        """Means over replicas, with the standard errors of three. Of several shares, the bias is the mean of each one's
        own, without its sign."""
        error, width = np.array(self.error), np.array(self.width)
        replicas = len(error)
        covered = np.array(self.held).reshape(replicas, -1).mean(axis=1)
        size, each = over(np.abs(error)), over(error)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a method that never answers has no error
            bias = np.nanmean(error, axis=0)
            return {
                "replicas": replicas,
                "covered": float(covered.mean()),
                "covered_error": max(error_of_mean(covered), 1 / replicas),  # at least that of one miss
                "bias": float(bias.item() if bias.size == 1 else np.nanmean(np.abs(bias))),
                "bias_error": error_of_mean(each),
                "mae": float(np.nanmean(size)),
                "mae_error": error_of_mean(size),
                "width": float(np.nanmean(over(width))),
                "failed": float(np.isnan(error).mean()),
            }


def over(values: np.ndarray) -> np.ndarray:
    """Mean of the shares that were answered, for each replica."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(values.reshape(len(values), -1), axis=1))


def error_of_mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")


@dataclass
class Tallies:
    """One tally for each method and part of the answer ("whole", "slices")."""

    of: dict[tuple[str, str], Tally] = field(default_factory=dict)

    def add(self, method: str, part: str, answer: Answer, truth: np.ndarray) -> None:
        self.of.setdefault((method, part), Tally()).add(answer, truth)

    def records(self, about: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for (method, part), tally in self.of.items():
            yield about | {"method": method, "part": part, "level": LEVEL} | tally.record()
