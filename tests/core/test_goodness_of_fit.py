"""Goodness of fit, homogeneity and calibration: sizes, power, and effects of a known size."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.stats import norm

import fieldcal
from fieldcal.core.goodness_of_fit import ShiftExplained, bin_calibration, homogeneity, misfit
from fieldcal.core.priors import Flat
from fieldcal.core.response import auto_smoothing, response_matrix, smoothing_cells
from fieldcal.core.solve import solve
from fieldcal.core.trust import Evidence
from fieldcal.errors import CalibrationWarning
from known import known

MIDDLE = np.array([0, 0, 0, 0.5, 0.5, 0, 0, 0])


@functools.cache
def response(K, separation=1.5):
    """The true P(bin | class): normal classes; 8 quantile bins for two of them, argmax × 4 for three."""
    if K == 2:
        x = np.linspace(-8, 12, 20_001)
        cuts = np.interp(np.arange(1, 8) / 8, 0.5 * norm.cdf(x) + 0.5 * norm.cdf(x - separation), x)
        upto = np.stack([norm.cdf(cuts - mean) for mean in (0, separation)])
        return np.diff(upto, axis=1, prepend=0, append=1)
    data = fieldcal.datasets.label_shift(n_lab=100_000, n_field=1, p_lab=(0.5, 0.3, 0.2), random_state=5)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    return lab.F / lab.F.sum(axis=1, keepdims=True)


def drifted(share):
    """Class 1 looks otherwise in the field: this share of its rows gets a score in the two middle bins.

    As if some positives came from a new scanner that blurs them: the model is unsure where it was sure.
    """
    moved = response(2).copy()
    moved[1] = (1 - share) * moved[1] + share * MIDDLE
    return moved


def learnt(truth, rows, rng):
    """A fresh lab: M and the rows behind it."""
    F = rng.multinomial(rows, truth)
    smoothing = auto_smoothing(F)
    return response_matrix(F, smoothing=smoothing), (F + smoothing_cells(F, smoothing)).sum(axis=1)


def fitted(M, rows, V):
    V = np.atleast_2d(V).astype(float)
    p = solve(M, V, Flat().penalty(known(M, np.full(len(M), 1 / len(M))))).p
    return misfit(M, V, p, rows=rows)


def inconsistent(fit):
    """The groups that are called so, where nothing but their fit is known."""
    still = ShiftExplained(1.0, 1.0, 1.0, 1.0)
    return Evidence(fit, fit, np.zeros(len(fit.p_value)), still, None, None, "").inconsistent


def many(truth, field, *, reps, n=1000, lab=2000, p=None, seed=0):
    """p-values and effects of ``reps`` groups, each with a lab of its own."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(reps):
        prevalence = rng.dirichlet(np.ones(len(truth))) if p is None else np.asarray(p)
        M, rows = learnt(truth, lab // len(truth), rng)
        fit = fitted(M, rows, rng.multinomial(n, prevalence @ field))
        found.append((fit.p_value[0], fit.effect[0]))
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 3])
def test_the_test_of_fit_alarms_in_5_percent_of_consistent_groups(K):
    p_value, _ = many(response(K), response(K), reps=3000 if K == 2 else 2000)
    assert (p_value < 0.05).mean() == pytest.approx(0.05, abs=0.015)
    assert (p_value < 0.5).mean() == pytest.approx(0.5, abs=0.04)


@pytest.mark.slow
def test_a_lab_of_200_rows_does_not_pass_its_own_noise_off_as_misfit():
    p_value, _ = many(response(2), response(2), reps=1000, n=20_000, lab=200)
    assert (p_value < 0.05).mean() < 0.08


def test_the_test_of_fit_finds_a_drift_of_one_class_also_to_the_wrong_end():
    p_value, _ = many(response(2), drifted(0.3), reps=200, p=[0.5, 0.5])
    assert (p_value < 0.05).mean() >= 0.9
    # 40 % of class 1 score as low as can be, as after a change of units that the model reads as zero.
    field = response(2).copy()
    field[1] = 0.6 * field[1] + 0.4 * np.eye(8)[0]
    p_value, _ = many(response(2), field, reps=200, p=[0.5, 0.5])
    assert (p_value < 0.05).mean() >= 0.9


