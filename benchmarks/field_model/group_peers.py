"""What else a user could do with lab labels: three methods, all for two classes.

Each takes predictions of class 1, labels and groups of the lab, and predictions and groups of the field, and returns
new predictions for the field.
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

BINS = 8
PRIOR_MEAN, PRIOR_SD = np.array([0.0, -1.2, -1.8]), np.array([0.3, 1.0, 1.0])  # of c, log s and log t
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True)
class Effects:
    """Normal approximation of the effects of groups: mode (G, m), covariance (G, m, m), evidence (G,)."""

    mode: np.ndarray
    covariance: np.ndarray
    evidence: np.ndarray


def covariance_of(log_s: float, log_t: float, m: int) -> np.ndarray:
    """s² 11' + t² I."""
    s, t = np.exp(np.clip([log_s, log_t], -6, 2))
    return np.full((m, m), s**2) + (t**2 + 1e-6) * np.eye(m)


def effects(hits: np.ndarray, n: np.ndarray, mean: np.ndarray, C: np.ndarray, steps: int = 30) -> Effects:
    """Laplace approximation of w_g given binomial counts with logit mean + w_g, w_g ~ N(0, C)."""
    P = np.linalg.inv(C)

    def curvature(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = expit(mean + w)
        H = np.broadcast_to(P, (*n.shape, n.shape[1])).copy()
        H[:, np.arange(n.shape[1]), np.arange(n.shape[1])] += n * p * (1 - p)
        return hits - n * p - w @ P, H

    w = np.zeros(n.shape)
    for _ in range(steps):
        gradient, H = curvature(w)
        step = np.clip(np.linalg.solve(H, gradient[..., None])[..., 0], -2, 2)
        w += step
        if np.abs(step).max() < 1e-6:
            break
    H, eta = curvature(w)[1], mean + w
    fit = (hits * eta - n * np.logaddexp(0, eta)).sum(axis=1) - 0.5 * np.einsum("gj,jk,gk->g", w, P, w)
    evidence = fit - 0.5 * (np.linalg.slogdet(C)[1] + np.linalg.slogdet(H)[1])
    return Effects(w, np.linalg.inv(H), evidence)


def shrunken(
    lab: np.ndarray, y: np.ndarray, groups_lab: np.ndarray, field: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """A multilevel logistic model of the lab: logit P(1 | bin j, group g) = base_j + c + w_gj.

    base_j is the logit of the bin's mean prediction, w_g ~ N(0, s² 11' + t² I). c, s and t are at the mode of their
    marginal likelihood (Laplace) with weak priors. A prediction becomes the mean of expit(logit + c + w_gj).
    """
    edges = np.unique(np.quantile(lab, np.arange(1, BINS) / BINS))
    m, bins = len(edges) + 1, np.searchsorted(edges, lab)
    names, place = np.unique(groups_lab, return_inverse=True)
    hits, n = (counts(place, bins, w, (len(names), m)) for w in (y.astype(float), np.ones(len(y))))
    rows = np.maximum(np.bincount(bins, minlength=m), 1)
    base = logit(np.clip(np.bincount(bins, lab, minlength=m) / rows, 1e-4, 1 - 1e-4))

    def fitted(t: np.ndarray) -> Effects:
        return effects(hits, n, np.broadcast_to(base + t[0], n.shape), covariance_of(t[1], t[2], m))

    def loss(t: np.ndarray) -> float:
        return float(0.5 * (((t - PRIOR_MEAN) / PRIOR_SD) ** 2).sum() - fitted(t).evidence.sum())

    mode = minimize(loss, PRIOR_MEAN, method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01}).x
    found, prior = fitted(mode), covariance_of(mode[1], mode[2], m)
    effect = np.vstack([found.mode, np.zeros(m)])  # the last for groups that the lab does not know
    spread = np.vstack([np.einsum("gjj->gj", found.covariance), np.diag(prior)])
    at = {name: g for g, name in enumerate(names)}
    g, j = np.array([at.get(name, len(names)) for name in groups]), np.searchsorted(edges, field)
    eta = logit(field) + mode[0] + effect[g, j]
    return np.asarray(expit(eta[:, None] + np.sqrt(spread[g, j])[:, None] * NODES) @ WEIGHTS)


def counts(place: np.ndarray, bins: np.ndarray, weights: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.bincount(place * shape[1] + bins, weights, minlength=shape[0] * shape[1]).reshape(shape)


def calibrated(
    lab: np.ndarray, y: np.ndarray, groups_lab: np.ndarray, field: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Logistic calibration on the lab (Platt), without groups: the part of a gain that no group explains."""
    model = LogisticRegression(C=1e6).fit(logit(lab)[:, None], y)
    return np.asarray(model.predict_proba(logit(field)[:, None])[:, 1])


def has_mcgrad() -> bool:
    return importlib.util.find_spec("mcgrad") is not None


def mcgrad(
    lab: np.ndarray, y: np.ndarray, groups_lab: np.ndarray, field: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """MCGrad with its defaults (Tax et al. 2026), the group as its one categorical feature."""
    import pandas as pd
    from mcgrad.methods import MCGrad

    logging.disable(logging.WARNING)
    names = {"prediction_column_name": "score", "categorical_feature_column_names": ["group"]}
    model = MCGrad().fit(
        pd.DataFrame({"score": lab, "y": y, "group": groups_lab}), label_column_name="y", **names
    )
    logging.disable(logging.NOTSET)
    return np.asarray(model.predict(pd.DataFrame({"score": field, "group": groups}), **names))


PEERS = {"calibration, no groups": calibrated, "shrinkage by group": shrunken, "MCGrad": mcgrad}
