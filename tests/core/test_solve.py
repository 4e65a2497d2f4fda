from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fieldcal.core.solve as module
from fieldcal.core.likelihood import nll
from fieldcal.core.priors import KL, Dirichlet, Flat, KLBins, Prior
from fieldcal.core.problem import Penalty
from fieldcal.core.solve import Solution, solve
from known import known, well_conditioned

PRIORS = [Flat(), KL(5.0), Dirichlet(5.0), KLBins(5.0)]
CLASSES = [2, 3, 4, 6]


def problem(seed: int, n_classes: int, *, rows: int = 300, n_groups: int = 3, sparse: bool = True):
    """M, V, p_lab; some groups lack a class."""
    rng = np.random.default_rng(seed)
    M = well_conditioned(rng, n_classes, n_classes + int(rng.integers(1, 6)))
    p = rng.dirichlet(np.full(n_classes, 0.4 if sparse else 3.0), n_groups)
    V = np.array([rng.multinomial(rows, q / q.sum()) for q in p @ M]).astype(float)
    return M, V, rng.dirichlet(np.full(n_classes, 5.0))


def loss(p: np.ndarray, M: np.ndarray, V: np.ndarray, penalty: Penalty) -> np.ndarray:
    return nll(p, M, V) + penalty.value(p, M)


def rows_and_pseudo_rows(V: np.ndarray, penalty: Penalty) -> np.ndarray:
    return V.sum(axis=1) + penalty.bins.sum() + penalty.classes.sum() + penalty.entropy


def by_clarabel(M: np.ndarray, v: np.ndarray, prior: Prior, p_lab: np.ndarray) -> np.ndarray:
    """The minimum by an independent conic solver, from the formulas of the paper and not from `Penalty`."""
    p = cp.Variable(len(M))
    strength = getattr(prior, "strength", 0.0)
    terms = {
        "flat": lambda: 0,
        "kl": lambda: strength * cp.sum(cp.rel_entr(p, p_lab)),
        "dirichlet": lambda: strength * cp.sum(cp.rel_entr(p_lab, p)),
        "kl_bins": lambda: strength * cp.sum(cp.rel_entr(M.sum(axis=0), M.T @ p)),
    }
    seen = v > 0
    combined = -v[seen] @ cp.log(M.T[seen] @ p) + terms[prior.name]()
    for scale in (v.sum(), 1.0, 10.0):  # tolerances this tight are not met in every scaling
        task = cp.Problem(cp.Minimize(combined / scale), [cp.sum(p) == 1, p >= 0])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        if task.status == cp.OPTIMAL:
            break
    return np.asarray(p.value)


@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("seed", range(2))
def test_the_minimum_is_that_of_an_independent_solver(n_classes, seed):
    for prior in PRIORS:
        M, V, p_lab = problem(seed, n_classes)
        solution = solve(M, V, prior.penalty(known(M, p_lab)))
        assert solution.converged.all()
        expected = [by_clarabel(M, v, prior, p_lab) for v in V]
        assert_allclose(solution.p, expected, rtol=0, atol=1e-6)


def test_where_classes_look_almost_alike_the_loss_is_still_the_lowest():
    for prior in PRIORS:
        for n_classes in (2, 4):
            M, V, p_lab = problem(5, n_classes)
            M = M[:1] + 1e-4 * (M - M[:1])
            penalty = prior.penalty(known(M, p_lab))
            solution = solve(M, V, penalty)
            expected = np.array([by_clarabel(M, v, prior, p_lab) for v in V]).clip(0)
            expected /= expected.sum(axis=1, keepdims=True)
            assert np.all(loss(solution.p, M, V, penalty) <= loss(expected, M, V, penalty) + 1e-7)


def test_prevalences_are_distributions_and_stronger_priors_pull_closer_to_the_lab():
    for prior in PRIORS:
        for n_classes in CLASSES:
            M, V, p_lab = problem(7, n_classes, n_groups=20)
            penalty = prior.penalty(known(M, p_lab))
            solution = solve(M, V, penalty)
            assert solution.p.min() >= 0
            assert_allclose(solution.p.sum(axis=1), 1, rtol=1e-14)
            assert_allclose(solution.loss, loss(solution.p, M, V, penalty), rtol=1e-12)
    for n_classes in (2, 4):
        M, V, p_lab = problem(12, n_classes, n_groups=1)
        for kind in (KL, Dirichlet):
            distance = [
                np.abs(solve(M, V, kind(strength).penalty(known(M, p_lab))).p - p_lab).sum()
                for strength in (0.1, 10, 1e3, 1e6)
            ]
            assert np.all(np.diff(distance) < 0)
            assert distance[-1] < 1e-2


