"""Checks of arguments and flags in messages, from the table of options."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fieldcal.errors import InputError, InputTypeError, named, option
from fieldcal.option_rows import MOST as MOST
from fieldcal.option_rows import OPTIONS as OPTIONS
from fieldcal.option_rows import PREDICTED as PREDICTED
from fieldcal.option_rows import Predicted as Predicted
from fieldcal.option_rows import is_flag as is_flag
from fieldcal.option_rows import is_level, whole
from fieldcal.option_rows import is_number as is_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def is_auto(value: object) -> bool:
    """Whether the choice is left to us."""
    return isinstance(value, str) and value == "auto"


def check_whole(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number from ``least`` on."""
    if not whole(least)(value):
        raise refused(name, value, f"be a whole number, {least} or more")
    if most is not None and value > most:
        raise refused(name, value, f"be at most {most:,}")


def flag_of(name: str) -> str | None:
    """The flag of an option, without the dashes; None where the command line has none.

    Examples
    --------
    >>> from fieldcal.options import flag_of
    >>> flag_of("missing"), flag_of("partition"), flag_of("design_effect"), flag_of("family")
    ('missing', 'bins', 'design-effect', None)
    """
    row = OPTIONS.get(name)
    return None if row is None or row.flag is None else row.flag or name.replace("_", "-")


def check_options(**given: Any) -> None:
    """Refuse values that no option could have, each by its name."""
    for name, value in given.items():
        row = OPTIONS[name]
        if row.choices and (not isinstance(value, str) or value not in row.choices):
            raise refused(name, value, f"be {_either(row.choices)}")
        if row.valid is not None and not row.valid(value):
            kind = InputTypeError if row.valid is is_flag else InputError
            raise kind(f"{named(name)} must {row.must}, but got {value!r:.60}.")


def check_goes_with(predicted: Predicted, **given: Any) -> None:
    """Refuse options that do not go with such predictions, where somebody gave them."""
    words, _ = PREDICTED[predicted]
    for name, value in given.items():
        row = OPTIONS[name]
        if predicted in row.goes_with or value is row.unset:
            continue
        if (not is_flag(value) and not isinstance(value, str)) or value != row.unset:
            way_out = row.instead if isinstance(row.instead, str) else row.instead[predicted]
            raise InputError(
                f"{option(name, value)} does not go with {words}, which this is about. {way_out}"
            )


def check_level(level: Any) -> None:
    """Refuse what is no probability of an interval."""
    if not is_level(level):
        raise refused("level", level, OPTIONS["level"].must)


def refused(name: str, value: object, must: str) -> InputError:
    """What an option must, and what it is."""
    return InputError(f"{named(name)} must {must}, but got {value!r:.60}.")


def _either(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:-1])) + f" or {words[-1]!r}"


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is none of several words."""
    if not isinstance(value, str) or value not in choices:
        raise refused(name, value, f"be {_either(choices)}")


def as_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    most: float = math.inf,
    words: str = "a finite number",
) -> float:
    """A finite number, from ``least`` to ``most`` where there are such; true and false are none."""
    if is_number(value):
        with contextlib.suppress(OverflowError):  # a whole number beyond every float
            number = float(value)
            if math.isfinite(number) and (least is None or least <= number) and number <= most:
                return number
    bounds = ("" if least is None else f", at least {least:g}") + (
        "" if most == math.inf else f", at most {most:g}"
    )
    raise refused(name, value, f"be {words}{bounds}")


def as_array(name: str, values: Any) -> NDArray[np.float64]:
    import numpy as np

    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(
            f"{named(name)} must be numbers in rows of equal length, but got {values!r:.60}."
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
    without_length = getattr(listed, "ndim", 1) == 0
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
