"""The share of one slice under a judge that is known but for its own deviation: integrals, and draws.

The other rows of a slice have value j with probability ``q_j = Σ_k p_k M̂_kj``, where ``M̂`` is the common judge drawn to
the slice's own labelled rows. What is not known of the slice's judge makes their counts vary more than by chance: they
are Dirichlet-multinomial, with the variance that ``M̂`` has. Two classes: on a grid that narrows to where the posterior
is. More: around the mode, on the scale of log-ratios (Laplace).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, gammaln, ndtr, softmax

from fieldcal.types import Floats

_TINY = 1e-300
_LOGITS = 9.0  # shares nearer to 0 and 1 are taken for the same
_NODES = (21, 21, 53)  # of one grid after the other, each where the last had its mass
_DEPTH = 12.0  # natural logs below the highest that a grid still holds
_EM_STEPS, _NEWTON_STEPS, _STEPS = 20, 8, 12
_WIDER = 1.25  # tails are longer than those of a normal distribution
_LEAST_CURVATURE = 0.05


@dataclass(frozen=True)
class Slices:
    """Rows of G slices."""

    known: Floats  # (G, K, m) whose class is known
    rest: Floats  # (G, m) all others


class Integrated(Protocol):
    """Slices, each under S judges; draws are made from the first K − 1 of the numbers given."""

    @property
    def log_evidence(self) -> Floats:
        """(S, G)."""

    def draws(self, normals: Floats) -> Floats:
        """(S, G, K), made from standard normal numbers (S, G, K − 1 or more)."""


def integrate(M: Floats, kappa: Floats | None, alpha: Floats, slices: Slices) -> Integrated:
    """Every slice under judges (S, K, m) with κ (S,), None for one judge, and prior shares Dirichlet(α), (S, K)."""
    judge = Judge.of(M, kappa, slices)
    a = alpha[:, None, :] + slices.known.sum(axis=2)[None]
    constant = (gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1))[:, None]
    if M.shape[1] == 2:
        return TwoClasses.of(judge, a, slices.rest, constant)
    return ManyClasses.of(judge, a, slices.rest, constant)


@dataclass(frozen=True)
class Judge:
    """The judge of every slice after its own labelled rows."""

    M: Floats  # (S, G, K, m)
    variance: Floats | None  # (S, G, K) summed over values, of M itself; None where it is known

    @classmethod
    def of(cls, M: Floats, kappa: Floats | None, slices: Slices) -> Judge:
        """From what slices have in common."""
        G = len(slices.rest)
        if kappa is None:
            return cls(np.broadcast_to(M[:, None], (len(M), G, *M.shape[1:])), None)
        rows = kappa[:, None, None] + slices.known.sum(axis=2)[None]
        own = (kappa[:, None, None, None] * M[:, None] + slices.known[None]) / rows[..., None]
        return cls(own, (own * (1 - own)).sum(axis=3) / (rows + 1))

    def values(self, p: Floats) -> Floats:
        """(m, S, G, …) how probable each value is for shares p (K, S, G, …)."""
        M = self.M.reshape(*self.M.shape, *(1,) * (p.ndim - 3))
        q = np.empty((M.shape[3], *p.shape[1:]))
        for j in range(len(q)):  # one at a time, as memory likes it
            q[j] = M[:, :, 0, j] * p[0]
            for k in range(1, len(p)):
                q[j] += M[:, :, k, j] * p[k]
        return np.maximum(q, _TINY)

    def strength(self, p: Floats, q: Floats) -> Floats | None:
        """Of the Dirichlet-multinomial of counts, for shares p (K, S, G, …) and values q (m, S, G, …)."""
        if self.variance is None:
            return None
        own = np.moveaxis(self.variance, 2, 0).reshape(len(p), *p.shape[1:3], *(1,) * (p.ndim - 3))
        variance = np.maximum((p**2 * own).sum(axis=0), 1e-12)
        return np.asarray(np.maximum((q * (1 - q)).sum(axis=0) / variance - 1, 1e-3))


def log_counts(q: Floats, rows: Floats, strength: Floats | None) -> Floats:
    """Log likelihood of counts (m, …) with mean shares q, Dirichlet-multinomial of a strength; None: multinomial."""
    if strength is None:
        return np.asarray((rows * np.log(q)).sum(axis=0))
    cells = strength * q
    found = (gammaln(cells + rows) - gammaln(cells)).sum(axis=0)
    return np.asarray(found + gammaln(strength) - gammaln(strength + rows.sum(axis=0)))


def worth(strength: Floats | None, rows: Floats) -> Floats | float:
    """How many independent rows one row is worth, for counts of so many."""
    return 1.0 if strength is None else 1 / (1 + np.maximum(rows - 1, 0) / (strength + 1))


@dataclass(frozen=True)
class TwoClasses:
    """The share of the second class, on nodes of its logit."""

    log_evidence: Floats
    low: Floats  # (S, G) the first node
    step: Floats
    mass: Floats  # (S, G, T) density at the nodes, the highest one

    @classmethod
    def of(cls, judge: Judge, a: Floats, rest: Floats, constant: Floats) -> TwoClasses:
        """On a grid that narrows."""
        low, high = (np.full(a.shape[:2], end) for end in (-_LOGITS, _LOGITS))
        rows, a = rest.T[:, None, :, None], np.moveaxis(a, 2, 0)[..., None]
        n = rows.sum(axis=0)
        best = log_counts(np.maximum(rows / np.maximum(n, _TINY), _TINY), rows, None)
        last = len(_NODES) - 1
        for i, T in enumerate(_NODES):
            step = (high - low) / (T - 1)
            second = expit(low[..., None] + step[..., None] * np.arange(T))
            p = np.stack([1 - second, second])
            q = judge.values(p)
            strength = judge.strength(p, q)
            logs = (a * np.log(np.maximum(p, _TINY))).sum(axis=0)
            if (
                i < last
            ):  # where the mass is; less what fits best, as what a row is worth changes with the share
                logs += worth(strength, n) * (log_counts(q, rows, None) - best)
                inside = logs > logs.max(axis=2, keepdims=True) - _DEPTH
                first, after = inside.argmax(axis=2), T - 1 - inside[..., ::-1].argmax(axis=2)
                low, high = low + step * np.maximum(first - 1, 0), low + step * np.minimum(after + 1, T - 1)
            else:
                logs += log_counts(q, rows, strength)
        top = logs.max(axis=2)
        mass = np.exp(logs - top[..., None])
        return cls(top + np.log(mass.sum(axis=2) * step) + constant, low, step, mass)

    def draws(self, normals: Floats) -> Floats:
        """By the distribution function, of a density that is level around every node."""
        sums = np.cumsum(self.mass, axis=2)
        target = ndtr(normals[..., 0]) * sums[..., -1]
        at = np.minimum((sums < target[..., None]).sum(axis=2), sums.shape[2] - 1)[..., None]
        here = np.take_along_axis(self.mass, at, 2)[..., 0]
        below = np.take_along_axis(sums, at, 2)[..., 0] - here
        part = np.clip((target - below) / np.maximum(here, _TINY), 0.0, 1.0)
        second = expit(self.low + self.step * (at[..., 0] + part - 0.5))
        return np.stack([1 - second, second], axis=-1)


@dataclass(frozen=True)
class ManyClasses:
    """Shares around their mode, as log-ratios to the first class."""

    log_evidence: Floats
    judge: Judge
    a: Floats  # (S, G, K)
    rest: Floats  # (G, m)
    centre: Floats  # (S, G, K − 1)
    root: Floats  # (S, G, K − 1, K − 1) of the covariance

    @classmethod
    def of(cls, judge: Judge, a: Floats, rest: Floats, constant: Floats) -> ManyClasses:
        """By expectation and maximisation, then Newton's steps."""
        n = rest.sum(axis=1)
        p = a + n[None, :, None] / a.shape[2]
        p = p / p.sum(axis=2, keepdims=True)
        for _ in range(_EM_STEPS):
            rows = _tempered(judge, p, rest)
            full = _expected(judge, p, rows, a)[1]
            p = full / full.sum(axis=2, keepdims=True)
        rows = _tempered(judge, p, rest)
        z = np.log(np.maximum(p[..., 1:], 1e-12) / np.maximum(p[..., :1], 1e-12))
        for _ in range(_NEWTON_STEPS):
            p = _softmax(z)
            slope, H = _derivatives(judge, p, rows, a)
            z = z + np.clip(np.linalg.solve(H, slope[..., None])[..., 0], -1.0, 1.0)
        p = _softmax(z)
        H = _derivatives(judge, p, rows, a)[1]
        logs = _log_density(judge, a, rest, p)
        lower = np.linalg.cholesky(np.linalg.inv(H))
        logs += np.log(np.diagonal(lower, axis1=2, axis2=3)).sum(axis=2)
        return cls(logs + 0.5 * z.shape[2] * np.log(2 * np.pi) + constant, judge, a, rest, z, lower)

    def draws(self, normals: Floats) -> Floats:
        """By Metropolis' steps from a normal distribution of the log-ratios to their own; the last uses the numbers."""
        normals = normals[..., : self.centre.shape[2]]
        # Of other draws of the same slice: draws of a slice do not depend on what others are asked for.
        shares, surplus = self._proposed(np.roll(normals, _STEPS, axis=0))
        for left in reversed(range(_STEPS)):
            new, gain = self._proposed(np.roll(normals, left, axis=0))
            chance = ndtr(np.roll(normals[..., 0], -1 - left, axis=0))
            better = np.log(np.maximum(chance, _TINY)) < gain - surplus
            shares, surplus = np.where(better[..., None], new, shares), np.where(better, gain, surplus)
        return shares

    def _proposed(self, normals: Floats) -> tuple[Floats, Floats]:
        """Shares (S, G, K), and by how much more likely they are than a normal distribution has them."""
        p = _softmax(self.centre + _WIDER * np.einsum("sgkl,sgl->sgk", self.root, normals))
        return p, _log_density(self.judge, self.a, self.rest, p) + 0.5 * (normals**2).sum(axis=2)


