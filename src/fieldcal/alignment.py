"""Rows of several arguments are matched by position, so pandas indexes must agree."""

from __future__ import annotations

from typing import Any

from fieldcal.errors import InputError


def check_alignment(**given: Any) -> None:
    """Refuse pandas objects of one length with different indexes; other objects are matched by position.

    Examples
    --------
    >>> import pandas as pd
    >>> from fieldcal.alignment import check_alignment
    >>> check_alignment(predictions=pd.Series([0.1, 0.9]), y=[0, 1])
    >>> check_alignment(predictions=pd.Series([0.1, 0.9]), y=pd.Series([0, 1], index=[1, 0]))
    Traceback (most recent call last):
    ...
    fieldcal.errors.InputError: The indexes of predictions and y disagree: ...
    """
    indexed = [(name, value.index) for name, value in given.items() if _has_index(value)]
    for name, index in indexed[1:]:
        first, expected = indexed[0]
        if len(index) == len(expected) and not index.equals(expected):
            at = next(
                i for i, (a, b) in enumerate(zip(expected, index, strict=True)) if a is not b and a != b
            )
            raise InputError(
                f"The indexes of {first} and {name} disagree: row {at} is {_short(expected[at])} in the one and "
                f"{_short(index[at])} in the other. Rows are matched by position. If that is right, drop the indexes "
                f"with .reset_index(drop=True); to match them by index instead, pass {name}.loc[{first}.index]."
            )


def _has_index(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(getattr(value, "index", None), "equals")


def _short(label: Any) -> str:
    return repr(label)[:40]
