"""Predictions as the verbs need them: checked against a lab, and summed exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal import keys
from fieldcal.core import partition as parts
from fieldcal.core.response import whole
from fieldcal.inputs import Floats, Ints, Missing, Scores, as_scores
from fieldcal.objects import SCORE_UNIT, Lab

#: bincount adds in float64, which is exact up to 2**53: this many rows of at most 2**30 units each.
_EXACT_ROWS = 2**22


def lab_scores(proba: Any, classes: keys.Keys, normalize: bool) -> Scores:
    """Lab predictions, checked; none may be missing."""
    return as_scores(
        proba, classes=classes, n_classes=len(classes), normalize=normalize, name="lab predictions"
    )


def field_scores(lab: Lab, proba: Any, *, normalize: bool, missing: Missing) -> Scores:
    """Field predictions, checked against the classes of the lab."""
    return as_scores(
        proba,
        classes=lab.classes,
        n_classes=len(lab.classes),
        normalize=normalize,
        missing=missing,
        name="field predictions",
    )


def bin_ids(ids: Any, partition: parts.FittedPartition) -> Scores:
    """Bin ids in place of predictions."""
    checked = partition.assign(np.asarray(ids))
    return Scores(checked, None, 0, columns=False)  # type: ignore[arg-type]


def score_sums(
    codes: Ints,
    n_rows: int,
    scores: Scores,
    weight: Floats | None,
    *,
    shares: NDArray[Any] | None = None,
    bins: Ints | None = None,
) -> NDArray[Any]:
    """Sums of predictions per group in whole units, so that any order of rows gives the same integers.

    With given bin ids there are no predictions; the lab's share of each class in the bin stands in for them.
    """
    if shares is not None:
        by_bin = shares.T / np.maximum(shares.sum(axis=0), 1e-300)[:, None]
        columns = [by_bin[scores.values if bins is None else bins, k] for k in range(shares.shape[0])]
    elif scores.values.ndim == 1:
        columns = [scores.values]
    elif scores.values.shape[1] == 2:  # the same sums, to the last unit, as from the second class alone
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
    # Half up, not half to even: the one rounding rule that every SQL engine can spell with floor.
    units = np.floor(column / SCORE_UNIT + 0.5)
    if weight is not None:
        return np.bincount(codes, weights=units * weight, minlength=n_rows)
    total = np.zeros(n_rows, dtype=np.int64)
    for start in range(0, len(units), _EXACT_ROWS):
        part = slice(start, start + _EXACT_ROWS)
        total += np.bincount(codes[part], weights=units[part], minlength=n_rows).astype(np.int64)
    return total
