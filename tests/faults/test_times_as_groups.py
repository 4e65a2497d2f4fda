"""Fault 52: times as groups are never merged, and are the same keys in every engine, unit and file."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.cli.main import main
from fieldcal.errors import InputError, InputTypeError
from tables import truth
from tables.engines import Engine

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
NEW_YEAR = dt.datetime(2024, 1, 1)
MOMENTS = [NEW_YEAR, dt.datetime(1969, 7, 20, 20, 17, 40), dt.datetime(1700, 2, 28), None]
TOO_FINE = "finer than a microsecond, and such keys would merge"
UNITS = ("s", "ms", "us", "ns")


def rows(times, unit, zone=None):
    return pa.table({"p": np.linspace(0.1, 0.9, len(times)), "g": pa.array(times, pa.timestamp(unit, zone))})


@pytest.mark.conformance
def test_fault_52_nanoseconds_that_differ_are_refused_and_not_merged(local_engine):
    fine = rows([1, 2, 2], "ns").append_column("h", pa.array(["a"] * 3))
    for by in (["g"], ["h", "g"]):
        with pytest.raises(InputError, match=TOO_FINE):
            tables.count(truth.binary_lab(), local_engine.make(fine), by=by)
    coarse = local_engine.make(rows([1000, 2000, 2000], "ns"))
    assert tables.count(truth.binary_lab(), coarse, by="g").n.tolist() == [1, 2]


def test_fault_52_nanoseconds_in_a_file_are_refused_and_not_merged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    truth.binary_lab().save("lab.json")
    pq.write_table(rows([1, 2, 2], "ns"), "field.parquet")
    with pytest.raises(SystemExit) as ended:
        main(["count", "lab.json", "field.parquet", "--by", "g", "-o", "counted.json"])
    assert ended.value.code == 1
    assert TOO_FINE in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "counted.json").exists()


@pytest.mark.conformance
def test_fault_52_one_moment_is_one_key_in_every_unit_and_engine(local_engine):
    lab = truth.binary_lab()
    in_arrays = fieldcal.count(lab, np.linspace(0.1, 0.9, 12), groups=MOMENTS * 3)
    for unit in UNITS:
        counted = tables.count(lab, local_engine.make(rows(MOMENTS * 3, unit)), by="g")
        assert counted.groups == in_arrays.groups == (MOMENTS[2], MOMENTS[1], MOMENTS[0], None)
        assert counted.V.tolist() == in_arrays.V.tolist()
        prev = fieldcal.estimate(lab, fieldcal.Field.from_json(counted.to_json()))
        made = tables.recalibrate(prev, local_engine.make(rows(MOMENTS, unit)), unseen="error")
        new = local_engine.read(made)["p_recalibrated"]
        assert new == pytest.approx(fieldcal.recalibrate(prev, np.linspace(0.1, 0.9, 4), groups=MOMENTS))


@pytest.mark.conformance
def test_fault_52_keys_that_a_column_cannot_hold_meet_none_of_its_rows(local_engine):
    """Cast to its unit, half past and a microsecond past would be the same second, and the year 1 no time at all."""
    odd = [NEW_YEAR.replace(microsecond=500_000), NEW_YEAR.replace(microsecond=1)]
    keys = [dt.datetime(1, 1, 1), NEW_YEAR, *odd]
    lab = truth.binary_lab()
    prev = fieldcal.estimate(lab, fieldcal.count(lab, np.linspace(0, 1, 400), groups=keys * 100), trust=1)
    for unit in UNITS:
        frame = local_engine.make(rows([NEW_YEAR, None], unit))
        new = local_engine.read(tables.recalibrate(prev, frame, by="g", unseen="raw"))["p_recalibrated"]
        assert new == pytest.approx([fieldcal.recalibrate(prev, [0.1], groups=[NEW_YEAR])[0], 0.9])


def test_fault_52_whole_numbers_that_a_column_cannot_hold_meet_none_of_its_rows():
    lab = truth.binary_lab()
    field = fieldcal.count(lab, np.linspace(0, 1, 40), groups=[1, 2**63, 2**64 - 1, 10**30] * 10)
    prev = fieldcal.estimate(lab, field, trust=1)
    for engine in map(Engine, ("polars", "pyarrow", "duckdb")):
        given = engine.make(pa.table({"p": [0.1, 0.9], "g": pa.array([1, 2], pa.int64())}))
        new = engine.read(tables.recalibrate(prev, given, by="g", unseen="raw"))["p_recalibrated"]
        assert new == pytest.approx([fieldcal.recalibrate(prev, [0.1], groups=[1])[0], 0.9])


def test_fault_52_times_of_a_zone_are_refused_in_tables(engine):
    for unit in ("us", "ns"):
        given = engine.make(rows([NEW_YEAR], unit, "Europe/Berlin"))
        with pytest.raises(InputTypeError, match=r"'g' (holds times of a zone|is of type Unknown)"):
            tables.count(truth.binary_lab(), given, by="g")


def test_fault_52_times_in_arrays_that_are_too_fine_or_beyond_the_calendar_are_refused():
    for groups in (
        np.array(["2024-01-01T00:00:00.000000001"], "datetime64[ns]"),
        np.array([1], "datetime64[ps]"),
        pd.Series(pd.to_datetime([1])),
        pd.Series(pd.to_datetime([1], utc=True)),
        [pd.Timestamp(1)],
        np.array([pd.Timestamp(1, tz="UTC")], dtype=object),
        [np.datetime64(1, "ns")],
    ):
        with pytest.raises(InputError, match=TOO_FINE):
            fieldcal.count(truth.binary_lab(), [0.5], groups=groups)
    for groups in (
        np.array(["20000-01-01"], "datetime64[s]"),
        np.array(["300000-01-01", "NaT"], "datetime64[s]"),
        np.array(["-0001-01-01"], "datetime64[D]"),
        [dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
    ):
        with pytest.raises(InputError, match="outside the years 1 to 9999"):
            fieldcal.count(truth.binary_lab(), [0.5] * len(groups), groups=groups)


FOLD = [dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC), dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.UTC)]


def test_fault_52_instants_are_one_key_in_two_zones_two_in_a_fold_and_null_if_not_a_time():
    berlin = pd.Series(FOLD).dt.tz_convert("Europe/Berlin")  # both read 02:30
    counted = fieldcal.count(truth.binary_lab(), [0.1, 0.9], groups=berlin)
    assert counted.groups == tuple(FOLD)
    utc = fieldcal.count(truth.binary_lab(), [0.1, 0.9], groups=pd.Series(FOLD))
    assert counted.digest == utc.digest == fieldcal.Field.from_json(counted.to_json()).digest
    for unit in ("D", *UNITS):
        groups = np.array(["2024-01-01", "NaT", "1969-01-01"], f"datetime64[{unit}]")
        counted = fieldcal.count(truth.binary_lab(), [0.1, 0.5, 0.9], groups=groups)
        assert (counted.groups[-1], len(counted.groups)) == (None, 3)
