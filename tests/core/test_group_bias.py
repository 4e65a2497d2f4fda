"""A bias for a group: found where it is, not where it is not, and as much larger afterwards as it is said to be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import expit, logit

import fieldcal
from fieldcal.core.group_bias import _tail, amplification, group_bias
from fieldcal.core.policy import POLICY
from fieldcal.core.response import count_cells, response_matrix


def sites(shift, *, n=4000, share=0.3, distance=1.5, p_lab=0.3, seed=0):
    """One group for each shift, of n rows: scores of a calibrated model, plus the shift of the group."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(shift)), n)
    y = (rng.random(len(groups)) < np.broadcast_to(share, len(shift))[groups]).astype(int)
    x = distance * y + rng.standard_normal(len(groups)) + np.asarray(shift, dtype=float)[groups]
    return expit(distance * x - distance**2 / 2 + logit(p_lab)), y, groups


def columns(scores):
    return np.column_stack([1 - scores, scores])


def compared(proba, y, groups, weight=None):
    bins, K = proba.argmax(axis=1), proba.shape[1]
    M = response_matrix(count_cells(y, bins, shape=(K, K), weight=weight), smoothing=1.0)
    return group_bias(proba, y, groups, bins=bins, M=M, weight=weight)


def told(found):
    return found.adjusted < POLICY.beyond_doubt


