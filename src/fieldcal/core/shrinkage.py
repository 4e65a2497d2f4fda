"""Shrinkage by empirical Bayes: priors whose strength the field itself speaks for.

*Lab-centred*: ``Dirichlet(b + c·κ₀·p_lab)``, ``b`` one half, or less for a rare class. Its strength ``κ₀`` is weighed
by evidence that has the noise of M inside: a field that has not moved is left alone as soon as its rows show it, and
one that moved is not held back.

*Pooled* (partial pooling): ``p_g ~ Dirichlet(κ·μ)``. ``κ`` comes from the spread of the histograms in the directions in
which prevalences move them, and only there: misfit elsewhere cannot pass for spread. One ``(κ_s, μ_s)`` for every draw
``M_s``: the mean of the groups carries the noise of M too.

Everything here sees histogram columns only: rows of ``A / A.sum(1)`` and of ``M`` sum to one. ``A`` is F plus
smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.posterior_binary import binary_draws
from fieldcal.core.posterior_mcmc import hmc_draws
from fieldcal.core.problem import Penalty, Problem
from fieldcal.core.response import smoothing_cells
from fieldcal.core.solve import solve
from fieldcal.types import Floats

#: Strengths of the lab-centred prior that are weighed.
STRENGTHS = np.concatenate([[0.0], np.logspace(0, 6, 25)])
#: Strengths beyond this many times the rows that field and lab are worth would only repeat "has not moved".
STRENGTH_CAP = 10.0
#: How probable it is, before a field of many rows is seen, that it moved anywhere at all: the weight of strength 0.
EXPECTED_TO_MOVE = 0.9
#: A field that says as much as so many labels is given half of that: less is no reason to leave the lab. (decision 13)
LABELS_OF_HALF_DOUBT = 1.0
#: Below this many groups the spread between them is a guess: intervals do not lean on it.
FEW_GROUPS = 5
#: Groups that the hyperparameters are learnt from, at most.
GROUPS = 1000
#: No class of the pooled mean is rarer than this, divided by K.
MEAN_FLOOR = 1e-4

_TINY = 1e-300


def lab_prior(
    A: Floats, v: Floats, n: float, *, p_lab: Floats, n_draws: int, rng: np.random.Generator, cut: bool = True
) -> tuple[Floats, float]:
    """The lab-centred prior of a histogram v (m,) of n rows: parameters (S, K), and the median strength.

    ``cut``: whether it will meet a likelihood that takes every draw of M as known.
    """
    k = STRENGTHS[stratified(lab_strength(A, v, n, p_lab=p_lab), n_draws, rng)]
    scale = effective_scale(A, n, p_lab) if cut else 1.0
    return lab_centred(scale * k, p_lab=p_lab), float(np.median(k))


def lab_centred(strength: Floats, *, p_lab: Floats) -> Floats:
    """Parameters (J, K) of the lab-centred prior with each of the strengths (J,).

    Half a row for every class would be most of what a rare one has: at a strength of 50, two classes and 1 % in the lab
    the prior's mean would be 2 %. So a class that is rarer than 1 / K has less, in proportion. Strength 0, which
    knows nothing of the lab, is Jeffreys'.
    """
    base = np.clip(BASE * len(p_lab) * p_lab, RAREST_BASE, BASE)
    return np.asarray(np.where(strength[:, None] > 0, base, BASE) + strength[:, None] * p_lab)


def effective_scale(A: Floats, n: float, p: Floats) -> float:
    """``1 + n Σ p_k² / rows_k``: how much more the field's likelihood claims to know than the noise of M allows.

    A strength found with the noise of M inside is multiplied by this before it meets a likelihood that takes ``M_s``
    as known ("cut"); in the linear-normal case the shrinkage is then that of the full model.
    """
    return float(1 + n * (p**2 / A.sum(axis=1)).sum())


def lab_strength(A: Floats, v: Floats, n: float, *, p_lab: Floats) -> Floats:
    """Weights (J,) of `STRENGTHS` for a histogram v of n rows.

    Before the field is seen: ``EXPECTED_TO_MOVE`` for strength 0, less for rows that say little; the rest is
    log-uniform.
    """
    rows = 1 / (1 / max(n, 1.0) + (p_lab**2 / A.sum(axis=1)).sum())
    use = STRENGTH_CAP * max(rows, 1.0) >= STRENGTHS
    evidence = np.full(len(STRENGTHS), -np.inf)
    if n > 0:
        evidence[use] = [shift_evidence(A, v, n, a) for a in lab_centred(STRENGTHS[use], p_lab=p_lab)]
    else:
        evidence[use] = 0.0
    labels = rows * label_worth(A, p_lab) if n > 0 else 0.0
    moved = EXPECTED_TO_MOVE * labels / (labels + LABELS_OF_HALF_DOUBT)
    with np.errstate(divide="ignore"):
        evidence += np.log(np.where(STRENGTHS == 0, moved, (1 - moved) / max(use[1:].sum(), 1)))
    return normalised(evidence)


def label_worth(A: Floats, p: Floats) -> float:
    """How much a prediction says about the prevalences, next to a label: 1 for a perfect classifier.

    The share of the information, where prevalences are p: little for a rare class that looks like the others.
    """
    return float(spread_directions(A / A.sum(axis=1, keepdims=True), p)[1].mean())


def shift_evidence(A: Floats, v: Floats, n: float, alpha: Floats) -> float:
    """Gaussian log evidence of the histogram v (n rows) when p ~ Dirichlet(alpha) and M ~ Dirichlet(A).

    The first two moments are exact. Noise of M and of the field are both inside: a residual that they explain is no
    evidence for movement.
    """
    n = max(n, 1.0)
    rows, total = A.sum(axis=1), alpha.sum()
    M, mu = A / rows[:, None], alpha / total
    q = mu @ M
    spread = multinomial_covariance(mu) / (total + 1)
    lab = (mu**2 + np.diag(spread)) / (rows + 1)
    noise = np.diag(lab @ M) - (M * lab[:, None]).T @ M
    S = (1 - 1 / n) * M.T @ spread @ M + multinomial_covariance(q) / n + noise
    return gaussian_evidence((v - q)[:-1], S[:-1, :-1])  # histograms sum to one: the last bin adds nothing


def gaussian_evidence(residual: Floats, covariance: Floats) -> float:
    """Log density of a residual under a normal, but for a constant."""
    L = np.linalg.cholesky(covariance + 1e-14 * np.eye(len(covariance)))
    z = np.linalg.solve(L, residual)
    return float(-0.5 * z @ z - np.log(np.diag(L)).sum())


@dataclass(frozen=True)
class PooledPrior:
    """Dirichlet parameters per draw of M, and their summary."""

    alpha: Floats  # (S, K) κ_s μ_s
    kappa: float  # median
    mu: Floats  # (K,)
    edge: Edge


def fit_pooled(
    A: Floats,
    M: Floats,
    V: Floats,
    *,
    p_lab: Floats,
    centre: Literal["lab", "flat"],
    rng: np.random.Generator,
) -> PooledPrior:
    """The prior that all groups share.

    Parameters
    ----------
    A : (K, m) lab counts, smoothed
    M : (S, K, m) draws of the response matrix
    V : (G, m) field counts
    centre : whether μ is drawn to the lab as far as the evidence allows (for point estimates), or not (for intervals,
        whose coverage must not depend on where the lab was)
    """
    S, K, _ = M.shape
    V = informative(V, GROUPS, rng)
    if not len(V):
        return PooledPrior(np.broadcast_to(BASE + p_lab, (S, K)), 1.0, p_lab, "")
    moments = fit_moments(A / A.sum(axis=1, keepdims=True), V, p_lab=p_lab)
    prior = np.ones((S, K))
    if centre == "lab":
        prior, _ = lab_prior(A, moments.histogram, moments.rows, p_lab=p_lab, n_draws=S, rng=rng)
    total = (moments.histogram * moments.rows)[None]
    mu = (binary_draws if K == 2 else hmc_draws)(M, total, prior, rng, per_draw=1)[0]
    mu = np.maximum(mu, MEAN_FLOOR / K)
    mu /= mu.sum(axis=1, keepdims=True)
    kappa, weights = _kappa_draws(M, V, mu, rng)
    edge = edge_of(weights) if len(V) >= FEW_GROUPS else ""  # of fewer, κ says little wherever it lies
    return PooledPrior(kappa[:, None] * mu, float(np.median(kappa)), mu.mean(axis=0), edge)


def _kappa_draws(M: Floats, V: Floats, mu: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """One κ for every draw of M, (S,), and the mean weights of `KAPPAS`."""
    few = informative(V, max(50, 3000 // M.shape[1]), rng)
    weights = np.array(
        [
            normalised(kappa_evidence(m, u, few)[0] + kappa_hyperprior(KAPPAS))
            for m, u in zip(M, mu, strict=True)
        ]
    )
    level = rng.permutation((np.arange(len(M)) + 0.5) / len(M))
    chosen = (np.cumsum(weights, axis=1) < level[:, None]).sum(axis=1)
    return KAPPAS[np.minimum(chosen, len(KAPPAS) - 1)], weights.mean(axis=0)


def informative(V: Floats, limit: int, rng: np.random.Generator) -> Floats:
    """At most ``limit`` groups that have rows, drawn with weight n / (n + 50).

    References
    ----------
    Efraimidis, P. and Spirakis, P. (2006). Weighted random sampling with a reservoir. Inf. Process. Lett. 97.
    """
    n = V.sum(axis=1)
    V, n = V[n > 0], n[n > 0]
    if len(n) <= limit:
        return V
    score = np.log(rng.random(len(n))) * (n + 50) / n
    return np.asarray(V[np.sort(np.argpartition(-score, limit)[:limit])])


def approximate_posterior_mean(
    F: Floats, V: Floats, *, smoothing: float, p_lab: Floats
) -> tuple[Floats, Floats]:
    """Fast, deterministic stand-in for the pooled posterior: common (K,) and each (G, K), strictly positive.

    Modes in softmax coordinates at the best M, under the lab-centred prior (averaged over its strength) for the whole
    field, and under ``Dirichlet(κ·μ)`` for its groups. Meant for rehearsals, which ask many times.
    """
    A = F + smoothing_cells(F, smoothing)
    possible = A.max(axis=0) > 0
    A, V = np.maximum(A[:, possible], 1e-12), np.asarray(V, dtype=np.float64)[:, possible]
    total = V.sum(axis=0)
    common = _lab_centred_mode(A, total, p_lab=p_lab)
    filled = V[V.sum(axis=1) > 0]
    if len(V) == 1 or not len(filled):
        return common, np.repeat(common[None], len(V), axis=0)
    M = A / A.sum(axis=1, keepdims=True)
    moments = fit_moments(M, filled, p_lab=p_lab)
    mu = np.maximum(_lab_centred_mode(A, moments.histogram * moments.rows, p_lab=p_lab), MEAN_FLOOR / len(M))
    mu /= mu.sum()
    return common, conditional_modes(M, V, moments.kappa * mu)


def _lab_centred_mode(A: Floats, v: Floats, *, p_lab: Floats) -> Floats:
    """Mode under the lab-centred prior, averaged over its strength. v (m,) counts."""
    n = float(v.sum())
    weights = lab_strength(A, v / max(n, _TINY), n, p_lab=p_lab)
    use = weights > 1e-3 * weights.max()
    alpha = lab_centred(effective_scale(A, n, p_lab) * STRENGTHS[use], p_lab=p_lab)
    p = conditional_modes(A / A.sum(axis=1, keepdims=True), np.repeat(v[None], len(alpha), axis=0), alpha)
    return np.asarray(weights[use] @ p / weights[use].sum())


def stratified(weights: Floats, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices with the given weights, as evenly as possible, in random order."""
    u = (np.arange(size) + rng.random()) / size
    return rng.permutation(np.minimum(np.searchsorted(np.cumsum(weights), u), len(weights) - 1))


