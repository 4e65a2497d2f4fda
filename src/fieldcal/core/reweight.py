"""The known-bias lemma: ``C'_i ∝ C_i · p_i / p_lab_i``, tempered by trust."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, logit

from fieldcal.types import Floats


def class_weights(p: Floats, p_lab: Floats, *, trust: float | Floats = 1.0) -> Floats:
    """Weights ``(p / p_lab) ** trust`` per group and class, the largest of each group scaled to one.

    Trust 1 is the paper's lemma, trust 0 leaves predictions alone. Only ratios matter, so scaling changes
    nothing but keeps products in range.
    """
    exponent = np.asarray(trust, dtype=np.float64)[..., None]
    with np.errstate(divide="ignore"):
        log_ratio = np.log(p) - np.log(p_lab)
    tempered = np.where(exponent == 0.0, 0.0, exponent * np.where(exponent == 0.0, 0.0, log_ratio))
    return np.asarray(np.exp(tempered - tempered.max(axis=-1, keepdims=True)))


def reweight(proba: Floats, weights: Floats) -> Floats:
    """Multiply each row of predictions by its class weights and renormalise.

    Parameters
    ----------
    proba : (n, K)
    weights : (K,) or (n, K)

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


_TINY = 1e-300


@dataclass(frozen=True)
class Parts:
    """What the estimate of every group is made of."""

    mean_prediction: Floats  # (G, K)
    urc: Floats  # (G, K) URC's estimate
    whole: Floats  # (K,) URC's estimate of the whole field
    n: Floats  # (G,) rows

    def estimate(self, sigma: float, tau: float) -> Floats:
        """``q_g · (p_common / q_common)^σ · ((p_g / p_common) / (q_g / q_common))^τ``, normalised; q is the mean."""
        if sigma == tau == 1.0:
            return self.urc
        if sigma == tau == 0.0 or not len(self.mean_prediction):
            return self.mean_prediction
        average = safe_log(np.average(self.mean_prediction, axis=0, weights=np.maximum(self.n, _TINY)))
        q, urc, common = safe_log(self.mean_prediction), safe_log(self.urc), safe_log(self.whole)
        logs = q + sigma * (common - average) + tau * (urc - common - q + average)
        value = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(value / value.sum(axis=1, keepdims=True))

    def weights(self, p_lab: Floats, sigma: float, tau: float) -> Floats:
        """``(p_common / p_lab)^σ · (p_g / p_common)^τ``, the largest of each group scaled to one."""
        if sigma == tau:
            return class_weights(self.urc, p_lab, trust=tau)
        common = safe_log(self.whole)
        logs = sigma * (common - safe_log(p_lab)) + tau * (safe_log(self.urc) - common)
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))

    def trust_variance(self, sigma: float, tau: float, *, about_overall: bool, about_between: bool) -> Floats:
        """Variance, on the logit scale, of exponents that were never rehearsed: the truth may be anywhere in [0, 1]."""
        total = np.zeros(self.mean_prediction.shape)
        if about_overall:
            total = total + self._logit_range((0.0, tau), (1.0, tau)) * _spread(sigma)
        if about_between:
            total = total + self._logit_range((sigma, 0.0), (sigma, 1.0)) * _spread(tau)
        return total

    def withheld_variance(self, sigma: float, tau: float, earned: float) -> Floats:
        """Variance, on the logit scale, of a trust below what a rehearsal earned: that answer must stay inside."""
        return (
            self._logit_range((sigma, tau), (sigma, earned))
            if tau < earned
            else np.zeros(self.mean_prediction.shape)
        )

    def _logit_range(self, low: tuple[float, float], high: tuple[float, float]) -> Floats:
        ends = [logit(np.clip(self.estimate(*e), 1e-6, 1 - 1e-6)) for e in (low, high)]
        return np.asarray((ends[1] - ends[0]) ** 2)


def beta_interval(mean: Floats, variance: Floats, level: float, *, n: Floats) -> tuple[Floats, Floats]:
    """Equal-tailed interval of the Beta with this mean and variance; one-sided where it piles up at an end.

    Predictions of exactly 0 leave no variance; but n rows cannot tell a prevalence of 0 from one of half a row.
    """
    least = 0.5 / (n[:, None] + 1)
    centre = np.clip(mean, least, 1 - least)
    s = centre * (1 - centre)
    at_end = (mean <= least) | (mean >= 1 - least)
    variance = np.where(at_end, np.maximum(variance, s / (n[:, None] + 2)), variance)
    strength = s / np.clip(variance, 1e-18, 0.9 * s) - 1
    a, b = np.maximum(centre * strength, 1e-9), np.maximum((1 - centre) * strength, 1e-9)
    tail = (1 - level) / 2
    with np.errstate(all="ignore"):
        lower = np.where(a < 1, 0.0, betaincinv(a, b, np.where(b < 1, 2 * tail, tail)))
        upper = np.where(b < 1, 1.0, betaincinv(a, b, 1 - np.where(a < 1, 2 * tail, tail)))
    lower, upper = np.nan_to_num(lower, nan=0.0), np.nan_to_num(upper, nan=1.0)
    return np.minimum(lower, mean), np.maximum(upper, mean)


def learn_from_labels(value: Floats, variance: Floats, labelled: Floats) -> tuple[Floats, Floats]:
    """Update a value of known variance by labelled rows (G, K), as the Dirichlet with that mean and variance would."""
    s = value * (1 - value)
    strength = np.maximum((s / np.maximum(variance, 1e-18) - 1).min(axis=1, keepdims=True), 0.0)
    rows = strength + labelled.sum(axis=1, keepdims=True)
    new = (strength * value + labelled) / np.maximum(rows, 1e-300)
    new = np.where(labelled.sum(axis=1, keepdims=True) > 0, new, value)
    return new, np.where(labelled.sum(axis=1, keepdims=True) > 0, new * (1 - new) / (rows + 1), variance)


def safe_log(p: Floats) -> Floats:
    """The logarithm, finite at zero."""
    return np.asarray(np.log(np.maximum(p, _TINY)))


def _spread(exponent: float) -> float:
    """Squared distance to the farther end: "leave alone" and "URC" must both stay inside."""
    return max(exponent, 1 - exponent) ** 2
