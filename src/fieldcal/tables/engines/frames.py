"""Tables in memory (pandas, polars, pyarrow) and polars' LazyFrame: DuckDB runs the statements, columns pass as Arrow.

Only columns that a statement uses are passed. New columns go back by position, so that index and rows stay as they are.
A LazyFrame is read in batches, as often as a statement needs its rows, and is never held whole.
"""

from __future__ import annotations

import functools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import group_keys
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines.base import OBJECTS, Table, Type
from fieldcal.tables.engines.duckdb import arrow_type, as_arrow, as_table, fetched
from fieldcal.tables.files.duckdb_errors import translated
from fieldcal.tables.rows import TABLE, Rows

_BATCH = 1_000_000  # rows of a LazyFrame that are worked on at once


_POLARS = (1, 37)  # before, an error while batches were read was lost, and the rest of the rows with it
_here = threading.local()


@functools.cache
def _database() -> Any:
    """One database in memory for all frames of this process."""
    import duckdb

    folder = os.path.join(tempfile.gettempdir(), f"fieldcal-{os.getpid()}")
    settings: dict[str, Any] = {"temp_directory": folder}
    settings |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return duckdb.connect(config=settings)


def _connection(*, streams: bool = False) -> Any:
    """A connection of this thread: polars works on several batches at once.

    ``streams``: whether the rows come in batches of unknown number. DuckDB would take them for few, and hold
    all of them as the side of a join that is looked up.
    """
    name = "of_streams" if streams else "of_tables"
    if not hasattr(_here, name):
        made = _database().cursor()
        made.execute("SET enable_progress_bar = false")
        if streams:
            made.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        setattr(_here, name, made)
    return getattr(_here, name)


class Frame(Table):
    """A table in memory."""

    lazy: ClassVar[bool] = False

    def __init__(self, native: Any, library: Library) -> None:
        super().__init__(library.names(native))
        self.native, self.library = native, library
        self._columns: dict[int, Any] = {}
        self._types: dict[int, Type] = {}

    def dtype(self, name: str) -> Type:
        """Of a column as Arrow holds it."""
        k = self.names.index(name)
        if k not in self._types:
            self._types[k] = self._find_type(k)
        return self._types[k]

    def _find_type(self, k: int) -> Type:
        kept = self.library.kind(self.native, k)
        return kept if kept is not None else type_of_arrow(self._arrow(k).type)

    def _arrow(self, k: int) -> Any:
        if k not in self._columns:
            self._columns[k] = self.library.column(self.native, k)
        return self._columns[k]

    def give(self, name: str, numbers: Any, absent: Any) -> None:
        """Let statements find these numbers in a column, null where they are absent."""
        import pyarrow as pa

        k = self.names.index(name)
        self._columns[k], self._types[k] = (
            pa.array(numbers, pa.int64(), mask=absent),
            Type("integer", "BIGINT"),
        )

    def column(self, name: str) -> Expr:
        """By its number, which is a name in every engine."""
        k = self.names.index(name)
        self._arrow(k)
        return self.backend.column(f"c{k}")

    def collect(self, rows: Rows) -> dict[str, Any]:
        """Arrays where DuckDB's are exact, lists elsewhere."""
        with translated("the table"):
            return fetched(self._run(rows.statement(), rows.small and as_table(rows.small)))

    def _run(self, statement: str, small: Any) -> Any:
        import pyarrow as pa

        columns = {f"c{k}": column for k, column in self._columns.items()}
        columns[self.row] = np.arange(self.library.length(self.native))
        return _answer(pa.table(columns), statement, small)

    def numbered(self, rows: Rows) -> Rows:
        """Rows bring their number."""
        return rows

    def finish(self, rows: Rows, new: Mapping[str, Expr]) -> Any:
        """The table, and columns that were worked out beside it."""
        return self._extended(*self._beside(rows, new))

    def _beside(self, rows: Rows, new: Mapping[str, Expr]) -> tuple[str, Any, list[str]]:
        """A statement that gives each row's number and its new columns, the small table, and their names."""
        helpers = [self.helper(f"new_{k}") for k in range(len(new))]
        made = dict(zip([self.row, *helpers], [self.backend.column(self.row), *new.values()], strict=True))
        return rows.select(made).statement(), rows.small and as_table(rows.small), list(new)

    def _extended(self, statement: str, small: Any, names: list[str]) -> Any:
        with translated("the table"):
            answer = as_arrow(self._run(statement, small))
        row, columns = answer.column(0).to_numpy(), answer.columns[1:]
        if not (row[1:] > row[:-1]).all():
            columns = [_in_order(column, row) for column in columns]
        return self.library.extended(self.native, dict(zip(names, columns, strict=True)))

    def taken(self, rows: Rows) -> Any:
        """By their numbers."""
        found = self.collect(rows.select({self.row: self.backend.column(self.row)}))
        return self.at(found[self.row].tolist())

    def at(self, places: Sequence[int]) -> Any:
        """The rows at these positions."""
        return self.library.take(self.native, list(places))

    def values(self, name: str) -> Any:
        """All values of a column, as its library gives them to Python."""
        return self.library.values(self.native, self.names.index(name))


