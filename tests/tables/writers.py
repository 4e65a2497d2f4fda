"""Files as people write them: the same table by every library that our users have."""

from __future__ import annotations

import csv
from collections.abc import Callable

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tables.engines import Engine

Writer = Callable[[pa.Table, str], object]


def by_duckdb(table: pa.Table, path: str) -> None:
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute(f"COPY given TO '{path}' (FORMAT {'parquet' if path.endswith('parquet') else 'csv'})")


def by_python(table: pa.Table, path: str) -> None:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.column_names)
        writer.writerows(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


PARQUET: dict[str, Writer] = {
    "polars": lambda table, path: pl.from_arrow(table).write_parquet(path),
    "pyarrow": pq.write_table,
    "pyarrow, small groups": lambda table, path: pq.write_table(table, path, row_group_size=3),
    "pyarrow, plain": lambda table, path: pq.write_table(
        table, path, use_dictionary=False, write_statistics=False, compression="gzip"
    ),
    "pandas": lambda table, path: Engine("pandas-pyarrow").make(table).to_parquet(path),
    "duckdb": by_duckdb,
}
CSV: dict[str, Writer] = {
    "python": by_python,
    "pandas": lambda table, path: Engine("pandas").make(table).to_csv(path, index=False),
    "polars": lambda table, path: pl.from_arrow(table).write_csv(path),
    "pyarrow": pa.csv.write_csv,
    "duckdb": by_duckdb,
}