Edge = Literal["", "low", "high"]

#: Pseudo-rows per class below every prior, and the least that a rare class has of them in a lab-centred one.
BASE, RAREST_BASE = 0.5, 0.02
#: Values of κ that are weighed, under the weak hyperprior ``log κ ~ N(log 20, 2²)``.
KAPPAS = np.logspace(-0.5, 4.5, 51)
KAPPA_CENTRE, KAPPA_SPREAD = 20.0, 2.0


@dataclass(frozen=True)
class Moments:
    """What the second moments of the histograms say, for one M."""

    weights: Floats  # (J,) of KAPPAS
    mu: Floats  # (K,) the average group
    histogram: Floats  # (m,) of the average group
    rows: float  # that this histogram is worth

    @property
    def kappa(self) -> float:
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
    n = V.sum(axis=1)
    z = U.T @ (V.T / n)  # r, G
    return restricted_evidence(z, 1 / n + (1 - 1 / n) * (lam / (KAPPAS[:, None] + 1))[..., None]), lam


def restricted_evidence(z: Floats, variance: Floats) -> Floats:
    """Log likelihood (J,) of groups z (r, G) around a common mean, which is profiled out (REML).

    Parameters
    ----------
    variance : (J, r, G), one table for each of the hypotheses that are weighed
    """
    w = 1 / variance
    z = z - z.mean(axis=1, keepdims=True)  # so that squares do not cancel
    total = w.sum(axis=2)
    first, second = (np.einsum("jrg,rg->jr", w, power) for power in (z, z**2))
    squares = (second - first**2 / total).sum(axis=1)
    return np.asarray(0.5 * (_sum_of_logs(w) - squares - np.log(total).sum(axis=1)))


