"""Questions to an estimate, and labs that no table taught: the numbers are Python's own."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import fieldcal


def test_shares_are_those_of_python_at_another_level(artefacts, call):
    found = json.loads(
        call("shares prevalence.json 'site 6' --of 0 --level 0.5 --assume label_shift --json").out
    )
    prev = fieldcal.Prevalence.load("prevalence.json")
    (share,) = prev.shares(["site 6"], of=0, level=0.5, assume="label_shift")
    assert found["shares"] == [{"group": "site 6", **share.to_dict()}]
    assert (found["of"], found["assume"], found["verdict"]) == (0, "label_shift", prev.verdict.level)


def test_shares_of_all_groups_are_told_unless_some_are_named(artefacts, call):
    lines = call("shares prevalence.json").out.splitlines()
    assert sum(line.startswith("site ") for line in lines) == 8


def test_performance_has_precision_and_recall_of_every_class(artefacts, call):
    found = json.loads(call("performance prevalence.json 'site 6' --json").out)
    expected = fieldcal.Prevalence.load("prevalence.json").performance("site 6")
    assert [row["class"] for row in found["classes"]] == [0, 1]
    assert found["classes"][1]["precision"] == expected["precision"][1].to_dict()
    assert found["classes"][0]["recall"] == expected["recall"][0].to_dict()
    whole = call("performance prevalence.json").out
    assert "in the whole field, estimated without their labels" in whole


def test_draws_are_joint_one_row_per_group_and_draw(artefacts, call):
    assert call("draws prevalence.json 'site 1' 'site 6' -o draws.csv").code == 0
    with (artefacts / "draws.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    expected = fieldcal.Prevalence.load("prevalence.json").draws(["site 1", "site 6"])
    seen = np.array([float(row["share of 1"]) for row in rows]).reshape(2, -1)
    np.testing.assert_array_equal(seen, expected[..., 1])
    assert [row["group"] for row in rows[:: seen.shape[1]]] == ["site 1", "site 6"]
    assert [int(row["draw"]) for row in rows[:3]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("shares prevalence.json 'site 9'", "There is no group 'site 9'"),
        ("performance prevalence.json nowhere", "There is no group 'nowhere'"),
        ("draws prevalence.json -o draws.parquet", "written as .csv"),
        ("cross-validate prevalence.json", "No row of this field has a label"),
        ("extend lab.json field.json -o next.json", "has no labelled rows"),
        ("rates --sensitivity 0.9 -o r.json", "Give --sensitivity and --specificity"),
        ("rates --sensitivity 0.9 --specificity 0.9 -o r.json", "give --n, the numbers of positive"),
        ("rates --confusion '1,x;2,3' -o r.json", "--confusion must be numbers such as"),
        ("merge lab.json field.json -o m.json", "holds a 'field', but a 'lab' was expected"),
        ("merge lab.json --retract a -o m.json", "are about fields, but these are labs"),
        (
            "learn lab.csv --label y --scores p --bins trees:8 -o l.json",
            "quantiles, simplex, expected or given",
        ),
        ("estimate lab.json field.json --level 2 -o p.json", "--level must lie between 0 and 1"),
        ("estimate lab.json field.json --level none -o p.json", "Use --point mode"),
        (
            "estimate field.json lab.json -o p.json",
            "holds a 'field', but a 'lab' was expected. Check which file",
        ),
        ("run field.csv lab.csv --label y --scores p -o out", "The table with labels comes first"),
        ("count field.csv lab.json -o f.json", "field.csv is a table, but a 'lab' was expected"),
        (
            "recalibrate field.csv prevalence.json -o n.csv",
            "field.csv is a table, but a 'prevalence' was expected",
        ),
        (
            "estimate lab.json field.csv -o p.json",
            "A table of predictions is counted first: `fieldcal count`",
        ),
        ("plan lab.json", "lab.json is a lab, which has no field to plan for"),
        ("contrast prevalence.json 'site 1' 'site 6' --item row", "Give both, or neither"),
    ],
)
def test_what_cannot_be_is_one_line(artefacts, call, one_error, line, words):
    assert words in one_error(call(line))


def test_rates_are_a_lab_whose_estimate_is_rogan_and_gladens(folder, call, write_table):
    write_table(folder / "survey.csv", {"result": ["positive"] * 90 + ["negative"] * 910})
    call("rates --sensitivity 0.92 --specificity 0.97 --n 120,400 -o rates.json")
    assert call("count rates.json survey.csv --predictions result -o field.json").code == 0
    line = "estimate rates.json field.json --prior flat --point mode --level none -o p.json --json"
    found = json.loads(call(line).out)
    truth = (0.09 + 0.97 - 1) / (0.92 + 0.97 - 1)
    assert {row["class"]: row["urc"] for row in found["whole"]}["positive"] == pytest.approx(truth, abs=1e-4)
    assert found["level"] is None


def test_rates_take_a_table_of_rows_or_intervals(folder, call):
    call("rates --confusion '388,12;10,110' --classes healthy,ill --values=-,+ -o a.json")
    lab = fieldcal.Lab.load("a.json")
    assert (lab.classes, lab.F.tolist()) == (("healthy", "ill"), [[388, 12], [10, 110]])
    call("rates --sensitivity 0.9 --specificity 0.9 --intervals '0.85,0.94;0.85,0.94' -o b.json")
    rates = fieldcal.Lab.from_rates(sensitivity=0.9, specificity=0.9, intervals=((0.85, 0.94), (0.85, 0.94)))
    assert fieldcal.Lab.load("b.json") == rates


def test_labs_with_the_same_bins_merge(artefacts, call):
    call("learn lab.csv --label y --scores p --by site --bins lab.json -o again.json")
    assert call("merge lab.json again.json -o both.json").code == 0
    one, both = fieldcal.Lab.load("lab.json"), fieldcal.Lab.load("both.json")
    assert (both.n, both.F.tolist()) == (2 * one.n, (2 * one.F).tolist())


def test_a_lab_is_extended_by_the_labels_of_a_field(labelled, call):
    call("learn lab.csv --label y --scores p -o lab.json")
    call("count lab.json partly.csv --by site --label y -o field.json")
    assert call("extend lab.json field.json -o next.json").code == 0
    expected = fieldcal.Lab.load("lab.json").extended(fieldcal.Field.load("field.json"))
    assert fieldcal.Lab.load("next.json") == expected


def test_batches_may_be_kept_by_name(artefacts, call):
    for name in ("a", "b", "c"):
        call(f"count lab.json field.csv --batch {name} -o {name}.json")
    found = json.loads(call("merge a.json b.json c.json --only a --only c -o ac.json --json").out)
    assert found["batches"] == ["a", "c"]


@pytest.mark.parametrize(
    ("bins", "kind"),
    [
        ("quantiles:5", "Edges"),
        ("simplex:4", "SimplexTrees"),
        ("expected:4", "ExpectedEdges"),
        ("0.2,0.5", "Edges"),
    ],
)
def test_bins_are_made_as_asked(folder, call, bins, kind):
    assert call(f"learn lab.csv --label y --scores p --bins {bins} -o l.json").code == 0
    assert type(fieldcal.Lab.load("l.json").partition).__name__ == kind


def test_another_seed_is_passed_on(artefacts, call):
    for seed in (0, 7):
        call(f"estimate lab.json field.json --seed {seed} -o s{seed}.json")
    assert fieldcal.Prevalence.load("s7.json").seed == 7
    assert fieldcal.Prevalence.load("s0.json") == fieldcal.Prevalence.load("prevalence.json")


@pytest.mark.slow
def test_a_table_of_more_than_two_classes_has_a_line_for_each_and_says_what_it_leaves_out(
    folder, call, write_table
):
    rng = np.random.default_rng(0)
    names = ["ant", "bee", "cat", "dog"]
    y = rng.integers(4, size=1600)
    proba = np.eye(4)[y] * 0.5 + rng.dirichlet(np.ones(4), size=1600) * 0.5
    columns = {f"p_{c}": proba[:, k].round(6).tolist() for k, c in enumerate(names)}
    columns |= {"y": [names[k] for k in y], "place": [f"g{i % 20:02}" for i in range(1600)]}
    write_table(folder / "four.csv", columns)
    options = "--label y --scores 'p_*' --by place --normalize"
    done = call(f"run four.csv four.csv {options} -o out")
    lines = done.out.splitlines()
    assert "Prevalence of 4 classes in 20 groups, 1,600 rows" in lines
    for place in ("whole field", "g00"):
        shown = [name for name in names for line in lines if line.startswith(place) and f" {name} " in line]
        assert shown == names
    assert "… and 11 more groups: all are in out/prevalence.csv" in lines
    told = call("show out/prevalence.json").out
    assert "… and 11 more groups: all are in the output of --json" in told
    assert len(json.loads(call("show out/prevalence.json --json").out)["prevalence"]) == 4 * 21
