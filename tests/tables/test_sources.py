"""Tables in files: what is read, in which order, and what is written."""

from __future__ import annotations

import gzip
import io
import sys

import duckdb
import numpy as np
import polars as pl
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.tables.files.session import Session


@pytest.fixture(scope="module")
def lab():
    data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    return tables.learn(
        pl.DataFrame({"p": data.proba_lab, "y": data.y_lab, "g": [f"g{i}" for i in data.groups_lab]}),
        scores="p",
        label="y",
        by="g",
    )


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(n),
            "p": rng.random(n),
            "g": [f"g{i}" for i in rng.integers(0, 5, n)],
            "x": rng.random(n),
        }
    )


def estimate(lab, field):
    return fieldcal.estimate(lab, field, trust=1, prior="flat", point="mode", level=None)


def test_a_parquet_file_of_many_row_groups_is_recalibrated_in_order(lab, session, tmp_path):
    rows = rows_of(300_000)
    rows.write_parquet(tmp_path / "log.parquet", row_group_size=2048)
    log = session.open(tmp_path / "log.parquet")
    prev = estimate(lab, tables.count(lab, log.relation))
    assert tables.recalibrate_file(prev, session, log, tmp_path / "out.parquet") == 300_000
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found.drop("p_recalibrated").equals(rows)
    expected = fieldcal.recalibrate(prev, rows["p"].to_numpy(), groups=rows["g"].to_list())
    np.testing.assert_allclose(found["p_recalibrated"].to_numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_several_files_are_one_table_in_the_order_of_their_names(lab, session, tmp_path, suffix):
    rows = rows_of(50_000)
    for i in range(5):
        getattr(rows[i * 10_000 : (i + 1) * 10_000], f"write_{suffix}")(tmp_path / f"part_{i}.{suffix}")
    log = session.open(str(tmp_path / f"part_*.{suffix}")).bound(lab)
    field = tables.count(lab, log.relation)
    assert field == tables.count(lab, rows)
    tables.recalibrate_file(estimate(lab, field), session, log, tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["id"].to_list() == list(range(50_000))


def test_names_with_stars_and_standard_input_are_tables(lab, session, tmp_path, monkeypatch):
    rows_of(10).write_parquet(tmp_path / "a*.parquet")
    rows_of(20).write_parquet(tmp_path / "ab.parquet")
    assert tables.count(lab, session.open(tmp_path / "a*.parquet").relation).n.sum() == 10
    rows = rows_of(50)
    rows.write_parquet(tmp_path / "log.parquet")
    text = rows.write_csv().encode()
    for data in ((tmp_path / "log.parquet").read_bytes(), text, gzip.compress(text)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert tables.count(lab, session.open("-").bound(lab).relation) == tables.count(lab, rows)


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.tsv", "out.parquet"])
def test_what_is_written_is_read_back_alike(session, tmp_path, name):
    rows_of(100).write_parquet(tmp_path / "log.parquet")
    log = session.open(tmp_path / "log.parquet")
    assert session.write(log.relation, tmp_path / name, sources=[log]) == 100
    again = session.open(tmp_path / name, scores=["p", "x"], by=["id", "g"]).relation
    assert again.fetchall() == log.relation.fetchall()


def test_what_spills_to_disk_is_gone_when_the_session_ends(tmp_path):
    with Session(temp_directory=tmp_path) as session:
        session.connection.execute("SELECT 1")
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_counts_of_a_warehouse_come_back_through_csv_and_parquet(lab, session, tmp_path):
    towns = ("01", None, "", "x,y", 'say "hi"', "two\nlines")
    rows = rows_of(600).with_columns(g=pl.Series([towns[i % 6] for i in range(600)]))
    with duckdb.connect() as warehouse:
        warehouse.register("log", rows.to_arrow())
        answer = warehouse.sql(tables.sql_count(lab, "log", dialect="duckdb"))
        answer.write_csv(str(tmp_path / "counts.csv"))
        answer.write_parquet(str(tmp_path / "counts.parquet"))
    expected = tables.count(lab, rows)
    assert set(expected.groups) == set(towns)
    for name in ("counts.csv", "counts.parquet"):
        assert tables.read_counts(lab, session.open(tmp_path / name).relation) == expected
