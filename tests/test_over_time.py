"""A field in windows of time: counting, merging, late rows, tables, and shares of groups in windows."""

from __future__ import annotations

import datetime as dt
import functools

import numpy as np
import pytest

import fieldcal
from fieldcal.errors import FieldcalError, InputError

DAYS = np.datetime64("2026-03-02")


@functools.cache
def lab():
    data = fieldcal.datasets.label_shift(n_lab=2000, n_field=10, random_state=0)
    return fieldcal.learn(data.proba_lab, data.y_lab)


@functools.cache
def rows(n=60, days=12):
    """Predictions of two sites whose share of the second class rises from .2 to .6 in Leeds after six days."""
    rng = np.random.default_rng(1)
    site = np.repeat(["Leeds", "York"], n * days)
    day = np.tile(np.repeat(np.arange(days), n), 2)
    share = np.where((site == "Leeds") & (day >= 6), 0.6, 0.2)
    y = (rng.random(len(day)) < share).astype(int)
    mix = fieldcal.datasets.label_shift(n_lab=10, n_field=4000, prevalence=[[0.5, 0.5]], random_state=2)
    pools = [mix.proba_field[mix.y_field == k] for k in (0, 1)]
    p = np.where(y == 1, rng.choice(pools[1], len(y)), rng.choice(pools[0], len(y)))
    return p, site, DAYS + day.astype("timedelta64[D]"), y


@functools.cache
def field(every="1d"):
    p, site, at, _ = rows()
    return fieldcal.count(lab(), p, groups=site, time=at, every=every)


@functools.cache
def estimated():
    return fieldcal.estimate(lab(), field(), trust=1)


def test_windows_of_arrays_hold_what_counting_their_rows_alone_gives():
    p, site, at, _ = rows()
    by_hand = sum(
        fieldcal.count(lab(), p[at == day], groups=site[at == day], batch=str(day)) for day in np.unique(at)
    )
    assert field().to_json() == by_hand.over("1d").to_json()


@pytest.mark.parametrize(
    "time",
    [
        ["2026-03-02T23:59", "2026-03-09", None],
        [dt.datetime(2026, 3, 2, 5), dt.date(2026, 3, 15), None],
        np.array(["2026-03-08", "2026-03-10T12", "NaT"], dtype="datetime64[s]"),
    ],
)
def test_times_are_cut_into_weeks_that_begin_on_mondays_and_missing_ones_have_no_window(time):
    counted = fieldcal.count(lab(), [0.1, 0.5, 0.9], time=time, every="1w")
    assert counted.batch_ids == ("2026-03-02", "2026-03-09")
    assert counted.n.sum() == 3


@pytest.mark.parametrize(
    "given", [{"time": ["2026-03-02"]}, {"every": "1d"}, {"time": ["2026-03-02"], "every": "2x"}]
)
def test_windows_need_times_and_a_length(given):
    with pytest.raises(InputError, match="Windows need"):
        fieldcal.count(lab(), [0.1], **given)


def test_times_that_are_no_times_are_refused():
    with pytest.raises(InputError, match="dates or times"):
        fieldcal.count(lab(), [0.1, 0.2], time=[3, 4], every="1d")


def test_left_out_rows_are_in_no_window():
    counted = fieldcal.count(lab(), [0.1, None, 0.9], time=["2026-03-02"] * 3, every="1d", missing="drop")
    assert counted.dropped == 1
    assert counted.only(["2026-03-02"]).dropped == 0


def test_late_rows_join_their_window_and_are_retracted_by_name():
    late = fieldcal.count(
        lab(), [0.9, 0.8], groups=["York"] * 2, time=["2026-03-04"] * 2, every="1d", batch="late"
    )
    assert late.batch_ids == ("2026-03-04/late",)
    both = field() + late
    assert fieldcal.estimate(lab(), both).over_time.n[2, 2] == 62
    assert both.retract("2026-03-04/late") == field()
    assert both.window("2026-03-04", "2026-03-05").n.sum() == 122


def test_fields_of_other_windows_are_refused():
    with pytest.raises(InputError, match="windows"):
        _ = field() + fieldcal.count(lab(), [0.1], groups=["York"], time=["2027-01-01"], every="1w")


