"""Any prior of more than two classes: Hamiltonian Monte Carlo, one chain for every draw of M and group, all in step.

Under a Dirichlet prior `posterior_copula` comes first; this is for the groups on which it fails.

Coordinates ``x`` with ``p = softmax(x)``. There ``Dirichlet(α)`` has the density ``Π p_k^α_k`` (the Jacobian takes the
−1 away), so the mode is interior for every ``α > 0`` and gradients are bounded. The redundant direction, the mean of
``x``, gets a normal of its own and does not touch ``p``. Chains start at the conditional mode, in the metric of the
curvature there. Arrays are (S, B, ·), B groups in a block.

Only ratios within a column of ``M`` matter: rows of ``M`` need not sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import likelihood
from fieldcal.core.posterior_binary import relative_columns
from fieldcal.core.problem import Term, curvature
from fieldcal.errors import InputError
from fieldcal.types import Floats

if TYPE_CHECKING:
    from fieldcal.core.ordered import Order

#: Trajectories thrown away, leaps in each; the first step, and the acceptance it is tuned to.
BURN, LEAPS, STEP, ACCEPT = 12, 7, 0.3, 0.75
#: The same where a class has a prior parameter below `SPARSE` (in most draws): its tail is long to explore.
SPARSE, SPARSE_BURN, SPARSE_LEAPS = 0.3, 24, 10

#: With more classes the modes of all draws are sought in one metric: Newton's own takes K³ a step for every draw.
MANY_CLASSES = 20

#: Log density that a chain may lose between the mode and its start.
FARTHEST = 5.0

_TINY = 1e-300
_CELLS = 4_000_000  # floats per work array
#: Groups that are sampled together at least: reading M costs as much for one.
LEAST_BLOCK = 4


@dataclass(frozen=True)
class Target:
    """Log density of x for a block of groups, every draw of M."""

    M: Floats  # (S, K, m)
    V: Floats  # (B, m)
    alpha: Floats  # (S, 1, K) or (1, B, K)
    entropy: float
    log_centre: Floats  # (K,)
    order: Order | None = None
    terms: tuple[Term, ...] = ()

    @property
    def rows(self) -> Floats:
        """Field rows per group, (B,)."""
        return np.asarray(self.V.sum(axis=1))

    def typical(self) -> Target:
        """One density in the middle of those of all draws."""
        alpha = self.alpha.mean(axis=0, keepdims=True)
        order = None if self.order is None else self.order.typical()
        return replace(self, M=self.M.mean(axis=0, keepdims=True), alpha=alpha, order=order)

    def value(self, x: Floats) -> Floats:
        """Log density up to a constant, (S, B)."""
        p, log_p = _log_softmax(x)
        f = likelihood.log_likelihood(p, self.M, self.V) + (self.alpha * log_p).sum(axis=-1)
        f -= 0.5 * x.shape[-1] * x.mean(axis=-1) ** 2
        if self.entropy:
            f -= self.entropy * (p * (log_p - self.log_centre)).sum(axis=-1)
        if self.order is not None:
            f = f + self.order.value(x)
        return np.asarray(f - sum(term.value(p) for term in self.terms))

    def gradient(self, x: Floats) -> Floats:
        """Of the log density, (S, B, K)."""
        p, log_p = _log_softmax(x)
        g = self.alpha + likelihood.expected_rows(p, self.M, self.V) - x.mean(axis=-1, keepdims=True)
        g -= (self.alpha.sum(axis=-1, keepdims=True) + self.rows[:, None]) * p
        if self.entropy:
            u = log_p - self.log_centre
            g -= self.entropy * p * (u - (p * u).sum(axis=-1, keepdims=True))
        if self.order is not None:
            g = g + self.order.gradient(x)
        for term in self.terms:
            slope = term.gradient(p)
            g = g - p * (slope - (p * slope).sum(axis=-1, keepdims=True))
        return np.asarray(g)

    def information(self, x: Floats) -> Floats:
        """Curvature at x, (S, B, K, K): prior, mean of x and Fisher information; positive definite."""
        K = x.shape[-1]
        p, _ = _log_softmax(x)
        H = likelihood.information(p, self.M, self.V)
        H *= p[..., :, None] * p[..., None, :]
        N = H.sum(axis=-1)
        H -= N[..., :, None] * N[..., None, :] / np.maximum(self.rows, _TINY)[:, None, None]
        prior = self.alpha.sum(axis=-1)[..., None, None] + self.entropy
        H -= prior * p[..., :, None] * p[..., None, :] - 1 / K
        i = np.arange(K)
        # The ridge outweighs rounding, also at 1e12 rows; this is a metric, the density itself is exact.
        H[..., i, i] += (prior[..., 0] + 1e-13 * self.rows[:, None]) * p + 1e-6
        if self.terms:
            J = p[..., :, None] * (np.eye(K) - p[..., None, :])  # dp / dx, symmetric
            H = H + J @ sum(curvature(term, p) for term in self.terms) @ J
        return H if self.order is None else H + self.order.information(p)


@dataclass(frozen=True)
class Chains:
    """Where every chain is."""

    x: Floats  # (S, B, K)
    value: Floats  # (S, B)
    gradient: Floats  # (S, B, K)

    @classmethod
    def at(cls, target: Target, x: Floats) -> Chains:
        """All chains at x."""
        return cls(x, target.value(x), target.gradient(x))

    def p(self) -> Floats:
        """The prevalences, (S, B, K)."""
        return _log_softmax(self.x)[0]


def hmc_draws(
    M: Floats,
    V: Floats,
    alpha: Floats,
    rng: np.random.Generator,
    *,
    per_draw: int = 4,
    entropy: float = 0.0,
    centre: Floats | None = None,
    order: Order | None = None,
    terms: tuple[Term, ...] = (),
) -> Floats:
    """Joint draws (G, S * per_draw, K): those of draw s use the same ``M_s`` in every group.

    Parameters
    ----------
    M : (S, K, m) draws of the response matrix
    V : (G, m) field counts
    alpha : (K,) or (S, K) Dirichlet parameters of the prior
    order : beliefs about neighbours
    terms : further summands of L_reg

    References
    ----------
    Neal, R. M. (2011). MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo, ch. 5.
    """
    S, K, m = M.shape
    alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (S, K))
    V = np.asarray(V, dtype=np.float64)
    out = np.empty((len(V), S, per_draw, K))
    block = max(LEAST_BLOCK, _CELLS // (S * K * max(K, m)))
    for i in range(0, len(V), block):
        target = make_target(
            M, V[i : i + block], alpha, entropy=entropy, centre=centre, order=order, terms=terms
        )
        out[i : i + block] = _sample(target, rng, per_draw)
    return out.reshape(len(V), S * per_draw, K)


def make_target(
    M: Floats,
    V: Floats,
    alpha: Floats,
    *,
    entropy: float = 0.0,
    centre: Floats | None = None,
    order: Order | None = None,
    terms: tuple[Term, ...] = (),
) -> Target:
    """The density of a block of groups; alpha (S, K), or (1, B, K) where groups differ in it."""
    K = M.shape[1]
    middle = np.full(K, 1 / K) if centre is None else np.maximum(centre, 1e-12)
    alpha = np.maximum(alpha if alpha.ndim == 3 else alpha[:, None, :], 1e-6)
    return Target(relative_columns(M), V, alpha, float(entropy), np.log(middle), order, terms)


def _sample(target: Target, rng: np.random.Generator, per_draw: int) -> Floats:
    """One block, (B, S, per_draw, K)."""
    belief = target.alpha.min(axis=-1) if target.order is None else target.order.strength
    sparse = np.median(belief) < SPARSE
    burn, leaps = (SPARSE_BURN, SPARSE_LEAPS) if sparse else (BURN, LEAPS)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        chains, metric = start_chains(target, rng)
        S, B, K = chains.x.shape
        step = np.full(B, STEP)
        out = np.empty((B, S, per_draw, K))
        for t in range(burn + per_draw):
            chains, accepted = trajectory(chains, target, metric, rng, step, leaps)
            if t < burn:
                step = tuned(step, accepted)
            else:
                out[:, :, t - burn] = chains.p().transpose(1, 0, 2)
    return out


def start_chains(target: Target, rng: np.random.Generator) -> tuple[Chains, Floats]:
    """Chains next to the conditional mode, and the map (S, B, K, K) from whitened coordinates."""
    x, H = _modes(target)
    if target.terms:
        refuse_other_minima(H)
    metric = np.linalg.inv(np.linalg.cholesky(H)).swapaxes(-1, -2)
    beside = x + 0.1 * _apply(metric, rng.standard_normal(x.shape))
    # The metric is the curvature at the mode. A class that is all but absent is flat there and steep farther up: a
    # chain that starts up there cannot come back.
    far = target.value(beside) < target.value(x) - FARTHEST
    return Chains.at(target, np.where(far[..., None], x, beside)), metric


def refuse_other_minima(H: Floats) -> None:
    """Refuse a loss that bends the wrong way where it was to be smallest: then there are others, or none.

    Raises
    ------
    InputError
    """
    if not (np.linalg.eigvalsh(H) > 0).all():
        raise InputError(
            "Likelihood and L_reg together are not convex: there may be several minima, and no interval around one of "
            "them means anything. Use a convex penalty, or one that is weaker than what the field's rows say."
        )


def tuned(step: Floats, accepted: NDArray[np.bool_]) -> Floats:
    """Steps per group, (B,), towards the wanted acceptance: shorter where the posterior is far from normal."""
    return np.asarray(step * np.exp(np.clip(2.0 * (accepted.mean(axis=0) - ACCEPT), -0.7, 0.1)))


def trajectory(
    chains: Chains, target: Target, metric: Floats, rng: np.random.Generator, step: Floats, leaps: int
) -> tuple[Chains, NDArray[np.bool_]]:
    """One step of all chains: leapfrog, then accept or stay."""
    back = metric.swapaxes(-1, -2)
    x, gradient = chains.x, chains.gradient
    momentum = rng.standard_normal(x.shape)
    e = step[:, None] * rng.uniform(0.7, 1.1, (*x.shape[:2], 1))
    energy = chains.value - 0.5 * (momentum**2).sum(axis=-1)
    momentum = momentum + 0.5 * e * _apply(back, gradient)
    for i in range(leaps):
        x = x + e * _apply(metric, momentum)
        gradient = target.gradient(x)
        momentum = momentum + (e if i < leaps - 1 else 0.5 * e) * _apply(back, gradient)
    value = target.value(x)
    accepted = np.log(rng.random(value.shape)) < value - 0.5 * (momentum**2).sum(axis=-1) - energy
    k = accepted[..., None]
    moved = Chains(
        np.where(k, x, chains.x),
        np.where(accepted, value, chains.value),
        np.where(k, gradient, chains.gradient),
    )
    return moved, accepted


def conditional_mode(
    target: Target, *, max_iter: int = 30, tolerance: float = 1e-2
) -> tuple[Floats, Floats, int]:
    """Mode of x, the curvature there, and the steps it took: damped Fisher scoring from a few EM steps."""

    def newton(x: Floats, gradient: Floats) -> Floats:
        return np.asarray(np.linalg.solve(target.information(x), gradient[..., None])[..., 0])

    x, n_iter = _climb(target, _em_start(target), newton, max_iter, tolerance)
    return x, target.information(x), n_iter


def _modes(target: Target) -> tuple[Floats, Floats]:
    """Modes of all draws (nearly, for many classes) and the curvature at each, where chains start."""
    S, K = len(target.M), target.alpha.shape[-1]
    if S == 1 or K <= MANY_CLASSES:
        return conditional_mode(target)[:2]
    x, H, _ = conditional_mode(target.typical())
    inverse = np.asarray(np.linalg.inv(H), dtype=np.float64)
    start = np.repeat(x, S, axis=0)
    x, _ = _climb(target, start, lambda x, gradient: _apply(inverse, gradient), max_iter=30, tolerance=1e-2)
    return x, target.information(x)


def _climb(
    target: Target,
    x: Floats,
    direction: Callable[[Floats, Floats], Floats],
    max_iter: int,
    tolerance: float,
) -> tuple[Floats, int]:
    """Damped steps in a direction that x and the gradient give, until they promise little; how many there were."""
    value, gradient = target.value(x), target.gradient(x)
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        step = direction(x, gradient)
        if (step * gradient).sum(axis=-1).max(initial=0.0) < tolerance:
            break
        longest = np.abs(step).max(axis=-1, keepdims=True)
        x = _improved(target, x, value, np.asarray(step * np.minimum(1.0, 3.0 / np.maximum(longest, _TINY))))
        value, gradient = target.value(x), target.gradient(x)
    return x, n_iter


def _em_start(target: Target) -> Floats:
    """x after eight steps of EM from the prior's mean, (S, B, K); the mean itself where neighbours matter."""
    pseudo = target.alpha + target.entropy * np.exp(target.log_centre)
    shape = (len(target.M), len(target.V), target.alpha.shape[-1])
    if target.order is not None:
        x = np.broadcast_to(target.order.log_centre, shape)
        return np.asarray(x - x.mean(axis=-1, keepdims=True))
    p = np.broadcast_to(pseudo / pseudo.sum(axis=-1, keepdims=True), shape)
    for _ in range(8):
        p = pseudo + likelihood.expected_rows(p, target.M, target.V)
        p = p / p.sum(axis=-1, keepdims=True)
    x = np.log(p)
    return np.asarray(x - x.mean(axis=-1, keepdims=True))


def _improved(target: Target, x: Floats, value: Floats, step: Floats) -> Floats:
    """The step, shortened until the density does not fall; no step where six cuts do not help."""
    share = np.ones((*value.shape, 1))
    worse = np.zeros(value.shape, dtype=bool)
    for _ in range(6):
        worse = target.value(x + share * step) < value - 1e-11 * np.abs(value)
        if not worse.any():
            break
        share[worse] *= 0.3
    return np.asarray(x + np.where(worse[..., None], 0.0, share * step))


def _log_softmax(x: Floats) -> tuple[Floats, Floats]:
    """p and log p."""
    top = x - x.max(axis=-1, keepdims=True)
    e = np.exp(top)
    total = e.sum(axis=-1, keepdims=True)
    return e / total, top - np.log(total)


def _apply(matrix: Floats, vector: Floats) -> Floats:
    return np.asarray((matrix @ vector[..., None])[..., 0])
