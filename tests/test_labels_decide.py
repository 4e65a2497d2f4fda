"""A few labelled field rows: what they do to estimate, interval, trust, verdict and recalibration."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fieldcal

N = 4000


@cache
def shifted(seed=0, share=0.8):
    """A field that obeys label shift, and moved."""
    return fieldcal.datasets.label_shift(
        prevalence=[[1 - share, share]], n_lab=3000, n_field=N, random_state=seed
    )


@cache
def moved_otherwise(seed=0):
    """Predictions as under label shift, but classes as the predictions say: covariate shift."""
    data = shifted(seed)
    rng = np.random.default_rng(seed)
    return data.proba_field, (rng.random(N) < data.proba_field).astype(int)


@cache
def lab_of(seed=0):
    data = shifted(seed)
    return fieldcal.learn(data.proba_lab, data.y_lab)


def some(y, n, seed=0):
    """Labels of n rows, drawn at random."""
    given = np.full(len(y), np.nan)
    known = np.random.default_rng(seed).choice(len(y), n, replace=False)
    given[known] = y[known]
    return given


def asked(proba, y, n, *, seed=0, **options):
    lab = lab_of()
    return fieldcal.estimate(lab, fieldcal.count(lab, proba, y=some(y, n, seed)), **options)


def log_loss(proba, y):
    return -np.log(np.where(y == 1, proba, 1 - proba)).mean()


def test_labels_of_a_field_that_obeys_label_shift_earn_the_verdict():
    data = shifted()
    without = fieldcal.estimate(lab_of(), fieldcal.count(lab_of(), data.proba_field))
    found = asked(data.proba_field, data.y_field, 300)
    assert without.verdict.level == "care"
    assert found.verdict.level == "ok"
    assert found.verdict.finding("labels_say_label_shift").state == "ok"
    assert found.trust_overall > 0.7 > without.trust_overall
    assert found.by_model.weight("label_shift") > found.labels.prior[0]


def test_labels_that_contradict_label_shift_are_told_with_their_numbers_and_followed():
    proba, y = moved_otherwise()
    found = asked(proba, y, 300)
    assert found.verdict.level == "care"
    told = found.verdict.finding("labels_contradict")
    observed = found.labels.observed[1]
    assert f"{observed:.1%} are of class 1" in told.text
    assert f"label shift predicts {found.labels.label_shift.expected[1]:.1%}" in told.text
    assert abs(found.estimate[0, 1] - y.mean()) < 0.05 < abs(found.urc[0, 1] - y.mean())
    assert found.lower[0, 1] <= y.mean() <= found.upper[0, 1]
    assert found.trust_overall < 0.1


def test_label_shift_that_labels_rule_out_is_still_told_with_what_it_predicted():
    proba, y = moved_otherwise()
    found = asked(proba, y, 1000)
    assert found.by_model.weight("label_shift") < 1e-3
    assert found.labels.label_shift.p_value < 0.01
    assert found.verdict.finding("labels_contradict").state == "care"


@pytest.mark.parametrize("seed", range(3))
def test_recalibrated_by_labels_no_field_loses_and_a_shifted_one_gains(seed):
    data = shifted(seed)
    proba, y = moved_otherwise(seed)
    lab = lab_of(seed)
    for scores, classes, gain in ((data.proba_field, data.y_field, 0.05), (proba, y, -0.005)):
        prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, y=some(classes, 100, seed)))
        new = fieldcal.recalibrate(prev, scores)
        assert log_loss(scores, classes) - log_loss(new, classes) > gain


def test_from_no_label_to_a_few_nothing_jumps():
    data = shifted()
    found = [asked(data.proba_field, data.y_field, n) for n in (1, 2, 4, 8)]
    without = fieldcal.estimate(lab_of(), fieldcal.count(lab_of(), data.proba_field))
    chain = [without, *found]
    for before, after in pairwise(chain):
        assert abs(after.estimate[0, 1] - before.estimate[0, 1]) < 0.05
        width = [p.upper[0, 1] - p.lower[0, 1] for p in (before, after)]
        assert width[1] > 0.75 * width[0]
        assert after.verdict.level == "care"


def by_class(y, n):
    """n of each class."""
    given = np.full(len(y), np.nan)
    rng = np.random.default_rng(0)
    for k in (0, 1):
        given[rng.permutation(np.flatnonzero(y == k))[:n]] = k
    return given


def test_half_of_each_class_is_found_out_as_no_random_sample_and_does_no_harm_when_told():
    data = shifted()
    lab, given = lab_of(), by_class(data.y_field, 100)
    wrong, right = (
        fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=given, design=design))
        for design in ("random", "by_class")
    )
    told = wrong.verdict.finding("labels_not_random")
    assert told.state == "care"
    assert "by_class" in told.remedy
    truth = data.y_field.mean()
    assert right.lower[0, 1] <= truth <= right.upper[0, 1]
    assert abs(right.estimate[0, 1] - truth) < abs(wrong.estimate[0, 1] - truth)
    assert right.labels.looks_random is None
    still = shifted(share=0.5)  # chosen by class alone, labels do not earn that nothing moved
    field = fieldcal.count(lab, still.proba_field, y=by_class(still.y_field, 100), design="by_class")
    found = fieldcal.estimate(lab, field).verdict
    assert found.finding("labels_unmoved") is None
    assert "chosen by class" in found.finding("labels_undecided").text


def test_a_caller_who_trusts_fully_is_told_when_labels_contradict():
    proba, y = moved_otherwise()
    found = asked(proba, y, 300, trust=1)
    assert found.by_model.weights.tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)
    assert {"assumed", "labels_contradict"} <= {f.code for f in found.verdict.findings if f.state == "care"}
    data = shifted()
    still = asked(data.proba_field, data.y_field, 100, trust=0)
    for shape in ("tilt", "bins"):
        assert_array_equal(fieldcal.recalibrate(still, data.proba_field, shape=shape), data.proba_field)


def test_without_an_interval_the_estimate_is_the_same():
    for grouped in (False, True):
        data = groups()
        lab = fieldcal.learn(data.proba_lab, data.y_lab)
        by = data.groups_field if grouped else None
        field = fieldcal.count(lab, data.proba_field, groups=by, y=some(data.y_field, 100))
        bare, full = (fieldcal.estimate(lab, field, point="mode", level=level) for level in (None, 0.9))
        assert bare.lower is None
        assert_allclose(bare.estimate, full.estimate, atol=1e-9)
        assert_allclose(bare.by_model.whole_sd, full.by_model.whole_sd, atol=1e-9)


def test_weights_of_another_scale_change_nothing_and_unequal_ones_widen():
    data = shifted()
    lab, given = lab_of(), some(data.y_field, 100)
    weight = np.random.default_rng(0).exponential(size=N)

    def with_weights(w):
        return fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=given, sample_weight=w))

    one, two, plain = with_weights(weight), with_weights(1000 * weight), with_weights(None)
    assert_allclose(one.estimate, two.estimate, atol=1e-6)
    assert_allclose(one.upper, two.upper, atol=1e-6)
    assert one.verdict.level == two.verdict.level
    assert (one.upper - one.lower)[0, 1] > (plain.upper - plain.lower)[0, 1]
    clustered = asked(data.proba_field, data.y_field, 100, design_effect=4)
    assert (clustered.upper - clustered.lower)[0, 1] > (plain.upper - plain.lower)[0, 1]


def test_one_label_is_not_the_whole_truth_of_a_group_that_has_no_rows():
    data = groups()
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    field = fieldcal.count(lab, data.proba_field, groups=data.groups_field, y=some(data.y_field, 300))
    more = fieldcal.count(lab, [0.2], groups=[99], y=[1], only_labels=True)
    prev = fieldcal.estimate(lab, field + more)
    new = prev.groups.index(99)
    assert 0.2 < prev.estimate[new, 1] < 0.9
    assert prev.upper[new, 1] - prev.lower[new, 1] > 0.1
    assert fieldcal.recalibrate(prev, [0.2], groups=[99])[0] < 0.6


def test_where_all_rows_are_known_the_next_ones_are_not_taken_to_be_like_them():
    data = shifted(share=0.5)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    known = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=data.y_field))
    assert known.estimate[0, 1] == pytest.approx(data.y_field.mean(), abs=1e-9)
    assert known.upper[0, 1] - known.lower[0, 1] < 1e-6
    rows = np.flatnonzero(data.y_field == 0)[:40]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field[rows], y=np.zeros(40)))
    assert prev.estimate[0, 1] < 0.01
    assert fieldcal.recalibrate(prev, [0.9])[0] > 0.1


def test_labels_that_cannot_be_rows_of_the_field_are_told_and_make_no_certainty():
    data = shifted()
    lab = lab_of()
    few = fieldcal.count(lab, data.proba_field[:300])
    prev = fieldcal.estimate(
        lab, few + fieldcal.count(lab, data.proba_field[300:900], y=data.y_field[300:900], only_labels=True)
    )
    assert prev.verdict.finding("labels_beyond_rows").state == "care"
    assert prev.upper[0, 1] - prev.lower[0, 1] > 0.03
    fine = asked(data.proba_field, data.y_field, 300)
    assert fine.verdict.finding("labels_beyond_rows") is None


@cache
def groups():
    return fieldcal.datasets.label_shift(n_lab=4000, n_field=6000, n_groups=10, random_state=3)


@pytest.mark.slow
@pytest.mark.parametrize("rehearsed", [False, True])
def test_groups_share_what_labels_teach_and_keep_it_after_saving(rehearsed, tmp_path):
    data = groups()
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab if rehearsed else None)
    without = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field))
    given = some(data.y_field, 300)
    given[data.groups_field == 4] = np.nan  # a group without labels
    field = fieldcal.count(lab, data.proba_field, groups=data.groups_field, y=given)
    prev = fieldcal.estimate(lab, field)
    truth = np.array([data.y_field[data.groups_field == g].mean() for g in prev.groups])
    assert np.abs(prev.estimate[:, 1] - truth).mean() < np.abs(without.mean_prediction[:, 1] - truth).mean()
    held = (prev.lower[:, 1] <= truth) & (truth <= prev.upper[:, 1])
    assert held.mean() >= 0.8
    assert (prev.upper - prev.lower)[4, 1] > 0.02
    prev.save(tmp_path / "prevalence.json")
    back = fieldcal.Prevalence.load(tmp_path / "prevalence.json")
    assert back == prev
    assert_array_equal(back.draws(), prev.draws())
    new = fieldcal.recalibrate(back, data.proba_field, groups=data.groups_field)
    means = np.array([new[data.groups_field == g].mean() for g in prev.groups])
    assert np.abs(means - prev.estimate[:, 1]).mean() < 0.02


@pytest.mark.parametrize("ordered", [False, True])
def test_more_classes_learn_too(ordered):
    data = fieldcal.datasets.label_shift(
        p_lab=[0.4, 0.3, 0.2, 0.1],
        prevalence=[[0.1, 0.2, 0.3, 0.4]],
        n_lab=4000,
        n_field=N,
        random_state=1,
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=ordered)
    truth = np.bincount(data.y_field, minlength=4) / N
    ours, alone = [], []
    for seed in range(4):
        given = some(data.y_field, 100, seed)
        prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=given))
        ours.append(np.abs(prev.estimate[0] - truth).mean())
        alone.append(
            np.abs(np.bincount(given[~np.isnan(given)].astype(int), minlength=4) / 100 - truth).mean()
        )
    assert np.mean(ours) < 0.8 * np.mean(alone)