def test_the_gap_bounds_how_far_the_loss_is_and_a_solver_that_was_stopped_says_so():
    for prior in PRIORS:
        for n_classes in CLASSES:
            M, V, p_lab = problem(11, n_classes, n_groups=10)
            penalty = prior.penalty(known(M, p_lab))
            best = solve(M, V, penalty).loss
            for max_iter in range(1, 12):
                early = solve(M, V, penalty, max_iter=max_iter)
                above = (early.loss - best) / rows_and_pseudo_rows(V, penalty)
                assert np.all(above <= early.gap + 1e-12)
                assert np.all(early.n_iter <= max_iter)
    for n_classes in CLASSES:
        M, V, p_lab = problem(3, n_classes, sparse=False)
        early = solve(M, V, Flat().penalty(known(M, p_lab)), max_iter=1)
        assert not early.converged.any()
        assert early.gap.min() > 1e-6


def test_a_minimum_on_the_boundary_is_exact_and_absent_classes_get_nothing():
    for end in (0, 1):
        M = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
        V = 1000.0 * M[[end]] + 100 * (M[[end]] - M[[1 - end]])  # beyond what any mixture explains
        solution = solve(M, V, Flat().penalty(known(M, np.array([0.5, 0.5]))))
        assert_array_equal(solution.p, np.eye(2)[[end]])
        assert solution.gap[0] == 0
    for n_classes in (3, 6):
        M = well_conditioned(np.random.default_rng(0), n_classes, 2 * n_classes)
        V = 1000.0 * np.eye(2 * n_classes)[[0]]  # only the bin of the first class
        solution = solve(M, V, Flat().penalty(known(M, np.full(n_classes, 1 / n_classes))))
        assert_allclose(solution.p, np.eye(n_classes)[[0]], rtol=0, atol=1e-9)


def test_a_rare_class_keeps_its_digits_whether_it_comes_first_or_last():
    for rare in (0, 1):
        for strength in (1e-6, 1.0):
            M = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
            V = 1e12 * M[[1 - rare]]
            solution = solve(M, V, Dirichlet(strength).penalty(known(M, np.array([0.5, 0.5]))))
            mirrored = solve(M[::-1], V, Dirichlet(strength).penalty(known(M[::-1], np.array([0.5, 0.5]))))
            assert solution.converged.all()
            assert 0 < solution.p[0, rare] < 1e-6
            assert_allclose(solution.p[0, rare], mirrored.p[0, 1 - rare], rtol=1e-9)


def test_a_bin_that_one_class_alone_reaches_or_hardly_any_is_solved():
    for prior in PRIORS:
        M = np.array([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0], [0.1, 0.4, 0.5]])
        solution = solve(M, np.array([[900.0, 100.0, 1e-3]]), prior.penalty(known(M, np.full(3, 1 / 3))))
        assert solution.converged.all()
        assert solution.p[0, 2] > 0
    for prior in PRIORS:
        for n_classes in (2, 3):
            for tiny in (1e-180, 1e-310):
                M, V, p_lab = problem(2, n_classes)
                M[:, 0] *= tiny
                solution = solve(M, V, prior.penalty(known(M, p_lab)))
                assert solution.converged.all()
                assert np.isfinite(solution.loss).all()


def test_an_exact_histogram_gives_back_its_prevalence_at_any_size():
    for n_classes in CLASSES:
        for rows in (1e3, 1e8, 1e12):
            rng = np.random.default_rng(n_classes)
            M = well_conditioned(rng, n_classes, n_classes + 3)
            p = rng.dirichlet(np.full(n_classes, 3.0), 5)
            solution = solve(M, rows * p @ M, Flat().penalty(known(M, p[0])))
            assert_allclose(solution.p, p, rtol=0, atol=1e-8)


@pytest.mark.parametrize("prior", [Dirichlet(1e-3), Dirichlet(1), KL(0.01), KL(10), KLBins(1)], ids=repr)
def test_weak_priors_beside_many_rows_and_empty_cells_are_solved_in_few_steps(prior):
    for n_classes in CLASSES:
        for rows in (10**3, 10**6, 10**12):
            rng = np.random.default_rng(n_classes)
            M = rng.dirichlet(np.full(2 * n_classes, 0.3), n_classes)
            M = np.where(M < 0.02, 0, M) / np.where(M < 0.02, 0, M).sum(axis=1, keepdims=True)
            p = rng.dirichlet(np.full(n_classes, 0.3), 50)
            V = np.array([rng.multinomial(rows, q / q.sum()) for q in p @ M]).astype(float)
            solution = solve(M, V, prior.penalty(known(M, np.full(n_classes, 1 / n_classes))))
            assert solution.converged.all()
            assert solution.n_iter.max() < 60


def test_scales_of_columns_and_of_weights_do_not_matter():
    M, V, p_lab = problem(4, 3)
    scaled = M.copy()
    scaled[:, 1] *= 2.0**-600
    flat = Flat().penalty(known(M, p_lab))
    assert_allclose(solve(scaled, V, flat).p, solve(M, V, flat).p, rtol=0, atol=1e-12)
    for n_classes in (2, 4):
        M, V, p_lab = problem(6, n_classes)
        flat = Flat().penalty(known(M, p_lab))
        assert_allclose(solve(M, V * 2.0**-1040, flat).p, solve(M, V, flat).p, rtol=0, atol=1e-12)


