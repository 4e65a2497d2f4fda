"""How much of a movement label shift explains, where the answer is known."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import fieldcal
from fieldcal.core.goodness_of_fit import between_shift, effective_number, overall_shift
from fieldcal.core.policy import POLICY
from fieldcal.core.response import auto_smoothing

P3 = np.array([0.5, 0.3, 0.2])


@functools.cache
def response(K):
    """The true P(bin | class): normal classes; 8 quantile bins for two of them, argmax × 4 for three."""
    if K == 2:
        x = np.linspace(-8, 10, 20_001)
        cuts = np.interp(np.arange(1, 8) / 8, 0.5 * norm.cdf(x) + 0.5 * norm.cdf(x - 1.5), x)
        return np.diff(np.stack([norm.cdf(cuts - mean) for mean in (0, 1.5)]), axis=1, prepend=0, append=1)
    data = fieldcal.datasets.label_shift(n_lab=100_000, n_field=1, p_lab=P3, random_state=5)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    return lab.F / lab.F.sum(axis=1, keepdims=True)


def lab_counts(rng, n, K=2):
    """A fresh lab of n rows: F, with the prevalences one half each or P3."""
    p = np.full(2, 0.5) if K == 2 else P3
    return rng.multinomial(rng.multinomial(n, p), response(K)).astype(float)


def in_pairs(counts):
    """Four bins of eight: what a lab of 200 rows gets by default."""
    return counts.reshape(*counts.shape[:-1], 4, 2).sum(axis=-1)


def common(F, v):
    return overall_shift(F, v.astype(float), smoothing=auto_smoothing(F))


def between(F, V):
    return between_shift(F, V.astype(float), smoothing=auto_smoothing(F))


def by_covariate(rng, n, *, mean=0.0, spread=1.0):
    """Bins of rows whose feature x moved while P(y | x) did not; lab rows with their labels if nothing moved."""
    x = mean + spread * rng.standard_normal(n)
    score = expit(2 * x)
    bins = np.searchsorted(expit(2 * norm.ppf(np.arange(1, 8) / 8)), score)
    return bins, (rng.random(n) < score).astype(int)


def covariate_lab(rng, n):
    bins, y = by_covariate(rng, n)
    F = np.zeros((2, 8))
    np.add.at(F, (y, bins), 1.0)
    return F


def histogram(bins):
    return np.bincount(bins, minlength=8).astype(float)


@pytest.mark.parametrize(("n_lab", "n"), [(200, 1000), (2000, 20_000)])
def test_a_field_that_did_not_move_has_a_uniform_p_value(n_lab, n):
    rng = np.random.default_rng(n_lab + n)
    q = np.full(2, 0.5) @ response(2)
    p = np.array([common(lab_counts(rng, n_lab), rng.multinomial(n, q)).p_value for _ in range(600)])
    assert (p < 0.05).mean() == pytest.approx(0.05, abs=0.025)
    assert (p < 0.5).mean() == pytest.approx(0.5, abs=0.07)
    assert (p < POLICY.contradicts).mean() < 0.03


def test_label_shift_alone_explains_all_of_a_movement_that_many_rows_show():
    for K in (2, 3):
        rng = np.random.default_rng(1)
        q = (np.array([0.8, 0.2]) if K == 2 else np.array([0.2, 0.3, 0.5])) @ response(K)
        found = [common(lab_counts(rng, 50_000, K), rng.multinomial(50_000, q)) for _ in range(20)]
        assert all(m.shifted for m in found)
        assert min(m.share for m in found) > 0.98
        assert min(m.lower for m in found) > 0.97
        assert not any(m.contradicted for m in found)


def test_the_lower_bound_is_below_the_share_and_rises_with_the_rows():
    rng = np.random.default_rng(2)
    q = np.array([0.8, 0.2]) @ response(2)
    lower = []
    for n in (200, 1000, 10_000):
        found = [common(lab_counts(rng, n), rng.multinomial(n, q)) for _ in range(40)]
        assert all(m.lower <= m.share <= 1 for m in found)
        lower.append(np.mean([m.lower for m in found]))
    assert lower[0] < lower[1] < lower[2]


@pytest.mark.parametrize(("n_lab", "n"), [(200, 2000), (2000, 100)])
def test_label_shift_leaves_the_full_share_possible_but_for_one_field_in_a_hundred(n_lab, n):
    rng = np.random.default_rng(n_lab + n)
    q = np.array([0.85, 0.15]) @ response(2)
    labs = (in_pairs(lab_counts(rng, n_lab)) for _ in range(200))
    found = [common(F, in_pairs(rng.multinomial(n, q))) for F in labs]
    assert all(m.lower <= m.share <= m.upper <= 1 for m in found)
    assert np.mean([m.upper < 1 for m in found]) < 0.03
    assert all(m.upper == 1 for m in found if not m.contradicted)


def test_label_shift_explains_little_of_a_covariate_shift_that_narrows_the_scores():
    for n in (5000, 1_000_000):
        rng = np.random.default_rng(3)
        bins, _ = by_covariate(rng, n, spread=0.4)
        moved = common(covariate_lab(rng, 5000), histogram(bins))
        assert moved.shifted
        assert moved.share < 0.2
        assert moved.lower <= moved.share <= moved.upper < 0.5
        assert moved.contradicted


def test_a_movement_along_and_away_in_equal_parts_is_explained_by_half():
    M, h_lab = response(2), np.full(2, 0.5) @ response(2)
    root = np.sqrt(h_lab)
    along = 0.2 * (M[1] - M[0])
    away = np.cos(np.arange(8) * 2.5)  # any direction, made orthogonal to the mixtures in the metric 1 / h
    for direction in (root, (M[1] - M[0]) / root):
        away = away - (away / root @ direction) / (direction @ direction) * direction * root
    away *= np.sqrt((along**2 / h_lab).sum() / (away**2 / h_lab).sum())
    n = 1e7
    F = 0.5e7 * M
    moved = overall_shift(F, n * (h_lab + along + away), smoothing=0.0)
    assert moved.share == pytest.approx(0.5, abs=0.05)


def test_a_lab_of_200_rows_does_not_contradict_label_shift_by_its_own_noise():
    for n in (500, 50_000):
        rng = np.random.default_rng(4)
        q = np.array([0.8, 0.2]) @ response(2)
        labs = (in_pairs(lab_counts(rng, 200)) for _ in range(150))
        found = [common(F, in_pairs(rng.multinomial(n, q))) for F in labs]
        share = np.array([m.share for m in found if m.shifted])
        assert np.median(share) > 0.99
        assert (share < 0.8).mean() < 0.05
        assert np.mean([m.contradicted for m in found]) < 0.04


def test_counts_of_1e12_are_as_good_as_1e6():
    rng = np.random.default_rng(5)
    F = lab_counts(rng, 2000)
    for q in (np.array([0.8, 0.2]) @ response(2), np.full(8, 1 / 8), np.eye(8)[3] * 0.9 + 0.0125):
        small, large = common(F, np.round(1e6 * q)), common(F, np.round(1e12 * q))
        assert np.isfinite([large.p_value, large.share, large.lower]).all()
        assert large.share == pytest.approx(small.share, abs=0.01)
        assert large.lower == pytest.approx(small.lower, abs=0.02)


def test_nothing_to_see_is_no_movement_and_as_many_bins_as_classes_contradict_nothing():
    F = lab_counts(np.random.default_rng(6), 500)
    for empty in (common(F, np.zeros(8)), common(F.sum(axis=1, keepdims=True), np.array([9.0]))):
        assert (empty.p_value, empty.share, empty.lower, empty.shifted) == (1, 1, 1, False)
    moved = common(np.array([[70.0, 30.0], [20.0, 80.0]]), np.array([100.0, 900.0]))
    assert moved.shifted
    assert not moved.contradicted
    assert (moved.share, moved.lower) == (1, 0), "and nothing can confirm"
    F, V = np.array([[80.0, 20.0], [30.0, 70.0]]), np.array([[500.0, 500.0], [800.0, 200.0]])
    found = between_shift(F, V, smoothing=1.0)
    assert found.shifted
    assert not found.testable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "p", "n_groups", "n"),
    [(2, (0.5, 0.5), 20, 100), (2, (0.95, 0.05), 100, 20), (3, (0.05, 0.05, 0.9), 20, 30)],
    ids=["field as lab", "field moved", "three classes moved"],
)
def test_groups_that_do_not_differ_have_a_uniform_p_value_wherever_the_field_is(K, p, n_groups, n):
    rng = np.random.default_rng(7)
    q = np.array(p) @ response(K)
    p_value = np.array(
        [between(lab_counts(rng, 5000, K), rng.multinomial(n, q, size=n_groups)).p_value for _ in range(400)]
    )
    assert (p_value < 0.05).mean() == pytest.approx(0.05, abs=0.03)
    assert (p_value < 0.5).mean() == pytest.approx(0.5, abs=0.08)
    assert (p_value < POLICY.contradicts).mean() < 0.03


def test_groups_that_differ_by_label_alone_are_explained_by_it():
    for K in (2, 3):
        for moved in (False, True):
            rng = np.random.default_rng(8)
            centre = (
                np.array([6.0, 2.0] if moved else [4.0, 4.0]) if K == 2 else (P3[::-1] if moved else P3) * 8
            )
            V = rng.multinomial(3000, rng.dirichlet(centre, size=30) @ response(K))
            found = between(lab_counts(rng, 20_000, K), V)
            assert found.shifted
            assert found.share > 0.97
            assert found.lower > 0.93
            assert 5 < found.groups <= 30


def test_groups_that_differ_by_a_covariate_or_by_no_mixture_are_not_explained():
    rng = np.random.default_rng(9)
    spreads = rng.choice([0.5, 1.5], size=20)
    V = np.stack([histogram(by_covariate(rng, 2000, spread=s)[0]) for s in spreads])
    found = between(covariate_lab(rng, 5000), V)
    assert found.shifted
    assert found.share < 0.5
    assert found.lower < 0.5
    rng = np.random.default_rng(0)
    F = 10 * np.array([[500.0, 300.0, 150.0, 50.0], [50.0, 150.0, 300.0, 500.0]])
    V = 2000 * rng.dirichlet(np.full(4, 5.0), size=12)  # no mixtures of the rows of F
    found = between_shift(F, V, smoothing=1.0)
    assert found.contradicted
    assert found.share <= found.upper < 1


def test_the_noise_of_a_small_lab_lowers_the_bound_and_not_the_share():
    rng = np.random.default_rng(10)
    V = rng.multinomial(1000, rng.dirichlet([4, 4], size=30) @ response(2))
    small = [between(lab_counts(rng, 200), V) for _ in range(40)]
    large = [between(lab_counts(rng, 20_000), V) for _ in range(10)]
    assert np.median([m.share for m in small]) > 0.85
    assert np.mean([m.share for m in large]) == pytest.approx(1, abs=0.02)
    assert np.mean([m.lower for m in small]) < np.mean([m.lower for m in large]) - 0.1


def test_groups_without_rows_one_group_and_one_bin_say_nothing():
    rng = np.random.default_rng(11)
    F, V = lab_counts(rng, 2000), rng.multinomial(300, rng.dirichlet([4, 4], size=10) @ response(2))
    assert between(F, np.vstack([V, np.zeros((5, 8))])) == between(F, V)
    F = lab_counts(np.random.default_rng(12), 500)
    assert not between(F, F[:1]).shifted
    assert not between(F, np.zeros((3, 8))).shifted
    assert not between(F.sum(axis=1, keepdims=True), np.array([[5.0], [900.0]])).shifted
    assert effective_number(np.full(20, 3.0)) == pytest.approx(20)
    assert effective_number(np.array([1e6] + [1.0] * 19)) == pytest.approx(2)
    assert effective_number(np.zeros(4)) == 2
