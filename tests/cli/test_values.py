"""Verdicts from the command line: CSV and JSON Lines, and what is wrong with them told with its line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

ASKED = "--predictions verdict --label human --by model --design random"


def rows_of(path):
    with Path(path).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_one_table_gives_the_share_of_every_slice(judged, call):
    done = call(f"run judged.csv {ASKED} -o out --json")
    assert done.code == 0, done.err
    assert sorted(path.name for path in Path("out").iterdir()) == [
        *("differences.csv", "field.json", "lab.json", "prevalence.json", "report.html", "shares.csv")
    ]
    shares = rows_of("out/shares.csv")
    assert list(shares[0]) == [
        *("scope", "slice", "class", "n", "labelled", "verdict_share", "share", "lower", "upper", "status")
    ]
    assert [(r["scope"], r["slice"]) for r in shares[::2]] == [
        ("whole", ""),
        *(("slice", name) for name in ("alpha", "beta", "gamma")),
    ]
    judged_rows = rows_of("judged.csv")
    for row in shares[2:]:
        own = [r for r in judged_rows if r["model"] == row["slice"]]
        says = sum(r["verdict"].strip().lower() == row["class"] for r in own) / len(own)
        assert int(row["n"]) == len(own)
        assert int(row["labelled"]) == sum(r["human"] != "" for r in own)
        assert float(row["verdict_share"]) == pytest.approx(says, abs=1e-12)
        assert float(row["lower"]) < float(row["share"]) < float(row["upper"])
    differences = rows_of("out/differences.csv")
    assert len(differences) == len(json.loads(done.out)["differences"][0]["differences"]) == 3
    assert {r["class"] for r in differences} == {"pass"}


@pytest.mark.slow
def test_json_lines_and_csv_of_the_same_rows_say_the_same(judged, call):
    call(f"run judged.csv {ASKED} -o one")
    done = call(
        "run judged.jsonl --predictions judge.verdict --label human --by model --design random -o two"
    )
    assert done.code == 0, done.err
    assert Path("one/shares.csv").read_bytes() == Path("two/shares.csv").read_bytes()
    assert Path("one/differences.csv").read_bytes() == Path("two/differences.csv").read_bytes()


@pytest.mark.slow
def test_items_make_the_page_and_the_differences_those_of_paired_rows(judged, call):
    for folder, item in (("alone", ""), ("paired", "--item question")):
        done = call(f"run judged.csv {ASKED} {item} -o {folder}")
        assert (done.code, "No report" in done.err) == (0, False), done.err
    alone, paired = (Path(folder) for folder in ("alone", "paired"))
    assert (alone / "shares.csv").read_bytes() == (paired / "shares.csv").read_bytes()
    for name in ("differences.csv", "report.html"):
        assert (alone / name).read_bytes() != (paired / name).read_bytes()


@pytest.mark.slow
def test_recalibrated_probabilities_are_written_if_they_are_asked_for(judged, call):
    assert call(f"run judged.csv {ASKED} -o out --recalibrated").code == 0
    assert Path("out/recalibrated.parquet").exists()
    again = call(f"run judged.csv {ASKED} -o out")
    assert "'out/recalibrated.parquet' was of an earlier run, and is removed" in again.err


@pytest.mark.slow
def test_a_judge_that_does_not_say_the_classes_has_no_verdict_share(judged, call):
    text = Path("judged.csv").read_text()
    rated = text.replace("PASS", "5").replace("pass ", "4").replace(",pass,", ",5,").replace(",fail,", ",1,")
    Path("rated.csv").write_text(rated.replace("FAIL", "2").replace("fail ,", "2,"))
    done = call(f"run rated.csv {ASKED} -o out")
    assert done.code == 0, done.err
    assert "verdict_share" not in rows_of("out/shares.csv")[0]


def test_a_lab_of_its_own_and_a_field_are_two_tables(judged, call):
    done = call(f"run judged.csv judged.jsonl {ASKED.replace('random', 'by_class')} -o out")
    assert done.code == 1  # the field has its verdicts elsewhere
    assert "There is no column 'verdict' for the predictions" in done.err
    done = call("learn judged.csv --predictions verdict --label human --design by_class -o lab.json")
    assert done.code == 0
    assert call("count lab.json judged.jsonl --predictions judge.verdict --by model -o field.json").code == 0


def changed(name, row, **cells):
    """The judged rows, one of them with other cells, in a new file; JSON Lines where it is named so."""
    if name.endswith(".jsonl"):
        lines = [json.loads(line) for line in Path("judged.jsonl").read_text().splitlines()]
        verdict = cells.pop("verdict", ...)
        if verdict is not ...:
            lines[row]["judge"] = {"verdict": verdict}
        lines[row] |= cells
        Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return "--predictions judge.verdict --label human --by model --design random"
    rows = rows_of("judged.csv")
    rows[row] |= {key: "" if value is None else value for key, value in cells.items()}
    with Path(name).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return ASKED


def unlabelled(count=1):
    return [i for i, row in enumerate(rows_of("judged.csv")) if row["human"] == ""][count]


FILES = {"t.csv": 2, "t.jsonl": 1}  # and the line of the first row


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), FILES.items(), ids=str)
@pytest.mark.parametrize("verdict", [None, "   "], ids=["null", "blank"])
def test_a_missing_verdict_is_refused_with_its_line_or_dropped(judged, call, one_error, name, first, verdict):
    row = unlabelled()
    asked = changed(name, row, verdict=verdict)
    error = one_error(call(f"run {name} {asked} -o out"))
    assert "1 of 900 rows have no value" in error
    assert f"The first is line {row + first} of '{name}'" in error
    done = call(f"run {name} {asked} -o out --missing drop --json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["field"]["dropped"] == 1


@pytest.mark.parametrize(("name", "first"), FILES.items(), ids=str)
def test_a_label_in_another_spelling_is_refused_with_its_line(judged, call, one_error, name, first):
    for label in ("Pass", "pass "):
        asked = changed(name, 7, human=label)
        error = one_error(call(f"run {name} {asked} -o out"))
        assert f"The labels 'pass' and '{label}'" in error
        assert f"The first is line {7 + first} of '{name}'" in error


@pytest.mark.parametrize(("name", "first"), FILES.items(), ids=str)
def test_a_label_that_is_no_class_of_the_lab_is_refused_with_its_line(judged, call, one_error, name, first):
    call(f"learn judged.csv {ASKED} -o lab.json")
    asked = changed(name, 11, human="maybe").split(" --by")[0]
    error = one_error(call(f"count lab.json {name} {asked} -o field.json"))
    assert "The label 'maybe' in 1 row is not among the classes" in error
    assert f"The first is line {11 + first} of '{name}'" in error


@pytest.mark.slow
def test_a_report_of_values_is_made_from_the_estimate_alone(judged, call):
    call(f"run judged.csv {ASKED} --protected -o out")
    done = call("report out/prevalence.json -o page.md --json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["labelled"] is None


@pytest.mark.slow
def test_protected_slices_are_no_warning_where_no_row_is_changed(judged, call):
    done = call(f"run judged.csv {ASKED} --protected -o out")
    assert (done.code, "recalibrated" in done.err) == (0, False)
    assert "No recalibrated.parquet" in call(f"run judged.csv {ASKED} --protected --recalibrated -o out").err


@pytest.mark.parametrize("name", FILES)
def test_an_unknown_verdict_is_counted_and_told(judged, call, name):
    call("learn judged.csv --predictions verdict --label human --by model --design random -o lab.json")
    changed(name, 5, verdict="Pas")
    columns = "--predictions judge.verdict" if name.endswith("l") else ""
    done = call(f"count lab.json {name} {columns} -o field.json --json")
    assert done.code == 0, done.err
    assert "1 of 900 rows: 'pas' (1 row). Did you mean 'pass'?" in done.err
    assert json.loads(done.out)["unseen"] == 1


@pytest.mark.slow
def test_a_rare_verdict_of_rows_without_a_label_is_no_error(judged, call):
    asked = changed("t.csv", unlabelled(), verdict="cannot tell")
    assert call(f"run t.csv {asked} -o out").code == 0


def test_a_broken_line_is_refused_with_its_number(judged, call, one_error):
    lines = Path("judged.jsonl").read_text().splitlines()
    lines[41] = lines[41][:-1]
    Path("t.jsonl").write_text("\n".join(lines))
    asked = "--predictions judge.verdict --label human --by model --design random"
    assert "'t.jsonl', line 42, is not valid JSON" in one_error(call(f"run t.jsonl {asked} -o out"))
    lines[41] = json.dumps({"judge": "pass", "model": "alpha"})
    Path("t.jsonl").write_text("\n".join(lines))
    assert "'judge' is an object in 899 of 900 lines" in one_error(call(f"run t.jsonl {asked} -o out"))


@pytest.mark.slow
def test_standard_input_may_be_json_lines(judged, shell):
    text = Path("judged.jsonl").read_text()
    asked = "--predictions judge.verdict --label human --by model --design random"
    done = shell(f"run - {asked} -o out --quiet", input=text)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run judged.csv --predictions verdict --label human -o out", "--design random"),
        ("run judged.csv --scores p --label human -o out", "run needs two tables"),
        ("run lab.csv field.csv --scores p --label y --item row -o out", "--item goes with --predictions"),
        (
            "run lab.csv field.csv --scores p --label y --recalibrated -o out",
            "--recalibrated goes with --pred",
        ),
        ("learn lab.csv --scores p --label y --design random -o lab.json", "describes labelled rows"),
        (
            "learn judged.csv --predictions , --label human --design random -o l.json",
            "must name columns, such as verdict",
        ),
        ("learn judged.csv --scores verdict --label human -o l.json", "--predictions"),
        (f"run judged.csv {ASKED} --normalize -o out", "does not go with values"),
        (f"run judged.csv {ASKED} --item nothing -o out", "There is no column 'nothing'"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(judged, call, one_error, line, says):
    assert says in one_error(call(line))
    assert not Path("out").exists()
