"""Quantile columns of a table: which they are, which levels they have, and their rows as arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Lab
from fieldcal.regression.piecewise import PiecewiseLinear, from_quantiles
from fieldcal.tables.columns import Grouping
from fieldcal.tables.engines import Table
from fieldcal.types import Crossing, Floats

#: A pattern, or the column of each level.
QuantilesLike = str | Mapping[float, str]

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_WAY_OUT = "Say it outright: quantiles={0.05: 'low', 0.95: 'high'}."


@dataclass(frozen=True)
class QuantileColumns:
    """The columns of predicted quantiles, by increasing level."""

    names: tuple[str, ...]
    levels: tuple[float, ...]

    @classmethod
    def find(cls, quantiles: QuantilesLike, table: Table) -> QuantileColumns:
        """Those that a pattern or a mapping says, checked to be there and to hold numbers."""
        if isinstance(quantiles, str):
            found = by_pattern(quantiles, table.names)
        elif isinstance(quantiles, Mapping):
            found = _by_level(quantiles)
        else:
            raise InputTypeError(
                "quantiles must be a pattern such as 'q_*' or a mapping such as {0.05: 'low', 0.95: 'high'}, but got "
                f"{quantiles!r:.60}."
            )
        levels = sorted(found)
        return cls(tuple(found[level] for level in levels), tuple(levels)).checked(table)

    @classmethod
    def of(cls, lab: Lab, quantiles: QuantilesLike | None, table: Table) -> QuantileColumns:
        """Those that are asked for, or the lab's."""
        if quantiles is not None:
            return cls.find(quantiles, table)
        if lab.columns is None or lab.columns.levels is None:
            raise InputError(
                "This lab was learnt from arrays and knows no quantile columns. Pass quantiles=…, a pattern such as "
                "'q_*' or a mapping from level to column."
            )
        return cls(lab.columns.scores, lab.columns.levels).checked(table)

    def checked(self, table: Table) -> QuantileColumns:
        """Refuse columns that are not there, appear twice or hold no numbers."""
        table.require(self.names, role="quantiles")
        twice = [n for n in self.names if self.names.count(n) > 1]
        if twice:
            raise InputError(
                f"The column {twice[0]!r:.60} is given for two levels. Name one column per level."
            )
        for name in self.names:
            require_numbers(table, name, "quantiles")
        return self


def by_pattern(pattern: str, names: Sequence[Any]) -> dict[float, str]:
    """The column of each level, where ``*`` stands for the level or a percentage.

    Columns with anything but a number in place of ``*`` are others'.

    Examples
    --------
    >>> from fieldcal.regression.quantile_columns import by_pattern
    >>> by_pattern("q*", ["y", "q05", "q50", "q97.5", "quality"])
    {0.05: 'q05', 0.5: 'q50', 0.975: 'q97.5'}
    """
    if pattern.count("*") != 1:
        raise InputError(
            f"The pattern {pattern!r:.60} must have one *, where names have the level, such as 'q_*'. {_WAY_OUT}"
        )
    head, _, tail = pattern.partition("*")
    fitting = [n for n in names if isinstance(n, str) and n.startswith(head) and n.endswith(tail)]
    inner = {n: n[len(head) : len(n) - len(tail)] for n in fitting if len(n) > len(head) + len(tail)}
    numbers = {n: Decimal(text) for n, text in inner.items() if _NUMBER.fullmatch(text)}
    if len(numbers) < 2:
        _refuse_few(pattern, list(numbers), names)
    scale = _scale(pattern, numbers)
    found: dict[float, str] = {}
    for name, number in numbers.items():
        other = found.setdefault(float(number / scale), name)
        if other != name:
            raise InputError(
                f"The columns {other!r:.60} and {name!r:.60} are both of level {float(number / scale):g}. {_WAY_OUT}"
            )
    return found


def _refuse_few(pattern: str, found: list[str], names: Sequence[Any]) -> None:
    listed = ", ".join(repr(n)[:60] for n in names[:12])
    what = f"only {found[0]!r:.60}" if found else "no column"
    raise InputError(
        f"The pattern {pattern!r:.60} finds {what} with a number in place of *, but at least two are needed. "
        f"The table has {listed}{', …' if len(names) > 12 else ''}."
    )


