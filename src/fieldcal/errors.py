"""One small tree of errors and warnings.

Every error says what is wrong, which value shows it, and what to do next.
"""

from __future__ import annotations

__all__ = [
    "ArtefactError",
    "CalibrationWarning",
    "ConvergenceWarning",
    "FieldcalError",
    "FieldcalWarning",
    "GroupWarning",
    "IdentifiabilityWarning",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "PoolingWarning",
    "SmallSampleWarning",
    "TrustWarning",
    "UnseenGroupWarning",
    "WeightWarning",
]


class FieldcalError(Exception):
    """Base of everything fieldcal raises on purpose."""


class InputError(FieldcalError, ValueError):
    """A value that cannot be right."""


class InputTypeError(FieldcalError, TypeError):
    """A value of a kind that cannot be used."""


class ArtefactError(InputError):
    """A saved lab, field or prevalence that is damaged, foreign or from a newer fieldcal."""


class MissingExtraError(FieldcalError, ImportError):
    """A library that this part of fieldcal needs is not installed."""


class FieldcalWarning(UserWarning):
    """Base of everything fieldcal warns about: there is an answer, and it is shaky."""


class GroupWarning(FieldcalWarning):
    """A grouping that cannot be what was meant."""


class IdentifiabilityWarning(FieldcalWarning):
    """The bins hardly tell some classes apart."""


class SmallSampleWarning(FieldcalWarning):
    """A class has so few lab rows that its row of M is mostly noise."""


class CalibrationWarning(FieldcalWarning):
    """The classifier is not calibrated on the lab data, or the lab data look wrong."""


class WeightWarning(FieldcalWarning):
    """A few sample weights carry almost everything."""


class ConvergenceWarning(FieldcalWarning):
    """A solver stopped at its iteration limit."""


class UnseenGroupWarning(FieldcalWarning):
    """Rows of groups that the estimate never saw."""


class PoolingWarning(FieldcalWarning):
    """The strength of the pooling sits at the edge of its range."""


class TrustWarning(FieldcalWarning):
    """The consistency assumption was not, or could not be, put to the test."""