def test_a_field_with_windows_is_saved_and_loaded(tmp_path):
    field().save(tmp_path / "field.json")
    assert fieldcal.Field.load(tmp_path / "field.json").every == "1d"
    estimated().save(tmp_path / "prev.json")
    loaded = fieldcal.Prevalence.load(tmp_path / "prev.json").over_time
    assert np.array_equal(loaded.estimate, estimated().over_time.estimate)


def test_a_field_without_windows_is_followed_over_none():
    p, site, *_ = rows()
    assert fieldcal.estimate(lab(), fieldcal.count(lab(), p[:50], groups=site[:50])).over_time is None


def test_the_rise_of_one_group_is_found_and_the_other_stands_still():
    found = estimated().over_time
    leeds, york = found.estimate[1, :, 1], found.estimate[2, :, 1]
    assert leeds[:5].max() < 0.35
    assert leeds[7:].min() > 0.45
    assert np.ptp(york) < 0.15
    changes = found.changes("2026-03-02", of=1, margin=0.1)
    assert changes.found() == ("Leeds",)
    assert changes.points()["Leeds"] == ["2026-03-08"]


def test_days_are_put_together_into_weeks():
    weekly = fieldcal.estimate(lab(), field().over("1w"), trust=1).over_time
    assert [start.day for start in weekly.starts] == [2, 9]
    assert weekly.n.sum() == 2 * field().n.sum()


def test_missing_windows_stay_visible():
    gaps = field().retract("2026-03-05").retract("2026-03-06")
    found = fieldcal.estimate(lab(), gaps).over_time
    assert len(found.starts) == 12
    assert found.n[:, 3:5].sum() == 0
    table = fieldcal.estimate(lab(), gaps).to_dict()
    assert table["status"].count("missing") == 2 * 2 * 3
    assert "6 without rows" in repr(found)


def test_tables_have_a_row_for_each_group_and_window_below_those_of_the_whole_time():
    table = estimated().to_dict()
    assert len(table["n"]) == 2 * 3 * (1 + 12)
    assert table["window_start"][:6] == [None] * 6
    assert table["window_start"][6] == dt.date(2026, 3, 2)
    assert table["window_end"][-1] == dt.date(2026, 3, 14)
    assert {len(column) for column in table.values()} == {78}
    assert estimated().to_frame("polars", wide=True).height == 39


def test_late_labels_re_estimate_their_window():
    p, site, at, _ = rows()
    known = (site == "Leeds") & (at == DAYS + 9)
    labels = fieldcal.count(
        lab(),
        p[known],
        groups=site[known],
        y=np.ones(60, int),
        only_labels=True,
        time=at[known],
        every="1d",
        batch="labels",
    )
    before, after = (fieldcal.estimate(lab(), f, trust=1).over_time for f in (field(), field() + labels))
    rise = (after.urc - before.urc)[1, :, 1]
    assert after.labelled[1].tolist() == [0] * 9 + [60] + [0] * 2
    assert rise.argmax() == 9
    assert rise[9] > 0.1
    assert after.labelled_share[1, 9, 1] == 1


def test_with_the_default_trust_the_level_is_that_of_the_estimate():
    prev = fieldcal.estimate(lab(), field())
    found = prev.over_time
    n = found.n[1:, :, None]
    assert (n * found.estimate[1:]).sum(axis=1) / n.sum(axis=1) == pytest.approx(prev.estimate, abs=0.04)
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()


def test_changes_are_known_better_than_levels():
    found = fieldcal.estimate(lab(), field()).over_time
    changes = found.changes(of=1)
    assert (changes.upper - changes.lower)[2, 1:].mean() < (found.upper - found.lower)[2, 1:, 1].mean()


def test_an_unknown_window_and_an_impossible_margin_are_refused():
    found = estimated().over_time
    with pytest.raises(FieldcalError, match="no window '1999-01-01'"):
        found.changes("1999-01-01")
    with pytest.raises(FieldcalError, match="margin"):
        found.changes(margin=2)
