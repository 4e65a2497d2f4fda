from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import beta, chisquare, dirichlet, kstest

from fieldcal.core.posterior import Posterior, Summary, summarise
from fieldcal.core.posterior_binary import binary_summary
from fieldcal.core.priors import N_DRAWS, Pooled
from fieldcal.core.problem import Penalty
from fieldcal.core.response import response_draws
from known import counted, known

F2 = np.array([[500, 300, 250, 200, 150, 100, 60, 40], [30, 50, 80, 100, 150, 200, 250, 300.0]])
M2 = F2 / F2.sum(axis=1, keepdims=True)
M3 = np.array([[50, 20, 10, 10, 5, 5], [15, 25, 30, 20, 5, 5], [5, 5, 10, 20, 30, 30]]) / 100
M4 = (
    np.array([[50, 20, 10, 5, 5, 4, 3, 3], [10, 15, 40, 15, 10, 4, 3, 3], [5, 5, 10, 10, 40, 20, 5, 5]]) / 100
)
M4 = np.vstack([M4, [0.03, 0.03, 0.04, 0.05, 0.05, 0.10, 0.20, 0.50]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def summary(M: np.ndarray, V: np.ndarray, alpha, *, level: float = 0.9, **prior) -> Summary:
    M = M[None] if M.ndim == 2 else M
    return summarise(
        M, np.atleast_2d(V).astype(float), np.asarray(alpha, dtype=float), level=level, rng=rng(), **prior
    )


def joint_draws(
    M: np.ndarray, V: np.ndarray, alpha, random: np.random.Generator, *, per_draw: int = 4, **prior
) -> np.ndarray:
    """Draws (G, S * per_draw, K) under draws of M and a prior that are given."""
    problem = known(M[0], np.full(M.shape[1], 1 / M.shape[1]), V)
    alpha = np.broadcast_to(np.asarray(alpha, dtype=float), M.shape[:2])
    posterior = Posterior(problem, M, V, alpha, Penalty.of(problem, **prior), random, {})
    return posterior.draws(per_draw=per_draw)


def with_labels(M: np.ndarray) -> np.ndarray:
    """A column per class, one for its class and next to nothing for the others."""
    K = M.shape[-2]
    return np.concatenate([M, np.broadcast_to(np.maximum(np.eye(K), 1e-12), (*M.shape[:-2], K, K))], axis=-1)


def binary_truth(M: np.ndarray, v: np.ndarray, alpha: np.ndarray, *, entropy: float = 0.0, centre=(0.5, 0.5)):
    """Mean, sd and distribution function of the second class on a grid of many cells, zoomed in."""
    d = M[1] - M[0]

    def log_density(t: np.ndarray) -> np.ndarray:
        p = np.sin(t) ** 2
        value = (alpha[1] - 0.5) * np.log(p) + (alpha[0] - 0.5) * np.log1p(-p)
        value = value - entropy * (p * np.log(p / centre[1]) + (1 - p) * np.log((1 - p) / centre[0]))
        for j in np.flatnonzero(v):
            value = value + v[j] * np.log1p((p - reference) * d[j] / (M[0, j] + reference * d[j]))
        return value

    reference, low, high = 0.5, 0.0, np.pi / 2
    for _ in range(8):
        t = low + (high - low) * (np.arange(20_000) + 0.5) / 20_000
        w = log_density(t)
        reference = np.sin(t[w.argmax()]) ** 2
        seen = t[w > w.max() - 40]
        step = t[1] - t[0]
        low, high = max(seen[0] - step, 0.0), min(seen[-1] + step, np.pi / 2)
    t = low + (high - low) * (np.arange(200_000) + 0.5) / 200_000
    w = log_density(t)
    w = np.exp(w - w.max())
    w /= w.sum()
    p = np.sin(t) ** 2
    mean = w @ p
    return (
        mean,
        np.sqrt(w @ (p - mean) ** 2),
        lambda u: p[np.minimum(np.searchsorted(np.cumsum(w), u), len(p) - 1)],
    )


def binary_interval(quantile) -> tuple[float, float]:
    """Equal-tailed; an end that is touched is inside."""
    low, middle, high = np.arcsin(np.sqrt(quantile([0.05, 0.5, 0.95])))
    end = np.pi / 2
    return (
        0.0 if low < 0.4 * middle else quantile(0.05),
        1.0 if end - high < 0.4 * (end - middle) else quantile(0.95),
    )


@pytest.mark.parametrize("rows", [1, 30, 1_000, 10**5, 10**9, 10**12])
def test_two_classes_agree_with_brute_force_from_one_row_to_a_trillion(rows):
    for p in (0.0, 0.3, 0.95):
        V = rng(1).multinomial(rows, np.array([1 - p, p]) @ M2).astype(float)
        for alpha in (np.ones(2), np.array([9.0, 0.7]), np.array([70.0, 30.0])):
            found = summary(M2, V, alpha)
            mean, sd, quantile = binary_truth(M2, V, alpha)
            assert abs(found.mean[0, 1] - mean) < (1e-3 if p == 0.3 and alpha.sum() < 20 else 6e-3) * sd
            assert_allclose(found.sd[0, 1], sd, rtol=0.01)
            lower, upper = found.lower[0, 1], found.upper[0, 1]
            assert_allclose([lower, upper], binary_interval(quantile), rtol=0, atol=0.02 * sd)


@pytest.mark.slow
def test_a_mixture_over_draws_of_m_has_the_quantiles_of_all_its_draws():
    M = response_draws(F2 * 100, 16, rng())
    for rows in (200, 10**5, 10**7):
        V = rng(2).multinomial(rows, np.array([0.8, 0.2]) @ M2).astype(float)
        found = summary(M, V, np.ones(2))
        draws = np.concatenate([binary_truth(m, V, np.ones(2))[2]((np.arange(2000) + 0.5) / 2000) for m in M])
        assert_allclose(found.mean[0, 1], draws.mean(), atol=2e-3 * draws.std())
        expected = np.quantile(draws, [0.05, 0.95])
        assert_allclose([found.lower[0, 1], found.upper[0, 1]], expected, atol=0.02 * draws.std())


@pytest.mark.parametrize("rows", [0, 50, 10**6])
def test_the_entropy_prior_of_two_classes_agrees_with_brute_force(rows):
    for entropy in (1.0, 30.0, 1e4):
        V = rng(1).multinomial(rows, np.array([0.9, 0.1]) @ M2).astype(float)
        centre = np.array([0.6, 0.4])
        found = summary(M2, V, np.ones(2), entropy=entropy, centre=centre)
        mean, sd, quantile = binary_truth(M2, V, np.ones(2), entropy=entropy, centre=centre)
        assert abs(found.mean[0, 1] - mean) < 2e-3 * sd
        assert_allclose([found.lower[0, 1], found.upper[0, 1]], binary_interval(quantile), atol=0.02 * sd)


def simplex_truth(M: np.ndarray, v: np.ndarray, alpha: np.ndarray, *, entropy: float = 0.0, centre=(1, 1, 1)):
    t = (np.arange(700) + 0.5) / 700
    a, b = np.meshgrid(t, t, indexing="ij")
    p = np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1).reshape(-1, 3)
    w = np.log(p @ M) @ v + np.log(p) @ (alpha - 1) + np.log(1 - p[:, 0])
    w = w - entropy * (p * np.log(p / np.asarray(centre))).sum(axis=1)
    w = np.exp(w - w.max())
    w /= w.sum()
    mean = w @ p
    return mean, np.sqrt(w @ (p - mean) ** 2)


@pytest.mark.parametrize(
    ("v", "alpha"),
    [
        ([40, 20, 15, 12, 7, 6], [1, 1, 1]),
        ([5, 2, 0, 0, 0, 0], [2, 0.6, 3]),
        ([3000, 1200, 600, 700, 250, 300], [10, 6, 4]),
        ([30.5, 30, 30, 20, 1.25, 0], [1, 1, 1]),
    ],
)
@pytest.mark.parametrize("entropy", [0.0, 20.0])
def test_three_classes_agree_with_a_grid_on_the_simplex(v, alpha, entropy):
    v, alpha, centre = np.array(v, dtype=float), np.array(alpha, dtype=float), np.array([0.2, 0.3, 0.5])
    draws = joint_draws(np.repeat(M3[None], 1500, 0), v[None], alpha, rng(), entropy=entropy, centre=centre)[
        0
    ]
    mean, sd = simplex_truth(M3, v, alpha, entropy=entropy, centre=centre)
    assert_allclose(draws.mean(axis=0), mean, atol=0.08 * sd.max())
    assert_allclose(draws.std(axis=0), sd, rtol=0.08)


def ranks(M: np.ndarray, alpha: np.ndarray, *, size: int, seed: int) -> np.ndarray:
    """Where the truth falls among its posterior's draws, (size, K); uniform if the posterior is right."""
    random = rng(seed)
    p = random.dirichlet(alpha, size)
    rows = np.exp(random.uniform(1, 7, size)).astype(int)
    V = random.multinomial(rows, p @ M).astype(float)
    draws = joint_draws(np.repeat(M[None], 49, 0), V, alpha, random, per_draw=1)
    return ((draws < p[:, None]).sum(axis=1) + random.random(p.shape)) / 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("M", "alpha", "size"),
    [
        (M2, [1.0, 1.0], 1000),
        (M2, [1.5, 0.4], 1000),
        (M4, [1.0, 1.0, 1.0, 1.0], 700),
        (M4, [4.0, 1.0, 0.3, 0.1], 700),
    ],
)
def test_the_truth_has_uniform_ranks_among_the_draws(M, alpha, size):
    u = ranks(M, np.array(alpha), size=size, seed=3)
    for k in range(len(alpha)):
        assert kstest(u[:, k], "uniform").pvalue > 1e-3
        assert chisquare(np.histogram(u[:, k], 10, (0, 1))[0]).pvalue > 1e-3


