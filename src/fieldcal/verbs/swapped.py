"""Labels where predictions should be."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.errors import InputError, InputTypeError, Option


def refuse_swapped(predictions: Any, y: Any) -> None:
    """Refuse probabilities in the place of labels, with what can be labels in that of predictions.

    Examples
    --------
    >>> from fieldcal.verbs.swapped import refuse_swapped
    >>> refuse_swapped(["no", "yes"], [0.1, 0.8])
    Traceback (most recent call last):
    fieldcal.errors.InputError: learn takes the predictions first and then the labels, but ...
    """
    if isinstance(y, str):
        raise InputTypeError(
            f"y must be the labels, one per row, but got the text {y!r:.60}. If it is the name of a column, write ",
            Option("label", y, verb="fieldcal.tables.learn"),
            ".",
        )
    if _between(y) and _may_be_labels(predictions):
        raise InputError(
            "learn takes the predictions first and then the labels, but the second look like probabilities and the "
            "first like labels. Write fieldcal.learn(predictions, y)."
        )


def _between(values: Any) -> bool:
    """Whether these are numbers from 0 to 1, most of them neither."""
    numbers = _array(values)
    if numbers is None or numbers.dtype.kind != "f" or numbers.ndim > 2:
        return False
    inside = (numbers > 0) & (numbers < 1)
    return bool(inside.mean() > 0.5 and ((numbers >= 0) & (numbers <= 1)).all())


def _may_be_labels(values: Any) -> bool:
    """Whether these are one column of text, of truth values or of whole numbers."""
    given = _array(values)
    if given is None or given.ndim != 1:
        return False
    if given.dtype.kind in "UTSOb":
        return given.dtype.kind != "O" or all(
            isinstance(v, (str, bool, int, np.integer)) for v in given[:100]
        )
    return given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given == np.rint(given)).all()))


def _array(values: Any) -> Any:
    """Values as an array; None where they are none, or there are none."""
    if not isinstance(values, (np.ndarray, list, tuple)) and not hasattr(values, "__array__"):
        return None
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):
        return None
    return found if found.size else None
