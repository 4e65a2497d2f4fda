"""Weights and clusters: equal weights say nothing, unequal ones and rows of one cluster say less than rows."""

from __future__ import annotations

import functools
from operator import attrgetter

import numpy as np
import pytest

import fieldcal
from fieldcal.core.response import row_per_weight, rows_worth
from fieldcal.errors import InputError
from fieldcal.objects.problem import as_problem

TABLES = ("urc", "estimate", "lower", "upper", "whole.urc", "whole.estimate", "whole.lower", "whole.upper")


@functools.cache
def data(classes=2, shares=None):
    p_lab = (0.6, 0.4) if classes == 2 else (0.5, 0.3, 0.2)
    return fieldcal.datasets.label_shift(
        n_lab=1200, n_field=900, p_lab=p_lab, prevalence=shares, n_groups=6, random_state=7
    )


def made(weights=(None, None), *, rows=data, **options):
    """The lab and the field of the same rows, with weights for both."""
    drawn = rows()
    lab = fieldcal.learn(
        drawn.proba_lab, drawn.y_lab, groups=drawn.groups_lab, sample_weight=weights[0], **options
    )
    return lab, fieldcal.count(lab, drawn.proba_field, groups=drawn.groups_field, sample_weight=weights[1])


def uneven(n, seed=0):
    return np.random.default_rng(seed).lognormal(size=n)


# Equal weights ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(
    ("classes", "options"),
    [
        pytest.param(2, {}, id="2"),
        pytest.param(3, {"partition": 6}, id="3"),
        pytest.param(3, {"ordered": True}, id="order", marks=pytest.mark.slow),
    ],
)
def test_equal_weights_of_any_size_say_the_same_as_none(classes, options):
    for size in (0.1, 1e9):
        rows = functools.partial(data, classes)
        plain = made(rows=rows, **options)
        equal = made((np.full(1200, size), np.full(900, 3 * size)), rows=rows, **options)
        assert equal[0].partition == plain[0].partition
        assert equal[0].rehearsal.n_rows == plain[0].rehearsal.n_rows
        np.testing.assert_allclose(equal[0].A, plain[0].A, rtol=1e-12)
        np.testing.assert_allclose(equal[1].n_effective, plain[1].n_effective, rtol=1e-12)
        one, two = (fieldcal.estimate(*pair, prior="flat", point="mode") for pair in (plain, equal))
        for name in TABLES:
            np.testing.assert_allclose(
                attrgetter(name)(two), attrgetter(name)(one), rtol=0, atol=1e-6, err_msg=name
            )
        assert two.status == one.status
        assert two.verdict.level == one.verdict.level
        assert [f.code for f in two.verdict.findings] == [f.code for f in one.verdict.findings]


# Kish's effective rows --------------------------------------------------------------------------------------


def test_without_weights_the_effective_rows_are_the_rows_exactly():
    lab, field = made()
    ones = made((np.ones(1200), np.ones(900)))
    assert (ones[0].to_json(), ones[1].to_json()) == (lab.to_json(), field.to_json())
    assert field.weight_squares.dtype == np.int64
    np.testing.assert_array_equal(field.weight_squares, field.V)
    np.testing.assert_array_equal(field.n_effective, field.n)
    np.testing.assert_array_equal(lab.n_effective, np.bincount(data().y_lab))
    large = np.array([10**15 + 1, 3, 0])
    np.testing.assert_array_equal(large * row_per_weight(large, large), large)
    kept = np.arange(900) % 3 > 0  # a row of weight zero is no row
    few = fieldcal.count(lab, data().proba_field[kept], groups=data().groups_field[kept])
    np.testing.assert_array_equal(made((None, 2.0 * kept))[1].n_effective, few.n)


