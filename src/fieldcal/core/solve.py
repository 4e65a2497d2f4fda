"""Every group at once: the minimum of ``L_nll + L_reg``, with a certificate of optimality per group.

Two classes: Newton's method on the derivative, kept inside a bracket that halves where Newton leaves it.
More classes: a primal-dual interior-point method, batched over groups. Both stop on the Frank–Wolfe gap
``max_s ∇f(p)·(p − s)``, an upper bound of ``f(p) − min f`` for a convex ``f``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr, softmax, xlogy

from fieldcal.core import likelihood
from fieldcal.core.posterior_mcmc import conditional_mode, make_target, refuse_other_minima
from fieldcal.core.problem import Penalty
from fieldcal.types import Floats

#: The gap per field row below which a group counts as solved.
TOLERANCE = 1e-10
#: The same in softmax coordinates, where a step is certain to less.
SOFT_TOLERANCE = 1e-6
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
class _Chunk:
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
            value = likelihood.nll(p, self.M, self.V) - xlogy(self.D, p).sum(axis=1)
            value = value + np.where(self.s > 0, self.s * rel_entr(p, self.c), 0.0).sum(axis=1)
        return np.asarray(value)

    def gradient(self, p: Floats) -> Floats:
        """∇f; at ``p_i = 0`` its limit from inside."""
        with np.errstate(divide="ignore", invalid="ignore"):
            q = p @ self.M
            g = -np.where(self.V > 0, self.V / q, 0.0) @ self.M.T
            g -= np.where(self.D > 0, self.D / p, 0.0)
            g += self.entropy_slope(p)
        return np.asarray(g)

    def entropy_slope(self, p: Floats) -> Floats:
        """The part of ∇f that is no logarithm's."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(self.s > 0, self.s * (np.log(p / self.c) + 1.0), 0.0))

    def gap(self, p: Floats) -> Floats:
        """``∇f·p − min_i ∇f_i``: no point of the simplex is better by more than this."""
        with np.errstate(invalid="ignore"):
            g = self.gradient(p)
            inner = np.where(p > 0, p * g, 0.0).sum(axis=1)
        return np.asarray(np.maximum(inner - g.min(axis=1), 0.0))

    def take(self, rows: NDArray[np.intp]) -> _Chunk:
        return _Chunk(self.M, self.V[rows], self.D[rows], self.s[rows], self.c)

    def mirrored(self) -> _Chunk:
        return _Chunk(self.M[::-1], self.V, self.D[:, ::-1], self.s, self.c[::-1])


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
    if penalty.terms:
        return _with_terms(M, np.asarray(V, dtype=np.float64), penalty, max_iter)
    possible = M.max(axis=0) > 0
    # Only ratios within a column matter: scaled, no column is too small to be squared.
    largest = M[:, possible].max(axis=0)
    M = M[:, possible] / largest
    V = np.asarray(V, dtype=np.float64)[:, possible] + penalty.bins[possible]
    D = np.broadcast_to(penalty.classes, (len(V), len(M)))
    total = V.sum(axis=1) + D.sum(axis=1) + penalty.entropy
    scale = np.where(total > 0, total, 1.0)[:, None]
    step = max(1, _CELLS // (len(M) ** 2 + 4 * sum(M.shape)))
    parts = []
    for start in range(0, max(len(V), 1), step):
        rows = slice(start, start + step)
        size = scale[rows]
        problem = _Chunk(M, V[rows] / size, D[rows] / size, penalty.entropy / size, penalty.centre)
        method = _newton_binary if len(M) == 2 else _interior_point
        p, n_iter = method(problem, tolerance, max_iter)
        gap = problem.gap(p)
        loss = problem.loss(p) - problem.V @ np.log(largest)
        parts.append((p, loss * size[:, 0], gap, n_iter))
    p, loss, gap, n_iter = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Solution(p, loss, gap, n_iter, gap <= max(tolerance, 1e-8))


def _with_terms(M: Floats, V: Floats, penalty: Penalty, max_iter: int) -> Solution:
    """With summands that only their gradients describe: Newton's method in ``x``, ``p = softmax(x)``."""
    possible = M.max(axis=0) > 0
    M, V = M[:, possible], V[:, possible] + penalty.bins[possible]
    D = np.broadcast_to(penalty.classes, (len(V), len(M)))
    target = make_target(
        M[None], V, D[None], entropy=penalty.entropy, centre=penalty.centre, terms=penalty.terms
    )
    scale = np.maximum(V.sum(axis=1) + D.sum(axis=1) + penalty.entropy, 1.0)[:, None]
    chunk = _Chunk(M, V / scale, D / scale, penalty.entropy / scale, penalty.centre)
    for tolerance in (1e-10, 1e-13, 1e-16):  # of Newton's decrement, which says little of the gap
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            x, H, n_iter = conditional_mode(target, max_iter=max_iter, tolerance=tolerance)
        p = softmax(x[0], axis=-1)
        slope = chunk.gradient(p) + sum(term.gradient(p) for term in penalty.terms) / scale
        gap = np.maximum((slope * p).sum(axis=1) - slope.min(axis=1), 0.0)
        if (gap <= SOFT_TOLERANCE).all():
            break
    refuse_other_minima(H)
    loss = chunk.loss(p) * scale[:, 0] + sum(term.value(p) for term in penalty.terms)
    return Solution(p, loss, gap, np.full(len(V), n_iter, dtype=np.int64), gap <= SOFT_TOLERANCE)


def _newton_binary(problem: _Chunk, tolerance: float, max_iter: int) -> tuple[Floats, NDArray[np.int64]]:
    """The share of the rarer class, whichever that is: near zero it keeps all its digits."""
    p = np.full(problem.D.shape, 0.5)
    n_iter = np.zeros(len(p), dtype=np.int64)
    slope, _ = _slope_and_curvature(problem, p[:, 1])
    # Classes that differ by rounding only would send Newton's first step anywhere: they stay in the middle.
    for rarer, rows in ((1, slope > 1e-2 * tolerance), (0, slope < -1e-2 * tolerance)):
        part = problem.take(np.flatnonzero(rows))
        t, n_iter[rows] = _newton_below_half(part if rarer else part.mirrored(), tolerance, max_iter)
        p[rows, rarer], p[rows, 1 - rarer] = t, 1.0 - t
    return p, n_iter


def _newton_below_half(problem: _Chunk, tolerance: float, max_iter: int) -> tuple[Floats, NDArray[np.int64]]:
    """Newton on ``f'(t)``, ``p = (1 − t, t)``, inside a bracket of the root in [0, ½]; exactly 0 where that is best."""
    G = len(problem.V)
    low, high = np.zeros(G), np.full(G, 0.5)
    outward = _slope_and_curvature(problem, low)[0] >= -1e-15  # zero is best, but for rounding
    t = np.where(outward, low, high)
    n_iter = np.zeros(G, dtype=np.int64)
    active = np.flatnonzero(~outward)
    for _ in range(max_iter):
        if not len(active):
            break
        x = t[active]
        slope, curvature = _slope_and_curvature(problem.take(active), x)
        left = low[active] = np.where(slope < 0, x, low[active])
        right = high[active] = np.where(slope > 0, x, high[active])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = x - slope / curvature
        inside = (newton > left) & (newton < right)
        # At its last digit, or so close to zero that the loss cannot tell: a further step could only spoil it.
        stay = (newton == x) | ((slope >= 0) & (slope * x <= 1e-17))
        t[active] = np.where(stay, x, np.where(inside, newton, 0.5 * (left + right)))
        n_iter[active] += 1
        # The slope bounds the gap, and unlike the gap it bounds the distance from a minimum near zero too.
        done = stay | (np.abs(slope) <= 1e-2 * tolerance) | (right - left <= 1e-15 * right)
        active = active[~done]
    return t, n_iter


def _slope_and_curvature(problem: _Chunk, t: Floats) -> tuple[Floats, Floats]:
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


def _interior_point(problem: _Chunk, tolerance: float, max_iter: int) -> tuple[Floats, NDArray[np.int64]]:
    """A primal-dual path, damped to stay inside.

    Each logarithm of the loss is ``−b log a`` with ``a = p @ A``; a barrier ``−μ log p``, ``μ → 0``, joins those
    of the classes. Their slopes ``y = b / a`` are unknowns of their own: a minimum where ``a`` almost vanishes
    is then reached in a few steps. Every minimum is met, also one on the boundary; where the minimum is not
    unique, the path ends in the analytic centre of all minima and does not jump between them.
    """
    G, K = problem.D.shape
    A = np.hstack([problem.M, np.eye(K)])
    p = np.full((G, K), 1.0 / K)
    y = np.hstack([problem.V, problem.D + 1.0 / K]) / (p @ A)
    n_iter = np.zeros(G, dtype=np.int64)
    active = np.arange(G)
    for _ in range(max_iter):
        part, x, dual = problem.take(active), p[active], y[active]
        mu = 0.1 * np.abs(x * dual[:, -K:] - part.D).mean(axis=1, keepdims=True)
        b = np.hstack([part.V, part.D + np.maximum(mu, 1e-3 * tolerance / K)])
        dx, dual_step, nu = _newton_step(part, A, b, x, dual)
        step = _damped(part, A, b, x, dual, dx, dual_step, nu)
        x, dual = x + step * dx, dual + step * dual_step
        x /= x.sum(axis=1, keepdims=True)
        p[active], y[active] = x, dual
        n_iter[active] += 1
        active = active[part.gap(x) > tolerance]
        if not len(active):
            break
    return p, n_iter


def _newton_step(
    problem: _Chunk, A: Floats, b: Floats, p: Floats, y: Floats
) -> tuple[Floats, Floats, Floats]:
    """Newton's direction for ``entropy'(p) − A y = ν``, ``a·y = b``, ``Σ p = 1``; ``ν`` comes out as its new value."""
    G, K = p.shape
    a = p @ A
    i = np.arange(K)
    system = np.zeros((G, K + 1, K + 1))
    weight = y / a
    system[:, :K, :K] = likelihood.weighted_products(problem.M, weight[:, :-K])
    system[:, i, i] += weight[:, -K:] + problem.s / p
    system[:, :K, K] = -1.0
    system[:, K, :K] = 1.0
    right = np.zeros((G, K + 1))
    right[:, :K] = (b / a) @ A.T - problem.entropy_slope(p)
    right[:, K] = 1.0 - p.sum(axis=1)
    solution = np.linalg.solve(system, right[..., None])[..., 0]
    dp = solution[:, :K]
    return dp, (b - y * (dp @ A)) / a - y, solution[:, K:]


def _damped(
    problem: _Chunk, A: Floats, b: Floats, p: Floats, y: Floats, dp: Floats, dy: Floats, nu: Floats
) -> Floats:
    """The largest step that keeps a and y positive and does not make the residual worse.

    Slopes are weighted with ``p``: both halves of the residual are then shares of the gap.
    """

    def residual(x: Floats, dual: Floats) -> Floats:
        stationarity = p * (problem.entropy_slope(x) - dual @ A.T - nu)
        return np.asarray(np.sqrt((stationarity**2).sum(axis=1) + ((x @ A * dual - b) ** 2).sum(axis=1)))

    a, da = p @ A, dp @ A
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.minimum(
            np.where(da < 0, -a / da, np.inf).min(axis=1), np.where(dy < 0, -y / dy, np.inf).min(axis=1)
        )
    step: Floats = np.minimum(1.0, 0.995 * limit)[:, None]
    start = residual(p, y)
    for _ in range(30):
        worse = residual(p + step * dp, y + step * dy) > (1 - 0.01 * step[:, 0]) * start + 1e-14
        if not worse.any():
            break
        step[worse] *= 0.5
    return step
