"""Columns of predicted quantiles, their levels, and the distributions that they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Columns, Lab
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table
from fieldcal.tables.engines.base import floats
from fieldcal.types import Crossing, Floats

if TYPE_CHECKING:
    from fieldcal.regression import Predictions


#: A pattern, or the column of each level.
QuantilesLike = str | Mapping[float, str]

_LEVEL = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_OUTRIGHT = option("quantiles", {0.05: "low", 0.95: "high"})
_WAY_OUT = f"Say it outright: {_OUTRIGHT}."


@dataclass(frozen=True)
class QuantileColumns:
    """The columns of predicted quantiles of one table, by increasing level.

    Unlike probabilities of classes, quantiles cannot be counted by a GROUP BY: they are read into memory.
    """

    table: Table
    columns: tuple[str, ...]
    levels: tuple[float, ...]
    crossing: Crossing = "error"

    @classmethod
    def find(cls, table: Table, quantiles: QuantilesLike, *, crossing: Crossing) -> QuantileColumns:
        """The columns of a pattern or mapping, checked to exist and to be numeric."""
        if isinstance(quantiles, str):
            found = levels_by_pattern(quantiles, table.names)
        elif isinstance(quantiles, Mapping):
            found = _by_level(quantiles)
        else:
            raise InputTypeError(
                "quantiles must be a pattern such as 'q_*' or a mapping such as {0.05: 'low', 0.95: 'high'}, but got "
                f"{quantiles!r:.60}."
            )
        levels = sorted(found)
        return cls(table, tuple(found[level] for level in levels), tuple(levels), crossing).checked()

    @classmethod
    def of(
        cls, table: Table, lab: Lab, quantiles: QuantilesLike | None, *, crossing: Crossing
    ) -> QuantileColumns:
        """The given columns, or those of the lab."""
        if quantiles is not None:
            return cls.find(table, quantiles, crossing=crossing)
        if lab.columns is None or lab.columns.levels is None:
            raise InputError(
                f"This lab was learnt from arrays and knows no quantile columns. Pass {option('quantiles')}, a "
                "pattern such as 'q_*' or a mapping from level to column."
            )
        return cls(table, lab.columns.scores, lab.columns.levels, crossing).checked()

    def checked(self) -> QuantileColumns:
        """Refuse columns that do not exist, appear twice or are not numeric."""
        self.table.require(self.columns, role="quantiles")
        twice = [n for n in self.columns if self.columns.count(n) > 1]
        if twice:
            raise InputError(
                f"The column {twice[0]!r:.60} is given for two levels. Name one column per level."
            )
        for name in self.columns:
            require_numbers(self.table, name, "quantiles")
        return self

    def names(self) -> list[str]:
        """Our names of the columns."""
        return [self.table.helper(f"quantile_{k}") for k in range(len(self.columns))]

    def raw(self) -> list[Expr]:
        """The columns as float64; null where they are null."""
        return [self.table.backend.double(self.table.column(c)) for c in self.columns]

    def predictions(self, read: Mapping[str, Any]) -> Predictions:
        """The distributions of rows that were read; none may be missing."""
        from fieldcal.regression import from_quantiles  # loads scipy.stats, which classes do not need

        values = np.column_stack([floats(read[n]) for n in self.names()])
        _refuse_missing(values, self.columns)
        return from_quantiles(values, self.levels, crossing=self.crossing)

    def label(self, name: str) -> Expr:
        """The column of the true numbers, as float64."""
        require_numbers(self.table, name, "label")
        return self.table.backend.double(self.table.column(name))

    def labels(self, read: Any, name: str) -> Floats:
        """The true numbers of rows that were read; none may be missing."""
        found = floats(read)
        if np.isnan(found).any():
            lost = int(np.isnan(found).sum())
            raise InputError(
                f"{lost:,} of {len(found):,} rows have no number in the label column {name!r:.60}. Drop those rows "
                "from the lab data."
            )
        return found

    def remembered(self, label: str, by: tuple[str, ...]) -> Columns:
        """The column names that the lab stores."""
        return Columns(scores=self.columns, label=label, by=by, levels=self.levels)


def levels_by_pattern(pattern: str, names: Sequence[Any]) -> dict[float, str]:
    """The column of each level, where ``*`` stands for the level or a percentage.

    Columns with anything but a number in place of ``*`` are ignored.
    """
    if pattern.count("*") != 1:
        raise InputError(
            f"The pattern {pattern!r:.60} must have one *, where names have the level, such as 'q_*'. {_WAY_OUT}"
        )
    head, _, tail = pattern.partition("*")
    fitting = [n for n in names if isinstance(n, str) and n.startswith(head) and n.endswith(tail)]
    inner = {n: n[len(head) : len(n) - len(tail)] for n in fitting if len(n) > len(head) + len(tail)}
    numbers = {n: Decimal(text) for n, text in inner.items() if _LEVEL.fullmatch(text)}
    if len(numbers) < 2:
        _refuse_few_levels(pattern, list(numbers), names)
    scale = _scale(pattern, numbers)
    found: dict[float, str] = {}
    for name, number in numbers.items():
        other = found.setdefault(float(number / scale), name)
        if other != name:
            raise InputError(
                f"The columns {other!r:.60} and {name!r:.60} are both of level {float(number / scale):g}. {_WAY_OUT}"
            )
    return found


def _refuse_few_levels(pattern: str, found: list[str], names: Sequence[Any]) -> None:
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
                f"{_OUTRIGHT}."
            )
    return {float(level): name for level, name in quantiles.items()}


def require_numbers(table: Table, name: str, role: str) -> None:
    """Refuse a column that is not there or holds no numbers."""
    table.require([name], role=role)
    if not table.dtype(name).is_number:
        raise InputTypeError(
            f"The {role} in column {name!r:.60} must be numbers, but are {table.dtype(name)}. Cast the column first."
        )


def _refuse_missing(values: Floats, names: Sequence[str]) -> None:
    empty = np.isnan(values)
    rows = np.asarray(empty.any(axis=1))
    if rows.any():
        worst = names[int(empty.sum(axis=0).argmax())]
        raise InputError(
            f"{int(rows.sum()):,} of {len(rows):,} rows have a quantile that is null or NaN, most of them in column "
            f"{worst!r:.60}. Drop those rows first, or find out why the model left them empty."
        )