def test_effective_rows_are_kishs_per_group_and_per_class():
    weight = uneven(900)
    lab, field = made((uneven(1200), weight))

    def kish(w):
        return w.sum() ** 2 / (w**2).sum()

    drawn = data()
    expected = [kish(weight[drawn.groups_field == g]) for g in field.groups]
    np.testing.assert_allclose(field.n_effective, expected)
    expected = [kish(uneven(1200)[drawn.y_lab == k]) for k in lab.classes]
    np.testing.assert_allclose(lab.n_effective, expected)
    np.testing.assert_allclose(lab.A.sum(axis=1), np.array(expected) + lab.smoothing)


def test_squares_of_weights_merge_and_retract_exactly():
    lab, drawn = made()[0], data()
    weight = np.random.default_rng(0).integers(0, 40, 900) / 8
    parts = [
        fieldcal.count(
            lab, drawn.proba_field[i::3], groups=drawn.groups_field[i::3], sample_weight=weight[i::3]
        )
        for i in range(3)
    ]
    whole = fieldcal.count(lab, drawn.proba_field, groups=drawn.groups_field, sample_weight=weight)
    assert sum(parts).to_json() == whole.to_json()
    a, b, c = (part.named(name) for part, name in zip(parts, "abc", strict=True))
    np.testing.assert_array_equal((a + b + c).weight_squares, whole.weight_squares)
    assert (a + b + c).retract("b").to_json() == (c + a).to_json()


@pytest.mark.filterwarnings("ignore:The model is not calibrated:fieldcal.errors.CalibrationWarning")
def test_a_class_that_was_sampled_more_has_its_prevalence_by_weight_and_its_precision_by_rows():
    drawn = data()
    weight = np.where(drawn.y_lab == 1, 0.1, 1.0)
    lab, plain = (
        fieldcal.learn(drawn.proba_lab, drawn.y_lab, partition=5, sample_weight=w) for w in (weight, None)
    )
    ones, zeros = (drawn.y_lab == 1).sum(), (drawn.y_lab == 0).sum()
    assert lab.p_lab[1] == pytest.approx(0.1 * ones / (0.1 * ones + zeros))
    np.testing.assert_allclose(lab.A.sum(axis=1), plain.A.sum(axis=1))
    problem = as_problem(lab, fieldcal.count(lab, drawn.proba_field))
    np.testing.assert_allclose(problem.A, lab.A)
    np.testing.assert_allclose(problem.M, lab.M)
    np.testing.assert_allclose(problem.p_lab, lab.p_lab)


def test_groups_of_uneven_weights_are_no_smaller_part_of_the_whole_field():
    drawn = data()
    lab = made()[0]
    weight = np.where(drawn.groups_field == 0, 4 * uneven(900), 1.0)
    field = fieldcal.count(lab, drawn.proba_field, groups=drawn.groups_field, sample_weight=weight)
    alone = fieldcal.count(lab, drawn.proba_field, sample_weight=weight)
    for effect in (1.0, 2.5):
        total = as_problem(lab, field, design_effect=effect).total
        np.testing.assert_allclose(total, as_problem(lab, alone, design_effect=effect).V[0])
        np.testing.assert_allclose(total / total.sum(), field.V.sum(axis=0) / field.V.sum())


# Clusters ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize("trust", [1, "auto"])
def test_every_row_four_times_with_a_design_effect_of_four_is_every_row_once(trust):
    drawn, (lab, field) = data(), made()
    four = np.repeat(np.arange(900), 4)
    again = fieldcal.count(lab, drawn.proba_field[four], groups=drawn.groups_field[four])
    one = fieldcal.estimate(lab, field, trust=trust)
    two = fieldcal.estimate(lab, again, trust=trust, design_effect=4)
    for name in TABLES:
        np.testing.assert_allclose(
            attrgetter(name)(two), attrgetter(name)(one), rtol=0, atol=1e-9, err_msg=name
        )
    assert two.status == one.status
    np.testing.assert_allclose(two.draws([0, 3]), one.draws([0, 3]), atol=1e-9)
    assert two.contrast(3, 0).upper == pytest.approx(one.contrast(3, 0).upper)