def _scale(pattern: str, numbers: Mapping[str, Decimal]) -> int:
    """1 for levels, 100 for percentages."""
    low, high = (f(numbers, key=numbers.__getitem__) for f in (min, max))
    if numbers[high] <= 1:
        return 1
    if numbers[high] > 100:
        raise InputError(
            f"In {high!r:.60} the pattern {pattern!r:.60} finds {numbers[high]}, which is neither a level nor a "
            f"percentage. {_WAY_OUT}"
        )
    if 0 < numbers[low] < 1:
        raise InputError(
            f"With the pattern {pattern!r:.60}, {high!r:.60} looks like a percentage and {low!r:.60} like a level. "
            f"{_WAY_OUT}"
        )
    return 100


def _by_level(quantiles: Mapping[float, str]) -> dict[float, str]:
    for level in quantiles:
        if isinstance(level, bool) or not isinstance(level, (int, float, np.integer, np.floating)):
            raise InputTypeError(
                f"The keys of quantiles must be levels between 0 and 1, but one is {level!r:.60}. Write "
                "quantiles={0.05: 'low', 0.95: 'high'}."
            )
    return {float(level): name for level, name in quantiles.items()}


def require_numbers(table: Table, name: str, role: str) -> None:
    """Refuse a column that is not there or holds no numbers."""
    table.require([name], role=role)
    if not table.dtype(name).is_numeric():
        raise InputTypeError(
            f"The {role} in column {name!r:.60} must be numbers, but are {table.dtype(name)}. Cast the column first."
        )


@dataclass(frozen=True)
class Rows:
    """What was read of a table's rows: quantiles, groups (None without group columns), and other numbers."""

    predicted: PiecewiseLinear
    groups: Any
    others: dict[str, Any]


def read_rows(
    table: Table,
    columns: QuantileColumns,
    grouping: Grouping,
    *,
    crossing: Crossing,
    others: Mapping[str, nw.Expr] | None = None,
    frame: Any = None,
) -> Rows:
    """The rows of a table, or of a frame of its engine, in memory.

    Parameters
    ----------
    others : further columns of numbers, by the name under which they are answered
    """
    asked = [table.column(c).cast(nw.Float64) for c in columns.names]
    names = [table.helper(f"quantile_{k}") for k in range(len(asked))]
    made = [x.alias(n) for x, n in zip(asked, names, strict=True)]
    made += [x.alias(table.helper(n)) for n, x in (others or {}).items()]
    # All of it in one query: a lazy table may have its rows in another order the next time.
    rows = (table.frame if frame is None else frame).select(*made, *grouping.expressions())
    read = _collect(table, rows, grouping)
    values = np.column_stack([_floats(read[n]) for n in names])
    _refuse_missing(values, columns.names)
    return Rows(
        from_quantiles(values, columns.levels, crossing=crossing),
        grouping.decode([read[n] for n in grouping.names()]),
        {n: read[table.helper(n)] for n in others or ()},
    )


def _collect(table: Table, rows: Any, grouping: Grouping) -> dict[str, Any]:
    """As the engine does; numbers in memory without a detour over lists."""
    if table.lazy:
        return table.collect(rows)
    keys = grouping.names()
    numbers = {n: rows.get_column(n).to_numpy() for n in rows.columns if n not in keys}
    return {**numbers, **(table.collect(rows.select(*keys)) if keys else {})}


def _floats(values: Any) -> Floats:
    """Null becomes NaN."""
    return np.array(values, dtype=np.float64)


def _refuse_missing(values: Floats, names: Sequence[str]) -> None:
    empty = np.isnan(values)
    rows = np.asarray(empty.any(axis=1))
    if rows.any():
        worst = names[int(empty.sum(axis=0).argmax())]
        raise InputError(
            f"{int(rows.sum()):,} of {len(rows):,} rows have a quantile that is null or NaN, most of them in column "
            f"{worst!r:.60}. Drop those rows first, or find out why the model left them empty."
        )
