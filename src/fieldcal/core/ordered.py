"""What an order of the classes says about neighbours: terms of a log density in ``x``, with ``p = softmax(x)``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fieldcal.core.goodness_of_fit import histogram_covariance
from fieldcal.core.posterior_mcmc import conditional_mode, hmc_draws, make_target
from fieldcal.core.problem import Problem
from fieldcal.core.shrinkage import (
    GROUPS,
    effective_scale,
    gaussian_evidence,
    informative,
    normalised,
    restricted_evidence,
    stratified,
    white_directions,
)
from fieldcal.core.solve import Solution
from fieldcal.types import Floats


class Shape(NamedTuple):
    """What a path looks like, whatever its size."""

    roughness: float = 1.0  # how much the slope changes along the way
    nugget: float = 0.0  # how far each class strays by itself


PLAIN = Shape()


def walk(n_classes: int, shape: Shape) -> Floats:
    """From independent standard normals to ``log(p / centre)``, (K, K − 1), for a path of unit size.

    Its steps have a common slope, and change along the way by ``roughness`` times a random walk: close to a straight
    line where that is small. Each class may stray from the path by ``nugget``.
    """
    steps = step_covariance(n_classes, shape)
    return np.tril(np.ones((n_classes, n_classes - 1)), -1) @ np.linalg.cholesky(steps)


def step_covariance(n_classes: int, shape: Shape) -> Floats:
    """Of the steps from each class to the next, (K − 1, K − 1); the same from either end of the order."""
    n = n_classes - 1
    T = np.tril(np.ones((n, n)), -1)
    T = T - T.mean(axis=0)  # changes of slope around the mean slope
    D = np.diff(np.eye(n_classes), axis=0)
    rough, stray = shape.roughness**2 * T @ T.T, shape.nugget**2 * D @ D.T
    return np.asarray(1.0 + rough + stray + 1e-6 * np.eye(n))


@dataclass(frozen=True)
class Order:
    """Beliefs about neighbours, for classes that have an order: their places are along the last axis.

    ``−½ strength · d' Σ⁻¹ d`` with ``d`` the steps of ``x − log centre`` and ``Σ`` their covariance: the logarithm of
    ``p / centre`` walks at random.
    """

    log_centre: Floats  # (S, 1, K)
    strength: Floats  # (S, 1, 1)
    shape: Shape = PLAIN

    @cached_property
    def precision(self) -> Floats:
        """Of the steps, for a strength of one."""
        return np.asarray(np.linalg.inv(step_covariance(self.log_centre.shape[-1], self.shape)))

    def typical(self) -> Order:
        """One belief in the middle of those of all draws."""
        strength = np.exp(np.log(self.strength).mean(axis=0, keepdims=True))
        return Order(self.log_centre.mean(axis=0, keepdims=True), strength, self.shape)

    def value(self, x: Floats) -> Floats:
        steps = np.diff(x - self.log_centre, axis=-1)
        return np.asarray(-0.5 * (self.strength * steps * (steps @ self.precision)).sum(axis=-1))

    def gradient(self, x: Floats) -> Floats:
        return np.asarray(self.strength * _back(np.diff(x - self.log_centre, axis=-1) @ self.precision))

    def information(self, p: Floats) -> Floats:
        """Curvature, (S, B, K, K), positive semidefinite."""
        K = p.shape[-1]
        D = np.diff(np.eye(K), axis=0)
        H = self.strength[..., None] * (D.T @ self.precision @ D)
        return np.asarray(np.broadcast_to(H, (*p.shape, K)))


def _back(steps: Floats) -> Floats:
    """Minus the transpose of differences: what each place feels of the steps on both sides of it."""
    ends = np.zeros((*steps.shape[:-1], 1))
    return np.diff(np.concatenate([ends, steps, ends], axis=-1), axis=-1)


#: Sizes that are weighed, alike before the field is seen.
SIGMAS = np.geomspace(0.01, 3.0, 21)
#: Shapes that are weighed, and the logarithm of the odds against those in which single classes stray.
SHAPES = tuple(Shape(r) for r in (0.03, 0.1, 0.3, 1.0)) + tuple(Shape(0.1, n) for n in (0.5, 2.0, 8.0))
STRAY = np.array([2.0 if shape.nugget else 0.0 for shape in SHAPES])
#: A field may outweigh the lab by so much; beyond, numbers lose their digits.
MOST_SCALE = 1e4
_DIRICHLET = 1e-6
#: Gap per row below which a mode counts as found: Newton's steps in x are certain to less than those in p.
FOUND = 1e-6
_ROUNDS = 30


@dataclass(frozen=True)
class Steps:
    """How far neighbours differ, as far as a histogram tells."""

    weights: Floats  # (J,) of `SIGMAS`, for the best shape
    shape: Shape

    @property
    def typical(self) -> float:
        return float(np.exp(self.weights @ np.log(SIGMAS)))

    def sizes(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Sizes with these weights, (S,)."""
        return np.asarray(SIGMAS[stratified(self.weights, n_draws, rng)])


