"""recalibrate on tables: the user's table as it was, with new columns at its end."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
import types

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import InputError, InputTypeError, UnseenGroupWarning
from tables import truth
from tables.engines import Engine


@functools.cache
def rows(n=120):
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "note": pa.array([None if i % 5 == 0 else f"é {i}" for i in range(n)]),
            "p": rng.uniform(size=n),
            "town": pa.array(rng.choice(np.array(["York", "Leeds", None], dtype=object), n), pa.string()),
            "n": pa.array(rng.integers(0, 9, n), pa.int8()),
            "x": pa.array(
                [math.nan if i % 4 == 0 else None if i % 7 == 0 else i / 3 for i in range(n)], pa.float32()
            ),
        }
    )


@functools.cache
def prevalence(*by):
    return truth.estimate(truth.binary_lab(), rows(), by)


def test_fault_47_pandas_rows_are_aligned_by_position_and_the_index_is_kept():
    for index in (
        [5] * 6,
        [3, 1, 2, 0, 5, 4],
        list("bacfed"),
        pd.MultiIndex.from_product([[1, 2], ["a", "b", "c"]]),
    ):
        for dtypes in ("pandas", "pandas-nullable", "pandas-pyarrow"):
            for by in ((), ("town",)):
                some = rows().slice(0, 6)
                frame = Engine(dtypes).make(some).set_axis(index)
                new = tables.recalibrate(prevalence(*by), frame)
                assert new.index.equals(frame.index)
                truth.assert_same_values(
                    Engine(dtypes).read(new), ["p_recalibrated"], truth.recalibrate(prevalence(*by), some)
                )
                truth.assert_same_counts(
                    tables.count(truth.binary_lab(), frame, by=by), truth.count(truth.binary_lab(), some, by)
                )


def test_rows_of_a_slice_a_chunked_table_and_a_wrapped_frame_keep_their_order():
    prev, expected = prevalence("town"), truth.recalibrate(prevalence("town"), rows())[::3]
    part = tables.recalibrate(prev, Engine("pandas").make(rows()).iloc[::3])
    assert part.index.tolist() == list(range(0, 120, 3))
    np.testing.assert_allclose(part["p_recalibrated"], expected[:, 0], rtol=0, atol=1e-12)
    chunked = pa.concat_tables([rows().slice(i, 17) for i in range(0, 120, 17)])
    truth.assert_same_values(
        Engine("pyarrow").read(tables.recalibrate(prev, chunked)),
        ["p_recalibrated"],
        truth.recalibrate(prev, rows()),
    )
    wrapped = types.SimpleNamespace(to_native=lambda: pl.DataFrame(rows()))  # as narwhals does
    assert isinstance(tables.recalibrate(prevalence(), wrapped), pl.DataFrame)


def test_what_is_no_table_and_options_that_cannot_be_are_refused():
    for frame in (np.zeros((3, 2)), {"p": [0.2]}, [0.2], None, "field.parquet"):
        with pytest.raises(InputTypeError, match=r"Expected a table \(pandas.*fieldcal\.tables\.files"):
            tables.recalibrate(prevalence(), frame)
        with pytest.raises(InputTypeError, match="Expected a table"):
            tables.count(truth.binary_lab(), frame)
    for options, message in (
        ({"unseen": "ignore"}, "'global', 'raw' or 'error'"),
        ({"missing": "drop"}, "'error' or 'keep'"),
        ({"unseen": "error", "check": False}, "needs check=True"),
        ({"scores": "q"}, "no column 'q' for the scores"),
        ({"scores": ["p", "x", "n"]}, "3 columns of scores for 2 classes"),
        ({"by": "city"}, "no column 'city' for the groups"),
    ):
        with pytest.raises(InputError, match=message):
            tables.recalibrate(prevalence("town"), rows(), **options)


class TouchedError(Exception):
    """The table was read."""


def untouchable_polars(_):
    def read(*_):
        raise TouchedError("the table was read")

    return pl.LazyFrame({"p": [0.5], "town": ["York"]}).map_batches(
        read, schema={"p": pl.Float64, "town": pl.String}
    )


def untouchable_duckdb(_):
    words = "CASE WHEN random() < 2 THEN error('the table was read') END"
    return duckdb.connect().sql(f"SELECT CAST({words} AS DOUBLE) AS p, 'York' AS town")


def untouchable_spark(request):
    session = request.getfixturevalue("spark")
    return session.range(1).selectExpr(
        "CASE WHEN rand() < 2 THEN raise_error('the table was read') END :: double AS p", "'York' AS town"
    )


@pytest.mark.parametrize(
    "make", [untouchable_polars, untouchable_duckdb, pytest.param(untouchable_spark, marks=pytest.mark.slow)]
)
def test_without_a_check_nothing_of_a_lazy_table_is_read(request, make):
    for by in ((), ("town",)):
        frame = make(request)
        new = tables.recalibrate(prevalence(*by), frame, check=False)
        assert type(new) is type(frame)
        with pytest.raises(Exception, match="the table was read"):
            new.collect() if hasattr(new, "collect") else new.fetchall()
        with pytest.raises(Exception, match="the table was read"):
            tables.recalibrate(prevalence(*by), frame)


def test_a_relation_stays_on_the_users_own_connection():
    connection = duckdb.connect()
    connection.execute("CREATE TEMP TABLE log AS SELECT i / 10.0 AS p, 'York' AS town FROM range(11) t(i)")
    tables.recalibrate(prevalence("town"), connection.table("log")).create("answer")
    assert connection.table("answer").columns == ["p", "town", "p_recalibrated"]
    assert len(connection.table("answer").fetchall()) == 11
    left = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert left == {"log", "answer"}, "nothing of ours is left in the database"
    assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)


def test_order_is_kept_on_duckdb_with_many_threads_and_on_polars_in_batches():
    connection = duckdb.connect()
    connection.execute("SET threads = 4")
    query = "SELECT i, (i % 1000) / 1000.0 AS p, 'g' || (i * 7919 % 5000) AS town FROM range(300000) t(i)"
    relation = connection.sql(query)
    field = tables.count(truth.binary_lab(), relation, by="town")
    prev = fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN)
    new = tables.recalibrate(prev, relation).fetchnumpy()
    np.testing.assert_array_equal(new["i"], np.arange(300_000))
    frame = pl.LazyFrame(pl.from_arrow(relation.to_arrow_table()))
    for streaming in ("streaming", "in-memory"):
        read = tables.recalibrate(prev, frame).collect(engine=streaming)
        np.testing.assert_array_equal(read["i"], np.arange(300_000))
        np.testing.assert_array_equal(read["p_recalibrated"], new["p_recalibrated"])


PEAK = """
import resource, sys
import polars as pl
import fieldcal
from fieldcal import tables
log = pl.scan_parquet([sys.argv[1]] * int(sys.argv[2]))
lab = fieldcal.datasets.example().lab
field = tables.count(lab, log, scores="p", by="g")
prev = fieldcal.estimate(lab, field, prior="flat", point="mode", level=None, trust=1)
tables.recalibrate(prev, log, scores="p", by="g", acknowledge=True).sink_parquet(sys.argv[1] + ".new")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_of_a_lazy_frame(tmp_path):
    path = tmp_path / "log.parquet"
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2_000_000)
    pl.DataFrame({"p": p, "g": rng.integers(0, 500, len(p)), "note": ["x" * 20] * len(p)}).write_parquet(path)
    peaks = []
    for copies in (2, 8):
        given = [sys.executable, "-W", "ignore", "-c", PEAK, str(path), str(copies)]
        done = subprocess.run(given, capture_output=True, text=True, check=True, timeout=300)
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 250, f"{peaks} MB for 4 and 16 million rows, of which twelve are 400 MB"


