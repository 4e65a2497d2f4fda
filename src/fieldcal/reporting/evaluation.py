"""Evaluation on labelled field rows: measures before and after recalibration, and the true share per group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcal import metrics
from fieldcal.alignment import check_alignment
from fieldcal.core.partition import as_columns
from fieldcal.errors import InputError
from fieldcal.objects import Prevalence, group_keys
from fieldcal.objects.outcome import as_numbers
from fieldcal.plots import tables
from fieldcal.types import Floats
from fieldcal.validation import field_scores
from fieldcal.verbs.count import understood
from fieldcal.verbs.recalibrate import recalibrated_masses

if TYPE_CHECKING:
    from fieldcal.regression import Predictions

Measure = dict[str, Any]

_FLOOR = 1e-15
#: Central intervals whose coverage is a measure.
_COVERAGES = (0.8, 0.9)


@dataclass(frozen=True)
class PredictedNumbers:
    """Predictive distributions of labelled field rows before and after, and the true numbers."""

    before: Predictions
    after: Predictions
    y: Floats  # (n,)

    @cached_property
    def crps(self) -> tuple[Floats, Floats]:
        """The continuous ranked probability score of each row, before and after."""
        return self.before.crps(self.y), self.after.crps(self.y)

    @cached_property
    def coverage(self) -> dict[str, Any]:
        return tables.coverage(self.before, self.after, self.y)

    @cached_property
    def pit(self) -> dict[str, Any]:
        return tables.pit(self.before, self.after, self.y)

    def covered(self, nominal: float) -> dict[str, float]:
        """The share of numbers in their central interval, before and after."""
        at = self.coverage["nominal"].index(nominal)
        return {when: self.coverage[when][at] for when in ("before", "after")}

    def table(self) -> list[Measure]:
        """Scores, of which lower is better, and coverage of intervals."""
        before, after = (float(score.mean()) for score in self.crps)
        shares = [
            {"measure": f"share in {share:.0%} intervals", **self.covered(share)} for share in _COVERAGES
        ]
        return [{"measure": "mean CRPS", "before": before, "after": after}, *shares]


@dataclass(frozen=True)
class Evaluation:
    """Predictions of labelled field rows before and after, with their labels."""

    before: Floats  # (n, K)
    after: Floats  # (n, K)
    y: NDArray[np.intp]  # (n,) class codes
    truth: Floats  # (G, K) shares among the labelled rows of each group; NaN where there are none
    labels: Floats  # (G,) labelled rows of each group
    numbers: PredictedNumbers | None = None  # for a regression

    def table(self) -> list[Measure]:
        """Measures before and after; lower is better, except for accuracy and coverage."""
        measures: dict[str, Callable[[Floats, NDArray[np.intp]], float]] = {
            "log loss": _log_loss,
            "Brier score": _brier_score,
            "calibration error": metrics.calibration_error,
            "accuracy": lambda p, y: float((p.argmax(axis=1) == y).mean()),
        }
        if self.numbers is not None:
            crps, *shares = self.numbers.table()
            score = self._measured({"log score of the intervals": measures["log loss"]})
            return [crps, *score, *shares]
        return self._measured(measures)

    def _measured(self, measures: dict[str, Callable[[Floats, NDArray[np.intp]], float]]) -> list[Measure]:
        return [
            {"measure": name, "before": of(self.before, self.y), "after": of(self.after, self.y)}
            for name, of in measures.items()
        ]

    def share(self) -> Floats:
        """Shares of the classes among all labelled rows, (K,)."""
        return np.bincount(self.y, minlength=self.before.shape[1]) / len(self.y)

    def inside(self, prev: Prevalence, k: int) -> tuple[int, int]:
        """Number of groups whose labelled share of class k agrees with the interval within noise, and with labels."""
        if prev.lower is None or prev.upper is None:
            return 0, 0
        some, share = self.labels > 0, self.truth[:, k]
        noise = 2 * np.sqrt(
            np.maximum(share * (1 - share), 0.25 / (self.labels + 1)) / np.maximum(self.labels, 1)
        )
        within = (prev.lower[:, k] - noise <= share) & (share <= prev.upper[:, k] + noise)
        return int((within & some).sum()), int(some.sum())

    def change(self) -> tuple[float, float]:
        """Change of log loss per row and its standard error over rows."""
        at = np.arange(len(self.y)), self.y
        gain = np.log(np.maximum(self.before[at], _FLOOR)) - np.log(np.maximum(self.after[at], _FLOOR))
        return float(gain.mean()), float(gain.std() / np.sqrt(max(len(gain), 1)))

    def better_or_worse(self) -> str:
        """The sign of the change of log loss in words, if it exceeds two standard errors."""
        change, se = self.change()
        return "better" if change < -2 * se else "worse" if change > 2 * se else "no different beyond noise"


def evaluate(prev: Prevalence, predictions: Any, y: Any, groups: Any) -> Evaluation:
    """Evaluation of recalibration on labelled rows of the field; for a regression, of distributions and numbers."""
    check_alignment(proba=predictions, y=y, groups=groups)
    outcome = prev.lab.outcome
    before = understood(outcome, predictions)
    truth = y if outcome.kind == "classes" else as_numbers(y)
    scores = field_scores(prev.lab, outcome.masses(before), normalize=False, missing="error")
    codes = outcome.codes(truth)
    if len(codes) != len(scores.values):
        raise InputError(
            f"There are {len(scores.values)} predictions but {len(codes)} labels. Give one each."
        )
    if not len(codes):
        raise InputError("There are no labelled rows to compare with. Leave proba and y out.")
    new = recalibrated_masses(prev, before, groups=groups)
    shares = _shares(prev, codes, groups)
    numbers = (
        None if outcome.kind == "classes" else PredictedNumbers(before, outcome.rebuild(before, new), truth)
    )
    return Evaluation(as_columns(scores.values), as_columns(new), codes, *shares, numbers)


def _shares(prev: Prevalence, codes: NDArray[np.intp], groups: Any) -> tuple[Floats, Floats]:
    """Shares of the classes among the labelled rows of each group, and numbers of these rows."""
    G, K = prev.estimate.shape
    where = np.zeros(len(codes), dtype=np.intp)
    if prev.field.grouped:
        names, each = group_keys.factorize(groups, n=len(codes))
        where = group_keys.positions(prev.groups, names)[each]
    known = where >= 0
    counts = np.bincount(where[known] * K + codes[known], minlength=G * K).reshape(G, K)
    total = counts.sum(axis=1, keepdims=True).astype(np.float64)
    shares = np.divide(counts, total, out=np.full((G, K), np.nan), where=total > 0)
    return np.asarray(shares), total[:, 0]


def _log_loss(proba: Floats, y: NDArray[np.intp]) -> float:
    return float(-np.log(np.clip(proba[np.arange(len(y)), y], _FLOOR, 1)).mean())


def _brier_score(proba: Floats, y: NDArray[np.intp]) -> float:
    """Brier score: of the second of two classes, or summed over more."""
    squares = (proba - np.eye(proba.shape[1])[y]) ** 2
    return float((squares[:, 1] if proba.shape[1] == 2 else squares.sum(axis=1)).mean())
