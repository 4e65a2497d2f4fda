"""The known-bias lemma, ``C'_i ∝ C_i · p_i / p_lab_i``, mixed with what the model said by the trust in it.

Trust ``ω`` is the probability of label shift: the prediction is ``(1 − ω) · C + ω · reweight(C)``, the mean over both
hypotheses. No row can lose more than ``−log(1 − ω)``, whatever the field does. Groups have two such steps, one
inside the other: the movement of the whole field, then the difference of the group. Where labels of the field say that
the scores themselves are off, weights of the row's bin come first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fieldcal.core.partition import Partition
from fieldcal.types import Floats, Ints

_CELLS = 2_000_000  # numbers in memory at a time
_TINY = 1e-300


def class_weights(p: Floats, p_lab: Floats) -> Floats:
    """Weights ``p / p_lab`` per group and class, the largest of each group scaled to one.

    Only ratios matter, so scaling changes nothing but keeps products in range.
    """
    with np.errstate(divide="ignore"):
        log_ratio = np.log(p) - np.log(p_lab)
    return np.asarray(np.exp(log_ratio - log_ratio.max(axis=-1, keepdims=True)))


def reweight(proba: Floats, weights: Floats) -> Floats:
    """Multiply each row of predictions by its class weights and renormalise.

    Parameters
    ----------
    proba : (…, K)
    weights : (K,) or (…, K)

    Notes
    -----
    Exact zeros and ones stay what they are. A row whose possible classes all have weight zero says that the
    estimate rules out what the model is certain of; such a row is left as it is.
    """
    with np.errstate(under="ignore"):
        scaled = proba * weights
        total = scaled.sum(axis=-1, keepdims=True)
        tiny = total[..., 0] < np.finfo(np.float64).tiny
        if tiny.any():
            scaled[tiny] = _in_logs(proba[tiny], np.broadcast_to(weights, proba.shape)[tiny])
            total[tiny] = scaled[tiny].sum(axis=-1, keepdims=True)
        return np.asarray(scaled / total)


def _in_logs(proba: Floats, weights: Floats) -> Floats:
    """The same product for rows so small that it underflows."""
    with np.errstate(divide="ignore"):
        logs = np.log(proba) + np.log(weights)
    top = logs.max(axis=-1, keepdims=True)
    impossible = ~np.isfinite(top)
    scaled = np.exp(logs - np.where(impossible, 0.0, top))
    return np.where(impossible, proba, scaled)


def reweight_binary(score: Floats, weights: Floats) -> Floats:
    """The lemma for a binary score, without a second column.

    Parameters
    ----------
    score : (n,) probability of the second class
    weights : (2,) or (n, 2), of the first and the second class
    """
    with np.errstate(under="ignore", invalid="ignore"):
        up = score * weights[..., 1]
        new = up / (up + (1.0 - score) * weights[..., 0])
    # Certainty of a class that the estimate rules out: left alone, as in `reweight`.
    return np.asarray(np.where(np.isnan(new), score, new))


@dataclass(frozen=True)
class Step:
    """One mixture: predictions become ``C + ω · (reweight(C, weights) − C)``."""

    trust: float  # ω
    weights: Floats  # (K,), the same for all, or (G, K), of each group

    def of(self, rows: slice | NDArray[Any]) -> Step:
        """The same for these groups, or for rows by the place of their group."""
        return self if self.weights.ndim == 1 else replace(self, weights=self.weights[rows])

    def apply(self, proba: Floats) -> Floats:
        """Predictions (n, K) with weights per row, or (G, m, K) with weights per group."""
        weights = self.weights if self.weights.ndim == 1 or proba.ndim == 2 else self.weights[:, None, :]
        return self._mixed(proba, reweight(proba, weights))

    def apply_binary(self, score: Floats) -> Floats:
        """The same for scores (n,) of the second class."""
        return self._mixed(score, reweight_binary(score, self.weights))

    def _mixed(self, old: Floats, new: Floats) -> Floats:
        # In this form a prediction that the correction leaves alone stays what it is to the last digit.
        return new if self.trust == 1 else np.asarray(old + self.trust * (new - old))


@dataclass(frozen=True)
class BinStep:
    """A step in whole, whose weights are those of the bin that a row's own scores fall into."""

    partition: Partition
    weights: Floats  # (m, K)

    def of(self, rows: slice | NDArray[Any]) -> BinStep:
        return self

    def assign(self, scores: Floats) -> Ints:
        """The bins of predictions, (n,) or (n, K); −1 where they are missing."""
        complete = ~np.isnan(scores if scores.ndim == 1 else scores.sum(axis=1))
        bins = np.full(len(scores), -1, dtype=np.intp)
        bins[complete] = self.partition.assign(scores[complete])
        return bins

    def at(self, bins: Ints) -> Step:
        return Step(1.0, self.weights[bins])


