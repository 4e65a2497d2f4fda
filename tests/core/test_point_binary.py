"""The posterior mean at the best M, its noise as dispersion: against brute force and what is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta

from fieldcal.core.point_binary import (
    MOST_ROWS,
    clipped_to_noise,
    concentration,
    dispersed_mean,
    log_likelihood,
)
from fieldcal.core.posterior_binary import binary_summary
from fieldcal.core.priors import Pooled
from fieldcal.core.response import response_draws
from known import counted

FLAT = np.ones((1, 2))
EVEN = np.array([0.5, 0.5])
P = (np.arange(400) + 0.5) / 400


def mean(A, v, alpha=FLAT):
    return dispersed_mean(A, np.asarray(v, dtype=float), alpha, p_lab=EVEN)


def by_brute_force(A, v, draws=20_000):
    """Posterior mean of the joint model on a grid: the likelihood averaged over very many draws of M."""
    rng = np.random.default_rng(0)
    M0, M1 = (rng.dirichlet(row, size=draws) for row in A)
    log_l = np.array([logsumexp(np.log((1 - p) * M0 + p * M1) @ v) for p in P])
    weight = np.exp(log_l - log_l.max())
    return float(weight @ P / weight.sum())


@pytest.mark.parametrize("rows", [(60, 60), (400, 60), (60, 400)])
def test_for_fields_that_some_mixture_explains_it_is_near_the_joint_model(rows):
    for v in ((8, 6, 4, 2), (4, 9, 10, 17), (30, 27, 22, 11)):
        A = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]) * np.array(rows)[:, None]
        assert mean(A, v) == pytest.approx(by_brute_force(A, np.array(v, dtype=float)), abs=0.02)


def test_where_the_classes_look_alike_the_dispersion_is_that_of_m():
    """Two rows in one bin: their probability is the second moment of M's cell."""
    A = np.tile([4.0, 3.0, 2.0], (2, 1))
    share, rows = 4 / 9, 9
    for p in (0.0, 0.2, 0.5):
        c = float(concentration(A, np.array([p]))[0])
        variance = ((1 - p) ** 2 + p**2) * share * (1 - share) / (rows + 1)
        assert share * (1 - share) / (c + 1) == pytest.approx(variance, rel=1e-12)


def test_with_a_huge_lab_it_is_the_posterior_for_known_m_with_all_digits():
    M = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]])
    v = np.array([[30.0, 25, 20, 25]])
    known = binary_summary(M[None], v, np.array([0.5, 0.5]), level=0.9)[0]
    assert mean(M * 1e8, v[0], np.full((1, 2), 0.5)) == pytest.approx(float(known[0]), abs=2e-4)
    for n in (10, 1e4, 1e7, 1e12, 1e15):
        for lab in (1e7, 1e14):
            M = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
            for p in (0.001, 0.3, 0.98):
                found = mean(M * lab, n * (np.array([1 - p, p]) @ M))
                assert found == pytest.approx(p, abs=3 / np.sqrt(min(n, lab, 1e7)))
            assert np.isfinite(log_likelihood(M * 100, np.full(3, MOST_ROWS), P)).all()


def test_without_rows_it_is_the_prior_and_bins_that_the_lab_rules_out_say_nothing():
    A = np.array([[40.0, 20, 10], [5, 10, 30]])
    alpha = np.array([[3.0, 1.0], [0.5, 0.5], [0.5, 0.5], [10.0, 90.0]])
    expected = np.mean([beta(a[1], a[0]).mean() for a in alpha])
    assert mean(A, np.zeros(3), alpha) == pytest.approx(expected, abs=1e-3)
    A = np.array([[40.0, 20, 10, 0], [5, 10, 30, 0]])
    assert mean(A, [20, 10, 10, 7]) == mean(A[:, :3], [20, 10, 10])


def test_a_class_with_few_lab_rows_attenuates_less_than_averaging_over_draws():
    rng = np.random.default_rng(1)
    M = np.array([[0.2, 0.2, 0.2, 0.2, 0.2], [0.05, 0.1, 0.2, 0.3, 0.35]])
    v = 5000 * (0.5 * M[0] + 0.5 * M[1])
    ours, cut = [], []
    for _ in range(60):
        A = np.array([rng.multinomial(2000, M[0]), rng.multinomial(60, M[1])]) + 0.5
        ours.append(mean(A, v))
        cut.append(float(binary_summary(response_draws(A, 32, rng), v[None], np.ones(2), level=0.9)[0][0]))
    assert np.mean(cut) + 0.01 < np.mean(ours) < 0.51


def test_only_what_is_beyond_noise_is_taken_out_of_a_histogram():
    A = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]) * 500
    q = 0.7 * A[0] / 500 + 0.3 * A[1] / 500
    assert np.array_equal(clipped_to_noise(A, 1000 * q, 0.3), 1000 * q)
    far = 1000 * (q + np.array([0.1, -0.1, -0.1, 0.1]))
    near = clipped_to_noise(A, far, 0.3)
    assert near.sum() == pytest.approx(1000)
    np.testing.assert_allclose((near / 1000 - q) / (far / 1000 - q), (near / 1000 - q)[0] / 0.1)
    assert ((near / 1000 - q) ** 2 / q).sum() == pytest.approx(
        2 * (1 / 1000 + 1 / concentration(A, np.array([0.3]))[0])
    )


def test_a_misfit_does_not_drive_the_estimate_to_the_class_with_few_lab_rows():
    """As a histogram leaves all mixtures, the point stays with the best of them, and moves smoothly."""
    A = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]) * np.array([[2000.0], [100.0]])
    points = []
    for excess in range(0, 180, 10):
        v = np.array([[200.0 + excess, 250 - excess, 250 - excess, 300 + excess]])
        problem = counted(A, np.array([0.95, 0.05]), v)
        points.append(Pooled().posterior(problem, random_state=0).summary(0.9).mean[0, 1])
    assert np.ptp(points) < 0.1
    assert np.abs(np.diff(points)).max() < 0.03
