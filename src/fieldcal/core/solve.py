"""Every group at once: the minimum of ``L_nll + L_reg``, with a certificate of optimality per group.

Two classes: Newton's method on the derivative, kept inside a bracket that halves whenever Newton does not.
More classes: a primal-dual interior-point method, batched over groups. Both stop on the Frank–Wolfe gap
``max_s ∇f(p)·(p − s)``, an upper bound of ``f(p) − min f`` for a convex ``f``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr, xlogy

from fieldcal.core.priors import Penalty

Floats = NDArray[np.float64]

#: The gap per field row below which a group counts as solved.
TOLERANCE = 1e-10
_CELLS = 4_000_000  # floats per work array: groups are solved in chunks of bounded memory


@dataclass(frozen=True)
class Solution:
    """Where the minimum is, and how sure that is."""

    p: Floats  # (G, K)
    loss: Floats  # (G,) L_nll + L_reg, up to constants
    gap: Floats  # (G,) upper bound of loss − minimum, per pseudo- or field row
    n_iter: NDArray[np.int64]  # (G,)
    converged: NDArray[np.bool_]  # (G,)


@dataclass(frozen=True)
class _Problem:
    """One chunk of groups: minimise ``−Σ_j V_j log(p@M)_j − Σ_i D_i log p_i + s Σ_i p_i log(p_i/c_i)``.

    Everything is divided by the number of rows and pseudo-rows, so that tolerances mean the same for all.
    """

    M: Floats  # (K, m)
    V: Floats  # (G, m)
    D: Floats  # (G, K)
    s: Floats  # (G, 1)
    c: Floats  # (K,)

    def loss(self, p: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            value = -xlogy(self.V, p @ self.M).sum(axis=1) - xlogy(self.D, p).sum(axis=1)
            value = value + np.where(self.s > 0, self.s * rel_entr(p, self.c), 0.0).sum(axis=1)
        return np.asarray(value)

    def gradient(self, p: Floats) -> Floats:
        """∇f; at ``p_i = 0`` its limit from inside."""
        with np.errstate(divide="ignore", invalid="ignore"):
            q = p @ self.M
            g = -np.where(self.V > 0, self.V / q, 0.0) @ self.M.T
            g -= np.where(self.D > 0, self.D / p, 0.0)
            g += np.where(self.s > 0, self.s * (np.log(p / self.c) + 1.0), 0.0)
        return np.asarray(g)

    def hessian(self, p: Floats) -> Floats:
        q = p @ self.M
        weight = np.divide(self.V, q * q, out=np.zeros_like(self.V), where=self.V > 0)
        H = np.einsum("ij,gj,kj->gik", self.M, weight, self.M, optimize=True)
        i = np.arange(p.shape[1])
        H[:, i, i] += self.D / (p * p) + self.s / p
        return np.asarray(H)

    def gap(self, p: Floats) -> Floats:
        """``∇f·p − min_i ∇f_i``: no point of the simplex is better by more than this."""
        with np.errstate(invalid="ignore"):
            g = self.gradient(p)
            inner = np.where(p > 0, p * g, 0.0).sum(axis=1)
        return np.asarray(np.maximum(inner - g.min(axis=1), 0.0))

    def take(self, rows: NDArray[np.intp]) -> _Problem:
        return _Problem(self.M, self.V[rows], self.D[rows], self.s[rows], self.c)


def solve(
    M: Floats, V: Floats, penalty: Penalty, *, tolerance: float = TOLERANCE, max_iter: int = 200
) -> Solution:
    """Minimise ``L_nll + L_reg`` for every row of V.

    Parameters
    ----------
    M : (K, m) response matrix; bins that are impossible in every class (columns of zeros) are left out
    V : (G, m) field counts
    penalty : L_reg; its class pseudo-rows may differ between groups

    Notes
    -----
    A group without rows and without a proper prior is answered with equal prevalences, gap 0.
    """
    possible = M.max(axis=0) > 0
    M = np.ascontiguousarray(M[:, possible])
    V = np.asarray(V, dtype=np.float64)[:, possible] + penalty.bins[possible]
    D = np.broadcast_to(penalty.classes, (len(V), len(M)))
    scale = np.maximum(V.sum(axis=1) + D.sum(axis=1) + penalty.entropy, 1e-300)[:, None]
    step = max(1, _CELLS // (len(M) ** 2 + 4 * M.shape[1]))
    parts = []
    for start in range(0, max(len(V), 1), step):
        rows = slice(start, start + step)
        size = scale[rows]
        problem = _Problem(M, V[rows] / size, D[rows] / size, penalty.entropy / size, penalty.centre)
        method = _newton_binary if len(M) == 2 else _interior_point
        p, n_iter = method(problem, tolerance, max_iter)
        gap = problem.gap(p)
        parts.append((p, problem.loss(p) * size[:, 0], gap, n_iter))
    p, loss, gap, n_iter = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Solution(p, loss, gap, n_iter, gap <= max(tolerance, 1e-8))


def _newton_binary(problem: _Problem, tolerance: float, max_iter: int) -> tuple[Floats, NDArray[np.int64]]:
    """Newton on ``f'(t)``, ``p = (1 − t, t)``, inside a bracket of the root."""
    G = len(problem.V)
    low, high = np.zeros(G), np.ones(G)
    t = np.full(G, 0.5)
    n_iter = np.zeros(G, dtype=np.int64)
    active = np.arange(G)
    for _ in range(max_iter):
        part = problem.take(active)
        x = t[active]
        slope, curvature = _slope_and_curvature(part, x)
        low[active] = np.where(slope < 0, x, low[active])
        high[active] = np.where(slope > 0, x, high[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - slope / curvature
        middle = 0.5 * (low[active] + high[active])
        inside = (newton > low[active]) & (newton < high[active])
        following = np.where(slope == 0, x, np.where(inside, newton, middle))
        following = _try_ends(part, following, low[active], high[active])
        n_iter[active] += 1
        t[active] = following
        done = (np.abs(following - x) <= 1e-15 * np.maximum(x, 1e-300)) | (high[active] - low[active] < 1e-16)
        done |= part.gap(_pair(following)) <= tolerance * 1e-2
        active = active[~done]
        if not len(active):
            break
    return _pair(t), n_iter


def _try_ends(problem: _Problem, t: Floats, low: Floats, high: Floats) -> Floats:
    """Step onto 0 or 1 where the bracket still reaches it and the slope there says that it is the minimum."""
    for end, open_side in ((0.0, low == 0.0), (1.0, high == 1.0)):
        near = np.flatnonzero(open_side & (np.abs(t - end) < 0.5))
        if len(near):
            part = problem.take(near)
            slope, _ = _slope_and_curvature(part, np.full(len(near), end))
            outward = slope >= 0 if end == 0.0 else slope <= 0
            t[near[outward & np.isfinite(part.loss(_pair(np.full(len(near), end))))]] = end
    return t


def _slope_and_curvature(problem: _Problem, t: Floats) -> tuple[Floats, Floats]:
    difference = problem.M[1] - problem.M[0]
    q = problem.M[0] + t[:, None] * difference
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r = np.where(problem.V > 0, difference / q, 0.0)
        slope = -(problem.V * r).sum(axis=1)
        curvature = (problem.V * r * r).sum(axis=1)
        D, s = problem.D, problem.s[:, 0]
        slope += np.where(D[:, 0] > 0, D[:, 0] / (1 - t), 0.0) - np.where(D[:, 1] > 0, D[:, 1] / t, 0.0)
        curvature += np.where(D[:, 0] > 0, D[:, 0] / (1 - t) ** 2, 0.0)
        curvature += np.where(D[:, 1] > 0, D[:, 1] / t**2, 0.0)
        logit = np.log(t / problem.c[1]) - np.log((1 - t) / problem.c[0])
        slope += np.where(s > 0, s * logit, 0.0)
        curvature += np.where(s > 0, s / (t * (1 - t)), 0.0)
    return slope, curvature


def _pair(t: Floats) -> Floats:
    return np.column_stack([1.0 - t, t])


def _interior_point(problem: _Problem, tolerance: float, max_iter: int) -> tuple[Floats, NDArray[np.int64]]:
    """A primal-dual path: ``∇f(p) − z − ν = 0``, ``p·z = μ → 0``, ``Σ p = 1``, damped to stay inside.

    Every minimum is met, also one on the boundary; where the minimum is not unique, the path ends in the
    analytic centre of all minima and does not jump between them.
    """
    G, K = problem.D.shape
    p = np.full((G, K), 1.0 / K)
    z = np.ones((G, K))
    n_iter = np.zeros(G, dtype=np.int64)
    active = np.arange(G)
    for _ in range(max_iter):
        part, x, dual = problem.take(active), p[active], z[active]
        mu = 0.1 * (x * dual).mean(axis=1, keepdims=True)
        dx, dz, nu = _newton_step(part, x, dual, mu)
        step = _damped(part, x, dual, dx, dz, nu, mu)
        x, dual = x + step * dx, np.maximum(dual + step * dz, 1e-300)
        x /= x.sum(axis=1, keepdims=True)
        p[active], z[active] = x, dual
        n_iter[active] += 1
        active = active[part.gap(x) > tolerance]
        if not len(active):
            break
    return p, n_iter


def _newton_step(problem: _Problem, p: Floats, z: Floats, mu: Floats) -> tuple[Floats, Floats, Floats]:
    """The Newton direction of the perturbed optimality conditions; ``ν`` comes out as its new value."""
    G, K = p.shape
    system = np.zeros((G, K + 1, K + 1))
    system[:, :K, :K] = problem.hessian(p)
    i = np.arange(K)
    system[:, i, i] += z / p
    system[:, :K, K] = -1.0
    system[:, K, :K] = 1.0
    right = np.zeros((G, K + 1))
    right[:, :K] = mu / p - problem.gradient(p)
    right[:, K] = 1.0 - p.sum(axis=1)
    solution = np.linalg.solve(system, right[..., None])[..., 0]
    dp = solution[:, :K]
    return dp, (mu - z * dp) / p - z, solution[:, K:]


def _damped(
    problem: _Problem, p: Floats, z: Floats, dp: Floats, dz: Floats, nu: Floats, mu: Floats
) -> Floats:
    """The largest step that keeps p and z positive and does not make the residual worse."""

    def residual(x: Floats, dual: Floats) -> Floats:
        stationarity = problem.gradient(x) - dual - nu
        return np.asarray(np.sqrt((stationarity**2).sum(axis=1) + ((x * dual - mu) ** 2).sum(axis=1)))

    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.minimum(
            np.where(dp < 0, -p / dp, np.inf).min(axis=1), np.where(dz < 0, -z / dz, np.inf).min(axis=1)
        )
    step: Floats = np.minimum(1.0, 0.995 * limit)[:, None]
    start = residual(p, z)
    for _ in range(30):
        worse = residual(p + step * dp, z + step * dz) > (1 - 0.01 * step[:, 0]) * start + 1e-14
        if not worse.any():
            break
        step[worse] *= 0.5
    return step
