"""Two classes: the exact posterior of κ and μ, by quadrature over the groups and a grid over the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln

from fieldcal.core.binary import beta_prior, conditional_mode, relative_columns
from fieldcal.core.quadrature import OWN_CELLS, RESOLVED, SINGLE_ROWS, own_cells
from fieldcal.core.spread import KAPPAS, Moments, kappa_hyperprior, normalised

Floats = NDArray[np.float64]

#: Narrow groups that take part, at most: each needs cells of its own.
NARROW_GROUPS = 200

_TINY = 1e-300
_NODES = 128


@dataclass(frozen=True)
class _Grid:
    """Values of (κ, μ) that are weighed: κ even in its logarithm, μ even in θ."""

    kappa: Floats  # (A,)
    theta: Floats  # (B,)

    @property
    def flat(self) -> tuple[Floats, Floats]:
        """All pairs κ, μ of the second class, each (A * B,)."""
        k, t = np.meshgrid(self.kappa, self.theta, indexing="ij")
        return k.ravel(), np.sin(t.ravel()) ** 2

    def draw(self, weights: Floats, rng: np.random.Generator) -> tuple[float, float]:
        """One pair, spread evenly over its cell."""
        k, mu = self.flat
        j = min(int(np.searchsorted(np.cumsum(weights), rng.random())), len(weights) - 1)
        step, width = np.log(self.kappa[1] / self.kappa[0]), self.theta[1] - self.theta[0]
        kappa = np.clip(k[j] * np.exp(step * (rng.random() - 0.5)), KAPPAS[0], KAPPAS[-1])
        t = np.arcsin(np.sqrt(mu[j])) + width * (rng.random() - 0.5)
        return float(kappa), float(np.sin(np.clip(t, 0.005, np.pi / 2 - 0.005)) ** 2)


def _hyper_grid(weights: Floats, mu: Floats, n_groups: int) -> _Grid:
    """The bulk of what the moments say, widened."""
    upto = np.cumsum(weights)
    low, high = (KAPPAS[min(int(np.searchsorted(upto, u)), len(KAPPAS) - 1)] for u in (1e-3, 0.999))
    kappa = np.geomspace(max(low / 2, KAPPAS[0]), min(high * 2, KAPPAS[-1]), 13)
    t = np.arcsin(np.sqrt(mu[:, 1]))
    margin = 0.35 * (t.max() - t.min()) + 0.02 + 0.3 / np.sqrt(n_groups)
    return _Grid(kappa, np.linspace(max(t.min() - margin, 0.01), min(t.max() + margin, np.pi / 2 - 0.01), 48))


def binary_hyper(
    M: Floats, V: Floats, moments: Moments, mu: Floats, prior: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """One (κ, μ) from their exact posterior for every draw of M; and the mean weights of `KAPPAS`."""
    M = relative_columns(M)
    grid = _hyper_grid(moments.weights, mu, len(V))
    k, m1 = grid.flat
    a, b = k * m1, k * (1 - m1)
    theta = np.linspace(0, np.pi / 2, _NODES)
    nodes = np.sin(theta) ** 2
    hats = np.ascontiguousarray(hat_weights(nodes, a, b).T.astype(np.float32))
    wide = _is_wide(M, V, theta[1])
    narrow = V[~wide][:NARROW_GROUPS]
    nearest = np.abs(np.log(KAPPAS)[:, None] - np.log(grid.kappa)).argmin(axis=0)
    kappas, mus, weights = np.empty(len(M)), np.empty((len(M), 2)), np.zeros(len(KAPPAS))
    for s in range(len(M)):
        score = kappa_hyperprior(k) + (prior[s, 1] - 0.5) * np.log(m1) + (prior[s, 0] - 0.5) * np.log1p(-m1)
        score += _wide_evidence(M[s], V[wide], nodes, hats) + _narrow_evidence(M[s], narrow, a, b)
        w = normalised(score)
        kappas[s], m = grid.draw(w, rng)
        mus[s] = 1 - m, m
        np.add.at(weights, nearest, w.reshape(len(grid.kappa), -1).sum(axis=1) / len(M))
    return kappas, mus, weights


def _is_wide(M: Floats, V: Floats, step: float) -> NDArray[np.bool_]:
    """Groups whose likelihood spans several of the nodes."""
    _, scale = conditional_mode(M.mean(axis=0, keepdims=True), V, beta_prior(np.full(2, 0.5), 1))
    return np.asarray((scale[:, 0] > RESOLVED * step) & (V.sum(axis=1) < SINGLE_ROWS))


def hat_weights(p: Floats, a: Floats, b: Floats) -> Floats:
    """Weights (J, T) of the nodes p (T,) that integrate piecewise linear functions exactly against Beta(a, b).

    Right also where a prior is much narrower than the distance of the nodes.
    """
    a, b = a[:, None], b[:, None]
    mass = np.diff(betainc(a, b, p), axis=1)
    first = np.diff(betainc(a + 1, b, p), axis=1) * a / (a + b)
    right = np.clip((first - p[:-1] * mass) / np.diff(p), 0, mass)
    W = np.zeros((len(a), len(p)))
    W[:, 1:] += right
    W[:, :-1] += mass - right
    return W


def _wide_evidence(M: Floats, V: Floats, nodes: Floats, hats: NDArray[np.float32]) -> Floats:
    """Log marginal likelihood, summed over groups, of every (a, b) behind the hats (T, J). M (2, m)."""
    q = M[0] + nodes[:, None] * (M[1] - M[0])
    L = V @ np.log(np.maximum(q, _TINY)).T
    L = np.exp(L - L.max(axis=1, keepdims=True)).astype(np.float32)
    return np.asarray(np.log(np.maximum(L @ hats, 1e-30)).sum(axis=0, dtype=np.float64))


def _narrow_evidence(M: Floats, V: Floats, a: Floats, b: Floats) -> Floats:
    """The same for groups that need their own cells."""
    if not len(V):
        return np.zeros(len(a))
    cells = own_cells(M[None], V, beta_prior(np.ones(2), 1))
    x = np.clip(cells.p[:, 0], _TINY, 1 - 1e-16)  # B, T
    out = np.zeros(len(a))
    for i in range(0, len(V), 50):
        y, mass = x[i : i + 50], cells.mass[i : i + 50, 0].reshape(-1, OWN_CELLS)
        D = np.log(y)[..., None] * (a - 1) + np.log1p(-y)[..., None] * (b - 1) - betaln(a, b)
        top = D.max(axis=1)
        likelihood = (mass[..., None] * np.exp(D - top[:, None])).sum(axis=1)
        out += (np.log(np.maximum(likelihood, _TINY)) + top).sum(axis=0)
    return out
