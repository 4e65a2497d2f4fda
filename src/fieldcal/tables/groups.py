"""Group columns of a table: their types, and rows matched with a small table of keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Prevalence, group_keys
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table, Type
from fieldcal.tables.names import group_columns
from fieldcal.types import Keys

_PYTHON = {"integer": int, "text": str, "bool": bool, "date": dt.date, "time": dt.datetime, "float": float}
_WORDS = {
    "integer": "whole numbers",
    "text": "text",
    "bool": "true or false",
    "date": "dates",
    "time": "times",
}
#: Whole numbers that are compared as they are; all others fit 64 bits.
_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT", "uint64"}
_PLAIN = {"text": "VARCHAR", "bool": "BOOLEAN", "date": "DATE", "float": "DOUBLE"}
_TIMES = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def compared_as(kind: Type) -> str:
    """The type in which values are compared: one for all integers that it holds, one for all text."""
    if kind.family == "integer":
        return kind.name.upper().replace("UINT64", "UBIGINT") if kind.name in _WIDE else "BIGINT"
    return _TIMES[kind.unit] if kind.family == "time" else _PLAIN.get(kind.family, kind.name)


@dataclass(frozen=True)
class KeyColumn:
    """A column of the table as it is compared, and our name of it."""

    name: str
    expression: Expr
    type: Type

    def fits(self, part: Hashable) -> bool:
        """Whether a part of a key could occur."""
        return part is None or (type(part) is _PYTHON[self.type.family] and _holds(self.type, part))


@dataclass(frozen=True)
class Grouping:
    """The group columns of one table."""

    table: Table
    columns: tuple[str, ...]
    keys: tuple[KeyColumn, ...]

    @classmethod
    def of(cls, table: Table, columns: Sequence[str]) -> Grouping:
        """Check that the columns exist and have types of keys."""
        table.require(columns, role="groups")
        if len(set(columns)) < len(columns):
            raise InputError(f"The group columns {list(columns)!r:.200} name one twice. Name each once.")
        keys = []
        for k, name in enumerate(columns):
            kind = table.dtype(name)
            _check(name, kind)
            column, wanted = table.column(name), compared_as(kind)
            if kind.family in ("integer", "text") and wanted in ("BIGINT", "VARCHAR"):
                column = table.backend.cast(column, "TEXT" if wanted == "VARCHAR" else wanted)
            keys.append(KeyColumn(table.helper(f"key_{k}"), column, kind))
        return cls(table, tuple(columns), tuple(keys))

    @property
    def words(self) -> str:
        """What the columns hold."""
        return " and ".join(_WORDS[key.type.family] for key in self.keys)

    def names(self) -> list[str]:
        """Internal names of the key columns."""
        return [key.name for key in self.keys]

    def expressions(self) -> dict[str, Expr]:
        """The key columns, of one type per kind."""
        return {key.name: key.expression for key in self.keys}

    def decode(self, parts: Sequence[Any]) -> Any:
        """The keys of a small result, one list per column, as `group_keys.factorize` takes them."""
        if len(parts) < 2:
            return parts[0] if parts else None
        lists = [p.tolist() if isinstance(p, np.ndarray) else p for p in parts]
        return list(zip(*lists, strict=True))

    def matches(self, groups: Sequence[Hashable]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which keys could occur in these columns."""
        if len(self.keys) == 1 and self.keys[0].type.family in ("integer", "text", "bool"):
            key = self.keys[0]
            if set(map(type, groups)) <= {_PYTHON[key.type.family], type(None)}:
                known: list[Any] = [g for g in groups if g is not None]
                extremes = [min(known), max(known)] if key.type.family == "integer" and known else []
                if all(map(key.fits, extremes)):
                    return np.ones(len(groups), dtype=bool)  # the usual case, without a look at every key
        return np.fromiter(map(self._fits, groups), dtype=bool, count=len(groups))

    def _fits(self, key: Hashable) -> bool:
        parts = key if len(self.keys) > 1 and isinstance(key, tuple) else (key,)
        return len(parts) == len(self.keys) and all(c.fits(p) for c, p in zip(self.keys, parts, strict=True))

    def parts(self, groups: Sequence[Hashable]) -> list[list[Any]]:
        """The keys as one list per column."""
        if len(self.keys) == 1:
            return [list(groups)]
        return [list(p) for p in zip(*groups, strict=True)] or [[] for _ in self.keys]


@dataclass(frozen=True)
class LookUp:
    """Keys as columns of a small table, which rows are matched with."""

    keys: Sequence[KeyColumn]
    parts: Sequence[Sequence[Any]]

    def columns(self) -> dict[str, Any]:
        """The keys in the small table."""
        return dict(zip((f"{key.name}_of" for key in self.keys), self.parts, strict=True))

    def types(self) -> dict[str, str]:
        """Their types."""
        return {f"{key.name}_of": compared_as(key.type) for key in self.keys}

    def on(self) -> dict[str, str]:
        """Columns of the rows to those of the small table."""
        return {key.name: f"{key.name}_of" for key in self.keys}


def counted_groups(prev: Prevalence, by: str | Sequence[str] | None, table: Table) -> Grouping:
    """The given group columns, or those that were counted; refuses types in which no group can occur."""
    grouping = Grouping.of(table, group_columns(prev, by))
    if grouping.columns and len(prev.groups) and not grouping.matches(prev.groups).any():
        refuse_kinds(grouping, prev.groups)
    return grouping


def refuse_kinds(grouping: Grouping, groups: Keys) -> None:
    """Refuse columns in which no known group can occur."""
    raise InputError(
        f"The group columns {list(grouping.columns)!r:.200} hold {grouping.words}, but the groups that are known are "
        f"like {groups[0]!r:.60}: none can match. Cast the columns to the type of these groups, or count this table."
    )


def _check(name: str, kind: Type) -> None:
    """Refuse types of columns that are no keys."""
    if kind.zone is not None:
        raise InputTypeError(
            f"The group column {name!r:.60} holds times of a zone ({kind.zone}), in which one reading of the "
            "clock can be two hours. Make it dates, or times without a zone, first."
        )
    if kind.family == "float":
        raise InputTypeError(
            f"The group column {name!r:.60} holds decimal fractions ({kind}), which engines compare differently. "
            f"{group_keys.KINDS}. Make it whole numbers or text first; in pandas, whole numbers with gaps are Int64."
        )
    if kind.family not in _WORDS:
        raise InputTypeError(
            f"The group column {name!r:.60} is of type {kind}. {group_keys.KINDS}: convert it first, as str(…) does."
        )


#: What 64 bits hold: whole numbers, and nanoseconds around 1970 in whole microseconds.
_SIGNED, _UNSIGNED = range(-(2**63), 2**63), range(2**64)
_NANOSECONDS = (dt.datetime(1677, 9, 21, 0, 12, 43, 145225), dt.datetime(2262, 4, 11, 23, 47, 16, 854775))
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _holds(kind: Type, value: Any) -> bool:
    if type(value) is int:
        return value in {"BIGINT": _SIGNED, "UBIGINT": _UNSIGNED}.get(compared_as(kind), (value,))
    if type(value) is not dt.datetime:
        return True
    if value.tzinfo is not None:
        return False
    if kind.unit == "ns":
        return _NANOSECONDS[0] <= value <= _NANOSECONDS[1]
    return value.microsecond % _MICROSECONDS[kind.unit] == 0