@dataclass(frozen=True)
class SmoothPrior:
    """Centre and strength of the walk for every draw of M, and their summary."""

    alpha: Floats  # (S, K) strength times centre
    sigma: float  # median size
    shape: Shape


def order_of(alpha: Floats, shape: Shape = PLAIN) -> Order:
    """The beliefs that rows of ``alpha`` stand for: a row's sum is the strength, its direction the centre."""
    strength = alpha.sum(axis=1)
    centre = np.maximum(alpha / strength[:, None], 1e-12)
    return Order(np.log(centre)[:, None, :], strength[:, None, None], shape)


def smooth_prior(problem: Problem, M: Floats, *, rng: np.random.Generator) -> SmoothPrior:
    """The prior of a field or of its groups. M (S, K, m): draws of the response matrix."""
    possible = problem.A.max(axis=0) > 0
    A, M, V = np.maximum(problem.A[:, possible], 1e-12), M[..., possible], problem.V[:, possible]
    total, S, p_lab = V.sum(axis=0), len(M), problem.p_lab
    steps = field_steps(A, total, p_lab=p_lab)
    sigma, scale = steps.sizes(S, rng), _scale(A, total, p_lab)
    lab = rng.dirichlet(A.sum(axis=1), size=S)  # where the lab's prevalences may be, for all its rows tell
    # Draws of M that are taken as known leave out this much of the doubt about the path; exact in the linear case.
    stray = rng.standard_normal((S, len(A) - 1)) @ walk(len(A), steps.shape).T
    centre = _tilted(lab, np.sqrt(1 - 1 / scale) * sigma[:, None] * stray)
    alpha = (scale / sigma**2)[:, None] * centre
    if not problem.grouped or len(V) == 1:
        return SmoothPrior(alpha, float(np.median(sigma)), steps.shape)
    common = smooth_draws(M, total[None], alpha, rng, per_draw=1, shape=steps.shape)[0]
    between = group_steps(A, V, common.mean(axis=0), rng)
    sigma = between.sizes(S, rng)
    return SmoothPrior(common / sigma[:, None] ** 2, float(np.median(sigma)), between.shape)


def _scale(A: Floats, total: Floats, p_lab: Floats) -> float:
    return min(effective_scale(A, float(total.sum()), p_lab), MOST_SCALE)


def field_steps(A: Floats, v: Floats, *, p_lab: Floats) -> Steps:
    """How far the histogram v (m,) of a whole field has moved."""
    n = float(v.sum())
    if n <= 0:
        return _UNKNOWN
    evidence = [
        [_field_evidence(A, v / n, n, p_lab, sigma * walk(len(A), shape)) for sigma in SIGMAS]
        for shape in SHAPES
    ]
    return _best(np.array(evidence))


def _best(evidence: Floats) -> Steps:
    """The shape (rows) that all sizes (columns) together make most likely, and their weights there."""
    i = int((np.logaddexp.reduce(evidence, axis=1) - STRAY).argmax())
    return Steps(normalised(evidence[i]), SHAPES[i])


#: Where nothing was seen: a path that hardly leaves the centre.
_UNKNOWN = Steps(normalised(-((np.log(SIGMAS / 0.1) / 0.5) ** 2)), SHAPES[1])


def _field_evidence(A: Floats, h: Floats, n: float, p_lab: Floats, path: Floats) -> float:
    """Log marginal likelihood of h, linearised where the posterior is highest; ``x = path @ z``, z standard normal."""
    rows = A.sum(axis=1)
    M = A / rows[:, None]
    z = np.zeros(path.shape[1])
    for _ in range(_ROUNDS):
        p = _tilted(p_lab, path @ z)
        q = p @ M
        J = (p[:, None] * (M - q)).T @ path  # how the histogram moves with z, (m, K − 1)
        S = histogram_covariance(M, p[None], np.array([n]), rows=rows)[0]
        mean, evidence = _gaussian(J[:-1], S[:-1, :-1], (h - q + J @ z)[:-1])
        change, z = np.abs(mean - z).max(), z + np.clip(mean - z, -1.5, 1.5)
        if change < 1e-3:
            return evidence
    return -np.inf  # where it cannot be linearised, it is not to be believed


