"""Laplace's approximation for multinomial logits with common and block effects: mode, covariance, evidence.

Rows are counted in *cells*. Cell i has log-odds ``offset_i + Z_i z + e_{column(i)} + b_{block(i)}``. Columns (bins)
cross blocks (groups), and everything is Gaussian before any row is seen. The Hessian is an arrow: dense in the common
effects ``d = (z, e)``, one small block per ``b``. So thousands of blocks cost little.

References
----------
Tierney, L. and Kadane, J. B. (1986). Accurate approximations for posterior moments and marginal densities. JASA 81.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from fieldcal.types import Floats, Ints

_STEPS, _HALVINGS, _ENOUGH = 60, 14, 1e-6


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
    offset: Floats  # (I, K)
    Z: Floats  # (I, K, q)
    block: Ints  # (I,) ascending, every block has a cell
    n_blocks: int
    column: Ints  # (I,)
    n_columns: int

    def logs(self, d: Floats, b: Floats) -> Floats:
        """Log-odds, (I, K)."""
        q, K = self.Z.shape[2], self.counts.shape[1]
        logs = self.offset + self.Z @ d[:q]
        if self.n_columns:
            logs = logs + d[q:].reshape(-1, K)[self.column]
        return logs + b[self.block] if self.n_blocks else logs

    def by_block(self, values: Floats) -> Floats:
        """Sums over the cells of each block."""
        if not self.n_blocks:
            return np.zeros((0, *values.shape[1:]))
        return np.asarray(np.add.reduceat(values, np.searchsorted(self.block, np.arange(self.n_blocks))))

    def by_column(self, values: Floats) -> Floats:
        """Sums over the cells of each column."""
        total = np.zeros((self.n_columns, *values.shape[1:]))
        if self.n_columns:
            np.add.at(total, self.column, values)
        return total


@dataclass(frozen=True)
class Gaussian:
    """The posterior of (d, b): its mode, and its precision as an arrow."""

    d: Floats  # (D,)
    b: Floats  # (B, K)
    S: Floats  # (D, D) precision of d, b integrated out
    C: Floats  # (B, D, K) precision between d and each b
    B: Floats  # (B, K, K) precision of each b given d
    log_evidence: float

    def variance_by_block(self, common: Floats, own: Floats, blocks: Ints) -> Floats:
        """Variance of linear functions, each of one block: (n, q, D) of d, (n, q, K) of its b; (n, q)."""
        solved = np.linalg.solve(self.B[blocks], own.swapaxes(1, 2))  # (n, K, q)
        left = common - (self.C[blocks] @ solved).swapaxes(1, 2)  # (n, q, D)
        return np.asarray(np.einsum("nqk,nkq->nq", own, solved) + self.common_variance(left))

    def variance(self, common: Floats, own: Floats) -> Floats:
        """Variance of linear functions of everything: (q, D) of d, (B, q, K) of all b; (q,)."""
        solved = np.linalg.solve(self.B, own.swapaxes(1, 2))  # (B, K, q)
        left = common - (self.C @ solved).sum(axis=0).T
        return np.asarray(np.einsum("bqk,bkq->q", own, solved) + self.common_variance(left))

    def common_variance(self, common: Floats) -> Floats:
        """Variance of functions (…, D) of d alone."""
        flat = common.reshape(-1, common.shape[-1])
        solved = np.linalg.solve(self.S, flat.T).T
        return np.asarray((flat * solved).sum(axis=1).reshape(common.shape[:-1]))

    def draws(self, n: int, blocks: Ints, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """n draws of d, (n, D), and of the b of these blocks, (blocks, n, K)."""
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
    variance: Floats,
    term: Term | None = None,
    start: Gaussian | None = None,
) -> Gaussian:
    """The mode by Newton's method, and the evidence for these priors.

    Parameters
    ----------
    precision : (D, D) of d before any row is seen, its mean is 0
    variance : (B, K) of each b
    term : further likelihood of d
    start : where to begin
    """
    D, K = len(precision), cells.counts.shape[1]
    d, b = (np.zeros(D), np.zeros((cells.n_blocks, K))) if start is None else (start.d, start.b)
    state = _at(cells, d, b, precision, variance, term)
    for _ in range(_STEPS):
        gradient, arrow = _slopes(cells, state, precision, variance, term)
        new = _step(cells, state, _solve(arrow, *gradient), precision, variance, term)
        gained, state = new.value - state.value, new
        if gained < _ENOUGH:
            break
    _, (S, C, B) = _slopes(cells, state, precision, variance, term)
    logs = np.linalg.slogdet(precision)[1] - np.log(variance).sum()
    logs -= np.linalg.slogdet(S)[1] + np.linalg.slogdet(B)[1].sum()
    return Gaussian(state.d, state.b, S, C, B, float(state.value + 0.5 * logs))


def _at(cells: Cells, d: Floats, b: Floats, precision: Floats, variance: Floats, term: Term | None) -> _State:
    logs = cells.logs(d, b)
    total = logsumexp(logs, axis=1)
    value = (cells.counts * (logs - total[:, None])).sum()
    value -= 0.5 * (d @ precision @ d + (b**2 / variance).sum())
    if term is not None:
        value += term.value(d)
    return _State(d, b, np.exp(logs - total[:, None]), float(value))


def _step(
    cells: Cells,
    state: _State,
    move: tuple[Floats, Floats],
    precision: Floats,
    variance: Floats,
    term: Term | None,
) -> _State:
    """As far along the move as it gains; nowhere if it does not."""
    size = 1.0
    for _ in range(_HALVINGS):
        d, b = state.d + size * move[0], state.b + size * move[1]
        new = _at(cells, d, b, precision, variance, term)
        if new.value >= state.value:
            return new
        size /= 2
    return state


def _slopes(
    cells: Cells, state: _State, precision: Floats, variance: Floats, term: Term | None
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats, Floats]]:
    """Gradient of (d, b), and the precision as an arrow: S of d with b integrated out, C, B."""
    P, n = state.P, cells.counts.sum(axis=1)
    left = cells.counts - n[:, None] * P
    W = n[:, None, None] * (P[:, :, None] * np.eye(P.shape[1]) - P[:, :, None] * P[:, None, :])
    ZW = cells.Z.swapaxes(1, 2) @ W  # (I, q, K)
    H, gradient = _common(cells, left, W, ZW)
    H, gradient = H + precision, gradient - precision @ state.d
    if term is not None:
        slope, information = term.slopes(state.d)
        gradient, H = gradient + slope, H + information
    own = cells.by_block(left) - state.b / variance
    B = cells.by_block(W) + np.eye(P.shape[1]) / variance[:, :, None]
    C = _crossing(cells, W, ZW)
    S = H - np.tensordot(C, np.linalg.solve(B, C.swapaxes(1, 2)), axes=([0, 2], [0, 1]))
    return (gradient, own), (S, C, B)


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
    """Information between the common effects and each block, (B, D, K)."""
    z = cells.by_block(ZW)
    if not cells.n_columns or not cells.n_blocks:
        width = ZW.shape[1] + cells.n_columns * ZW.shape[2]
        return z if not cells.n_columns else np.zeros((0, width, ZW.shape[2]))
    e = np.zeros((cells.n_blocks, cells.n_columns, *W.shape[1:]))
    e[cells.block, cells.column] = W  # a block and a column meet in one cell
    return np.concatenate([z, e.reshape(cells.n_blocks, -1, W.shape[2])], axis=1)


def _solve(arrow: tuple[Floats, Floats, Floats], gradient: Floats, own: Floats) -> tuple[Floats, Floats]:
    S, C, B = arrow
    solved = np.linalg.solve(B, own[:, :, None])
    d = np.linalg.solve(S, gradient - (C @ solved)[:, :, 0].sum(axis=0))
    return d, solved[:, :, 0] - np.linalg.solve(B, (C.swapaxes(1, 2) @ d)[:, :, None])[:, :, 0]
