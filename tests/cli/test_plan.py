"""fieldcal plan: rows to label go out, are filled in, and come back into the estimate."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import fieldcal
from fieldcal import Lab, Prevalence


@pytest.fixture
def world(artefacts, labelled):
    """The working directory with artefacts and tables; field.csv has the columns row, site, p."""
    return labelled


def read(path):
    with Path(path).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def fill(path, write_table):
    """The classes of the rows, as somebody would look them up."""
    data = fieldcal.datasets.label_shift(n_lab=3000, n_field=2400, n_groups=8, random_state=3)
    rows = read(path)
    columns = {name: [r[name] for r in rows] for name in rows[0]}
    write_table("filled.csv", columns | {"y": [int(data.y_field[int(r["row"])]) for r in rows]})


def test_rows_are_chosen_filled_in_and_given_back(world, call, write_table):
    done = call("plan prevalence.json field.csv --rows 120 -o to_label.csv --json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["rows"] == 120
    assert said["written"] == ["to_label.csv"]
    rows = read("to_label.csv")
    assert list(rows[0]) == ["row", "site", "p", "y", "fieldcal_design"]
    assert {r["y"] for r in rows} == {""}
    fill("to_label.csv", write_table)
    assert call("estimate lab.json field.json --labelled filled.csv -o later.json").code in (0, 2, 3)
    after = Prevalence.load("later.json")
    assert after.labels.rows == {"by_score": 120}
    assert after.field.labelled["by_score"].counts.sum() == 120


def test_the_rows_are_those_that_python_chooses(world, call):
    assert call("plan prevalence.json field.csv --rows 50 -o to_label.parquet --seed 4").code == 0
    field, prev = read("field.csv"), Prevalence.load("prevalence.json")
    p, site = [float(r["p"]) for r in field], [r["site"] for r in field]
    expected = fieldcal.rows_to_label(prev, p, 50, groups=site, random_state=4)
    import duckdb

    found = duckdb.sql("SELECT row FROM 'to_label.parquet'").fetchall()
    assert sorted(int(row) for (row,) in found) == expected.tolist()


def test_rows_that_have_a_label_are_not_chosen_again(world, call):
    assert call("plan prevalence.json partly.csv --rows 500 -o to_label.csv").code == 0
    known = {r["row"] for r in read("partly.csv") if r["y"]}
    chosen = {r["row"] for r in read("to_label.csv")}
    assert len(chosen) == 500
    assert not chosen & known


def test_rows_go_to_standard_output(world, call):
    done = call("plan prevalence.json field.csv --rows 3 -o -")
    assert done.code == 0
    assert len(done.out.splitlines()) == 4
    assert "3 rows to label" in done.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plan prevalence.json field.csv", "say how many and where to write them"),
        ("plan prevalence.json field.csv --rows 3", "say how many and where to write them"),
        ("plan prevalence.json -o x.csv", "-o is about rows to label"),
        ("plan prevalence.json field.csv --rows 0 -o x.csv", "--rows must be a whole number"),
        ("plan prevalence.json field.csv --rows 9999 -o x.csv", "there are 2,400 rows"),
        ("plan prevalence.json field.csv --rows 9 -o field.csv", "field.csv"),
        ("plan prevalence.json --labels x", "--labels must be whole numbers"),
        ("plan lab.json --rows 5000 --labels 50", "--labels"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(world, call, line, words):
    done = call(line)
    assert done.code == 1
    assert words in done.err
    assert not Path("x.csv").exists()


def test_the_plan_of_an_estimate_tells_of_labels_and_none_if_told(world, call):
    said = json.loads(call("plan prevalence.json --labels 40 --json").out)
    assert [(more["labels"], more["design"]) for more in said["more_labels"]] == [
        (40, "random"),
        (40, "by_score"),
        (40, "by_class"),
    ]
    assert all(0 < more["width"] < 1 and 0 < more["group_width"] < 1 for more in said["more_labels"])
    assert json.loads(call("plan prevalence.json --labels 0 --json").out)["more_labels"] == []
    assert np.isclose(
        json.loads(call("plan lab.json --rows 500 --json").out)["width"],
        fieldcal.plan(Lab.load("lab.json"), n=500).width,
    )


@pytest.mark.slow
def test_the_plan_of_many_classes_says_that_it_takes_long_and_counts_its_steps(folder, call, write_table):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    says = np.where(rng.random(400) < 0.8, y, rng.integers(3, size=400))
    human = ["abc"[k] if i < 90 else "" for i, k in enumerate(y)]
    write_table("judged.csv", {"says": ["abc"[k] for k in says], "human": human})
    call("run judged.csv --predictions says --label human --design random -o out")
    done = call("plan out/prevalence.json --labels 20,40")
    assert done.code == 0
    assert "plan: estimating the interval anew for each number of labels" in done.err
    seen = []
    prev = fieldcal.Prevalence.load("out/prevalence.json")
    fieldcal.plan(prev, labels=[20, 40], progress=lambda *step: seen.append(step))
    assert seen[-1] == (2, 2)
    with pytest.raises(fieldcal.errors.InputTypeError, match="progress must be a function"):
        fieldcal.plan(prev, progress=3)
