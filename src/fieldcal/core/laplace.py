"""Laplace's approximation for multinomial logits with common and block effects: mode, covariance, evidence.

Rows are counted in *cells*. Cell i has log-odds ``offset_i + Z_i z + e_{column(i)} + b_{block(i)}``. Columns (bins)
cross blocks (groups), and everything is Gaussian before any row is seen. The Hessian is an arrow: dense in the common
effects ``d = (z, e)``, one small block per ``b``. So thousands of blocks cost little.

References
----------
Tierney, L. and Kadane, J. B. (1986). Accurate approximations for posterior moments and marginal densities. JASA 81.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from fieldcal.types import Floats, Ints

_STEPS, _HALVINGS, _ENOUGH = 60, 14, 1e-3


class Term(Protocol):
    """One more summand of the log likelihood, a function of the common effects alone."""

    def value(self, d: Floats) -> float:
        """At these common effects."""

    def slopes(self, d: Floats) -> tuple[Floats, Floats]:
        """Gradient (D,) and information (D, D)."""


@dataclass(frozen=True)
class Cells:
    """Counts per cell, and what each cell's log-odds are made of."""

    counts: Floats  # (I, K)
    offset: Floats  # (I, K − 1) against the first class, like everything below
    Z: Floats  # (I, K − 1, q)
    block: Ints  # (I,) ascending, every block has a cell
    n_blocks: int
    column: Ints  # (I,)
    n_columns: int

    def logs(self, d: Floats, b: Floats) -> Floats:
        """Log-odds, (I, K); those of the first class are 0."""
        n, free, q = self.Z.shape
        logs = np.zeros((n, free + 1))
        logs[:, 1:] = self.offset + self.Z @ d[:q]
        if self.n_columns:
            logs[:, 1:] += d[q:].reshape(-1, free)[self.column]
        if self.n_blocks:
            logs[:, 1:] += b[self.block]
        return logs

    def by_block(self, values: Floats) -> Floats:
        """Sums over the cells of each block."""
        if not self.n_blocks:
            return np.zeros((0, *values.shape[1:]))
        return np.asarray(np.add.reduceat(values, self._starts))

    def by_column(self, values: Floats) -> Floats:
        """Sums over the cells of each column."""
        return np.tensordot(self._columns, values, axes=(0, 0))

    @cached_property
    def _columns(self) -> Floats:
        """(I, columns) which cell is in which."""
        return np.asarray(self.column[:, None] == np.arange(self.n_columns), dtype=np.float64)

    @cached_property
    def _starts(self) -> Ints:
        """(blocks,) the first cell of each."""
        return np.searchsorted(self.block, np.arange(self.n_blocks))

    @cached_property
    def n(self) -> Floats:
        """(I,) rows in each cell."""
        return np.asarray(self.counts.sum(axis=1))


