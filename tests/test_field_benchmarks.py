"""The benchmarks of known groups, labels over many groups, judges, broken groups and speed, on small data."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks import (  # noqa: E402
    break_even,
    broken_groups,
    field_model_speed,
    judge_tasks,
    known_groups,
    many_groups_labels,
)
from benchmarks.field_model.group_peers import calibrated, shrunken  # noqa: E402
from benchmarks.field_model.judged import Judged, labels_only, power_tuned  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
BIAS = np.linspace(-1, 1, 6)  # of the model's log odds in each of six groups


def biased(rng, rows, bias):
    group = np.arange(rows) % len(bias)
    score = expit(rng.standard_normal(rows))
    y = (rng.random(rows) < expit(logit(score) + bias[group])).astype(int)
    return score, y, np.array([f"g{g}" for g in group])


def change(method, bias, seed=0):
    """Of the log loss, by a peer that knows the lab."""
    rng = np.random.default_rng(seed)
    lab, (score, y, group) = biased(rng, 4000, bias), biased(rng, 4000, bias)
    new = method(*lab, score, group)
    loss = [-np.log(np.where(y == 1, p, 1 - p)).mean() for p in (new, score)]
    return loss[0] - loss[1]


@pytest.fixture(scope="module")
def judged():
    """Forty rows in each of five groups, a judge that is right on 85 %, ten labels each."""
    rng, group = np.random.default_rng(1), np.arange(200) % 5
    human = (rng.random(200) < 0.3 + 0.1 * group).astype(int)
    verdict = np.where(rng.random(200) < 0.85, human, 1 - human)
    return Judged(verdict, verdict, human, group), np.arange(200) < 50


def test_shrinkage_by_group_gains_where_groups_are_biased_and_little_is_lost_where_none_is():
    assert change(shrunken, BIAS) < -0.03
    assert abs(change(shrunken, 0 * BIAS)) < 0.003
    assert change(calibrated, BIAS) > -0.01, "no calibration of all groups together mends this"


def test_ppi_is_the_labels_alone_for_a_constant_judge_and_narrower_for_a_perfect_one(judged):
    rows, labelled = judged
    constant = Judged(rows.category, np.ones(200, dtype=int), rows.human, rows.group)
    alone, perfect = (
        power_tuned(each, labelled)
        for each in (constant, Judged(rows.human, rows.human, rows.human, rows.group))
    )
    np.testing.assert_allclose(alone.estimate, labels_only(rows, labelled).estimate)
    assert (perfect.upper - perfect.lower).mean() < 0.6 * (alone.upper - alone.lower).mean()


@pytest.mark.slow
def test_known_groups_has_a_record_for_each_file_and_method(tmp_path, capsys):
    rng = np.random.default_rng(2)
    for name in ("a__site__random", "a__site__later2000", "SYN_a__syn__random", "a__site__lab_x"):
        score, y, group = biased(rng, 1500, BIAS)
        split = np.where(np.arange(1500) < 700, "dev", "field")
        frame = pd.DataFrame({"split": split, "group": group, "y": y, "p_1": score})
        frame.to_parquet(tmp_path / f"{name}.parquet")
    known_groups.main([str(tmp_path), "--peers", "--csv", str(tmp_path / "out.csv")])
    found = pd.read_csv(tmp_path / "out.csv")
    assert set(found.kind) == set(known_groups.KINDS)
    assert (found.groupby("file").size() == found.method.nunique()).all()
    ours = found[found.method == "fieldcal"]
    assert np.isfinite(ours[["change", "error", "width", "covered", "seconds", "trust_between"]]).all(
        axis=None
    )
    assert (found.change[found.method == "model as it is"] == 0).all()
    assert "Files of two classes" in capsys.readouterr().out


@pytest.mark.slow
def test_no_wrong_conclusion_has_a_break_even_above_the_violation_in_its_rows(tmp_path, capsys):
    rng = np.random.default_rng(3)
    for name in ("a-rf__site__random", "SYN_b3__syn__random"):
        score, y, group = biased(rng, 3600, BIAS)
        split = np.where(np.arange(3600) < 1800, "dev", "field")
        frame = pd.DataFrame({"split": split, "group": group, "y": y, "p_1": score})
        frame.to_parquet(tmp_path / f"{name}.parquet")
    break_even.main([str(tmp_path), "--table", "--csv", str(tmp_path / "found.csv")])
    found = pd.read_csv(tmp_path / "found.csv")
    assert set(found.source) == {"a", "b"}
    assert found.scope.value_counts().to_dict() == {"contrast": 30, "group": 12, "whole field": 2}
    assert not found.right.all()
    assert (found.break_even + found.misfit <= found.realised + 1e-9)[~found.right].all()
    assert (found.lower <= found.break_even).all()
    assert "6 groups, 1 files, 1 sources" in capsys.readouterr().out


@pytest.mark.slow
def test_labels_over_many_groups_and_tasks_of_judges_are_measured_beside_peers(tmp_path, monkeypatch, judged):
    rows, _ = judged
    frame = pd.DataFrame({"group": rows.group, "verdict": rows.verdict, "human": rows.human})
    for name, scale in (("lmarena_pairs", 1), ("galaxyzoo", 3)):  # class 3 is a spiral
        table = frame.assign(human=scale * frame.human, verdict=scale * frame.verdict)
        table.to_parquet(tmp_path / f"{name}.parquet")
    many_groups_labels.main([str(tmp_path), "--trials", "2", "--csv", str(tmp_path / "many.csv")])
    found = pd.read_csv(tmp_path / "many.csv")
    assert len(found) == 2 * 2 * 4
    assert found.mse.between(0, 0.2).all()
    task = judge_tasks.Task("lmarena_pairs", {}, judge_tasks.is_one, judge_tasks.is_one, group="group")
    monkeypatch.setattr(judge_tasks, "TASKS", (task,))
    judge_tasks.main([str(tmp_path), "--draws", "1", "--csv", str(tmp_path / "tasks.csv")])
    found = pd.read_csv(tmp_path / "tasks.csv")
    assert set(found.labels) == {60}, "at most half of the rows"
    assert found.covered.between(0, 1).all()


def test_every_task_of_a_judge_has_its_own_name():
    assert len({task.name for task in judge_tasks.TASKS}) == len(judge_tasks.TASKS) >= 15


@pytest.mark.slow
def test_broken_groups_and_costs_are_measured(tmp_path):
    broken_groups.main(
        ["--populations", "1", "--groups", "6", "--replicas", "2", "--csv", str(tmp_path / "b.csv")]
    )
    found = pd.read_csv(tmp_path / "b.csv")
    broken = found[found.part == "broken"]
    assert len(broken) == 2 * 3 * (1 + 2 * 2), "ten of six groups cannot be broken"
    assert (broken[broken.broken > 0].before > 0).all()
    assert len(found[found.part == "favoured"]) == 4
    field_model_speed.main(["--groups", "400", "--runs", "1", "--csv", str(tmp_path / "s.csv")])
    assert (pd.read_csv(tmp_path / "s.csv").filter(["seconds", "mib"]).sum(axis=1) > 0).all()