CASES = [(M2, [1.0, 1.0]), (M3, [1.0, 1.0, 1.0]), (M3, [0.05, 0.02, 3.0])]


def varied_rows(M: np.ndarray) -> np.ndarray:
    """No rows, one row, rows in one bin only, fractions, mixtures, single classes, and a trillion of them."""
    K, m = M.shape
    ends = np.concatenate([np.eye(K), np.full((1, K), 1 / K)]) @ M
    return np.concatenate(
        [np.zeros((1, m)), np.eye(m)[:1], 1e4 * np.eye(m), 0.3 * ends, 500 * ends, 1e6 * ends, 1e12 * ends]
    )


def test_every_interval_is_inside_zero_and_one_has_width_and_holds_its_mean():
    for M, alpha in CASES:
        for noisy in (False, True):
            draws = response_draws(M * 300 + 0.1, 12, rng()) if noisy else np.repeat(M[None], 12, 0)
            for level in (0.1, 0.999):
                s = summary(draws, varied_rows(M), alpha, level=level)
                assert np.all((s.lower >= 0) & (s.upper <= 1) & (s.upper - s.lower > 0))
                assert np.all((s.lower <= s.mean) & (s.mean <= s.upper))
                assert np.all(np.isfinite(s.sd))
                assert_allclose(s.mean.sum(axis=1), 1)