def test_the_effect_is_near_zero_without_drift_and_grows_with_it():
    means = [many(response(2), drifted(s), reps=100, p=[0.5, 0.5])[1].mean() for s in (0, 0.15, 0.3, 0.6)]
    assert means[0] < 0.04
    assert (np.diff(means) > 0.05).all()


def test_the_effect_is_of_the_drift_and_not_of_the_number_of_rows():
    """A huge field over a small lab: evidence stops growing with n, the drift is what it is."""
    for n in (1e4, 1e6, 1e9, 1e12):
        M, rows = response(2), np.full(2, 1000.0)
        V = np.round(n * np.array([0.5, 0.5]) @ drifted(0.4))
        fit = fitted(M, rows, V)
        q = solve(M, V[None], Flat().penalty(known(M, np.full(2, 0.5)))).p[0] @ M
        cohen = np.sqrt(((V / n - q) ** 2 / q).sum())
        assert fit.effect[0] == pytest.approx(cohen, rel=0.05)
        assert inconsistent(fit)[0]


def test_counts_of_1e12_of_a_consistent_group_raise_no_alarm():
    M, rows = response(2), np.full(2, 1000.0)
    V = np.round(1e12 * np.array([[0.9, 0.1], [1.0, 0.0], [0.4, 0.6]]) @ M)
    fit = fitted(M, rows, V)
    assert np.isfinite(fit.statistic).all()
    np.testing.assert_allclose(fit.p_value, 1.0, atol=1e-3)
    np.testing.assert_allclose(fit.free[:, 1], [0.1, 0.0, 0.6], atol=1e-6)


def test_the_free_fit_recovers_the_prevalence_within_its_standard_error():
    rng = np.random.default_rng(3)
    z = []
    for _ in range(400):
        p = rng.dirichlet(np.ones(2))
        M, rows = learnt(response(2), 500, rng)
        fit = fitted(M, rows, rng.multinomial(800, p @ response(2)))
        z.append((fit.free[0, 1] - p[1]) / fit.free_se[0, 1])
    assert np.mean(z) == pytest.approx(0, abs=0.2)
    assert np.std(z) == pytest.approx(1, abs=0.15)


def test_no_degree_of_freedom_no_rows_and_no_groups_raise_no_alarm():
    M = np.array([[0.8, 0.2], [0.3, 0.7]])
    fit = fitted(M, np.full(2, 100.0), [[1, 999]])
    assert (fit.df, (fit.p_value, fit.statistic, fit.effect)) == (0, (1, 0, 0))
    assert fit.free[0, 1] > 1, "the free fit still says that no prevalence gives this"
    M, rows = response(2), np.full(2, 500.0)
    assert misfit(M, np.zeros((1, 8)), np.full((1, 2), 0.5), rows=rows).p_value.tolist() == [1.0]
    assert misfit(M, np.zeros((0, 8)), np.zeros((0, 2)), rows=rows).p_value.shape == (0,)


def test_a_rank_deficient_response_does_not_crash():
    for M in (
        np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]),
        np.array([[0.6, 0.2, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]]),
        np.array([[0.6, 0.2, 0.1, 0.1], [0.35, 0.15, 0.15, 0.35], [0.1, 0.1, 0.2, 0.6]]),
        np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]]),
        np.array([[1.0], [1.0]]),
    ):
        V = np.round(1000 * np.full(len(M), 1 / len(M)) @ M)
        fit = misfit(M, V[None], np.full((1, len(M)), 1 / len(M)), rows=np.full(len(M), 500.0))
        for answer in (fit.statistic, fit.p_value, fit.effect, fit.free, fit.free_se):
            assert np.isfinite(answer).all()
        assert fit.p_value[0] > 0.99
        assert fit.df == (M.max(axis=0) > 0).sum() - np.linalg.matrix_rank(M)


def test_groups_are_tested_alike_in_one_call_and_one_by_one():
    rng = np.random.default_rng(1)
    M, rows = learnt(response(2), 500, rng)
    V = rng.multinomial(300, rng.dirichlet(np.ones(2), size=50) @ drifted(0.3)).astype(float)
    p = np.full((50, 2), 0.5)
    together = misfit(M, V, p, rows=rows)
    for g in (0, 17, 49):
        alone = misfit(M, V[g : g + 1], p[:1], rows=rows)
        np.testing.assert_allclose(alone.statistic, together.statistic[g], rtol=1e-9)
        np.testing.assert_allclose(alone.effect, together.effect[g], atol=1e-9)


