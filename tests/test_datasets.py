"""Synthetic data with known truth, and the rodents of Portal."""

from __future__ import annotations

import numpy as np
import pytest

from fieldcal.datasets import judged, label_shift, portal, quantification
from fieldcal.errors import InputError


@pytest.mark.parametrize("K", [2, 3, 5])
def test_shapes_follow_the_number_of_classes(K):
    data = label_shift(n_lab=300, n_field=200, p_lab=np.full(K, 1 / K), n_groups=6)
    wide = () if K == 2 else (K,)
    assert data.proba_lab.shape == (300, *wide)
    assert data.proba_field.shape == (200, *wide)
    assert data.prevalence.shape == (6, K)
    for codes, n in (
        (data.y_lab, 300),
        (data.groups_lab, 300),
        (data.y_field, 200),
        (data.groups_field, 200),
    ):
        assert codes.shape == (n,)
    np.testing.assert_allclose(data.prevalence.sum(axis=1), 1)


def test_the_same_seed_gives_the_same_data_and_another_seed_does_not():
    one, two, three = (label_shift(random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.proba_field, two.proba_field)
    assert not np.array_equal(one.proba_field, three.proba_field)


def test_the_labels_follow_the_prevalences_that_were_asked_for():
    truth = [[0.9, 0.1], [0.2, 0.8], [0.0, 1.0]]
    data = label_shift(n_field=30_000, prevalence=truth)
    for g, row in enumerate(truth):
        share = data.y_field[data.groups_field == g].mean()
        assert share == pytest.approx(row[1], abs=0.015)


@pytest.mark.parametrize("p_lab", [(0.5, 0.5), (0.95, 0.05), (0.5, 0.3, 0.2)])
@pytest.mark.parametrize("seed", range(3))
def test_the_lab_as_a_whole_has_the_prevalences_that_were_asked_for(p_lab, seed):
    data = label_shift(n_lab=40_000, p_lab=p_lab, n_groups=3, concentration=1.0, random_state=seed)
    np.testing.assert_allclose(np.bincount(data.y_lab) / 40_000, p_lab, atol=0.01)
    shares = np.array([np.mean(data.y_lab[data.groups_lab == g] == 1) for g in range(3)])
    assert np.ptp(shares) > 0.01, "the lab's own groups differ"


@pytest.mark.parametrize("p_lab", [(0.7, 0.3), (0.5, 0.3, 0.2)])
def test_the_classifier_is_calibrated_on_the_lab(p_lab):
    data = label_shift(n_lab=60_000, p_lab=p_lab, random_state=5)
    proba = (
        data.proba_lab if data.proba_lab.ndim == 2 else np.column_stack([1 - data.proba_lab, data.proba_lab])
    )
    for k in range(len(p_lab)):
        for low in np.arange(0, 1, 0.1):
            inside = (proba[:, k] > low) & (proba[:, k] <= low + 0.1)
            if inside.sum() > 500:
                assert (data.y_lab[inside] == k).mean() == pytest.approx(proba[inside, k].mean(), abs=0.04)


def test_given_the_class_predictions_are_distributed_alike_in_lab_and_field():
    data = label_shift(n_lab=40_000, n_field=40_000, prevalence=[[0.9, 0.1], [0.2, 0.8]], random_state=6)
    at = np.linspace(0.1, 0.9, 9)
    for k in (0, 1):
        lab = np.quantile(data.proba_lab[data.y_lab == k], at)
        for g in (0, 1):
            rows = (data.y_field == k) & (data.groups_field == g)
            np.testing.assert_allclose(np.quantile(data.proba_field[rows], at), lab, atol=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p_lab": (1.0,)}, "at least two positive prevalences"),
        ({"p_lab": (0.5, 0.6)}, "sum to one"),
        ({"p_lab": (0.0, 1.0)}, "positive"),
        ({"prevalence": (0.5, 0.5)}, r"shape \(2,\)"),
        ({"prevalence": [[0.2, 0.3, 0.5]]}, "2 columns"),
        ({"prevalence": [[0.2, 0.3]]}, "summing to one"),
        ({"prevalence": [[-0.2, 1.2]]}, "summing to one"),
    ],
)
def test_prevalences_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        label_shift(**options)