def test_a_higher_level_gives_an_interval_around_the_lower_ones():
    for M, alpha in CASES:
        draws = response_draws(M * 300 + 0.1, 12, rng())
        levels = [summary(draws, varied_rows(M), alpha, level=level) for level in (0.3, 0.8, 0.99)]
        for inner, outer in pairwise(levels):
            assert np.all(outer.lower <= inner.lower + 1e-6)
            assert np.all(outer.upper >= inner.upper - 1e-6)


def test_a_class_that_is_absent_gets_a_one_sided_interval_and_a_clear_share_a_two_sided_one():
    for M, alpha in ((M2, [0.5, 0.5]), (M3, [0.5, 0.5, 0.5])):
        K = len(M)
        absent = np.append(np.full(K - 1, 1 / (K - 1)), 0.0)
        s = summary(np.repeat(M[None], 64, 0), 300 * np.stack([absent, np.full(K, 1 / K)]) @ M, alpha)
        assert s.lower[0, -1] == 0
        assert s.upper[0, -1] < 0.3
        assert np.all(s.lower[1] > 0)
        assert np.all(s.upper[1] < 1)
        if K == 2:
            assert s.upper[0, 0] == 1


def test_intervals_widen_when_the_lab_shrinks_and_groups_share_its_noise():
    V = 1000 * np.array([[0.7, 0.3]]) @ M2
    widths = []
    for size in (100, 10, 1, 0.1):
        s = summary(response_draws(F2 * size + 0.5, 64, rng()), V, np.ones(2))
        widths.append((s.upper - s.lower)[0, 1])
    assert np.all(np.diff(widths) > 0)
    assert widths[-1] > 1.5 * widths[0]
    for M in (M2, M3):
        K = len(M)
        draws = response_draws(M * 60 + 0.5, 64, rng())
        V = 3000 * np.repeat(np.full((1, K), 1 / K), 2, axis=0) @ M
        a, b = joint_draws(draws, V, np.ones(K), rng(), per_draw=8)[..., -1]
        assert (a - b).std() < 0.6 * np.hypot(a.std(), b.std())


