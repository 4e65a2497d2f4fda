"""Shares without labels: mixtures of a few hypotheses, against independent computations of the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import beta, norm

from fieldcal.core.histogram_posterior import HistogramPosterior, Histograms
from fieldcal.core.intervals import _on_logits, beta_interval
from fieldcal.core.planning import labels_to_decide
from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Summary
from fieldcal.core.response import rake
from fieldcal.core.trust import Trust

G, ROWS = 12, 500.0


def label_shift(urc, sd=0.02):
    """A posterior under label shift whose own interval does not matter, but for the ends that it reaches."""
    return Summary(urc, np.full(urc.shape, sd), np.full(urc.shape, 1e-3), np.full(urc.shape, 1 - 1e-3))


def histograms(K=3, seed=0, excess=None):
    rng = np.random.default_rng(seed)
    mean, urc = (rng.dirichlet(np.full(K, 3.0), size=G) for _ in range(2))
    return Histograms(
        mean_prediction=mean,
        urc=urc,
        average=mean.mean(axis=0),
        whole=urc.mean(axis=0),
        n=np.full(G, ROWS),
        label_shift=label_shift(urc),
        steps=(),
        noise=mean * (1 - mean) / ROWS / 2,
        miscalibrated=np.full(K, 0.005),
        excess=None if excess is None else np.full(K, excess),
    )


def of_two(mean, urc, sd=0.0, noise=0.0):
    """Of two classes, with the same prevalences in all groups."""
    mean, urc = np.tile(mean, (G, 1)), np.tile(urc, (G, 1))
    shift, none = label_shift(urc, sd), np.zeros(2)
    return Histograms(mean, urc, mean[0], urc[0], np.full(G, ROWS), shift, (), np.full((G, 2), noise), none)


def posterior(found, overall=0.5, between=0.5, *, shifted=True, grouped=True, given=False, known=0.0):
    return HistogramPosterior(found, Trust(overall, between, given, known), shifted, grouped)


def interval(found, level=0.9):
    return found.shares().interval(level, found.histograms.n)


def weights(found):
    return [h.weight for h in found.hypotheses]


def test_the_estimate_is_linear_in_either_trust_between_the_mean_prediction_and_label_shift():
    for K in (2, 5):
        found = histograms(K)
        assert_allclose(found.shares(0.0, 0.0), found.mean_prediction)
        assert_allclose(found.shares(1.0, 1.0), found.urc)
        for overall, between in ((0.3, 0.8), (1.0, 0.0), (0.0, 1.0)):
            assert_allclose(found.shares(overall, between).sum(axis=1), 1)
    found = histograms()
    ends = found.shares(0.0, 0.4), found.shares(1.0, 0.4)
    assert_allclose(found.shares(0.3, 0.4), 0.7 * ends[0] + 0.3 * ends[1])
    assert_allclose(posterior(found, 0.3, 0.4).shares().estimate, found.shares(0.3, 0.4))
    # Groups alike under label shift are left at the mean prediction of all.
    alike = replace(found, urc=np.tile(found.whole, (G, 1)))
    assert_allclose(alike.shares(0.0, 1.0), np.tile(found.average, (G, 1)))


def test_weights_are_probabilities_and_label_shift_keeps_its_own_until_labels_decide():
    for grouped in (True, False):
        for shifted in (True, False):
            for overall, between, known in ((0.0, 0.0, 0.0), (0.5, 0.2, 0.0), (0.9, 1.0, 0.6)):
                made = posterior(
                    histograms(), overall, between, shifted=shifted, grouped=grouped, known=known
                )
                assert min(weights(made)) > 0
                assert sum(weights(made)) == pytest.approx(1)
                if not grouped:
                    assert max(h.weight for h in made.hypotheses if h.between) == pytest.approx(
                        max(overall, POLICY.least_label_shift)
                    )


def test_a_caller_who_is_sure_leaves_one_hypothesis_and_one_who_trusts_partly_the_pairs():
    assert weights(posterior(histograms(), 1.0, 1.0, given=True)) == [1.0]
    assert weights(posterior(histograms(), 0.0, 0.0, given=True)) == [1.0]
    pairs = posterior(histograms(), 0.3, 0.6, given=True)
    assert_allclose(sorted(weights(pairs)), sorted([0.12, 0.18, 0.28, 0.42]))
    validated = histograms(excess=0.01)
    assert weights(posterior(validated, 0.3, 0.6, given=True)) == [1.0]
    one = posterior(validated, 0.0, 0.8, known=1.0, shifted=False)
    assert weights(one) == [1.0]
    assert_allclose(one.shares().means[0], validated.shares(0.0, 0.8))
    assert len(weights(posterior(validated, 0.0, 0.8))) > 1


def test_a_caller_who_is_sure_of_label_shift_gets_the_posterior_itself():
    found = histograms()
    sure = posterior(found, 1.0, 1.0, given=True)
    assert_allclose(sure.shares().estimate, found.urc)
    assert interval(sure) == (found.label_shift.lower, found.label_shift.upper)
    urc = np.random.default_rng(0).dirichlet(np.ones(3), size=(G, 7))
    assert sure.draws(urc, np.random.default_rng(0)) is urc


def quantile_of_mixture(weights, means, variances, at):
    """An independent computation: normals on the logit scale, by root finding."""
    centre, sd = np.log(means / (1 - means)), np.sqrt(variances) / (means * (1 - means))
    return expit(brentq(lambda x: weights @ norm.cdf(x, centre, sd) - at, -40, 40))


def test_the_interval_is_that_of_the_mixture_and_the_same_seen_from_either_class():
    for K in (2, 3):
        for trust in ((0.0, 0.0), (0.5, 0.3), (0.2, 0.9)):
            made = posterior(histograms(K, seed=4), *trust)
            shares, (lower, upper) = made.shares(), interval(made)
            for g in range(G):
                for k in range(K):
                    parts = shares.weights, shares.means[:, g, k], shares.variances[:, g, k]
                    ends = [quantile_of_mixture(*parts, at) for at in (0.05, 0.95)]
                    assert lower[g, k] == pytest.approx(min(ends[0], shares.estimate[g, k]), abs=1e-8)
                    assert upper[g, k] == pytest.approx(max(ends[1], shares.estimate[g, k]), abs=1e-8)
    lower, upper = interval(posterior(histograms(2)))
    assert_allclose(lower[:, 0], 1 - upper[:, 1])


def test_until_labels_decide_the_interval_holds_both_hypotheses():
    found = histograms(2, seed=1)
    for trust in (0.0, 0.3, 0.59):
        lower, upper = interval(posterior(found, trust, trust, grouped=False))
        for shares in (found.mean_prediction, found.urc):
            assert np.mean((lower <= shares) & (shares <= upper)) == 1


def test_a_class_without_any_row_or_that_label_shift_leaves_possible_reaches_zero():
    absent = posterior(of_two([1.0, 0.0], [1.0, 0.0], sd=1e-4), 0.0, 0.0)
    lower, upper = interval(absent)
    assert (lower[:, 1] == 0).all()
    assert (upper[:, 1] < 0.02).all()
    assert (upper[:, 0] == 1).all()
    found = histograms(3)
    lowest = found.label_shift.lower.copy()
    lowest[::2, 1] = 0.0
    found = replace(found, label_shift=replace(found.label_shift, lower=lowest))
    lower, _ = interval(posterior(found))
    assert (lower[lowest == 0] == 0).all()
    assert (lower[lowest > 0] > 0).all()


def test_an_end_that_only_a_hypothesis_beyond_the_level_reaches_is_not_held():
    found = histograms(2)
    lowest = np.zeros((G, 2))
    found = replace(found, label_shift=replace(found.label_shift, lower=lowest))
    for trust, level, held in ((0.2, 0.9, True), (0.05, 0.9, False), (0.05, 0.99, True)):
        lower, _ = interval(posterior(found, trust, trust, grouped=False, given=True), level)
        assert (lower[:, 1] == 0).all() == held


def test_lab_groups_that_were_missed_in_cross_validation_widen_the_interval():
    widths = []
    for excess in (0.0, 0.3):
        lower, upper = interval(posterior(histograms(excess=excess), 0.0, 0.5, known=1.0, shifted=False))
        widths.append((upper - lower).mean())
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("K", [2, 4])
def test_draws_have_the_quantiles_of_the_interval(K):
    """Two classes exactly; of more the shares must sum to one, which bends the noise of each: nearly, on average."""
    found = histograms(K, seed=2)
    rng = np.random.default_rng(0)
    urc = np.clip(found.urc[:, None] + 0.02 * rng.standard_normal((G, 20_000, K)), 1e-3, 1)
    urc /= urc.sum(axis=2, keepdims=True)
    made = posterior(found, 0.5, 0.3)
    draws = made.draws(urc, rng)
    assert_allclose(draws.sum(axis=2), 1)
    for end, at in zip(interval(made), (0.05, 0.95), strict=True):
        missed = np.abs(np.quantile(draws, at, axis=1) - end)
        assert (missed.max() if K == 2 else missed.mean()) < 0.012


def test_every_draw_is_under_one_hypothesis_for_all_groups():
    """So far from each other that no noise bridges it: in each draw all groups are where the same one has them."""
    sure = of_two([0.9, 0.1], [0.1, 0.9], noise=1e-8)
    urc = np.tile(sure.urc[:, None], (1, 1000, 1))
    draws = posterior(sure, 0.3, 0.3, given=True, grouped=False).draws(urc, np.random.default_rng(0))
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
