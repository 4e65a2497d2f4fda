"""Multilevel multinomial logits: Laplace's approximation, for many values of the variance components at once.

The log-odds of a row of group g, phase f (lab or field) and bin j, against the first class, are

    offset + X_fj · d + u_gf + e_gfj

with common effects ``d``, effects of groups ``u`` and of their bins ``e``. All are normal before a label is seen; those
of a group share a scale that follows Student's t, so that an outlying group frees itself and leaves the others alone.
The effects of the lab and of the field are two coordinates of one vector, so that persistence is a correlation.

The Hessian is an arrow twice over: bins within a group meet in ``u`` alone, and groups in ``d`` alone. So the cost is
linear in bins and groups. Leading axis: P points (values of the variance components), solved side by side.

References
----------
Tierney, L. and Kadane, J. B. (1986). Accurate approximations for posterior moments and marginal densities. JASA 81.
Lange, K. L., Little, R. J. A. and Taylor, J. M. G. (1989). Robust statistical modeling using the t distribution.
JASA 84.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from fieldcal.types import Floats

_STEPS, _HALVINGS, _LARGEST, _ENOUGH = 50, 8, 3.0, 1e-5


class Term(Protocol):
    """A further summand of the log likelihood, a function of the common effects alone."""

    def value(self, d: Floats) -> Floats:
        """At common effects (P, D), (P,)."""

    def slopes(self, d: Floats) -> tuple[Floats, Floats]:
        """Gradient (P, D) and information (P, D, D)."""


@dataclass(frozen=True)
class Labels:
    """Labelled rows, and how common effects enter their log-odds."""

    counts: Floats  # (L, F, m, K) rows of group, phase, bin and class
    X: Floats  # (F, m, K − 1, D)
    term: Term | None = None

    @cached_property
    def q(self) -> int:
        """Coordinates of a group's effect: phases times free classes."""
        _, F, _, K = self.counts.shape
        return int(F * (K - 1))

    @cached_property
    def design(self) -> Floats:
        """(m, q, D) the same with phases and classes in one axis."""
        F, m, free, D = self.X.shape
        return np.ascontiguousarray(self.X.transpose(1, 0, 2, 3)).reshape(m, F * free, D)

    @cached_property
    def n(self) -> Floats:
        """(L, F, m) labelled rows."""
        return np.asarray(self.counts.sum(axis=3))

    @cached_property
    def dimension(self) -> Floats:
        """(L,) coordinates of a group's effects, if bins with labels have effects of their own."""
        return np.asarray(self.q * (1.0 + self.seen.sum(axis=1)))

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """(L, m) bins of groups that have labels."""
        return np.asarray(self.n.any(axis=1))


@dataclass(frozen=True)
class Priors:
    """Normal priors of the effects at P points."""

    offset: Floats  # (P, L, F, m, K − 1)
    common: Floats  # (P, D, D) precision of d
    group: Floats  # (P, L, q, q) precision of u
    bins: Floats | None  # (P, q, q) precision of e; None where there is no e
    freedom: float  # degrees of freedom of the scale of a group's effects


@dataclass(frozen=True)
class Fitted:
    """Modes and precisions at P points."""

    d: Floats  # (P, D)
    u: Floats  # (P, L, q)
    e: Floats  # (P, L, m, q)
    scale: Floats  # (P, L) weight of the normal prior of each group: below 1 for outlying groups
    S: Floats  # (P, D, D) precision of d, all else integrated out
    C: Floats  # (P, L, q, D) precision between u and d
    U: Floats  # (P, L, q, q) covariance of u given d
    E: Floats  # (P, L, m, q, q) covariance of e given u and d
    A: Floats  # (P, L, m, q, q) information of the labels of a bin
    log_evidence: Floats  # (P,)


def inverse(A: Floats) -> Floats:
    """Of small matrices, in closed form up to 2 × 2."""
    n = A.shape[-1]
    if n == 1:
        return 1 / A
    if n > 2:
        return np.asarray(np.linalg.inv(A))
    a, b, c, d = A[..., 0, 0], A[..., 0, 1], A[..., 1, 0], A[..., 1, 1]
    out = np.empty(A.shape)
    out[..., 0, 0], out[..., 0, 1], out[..., 1, 0], out[..., 1, 1] = d, -b, -c, a
    return np.asarray(out / (a * d - b * c)[..., None, None])