def test_labels_alone_are_the_conjugate_update():
    for alpha in ([1.0, 1.0], [0.4, 2.0], [30.0, 5.0]):
        for labels in ([0, 0], [3, 1], [40, 0], [3000, 500], [2.5, 0.5]):
            V = np.concatenate([np.zeros((1, 8)), [labels]], axis=1)
            found = summary(with_labels(M2), V, alpha)
            truth = beta(alpha[1] + labels[1], alpha[0] + labels[0])
            assert_allclose(found.mean[0, 1], truth.mean(), atol=0.01 * truth.std())
            assert_allclose(found.sd[0, 1], truth.std(), rtol=0.02)
            lower, upper = found.lower[0, 1], found.upper[0, 1]
            assert_allclose([lower, upper], binary_interval(truth.ppf), atol=0.03 * truth.std())
    labels = np.array([12.0, 0.0, 5.0])
    V = np.concatenate([np.zeros(6), labels])
    found = summary(np.repeat(with_labels(M3)[None], 1500, 0), V, np.ones(3))
    assert_allclose(found.mean[0], (labels + 1) / 20, atol=0.004)
    assert_allclose(found.sd[0] ** 2, dirichlet(labels + 1).var(), rtol=0.1)


def test_without_rows_the_answer_is_the_prior_of_each_draw_of_m():
    for alpha in ([3.0, 1.0], [0.3, 0.3], [2.0, 1.0, 0.5]):
        M = np.repeat((M2 if len(alpha) == 2 else M3)[None], 1000 if len(alpha) > 2 else 2, 0)
        found = summary(M, np.zeros(M.shape[2]), alpha)
        truth = dirichlet(alpha)
        assert_allclose(found.mean[0], truth.mean(), atol=0.01)
        assert_allclose(found.sd[0], np.sqrt(truth.var()), rtol=0.05)
    M = np.repeat(M2[None], 2, 0)
    alpha = np.array([[9.0, 1.0], [1.0, 9.0]])
    both = summary(M, 20 * M2[:1], alpha).mean
    each = [summary(M2, 20 * M2[:1], a).mean for a in alpha]
    assert_allclose(both, np.mean(each, axis=0), atol=1e-3)


@pytest.mark.parametrize("M", [M2, M3])
def test_the_scale_of_a_column_of_m_does_not_matter(M):
    scale = np.array([1e-290, 1.0, 1e-8, 3.0, 1.0, 1.0, 1.0, 1.0])[: M.shape[1]]
    V = 200 * np.full((1, len(M)), 1 / len(M)) @ M
    draws = response_draws(M * 300, 32, rng())
    assert_allclose(
        summary(draws, V, np.ones(len(M))).mean, summary(draws * scale, V, np.ones(len(M))).mean, atol=1e-5
    )


