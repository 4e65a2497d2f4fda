"""Break-even: the share of rows that must be scored differently than in the lab before a conclusion can be wrong.

If some rows of a field are scored differently than rows of their class in the lab, its histogram is ``v = p @ M'`` with
changed distributions ``M'``. Prevalences ``p`` need at least ``TV(v, p @ M) = Σ_j (p @ M − v)_j⁺`` of the rows for
that, and these suffice: move the excess of each bin, taken from the classes in proportion to ``p_k M_kj``, to bins that
lack rows. No cell gets negative, so the constraint ``M' ≥ 0`` never binds. If instead every class may change by ``ε``
of its own rows, at least as much is needed: ``max_C Σ_j (Σ_{k in C} p_k M_kj − v_j)⁺ / Σ_{k in C} p_k`` over sets ``C``
of classes (the maximum flow from excess to classes of capacity ``ε p_k``). Decision record 26 has both proofs.

The break-even of a conclusion is the least change over all ``p`` that contradict it, less the misfit, the least change
over all ``p``: rows that are scored differently whatever the shares are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fieldcal.types import Floats

_BATCH = 20  # linear programs solved as one: fewer cost more calls, more cost longer steps

#: Violations measured in real groups, as shares of rows beyond noise: how many groups lie between each edge and the one
#: before. By ``benchmarks/break_even.py --table``: 728 groups of 200 or more labelled rows in 60 files of predictions,
#: by classifiers of several kinds, from 21 source tables; no groups that were drawn so that label shift holds. (26)
REFERENCE_EDGES = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0)
REFERENCE_GROUPS = (29, 24, 28, 31, 42, 38, 87, 60, 58, 54, 85, 78, 45, 46, 18, 5)


@dataclass(frozen=True)
class Flip:
    """Prevalences at which a conclusion fails with the least change.

    Attributes
    ----------
    change : (G,) share of rows that must be scored differently
    p : (G, K) these prevalences
    y : (G, m) weights of bins: ``change`` is ``(p @ M − v) · y``
    """

    change: Floats
    p: Floats
    y: Floats


def least_change(V: Floats, p: Floats, M: Floats) -> Floats:
    """The least share of rows that must be scored differently for histograms V (G, m) with prevalences p (G, K)."""
    return np.asarray(np.maximum(p @ M - V, 0.0).sum(axis=-1))


def closest(V: Floats, M: Floats) -> Flip:
    """The prevalences with the least change of all, and this misfit."""
    if len(M) == 2:
        return _flip_at(V, M, _closest_binary(V, M))
    return _programs(V, M, 0, np.zeros(len(V)), np.zeros(len(V)))


def flip(V: Floats, M: Floats, k: int, c: Floats, above: NDArray[np.bool_], best: Flip) -> Flip:
    """The least change with which the share of class k is no longer above (below) c, for histograms V (G, m).

    Parameters
    ----------
    c : (G,) thresholds
    above : (G,) whether the conclusion is that the share is above
    best : from `closest`
    """
    if len(M) == 2:
        # The change is convex in p, so it is least at the threshold unless the best fit is beyond.
        share = np.where(above, np.minimum(best.p[:, k], c), np.maximum(best.p[:, k], c))
        return _flip_at(V, M, share if k == 1 else 1 - share)
    return _programs(V, M, k, c, np.where(above, -1.0, 1.0))


def standard_error(found: Flip, V: Floats, n: Floats, A: Floats) -> Floats:
    """Standard error of the change, (G,): noise of n rows per histogram, and of M by its parameters A (K, m)."""
    M, rows = A / A.sum(axis=1, keepdims=True), A.sum(axis=1) + 1
    of_rows = _variance(found.y, V) / np.maximum(n, 1e-300)
    of_M = ((found.y**2) @ M.T - (found.y @ M.T) ** 2) / rows  # G, K
    return np.asarray(np.sqrt(np.maximum(of_rows + (found.p**2 * of_M).sum(axis=1), 0.0)))


def lower_end(change: Floats, error: Floats, level: float) -> Floats:
    """The lower end of an interval for a change with this standard error, at least 0."""
    return np.asarray(np.maximum(change - ndtri((1 + level) / 2) * error, 0.0))


@dataclass(frozen=True)
class Meeting:
    """The least further change of each of two groups with which their shares of a class are equal."""

    change: float
    error: float  # standard error


def meeting(V: Floats, M: Floats, k: int, n: Floats, A: Floats) -> Meeting:
    """The least further change with which the share of class k in the first group is not above that in the second.

    Parameters
    ----------
    V : (2, m) histograms
    n : (2,) rows
    """
    (K, m), misfit = M.shape, closest(V, M).change
    order = np.zeros((1, 2 * (K + m) + 1))
    order[0, [k, K + k]] = 1.0, -1.0
    zero = np.zeros((m, m))
    excess = [
        np.hstack([M.T, np.zeros((m, K)), -np.eye(m), zero, np.zeros((m, 1))]),
        np.hstack([np.zeros((m, K)), M.T, zero, -np.eye(m), np.zeros((m, 1))]),
    ]
    within = np.zeros((2, 2 * (K + m) + 1))
    within[0, 2 * K : 2 * K + m], within[1, 2 * K + m : -1], within[:, -1] = 1.0, 1.0, -1.0
    sums = np.zeros_like(within)
    sums[0, :K], sums[1, K : 2 * K] = 1.0, 1.0
    found = _optimum(
        np.eye(2 * (K + m) + 1)[-1],
        A_ub=np.vstack([*excess, within, order]),
        b_ub=np.concatenate([*V, misfit, [0.0]]),
        A_eq=sums,
        b_eq=np.ones(2),
    )
    Y = -found.ineqlin.marginals[: 2 * m].reshape(2, m)
    p = found.x[: 2 * K].reshape(2, K)
    # M is shared: its noise mostly cancels.
    shared = np.einsum("gk,gj->kj", p, Y)
    rows = A.sum(axis=1) + 1
    variance = (_variance(Y, V) / np.maximum(n, 1e-300)).sum() + (_variance(shared, M) / rows).sum()
    return Meeting(max(float(found.fun), 0.0), float(np.sqrt(max(variance, 0.0))))


def share_bounds(v: Floats, M: Floats, k: int, changes: Floats) -> Floats:
    """The lowest and the highest share of class k, (E, 2), if at most so many rows beyond the misfit are changed."""
    K, m = M.shape
    misfit = closest(v[None], M).change[0]
    A = np.vstack([np.hstack([M.T, -np.eye(m)]), np.r_[np.zeros(K), np.ones(m)]])
    sums = np.r_[np.ones(K), np.zeros(m)][None]

    def end(change: float, sign: float) -> float:
        limits = np.r_[v, misfit + change + 1e-12]
        found = _optimum(sign * np.eye(K + m)[k], A_ub=A, b_ub=limits, A_eq=sums, b_eq=[1.0])
        return float(np.clip(sign * found.fun, 0.0, 1.0))

    return np.array([[end(change, 1.0), end(change, -1.0)] for change in changes])


def violations(H: Floats, A: Floats) -> Floats:
    """The share of rows that are scored differently than the lab's, (G,), in labelled groups H (G, K, m).

    Total variation of each class, less what noise makes of it (in quadrature: the differences of cells add up to
    it), weighted by the rows of the class. The lab's parameters A are (K, m), or (G, K, m) with a lab for each group.
    """
    A = np.broadcast_to(A, H.shape)
    rows, lab = H.sum(axis=2), A.sum(axis=2)
    M = A / lab[:, :, None]
    own = H / np.maximum(rows, 1e-300)[:, :, None]
    observed = 0.5 * np.abs(own - M).sum(axis=2)
    variance = M * (1 - M) * (1 / np.maximum(rows, 1e-300) + 1 / lab)[:, :, None]
    noise = 0.5 * np.sqrt(2 / np.pi * variance).sum(axis=2)
    beyond = np.sqrt(np.maximum(observed**2 - noise**2, 0.0))
    return np.asarray((rows * beyond).sum(axis=1) / np.maximum(rows.sum(axis=1), 1e-300))


@cache
def reference_share(change: float) -> float:
    """The share of the reference groups whose violation is below a change, rounded down to an edge."""
    counts = np.cumsum(REFERENCE_GROUPS)
    at = int(np.searchsorted(REFERENCE_EDGES, change, side="right"))
    return float(counts[at - 1] / counts[-1]) if at else 0.0


def _optimum(cost: Floats, *, presolve: bool = True, **given: Any) -> Any:
    """A solved linear program; all here are feasible and bounded."""
    from scipy.optimize import linprog

    found: Any = linprog(cost, method="highs-ds", options={"presolve": presolve}, **given)
    return found if found.success else linprog(cost, method="highs", **given)


def _variance(y: Floats, P: Floats) -> Floats:
    """Variance of weights y of one row from each distribution P."""
    return np.asarray((y**2 * P).sum(axis=-1) - (y * P).sum(axis=-1) ** 2)


def _flip_at(V: Floats, M: Floats, share: Floats) -> Flip:
    p = np.stack([1 - share, share], axis=1)
    excess = p @ M - V
    return Flip(np.maximum(excess, 0.0).sum(axis=1), p, (excess > 0).astype(np.float64))


def _closest_binary(V: Floats, M: Floats) -> Floats:
    """The share of the second of two classes with the least change: a median of the bins' own shares, weighted.

    The change has a kink where a bin's expected share is the observed one, and its slope grows there by the difference
    of the classes.
    """
    difference = M[1] - M[0]
    used = np.abs(difference) > 1e-15
    if not used.any():
        return np.full(len(V), 0.5)
    own = (V[:, used] - M[0, used]) / difference[used]
    order = np.argsort(own, axis=1)
    weight = np.cumsum(np.abs(difference[used])[order], axis=1)
    middle = (weight < 0.5 * weight[:, -1:] * (1 - 1e-12)).sum(axis=1)
    at = np.take_along_axis(order, middle[:, None], axis=1)
    return np.asarray(np.clip(np.take_along_axis(own, at, axis=1)[:, 0], 0.0, 1.0))


def _programs(V: Floats, M: Floats, k: int, c: Floats, sign: Floats) -> Flip:
    """Least change with the share of class k at least c (sign 1), at most c (-1), or any (0), of many histograms.

    The dual is solved, which has a row for each class instead of each bin: maximise ``λ + μ c − v · y`` over weights
    ``0 ≤ y ≤ 1`` with ``λ + μ [l = k] ≤ M_l · y``. The marginals are p.
    """
    K, m = M.shape
    y, p = np.zeros_like(V), np.zeros((len(V), K))
    row = np.hstack([-M, np.ones((K, 1)), np.eye(K)[:, [k]]])
    from scipy import sparse

    for at in range(0, len(V), _BATCH):
        part = slice(at, min(at + _BATCH, len(V)))
        size = part.stop - part.start
        cost = np.hstack([V[part], np.full((size, 1), -1.0), -c[part, None]])
        lower, upper = np.zeros((size, m + 2)), np.ones((size, m + 2))
        lower[:, m], upper[:, m] = -np.inf, np.inf
        lower[:, m + 1], upper[:, m + 1] = (
            np.where(sign[part] < 0, -np.inf, 0.0),
            np.where(sign[part] > 0, np.inf, 0.0),
        )
        rows: Any = sparse.block_diag([row] * size, format="csc")
        found = _optimum(
            cost.ravel(),
            A_ub=rows,
            b_ub=np.zeros(K * size),
            bounds=np.column_stack([lower.ravel(), upper.ravel()]),
            presolve=False,
        )
        y[part] = found.x.reshape(size, m + 2)[:, :m]
        p[part] = np.maximum(-found.ineqlin.marginals.reshape(size, K), 0.0)
    p /= p.sum(axis=1, keepdims=True)
    return Flip(least_change(V, p, M), p, y)
