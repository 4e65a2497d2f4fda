"""Windows of time: every window is a batch, and holds what counting its rows alone gives."""

from __future__ import annotations

import datetime as dt
import functools
import math
import time

import numpy as np
import pyarrow as pa
import pytest

from fieldcal import tables
from fieldcal.errors import InputError, InputTypeError
from tables import truth
from tables.engines import IN_MEMORY, Engine

LENGTHS = {
    "1d": lambda t: t.date().isoformat(),
    "1w": lambda t: (t.date() - dt.timedelta(days=t.weekday())).isoformat(),
    "1mo": lambda t: t.date().replace(day=1).isoformat(),
    "1q": lambda t: dt.date(t.year, (t.month - 1) // 3 * 3 + 1, 1).isoformat(),
    "1y": lambda t: dt.date(t.year, 1, 1).isoformat(),
    "6h": lambda t: t.replace(hour=t.hour // 6 * 6, minute=0, second=0, microsecond=0).isoformat(),
    "15m": lambda t: t.replace(minute=t.minute // 15 * 15, second=0, microsecond=0).isoformat(),
}


@functools.cache
def log(n=240, unit="us"):
    """Times around New Year, a leap day and 1970, some missing, some at the very start of a window."""
    rng = np.random.default_rng(5)
    starts = [dt.datetime(2023, 12, 30), dt.datetime(2024, 2, 28), dt.datetime(1969, 12, 30)]
    exact = [
        dt.datetime(2024, 1, 1),
        dt.datetime(2024, 3, 1),
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 2, 29, 6),
    ]
    drawn = [
        starts[i % 3] + dt.timedelta(seconds=int(s)) for i, s in enumerate(rng.integers(0, 4 * 86_400, n))
    ]
    times = [None if i % 17 == 3 else exact[i % 4] if i % 10 == 0 else t for i, t in enumerate(drawn)]
    return pa.table(
        {
            "p": rng.uniform(size=n),
            "town": pa.array(rng.choice(np.array(["York", "Leeds", None], dtype=object), n), pa.string()),
            "at": pa.array(times, pa.timestamp(unit)),
        }
    )


def by_hand(lab, rows, by, start_of):
    """Rows of each window counted alone, as arrays."""
    starts = [None if t is None else start_of(t) for t in rows["at"].to_pylist()]
    parts = []
    for start in sorted(set(starts), key=str):
        part = truth.count(lab, rows.filter(pa.array([s == start for s in starts])), by)
        parts.append(part if start is None else part.named(start))
    return sum(parts)


@pytest.mark.conformance
def test_every_window_holds_what_its_rows_alone_give(engine):
    for every in ("1w", "1mo", "6h") if engine.name == "spark" else LENGTHS:
        lab = truth.binary_lab()
        field = tables.count(lab, engine.make(log()), by="town", time="at", every=every)
        assert field.to_json() == by_hand(lab, log(), ["town"], LENGTHS[every]).over(every).to_json()


def test_windows_of_several_units_are_as_long_as_they_say_in_every_engine(local_engine):
    for every, step in (("2d", 2), ("10d", 10), ("2w", 14)):
        field = tables.count(truth.binary_lab(), local_engine.make(log()), time="at", every=every)
        monday = dt.date(1970, 1, 5)
        assert {(dt.date.fromisoformat(id) - monday).days % step for id in field.batch_ids} == {0}
        assert int(field.n.sum()) == len(log())


def test_rows_without_a_time_are_in_no_window_but_in_the_whole_and_an_empty_log_has_none(engine):
    rows = pa.table(
        {"p": [0.1, 0.2, 0.3], "at": pa.array([dt.datetime(2024, 1, 1, 5), None, None], pa.timestamp("us"))}
    )
    field = tables.count(truth.binary_lab(), engine.make(rows), time="at", every="1d")
    assert (field.batch_ids, (int(field.n.sum()), int(field.window().n.sum()))) == (("2024-01-01",), (3, 1))
    truth.assert_same_counts(
        field.retract("2024-01-01"), truth.count(truth.binary_lab(), rows.slice(1)).over("1d")
    )
    frame = engine.make(log().slice(0, 0))
    field = tables.count(truth.binary_lab(), frame, by="town", time="at", every="1d")
    assert field.batch_ids == ()
    truth.assert_same_counts(field, truth.count(truth.binary_lab(), log().slice(0, 0), ["town"]).over("1d"))
    with pytest.raises(InputError, match="field is empty"):
        tables.count(truth.binary_lab(), frame, time="at", every="1d")


def test_missing_and_rounded_scores_are_counted_beside_the_windows(local_engine):
    rows = pa.table(
        {
            "p": pa.array([0.1, None, 1 + 1e-9, math.nan, 0.7]),
            "town": pa.array(["a", "b", "a", "a", None]),
            "at": pa.array([dt.datetime(2024, 1, 1 + i % 2) for i in range(5)], pa.timestamp("us")),
        }
    )
    lab = truth.binary_lab()
    field = tables.count(lab, local_engine.make(rows), by="town", time="at", every="1d", missing="drop")
    whole = truth.count(lab, rows, ["town"], missing="drop")
    assert (field.dropped, field.clipped, field.groups) == (whole.dropped, whole.clipped, whole.groups)
    np.testing.assert_array_equal(field.V, whole.V)
    assert field.batch_ids == ("2024-01-01",), "no row of the second day is left"
    assert field.only(["2024-01-01"]).dropped == 0


@pytest.mark.conformance
def test_times_of_every_fineness_fall_into_the_same_windows(local_engine):
    for unit in ("s", "ms", "ns"):
        whole = [None if t is None else t.replace(microsecond=0) for t in log()["at"].to_pylist()]
        rows = log().set_column(2, "at", pa.array(whole, pa.timestamp(unit)))
        field = tables.count(truth.binary_lab(), local_engine.make(rows), by="town", time="at", every="6h")
        assert (
            field.to_json() == by_hand(truth.binary_lab(), rows, ["town"], LENGTHS["6h"]).over("6h").to_json()
        )


def test_dates_fall_into_windows_too():
    for name in IN_MEMORY[2:]:
        rows = log().set_column(2, "at", log()["at"].cast(pa.date32()))
        for every, start_of in (("1d", dt.date.isoformat), ("1mo", lambda t: t.replace(day=1).isoformat())):
            field = tables.count(
                truth.binary_lab(), Engine(name).make(rows), by="town", time="at", every=every
            )
            assert (
                field.to_json() == by_hand(truth.binary_lab(), rows, ["town"], start_of).over(every).to_json()
            )


@pytest.mark.conformance
def test_times_of_a_zone_are_cut_in_that_zone(engine):
    """Midnight in Berlin is eleven in the evening before in UTC."""
    for zone in ("UTC", "Europe/Berlin"):
        utc = [
            dt.datetime(2024, 1, 1, 22, 30, tzinfo=dt.UTC),
            dt.datetime(2024, 1, 1, 23, 30, tzinfo=dt.UTC),
            None,
        ]
        rows = pa.table({"p": [0.1, 0.2, 0.3], "at": pa.array(utc, pa.timestamp("us", zone))})
        field = tables.count(truth.binary_lab(), engine.make(rows), time="at", every="1d")
        own_zone = zone != "UTC" and engine.name not in (
            "duckdb",
            "spark",
        )  # which keep instants, shown in the session's zone
        assert field.batch_ids == (("2024-01-01", "2024-01-02") if own_zone else ("2024-01-01",))


def test_windows_on_spark_follow_its_own_zone_and_not_that_of_the_process(spark, monkeypatch):
    frame = Engine("spark", spark).make(
        p=[0.1, 0.2],
        instant=pa.array(
            [dt.datetime(2024, 1, 1, 22, 30), dt.datetime(2024, 1, 1, 23, 30)], pa.timestamp("us", "UTC")
        ),
        clock=pa.array([dt.datetime(2024, 1, 1, 0, 30), dt.datetime(2024, 1, 2, 0, 30)], pa.timestamp("us")),
    )
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for column in ("instant", "clock"):
            field = tables.count(truth.binary_lab(), frame, time=column, every="1d")
            assert field.batch_ids == ("2024-01-01", "2024-01-02")
    finally:
        monkeypatch.undo()
        time.tzset()
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_windows_need_a_column_of_times_and_a_length(local_engine):
    for options in (
        {"time": "at"},
        {"every": "1d"},
        {"time": "at", "every": "day"},
        {"time": "at", "every": "0d"},
        {"time": "at", "every": "1.5h"},
    ):
        with pytest.raises(InputError, match=r"time=<column> and every=<length such as '1d'.*but got"):
            tables.count(truth.binary_lab(), log(), **options)
    with pytest.raises(InputTypeError, match=r"'town' must hold dates or times, but is .*Cast"):
        tables.count(truth.binary_lab(), local_engine.make(log()), time="town", every="1d")
    with pytest.raises(InputError, match=r"no column 'att' for the time\. Did you mean 'at'\?"):
        tables.count(truth.binary_lab(), local_engine.make(log()), time="att", every="1d")
