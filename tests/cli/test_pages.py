"""`fieldcal report`, the page of `run`, and `fieldcal demo`."""

from __future__ import annotations

import builtins
import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fieldcal
from fieldcal import demo
from fieldcal.errors import InputError, option


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["html", "md", "json"])
def test_the_ending_says_what_is_written_and_the_same_estimate_gives_the_same_bytes(artefacts, call, ending):
    for name in ("one", "two"):
        assert call(f"report prevalence.json -o {name}.{ending} --title Sites").code == 0
    written = (artefacts / f"one.{ending}").read_text("utf-8")
    assert written == (artefacts / f"two.{ending}").read_text("utf-8")
    start = {"html": "<!doctype html>", "md": "# Sites\n", "json": "{"}[ending]
    assert written.startswith(start)
    if ending == "html":
        prev = fieldcal.Prevalence.load("prevalence.json")
        assert written == fieldcal.report(prev, title="Sites").html()


def labelled(folder, every=3):
    """The field's table with a label in every third row, drawn from its own score."""
    with (folder / "field.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    with (folder / "labelled.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["site", "p", "y"])
        for i, row in enumerate(rows):
            y = int((i * 0.618) % 1 < float(row["p"]))
            writer.writerow([row["site"], row["p"], "" if i % every else y])
    return len(rows[::every])


def test_labelled_rows_are_compared_before_and_after(artefacts, call):
    n = labelled(artefacts)
    done = call("report prevalence.json --labelled labelled.csv -o page.json --json")
    assert done.code == 0, done.err
    measures = {m["measure"]: m for m in json.loads(done.out)["labelled"]}
    content = json.loads((artefacts / "page.json").read_text("utf-8"))
    assert content["labelled"]["rows"] == n
    # Labels were drawn from the raw scores: these are right, and any correction is wrong.
    assert measures["log loss"]["after"] > measures["log loss"]["before"]
    assert "worse" in content["labelled"]["sentences"][0]


@pytest.mark.slow
def test_run_ends_with_a_page(folder, call):
    done = call("run lab.csv field.csv --label y --scores p --by site --model v7 -o out")
    assert done.code == 0
    assert "wrote out/report.html" in done.err
    prev = fieldcal.Prevalence.load("out/prevalence.json")
    page = (folder / "out" / "report.html").read_text("utf-8")
    assert page == fieldcal.report(prev, data="field.csv", model="v7").html()
    assert "Groups by <bdi>site</bdi>" in page


def test_fault_67_ctrl_c_that_a_library_turns_into_its_own_error_ends_the_run(folder, call, monkeypatch):
    caught = []

    def interrupted(*args, **options):
        caught.append(2)
        raise ImportError("half imported")

    for module in ("run", "dispatch"):
        monkeypatch.setattr(f"fieldcal.cli.{module}.signals", caught)
    monkeypatch.setattr(fieldcal, "report", interrupted)
    assert call("run lab.csv field.csv --label y --scores p --by site -o out").code == 130
    assert not (folder / "out").exists()


def test_run_without_the_libraries_for_pages_says_so_and_does_the_rest(folder, call, monkeypatch):
    real = builtins.__import__

    def fake(name, *args, **kwargs):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *args, **kwargs)

    monkeypatch.setattr("fieldcal.storage.importlib.import_module", lambda name: fake(name))
    done = call("run lab.csv field.csv --label y --scores p --by site -o out")
    assert done.code == 0
    assert re.search(r"warning: No report.html: matplotlib .* pip install 'fieldcal\[report\]'", done.err)
    assert (folder / "out" / "recalibrated.parquet").exists()
    assert not (folder / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("no ink"), "RuntimeError: no ink. This is a bug in fieldcal. Run again with --debug"),
        (OSError(28, "No space left on device"), "No space left on device. Check the path"),
        (InputError(f"No. Pass {option('groups')}."), "No. Pass --by."),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_report_that_fails_costs_run_nothing_but_the_report(folder, call, monkeypatch, error, told):
    def fail(self):
        raise error

    monkeypatch.setattr("fieldcal.reporting.Report.html", fail)
    done = call("run lab.csv field.csv --label y --scores p --by site -o out")
    assert done.code == 0
    warned, *written = done.err.splitlines()
    assert warned.startswith("warning: No report.html: ")
    assert told in warned
    names = ["lab.json", "field.json", "prevalence.json", "prevalence.csv", "recalibrated.parquet"]
    assert written == [f"wrote out/{name}" for name in names]
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted(names)
    assert "Prevalence of 1 in 8 groups" in done.out
    prev = fieldcal.Prevalence.load("out/prevalence.json")
    assert call("check out/prevalence.json").code == {"ok": 0, "care": 2, "do_not_use": 3}[prev.verdict.level]