@pytest.mark.parametrize(
    ("p_lab", "p_field"), [((0.5, 0.5), (0.95, 0.05)), ((0.2, 0.3, 0.5), (0.6, 0.1, 0.3))]
)
def test_lab_and_fields_of_the_paper_s_experiment_have_exact_shares(p_lab, p_field):
    K = len(p_lab)
    data = quantification(p_lab=p_lab, p_fields=p_field, sizes=(100, 1000), n_informative=K, n_features=K + 2)
    np.testing.assert_allclose(np.bincount(data.y_lab) / 2000, p_lab, atol=1e-9)
    np.testing.assert_allclose(data.prevalence, [p_field, p_field], atol=1e-9)
    assert [proba.shape for proba in data.proba_fields] == [(100, K), (1000, K)]
    assert data.proba_lab.shape == (2000, K)


def test_every_field_of_the_paper_s_experiment_may_have_its_own_mix():
    data = quantification(p_fields=[[0.9, 0.1], [0.1, 0.9]], sizes=(50, 200))
    assert data.prevalence[:, 1].tolist() == [0.1, 0.9]


def test_no_field_of_the_paper_s_experiment_has_a_row_of_the_lab():
    data = quantification(p_fields=(0.5, 0.5), sizes=(3000,))
    assert not set(data.proba_lab[:, 1].tolist()) & set(data.proba_fields[0][:, 1].tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p_fields": [[0.5, 0.3, 0.2]]}, r"2 columns, but has shape \(1, 3\)"),
        ({"p_fields": [[0.5, 0.5]] * 3, "sizes": (10, 20)}, r"one per size \(2\)"),
        ({"n_pool": 3000}, "Raise n_pool"),
        ({"p_fields": [[0.9, 0.5]]}, "p_fields must be shares"),
        ({"p_lab": (1.5, -0.5)}, "p_lab must be shares"),
        ({"p_lab": [0.2] * 5, "p_fields": [[0.2] * 5]}, "Raise n_informative"),
    ],
)
def test_an_experiment_that_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        quantification(**options)


def test_portal_holds_the_captures():
    captures = portal()
    assert len(captures) == 32_534
    for column in vars(captures).values():
        assert len(column) == len(captures)
    assert set(captures.sex.tolist()) == {"F", "M", ""}
    assert set(captures.plot.tolist()) == set(range(1, 25))
    assert set(captures.month.tolist()) == set(range(1, 13))
    species, rows = np.unique(captures.species, return_counts=True)
    assert species[rows.argmax()] == "DM"
    assert not {"", "NA"} & set(species.tolist())
    for measure in (captures.hindfoot_length, captures.weight):
        assert 0.02 < np.isnan(measure).mean() < 0.2
        assert np.nanmin(measure) > 0


def test_the_judge_errs_as_often_as_was_asked_for_and_is_kinder_to_the_first_system():
    data = judged(n_items=20_000, rates=(0.5, 0.8), sensitivity=0.9, specificity=0.75, kinder=0.2)
    for system, rate in data.rates.items():
        own = data.system == system
        good, passed = data.truth[own] == "pass", data.verdict[own] == "pass"
        assert good.mean() == pytest.approx(rate, abs=0.015)
        assert passed[good].mean() == pytest.approx(0.9, abs=0.015)
        assert passed[~good].mean() == pytest.approx(0.45 if system == "A" else 0.25, abs=0.02)


def test_a_rating_of_four_or_five_is_a_pass_and_the_second_judge_errs_by_itself():
    data = judged(n_items=5_000, rates=(0.6, 0.6))
    np.testing.assert_array_equal(data.verdict == "pass", data.rating >= 4)
    assert sorted(set(data.rating.tolist())) == [1, 2, 3, 4, 5]
    good = data.truth == "pass"
    both = np.corrcoef(data.verdict[good] == "pass", data.second[good] == "pass")[0, 1]
    assert abs(both) < 0.05


def test_every_system_answers_every_item_and_the_labels_are_the_truth_of_a_few_rows():
    data = judged(n_items=50, rates=(0.3, 0.5, 0.9), n_labels=40, random_state=3)
    columns = data.columns()
    assert "truth" not in columns
    assert len(set(zip(columns["system"], columns["item"], strict=True))) == 150
    checked = [i for i, label in enumerate(columns["human"]) if label is not None]
    assert len(checked) == 40
    assert all(columns["human"][i] == data.truth[i] for i in checked)


def test_an_item_that_is_hard_for_one_system_is_hard_for_the_other():
    data = judged(n_items=5_000, rates=(0.5, 0.5))
    one, two = ((data.truth == "pass")[data.system == s] for s in "AB")
    assert np.corrcoef(one, two)[0, 1] > 0.2


@pytest.mark.parametrize("rates", [(), (0.0, 0.5), (1.2,), [[0.5]], [0.5] * 27])
def test_rates_that_no_system_can_have_are_refused(rates):
    with pytest.raises(InputError, match="rates must be 1 to 26 numbers"):
        judged(rates=rates)