def consistent_groups(rng, p, sizes, lab=1000):
    M, rows = learnt(response(2), lab, rng)
    return M, rows, rng.multinomial(sizes, p @ response(2)).astype(float)


def test_fault_48_ten_thousand_consistent_groups_raise_almost_no_alarm():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(2), size=10_000)
    M, rows, V = consistent_groups(rng, p, np.exp(rng.uniform(1.6, 7.6, 10_000)).astype(int))
    fit = fitted(M, rows, V)
    assert (fit.p_value < 0.05).sum() > 100, "single tests would alarm by chance"
    assert inconsistent(fit).sum() <= 2


def test_fault_48_a_prior_that_rules_out_a_rare_class_raises_no_alarm_in_small_groups():
    """Strong pooling calls a positive row next to impossible; some of ten thousand groups have one all the same."""
    rng = np.random.default_rng(4)
    M, p = response(2, separation=3.0), rng.dirichlet([990, 10], size=10_000)
    V = rng.multinomial(np.exp(rng.uniform(1.6, 5.3, 10_000)).astype(int), p @ M).astype(float)
    pooled = np.tile([0.99, 0.01], (10_000, 1))
    assert inconsistent(misfit(M, V, pooled, rows=np.full(2, 5000.0))).sum() <= 2


def test_fault_48_drifted_groups_are_found_among_ten_thousand_and_few_others_are_accused():
    rng = np.random.default_rng(6)
    p = rng.dirichlet(np.full(2, 5.0), size=10_000)
    M, rows, V = consistent_groups(rng, p, np.full(10_000, 1000))
    V[:300] = rng.multinomial(1000, p[:300] @ drifted(0.5))
    odd = inconsistent(fitted(M, rows, V))
    assert odd[:300].mean() > 0.9
    assert odd[300:].sum() <= 0.1 * odd.sum()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.TrustWarning")
def test_fault_48_the_verbs_raise_almost_no_alarm_over_ten_thousand_groups():
    data = fieldcal.datasets.label_shift(n_lab=5000, n_field=1, separation=3.0, random_state=8)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    rng = np.random.default_rng(8)
    groups = np.repeat(np.arange(10_000), rng.integers(5, 60, size=10_000))
    y = rng.random(len(groups)) < rng.beta(10, 990, size=10_000)[groups]
    scores = np.empty(len(y))
    for k in (0, 1):
        own = data.proba_lab[data.y_lab == k]
        scores[y == k] = rng.choice(own, (y == k).sum())
    prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=groups))
    assert sum("inconsistent" in s for s in prev.status) <= 2
    assert "do not look like any mixture" not in repr(prev.verdict)


def lab_tables(rng, n_groups, rows, field=None):
    shares = rng.dirichlet([5, 5], size=n_groups)
    truth = np.broadcast_to(response(2), (n_groups, 2, 8)).copy()
    if field is not None:
        truth[: n_groups // 2] = field
    return np.stack(
        [rng.multinomial(rng.multinomial(rows, p), t) for p, t in zip(shares, truth, strict=True)]
    )


def test_lab_groups_that_differ_by_prevalence_only_are_homogeneous_but_for_5_percent():
    rng = np.random.default_rng(0)
    found = [homogeneity(lab_tables(rng, 12, 80)) for _ in range(600)]
    assert np.mean([h.p_value < 0.05 for h in found]) == pytest.approx(0.05, abs=0.03)
    assert np.mean([h.effect for h in found]) < 0.05


def test_two_thousand_tiny_lab_groups_are_not_called_different():
    rng = np.random.default_rng(1)
    found = [
        homogeneity(rng.multinomial(rng.multinomial(12, [0.5, 0.5], size=2000), response(2)))
        for _ in range(60)
    ]
    assert np.mean([h.p_value < 0.01 for h in found]) <= 0.05


def test_lab_groups_in_which_a_class_looks_otherwise_are_found_and_few_rows_say_nothing():
    rng = np.random.default_rng(2)
    found = [homogeneity(lab_tables(rng, 12, 200, drifted(0.6))) for _ in range(50)]
    assert np.mean([h.p_value < 0.001 for h in found]) > 0.95
    assert np.mean([h.effect for h in found]) > 0.1
    rng = np.random.default_rng(3)
    for tables in (lab_tables(rng, 1, 500), lab_tables(rng, 50, 4)):
        nothing = homogeneity(tables)
        assert (nothing.df, nothing.p_value, nothing.effect) == (0, 1.0, 0.0)


def binned(scores, y):
    bins = np.minimum((scores * 8).astype(int), 7)
    F = np.zeros((2, 8))
    np.add.at(F, (y, bins), 1)
    means = np.bincount(bins, scores, minlength=8) / np.maximum(np.bincount(bins, minlength=8), 1)
    return F, np.column_stack([1 - means, means])


def test_a_calibrated_model_fails_the_calibration_check_in_5_percent_of_labs():
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(800):
        scores = rng.beta(2, 2, size=1000)
        p_values.append(bin_calibration(*binned(scores, (rng.random(1000) < scores).astype(int))).p_value)
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.025)


