"""A table in its own engine: narwhals expressions, and the operations in which engines differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import group_keys
from fieldcal.options import no_name
from fieldcal.storage import did_you_mean
from fieldcal.types import Floats

#: Columns of a small table, by name.
Small = Mapping[str, Any]


class NarwhalsBackend:
    """`core.backend.Backend` in narwhals' expressions."""

    def number(self, value: float) -> nw.Expr:
        """A float64 constant."""
        return nw.lit(float(value), dtype=nw.Float64)

    def integer(self, value: int) -> nw.Expr:
        """A whole constant."""
        return nw.lit(value, dtype=nw.Int32)

    def when(self, condition: nw.Expr, then: nw.Expr, otherwise: nw.Expr) -> nw.Expr:
        """``then`` if the condition is true; ``otherwise`` if it is false."""
        return nw.when(condition).then(then).otherwise(otherwise)

    def floor(self, value: nw.Expr) -> nw.Expr:
        """The largest whole number not above, as int64."""
        return value.floor().cast(nw.Int64)

    def largest(self, values: Sequence[nw.Expr]) -> nw.Expr:
        """The largest of several."""
        return values[0] if len(values) == 1 else nw.max_horizontal(*values)


class Table(ABC):
    """What the verbs need of a table, whatever its engine.

    Parameters
    ----------
    frame : narwhals frame, under names that are safe in its engine
    names : the names that its columns have for the user, in the same order; further columns are ours
    """

    backend = NarwhalsBackend()
    lazy = True
    sorts = False  # whether it sorts a result of groups sooner than Python

    def __init__(self, frame: Any, names: Sequence[str]) -> None:
        self.frame = frame
        self.names = list(names)
        self.schema: nw.Schema = frame.collect_schema()
        _refuse_patterns(frame, self.schema.names())
        self._safe = dict(zip(self.names, self.schema.names(), strict=False))
        self.prefix = _free_prefix(self.schema.names())

    def require(self, names: Sequence[str], *, role: str) -> None:
        """Refuse names that are not columns of the table."""
        for name in names:
            if not isinstance(name, str):
                raise no_name(role, name)
            if name not in self._safe:
                listed = ", ".join(repr(n)[:60] for n in self.names[:12])
                raise InputError(
                    f"There is no column {name!r:.60} for the {role}.{did_you_mean(name, self.names)} The table has "
                    f"{listed}{', …' if len(self.names) > 12 else ''}."
                )

    def values(self, name: str) -> list[Any]:
        """All values of a user's column, of a table in memory."""
        return list(self.frame.get_column(self._safe[name]).to_list())

    def column(self, name: str) -> nw.Expr:
        """The expression of a user's column."""
        return nw.col(self._safe[name])

    def dtype(self, name: str) -> Any:
        """Its type."""
        return self.schema[self._safe[name]]

    def has_rows(self) -> bool:
        """Whether there are any rows; without them types may be guesses, as those of a CSV header."""
        first = self.frame.head(1)
        return len(first.collect() if isinstance(first, nw.LazyFrame) else first) > 0

    def first(self, condition: nw.Expr) -> int | None:
        """The position of the first row that meets a condition, from 0; None without an order or such a row."""
        return None

    def helper(self, name: str) -> str:
        """An internal column name that the table does not have."""
        return self.prefix + name

    def is_nan(self, number: nw.Expr) -> nw.Expr:
        """Whether a float is NaN, also if a file's statistics omit NaN."""
        return number.is_nan()

    def indicator(self, condition: nw.Expr) -> nw.Expr:
        """A condition in a form that this engine can sum."""
        return condition

    @abstractmethod
    def collect(self, frame: Any) -> dict[str, Any]:
        """A small result as columns of Python values or arrays."""

    @abstractmethod
    def small(self, columns: Small, dtypes: Mapping[str, Any]) -> Any:
        """A small table beside this one, in the same engine and on the same connection."""

    def prepare(self, columns: Sequence[nw.Expr]) -> Any:
        """The table with internal columns added."""
        return self.frame.with_columns(*columns)

    def align(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """The small table with the types of the big table's keys."""
        return small

    @abstractmethod
    def look_up(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """Every row with its match in the small table, in the rows' own order."""

    def finish(self, computed: Any, new: Mapping[str, nw.Expr]) -> Any:
        """The user's table with new columns at its end, of the user's own kind."""
        own = list(self._safe.values())
        return computed.select(*own, *(e.alias(n) for n, e in new.items())).to_native()

    def taken(self, rows: Any) -> Any:
        """A few of the table's rows, under the user's names, as a frame in memory."""
        few = rows.select(*self._safe.values())
        few = few.collect() if isinstance(few, nw.LazyFrame) else few
        return few.rename({safe: name for name, safe in self._safe.items() if safe != name})

    def finish_with_gaps(self, computed: Any, name: str, values: nw.Expr, held: nw.Expr) -> Any:
        """As `finish`, with one new column of any type, null where it is not held."""
        return self.finish(computed, {name: nw.when(held).then(values)})


def values_of(series: nw.Series[Any]) -> Any:
    """Integers without nulls as an array; everything else as a list."""
    if series.dtype.is_integer() and not series.is_null().any():
        return series.to_numpy()
    if isinstance(series.dtype, nw.Datetime) and series.dtype.time_unit == "ns":
        return list(series.to_numpy())  # Python's own times are coarser: they would hide that some differ
    return series.to_list()


def _refuse_patterns(frame: Any, names: Sequence[str]) -> None:
    if not (frame.implementation.is_polars() or frame.implementation.is_duckdb()):
        return
    odd = [n for n in names if n == "*" or (n[:1] == "^" and n[-1:] == "$")]
    if odd:
        raise InputError(
            f"The column {odd[0]!r:.60} is named like a pattern for several columns. Rename it first."
        )


def _free_prefix(names: Any) -> str:
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
