"""The benchmark of labels, small and without PPI++: what it measures, and when it calls a bar met."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from sklearn.metrics import log_loss

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks.few_labels import command, designs, files, groups, one, speed, verdict  # noqa: E402
from benchmarks.few_labels.files import Settings, Shares  # noqa: E402

import fieldcal  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
SMALL = Settings(replicas=2, sizes=(30, 100), peer=False)


def write(path, **shift):
    """A file as the benchmark reads it, of a lab and a field that differ by label shift."""
    data = fieldcal.datasets.label_shift(n_lab=600, n_field=1000, n_groups=5, **shift)
    proba = np.concatenate([data.proba_lab, data.proba_field])
    proba = proba[:, None] if proba.ndim == 1 else proba
    names = ["p_1"] if proba.shape[1] == 1 else [f"p_{k}" for k in range(proba.shape[1])]
    table = pd.DataFrame(proba, columns=names)
    table["split"] = ["dev"] * 600 + ["field"] * 1000
    table["group"] = [f"g{g}" for g in np.concatenate([data.groups_lab, data.groups_field])]
    table["y"] = np.concatenate([data.y_lab, data.y_field])
    table.to_parquet(path)
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    two = write(folder / "SYN_two.parquet", prevalence=np.tile([0.8, 0.2], (5, 1)), random_state=1)
    three = write(folder / "three__lab_x.parquet", p_lab=(0.5, 0.3, 0.2), random_state=2)
    return [two, three]


def frame(section, paths, settings=SMALL):
    return pd.DataFrame([record for path in paths for record in section.measure(path, settings).records])


def test_one_population_has_a_record_for_every_file_size_and_replica(paths):
    found = frame(one, paths)
    assert len(found) == 2 * 2 * 2
    assert dict(found.groupby("file").kind.first()) == {"SYN_two": "consistent", "three__lab_x": "moved"}
    ours = ["e", "covered", "width", "e_labels", "e_urc", "e_default", "e_naive", "change", "best"]
    assert np.isfinite(found[ours]).all(axis=None)
    assert found[["e_ppi", "covered_ppi", "width_ppi"]].isna().all(axis=None), "the peer was not asked"
    assert (found.best <= 0).all()
    assert found.covered.between(0, 1).all()


def test_a_field_that_is_too_small_is_left_out_and_it_is_said(tmp_path):
    data = pd.read_parquet(write(tmp_path / "a.parquet")).query("split == 'dev'")
    half = data.assign(split=np.where(np.arange(600) < 300, "dev", "field"))
    half.to_parquet(tmp_path / "a.parquet")
    assert one.measure(tmp_path / "a.parquet", SMALL).skipped == "300 field rows, fewer than 600"
    assert groups.measure(tmp_path / "a.parquet", SMALL).skipped.endswith("fewer than 4")


@pytest.mark.parametrize("section", [one, designs, groups, verdict])
def test_every_section_ends_in_bars_that_are_met_or_missed(section, paths):
    lines = list(section.page(frame(section, paths[:1]), markdown=True))
    bars = [line for line in lines if re.match("met   |MISSED", line)]
    assert bars
    assert not any("nan ×" in line for line in bars), "nothing is judged that was not measured"
    assert any(line.startswith("| ") for line in lines)


def test_the_time_with_labels_is_held_against_that_without():
    found = pd.DataFrame(speed.measure(groups=20, rows=30, labels=60, runs=1))
    found["without"], found["with"] = 1.0, [1.5, 1.2, 2.5]
    assert list(speed.page(found, markdown=False))[-1].startswith("MISSED labels cost at most 2.50 ×")


def test_labels_by_class_are_as_many_of_each_class_as_there_are():
    y = np.repeat([0, 1, 2], [500, 90, 5])
    rows = designs.by_class(y, 3, 60, np.random.default_rng(0))
    assert np.bincount(y[rows]).tolist() == [20, 20, 5]
    assert len(set(rows)) == len(rows)


def test_labels_reach_the_field_and_nothing_else_of_it_changes(paths):
    asked = files.population(paths[0])
    plain, labelled = fieldcal.count(asked.lab, asked.proba), asked.count(np.arange(40))
    assert labelled.n_labelled == 40
    np.testing.assert_array_equal(labelled.V, plain.V)


def test_the_best_tilt_is_the_best_shift_of_the_logits():
    rng = np.random.default_rng(0)
    score = rng.beta(2, 2, 3000)
    y = (rng.random(3000) < expit(logit(score) + 1.2)).astype(int)
    best = minimize_scalar(lambda a: log_loss(y, expit(logit(score) + a))).fun - log_loss(y, score)
    assert files.best_tilt(np.column_stack([1 - score, score]), y) == pytest.approx(best, abs=1e-7)


def test_of_two_classes_the_second_is_judged_and_of_more_all():
    two = Shares(np.array([0.5, 0.5]), np.array([0.0, 0.4]), np.array([1.0, 0.6]))
    assert two.judged(np.array([0.3, 0.7]), "_x") == pytest.approx(
        {"e_x": 0.2, "covered_x": 0.0, "width_x": 0.2}
    )
    three = Shares(np.full(3, 0.3), np.array([0.1, 0.1, 0.4]), np.full(3, 0.5))
    found = three.judged(np.array([0.2, 0.4, 0.3]))
    assert found == pytest.approx({"e": 0.2 / 3, "covered": 2 / 3, "width": 0.9 / 3})


def errors(excess, replicas=20, noise=0.01):
    """Replicas of one file whose error is that of the labels times 1.05 and so much more."""
    wiggle = noise * np.resize([1, -1], replicas)
    return pd.DataFrame({"file": "a", "n": 100, "e": 0.105 + excess + wiggle, "e_labels": 0.1})


@pytest.mark.parametrize(("excess", "verdict"), [(-0.02, "met"), (0.002, "met"), (0.02, "MISSED")])
def test_a_file_is_worse_than_its_labels_beyond_the_replicas_error(excess, verdict):
    said = list(one.error_bars(errors(excess), errors(excess).assign(kind="moved", e_ppi=1.0, n=30)))
    last = next(line for line in said if "plainly" in line)
    assert last.startswith(verdict)
    assert f"{int(excess > 0)} plainly" in last


def test_coverage_of_a_file_is_judged_with_its_replicas_error():
    held = pd.DataFrame({"file": "a", "n": 30, "covered": np.repeat([1.0, 0.0], [15, 5])})
    by_size, _ = one.covered_everywhere(held, ["file", "n"], "files", errors=2)
    plainly, _ = one.covered_everywhere(held, ["file"], "files", errors=0)
    assert by_size.startswith("met")
    assert plainly.startswith("MISSED cover < .80 in 1 of 1")


def test_a_verdict_is_warned_where_the_full_correction_harms():
    said = pd.DataFrame(
        {
            "file": "a",
            "part": "whole",
            "way": "one population",
            "kind": ["moved"] * 4,
            "full": [0.2, 0.2, 0.005, -0.1],
            "change": [0.0, -0.01, 0.003, -0.1],
            "before": "care",
            "verdict": ["care", "ok", "ok", "ok"],
        }
    )
    lines = "\n".join(verdict.page(said, markdown=False))
    assert "MISSED trust=1 harms by > .01, and it is not ok: 50.0% of 2" in lines
    assert "ok all the same: one population, moved: 1 of 2" in lines
    assert "ok over a harm above .002 by what was applied: 1 of 3" in lines


def test_without_the_peer_the_command_says_how_to_install_it(monkeypatch, capsys, paths):
    monkeypatch.setitem(sys.modules, "ppi_py", None)
    with pytest.raises(SystemExit) as end:
        command.main([str(paths[0].parent), "--only", "one"])
    assert end.value.code == 2
    assert files.INSTALL in capsys.readouterr().err


def test_the_command_measures_prints_and_writes_every_replica(capsys, tmp_path, paths):
    (tmp_path / paths[0].name).symlink_to(paths[0])
    target = tmp_path / "replicas.csv"
    options = ["--only", "verdict", "--replicas", "1", "--jobs", "1", "--csv", str(target)]
    command.main([str(tmp_path), *options])
    assert "6. Verdicts" in capsys.readouterr().out
    found = pd.read_csv(target)
    assert set(found.section) == {"verdict"}
    assert set(found.way) == {"lab groups", "field groups", "one population"}
