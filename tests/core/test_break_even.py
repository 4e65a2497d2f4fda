"""Break-even: exact against linear programs over all changed distributions, and its invariances."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from fieldcal.core import break_even as core
from fieldcal.core.break_even import Flip

EXACT = {"rtol": 0, "atol": 1e-9}


def problems(classes=(2, 3), bins=(2, 3, 4, 5), n=4, seed=0):
    rng = np.random.default_rng(seed)
    for K in classes:
        for m in bins:
            for _ in range(n):
                M, v = rng.dirichlet(np.ones(m), K), rng.dirichlet(np.ones(m))
                yield M, v, int(rng.integers(K)), float(rng.uniform())


def changed(M, v, limits=(), each=None):
    """The least change over all prevalences and all changed distributions: of rows, or, within ``each``, feasible.

    Variables are p (K), the joint table W = diag(p) M' (K, m), and its losses S >= diag(p) M − W.
    """
    K, m = M.shape
    size = K + 2 * K * m
    W = K + np.arange(K * m).reshape(K, m)
    S = W + K * m
    above, below, equal, sums = [], [], [], []
    for k in range(K):
        for j in range(m):
            row = np.zeros(size)
            row[k], row[W[k, j]], row[S[k, j]] = M[k, j], -1, -1
            above.append(row)
            below.append(0.0)
        row = np.zeros(size)
        row[W[k]], row[k] = 1, -1
        equal.append(row)
        sums.append(0.0)
        if each is not None:
            row = np.zeros(size)
            row[S[k]], row[k] = 1, -each
            above.append(row)
            below.append(0.0)
    for j in range(m):
        row = np.zeros(size)
        row[W[:, j]] = 1
        equal.append(row)
        sums.append(v[j])
    for k, sign, c in limits:
        row = np.zeros(size)
        row[k] = sign
        above.append(row)
        below.append(sign * c)
    cost = np.zeros(size)
    cost[S.ravel()] = 1
    return linprog(cost, A_ub=above, b_ub=below, A_eq=equal, b_eq=sums, method="highs")


def flipped(M, v, k, c, above):
    V = v[None]
    return core.flip(V, M, k, np.array([c]), np.array([above]), core.closest(V, M))


def test_the_break_even_is_the_optimum_over_all_changed_distributions():
    for M, v, k, c in problems():
        assert_allclose(core.closest(v[None], M).change[0], changed(M, v).fun, **EXACT)
        for above in (True, False):
            brute = changed(M, v, [(k, 1 if above else -1, c)]).fun
            found = flipped(M, v, k, c, above)
            assert_allclose(found.change[0], brute, **EXACT)
            assert_allclose(core.least_change(v[None], found.p, M), found.change, **EXACT)


def test_weights_of_bins_reproduce_the_change_at_its_prevalences():
    for M, v, k, c in problems(classes=(2, 3, 5), bins=(5, 8), n=5, seed=1):
        found = flipped(M, v, k, c, True)
        assert_allclose(((found.p @ M - v) * found.y).sum(), found.change[0], **EXACT)


def of_each_class(M, v, p):
    """The least change of every class, as a share of its own rows: the formula of the module."""
    sets = [list(s) for n in range(1, len(p) + 1) for s in combinations(range(len(p)), n)]
    return max(np.maximum(p[s] @ M[s] - v, 0).sum() / p[s].sum() for s in sets)


def test_within_each_class_the_same_change_is_needed_or_more():
    more = 0
    for M, v, *_ in problems(n=3, seed=2):
        p = np.random.default_rng(3).dirichlet(np.ones(len(M)))
        needed, rows = of_each_class(M, v, p), core.least_change(v, p, M)
        fixed = [(k, sign, c) for k, c in enumerate(p) for sign in (1, -1)]
        assert changed(M, v, fixed, each=needed + 1e-7).status == 0
        assert changed(M, v, fixed, each=needed - 1e-6).status == 2
        assert needed >= rows - 1e-12
        more += needed > rows + 1e-6
    assert more  # the constraint that masses are not negative binds in some


def test_it_is_zero_at_the_estimate_and_grows_with_the_distance_of_the_threshold():
    for M, _, k, _ in problems(bins=(5,), seed=4):
        p = np.random.default_rng(5).dirichlet(np.ones(len(M)))
        v, thresholds = p @ M, np.linspace(0, p[k], 6)
        changes = [flipped(M, v, k, c, True).change[0] for c in thresholds[::-1]]
        assert_allclose(changes[0], 0, atol=1e-12)
        assert (np.diff(changes) > -1e-12).all()
        assert_allclose(flipped(M, v, k, p[k] + 0.01, True).change, 0, atol=1e-12)


def test_a_conclusion_that_the_best_fit_contradicts_has_no_margin():
    for M, v, k, _ in problems(seed=6):
        best = core.closest(v[None], M)
        found = flipped(M, v, k, min(best.p[0, k] + 0.05, 1.0), True)
        assert_allclose(found.change, best.change, **EXACT)


def test_merging_bins_that_are_equal_but_for_a_factor_changes_nothing():
    for M, v, k, c in problems(classes=(2, 3), bins=(4,), seed=7):
        split = np.array([0.3, 0.7])
        finer, w = np.hstack([M[:, :-1], M[:, -1:] * split]), np.r_[v[:-1], v[-1] * split]
        assert_allclose(flipped(finer, w, k, c, True).change, flipped(M, v, k, c, True).change, **EXACT)


def test_the_order_of_classes_and_bins_does_not_matter():
    for M, v, k, c in problems(seed=8):
        other = flipped(M[::-1, ::-1], v[::-1], len(M) - 1 - k, c, False)
        assert_allclose(other.change, flipped(M, v, k, c, False).change, **EXACT)


def test_possible_shares_widen_with_the_change_and_end_where_a_conclusion_fails():
    changes = np.array([0.0, 0.02, 0.05, 0.1, 0.3])
    for M, v, k, _ in problems(bins=(5,), n=3, seed=9):
        bounds = core.share_bounds(v, M, k, changes)
        assert (np.diff(bounds[:, 0]) < 1e-9).all()
        assert (np.diff(bounds[:, 1]) > -1e-9).all()
        misfit = core.closest(v[None], M).change[0]
        for change, (low, high) in zip(changes, bounds, strict=True):
            for end, above in ((low, True), (high, False)):
                if 1e-6 < end < 1 - 1e-6:
                    assert flipped(M, v, k, end, above).change[0] - misfit == pytest.approx(change, abs=1e-9)


def test_classes_that_no_bin_separates_have_any_share():
    M = np.tile([0.2, 0.3, 0.5], (2, 1))
    assert_allclose(flipped(M, M[0], 1, 0.9, False).change, 0, atol=1e-15)
    assert_allclose(core.share_bounds(M[0], M, 1, np.zeros(1)), [[0, 1]], atol=1e-9)


def test_two_groups_meet_between_their_shares():
    M, p = np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([[0.3, 0.7], [0.9, 0.1]])
    n, A = np.array([1e9, 1e9]), 1e9 * M
    # Of bins that separate by 1/2, a difference of .6 needs .15 of the rows of each.
    assert core.meeting(p @ M, M, 1, n, A).change == pytest.approx(0.15, abs=1e-9)
    assert core.meeting(p[::-1] @ M, M, 1, n, A).change == pytest.approx(0, abs=1e-9)


def beyond(v, M, shares, above):
    """Changes beyond the misfit of one histogram, by thresholds."""
    best = core.closest(v[None], M)
    rows, at = np.tile(v, (len(shares), 1)), np.zeros(len(shares), dtype=int)
    fit = Flip(best.change[at], best.p[at], best.y[at])
    return core.flip(rows, M, 0, shares, np.full(len(shares), above), fit).change - best.change[0]


def test_two_groups_meet_where_both_need_the_same_change():
    rng = np.random.default_rng(10)
    for K in (2, 3):
        M, V = rng.dirichlet(np.ones(5), K), rng.dirichlet(np.ones(5), 2)
        V = V[np.argsort(-core.closest(V, M).p[:, 0])]  # the first has the larger share
        ends = core.closest(V, M).p[::-1, 0]
        found = core.meeting(V, M, 0, np.full(2, 100.0), 100 * M)
        shares = np.linspace(*ends, 4001 if K == 2 else 31)
        largest = np.maximum(beyond(V[0], M, shares, True), beyond(V[1], M, shares, False))
        assert largest.min() - 0.05 / (len(shares) - 1) * 10 <= found.change <= largest.min() + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("K", "m", "replicas"), [(2, 8, 400), (3, 12, 150)])
@pytest.mark.parametrize("violation", [0.0, 0.1])
def test_the_lower_end_is_below_the_break_even_of_the_population(K, m, replicas, violation):
    rng, held = np.random.default_rng(11), []
    for _ in range(replicas):
        M = 0.8 * rng.dirichlet(np.ones(m), K) + 0.2 / m
        v = rng.dirichlet(np.ones(K)) @ ((1 - violation) * M + violation * rng.dirichlet(np.ones(m), K))
        best = core.closest(v[None], M)
        c = np.array([rng.uniform()])
        above = best.p[:, 0] > c
        true = core.flip(v[None], M, 0, c, above, best).change - best.change
        A = np.stack([rng.multinomial(300, row) for row in M]) + 0.5
        V = rng.multinomial(500, v)[None] / 500
        fit = core.closest(V, A / A.sum(axis=1, keepdims=True))
        found = core.flip(V, A / A.sum(axis=1, keepdims=True), 0, c, above, fit)
        error = core.standard_error(found, V, np.array([500.0]), A)
        held.append(core.lower_end(found.change - fit.change, error, 0.9) <= true + 1e-12)
    assert np.mean(held) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / replicas)


def test_the_standard_error_is_the_spread_of_replicas_for_a_distant_threshold():
    rng = np.random.default_rng(12)
    M = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    v, c, above = np.array([0.2, 0.8]) @ M, np.array([0.1]), np.array([True])
    changes, errors = [], []
    for _ in range(400):
        A, V = np.stack([rng.multinomial(400, row) for row in M]) + 0.0, rng.multinomial(300, v)[None] / 300
        fit = core.closest(V, A / 400)
        found = core.flip(V, A / 400, 1, c, above, fit)
        changes.append(found.change[0])
        errors.append(core.standard_error(found, V, np.array([300.0]), A)[0])
    assert np.mean(errors) == pytest.approx(np.std(changes), rel=0.12)


def test_a_violation_is_found_beyond_noise_and_noise_is_none():
    rng = np.random.default_rng(13)
    M = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    moved = M + np.array([[-0.2, 0, 0, 0.2], [0, 0, 0, 0]])
    A, rows = 1e5 * M, np.array([600, 400])

    def groups(M):
        return np.stack(
            [[rng.multinomial(n, row) for n, row in zip(rows, M, strict=True)] for _ in range(200)]
        )

    # What is left of noise is positive, so that a violation is rather too large: by .4 · .03 for the other class.
    assert 0.6 * 0.2 < core.violations(groups(moved), A).mean() < 0.6 * 0.2 + 0.4 * 0.035
    assert core.violations(groups(M), A).mean() < 0.015


def test_the_reference_counts_groups_below_an_edge():
    assert core.reference_share(0.0) == 0.0
    assert core.reference_share(1.0) == 1.0
    assert core.reference_share(0.0999) == pytest.approx(sum(core.REFERENCE_GROUPS[:7]) / 728)
    assert len(core.REFERENCE_EDGES) == len(core.REFERENCE_GROUPS)
    assert sum(core.REFERENCE_GROUPS) == 728
