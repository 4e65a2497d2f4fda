"""Where labels of the field exist: was it right? Measures before and after, and the true share per group."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal import keys, metrics
from fieldcal.core.partition import as_columns
from fieldcal.errors import InputError, UnseenGroupWarning
from fieldcal.inputs import as_codes, column_order
from fieldcal.objects import Prevalence
from fieldcal.verbs import recalibrate
from fieldcal.verbs.scores import field_scores

Floats = NDArray[np.float64]

_FLOOR = 1e-15


@dataclass(frozen=True)
class Evaluation:
    """Predictions of labelled field rows before and after, and what happened."""

    before: Floats  # (n, K)
    after: Floats  # (n, K)
    y: NDArray[np.intp]  # (n,) class codes
    truth: Floats  # (G, K) shares among the labelled rows of each group; NaN where there are none

    def table(self) -> list[dict[str, Any]]:
        """Each measure before and after; less is better but for accuracy."""
        measures: dict[str, Callable[[Floats, NDArray[np.intp]], float]] = {
            "log loss": lambda p, y: metrics.log_loss(np.clip(p, _FLOOR, 1), y),
            "Brier score": metrics.brier_score,
            "calibration error": metrics.calibration_error,
            "accuracy": metrics.accuracy,
        }
        return [
            {"measure": name, "before": of(self.before, self.y), "after": of(self.after, self.y)}
            for name, of in measures.items()
        ]

    def change(self) -> tuple[float, float]:
        """The change of log loss per row and its standard error, rows as the unit."""
        at = np.arange(len(self.y)), self.y
        gain = np.log(np.maximum(self.before[at], _FLOOR)) - np.log(np.maximum(self.after[at], _FLOOR))
        return float(gain.mean()), float(gain.std() / np.sqrt(max(len(gain), 1)))


def evaluate(prev: Prevalence, proba: Any, y: Any, groups: Any) -> Evaluation:
    """Recalibrate labelled rows of the field and compare."""
    scores = field_scores(prev.lab, proba, normalize=False, missing="error")
    codes = as_codes(y, prev.classes)
    if len(codes) != len(scores.values):
        raise InputError(
            f"There are {len(scores.values)} predictions but {len(codes)} labels. Give one each."
        )
    if not len(codes):
        raise InputError("There are no labelled rows to compare with. Leave proba and y out.")
    with warnings.catch_warnings(action="ignore", category=UnseenGroupWarning):
        new = recalibrate(prev, proba, groups=groups, acknowledge=True)
    new = as_columns(new[:, 0] if new.ndim == 2 and new.shape[1] == 1 else new)
    order = column_order(proba, prev.classes)
    after = new if order is None else new[:, order]
    return Evaluation(as_columns(scores.values), after, codes, _shares(prev, codes, groups))


def _shares(prev: Prevalence, codes: NDArray[np.intp], groups: Any) -> Floats:
    G, K = prev.value.shape
    where = np.zeros(len(codes), dtype=np.intp)
    if prev.field.grouped:
        names, each = keys.factorize(groups, n=len(codes))
        where = keys.positions(prev.groups, names)[each]
    known = where >= 0
    counts = np.bincount(where[known] * K + codes[known], minlength=G * K).reshape(G, K)
    total = counts.sum(axis=1, keepdims=True).astype(np.float64)
    return np.asarray(np.divide(counts, total, out=np.full((G, K), np.nan), where=total > 0))
