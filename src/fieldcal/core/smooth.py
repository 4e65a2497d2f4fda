"""Classes with an order: a prior that is smooth over neighbours.

``log(p / centre)`` is a random walk along the order, with steps of standard deviation ``σ``. For the whole field the
centre is the lab, and a small ``σ`` says "has not moved". For groups the centre is the whole field. Each ``σ`` is
weighed by its marginal likelihood, in the Gaussian approximation of the histogram, with the noise of the field and of M
inside. The walk is that of a *ratio*: a lab that is not smooth itself costs nothing.

Everything here sees histogram columns only, as `pooling` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.checks import histogram_covariance
from fieldcal.core.hmc import conditional_mode, hmc_draws, make_target
from fieldcal.core.order import Order
from fieldcal.core.pooling import GROUPS, effective_scale, informative, stratified
from fieldcal.core.solve import TOLERANCE, Solution
from fieldcal.core.spread import normalised

Floats = NDArray[np.float64]

#: Steps that are weighed, alike before the field is seen: from hardly any movement to anything goes.
SIGMAS = np.geomspace(0.01, 3.0, 21)
#: A walk that is free to go anywhere.
NO_STRENGTH = 1e-9
_DIRICHLET = 1e-6
_MOST = 60  # steps to a mode
_ROUNDS = 6


@dataclass(frozen=True)
class SmoothPrior:
    """Centre and strength of the walk for every draw of M, and their summary."""

    alpha: Floats  # (S, K) strength times centre
    sigma: float  # median step
    centre: Floats  # (K,)


def order_of(alpha: Floats, continuity: float = 0.0) -> Order:
    """The beliefs that a row of ``alpha`` stands for: its sum is the strength, its direction the centre."""
    strength = alpha.sum(axis=1)
    centre = np.maximum(alpha / strength[:, None], 1e-12)
    return Order(np.log(centre)[:, None, :], strength[:, None, None], continuity)


def smooth_posterior(
    A: Floats, M: Floats, V: Floats, *, p_lab: Floats, grouped: bool, rng: np.random.Generator
) -> SmoothPrior:
    """The prior of a field or of its groups.

    Parameters
    ----------
    A : (K, m) lab counts, smoothed
    M : (S, K, m) draws of the response matrix
    V : (G, m) field counts
    """
    possible = A.max(axis=0) > 0
    A, M, V = np.maximum(A[:, possible], 1e-12), M[..., possible], V[:, possible]
    total, S = V.sum(axis=0), len(M)
    sigma = SIGMAS[stratified(field_steps(A, total, p_lab=p_lab), S, rng)]
    scale = effective_scale(A, float(total.sum()), p_lab)
    lab = rng.dirichlet(A.sum(axis=1), size=S)  # where the lab's prevalences may be, for all its rows tell
    alpha = (scale / sigma**2)[:, None] * lab
    if not grouped:
        return SmoothPrior(alpha, float(np.median(sigma)), p_lab)
    common = smooth_draws(M, total[None], alpha, rng, per_draw=1)[0]
    steps = SIGMAS[stratified(group_steps(A, V, common.mean(axis=0), rng), S, rng)]
    return SmoothPrior(common / steps[:, None] ** 2, float(np.median(steps)), common.mean(axis=0))


def field_steps(A: Floats, v: Floats, *, p_lab: Floats) -> Floats:
    """Weights (J,) of `SIGMAS` for the histogram v (m,) of a whole field."""
    n = float(v.sum())
    if n <= 0:
        return normalised(np.zeros(len(SIGMAS)))
    evidence = [_field_evidence(A, v / n, n, p_lab, sigma) for sigma in SIGMAS]
    return normalised(np.array(evidence))


def _field_evidence(A: Floats, h: Floats, n: float, p_lab: Floats, sigma: float) -> float:
    """Log marginal likelihood of h, linearised where the posterior under this σ is highest."""
    rows = A.sum(axis=1)
    M = A / rows[:, None]
    walk = sigma * np.tril(np.ones((len(M), len(M) - 1)), -1)  # x = walk @ steps, steps standard normal
    steps = np.zeros(len(M) - 1)
    best = -np.inf
    for _ in range(_ROUNDS):
        p = _tilted(p_lab, walk @ steps)
        q = p @ M
        J = (p[:, None] * (M - q)).T @ walk  # how the histogram moves with each step, (m, K − 1)
        S = histogram_covariance(M, p[None], np.array([n]), rows=rows)[0]
        residual = h - q + J @ steps
        gain, evidence = _gaussian(J[:-1], S[:-1, :-1], residual[:-1])
        change, steps = np.abs(gain - steps).max(), steps + np.clip(gain - steps, -1.5, 1.5)
        best = evidence
        if change < 1e-3:
            break
    return best


def _gaussian(J: Floats, S: Floats, r: Floats) -> tuple[Floats, float]:
    """r = J z + noise(S) with z standard normal: the mean of z given r, and the log density of r."""
    C = S + J @ J.T + 1e-13 * np.eye(len(S))
    L = np.linalg.cholesky(C)
    z = np.linalg.solve(L, r)
    mean = J.T @ np.linalg.solve(L.T, z)
    return mean, float(-0.5 * z @ z - np.log(np.diag(L)).sum())


def group_steps(A: Floats, V: Floats, common: Floats, rng: np.random.Generator) -> Floats:
    """Weights (J,) of `SIGMAS` for how groups differ from the whole.

    In the directions in which steps move a histogram, white under the noise of a group. The noise of M is the same for
    all groups, so their mean is taken out.
    """
    M = A / A.sum(axis=1, keepdims=True)
    V = informative(V, GROUPS, rng)
    if len(V) < 2:
        return normalised(np.zeros(len(SIGMAS)))
    U, lam = _directions(M, common)
    n = V.sum(axis=1)[:, None]
    z = (V / n) @ U
    out = np.empty(len(SIGMAS))
    for j, sigma in enumerate(SIGMAS):
        w = 1 / (1 / n + sigma**2 * lam)
        total = w.sum(axis=0)
        residual = z - (w * z).sum(axis=0) / total
        out[j] = 0.5 * (np.log(w).sum() - (w * residual**2).sum() - np.log(total).sum())
    return normalised(out)


def _directions(M: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Directions (m, r) in which steps of size one move a histogram, white under multinomial noise, and how much."""
    q = p @ M
    seen = q > 1e-9
    walk = np.tril(np.ones((len(M), len(M) - 1)), -1)
    J = (p[:, None] * (M - q)).T @ walk
    X = J[seen].T / np.sqrt(q[seen])
    _, s, basis = np.linalg.svd(X, full_matrices=False)
    r = max(1, min(len(p) - 1, int((s > 1e-9).sum())))
    U = np.zeros((len(q), r))
    U[seen] = basis[:r].T / np.sqrt(q[seen])[:, None]
    return U, np.maximum(s[:r] ** 2, 1e-12)


