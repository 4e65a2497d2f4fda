"""κ from the spread of the groups' histograms, any number of classes, by second moments.

The covariance of a group's histogram is known exactly: the noise of its rows, and ``M'CM / (κ + 1)`` from the spread of
the prevalences. Only the directions in which prevalences move a histogram are looked at: misfit elsewhere cannot pass
for spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.priors import Penalty
from fieldcal.core.solve import solve

Floats = NDArray[np.float64]
Edge = Literal["", "low", "high"]

#: Pseudo-rows per class below every prior.
BASE = 0.5
#: Values of κ that are weighed, under the weak hyperprior ``log κ ~ N(log 20, 2²)``.
KAPPAS = np.logspace(-0.5, 4.5, 51)
KAPPA_CENTRE, KAPPA_SPREAD = 20.0, 2.0

_TINY = 1e-300


@dataclass(frozen=True)
class Moments:
    """What the second moments of the histograms say, for one M."""

    weights: Floats  # (J,) of KAPPAS
    mu: Floats  # (K,) the average group
    histogram: Floats  # (m,) of the average group
    rows: float  # that this histogram is worth

    @property
    def kappa(self) -> float:
        """The geometric mean."""
        return float(np.exp(self.weights @ np.log(KAPPAS)))


def fit_moments(M: Floats, V: Floats, *, p_lab: Floats, max_iter: int = 5) -> Moments:
    """κ and the average group in turns. M (K, m), V (G, m) without empty rows."""
    n = V.sum(axis=1)
    mu = p_lab
    for _ in range(max_iter):
        evidence, lam = kappa_evidence(M, mu, V)
        found = Moments(normalised(evidence + kappa_hyperprior(KAPPAS)), mu, mu, 1.0)
        variance = 1 / n + lam.mean() / (found.kappa + 1)
        share = 1 / variance / (1 / variance).sum()
        histogram, rows = share @ (V / n[:, None]), float(1 / (share**2 @ variance))
        following = conditional_modes(M, (histogram * rows)[None], np.full(len(M), BASE))[0]
        found = Moments(found.weights, following, histogram, rows)
        change, mu = np.abs(following - mu).max(), following
        if change < 1e-4:
            break
    return found


def kappa_hyperprior(kappa: Floats) -> Floats:
    """Log density of the weak hyperprior."""
    return np.asarray(-0.5 * (np.log(kappa / KAPPA_CENTRE) / KAPPA_SPREAD) ** 2)


def kappa_evidence(M: Floats, mu: Floats, V: Floats) -> tuple[Floats, Floats]:
    """Restricted Gaussian log likelihood of `KAPPAS`, the means profiled out (J,), and the directions' weights.

    The exact covariance of a group's histogram is ``B / n + (1 − 1/n) M'CM / (κ + 1)``, with ``B`` and ``C`` the
    multinomial covariances of ``μ @ M`` and ``μ``.
    """
    U, lam = spread_directions(M, mu)
    n = V.sum(axis=1)[:, None]
    z = (V / n) @ U  # G, r
    out = np.empty(len(KAPPAS))
    for j, k in enumerate(KAPPAS):
        w = 1 / (1 / n + (1 - 1 / n) * lam / (k + 1))
        total = w.sum(axis=0)
        residual = z - (w * z).sum(axis=0) / total
        out[j] = 0.5 * (np.log(w).sum() - (w * residual**2).sum() - np.log(total).sum())
    return out, lam


def spread_directions(M: Floats, mu: Floats) -> tuple[Floats, Floats]:
    """Directions (m, r) in which prevalences move a histogram, white under multinomial noise, and how much (r,)."""
    q = mu @ M
    seen = q > 1e-9
    root = np.sqrt(q[seen])
    X = np.sqrt(mu)[:, None] * (M - q)[:, seen] / root
    _, s, basis = np.linalg.svd(X, full_matrices=False)
    r = max(1, min(len(mu) - 1, len(s)))
    U = np.zeros((len(q), r))
    U[seen] = basis[:r].T / root[:, None]
    return U, np.clip(s[:r] ** 2, 1e-12, 1.0)


def edge_of(weights: Floats) -> Edge:
    """Whether a third of κ's weight (J,) is at an end of its range.

    "low": misfit looks like variance. "high": the groups do not differ.
    """
    tenth = len(weights) // 10
    if weights[:tenth].sum() > 1 / 3:
        return "low"
    return "high" if weights[-2 * tenth :].sum() > 1 / 3 else ""


def conditional_modes(M: Floats, V: Floats, alpha: Floats) -> Floats:
    """Mode in softmax coordinates under Dirichlet(alpha), alpha (K,) or (G, K); strictly positive."""
    penalty = Penalty(np.zeros(M.shape[1]), alpha, 0.0, np.full(len(M), 1 / len(M)))
    p = np.maximum(solve(M, V, penalty, tolerance=1e-8).p, 1e-15)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def normalised(log: Floats) -> Floats:
    """Probabilities from log weights."""
    with np.errstate(under="ignore"):
        w = np.exp(log - log.max())
        return np.asarray(w / w.sum())


def multinomial_covariance(q: Floats) -> Floats:
    """Covariance of one multinomial row."""
    return np.asarray(np.diag(q) - np.outer(q, q))