def log_determinant(A: Floats) -> Floats:
    if A.shape[-1] == 1:
        return np.asarray(np.log(A[..., 0, 0]))
    if A.shape[-1] == 2:
        return np.asarray(np.log(A[..., 0, 0] * A[..., 1, 1] - A[..., 0, 1] * A[..., 1, 0]))
    return np.asarray(np.linalg.slogdet(A)[1])


@dataclass(frozen=True)
class _State:
    d: Floats
    u: Floats
    e: Floats
    P: Floats  # (P, L, F, m, K − 1) probabilities
    scale: Floats
    square: Floats  # (P, L) of each group's effects at the mode, in units of their prior
    unknown: Floats  # (P, L) what their variance adds to it
    value: Floats  # (P,) log of likelihood times prior


_Parts = tuple[Floats, Floats, Floats, Floats, Floats]


def fit(
    labels: Labels,
    priors: Priors,
    start: tuple[Floats, Floats, Floats] | None = None,
    *,
    at: Floats | None = None,
) -> Fitted:
    """Modes by Newton's method, and the evidence at every point.

    ``at``: common effects (P, D) that are held there; u and e are then those given d.
    """
    P, L, F, m, free = priors.offset.shape
    if start is None:
        d = np.zeros((P, priors.common.shape[1])) if at is None else at
        start = d, np.zeros((P, L, F * free)), np.zeros((P, L, m, F * free))
    state = _at(labels, priors, *start, np.broadcast_to(_dimension(labels, priors), (P, L)))
    for _ in range(_STEPS):
        parts = _curvature(labels, priors, state, held=at is not None)
        state = _with_unknown(labels, priors, state, _unknown(labels, priors, parts))
        moved = _improved(labels, priors, state, _solve(labels, priors, state, parts, held=at is not None))
        gained, state = moved.value - state.value, moved
        if not (gained > _ENOUGH * (1 + 0 * state.value)).any():
            break
    S, C, U, E, A = _curvature(labels, priors, state, held=at is not None)
    logs = np.zeros(P) if at is not None else _log_evidence(labels, priors, state, S, U, E)
    return Fitted(state.d, state.u, state.e, state.scale, S, C, U, E, A, logs)


def _at(labels: Labels, priors: Priors, d: Floats, u: Floats, e: Floats, unknown: Floats) -> _State:
    P, L, F, m, free = priors.offset.shape
    effects = np.einsum("mqd,pd->pmq", labels.design, d)[:, None] + u[:, :, None, :] + e
    eta = priors.offset + effects.reshape(P, L, m, F, free).swapaxes(2, 3)
    top = np.maximum(eta.max(axis=-1), 0.0)
    odds = np.exp(eta - top[..., None])
    total = np.exp(-top) + odds.sum(axis=-1)
    value = (labels.counts[..., 1:] * eta).sum(axis=(1, 2, 3, 4)) - (labels.n * (top + np.log(total))).sum(
        axis=(1, 2, 3)
    )
    value -= 0.5 * np.einsum("pd,pde,pe->p", d, priors.common, d)
    size, nu = _dimension(labels, priors), priors.freedom
    square = ((u[:, :, None, :] @ priors.group)[:, :, 0] * u).sum(axis=2)
    if priors.bins is not None:
        square += ((e @ priors.bins[:, None]) * e).sum(axis=(2, 3))
    value -= (0.5 * (nu + size) * np.log1p((square + unknown) / nu)).sum(axis=1)
    if labels.term is not None:
        value = value + labels.term.value(d)
    scale = (nu + size) / (nu + square + unknown)
    return _State(d, u, e, odds / total[..., None], scale, square, unknown, value)


def _with_unknown(labels: Labels, priors: Priors, state: _State, unknown: Floats) -> _State:
    """The same effects, of which that much is unknown."""
    size, nu = _dimension(labels, priors), priors.freedom
    scale = (nu + size) / (nu + state.square + unknown)
    value = state.value + (0.5 * (nu + size) * np.log(scale / state.scale)).sum(axis=1)
    return replace(state, scale=scale, unknown=unknown, value=value)