def mixed_rows(n_classes):
    """Scores, some of them certain, in groups of which the estimate never sees two."""
    rng = np.random.default_rng(n_classes)
    proba = np.vstack([rng.dirichlet(np.ones(n_classes), 60), np.eye(n_classes)])
    towns = np.array(["York", "Leeds", None, "Hull", "Ripon"], dtype=object)[np.arange(len(proba)) % 5]
    scores = {"p": proba[:, 1]} if n_classes == 2 else dict(zip(truth.NAMES, proba.T, strict=False))
    return pa.table({**scores, "town": pa.array(towns, pa.string())})


@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_every_engine_mixes_as_arrays_do_whatever_the_trust(engine):
    for unseen in ("global", "raw"):
        for n_classes in (2, 3):
            lab = truth.binary_lab() if n_classes == 2 else truth.wide_lab(n_classes)
            table, names = mixed_rows(n_classes), lab.columns.scores
            seen = [town not in ("Hull", "Ripon") for town in table["town"].to_pylist()]
            prev, frame = truth.estimate(lab, table.filter(pa.array(seen)), ["town"]), engine.make(table)
            old, strange = truth.proba(table, names).reshape(len(table), -1), ~np.array(seen)
            for trusts in truth.TRUSTS[:3] if engine.name == "spark" or unseen == "raw" else truth.TRUSTS:
                given = truth.trusted(prev, *trusts)
                new = engine.read(tables.recalibrate(given, frame, unseen=unseen))
                truth.assert_same_values(
                    new, [f"{n}_recalibrated" for n in names], truth.recalibrate(given, table, unseen=unseen)
                )
                got = np.column_stack([new[f"{n}_recalibrated"] for n in names])
                np.testing.assert_array_equal(got[(old == 0) | (old == 1)], old[(old == 0) | (old == 1)])
                left = strange if unseen == "raw" else strange & (trusts[0] == 0)
                np.testing.assert_array_equal(got[left], old[left])
                if trusts == (0.0, 0.0):
                    np.testing.assert_array_equal(got, old)


