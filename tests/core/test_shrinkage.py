from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fieldcal.core.posterior import summarise
from fieldcal.core.priors import Pooled
from fieldcal.core.response import response_draws
from fieldcal.core.shrinkage import (
    BASE,
    KAPPAS,
    STRENGTHS,
    approximate_posterior_mean,
    edge_of,
    fit_pooled,
    informative,
    kappa_evidence,
    lab_centred,
    lab_strength,
    label_worth,
)
from known import counted

F2 = np.array([[500, 300, 250, 200, 150, 100, 60, 40], [30, 50, 80, 100, 150, 200, 250, 300.0]])
F3 = 1000 * np.array(
    [[0.5, 0.2, 0.1, 0.1, 0.05, 0.05], [0.15, 0.25, 0.3, 0.2, 0.05, 0.05], [0.05, 0.05, 0.1, 0.2, 0.3, 0.3]]
)


def simulate(F: np.ndarray, alpha, *, groups: int, rows: tuple[int, int], seed: int = 0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(alpha, groups)
    n = np.exp(rng.uniform(np.log(rows[0]), np.log(rows[1]), groups)).astype(int)
    return p, rng.multinomial(n, p @ (F / F.sum(axis=1, keepdims=True))).astype(float)


def pooled(F: np.ndarray, V: np.ndarray, *, centre="flat", n_draws: int = 32, seed: int = 0):
    rng = np.random.default_rng(seed)
    A = F + 0.5
    return fit_pooled(
        A, response_draws(A, n_draws, rng), V, p_lab=F.sum(axis=1) / F.sum(), centre=centre, rng=rng
    )


@pytest.mark.parametrize(("F", "mu"), [(F2, [0.85, 0.15]), (F3, [0.6, 0.3, 0.1])])
def test_strength_and_mean_of_simulated_groups_are_recovered(F, mu):
    for kappa in (3.0, 20.0, 150.0):
        found = [
            pooled(F * 50, simulate(F, kappa * np.array(mu), groups=300, rows=(30, 1000), seed=s)[1], seed=s)
            for s in range(4)
        ]
        assert 0.75 < np.exp(np.mean(np.log([f.kappa for f in found]))) / kappa < 1.35
        assert_allclose(np.mean([f.mu for f in found], axis=0), mu, atol=0.03)
        assert {f.edge for f in found} == {""}


def test_the_mean_carries_the_noise_of_m():
    for F, mu in ((F2, [0.85, 0.15]), (F3, [0.6, 0.3, 0.1])):
        V = simulate(F, 20 * np.array(mu), groups=200, rows=(100, 1000))[1]
        spread = [pooled(F * size, V).alpha for size in (0.1, 10)]
        small, large = ((alpha / alpha.sum(axis=1, keepdims=True)).std(axis=0).max() for alpha in spread)
        assert small > 2 * large


def test_misfit_that_looks_like_variance_and_groups_that_do_not_differ_are_at_an_edge():
    M = F2 / F2.sum(axis=1, keepdims=True)
    V = 1000 * np.repeat(M, 100, axis=0)  # whole groups of one class each
    assert pooled(F2, np.round(V)).edge == "low"
    for F in (F2, F3):
        q = np.full(len(F), 1 / len(F)) @ (F / F.sum(axis=1, keepdims=True))
        V = np.repeat(1e5 * q[None], 60, axis=0)
        assert pooled(F, V).edge == "high"
    at = np.zeros(len(KAPPAS))
    at[0] = 1
    assert (edge_of(at), edge_of(at[::-1])) == ("low", "high")
    assert edge_of(np.full(len(KAPPAS), 1 / len(KAPPAS))) == ""


def test_few_groups_fall_back_on_the_hyperprior_and_empty_ones_do_not_count():
    for K in (2, 3):
        for groups in (1, 2):
            F = F2 if K == 2 else F3
            V = simulate(F, np.full(K, 5.0), groups=groups, rows=(200, 500))[1]
            found = pooled(F, V)
            assert 1 < found.kappa < 500
            assert found.edge == ""
            assert np.all(found.alpha > 0)
    V = simulate(F2, [8, 2], groups=50, rows=(50, 500))[1]
    assert_array_equal(pooled(F2, V).alpha, pooled(F2, np.concatenate([V, np.zeros((50, 8))])).alpha)


@pytest.mark.parametrize(("mean", "strength"), [(0.1, 20), (0.5, 10), (0.3, 100)])
def test_pooling_is_almost_as_good_as_knowing_the_prior(mean, strength):
    alpha = strength * np.array([1 - mean, mean])
    ratio = []
    for seed in range(3):
        p, V = simulate(F2, alpha, groups=300, rows=(10, 2000), seed=seed)
        rng = np.random.default_rng(seed)
        lab = np.array([rng.multinomial(1000, row / row.sum()) for row in F2])
        problem = counted(lab + 0.5, np.full(2, 0.5), V, grouped=True)
        found = Pooled().posterior(problem, random_state=seed).summary(0.9)
        M = response_draws(lab + 0.5, 64, rng)
        known = summarise(M, V, alpha, level=0.9, rng=rng).mean
        ratio.append(np.abs(found.mean - p).mean() / np.abs(known - p).mean())
        covered = ((found.lower <= p) & (p <= found.upper)).mean()
        assert 0.75 < covered < 0.995
    assert np.mean(ratio) < 1.15


def test_spread_in_directions_that_no_mixture_reaches_is_not_spread():
    M = F2 / F2.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    mu = np.array([0.7, 0.3])
    away = np.array([1, -1, -1, 1, 1, -1, -1, 1]) * 0.03
    q = mu @ M
    away = away - (away / q) @ (M[1] - M[0]) / ((M[1] - M[0]) ** 2 / q).sum() * (M[1] - M[0])
    q_g = q + rng.choice([-1, 1], (100, 1)) * (away - away.sum() / 8)
    V = rng.multinomial(3000, q_g / q_g.sum(axis=1, keepdims=True)).astype(float)
    assert KAPPAS[kappa_evidence(M, mu, V)[0].argmax()] > 300


def test_the_further_the_field_moved_and_the_larger_the_lab_the_weaker_its_pull():
    p_lab = np.array([0.6, 0.4])
    M = F2 / F2.sum(axis=1, keepdims=True)
    strength = [
        lab_strength(F2, np.array([1 - p, p]) @ M, 2000, p_lab=p_lab) @ np.log1p(STRENGTHS)
        for p in (0.4, 0.5, 0.6, 0.9)
    ]
    assert np.all(np.diff(strength) < 0)
    v = np.array([0.45, 0.55]) @ (F2 / F2.sum(axis=1, keepdims=True))
    still = [lab_strength(F2 * size, v, 1000, p_lab=p_lab)[:8].sum() for size in (0.02, 0.2, 2)]
    assert np.all(np.diff(still) > 0)
    M, p_lab = F2 / F2.sum(axis=1, keepdims=True), F2.sum(axis=1) / F2.sum()
    moved, stayed = (lab_strength(F2, p @ M, 2000, p_lab=p_lab) for p in (np.array([0.95, 0.05]), p_lab))
    assert moved[0] > 0.9
    assert stayed[0] < 0.5


def test_rows_that_say_nothing_are_no_reason_to_leave_the_lab_and_some_are_expected_to():
    p_lab = F2.sum(axis=1) / F2.sum()
    flat = np.full((2, 8), 1e9)  # classes that nothing tells apart
    weight = [lab_strength(flat, np.full(8, 1 / 8), n, p_lab=p_lab)[0] for n in (0, 1, 10, 1000, 10**6)]
    assert weight[0] == 0
    assert max(weight) < 1e-3
    p_lab = np.array([0.5, 0.5])
    blurred = 1e9 * (np.full((2, 8), 1.0) + 1e-3 * np.outer([1, -1], [1, -1, 1, -1, 1, -1, 1, -1]))
    v, n = np.full(8, 1 / 8), 1e7  # worth ten labels
    assert lab_strength(blurred, v, n, p_lab=p_lab)[0] > 0.5


def test_a_perfect_row_is_worth_a_label_and_a_lab_centred_prior_leaves_rare_classes_rare():
    p = np.array([0.2, 0.3, 0.5])
    assert label_worth(np.eye(3), p) == pytest.approx(1)
    assert label_worth(np.ones((3, 3)), p) < 1e-9
    worth = [label_worth(F2, np.array([1 - rare, rare])) for rare in (0.001, 0.01, 0.1, 0.4)]
    assert np.all(np.diff(worth) > 0)
    p_lab = np.array([0.6, 0.39, 0.01])
    alpha = lab_centred(np.array([0.0, 10.0, 100.0]), p_lab=p_lab)
    assert_allclose(alpha[0], BASE)
    assert np.all((alpha / alpha.sum(axis=1, keepdims=True))[1:, 2] < 0.013)
    assert np.all(alpha > 0)
    V = np.column_stack([np.arange(200.0), 200 - np.arange(200.0)])
    chosen = [informative(V, 20, np.random.default_rng(seed)) for seed in (1, 2)]
    assert [len(rows) for rows in chosen] == [20, 20]
    assert not np.array_equal(*chosen)


def test_the_plug_in_is_close_to_the_pooled_posterior():
    for F in (F2, F3):
        K, p_lab = len(F), F.sum(axis=1) / F.sum()
        V = simulate(F, 15 * np.linspace(0.5, 1.5, K) / K, groups=60, rows=(50, 2000))[1]
        common, each = approximate_posterior_mean(F, V, smoothing=1.0, p_lab=p_lab)
        found = Pooled().posterior(counted(F + 0.1, p_lab, V, grouped=True), random_state=0).summary(0.9)
        assert_allclose(each, found.mean, atol=0.06)
        assert np.abs(each - found.mean).mean() < 0.012
        whole = Pooled().posterior(counted(F + 0.1, p_lab, V.sum(axis=0)), random_state=0).summary(0.9)
        assert_allclose(common, whole.mean[0], atol=0.02)


def test_the_plug_in_is_strictly_positive_whatever_the_counts():
    for F in (F2, F3):
        for smoothing in (0.0, 1.0):
            F = F.copy()
            F[0, 0] = F[:, 1] = 0
            K, m = F.shape
            V = np.concatenate([np.zeros((2, m)), np.eye(m), 1e12 * np.eye(m), 0.01 * np.eye(m)])
            for rows in (V, V[:1], V[:2], V[2:3], V[-2:]):
                common, each = approximate_posterior_mean(
                    F, rows, smoothing=smoothing, p_lab=F.sum(axis=1) / F.sum()
                )
                assert common.shape == (K,)
                assert each.shape == (len(rows), K)
                assert common.min() > 0
                assert each.min() > 0
                assert_allclose(each.sum(axis=1), 1)
                assert_allclose(common.sum(), 1)


def test_the_plug_in_of_one_group_is_the_common_one_and_always_the_same():
    p, V = simulate(F2, [16, 4], groups=40, rows=(100, 500))
    common, each = approximate_posterior_mean(F2, V[:1], smoothing=1.0, p_lab=np.array([0.5, 0.5]))
    assert_array_equal(each, common[None])
    V[3] = 0
    _, each = approximate_posterior_mean(F2, V, smoothing=1.0, p_lab=np.array([0.5, 0.5]))
    assert_allclose(each[3], p.mean(axis=0), atol=0.05)
    rng = np.random.default_rng(0)
    F = 200 * rng.dirichlet(np.full(40, 0.3), 12)
    V = simulate(F, np.ones(12), groups=300, rows=(20, 1000))[1]
    first = approximate_posterior_mean(F, V, smoothing=1.0, p_lab=np.full(12, 1 / 12))
    again = approximate_posterior_mean(F, V, smoothing=1.0, p_lab=np.full(12, 1 / 12))
    assert_array_equal(first[0], again[0])
    assert_array_equal(first[1], again[1])
