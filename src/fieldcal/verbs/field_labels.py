"""Labels of field rows: known for some of them, missing for most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fieldcal.errors import FieldcalError, InputError, InputTypeError, Option
from fieldcal.objects import Classes, Intervals, Outcome, group_keys
from fieldcal.objects.outcome import listed, n_labels, places_among, refuse_several_columns
from fieldcal.options import check_choice, check_flags
from fieldcal.storage import did_you_mean
from fieldcal.types import DESIGNS, Design, Ints
from fieldcal.validation import as_floats

#: The class of a row without a label.
UNKNOWN = -1


def check_label_options(option: str, given: object, *, design: Design, only_labels: bool) -> None:
    """Refuse what says something about labels where the option that brings them is not given."""
    check_choice("design", design, DESIGNS)
    check_flags(only_labels=only_labels)
    if given is not None:
        return
    for name, value, unset in (("design", design, "random"), ("only_labels", only_labels, False)):
        if value != unset:
            raise InputError(
                Option(name, value),
                " is about labels, but none are given. Give them with ",
                Option(option),
                ", or leave it out.",
            )


def field_labels(outcome: Outcome, y: Any, *, n: int) -> Ints:
    """The class of each of n rows, as its place; `UNKNOWN` where the label is missing.

    Examples
    --------
    >>> from fieldcal.objects import Classes
    >>> from fieldcal.verbs.field_labels import field_labels
    >>> field_labels(Classes(labels=("no", "yes")), ["yes", None, "no"], n=3).tolist()
    [1, -1, 0]
    """
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
        raise InputTypeError(
            f"y must be one label per row, missing where it is not known, but got {y!r:.60}."
        )
    if n_labels(y) != n:
        raise InputError(
            f"There are {n} predictions but {n_labels(y)} labels y. Give one per row, missing where it is not known."
        )
    refuse_several_columns(y)
    return _of_numbers(outcome, y) if isinstance(outcome, Intervals) else _of_classes(outcome, y)


def _of_classes(outcome: Classes, y: Any) -> Ints:
    rows, values = group_keys.known(y)
    codes = np.full(n_labels(y), UNKNOWN, dtype=np.intp)
    try:
        present, place = group_keys.factorize(values, n=len(rows))
    except FieldcalError:
        first = next(i for i, value in enumerate(values) if not group_keys.is_key(value))
        raise _stray(values[first], int(rows[first]), outcome) from None
    codes[rows] = places_among(present, outcome.labels)[place]
    strays = rows[codes[rows] == UNKNOWN]
    if len(strays):
        label = present[place[np.searchsorted(rows, strays[0])]]
        raise _stray(label, int(strays[0]), outcome)
    return codes


def _stray(label: Any, row: int, outcome: Classes) -> InputError:
    return InputError(
        f"The label {label!r:.60} in row {row} is not among the classes {listed(outcome.labels)}."
        f"{did_you_mean(label, outcome.labels)} Correct it; where the class is not known, let it be missing."
    )


def _of_numbers(outcome: Intervals, y: Any) -> Ints:
    numbers = as_floats(y, "labels y").reshape(-1)
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(infinite.argmax())
        raise InputError(
            f"The label {numbers[row]} in row {row} is no number. Correct it; where the number is not known, let it be "
            "missing."
        )
    codes = np.full(len(numbers), UNKNOWN, dtype=np.intp)
    known = ~np.isnan(numbers)
    codes[known] = outcome.codes(numbers[known])
    return codes
