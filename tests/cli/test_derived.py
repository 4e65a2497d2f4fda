"""Questions to an estimate, and labs that no table taught: the numbers are Python's own."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fieldcal


def test_show_has_precision_and_recall_of_every_class_and_the_shares(artefacts, call):
    found = json.loads(call("show prevalence.json --json").out)
    prev = fieldcal.Prevalence.load("prevalence.json")
    expected = prev.performance()
    assert [row["class"] for row in found["performance"]] == [0, 1]
    assert found["performance"][1]["precision"] == expected["precision"][1].to_dict()
    assert found["performance"][0]["recall"] == expected["recall"][0].to_dict()
    assert [row["estimate"] for row in found["prevalence"][2:]] == prev.estimate.ravel().tolist()
    assert "in the whole field, estimated without their labels" in call("show prevalence.json").out


@pytest.mark.parametrize(
    "verb", ["shares", "performance", "draws", "cross-validate", "rates", "extend", "schema"]
)
def test_what_python_does_is_no_command(verb, call, one_error):
    assert "No such command" in one_error(call(verb))


def test_rates_are_a_lab_whose_estimate_is_rogan_and_gladens(folder, call, write_table):
    write_table(folder / "survey.csv", {"result": ["positive"] * 90 + ["negative"] * 910})
    call("learn --sensitivity 0.92 --specificity 0.97 --n 120,400 -o rates.json")
    assert call("count rates.json survey.csv --predictions result -o field.json").code == 0
    line = "estimate rates.json field.json --prior flat --point mode --level none -o p.json --json"
    found = json.loads(call(line).out)
    truth = (0.09 + 0.97 - 1) / (0.92 + 0.97 - 1)
    assert {row["class"]: row["urc"] for row in found["whole"]}["positive"] == pytest.approx(truth, abs=1e-4)
    assert found["level"] is None


def test_rates_take_a_table_of_rows_or_intervals(folder, call):
    call("learn --confusion '388,12;10,110' --classes healthy,ill --values=-,+ -o a.json")
    lab = fieldcal.Lab.load("a.json")
    assert (lab.classes, lab.F.tolist()) == (("healthy", "ill"), [[388, 12], [10, 110]])
    call("learn --sensitivity 0.9 --specificity 0.9 --intervals '0.85,0.94;0.85,0.94' -o b.json")
    rates = fieldcal.Lab.from_rates(sensitivity=0.9, specificity=0.9, intervals=((0.85, 0.94), (0.85, 0.94)))
    assert fieldcal.Lab.load("b.json") == rates


def test_labs_with_the_same_bins_merge(artefacts, call):
    call("learn lab.csv --label y --scores p --by site --bins lab.json -o again.json")
    assert call("merge lab.json again.json -o both.json").code == 0
    one, both = fieldcal.Lab.load("lab.json"), fieldcal.Lab.load("both.json")
    assert (both.n, both.F.tolist()) == (2 * one.n, (2 * one.F).tolist())


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
