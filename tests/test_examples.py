"""The example scripts run, and show what they say they show."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import fieldcal
from fieldcal.datasets import portal

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def over_time():
    return runpy.run_path(str(EXAMPLES / "over_time.py"), run_name="over_time")


@pytest.fixture(scope="module")
def followed(over_time):
    lab, stream = over_time["lab_and_stream"](portal(), until=1989)
    return lab, stream, list(over_time["follow"](lab, stream))


def test_the_window_holds_the_months_of_one_year_at_its_end(followed):
    lab, stream, lines = followed
    assert [line.year for line in lines] == [1988, 1989]
    for line in lines:
        months = [month for month in stream if month.start.year == line.year]
        field = line.prevalence.field
        assert field.batch_ids == tuple(month.start.isoformat() for month in months)
        at_once = fieldcal.count(lab, np.concatenate([month.proba for month in months]))
        np.testing.assert_array_equal(field.V, at_once.V)
        np.testing.assert_array_equal(field.score_sums, at_once.score_sums)


def test_the_window_slides_by_month(over_time, followed):
    lab, stream, _ = followed
    field = None
    for month in stream[:15]:
        field = over_time["slide"](field, lab, month)
    start = over_time["_months_before"](stream[14].start, 11)
    expected = [month.start.isoformat() for month in stream[:15] if month.start >= start]
    assert field.batch_ids == tuple(expected)
    assert start.isoformat() > stream[0].start.isoformat()
    assert over_time["slide"](field, lab, stream[14]) == field, "a month that is sent again changes nothing"


def test_the_table_has_one_line_per_year_with_n_mean_prediction_estimate_interval_and_truth(
    over_time, followed, monkeypatch, capsys
):
    lab, stream, lines = followed
    monkeypatch.setitem(over_time["main"].__globals__, "lab_and_stream", lambda *_, **__: (lab, stream))
    over_time["main"](1989)
    printed = capsys.readouterr().out.splitlines()
    head = next(i for i, line in enumerate(printed) if line.split()[:3] == ["year", "n", "predicted"])
    for line, shown in zip(lines, printed[head + 1 :], strict=False):
        year, n, predicted, estimate, lower, _, upper, true = shown.split()
        assert (int(year), int(n)) == (line.year, line.prevalence.n[0])
        assert 0 < float(lower) < float(estimate) < float(upper) < 0.2
        assert abs(float(predicted) - float(true)) < 0.05
    assert printed[-1].startswith("Mean distance from the truth: mean prediction 0.0")
