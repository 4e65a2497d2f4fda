"""The model's bias for a lab group, and what recalibration by group makes of it: the paper's first contraindication.

Under label shift the mean prediction of group ``g`` is ``π_g @ S``: ``π_g`` are the shares of its classes, and
``S[i, k]`` is the mean prediction for class ``k`` on rows of class ``i``, the same in all groups. What is left,
``b_g = mean prediction − π_g @ S``, is the group's bias given the class. Recalibration takes it for another mix of
classes. Near the shares ``p`` of the lab, one step of the likelihood equations of a histogram ``h`` solves
``Σ_i π_i I_ik = Σ_j h_j M_kj / q_j`` with ``q = p @ M`` and ``I_ik = Σ_j M_ij M_kj / q_j``. Of a calibrated model
``M_kj = c_jk q_j / p_k`` with the mean prediction ``c_j`` of bin ``j``, so that ``I_ik = S_ik / p_k``, and the
equations say ``π @ S = h @ c``: the estimate is off by ``b_g @ S⁻¹``. Of two classes this is ``b_g / s`` with the
slope ``s = S[1, 1] − S[0, 1]``. No model has ``s > 1``, so that the bias grows.

The ``S`` that counts is the one that the estimate uses, of all lab rows, to which the group belongs. With its share
``w_i`` of the rows of class ``i``, and mean predictions ``a_i`` on them, ``o_i`` on those of other groups,
``S_i = w_i a_i + (1 − w_i) o_i``, and ``b_g = Σ_i π_gi (1 − w_i) (a_i − o_i)``: the larger the group, the more of its
bias the lab has learnt as what the class looks like, and the less is left to grow. Being a sum of differences of
independent means, ``b_g`` has a standard error and a test, as if the group were compared with the others.

One step is near enough for small biases of calibrated models. What becomes of a large one, or of another model's, the
lab can try: it estimates its own groups as the field's will be, and knows their shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.goodness_of_fit import false_discovery_adjusted
from fieldcal.core.policy import POLICY
from fieldcal.core.shrinkage import conditional_modes
from fieldcal.types import Floats, Ints

#: Groups that are kept, those with the clearest bias.
MOST_KEPT = 20
_TINY = 1e-300


@dataclass(frozen=True)
class GroupBias:
    """Lab groups whose predictions are most clearly off given the class, the clearest first."""

    tested: int  # groups with enough rows
    group: Floats  # (g,) places among the lab's groups
    of: Floats  # (g,) the class that each is about
    bias: (
        Floats  # (g,) mean prediction less what it would be if the group differed by its mix of classes alone
    )
    error: Floats  # (g,) its standard error
    adjusted: Floats  # (g,) p-values of all classes together, under false-discovery control over the groups
    miss: Floats  # (g,) mean prediction less the share of the class: what is wrong before anything is changed
    after: Floats  # (g,) the estimate less that share: what the full correction by group makes of the bias


def group_bias(
    proba: Floats, y: Ints, groups: Ints, *, bins: Ints, M: Floats, weight: Floats | None = None
) -> GroupBias | None:
    """Compare each group with the lab, given the class; None where fewer than two groups have enough rows.

    Parameters
    ----------
    proba : (n, K) predictions
    y, groups : (n,) classes and groups, counted from zero
    bins, M : (n,) bins, and (K, m) response matrix of all rows
    weight : (n,) sampling weights

    References
    ----------
    Bennett, G. (1962). Probability inequalities for the sum of independent random variables. JASA 57.
    Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. J. R. Stat. Soc. B 57.
    """
    w = np.ones(len(y)) if weight is None else weight
    cells = _Cells.of(proba, y, groups, w)
    used = np.flatnonzero(cells.comparable)
    if len(used) < 2:
        return None
    bias, error, miss = (table[used] for table in (cells.bias, cells.error, cells.mean - cells.share))
    p_value = _tail(np.abs(bias), error**2, cells.largest[used, None])
    free = proba.shape[1] - 1  # predictions sum to one: of two classes the second says it all
    of = p_value.argmin(axis=1) if free > 1 else np.ones(len(used), dtype=np.intp)
    clearest = p_value.min(axis=1) * free
    adjusted = false_discovery_adjusted(np.minimum(clearest, 1.0))
    first = np.argsort(adjusted, kind="stable")[:MOST_KEPT]
    at = first, of[first]
    own = (groups == g for g in used[first])
    V = np.stack([np.bincount(bins[i], w[i], minlength=M.shape[1]).astype(np.float64) for i in own])
    after = (conditional_modes(M, V, np.ones(len(M))) - cells.share[used[first]])[
        np.arange(len(V)), of[first]
    ]
    places = used[first].astype(np.float64), of[first].astype(np.float64)
    return GroupBias(len(used), *places, bias[at], error[at], adjusted[first], miss[at], after)


def _tail(distance: Floats, variance: Floats, largest: Floats) -> Floats:
    """Bennett's bound of the probability that a mean is so far off, in either direction.

    No normal approximation holds where a class is rare: one confident error then decides the mean of a small group.
    """
    u = largest * distance / variance
    return np.asarray(np.minimum(2 * np.exp(-variance / largest**2 * ((1 + u) * np.log1p(u) - u)), 1.0))


def amplification(M: Floats, bin_means: Floats) -> Floats:
    """What recalibration by group multiplies a bias by, class by class, (K,): one over the slope ``s``, at least 1.

    Parameters
    ----------
    M, bin_means : (K, m) response matrix, and (m, K) mean predictions of the bins
    """
    S = M @ bin_means
    own = np.diag(S)
    others = (S.sum(axis=0) - own) / (len(S) - 1)
    return np.asarray(1.0 / np.clip(own - others, _TINY, 1.0))


@dataclass(frozen=True)
class _Cells:
    """Lab rows by group and class."""

    n: Floats  # (L, K) sums of weights
    squares: Floats  # (L, K) of squared weights
    sums: Floats  # (L, K, K) of weighted predictions
    variance: Floats  # (K, K) of predictions given the class

    @classmethod
    def of(cls, proba: Floats, y: Ints, groups: Ints, w: Floats) -> _Cells:
        L, K = int(groups.max(initial=0)) + 1, proba.shape[1]
        cell = groups * K + y

        def added(values: Floats) -> Floats:
            return np.bincount(cell, values, minlength=L * K).reshape(L, K).astype(np.float64)

        n, sums = added(w), np.stack([added(w * c) for c in proba.T], axis=2)
        total = np.maximum(n.sum(axis=0), _TINY)[:, None]
        apart = w[:, None] * np.square(proba - (sums.sum(axis=0) / total)[y])
        variance = np.stack([np.bincount(y, column, minlength=K) for column in apart.T], axis=1) / total
        return cls(n, added(w**2), sums, variance)

    @property
    def rows(self) -> Floats:
        return np.asarray(self.n.sum(axis=1) ** 2 / np.maximum(self.squares.sum(axis=1), _TINY))

    @property
    def share(self) -> Floats:
        """Of the classes in each group, (L, K)."""
        return np.asarray(self.n / np.maximum(self.n.sum(axis=1, keepdims=True), _TINY))

    @property
    def mean(self) -> Floats:
        return np.asarray(self.sums.sum(axis=1) / np.maximum(self.n.sum(axis=1, keepdims=True), _TINY))

    @property
    def S(self) -> Floats:
        """Mean predictions given the class, of all groups, (K, K)."""
        return np.asarray(self.sums.sum(axis=0) / np.maximum(self.n.sum(axis=0), _TINY)[:, None])

    @property
    def elsewhere(self) -> Floats:
        """The share of the rows of each class that other groups have, (L, K)."""
        total = self.n.sum(axis=0)
        return np.asarray((total - self.n) / np.maximum(total, _TINY))

    @property
    def comparable(self) -> NDArray[np.bool_]:
        """Groups with enough rows, each class of which other groups have too."""
        known = (self.elsewhere > 0) | (self.n == 0)
        return np.asarray(known.all(axis=1) & (self.rows >= POLICY.few))

    @property
    def bias(self) -> Floats:
        """Mean predictions less those that the lab has for such a mix of classes, (L, K)."""
        return np.asarray(self.mean - self.share @ self.S)

    @property
    def error(self) -> Floats:
        """Standard errors of the bias, (L, K)."""
        squares = self.squares.sum(axis=0) - self.squares
        rows = np.maximum(self.n.sum(axis=1, keepdims=True) ** 2, _TINY)
        own = np.square(self.elsewhere) * self.squares / rows
        theirs = np.square(self.share) * squares / np.maximum(self.n.sum(axis=0) ** 2, _TINY)
        return np.asarray(np.sqrt(np.maximum((own + theirs) @ self.variance, _TINY)))

    @property
    def largest(self) -> Floats:
        """The most that one row, here or in other groups, can add to the bias of a group, (L,)."""
        own = np.where(self.n > 0, self.elsewhere, 0).max(axis=1) / np.maximum(self.rows, 1.0)
        rest, squares = self.n.sum(axis=0) - self.n, self.squares.sum(axis=0) - self.squares
        row = squares / np.where(rest > 0, rest, np.inf)  # the weight of one
        theirs = self.share * row / np.maximum(self.n.sum(axis=0), _TINY)
        return np.asarray(np.maximum(own, theirs.max(axis=1)))
