"""Shares followed over windows: against separate windows, against exact enumeration, and with the noise of M."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from fieldcal.core import over_time
from fieldcal.core.over_time import Series, follow

EDGES = np.linspace(-1.6, 2.4, 7)
M = np.stack([np.diff(np.r_[0, norm.cdf(EDGES - mu), 1]) for mu in (0.0, 1.5)])
CERTAIN = 1e7 * M


def counts(p, n, rng):
    """Histograms (G, T, m) of n rows with shares p (G, T)."""
    return rng.multinomial(n, p[..., None] * M[1] + (1 - p[..., None]) * M[0]).astype(float)


def followed(V, A, **given):
    """Means, lower and upper ends (G, T), and filtered means, of the second class."""
    mean, low, high, now = (np.zeros(V.shape[:2]) for _ in range(4))
    for found in follow(Series(V, np.zeros((*V.shape[:2], 2))), A, seed=0, **given):
        draws = found.shares[..., 1]
        mean[found.rows], now[found.rows] = draws.mean(axis=1), found.filtered[..., 1]
        low[found.rows], high[found.rows] = np.quantile(draws, [0.05, 0.95], axis=1)
    return mean, low, high, now


def walk(G, T, step, rng):
    return expit(rng.normal(-1, 0.8, (G, 1)) + np.cumsum(step * rng.normal(size=(G, T)), axis=1))


def separate(V):
    """What each window supports alone, under a normal prior of log-odds."""
    x = np.linspace(-7, 7, 141)
    L = V @ np.log(np.outer(expit(x), M[1]) + np.outer(1 - expit(x), M[0])).T
    w = np.exp(L - L.max(axis=-1, keepdims=True)) * np.exp(-0.5 * ((x + 1) / 1.2) ** 2)
    return (w / w.sum(axis=-1, keepdims=True)) @ expit(x)


def test_a_slow_walk_is_followed_with_two_thirds_of_the_error_of_separate_windows():
    rng = np.random.default_rng(1)
    p = walk(8, 30, 0.15, rng)
    V = counts(p, 100, rng)
    mean, low, high, now = followed(V, CERTAIN, draws=64)
    alone = np.abs(separate(V) - p).mean()
    assert np.abs(mean - p).mean() < 0.67 * alone
    assert np.abs(now - p).mean() < 0.8 * alone
    assert 0.82 < ((low <= p) & (p <= high)).mean() < 0.97


def test_a_jump_is_followed_within_a_window():
    p = np.full((6, 24), 0.1)
    p[:3, 12:] = 0.6
    mean, *_ = followed(counts(p, 200, np.random.default_rng(2)), CERTAIN, draws=64)
    assert np.abs(mean - p)[:, 10:14].max() < 0.15


def test_windows_without_rows_are_interpolated_and_are_less_certain():
    rng = np.random.default_rng(3)
    V = counts(walk(8, 20, 0.5, rng), 200, rng)
    V[:, 8:12] = 0
    mean, low, high, _ = followed(V, CERTAIN, draws=64)
    width = (high - low).mean(axis=0)
    assert np.isfinite(mean).all()
    assert width[9:11].mean() > width[:6].mean()


def test_the_noise_of_the_lab_is_in_levels_and_cancels_in_changes():
    p = np.full((3, 16), 0.3)
    V = counts(p, 2000, np.random.default_rng(4))
    A = np.random.default_rng(5).multinomial(60, M).astype(float) + 0.5
    draws = np.concatenate(
        [f.shares[..., 1] for f in follow(Series(V, np.zeros((3, 16, 2))), A, seed=0, draws=128)]
    )
    level, change = draws.std(axis=1).mean(), (draws - draws[..., :1])[..., 1:].std(axis=1).mean()
    assert level > 2 * change


def test_labels_of_a_window_inform_its_share():
    V, labels = np.zeros((1, 6, 8)), np.zeros((1, 6, 2))
    labels[0, :, 0], labels[0, :, 1] = 30, 70
    (found,) = follow(Series(V, labels), CERTAIN, seed=0, draws=64)
    assert found.shares[..., 1].mean() == pytest.approx(0.7, abs=0.05)


def test_the_filter_is_exact_on_a_small_grid():
    x, pool = logit(np.array([0.2, 0.5, 0.8])), np.array([0.5, 0.3, 0.2])
    L = np.random.default_rng(6).uniform(0.1, 1, (1, 3, 3))
    evidence, f = over_time._filter(L, x, 0.9, 0.1, pool)
    k = 0.9 * over_time._kernel(x, 0.9) + 0.1 * pool[:, None]
    weight = np.zeros((3, 3, 3))
    for path in itertools.product(range(3), repeat=3):
        steps = k[path[1], path[0]] * k[path[2], path[1]]
        weight[path] = pool[path[0]] * steps * np.prod(L[0, range(3), path])
    assert np.exp(evidence[0]) == pytest.approx(weight.sum())
    assert f[0, 2] == pytest.approx(weight.sum(axis=(0, 1)) / weight.sum())


def test_sampled_paths_have_the_smoothed_probabilities():
    x, pool = np.linspace(-2, 2, 5), np.full(5, 0.2)
    L = np.random.default_rng(7).uniform(0.05, 1, (1, 3, 5))
    _, f = over_time._filter(L, x, 0.8, 0.2, pool)
    drawn = over_time._sampled(f, x, 0.8, 0.2, pool, 4000, np.random.default_rng(8))[0]
    at = np.rint(logit(drawn) - x[0]).astype(int)
    k = 0.8 * over_time._kernel(x, 0.8) + 0.2 * pool[:, None]
    weight = np.einsum("a,a,ba,b,cb,c->a", pool, L[0, 0], k, L[0, 1], k, L[0, 2])
    assert np.bincount(at[:, 0], minlength=5) / 4000 == pytest.approx(weight / weight.sum(), abs=0.03)


def test_a_step_below_the_grid_has_its_variance():
    x = np.linspace(-1, 1, 21)
    k = over_time._kernel(x, 0.02)
    assert k[:, 10] @ (x - x[10]) ** 2 == pytest.approx(0.02**2)


def test_of_five_classes_shares_sum_to_one_and_smoothing_helps():
    rng = np.random.default_rng(9)
    response = rng.dirichlet(np.full(16, 0.6), 5)
    p = rng.dirichlet(np.full(5, 3.0), 3)[:, None] * np.ones((1, 12, 1))
    V = rng.multinomial(100, p @ response).astype(float)
    (found,) = follow(Series(V, np.zeros((3, 12, 5))), 1e7 * response + 1e-9, seed=0, draws=32)
    mean = found.shares.mean(axis=1)
    fitted = np.full(p.shape, 0.2)
    for _ in range(300):
        fitted = fitted * ((V / (fitted @ response)) @ response.T) / 100
    assert mean.sum(axis=-1) == pytest.approx(1, abs=0.01)
    assert np.abs(mean - p).mean() < 0.6 * np.abs(fitted - p).mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["walk", "still", "independent"])
def test_intervals_cover_with_the_noise_of_the_lab(kind):
    covered = []
    for seed in range(12):
        rng = np.random.default_rng([10, seed])
        A = np.stack([rng.multinomial(1000, row) for row in M]) + 0.5
        x = rng.normal(-1, 0.8, (10, 1)) + np.zeros((1, 40))
        noise = rng.normal(size=(10, 40))
        p = expit(
            x + {"walk": np.cumsum(0.15 * noise, axis=1), "still": 0 * noise, "independent": noise}[kind]
        )
        _, low, high, _ = followed(counts(p, 100, rng), A)
        covered.append(((low <= p) & (p <= high)).mean())
    assert 0.85 < np.mean(covered) < 0.99