def _log_density(judge: Judge, a: Floats, rest: Floats, p: Floats) -> Floats:
    """(S, G) of log-ratios, at shares (S, G, K)."""
    shares = np.moveaxis(p, 2, 0)
    q = judge.values(shares)
    logs = (a * np.log(np.maximum(p, _TINY))).sum(axis=2)
    return np.asarray(logs + log_counts(q, rest.T[:, None], judge.strength(shares, q)))


def _softmax(z: Floats) -> Floats:
    """Shares of log-ratios to the first class."""
    return np.asarray(softmax(np.concatenate([np.zeros((*z.shape[:-1], 1)), z], axis=-1), axis=-1))


def _tempered(judge: Judge, p: Floats, rest: Floats) -> Floats:
    """(S, G, m) counts as the independent rows that they are worth."""
    shares = np.moveaxis(p, 2, 0)
    scale = np.asarray(worth(judge.strength(shares, judge.values(shares)), rest.sum(axis=1)[None]))
    return np.asarray(np.broadcast_to(scale, p.shape[:2])[..., None] * rest[None])


def _expected(judge: Judge, p: Floats, rows: Floats, a: Floats) -> tuple[Floats, Floats]:
    """P(class | value), (S, G, K, m), and the rows of every class, pseudo-rows among them, (S, G, K)."""
    joint = p[..., None] * judge.M
    given = joint / np.maximum(joint.sum(axis=2, keepdims=True), _TINY)
    return given, a + np.einsum("sgj,sgkj->sgk", rows, given)


def _derivatives(judge: Judge, p: Floats, rows: Floats, a: Floats) -> tuple[Floats, Floats]:
    """Slope (S, G, K − 1), and curvature (S, G, K − 1, K − 1), kept above zero."""
    given, full = _expected(judge, p, rows, a)
    total = full.sum(axis=2)
    slope = full - total[..., None] * p
    spread = p[..., :, None] * (np.eye(p.shape[2]) - p[..., None, :])
    known = np.einsum("sgj,sgkj->sgk", rows, given)[..., None] * np.eye(p.shape[2])
    known = known - np.einsum("sgj,sgkj,sglj->sgkl", rows, given, given)
    H = (total[..., None, None] * spread - known)[..., 1:, 1:]
    values, vectors = np.linalg.eigh(H)
    values = np.maximum(values, _LEAST_CURVATURE)
    return slope[..., 1:], np.einsum("sgkl,sgl,sgml->sgkm", vectors, values, vectors)
