"""What the paper proves, held against the code on finite distributions: exactly, not by simulation, where it can be."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from experiments.baselines import naive
from hypothesis import assume, given, settings
from numpy.testing import assert_allclose
from scipy.stats import dirichlet, multinomial

from fieldcal.core.priors import KL, Dirichlet, Flat, KLBins
from fieldcal.core.response import response_matrix
from fieldcal.core.reweight import class_weights, reweight
from fieldcal.core.solve import solve
from known import known

relaxed = settings(deadline=None, derandomize=True, max_examples=80)


@st.composite
def calibrated_labs(draw: st.DrawFn, n_classes: int = 2) -> np.ndarray:
    """Counts F (K, m) of a lab in which the prediction in each bin *is* the share of each class there."""
    n_values = draw(st.integers(2, 6))
    cell = st.integers(0, 9)
    F = np.array(
        draw(
            st.lists(
                st.lists(cell, min_size=n_classes, max_size=n_classes), min_size=n_values, max_size=n_values
            )
        )
    ).T
    assume(F.sum(axis=0).min() > 0 and F.sum(axis=1).min() > 0)
    return F


def predictions(F: np.ndarray) -> np.ndarray:
    """The calibrated prediction of each bin, (m, K)."""
    return (F / F.sum(axis=0)).T


def label_shift(F: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """The field counts (K, m) when each class is met ``copies`` times as often: the consistency axiom, exactly."""
    return F * copies[:, None]


# The sandwich theorem -------------------------------------------------------------------------------------


@relaxed
@given(calibrated_labs(), st.integers(1, 20), st.integers(1, 20))
def test_the_naive_estimate_lies_strictly_between_the_truth_and_the_lab(F, zeros, ones):
    field = label_shift(F, np.array([zeros, ones]))
    lab_share, truth = (Fraction(int(c[1].sum()), int(c.sum())) for c in (F, field))
    by_hand = sum(
        Fraction(int(rows), int(field.sum())) * Fraction(int(a), int(b))
        for rows, a, b in zip(field.sum(axis=0), F[1], F.sum(axis=0), strict=True)
    )
    estimate = naive(np.repeat(predictions(F), field.sum(axis=0), axis=0))[1]
    assert estimate == pytest.approx(float(by_hand), rel=1e-12)

    scores = {Fraction(int(a), int(b)) for a, b in zip(F[1], F.sum(axis=0), strict=True)}
    if truth == lab_share:
        assert by_hand == truth
    elif len(scores) == 1:  # no discriminative power: the mean prediction is the lab's share
        assert by_hand == lab_share
    elif scores == {0, 1}:  # a perfect classifier has nothing to understate
        assert by_hand == truth
    else:
        assert min(truth, lab_share) < by_hand < max(truth, lab_share)


#: Two classes that are taken for each other, and a third that is not: a calibrated ternary classifier.
CONFUSED = np.array([[2, 1, 0], [1, 2, 0], [0, 0, 6]])


@pytest.mark.parametrize(
    ("copies", "truth", "mean"),
    [
        ((3, 6, 1), Fraction(9, 33), Fraction(13, 33)),  # a small rise, overstated sixfold
        ((2, 6, 1), Fraction(6, 30), Fraction(34, 90)),  # a fall, taken for a rise
    ],
)
def test_for_three_classes_the_mean_prediction_may_overstate_a_difference_or_have_its_sign_wrong(
    copies, truth, mean
):
    field = label_shift(CONFUSED, np.array(copies))
    assert Fraction(int(field[0].sum()), int(field.sum())) == truth
    by_hand = sum(
        Fraction(int(rows), int(field.sum())) * Fraction(int(a), int(b))
        for rows, a, b in zip(field.sum(axis=0), CONFUSED[0], CONFUSED.sum(axis=0), strict=True)
    )
    assert by_hand == mean
    rows = np.repeat(predictions(CONFUSED), field.sum(axis=0), axis=0)
    assert naive(rows)[0] == pytest.approx(float(mean), rel=1e-12)
    in_lab = Fraction(1, 4)
    assert not min(truth, in_lab) <= mean <= max(truth, in_lab)
    assert mean - in_lab > truth - in_lab
    M = response_matrix(CONFUSED, smoothing=0)
    p_lab = CONFUSED.sum(axis=1) / CONFUSED.sum()
    solution = solve(M, field.sum(axis=0)[None].astype(float), Flat().penalty(known(M, p_lab)))
    assert_allclose(solution.p[0], field.sum(axis=1) / field.sum(), rtol=0, atol=1e-7)


# The lemma of known bias ----------------------------------------------------------------------------------


@relaxed
@given(calibrated_labs(3), st.lists(st.integers(0, 20), min_size=3, max_size=3).map(np.array))
def test_with_the_true_prevalences_the_lemma_gives_the_field_probabilities_of_bayes(F, copies):
    field = label_shift(F, copies)
    seen = field.sum(axis=0) > 0
    assume(seen.any())
    weights = class_weights(field.sum(axis=1) / field.sum(), F.sum(axis=1) / F.sum())
    assert_allclose(reweight(predictions(F), weights)[seen], predictions(field[:, seen]), rtol=0, atol=1e-12)


@relaxed
@given(calibrated_labs(), st.integers(1, 20), st.integers(1, 20))
def test_recalibrated_predictions_average_to_the_true_prevalence(F, zeros, ones):
    field = label_shift(F, np.array([zeros, ones]))
    truth = field.sum(axis=1) / field.sum()
    new = reweight(predictions(F), class_weights(truth, F.sum(axis=1) / F.sum()))
    assert_allclose(np.average(new, axis=0, weights=field.sum(axis=0)), truth, rtol=0, atol=1e-13)


# Convergence ----------------------------------------------------------------------------------------------


def response(seed: int, n_classes: int, n_bins: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    own = np.eye(n_classes)[:, np.arange(n_bins) % n_classes]
    M = own * rng.uniform(0.5, 1.5, own.shape) + rng.uniform(0.05, 0.4, own.shape)
    return M / M.sum(axis=1, keepdims=True)


def test_the_expected_histogram_gives_back_the_prevalence():
    for n_classes in (2, 3, 5):
        M = response(0, n_classes, 2 * n_classes)
        p = np.random.default_rng(1).dirichlet(np.ones(n_classes), 20)
        assert_allclose(solve(M, 1000 * p @ M, Flat().penalty(known(M, p[0]))).p, p, rtol=0, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_error_shrinks_like_one_over_the_root_of_the_rows(n_classes):
    for prior in (Flat(), KL(10), Dirichlet(10)):
        rng = np.random.default_rng(n_classes)
        M = response(2, n_classes, 2 * n_classes)
        p_lab = np.full(n_classes, 1 / n_classes)
        p = rng.dirichlet(np.full(n_classes, 20.0), 400)
        sizes = np.array([1_000, 10_000, 100_000, 1_000_000])
        errors = []
        for n in sizes:
            V = np.array([rng.multinomial(n, q / q.sum()) for q in p @ M]).astype(float)
            errors.append(np.sqrt(((solve(M, V, prior.penalty(known(M, p_lab))).p - p) ** 2).mean()))
        slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
        assert slope == pytest.approx(-0.5, abs=0.05)


def test_any_fixed_prior_is_forgotten_as_the_field_grows():
    for prior in (KL(5), Dirichlet(5), KLBins(5)):
        M = response(3, 3, 6)
        p = np.array([[0.7, 0.2, 0.1]])
        penalty = prior.penalty(known(M, np.array([0.1, 0.3, 0.6])))
        distance = [np.abs(solve(M, n * p @ M, penalty).p - p).max() for n in (1e2, 1e4, 1e6, 1e8)]
        # The pull of a fixed prior is in proportion to 1/n.
        assert_allclose(np.array(distance[1:-1]) / distance[2:], 100, rtol=0.05)
        assert distance[-1] < 1e-6


# The combined loss ----------------------------------------------------------------------------------------


def log_prior(
    prior: KL | Dirichlet | Flat | KLBins, p: np.ndarray, M: np.ndarray, p_lab: np.ndarray
) -> np.ndarray:
    """The logarithm of exp(−L_reg), from the paper's words and scipy, up to a constant."""
    if isinstance(prior, Dirichlet):
        return np.array([dirichlet.logpdf(x, 1 + prior.strength * p_lab) for x in p])
    if isinstance(prior, KL):
        return -prior.strength * (p * np.log(p / p_lab)).sum(axis=1)
    if isinstance(prior, KLBins):
        v = M.sum(axis=0)
        return -prior.strength * (v * np.log(v / (p @ M))).sum(axis=1)
    return np.zeros(len(p))