def test_spark_runs_no_python_and_brings_groups_to_it_and_no_rows(spark, monkeypatch):
    frame = Engine("spark", spark).make(rows())
    new = tables.recalibrate(prevalence("town"), frame, check=False)
    plan = new._jdf.queryExecution().toString()
    for python in ("PythonUDF", "BatchEvalPython", "ArrowEvalPython", "MapInPandas", "FlatMapGroups"):
        assert python not in plan
    assert "BroadcastHashJoin" in plan
    assert "SortMergeJoin" not in plan
    assert "Exchange hashpartitioning" not in plan, "rows of the big table are moved"
    one = tables.recalibrate(prevalence(), frame, check=False)._jdf.queryExecution().toString()
    assert "Join" not in one
    # The largest answer that is collected has as many rows as there are groups.
    frame, sizes = Engine("spark", spark).make(rows()), []
    kind = type(frame)
    monkeypatch.setattr(kind, "collect", _spy(kind, sizes))
    for taken in ("toPandas", "toArrow", "take", "head", "toLocalIterator"):
        monkeypatch.setattr(kind, taken, _refused(taken))
    field = tables.count(truth.binary_lab(), frame, by="town")
    tables.recalibrate(fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN), frame)
    assert sizes
    assert max(sizes) == len(field.groups) == 3


def _spy(kind, sizes):
    collect = kind.collect

    def spy(self, *args):
        answer = collect(self, *args)
        sizes.append(len(answer))
        return answer

    return spy


def _refused(name):
    def refuse(*_args, **_options):
        raise AssertionError(f"{name} was called")

    return refuse


@pytest.mark.conformance
def test_missing_scores_are_refused_with_their_number_or_stay_missing(engine):
    table = pa.table({"p": pa.array([0.2, None, 0.7, math.nan]), "town": ["York", "York", "Leeds", "Leeds"]})
    frame = engine.make(table)
    with pytest.raises(InputError, match=r"2 of 4 rows have no score .*missing='keep'"):
        tables.recalibrate(prevalence("town"), frame)
    new = engine.read(tables.recalibrate(prevalence("town"), frame, missing="keep"))
    truth.assert_same_values(
        new, ["p_recalibrated"], truth.recalibrate(prevalence("town"), table, missing="keep")
    )
    if not engine.name.startswith("pandas"):  # where the new column is of numpy's floats, which have no null
        assert [v is None for v in new["p_recalibrated"]] == [False, True, False, True]


def test_without_a_check_what_is_no_score_becomes_null_and_the_rest_is_right(engine):
    table = pa.table({"p": pa.array([0.2, None, 7.0, math.nan, -0.5, 0.9, math.inf]), "town": ["York"] * 7})
    answer = tables.recalibrate(prevalence("town"), engine.make(table), check=False)
    new = engine.read(answer)["p_recalibrated"]
    good = truth.recalibrate(prevalence("town"), table.take([0, 5]))[:, 0]
    assert [i for i in range(7) if new[i] is not None and not math.isnan(new[i])] == [0, 5]
    np.testing.assert_allclose([new[0], new[5]], good, rtol=0, atol=1e-12)


