"""Presets: one word sets what the paper sets, and what is given besides it stands."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar

import fieldcal
from fieldcal import datasets, regression
from fieldcal.errors import BinsWarning, InputError

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


def binary(**options):
    return datasets.label_shift(n_lab=1200, n_field=900, n_groups=3, random_state=4, **options)


def test_the_papers_estimate_of_two_classes_is_the_maximum_of_its_likelihood():
    data = binary()
    lab = fieldcal.learn(data.proba_lab, data.y_lab, method="paper")
    cuts = np.quantile(data.proba_lab, [0.25, 0.5, 0.75])  # equation 11
    where = np.searchsorted(cuts, data.proba_lab)
    M = np.array([np.bincount(where[data.y_lab == k], minlength=4) / (data.y_lab == k).sum() for k in (0, 1)])
    assert_allclose(lab.M, M, rtol=1e-12)  # equation 9, nothing added
    prev = fieldcal.estimate(
        lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field), method="paper"
    )
    for g, name in enumerate(prev.groups):
        v = np.bincount(np.searchsorted(cuts, data.proba_field[data.groups_field == name]), minlength=4)
        best = minimize_scalar(  # equation 13
            lambda p, v=v: -(v * np.log(np.array([1 - p, p]) @ M)).sum(),
            bounds=(0, 1),
            options={"xatol": 1e-9},
        )
        assert_allclose(prev.urc[g, 1], best.x, atol=1e-6)
        ratio = prev.urc[g] / (np.bincount(data.y_lab) / len(data.y_lab))  # equations 5 and 6
        rows = data.groups_field == name
        up, down = data.proba_field[rows] * ratio[1], (1 - data.proba_field[rows]) * ratio[0]
        new = fieldcal.recalibrate(prev, data.proba_field[rows], groups=data.groups_field[rows])
        assert_allclose(new, up / (up + down), rtol=1e-9)


def test_the_papers_estimate_of_three_classes_is_the_maximum_of_its_likelihood():
    data = binary(p_lab=[0.5, 0.3, 0.2])
    lab = fieldcal.learn(data.proba_lab, data.y_lab, method="paper")
    decided = data.proba_lab.argmax(axis=1)
    M = np.array(
        [np.bincount(decided[data.y_lab == k], minlength=3) / (data.y_lab == k).sum() for k in range(3)]
    )
    assert_allclose(lab.M, M, rtol=1e-12)
    prev = fieldcal.estimate(
        lab, fieldcal.count(lab, data.proba_field), method="paper", prior=fieldcal.priors.KL(20)
    )
    v, p_lab = np.bincount(data.proba_field.argmax(axis=1), minlength=3), np.bincount(data.y_lab) / 1200

    def loss(x):
        p = np.append(x, 1 - x.sum())
        return -(v * np.log(p @ M)).sum() + 20 * (p * np.log(p / p_lab)).sum()

    inside = {"type": "ineq", "fun": lambda x: 1 - 1e-9 - x.sum()}
    best = minimize(loss, p_lab[:2], bounds=[(1e-9, 1)] * 2, constraints=inside, tol=1e-14)
    assert_allclose(prev.urc[0, :2], best.x, atol=2e-5)


def test_numbers_are_binned_by_their_mean_and_held_together_by_the_continuity_term():
    rng = np.random.default_rng(0)
    y = rng.normal(size=3000)
    predicted = regression.from_moments((y + 0.7 * rng.normal(size=3000)) / 1.49, np.full(3000, 0.57))
    lab = fieldcal.learn(predicted, y, method="paper", intervals=[-1, 0, 1])
    assert lab.n_bins == lab.outcome.size == 4
    prev = fieldcal.estimate(lab, fieldcal.count(lab, predicted), method="paper")
    assert prev.prior == {"name": "continuity", "strength": 16.0}
    assert_allclose(prev.urc[0], lab.p_lab, atol=0.02)


def test_what_is_given_stands_beside_the_preset():
    data = binary()
    lab = fieldcal.learn(data.proba_lab, data.y_lab, method="paper", partition=7, smoothing=1)
    assert (lab.n_bins, lab.smoothing) == (7, 1)
    field = fieldcal.count(lab, data.proba_field)
    for method in ("paper", "reference"):
        prev = fieldcal.estimate(lab, field, method=method)
        assert (prev.trust.overall, prev.trust.between, prev.point) == (1, 1, "mode")
        assert (prev.prior, prev.trust.set_by_caller) == ({"name": "flat"}, True)
    prev = fieldcal.estimate(lab, field, method="paper", trust=0.5, point="mean", prior="pooled")
    assert (prev.trust.overall, prev.point, prev.prior["name"]) == (0.5, "mean", "pooled")


def test_the_authors_code_has_no_bin_for_zero_and_that_is_told():
    data = binary()
    scores = np.where(data.proba_lab < 0.03, 0, data.proba_lab)
    with pytest.warns(BinsWarning, match=r"lab rows have a score of exactly 0"):
        lab = fieldcal.learn(scores, data.y_lab, method="reference")
    zeros = (scores == 0).sum()
    assert 0 < zeros == lab.left_out.sum() == 1200 - lab.F.sum()
    assert_allclose(lab.p_lab, np.bincount(data.y_lab) / 1200)
    field = np.append(data.proba_field, [0, 0])
    with pytest.raises(InputError, match=r"2 of 902 field predictions are exactly 0.*missing='drop'"):
        fieldcal.count(lab, field)
    counted = fieldcal.count(lab, field, missing="drop")
    assert (counted.dropped, counted.n.sum()) == (2, 900)
    assert fieldcal.Lab.from_json(lab.to_json()) == lab


def test_zeros_are_left_out_in_every_engine(engine):
    from fieldcal import tables

    data = binary()
    scores = np.where(data.proba_lab < 0.03, 0, data.proba_lab)
    lab = fieldcal.learn(scores, data.y_lab, method="reference")
    columns = {"p": np.append(data.proba_field, [0.0, 0.0]), "g": np.append(data.groups_field, [0, 1])}
    frame = engine.make(**columns)
    with pytest.raises(InputError, match=r"2 of 902 rows have no score in 'p', or one of exactly 0"):
        tables.count(lab, frame, scores="p")
    counted = tables.count(lab, frame, scores="p", by="g", missing="drop")
    expected = fieldcal.count(lab, columns["p"], groups=columns["g"], missing="drop")
    assert counted.V.tolist() == expected.V.tolist()
    assert counted.dropped == expected.dropped == 2


def test_a_lab_group_whose_scores_are_all_zero_takes_no_part_in_the_rehearsal():
    data = binary()
    groups = np.arange(1200) % 4
    scores = np.where(groups == 2, 0.0, data.proba_lab)
    lab = fieldcal.learn(scores, data.y_lab, groups=groups, method="reference")
    assert (lab.groups, lab.rehearsal.n_groups) == ((0, 1, 3), 3)


def test_edges_of_the_callers_own_have_no_bin_for_zero_either():
    scores, y = np.array([0.0, 0.1, 0.3, 0.6, 0.9] * 20), np.array([0, 0, 1, 0, 1] * 20)
    lab = fieldcal.learn(scores, y, method="reference", partition=fieldcal.partitions.Edges([0.2, 0.5]))
    assert lab.F.sum() == 80
    with pytest.raises(InputError, match="cuts the score of two classes into intervals"):
        fieldcal.learn(scores, y, method="reference", partition=fieldcal.partitions.Simplex(4))
    with pytest.raises(InputError, match="All rows of class 0 have a score of exactly 0"):
        fieldcal.learn([0.0, 0.0, 0.5, 0.7], [0, 0, 1, 1], method="reference")
    with pytest.raises(InputError, match=r"two classes, but there are 3\. Use method='paper'"):
        fieldcal.learn(np.full((6, 3), 1 / 3), [0, 1, 2] * 2, method="reference")
    with pytest.raises(
        InputError, match="method must be 'default', 'paper' or 'reference', but got 'papers'"
    ):
        fieldcal.learn(scores, y, method="papers")


# Bin ids in place of predictions --------------------------------------------------------------------------


def of_bins():
    data = binary(p_lab=[0.5, 0.3, 0.2])
    ids, field_ids = (proba.argmax(axis=1) for proba in (data.proba_lab, data.proba_field))
    lab = fieldcal.learn(ids, data.y_lab, partition=fieldcal.partitions.Bins(3))
    return lab, fieldcal.estimate(lab, fieldcal.count(lab, field_ids), trust=1), field_ids


def test_bin_ids_get_the_probability_of_every_class_given_the_bin():
    lab, prev, ids = of_bins()
    joint = prev.urc[0][:, None] * lab.F / lab.F.sum(axis=1, keepdims=True)  # class and bin, in the field
    given_bin = (joint / joint.sum(axis=0)).T
    assert_allclose(fieldcal.recalibrate(prev, ids), given_bin[ids], atol=1e-6)
    assert fieldcal.decide(prev, ids).tolist() == given_bin.argmax(axis=1)[ids].tolist()


def test_missing_bin_ids_stay_missing():
    _, prev, _ = of_bins()
    for given in (np.array([0.0, 1.0, np.nan]), pd.Series([0, 1, None], dtype="Int64")):
        answer = fieldcal.recalibrate(prev, given, missing="keep")
        assert_allclose(answer[:2], fieldcal.recalibrate(prev, np.array([0, 1])))
        assert np.isnan(answer[2]).all()
        with pytest.raises(InputError, match="1 of 3 field predictions are missing"):
            fieldcal.recalibrate(prev, given)


def test_what_are_no_bin_ids_is_refused():
    lab, prev, _ = of_bins()
    proba = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    expected = fieldcal.change_prevalence(proba, old=lab.p_lab, new=prev.urc[0])
    assert_allclose(fieldcal.recalibrate(prev, proba), expected, rtol=1e-12)
    with pytest.raises(InputError, match=r"Bin ids must lie in 0 \.\. 2"):
        fieldcal.recalibrate(prev, np.array([0, 7]))
    for verb in (fieldcal.recalibrate, fieldcal.decide):
        with pytest.raises(TypeError, match="could be bin ids or probabilities"):
            verb(prev, np.array([0.0, 1.0]))


# L_reg of the caller's own --------------------------------------------------------------------------------


def rare(strength):
    return fieldcal.priors.Custom(
        lambda p: strength * p[..., 1] ** 2, lambda p: 2 * strength * p * np.eye(p.shape[-1])[1]
    )


def test_any_sum_of_penalties_is_the_minimum_of_that_sum():
    data = binary()
    lab = fieldcal.learn(data.proba_lab, data.y_lab, method="paper")
    field = fieldcal.count(lab, data.proba_field)
    prior = fieldcal.priors.KL(30) + fieldcal.priors.Continuity(20) + rare(100)
    prev = fieldcal.estimate(lab, field, method="paper", prior=prior)
    v, p_lab = field.V[0], lab.p_lab

    def loss(x):
        p = np.array([1 - x, x])
        likelihood = -(v * np.log(p @ lab.M)).sum()
        return likelihood + 30 * (p * np.log(p / p_lab)).sum() + 20 * (1 - 2 * x) ** 2 + 100 * x**2

    assert_allclose(
        prev.urc[0, 1], minimize_scalar(loss, bounds=(0, 1), options={"xatol": 1e-10}).x, atol=1e-6
    )


def test_a_gradient_that_is_not_the_penaltys_is_refused():
    for constant in (0.0, 1e6):
        data = binary()
        lab = fieldcal.learn(data.proba_lab, data.y_lab)
        wrong = fieldcal.priors.Custom(
            lambda p, c=constant: 50 * p[..., 1] ** 2 + c, lambda p: -100 * p * [0, 1]
        )
        with pytest.raises(InputError, match="The gradient is not that of the penalty"):
            fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), prior=wrong)


@pytest.mark.parametrize("options", [{}, {"point": "mode", "level": None}], ids=["mean", "mode"])
def test_a_penalty_that_makes_several_minima_is_refused(options):
    data = binary()
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    field = fieldcal.count(lab, data.proba_field)
    with pytest.raises(InputError, match="not convex"):
        fieldcal.estimate(lab, field, prior=rare(-1e5), **options)
    mild = fieldcal.estimate(lab, field, prior=rare(-20), trust=1, **options)  # less than the rows say
    assert mild.urc[0, 1] > fieldcal.estimate(lab, field, prior="flat", trust=1, **options).urc[0, 1]
