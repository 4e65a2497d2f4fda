"""The known-bias lemma: ``C'_i ∝ C_i · p_i / p_lab_i``, tempered by trust."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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