def _unknown(labels: Labels, priors: Priors, parts: _Parts) -> Floats:
    """What the variance of each group's effects adds to the expectation of their square, (P, L).

    With it the scale is that of an EM step. Without it, effects that no label informs are at zero, and would count as
    evidence that the group is close to the others.
    """
    _, _, U, E, A = parts
    found = np.einsum("plab,plba->pl", priors.group, U)
    if priors.bins is not None:
        carried = E @ A
        with_group = np.einsum(
            "plmab,plmac->plbc", carried, priors.bins[:, None, None] @ carried, optimize=True
        )
        found = found + np.einsum("plab,plba->pl", with_group, U)
        found = found + np.einsum("pab,plmba,lm->pl", priors.bins, E, labels.seen, optimize=True)
    return np.asarray(found)


def _curvature(labels: Labels, priors: Priors, state: _State, *, held: bool) -> _Parts:
    """S, C, U, E and A of `Fitted`; S is not made where d is held."""
    P, L, F, m, free = priors.offset.shape
    if priors.bins is None:
        return _coarse_curvature(labels, priors, state, held=held)
    A = np.zeros((P, L, m, F, free, F, free))
    p = state.P
    for f in range(F):
        W = -p[:, :, f, :, :, None] * p[:, :, f, :, None, :]
        W[..., np.arange(free), np.arange(free)] += p[:, :, f]
        A[:, :, :, f, :, f, :] = labels.n[None, :, f, :, None, None] * W
    A = A.reshape(P, L, m, labels.q, labels.q)
    bins = state.scale[:, :, None, None, None] * priors.bins[:, None, None]
    E = inverse(A + bins)
    B = A @ E @ bins  # information of a bin on u and d, e integrated out
    U = inverse(B.sum(axis=2) + state.scale[:, :, None, None] * priors.group)
    C = B.swapaxes(2, 3).reshape(P, L, labels.q, m * labels.q) @ labels.design.reshape(m * labels.q, -1)
    if held:
        return priors.common, C, U, E, A
    S = priors.common + np.einsum("mad,pmae->pde", labels.design, B.sum(axis=1) @ labels.design)
    S -= _summed(C, U @ C)
    if labels.term is not None:
        S = S + labels.term.slopes(state.d)[1]
    return S, C, U, E, A


def _summed(C: Floats, D: Floats) -> Floats:
    """Sums of C'D over groups: (P, L, q, D) each."""
    P, L, q, size = C.shape
    return np.asarray(C.reshape(P, L * q, size).swapaxes(1, 2) @ D.reshape(P, L * q, size))


def _coarse_curvature(labels: Labels, priors: Priors, state: _State, *, held: bool) -> _Parts:
    """The same without effects of bins, which leaves sums over bins alone: E and A are nothing."""
    P, L, F, m, free = priors.offset.shape
    q, n, X = labels.q, labels.n[None, ..., None], labels.X
    weighted = n * state.P  # (P, L, F, m, k)
    A = np.zeros((P, L, F, free, F, free))
    C = np.zeros((P, L, F, free, X.shape[3]))
    same = (X[:, :1] == X).all(axis=(0, 1, 2))  # common effects that are alike in all bins
    S = priors.common.copy()
    for f in range(F):
        p, w = state.P[:, :, f], weighted[:, :, f]
        own = -w.swapaxes(-1, -2) @ p
        own[..., np.arange(free), np.arange(free)] += w.sum(axis=2)
        A[:, :, f, :, f] = own
        C[:, :, f, :, same] = (own @ X[f, 0][:, same]).transpose(3, 0, 1, 2)
        Z = X[f][..., ~same]  # (m, k, D')
        moved = w[..., None] * Z - w[..., None] * np.einsum("pljk,jkd->pljd", p, Z)[:, :, :, None]
        C[:, :, f, :, ~same] = moved.sum(axis=2).transpose(3, 0, 1, 2)
        if not held:
            _add_common(
                S, C[:, :, f].sum(axis=1), X[f, 0], np.einsum("jkd,pjke->pde", Z, moved.sum(axis=1)), same
            )
    U = inverse(A.reshape(P, L, q, q) + state.scale[:, :, None, None] * priors.group)
    joined = C.reshape(P, L, q, X.shape[3])
    if not held:
        S -= _summed(joined, U @ joined)
        if labels.term is not None:
            S = S + labels.term.slopes(state.d)[1]
    nothing = np.broadcast_to(0.0, (P, L, m, q, q))
    return S, joined, U, nothing, nothing


