"""It must not say yes when it does not know: small simulated versions of ``benchmarks/truth.py``."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

import fieldcal
from fieldcal.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
SEEDS = range(8)


@functools.cache
def population(kind, seed, n=800):
    """A lab of 3,000 rows and a field that moved by label shift, by a covariate, or not at all."""
    rng = np.random.default_rng(seed)

    def by_label(share, rows):
        y = (rng.random(rows) < share).astype(int)
        return expit(2.2 * rng.normal(np.where(y, 1, -1), 1.4) / 1.96 + np.log(0.4 / 0.6)), y

    def by_covariate(mean, rows):
        score = expit(1.6 * rng.normal(mean, 1, rows) - 0.3)
        return score, (rng.random(rows) < score).astype(int)

    if kind == "covariate":
        return by_covariate(0.0, 3000), by_covariate(rng.choice([-0.8, 0.8]), n)
    share = {"label": rng.choice([0.1, 0.75]), "still": 0.4}[kind]
    return by_label(0.4, 3000), by_label(share, n)


def asked(kind, seed, **options):
    (scores, y), (new, truth) = population(kind, seed)
    lab = fieldcal.learn(scores, y)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, new), **options)
    return prev, new, truth


def change(kind, seed, **options):
    prev, new, truth = asked(kind, seed, **options)
    return log_loss(truth, fieldcal.recalibrate(prev, new)) - log_loss(truth, new)


def test_one_population_that_moved_by_label_shift_gains_most_of_what_full_trust_gains():
    default, full = (np.mean([change("label", s, **o) for s in SEEDS]) for o in ({}, {"trust": 1}))
    assert default < 0.55 * full < 0


def test_one_population_that_moved_by_a_covariate_loses_a_fraction_of_what_full_trust_loses():
    default, full = ([change("covariate", s, **o) for s in SEEDS] for o in ({}, {"trust": 1}))
    assert np.mean(full) > 0.05, "the plain method does harm here"
    assert np.mean(default) < 0.4 * np.mean(full)
    assert np.max(default) < 0.15


def test_no_row_of_a_field_without_labels_loses_more_than_histograms_can_earn():
    for kind in ("label", "covariate"):
        prev, new, truth = asked(kind, 1)
        after = fieldcal.recalibrate(prev, new)
        lost = np.log(np.where(truth, new, 1 - new)) - np.log(np.where(truth, after, 1 - after))
        assert lost.max() <= -np.log(1 - prev.trust_overall) + 1e-9
        assert prev.trust_overall <= 0.59


def test_a_field_that_has_not_moved_is_unchanged_to_the_last_digit_and_ok():
    unchanged = 0
    for seed in SEEDS:
        prev, new, _ = asked("still", seed)
        if not prev.overall_shift.shifted:
            np.testing.assert_array_equal(fieldcal.recalibrate(prev, new), new)
            np.testing.assert_allclose(prev.estimate, prev.mean_prediction)
            assert prev.verdict.level == "ok"
            assert any(
                r.endswith("beyond noise; predictions are left unchanged.") for r in prev.verdict.reasons
            )
            unchanged += 1
    assert unchanged >= 6


def test_a_correction_on_histograms_alone_is_never_ok():
    for kind in ("label", "covariate"):
        for seed in SEEDS:
            prev, _, _ = asked(kind, seed)
            assert prev.trust_overall == 0 or prev.verdict.level == "care"
            if kind == "label":
                assert prev.verdict.level != "do_not_use"


def test_intervals_of_one_population_hold_the_share_whatever_moved_it():
    for kind in ("label", "covariate", "still"):
        held = []
        for seed in SEEDS:
            prev, _, truth = asked(kind, seed)
            held.append(prev.lower[0, 1] <= truth.mean() <= prev.upper[0, 1])
        assert np.mean(held) >= 0.8, kind


@functools.cache
def grouped(seed=0, *, rehearsal=True, n_groups=16):
    """Groups that differ by a covariate, in lab and field alike."""
    rng = np.random.default_rng(seed)
    mean, groups = 0.7 * rng.standard_normal(n_groups), np.repeat(np.arange(n_groups), 250)

    def draw():
        score = expit(1.5 * (mean[groups] + rng.standard_normal(len(groups))) - 0.3)
        return score, (rng.random(len(groups)) < score).astype(int)

    (scores, y), (new, truth) = draw(), draw()
    lab = fieldcal.learn(scores, y, groups=groups if rehearsal else None)
    return fieldcal.estimate(lab, fieldcal.count(lab, new, groups=groups)), new, truth, groups


def test_label_shift_may_be_assumed_and_then_it_is_said():
    prev, *_ = grouped()
    assumed = prev.contrast(0, 1, assume="label_shift")
    assert assumed.assume == "label_shift"
    assert "if label shift holds" in str(assumed)
    difference = prev.urc[0, 1] - prev.urc[1, 1]
    assert assumed.estimate == difference
    after = prev.contrast(0, 1)
    assert after.estimate == prev.estimate[0, 1] - prev.estimate[1, 1]
    with pytest.raises(InputError, match="'trust' or 'label_shift'"):
        prev.draws(assume="magic")
