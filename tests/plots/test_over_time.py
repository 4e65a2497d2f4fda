"""The picture of shares over time, its table, and the section of the report."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from matplotlib.figure import Figure

import fieldcal
from fieldcal import plots
from fieldcal.errors import InputError
from fieldcal.plots.draw_over_time import most_changed


@functools.cache
def estimated():
    """Ten days of two sites; Leeds changes on the sixth day, York has no rows on the third."""
    mix = fieldcal.datasets.label_shift(n_lab=1000, n_field=4000, prevalence=[[0.5, 0.5]], random_state=2)
    lab = fieldcal.learn(mix.proba_lab, mix.y_lab)
    rng, pools = np.random.default_rng(1), [mix.proba_field[mix.y_field == k] for k in (0, 1)]
    site, day = np.repeat(["Leeds", "York"], 600), np.tile(np.repeat(np.arange(10), 60), 2)
    y = (rng.random(1200) < np.where((site == "Leeds") & (day >= 5), 0.8, 0.2)).astype(int)
    p = np.where(y == 1, rng.choice(pools[1], 1200), rng.choice(pools[0], 1200))
    known = [int(v) if i % 10 == 0 else None for i, v in enumerate(y)]
    kept = ~((site == "York") & (day == 2))
    at = np.datetime64("2026-03-02") + day.astype("timedelta64[D]")
    given = {"groups": site[kept], "y": [k for k, keep in zip(known, kept, strict=True) if keep]}
    return fieldcal.estimate(lab, fieldcal.count(lab, p[kept], time=at[kept], every="1d", **given), trust=1)


def test_the_table_has_an_entry_for_each_window_and_gaps_where_there_are_no_rows():
    table = plots.tables.over_time(estimated(), group="York")
    assert len(table["windows"]) == len(table["estimate"]) == len(table["alarms"]) + 10 == 10
    assert table["n"][2] == 0
    assert table["mean_prediction"][2] is None
    assert table["labelled_share"][3] is not None
    assert all(
        low <= x <= high
        for low, x, high in zip(*(table[n] for n in ("lower", "estimate", "upper")), strict=True)
    )


def test_alarms_are_marked_at_the_window_that_raised_them():
    prev = estimated()
    alarms = prev.over_time.alarms()
    table = plots.tables.over_time(prev, group="Leeds", alarms=alarms)
    assert len(table["alarms"]) == 1
    assert 5 <= table["alarms"][0] <= 7
    ax = plots.over_time(table, ax=Figure().subplots())
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "alarm"


def test_the_picture_has_band_lines_labels_and_empty_windows():
    ax = plots.over_time(estimated(), group="York", ax=Figure().subplots())
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["mean prediction", "estimate with 90% interval", "labelled rows", "no rows"]
    assert ax.get_ylabel() == "share of 1, York"


def test_the_group_that_changed_most_comes_first():
    over = estimated().over_time
    assert most_changed(over, 1, None, 5) == ["Leeds", "York"]


def test_an_estimate_without_windows_has_no_picture_and_no_section():
    prev = fieldcal.datasets.example().prev
    with pytest.raises(InputError, match="no windows"):
        plots.over_time(prev)
    assert fieldcal.report(prev).dict()["over_time"] is None


def test_the_report_says_what_changed_lists_alarms_and_draws_each_group():
    found = fieldcal.report(estimated())
    section = found.dict()["over_time"]
    assert section["sentences"][0] == "10 windows of 1d, from 2026-03-02 to 2026-03-11."
    assert "Leeds" in section["sentences"][2]
    assert "York" not in section["sentences"][2]
    assert [alarm["group"] for alarm in section["alarms"] if alarm["kind"] == "the share changed"][
        -1
    ] == "Leeds"
    assert [panel["group"] for panel in section["panels"]] == [None, "Leeds", "York"]
    assert "What changed over time" in found.markdown()


def test_the_page_draws_the_whole_field_and_then_the_groups():
    page = fieldcal.report(estimated()).html()
    assert page.index('id="over-time"') < page.index('id="changes"')
    assert page.count('class="picture over-time-') == 3
