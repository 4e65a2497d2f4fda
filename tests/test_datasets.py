"""Generators have the truth that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from examples.judged import judged
from experiments.quantification_data import quantification

from fieldcal.datasets import label_shift, portal
from fieldcal.errors import InputError


@pytest.mark.parametrize("K", [2, 3])
def test_shapes_follow_the_number_of_classes(K):
    data = label_shift(n_lab=300, n_field=200, p_lab=np.full(K, 1 / K), n_groups=6)
    wide = () if K == 2 else (K,)
    assert (data.proba_lab.shape, data.proba_field.shape) == ((300, *wide), (200, *wide))
    assert data.y_lab.shape == data.groups_lab.shape == (300,)
    assert data.y_field.shape == data.groups_field.shape == (200,)
    assert data.prevalence.shape == (6, K)
    np.testing.assert_allclose(data.prevalence.sum(axis=1), 1)


def test_the_same_seed_gives_the_same_data_and_another_seed_does_not():
    one, two, three = (label_shift(random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.proba_field, two.proba_field)
    assert not np.array_equal(one.proba_field, three.proba_field)


def test_the_labels_follow_the_prevalences_that_were_asked_for():
    truth = [[0.9, 0.1], [0.2, 0.8], [0.0, 1.0]]
    data = label_shift(n_field=30_000, prevalence=truth)
    shares = [data.y_field[data.groups_field == g].mean() for g in range(3)]
    assert shares == pytest.approx([0.1, 0.8, 1.0], abs=0.015)


def test_the_lab_as_a_whole_has_the_prevalences_that_were_asked_for_and_its_groups_differ():
    data = label_shift(n_lab=40_000, p_lab=(0.5, 0.3, 0.2), n_groups=3, concentration=1.0)
    np.testing.assert_allclose(np.bincount(data.y_lab) / 40_000, (0.5, 0.3, 0.2), atol=0.01)
    assert np.ptp([np.mean(data.y_lab[data.groups_lab == g] == 1) for g in range(3)]) > 0.01


def test_the_classifier_is_calibrated_on_the_lab():
    data = label_shift(n_lab=60_000, p_lab=(0.5, 0.3, 0.2), random_state=5)
    for k, proba in enumerate(data.proba_lab.T):
        for low in np.arange(0, 1, 0.1):
            inside = (proba > low) & (proba <= low + 0.1)
            if inside.sum() > 500:
                assert (data.y_lab[inside] == k).mean() == pytest.approx(proba[inside].mean(), abs=0.04)


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
        ({"prevalence": (0.5, 0.5)}, r"shape \(2,\)"),
        ({"prevalence": [[-0.2, 1.2]]}, "summing to one"),
    ],
)
def test_prevalences_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        label_shift(**options)


def test_portal_holds_the_captures():
    captures = portal()
    assert {len(column) for column in vars(captures).values()} == {len(captures)} == {32_534}
    assert set(captures.sex.tolist()) == {"F", "M", ""}
    assert set(captures.plot.tolist()) == set(range(1, 25))
    species, rows = np.unique(captures.species, return_counts=True)
    assert species[rows.argmax()] == "DM"
    assert not {"", "NA"} & set(species.tolist())
    for measure in (captures.hindfoot_length, captures.weight):
        assert 0.02 < np.isnan(measure).mean() < 0.2
        assert np.nanmin(measure) > 0


def test_lab_and_fields_of_the_paper_s_experiment_have_exact_shares_and_no_row_in_common():
    shares = [[0.6, 0.1, 0.3], [0.1, 0.6, 0.3]]
    data = quantification(
        p_lab=(0.2, 0.3, 0.5), p_fields=shares, sizes=(100, 1000), n_informative=3, n_features=5
    )
    np.testing.assert_allclose(np.bincount(data.y_lab) / 2000, (0.2, 0.3, 0.5), atol=1e-9)
    np.testing.assert_allclose(data.prevalence, shares, atol=1e-9)
    assert not set(data.proba_lab[:, 1].tolist()) & set(data.proba_fields[1][:, 1].tolist())
    with pytest.raises(InputError, match="Raise n_pool"):
        quantification(n_pool=3000)


def test_the_judge_errs_as_often_as_was_asked_for_and_is_kinder_to_the_first_system():
    data = judged(n_items=20_000, rates=(0.5, 0.8), sensitivity=0.9, specificity=0.75, kinder=0.2)
    for system, rate in data.rates.items():
        own = data.system == system
        good, passed = data.truth[own] == "pass", data.verdict[own] == "pass"
        assert good.mean() == pytest.approx(rate, abs=0.015)
        assert passed[good].mean() == pytest.approx(0.9, abs=0.015)
        assert passed[~good].mean() == pytest.approx(0.45 if system == "A" else 0.25, abs=0.02)
    checked = [i for i, label in enumerate(data.human) if label is not None]
    assert len(checked) == 300
    assert (data.human[checked] == data.truth[checked]).all()
