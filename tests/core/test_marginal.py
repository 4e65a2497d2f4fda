"""The posterior mean with M integrated out, against brute force and against what is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta

from fieldcal.core.marginal import MOST_ROWS, log_likelihood, marginal_mean
from fieldcal.core.posterior import response_draws
from fieldcal.core.quadrature import binary_summary

FLAT = np.ones((1, 2))
P = (np.arange(400) + 0.5) / 400


def by_brute_force(A, v, alpha, draws=20_000):
    """Posterior mean on a grid, the likelihood averaged over very many draws of M."""
    rng = np.random.default_rng(0)
    M0, M1 = (rng.dirichlet(row, size=draws) for row in A)
    log_l = np.array([logsumexp(np.log((1 - p) * M0 + p * M1) @ v) for p in P])
    log_l += (alpha[1] - 1) * np.log(P) + (alpha[0] - 1) * np.log1p(-P)
    weight = np.exp(log_l - log_l.max())
    return float(weight @ P / weight.sum())


@pytest.mark.parametrize("rows", [(60, 60), (400, 60), (60, 400)])
@pytest.mark.parametrize("v", [(8, 6, 4, 2), (4, 9, 10, 17), (30, 27, 22, 11)])
def test_it_is_the_posterior_of_the_joint_model_for_fields_that_some_mixture_explains(rows, v):
    A = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]) * np.array(rows)[:, None]
    v = np.array(v, dtype=float)
    assert marginal_mean(A, v, FLAT) == pytest.approx(by_brute_force(A, v, FLAT[0]), abs=0.015)


def test_where_the_classes_look_alike_the_likelihood_is_exact():
    """Rows of M that have the same mean and concentration: the mixture's moments depend on p alone."""
    A = np.tile([4.0, 3.0, 2.0], (2, 1))
    found = log_likelihood(A, np.array([1.0, 0.0, 0.0]), P)
    np.testing.assert_allclose(found - found[0], 0.0, atol=1e-12)  # one row says nothing about p
    two = np.exp(log_likelihood(A, np.array([2.0, 0.0, 0.0]), P))
    mean, rows = 4 / 9, 9
    second = mean**2 + ((1 - P) ** 2 + P**2) * mean * (1 - mean) / (rows + 1)
    np.testing.assert_allclose(two / two[0], second / second[0], rtol=1e-12)


def test_with_a_huge_lab_it_is_the_posterior_for_known_m():
    M = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]])
    v = np.array([[30.0, 25, 20, 25]])
    known = binary_summary(M[None], v, np.array([0.5, 0.5]), level=0.9)[0]
    assert marginal_mean(M * 1e8, v[0], np.full((1, 2), 0.5)) == pytest.approx(float(known[0]), abs=2e-4)


@pytest.mark.parametrize("n", [10, 1e4, 1e7, 1e12, 1e15])
def test_narrow_posteriors_are_found_and_huge_fields_are_limited_by_the_lab(n):
    M = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    for p in (0.001, 0.3, 0.98):
        found = marginal_mean(M * 1e7, n * (np.array([1 - p, p]) @ M), FLAT)
        assert found == pytest.approx(p, abs=3 / np.sqrt(min(n, 1e7)))
    assert np.isfinite(log_likelihood(M * 100, np.full(3, 10 * MOST_ROWS), P)).all()


def test_labels_are_worth_what_they_are_worth_in_the_prior():
    A = np.array([[40.0, 20, 10], [5, 10, 30]])
    v = np.array([20.0, 10, 10])
    labels = np.array([7.0, 3.0])
    with_labels = marginal_mean(A, np.append(v, labels), FLAT)
    assert with_labels == pytest.approx(marginal_mean(A, v, FLAT + labels), abs=1e-6)


def test_without_rows_it_is_the_mean_of_the_priors():
    A = np.array([[40.0, 20, 10], [5, 10, 30]])
    alpha = np.array([[3.0, 1.0], [0.5, 0.5], [0.5, 0.5], [10.0, 90.0]])
    expected = np.mean([beta(a[1], a[0]).mean() for a in alpha])
    assert marginal_mean(A, np.zeros(3), alpha) == pytest.approx(expected, abs=1e-3)


def test_a_class_with_few_lab_rows_does_not_attenuate_the_estimate():
    """Mean over labs of what a large field of one half gives; averaging over draws of M falls short of it."""
    rng = np.random.default_rng(1)
    M = np.array([[0.2, 0.2, 0.2, 0.2, 0.2], [0.05, 0.1, 0.2, 0.3, 0.35]])
    v = 5000 * (0.5 * M[0] + 0.5 * M[1])
    ours, cut = [], []
    for _ in range(60):
        A = np.array([rng.multinomial(2000, M[0]), rng.multinomial(60, M[1])]) + 0.5
        ours.append(marginal_mean(A, v, FLAT))
        cut.append(float(binary_summary(response_draws(A, 32, rng), v[None], np.ones(2), level=0.9)[0][0]))
    assert abs(np.mean(ours) - 0.5) < 0.025
    assert np.mean(cut) < np.mean(ours) - 0.015