def smooth_plug_in(A: Floats, V: Floats, *, p_lab: Floats) -> tuple[Floats, Floats]:
    """Fast, deterministic stand-in for the posterior: common (K,) and each (G, K), strictly positive."""
    rng = np.random.default_rng(0)
    possible = A.max(axis=0) > 0
    A, V = np.maximum(A[:, possible], 1e-12), V[:, possible]
    M = (A / A.sum(axis=1, keepdims=True))[None]
    total = V.sum(axis=0)
    scale = effective_scale(A, float(total.sum()), p_lab)
    sigma = _typical(field_steps(A, total, p_lab=p_lab))
    common = smooth_modes(M, total[None], (scale / sigma**2) * p_lab)[0]
    if len(V) == 1:
        return common, common[None]
    steps = _typical(group_steps(A, V, common, rng))
    return common, smooth_modes(M, V, common / steps**2)


def smooth_modes(M: Floats, V: Floats, alpha: Floats) -> Floats:
    """Modes (G, K) at one M, (1, K, m), strictly positive."""
    return smooth_solution(M, V, alpha).p


def smooth_solution(M: Floats, V: Floats, alpha: Floats, *, continuity: float = 0.0) -> Solution:
    """The modes, with half the squared length of the next Newton step as the gap."""
    target = make_target(M, V, _nothing(M), order=order_of(np.atleast_2d(alpha), continuity))
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        x, H = conditional_mode(target, max_iter=_MOST, tolerance=1e-8)
        gradient = target.gradient(x)
        step = np.linalg.solve(H, gradient[..., None])[..., 0]
    gap = 0.5 * (step * gradient).sum(axis=-1)[0] / np.maximum(V.sum(axis=1), 1.0)
    p = np.maximum(_tilted(np.ones(M.shape[1]), x[0]), 1e-15)
    p /= p.sum(axis=1, keepdims=True)
    iterations = np.full(len(V), _MOST, dtype=np.int64)
    return Solution(p, -target.value(x)[0], gap, iterations, gap < TOLERANCE * 1e4)


def smooth_draws(
    M: Floats,
    V: Floats,
    alpha: Floats,
    rng: np.random.Generator,
    *,
    per_draw: int = 4,
    continuity: float = 0.0,
) -> Floats:
    """Joint draws (G, S * per_draw, K); those at the same place share their M, so groups may be subtracted."""
    return hmc_draws(M, V, _nothing(M)[0], rng, per_draw=per_draw, order=order_of(alpha, continuity))


def _nothing(M: Floats) -> Floats:
    """Of the classes themselves nothing is believed."""
    return np.full((1, M.shape[1]), _DIRICHLET)


def _typical(weights: Floats) -> float:
    """The root of the mean square: a prior half of which is "has not moved" is half as wide."""
    return float(np.sqrt(weights @ SIGMAS**2))


def _tilted(p: Floats, x: Floats) -> Floats:
    top = np.log(np.maximum(p, 1e-300)) + x
    e = np.exp(top - top.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))