PRIORS = [Flat(), KL(8), Dirichlet(8), KLBins(8)]


def test_the_minimum_is_where_the_posterior_on_a_fine_grid_is_highest():
    for prior in PRIORS:
        for seed in range(2):
            rng = np.random.default_rng(seed)
            M, p_lab = response(seed, 2, 5), np.array([0.7, 0.3])
            V = rng.multinomial(60, rng.dirichlet(np.ones(2)) @ M)
            t = np.linspace(0, 1, 10_001)[1:-1]
            grid = np.column_stack([1 - t, t])
            posterior = multinomial.logpmf(V, 60, grid @ M) + log_prior(prior, grid, M, p_lab)
            mode = solve(M, V[None].astype(float), prior.penalty(known(M, p_lab))).p[0, 1]
            assert abs(mode - t[posterior.argmax()]) <= 1 / 10_000


def test_the_minimum_is_the_mode_for_three_classes_too():
    for prior in PRIORS:
        M, p_lab = response(4, 3, 6), np.array([0.5, 0.3, 0.2])
        V = np.random.default_rng(4).multinomial(80, np.array([0.2, 0.3, 0.5]) @ M)
        steps = 150
        grid = np.array([(i, j, steps - i - j) for i in range(1, steps) for j in range(1, steps - i)]) / steps
        posterior = multinomial.logpmf(V, 80, grid @ M) + log_prior(prior, grid, M, p_lab)
        mode = solve(M, V[None].astype(float), prior.penalty(known(M, p_lab))).p
        assert_allclose(mode[0], grid[posterior.argmax()], rtol=0, atol=1.5 / steps)
        at_mode = multinomial.logpmf(V, 80, mode[0] @ M) + log_prior(prior, mode, M, p_lab)[0]
        assert at_mode >= posterior.max()


