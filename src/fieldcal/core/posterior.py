"""The posterior of the prevalences: intervals that carry the noise of M, joint over groups.

``M_s ~ Dirichlet(A)``, ``A`` the lab's counts plus smoothing, never sees the field ("cut": a violated assumption in the
field must not corrupt what the lab measured); then ``p_g`` given ``M_s`` and ``V_g`` under the prior of draw ``s``. All
groups share the draws of M, so draw ``s`` of two groups may be subtracted. Two classes: `quadrature`; more: `hmc`.

``V`` and ``M`` may carry more columns than bins: a label from the field is a column of M that is one for its class and
next to nothing for the others. Weighted, fractional and empty rows of ``V`` are fine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv
from scipy.stats import qmc

from fieldcal.core.point_binary import dispersed_mean
from fieldcal.core.posterior_binary import binary_draws, binary_summary, interval
from fieldcal.core.posterior_mcmc import hmc_draws
from fieldcal.core.shrinkage import Edge, PooledPrior, fit_pooled, lab_prior
from fieldcal.types import Floats

#: Below this many groups the spread between them is a guess: intervals do not lean on it.
FEW_GROUPS = 5
#: Standard deviations between the point and the interval's mean beyond which the field overrules the lab.
CONFLICT = 3.0
#: No interval is narrower.
NARROWEST = 1e-12

#: Groups of two classes that are answered between two reports of progress.
BLOCK = 20_000

#: Called with the number of groups that were finished since the last call.
Progress = Callable[[int], None]

_CELLS = 4_000_000  # floats per work array


@dataclass(frozen=True)
class Summary:
    """Posterior of every group and class, each (G, K)."""

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Estimate:
    """The default estimate: a point drawn to the lab as far as the evidence allows, an interval that is not."""

    point: Floats  # (G, K) posterior mean
    sd: Floats  # (G, K) of the interval's posterior
    lower: Floats  # (G, K)
    upper: Floats  # (G, K)
    alpha: Floats  # (S, K) of the interval's prior
    kappa: float  # strength of the point's prior
    mu: Floats  # (K,) its centre
    edge: Edge  # "low" or "high" where κ is at the edge of its range


def response_draws(A: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draws of M, (S, K, m), with rows Dirichlet(A_k)."""
    u = _even_points(A.size, n_draws, rng).reshape(n_draws, *A.shape)
    g = np.maximum(gammaincinv(np.maximum(A, 1e-3), np.clip(u, 1e-12, 1 - 1e-12)), 1e-300)
    return np.asarray(g / g.sum(axis=2, keepdims=True))


def _even_points(dimension: int, size: int, rng: np.random.Generator) -> Floats:
    """Points in the unit cube, (size, dimension): a scrambled Sobol set, so that few of them go far."""
    if dimension > qmc.Sobol.MAXDIM:
        return rng.random((size, dimension))
    power = 1 << int(np.ceil(np.log2(max(size, 2))))
    points = qmc.Sobol(dimension, scramble=True, seed=rng).random(power)
    return np.asarray(points[rng.permutation(power)[:size]])