def taken(steps: Iterable[Step], proba: Floats) -> Floats:
    """Predictions after these steps, one inside the other."""
    for step in steps:
        proba = step.apply(proba)
    return proba


def steps_of(
    *, urc: Floats, whole: Floats, p_lab: Floats, overall: float, between: float, grouped: bool
) -> tuple[Step, ...]:
    """What happens to predictions of each group: nothing, one step or two.

    Parameters
    ----------
    urc, whole, p_lab : prevalences of the groups (G, K), of the whole field and of the lab (K,)
    overall, between : trust in the movement of the whole field, and in the differences between groups
    """
    if not grouped:
        between = 0.0
    elif overall == between == 1.0:  # the paper's method: in one step, so that no rounding comes between
        return (Step(1.0, class_weights(urc, p_lab)),)
    first = Step(overall, class_weights(whole, p_lab)) if overall else None
    second = Step(between, _ratio(urc, whole)) if between else None
    return tuple(step for step in (first, second) if step is not None)


def _ratio(p: Floats, base: Floats) -> Floats:
    """`class_weights` where the base may have zeros too."""
    logs = safe_log(p) - safe_log(base)
    return np.asarray(np.exp(logs - logs.max(axis=-1, keepdims=True)))


def safe_log(p: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(p, _TINY)))


def matched_tilt(centres: Floats, V: Floats, shares: Floats, *, steps: int = 40) -> Floats:
    """Tilts (G, K) after which the mean prediction of each group is its share.

    The tilt with the best log loss in hindsight is the one whose mean prediction is the true share: the two have the
    same equation. Predictions stand at the centres of their bins.
    """
    target = np.clip(shares, 1e-9, None)
    target = target / target.sum(axis=1, keepdims=True)
    n = V.sum(axis=1, keepdims=True)
    v = np.where(n > 0, V / np.maximum(n, _TINY), 1 / V.shape[1])
    tilt = np.log(target) - np.log(np.maximum(v @ centres, 1e-9))
    K = target.shape[1]
    chunk = max(1, _CELLS // (V.shape[1] * K * K))
    for start in range(0, len(V), chunk):
        rows = slice(start, start + chunk)
        tilt[rows] = _matched(np.log(np.maximum(centres, 1e-15)), v[rows], target[rows], tilt[rows], steps)
    return np.asarray(tilt - tilt.max(axis=1, keepdims=True))


def _matched(logs: Floats, v: Floats, target: Floats, tilt: Floats, steps: int) -> Floats:
    """Newton's method; the last class is the reference."""
    K = target.shape[1]
    for _ in range(steps):
        Q = softmax(logs + tilt[:, None, :], axis=2)
        left = (target - np.einsum("gj,gjk->gk", v, Q))[:, :-1]
        if np.abs(left).max(initial=0.0) < 1e-10:
            break
        H = np.einsum("gj,gjk,kl->gkl", v, Q, np.eye(K)) - np.einsum("gj,gjk,gjl->gkl", v, Q, Q)
        H = H[:, :-1, :-1] + 1e-12 * np.eye(K - 1)
        move = np.linalg.solve(H, left[:, :, None])[:, :, 0]
        tilt = tilt.copy()
        tilt[:, :-1] += np.clip(move, -2.0, 2.0)
    return tilt
