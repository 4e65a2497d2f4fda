"""Lab rows in the form that `learn` bins, from probabilities, distributions or categories."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.core.methods import Method
from fieldcal.core.partition import Expected, PartitionLike
from fieldcal.core.response import (
    equal_rows,
    row_per_weight,
    square_sums,
)
from fieldcal.core.values import Values
from fieldcal.errors import InputError
from fieldcal.objects import Classes, Outcome, group_keys
from fieldcal.objects.outcome import are_distributions, as_numbers
from fieldcal.options import AS_VALUES, is_auto
from fieldcal.types import Design, Floats, Ints
from fieldcal.validation import (
    as_labels,
    check_order,
    order_of_rows,
)
from fieldcal.verbs.categories import LabValues, design_of_values
from fieldcal.verbs.count import as_distributions


@dataclass(frozen=True)
class LabRows:
    """Lab rows in the form that `learn` bins: masses per class or interval."""

    outcome: Outcome
    masses: Any  # probabilities as given (or bin ids instead), or the masses of intervals
    y: Ints
    partition: PartitionLike
    limited: bool  # whether the number of bins is limited by the number of lab rows
    design: Design | None = None  # for kind="values"
    rows: Ints | None = None  # for kind="values": the given rows that have a label
    given: int = 0  # for kind="values": number of given rows

    def of_labelled(self, groups: Any, weight: Floats | None) -> tuple[Any, Floats | None]:
        """The groups and weights of the rows that have a label."""
        if groups is not None:
            names, codes = group_keys.factorize(groups, n=self.given)
            groups = [names[g] for g in codes[self.rows]]
        return groups, None if weight is None else weight[self.rows]


def are_of_a_number(predictions: Any, *, intervals: Any, atoms: Any) -> bool:
    """Whether predictions are distributions, or an option for distributions was given."""
    given = not (isinstance(intervals, str) and isinstance(atoms, str) and intervals == atoms == "auto")
    return given or are_distributions(predictions)


def with_classes(
    predictions: Any,
    y: Any,
    method: Method,
    *,
    classes: Sequence[Hashable] | None,
    ordered: bool,
    partition: PartitionLike,
) -> LabRows:
    """Lab rows from probabilities and true classes."""
    names, codes = as_labels(y, classes=classes)
    if ordered and classes is None:
        check_order(names)
    method.check(len(names))
    if isinstance(partition, Values):
        raise InputError(f"Values(…) is a partition of values. Pass {AS_VALUES} with it.")
    partition = method.partition(len(names)) if is_auto(partition) else partition
    outcome = Classes(labels=names, ordered=ordered)
    return LabRows(outcome, predictions, codes, method.cut(partition), method.limits_bins)


def with_values(
    predictions: Any,
    y: Any,
    method: Method,
    *,
    design: Any,
    classes: Sequence[Hashable] | None,
    ordered: bool,
    weight: Floats | None,
    partition: PartitionLike,
) -> LabRows:
    """Lab rows from categories of judges and the true classes of some rows."""
    chosen = design_of_values(design)
    values = LabValues.of(predictions, y)
    names, codes = as_labels(values.y, classes=classes)
    if ordered and classes is None:
        check_order(names)
    outcome = Classes(labels=names, ordered=ordered)
    used = None if weight is None else weight[values.rows]
    rows = np.bincount(codes, weights=used, minlength=len(names)).astype(np.float64)
    effective = rows * row_per_weight(rows, square_sums(codes, size=len(names), weight=used))
    fitted = values.fitted(partition, effective, ordered=ordered)
    return LabRows(
        outcome,
        values.placed(fitted),
        codes,
        fitted,
        method.limits_bins,
        design=chosen,
        rows=values.rows,
        given=len(values.columns[0]),
    )


def with_numbers(
    predictions: Any,
    y: Any,
    method: Method,
    *,
    intervals: Any,
    atoms: Any,
    weight: Floats | None,
    partition: PartitionLike,
) -> LabRows:
    """Lab rows from distributions and true numbers: a classification over intervals, binned by the expected number."""
    from fieldcal.regression.intervals import find_intervals

    known, numbers = as_distributions(predictions), as_numbers(y)
    if len(known) != len(numbers):
        raise InputError(f"There are {len(known)} predictions but {len(numbers)} numbers. Give one each.")
    expected = known.mean()
    order = order_of_rows(expected, numbers, weight=weight)
    rows = equal_rows(None if weight is None else weight[order])
    outcome = find_intervals(expected[order], numbers[order], intervals, atoms, rows)
    codes, size = outcome.codes(numbers), outcome.size
    method.check(size)
    partition = method.partition(size) if is_auto(partition) else partition
    cut = method.cut(_by_mean(partition, numbers, codes, size))
    return LabRows(outcome, outcome.masses(known), codes, cut, method.limits_bins)


def _by_mean(partition: PartitionLike, y: Floats, codes: Ints, size: int) -> PartitionLike:
    """Bins of the expected number, unless a partition object was given."""
    if is_auto(partition):
        partition = int(np.clip(len(y) // 50, 4, max(8, 3 * size // 2))) if size > 2 else partition
    if size == 2 or isinstance(partition, bool) or not isinstance(partition, (int, np.integer)):
        return partition
    order = np.argsort(y)  # a sum of numbers depends on their order
    means = np.bincount(codes[order], weights=y[order]) / np.bincount(codes)
    return Expected(int(partition), tuple(means.tolist()))