def test_certainty_stays_even_of_a_class_that_the_estimate_rules_out(engine):
    lab = fieldcal.learn(np.repeat([0.1, 0.9], 50), np.repeat([0, 1], 50), smoothing=0, partition=2)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, np.full(30, 0.1)), **truth.PLAIN)
    assert prev.urc[0, 1] == 0
    frame = engine.make(p=[0.0, 0.5, 1.0], q=[1.0, 0.5, 0.0])
    new = engine.read(tables.recalibrate(prev, frame, scores="p"))["p_recalibrated"]
    np.testing.assert_allclose(new, [0.0, 0.0, 1.0], rtol=0, atol=1e-12)
    both = engine.read(tables.recalibrate(prev, frame, scores=["q", "p"]))
    np.testing.assert_allclose(both["p_recalibrated"], [0.0, 0.0, 1.0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(both["q_recalibrated"], [1.0, 1.0, 0.0], rtol=0, atol=1e-12)


@pytest.mark.conformance
def test_the_smallest_scores_give_numbers_in_every_engine(local_engine):
    for tiny in (5e-324, 1e-310, 1e-200):
        table = pa.table({"p": [tiny, 1 - 1e-16], "town": ["York", "Leeds"]})
        new = local_engine.read(tables.recalibrate(prevalence("town"), local_engine.make(table)))
        truth.assert_same_values(new, ["p_recalibrated"], truth.recalibrate(prevalence("town"), table))


def test_bin_ids_are_no_predictions(local_engine):
    lab = truth.id_lab()
    frame = local_engine.make(bin=[0, 1, 2, 3])
    prev = fieldcal.estimate(lab, tables.count(lab, frame), **truth.PLAIN)
    with pytest.raises(InputError, match="Bin ids in a table are not recalibrated"):
        tables.recalibrate(prev, frame)


def test_names_that_the_table_has_are_refused_and_those_of_another_case_are_others(local_engine, engine):
    for name in ("p", "town", "{}", "note"):
        taken = "p" if name == "{}" else name
        with pytest.raises(InputError, match=rf"would be named '{taken}', which the table already has"):
            tables.recalibrate(prevalence(), local_engine.make(rows()), name=name)
    # DuckDB and Spark fold case.
    for name in ("P", "P_RECALIBRATED"):
        frame = engine.make(pa.table({"p": [0.2, 0.4], "p_recalibrated": [1.0, 2.0]}))
        new = engine.read(tables.recalibrate(prevalence(), frame, name=name))
        assert list(new) == ["p", "p_recalibrated", name]
        assert new["p_recalibrated"] == [1.0, 2.0]


def test_an_estimate_from_arrays_needs_the_group_column_of_whatever_width(local_engine):
    lab = truth.binary_lab()
    field = fieldcal.count(lab, truth.proba(rows(), ["p"]), groups=truth.groups(rows(), ["town"]))
    prev = fieldcal.estimate(lab, field, **truth.PLAIN)
    with pytest.raises(InputError, match=r"per group \(3 of them\), counted from arrays: pass by="):
        tables.recalibrate(prev, local_engine.make(rows()))
    new = local_engine.read(tables.recalibrate(prev, local_engine.make(rows()), by="town"))
    truth.assert_same_values(new, ["p_recalibrated"], truth.recalibrate(prevalence("town"), rows()))
    # Counted as 8 bits, applied as 64.
    prev = truth.estimate(truth.binary_lab(), rows(), ["n"])
    wide = rows().set_column(3, "n", rows()["n"].cast(pa.int64()))
    new = local_engine.read(tables.recalibrate(prev, local_engine.make(wide)))
    truth.assert_same_values(new, ["p_recalibrated"], truth.recalibrate(prev, rows()))


def test_the_warning_of_unseen_groups_points_at_the_callers_line():
    with pytest.warns(UnseenGroupWarning) as caught:
        tables.recalibrate(prevalence("town"), pa.table({"p": [0.2], "town": ["Hull"]}), acknowledge=True)
    assert caught[0].filename == __file__
