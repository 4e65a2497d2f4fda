"""The benchmark of judges, small and without its peers: what it draws, measures, and calls met."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks.few_labels.files import rng_of  # noqa: E402
from benchmarks.judges import command, contest, ours, page, pairs, peers, rates, real, simulated, slices  # noqa: E402
from benchmarks.judges.contest import Settings  # noqa: E402
from benchmarks.judges.tally import Answer, Tally  # noqa: E402
from benchmarks.judges.trial import Rows, trial_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
SMALL = Settings(replicas=2, peers=False)


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


def test_ratings_are_one_to_five_and_rise_with_the_class():
    rows = pooled(cell("ratings"))
    assert set(rows.values) == {1, 2, 3, 4, 5}
    shares = pd.Series(rows.y).groupby(rows.values).mean()
    assert shares.is_monotonic_increasing


def test_the_same_replica_is_the_same_in_every_run_and_another_is_not():
    one, again, other = cell().trial(3), cell().trial(3), cell().trial(4)
    np.testing.assert_array_equal(one.rows.values, again.rows.values)
    np.testing.assert_array_equal(one.labelled, again.labelled)
    assert (one.rows.values != other.rows.values).any()


def test_labels_by_class_are_rows_in_question_and_then_further_rows_of_the_population():
    trial = cell(share=0.02, design="by_class").trial(0)
    assert np.bincount(trial.calibration.y).tolist() == [50, 50]
    among = trial.rows.y[trial.labelled]
    assert (among == 1).sum() == (trial.rows.y == 1).sum() < 50
    assert (trial.beside.y == 1).all()
    assert len(trial.rows) == 1000


def test_where_labels_were_chosen_by_class_all_rows_say_how_often_the_judge_passes():
    assert len(cell(design="by_class").trial(0).unlabelled) == 1000
    assert len(cell(design="random").trial(0).unlabelled) == 900


def test_every_slice_has_its_own_share_and_the_whole_is_their_mean():
    trial = cell("slices").trial(0)
    assert trial.slice_truth.shape == (simulated.SLICES, 2)
    np.testing.assert_allclose(trial.slice_truth.mean(axis=0), trial.truth)
    assert np.ptp(trial.slice_truth[:, 1]) > 0.05


def test_classes_of_a_pair_correlate_by_one_half_and_errors_only_where_they_are_alike():
    found = {}
    for errors in ("apart", "alike"):
        one = pairs.Cell((0.6, 0.7), (0.75, 0.75), errors, "items")
        drawn = [pairs.paired(one, rng_of("test", replica)) for replica in range(40)]
        y, values = (np.concatenate([getattr(data, name) for data in drawn]) for name in ("y", "values"))
        assert np.corrcoef(y.T)[0, 1] == pytest.approx(0.5, abs=0.05)
        np.testing.assert_allclose(y.mean(axis=0), one.shares, atol=0.02)
        found[errors] = np.corrcoef((y == values).T)[0, 1]
    assert found["apart"] == pytest.approx(0, abs=0.05)
    assert found["alike"] > 0.3


@pytest.mark.parametrize(("labels", "both"), [("items", 100), ("rows", 33)])
def test_two_hundred_answers_are_labelled_in_pairs_or_at_random(labels, both):
    seen = pairs.paired(pairs.Cell((0.6, 0.7), (0.9, 0.8), "apart", labels), rng_of("test", 1)).seen
    assert seen.sum() == 200
    assert seen.all(axis=1).sum() == pytest.approx(both, abs=20)


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


def test_the_bias_of_several_classes_does_not_cancel():
    tally = Tally()
    tally.add(Answer.of([(0.3, 0, 1), (0.7, 0, 1)]), np.array([0.5, 0.5]))
    tally.add(Answer.of([(0.3, 0, 1), (0.7, 0, 1)]), np.array([0.5, 0.5]))
    assert tally.record()["bias"] == pytest.approx(0.2)


def test_rogan_gladen_inverts_the_test_and_its_interval_shrinks_with_the_validation():
    shown = 0.1 * 0.9 + 0.9 * 0.05
    share, few = rates.rogan_gladen(0.9, 0.95, (30, 30), shown)
    _, many = rates.rogan_gladen(0.9, 0.95, (400, 400), shown)
    assert share == pytest.approx(0.1)
    assert few.lower < many.lower < 0.1 < many.upper < few.upper


def test_labels_only_takes_all_labels_for_a_slice_that_has_none():
    trial = slices.Cell("common", 100).trial(0)
    slim = trial_of(
        simulated.verdicts(np.full(30, 0.7), 0.9, 0.8),
        rng_of("slim"),
        design="random",
        truth=np.array([0.3, 0.7]),
        slice_truth=np.tile([0.3, 0.7], (30, 1)),
        rows=1800,
        labels=20,
    )
    found = contest.labels_only(slim).estimate[:, 0]
    empty = np.bincount(slim.calibration.slices, minlength=30) == 0
    assert empty.any()
    np.testing.assert_allclose(found[empty], slim.calibration.y.mean())
    assert contest.raw_verdicts(trial).estimate.shape == (30, 1)


def write(path, classes):
    rng = np.random.default_rng(classes)
    proba = rng.dirichlet(np.ones(classes), 1500)
    y = (proba.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    names = ["p_1"] if classes == 2 else [f"p_{k}" for k in range(classes)]
    table = pd.DataFrame(proba[:, 1:] if classes == 2 else proba, columns=names)
    table.assign(split=["dev"] * 300 + ["field"] * 1200, group="g", y=y).to_parquet(path)


def test_files_of_two_classes_give_verdicts_and_ratings_and_others_their_likeliest_class(tmp_path, stand_in):
    write(tmp_path / "two.parquet", 2)
    write(tmp_path / "three.parquet", 3)
    cells = real.cells([tmp_path])
    assert [(cell.path.stem, cell.kind) for cell in cells[::2]] == [
        ("three", "classes"),
        ("two", "verdicts"),
        ("two", "ratings"),
    ]
    found = pd.DataFrame([record for cell in cells for record in real.measure(cell, SMALL)])
    assert len(found) == 6
    assert found.covered.between(0, 1).all()


def test_ratings_of_a_file_are_fifths_of_its_scores():
    scores = np.linspace(0, 1, 1000)
    values = real.valued(np.column_stack([1 - scores, scores]), ratings=True)
    np.testing.assert_array_equal(np.bincount(values), [0, 200, 200, 200, 200, 200])


def figures(**changed):
    """Figures of fieldcal and PPI++ in two cells."""
    frame = pd.DataFrame(
        {
            "cell": ["a", "b"] * 2,
            "method": ["fieldcal"] * 2 + ["ppi-python PPI++"] * 2,
            "kind": "verdicts",
            "design": "random",
            "replicas": 400,
            "covered": 0.9,
            "covered_error": 0.015,
            "width": 0.1,
        }
    )
    for name, values in changed.items():
        frame[name] = values
    return frame


def said(lines, pattern):
    return next(line for line in lines if re.search(pattern, line))


def test_a_cell_outside_the_bounds_misses_the_bar_and_is_named():
    lines = list(page.coverage_bar(figures(covered=[0.9, 0.84, 0.5, 0.5]), "cells"))
    assert lines[0].startswith("MISSED cover outside .86 to .97 in 1 of 2 cells, in 0 beyond")
    assert lines[1].split() == ["b", ".840"]
    assert next(page.coverage_bar(figures(covered=[0.9, 0.88, 0.5, 0.5]), "cells")).startswith("met")


def test_a_narrower_peer_counts_only_where_it_covers():
    widths = [0.1, 0.1, 0.09, 0.09]
    lines = list(page.width_bars(figures(width=widths, covered=[0.9, 0.9, 0.9, 0.5]), ["kind"]))
    assert said(lines, "PPI").startswith(
        "MISSED random labels: wider than PPI++ in 2 of 2 cells (0), in 1 where"
    )
    assert said(lines, "in that cell").startswith(
        "MISSED a peer that covers in that cell is narrower by more than 5 % in 1"
    )
    assert said(lines, "in all cells").startswith("met")
    both = list(page.width_bars(figures(width=widths), ["kind"]))
    assert said(both, "in all cells").startswith("MISSED")
    close = list(page.width_bars(figures(width=[0.1, 0.1, 0.096, 0.11]), ["kind"]))
    assert said(close, "in that cell").startswith("met")


def test_a_peer_that_is_not_installed_is_left_out_and_it_is_said(monkeypatch, capsys, stand_in):
    monkeypatch.setattr(peers, "PACKAGES", dict.fromkeys(peers.PACKAGES, "no_such_package"))
    peers.installed.cache_clear()
    command.main(["--only", "slices", "--replicas", "1", "--processes", "1", "--every", "5"])
    peers.installed.cache_clear()
    out = capsys.readouterr().out
    assert (
        "left out: truescore, judgy, ppi-python, GLIDE (pip install -r benchmarks/peers/requirements.txt"
        in out
    )
    assert "2. Thirty slices" in out


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


def test_real_verdicts_need_a_folder(capsys):
    with pytest.raises(SystemExit):
        command.main(["--only", "real"])
    assert "needs folders" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("design", ["random", "by_class"])
@pytest.mark.parametrize("kind", ["verdicts", "ratings", "slices"])
def test_fieldcal_answers_for_the_whole_share_and_every_slice(kind, design):
    trial = cell(kind, share=0.5, design=design).trial(0)
    whole, each = ours.shares(trial, sliced=kind == "slices")
    assert 0 <= whole.lower.item() < whole.estimate.item() < whole.upper.item() <= 1
    if kind == "slices":
        assert each.estimate.shape == (simulated.SLICES, 1)


def test_fieldcal_without_a_label_of_a_class_is_no_answer():
    trial = cell(share=0.02).trial(0)
    found = replace(trial, labelled=np.flatnonzero(trial.rows.y == 0)[:100])
    whole, _ = ours.shares(found)
    assert np.isnan(whole.estimate).all()


def test_fieldcal_answers_with_and_without_pairs_and_for_a_test_of_known_rates():
    found = pd.DataFrame(pairs.measure(pairs.cells()[0], Settings(replicas=1, peers=False)))
    assert set(found.method) == {"fieldcal paired", "fieldcal unpaired", "labels only"}
    survey = pd.DataFrame(rates.measure(rates.Cell(0.9, 0.95, 0.25, 100), Settings(replicas=2)))
    assert survey.apart.max() <= 1e-9
    assert list(survey.method) == ["fieldcal", "Wald on Rogan–Gladen"]
    for part, frame in (("pairs", found), ("rates", survey)):
        assert any(line.startswith(("met", "MISSED")) for line in page.PAGES[part](frame, markdown=False))
