"""DuckDB relations: a query that runs when the user asks, on the user's own connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fieldcal.errors import InputError
from fieldcal.storage import require
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines.base import Small, Table, Type
from fieldcal.tables.files.duckdb_errors import translated
from fieldcal.tables.rows import TABLE, Rows

_AS_ARRAYS = {"BOOLEAN", "VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"}
_FINE = "TIMESTAMP_NS"
#: How DuckDB calls a relation that nobody named.
_UNNAMED = "unnamed_relation"


class DuckDB(Table):
    """Joins run in parallel and lose the order, so rows are numbered before and sorted after.

    Parameters
    ----------
    relation : the user's
    row_id : its last columns, which hold the order of its rows and are left out of results; without them, rows are
        numbered, which costs a pass on one core
    """

    def __init__(self, relation: Any, row_id: Sequence[str] = ()) -> None:
        names = list(relation.columns)
        super().__init__(names[: len(names) - len(row_id)])
        self.relation, self.row_id = relation, list(row_id)
        self.types = dict(zip(names, map(str, relation.types), strict=True))
        self.name = "the table" if relation.alias.startswith(_UNNAMED) else relation.alias
        _refuse_patterns(names)

    def dtype(self, name: str) -> Type:
        """As DuckDB calls it."""
        return Type.of(self.types[name])

    def collect(self, rows: Rows) -> dict[str, Any]:
        """Arrays where DuckDB's are exact, lists elsewhere (dates, times)."""
        with translated(self.name):
            return fetched(run(self.relation, rows))

    def numbered(self, rows: Rows) -> Rows:
        """By a window over all rows."""
        return rows.add({self.row: self.backend.row_number()})

    def look_up(self, rows: Rows, small: Small, on: Mapping[str, str]) -> Rows:
        """Numbered before, where the source brings no number."""
        return super().look_up(rows if self.row_id else self.numbered(rows), small, on)

    def finish(self, rows: Rows, new: Mapping[str, Expr]) -> Any:
        """As another relation, sorted if rows were joined."""
        order = [] if rows.small is None else self.row_id or [self.row]
        return run(self.relation, rows.answer(self.names, new, order))

    def taken(self, rows: Rows) -> Any:
        """As pyarrow's table."""
        with translated(self.name):
            return as_arrow(run(self.relation, rows.answer(self.names, {})))


def run(relation: Any, rows: Rows) -> Any:
    """The answer to a statement, as a relation on the same connection that has not run."""
    __fieldcal_small = None if rows.small is None else as_table(rows.small)  # found by its name
    answer = relation.query(TABLE, rows.statement())
    del __fieldcal_small
    return answer


def as_arrow(relation: Any) -> Any:
    """The rows of a relation as pyarrow's table."""
    return relation.to_arrow_table()


def as_table(small: Small) -> Any:
    """A small table as pyarrow's."""
    pa = require("pyarrow", "tables", purpose="to recalibrate tables")
    return pa.table({n: pa.array(values, arrow_type(small.types[n])) for n, values in small.columns.items()})


def arrow_type(kind: str) -> Any:
    """Arrow's type for one of DuckDB's; of whole numbers beyond 64 bits, decimals."""
    import pyarrow as pa

    units = {"TIMESTAMP_S": "s", "TIMESTAMP_MS": "ms", "TIMESTAMP": "us", "TIMESTAMP_NS": "ns"}
    if kind in units:
        return pa.timestamp(units[kind])
    plain = {"BIGINT": pa.int64, "UBIGINT": pa.uint64, "DOUBLE": pa.float64, "VARCHAR": pa.string}
    plain |= {"BOOLEAN": pa.bool_, "DATE": pa.date32}
    return plain[kind]() if kind in plain else pa.decimal128(38)


def fetched(relation: Any) -> dict[str, Any]:
    """The columns of a relation, arrays where DuckDB's are exact."""
    if {str(kind) for kind in relation.types} <= _AS_ARRAYS:
        return {name: _plain(values) for name, values in relation.fetchnumpy().items()}
    fine = [str(kind) == _FINE for kind in relation.types]
    if any(fine):  # Python's own times are coarser, and would merge
        words = [
            f'epoch_ns("{n}") AS "{n}"' if f else f'"{n}"'
            for n, f in zip(relation.columns, fine, strict=True)
        ]
        relation = relation.project(", ".join(words))
    columns = list(zip(*relation.fetchall(), strict=True)) or [()] * len(relation.columns)
    return {
        name: list(map(_nanoseconds, values)) if is_fine else list(values)
        for name, values, is_fine in zip(relation.columns, columns, fine, strict=True)
    }


def _nanoseconds(value: int | None) -> np.datetime64 | None:
    return None if value is None else np.datetime64(value, "ns")


def _plain(values: Any) -> Any:
    if isinstance(values, np.ma.MaskedArray):
        if not values.mask.any():
            return values.data
        return values.filled(np.nan) if values.dtype.kind == "f" else values.tolist()
    return values.tolist() if values.dtype == object else values


def _refuse_patterns(names: Sequence[str]) -> None:
    odd = [n for n in names if n == "*" or (n[:1] == "^" and n[-1:] == "$")]
    if odd:
        raise InputError(
            f"The column {odd[0]!r:.60} is named like a pattern for several columns. Rename it first."
        )
