"""More than two classes under a Dirichlet prior: independent draws close to the posterior, corrected by Metropolis.

Coordinates are ``x_k = log(p_k / p_r)``, ``r`` the group's largest class at the mode. A proposal is a Gaussian copula:
correlations from the curvature at the mode, and for each class a quantile function, tabulated along the line on which
the others follow it. A sparse class has its long tail, a well determined one is normal. Mode and tables are those of
the mean M; each draw of M shifts them by the fixed point of Newton's step. Draws of M whose priors differ in strength
are put into strata, each with a mode and tables of its own.

Groups whose importance weights vary too much are sampled again by a walk in the normal scores; where even that hardly
moves, by Hamiltonian Monte Carlo. Arrays are (J strata, n draws of M in each, K classes, B groups).

References
----------
Cotter, S., Roberts, G., Stuart, A. and White, D. (2013). MCMC methods for functions. Stat. Sci. 28.
Tierney, L. (1994). Markov chains for exploring posterior distributions. Ann. Stat. 22.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fieldcal.core.posterior_binary import relative_columns
from fieldcal.core.posterior_mcmc import MANY_CLASSES, conditional_mode, hmc_draws, make_target
from fieldcal.core.problem import Term
from fieldcal.types import Floats, Ints

if TYPE_CHECKING:
    from fieldcal.core.ordered import Order

#: Normal scores at which quantile functions are tabulated, and the points of the line where the density is evaluated.
SCORES = np.linspace(-4.5, 4.5, 31)
NODES = 25
#: Proposals are wider than the approximation by this, divided by the root of the number of classes.
WIDER = 0.25
#: Log-odds that a shift may have at most, where that is more than four scores.
FARTHEST = 2.0
#: Steps towards the mode of each draw of M, and the change, in scores, that ends them.
SHIFTS, SETTLED = 3, 0.1

_CELLS = 400_000  # floats per work array, so that it stays in a cache
_STEP = SCORES[1] - SCORES[0]
_TINY = 1e-300


@dataclass(frozen=True)
class Effort:
    """How a group is sampled, and when that counts as good."""

    walk: bool  # whether proposals are near the state of the chain, or independent of it
    burn: int  # proposals before the first draw that is kept
    thin: int  # and from each to the next; with 1, every second is the mirror image of the one before
    least: float  # what `_metropolis` measures must reach it


#: Tried in this order. A walk of unit squared length between draws leaves little correlation between them. With few
#: classes a walk is slow only where the tables are wrong, so more is asked of it.
INDEPENDENT, WALK, LONG_WALK = (
    Effort(False, 2, 1, 0.75),
    Effort(True, 30, 10, 4.5),
    Effort(True, 60, 24, 1.0),
)
#: Acceptance that the length of the walk's steps is tuned to.
ACCEPT = 0.4


def prevalence_draws(
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
    entropy, centre, order, terms : further factors of the prior, for which there is only Hamiltonian Monte Carlo
    """
    S, K, m = M.shape
    V = np.asarray(V, dtype=np.float64)
    alpha = np.maximum(np.broadcast_to(np.asarray(alpha, dtype=np.float64), (S, K)), 1e-6)
    if entropy or order is not None or terms:
        return hmc_draws(
            M, V, alpha, rng, per_draw=per_draw, entropy=entropy, centre=centre, order=order, terms=terms
        )
    out = np.empty((len(V), S * per_draw, K))
    left = np.arange(len(V))
    for effort in (LONG_WALK,) if K > MANY_CLASSES else (INDEPENDENT, WALK):
        block = max(1, _CELLS // (S * max(K, m)))
        failed = []
        for i in range(0, len(left), block):
            groups = left[i : i + block]
            out[groups], share = copula_draws(M, V[groups], alpha, rng, per_draw, effort)
            failed.append(groups[~(share >= effort.least)])
        left = np.concatenate([left[:0], *failed])
    if len(left):
        out[left] = hmc_draws(M, V[left], alpha, rng, per_draw=per_draw)
    return out


def copula_draws(
    M: Floats, V: Floats, alpha: Floats, rng: np.random.Generator, per_draw: int, effort: Effort
) -> tuple[Floats, Floats]:
    """Draws (B, S * per_draw, K), and how good those of each group are, (B,): see `_metropolis`."""
    S, K, _ = M.shape
    strata = equal_strata(alpha.sum(axis=1))
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        each = Densities.of(M[strata], V, alpha[strata])
        typical = Densities.of(M[strata].mean(axis=1), V, alpha[strata].mean(axis=1))
        x, share = _metropolis(each, Proposal.of(each, typical), rng, per_draw, effort)
        p = _softmax(x, axis=2)  # (J, n, K, B, per_draw)
    draws = np.empty((len(V), S, per_draw, K))
    draws[:, strata.ravel()] = p.reshape(S, K, len(V), per_draw).transpose(2, 0, 3, 1)
    return draws.reshape(len(V), S * per_draw, K), share


def equal_strata(strength: Floats) -> Ints:
    """Draws of M by the strength of their priors, (J, S / J): those in a row differ by a factor of about two."""
    S = len(strength)
    wanted = np.log2(strength.max() / strength.min())
    J = next(j for j in range(1, S + 1) if S % j == 0 and (j >= wanted or j == S))
    return np.argsort(strength, kind="stable").reshape(J, S // J)


@dataclass(frozen=True)
class Densities:
    """Posterior densities of x, one for every leading index of M and every group."""

    M: Floats  # (..., K, m)
    transposed: Floats  # (..., m, K)
    V: Floats  # (m, B)
    alpha: Floats  # (..., K, 1)

    @classmethod
    def of(cls, M: Floats, V: Floats, alpha: Floats) -> Densities:
        """Only ratios within a column of M matter. V (B, m), alpha (..., K)."""
        M = np.maximum(relative_columns(M), _TINY)
        return cls(M, np.ascontiguousarray(M.swapaxes(-1, -2)), np.ascontiguousarray(V.T), alpha[..., None])

    def value(self, x: Floats) -> Floats:
        """Log density up to a constant, (..., B), of x (..., K, B) with a zero for one class."""
        e = np.exp(x)
        q = self.transposed @ e
        np.log(q, out=q)
        q *= self.V
        f = q.sum(axis=-2) + (self.alpha.swapaxes(-1, -2) @ x)[..., 0, :]
        rows = self.V.sum(axis=0) + self.alpha.sum(axis=-2)
        return np.asarray(f - rows * np.log(e.sum(axis=-2)))

    def row_ratio(self, p: Floats) -> Floats:
        """Expected rows of each class over its share, (..., K, B)."""
        return np.asarray(self.M @ (self.V / (self.transposed @ p)))


@dataclass(frozen=True)
class Draw:
    """One for every draw of M and group."""

    e: Floats  # (J, B, K, n) independent normals
    x: Floats  # (J, n, K, B)
    weight: Floats  # (J, n, B) log density less that of the proposal

    def where(self, accepted: NDArray[np.bool_], other: Draw) -> Draw:
        """This where it is accepted, elsewhere the other."""
        return Draw(
            np.where(accepted.swapaxes(1, 2)[:, :, None], self.e, other.e),
            np.where(accepted[:, :, None], self.x, other.x),
            np.where(accepted, self.weight, other.weight),
        )


@dataclass(frozen=True)
class Proposal:
    """A Gaussian copula for every group and stratum, shifted for every draw of M."""

    quantiles: Floats  # (J, K, Z, B) x at `SCORES`
    rises: Floats  # (J, K, Z, B) from each to the next
    root: Floats  # (J, B, K, K) times its transpose the correlations; no row for the class of reference
    free: Floats  # (J, B, K, 1) zero for the class of reference, else one
    scores: Floats  # (J, n, K, B) shift of scores

    @classmethod
    def of(cls, each: Densities, typical: Densities) -> Proposal:
        """Mode, curvature and tables of the typical densities, and the shifts of each."""
        J, K, _ = typical.M.shape
        V = typical.V.T
        x, H, _ = conditional_mode(make_target(typical.M, V, typical.alpha[:, None, :, 0]), max_iter=15)
        largest = x.argmax(axis=-1)  # (J, B)
        x = x - x.max(axis=-1, keepdims=True)
        reference = np.eye(K, dtype=bool)[largest]  # (J, B, K)
        H = np.where(reference[..., :, None] | reference[..., None, :], np.eye(K), H - 1 / K)
        half = np.linalg.inv(np.linalg.cholesky(H)).swapaxes(-1, -2)
        C = half @ half.swapaxes(-1, -2)
        quantiles, rises = _tables(typical, x, C)
        at = reference.swapaxes(1, 2)[:, :, None]
        quantiles = np.where(at, SCORES[:, None], quantiles)
        rises = np.where(at, _STEP, rises)
        sd = np.sqrt(np.einsum("...kk->...k", C))
        free = (~reference)[..., None].astype(np.float64)
        root = half / sd[..., None] * free
        nothing = np.zeros((J, each.M.shape[1], K, len(V)))
        found = cls(quantiles, rises, root * (1 + WIDER / np.sqrt(K)), free, nothing)
        return found._shifted(each, typical, root @ root.swapaxes(-1, -2))

    def _shifted(self, each: Densities, typical: Densities, R: Floats) -> Proposal:
        """With the shifts of each draw of M: where its gradient, less that of the typical one, and the copula agree."""
        _, rise = self.at(np.zeros_like(self.scores[:, :1]))
        farthest = np.clip(FARTHEST * _STEP / rise, 4.0, 30.0)
        found, z = self, self.scores
        change = each.alpha - typical.alpha[:, None]
        added = change.sum(axis=-2, keepdims=True)
        wide = Densities(typical.M[:, None], typical.transposed[:, None], typical.V, typical.alpha[:, None])
        for _ in range(SHIFTS):
            x, rise = found.at(np.zeros_like(z))
            p = _softmax(x, axis=-2)
            g = (p * (each.row_ratio(p) - wide.row_ratio(p) - added) + change) * (rise / _STEP)
            following = (R @ g.transpose(0, 3, 2, 1)).transpose(0, 3, 2, 1)  # (J, B, K, n) between
            following = np.clip(following, -farthest, farthest)
            moved = np.abs(following - z).max(initial=0.0)
            z = following
            found = replace(self, scores=z)
            if moved < SETTLED:
                break
        return found

    def at(self, z: Floats) -> tuple[Floats, Floats]:
        """x at normal scores z (J, n, K, B) from the shifted centre, and its slope there."""
        J, K, Z, B = self.quantiles.shape
        t = z * (1 / _STEP) + (self.scores[:, : z.shape[1]] - SCORES[0]) / _STEP
        i = t.astype(np.int32)
        np.clip(i, 0, Z - 2, out=i)
        start = (np.arange(J)[:, None, None] * K + np.arange(K)[:, None]) * (Z * B) + np.arange(B)
        place = start[:, None] + i * B
        rise = np.take(self.rises, place)
        t -= i
        t *= rise
        t += np.take(self.quantiles, place)
        return t, rise

    def normals(self, rng: np.random.Generator) -> Floats:
        """For one proposal for every draw of M and group, (J, B, K, n)."""
        J, n, K, B = self.scores.shape
        return np.asarray(rng.standard_normal((J, B, K, n)) * self.free)

    def draw(self, e: Floats, each: Densities) -> Draw:
        """The draw that independent normals e stand for."""
        x, rise = self.at(np.ascontiguousarray((self.root @ e).transpose(0, 3, 2, 1)))
        log_density = -0.5 * np.square(e).sum(axis=2).swapaxes(1, 2) - np.log(rise).sum(axis=2)
        return Draw(e, x, each.value(x) - log_density)


def _tables(typical: Densities, x: Floats, C: Floats) -> tuple[Floats, Floats]:
    """Quantile functions of every class at `SCORES` (J, K, Z, B), and their slopes.

    The density of a class is that of x along a line: the others follow it by their regression at the mode, and no
    longer once it is all but absent.
    """
    J, B, K = x.shape
    quantiles = np.empty((J, K, len(SCORES), B))
    mode = x.swapaxes(1, 2)  # (J, K, B)
    for k in range(K):
        variance = C[..., k, k]
        d = _nodes(np.sqrt(variance), typical.alpha[:, k])  # (N, J, B)
        follow = (C[..., k] / variance[..., None]).swapaxes(1, 2)  # (J, K, B)
        path = mode + follow * np.where(d < 0, np.expm1(d), d)[:, :, None]
        path[:, :, k] = mode[:, k] + d
        quantiles[:, k] = mode[:, k, None] + _quantiles(d, typical.value(path)).swapaxes(0, 1)
    rises = np.maximum(np.diff(quantiles, axis=2), 1e-12)
    return quantiles, np.concatenate([rises, rises[:, :, -1:]], axis=2)


def _nodes(sd: Floats, alpha: Floats) -> Floats:
    """Differences from the mode, (N, J, B): dense near it, and on the left as far as a prior this sparse has mass."""
    t = np.linspace(-1, 1, NODES)[:, None, None]
    tail = np.where(sd > 0.3, np.minimum(12 / alpha, 500.0) / sd, 0.0)
    reach = np.where(t < 0, np.maximum(6.0, tail), 6.0)
    return np.asarray(2 * sd * np.sinh(t * np.arcsinh(reach / 2)))


def _quantiles(d: Floats, log_density: Floats) -> Floats:
    """Quantiles at `SCORES`, (Z, J, B), of a density at nodes d (N, J, B), exponential beyond them."""
    f = log_density - log_density.max(axis=0)
    w, width = np.exp(f), np.diff(d, axis=0)
    pieces = np.empty((len(d) + 1, *d.shape[1:]))
    pieces[1:-1] = 0.5 * (w[1:] + w[:-1]) * width
    pieces[0] = w[0] * width[0] / np.maximum(f[1] - f[0], 0.05)
    pieces[-1] = w[-1] * width[-1] / np.maximum(f[-2] - f[-1], 0.05)
    below, above = np.cumsum(pieces, axis=0)[:-1], np.cumsum(pieces[::-1], axis=0)[-2::-1]
    tail = ndtri(np.maximum(np.minimum(below, above) / (below[-1] + pieces[-1]), _TINY))
    score = np.where(below < above, tail, -tail)
    i = np.clip((score <= SCORES[:, None, None, None]).sum(axis=1), 1, len(d) - 1)  # (Z, J, B)
    low, high = (np.take_along_axis(score, j, axis=0) for j in (i - 1, i))
    start, end = (np.take_along_axis(d, j, axis=0) for j in (i - 1, i))
    share = (SCORES[:, None, None] - low) / np.maximum(high - low, 1e-9)
    return np.asarray(start + share * (end - start))


def _metropolis(
    each: Densities, proposal: Proposal, rng: np.random.Generator, per_draw: int, effort: Effort
) -> tuple[Floats, Floats]:
    """Draws of x (J, n, K, B, per_draw), and how good they are, (B,).

    That is the effective share of independent proposals, or the squared length of a walk between two draws, as a share
    of that of independent ones.
    """
    here = proposal.draw(proposal.normals(rng), each)
    step = np.ones(here.weight.shape[-1])
    weights, kept, moves = [here.weight], [], np.zeros_like(step)
    for t in range(1, effort.burn + effort.thin * per_draw):
        after = t - effort.burn
        mirrored = effort.thin == 1 and after > 0 and after % 2 == 1
        e = -here.e if mirrored else _beside(here.e, step, proposal.normals(rng))
        there = proposal.draw(e, each)
        accepted = there.weight - here.weight > -rng.standard_exponential(here.weight.shape)
        here = there.where(accepted, here)
        share = accepted.mean(axis=(0, 1))
        if not effort.walk and not mirrored:
            weights.append(there.weight)
        if after >= 0:
            moves += share / per_draw
            if after % effort.thin == effort.thin - 1:
                kept.append(here.x)
        elif effort.walk:
            step = np.minimum(1.0, step * np.exp(share - ACCEPT))
    x = np.stack(kept, axis=-1)
    return x, np.asarray(moves * step**2) if effort.walk else _effective_share(np.stack(weights))


def _beside(e: Floats, step: Floats, normals: Floats) -> Floats:
    """Normals (J, B, K, n) that are correlated with e, and not for a step of one; normal if e is."""
    if (step == 1).all():
        return normals
    step = step[:, None, None]
    return np.asarray(np.sqrt(1 - step**2) * e + step * normals)


def _effective_share(log_weights: Floats) -> Floats:
    """Effective sample size over the number of proposals, (B,), from log weights (T, J, n, B); each M counts alike."""
    w = np.exp(log_weights - log_weights.max(axis=0))
    w /= w.sum(axis=0)
    return np.asarray(w.sum(axis=(0, 1, 2)) ** 2 / np.square(w).sum(axis=(0, 1, 2)) / (w.size / w.shape[-1]))


def _softmax(x: Floats, axis: int) -> Floats:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))
