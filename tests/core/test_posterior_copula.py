from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from fieldcal.core import posterior_copula
from fieldcal.core.posterior import summarise_draws
from fieldcal.core.posterior_binary import binary_summary
from fieldcal.core.posterior_copula import INDEPENDENT, LONG_WALK, WALK, copula_draws, prevalence_draws
from fieldcal.core.posterior_mcmc import hmc_draws
from fieldcal.core.response import response_draws


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def lab(K: int, rows: float = 300.0) -> np.ndarray:
    """Dirichlet parameters of M for bins of which each class has three, and most of its rows are there."""
    A = np.full((K, 3 * K), 0.5) + 0.3 * rows / (3 * K)
    for k in range(K):
        A[k, 3 * k : 3 * k + 3] += 0.7 * rows * np.array([0.5, 0.3, 0.2])
    return A


def histograms(A: np.ndarray, p: np.ndarray, n: int, seed: int = 1) -> np.ndarray:
    """Fields of n rows with these prevalences, (G, m)."""
    return rng(seed).multinomial(n, p @ (A / A.sum(axis=1, keepdims=True))).astype(float)


def long_chain(M: np.ndarray, V: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Draws of Hamiltonian Monte Carlo, the first half thrown away."""
    draws = hmc_draws(M, V, alpha, rng(7), per_draw=120)
    return draws.reshape(len(V), len(M), 120, -1)[:, :, 60:].reshape(len(V), -1, M.shape[1])


@pytest.mark.parametrize("effort", [INDEPENDENT, WALK, LONG_WALK])
@pytest.mark.parametrize("alpha", [[1.0, 1.0], [0.1, 2.0]])
def test_two_classes_agree_with_quadrature(effort, alpha):
    A = lab(2)
    M = response_draws(A, 64, rng())
    V = histograms(A, np.array([[0.6, 0.4], [0.02, 0.98], [0.5, 0.5]]), 200)
    draws, quality = copula_draws(M, V, np.broadcast_to(alpha, (64, 2)), rng(3), 40, effort)
    found = summarise_draws(draws, 0.9)
    mean, sd, lower, upper = binary_summary(M, V, np.array(alpha), level=0.9)
    assert (quality > effort.least).all()
    assert_allclose(found.mean[:, 1], mean, atol=0.05 * sd.max())
    assert_allclose(found.sd[:, 1], sd, rtol=0.06)
    assert_allclose(found.lower[:, 1], lower, atol=0.15 * sd.max())
    assert_allclose(found.upper[:, 1], upper, atol=0.15 * sd.max())


@pytest.mark.parametrize("n", [10, 500])
@pytest.mark.parametrize(("K", "alpha"), [(3, 0.1), (3, 1.0), (5, 0.3)])
def test_sparse_and_flat_priors_agree_with_long_chains(K, alpha, n):
    """With classes that are absent and rare, and with the noise of M."""
    A = lab(K)
    M = response_draws(A, 32, rng())
    V = histograms(A, np.vstack([rng(2).dirichlet(np.full(K, 0.3), 2), np.eye(K)[:1] * 0.97 + 0.03 / K]), n)
    prior = np.full((32, K), alpha)
    found = summarise_draws(prevalence_draws(M, V, prior, rng(4), per_draw=40), 0.9)
    expected = summarise_draws(long_chain(M, V, prior), 0.9)
    sd = np.maximum(expected.sd, 0.003)
    assert (np.abs(found.mean - expected.mean) / sd).max() < 0.25
    assert np.abs(np.log(np.maximum(found.sd, 0.003) / sd)).mean() < 0.1
    assert np.abs(found.lower - expected.lower).max() < 0.4 * sd.max()
    assert np.abs(found.upper - expected.upper).max() < 0.4 * sd.max()


def on_a_grid(M: np.ndarray, v: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of three classes at one M."""
    t = (np.arange(300) + 0.5) / 300
    a, b = np.meshgrid(t, t, indexing="ij")
    p = np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1).reshape(-1, 3)
    w = np.log(p @ M) @ v + np.log(p) @ (alpha - 1) + np.log(1 - p[:, 0])
    w = np.exp(w - w.max()) / np.exp(w - w.max()).sum()
    mean = w @ p
    return mean, np.sqrt(w @ (p - mean) ** 2)