def _gaussian(J: Floats, S: Floats, r: Floats) -> tuple[Floats, float]:
    """r = J z + noise(S) with z standard normal: the mean of z given r, and the log density of r."""
    C = S + J @ J.T + 1e-13 * np.eye(len(S))
    return J.T @ np.linalg.solve(C, r), gaussian_evidence(r, C)


def group_steps(A: Floats, V: Floats, common: Floats, rng: np.random.Generator) -> Steps:
    """How far groups differ from the whole.

    In the directions in which a walk moves a histogram, white under the noise of a group. The noise of M is the same
    for all groups, so their mean is taken out.
    """
    M = A / A.sum(axis=1, keepdims=True)
    V = informative(V, GROUPS, rng)
    if len(V) < 2:
        return _UNKNOWN
    n = V.sum(axis=1)
    evidence = np.empty((len(SHAPES), len(SIGMAS)))
    for i, shape in enumerate(SHAPES):
        U, lam = _directions(M, common, walk(len(M), shape))
        z = U.T @ (V.T / n)
        evidence[i] = restricted_evidence(z, 1 / n + (SIGMAS[:, None] ** 2 * lam)[..., None])
    return _best(evidence)


def _directions(M: Floats, p: Floats, path: Floats) -> tuple[Floats, Floats]:
    """Directions in which a walk moves a histogram, white under multinomial noise, and how much."""
    q = p @ M
    return white_directions(path.T @ (p[:, None] * (M - q)), q)


def approximate_ordered_mean(A: Floats, V: Floats, *, p_lab: Floats) -> tuple[Floats, Floats]:
    """Fast, deterministic stand-in for the posterior: common (K,) and each (G, K), strictly positive."""
    possible = A.max(axis=0) > 0
    A, V = np.maximum(A[:, possible], 1e-12), V[:, possible]
    M = (A / A.sum(axis=1, keepdims=True))[None]
    total = V.sum(axis=0)
    steps = field_steps(A, total, p_lab=p_lab)
    strength = _scale(A, total, p_lab) / steps.typical**2
    common = ordered_mode(M, total[None], strength * p_lab, steps.shape).p[0]
    if len(V) == 1:
        return common, common[None]
    steps = group_steps(A, V, common, np.random.default_rng(0))
    return common, ordered_mode(M, V, common / steps.typical**2, steps.shape).p


def ordered_mode(
    M: Floats, V: Floats, alpha: Floats, shape: Shape = PLAIN, *, max_iter: int = 200
) -> Solution:
    """Modes at one M, (1, K, m), with half the squared length of the next Newton step as the gap."""
    target = make_target(M, V, _nothing(M), order=order_of(np.atleast_2d(alpha), shape))
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        x, H, n_iter = conditional_mode(target, max_iter=max_iter, tolerance=1e-8)
        gradient = target.gradient(x)
        step = np.linalg.solve(H, gradient[..., None])[..., 0]
    gap = 0.5 * (step * gradient).sum(axis=-1)[0] / np.maximum(V.sum(axis=1), 1.0)
    p = np.maximum(_tilted(np.ones(M.shape[1]), x[0]), 1e-15)
    p /= p.sum(axis=1, keepdims=True)
    return Solution(p, -target.value(x)[0], gap, np.full(len(V), n_iter, dtype=np.int64), gap < FOUND)


def smooth_draws(
    M: Floats,
    V: Floats,
    alpha: Floats,
    rng: np.random.Generator,
    *,
    per_draw: int = 4,
    shape: Shape = PLAIN,
) -> Floats:
    """Joint draws (G, S * per_draw, K); those at the same place share their M, so groups may be subtracted."""
    return hmc_draws(M, V, _nothing(M)[0], rng, per_draw=per_draw, order=order_of(alpha, shape))


def _nothing(M: Floats) -> Floats:
    """Of the classes themselves nothing is believed."""
    return np.full((1, M.shape[1]), _DIRICHLET)


def _tilted(p: Floats, x: Floats) -> Floats:
    top = np.log(np.maximum(p, 1e-300)) + x
    e = np.exp(top - top.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))
