"""DuckDB relations: a query that runs when the user asks, on the user's own connection."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.errors import InputError
from fieldcal.tables.engines.base import Small, Table

_LINE = re.compile(r"[Ll]ine:?\s*(\d+)")
_FILE = re.compile(r"^\s*file = (.+)$", re.MULTILINE)
_AS_ARRAYS = {"BOOLEAN", "VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"}


class DuckDB(Table):
    """Joins run in parallel and lose the order, so rows are numbered before and sorted after.

    Parameters
    ----------
    row_id : columns of the relation that say the order of its rows and are no part of the answer; without them, rows
        are numbered, which costs a pass on one core
    """

    sorts = True

    def __init__(self, frame: Any, names: Sequence[str], row_id: Sequence[str] = ()) -> None:
        super().__init__(frame, names)
        self.row_id = list(row_id)

    def collect(self, frame: Any) -> dict[str, Any]:
        """Arrays where DuckDB's are exact, lists elsewhere (dates, decimals)."""
        with told("the table"):
            return self._collect(frame.to_native())

    @staticmethod
    def _collect(relation: Any) -> dict[str, Any]:
        if {str(kind) for kind in relation.types} <= _AS_ARRAYS:
            return {name: _plain(values) for name, values in relation.fetchnumpy().items()}
        columns = list(zip(*relation.fetchall(), strict=True)) or [()] * len(relation.columns)
        return {name: list(values) for name, values in zip(relation.columns, columns, strict=True)}

    def small(self, columns: Small, dtypes: Mapping[str, Any]) -> Any:
        """A relation over arrays, bound to the connection that this relation has."""
        small_table = {name: _array(values) for name, values in columns.items()}
        relation = self.frame.to_native().query("unused", "SELECT * FROM small_table")
        del small_table
        return nw.from_native(relation).select(*(nw.col(name).cast(dtypes[name]) for name in columns))

    def fingerprint(self, frame: Any, keys: Sequence[str], times: str | None = None) -> int | None:
        """Hashes added up, in 128 bits."""
        import duckdb

        mixed = duckdb.FunctionExpression("hash", *map(duckdb.ColumnExpression, keys))
        if times is not None:
            mixed = mixed.cast("HUGEINT") * duckdb.ColumnExpression(times)
        with told("the table"):
            found = frame.to_native().aggregate([duckdb.FunctionExpression("sum", mixed)]).fetchall()
        return int(found[0][0] or 0)

    def prepare(self, columns: Sequence[nw.Expr]) -> Any:
        """With the row's number, where the source did not bring one."""
        if self.row_id:
            return self.frame.with_columns(*columns)
        import duckdb

        row = duckdb.SQLExpression("row_number() OVER ()").alias(self.helper("row"))
        numbered = self.frame.to_native().select(duckdb.StarExpression(), row)
        return nw.from_native(numbered).with_columns(*columns)

    def look_up(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """A left join, sorted back."""
        joined = prepared.join(small, left_on=list(on), right_on=list(on.values()), how="left")
        return joined.sort(*(self.row_id or [self.helper("row")]))


def _plain(values: Any) -> Any:
    """Masked values become None."""
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
    return np.array(list(map(str, values)), dtype=object)  # DuckDB reads dates, times and decimals from text


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """DuckDB's errors in one line of ours."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise InputError(
            f"The memory limit is too small for {name!r}. Raise it, or use fewer threads."
        ) from None
    except duckdb.Error as error:
        raise InputError(_words(name, str(error))) from None


def _words(name: str, message: str) -> str:
    """What DuckDB says, without its advice on options that fieldcal does not have."""
    line, file = _LINE.search(message), _FILE.search(message)
    where = f", line {line[1]}" if line else ""
    name = file[1] if file else name
    lines = [part.strip() for part in message.splitlines() if part.strip()]
    if "utf-8" in message.lower() or "unicode" in message.lower():
        return f"{name!r}{where} is not text in UTF-8. Save it as UTF-8."
    first = next((p for p in lines if not p.startswith(("CSV Error on Line", "Original Line"))), lines[0])
    what = re.sub(r"^(Invalid Input|IO|Binder|Conversion|Parser) Error:\s*", "", first)
    return f"{name!r}{where} cannot be used: {what[:300].rstrip('.')}."
