"""The experiments run, resume, and say what their rows say."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import fieldcal
from fieldcal.errors import InputError

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
#: The figures of every experiment, the rows of its quick version, and the columns that tell its cells apart.
NAMES = {
    "quantification": (
        [f"quantification_{side}_{shape}" for side in ("training", "test") for shape in ("row", "grid")],
        2 * 2 * 3 * 2 * 6,
        ["experiment", "lab", "field", "replica"],
    ),
    "resolution": (["resolution_accuracy", "resolution_brier"], 2 * 5 * 6 * 5, ["positive", "replica"]),
    "subpopulations": (["subpopulations"], 3 * 4 * 4, ["replica"]),
    "real_groups": (["real_groups"], 2 * 2 * 7, ["data", "field", "replica"]),
}


@pytest.fixture(scope="module")
def scripts():
    """The modules of the folder, which is no package and on no path; other folders may use the same names."""
    names = sorted(path.stem for path in EXPERIMENTS.glob("*.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXPERIMENTS))
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
        for name in names:
            sys.modules.pop(name, None)


def experiments(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", EXPERIMENTS / "run.py", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_leaves_csv_figures_and_summary(scripts, name, tmp_path):
    done = experiments("--quick", "--jobs", 1, "--out", tmp_path, name)
    assert done.returncode == 0, done.stderr
    figures, rows, keys = NAMES[name]
    for figure in figures:
        assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{figure}.svg").read_text(encoding="utf-8")
    table = pd.read_csv(tmp_path / f"{name}.csv")
    assert len(table) == rows
    assert table[keys].drop_duplicates().to_dict("records") == getattr(scripts, name).study(quick=True).cells
    assert table.groupby(keys).size().nunique() == 1
    section = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert section in done.stdout
    assert section in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "holds**" in section
    assert not list(tmp_path.glob("*.part.csv"))
    assert not list(tmp_path.glob("*.new"))


def test_an_unknown_experiment_is_named(tmp_path):
    done = experiments("--quick", "--out", tmp_path, "alchemy")
    assert done.returncode == 2
    assert "'alchemy'" in done.stderr


def test_two_processes_give_the_same_bytes_as_one(scripts, tmp_path):
    done = experiments("--quick", "--jobs", 2, "--out", tmp_path / "two", "quantification")
    assert done.returncode == 0, done.stderr
    scripts.harness.perform(scripts.quantification.study(quick=True), tmp_path / "one", jobs=1)
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert names | {"summary.md"} == {path.name for path in (tmp_path / "two").iterdir()}
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


# The harness, on a study that costs nothing.


def toy(scripts, run=None, *, settings=None, cells=5):
    """Cells of one to three rows."""

    def rows(cell):
        rng = np.random.default_rng(cell["replica"])
        return [{"row": i, "text": "a, b", "value": rng.random()} for i in range(1 + cell["replica"] % 3)]

    return scripts.harness.Study(
        "toy",
        "Toy",
        settings or {"replicas": cells},
        [{"replica": i} for i in range(cells)],
        run or rows,
        lambda table: {},
        lambda table: f"{len(table)} rows",
    )


def test_wherever_a_run_is_killed_the_next_one_ends_with_the_same_bytes(scripts, tmp_path):
    study = toy(scripts, cells=4)
    scripts.harness.compute(study, tmp_path, jobs=1)
    expected = (tmp_path / "toy.csv").read_bytes()
    ledger = scripts.harness.Ledger(study, tmp_path, fresh=True)
    for i in (3, 0, 2, 1):  # as they come from several processes
        ledger.append(i, scripts.harness.rows_of(study.run, study.cells[i]))
    whole = ledger.part.read_bytes()
    assert whole.decode().count("\n") == expected.decode().count("\n")
    for end in range(len(whole) + 1):
        ledger.part.write_bytes(whole[:end])
        ledger.final.unlink(missing_ok=True)
        scripts.harness.compute(study, tmp_path, jobs=1)
        assert ledger.final.read_bytes() == expected, end
        assert not ledger.part.exists()


def test_an_interrupted_run_keeps_its_finished_cells(scripts, tmp_path, capsys):
    plain = toy(scripts).run
    ran = []

    def interrupted(cell):
        if cell["replica"] == 3 and 3 not in ran:
            ran.append(3)
            raise KeyboardInterrupt
        ran.append(cell["replica"])
        return plain(cell)

    study = toy(scripts, interrupted)
    options = Namespace(quick=False, out=tmp_path / "out", jobs=1, fresh=False)
    assert scripts.harness.perform_all([study], options) == 130
    assert "goes on from there" in capsys.readouterr().err
    assert not (tmp_path / "out" / "toy.csv").exists()
    assert scripts.harness.perform_all([study], options) == 0
    assert ran == [0, 1, 2, 3, 3, 4]
    scripts.harness.compute(toy(scripts), tmp_path, jobs=1)
    assert (tmp_path / "out" / "toy.csv").read_bytes() == (tmp_path / "toy.csv").read_bytes()


def counted(scripts, **options):
    """A study that says how many of its cells ran."""
    ran = []

    def rows(cell):
        ran.append(cell["replica"])
        return [{"value": 0.5}]

    return toy(scripts, rows, **options), ran


def test_a_finished_run_is_not_run_again_unless_asked(scripts, tmp_path):
    study, ran = counted(scripts)
    for fresh in (False, False, True):
        scripts.harness.compute(study, tmp_path, jobs=1, fresh=fresh)
    assert ran == 2 * [0, 1, 2, 3, 4]


@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_start_anew(scripts, tmp_path, finished):
    study, _ = counted(scripts, settings={"bins": 4})
    if finished:
        scripts.harness.compute(study, tmp_path, jobs=1)
    else:
        scripts.harness.Ledger(study, tmp_path, fresh=False).append(0, [{"replica": 0, "value": 7.0}])
    other, ran = counted(scripts, settings={"bins": 8})
    table = scripts.harness.compute(other, tmp_path, jobs=1)
    assert ran == [0, 1, 2, 3, 4]
    assert table.value.tolist() == [0.5] * 5
    assert json.loads((tmp_path / "toy.json").read_text(encoding="utf-8"))["settings"] == {"bins": 8}


def test_other_cells_or_another_fieldcal_start_anew(scripts, tmp_path, monkeypatch):
    settings = {"replicas": "some"}
    for cells, version in ((2, "1.0"), (3, "1.0"), (3, "1.1")):
        monkeypatch.setattr(fieldcal, "__version__", version)
        study, ran = counted(scripts, settings=settings, cells=cells)
        scripts.harness.compute(study, tmp_path, jobs=1)
        assert ran == list(range(cells))


def test_a_figure_has_the_same_bytes_every_time(scripts, tmp_path):
    for name in ("first", "second"):
        figure = Figure()
        figure.subplots().fill_between([0, 1], [0, 1], hatch="/")
        scripts.harness.save_figure(figure, tmp_path / name)
    for kind in ("png", "svg"):
        assert (tmp_path / f"first.{kind}").read_bytes() == (tmp_path / f"second.{kind}").read_bytes()


# The full version.


@pytest.mark.parametrize(
    ("name", "cells"),
    {
        "quantification": 2 * 7 * 30,
        "resolution": 2 * 100,
        "subpopulations": 100,
        "real_groups": 2 * 2 * 10,
    }.items(),
)
def test_the_full_version_has_every_cell_once_and_its_figures_are_shipped(scripts, name, cells):
    study = getattr(scripts, name).study()
    assert len(study.cells) == len({tuple(cell.values()) for cell in study.cells}) == cells
    for figure in NAMES[name][0]:
        assert (EXPERIMENTS / "results" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    assert f"## {study.title}" in (EXPERIMENTS / "results" / "summary.md").read_text(encoding="utf-8")


def test_every_box_has_thirty_replicas_of_the_papers_prevalences_and_sizes(scripts):
    study = scripts.quantification.study()
    assert study.settings["sizes"] == (50, 100, 500, 1000, 3000)
    cells = pd.DataFrame(study.cells)
    boxes = cells.groupby(["experiment", "lab", "field"]).replica
    assert (boxes.nunique() == 30).all()
    shares = {0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95}
    training, test = (cells[cells.experiment == f"balanced {part}"] for part in ("training", "test"))
    assert (set(training.lab), set(training.field)) == ({0.5}, shares)
    assert (set(test.lab), set(test.field)) == (shares, {0.5})


# The images.


@pytest.fixture(scope="module")
def digits(scripts):
    return scripts.images.digits()


def test_the_stand_in_is_as_good_as_the_papers_net_and_its_blur_favours_no_class(digits):
    right = (digits.full > 0.5) == digits.truth
    assert all(0.85 < right[digits.truth == k].mean() < 0.95 for k in (0, 1))
    for score in digits.small.values():
        middle = np.mean([score[digits.truth == k].mean() for k in (0, 1)])
        assert abs(middle - 0.5) < 0.06


def test_digits_with_a_loop_are_taken_for_others_when_blurred(scripts):
    loops = scripts.images.digits(scripts.images.LOOPS)
    assert loops.small[3].mean() < 0.2 < loops.truth.mean() < loops.full.mean()


def test_the_evaluation_set_is_balanced_and_the_field_has_its_base_rate_and_other_images(scripts, digits):
    lab, field = scripts.images.draw(digits, np.random.default_rng(0), per_class=200, base_rate=0.11)
    assert np.bincount(digits.truth[lab]).tolist() == [200, 200]
    assert abs(digits.truth[field].mean() - 0.11) < 0.001
    assert not set(lab) & set(field)
    assert len(set(field)) == len(field) > 700


def test_too_few_images_for_the_evaluation_set_are_told(scripts, digits):
    with pytest.raises(InputError, match="takes 2000 images"):
        scripts.images.draw(digits, np.random.default_rng(0), per_class=2000, base_rate=None)


def test_groups_are_dealt_with_exact_base_rates(scripts):
    truth = np.repeat([0, 1], 200)
    groups = scripts.subpopulations.deal(truth, 0.1, np.random.default_rng(0))
    assert truth[groups == 1].mean() == pytest.approx(0.1)
    assert truth[groups == 2].mean() == pytest.approx(0.9)
    assert set(scripts.subpopulations.deal(truth, 0.0, np.random.default_rng(0))[truth == 1]) == {2}


def test_the_oracle_leaves_predictions_alone_where_groups_are_like_the_lab(scripts):
    proba = np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5], [0.9, 0.1]])
    y = np.array([1, 0, 1, 0])
    lab = SimpleNamespace(p_lab=np.array([0.5, 0.5]))
    alike = scripts.real_groups.oracle(lab, proba, np.array(["a", "a", "b", "b"]), y)
    np.testing.assert_allclose(alike, proba)
    pure = scripts.real_groups.oracle(lab, proba, np.array(["a", "b", "a", "b"]), y)
    np.testing.assert_allclose(pure, np.eye(2)[y])


# Predictions computed elsewhere.


def write_predictions(
    folder, *, n=6, sizes=("30", "40", "original"), spelt="butterfiles", change=lambda frame: frame
):
    """A folder as the R scripts leave it; probabilities that do not sum to one, rows in another order per size."""
    rng = np.random.default_rng(0)
    for order in ("beetles", "butterflies"):
        (folder / order).mkdir(parents=True)
        for size in sizes:
            frame = pd.DataFrame(
                {
                    "filename": [f"{size}/{order}/{order}_{i}.jpg" for i in range(n)],
                    "beetles": rng.random(n).round(3),
                    spelt: rng.random(n).round(3),
                }
            )
            frame = frame.sample(frac=1, random_state=len(size))
            change(frame).to_csv(folder / order / f"out_{size}.csv", index=False)
    return folder


@pytest.mark.parametrize("spelt", ["butterflies", "butterfiles"])
def test_predictions_in_the_r_format_are_read_as_they_were_written(scripts, tmp_path, monkeypatch, spelt):
    folder = write_predictions(tmp_path / "p", spelt=spelt)
    monkeypatch.setattr(scripts.images.Predictions, "platt", lambda self: self)
    found = scripts.images.read(folder)
    assert found.truth.tolist() == 6 * [1] + 6 * [0]
    assert list(found.small) == [30, 40]
    for size, scores in {"30": found.small[30], "40": found.small[40], "original": found.full}.items():
        share = {}
        for order in ("beetles", "butterflies"):
            for row in pd.read_csv(folder / order / f"out_{size}.csv").to_dict("records"):
                share[Path(row["filename"]).name] = row["beetles"] / (row["beetles"] + row[spelt])
        full = [
            Path(name).name
            for order in ("beetles", "butterflies")
            for name in pd.read_csv(folder / order / "out_original.csv").filename
        ]
        np.testing.assert_allclose(scores, [share[name] for name in full])


def test_platt_scaling_calibrates_a_balanced_set_and_keeps_the_order(scripts):
    rng = np.random.default_rng(0)
    truth = np.repeat([1, 0], [300, 2700])
    logit = rng.normal(2.0 * truth - 1, 1.0)
    score = 1 / (1 + np.exp(-(3 * logit + 4)))
    score[0] = 1.0
    found = scripts.images.Predictions(truth, score, {30: score}).platt()
    assert abs(np.mean([found.full[truth == k].mean() for k in (0, 1)]) - 0.5) < 0.01
    assert (np.diff(found.full[np.argsort(score)]) >= 0).all()
    np.testing.assert_array_equal(found.full, found.small[30])


@pytest.mark.parametrize("script", ["resolution", "subpopulations"])
def test_the_original_experiment_runs_on_predictions_of_others(tmp_path, script):
    folder = write_predictions(tmp_path / "p", n=260)
    command = [
        EXPERIMENTS / f"{script}.py",
        "--quick",
        "--jobs",
        1,
        "--predictions",
        folder,
        "--out",
        tmp_path,
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, command)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / f"{script}_predictions.csv")
    assert table.replica.nunique() >= 3
    if script == "resolution":
        assert set(table["size"]) == {30, 40}
        assert (table.true_rate == 0.5).all(), "the base rate is what the folders hold"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: None, None),
        (lambda folder: folder.rename(folder.with_name("gone")), "There is no folder"),
        (lambda folder: (folder / "butterflies").rename(folder / "moths"), r"no folder .*butterflies"),
        (lambda folder: (folder / "beetles" / "out_original.csv").unlink(), "no file for full resolution"),
        (lambda folder: (folder / "beetles" / "out_30.csv").unlink(), r"sizes \[0, 40\] but butterflies"),
        (lambda folder: edit(folder, lambda t: t.drop(columns="beetles")), "no column 'beetles'"),
        (lambda folder: edit(folder, lambda t: t.drop(columns="butterfiles")), "no column 'butterflies'"),
        (lambda folder: edit(folder, lambda t: t.drop(columns="filename")), "no column 'filename'"),
        (lambda folder: edit(folder, lambda t: t.iloc[1:]), "do not hold the same images"),
        (lambda folder: edit(folder, lambda t: pd.concat([t, t.iloc[:1]])), "twice"),
        (lambda folder: edit(folder, lambda t: t.assign(beetles=0, butterfiles=0)), "probability 0"),
        (lambda folder: edit(folder, lambda t: t.assign(beetles=1.5)), "no probability between 0 and 1"),
        (lambda folder: edit(folder, lambda t: t.assign(beetles=-0.1)), "no probability between 0 and 1"),
        (lambda folder: edit(folder, lambda t: t.assign(beetles=np.nan)), "no probability between 0 and 1"),
        (lambda folder: edit(folder, lambda t: t.assign(beetles="high")), "no probability between 0 and 1"),
    ],
)
def test_predictions_that_cannot_be_used_are_told(scripts, tmp_path, damage, message):
    folder = write_predictions(tmp_path / "p")
    damage(folder)
    if message is None:
        assert len(scripts.images.read(folder).truth) == 12
        return
    with pytest.raises(InputError, match=message):
        scripts.images.read(folder)


def edit(folder, change):
    """Change one of the files."""
    path = folder / "beetles" / "out_40.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)


def test_the_command_line_tells_what_is_wrong_with_predictions(tmp_path):
    command = [sys.executable, str(EXPERIMENTS / "resolution.py"), "--predictions", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "There is no folder" in done.stderr
    assert "Traceback" not in done.stderr
