from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from fieldcal.core.baselines import (
    adjusted_count,
    adjusted_mean,
    class_means,
    classify_and_count,
    em,
    fit_simplex,
    linear_system,
    naive,
)
from fieldcal.errors import IdentifiabilityWarning, InputError

ADJUSTED = [adjusted_count, adjusted_mean, em]


def simulated(seed: int, n_classes: int = 2, n_lab: int = 400, n_field: int = 300):
    """Calibrated lab predictions with labels, and a field with other prevalences."""
    rng = np.random.default_rng(seed)
    lab = rng.dirichlet(np.full(n_classes, 0.7), n_lab)
    y = np.array([rng.choice(n_classes, p=row) for row in lab])
    y[:n_classes] = np.arange(n_classes)
    wanted = rng.dirichlet(np.full(n_classes, 0.7))[y]
    field = lab[rng.choice(n_lab, n_field, p=wanted / wanted.sum())]
    return field, lab, y


def test_naive_is_the_mean_prediction():
    field, *_ = simulated(0, 3)
    assert_allclose(naive(field), [sum(field[:, k]) / len(field) for k in range(3)])


def test_classify_and_count_is_the_share_of_each_decision():
    field = np.array([[0.6, 0.3, 0.1], [0.4, 0.5, 0.1], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    assert classify_and_count(field).tolist() == [0.75, 0.25, 0.0]


@pytest.mark.parametrize("seed", range(10))
def test_adjusted_count_of_two_classes_is_the_clipped_formula_of_rogan_and_gladen(seed):
    field, lab, y = simulated(seed)
    decided = lab[:, 1] > 0.5
    sensitivity, false_alarms = decided[y == 1].mean(), decided[y == 0].mean()
    counted = (field[:, 1] > 0.5).mean()
    expected = np.clip((counted - false_alarms) / (sensitivity - false_alarms), 0, 1)
    assert_allclose(adjusted_count(field, lab=lab, y=y)[1], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_adjusted_mean_of_two_classes_is_the_same_formula_on_mean_predictions(seed):
    field, lab, y = simulated(seed)
    high, low = lab[y == 1, 1].mean(), lab[y == 0, 1].mean()
    expected = np.clip((field[:, 1].mean() - low) / (high - low), 0, 1)
    assert_allclose(adjusted_mean(field, lab=lab, y=y)[1], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_adjusted_counts_of_more_classes_are_least_squares_on_the_simplex(n_classes, seed):
    field, lab, y = simulated(seed, n_classes)
    hard = np.eye(n_classes)
    for answer, M, v in (
        (adjusted_mean(field, lab=lab, y=y), class_means(lab, y), field.mean(axis=0)),
        (
            adjusted_count(field, lab=lab, y=y),
            np.array([hard[lab[y == k].argmax(axis=1)].mean(axis=0) for k in range(n_classes)]),
            hard[field.argmax(axis=1)].mean(axis=0),
        ),
    ):
        p = cp.Variable(n_classes)
        task = cp.Problem(cp.Minimize(cp.sum_squares(M.T @ p - v)), [cp.sum(p) == 1, p >= 0])
        task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-14, tol_gap_rel=1e-14, tol_feas=1e-14)
        assert_allclose(answer, p.value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("baseline", [adjusted_count, adjusted_mean])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_lab_taken_as_a_field_has_the_prevalences_of_the_lab(baseline, n_classes):
    _, lab, y = simulated(1, n_classes)
    assert_allclose(baseline(lab, lab=lab, y=y), np.bincount(y) / len(y), rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_em_of_two_classes_maximises_the_likelihood_of_the_predictions(seed):
    field, lab, y = simulated(seed)
    p_lab = np.bincount(y) / len(y)

    def loss(second: float) -> float:
        return -np.log(field @ (np.array([1 - second, second]) / p_lab)).sum()

    # The optimum by bisection of the slope: more digits than a comparison of losses can have.
    ratio = field / p_lab
    low, high = 0.0, 1.0
    for _ in range(60):
        t = (low + high) / 2
        slope = ((ratio[:, 0] - ratio[:, 1]) / (ratio @ np.array([1 - t, t]))).sum()
        low, high = (t, high) if slope < 0 else (low, t)
    found = em(field, lab=lab, y=y)[1]
    assert_allclose(found, low, rtol=0, atol=1e-7)
    assert loss(found) <= min(loss(t) for t in np.linspace(0.001, 0.999, 999)) + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_em_of_more_classes_maximises_the_likelihood_of_the_predictions(seed):
    field, lab, y = simulated(seed, 4)
    p_lab = np.bincount(y) / len(y)
    p = cp.Variable(4)
    likelihood = cp.sum(cp.log((field / p_lab) @ p)) / len(field)
    task = cp.Problem(cp.Maximize(likelihood), [cp.sum(p) == 1, p >= 0])
    task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert_allclose(em(field, lab=lab, y=y), p.value, rtol=0, atol=1e-6)


def test_a_perfect_classifier_makes_all_methods_agree():
    y = np.repeat([0, 1, 2], [50, 30, 20])
    field_y = np.repeat([0, 1, 2], [10, 20, 70])
    lab, field = np.eye(3)[y], np.eye(3)[field_y]
    for baseline in (naive, classify_and_count, *ADJUSTED):
        assert_allclose(baseline(field, lab=lab, y=y), [0.1, 0.2, 0.7], rtol=0, atol=1e-9)


@pytest.mark.parametrize("baseline", ADJUSTED)
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_lab_without_a_class_is_refused(baseline, missing):
    field, lab, y = simulated(0, 3)
    present = y != missing
    with pytest.raises(InputError, match=f"no row of class number {missing}"):
        baseline(field, lab=lab[present], y=y[present])


@pytest.mark.parametrize("baseline", [naive, classify_and_count, *ADJUSTED])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_every_baseline_gives_a_distribution_over_all_classes(baseline, n_classes):
    field, lab, y = simulated(3, n_classes)
    p = baseline(field, lab=lab, y=y)
    assert p.shape == (n_classes,)
    assert p.min() >= 0
    assert_allclose(p.sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("baseline", [naive, classify_and_count, *ADJUSTED])
def test_permuting_the_classes_permutes_the_prevalences(baseline):
    field, lab, y = simulated(4, 4)
    order = np.array([2, 0, 3, 1])
    permuted = baseline(field[:, order], lab=lab[:, order], y=np.argsort(order)[y])
    assert_allclose(permuted, baseline(field, lab=lab, y=y)[order], rtol=0, atol=1e-8)


def test_least_squares_on_the_simplex_gives_back_what_fits_exactly():
    rng = np.random.default_rng(0)
    M, p = rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(4))
    assert_allclose(fit_simplex(M, p @ M), p, rtol=0, atol=1e-9)


@pytest.mark.parametrize("gap", [0.4, 0.05, 0.01, 1e-4, 1e-6, -1e-3, -0.3])
@pytest.mark.parametrize("false_alarms", [0.3, 0.5])
@pytest.mark.parametrize("inside", [-2.0, 0.0, 0.25, 0.9, 1.0, 3.0])
def test_for_two_classes_it_is_the_clipped_formula_however_little_the_rates_differ(gap, false_alarms, inside):
    hits = false_alarms + gap
    counted = min(max(false_alarms + inside * gap, 0.0), 1.0)
    M = np.array([[1 - false_alarms, false_alarms], [1 - hits, hits]])
    expected = np.clip((counted - false_alarms) / (hits - false_alarms), 0, 1)
    assert_allclose(fit_simplex(M, np.array([1 - counted, counted]))[1], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("positives", [0, 3])
def test_a_model_that_never_predicts_a_class_in_the_lab_leaves_the_count_unadjusted_and_warns(positives):
    y = np.repeat([0, 1], [95, 5])
    lab, field = np.tile([0.9, 0.1], (100, 1)), np.tile([0.9, 0.1], (20, 1))
    field[:positives] = [0.2, 0.8]
    with pytest.warns(IdentifiabilityWarning, match=r"linearly dependent \(rank 1\).*left as it is"):
        found = adjusted_count(field, lab=lab, y=y)
    assert_allclose(found, classify_and_count(field), rtol=0, atol=1e-9)


def test_what_the_rates_of_three_classes_do_decide_is_adjusted_where_the_rest_is_not():
    told, alike = [0.8, 0.1, 0.1], [0.2, 0.4, 0.4]
    M = np.array([told, alike, alike])
    counted = np.array([0.5, 0.4, 0.1])
    with pytest.warns(IdentifiabilityWarning, match="rank 2"):
        p = fit_simplex(M, counted)
    assert_allclose(p[0], (0.5 - 0.2) / (0.8 - 0.2), rtol=0, atol=1e-6)
    assert_allclose(p[1] - p[2], 0.4 - 0.1, rtol=0, atol=1e-6)


@pytest.mark.parametrize("n_bins", [3, 7])
def test_the_linear_system_gives_back_the_prevalence_of_an_exact_histogram(n_bins):
    rng = np.random.default_rng(2)
    M, p = rng.dirichlet(np.ones(n_bins), 3), rng.dirichlet(np.ones(3))
    assert_allclose(linear_system(p @ M, M=M), p, rtol=0, atol=1e-10)


def test_the_linear_system_may_leave_the_simplex():
    M = np.array([[0.8, 0.2], [0.3, 0.7]])
    assert_allclose(linear_system(np.array([0.9, 0.1]), M=M), [1.2, -0.2])


def test_the_linear_system_warns_where_it_is_badly_conditioned():
    M = np.array([[0.5, 0.5], [0.5 + 1e-6, 0.5 - 1e-6]])
    with pytest.warns(IdentifiabilityWarning, match="condition number"):
        linear_system(np.array([0.5, 0.5]), M=M)
