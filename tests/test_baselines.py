"""The experiments' baselines against their closed formulas and against a solver of convex problems."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from experiments.baselines import (
    adjusted_count,
    adjusted_mean,
    class_means,
    classify_and_count,
    em,
    fit_simplex,
    linear_system,
    naive,
)
from numpy.testing import assert_allclose

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


def optimum(objective, p):
    cp.Problem(objective, [cp.sum(p) == 1, p >= 0]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    return p.value


def test_naive_is_the_mean_prediction():
    field, *_ = simulated(0, 3)
    assert_allclose(naive(field), [sum(field[:, k]) / len(field) for k in range(3)])


def test_classify_and_count_is_the_share_of_each_decision():
    field = np.array([[0.6, 0.3, 0.1], [0.4, 0.5, 0.1], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    assert classify_and_count(field).tolist() == [0.75, 0.25, 0.0]


def test_adjusted_count_of_two_classes_is_the_clipped_formula_of_rogan_and_gladen():
    for seed in range(4):
        field, lab, y = simulated(seed)
        for baseline, old, new in ((adjusted_mean, lab, field), (adjusted_count, lab > 0.5, field > 0.5)):
            high, low = old[y == 1, 1].mean(), old[y == 0, 1].mean()
            expected = np.clip((new[:, 1].mean() - low) / (high - low), 0, 1)
            assert_allclose(baseline(field, lab=lab, y=y)[1], expected, rtol=0, atol=1e-9)


def test_adjusted_counts_of_more_classes_are_least_squares_on_the_simplex():
    field, lab, y = simulated(1, 4)
    hard = np.eye(4)
    for baseline, old, new in (
        (adjusted_mean, lab, field),
        (adjusted_count, hard[lab.argmax(axis=1)], hard[field.argmax(axis=1)]),
    ):
        M, v, p = class_means(old, y), new.mean(axis=0), cp.Variable(4)
        expected = optimum(cp.Minimize(cp.sum_squares(M.T @ p - v)), p)
        assert_allclose(baseline(field, lab=lab, y=y), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_em_maximises_the_likelihood_of_the_predictions(n_classes):
    field, lab, y = simulated(0, n_classes)
    p = cp.Variable(n_classes)
    ratio = field / (np.bincount(y) / len(y))
    expected = optimum(cp.Maximize(cp.sum(cp.log(ratio @ p)) / len(field)), p)
    assert_allclose(em(field, lab=lab, y=y), expected, rtol=0, atol=1e-6)


def test_a_perfect_classifier_makes_all_methods_agree():
    y = np.repeat([0, 1, 2], [50, 30, 20])
    field_y = np.repeat([0, 1, 2], [10, 20, 70])
    lab, field = np.eye(3)[y], np.eye(3)[field_y]
    for baseline in (naive, classify_and_count, *ADJUSTED):
        assert_allclose(baseline(field, lab=lab, y=y), [0.1, 0.2, 0.7], rtol=0, atol=1e-9)


@pytest.mark.parametrize("baseline", ADJUSTED)
def test_a_lab_without_a_class_is_refused(baseline):
    field, lab, y = simulated(0, 3)
    with pytest.raises(InputError, match="no row of class number 1"):
        baseline(field, lab=lab[y != 1], y=y[y != 1])


def test_permuting_the_classes_permutes_the_prevalences():
    field, lab, y = simulated(4, 4)
    order = np.array([2, 0, 3, 1])
    for baseline in ADJUSTED:
        permuted = baseline(field[:, order], lab=lab[:, order], y=np.argsort(order)[y])
        assert_allclose(permuted, baseline(field, lab=lab, y=y)[order], rtol=0, atol=1e-8)


def test_for_two_classes_it_is_the_clipped_formula_however_little_the_rates_differ():
    for gap in (0.4, 0.01, 1e-6, -0.3):
        for inside in (-2.0, 0.25, 1.0, 3.0):
            hits, false_alarms = 0.5 + gap, 0.5
            counted = min(max(false_alarms + inside * gap, 0.0), 1.0)
            M = np.array([[1 - false_alarms, false_alarms], [1 - hits, hits]])
            expected = np.clip((counted - false_alarms) / gap, 0, 1)
            found = fit_simplex(M, np.array([1 - counted, counted]))[1]
            assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_a_model_that_never_predicts_a_class_in_the_lab_leaves_the_count_unadjusted_and_warns():
    y = np.repeat([0, 1], [95, 5])
    lab, field = np.tile([0.9, 0.1], (100, 1)), np.tile([0.9, 0.1], (20, 1))
    field[:3] = [0.2, 0.8]
    with pytest.warns(IdentifiabilityWarning, match=r"linearly dependent \(rank 1\).*left as it is"):
        found = adjusted_count(field, lab=lab, y=y)
    assert_allclose(found, classify_and_count(field), rtol=0, atol=1e-9)


def test_what_the_rates_of_three_classes_do_decide_is_adjusted_where_the_rest_is_not():
    alike = [0.2, 0.4, 0.4]
    with pytest.warns(IdentifiabilityWarning, match="rank 2"):
        p = fit_simplex(np.array([[0.8, 0.1, 0.1], alike, alike]), np.array([0.5, 0.4, 0.1]))
    assert_allclose(p[0], (0.5 - 0.2) / (0.8 - 0.2), rtol=0, atol=1e-6)
    assert_allclose(p[1] - p[2], 0.4 - 0.1, rtol=0, atol=1e-6)


def test_the_linear_system_gives_back_the_prevalence_of_an_exact_histogram():
    rng = np.random.default_rng(2)
    M, p = rng.dirichlet(np.ones(7), 3), rng.dirichlet(np.ones(3))
    assert_allclose(linear_system(p @ M, M=M), p, rtol=0, atol=1e-10)


def test_the_linear_system_may_leave_the_simplex():
    M = np.array([[0.8, 0.2], [0.3, 0.7]])
    assert_allclose(linear_system(np.array([0.9, 0.1]), M=M), [1.2, -0.2])


def test_the_linear_system_warns_where_it_is_badly_conditioned():
    M = np.array([[0.5, 0.5], [0.5 + 1e-6, 0.5 - 1e-6]])
    with pytest.warns(IdentifiabilityWarning, match="condition number"):
        linear_system(np.array([0.5, 0.5]), M=M)
