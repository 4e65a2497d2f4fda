"""Labels of field rows, most of which are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fieldcal.errors import FieldcalError, InputError, InputTypeError, RowError, option
from fieldcal.objects import Classes, Intervals, Outcome, group_keys
from fieldcal.objects.outcome import listed, n_labels, places_among, refuse_several_columns
from fieldcal.options import check_choice, check_options
from fieldcal.storage import did_you_mean
from fieldcal.types import DESIGNS, Design, Ints
from fieldcal.validation import as_floats

#: The class of a row without a label, and of a row whose label is not a class.
UNKNOWN, STRAY = -1, -2


def check_label_options(labels: str, given: object, *, design: Design | None, only_labels: bool) -> None:
    """Refuse options about labels if no labels are given."""
    if design is not None:
        check_choice("design", design, DESIGNS)
    check_options(only_labels=only_labels)
    if given is not None:
        return
    for name, value, unset in (("design", design, (None, "random")), ("only_labels", only_labels, (False,))):
        if value not in unset:
            raise InputError(
                f"{option(name, value)} describes labels, but none are given. Give them with {option(labels)}, or "
                "leave it out."
            )


def field_labels(outcome: Outcome, y: Any, *, n: int) -> Ints:
    """The position of each row's class, (n,); `UNKNOWN` without a label."""
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__"):
        raise InputTypeError(
            f"y must be one label per row, missing where it is not known, but got {y!r:.60}."
        )
    if n_labels(y) != n:
        raise InputError(
            f"There are {n} predictions but {n_labels(y)} labels y. Give one per row, missing where it is not known."
        )
    refuse_several_columns(y)
    if isinstance(outcome, Intervals):
        return _of_numbers(outcome, y)
    codes = label_places(outcome, y)
    strays = np.flatnonzero(codes == STRAY)
    if len(strays):
        first = int(strays[0])
        raise stray_label(outcome, y, first, where=f"row {first}", row=first)
    return codes


def label_places(outcome: Classes, y: Any) -> Ints:
    """The position of each label's class; `UNKNOWN` if missing, `STRAY` if it is not a class."""
    rows, values = group_keys.known(y)
    codes = np.full(n_labels(y), UNKNOWN, dtype=np.intp)
    try:
        present, place = group_keys.factorize(values, n=len(rows))
    except FieldcalError:
        odd = np.array([not group_keys.is_key(value) for value in values])
        if not odd.any():
            raise
        codes[rows[odd]] = STRAY
        return codes
    among = places_among(present, outcome.labels)
    codes[rows] = np.where(among < 0, STRAY, among)[place]
    return codes


def stray_label(outcome: Classes, y: Any, at: int, *, where: str, row: int | None) -> RowError:
    """The error for a label that is not a class.

    Parameters
    ----------
    where : the rows that have it, in words
    row : the first of them, if rows have an order
    """
    rows, values = group_keys.known(y)
    label = values[int(np.searchsorted(rows, at))]
    label = label.item() if isinstance(label, np.generic) else label
    label = group_keys.normalize(label) if group_keys.is_key(label) else label
    return RowError(
        f"The label {label!r:.60} in {where} is not among the classes {listed(outcome.labels)}."
        f"{did_you_mean(label, outcome.labels)} Correct it; if the class is unknown, leave it missing.",
        row=row,
    )


def no_labels() -> InputError:
    """The error if only labels are requested and there are none."""
    return InputError(
        f"There are no labels: no row with a prediction has a known class. With {option('only_labels', True)} "
        "nothing else is counted. Fill the labels in, or check the filter before this."
    )


def _of_numbers(outcome: Intervals, y: Any) -> Ints:
    numbers = as_floats(y, "labels y").reshape(-1)
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(infinite.argmax())
        raise InputError(
            f"The label {numbers[row]} in row {row} is not a number. Correct it; if the number is unknown, leave it "
            "missing."
        )
    codes = np.full(len(numbers), UNKNOWN, dtype=np.intp)
    known = ~np.isnan(numbers)
    codes[known] = outcome.codes(numbers[known])
    return codes
