"""Statistics of binned lab rows beyond the response matrix: decisions, log loss, counts and checks by group."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.goodness_of_fit import homogeneity
from fieldcal.core.group_bias import group_bias
from fieldcal.core.ordered import approximate_ordered_mean
from fieldcal.core.partition import as_columns
from fieldcal.core.response import (
    count_cells,
    equal_rows,
    response_matrix,
    smoothing_cells,
    whole,
)
from fieldcal.core.shrinkage import approximate_posterior_mean
from fieldcal.core.trust import rehearse
from fieldcal.errors import TrustWarning
from fieldcal.objects import SCORE_UNIT
from fieldcal.objects.lab_groups import GroupCounts, count_by_group
from fieldcal.objects.next_lab import class_shares
from fieldcal.types import Floats, Ints, Keys
from fieldcal.validation import (
    CheckedScores,
    order_of_rows,
)
from fieldcal.verbs.count import score_sums

#: Lab groups compared with each other, largest first; more would cost memory without adding information.
_HOMOGENEITY_GROUPS = 2_000


@dataclass(frozen=True)
class BinnedRows:
    """Lab rows with their predictions and bins."""

    proba: Floats  # (n, K), rows sum to one
    y: Ints
    bins: Ints
    weight: Floats | None

    def in_one_order(self, groups: Ints) -> tuple[BinnedRows, Ints]:
        """Sorted by their content, so that no fold, sum or digest depends on the input order."""
        order = self.order(groups)
        return self.take(order), groups[order]

    def order(self, groups: Ints) -> Ints:
        """A permutation that sorts rows by group, class, bin and prediction."""
        cells = (groups * (self.y.max(initial=0) + 1) + self.y) * (self.bins.max(initial=0) + 1) + self.bins
        return order_of_rows(self.proba, cells, weight=self.weight)

    def take(self, order: Ints) -> BinnedRows:
        weight = None if self.weight is None else self.weight[order]
        return BinnedRows(self.proba[order], self.y[order], self.bins[order], weight)


def predictions_of(values: Floats, bins: Ints, F: Any, given_ids: bool) -> Floats:
    """Predictions with one column per class; for given bin ids, the lab's class shares of the bin."""
    if not given_ids:
        proba = as_columns(values)
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))
    return class_shares(F).T[bins]


def decisions(rows: BinnedRows, *, n_bins: int) -> Any:
    """Rows by class, bin and largest prediction, (K, m, K)."""
    K = rows.proba.shape[1]
    decided = rows.bins * K + rows.proba.argmax(axis=1)
    return count_cells(rows.y, decided, shape=(K, n_bins * K), weight=rows.weight).reshape(K, n_bins, K)


def counts_by_group(
    rows: BinnedRows, groups: tuple[Keys, Ints] | None, scores: CheckedScores | None, *, n_bins: int
) -> dict[str, Any]:
    """Lab groups with weight, and their rows by class and bin; sums of predictions if there are scores."""
    if groups is None:
        return {}
    names, codes = groups
    if rows.weight is not None:  # as in `_learn`; the order of scores alone leaves that of groups open
        order = rows.order(codes)
        rows, codes = rows.take(order), codes[order]
        scores = None if scores is None else scores.take(order)
    shape = (rows.proba.shape[1], n_bins)
    cells = count_by_group(codes, rows.y, rows.bins, shape=shape, weight=rows.weight)
    present, place = np.unique(cells.group), np.zeros(len(names), dtype=np.intp)
    place[present] = np.arange(len(present))
    sums = None if scores is None else score_sums(codes, len(names), scores, rows.weight)[present]
    return {
        "groups": tuple(names[g] for g in present),
        "by_group": GroupCounts(cells=cells.moved(place).at, rows=cells.rows, prediction_sums=sums),
    }


def group_statistics(
    rows: BinnedRows,
    groups: tuple[Keys, Ints] | None,
    *,
    n_bins: int,
    smoothing: float,
    ordered: bool,
    rehearsed: bool,
    random_state: int,
) -> dict[str, Any]:
    """Results per lab group: the rehearsal, and whether the response differs between groups.

    Categories are not rehearsed, as the rehearsal compares probabilities.
    """
    if groups is None:
        return {}
    names, codes = groups
    if len(names) > len(rows.y) / 2:
        warnings.warn(
            f"The lab's {len(rows.y):,} rows fall into {len(names):,} groups, fewer than two each on average: no "
            "cross-validation over groups is possible. Is this an id? Use a coarser grouping.",
            TrustWarning,
            stacklevel=4,
        )
        return {}
    rows, codes = rows.in_one_order(codes)
    rows = replace(rows, weight=equal_rows(rows.weight))
    table = _by_group(rows, codes, len(names), n_bins)
    alike = {"homogeneity": homogeneity(table)}
    if not rehearsed:
        return alike
    K = rows.proba.shape[1]

    def plug(F: Floats, V: Floats) -> tuple[Floats, Floats]:
        p_lab = F.sum(axis=1) / F.sum()
        if ordered and K > 2:
            return approximate_ordered_mean(F + smoothing_cells(F, smoothing), V, p_lab=p_lab)
        return approximate_posterior_mean(F, V, smoothing=smoothing, p_lab=p_lab)

    rehearsal = rehearse(
        rows.proba,
        rows.y,
        codes,
        rows.bins,
        n_bins=n_bins,
        estimate=plug,
        weight=rows.weight,
        random_state=random_state,
    )
    F = count_cells(rows.y, rows.bins, shape=(K, n_bins), weight=rows.weight)
    M = response_matrix(F, smoothing=smoothing)
    bias = group_bias(rows.proba, rows.y, codes, bins=rows.bins, M=M, weight=rows.weight)
    return {
        **alike,
        "rehearsal": rehearsal,
        "bias": bias,
        "bias_groups": () if bias is None else tuple(names[int(g)] for g in bias.group),
    }


def _by_group(rows: BinnedRows, codes: Ints, n_groups: int, n_bins: int) -> NDArray[Any]:
    K = rows.proba.shape[1]
    size = np.bincount(codes, minlength=n_groups)
    largest = np.argsort(-size, kind="stable")[:_HOMOGENEITY_GROUPS]
    place = np.full(n_groups, -1, dtype=np.intp)
    place[largest] = np.arange(len(largest))
    used = place[codes] >= 0
    table = count_cells(
        place[codes[used]],
        rows.y[used] * n_bins + rows.bins[used],
        shape=(len(largest), K * n_bins),
        weight=None if rows.weight is None else rows.weight[used],
    )
    return table.reshape(-1, K, n_bins)


def log_loss(rows: BinnedRows) -> NDArray[Any] | None:
    """Log loss summed by class, in units of SCORE_UNIT; None if it is infinite."""
    if rows.weight is not None:  # sums of whole numbers are exact in any order
        rows, _ = rows.in_one_order(np.zeros_like(rows.y))
    # Rows of weight zero are excluded, however wrong their prediction.
    used = slice(None) if rows.weight is None else rows.weight > 0
    proba, y, weight = rows.proba[used], rows.y[used], None if rows.weight is None else rows.weight[used]
    with np.errstate(divide="ignore"):
        cost = -np.log(proba[np.arange(len(y)), y])
    if np.isinf(cost).any():
        return None
    units = np.floor(cost / SCORE_UNIT + 0.5)  # whole, so that labs add up exactly
    if weight is not None:
        return whole(np.bincount(y, weights=units * weight, minlength=proba.shape[1]))
    total = np.zeros(proba.shape[1], dtype=np.int64)
    np.add.at(total, y, units.astype(np.int64))
    return total
