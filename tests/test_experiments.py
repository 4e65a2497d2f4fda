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
        2 * (4 + 3) * 2 * 6,
        ["experiment", "lab", "field", "replica"],
    ),
    "entomologist": (["entomologist"], 6 * 2 * 4, ["replica"]),
    "examples": (["examples"], 2 * 7, ["truth"]),
    "platt": (["platt"], 3 * 3 * 2 * 10, ["replica"]),
    "resolution": (["resolution_accuracy", "resolution_brier"], 2 * 3 * 6 * 5, ["positive", "replica"]),
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


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """All experiments in one go: what was printed, and the folder."""
    folder = tmp_path_factory.mktemp("quick")
    done = experiments("--quick", "--jobs", 1, "--out", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_leaves_csv_figures_and_summary(scripts, name, quick_run):
    printed, tmp_path = quick_run
    figures, rows, keys = NAMES[name]
    for figure in figures:
        assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{figure}.svg").read_text(encoding="utf-8")
    table = pd.read_csv(tmp_path / f"{name}.csv")
    assert len(table) == rows
    assert table[keys].drop_duplicates().to_dict("records") == getattr(scripts, name).study(quick=True).cells
    assert table.groupby(keys).size().nunique() == 1
    section = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert section in printed
    assert section in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "holds**" in section
    assert not list(tmp_path.glob("*.part.csv"))
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.slow
def test_an_unknown_experiment_is_named(tmp_path):
    done = experiments("--quick", "--out", tmp_path, "alchemy")
    assert done.returncode == 2
    assert "'alchemy'" in done.stderr


@pytest.mark.slow
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


@pytest.mark.slow
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
        "quantification": 2 * (6 * 30 + 200),
        "entomologist": 201,
        "examples": 2,
        "platt": 100,
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


def test_every_box_has_thirty_replicas_of_the_papers_prevalences_and_sizes_and_the_rows_have_more(scripts):
    study = scripts.quantification.study()
    assert study.settings["sizes"] == (50, 100, 500, 1000, 3000)
    cells = pd.DataFrame(study.cells)
    boxes = cells[cells.replica < 30].groupby(["experiment", "lab", "field"]).replica
    assert (boxes.nunique() == 30).all()
    shares = {0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95}
    training, test = (cells[cells.experiment == f"balanced {part}"] for part in ("training", "test"))
    assert (set(training.lab), set(training.field)) == ({0.5}, shares)
    assert (set(test.lab), set(test.field)) == (shares, {0.5})
    assert (cells[cells.replica >= 30][["lab", "field"]].min(axis=1) == 0.05).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_its_caption_in_summary_and_docs(scripts, name):
    captions = getattr(scripts, name).study(quick=True).captions
    assert set(captions) == set(NAMES[name][0])
    summary = (EXPERIMENTS / "results" / "summary.md").read_text(encoding="utf-8")
    docs = " ".join(
        (EXPERIMENTS.parent / "docs" / "evidence" / "experiments.md").read_text(encoding="utf-8").split()
    )
    for figure, caption in captions.items():
        assert f"]({figure}.png)\n\n{caption}\n" in summary
        assert f"](../../experiments/results/{figure}.png) {caption}" in docs
        if name != "real_groups":
            assert "Same as the paper's: " in caption
            assert "Not the same: " in caption


# What is the paper's.


@pytest.mark.parametrize(
    ("holds", "weaker", "word"),
    [
        (True, None, "**holds**"),
        (True, ("less", True), "**holds**"),
        (False, None, "**does not hold**"),
        (False, ("less", True), "**relaxed**: less"),
        (False, ("less", False), "**does not hold**, nor the weaker: less"),
    ],
)
def test_a_claim_that_only_a_weaker_bar_lets_through_is_called_relaxed(scripts, holds, weaker, word):
    claim = scripts.tell.Claim("more", holds, "seen", "the paper's", weaker)
    assert scripts.tell.claims([claim]).endswith(f"| more | the paper's | seen | {word} |")


@pytest.mark.parametrize(
    ("lab", "field", "size", "seed"),
    [(0.05, 0.5, 1000, 1), (0.05, 0.5, 50, 0), (0.95, 0.5, 500, 2), (0.5, 0.05, 100, 3), (0.5, 0.8, 50, 29)],
)
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_a_replica_has_the_authors_data_and_their_codes_answers(scripts, lab, field, size, seed):
    data = scripts.authors.draw(lab=lab, field=field, size=size, seed=seed)
    assert (len(data.y_lab), data.y_lab.sum()) == (2000, round(2000 * lab))
    assert (len(data.y_fields[0]), data.y_fields[0].sum()) == (size, int(size * field))
    experiment = "balanced training" if lab == 0.5 else "balanced test"
    found = scripts.authors.estimates().set_index(["experiment", "lab", "field", "size", "replica", "method"])
    theirs = found.estimate.sort_index().loc[experiment, lab, field, size, seed]
    ours = scripts.quantification.estimates(data)
    assert ours["CC"] == pytest.approx(theirs["CC"], abs=1.01 / size)  # a row on the edge of the decision
    assert ours["EM"] == pytest.approx(theirs["EM"], abs=0.002)
    assert ours["URC (2 bins)"] == pytest.approx(theirs["URC"], abs=0.02)  # Adam stops inside the ends
    if scripts.quantification.told_apart(data):
        assert ours["ACC"] == pytest.approx(theirs["ACC"], abs=0.01)
    else:
        assert ours["ACC"] == pytest.approx(ours["CC"], abs=1e-6)


def test_the_figures_of_the_paper_are_those_of_the_authors_code(scripts):
    boxes = scripts.authors.boxes()
    found = scripts.authors.estimates()
    found["share"] = np.where(found.experiment == "balanced training", found.field, found.lab)
    keys = ["experiment", "share", "size", "method"]
    quartiles = found.groupby(keys).estimate.quantile([0.25, 0.5, 0.75]).unstack()
    apart = np.abs(boxes.set_index(keys)[["q1", "median", "q3"]].loc[quartiles.index] - quartiles.to_numpy())
    assert len(apart) == 2 * 7 * 5 * 4
    assert (apart.max(axis=1) < 0.0052).sum() >= 270  # a pixel and a half of the grids
    assert apart.max(axis=None) < 0.05


def test_the_papers_sizes_stand_beside_sizes_of_the_same_rank(scripts):
    counterpart = scripts.published.counterpart
    assert counterpart([2, 3, 4, 5, 6, 7]) == {2: 30, 3: 40, 4: 50, 5: 75, 6: 100, 7: 200}
    assert counterpart([30, 200]) == {30: 30, 200: 200}
    assert counterpart([1, 2]) == {}


def test_in_the_entomologists_meadow_lemma_and_urc_give_the_true_shares(scripts):
    example = scripts.entomologist
    said, true = example.beetles(example.forest()), example.beetles(example.meadow())
    assert [str(share) for share in true] == ["3/5", "1/5", "1/10", "1/35"]
    assert (said > true).all()
    np.testing.assert_allclose(example.known_bias(), true.astype(float), rtol=1e-12)
    assert example.IN_MEADOW < example.mean_said() < example.base_rate(example.forest())
    estimate, new = example.recalibrated_exactly()
    assert estimate == pytest.approx(0.2, abs=1e-9)
    np.testing.assert_allclose(new, true.astype(float), rtol=0, atol=1e-9)


def test_the_examples_are_wrong_when_small_and_right_when_large(scripts):
    for truth in (0, 1):
        rows = pd.DataFrame(scripts.examples.run_cell({"truth": truth})).set_index("size")
        assert rows.image.nunique() == 1
        assert (rows.own[[2, 3, 4]] < 0.5).all()
        assert (rows.own[[6, 7, 8]] > 0.5).all()


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
    half = scripts.images.Predictions(truth, score, {}).platt(rng.permutation(3000)[:1500])
    assert abs(np.mean([half.full[truth == k].mean() for k in (0, 1)]) - 0.5) < 0.05


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_command_line_tells_what_is_wrong_with_predictions(tmp_path):
    command = [sys.executable, str(EXPERIMENTS / "resolution.py"), "--predictions", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "There is no folder" in done.stderr
    assert "Traceback" not in done.stderr
