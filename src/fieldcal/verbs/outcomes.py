"""From what a caller has, probabilities with classes or distributions with numbers, to what the verbs work on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.core.partition import Expected, PartitionLike
from fieldcal.errors import InputError
from fieldcal.objects import Classes, Lab, Outcome
from fieldcal.objects.outcome import are_distributions, as_numbers
from fieldcal.types import Floats, Ints, Missing
from fieldcal.validation import as_labels, check_order

if TYPE_CHECKING:
    from fieldcal.regression import Predictions


@dataclass(frozen=True)
class Labelled:
    """Lab rows, and what they are of."""

    outcome: Outcome
    masses: Any  # probabilities as they were given (or bin ids in their place), or the masses of intervals
    y: Ints
    partition: PartitionLike


def understood(outcome: Outcome, predictions: Any) -> Any:
    """Predictions as the outcome takes them: probabilities as they are, distributions in a form that we know."""
    return predictions if outcome.kind == "classes" else _distributions(predictions)


def masses_of(lab: Lab, predictions: Any, *, normalize: bool, missing: Missing) -> Any:
    """The masses of predictions of the kind that the lab was learnt from; the options must go with that kind."""
    lab.outcome.refuse(normalize=normalize, missing=missing)
    return lab.outcome.masses(understood(lab.outcome, predictions))


def _distributions(predictions: Any) -> Predictions:
    from fieldcal.regression import as_predictions  # loads scipy.stats, which classes do not need

    return as_predictions(predictions)


def are_of_a_number(predictions: Any, *, intervals: Any, atoms: Any) -> bool:
    """Whether distributions were given, or what only goes with them."""
    told = not (isinstance(intervals, str) and isinstance(atoms, str) and intervals == atoms == "auto")
    return told or are_distributions(predictions)


def with_classes(
    predictions: Any, y: Any, *, classes: Sequence[Hashable] | None, ordered: bool, partition: PartitionLike
) -> Labelled:
    """Probabilities and the true classes."""
    names, codes = as_labels(y, classes=classes)
    if ordered and classes is None:
        check_order(names)
    return Labelled(Classes(labels=names, ordered=ordered), predictions, codes, partition)


def with_numbers(
    predictions: Any, y: Any, *, intervals: Any, atoms: Any, weight: Floats | None, partition: PartitionLike
) -> Labelled:
    """Distributions and the true numbers: a classification over intervals, binned by the expected number."""
    from fieldcal.regression.intervals import find_intervals

    known, numbers = _distributions(predictions), as_numbers(y)
    if len(known) != len(numbers):
        raise InputError(f"There are {len(known)} predictions but {len(numbers)} numbers. Give one each.")
    outcome = find_intervals(known.mean(), numbers, intervals, atoms, weight)
    codes = outcome.codes(numbers)
    return Labelled(outcome, outcome.masses(known), codes, _by_mean(partition, numbers, codes, outcome.size))


def _by_mean(partition: PartitionLike, y: Floats, codes: Ints, size: int) -> PartitionLike:
    """Bins of the expected number, unless something else than their number is asked for."""
    if isinstance(partition, str) and partition == "auto":
        partition = int(np.clip(len(y) // 50, 4, max(8, 3 * size // 2))) if size > 2 else partition
    if size == 2 or isinstance(partition, bool) or not isinstance(partition, (int, np.integer)):
        return partition
    means = np.bincount(codes, weights=y) / np.bincount(codes)
    return Expected(int(partition), tuple(means.tolist()))
