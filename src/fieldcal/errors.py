"""Errors and warnings.

Every error names the problem, the value, and the next step. Options in its text are marked (`option`), so that the
command line can write them as flags.
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
]

#: Values of options are cut to this length.
LONGEST_VALUE = 80


class Word(str):
    """A stand-in for a value, spelled without quotes: ``…`` or ``<column>``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


#: Stands for any value.
ANY = Word("…")


#: Delimiters of an option and of its parts in a text: private-use characters.
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
    first, *marked = text.split(_OPEN)
    return first + "".join(_spelled(*part.partition(_CLOSE)[::2], flag) for part in marked)


def _spelled(marked: str, following: str, flag: Callable[[str], str | None] | None) -> str:
    if marked.count(_NEXT) != 5:  # not written by `option`
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
    """Base class of all errors that fieldcal raises.

    Examples
    --------
    >>> from fieldcal.errors import InputError, option
    >>> raise InputError(f"3 rows have no score. Pass {option('missing', 'drop')}.")
    Traceback (most recent call last):
    fieldcal.errors.InputError: 3 rows have no score. Pass missing='drop'.
    """


class InputError(FieldcalError, ValueError):
    """An invalid value."""


class RowError(InputError):
    """An invalid row of a table.

    Parameters
    ----------
    row : its position, from 0; None if rows have no order
    """

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text)
        self.row = row


class InputTypeError(FieldcalError, TypeError):
    """A value of an unsupported type."""


class ArtefactError(InputError):
    """A saved lab, field or prevalence that is damaged, foreign or from a newer fieldcal."""


class MissingExtraError(FieldcalError, ImportError):
    """A library that this part of fieldcal needs is not installed."""


class FieldcalWarning(_Message, UserWarning):
    """Base class of all warnings: there is a result, but it is uncertain."""


class GroupWarning(FieldcalWarning):
    """A grouping that is probably a mistake."""


class IdentifiabilityWarning(FieldcalWarning):
    """The bins hardly distinguish some classes."""


class SmallSampleWarning(FieldcalWarning):
    """A class has too few lab rows to estimate its row of M."""


class BinsWarning(FieldcalWarning):
    """More bins were asked for than the lab has rows to fill."""


class CalibrationWarning(FieldcalWarning):
    """The classifier is not calibrated on the lab data, or the lab data look wrong."""


class LabelWarning(FieldcalWarning):
    """Labels that are probably one class, spelled in two ways."""


class RecalibratedWarning(FieldcalWarning):
    """Predictions that were probably recalibrated already."""


class WeightWarning(FieldcalWarning):
    """A few sample weights dominate the sum."""


class ConvergenceWarning(FieldcalWarning):
    """A solver stopped at its iteration limit."""


class UnseenGroupWarning(FieldcalWarning):
    """Rows of groups that are not in the estimate."""


class ValueWarning(FieldcalWarning):
    """Categories of a judge that are not in the lab."""


class PoolingWarning(FieldcalWarning):
    """The strength of pooling is at the boundary of its range."""


class TrustWarning(FieldcalWarning):
    """Label shift was not, or could not be, tested."""


class VerdictWarning(FieldcalWarning):
    """An estimate is applied although its verdict is "do not use"."""


def reason(error: OSError | ValueError) -> str:
    """The system's reason why a path cannot be used; invalid paths raise ValueError instead of OSError."""
    return str(getattr(error, "strerror", None) or error)
