"""The posterior behind verdicts, against closed forms, plain integrals and simulations."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import beta, dirichlet_multinomial

from fieldcal.core.judge import LOG_KAPPAS, Posterior, Verdicts, log_values_given_class, spread_of_judges
from fieldcal.core.policy import POLICY
from fieldcal.core.slices import Slices, integrate


def verdicts(given_class=None, known=None, rest=None, *, grouped=False, spread=None):
    rest = np.atleast_2d(np.asarray(rest, dtype=float))
    K = len(given_class) if given_class is not None else np.shape(known)[-2]
    m = rest.shape[1]
    given = np.zeros((K, m)) if given_class is None else np.asarray(given_class, dtype=float)
    rows = np.zeros((len(rest), K, m)) if known is None else np.asarray(known, dtype=float).reshape(-1, K, m)
    return Verdicts(given, rows, rest, grouped, given_class is not None, spread)


def drawn(data, seeds=range(8)):
    """Mean and standard deviation of every share over several runs, (2, K)."""
    draws = [Posterior.of(data, seed=s).draws(np.arange(len(data.rest)))[0] for s in seeds]
    return np.mean([d.mean(axis=0) for d in draws], axis=0), np.mean([d.std(axis=0) for d in draws], axis=0)


@pytest.mark.parametrize(
    ("known", "rest"),
    [
        ([[80, 25], [15, 30]], [600, 300]),
        ([[90, 4], [1, 5]], [850, 50]),
        ([[40, 5, 3], [4, 20, 28]], [300, 250, 350]),
        ([[60, 9, 4], [8, 45, 12], [3, 10, 49]], [310, 280, 330]),
    ],
)
def test_rows_labelled_at_random_give_the_conjugate_posterior(known, rest):
    """With a Dirichlet prior on the cells, values and the classes of each value are independent Dirichlets."""
    known, rest = np.array(known, dtype=float), np.array(rest, dtype=float)
    (K, m), rng, n = known.shape, np.random.default_rng(0), 100_000
    cell = 1 / (K * m)
    q = rng.dirichlet(known.sum(axis=0) + rest + K * cell, n)
    given = np.stack([rng.dirichlet(known[:, j] + cell, n) for j in range(m)], axis=1)
    exact = np.einsum("nj,njk->nk", q, given)
    mean, sd = drawn(verdicts(known=known, rest=rest))
    assert np.abs(mean - exact.mean(axis=0)).max() < 0.1 * exact.std(axis=0).min()
    assert np.allclose(sd, exact.std(axis=0), rtol=0.06)


def test_rows_chosen_by_class_give_the_integral_over_sensitivity_and_specificity():
    sens, spec, rest = (44, 50), (46, 50), np.array([700, 300])
    x = (np.arange(160) + 0.5) / 160
    se, sp = x[:, None, None], x[None, :, None]
    q = x * se + (1 - x) * (1 - sp)
    logs = rest[1] * np.log(q) + rest[0] * np.log1p(-q)
    cell = POLICY.rows_of_a_cell
    logs = logs + beta.logpdf(se, sens[0] + cell, sens[1] - sens[0] + cell)
    logs = logs + beta.logpdf(sp, spec[0] + cell, spec[1] - spec[0] + cell)
    density = np.exp(logs - logs.max()).sum(axis=(0, 1))
    density /= density.sum()
    exact = density @ x, np.sqrt(density @ x**2 - (density @ x) ** 2)
    rows = [[spec[0], spec[1] - spec[0]], [sens[1] - sens[0], sens[0]]]
    mean, sd = drawn(verdicts(rows, rest=rest))
    assert abs(mean[1] - exact[0]) < 0.06 * exact[1]
    assert sd[1] == pytest.approx(exact[1], rel=0.05)


def test_a_judge_that_is_known_leaves_the_binomial_of_its_verdicts():
    mean, sd = drawn(verdicts(1e9 * np.array([[1.0, 0.0], [0.0, 1.0]]), rest=[300, 700]))
    assert mean[1] == pytest.approx(701 / 1002, abs=1e-3)
    assert sd[1] == pytest.approx(beta(701, 301).std(), rel=0.04)


def test_one_slice_is_integrated_as_by_a_fine_sum():
    rng = np.random.default_rng(1)
    M, alpha = rng.dirichlet(np.ones(3), size=(2, 2)), np.array([[2.0, 5.0], [0.7, 1.4]])
    known, rest = np.array([[[3.0, 1, 0], [0, 2, 6]]]), np.array([[20.0, 14, 60]])
    found = integrate(M, None, alpha, Slices(known, rest)).log_evidence[:, 0]
    p = (np.arange(200_000) + 0.5) / 200_000
    for s in range(2):
        a = alpha[s] + known[0].sum(axis=1)
        logs = (a[1] - 1) * np.log(p) + (a[0] - 1) * np.log1p(-p) - betaln(*alpha[s])
        logs += np.log(np.outer(p, M[s, 1]) + np.outer(1 - p, M[s, 0])) @ rest[0]
        assert found[s] == pytest.approx(logs.max() + np.log(np.exp(logs - logs.max()).mean()), abs=2e-3)


def test_three_classes_are_integrated_as_by_a_sum_over_the_simplex():
    M, rest = (
        np.array([[0.7, 0.2, 0.1], [0.15, 0.7, 0.15], [0.1, 0.25, 0.65]]),
        np.array([300.0, 250.0, 350.0]),
    )
    x = (np.arange(400) + 0.5) / 400
    p = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    p = p[p.sum(axis=1) < 1]
    p = np.column_stack([1 - p.sum(axis=1), p])
    logs = np.log(p @ M) @ rest
    weight = np.exp(logs - logs.max())
    mean = weight @ p / weight.sum()
    sd = np.sqrt(weight @ (p - mean) ** 2 / weight.sum())
    S = 8_000
    found = integrate(np.tile(M, (S, 1, 1)), None, np.ones((S, 3)), Slices(np.zeros((1, 3, 3)), rest[None]))
    shares = found.draws(np.random.default_rng(0).normal(size=(S, 1, 2)))
    assert np.abs(shares[:, 0].mean(axis=0) - mean).max() < 0.1 * sd.min()
    assert np.allclose(shares[:, 0].std(axis=0), sd, rtol=0.05)


def test_values_of_known_classes_are_dirichlet_multinomial():
    rng = np.random.default_rng(2)
    M, kappa = rng.dirichlet(np.ones(3), size=(1, 2)), np.array([7.0])
    known = rng.integers(0, 6, size=(4, 2, 3)).astype(float)
    plain = sum(
        dirichlet_multinomial.logpmf(known[g, k].astype(int), kappa[0] * M[0, k], int(known[g, k].sum()))
        - dirichlet_multinomial_constant(known[g, k])
        for g in range(4)
        for k in range(2)
    )
    assert log_values_given_class(known, M, kappa)[0].sum() == pytest.approx(plain)


def dirichlet_multinomial_constant(rows):
    """Of the orders in which rows may come, which no posterior feels."""
    return gammaln(rows.sum() + 1) - gammaln(rows + 1).sum()


def test_labelled_slices_tell_one_judge_from_many():
    rng = np.random.default_rng(3)
    M = np.array([[0.85, 0.15], [0.1, 0.9]])

    def slices(kappa):
        own = [[rng.dirichlet(kappa * row) for row in M] for _ in range(60)]
        return np.array([[rng.multinomial(30, row) for row in judge] for judge in own], dtype=float)

    same, differ = (LOG_KAPPAS @ np.exp(spread_of_judges(slices(kappa))) for kappa in (1e6, 10.0))
    assert same > np.log(300)
    assert abs(differ - np.log(10)) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [1e6, 12.0])
def test_intervals_of_slices_hold_the_truth_whether_judges_differ_or_not(kappa):
    covered = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        p = rng.beta(7, 4, 30)
        M = np.array([[0.8, 0.2], [0.12, 0.88]])
        own = np.array([[rng.dirichlet(kappa * row) for row in M] for _ in p])
        cells = np.array([[(1 - s) * m[0], s * m[1]] for s, m in zip(p, own, strict=True)]).reshape(30, 4)
        rows = [rng.multinomial(60, c) for c in cells]
        known = np.array([rng.multivariate_hypergeometric(r, 8) for r in rows]).reshape(30, 2, 2)
        rest = np.array(rows).reshape(30, 2, 2).sum(axis=1) - known.sum(axis=1)
        draws = Posterior.of(verdicts(known=known, rest=rest, grouped=True), seed=seed).draws(np.arange(30))
        low, high = np.quantile(draws[..., 1], [0.05, 0.95], axis=1)
        covered.append((low <= p) & (p <= high))
    assert 0.82 < np.mean(covered) < 0.98  # of 120, three standard errors around .9


def test_a_draw_of_all_slices_is_under_one_judge():
    """What slices share cancels in their difference: with few lab rows most of the noise does."""
    data = verdicts([[18, 2], [3, 17]], rest=[[3_000, 3_000], [3_100, 2_900]], grouped=True)
    draws = Posterior.of(data, seed=0).draws(np.arange(2))[..., 1]
    assert (draws[0] - draws[1]).std() < 0.7 * np.hypot(*draws.std(axis=1))


@pytest.mark.slow
def test_draws_of_a_slice_are_the_same_whatever_others_are_asked_for():
    two = verdicts([[18, 2], [3, 17]], rest=[[30, 30], [31, 29], [50, 10]], grouped=True)
    three = verdicts(10 * np.eye(3) + 2, rest=[[30, 30, 9], [31, 29, 5], [50, 10, 8]], grouped=True)
    for data in (two, three):
        posterior = Posterior.of(data, seed=0)
        assert np.array_equal(posterior.draws(np.arange(3))[2], posterior.draws(np.array([2]))[0])


def test_fewer_labels_or_a_lab_that_they_contradict_never_narrow_the_interval():
    known = np.array([[60, 20], [16, 64]])
    widths = []
    for part in (0.0, 0.25, 1.0):
        rows = known * part
        mean_and_sd = drawn(verdicts([[44, 6], [7, 43]], known=rows, rest=[500, 600] - rows.sum(axis=0)))
        widths.append(mean_and_sd[1][1])
    assert all(a > 0.97 * b for a, b in pairwise(widths))
    rest, labels = np.array([450.0, 450.0]), np.array([[40.0, 10.0], [10.0, 40.0]])
    with_lab = [
        drawn(verdicts(lab, known=labels, rest=rest), range(3))[1][1]
        for lab in (1_000 * np.array([[0.8, 0.2], [0.2, 0.8]]), 1_000 * np.array([[0.5, 0.5], [0.02, 0.98]]))
    ]
    assert with_lab[0] < with_lab[1]


def test_many_classes_are_those_of_labelled_rows_of_each_value():
    """Too many numbers for a search: with labels at random it is the conjugate posterior all the same."""
    rng, K = np.random.default_rng(4), 10
    M = 0.6 * np.eye(K) + 0.04
    p = rng.dirichlet(np.full(K, 4.0))
    known, rest = rng.multinomial(600, (p[:, None] * M).ravel()).reshape(K, K), rng.multinomial(4_000, p @ M)
    n, cell = 20_000, 1 / K**2
    q = rng.dirichlet(known.sum(axis=0) + rest + K * cell, n)
    given = np.stack([rng.dirichlet(known[:, j] + cell, n) for j in range(K)], axis=1)
    exact = np.einsum("nj,njk->nk", q, given)
    draws = Posterior.of(verdicts(known=known, rest=rest), seed=0).draws(np.arange(1))[0]
    assert np.abs(draws.mean(axis=0) - exact.mean(axis=0)).max() < 0.25 * exact.std(axis=0).min()
    assert np.allclose(draws.std(axis=0), exact.std(axis=0), rtol=0.25)
