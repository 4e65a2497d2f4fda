"""What is printed: JSON for scripts, no escape codes where nobody looks, nothing that data can command."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fieldcal
from fieldcal.objects import Finding

LINES = {
    "learn": "learn lab.csv --label y --scores p --by site -o new.json",
    "count": "count lab.json field.csv -o new.json",
    "merge": "merge field.json -o new.json",
    "estimate": "estimate lab.json field.json -o new.json",
    "recalibrate": "recalibrate prevalence.json field.csv -o new.parquet",
    "decide": "decide prevalence.json field.csv -o new.parquet",
    "contrast": "contrast prevalence.json --rank",
    "plan": "plan prevalence.json",
    "show": "show prevalence.json",
    "check": "check prevalence.json",
    "sql count": "sql count lab.json leads --dialect postgres",
    "sql recalibrate": "sql recalibrate prevalence.json leads --dialect postgres",
    "sql decide": "sql decide prevalence.json leads --dialect postgres",
    "sql weights": "sql weights prevalence.json",
    "run": "run lab.csv field.csv --label y --scores p --by site -o out",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("place", ["before", "after"])
def test_json_is_one_object_wherever_the_option_stands(line, place, artefacts, call):
    args = line.split()
    done = call(*(["--json", *args] if place == "before" else [*args, "--json"]))
    assert done.code in (0, 2)
    assert isinstance(json.loads(done.out), dict)
    assert len(done.out.splitlines()) == 1


def test_json_holds_what_was_found_and_the_warnings(artefacts, call):
    done = call("estimate", "lab.json", "field.json", "--trust", "1", "-o", "new.json", "--json")
    found, prev = json.loads(done.out), fieldcal.Prevalence.load("new.json")
    assert found["verdict"] == prev.verdict.level
    assert found["reasons"] == list(prev.verdict.reasons)
    assert [row["estimate"] for row in found["whole"]] == prev.whole.estimate.tolist()
    assert found["prevalence"][:2] == found["whole"]
    assert [row["estimate"] for row in found["prevalence"][2:]] == prev.estimate.ravel().tolist()
    assert found["written"] == ["new.json"]
    assert found["digest"] == prev.digest
    assert [f"warning: {w}" for w in found["warnings"]] == [
        line for line in done.err.splitlines() if line.startswith("warning")
    ]


def test_json_csv_and_documentation_speak_of_the_same_columns(artefacts, call):
    done = call("estimate", "lab.json", "field.json", "-o", "new.json", "--csv", "new.csv", "--json")
    found, prev = json.loads(done.out), fieldcal.Prevalence.load("new.json")
    assert (found["trust_between"], found["trust_overall"]) == (prev.trust_between, prev.trust_overall)
    with open("new.csv", newline="", encoding="utf-8") as stream:
        head = next(csv.reader(stream))
    assert head == list(found["prevalence"][0])
    assert {"mean_prediction", "urc", "estimate", "trust_between", "trust_overall"} <= set(head)
    documented = (Path(__file__).parents[2] / "docs" / "how-to" / "tables.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in documented for name in head)


@pytest.mark.slow
def test_recalibrate_and_run_say_when_nothing_is_changed(artefacts, call):
    call("estimate", "lab.json", "field.json", "--trust", "0", "-o", "none.json")
    done = call("recalibrate", "none.json", "field.csv", "-o", "same.parquet")
    assert done.out == "2,400 rows written, their predictions unchanged: trust is 0\n"
    data = json.loads(call("recalibrate", "none.json", "field.csv", "-o", "same.parquet", "--json").out)
    assert (data["rows"], data["changed"]) == (2400, False)
    told = call(
        "run", "lab.csv", "field.csv", *["--label", "y", "--scores", "p", "--trust", "0", "-o", "out"]
    ).out
    assert "unchanged: trust is 0" in told
    assert "rows recalibrated" not in told


@pytest.mark.slow
def test_recalibrate_and_run_say_when_predictions_are_calibrated_and_no_more(folder, call):
    options = ["--label", "y", "--scores", "p", "--calibration", "sigmoid"]
    told = call("run", "lab.csv", "field.csv", *options, "--trust", "0", "-o", "out").out
    assert "their predictions calibrated on the lab and not recalibrated: trust is 0" in told
    assert "unchanged" not in told
    line = ["recalibrate", "out/prevalence.json", "field.csv", "-o", "new.parquet"]
    assert call(*line).out.endswith("calibrated on the lab and not recalibrated: trust is 0\n")
    assert json.loads(call(*line, "--json").out)["changed"] is True


def test_what_is_not_recommended_is_written_as_asked_and_said_to_be_so(artefacts, call):
    call("estimate", "lab.json", "field.json", "--trust", "1", "-o", "full.json")
    bad = Finding(code="bad", question="Is it bad?", state="do_not_use", text="It is.")
    prev = fieldcal.Prevalence.load("full.json")
    prev.model_copy(update={"verdict": fieldcal.Verdict(findings=(bad,))}).save("bad.json")
    told = call("recalibrate", "bad.json", "field.csv", "-o", "new.parquet").out
    assert told.startswith("2,400 rows written as asked, which is not recommended")
    data = json.loads(call("recalibrate", "bad.json", "field.csv", "-o", "new.parquet", "--json").out)
    assert (data["changed"], data["verdict"]) == (True, "do_not_use")


def test_people_read_under_label_shift_and_the_help_says_that_it_is_the_column_urc(artefacts, call):
    shown = call("estimate", "lab.json", "field.json", "-o", "new.json").out
    assert "under label shift" in shown
    assert "urc" not in shown
    told = " ".join(call("estimate", "--help").out.split())
    assert "if label shift is all that happened; in the file of --table the column urc)" in told


def test_the_other_results_of_json(artefacts, call):
    lab = json.loads(call(LINES["learn"], "--json").out)
    assert (lab["rows"], lab["classes"], lab["columns"]["scores"]) == (3000, [0, 1], ["p"])
    assert lab["rehearsal"]["groups"] == 8
    field = json.loads(call(LINES["count"], "--json").out)
    assert (field["rows"], field["groups"], field["by"], field["dropped"]) == (2400, 8, ["site"], 0)
    assert json.loads(call(LINES["recalibrate"], "--json").out)["rows"] == 2400
    verdict = call("check", "prevalence.json", "--json")
    assert json.loads(verdict.out)["exit_code"] == verdict.code


def test_json_and_a_table_cannot_share_standard_output(artefacts, call, one_error):
    assert "standard output" in one_error(
        call("recalibrate", "prevalence.json", "field.csv", "-o", "-", "--json")
    )


def test_warnings_are_one_line_each_and_on_stderr(artefacts, call, write_table):
    write_table("new.csv", {"p": [0.1, 0.9], "site": ["site 1", "elsewhere"]})
    done = call("recalibrate prevalence.json new.csv -o out.csv")
    warned, written = done.err.splitlines()
    assert warned.startswith("warning: The groups of 1 rows (one is 'elsewhere') were not in the field")
    assert "--unseen" in warned
    assert written == "wrote out.csv"
    assert done.out == "2 rows recalibrated\n"


def test_quiet_leaves_results_and_errors(folder, call):
    done = call("-q", "run", "lab.csv", "field.csv", "--label", "y", "--scores", "p", "-o", "out")
    assert (done.code, done.err) == (0, "")
    assert "Prevalence in one population" in done.out
    assert call("-q", "check", "nowhere.json").err.startswith("error: ")


def on_a_terminal(args, folder, **environment):
    """What a terminal gets on stdout, and on stderr."""
    out, err = pty.openpty(), pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "fieldcal", *args], cwd=folder, stdout=out[1], stderr=err[1], env=env
    )
    for _, theirs in (out, err):
        os.close(theirs)
    texts = [_read_all(ours) for ours, _ in (out, err)]
    process.wait(timeout=60)
    return texts


def _read_all(terminal):
    parts = []
    try:
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    except OSError:  # the other side is closed
        pass
    os.close(terminal)
    return b"".join(parts).decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [["check", "prevalence.json"], ["--help"], ["learn", "--help"]], ids=" ".join
)
def test_a_terminal_has_colours_unless_no_color_is_set(args, artefacts):
    out, err = on_a_terminal(args, artefacts)
    assert "\x1b[" in out
    out, err = on_a_terminal(args, artefacts, NO_COLOR="1")
    assert "\x1b" not in out + err
    assert out


@pytest.mark.slow
def test_progress_is_on_stderr_and_only_on_a_terminal(artefacts, shell):
    line = LINES["estimate"].split()
    out, err = on_a_terminal(line, artefacts)
    assert "0:00:0" in err  # the time that the bar shows
    assert "estimate" in err
    assert "0:00:0" not in out
    _, err = on_a_terminal([*line, "--quiet"], artefacts)
    assert err == ""
    done = shell(*line)
    assert "\x1b" not in done.out + done.err
    assert done.err.splitlines() == ["wrote new.json"]


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_file_gets_no_escape_codes_even_where_others_force_them(line, artefacts, call, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = call(line)
    assert "\x1b" not in done.out + done.err


NASTY = [
    "</script><img src=x onerror=alert(1)>",
    "$\\frac{$",
    '=HYPERLINK("http://a.example","x")',
    "+1",
    "-1",
    "@SUM(A1)",
    "\ttab",
    "\rreturn",
    "[bold red]x[/bold red]",
    ":smile:",
    "\x1b[31mred\x1b[0m\x07",
    "\u202edesrever\u2066",
    "a\nb",
    "🐀" * 3,
    "x" * 10_000,
    "",
    None,
]


@pytest.fixture
def nasty(artefacts):
    """An estimate over groups whose names are out to do harm."""
    lab = fieldcal.Lab.load("lab.json")
    rng = np.random.default_rng(0)
    groups = [NASTY[i] for i in rng.integers(len(NASTY), size=3000)]
    fieldcal.count(lab, rng.random(3000), groups=groups).save("nasty.json")
    return artefacts


@pytest.mark.parametrize("case", ["csv"], ids=["fault_17_prevalence_csv"])
def test_no_cell_of_the_csv_is_a_formula_and_every_name_comes_back(case, nasty, call):
    assert call("estimate", "lab.json", "nasty.json", "-o", "new.json", "--csv", "new.csv").code == 0
    with open("new.csv", newline="", encoding="utf-8") as stream:
        head, *rows = csv.reader(stream)
    prev = fieldcal.Prevalence.load("new.json")
    assert head == list(prev.to_dict())
    assert [row[0] for row in rows[:3]] == ["whole", "whole", "group"]
    rows = rows[2:]
    assert not [
        cell for row in rows for cell in row[1:2] if cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    ]
    names = [row[1].removeprefix("'") for row in rows[::2]]
    assert sorted(names) == sorted(name or "" for name in NASTY)
    assert [float(row[6]) for row in rows] == prev.estimate.ravel().tolist()
    text = Path("new.csv").read_text(encoding="utf-8")
    assert '\n"group","",0,' in text  # the empty name
    assert '\n"group",,0,' in text  # null


@pytest.mark.parametrize("case", ["table"], ids=["fault_17_terminal"])
def test_names_from_data_reach_the_terminal_as_harmless_text(case, nasty, call):
    done = call("estimate", "lab.json", "nasty.json", "-o", "new.json")
    assert all(c.isprintable() or c == "\n" for c in done.out + done.err)
    assert max(map(len, done.out.splitlines())) < 400


def test_markup_in_a_name_is_shown_as_it_is(artefacts, call):
    lab = fieldcal.Lab.load("lab.json")
    names = ["[bold red]x[/bold red]", ":smile:"]
    fieldcal.count(lab, np.linspace(0.01, 0.99, 400), groups=names * 200).save("f.json")
    done = call("estimate", "lab.json", "f.json", "-o", "new.json")
    assert all(name in done.out for name in names)


@pytest.mark.parametrize("case", ["estimate"], ids=["fault_17_error_lines"])
def test_an_error_about_a_nasty_name_is_one_harmless_line(case, folder, call, one_error):
    line = one_error(
        call("learn", "lab.csv", "--label", "\x1b[31m\n\u202ey", "--scores", "p", "-o", "l.json")
    )
    assert line.isprintable()


def test_the_schema_names_every_field_of_its_artefact(artefacts):
    for kind, held in (("lab", fieldcal.Lab), ("field", fieldcal.Field), ("prevalence", fieldcal.Prevalence)):
        schema = held.model_json_schema(mode="serialization")
        content = json.loads(Path(f"{kind}.json").read_text(encoding="utf-8"))["content"]
        unused = {"lab": {"calibration_map"}, "field": {"every"}}.get(
            kind, set()
        )  # left out where there is none
        assert set(schema["properties"]) - unused == set(content)
        assert set(schema["required"]) <= set(content)
        names = {list: "array", dict: "object", str: "string", bool: "boolean", type(None): "null"}
        for name, value in content.items():
            said = json.dumps(schema["properties"][name]) + json.dumps(schema.get("$defs", {}))
            assert names.get(type(value), '"') in said


def test_completion_knows_the_commands(folder, shell):
    env = {
        **os.environ,
        "_FIELDCAL_COMPLETE": "complete_bash",
        "COMP_WORDS": "fieldcal re",
        "COMP_CWORD": "1",
    }
    assert shell(env=env).out.split() == ["recalibrate", "report"]


def test_show_says_how_many_rows_of_a_field_have_labels_by_design(artefacts, call):
    lab = fieldcal.Lab.load("lab.json")
    chosen = [fieldcal.count(lab, [0.2, 0.8], y=[0, 1], design="by_class"), fieldcal.count(lab, [0.4], y=[1])]
    sum(chosen).save("labelled.json")
    told = call("show labelled.json").out
    assert "and the labels of some" in told
    assert "labelled rows: 1 chosen at random, 2 chosen by class" in told
    assert json.loads(call("--json show labelled.json").out)["labelled"] == {"random": 1, "by_class": 2}
    assert json.loads(call("--json show field.json").out)["labelled"] == {}