def _sum_of_logs(w: Floats) -> Floats:
    """Of each of the J tables; products of eight first, since logarithms cost most and none of these is extreme."""
    flat = w.reshape(len(w), -1)
    padded = np.ones((len(w), 8, -(-flat.shape[1] // 8)))
    padded.reshape(len(w), -1)[:, : flat.shape[1]] = flat
    return np.asarray(np.log(padded.prod(axis=1)).sum(axis=1))


def spread_directions(M: Floats, mu: Floats) -> tuple[Floats, Floats]:
    """Directions (m, r) in which prevalences move a histogram, white under multinomial noise, and how much (r,)."""
    q = mu @ M
    U, lam = white_directions(np.sqrt(mu)[:, None] * (M - q), q)
    r = max(1, len(mu) - 1)  # prevalences sum to one
    return U[:, :r], lam[:r]


def white_directions(moves: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Directions (m, r) in which the rows of ``moves`` (K, m) change a histogram q, white under its multinomial noise.

    And how much they change it in each, (r,).
    """
    seen = q > 1e-9
    root = np.sqrt(q[seen])
    _, s, basis = np.linalg.svd(moves[:, seen] / root, full_matrices=False)
    r = max(1, min(len(s), int(seen.sum()) - 1))  # histograms sum to one
    U = np.zeros((len(q), r))
    U[seen] = basis[:r].T / root[:, None]
    return U, np.maximum(s[:r] ** 2, 1e-12)


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
    with np.errstate(under="ignore"):
        w = np.exp(log - log.max())
        return np.asarray(w / w.sum())


def multinomial_covariance(q: Floats) -> Floats:
    """Covariance of one multinomial row."""
    return np.asarray(np.diag(q) - np.outer(q, q))


def default_priors(problem: Problem, M: Floats, rng: np.random.Generator) -> tuple[PooledPrior, Floats]:
    """The prior of the point, and Dirichlet parameters (S, K) for the interval, learnt from the histograms.

    One population: the point under the lab-centred prior (two classes: at the best M), the interval under Jeffreys'.
    Groups: both under the pooled prior, its mean drawn to the lab for the point only; below `FEW_GROUPS` groups with
    rows, intervals under Jeffreys'. M (S, K, m) without columns for labels. Bins that A rules out are left out.
    """
    bins = np.flatnonzero(problem.A.max(axis=0) > 0)
    A, V, M, p_lab = problem.A[:, bins], problem.V[:, bins], M[:, :, bins], problem.p_lab
    jeffreys = np.full(M.shape[:2], BASE)
    if not problem.grouped or len(V) == 1:
        n = float(V.sum())
        cut = len(A) > 2 or problem.grouped or problem.averages_over_M
        v = V.sum(axis=0) / max(n, 1e-300)
        alpha, kappa = lab_prior(A, v, n, p_lab=p_lab, n_draws=len(M), rng=rng, cut=cut)
        return PooledPrior(alpha, kappa, p_lab, ""), jeffreys
    M, V = M / M.sum(axis=2, keepdims=True), problem.typical[:, bins]
    point = fit_pooled(A, M, V, p_lab=p_lab, centre="lab", rng=rng)
    if np.count_nonzero(V.sum(axis=1)) < FEW_GROUPS:
        return point, jeffreys
    return point, fit_pooled(A, M, V, p_lab=p_lab, centre="flat", rng=rng).alpha