def _answer(__fieldcal_source: Any, statement: str, __fieldcal_small: Any) -> Any:
    """A relation over Arrow's data; the small table is found by its name."""
    relation = _connection(streams=not hasattr(__fieldcal_source, "num_rows")).from_arrow(__fieldcal_source)
    answer = relation.query(TABLE, statement)
    del __fieldcal_small
    return answer


def _in_order(column: Any, row: Any) -> Any:
    """A column of Arrow's, each value at the number of its row."""
    import pyarrow as pa

    if column.null_count == 0 and pa.types.is_floating(column.type):
        values = np.empty(len(row))
        values[row] = column.to_numpy()
        return pa.chunked_array([values])
    place = np.empty(len(row), dtype=np.int64)
    place[row] = np.arange(len(row))
    return column.combine_chunks().take(place)


def type_of_arrow(kind: Any) -> Type:
    """The type of a column of Arrow."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_timestamp(kind):
        return Type("time", str(kind), kind.tz, kind.unit)
    tests: dict[str, Callable[[Any], bool]] = {
        "integer": is_.is_integer,
        "float": is_.is_floating,
        "decimal": is_.is_decimal,
        "bool": is_.is_boolean,
        "date": is_.is_date,
        "null": is_.is_null,
    }
    if is_.is_string(kind) or is_.is_large_string(kind) or str(kind) == "string_view":
        return Type("text", "String")
    return Type(next((family for family, holds in tests.items() if holds(kind)), "other"), str(kind))


def _plain_arrow(column: Any) -> Any:
    """A column of types that DuckDB takes: categories are their text, times the clock of their zone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pc.local_timestamp(column)
    return column.cast(pa.float32()) if pa.types.is_float16(kind) else column


class Library:
    """pyarrow's tables, and what other libraries spell differently."""

    def names(self, native: Any) -> list[Any]:
        """Of the columns."""
        return list(native.column_names)

    def length(self, native: Any) -> int:
        """How many rows."""
        return len(native)

    def kind(self, native: Any, k: int) -> Type | None:
        """The type of a column, where that of `column` would be another one."""
        import pyarrow as pa

        kind = native.column(k).type
        if pa.types.is_timestamp(kind):
            return type_of_arrow(kind)
        if not pa.types.is_dictionary(kind):
            return None
        return (
            None
            if pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)
            else OBJECTS
        )

    def column(self, native: Any, k: int) -> Any:
        """As Arrow's."""
        return _plain_arrow(native.column(k))

    def values(self, native: Any, k: int) -> Any:
        """As Python's."""
        return native.column(k).to_pylist()

    def take(self, native: Any, places: list[int]) -> Any:
        """Some rows."""
        return native.take(places)

    def extended(self, native: Any, new: Mapping[str, Any]) -> Any:
        """With new columns, which are Arrow's."""
        for name, column in new.items():
            native = native.append_column(name, column)
        return native


class Polars(Library):
    """polars' DataFrame."""

    def names(self, native: Any) -> list[Any]:
        """Of the columns."""
        return list(native.columns)

    def kind(self, native: Any, k: int) -> Type | None:
        """Times of a zone are passed without it, and objects not at all."""
        import polars as pl

        dtype = native.dtypes[k]
        if dtype == pl.Object:
            return OBJECTS
        if isinstance(dtype, pl.Datetime):
            return Type("time", str(dtype), dtype.time_zone, dtype.time_unit)
        return None

    def column(self, native: Any, k: int) -> Any:
        """As Arrow's, text without a copy."""
        import polars as pl

        series = native.to_series(k)
        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        return _plain_arrow(series.to_arrow())

    def values(self, native: Any, k: int) -> Any:
        """As Python's."""
        return native.to_series(k).to_list()

    def take(self, native: Any, places: list[int]) -> Any:
        """Some rows."""
        return native[places]

    def extended(self, native: Any, new: Mapping[str, Any]) -> Any:
        """With new columns, which are Arrow's."""
        import polars as pl

        return native.with_columns(*(pl.Series(name, pl.from_arrow(column)) for name, column in new.items()))


