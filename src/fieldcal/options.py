"""Checks of options, for every function alike: what cannot be is refused by the option's name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.errors import InputError, InputTypeError, option

#: More than a table in memory has rows, groups or bins; asked for, it is a slip of the keyboard.
MOST = 10**8


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is none of several words."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise InputError(f"{name} must be {words}, but got {value!r:.60}.")


def is_auto(option: object) -> bool:
    """Whether the choice is left to us."""
    return isinstance(option, str) and option == "auto"


def check_flags(**flags: Any) -> None:
    """Refuse what is neither true nor false; each by the name of its option."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise InputTypeError(f"{name} must be True or False, but got {value!r:.60}.")


def check_whole(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number from ``least`` on."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number, {least} or more, but got {value!r:.60}.")
    if most is not None and value > most:
        raise InputError(f"{name} must be at most {most:,}, but got {value!r:.60}.")


def check_level(level: Any) -> None:
    """Refuse what is no probability of an interval."""
    number = isinstance(level, (int, float, np.number)) and not isinstance(level, bool)
    if not number or not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, for instance 0.9, but got {level!r:.60}.")


def as_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    most: float = math.inf,
    words: str = "a finite number",
) -> float:
    """A finite number, from ``least`` to ``most`` where there are such; true and false are none."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # a whole number beyond every float
            number = float(value)
            if math.isfinite(number) and (least is None or least <= number) and number <= most:
                return number
    bounds = ("" if least is None else f", at least {least:g}") + (
        "" if most == math.inf else f", at most {most:g}"
    )
    raise InputError(f"{name} must be {words}{bounds}, but got {value!r:.60}.")


def as_array(name: str, values: Any) -> NDArray[np.float64]:
    """Numbers as float64."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(
            f"{name} must be numbers in rows of equal length, but got {values!r:.60}."
        ) from None


#: Predictions that are values, such as the verdicts of a judge; on the command line, by the option that names them.
AS_VALUES = option("kind", "values", flag="predictions COLUMN")
#: Where each artefact comes from.
MADE_BY = {
    "Lab": "fieldcal.learn(predictions, y)",
    "Field": "fieldcal.count(lab, predictions)",
    "Prevalence": "fieldcal.estimate(lab, field)",
    "Pairs": "fieldcal.pairs(lab, predictions, groups, items)",
}


def check_kind(name: str, value: Any, kind: type[Any]) -> None:
    """Refuse an object of another class."""
    if not isinstance(value, kind):
        what = kind.__name__
        comes = f" It comes from {MADE_BY[what]}." if what in MADE_BY else ""
        raise InputTypeError(f"{name} must be a {what}, but got {type(value).__name__}.{comes}")


def column_names(name: str, given: Any) -> tuple[str, ...]:
    """One name or several; none where nothing is given."""
    listed = () if given is None else (given,) if isinstance(given, str) else given
    without_length = isinstance(listed, np.ndarray) and listed.ndim == 0
    if isinstance(listed, Iterable) and not isinstance(listed, (bytes, Mapping)) and not without_length:
        found = tuple(listed)
        if all(isinstance(each, str) for each in found):
            return found
    raise no_name(name, given)


def no_name(name: str, given: object) -> InputTypeError:
    """Names are text: files and most engines know no others."""
    return InputTypeError(
        f"{option(name, given)} does not name a column by text. Rename columns that are named by numbers or tuples "
        "first: frame.columns = [str(c) for c in frame.columns]."
    )
