"""Exact sums of predictions per group, in whole units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.response import whole
from fieldcal.objects import SCORE_UNIT
from fieldcal.types import Floats, Ints
from fieldcal.validation import CheckedScores

#: bincount adds in float64, which is exact up to 2**53: this many rows of at most 2**30 units each.
_EXACT_ROWS = 2**22


def score_sums(
    codes: Ints,
    n_rows: int,
    scores: CheckedScores,
    weight: Floats | None,
    *,
    shares: NDArray[Any] | None = None,
    bins: Ints | None = None,
) -> NDArray[Any]:
    """Sums of predictions per group in whole units, the same integers for any order of rows.

    Without predictions (bin ids or categories), ``shares`` of each row's bin are summed.

    Parameters
    ----------
    shares : (m, K) class probabilities of each bin, in place of predictions
    """
    if shares is not None:
        columns = [shares[scores.values if bins is None else bins, k] for k in range(shares.shape[1])]
    elif scores.values.ndim == 1:
        columns = [scores.values]
    elif scores.values.shape[1] == 2:  # the same sums as from the second class alone
        columns = [scores.values[:, 1]]
    else:
        columns = list(scores.values.T)
    sums = [_unit_sum(codes, n_rows, column, weight) for column in columns]
    if len(sums) == 1:
        rows = np.bincount(codes, weights=weight, minlength=n_rows)
        sums = [rows * int(1 / SCORE_UNIT) - sums[0], sums[0]]
    return whole(np.column_stack(sums))


def _unit_sum(codes: Ints, n_rows: int, column: Floats, weight: Floats | None) -> NDArray[Any]:
    """Sums per group in whole units; integers unless weighted."""
    # Half up, not half to even: every SQL engine can write it with floor.
    units = np.floor(column / SCORE_UNIT + 0.5)
    if weight is not None:
        return np.bincount(codes, weights=units * weight, minlength=n_rows)
    total = np.zeros(n_rows, dtype=np.int64)
    for start in range(0, len(units), _EXACT_ROWS):
        part = slice(start, start + _EXACT_ROWS)
        total += np.bincount(codes[part], weights=units[part], minlength=n_rows).astype(np.int64)
    return total
