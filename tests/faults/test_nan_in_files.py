"""Fault 51: NaN in a Parquet file whose statistics leave it out, so that engines take guards for always true."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fieldcal
from fieldcal import tables
from fieldcal.errors import InputError
from fieldcal.tables.sql import count_statement, recalibrate_statement
from tables.writers import PARQUET

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
NAMES = {2: ["p"], 3: ["p_0", "p_1", "p_2"]}


def world(K):
    data = fieldcal.datasets.label_shift(n_lab=1500, n_field=200, p_lab=[1 / K] * K, random_state=K)
    columns = (lambda x: [x]) if K == 2 else (lambda x: list(x.T))
    rows = {
        part: pa.table(dict(zip(NAMES[K], columns(proba), strict=True)))
        for part, proba in (("lab", data.proba_lab), ("field", data.proba_field))
    }
    lab = tables.learn(rows["lab"].append_column("y", pa.array(data.y_lab)), scores=NAMES[K], label="y")
    return lab, rows["field"]


def with_nan(table, at, column=0):
    values = table[column].to_numpy().copy()
    values[at] = np.nan
    return table.set_column(column, table.column_names[column], pa.array(values, from_pandas=False))


@pytest.fixture(scope="module", params=[2, 3], ids=["one column", "three"])
def case(request):
    lab, rows = world(request.param)
    prev = fieldcal.estimate(lab, tables.count(lab, rows), trust=0.5)
    return lab, prev, rows, request.param


# Two writers whose statistics leave NaN out, one that writes none; the property below draws from all writers.
@pytest.fixture(params=["polars", "pyarrow", "pyarrow, plain"])
def path(request, case, tmp_path):
    target = tmp_path / "field.parquet"
    PARQUET[request.param](with_nan(case[2], [3, 77]), str(target))
    return target


def readers(path):
    connection = duckdb.connect()
    return {
        "duckdb": connection.sql(f"SELECT * FROM '{path}'"),
        "polars-lazy": pl.scan_parquet(path),
        "polars": pl.read_parquet(path),
        "pandas": pd.read_parquet(path),
        "pyarrow": pq.read_table(path),
    }


@pytest.mark.slow
def test_fault_51_nan_in_a_file_is_counted_as_missing_and_refused_by_every_engine(case, path):
    lab, prev, _, _ = case
    for name, frame in readers(path).items():
        with pytest.raises(InputError, match="2 of 200 rows have no score"):
            tables.count(lab, frame)
        with pytest.raises(InputError, match="2 of 200 rows have no score"):
            tables.recalibrate(prev, frame)
        field = tables.count(lab, frame, missing="drop")
        assert (field.n.tolist(), field.dropped) == ([198], 2), name


def test_fault_51_rows_that_are_kept_have_no_prediction_and_the_others_theirs(case, path):
    _, prev, rows, K = case
    expected = tables.recalibrate(prev, rows)
    for name, frame in readers(path).items():
        new = tables.recalibrate(prev, frame, missing="keep")
        new = new.collect() if hasattr(new, "collect") else new
        values = np.asarray(
            pl.DataFrame(new.arrow() if name == "duckdb" else new)[f"{NAMES[K][0]}_recalibrated"]
        )
        lost = np.isnan(values.astype(float))
        assert np.flatnonzero(lost).tolist() == [3, 77], name
        truth = expected[f"{NAMES[K][0]}_recalibrated"].to_numpy()
        np.testing.assert_allclose(values[~lost].astype(float), truth[~lost], rtol=1e-12)


def test_fault_51_the_printed_statements_find_it_too(case, path):
    lab, prev, _, K = case
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW leads AS SELECT * FROM '{path}'")
    cursor = connection.execute(count_statement(lab, "leads", dialect="duckdb", by=[], scores=NAMES[K]))
    found = dict(zip([c[0] for c in cursor.description], cursor.fetchall()[0], strict=True))
    assert (found["fieldcal_valid"], found["fieldcal_missing"], found["fieldcal_outside"]) == (198, 2, 0)
    statement = recalibrate_statement(prev, "leads", dialect="duckdb", scores=NAMES[K])
    cursor = connection.execute(statement)
    at = [c[0] for c in cursor.description].index(f"{NAMES[K][0]}_recalibrated")
    assert [i for i, row in enumerate(cursor.fetchall()) if row[at] is None] == [3, 77]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    odd=st.lists(st.sampled_from([np.nan, np.inf, -np.inf, 1.5, -0.2, 0.0, 1.0]), min_size=1, max_size=3),
    writer=st.sampled_from(sorted(PARQUET)),
    seed=st.integers(0, 99),
)
def test_fault_51_whatever_stands_in_a_file_is_judged_as_in_an_array(tmp_path_factory, odd, writer, seed):
    lab, rows = world(2)
    values = rows["p"].to_numpy().copy()
    at = np.random.default_rng(seed).choice(len(values), len(odd), replace=False)
    values[at] = odd
    path = tmp_path_factory.mktemp("odd") / "field.parquet"
    PARQUET[writer](pa.table({"p": pa.array(values, from_pandas=False)}), str(path))

    def judged(count, given):
        try:
            found = count(lab, given, missing="drop")
        except InputError:
            return "refused"
        return found.V.tolist(), found.dropped

    truth = judged(fieldcal.count, values)
    for name, frame in readers(path).items():
        assert judged(tables.count, frame) == truth, name
