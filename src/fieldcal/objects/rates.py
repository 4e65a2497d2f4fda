"""A lab without rows: published rates of a test, as equivalent rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from fieldcal.core.planning import rows_behind
from fieldcal.core.values import Values, canonical
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import group_keys
from fieldcal.objects.next_lab import of_given_bins
from fieldcal.objects.outcome import Classes
from fieldcal.options import as_array, as_number, check_level
from fieldcal.types import Floats

_MOST_ROWS = 1e12


def lab_of_rates(
    *,
    sensitivity: Any,
    specificity: Any,
    confusion: Any,
    n: Any,
    intervals: Any,
    level: Any,
    classes: Sequence[Hashable] | None,
    values: Sequence[Any] | None,
) -> dict[str, Any]:
    """The fields of a lab, from rates and their precision."""
    check_level(level)
    two = [sensitivity, specificity]
    given = [rate is not None for rate in two]
    if (confusion is None) != all(given) or any(given) != all(given):
        rates = f"{option('sensitivity')} and {option('specificity')}"
        raise InputError(f"Give {rates} of a test, or a {option('confusion')} matrix of classes by values.")
    if confusion is None:
        se, sp = (as_number(name, x, least=0, most=1) for name, x in zip(_NAMES, two, strict=True))
        table = np.array([[sp, 1 - sp], [1 - se, se]])
        rows = _rows_of_two(table, n, intervals, level)
    else:
        table, rows = _of_confusion(confusion, n, intervals)
    K, m = table.shape
    names = _names(classes, K, default=("negative", "positive") if confusion is None else tuple(range(K)))
    says = Values(list(names if values is None and m == K else _values(values, m)))
    F = table * rows[:, None]
    return {
        "outcome": Classes(labels=names),
        "partition": says,
        "F": F,
        "weight_squares": rows,
        "smoothing": 0.0,
        "n": max(1, round(float(rows.sum()))),
        "design": "by_class",
        **of_given_bins(F),
    }


_NAMES = ("sensitivity", "specificity")


def _rows_of_two(table: Floats, n: Any, intervals: Any, level: float) -> Floats:
    if (n is None) == (intervals is None):
        raise InputError(
            f"Rates need their precision: give {option('n')}, the numbers of positive and negative "
            f"rows behind them, or their {option('intervals')}{'' if n is None else ' and not both'}."
        )
    if n is not None:
        return _checked_rows(n, 2)[::-1].copy()
    try:
        ends = np.asarray(intervals, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"intervals must be two pairs of numbers, but got {intervals!r:.80}.") from None
    if ends.shape != (2, 2):
        raise InputError(
            f"intervals must be those of sensitivity and specificity, two pairs of ends, but have shape {ends.shape}."
        )
    equivalent = [
        _worth_of_interval(rate, low, high, level, name)
        for name, rate, (low, high) in zip(_NAMES, (table[1, 1], table[0, 0]), ends, strict=True)
    ]
    return np.array(equivalent[::-1])


def _worth_of_interval(rate: float, low: float, high: float, level: float, name: str) -> float:
    if not 0 <= low <= rate <= high <= 1 or low == high:
        raise InputError(
            f"The interval of the {name} must hold it, within 0 to 1, but {rate:g} has ({low:g}, {high:g})."
        )
    rows = rows_behind(rate, high - low, level)
    if rows is None:
        raise InputError(
            f"The interval of the {name}, {low:g} to {high:g}, is wider than if nothing were known. Check its level."
        )
    return min(rows, _MOST_ROWS)


def _of_confusion(confusion: Any, n: Any, intervals: Any) -> tuple[Floats, Floats]:
    table = as_array("confusion", confusion)
    if intervals is not None:
        raise InputError(
            f"{option('intervals')} go with sensitivity and specificity. Give {option('n')} or rows instead."
        )
    if table.ndim != 2 or min(table.shape) < 2 or not np.isfinite(table).all() or table.min() < 0:
        raise InputError(
            f"confusion must be a table of two classes by two values at least, none negative, but has shape "
            f"{table.shape}."
        )
    total = table.sum(axis=1)
    if n is None:
        if np.allclose(total, 1.0, atol=1e-3) or np.any(total < 1):
            raise InputError(
                f"confusion holds shares, whose precision is unknown: give {option('n')}, one per class."
            )
        return table / total[:, None], total
    if not np.allclose(total, 1.0, atol=1e-3):
        raise InputError(
            f"With {option('n')} the rows of confusion are shares and sum to one, but they sum to {total}."
        )
    return table / total[:, None], _checked_rows(n, len(table))


def _checked_rows(n: Any, size: int) -> Floats:
    rows = as_array("n", n).astype(np.float64)
    if rows.shape != (size,) or not np.isfinite(rows).all() or rows.min() < 1 or rows.max() > _MOST_ROWS:
        raise InputError(
            f"n must be {size} numbers of rows, one per class and at least 1 each, but got {n!r:.60}."
        )
    return rows


def _names(classes: Any, K: int, default: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    if classes is not None and (isinstance(classes, str) or not isinstance(classes, Iterable)):
        raise InputTypeError(f"classes must be a list of names, but got {classes!r:.60}.")
    names = default if classes is None else tuple(map(group_keys.normalize, classes))
    if len(names) != K:
        raise InputError(f"There are {K} classes in the rates, but {len(names)} names: {names!r:.80}.")
    return names


def _values(values: Any, m: int) -> list[Any]:
    if values is not None and (isinstance(values, str) or not isinstance(values, Iterable)):
        raise InputTypeError(f"values must be a list of what the test says, but got {values!r:.60}.")
    listed = [] if values is None else list(values)
    if len(listed) != m or len({canonical(v) for v in listed}) < m:
        raise InputError(
            f"There are {m} columns of values, so that {option('values')} must be {m} different ones, but got "
            f"{values!r:.80}."
        )
    return listed
