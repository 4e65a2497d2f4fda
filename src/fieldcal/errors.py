"""One small tree of errors and warnings.

Every error says what is wrong, which value shows it, and what to do next. Options in its text are marked (`option`), so
that the command line can spell them as flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
    "PoolingWarning",
    "RecalibratedWarning",
    "RowError",
    "SmallSampleWarning",
    "TrustWarning",
    "UnseenGroupWarning",
    "ValueWarning",
    "WeightWarning",
    "Word",
    "named",
    "option",
    "spelled",
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


#: Around an option in a text, and between its parts: characters for private use, which no message has otherwise.
_OPEN, _NEXT, _CLOSE = "\ue000", "\ue001", "\ue002"


def option(name: str, value: object = ANY, *, verb: str | None = None, flag: str | None = None) -> str:
    """An option inside a message, as marked text: Python's keyword argument, or the flag of a command line.

    Parameters
    ----------
    name : of the keyword argument
    value : by default any, ``…``
    verb : the function that has the option, if it is not the one that was called
    flag : on the command line, with its value, if that is another option

    Examples
    --------
    >>> from fieldcal.errors import option, spelled
    >>> text = f"Pass {option('missing', 'drop')} or {option('groups', verb='learn')}."
    >>> spelled(text)
    "Pass missing='drop' or learn(…, groups=…)."
    >>> spelled(text, {"groups": "by", "missing": "missing"}.get)
    'Pass --missing drop or fieldcal learn --by.'
    """
    before = "no " if value is None else ""
    typed = "" if value is None or value is True or value is ANY else f" {_typed(value)[:LONGEST_VALUE]}"
    parts = (name, verb or "", repr(value)[:LONGEST_VALUE], before, typed, flag or "")
    return f"{_OPEN}{_NEXT.join(part.replace(_CLOSE, '').replace(_NEXT, '') for part in parts)}{_CLOSE}"


def named(name: str) -> str:
    """An option inside a message by its name alone: ``trust``, or ``--trust``."""
    return f"{_OPEN}{_NEXT.join((name, '', '', '', '', ''))}{_CLOSE}"


def _typed(value: object) -> str:
    """A value as people type it in a shell."""
    if isinstance(value, Mapping):
        value = [f"{key}={item}" for key, item in value.items()]
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def spelled(text: str, flag: Callable[[str], str | None] | None = None) -> str:
    """A message with its options spelled out.

    Parameters
    ----------
    flag : the flag of an option by its name, without the dashes, or None for an option without one; by default all are
        spelled as in Python
    """
    first, *rest = text.split(_OPEN)
    return first + "".join(_spelled(*part.partition(_CLOSE)[::2], flag) for part in rest)


def _spelled(marked: str, following: str, flag: Callable[[str], str | None] | None) -> str:
    if marked.count(_NEXT) != 5:  # somebody else's characters
        return marked + following
    name, verb, value, before, typed, other = marked.split(_NEXT)
    known = None if flag is None else other or flag(name)
    if known is None:
        python = f"{name}={value}" if value else name
        return (f"{verb}(…, {python})" if verb else python) + following
    return f"{before}{f'fieldcal {verb} ' if verb else ''}--{known}{'' if other else typed}{following}"


class _Message:
    """A text with marked options; as text they are spelled as Python's keyword arguments."""

    args: tuple[object, ...]

    def __str__(self) -> str:
        return self.spelled()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def spelled(self, flag: Callable[[str], str | None] | None = None) -> str:
        """The text with its options as flags; see `fieldcal.errors.spelled`."""
        return spelled("".join(map(str, self.args)), flag)


class FieldcalError(_Message, Exception):
    """Base of everything fieldcal raises on purpose.

    Examples
    --------
    >>> from fieldcal.errors import InputError, option
    >>> raise InputError(f"3 rows have no score. Pass {option('missing', 'drop')}.")
    Traceback (most recent call last):
    fieldcal.errors.InputError: 3 rows have no score. Pass missing='drop'.
    """


class InputError(FieldcalError, ValueError):
    """A value that cannot be right."""


class RowError(InputError):
    """A row of a table that cannot be used.

    Parameters
    ----------
    row : which one, from 0; None where rows have no order
    """

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text)
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
    """The bins hardly distinguish some classes."""


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
    """Categories of a judge that are not in the lab."""


class PoolingWarning(FieldcalWarning):
    """The strength of the pooling sits at the edge of its range."""


class TrustWarning(FieldcalWarning):
    """The consistency assumption was not, or could not be, put to the test."""


class VerdictWarning(FieldcalWarning):
    """An estimate is applied although its verdict is not to use it."""


def reason(error: OSError | ValueError) -> str:
    """Why a path cannot be used, in the system's words; a path that no system has is a ValueError."""
    return str(getattr(error, "strerror", None) or error)
