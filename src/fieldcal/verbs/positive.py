"""The class that a single column of probabilities refers to, and checks for swapped arguments."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import group_keys
from fieldcal.objects.outcome import factorize_labels, listed, places_among
from fieldcal.storage import did_you_mean
from fieldcal.types import Keys


def classes_with_positive(
    predictions: Any, y: Any, *, positive: Hashable, classes: Sequence[Hashable] | None
) -> Sequence[Hashable] | None:
    """The two classes in order, with the positive class last; ``classes`` unchanged without ``positive``."""
    given = classes is not None
    if positive is None or (given and (isinstance(classes, str) or not isinstance(classes, Iterable))):
        return classes  # what are no classes is refused by those who read them
    refuse_columns(_width(predictions), positive)
    present, _ = factorize_labels(y)
    if len(present) != 2:
        raise InputError(
            f"{option('positive', positive)} names one of two classes, but the labels hold "
            f"{len(present):,}: {listed(present)}. Give one column per class, in the order of {option('classes')}."
        )
    at = _place(present, positive)
    ordered = (present[1 - at], present[at])
    if classes is not None and tuple(map(group_keys.normalize, classes)) != ordered:
        raise InputError(
            f"{option('positive', positive)} makes it the second class, but {option('classes')} is "
            f"{listed(tuple(classes))}. Leave one of them out."
        )
    return ordered


def refuse_columns(width: int, positive: Hashable) -> None:
    """Refuse ``positive`` with several columns, each of which has its own class."""
    if positive is not None and width > 1:
        raise InputError(
            f"{option('positive', positive)} names the class of a single column of probabilities, but there "
            f"are {width:,} columns. Leave it out; the order of the columns is that of {option('classes')}."
        )


def refuse_other_class(column: str, matched: Hashable, positive: Hashable) -> None:
    """Refuse a column that a pattern matched to another class than ``positive``."""
    if positive is not None and str(positive) != str(matched):
        raise InputError(
            f"The pattern matches {column!r:.60}, the column of {matched!r:.60}, but "
            f"{option('positive', positive)} names another class. Leave one of the two out."
        )


def refuse_name_of_other(column: str, classes: Keys) -> None:
    """Refuse a single column that is named after the first class, unless ``positive`` was given."""
    parts = set(re.split(r"[^\w]|_", column.casefold()))
    first, second = (str(c).casefold() for c in classes)
    if first in parts and second not in parts:
        raise InputError(
            f"The column {column!r:.60} is named after the class {classes[0]!r:.60}, but a single column is read as "
            f"the probability of the second class in sorted order, {classes[1]!r:.60}. Name its class: "
            f"{option('positive', classes[0])} or {option('positive', classes[1])}."
        )


def _place(present: Keys, positive: Hashable) -> int:
    try:
        key = group_keys.normalize(positive)
    except InputTypeError:
        raise InputTypeError(
            f"positive must be one of the labels, {listed(present)}, but got {positive!r:.60}."
        ) from None
    at = int(places_among((key,), present)[0])
    if at < 0:
        raise InputError(
            f"{option('positive', positive)} is none of the labels, "
            f"{listed(present)}.{did_you_mean(positive, present)} Name one of them."
        )
    return at


def _width(predictions: Any) -> int:
    try:
        shape = np.shape(predictions)
    except (ValueError, TypeError):
        return 1
    return int(shape[1]) if len(shape) == 2 else 1


def refuse_swapped(predictions: Any, y: Any) -> None:
    """Refuse labels and predictions in swapped order."""
    if isinstance(y, str):
        raise InputTypeError(
            f"y must be the labels, one per row, but got the text {y!r:.60}. If it is the name of a column, write "
            f"{option('label', y, verb='fieldcal.tables.learn')}."
        )
    if _between(y) and _may_be_labels(predictions):
        raise InputError(
            "learn takes the predictions first and then the labels, but the second look like probabilities and the "
            "first like labels. Write fieldcal.learn(predictions, y)."
        )


def _between(values: Any) -> bool:
    """Whether most values are strictly between 0 and 1, and none outside."""
    numbers = _array(values)
    if numbers is None or numbers.dtype.kind != "f" or numbers.ndim > 2:
        return False
    inside = (numbers > 0) & (numbers < 1)
    return bool(inside.mean() > 0.5 and ((numbers >= 0) & (numbers <= 1)).all())


def _may_be_labels(values: Any) -> bool:
    given = _array(values)
    if given is None or given.ndim != 1:
        return False
    if given.dtype.kind in "UTSOb":
        return given.dtype.kind != "O" or all(
            isinstance(v, (str, bool, int, np.integer)) for v in given[:100]
        )
    return given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given == np.rint(given)).all()))


def _array(values: Any) -> Any:
    if not isinstance(values, (np.ndarray, list, tuple)) and not hasattr(values, "__array__"):
        return None
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        return None
    return array if array.size else None