class Pandas(Library):
    """pandas' DataFrame."""

    def names(self, native: Any) -> list[Any]:
        """Of the columns."""
        return list(native.columns)

    def kind(self, native: Any, k: int) -> Type | None:
        """Objects that are neither text nor decimals have no type in Arrow."""
        dtype = native.dtypes.iloc[k]
        if str(dtype) == "category":
            return None if _has_text(native.iloc[:, k]) else OBJECTS
        if "timestamp" in str(dtype):
            return type_of_arrow(dtype.pyarrow_dtype)
        if getattr(dtype, "tz", None) is not None:
            return Type("time", str(dtype), str(dtype.tz), dtype.unit)
        if str(dtype) != "object":
            return None
        return {"text": None, "decimal": Type("decimal", "Decimal")}.get(_held(native.iloc[:, k]), OBJECTS)

    def column(self, native: Any, k: int) -> Any:
        """As Arrow's; objects as their text, decimals as fractions."""
        import pyarrow as pa

        series = native.iloc[:, k]
        held = _held(series) if str(series.dtype) == "object" else ""
        if held == "decimal":
            return pa.array([None if group_keys.is_null(v) else float(v) for v in series], pa.float64())
        if held or (str(series.dtype) == "category" and not _has_text(series)):
            return pa.array([None if group_keys.is_null(v) else str(v) for v in series], pa.string())
        found = pa.array(series, from_pandas=True)
        return _plain_arrow(found)

    def values(self, native: Any, k: int) -> Any:
        """As Python's."""
        return native.iloc[:, k].tolist()

    def take(self, native: Any, places: list[int]) -> Any:
        """Some rows."""
        return native.iloc[places]

    def extended(self, native: Any, new: Mapping[str, Any]) -> Any:
        """With new columns, which are Arrow's, whatever the index is: whole numbers and truth values may have gaps."""
        import pandas as pd

        made = native.copy(deep=False)
        for name, column in new.items():
            series = column.to_pandas()
            if column.null_count:
                kind = {"int64": pd.Int64Dtype(), "bool": pd.BooleanDtype()}.get(str(column.type))
                series = series if kind is None else pd.array(column.to_pylist(), dtype=kind)
            # As an array: a series would be aligned by its index.
            held = np.asarray(series) if kind_of(series) else getattr(series, "array", series)
            made.insert(len(made.columns), name, held)
        return made


def kind_of(series: Any) -> bool:
    """Whether numpy holds the values as pandas does."""
    return isinstance(series.dtype, np.dtype)


def _held(series: Any) -> str:
    """What a column of objects holds: text, decimals or anything."""
    values = [v for v in series.tolist() if not group_keys.is_null(v)]
    if all(isinstance(v, str) for v in values):
        return "text"
    return "decimal" if all(isinstance(v, Decimal) for v in values) else "anything"


def _has_text(series: Any) -> bool:
    """Whether the categories of a column are text."""
    return all(isinstance(c, str) for c in series.cat.categories)


class LazyPolars(Frame):
    """polars' LazyFrame: batches pass through DuckDB, and what is made of them is another LazyFrame."""

    lazy: ClassVar[bool] = True

    def __init__(self, native: Any) -> None:
        import polars as pl

        if tuple(map(int, pl.__version__.split(".")[:2])) < _POLARS:
            raise InputError(
                f"A LazyFrame is read in batches, which polars {pl.__version__} ends without a word where an error "
                "occurs. Collect it first, or upgrade: pip install 'polars>=1.37'."
            )
        self.lazy_frame = native
        super().__init__(pl.DataFrame(schema=native.collect_schema()), Polars())

    def _run(self, statement: str, small: Any) -> Any:
        import pyarrow as pa

        used = [(f"c{k}", column.type) for k, column in self._columns.items()]
        schema = pa.schema([*used, (self.row, pa.int64())])
        return _answer(pa.RecordBatchReader.from_batches(schema, self._batches(schema)), statement, small)

    def _batches(self, schema: Any) -> Iterator[Any]:
        """The used columns and the row's number, so many rows at a time."""
        import polars as pl
        import pyarrow as pa

        start, columns = 0, [pl.col(self.names[k]) for k in self._columns] or [pl.lit(0).repeat_by(1)]
        for batch in self.lazy_frame.select(*columns).collect_batches(chunk_size=_BATCH):
            held = [self.library.column(batch, k) for k in range(len(self._columns))]
            table = pa.table([*held, np.arange(start, start + len(batch))], names=schema.names)
            yield from table.cast(schema).to_batches()
            start += len(batch)

    def finish(self, rows: Rows, new: Mapping[str, Expr]) -> Any:
        """Another LazyFrame; nothing is read."""
        made, used = self._beside(rows, new), list(self._columns)

        def extended(batch: Any) -> Any:
            part = Frame(batch, self.library)
            for k in used:
                part.column(self.names[k])
            return part._extended(*made)

        return self.lazy_frame.map_batches(extended, schema=extended(self.native).schema, streamable=True)

    def at(self, places: Sequence[int]) -> Any:
        """The rows at these positions, which are read once more."""
        import polars as pl

        found = self.lazy_frame.with_row_index(self.row).filter(pl.col(self.row).is_in(list(places)))
        order = pl.DataFrame({self.row: list(places)}, schema={self.row: pl.UInt32})
        return order.join(
            found.collect(engine="streaming"), on=self.row, how="left", maintain_order="left"
        ).drop(self.row)


def library_of(native: Any) -> Library:
    """How the library of a table in memory spells things."""
    found = {"pandas": Pandas, "polars": Polars}
    names = [cls.__module__.partition(".")[0] for cls in type(native).__mro__]
    return next((found[name]() for name in names if name in found), Library())


def in_another_order(native: Any, places: Any) -> Any:
    """The rows of a table in memory at these positions."""
    return library_of(native).take(native, places.tolist())


def with_lists(native: Any, new: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> Any:
    """A table in memory with new columns of Python's values, text by default."""
    import pyarrow as pa

    made = {n: pa.array(values, arrow_type(types.get(n, "VARCHAR"))) for n, values in new.items()}
    return library_of(native).extended(native, made)
