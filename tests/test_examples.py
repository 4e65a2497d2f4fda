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


@pytest.fixture(scope="module")
def judge():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))  # as for a script
        return runpy.run_path(str(EXAMPLES / "judge.py"), run_name="judge")


@pytest.mark.slow
def test_shares_behind_verdicts_are_nearer_to_the_truth_than_the_verdicts(judge, capsys):
    lines = judge["main"]()
    off = [
        np.mean([abs(getattr(line, name) - line.true) for line in lines]) for name in ("as_judged", "share")
    ]
    assert off[1] < off[0] / 2
    assert all(0 < line.lower < line.share < line.upper < 1 for line in lines)
    assert [line.system for line in lines] == ["A", "B", "C", "D"]
    kind = lines[0]
    assert kind.as_judged - kind.true > 0.15 > abs(kind.share - kind.true), "the judge is kinder to A"


def test_the_example_of_a_survey_agrees_with_the_published_counts(capsys):
    survey = runpy.run_path(str(EXAMPLES / "prevalence_survey.py"), run_name="prevalence_survey")
    apparent, corrected, own = survey["main"]()
    assert apparent.share == pytest.approx(50 / 3330)
    q, se, sp = 50 / 3330, 103 / 122, 399 / 401
    assert corrected.share == pytest.approx((q + sp - 1) / (se + sp - 1))
    assert 0 <= own.lower < own.share < own.upper < 0.025
    assert own.share < apparent.share, "some positive tests are false"
    assert own.upper - own.lower > apparent.upper - apparent.lower, (
        "the errors of the test are not known well"
    )
    assert "the same errors as where it was checked (on 523 rows)" in capsys.readouterr().out