# Two bins -------------------------------------------------------------------------------------------------


@relaxed
@given(st.integers(0, 500), st.integers(1, 500), st.floats(0.02, 0.98), st.floats(0.02, 0.98))
def test_with_two_bins_the_estimate_is_the_clipped_formula_of_rogan_and_gladen(
    high, low, sensitivity, alarms
):
    assume(abs(sensitivity - alarms) > 0.01)
    M = np.array([[1 - alarms, alarms], [1 - sensitivity, sensitivity]])
    share = high / (high + low)
    expected = np.clip((share - alarms) / (sensitivity - alarms), 0, 1)
    solution = solve(M, np.array([[low, high]], dtype=float), Flat().penalty(known(M, np.array([0.5, 0.5]))))
    assert_allclose(solution.p[0, 1], expected, rtol=0, atol=1e-8)
    if not min(sensitivity, alarms) <= share <= max(sensitivity, alarms):  # beyond any mixture
        assert solution.p[0, 1] == expected


# Symmetries -----------------------------------------------------------------------------------------------


def histograms(n_classes: int, n_bins: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    M = response(seed, n_classes, n_bins)
    V = np.array([rng.multinomial(150, q / q.sum()) for q in rng.dirichlet(np.ones(n_classes), 6) @ M])
    return M, V.astype(float), rng.dirichlet(np.full(n_classes, 4.0))


def test_splitting_a_bin_by_chance_says_nothing_new():
    for prior in (Flat(), KL(8), Dirichlet(8)):
        for n_classes in (2, 4):
            M, V, p_lab = histograms(n_classes, 7)
            expected = solve(M, V, prior.penalty(known(M, p_lab))).p
            halves = np.repeat(M, [2, *[1] * 6], axis=1) * np.array([0.3, 0.7, *[1.0] * 6])
            split = np.repeat(V, [2, *[1] * 6], axis=1) * np.array([0.6, 0.4, *[1.0] * 6])
            bins, classes = np.random.default_rng(1).permutation(7), np.arange(n_classes)[::-1]
            for found in (
                solve(halves, split, prior.penalty(known(halves, p_lab))).p,
                solve(M[:, bins], V[:, bins], prior.penalty(known(M[:, bins], p_lab))).p,
                solve(M[classes], V, prior.penalty(known(M[classes], p_lab[classes]))).p[:, classes],
            ):
                assert_allclose(found, expected, rtol=0, atol=1e-9)
            flat = Flat().penalty(known(M, p_lab))
            assert_allclose(solve(M, 7 * V, flat).p, solve(M, V, flat).p, rtol=0, atol=1e-10)
