"""The benchmark of judges, small and without its peers: what it draws, measures, and calls met."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks.judges import command, contest, ours, page, pairs, rates, simulated  # noqa: E402
from benchmarks.judges.contest import Settings  # noqa: E402
from benchmarks.judges.tally import Answer, Tally  # noqa: E402
from benchmarks.judges.trial import Rows  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


def labels_as_answers(trial, *, sliced=False):
    """In the place of fieldcal where the benchmark itself is tested: what the labels say."""
    hits = np.array([(trial.calibration.y == k).sum() for k in trial.asked])
    whole = Answer(*contest.wilson(hits, np.full(len(hits), len(trial.calibration))))
    return whole, contest.labels_only(trial) if sliced else None


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(ours, "shares", labels_as_answers)


def cell(kind="verdicts", sensitivity=0.9, specificity=0.75, share=0.2, design="random"):
    return simulated.Cell(kind, sensitivity, specificity, share, design)


def pooled(cell, replicas=40):
    """The rows of many replicas."""
    drawn = [cell.trial(replica).rows for replica in range(replicas)]
    return Rows(
        *(np.concatenate([getattr(rows, name) for rows in drawn]) for name in ("y", "values", "slices"))
    )


@pytest.mark.parametrize("kind", ["verdicts", "ratings"])
def test_a_judge_has_the_sensitivity_and_specificity_of_its_cell(kind):
    rows, trial = pooled(cell(kind)), cell(kind).trial(0)
    said = trial.verdict(rows, 1)
    assert rows.y.mean() == pytest.approx(0.2, abs=0.01)
    assert said[rows.y == 1].mean() == pytest.approx(0.9, abs=0.015)
    assert 1 - said[rows.y == 0].mean() == pytest.approx(0.75, abs=0.015)


def test_coverage_bias_error_and_width_are_those_of_the_answers():
    tally = Tally()
    for estimate in (0.4, 0.6, 0.9):
        tally.add(Answer.of([(estimate, estimate - 0.2, estimate + 0.2)]), np.array([0.5]))
    tally.add(Answer.of([(np.nan, np.nan, np.nan)]), np.array([0.5]))
    found = tally.record()
    assert found["covered"] == 0.5, "no answer does not cover"
    assert found["failed"] == 0.25
    assert found["bias"] == pytest.approx((-0.1 + 0.1 + 0.4) / 3)
    assert found["mae"] == pytest.approx((0.1 + 0.1 + 0.4) / 3)
    assert found["width"] == pytest.approx(0.4)


def test_the_command_prints_bars_and_writes_the_figures(capsys, tmp_path, stand_in):
    target = tmp_path / "figures.csv"
    options = ["--no-peers", "--replicas", "2", "--processes", "1", "--every", "41", "--markdown"]
    command.main(["--only", "simulated", *options, "--csv", str(target)])
    out = capsys.readouterr().out
    assert "### Simulated judges" in out
    assert re.search("^(met   |MISSED) cover outside", out, re.MULTILINE)
    assert re.search(r"^### Must show: \d met, \d missed$", out, re.MULTILINE)
    assert re.search("^- simulated: (met|MISSED) cover outside", out, re.MULTILINE)
    assert set(pd.read_csv(target).method) == {"fieldcal", "raw verdicts", "labels only"}


def test_fieldcal_answers_with_and_without_pairs_and_for_a_test_of_known_rates():
    found = pd.DataFrame(pairs.measure(pairs.cells()[0], Settings(replicas=1, peers=False)))
    assert set(found.method) == {"fieldcal paired", "fieldcal unpaired", "labels only"}
    survey = pd.DataFrame(rates.measure(rates.Cell(0.9, 0.95, 0.25, 100), Settings(replicas=2)))
    assert survey.apart.max() <= 1e-9
    assert list(survey.method) == ["fieldcal", "Wald on Rogan–Gladen"]
    for part, frame in (("pairs", found), ("rates", survey)):
        assert any(line.startswith(("met", "MISSED")) for line in page.PAGES[part](frame, markdown=False))
