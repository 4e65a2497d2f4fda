from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import multinomial

from fieldcal.core.likelihood import gradient, information, log_coefficient, nll, novel


def problem(seed: int, n_classes: int = 3, n_bins: int = 5, n_groups: int = 4):
    rng = np.random.default_rng(seed)
    M = rng.dirichlet(np.ones(n_bins), n_classes)
    p = rng.dirichlet(np.ones(n_classes), n_groups)
    return p, M, rng.multinomial(200, rng.dirichlet(np.ones(n_bins)), n_groups).astype(float)


def test_with_its_coefficient_the_loss_is_the_multinomial_log_mass():
    for seed in range(5):
        p, M, V = problem(seed)
        expected = [-multinomial.logpmf(v, v.sum(), q) for v, q in zip(V, p @ M, strict=True)]
        assert_allclose(nll(p, M, V) - log_coefficient(V), expected, rtol=1e-12)


def test_gradient_and_information_are_the_slopes():
    for n_classes in (2, 3, 6):
        p, M, V = problem(n_classes, n_classes, 7)
        for g, (x, v) in zip(gradient(p, M, V), zip(p, V, strict=True), strict=True):
            step = 1e-6 * np.eye(n_classes)
            slope = [(nll(x + s, M, v) - nll(x - s, M, v)) / 2e-6 for s in step]
            assert_allclose(g, slope, rtol=1e-7)
    for n_classes in (2, 3, 6):
        p, M, V = problem(n_classes, n_classes, 7)
        for H, (x, v) in zip(information(p, M, V), zip(p, V, strict=True), strict=True):
            step = 1e-6 * np.eye(n_classes)
            slope = [(gradient(x + s, M, v) - gradient(x - s, M, v)) / 2e-6 for s in step]
            assert_allclose(H, slope, rtol=1e-6)
            assert np.linalg.eigvalsh(H).min() >= 0


def test_loss_is_convex_and_lowest_where_the_expected_histogram_is_the_observed_one():
    for seed in range(5):
        p, M, V = problem(seed)
        other = problem(seed + 100)[0]
        for share in (0.1, 0.5, 0.8):
            between = nll(share * p + (1 - share) * other, M, V)
            assert np.all(between <= share * nll(p, M, V) + (1 - share) * nll(other, M, V) + 1e-9)
    p, M, _ = problem(1)
    V = 1000 * p @ M
    others = np.random.default_rng(2).dirichlet(np.ones(3), 200)
    for x, v in zip(p, V, strict=True):
        assert np.all(nll(others, M, np.tile(v, (200, 1))) >= nll(x, M, v))


def test_rows_in_bins_that_no_class_reaches_and_empty_histograms_say_nothing():
    M = np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]])
    p = np.array([[0.3, 0.7]])
    without, with_novel = np.array([[4.0, 6, 0]]), np.array([[4.0, 6, 5]])
    assert novel(M, with_novel).tolist() == [5]
    assert_allclose(nll(p, M, with_novel), nll(p, M, without), rtol=0)
    assert_allclose(gradient(p, M, with_novel), gradient(p, M, without), rtol=0)
    assert_allclose(information(p, M, with_novel), information(p, M, without), rtol=0)
    p, M, V = problem(0)
    assert_allclose(nll(p, M, 0 * V), 0, atol=0)
    assert_allclose(gradient(p, M, 0 * V), 0, atol=0)
    assert_allclose(information(p, M, 0 * V), 0, atol=0)
    M = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert nll(np.array([[1.0, 0.0]]), M, np.array([[3.0, 1.0]])).tolist() == [np.inf]
