"""The experiments run, resume, and say what their rows say."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

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


def script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", EXPERIMENTS / f"{name}.py", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_quick_run_leaves_csv_figures_and_summary(scripts, tmp_path):
    done = script("run", "--quick", "--jobs", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for name, (figures, rows, keys) in NAMES.items():
        for figure in figures:
            assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
            assert "<svg" in (tmp_path / f"{figure}.svg").read_text(encoding="utf-8")
        table = pd.read_csv(tmp_path / f"{name}.csv")
        assert len(table) == rows
        cells = getattr(scripts, name).study(quick=True).cells
        assert table[keys].drop_duplicates().to_dict("records") == cells
        section = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert section in done.stdout
        assert section in (tmp_path / "summary.md").read_text(encoding="utf-8")
        assert "holds**" in section
    assert not list(tmp_path.glob("*.part.csv"))


@pytest.mark.slow
def test_two_processes_give_the_same_bytes_as_one(scripts, tmp_path):
    done = script("run", "--quick", "--jobs", 2, "--out", tmp_path / "two", "quantification")
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


def test_a_finished_run_is_not_run_again_unless_asked_or_its_settings_changed(scripts, tmp_path):
    ran = []

    def rows(cell):
        ran.append(cell["replica"])
        return [{"value": 0.5}]

    for bins, fresh, runs in ((4, False, 1), (4, False, 1), (4, True, 2), (8, False, 3)):
        study = toy(scripts, rows, settings={"bins": bins})
        scripts.harness.compute(study, tmp_path, jobs=1, fresh=fresh)
        assert ran == runs * [0, 1, 2, 3, 4]
    assert json.loads((tmp_path / "toy.json").read_text(encoding="utf-8"))["settings"] == {"bins": 8}


# The full version.


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


@pytest.mark.slow
def test_every_figure_has_its_caption_in_summary_and_docs(scripts):
    summary = (EXPERIMENTS / "results" / "summary.md").read_text(encoding="utf-8")
    docs = " ".join(
        (EXPERIMENTS.parent / "docs" / "evidence" / "experiments.md").read_text(encoding="utf-8").split()
    )
    for name, (figures, *_) in NAMES.items():
        captions = getattr(scripts, name).study(quick=True).captions
        assert set(captions) == set(figures)
        for figure, caption in captions.items():
            assert (EXPERIMENTS / "results" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
            assert f"]({figure}.png)\n\n{caption}\n" in summary
            assert f"](../../experiments/results/{figure}.png) {caption}" in docs
            assert name == "real_groups" or "Same as the paper's: " in caption


# What is the paper's.


def test_a_claim_that_only_a_weaker_bar_lets_through_is_called_relaxed(scripts):
    for holds, weaker, word in (
        (True, ("less", True), "**holds**"),
        (False, None, "**does not hold**"),
        (False, ("less", True), "**relaxed**: less"),
        (False, ("less", False), "**does not hold**, nor the weaker: less"),
    ):
        claim = scripts.tell.Claim("more", holds, "seen", "the paper's", weaker)
        assert scripts.tell.claims([claim]).endswith(f"| more | the paper's | seen | {word} |")


@pytest.mark.parametrize(
    ("lab", "field", "size", "seed"),
    [(0.05, 0.5, 1000, 1), (0.05, 0.5, 50, 0), (0.5, 0.8, 50, 29)],
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


def test_the_evaluation_set_is_balanced_and_the_field_has_its_base_rate_and_other_images(scripts, digits):
    lab, field = scripts.images.draw(digits, np.random.default_rng(0), per_class=200, base_rate=0.11)
    assert np.bincount(digits.truth[lab]).tolist() == [200, 200]
    assert abs(digits.truth[field].mean() - 0.11) < 0.001
    assert not set(lab) & set(field)
    assert len(set(field)) == len(field) > 700


def test_groups_are_dealt_with_exact_base_rates(scripts):
    truth = np.repeat([0, 1], 200)
    groups = scripts.subpopulations.deal(truth, 0.1, np.random.default_rng(0))
    assert truth[groups == 1].mean() == pytest.approx(0.1)
    assert truth[groups == 2].mean() == pytest.approx(0.9)
    assert set(scripts.subpopulations.deal(truth, 0.0, np.random.default_rng(0))[truth == 1]) == {2}


# Predictions computed elsewhere.


def write_predictions(folder, *, n=6):
    """A folder as the R scripts leave it; probabilities that do not sum to one, rows in another order per size."""
    rng = np.random.default_rng(0)
    for order in ("beetles", "butterflies"):
        (folder / order).mkdir(parents=True)
        for size in ("30", "40", "original"):
            frame = pd.DataFrame(
                {
                    "filename": [f"{size}/{order}/{order}_{i}.jpg" for i in range(n)],
                    "beetles": rng.random(n).round(3),
                    "butterfiles": rng.random(n).round(3),
                }
            )
            frame = frame.sample(frac=1, random_state=len(size))
            frame.to_csv(folder / order / f"out_{size}.csv", index=False)
    return folder


def test_predictions_in_the_r_format_are_read_as_they_were_written(scripts, tmp_path, monkeypatch):
    folder, spelt = write_predictions(tmp_path / "p"), "butterfiles"
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
def test_the_original_experiment_runs_on_predictions_of_others(tmp_path):
    folder = write_predictions(tmp_path / "p", n=260)
    done = script("resolution", "--quick", "--jobs", 1, "--predictions", folder, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "resolution_predictions.csv")
    assert set(table["size"]) == {30, 40}
    assert (table.true_rate == 0.5).all(), "the base rate is what the folders hold"
    done = script("resolution", "--predictions", tmp_path / "none")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "There is no folder" in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="beetles"), "no column 'beetles'"),
        (lambda t: t.iloc[1:], "do not hold the same images"),
        (lambda t: t.assign(beetles=1.5), "no probability between 0 and 1"),
    ],
)
def test_predictions_that_cannot_be_used_are_refused(scripts, tmp_path, change, message):
    path = write_predictions(tmp_path / "p") / "beetles" / "out_40.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)
    with pytest.raises(InputError, match=message):
        scripts.images.read(tmp_path / "p")