@dataclass(frozen=True)
class Gaussian:
    """The posterior of (d, b): its mode, and its precision as an arrow."""

    d: Floats  # (D,)
    b: Floats  # (B, K − 1)
    S: Floats  # (D, D) precision of d, b integrated out
    C: Floats  # (B, D, K − 1) precision between d and each b
    B: Floats  # (B, K − 1, K − 1) precision of each b given d
    log_evidence: float

    def alone(self) -> Gaussian:
        """The mode and the evidence without the precision, which is large."""
        nothing = np.zeros((0, *self.C.shape[1:]))
        return replace(self, S=np.zeros((0, 0)), C=nothing, B=np.zeros((0, *self.B.shape[1:])))

    def variance_by_block(self, common: Floats, own: Floats, blocks: Ints) -> Floats:
        """Variance of linear functions, each of one block: (n, q, D) of d, (n, q, K − 1) of its b; (n, q)."""
        solved = np.linalg.solve(self.B[blocks], own.swapaxes(1, 2))  # (n, K − 1, q)
        left = common - (self.C[blocks] @ solved).swapaxes(1, 2)  # (n, q, D)
        return np.asarray(np.einsum("nqk,nkq->nq", own, solved) + self.common_variance(left))

    def variance(self, common: Floats, own: Floats) -> Floats:
        """Variance of linear functions of everything: (q, D) of d, (B, q, K − 1) of all b; (q,)."""
        solved = np.linalg.solve(self.B, own.swapaxes(1, 2))  # (B, K − 1, q)
        left = common - (self.C @ solved).sum(axis=0).T
        return np.asarray(np.einsum("bqk,bkq->q", own, solved) + self.common_variance(left))

    def common_variance(self, common: Floats) -> Floats:
        """Variance of functions (…, D) of d alone."""
        flat = common.reshape(-1, common.shape[-1])
        solved = np.linalg.solve(self.S, flat.T).T
        return np.asarray((flat * solved).sum(axis=1).reshape(common.shape[:-1]))

    def draws(self, n: int, blocks: Ints, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """n draws of d, (n, D), and of the b of these blocks, (blocks, n, K − 1)."""
        d = np.linalg.solve(np.linalg.cholesky(self.S).T, rng.standard_normal((len(self.d), n))).T
        B, C = self.B[blocks], self.C[blocks]
        noise = rng.standard_normal((len(blocks), B.shape[1], n))
        own = np.linalg.solve(np.linalg.cholesky(B).swapaxes(1, 2), noise)
        own -= np.linalg.solve(B, C.swapaxes(1, 2) @ d.T)
        return self.d + d, self.b[blocks][:, None, :] + own.swapaxes(1, 2)


@dataclass(frozen=True)
class _State:
    d: Floats
    b: Floats
    P: Floats  # (I, K) probabilities in the cells
    value: float  # log of likelihood times prior


def fit(
    cells: Cells,
    *,
    precision: Floats,
    own: Floats,
    term: Term | None = None,
    start: tuple[Floats, Floats] | None = None,
) -> Gaussian:
    """The mode by Newton's method, and the evidence for these priors.

    Parameters
    ----------
    precision : (D, D) of d before any row is seen, its mean is 0
    own : (B, K − 1, K − 1) the same of each b
    term : further likelihood of d
    start : d and b to begin with
    """
    d, b = (np.zeros(len(precision)), np.zeros(own.shape[:2])) if start is None else start
    state = _at(cells, d, b, precision, own, term)
    gained = np.inf
    for _ in range(_STEPS):
        gradient, (S, C, B) = _slopes(cells, state, precision, own, term)
        if gained < _ENOUGH:
            break
        new = _step(cells, state, _solve((S, C, B), *gradient), precision, own, term)
        gained, state = new.value - state.value, new
    logs = np.linalg.slogdet(precision)[1] + np.linalg.slogdet(own)[1].sum()
    logs -= np.linalg.slogdet(S)[1] + np.linalg.slogdet(B)[1].sum()
    return Gaussian(state.d, state.b, S, C, B, float(state.value + 0.5 * logs))


def _at(cells: Cells, d: Floats, b: Floats, precision: Floats, own: Floats, term: Term | None) -> _State:
    logs = cells.logs(d, b)
    logs -= logs.max(axis=1, keepdims=True)
    P = np.exp(logs)
    total = P.sum(axis=1, keepdims=True)
    value = (cells.counts * logs).sum() - cells.n @ np.log(total[:, 0])
    value -= 0.5 * (d @ precision @ d + np.einsum("bk,bkl,bl->", b, own, b))
    if term is not None:
        value += term.value(d)
    return _State(d, b, P / total, float(value))


def _step(
    cells: Cells,
    state: _State,
    move: tuple[Floats, Floats],
    precision: Floats,
    own: Floats,
    term: Term | None,
) -> _State:
    """As far along the move as it gains; nowhere if it does not."""
    size = 1.0
    for _ in range(_HALVINGS):
        d, b = state.d + size * move[0], state.b + size * move[1]
        new = _at(cells, d, b, precision, own, term)
        if new.value >= state.value:
            return new
        size /= 2
    return state


def _slopes(
    cells: Cells, state: _State, precision: Floats, own: Floats, term: Term | None
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats, Floats]]:
    """Gradient of (d, b), and the precision as an arrow: S of d with b integrated out, C, B."""
    P, n = state.P, cells.n
    left = (cells.counts - n[:, None] * P)[:, 1:]
    P = P[:, 1:]
    W = n[:, None, None] * (P[:, :, None] * np.eye(P.shape[1]) - P[:, :, None] * P[:, None, :])
    ZW = cells.Z.swapaxes(1, 2) @ W  # (I, q, K − 1)
    H, gradient = _common(cells, left, W, ZW)
    H, gradient = H + precision, gradient - precision @ state.d
    if term is not None:
        slope, information = term.slopes(state.d)
        gradient, H = gradient + slope, H + information
    pull = cells.by_block(left) - np.einsum("bkl,bl->bk", own, state.b)
    B = cells.by_block(W) + own
    C = _crossing(cells, W, ZW)
    S = H - np.tensordot(C, np.linalg.solve(B, C.swapaxes(1, 2)), axes=([0, 2], [0, 1]))
    return (gradient, pull), (S, C, B)


def _common(cells: Cells, left: Floats, W: Floats, ZW: Floats) -> tuple[Floats, Floats]:
    """Information (D, D) and gradient (D,) of the common effects; those of two columns never meet in a cell."""
    q, K = ZW.shape[1:]
    m = cells.n_columns
    H = np.zeros((q + m * K, q + m * K))
    H[:q, :q] = np.tensordot(ZW, cells.Z, axes=([0, 2], [0, 1]))
    gradient = np.tensordot(cells.Z, left, axes=([0, 1], [0, 1]))
    if not m:
        return H, gradient
    H[:q, q:] = cells.by_column(ZW).swapaxes(0, 1).reshape(q, m * K)
    H[q:, :q] = H[:q, q:].T
    within = H[q:, q:].reshape(m, K, m, K)
    within[np.arange(m), :, np.arange(m), :] = cells.by_column(W)
    return H, np.concatenate([gradient, cells.by_column(left).ravel()])


def _crossing(cells: Cells, W: Floats, ZW: Floats) -> Floats:
    """Information between the common effects and each block, (B, D, K − 1)."""
    z = cells.by_block(ZW)
    if not cells.n_columns or not cells.n_blocks:
        width = ZW.shape[1] + cells.n_columns * ZW.shape[2]
        return z if not cells.n_columns else np.zeros((0, width, ZW.shape[2]))
    e = np.zeros((cells.n_blocks, cells.n_columns, *W.shape[1:]))
    e[cells.block, cells.column] = W  # a block and a column meet in one cell
    return np.concatenate([z, e.reshape(cells.n_blocks, -1, W.shape[2])], axis=1)


def _solve(arrow: tuple[Floats, Floats, Floats], gradient: Floats, pull: Floats) -> tuple[Floats, Floats]:
    S, C, B = arrow
    solved = np.linalg.solve(B, pull[:, :, None])
    d = np.linalg.solve(S, gradient - (C @ solved)[:, :, 0].sum(axis=0))
    return d, solved[:, :, 0] - np.linalg.solve(B, (C.swapaxes(1, 2) @ d)[:, :, None])[:, :, 0]
