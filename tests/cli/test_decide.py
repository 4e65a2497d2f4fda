"""fieldcal decide and fieldcal sql decide: what fieldcal.decide says, written beside the rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest

import fieldcal
from fieldcal.tables.files.costs_and_shares import goal_of


def rows_of(path):
    return list(csv.reader(Path(path).read_text(encoding="utf-8").splitlines()))


def expected(goal="accuracy"):
    """What arrays say of field.csv."""
    _, *rows = rows_of("field.csv")
    prev = fieldcal.Prevalence.load("prevalence.json")
    return fieldcal.decide(prev, [float(r[2]) for r in rows], groups=[r[1] for r in rows], goal=goal).tolist()


@pytest.mark.parametrize(
    ("option", "goal"),
    [("", "accuracy"), ("--goal balanced", "balanced"), ("--goal '0,1;20,0'", [[0, 1], [20, 0]])],
    ids=["accuracy", "balanced", "costs"],
)
def test_every_writer_writes_the_decision_of_arrays_beside_unchanged_rows(option, goal, artefacts, call):
    wanted = expected(goal)
    for name in ("new.csv", "new.parquet"):
        done = call(f"decide prevalence.json field.csv -o {name} {option}")
        assert (done.code, done.err) == (0, f"wrote {name}\n")
        found = duckdb.sql(f"SELECT row, decision FROM '{name}'").fetchall()
        assert found == list(enumerate(wanted))
    done = call(f"decide prevalence.json field.csv -o - {option}")
    assert done.code == 0
    assert done.out == Path("new.csv").read_text(encoding="utf-8")
    assert "2,400 rows decided" in done.err
    before = Path("field.csv").read_text(encoding="utf-8").splitlines()
    lines = done.out.splitlines()
    assert lines == [f"{before[0]},decision", *map("{},{}".format, before[1:], wanted)]


def test_the_answer_says_how_many_rows_are_which_class_before_and_after(artefacts, call):
    done = call("decide prevalence.json field.csv -o new.csv --goal '0,1;20,0' --json")
    answer, wanted = json.loads(done.out), expected([[0, 1], [20, 0]])
    largest = [int(float(r[2]) > 0.5) for r in rows_of("field.csv")[1:]]
    assert answer["decided"] == [
        {"class": c, "before": largest.count(c), "after": wanted.count(c)} for c in (0, 1)
    ]
    assert answer["changed"] == sum(a != b for a, b in zip(largest, wanted, strict=True))
    assert (answer["rows"], answer["undecided"], answer["written"]) == (2400, 0, ["new.csv"])
    assert (answer["goal"], answer["costs"]) == ("costs", [[0, 1], [20, 0]])
    told = call("decide prevalence.json field.csv -o new.csv --goal '0,1;20,0'").out
    assert "costs: deciding 0 when the truth is 1 costs 20" in told
    assert f"{wanted.count(1):,} by the decision" in told


FILES = {
    "plain.csv": "0,1\n20,0\n",
    "named.csv": "truth,1,0\n1,0,20\n0,1,0\n",
    "bom.csv": "\ufeff0, 1\r\n\r\n20, 0\r\n",
    "lists.json": "[[0, 1], [20, 0]]",
    "named.json": '{"1": {"0": 20, "1": 0}, "0": {"1": 1, "0": 0}}',
}


@pytest.mark.parametrize("name", FILES)
def test_costs_come_from_small_files_in_several_forms(name, folder):
    Path(name).write_text(FILES[name], encoding="utf-8")
    assert goal_of(name, (0, 1)) == [[0.0, 1.0], [20.0, 0.0]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"c.csv": "a,b,c\n"}, "2 rows (true classes) of 2 numbers"),
        ({"c.csv": "truth,yes,no\nyes,0,1\nno,1,0\n"}, "must name the classes 0, 1"),
        ({"c.csv": "truth,0,1\n0,0\n1,1,0\n"}, "must name the classes 0, 1"),
        ({"c.csv": "0,x\n1,0\n"}, "finite numbers, but have 'x'"),
        ({"c.json": "[[0, 1], [NaN, 0]]"}, "finite numbers"),
        ({"c.json": "{"}, "is no JSON"),
        ({"c.json": '{"0": 1, "1": 2}'}, "must name the classes"),
        ({"c.json": "3"}, "2 rows"),
        ({"c.csv": b"\xff\xfe"}, "UTF-8"),
        ({"c.csv": b""}, "empty"),
        ({}, "Cannot read 'c.csv'"),
    ],
    ids=str,
)
def test_costs_that_cannot_be_are_one_line(content, words, artefacts, call, one_error):
    name = next(iter(content), "c.csv")
    for text in content.values():
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert words in one_error(call(f"decide prevalence.json field.csv -o new.csv --goal {name}"))
    assert not Path("new.csv").exists()


def test_rows_without_a_prediction_are_refused_or_stay_undecided(artefacts, call, write_table, one_error):
    write_table("gaps.csv", {"p": ["0.3", "", "0.9"], "site": ["site 1"] * 3})
    assert "--missing keep" in one_error(call("decide prevalence.json gaps.csv -o out.csv"))
    done = call("decide prevalence.json gaps.csv --missing keep -o out.csv")
    assert "1 rows without a prediction stay undecided" in done.out
    assert [row[-1] for row in duckdb.read_csv("out.csv").fetchall()] == [0, None, 1]


def test_protected_groups_and_unseen_ones_are_treated_as_recalibrate_treats_them(
    artefacts, call, write_table, one_error
):
    assert call("estimate lab.json field.json --protected -o blind.json").code == 0
    assert "--acknowledge" in one_error(call("decide blind.json field.csv -o new.csv"))
    assert call("decide blind.json field.csv -o new.csv --acknowledge").code == 0
    write_table("new.csv", {"p": [0.3, 0.3], "site": ["site 1", "elsewhere"]})
    assert "whole field" in call("decide prevalence.json new.csv -o out.csv").err
    assert "elsewhere" in one_error(call("decide prevalence.json new.csv --unseen error -o out.csv"))


def test_a_verdict_against_use_is_told_with_the_decisions(artefacts, call):
    from verdicts import verdict_of

    prev = fieldcal.Prevalence.load("prevalence.json")
    prev.model_copy(update={"verdict": verdict_of("do_not_use", "No.")}).save("no.json")
    assert "not recommended" in call("decide no.json field.csv -o new.csv").out


@pytest.mark.slow
def test_standard_input_is_decided_too(artefacts, shell):
    given = Path("field.csv").read_text(encoding="utf-8")
    done = shell("decide prevalence.json - -o - -q", input=given)
    assert (done.code, done.err) == (0, "")
    assert [int(line.rpartition(",")[2]) for line in done.out.splitlines()[1:]] == expected()


def test_classes_of_text_are_written_as_they_are(folder, call, write_table):
    p = [i / 600 for i in range(1, 600)]
    kinds = ["spam, or not", "it's ham"]
    write_table("l.csv", {"p": p, "y": [kinds[int(i % 10 < 10 * q)] for i, q in enumerate(p)]})
    assert (
        call("learn l.csv --label y --scores p --classes '\"spam, or not\",it'\"'\"'s ham' -o lab.json").code
        == 0
    )
    for line in ("count lab.json l.csv -o field.json", "estimate lab.json field.json -o prev.json"):
        assert call(line).code == 0
    assert call("decide prev.json l.csv -o new.csv --name 'what it is'").code == 0
    assert rows_of("new.csv")[0][-1] == "what it is"
    assert {row[-1] for row in rows_of("new.csv")[1:]} == set(kinds)


def test_the_statement_that_decides_gives_what_decide_gives(artefacts, call):
    warehouse = duckdb.connect()
    warehouse.execute("CREATE TABLE leads AS FROM 'field.csv'")
    for goal in ("accuracy", "balanced", "0,1;20,0"):
        text = call(f"sql decide prevalence.json leads --dialect duckdb --goal '{goal}' --name d").out
        found = warehouse.sql(text.rstrip(";\n")).order("row").select("d").fetchall()
        wanted = expected([[0, 1], [20, 0]] if ";" in goal else goal)
        assert [d for (d,) in found] == wanted


def test_a_balanced_statement_names_the_option_that_stands_in_its_way(artefacts, call, one_error):
    line = "sql decide prevalence.json leads --dialect duckdb --goal balanced --weights w"
    told = one_error(call(line))
    assert "--goal balanced" in told
    assert "--weights" in told
