"""Prevalences until labels decide: mixtures of a few stories, against independent computations of the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import beta, norm

from fieldcal.core.intervals import _on_logits, beta_interval
from fieldcal.core.policy import POLICY
from fieldcal.core.response import rake
from fieldcal.core.sample_size import labels_to_decide
from fieldcal.core.stories import Doubt, Parts, mixture_interval, moments, story_draws, tell
from fieldcal.core.trust import Trust

G = 12


def doubt(K=3, seed=0, excess=None, n=500.0):
    rng = np.random.default_rng(seed)
    mean, urc = (rng.dirichlet(np.full(K, 3.0), size=G) for _ in range(2))
    parts = Parts(mean, urc, urc.mean(axis=0), mean.mean(axis=0), np.full(G, n))
    return Doubt(
        parts=parts,
        spread=np.full((G, K), 0.02),
        at_zero=np.zeros((G, K), dtype=bool),
        at_one=np.zeros((G, K), dtype=bool),
        labels=mean * (1 - mean) / n / 2,
        steps=(),
        miscalibrated=np.full(K, 0.005),
        excess=None if excess is None else np.full(K, excess),
    )


def of_two(mean, urc, spread=0.0, labels=0.0):
    """Of two classes, with the same prevalences in all groups."""
    none = np.zeros((G, 2), dtype=bool)
    mean, urc = np.tile(mean, (G, 1)), np.tile(urc, (G, 1))
    parts = Parts(mean, urc, urc[0], mean[0], np.full(G, 500.0))
    noise = np.full((G, 2), spread), none, none, np.full((G, 2), labels)
    return Doubt(parts, *noise, steps=(), miscalibrated=np.zeros(2))


def told(found, overall, between, **options):
    return tell(found, Trust(overall, between), **{"moved": True, "grouped": True} | options)


def test_the_estimate_is_linear_in_either_trust_between_the_mean_prediction_and_label_shift():
    for K in (2, 5):
        parts = doubt(K).parts
        assert_allclose(parts.mixed(0.0, 0.0), parts.mean_prediction)
        assert_allclose(parts.mixed(1.0, 1.0), parts.urc)
        for overall, between in ((0.3, 0.8), (1.0, 0.0), (0.0, 1.0)):
            assert_allclose(parts.mixed(overall, between).sum(axis=1), 1)
    parts = doubt().parts
    ends = parts.mixed(0.0, 0.4), parts.mixed(1.0, 0.4)
    assert_allclose(parts.mixed(0.3, 0.4), 0.7 * ends[0] + 0.3 * ends[1])
    # Groups alike under label shift are left at the mean prediction of all.
    alike = Parts(parts.mean_prediction, np.tile(parts.whole, (G, 1)), parts.whole, parts.average, parts.n)
    assert_allclose(alike.mixed(0.0, 1.0), np.tile(parts.average, (G, 1)))


def test_weights_are_probabilities_and_label_shift_keeps_its_own_until_labels_decide():
    for grouped in (True, False):
        for moved in (True, False):
            for trust in (Trust(0.0, 0.0), Trust(0.5, 0.2), Trust(0.9, 1.0, rehearsed=0.6)):
                stories = tell(doubt(), trust, moved=moved, grouped=grouped)
                weights = np.array([story.weight for story in stories])
                assert (weights > 0).all()
                assert weights.sum() == pytest.approx(1)
                if not grouped:
                    assert max(s.weight for s in stories if s.follows) == pytest.approx(
                        max(trust.overall, POLICY.story_label_shift)
                    )


def test_a_caller_who_is_sure_hears_one_story_and_one_who_trusts_partly_the_corners():
    assert [s.weight for s in tell(doubt(), Trust(1.0, 1.0, True), moved=True, grouped=True)] == [1.0]
    assert [s.weight for s in tell(doubt(), Trust(0.0, 0.0, True), moved=True, grouped=True)] == [1.0]
    trust = Trust(0.3, 0.6, set_by_caller=True)
    corners = tell(doubt(), trust, moved=True, grouped=True)
    assert_allclose(sorted(s.weight for s in corners), sorted([0.12, 0.18, 0.28, 0.42]))
    (one,) = tell(doubt(excess=0.01), trust, moved=True, grouped=True)
    assert one.weight == 1
    stories = tell(doubt(excess=0.01), Trust(0.0, 0.8, rehearsed=1.0), moved=False, grouped=True)
    assert [s.weight for s in stories] == [1.0]
    parts = doubt().parts
    assert_allclose(stories[0].centre(parts.urc), parts.mixed(0.0, 0.8))
    assert len(told(doubt(excess=0.01), 0.0, 0.8)) > 1


def quantile_of_mixture(weights, means, variances, at):
    """An independent computation: normals on the logit scale, by root finding."""
    centre, sd = np.log(means / (1 - means)), np.sqrt(variances) / (means * (1 - means))
    return expit(brentq(lambda x: weights @ norm.cdf(x, centre, sd) - at, -40, 40))


def test_the_interval_is_that_of_the_mixture_and_the_same_seen_from_either_class():
    for K in (2, 3):
        for trust in ((0.0, 0.0), (0.5, 0.3), (0.2, 0.9)):
            found = doubt(K, seed=4)
            stories = told(found, *trust)
            estimate = found.parts.mixed(*trust)
            lower, upper = mixture_interval(stories, found, 0.9, estimate=estimate)
            means, variances, weights = moments(stories, found)
            for g in range(G):
                for k in range(K):
                    m, v = (np.array([table[g, k] for table in tables]) for tables in (means, variances))
                    ends = [quantile_of_mixture(weights, m, v, at) for at in (0.05, 0.95)]
                    assert lower[g, k] == pytest.approx(min(ends[0], estimate[g, k]), abs=1e-8)
                    assert upper[g, k] == pytest.approx(max(ends[1], estimate[g, k]), abs=1e-8)
    found = doubt(2)
    lower, upper = mixture_interval(told(found, 0.5, 0.5), found, 0.9, estimate=found.parts.mixed(0.5, 0.5))
    assert_allclose(lower[:, 0], 1 - upper[:, 1])


def test_until_labels_decide_the_interval_holds_both_stories():
    found = doubt(2, seed=1)
    for trust in (0.0, 0.3, 0.59):
        mixed = found.parts.mixed(trust, trust)
        lower, upper = mixture_interval(told(found, trust, trust, grouped=False), found, 0.9, estimate=mixed)
        for story in (found.parts.mean_prediction, found.parts.urc):
            assert np.mean((lower <= story) & (story <= upper)) == 1


def test_a_class_that_nothing_speaks_for_or_label_shift_leaves_possible_reaches_zero():
    absent = of_two([1.0, 0.0], [1.0, 0.0], spread=1e-4)
    none = absent.parts.mean_prediction
    lower, upper = mixture_interval(told(absent, 0.0, 0.0), absent, 0.9, estimate=none)
    assert (lower[:, 1] == 0).all()
    assert (upper[:, 1] < 0.02).all()
    assert (upper[:, 0] == 1).all()
    found = doubt(3)
    touched = np.zeros((G, 3), dtype=bool)
    touched[::2, 1] = True
    found = replace(found, at_zero=touched)
    lower, _ = mixture_interval(told(found, 0.5, 0.5), found, 0.9, estimate=found.parts.mixed(0.5, 0.5))
    assert (lower[touched] == 0).all()
    assert (lower[~touched] > 0).all()


def test_a_rehearsal_that_missed_widens_the_interval():
    widths = []
    for excess in (0.0, 0.3):
        found = doubt(excess=excess)
        stories = tell(found, Trust(0.0, 0.5, rehearsed=1.0), moved=False, grouped=True)
        lower, upper = mixture_interval(stories, found, 0.9, estimate=found.parts.mixed(0.0, 0.5))
        widths.append((upper - lower).mean())
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("K", [2, 4])
def test_draws_have_the_quantiles_of_the_interval(K):
    """Two classes exactly; of more the shares must sum to one, which bends the noise of each: nearly, on average."""
    found = doubt(K, seed=2)
    rng = np.random.default_rng(0)
    urc = np.clip(found.parts.urc[:, None] + 0.02 * rng.standard_normal((G, 20_000, K)), 1e-3, 1)
    urc /= urc.sum(axis=2, keepdims=True)
    stories = told(found, 0.5, 0.3)
    draws = story_draws(stories, urc, rng)
    assert_allclose(draws.sum(axis=2), 1)
    estimate = found.parts.mixed(0.5, 0.3)
    for end, at in zip(mixture_interval(stories, found, 0.9, estimate=estimate), (0.05, 0.95), strict=True):
        missed = np.abs(np.quantile(draws, at, axis=1) - end)
        assert (missed.max() if K == 2 else missed.mean()) < 0.012


def test_every_draw_tells_one_story_of_all_groups():
    """Told apart by a distance that no noise bridges: in each draw all groups are where the same story has them."""
    sure = of_two([0.9, 0.1], [0.1, 0.9], labels=1e-8)
    urc = np.tile(sure.parts.urc[:, None], (1, 1000, 1))
    stories = tell(sure, Trust(0.3, 0.3, True), moved=True, grouped=False)
    draws = story_draws(stories, urc, np.random.default_rng(0))
    high = draws[..., 1] > 0.5
    assert (high.all(axis=0) | ~high.any(axis=0)).all()


def test_raking_keeps_the_classes_looks_under_label_shift_and_the_bins_shares_if_the_model_is_right():
    rng = np.random.default_rng(0)
    M, p_lab = rng.dirichlet(np.ones(6), size=3), np.array([0.5, 0.3, 0.2])
    joint = (p_lab[:, None] * M)[None]
    p = np.array([[0.2, 0.3, 0.5]])
    shifted = rake(joint, rows=p, columns=p[0] @ M)
    assert_allclose(shifted[0] / shifted[0].sum(axis=1, keepdims=True), M, atol=1e-4)
    h = rng.dirichlet(np.ones(6))
    given_bin = joint[0] / joint[0].sum(axis=0)
    right = rake(joint, rows=(given_bin @ h)[None], columns=h)
    assert_allclose(right[0] / right[0].sum(axis=0), given_bin, atol=1e-4)
    assert_allclose(right.sum(axis=1)[0], h, atol=1e-6)


def test_so_many_labels_decide_in_nine_cases_of_ten():
    one, other = np.array([0.7, 0.3]), np.array([0.55, 0.45])
    n = labels_to_decide(one, other)
    rng = np.random.default_rng(0)
    middle = np.array([0.5 * (0.3 + 0.45)])
    critical = 0.3 + 1.645 * np.sqrt(middle * (1 - middle) / n)
    assert np.mean(rng.binomial(n, 0.45, 20_000) / n > critical) == pytest.approx(0.9, abs=0.03)
    assert labels_to_decide(one, one) is None


def test_fault_66_a_field_of_more_rows_than_there_are_has_finite_odds():
    """Found by fuzzing: 1e60 rows leave no share between 0 and half a row."""
    centre, spread = _on_logits(np.array([[0.0, 1.0, 0.5]]), np.zeros((1, 3)), np.array([1e60]))
    assert np.isfinite(centre).all()
    assert np.isfinite(spread).all()


def test_the_interval_of_shares_is_betas_and_one_sided_only_where_it_piles_up():
    for mean in (0.02, 0.1, 0.2, 0.5, 0.8, 0.98):
        variance = 0.12 * mean * (1 - mean)
        strength = mean * (1 - mean) / variance - 1
        a, b = mean * strength, (1 - mean) * strength
        lower, upper = beta_interval(np.array([mean]), np.array([variance]), 0.9, n=np.array([1e6]))
        low, high = (0.0, 0.9) if a < 1 else (0.1, 1.0) if b < 1 else (0.05, 0.95)
        expected = beta(a, b).ppf([low, high])
        assert_allclose(np.ravel([lower, upper]), expected, atol=1e-3)