def test_chunks_of_groups_do_not_change_the_answer():
    M = response_draws(F2, 16, rng())
    V = rng().multinomial(np.repeat([50, 10**4, 10**7], 100), np.array([0.8, 0.2]) @ M2).astype(float)
    together = np.array(binary_summary(M, V, np.ones(2)))
    alone = np.concatenate(
        [np.array(binary_summary(M, V[i : i + 1], np.ones(2))) for i in range(0, 300, 60)], axis=1
    )
    assert_allclose(together[:, ::60], alone, rtol=1e-4, atol=1e-6)


def test_the_same_random_state_gives_the_same_answer():
    V = rng().multinomial(300, np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]) @ M3).astype(float)
    problem = counted(M3 * 500, np.full(3, 1 / 3), V, grouped=True)
    first, again, other = (Pooled().posterior(problem, random_state=s).summary(0.9) for s in (1, 1, 2))
    assert_array_equal(first.mean, again.mean)
    assert_array_equal(first.upper, again.upper)
    assert not np.array_equal(first.upper, other.upper)


def test_draws_of_m_have_the_moments_of_their_dirichlet():
    A = np.array([[50.0, 20, 5, 0.5], [1, 2, 3, 4]])
    M = response_draws(A, 1024, rng())
    assert_allclose(M.sum(axis=2), 1)
    for k in range(2):
        assert_allclose(M[:, k].mean(axis=0), dirichlet(A[k]).mean(), atol=0.003)
        assert_allclose(M[:, k].var(axis=0), dirichlet(A[k]).var(), rtol=0.1)
    assert response_draws(np.ones((3, 5)), 10, rng()).shape == (10, 3, 5)


def test_a_field_that_has_not_moved_is_left_alone_and_one_that_has_is_followed():
    p_lab = np.array([0.6, 0.4])
    still, moved = (5000 * np.array([p]) @ M2 for p in (p_lab, [0.2, 0.8]))
    posteriors = [Pooled().posterior(counted(F2 + 0.5, p_lab, V), random_state=0) for V in (still, moved)]
    left, followed = (posterior.summary(0.9) for posterior in posteriors)
    assert_allclose(left.mean[0], p_lab, atol=0.01)
    assert_allclose(followed.mean[0], [0.2, 0.8], atol=0.03)
    for found in (left, followed):
        assert np.all((found.lower <= found.mean) & (found.mean <= found.upper))
    assert posteriors[0].learnt["kappa"] > posteriors[1].learnt["kappa"]


@pytest.mark.parametrize("K", [2, 3])
def test_no_rows_one_group_and_two_groups_are_answered(K):
    M, p_lab = (M2, np.array([0.7, 0.3])) if K == 2 else (M3, np.array([0.5, 0.3, 0.2]))
    for V in (
        np.zeros((1, M.shape[1])),
        np.zeros((3, M.shape[1])),
        50 * p_lab[None] @ M,
        50 * np.eye(K)[:2] @ M,
    ):
        for grouped in (False, True):
            posterior = Pooled().posterior(counted(M * 200, p_lab, V, grouped=grouped), random_state=0)
            e = posterior.summary(0.9)
            assert np.all((e.mean > 0) & (e.mean < 1))
            assert np.all((e.lower <= e.mean) & (e.mean <= e.upper) & (e.lower < e.upper))
            assert posterior.alpha.shape == (N_DRAWS, K)


@pytest.mark.parametrize("alpha", [0.1, 0.02, 0.001])
def test_no_chain_gets_lost_where_a_class_is_absent_and_its_prior_expects_that(alpha):
    """Where the density is flat at the mode, a chain used to start at a prevalence of nearly 1, and stay there."""
    V = np.random.default_rng(0).multinomial(400, np.array([0.5, 0.3, 0.2, 0.0]) @ M4, size=20)
    M = np.broadcast_to(M4, (64, *M4.shape))
    draws = joint_draws(M, V.astype(float), np.array([1.0, 1.0, 1.0, alpha]), np.random.default_rng(1))
    assert draws[..., 3].max() < 0.15
