"""How every engine makes a frame of a table in memory, and how a frame is read back as plain values.

A test writes its table once, as pyarrow's, where null and NaN differ and every column has a type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

IN_MEMORY = ("pandas", "pandas-nullable", "pandas-pyarrow", "polars", "polars-lazy", "pyarrow", "duckdb")
Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Engine:
    """One kind of frame; ``session`` is Spark's."""

    name: str
    session: Any = None

    def make(self, table: pa.Table | None = None, /, **columns: Any) -> Any:
        """The table as this engine holds it; of keywords, a table of those columns."""
        table = pa.table(columns) if table is None else table
        return _KINDS[self.name][1](table, self.session)

    def read(self, frame: Any) -> Columns:
        """Every column as Python's values, null as None, once it is sure that the frame is of this kind."""
        assert self.is_kind_of(frame), f"{type(frame)} is not of the kind {self.name}"
        return _KINDS[self.name][2](frame)

    def is_kind_of(self, frame: Any) -> bool:
        """Whether a frame is one of this engine's; of Spark's, by name, as it may not be installed."""
        if self.name == "spark":
            return type(frame).__module__.startswith("pyspark.sql") and type(frame).__name__ == "DataFrame"
        return type(frame) is _KINDS[self.name][0]

    def types(self, frame: Any) -> dict[str, str]:
        """The type of every column, in the engine's own words."""
        if self.name == "spark":
            return dict(frame.dtypes)
        if self.name == "pyarrow":
            return {f.name: str(f.type) for f in frame.schema}
        if self.name == "polars-lazy":
            return {n: str(t) for n, t in frame.collect_schema().items()}
        return {n: str(t) for n, t in zip(frame.columns, frame.dtypes, strict=True)}

    def __repr__(self) -> str:
        return self.name


def same_values(one: Columns, two: Columns) -> bool:
    """Equal names in equal order, and equal values; NaN is itself, 1 is not True."""
    return list(one) == list(two) and all(
        len(one[n]) == len(two[n]) and all(map(_same, one[n], two[n])) for n in one
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and a == b


def _pandas(table: pa.Table, _: Any) -> pd.DataFrame:
    """numpy's types, where they can hold the column: whole numbers and truth values with gaps need pandas' own."""
    made = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        gaps = column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type))
        made[name] = _nullable(column) if gaps else column.to_pandas()
    return pd.DataFrame(made, columns=table.column_names)


def _pandas_nullable(table: pa.Table, _: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {n: _nullable(c) for n, c in zip(table.column_names, table.columns, strict=True)},
        columns=table.column_names,
    )


def _nullable(column: pa.ChunkedArray) -> Any:
    """pandas' own types, which tell null from NaN."""
    kind = column.type
    if pa.types.is_floating(kind):
        mask = column.is_null().to_numpy()
        values = column.fill_null(0.0).to_numpy().astype(kind.to_pandas_dtype())
        return pd.arrays.FloatingArray(values, mask.copy())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        dtype = "boolean" if pa.types.is_boolean(kind) else str(kind).replace("i", "I").replace("u", "U")
        return pd.array(column.to_pylist(), dtype=dtype)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pd.array(column.to_pylist(), dtype="string")
    return column.to_pandas()


def _pandas_pyarrow(table: pa.Table, _: Any) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def _duckdb(table: pa.Table, _: Any) -> duckdb.DuckDBPyRelation:
    """On a connection of its own, so that no other could answer."""
    return duckdb.connect().from_arrow(table)


def _spark(table: pa.Table, session: Any) -> Any:
    """By pyarrow, straight into the JVM. Spark would read times without a zone as times of the session's."""
    plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    numbered = session.createDataFrame(pa.table(plain, names=[f"c{i}" for i in range(len(plain))]))
    naive = [pa.types.is_timestamp(c.type) and c.type.tz is None for c in plain]
    cast = [
        numbered[f"c{i}"].cast("timestamp_ntz") if is_ else numbered[f"c{i}"] for i, is_ in enumerate(naive)
    ]
    return numbered.select(*cast).toDF(*table.column_names)


def _from_pandas(frame: pd.DataFrame) -> Columns:
    return {n: [_plain(v) for v in frame.iloc[:, i].tolist()] for i, n in enumerate(frame.columns)}


def _from_polars(frame: pl.DataFrame) -> Columns:
    return {s.name: s.to_list() for s in frame.iter_columns()}


def _from_duckdb(relation: duckdb.DuckDBPyRelation) -> Columns:
    rows = relation.fetchall()
    return {n: [row[i] for row in rows] for i, n in enumerate(relation.columns)}


def _from_spark(frame: Any) -> Columns:
    rows = frame.collect()
    return {n: [row[i] for row in rows] for i, n in enumerate(frame.columns)}


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        return value.item()
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) else value


#: The class of a frame, how it is made of a pyarrow table, and how it is read.
_KINDS: dict[str, Any] = {
    "pandas": (pd.DataFrame, _pandas, _from_pandas),
    "pandas-nullable": (pd.DataFrame, _pandas_nullable, _from_pandas),
    "pandas-pyarrow": (pd.DataFrame, _pandas_pyarrow, _from_pandas),
    "polars": (pl.DataFrame, lambda table, _: pl.DataFrame(table), _from_polars),
    "polars-lazy": (pl.LazyFrame, lambda table, _: pl.LazyFrame(table), lambda f: _from_polars(f.collect())),
    "pyarrow": (pa.Table, lambda table, _: table, lambda t: {n: t[n].to_pylist() for n in t.column_names}),
    "duckdb": (duckdb.DuckDBPyRelation, _duckdb, _from_duckdb),
    "spark": (None, _spark, _from_spark),
}