def test_the_calibration_error_is_the_mean_distance_of_prediction_and_share_and_the_impossible_counts():
    rng = np.random.default_rng(1)
    scores = rng.beta(2, 2, size=200_000)
    y = (rng.random(200_000) < np.clip(scores + 0.1, 0, 1)).astype(int)
    check = bin_calibration(*binned(scores, y))
    assert check.error == pytest.approx(0.1, abs=0.005)
    assert check.p_value < 1e-10
    F = np.array([[30.0, 0.0], [3.0, 33.0]])
    certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert bin_calibration(F, certain).p_value < 1e-6
    assert bin_calibration(np.diag([30.0, 33.0]), certain).p_value == pytest.approx(1.0)


def features(rng, n):
    x = rng.standard_normal((n, 4))
    true = 1 / (1 + np.exp(-x @ [1.5, -1.0, 0.5, 0.0]))
    return x, true, (rng.random(n) < true).astype(int)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.TrustWarning")
def test_fault_33_the_training_set_as_lab_warns_and_held_out_rows_do_not():
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    x, _, y = features(rng, 600)
    greedy = HistGradientBoostingClassifier(max_iter=300, min_samples_leaf=1, learning_rate=0.3).fit(x, y)
    with pytest.warns(CalibrationWarning, match="implausibly low.*trained on"):
        lab = fieldcal.learn(greedy.predict_proba(x)[:, 1], y)
    new, true, labels = features(rng, 600)
    verdict = fieldcal.check(lab, fieldcal.count(lab, greedy.predict_proba(new)[:, 1]))
    assert verdict.level != "ok"
    assert any("trained on" in reason for reason in verdict.reasons)
    fieldcal.learn(true, labels)


def test_fault_34_an_overconfident_model_warns_with_a_remedy_and_a_calibrated_one_does_not():
    rng = np.random.default_rng(1)
    _, true, y = features(rng, 4000)
    sure = true**3 / (true**3 + (1 - true) ** 3)
    with pytest.warns(CalibrationWarning, match=r"not calibrated.*Calibrate on the lab"):
        lab = fieldcal.learn(sure, y)
    assert any("not calibrated" in x for x in fieldcal.check(lab, fieldcal.count(lab, sure)).reasons)
    fieldcal.learn(true, y)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.TrustWarning")
@pytest.mark.parametrize("n", [2000, 200_000])
def test_fault_35_a_drift_of_one_class_is_flagged_distrusted_and_in_the_verdict(n):
    """Half of the positives of the field score in the middle; in the lab they do not."""
    rng = np.random.default_rng(2)
    _, true, y = features(rng, 2000)
    _, scores, labels = features(rng, n)
    blurred = (labels == 1) & (rng.random(n) < 0.5)
    scores[blurred] = rng.uniform(0.35, 0.55, blurred.sum())
    lab = fieldcal.learn(true, y)
    field = fieldcal.count(lab, scores)
    prev = fieldcal.estimate(lab, field)
    assert (prev.status, prev.trust_between, prev.verdict.level) == (("inconsistent",), 0, "do_not_use")
    np.testing.assert_allclose(fieldcal.recalibrate(prev, scores), scores, atol=1e-15)
    asked = fieldcal.estimate(lab, field, trust=1)
    assert any("any mixture of the classes" in reason for reason in asked.verdict.reasons), "never silent"
