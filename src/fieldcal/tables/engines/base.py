"""A table in an engine that runs statements, and the types of its columns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import group_keys
from fieldcal.options import no_name
from fieldcal.storage import did_you_mean
from fieldcal.tables.dialect import Expr, SqlBackend
from fieldcal.tables.rows import Rows
from fieldcal.types import Floats

_FAMILIES = {
    "integer": {"tinyint", "smallint", "int", "integer", "bigint", "hugeint", "utinyint", "usmallint"}
    | {"uinteger", "ubigint", "uhugeint"},
    "float": {"float", "double"},
    "decimal": {"decimal"},
    "text": {"varchar", "string", "char", "enum"},
    "bool": {"boolean"},
    "date": {"date"},
    "time": {"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp_ntz", "timestamptz_ns"},
    "null": {"null", "void"},
}
_UNITS = {"timestamp_s": "s", "timestamp_ms": "ms", "timestamp_ns": "ns"}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Type:
    """The type of a column: its family, and what an engine calls it."""

    family: str  # integer, float, decimal, text, bool, date, time, null, objects or other
    name: str
    zone: str | None = None  # of times
    unit: str = "us"  # of times

    @classmethod
    def of(cls, text: str, *, zoned: Iterable[str] = ()) -> Type:
        """From the name that DuckDB or Spark gives it; ``zoned`` are names of times with a zone."""
        lowered = text.lower()
        found = _WORD.search(lowered)
        word = found[0] if found else ""
        if lowered.endswith(("[]", "]")):  # lists
            return cls("other", text)
        family = next((f for f, words in _FAMILIES.items() if word in words), "other")
        if family == "time":
            zoned_here = "with time zone" in lowered or word == "timestamptz_ns" or lowered in zoned
            zone = "the session" if zoned_here else None
            return cls(family, text, zone, _UNITS.get(word, "us"))
        return cls(family, "String" if family == "text" else text)

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return self.family in ("integer", "float", "decimal")

    def __str__(self) -> str:
        return self.name


OBJECTS = Type("objects", "Object")


@dataclass(frozen=True)
class Small:
    """A small table beside the rows: columns of Python values or arrays, each with a type."""

    columns: Mapping[str, Any]
    types: Mapping[str, str]  # of DuckDB: BIGINT, DOUBLE, VARCHAR, …


class Table(ABC):
    """What the verbs need of a table, whatever its engine.

    Attributes
    ----------
    backend : the dialect of its statements
    names : the names that its columns have for the user
    prefix : of the names of columns in statements that are not the user's
    """

    dialect: ClassVar[str] = "duckdb"
    lazy: ClassVar[bool] = True

    def __init__(self, names: Sequence[Any]) -> None:
        self.backend = SqlBackend(self.dialect, local=True)
        self.names = list(names)
        self.prefix = _free_prefix(self.names)

    def require(self, names: Iterable[Any], *, role: str) -> None:
        """Refuse names that are not columns of the table."""
        for name in names:
            if not isinstance(name, str):
                raise no_name(role, name)
            if name not in self.names:
                listed = ", ".join(repr(n)[:60] for n in self.names[:12])
                raise InputError(
                    f"There is no column {name!r:.60} for the {role}.{did_you_mean(name, self.names)} The table has "
                    f"{listed}{', …' if len(self.names) > 12 else ''}."
                )

    def helper(self, name: str) -> str:
        """An internal column name that the table does not have."""
        return self.prefix + name

    def column(self, name: str) -> Expr:
        """The expression of a user's column."""
        return self.backend.column(name)

    @property
    def rows(self) -> Rows:
        """All rows of the table, as the beginning of a statement."""
        return Rows(self.backend)

    @abstractmethod
    def dtype(self, name: str) -> Type:
        """The type of a user's column."""

    @abstractmethod
    def collect(self, rows: Rows) -> dict[str, Any]:
        """A small result as columns of Python values or arrays."""

    @abstractmethod
    def numbered(self, rows: Rows) -> Rows:
        """With the position of each row in `row`, if results need to be sorted."""

    @abstractmethod
    def finish(self, rows: Rows, new: Mapping[str, Expr]) -> Any:
        """The user's table with new columns at its end, of the user's own kind, in its order."""

    @abstractmethod
    def taken(self, rows: Rows) -> Any:
        """A few of the table's rows, under the user's names, as a table in memory."""

    @property
    def row(self) -> str:
        """The column with the position of a row."""
        return self.helper("row")

    def has_rows(self) -> bool:
        """Whether there are any rows; without them types may be guesses, as those of a CSV header."""
        one = self.rows.select({"one": self.backend.integer(1)}).limit(1)
        return len(self.collect(one)["one"]) > 0

    def first(self, condition: Expr) -> int | None:
        """The position of the first row that meets a condition, from 0; None without an order or such a row."""
        met = self.numbered(self.rows).where(condition)
        found = self.collect(met.select({"row": self.backend.least(self.backend.column(self.row))}))["row"][0]
        return None if found is None else int(found)

    def look_up(self, rows: Rows, small: Small, on: Mapping[str, str]) -> Rows:
        """Every row with its match in the small table."""
        return rows.joined(small, on)


def _free_prefix(names: Iterable[Any]) -> str:
    """Engines fold case, so ours must differ from theirs in more than that."""
    prefix = "__fieldcal_"
    while any(str(name).lower().startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def floats(values: Any) -> Floats:
    """Null becomes NaN."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        return values.astype(np.float64, copy=False)
    return np.array([np.nan if group_keys.is_null(v) else v for v in values], dtype=np.float64)