def summarise(
    M: Floats,
    V: Floats,
    alpha: Floats,
    *,
    level: float,
    rng: np.random.Generator,
    entropy: float = 0.0,
    centre: Floats | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Mean, standard deviation and interval of every group.

    Parameters
    ----------
    M : (S, K, m) draws of the response matrix
    V : (G, m) field counts
    alpha : (K,) or (S, K) Dirichlet parameters of the prior
    level : probability of the interval. It is equal-tailed; where the posterior leans on 0 or 1, one-sided
    entropy, centre : the prior is multiplied by ``exp(−entropy · Σ p log(p / centre))``
    progress : called with the number of groups that were finished since the last call
    """
    parts = []
    binary = M.shape[1] == 2
    step = BLOCK if binary else max(1, BLOCK * 5 // (M.shape[0] * M.shape[1]))
    for i in range(0, max(len(V), 1), step):
        block = V[i : i + step]
        if binary:
            found = binary_summary(M, block, alpha, level=level, entropy=entropy, centre=centre)
            parts.append(_both_classes(*found))
        else:
            draws = hmc_draws(M, block, alpha, rng, entropy=entropy, centre=centre)
            parts.append(summarise_draws(draws, level))
        if progress is not None:
            progress(len(block))
    columns = zip(*((p.mean, p.sd, p.lower, p.upper) for p in parts), strict=True)
    return Summary(*(np.concatenate(column) for column in columns))


def _both_classes(mean: Floats, sd: Floats, lower: Floats, upper: Floats) -> Summary:
    """From the second class to both."""
    return _sound(
        np.stack([1 - mean, mean], axis=1),
        np.stack([sd, sd], axis=1),
        np.stack([1 - upper, lower], axis=1),
        np.stack([1 - lower, upper], axis=1),
    )


def summarise_draws(draws: Floats, level: float) -> Summary:
    """Mean, sd and interval of draws (G, D, K)."""
    theta = np.arcsin(np.sqrt(np.clip(draws, 0, 1)))

    def quantiles(levels: Floats) -> list[Floats]:
        return list(np.quantile(theta, levels, axis=1, method="weibull"))

    lower, upper = interval(quantiles, level)
    return _sound(draws.mean(axis=1), draws.std(axis=1), np.sin(lower) ** 2, np.sin(upper) ** 2)


def _sound(mean: Floats, sd: Floats, lower: Floats, upper: Floats) -> Summary:
    """Inside [0, 1], the mean inside the interval, no interval without width."""
    mean = np.clip(mean, 0.0, 1.0)
    lower, upper = np.minimum(lower, mean), np.maximum(upper, mean)
    thin = np.maximum(NARROWEST - (upper - lower), 0.0)
    return Summary(mean, sd, np.clip(lower - thin, 0.0, 1.0), np.clip(upper + thin, 0.0, 1.0))


def joint_draws(
    M: Floats,
    V: Floats,
    alpha: Floats,
    rng: np.random.Generator,
    *,
    per_draw: int = 4,
    entropy: float = 0.0,
    centre: Floats | None = None,
) -> Floats:
    """Draws (G, S * per_draw, K); those at the same place share their M, so groups may be subtracted.

    Parameters are those of `summarise`.
    """
    draw = binary_draws if M.shape[1] == 2 else hmc_draws
    return draw(M, V, alpha, rng, per_draw=per_draw, entropy=entropy, centre=centre)


def pooled_posterior(
    A: Floats,
    V: Floats,
    *,
    p_lab: Floats,
    level: float,
    n_draws: int = 64,
    random_state: int = 0,
    grouped: bool,
    cut: bool = False,
    M: Floats | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """The default estimate of one population, or of many groups.

    One population: the point under the lab-centred prior (two classes: at the best M), the interval under a flat one.
    Groups: both under the pooled prior, its mean drawn to the lab for the point only; below `FEW_GROUPS` groups with
    rows, flat intervals.

    Parameters
    ----------
    A : (K, m) lab counts plus smoothing
    V : (G, m) field counts; further columns (labels) take part in the posterior, not in the prior
    p_lab : (K,) prevalences in the lab
    grouped : whether the rows of V are groups of one field
    cut : whether the point of one population averages over draws of M too, to be compared with that of groups
    M : (S, K, m) draws to use, with the further columns of V if it has any; drawn from A if None
    """
    rng = np.random.default_rng(random_state)
    V = np.asarray(V, dtype=np.float64)
    if M is None:
        M = response_draws(A, n_draws, rng)
    dispersed = len(A) == 2 and not grouped and not cut
    point_prior, alpha = _default_priors(A, M, V, p_lab=p_lab, grouped=grouped, cut=not dispersed, rng=rng)
    if dispersed:
        second = np.array([dispersed_mean(A, v, point_prior.alpha, p_lab=p_lab) for v in V])
        point = np.stack([1 - second, second], axis=1)
    else:
        point = summarise(M, V, point_prior.alpha, level=level, rng=rng).mean
    spread = summarise(M, V, alpha, level=level, rng=rng, progress=progress)
    # One strength for all classes: where most stayed, it may hold back the one that plainly moved.
    conflict = (np.abs(point - spread.mean) > CONFLICT * spread.sd).any(axis=1)
    point[conflict] = spread.mean[conflict]
    return Estimate(
        point=point,
        sd=spread.sd,
        lower=np.minimum(spread.lower, point),
        upper=np.maximum(spread.upper, point),
        alpha=alpha,
        kappa=point_prior.kappa,
        mu=point_prior.mu,
        edge=point_prior.edge,
    )


def _default_priors(
    A: Floats, M: Floats, V: Floats, *, p_lab: Floats, grouped: bool, cut: bool, rng: np.random.Generator
) -> tuple[PooledPrior, Floats]:
    """The prior of the point, and Dirichlet parameters (S, K) for the interval. Bins that A rules out are left out."""
    bins = np.flatnonzero(A.max(axis=0) > 0)
    A, V, M = A[:, bins], V[:, bins], M[:, :, bins]
    flat = np.ones(M.shape[:2])
    if not grouped or len(V) == 1:
        v, n = V.sum(axis=0), float(V.sum())
        v = v / max(n, 1e-300)
        alpha, kappa = lab_prior(A, v, n, p_lab=p_lab, n_draws=len(M), rng=rng, cut=cut)
        return PooledPrior(alpha, kappa, p_lab, ""), flat
    M = M / M.sum(axis=2, keepdims=True)
    point = fit_pooled(A, M, V, p_lab=p_lab, centre="lab", rng=rng)
    if np.count_nonzero(V.sum(axis=1)) < FEW_GROUPS:
        return point, flat
    return point, fit_pooled(A, M, V, p_lab=p_lab, centre="flat", rng=rng).alpha
