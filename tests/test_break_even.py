"""Break-even of conclusions: what `Prevalence.break_even` compares, refuses and says, and where people read it."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

import fieldcal
from fieldcal import plots
from fieldcal.errors import FieldcalWarning, InputError
from fieldcal.objects import break_even as of_objects

pytestmark = pytest.mark.filterwarnings(f"ignore::{FieldcalWarning.__module__}.FieldcalWarning")
#: Predictions of 0, 1/3, 2/3 and 1 are bins: every number below can be computed by hand.
BINS = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
SCORES = np.array([0.1, 0.35, 0.65, 0.9])


def rows(share, n=1000, M=BINS):
    return np.repeat(SCORES, np.round(n * np.array([1 - share, share]) @ M).astype(int))


@functools.cache
def estimated(shares=(0.2, 0.7), trust=1, **options):
    """Groups "a", "b", … with these shares, exactly as label shift has them; half of the lab is of each class."""
    proba = np.concatenate([np.repeat(SCORES, np.round(2000 * row).astype(int)) for row in BINS])
    lab = fieldcal.learn(
        proba, np.repeat([0, 1], 2000), partition=fieldcal.partitions.Edges([0.2, 0.5, 0.8]), smoothing=0
    )
    field = [rows(share) for share in shares]
    names = np.repeat(list("abcdefgh")[: len(shares)], [len(x) for x in field])
    with warnings.catch_warnings(action="ignore", category=FieldcalWarning):
        return fieldcal.estimate(
            lab, fieldcal.count(lab, np.concatenate(field), groups=names), trust=trust, **options
        )


def test_the_break_even_of_exact_histograms_is_the_distance_to_the_threshold_times_the_separation():
    prev, separation = estimated(), 0.4
    found = prev.break_even()
    assert found.groups == ("a", "b", None, "a", "b")
    assert found.against == ("the lab",) * 3 + ("the whole field",) * 2
    assert found.above.tolist() == [False, True, False, False, True]
    distance = np.abs(np.array([0.2, 0.7, 0.45, 0.2, 0.7]) - found.threshold)
    assert_allclose(found.rows, separation * distance, atol=1e-9)
    assert_allclose(found.misfit, 0, atol=1e-9)
    assert (found.lower < found.rows).all()
    assert (found.lower[[0, 1]] > 0).all()


def test_a_threshold_of_the_caller_is_one_sided():
    prev = estimated()
    assert_allclose(prev.break_even(group="b", share_above=0.4).rows, 0.4 * 0.3, atol=1e-9)
    assert_allclose(prev.break_even(group="b", share_below=0.9).rows, 0.4 * 0.2, atol=1e-9)
    assert prev.break_even(group="b", share_above=0.8).rows.tolist() == [0.0]
    assert "does not hold" in repr(prev.break_even(group="b", share_above=0.8))
    assert len(prev.break_even(share_above=0.4)) == 3  # two groups and the whole field


def test_the_first_class_has_the_break_even_of_the_second_with_the_sides_swapped():
    prev = estimated()
    one, other = prev.break_even(share_above=0.4, of=1), prev.break_even(share_below=0.6, of=0)
    assert_allclose(one.rows, other.rows, atol=1e-12)
    assert_allclose(one.lower, other.lower, atol=1e-12)


def test_a_contrast_needs_half_of_the_difference_in_each_group_in_either_order():
    prev = estimated()
    for pair, above in ((("b", "a"), True), (("a", "b"), False)):
        found = prev.break_even(contrast=pair)
        assert_allclose(found.rows, 0.4 * 0.5 / 2, atol=1e-9)
        assert found.above.tolist() == [above]
        assert 0 < found.lower[0] < found.rows[0]
    assert "share of 1 in a below that in b" in repr(found)


def test_mean_predictions_are_as_far_from_the_threshold_as_they_are():
    prev = estimated()
    found = prev.break_even(share_above=0.4, group="b")
    assert_allclose(found.unchanged, prev.mean_prediction[1, 1] - 0.4)
    contrast = prev.break_even(contrast=("b", "a"))
    assert_allclose(contrast.unchanged, np.diff(prev.mean_prediction[:, 1]) / 2)
    assert prev.break_even(share_above=0.99).unchanged.tolist() == [0, 0, 0]


def test_a_conclusion_whose_violation_is_smaller_than_its_break_even_is_right_whatever_changed():
    rng, separation = np.random.default_rng(0), estimated().break_even()
    assert separation.rows.min() > 0
    lab = estimated().lab
    for _ in range(20):
        share = float(rng.uniform())
        other = 0.8 * lab.M + 0.2 * rng.dirichlet(np.ones(4), 2)
        counted = fieldcal.count(lab, rows(share, 20_000, other))
        with warnings.catch_warnings(action="ignore", category=FieldcalWarning):
            prev = fieldcal.estimate(lab, counted, trust=1)
        violation = 0.5 * np.abs(other - lab.M).sum(axis=1) @ [1 - share, share]
        found = prev.break_even()
        wrong = bool(found.above[0]) != (share > 0.5)
        assert not wrong or found.rows[0] + found.misfit[0] <= violation + 1e-3


def test_more_classes_use_the_same_definition():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 3000)
    logits = rng.normal(size=(3000, 3)) + 1.5 * np.eye(3)[y]
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    lab = fieldcal.learn(proba, y)
    field = fieldcal.count(lab, proba[(y == 2) | (rng.random(3000) < 0.4)])
    prev = fieldcal.estimate(lab, field, trust=1)
    found = prev.break_even()
    assert found.above.tolist() == [True]
    frame = prev.to_frame("polars")
    assert frame["break_even"][2] == pytest.approx(found.rows[0])
    assert frame["break_even_lower"][2] == pytest.approx(found.lower[0])


def test_the_table_has_the_break_even_of_each_share_against_the_lab():
    prev = estimated()
    frame, found = prev.to_dict(), prev.break_even()
    assert_allclose([frame["break_even"][i] for i in (3, 5, 1)], found.rows[:3])
    assert_allclose([frame["break_even_lower"][i] for i in (3, 5, 1)], found.lower[:3])
    assert frame["break_even"][2] == frame["break_even"][3]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"share_above": 0.2, "share_below": 0.3}, "two conclusions"),
        ({"share_above": 0.2, "contrast": ("a", "b")}, "two conclusions"),
        ({"share_above": 20}, "share_above must be a share from 0 to 1"),
        ({"share_below": "many"}, "share_below must be a share from 0 to 1"),
        ({"contrast": ("a", "a")}, "two groups, but got 'a' twice"),
        ({"contrast": "ab"}, "contrast must be two groups"),
        ({"contrast": ("a", "z")}, "no group 'z'"),
        ({"contrast": ("a", "b"), "group": "a"}, "Leave out group"),
        ({"group": "z"}, "no group 'z'"),
        ({"of": "spam"}, "spam"),
        ({"level": 90}, "level must"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(given, words):
    with pytest.raises(InputError, match=words):
        estimated().break_even(**given)


def test_a_regression_is_refused_and_its_table_has_no_break_even():
    rng = np.random.default_rng(2)
    y = rng.normal(size=2000)
    predicted = fieldcal.regression.from_moments(0.7 * y, 0.7)
    lab = fieldcal.learn(predicted, y, intervals=[-1, 0, 1])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, predicted), trust=1)
    with pytest.raises(InputError, match="break_even is for classes"):
        prev.break_even()
    assert set(prev.to_dict()["break_even"]) == {None}
    assert of_objects.sheet(prev, 1) is None


def test_a_group_without_rows_has_no_break_even():
    lab, (one, other) = estimated().lab, (rows(0.2), np.full(3, np.nan))
    names = np.repeat(["a", "c"], [len(one), len(other)])
    field = fieldcal.count(lab, np.r_[one, other], groups=names, missing="drop")
    assert field.n.tolist() == [len(one), 0]
    prev = fieldcal.estimate(lab, field, trust=1)
    assert "no rows" in repr(prev.break_even(group="c", share_above=0.1))
    assert "no rows" in repr(prev.break_even(contrast=("a", "c")))
    assert prev.to_dict()["break_even"][-1] is None


@functools.cache
def judged():
    rng = np.random.default_rng(3)
    y = (rng.random(2000) < np.repeat([0.3, 0.7], 1000)).astype(int)
    verdict = np.where(rng.random(2000) < 0.15, 1 - y, y)
    groups = np.repeat(["old", "new"], 1000)
    known = rng.random(2000) < 0.2
    lab = fieldcal.learn(verdict[known], y[known], kind="values", design="random")
    labels = np.where(known, y.astype(float), np.nan)
    with warnings.catch_warnings(action="ignore", category=FieldcalWarning):
        return fieldcal.estimate(lab, fieldcal.count(lab, verdict, groups=groups, y=labels))


def test_categories_of_a_judge_are_compared_with_the_whole_field_and_with_thresholds():
    prev = judged()
    found = prev.break_even()
    assert set(found.against) == {"the whole field"}
    assert np.isnan(found.unchanged).all()
    above = prev.break_even(group="new", share_above=0.5)
    assert 0 < above.rows[0] == pytest.approx(0.7 * 0.2, abs=0.04)
    assert prev.break_even(contrast=("new", "old")).rows[0] == pytest.approx(0.7 * 0.4 / 2, abs=0.04)
    assert set(prev.to_dict()["break_even"]) == {None}


def test_the_lab_s_own_groups_are_the_reference_if_there_are_enough():
    rng = np.random.default_rng(4)
    y, site = (rng.random(6000) < 0.4).astype(int), np.repeat(np.arange(12), 500)
    for off, violated in ((0.0, False), (1.0, True)):
        shift = off * np.where(site % 2, 1, -1)
        proba = expit(2 * y - 1 + shift + rng.normal(size=6000))
        lab = fieldcal.learn(proba, y, groups=site)
        reference = of_objects.reference_of(lab)
        assert reference.groups == "groups of the lab"
        assert len(reference.violations) == 12
        assert (np.median(reference.violations) > 0.1) == violated
        assert reference.below(0.0) == 0
        assert reference.below(1.0) == 1
    assert of_objects.reference_of(estimated().lab).groups == "real groups"


def test_the_finding_is_about_the_whole_field_and_asks_below_five_percent():
    large, small, none = (
        estimated(shares).verdict.finding("break_even") for shares in ((0.1, 0.2), (0.4, 0.44), (0.5, 0.5))
    )
    assert (large.state, small.state, none) == ("ok", "ask", None)
    found = estimated((0.1, 0.2)).break_even()
    assert f"unless {found.rows[2]:.1%} of rows" in large.text
    assert estimated((0.4, 0.44)).verdict.level == estimated((0.1, 0.2)).verdict.level


def test_the_picture_meets_the_lab_at_the_break_even():
    prev = estimated()
    table = plots.tables.breakdown(prev, group="b")
    meets = np.interp(table["break_even"], table["changes"], table["lower"])
    assert meets == pytest.approx(0.5, abs=0.01)
    assert [line["change"] for line in table["breakdown"]] == [0.02, 0.05, 0.1]
    assert_allclose([line["lower"] for line in table["breakdown"]], 0.7 - np.array([0.02, 0.05, 0.1]) / 0.4)
    assert table["reference"] == sorted(table["reference"])
    assert plots.tables.breakdown(prev)["group"] is None


def test_the_report_and_the_command_print_it():
    prev = estimated()
    content = fieldcal.report(prev).dict()
    column = dict(zip(content["groups"]["names"], content["groups"]["classes"][0]["break_even"], strict=True))
    found = prev.break_even()
    assert column == pytest.approx({"a": found.rows[0], "b": found.rows[1]})
    assert content["groups"]["whole"]["classes"][0]["break_even"] == pytest.approx(found.rows[2])
    assert of_objects.sheet(prev, 1).rows[0][:3] == ["whole field", "below", "2.0%"]