def test_groups_without_rows_are_answered_with_the_prior_and_no_groups_with_nothing():
    for n_classes in CLASSES:
        M, V, p_lab = problem(0, n_classes)
        V[1] = 0
        solution = solve(M, V, Flat().penalty(known(M, p_lab)))
        assert_allclose(solution.p[1], 1 / n_classes, rtol=1e-14)
        assert solution.gap[1] == 0
        assert solution.converged.all()
    for prior in (KL(3.0), Dirichlet(3.0)):
        for n_classes in CLASSES:
            M, V, p_lab = problem(0, n_classes)
            assert_allclose(
                solve(M, 0 * V, prior.penalty(known(M, p_lab))).p, np.tile(p_lab, (3, 1)), rtol=0, atol=1e-8
            )
    for n_classes in (2, 3):
        M, V, p_lab = problem(0, n_classes)
        solution = solve(M, V[:0], Flat().penalty(known(M, p_lab)))
        assert solution.p.shape == (0, n_classes)
        assert solution.converged.shape == solution.loss.shape == (0,)


def test_bins_that_no_class_reaches_are_left_out_even_all_of_them():
    for n_classes in (2, 3):
        M, V, p_lab = problem(1, n_classes)
        wider = np.insert(M, 1, 0.0, axis=1)
        novel = np.insert(V, 1, 50.0, axis=1)
        for prior in PRIORS:
            with_novel = solve(wider, novel, prior.penalty(known(wider, p_lab)))
            without = solve(M, V, prior.penalty(known(M, p_lab)))
            assert_allclose(with_novel.p, without.p, rtol=0, atol=1e-12)
    solution = solve(
        np.zeros((3, 2)), np.ones((1, 2)), Flat().penalty(known(np.zeros((3, 2)), np.full(3, 1 / 3)))
    )
    assert_allclose(solution.p, 1 / 3)


def test_classes_alike_share_what_they_have_and_two_that_differ_by_rounding_stay_in_the_middle():
    M, V, p_lab = problem(8, 3)
    twins = np.vstack([M, M[-1:]])
    apart = solve(M, V, Flat().penalty(known(M, p_lab))).p
    together = solve(twins, V, Flat().penalty(known(twins, np.full(4, 0.25)))).p
    assert_allclose(together[:, 2], together[:, 3], rtol=1e-6)
    assert_allclose(together[:, 2] + together[:, 3], apart[:, 2], rtol=0, atol=1e-6)
    row = np.random.default_rng(0).dirichlet(np.ones(6))
    M = np.vstack([row, row * (1 + 1e-16 * np.arange(6))])
    V = np.random.default_rng(1).multinomial(1000, row, 20).astype(float)
    solution = solve(M, V, Flat().penalty(known(M, np.array([0.5, 0.5]))))
    assert_allclose(solution.p, 0.5, rtol=0, atol=1e-9)


def test_where_many_prevalences_are_best_the_answer_does_not_jump():
    for n_classes, n_bins in ((4, 2), (6, 3), (3, 2)):
        rng = np.random.default_rng(n_classes)
        M = rng.dirichlet(np.ones(n_bins), n_classes)
        V = 1000 * rng.dirichlet(np.ones(n_classes), 5) @ M
        flat = Flat().penalty(known(M, np.full(n_classes, 1 / n_classes)))
        moved = solve(M, V * (1 + 1e-9 * rng.standard_normal(V.shape)), flat)
        assert_allclose(moved.p, solve(M, V, flat).p, rtol=0, atol=1e-6)


def test_groups_are_solved_together_as_they_are_alone_each_with_its_own_pseudo_rows(monkeypatch):
    for prior in PRIORS:
        for n_classes in (2, 4):
            M, V, p_lab = problem(9, n_classes, n_groups=7)
            penalty = prior.penalty(known(M, p_lab))
            together = solve(M, V, penalty)
            alone = np.vstack([solve(M, v[None], penalty).p for v in V])
            with monkeypatch.context() as chunks:
                chunks.setattr(module, "_CELLS", 1)  # one group per chunk
                chunked: Solution = solve(M, V, penalty)
            assert_allclose(together.p, alone, rtol=0, atol=1e-10)
            assert_allclose(chunked.p, alone, rtol=0, atol=1e-10)
    for n_classes in (2, 3):
        M, V, p_lab = problem(10, n_classes)
        own = np.random.default_rng(0).uniform(0.5, 50, (*V.shape[:1], n_classes))
        penalty = Penalty(np.zeros(M.shape[1]), own, 0.0, p_lab)
        alone = [
            solve(M, V[g : g + 1], Penalty(np.zeros(M.shape[1]), own[g], 0.0, p_lab)).p[0]
            for g in range(len(V))
        ]
        assert_allclose(solve(M, V, penalty).p, alone, rtol=0, atol=1e-10)
