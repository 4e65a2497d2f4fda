"""fieldcal contrast, plan and show: what Python says of an artefact, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fieldcal
from fieldcal.cli.from_text import sizes
from fieldcal.objects.lookup import group_of, totals_of
from verdicts import verdict_of


def estimate_of(groups):
    """Of these groups, from arrays."""
    data = fieldcal.datasets.label_shift(n_lab=800, n_field=40 * len(groups), n_groups=1, random_state=1)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    keys = [groups[i % len(groups)] for i in range(len(data.proba_field))]
    return fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=keys), trust=1)


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("", {}),
        ("--of 0", {"of": 0}),
        ("--kind ratio --level 0.5", {"kind": "ratio", "level": 0.5}),
        ("--assume label_shift", {"assume": "label_shift"}),
    ],
    ids=str,
)
def test_two_groups_are_compared_as_in_python_with_intervals_and_verdict(options, given, artefacts, call):
    prev = fieldcal.Prevalence.load("prevalence.json")
    wanted = prev.contrast("site 6", "site 1", **given)
    answer = json.loads(call(f"contrast prevalence.json 'site 6' 'site 1' {options} --json").out)
    assert answer["contrast"] == wanted.to_dict()
    assert answer["verdict"] == "ok"
    shares = prev.shares(["site 6", "site 1"], **{n: v for n, v in given.items() if n != "kind"})
    named = zip(("site 6", "site 1"), shares, strict=True)
    assert answer["groups"] == [{"group": g, **share.to_dict()} for g, share in named]
    told = call(f"contrast prevalence.json 'site 6' 'site 1' {options}").out
    assert str(wanted) in told
    assert "OK to use" in told
    options = {name: value for name, value in given.items() if name in ("of", "level")}
    margin = prev.break_even(contrast=("site 6", "site 1"), **options)
    assert f"  break-even: {margin.text()}" in told.split("\n")
    assert answer["break_even"]["rows"] == margin.rows[0]


def test_shares_of_groups_add_up_to_their_contrast_at_every_level():
    prev = estimate_of(["a", "b", "c"])
    a, b = prev.shares(["c", "a"])
    assert a.estimate - b.estimate == pytest.approx(prev.contrast("c", "a").estimate, abs=1e-12)
    wide, narrow = (prev.shares(["c"], level=level)[0] for level in (0.99, 0.2))
    assert wide.lower < a.lower < narrow.lower < narrow.upper < a.upper < wide.upper
    assert len(prev.shares()) == 3


def test_all_groups_are_compared_at_once(artefacts, call):
    prev = fieldcal.Prevalence.load("prevalence.json")
    answer = json.loads(call("contrast prevalence.json --all --json").out)
    assert len(answer["comparison"]["differences"]) == len(prev.compare().differences)
    against = json.loads(call("contrast prevalence.json --reference 'site 1' --json").out)["comparison"]
    assert {row["b"] for row in against["differences"]} == {"site 1"}
    assert "expected to have the wrong sign" in call("contrast prevalence.json --all").out


def test_ranking_and_other_mixes_are_flags_of_the_same_command(artefacts, call):
    prev = fieldcal.Prevalence.load("prevalence.json")
    line = "contrast prevalence.json --rank --totals 'site 1=10,site 2=30' --json"
    answer = json.loads(call(line).out)
    ranked = {row["group"]: row["highest"] for row in answer["ranking"]}
    assert ranked == prev.ranking().to_dict()["probability"]
    assert all(row["share"]["lower"] <= row["share"]["upper"] for row in answer["ranking"])
    wanted = prev.poststratify({"site 1": 10, "site 2": 30}).to_dict()
    assert answer["population"] == {"groups": 2, **wanted}
    assert "contrast" not in answer
    Path("sizes.csv").write_text("site,rows\nsite 1,10\nsite 2,30\n", encoding="utf-8")
    same = json.loads(call("contrast prevalence.json --totals sizes.csv --json").out)
    assert same["population"] == answer["population"]


KEYS = [1, "1", "a,b", None, True, ("x", 1), ("x", None), ("y", "1"), "null", -3]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1", 1),
        ('"1"', "1"),
        ("a,b", "a,b"),
        ("null", None),
        ('"null"', "null"),
        ("true", True),
        ("x,1", ("x", 1)),
        ('["x", 1]', ("x", 1)),
        ("x,null", ("x", None)),
        ("x, (null)", ("x", None)),
        ('["y", "1"]', ("y", "1")),
        ("-3", -3),
    ],
)
def test_a_group_is_spelled_as_text_as_parts_or_as_json(text, key):
    found = group_of(estimate_of(KEYS), text)
    assert found == key
    assert type(found) is type(key)


def test_groups_that_are_spelled_alike_are_told_apart_by_json():
    with pytest.raises(fieldcal.FieldcalError, match=r'2 groups .* as JSON: \'\["z", 1\]\' or'):
        group_of(estimate_of([("z", 1), ("z", "1")]), "z,1")


def test_an_empty_name_and_a_number_below_zero_are_compared_too(folder, call):
    estimate_of(["", -1]).save("odd.json")
    told = call("contrast odd.json -- '' -1").out
    assert 'difference, "" against -1: ' in told


def test_sizes_of_groups_of_several_columns_come_from_a_file(tmp_path):
    path = tmp_path / "sizes.csv"
    path.write_text('"x",1,5\n"y",2,7.5\n', encoding="utf-8")
    assert totals_of(estimate_of([("x", 1), ("y", 2)]), sizes(str(path))) == {("x", 1): 5, ("y", 2): 7.5}


def test_one_population_has_no_groups_to_compare(artefacts, call, one_error):
    for line in ("count lab.json field.csv --by '' -o f.json", "estimate lab.json f.json -o p.json"):
        call(line)
    lab = fieldcal.Lab.load("lab.json")
    fieldcal.estimate(lab, fieldcal.count(lab, [0.2, 0.7] * 50)).save("one.json")
    assert "one population" in one_error(call("contrast one.json a b"))


@pytest.mark.slow
@pytest.mark.parametrize("options", ["--method paper", "--trust 0.5", "--level 0.6", ""])
def test_plan_of_an_estimate_says_the_width_that_its_whole_field_has(options, artefacts, call):
    call(f"estimate lab.json field.json {options} -o p.json")
    prev = fieldcal.Prevalence.load("p.json")
    answer = json.loads(call("plan p.json --json").out)
    assert answer["width"] == fieldcal.plan(prev).width
    assert answer["width"] == pytest.approx((prev.whole.upper - prev.whole.lower)[1], rel=0.1)


def test_plan_takes_all_that_python_takes(artefacts, call):
    lab = fieldcal.Lab.load("lab.json")
    line = "plan lab.json --rows 500 --prevalence 0.7,0.3 --of 0 --level 0.8 --assume label_shift --json"
    wanted = fieldcal.plan(lab, n=500, prevalence=[0.7, 0.3], of=0, level=0.8, assume="label_shift")
    answer = json.loads(call(line).out)
    assert answer.pop("warnings") == []
    assert answer == wanted.to_dict()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "lab",
            ["A lab", "3,000 rows", "8 bins", "scores p; label y; by site", "trust 0.80", "classes: 0, 1"],
        ),
        ("field", ["A field", "2,400 rows", "columns of groups: site", "batches: none named"]),
        (
            "prevalence",
            [
                "An estimate",
                "prior: pooled",
                "Break-even: rows",
                "OK to use",
                "of the differences between groups",
                "3,000 rows",
            ],
        ),
    ],
)
def test_show_says_what_a_file_is_what_it_holds_and_what_comes_next(kind, words, artefacts, call):
    done = call(f"show {kind}.json")
    assert (done.code, done.err) == (0, "")
    load = {"lab": fieldcal.Lab, "field": fieldcal.Field, "prevalence": fieldcal.Prevalence}[kind].load
    for word in [*words, "next: fieldcal", load(f"{kind}.json").digest]:
        assert word in done.out
    answer = json.loads(call(f"show {kind}.json --json").out)
    assert (answer["kind"], answer["format"], answer["digest"]) == (kind, 1, load(f"{kind}.json").digest)


def test_show_tells_what_speaks_against_use_and_what_was_set_by_hand(artefacts, call):
    prev = fieldcal.Prevalence.load("prevalence.json")
    fieldcal.estimate(
        prev.lab, prev.field, prior=fieldcal.priors.KL(3), trust=0.25, design_effect=2
    ).model_copy(update={"verdict": verdict_of("do_not_use", "It was said so."), "protected": True}).save(
        "odd.json"
    )
    told = call("show odd.json").out
    for words in (
        "Do not use",
        "It was said so.",
        "label shift, as given: probability 0.25",
        "prior: kl, strength 3",
        "design effect: 2",
    ):
        assert words in told
    assert "protected groups: yes" in told


def test_names_from_a_file_are_no_commands_to_the_terminal(artefacts, call):
    lab = fieldcal.Lab.load("lab.json")
    field = fieldcal.count(lab, [0.2, 0.7] * 20, groups=["\x1b[31mred", "b"] * 20).named("\x1b]0;title\x07")
    field.save("odd.json")
    assert "\x1b" not in call("show odd.json").out


def test_a_lab_of_numbers_is_shown_and_its_groups_compared(folder, call):
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    predicted = fieldcal.regression.from_moments(0.8 * y + 0.3 * rng.normal(size=400), np.full(400, 0.4))
    lab = fieldcal.learn(predicted, y, intervals=[-0.5, 0.5])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, predicted, groups=["a", "b"] * 200), trust=1)
    lab.save("lab.json")
    prev.save("prev.json")
    assert "intervals: " in call("show lab.json").out
    assert "difference, a against b" in call("contrast prev.json a b").out
    assert "estimate is of a number" in call("decide prev.json lab.csv -o new.csv").err
