"""Group columns: how their values become keys, and keys values again, in every engine alike."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Prevalence
from fieldcal.tables.engines import Table


def group_columns(prev: Prevalence, by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The group columns that are asked for, or those that were counted; none where there is one population."""
    asked = prev.field.by if by is None else (by,) if isinstance(by, str) else tuple(by)
    if bool(asked) == prev.field.grouped:
        return asked
    if asked:
        raise InputError(
            f"This prevalence is of one population, but by={list(asked)!r:.80} was given. Count with by=… first, or "
            "leave it out here."
        )
    raise InputError(
        f"This prevalence is per group ({len(prev.groups):,} of them), counted from arrays: pass by=…, the column "
        "or columns of the groups."
    )


@dataclass(frozen=True)
class Kind:
    """Values of one Python type: how an engine holds them, and what stands in for null where nulls cannot match."""

    type: type
    filler: Any
    words: str


_KINDS = {
    "int": Kind(int, 0, "whole numbers"),
    "str": Kind(str, "", "text"),
    "bool": Kind(bool, False, "true or false"),
    "date": Kind(dt.date, dt.date(1970, 1, 1), "dates"),
    "datetime": Kind(dt.datetime, dt.datetime(1970, 1, 1), "times"),
    "decimal": Kind(decimal.Decimal, decimal.Decimal(0), "decimals"),
}


@dataclass(frozen=True)
class Grouping:
    """The group columns of one table."""

    table: Table
    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    dtypes: tuple[Any, ...]  # of the columns as they are compared

    @classmethod
    def of(cls, table: Table, columns: Sequence[str]) -> Grouping:
        """Check that the columns exist and hold what can be a key."""
        table.require(columns, role="groups")
        if len(set(columns)) < len(columns):
            raise InputError(f"The group columns {list(columns)!r:.200} name one twice. Name each once.")
        found = [_kind(name, table.dtype(name)) for name in columns]
        return cls(table, tuple(columns), tuple(k for k, _ in found), tuple(d for _, d in found))

    def names(self) -> list[str]:
        """Our names of the key columns."""
        return [self.table.helper(f"key_{i}") for i in range(len(self.columns))]

    def expressions(self) -> list[nw.Expr]:
        """The key columns, of one type per kind."""
        return [
            _as(self.table.column(c), self.table.dtype(c), d).alias(n)
            for c, d, n in zip(self.columns, self.dtypes, self.names(), strict=True)
        ]

    def decode(self, parts: Sequence[Any]) -> Any:
        """The keys of a small result, one list per column, as `keys.factorize` takes them."""
        if len(parts) < 2:
            return parts[0] if parts else None
        lists = [p.tolist() if isinstance(p, np.ndarray) else p for p in parts]
        return list(zip(*lists, strict=True))

    def matches(self, groups: Sequence[Hashable]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which keys could stand in these columns."""
        if len(self.columns) == 1 and set(map(type, groups)) <= {self.kinds[0].type, type(None)}:
            return np.ones(len(groups), dtype=bool)  # the usual case, without a look at every key
        return np.fromiter((self._fits(g) for g in groups), dtype=bool, count=len(groups))

    def _fits(self, key: Hashable) -> bool:
        parts = key if len(self.columns) > 1 and isinstance(key, tuple) else (key,)
        return len(parts) == len(self.columns) and all(
            p is None or type(p) is k.type for p, k in zip(parts, self.kinds, strict=True)
        )

    def look_up(self, groups: Sequence[Hashable]) -> LookUp:
        """How rows find their group in a small table of these keys."""
        if len(self.columns) == 1:
            return LookUp(self, [list(groups)])
        return LookUp(self, [list(p) for p in zip(*groups, strict=True)] or [[] for _ in self.columns])


@dataclass(frozen=True)
class LookUp:
    """Keys as columns that can be joined by equality: where a key is null, a flag says so."""

    grouping: Grouping
    parts: list[list[Any]]

    @cached_property
    def nulls(self) -> list[bool]:
        """Which columns have a null among their keys."""
        return [None in part for part in self.parts]

    def left(self) -> list[nw.Expr]:
        """The columns of the big table."""
        made = []
        for name, expression, kind, dtype, _, null in self._columns():
            if not null:
                made.append(expression)
                continue
            filler = nw.lit(kind.filler).cast(dtype)
            made += [
                nw.when(expression.is_null()).then(filler).otherwise(expression).alias(name),
                expression.is_null().alias(name + "_null"),
            ]
        return made

    def right(self) -> dict[str, list[Any]]:
        """The columns of the small table."""
        columns: dict[str, list[Any]] = {}
        for name, _, kind, _, part, null in self._columns():
            columns[name + "_of"] = [kind.filler if v is None else v for v in part] if null else part
            if null:
                columns[name + "_null_of"] = [v is None for v in part]
        return columns

    def dtypes(self) -> dict[str, Any]:
        """The types of those columns."""
        found = {}
        for name, _, _, dtype, _, null in self._columns():
            found[name + "_of"] = dtype
            if null:
                found[name + "_null_of"] = nw.Boolean
        return found

    def on(self) -> dict[str, str]:
        """Which column of the big table meets which of the small one."""
        return {name.removesuffix("_of"): name for name in self.dtypes()}

    def _columns(self) -> list[tuple[str, nw.Expr, Kind, Any, list[Any], bool]]:
        g = self.grouping
        return list(zip(g.names(), g.expressions(), g.kinds, g.dtypes, self.parts, self.nulls, strict=True))


def _kind(name: str, dtype: Any) -> tuple[Kind, Any]:
    """The kind of a column's values, and the type in which they are compared."""
    if dtype.is_integer():
        return _KINDS["int"], dtype if dtype in (nw.UInt64, nw.Int128, nw.UInt128) else nw.Int64
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return _KINDS["str"], nw.String
    if dtype in (nw.Boolean, nw.Date):
        return _KINDS["bool" if dtype == nw.Boolean else "date"], dtype
    if dtype == nw.Datetime and dtype.time_zone is not None:
        raise InputTypeError(
            f"The group column {name!r:.60} holds times of a zone ({dtype.time_zone}), in which one reading of the "
            "clock can be two hours. Make it dates, or times without a zone, first."
        )
    if dtype == nw.Datetime or dtype == nw.Decimal:
        return _KINDS["datetime" if dtype == nw.Datetime else "decimal"], dtype
    if dtype.is_float():
        raise InputTypeError(
            f"The group column {name!r:.60} holds decimal fractions ({dtype}), which engines compare differently. Make "
            "it whole numbers or text first; in pandas, whole numbers with gaps are Int64."
        )
    raise InputTypeError(
        f"The group column {name!r:.60} is of type {dtype}. Groups are text, whole numbers, true or false, dates, "
        "times or decimals: convert it first."
    )


def _as(expression: nw.Expr, dtype: Any, wanted: Any) -> nw.Expr:
    return expression if dtype == wanted else expression.cast(wanted)