def estimated(proba, y, groups, trust=1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
        lab = fieldcal.learn(proba, y, groups=groups)
        field = fieldcal.count(lab, proba, groups=groups)
        return lab, fieldcal.estimate(lab, field, trust=trust, prior="flat", point="mode", level=None)


@pytest.mark.parametrize("distance", [0.8, 2.5])
def test_the_estimate_of_a_biased_group_is_off_by_what_is_said_whatever_its_share_of_the_lab(distance):
    for shift in (0.3, -0.3):
        for others in (1, 19):
            scores, y, groups = sites(
                [0.0] * others + [shift], n=30_000 // others, share=0.5, p_lab=0.5, distance=distance
            )
            lab, prev = estimated(scores, y, groups)
            at = lab.bias_groups.index(others)
            said = lab.bias.after[at]
            assert abs(prev.urc[others, 1] - y[groups == others].mean() - said) < 0.1 * abs(said)
            factor = amplification(lab.M, lab.bin_means)[1]
            assert abs(said - factor * lab.bias.bias[at]) < 0.1 * abs(said), "the bias over the slope"


def test_of_two_equal_groups_each_has_half_of_their_difference():
    """The lab lies between them, and has learnt half of it."""
    scores, y, groups = sites([0.2, -0.2])
    found = compared(columns(scores), y, groups)
    apart = [np.diff([scores[(groups == g) & (y == k)].mean() for g in (1, 0)])[0] for k in (0, 1)]
    shares = [[(y[groups == g] == k).mean() for k in (0, 1)] for g in found.group]
    np.testing.assert_allclose(np.abs(found.bias), np.dot(shares, apart) / 2, rtol=0.05)


def test_the_amplification_is_one_over_the_share_of_variance_that_predictions_explain():
    """Of a calibrated model with many bins."""
    scores, y, _ = sites([0.0], n=100_000)
    lab = fieldcal.learn(scores, y, partition=200)
    np.testing.assert_allclose(amplification(lab.M, lab.bin_means), y.var() / scores.var(), rtol=0.03)


def test_the_bias_is_what_the_group_has_beyond_its_mix_of_classes():
    scores, y, groups = sites([0.0, 0.0, 0.4], share=[0.1, 0.8, 0.5])
    found = compared(columns(scores), y, groups)
    assert found.group[0] == 2, "the clearest first"
    own = groups == 2
    expected = sum(
        (y[own] == k).mean() * (scores[own & (y == k)].mean() - scores[y == k].mean()) for k in (0, 1)
    )
    np.testing.assert_allclose(found.bias[0], expected)
    np.testing.assert_allclose(found.miss[0], scores[own].mean() - y[own].mean())
    assert found.of[0] == 1


@pytest.mark.parametrize(("share", "distance", "n"), [(0.3, 1.5, 100), (0.02, 2.5, 40), (0.05, 1.5, 40)])
def test_groups_that_differ_by_their_classes_alone_are_not_biased(share, distance, n):
    """Rare classes too, where one confident error decides the mean of a small group."""
    alarms = 0
    for seed in range(40):
        shares = np.random.default_rng(seed).beta(10 * share, 10 * (1 - share), 100)
        scores, y, groups = sites([0.0] * 100, n=n, share=shares, distance=distance, p_lab=share, seed=seed)
        alarms += told(compared(columns(scores), y, groups)).any()
    assert alarms == 0


def test_the_bound_of_the_tail_holds_where_a_normal_one_does_not():
    """Means of 40 rows of a rare event, against how often they are so far off."""
    rng = np.random.default_rng(0)
    means = rng.binomial(40, 0.01, 200_000) / 40
    variance = 0.01 * 0.99 / 40
    for far in (0.04, 0.065, 0.09):
        assert np.mean(np.abs(means - 0.01) >= far) < _tail(
            np.array(far), np.array(variance), np.array(1 / 40)
        )


def test_weights_of_any_size_say_the_same_and_rows_without_any_take_no_part():
    scores, y, groups = sites([0.0, 0.0, 0.3], n=500)
    bare = compared(columns(scores), y, groups)
    weighted = compared(columns(scores), y, groups, weight=np.full(len(y), 3.0))
    for name in ("bias", "error", "adjusted", "miss"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(bare, name))
    scores, y, groups = sites([0.0, 0.0, 0.3, 0.0], n=500)
    kept = groups < 3
    bare = compared(columns(scores[kept]), y[kept], groups[kept])
    weighted = compared(columns(scores), y, groups, weight=kept.astype(float))
    np.testing.assert_allclose(weighted.bias, bare.bias)
    np.testing.assert_allclose(weighted.adjusted, bare.adjusted)
    alone = compared(columns(scores), np.where(groups == 0, y, 0), groups)
    assert 0 not in alone.group, "no other group has its second class"
    scores, y, groups = sites([0.0] * 5, n=9)
    assert compared(columns(scores), y, groups) is None


@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
def test_a_lab_keeps_the_names_of_the_groups_and_survives_saving():
    scores, y, groups = sites([0.0, 0.0, 0.5], n=800)
    lab = fieldcal.learn(scores, y, groups=np.array(["Bath", "Hull", "York"])[groups])
    assert lab.bias_groups[0] == "York"
    assert fieldcal.Lab.from_json(lab.to_json()) == lab
    with pytest.raises(ValueError, match="bias_groups"):
        lab.model_validate(lab.content() | {"bias_groups": ["York"]})


def test_three_classes_are_compared_each_with_the_others():
    rng = np.random.default_rng(0)
    means, p = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 1.5]]), np.array([0.3, 0.4, 0.3])
    y, groups = rng.choice(3, 20_000, p=p), rng.integers(10, size=20_000)
    x = means[y] + rng.standard_normal((20_000, 2)) + np.array([0.0, 0.4]) * (groups == 9)[:, None]
    density = p * np.exp(-((x[:, None] - means) ** 2).sum(axis=2) / 2)
    proba = density / density.sum(axis=1, keepdims=True)
    found = compared(proba, y, groups)
    assert (told(found).sum(), (found.group[0], found.of[0])) == (1, (9, 2))
    lab, prev = estimated(proba, y, groups)
    assert lab.bias_groups[0] == 9
    missed = prev.urc[9, 2] - (y[groups == 9] == 2).mean()
    assert abs(missed - lab.bias.after[0]) < 0.1 * missed


@pytest.mark.parametrize("shares", [[0.3, 0.3, 0.3], [0.1, 0.5, 0.3]])
def test_the_standard_error_is_how_much_the_bias_varies(shares):
    """Over labs that obey label shift, one of whose groups is half of it."""
    rng, biases, errors = np.random.default_rng(0), [], []
    for _ in range(300):
        groups = rng.choice(3, 600, p=[0.25, 0.25, 0.5])
        y = (rng.random(600) < np.array(shares)[groups]).astype(int)
        scores = expit(1.5 * (1.5 * y + rng.standard_normal(600)) - 1.125 + logit(0.3))
        found = compared(columns(scores), y, groups)
        order = np.argsort(found.group)
        biases.append(found.bias[order])
        errors.append(found.error[order])
    np.testing.assert_allclose(np.std(biases, axis=0), np.mean(errors, axis=0), rtol=0.15)
