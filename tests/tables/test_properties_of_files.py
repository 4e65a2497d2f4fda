"""A random table through a file of any writer gives the Field of the rows in memory, with every reader."""

from __future__ import annotations

import gzip
import math

import duckdb
import hypothesis.strategies as st
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from fieldcal import tables
from fieldcal.tables.files.session import Session
from tables import truth
from tables.test_properties import answer, random_tables
from tables.writers import CSV, PARQUET

relaxed = settings(deadline=None, derandomize=True, max_examples=24)


READERS = {
    "duckdb": lambda path: duckdb.connect().sql(f"SELECT * FROM '{path}'"),
    "polars-lazy": pl.scan_parquet,
    "polars": pl.read_parquet,
    "pandas": lambda path: pd.read_parquet(path, dtype_backend="pyarrow"),
    "pyarrow": pq.read_table,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.mark.slow
@relaxed
@given(case=random_tables(), writer=st.sampled_from(sorted(PARQUET)), reader=st.sampled_from(sorted(READERS)))
def test_a_table_through_parquet_is_the_table(folder, case, writer, reader):
    lab, table, by = case
    path = str(folder / "field.parquet")
    PARQUET[writer](table, path)
    expected = answer(lambda: truth.count(lab, table, by, missing="drop").to_json())
    frame = READERS[reader](path)
    assert answer(lambda: tables.count(lab, frame, by=by, missing="drop").to_json()) == expected
    assert by_session(lab, path, by) == expected


@pytest.mark.slow
@relaxed
@given(
    case=random_tables(),
    writer=st.sampled_from(sorted(CSV)),
    suffix=st.sampled_from(["csv", "csv.gz"]),
    towns=st.lists(st.text("aé01,;\"' \U0001f600", min_size=1).map("t".__add__), min_size=1, max_size=4),
)
def test_a_table_through_csv_is_the_table(folder, case, writer, suffix, towns):
    lab, table, by = case
    scores = [name for name in table.column_names if name not in by]
    plain = {n: [None if v is None or math.isnan(v) else v for v in table[n].to_pylist()] for n in scores}
    towns = [towns[i % len(towns)] for i in range(len(table))]
    table = pa.table(
        {n: pa.array(v, pa.float64()) for n, v in plain.items()} | {"town": pa.array(towns, pa.string())}
    )
    path = str(folder / "field.csv")
    CSV[writer](table, path)
    if suffix == "csv.gz":
        with open(path, "rb") as stream, gzip.open(f"{path}.gz", "wb") as target:
            target.write(stream.read())
        path = f"{path}.gz"
    expected = answer(lambda: truth.count(lab, table, ["town"], missing="drop").to_json())
    assert by_session(lab, path, ["town"]) == expected


def by_session(lab, path, by):
    with Session(threads=1) as session:
        source = session.open(path).bound(lab, by=by)
        return answer(lambda: tables.count(lab, source.relation, by=by, missing="drop").to_json())