def test_a_design_effect_below_one_or_no_number_is_refused():
    for effect in (0.99, 0, -1, np.nan, np.inf, "2", None, True, [2, 2]):
        with pytest.raises(InputError, match=r"design_effect must be a number, .* at least 1, but got"):
            fieldcal.estimate(*made(), design_effect=effect)


# What is said of it -----------------------------------------------------------------------------------------


def said(weight=None, **options):
    lab, field = made((None, weight))
    verdict = fieldcal.estimate(lab, field, trust=1, **options).verdict
    (finding,) = (f for f in verdict.findings if f.question == "Are field rows independent of each other?")
    assert finding.state == "ask"
    return finding


def test_a_design_effect_that_is_used_is_named_with_the_rows_that_it_leaves():
    found = said(design_effect=2.5)
    assert found.code == "design_effect"
    assert "a design effect of 2.5" in found.text
    assert "the effective sample size is 360 independent rows" in found.text
    weight = uneven(900)
    rows = weight.sum() ** 2 / (weight**2).sum()
    worth = f"{weight.sum():,.1f} in total, is {rows:,.0f} rows of equal weight (Kish)"
    assert f"The effective sample size of the weights, {worth}" in said(weight).text
    assert "Kish" not in said().text


# Coverage ---------------------------------------------------------------------------------------------------

#: 90 % intervals of so many replicas cover at least this often, unless by a chance of one in a thousand if they are
#: right. Taken as rows, the weights and clusters below cover .75 at most.
REPLICAS, LEAST = 150, 0.82


def covered(weights, *, repeat=1, **options):
    """How often the 90 % interval of one population of 400 rows holds the prevalence."""
    truth, inside = 0.3, []
    for seed in range(REPLICAS):
        rng = np.random.default_rng([seed, 5])
        y_lab, y = rng.random(1500) < 0.5, rng.random(400) < truth
        lab_scores, scores = (1 / (1 + np.exp(-rng.normal(2.2 * (of - 0.5), 1.5))) for of in (y_lab, y))
        lab_weight, weight = weights(rng, 1500), weights(rng, 400)
        lab = fieldcal.learn(lab_scores, y_lab.astype(int), sample_weight=lab_weight, partition=6)
        scores = np.repeat(scores, repeat)
        weight = None if weight is None else np.repeat(weight, repeat)
        field = fieldcal.count(lab, scores, sample_weight=weight)
        prev = fieldcal.estimate(lab, field, prior="flat", trust=1, **options)
        inside.append(prev.lower[0, 1] <= truth <= prev.upper[0, 1])
    return np.mean(inside)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(
    "weights",
    [
        lambda rng, n: rng.lognormal(size=n),
        lambda rng, n: np.where(rng.random(n) < 0.3, 1.0, 0.1),
        lambda rng, n: rng.pareto(2.5, n) + 0.05,
    ],
    ids=["lognormal", "ones-and-tenths", "pareto"],
)
def test_intervals_of_unequal_weights_cover_what_they_promise(weights):
    assert covered(weights) >= LEAST


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_intervals_of_clustered_rows_cover_with_their_design_effect_and_not_without():
    assert covered(lambda rng, n: None, repeat=5, design_effect=5) >= LEAST
    assert covered(lambda rng, n: None, repeat=5) < 0.75


def test_weights_that_depend_on_the_prediction_count_where_prevalences_are_read():
    """Rows of the bins that tell the classes apart weigh ten times as much: they are known ten times worse."""
    M = np.array([[0.5, 0.4, 0.1], [0.1, 0.4, 0.5]])
    V = np.array([[100.0, 100.0, 100.0]])
    p = np.array([0.5, 0.5])
    assert rows_worth(V, 10 * V, M, p).tolist() == pytest.approx([30])
    telling, blank = V * [10, 1, 10], V * [1, 10, 1]
    assert rows_worth(V, telling, M, p)[0] == pytest.approx(30)
    assert rows_worth(V, blank, M, p)[0] == pytest.approx(300)
    assert rows_worth(V, V, np.full((2, 3), 1 / 3), p).tolist() == [300], "Kish's where nothing is told"