def _add_common(S: Floats, C: Floats, X: Floats, varying: Floats, same: NDArray[np.bool_]) -> None:
    """Add the information of one phase on the common effects, from C (P, k, D) of all its groups together."""
    here = np.flatnonzero(same)
    there = np.flatnonzero(~same)
    crossed = np.einsum("kd,pke->pde", X[:, same], C)  # (P, D of same, D)
    S[:, here[:, None], here] += crossed[:, :, here]
    S[:, here[:, None], there] += crossed[:, :, there]
    S[:, there[:, None], here] += crossed[:, :, there].swapaxes(1, 2)
    S[:, there[:, None], there] += varying


def _solve(
    labels: Labels, priors: Priors, state: _State, parts: _Parts, *, held: bool
) -> tuple[Floats, Floats, Floats]:
    """Newton's step of d, u and e."""
    _, C, U, E, A = parts
    P, L, _, m, _ = priors.offset.shape
    left = (labels.counts[..., 1:] - labels.n[..., None] * state.P).swapaxes(2, 3).reshape(P, L, m, labels.q)
    own, carried = left, left
    if priors.bins is not None:
        own = left - state.scale[:, :, None, None] * np.einsum("pab,plmb->plma", priors.bins, state.e)
        carried = left - (A @ (E @ own[..., None]))[..., 0]
    pull = carried.sum(axis=2) - state.scale[:, :, None] * np.einsum("plab,plb->pla", priors.group, state.u)
    d = np.zeros_like(state.d) if held else _step_of_d(labels, priors, state, carried, parts, pull)
    u = np.einsum("plab,plb->pla", U, pull - np.einsum("plad,pd->pla", C, d))
    if priors.bins is None:
        return d, u, np.zeros_like(state.e)
    effects = u[:, :, None, :] + np.einsum("mad,pd->pma", labels.design, d)[:, None]
    e = np.einsum("plmab,plmb->plma", E, own - np.einsum("plmab,plmb->plma", A, effects))
    return d, u, e


def _step_of_d(
    labels: Labels, priors: Priors, state: _State, carried: Floats, parts: _Parts, pull: Floats
) -> Floats:
    S, C, U, _, _ = parts
    slope = np.einsum("mad,pma->pd", labels.design, carried.sum(axis=1))
    slope -= np.einsum("pde,pe->pd", priors.common, state.d)
    if labels.term is not None:
        slope = slope + labels.term.slopes(state.d)[0]
    slope -= np.einsum("plad,pla->pd", C, (U @ pull[..., None])[..., 0])
    return np.asarray(np.linalg.solve(S, slope[..., None])[..., 0])


def _improved(labels: Labels, priors: Priors, state: _State, move: tuple[Floats, Floats, Floats]) -> _State:
    """As far along the move as it gains, point by point."""
    largest = max(float(np.abs(part).max(initial=0.0)) for part in move)
    size = np.full(len(state.value), min(1.0, 4 * _LARGEST / max(largest, 1e-300)))
    for halving in range(_HALVINGS + 1):
        d, u, e = (
            old + size.reshape(-1, *[1] * (old.ndim - 1)) * new
            for old, new in zip((state.d, state.u, state.e), move, strict=True)
        )
        found = _at(labels, priors, d, u, e, state.unknown)
        worse = ~(found.value >= state.value - 1e-9 * np.abs(state.value))
        if not worse.any():
            break
        size = np.where(worse, size / 2 if halving < _HALVINGS - 1 else 0.0, size)
    return found


def _log_evidence(labels: Labels, priors: Priors, state: _State, S: Floats, U: Floats, E: Floats) -> Floats:
    """Log of the integral over all effects; a lower bound of it where the scales of groups are uncertain."""
    nu, size = priors.freedom, _dimension(labels, priors)
    logs = 0.5 * (log_determinant(priors.common) - log_determinant(S))
    logs = logs + 0.5 * (log_determinant(priors.group) + log_determinant(U)).sum(axis=1)
    if priors.bins is not None:
        each = log_determinant(priors.bins)[:, None, None] + log_determinant(E)
        logs = logs + 0.5 * (each * labels.seen).sum(axis=(1, 2))
    student = gammaln((nu + size) / 2) - gammaln(nu / 2) - 0.5 * size * np.log(nu / 2)
    return np.asarray(state.value + logs + student.sum() + 0.5 * (state.scale * state.unknown).sum(axis=1))


def _dimension(labels: Labels, priors: Priors) -> Floats:
    return labels.dimension if priors.bins is not None else np.full(len(labels.counts), float(labels.q))
