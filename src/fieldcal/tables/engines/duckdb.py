"""DuckDB relations: a query that runs when the user asks, on the user's own connection."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.tables.engines.base import Small, Table
from fieldcal.tables.files.duckdb_errors import translated

_AS_ARRAYS = {"BOOLEAN", "VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"}
_FINE = "TIMESTAMP_NS"
#: How DuckDB calls a relation that nobody named.
_UNNAMED = "unnamed_relation"


class DuckDB(Table):
    """Joins run in parallel and lose the order, so rows are numbered before and sorted after.

    Parameters
    ----------
    row_id : columns of the relation with the order of its rows, which are left out of results; without them, rows
        are numbered, which costs a pass on one core
    """

    sorts = True

    def __init__(self, frame: Any, names: Sequence[str], row_id: Sequence[str] = ()) -> None:
        super().__init__(frame, names)
        self.row_id = list(row_id)
        alias = frame.to_native().alias
        self.name = "the table" if alias.startswith(_UNNAMED) else alias

    def is_nan(self, number: nw.Expr) -> nw.Expr:
        """Neither finite nor infinite: `isnan` and comparisons are answered from a file's statistics alone."""
        return ~number.is_finite() & (number != float("inf")) & (number != float("-inf"))

    def collect(self, frame: Any) -> dict[str, Any]:
        """Arrays where DuckDB's are exact, lists elsewhere (dates, times)."""
        with translated(self.name):
            return self._collect(frame.to_native())

    @staticmethod
    def _collect(relation: Any) -> dict[str, Any]:
        if {str(kind) for kind in relation.types} <= _AS_ARRAYS:
            return {name: _plain(values) for name, values in relation.fetchnumpy().items()}
        fine = {
            name for name, kind in zip(relation.columns, relation.types, strict=True) if str(kind) == _FINE
        }
        rows = _in_whole_numbers(relation, fine).fetchall() if fine else relation.fetchall()
        columns = list(zip(*rows, strict=True)) or [()] * len(relation.columns)
        return {
            name: list(map(_nanoseconds, values)) if name in fine else list(values)
            for name, values in zip(relation.columns, columns, strict=True)
        }

    def taken(self, rows: Any) -> Any:
        """As pyarrow's table."""
        with translated(self.name):
            return super().taken(rows)

    def small(self, columns: Small, dtypes: Mapping[str, Any]) -> Any:
        """A relation over arrays, bound to the connection that this relation has."""
        small_table = {name: _array(values) for name, values in columns.items()}
        relation = self.frame.to_native().query("unused", "SELECT * FROM small_table")
        del small_table
        return nw.from_native(relation).select(*(nw.col(name).cast(dtypes[name]) for name in columns))

    def first(self, condition: nw.Expr) -> int | None:
        """In the order of the relation."""
        numbered = self._numbered().filter(condition).select(nw.col(self.helper("row")).min())
        found = self.collect(numbered)[self.helper("row")][0]
        return None if found is None else int(found) - 1

    def prepare(self, columns: Sequence[nw.Expr]) -> Any:
        """With the row's number, where the source did not bring one."""
        numbered = self.frame if self.row_id else self._numbered()
        return numbered.with_columns(*columns) if columns else numbered

    def _numbered(self) -> Any:
        import duckdb

        row = duckdb.SQLExpression("row_number() OVER ()").alias(self.helper("row"))
        return nw.from_native(self.frame.to_native().select(duckdb.StarExpression(), row))

    def look_up(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """A left join, sorted back."""
        joined = prepared.join(small, left_on=list(on), right_on=list(on.values()), how="left")
        return joined.sort(*(self.row_id or [self.helper("row")]))


def _in_whole_numbers(relation: Any, times: Collection[str]) -> Any:
    """The relation, with these columns as nanoseconds since 1970: Python's own times are coarser, and would merge."""
    import duckdb

    columns = [duckdb.ColumnExpression(name) for name in relation.columns]
    return relation.select(
        *(
            duckdb.FunctionExpression("epoch_ns", column).alias(name) if name in times else column
            for name, column in zip(relation.columns, columns, strict=True)
        )
    )


def _nanoseconds(value: int | None) -> np.datetime64 | None:
    return None if value is None else np.datetime64(value, "ns")


def _plain(values: Any) -> Any:
    if isinstance(values, np.ma.MaskedArray):
        return values.tolist() if values.mask.any() else values.data
    return values.tolist() if values.dtype == object else values


def _array(values: Any) -> Any:
    if isinstance(values, np.ndarray) or not len(values):
        return np.asarray(values)
    if isinstance(values[0], int):
        array = np.asarray(values)
        if array.dtype.kind in "bi":  # larger ones would become floats
            return array
    return np.array(list(map(str, values)), dtype=object)  # DuckDB reads dates and times from text
