"""One small tree of errors and warnings.

Every error says what is wrong, which value shows it, and what to do next. Where it speaks of an option, the option is
an `Option` among the parts of its text, so that a front end can spell it its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = [
    "ArtefactError",
    "BinsWarning",
    "CalibrationWarning",
    "ConvergenceWarning",
    "FieldcalError",
    "FieldcalWarning",
    "GroupWarning",
    "IdentifiabilityWarning",
    "InputError",
    "InputTypeError",
    "LabelWarning",
    "MissingExtraError",
    "Option",
    "PoolingWarning",
    "RecalibratedWarning",
    "RowError",
    "SmallSampleWarning",
    "TrustWarning",
    "UnseenGroupWarning",
    "ValueWarning",
    "WeightWarning",
    "Word",
]

#: An option's value is shown up to here.
LONGEST_VALUE = 80


class Word(str):
    """A stand-in for a value, spelled without quotes: ``…`` or ``<column>``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


#: Stands for any value.
ANY = Word("…")


@dataclass(frozen=True)
class Option:
    """An option that a message speaks of. As text it is spelled as Python's keyword argument.

    Parameters
    ----------
    name : of the keyword argument
    value : by default any, ``…``
    verb : whose option it is, where another one is spoken of than the one that was called

    Examples
    --------
    >>> from fieldcal.errors import Option
    >>> print(Option("missing", "drop"), Option("acknowledge", True), Option("groups", verb="learn"))
    missing='drop' acknowledge=True learn(…, groups=…)
    """

    name: str
    value: object = ANY
    verb: str | None = None

    def __str__(self) -> str:
        argument = f"{self.name}={repr(self.value)[:LONGEST_VALUE]}"
        return argument if self.verb is None else f"{self.verb}(…, {argument})"


class _Message:
    """A text in parts, some of which are options.

    Parts, and not a template with holes: what an error quotes may hold braces.
    """

    args: tuple[object, ...]

    def __init__(self, *parts: str | Option) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.spelled(str)

    def spelled(self, option: Callable[[Option], str]) -> str:
        """The text, with its options as the function spells them."""
        return "".join(option(part) if isinstance(part, Option) else str(part) for part in self.args)


class FieldcalError(_Message, Exception):
    """Base of everything fieldcal raises on purpose.

    Parameters
    ----------
    *parts : the text, in pieces where it speaks of options

    Examples
    --------
    >>> from fieldcal.errors import InputError, Option
    >>> error = InputError("3 rows have no score. Pass ", Option("missing", "drop"), ".")
    >>> print(error)
    3 rows have no score. Pass missing='drop'.
    >>> error.spelled(lambda option: f"--{option.name} {option.value}")
    '3 rows have no score. Pass --missing drop.'
    """


class InputError(FieldcalError, ValueError):
    """A value that cannot be right."""


class RowError(InputError):
    """A row of a table that cannot be used.

    Parameters
    ----------
    row : which one, from 0; None where rows have no order
    """

    def __init__(self, *parts: str | Option, row: int | None = None) -> None:
        super().__init__(*parts)
        self.row = row


class InputTypeError(FieldcalError, TypeError):
    """A value of a kind that cannot be used."""


class ArtefactError(InputError):
    """A saved lab, field or prevalence that is damaged, foreign or from a newer fieldcal."""


class MissingExtraError(FieldcalError, ImportError):
    """A library that this part of fieldcal needs is not installed."""


class FieldcalWarning(_Message, UserWarning):
    """Base of everything fieldcal warns about: there is an answer, and it is shaky."""


class GroupWarning(FieldcalWarning):
    """A grouping that cannot be what was meant."""


class IdentifiabilityWarning(FieldcalWarning):
    """The bins hardly tell some classes apart."""


class SmallSampleWarning(FieldcalWarning):
    """A class has so few lab rows that its row of M is mostly noise."""


class BinsWarning(FieldcalWarning):
    """More bins were asked for than the lab has rows to fill."""


class CalibrationWarning(FieldcalWarning):
    """The classifier is not calibrated on the lab data, or the lab data look wrong."""


class LabelWarning(FieldcalWarning):
    """Labels that are probably one class, spelled in two ways."""


class RecalibratedWarning(FieldcalWarning):
    """Predictions that seem to have been recalibrated before."""


class WeightWarning(FieldcalWarning):
    """A few sample weights carry almost everything."""


class ConvergenceWarning(FieldcalWarning):
    """A solver stopped at its iteration limit."""


class UnseenGroupWarning(FieldcalWarning):
    """Rows of groups that the estimate never saw."""


class ValueWarning(FieldcalWarning):
    """Values of a judge that the lab has never seen."""


class PoolingWarning(FieldcalWarning):
    """The strength of the pooling sits at the edge of its range."""


class TrustWarning(FieldcalWarning):
    """The consistency assumption was not, or could not be, put to the test."""


class VerdictWarning(FieldcalWarning):
    """An estimate is applied although its verdict is not to use it."""


def reason(error: OSError | ValueError) -> str:
    """Why a path cannot be used, in the system's words; a path that no system has is a ValueError."""
    return str(getattr(error, "strerror", None) or error)
