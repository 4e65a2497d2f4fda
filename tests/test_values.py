"""Values: what judges and tests say, in place of probabilities."""

from __future__ import annotations

import decimal
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fieldcal
from fieldcal import Field, Lab
from fieldcal.core.policy import POLICY
from fieldcal.core.values import canonical, fit_values, most_values
from fieldcal.errors import (
    ArtefactError,
    BinsWarning,
    CalibrationWarning,
    FieldcalError,
    InputError,
    ValueWarning,
)
from fieldcal.partitions import Bins, Values
from fieldcal.storage import digest


def judged(n=600, *, labelled=200, groups=3, seed=0):
    """Rows of which a judge says pass or fail, and people say good or bad of the first."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.7
    verdict = np.where(rng.random(n) < np.where(good, 0.9, 0.2), "pass", "fail")
    human = [("good" if g else "bad") if i < labelled else None for i, g in enumerate(good)]
    return verdict, human, rng.integers(groups, size=n)


def rated(rows):
    """So many labelled rows of each value, of two classes; the later the value, the more are of the second."""
    values = [value for value, n in rows.items() for _ in range(n)]
    share = {value: (i + 1) / (len(rows) + 1) for i, value in enumerate(rows)}
    return values, [int(i * 0.618 % 1 < share[value]) for i, value in enumerate(values)]


def learnt(predictions, y, **options):
    return fieldcal.learn(predictions, y, **{"kind": "values", "design": "random", **options})


def labels(lab):
    return lab.partition.labels(lab.classes)


def estimated(lab, field):
    return fieldcal.estimate(lab, field, prior="flat", trust=1)


# What counts as the same value


def test_spellings_of_one_value_meet():
    for spellings, text in (
        (["pass", "Pass ", "\tPASS\n", np.str_("pAss")], "pass"),
        ([4, 4.0, "4", "4.0", " 4.", np.int8(4), np.float32(4), decimal.Decimal("4.00")], "4"),
        ([0.25, "0.250", np.float64(0.25)], "0.25"),
        ([True, np.True_, "TRUE"], "true"),
        ([False, "False"], "false"),
        ([-0.0, 0, "0.0"], "0"),
        (["STRASSE", "straße"], "strasse"),
        ([None, float("nan"), "", "  ", pd.NA, pd.NaT, np.float32("nan"), decimal.Decimal("NaN")], None),
    ):
        assert {canonical(value) for value in spellings} == {text}


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.decimals(), st.binary()))
def test_the_text_of_a_value_is_its_own_text(value):
    text = canonical(value)
    assert canonical(text) == text


def test_a_column_of_values_may_come_from_any_library():
    verdict, human, _ = judged()
    said = verdict.tolist()
    lab = learnt(said, human)
    for column in (
        tuple,
        np.array,
        pl.Series,
        pa.array,
        lambda v: pd.Series(v, dtype="category"),
        lambda v: pd.DataFrame({"verdict": v}),
        lambda v: np.array(v).reshape(-1, 1),
        lambda v: [(x,) for x in v],
    ):
        assert learnt(column(said), human) == lab
        assert fieldcal.count(lab, column(said)) == fieldcal.count(lab, said)


# What is learnt


def test_values_teach_the_same_as_bin_ids_that_were_worked_out_by_hand():
    verdict, human, groups = judged()
    ids = (verdict == "pass").astype(int)
    known = np.array([h is not None for h in human])
    by_hand = fieldcal.learn(ids[known], [h for h in human if h is not None], partition=Bins(2))
    lab = learnt(verdict, human, groups=groups)
    assert np.array_equal(lab.F, by_hand.F)
    assert lab.n == by_hand.n == 200
    ours = fieldcal.count(lab, verdict, groups=groups, y=human)
    theirs = fieldcal.count(by_hand, ids, groups=groups, y=human)
    assert np.array_equal(ours.V, theirs.V)
    assert np.array_equal(ours.labelled["random"].counts, theirs.labelled["random"].counts)
    assert np.array_equal(ours.mean_prediction, theirs.mean_prediction)
    mine = estimated(lab, fieldcal.count(lab, verdict, groups=groups))
    its = estimated(by_hand, fieldcal.count(by_hand, ids, groups=groups))
    assert np.array_equal(mine.urc, its.urc)


def test_rows_without_a_label_tell_which_values_there_are_and_nothing_else():
    verdict, human, _ = judged()
    lab = learnt([*verdict, "unsure"], [*human, None])
    assert labels(lab) == ["fail", "pass", "unsure"]
    assert lab.F.sum(axis=0).tolist()[2] == 0
    assert lab.n == 200
    assert fieldcal.count(lab, ["unsure", "pass"]).unseen == 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), kinds=st.integers(2, 12), numbers=st.booleans())
def test_the_order_of_rows_does_not_matter(seed, kinds, numbers):
    rng = np.random.default_rng(seed)
    at = rng.geometric(0.3, size=80).clip(1, kinds)
    said = at if numbers else np.array(list("abcdefghijklm"))[at]
    y = np.where(rng.random(80) < 0.2, None, rng.integers(2, size=80))
    y[:2] = 0, 1
    order = rng.permutation(80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert learnt(said[order], y[order]) == learnt(said, y)


def test_a_mean_prediction_is_the_share_of_verdicts_where_values_are_classes():
    verdict, human, _ = judged()
    agreed = [None if h is None else {"good": "Pass", "bad": "Fail"}[h] for h in human]
    field = fieldcal.count(learnt(verdict, agreed), verdict)
    share = np.mean(verdict == "pass")
    assert np.allclose(field.mean_prediction, [[1 - share, share]], atol=1e-8)
    said = ["pass"] * 40 + ["fail"] * 40 + ["unsure"] * 10  # of which one is no class
    lab = learnt(said, ["pass"] * 36 + ["fail"] * 44 + ["pass"] * 4 + ["fail"] * 6)
    assert lab.bin_predictions.tolist() == [[1, 0], [0, 1], pytest.approx([0.6, 0.4])]
    assert np.allclose(fieldcal.count(lab, ["unsure"]).mean_prediction, [[0.6, 0.4]], atol=1e-8)


# Which values share a bin


def test_rare_ratings_join_their_nearest_neighbour():
    ratings, y = rated({1: 20, 2: 3, 3: 20, 4: 20, 9: 2, 10: 20})
    assert labels(learnt(ratings, y)) == ["1–2", "3", "4", "9–10"]
    assert fit_values({("1",): 9, ("2",): 1, ("3",): 7}, most=12).labels(()) == ["1", "2–3"]
    words, y = rated({"a": 20, "b": 3, "c": 20, "d": 2})
    lab = learnt(words, y)
    assert labels(lab) == ["a", "c", "other (b, d)"]
    assert lab.partition.other


@settings(max_examples=200, deadline=None)
@given(
    rows=st.dictionaries(st.integers(-5, 30).map(lambda n: (str(n),)), st.integers(0, 12), min_size=1),
    words=st.booleans(),
    most=st.integers(1, 9),
)
def test_every_value_is_in_one_bin_and_bins_have_rows_enough(rows, words, most):
    counts = {(f"w{v[0]}",): n for v, n in rows.items()} if words else rows
    fitted = fit_values(counts, most=most)
    assert sorted(v for values in fitted.bins for v in values) == sorted(counts)
    assert fitted.m <= max(most, 2)
    assert fitted.m >= min(len(counts), 2)
    sizes = [sum(counts[v] for v in values) for values in fitted.bins]
    if fitted.m > 2 and not words:
        assert min(sizes) >= POLICY.rows_of_a_value
    if fitted.m > 2 and fitted.other:
        assert min(sizes[:-1]) >= POLICY.rows_of_a_value


def test_several_judges_say_one_value_together():
    a, human, _ = judged(seed=1)
    b, *_ = judged(seed=2)
    lab = learnt(list(zip(a, b, strict=True)), human)
    assert labels(lab) == ["fail · fail", "fail · pass", "pass · fail", "pass · pass"]
    assert learnt(np.column_stack([a, b]), human) == lab
    assert learnt(pd.DataFrame({"a": a, "b": b}), human) == lab
    assert learnt(pl.DataFrame({"a": a, "b": b}), human) == lab
    field = fieldcal.count(lab, pa.table({"a": a, "b": b}))
    assert field.V.tolist() == [
        [np.sum((a == x) & (b == y)) for x in ("fail", "pass") for y in ("fail", "pass")]
    ]
    assert fieldcal.recalibrate(estimated(lab, field), pd.DataFrame({"a": a, "b": b})).shape == (600, 2)


def test_more_combinations_than_the_lab_can_fill_are_merged_with_a_warning():
    rng = np.random.default_rng(0)
    judges, y = rng.integers(3, size=(300, 3)), rng.integers(2, size=300)
    with pytest.warns(BinsWarning, match=r"\d+ values are too many for the lab's 300 labelled rows") as told:
        lab = learnt(judges, y)
    assert told[0].filename == __file__
    assert lab.n_bins == most_values(lab.n_effective, judges=3)
    assert lab.partition.other
    assert sum(map(len, lab.partition.bins)) == 27, "all are known"


def test_a_number_of_bins_is_a_cap_that_needs_no_warning():
    ratings, y = rated(dict.fromkeys(range(1, 11), 20))
    assert learnt(ratings, y, partition=4).n_bins == 4
    assert learnt(ratings, y, partition=99) == learnt(ratings, y)
    lab = learnt(ratings, y, partition=Values([[1, 2, 3], [4, 5, 6, 7, 8, 9, 10]]))
    assert labels(lab) == ["1–3", "4–10"]
    assert lab.F.sum(axis=0).tolist() == [60, 140]


# Values that the lab has never seen


def test_an_unseen_word_is_left_out_counted_and_named_with_the_likely_spelling():
    verdict, human, _ = judged()
    lab = learnt(verdict, human)
    said = ["pass", "Passd", "fail", "passd", "??"]
    with pytest.warns(ValueWarning) as told:
        field = fieldcal.count(lab, said, y=["good", "good", None, None, None])
    text = str(told[0].message)
    assert told[0].filename == __file__
    assert "2 of the values are not in the lab, in 3 of 5 rows" in text
    assert "'passd' (2 rows, the first is row 1). Did you mean 'pass'?" in text
    assert "'??' (1 row, the first is row 4)" in text
    assert "Left out: 3 rows" in text
    assert (field.unseen, field.dropped, field.n.sum(), field.n_labelled) == (3, 0, 2, 1)
    assert "3 rows with a value that is not in the lab" in repr(field)


def test_an_unseen_number_goes_to_the_nearest_and_is_counted_as_unseen():
    lab = learnt(*rated({1: 20, 3: 20, 5: 20}))
    with pytest.warns(ValueWarning, match="count with the nearest number"):
        field = fieldcal.count(lab, [0, 2, "2.5", 99, 5])
    assert field.V.tolist() == [[2, 1, 2]], "of two that are as near, the lower"
    assert field.unseen == 4
    lab = learnt(*rated({"a": 20, "b": 3, "c": 20, "d": 2}))
    with pytest.warns(ValueWarning, match="other rare values"):
        field = fieldcal.count(lab, ["a", "e", "b"])
    assert (field.V.tolist(), field.unseen) == ([[1, 0, 2]], 1)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.ValueWarning")
def test_unseen_rows_add_up_are_taken_out_again_and_are_in_the_file():
    verdict, human, _ = judged()
    lab = learnt(verdict, human)
    monday = fieldcal.count(lab, ["pass", "x"], batch="monday")
    tuesday = fieldcal.count(lab, ["y", "z", "fail"], batch="tuesday")
    both = monday + tuesday
    assert both.unseen == Field.from_json(both.to_json()).unseen == 3
    assert both.retract("tuesday") == monday
    with pytest.raises(InputError, match="with other counts"):
        fieldcal.count(lab, ["pass"], batch="monday").add(monday, "monday")
    with pytest.raises(InputError, match="None of the 2 rows has a category of the lab"):
        fieldcal.count(lab, ["x", "y"])


@pytest.mark.filterwarnings("ignore::fieldcal.errors.ValueWarning")
def test_the_finding_for_unseen_values_is_about_their_share_of_all_rows():
    cases = ((0, "ok"), (5, "ok"), (6, "care"), (200, "care"), (201, "do_not_use"))
    for rows in ({"a": 20, "b": 3, "c": 20, "d": 2}, {"a": 20, "b": 20}):
        lab = learnt(*rated(rows))
        for unseen, state in cases:
            prev = estimated(lab, fieldcal.count(lab, ["a"] * (1000 - unseen) + ["new"] * unseen))
            finding = prev.verdict.finding("values_known" if state == "ok" else "values_unseen")
            assert finding.state == state
            assert f"{unseen:,} of 1,000 rows" in finding.text


# Missing values


def test_missing_values_are_refused_or_dropped_as_asked():
    verdict, human, _ = judged()
    lab = learnt(verdict, human)
    with pytest.raises(InputError, match=r"2 of 3 field predictions are missing .* the first in row 1"):
        fieldcal.count(lab, ["pass", " ", None])
    field = fieldcal.count(lab, ["pass", " ", None], missing="drop")
    assert (field.dropped, field.unseen, field.n.sum()) == (2, 0, 1)
    with pytest.raises(InputError, match=r"1 of 4 labelled rows have no value.* the first is row 2, ' '"):
        learnt(["a", "b", " ", "b"], [0, 1, 0, 1])
    assert learnt(["a", "b"] * 10 + [None], [0, 1] * 10 + [None]).n == 20


# What comes of it


def test_recalibrating_values_gives_the_classes_given_each_value():
    verdict, human, groups = judged(2000)
    lab = learnt(verdict, human, groups=groups)
    prev = estimated(lab, fieldcal.count(lab, verdict, groups=groups))
    new = fieldcal.recalibrate(prev, verdict, groups=groups)
    assert np.allclose(new.sum(axis=1), 1)
    for g in range(3):
        odds = prev.urc[g] / lab.p_lab * lab.bin_classes
        expected = odds / odds.sum(axis=1, keepdims=True)
        here = groups == g
        assert np.allclose(new[here], expected[(verdict[here] == "pass").astype(int)])


def test_what_nobody_knows_is_neither_recalibrated_nor_decided():
    verdict, human, _ = judged()
    lab = learnt(verdict, human)
    prev = estimated(lab, fieldcal.count(lab, verdict))
    with pytest.warns(ValueWarning, match="'new'") as told:
        new = fieldcal.recalibrate(prev, ["pass", "new", "fail"])
    assert told[0].filename == __file__
    assert np.isnan(new).any(axis=1).tolist() == [False, True, False]
    for goal in ("accuracy", "balanced", [[0, 1], [1, 0]]):
        with pytest.warns(ValueWarning, match="'new'"):
            decided = fieldcal.decide(prev, ["pass", "new", "fail"], goal=goal)
        assert decided.tolist() == ["good", None, "bad"]


# Files, and what people see


def changed(lab, **content):
    """The file of a lab with other content, and the digest that goes with it."""
    file = json.loads(lab.to_json())
    file["content"] |= content
    return json.dumps({**file, "digest": digest(file["content"])}).encode()


def test_a_damaged_file_of_values_is_refused():
    verdict, human, _ = judged()
    lab = learnt(verdict, human)
    for bins, other, words in (
        ([[["Fail"]], [["pass"]]], False, "another spelling"),
        ([[["a"]], [["a"]]], False, "twice"),
        ([], False, "one at least"),
        ([[["a"]], [["b"]]], 1, "True or False"),
    ):
        with pytest.raises(ArtefactError, match=words):
            Lab.from_json(changed(lab, partition={"kind": "values", "bins": bins, "other": other}))
    with pytest.raises(ArtefactError, match="design"):
        Lab.from_json(changed(lab, design="by_luck"))


# The next lab


def test_a_lab_of_values_is_extended_by_labels_that_came_later():
    verdict, human, _ = judged(labelled=600)
    lab, whole = learnt(verdict[:300], human[:300]), learnt(verdict, human)
    assert lab.extended(fieldcal.count(lab, verdict[300:], y=human[300:])) == whole
    later = learnt(verdict[300:], human[300:], partition=lab.partition)
    assert lab + later == later + lab == whole


# What cannot be


def test_rows_that_do_not_fit_are_refused():
    few, y = ["a", "b", "a", "d"], [0, 1, 0, 1]
    for predictions, labels, options, words in (
        (["a", "b"], [0, 1, 1], {}, "2 predictions but 3 labels"),
        (["a", "b"], [None, None], {}, "no labelled rows"),
        (["a", "b"], [1, None], {}, "single class"),
        ([("a", "b"), ("a",)], [0, 1], {}, "unequal length"),
        ([(), ()], [0, 1], {}, "of none"),
        ("pass", [0], {}, "one value per row"),
        (["a", "b"], np.eye(2), {}, "one column"),
        (
            few,
            y,
            {"partition": Values(["a", "b"])},
            "rows have a value that is in no bin, the first is row 3, 'd'",
        ),
        (few, y, {"partition": Bins(2)}, "partition"),
        (few, y, {"partition": 1}, "partition"),
        (few, y, {"normalize": True}, "normalize=.* does not go with values"),
        (few, y, {"intervals": 3}, "intervals=.* does not go with values"),
        (few, y, {"atoms": [0]}, "atoms=.* does not go with values"),
        (few, y, {"method": "paper"}, "method=.* does not go with values"),
        (few, y, {"design": None}, "design='random'.*design='by_score'.*design='by_class'"),
        (few, y, {"kind": "probabilities"}, r"design='random' describes labelled rows .* kind='values'"),
        (
            np.random.default_rng(0).random(1500),
            [0, 1] * 750,
            {},
            "1,500 different values.*leave kind='values' out",
        ),
    ):
        with pytest.raises(FieldcalError, match=words):
            learnt(predictions, labels, **options)
    for bins, words in (
        ([], "one at least"),
        (["a", " A"], "'a' twice"),
        (["a", None], "missing or blank"),
        ([("a", "b"), "c"], "different numbers of judges"),
        ("ab", "list of values"),
    ):
        with pytest.raises(FieldcalError, match=words):
            Values(bins)


# Values that were given as something else


def test_ratings_without_a_kind_are_pointed_to_values():
    ratings, y = rated(dict.fromkeys(range(1, 6), 20))
    with pytest.raises(InputError, match=r"reach 5\..*ratings of a judge, pass kind='values'"):
        fieldcal.learn(ratings, y)
    with pytest.raises(InputError, match="logits") as told:
        fieldcal.learn([-1.5, 2.5], [0, 1])
    assert "kind" not in str(told.value)
    with pytest.raises(InputError, match=r"Values\(…\) is a partition of values. Pass kind='values'"):
        fieldcal.learn([0.2, 0.7] * 20, [0, 1] * 20, partition=Values([0, 1]))
    verdict, human, _ = judged(labelled=600)
    with pytest.warns(CalibrationWarning, match=r"kind='values'"):
        fieldcal.learn((verdict == "pass").astype(float), human, classes=["bad", "good"])