def test_each_draw_of_m_has_a_posterior_of_its_own_also_where_priors_differ_in_strength():
    A = lab(3)
    M = response_draws(A, 8, rng())
    V = histograms(A, np.array([[0.3, 0.3, 0.4]]), 50)
    alpha = np.geomspace(4, 500, 8)[::-1, None] * rng(5).dirichlet([20.0, 20.0, 20.0], 8)
    draws = prevalence_draws(M, V, alpha, rng(6), per_draw=1000).reshape(8, 1000, 3)
    for found, one, prior in zip(draws, M, alpha, strict=True):
        mean, sd = on_a_grid(one, V[0], prior)
        assert_allclose(found.mean(axis=0), mean, atol=0.2 * sd.max())
        assert_allclose(found.std(axis=0), sd, rtol=0.1)


def test_the_truth_has_uniform_ranks_under_a_sparse_prior():
    A = lab(4)
    M = np.broadcast_to(A / A.sum(axis=1, keepdims=True), (19, *A.shape))
    alpha = np.array([2.0, 1.0, 0.5, 0.2])
    p = rng(8).dirichlet(alpha, 300)
    V = rng(9).multinomial(np.repeat([10, 100, 1000], 100), p @ M[0]).astype(float)
    draws = prevalence_draws(M, V, np.broadcast_to(alpha, (19, 4)), rng(10), per_draw=1)
    ranks = (draws < p[:, None]).sum(axis=1)
    for k in range(4):
        assert chisquare(np.bincount(ranks[:, k] // 4, minlength=5)).pvalue > 1e-3


def alike() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes that no bin distinguishes and of which a sparse prior expects one: two modes, far apart."""
    A = lab(3, rows=3e5)
    A[1] = A[0]
    M = np.broadcast_to(A / A.sum(axis=1, keepdims=True), (32, *A.shape))
    V = histograms(A, np.array([[0.3, 0.3, 0.4]]), 3000)
    return M, V, np.full((32, 3), 0.05)


def test_groups_that_fail_both_certificates_are_left_to_hamiltonian_monte_carlo(monkeypatch):
    given: list[np.ndarray] = []

    def left(M, V, alpha, rng, *, per_draw):
        given.append(V)
        return np.full((len(V), len(M) * per_draw, 3), 1 / 3)

    monkeypatch.setattr(posterior_copula, "hmc_draws", left)
    A = lab(3)
    easy = histograms(A, np.array([[0.2, 0.2, 0.6]]), 100)
    prevalence_draws(response_draws(A, 32, rng()), easy, np.ones(3), rng())
    assert not given
    M, V, alpha = alike()
    draws = prevalence_draws(M, V, alpha, rng())
    assert_array_equal(given[0], V)
    assert (draws == 1 / 3).all()


def test_a_group_that_fails_the_first_certificate_walks(monkeypatch):
    A = lab(3)
    V = histograms(A, np.array([[0.2, 0.2, 0.6], [0.1, 0.8, 0.1]]), 100)
    M = response_draws(A, 32, rng())
    quality = copula_draws(M, V, np.ones((32, 3)), rng(1), 4, INDEPENDENT)[1]
    monkeypatch.setattr(posterior_copula, "INDEPENDENT", replace(INDEPENDENT, least=quality.mean()))
    draws, first = (
        f(M, V, np.ones((32, 3)), rng(1))
        for f in (prevalence_draws, lambda *a: copula_draws(*a, 4, INDEPENDENT)[0])
    )
    assert [np.array_equal(*pair) for pair in zip(draws, first, strict=True)] == (
        quality > quality.mean()
    ).tolist()


def test_the_same_random_state_gives_the_same_draws():
    A = lab(3)
    M = response_draws(A, 16, rng())
    V = histograms(A, rng(2).dirichlet(np.ones(3), 9), 100)
    once, again = (prevalence_draws(M, V, np.ones(3), rng(1)) for _ in range(2))
    assert_array_equal(once, again)
    assert np.isfinite(once).all()
    assert_allclose(once.sum(axis=-1), 1, atol=1e-12)


def test_no_groups_no_rows_and_a_trillion_of_them_are_answered():
    M = response_draws(lab(3), 16, rng())
    assert prevalence_draws(M, np.zeros((0, 9)), np.ones(3), rng()).shape == (0, 64, 3)
    draws = prevalence_draws(M, np.stack([np.zeros(9), 1e12 * M[0, 1]]), np.ones(3), rng(1))
    assert_allclose(draws[0].mean(axis=0), 1 / 3, atol=0.06)
    assert draws[1, :, 1].mean() > 0.9
