"""The posterior of the prevalences under label shift: intervals that carry the noise of M, joint over groups.

``M_s ~ Dirichlet(A)``, ``A`` the lab's counts plus smoothing, never sees the field ("cut": a violated assumption in the
field must not corrupt what the lab measured); then ``p_g`` given ``M_s`` and ``V_g`` under the prior of draw ``s``. All
groups share the draws of M, so draw ``s`` of two groups may be subtracted. Two classes: `posterior_binary`; more:
`posterior_copula`; further terms of the prior: `posterior_mcmc`.

Weighted, fractional and empty rows of ``V`` are fine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.core.point_binary import dispersed_mean
from fieldcal.core.posterior_binary import binary_draws, binary_summary, interval
from fieldcal.core.posterior_copula import prevalence_draws
from fieldcal.core.problem import Penalty, Problem, Term
from fieldcal.core.shrinkage import Edge
from fieldcal.core.solve import Solution, solve
from fieldcal.types import Floats

if TYPE_CHECKING:
    from fieldcal.core.ordered import Order

#: Standard deviations between the point and the interval's mean beyond which the field overrules the lab.
CONFLICT = 3.0
#: No interval is narrower.
NARROWEST = 1e-12

#: Groups of two classes that are answered between two reports of progress.
BLOCK = 20_000

#: Called with the number of groups that were finished since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Summary:
    """Posterior of every group and class, each (G, K)."""

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats


def summarise(
    M: Floats,
    V: Floats,
    alpha: Floats,
    *,
    level: float,
    rng: np.random.Generator,
    entropy: float = 0.0,
    centre: Floats | None = None,
    order: Order | None = None,
    terms: tuple[Term, ...] = (),
    per_draw: int = 4,
    progress: Progress | None = None,
) -> Summary:
    """Mean, standard deviation and interval of every group.

    Parameters
    ----------
    M : (S, K, m) draws of the response matrix
    V : (G, m) field counts
    alpha : (K,) or (S, K) Dirichlet parameters of the prior
    level : probability of the interval. It is equal-tailed; where the posterior touches 0 or 1, it reaches there
    entropy, centre : the prior is multiplied by ``exp(−entropy · Σ p log(p / centre))``
    order, terms : beliefs about neighbours, and further summands of L_reg
    per_draw : draws of the prevalences for each of M, with more than two classes
    progress : called with the number of groups that were finished since the last call
    """
    parts = []
    binary = M.shape[1] == 2 and order is None and not terms
    step = BLOCK if binary else max(1, BLOCK * 5 // (M.shape[0] * M.shape[1]))
    for i in range(0, max(len(V), 1), step):
        block = V[i : i + step]
        if binary:
            found = binary_summary(M, block, alpha, level=level, entropy=entropy, centre=centre)
            parts.append(_both_classes(*found))
        else:
            draws = prevalence_draws(
                M,
                block,
                alpha,
                rng,
                per_draw=per_draw,
                entropy=entropy,
                centre=centre,
                order=order,
                terms=terms,
            )
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
    ordered = np.sort(draws, axis=1)

    def quantiles(levels: Floats) -> list[Floats]:
        """Interpolated linearly in ``arcsin √p`` between draws, the i-th of D at the level i / (D + 1)."""
        place = np.clip(np.asarray(levels) * (draws.shape[1] + 1) - 1, 0, draws.shape[1] - 1)
        low = np.minimum(place.astype(np.intp), max(0, draws.shape[1] - 2))
        theta = np.arcsin(np.sqrt(np.clip(ordered[:, [low, np.minimum(low + 1, draws.shape[1] - 1)]], 0, 1)))
        share = (place - low)[:, None]
        return list(((1 - share) * theta[:, 0] + share * theta[:, 1]).swapaxes(0, 1))

    lower, upper = interval(quantiles, level)
    return _sound(draws.mean(axis=1), draws.std(axis=1), np.sin(lower) ** 2, np.sin(upper) ** 2)


def _sound(mean: Floats, sd: Floats, lower: Floats, upper: Floats) -> Summary:
    """Inside [0, 1], the mean inside the interval, no interval without width."""
    mean = np.clip(mean, 0.0, 1.0)
    lower, upper = np.minimum(lower, mean), np.maximum(upper, mean)
    thin = np.maximum(NARROWEST - (upper - lower), 0.0)
    return Summary(mean, sd, np.clip(lower - thin, 0.0, 1.0), np.clip(upper + thin, 0.0, 1.0))


@dataclass(frozen=True)
class Posterior:
    """The prevalences of every group given the field, under a prior that may differ between draws of M."""

    problem: Problem
    M: Floats  # (S, K, m) draws
    V: Floats  # (G, m) counts
    alpha: Floats  # (S, K) Dirichlet parameters of the prior, one row per draw of M
    penalty: Penalty  # whose minimum is the mode; of the rest of the prior, the entropy and further terms
    rng: np.random.Generator
    learnt: dict[str, Any]  # numbers of the prior that the field taught, for people and for files
    order: Order | None = None
    find_mode: Callable[[int], Solution] | None = None  # where the mode is not that of the penalty
    point_alpha: Floats | None = None  # (S, K) of the prior of the point, where that is not the interval's
    edge: Edge = ""  # where the strength of the pooling is at the edge of its range

    def mode(self, max_iter: int = 200) -> Solution:
        """The maximum a posteriori estimate of every group, with its certificate."""
        if self.find_mode is not None:
            return self.find_mode(max_iter)
        problem = self.problem
        return solve(problem.M, problem.V, self.penalty, max_iter=max_iter)

    def summary(self, level: float, progress: Progress | None = None) -> Summary:
        """Mean, standard deviation and interval of every group; the point may have a prior of its own."""
        if not len(self.V):
            return Summary(*(np.zeros((0, self.M.shape[1])) for _ in range(4)))
        point = None if self.point_alpha is None else self._point(self.point_alpha)
        spread = summarise(
            self.M, self.V, self.alpha, level=level, rng=self.rng, progress=progress, **self._rest()
        )
        if point is None:
            return spread
        # One strength for all classes: where most stayed, it may hold back the one that plainly moved.
        conflict = (np.abs(point - spread.mean) > CONFLICT * spread.sd).any(axis=1)
        point[conflict] = spread.mean[conflict]
        return Summary(point, spread.sd, np.minimum(spread.lower, point), np.maximum(spread.upper, point))

    def draws(self, *, per_draw: int = 4) -> Floats:
        """Joint draws (G, S * per_draw, K); those at the same place share their M, so groups may be subtracted."""
        rest = self._rest()
        if self.M.shape[1] == 2 and self.order is None and not self.penalty.terms:
            rest = {name: rest[name] for name in ("entropy", "centre")}
            return binary_draws(self.M, self.V, self.alpha, self.rng, per_draw=per_draw, **rest)
        return prevalence_draws(self.M, self.V, self.alpha, self.rng, per_draw=per_draw, **rest)

    def _point(self, alpha: Floats) -> Floats:
        problem = self.problem
        if len(problem.F) == 2 and not problem.grouped and not problem.averages_over_M:
            second = np.array([dispersed_mean(problem.A, v, alpha, p_lab=problem.p_lab) for v in self.V])
            return np.stack([1 - second, second], axis=1)
        return summarise(self.M, self.V, alpha, level=0.9, rng=self.rng, per_draw=2, **self._rest()).mean

    def _rest(self) -> dict[str, Any]:
        penalty = self.penalty
        return {
            "entropy": penalty.entropy,
            "centre": penalty.centre,
            "order": self.order,
            "terms": penalty.terms,
        }
