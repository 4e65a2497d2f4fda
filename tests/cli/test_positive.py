"""--positive: which class a single column is about, said and repeated."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def words(folder, write_table):
    """The lab with labels in words, the class of the column the first in the alphabet."""
    rows = [line.split(",") for line in (folder / "lab.csv").read_text().splitlines()[1:]]
    columns = {"site": [r[1] for r in rows], "p": [r[2] for r in rows]}
    write_table(folder / "words.csv", columns | {"left": ["ja" if r[3] == "1" else "nein" for r in rows]})
    return folder


@pytest.mark.slow
def test_every_command_repeats_which_class_the_column_is_about(words, call):
    said = "p is the probability of ja, as given"
    for line in (
        "learn words.csv --label left --scores p --positive ja -o lab.json",
        "show lab.json",
        "run words.csv field.csv --label left --scores p --positive ja --by site -o out",
        "show out/prevalence.json",
        "estimate out/lab.json out/field.json -o again.json",
        "check out/prevalence.json",
    ):
        assert said in call(line).out.splitlines(), line
    found = json.loads(call("check out/prevalence.json --json").out)
    assert found["positive"] == {"column": "p", "class": "ja"}


def test_the_default_is_said_and_the_wrong_way_round_names_the_flag(words, call):
    done = call("learn words.csv --label left --scores p -o lab.json")
    assert "p is the probability of nein, the second class in sorted order" in done.out
    assert "worse than chance" in done.err
    assert "name that class with --positive" in done.err
    call("count lab.json field.csv -o field.json")
    done = call("estimate lab.json field.json -o prevalence.json")
    assert "name that class with --positive" in done.out  # a reason of the verdict, spelled as a flag
    assert "positive=" not in done.out


def test_numbers_are_classes_as_the_table_has_them(folder, call):
    assert (
        "p is the probability of 1" in call("learn lab.csv --label y --scores p --positive 1 -o l.json").out
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--positive jaa", "--positive jaa is none of the labels, ['ja', 'nein']. Did you mean 'ja'?"),
        ("--positive ja --classes ja,nein", "--classes is ['ja', 'nein']. Leave one of them out."),
    ],
)
def test_what_cannot_be_is_refused(words, call, one_error, options, message):
    assert message in one_error(call(f"learn words.csv --label left --scores p {options} -o l.json"))


@pytest.mark.parametrize("spelled", ["1", "1.0"])
def test_labels_with_gaps_that_a_file_holds_as_fractions_are_named_as_whole_numbers(
    folder, write_table, call, spelled
):
    rows = [line.split(",") for line in (folder / "lab.csv").read_text().splitlines()[1:]]
    write_table(folder / "gaps.csv", {"p": [r[2] for r in rows], "left": [f"{r[3]}.0" for r in rows]})
    done = call(f"learn gaps.csv --label left --scores p --positive {spelled} -o lab.json")
    assert (done.code, done.out.splitlines()[-1][:27]) == (0, "p is the probability of 1, ")