def test_a_report_that_fails_is_told_to_scripts_and_shown_with_debug(folder, call, monkeypatch):
    def fail(self):
        raise RuntimeError("no ink")

    monkeypatch.setattr("fieldcal.reporting.Report.html", fail)
    done = call("run lab.csv field.csv --label y --scores p --by site -o out --json --debug")
    assert done.code == 0
    told = json.loads(done.out)
    assert [w.partition(": RuntimeError")[0] for w in told["warnings"]] == ["No report.html"]
    assert told["written"][-1] == "out/recalibrated.parquet"
    assert "Traceback" in done.err


def test_an_interrupt_while_the_report_is_made_ends_run(folder, call, monkeypatch):
    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldcal.reporting.Report.html", stop)
    assert call("run lab.csv field.csv --label y --scores p --by site -o out").code == 130
    assert sorted(os.listdir(folder)) == ["field.csv", "lab.csv"]


@pytest.mark.slow
def test_run_makes_its_page_from_a_source_tree_that_is_not_installed(folder):
    """Nothing but the sources and what they need: no metadata of fieldcal."""
    source = folder / "tree"
    source.mkdir()
    (source / "fieldcal").symlink_to(Path(fieldcal.__file__).parent)
    code = """
import importlib.metadata, sys
real = importlib.metadata.distribution
def distribution(name):
    if name == "fieldcal":
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)
importlib.metadata.distribution = distribution
sys.path.insert(0, "tree")
import fieldcal, fieldcal.cli
assert fieldcal.__file__.endswith("tree/fieldcal/__init__.py"), fieldcal.__file__
fieldcal.cli.main("run lab.csv field.csv --label y --scores p --by site -o out".split())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "No report.html" not in done.stderr
    assert fieldcal.__version__ in (folder / "out" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("report prevalence.json -o page.pdf", r"as .html, .md or .json, but not 'page.pdf'"),
        ("report prevalence.json -o page", r"Add an ending"),
        ("report prevalence.json -o page.html --of 2", r"no class '2'"),
        ("report prevalence.json -o page.html --label y", r"--labelled, which is not given"),
        ("report prevalence.json -o page.html --labelled no.csv", r"no.csv"),
        ("report prevalence.json -o page.html --labelled field.csv", r"no column 'y'"),
        ("report lab.json -o page.html", r"holds a 'lab', but a 'prevalence' was expected"),
        ("report prevalence.json -o prevalence.json", r"prevalence.json"),
        ("demo -o prevalence.json", r"is a file, but `demo` needs a folder"),
    ],
)
def test_a_report_that_cannot_be_made_says_why_and_writes_nothing(artefacts, call, line, message):
    before = {path: path.read_bytes() for path in artefacts.iterdir()}
    done = call(line)
    assert done.code == 1
    assert re.match(rf"error: .*{message}", done.err)
    assert {path: path.read_bytes() for path in artefacts.iterdir()} == before


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The demo as a shell runs it, once."""
    from cli.conftest import run_process

    folder = tmp_path_factory.mktemp("demo")
    return folder, run_process("demo", cwd=folder)


def test_the_demo_ends_with_three_sentences_and_the_path_of_its_report(shown):
    folder, done = shown
    assert done.code == 0, done.err
    *_, one, two, three, empty, last = done.out.splitlines()
    assert last == "The report: fieldcal-demo/report.html"
    assert empty == ""
    assert one.startswith("From 16,954 predictions and no label")
    assert two.startswith("Recalibrated predictions are better in")
    assert three.startswith("The verdict")
    page = (folder / "fieldcal-demo" / "report.html").read_text("utf-8")
    assert "Evaluation on labelled rows of the field" in page
    assert [path.name for path in folder.iterdir()] == ["fieldcal-demo"]


def test_the_demo_goes_where_it_is_told_and_speaks_json(folder, call, monkeypatch):
    data = fieldcal.datasets.label_shift(n_lab=600, n_field=400, n_groups=3, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, classes=[0, 1])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field), trust=1)

    class Small:
        def report(self):
            return fieldcal.report(prev)

    small = Small()
    small.prev = prev
    monkeypatch.setattr(demo, "run", lambda step: small)
    monkeypatch.setattr(demo, "sentences", lambda found: ["Found."])
    for name in ("introduction", "table"):
        monkeypatch.setattr(demo, name, lambda found: "")
    done = call("demo -o a/b --json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["found"], told["written"]) == (["Found."], ["a/b/report.html"])
    assert (folder / "a" / "b" / "report.html").exists()
