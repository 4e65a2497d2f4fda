"""Categories with labels on field rows: the multilevel model against an independent computation, and its limits."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import beta, multivariate_normal, norm

from fieldcal.core.categories import Judge, judges_differ, label_shift, model_of
from fieldcal.core.field_model import of_new_groups
from fieldcal.core.field_posterior import posterior_of
from fieldcal.core.policy import POLICY
from fieldcal.core.problem import Problem
from fieldcal.objects.judged import reordered


def field(G=6, n=300, labels=30, seed=0, sensitivity=0.85, specificity=0.8, shares=(0.2, 0.8)):
    """Labelled rows (G, 2, 2) and all rows (G, 2) of one judge, and the shares of class 1."""
    rng = np.random.default_rng(seed)
    y = rng.random((G, n)) < rng.uniform(*shares, (G, 1))
    said = np.where(y, rng.random((G, n)) < sensitivity, rng.random((G, n)) > specificity).astype(int)
    known, V = np.zeros((G, 2, 2)), np.zeros((G, 2))
    for g in range(G):
        np.add.at(V[g], said[g], 1)
        np.add.at(known[g], (y[g, :labels].astype(int), said[g, :labels]), 1)
    return known, V, y.mean(axis=1)


def means_and_deviations(known, V, seed=0):
    shares = posterior_of(model_of(known, V), seed).shares()
    return shares.estimate[:, 1], np.sqrt(shares.variances[0, :, 1])


def by_quadrature(known, V, points=3_000, seed=1):
    """Means and standard deviations of the shares by importance sampling over (β, σ, τ, b) and sums over a grid.

    The effects of a group on its two categories are bivariate t; given (β, σ, τ, b) groups are independent.
    """
    rng, t = np.random.default_rng(seed), label_shift(known, V)
    middle, sd = (np.array(x) for x in zip(*of_new_groups(POLICY.least_label_shift), strict=True))
    theta = rng.normal(middle, sd, (points, 3))
    beta = np.logaddexp(0, 8 * theta[:, 0]) / 8
    sigma, tau = (np.exp(np.clip(x, -6, 2)) for x in theta[:, 1:].T)
    rows = known.sum(axis=0)
    centre, near = logit((rows[1] + 0.5) / (rows.sum(axis=0) + 1)), 0.7**2 * np.eye(2)
    b = rng.multivariate_normal(centre, near, points)
    before = POLICY.shift_sd**2 * np.ones((2, 2)) + POLICY.free_base**2 * np.eye(2)
    logs = multivariate_normal.logpdf(b, np.zeros(2), before)
    logs -= multivariate_normal.logpdf(b, centre, near)
    nodes = np.linspace(-6, 6, 61)
    Z = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    nu = POLICY.outlying_freedom
    density = -0.5 * (nu + 2) * np.log1p((Z**2).sum(axis=1) / nu)
    n, hits, rest = known.sum(axis=1), known[:, 1], V - known.sum(axis=1)
    found = np.empty((2, points, len(V)))
    for p in range(points):
        for g in range(len(V)):
            both = sigma[p] ** 2 + beta[p] ** 2 * t.covariance[g, 0, 0]
            root = np.linalg.cholesky(both * np.ones((2, 2)) + (tau[p] ** 2 + 1e-6) * np.eye(2))
            eta = b[p] + beta[p] * t.mean[g, 0] + Z @ root.T
            like = density + (hits[g] * eta - n[g] * np.logaddexp(0, eta)).sum(axis=1)
            weight = np.exp(like - like.max())
            logs[p] += like.max() + np.log(weight.sum())
            Q = expit(eta)
            share = (hits[g].sum() + Q @ rest[g]) / V[g].sum()
            chance = (Q * (1 - Q)) @ rest[g] / V[g].sum() ** 2
            found[:, p, g] = weight @ np.stack([share, share**2 + chance], axis=1) / weight.sum()
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 100
    mean, square = np.einsum("p,xpg->xg", weights, found)
    return mean, np.sqrt(square - mean**2)


@pytest.mark.slow
def test_shares_are_those_of_an_independent_integration():
    known, V, _ = field(G=4, n=200, labels=25, seed=3)
    mean, sd = means_and_deviations(known, V)
    exact, deviation = by_quadrature(known, V)
    # Laplace's method, eight of the points and 100 or more effective draws: a tenth of the deviation each.
    assert np.abs(mean - exact).max() < 0.25 * deviation.min()
    assert np.log(sd / deviation) == pytest.approx(0, abs=0.25)


def test_with_nearly_all_rows_labelled_shares_are_those_of_the_labels():
    known, V, truth = field(n=400, labels=390)
    mean, sd = means_and_deviations(known, V)
    assert mean == pytest.approx(truth, abs=0.01)
    assert sd.max() < 0.01
    known, V, truth = field(n=400, labels=400)
    assert means_and_deviations(known, V)[0] == pytest.approx(truth, abs=1e-9)


def test_a_group_without_labels_is_wider_than_those_with_some():
    known, V, _ = field(G=8, n=300, labels=40)
    known[-1] = 0
    _, sd = means_and_deviations(known, V)
    assert sd[-1] > 1.3 * sd[:-1].max()


def test_the_order_of_groups_does_not_matter():
    known, V, _ = field()
    order = np.array([3, 1, 5, 0, 2, 4])
    first, second = means_and_deviations(known, V), means_and_deviations(known[order], V[order])
    for a, b in zip(first, second, strict=True):
        assert b == pytest.approx(a[order], abs=1e-4)


def test_the_order_of_classes_does_not_matter_beyond_the_numbers_drawn():
    known, V, _ = field()
    mean, sd = means_and_deviations(known, V)
    swapped, other = means_and_deviations(known[:, ::-1], V)
    assert 1 - swapped == pytest.approx(mean, abs=0.1 * sd.min())
    assert other == pytest.approx(sd, rel=0.1)


@pytest.mark.parametrize("classes", [2, 3])
def test_draws_have_the_means_and_deviations_of_the_shares(classes):
    known, V, _ = field()
    if classes == 3:
        known = np.concatenate([known, known[:, :1] // 2], axis=1)
        V = V + known[:, 2]
    found = posterior_of(model_of(known, V))
    shares, draws = found.shares(), found.draws(np.arange(len(V)), 8_000)
    sd = np.sqrt(shares.variances[0])
    assert draws.sum(axis=2) == pytest.approx(1)
    assert np.abs(draws.mean(axis=1) - shares.estimate).max() < 0.15 * sd.max()
    assert draws.std(axis=1) == pytest.approx(sd, rel=0.15)
    whole = np.einsum("g,gnk->nk", V.sum(axis=1) / V.sum(), draws)
    assert whole.std(axis=0) == pytest.approx(np.sqrt(found.whole().variances[0, 0]), rel=0.2)


def test_draws_of_a_group_are_the_same_whatever_others_are_asked_for():
    known, V, _ = field()
    found = posterior_of(model_of(known, V))
    assert np.array_equal(found.draws(np.array([2]), 64)[0], found.draws(np.arange(6), 64)[2])


def test_correlated_noise_of_open_rows_makes_differences_narrower_and_groups_no_wider():
    known, V, _ = field(G=3, n=60, labels=20)
    found = posterior_of(model_of(known, V))
    root = np.linalg.cholesky(np.full((3, 3), 0.9) + 0.1 * np.eye(3))
    alone, together = (found.draws(np.arange(3), 4_000, r)[..., 1] for r in (None, root))
    assert together.std(axis=1) == pytest.approx(alone.std(axis=1), rel=0.05)
    assert (together[0] - together[1]).std() < 0.95 * (alone[0] - alone[1]).std()


def test_label_shift_of_groups_is_that_of_their_shares_where_the_judge_is_nearly_right():
    known, V, truth = field(n=2_000, labels=400, sensitivity=0.98, specificity=0.97)
    t = label_shift(known, V)
    ratio = logit(truth) - logit(truth.mean())
    assert t.mean[:, 0] == pytest.approx(ratio, abs=0.15)
    assert (t.covariance > 0).all()


@pytest.mark.slow
def test_intervals_hold_the_truth_where_judges_differ():
    rng, held = np.random.default_rng(7), []
    for replica in range(40):
        G, n = 10, 200
        p, lean = rng.uniform(0.2, 0.8, G), rng.normal(0, 0.5, (G, 2))
        y = rng.random((G, n)) < p[:, None]
        said = rng.random((G, n)) < expit(np.where(y, 1.7 + lean[:, 1:], -1.5 + lean[:, :1]))
        known, V = np.zeros((G, 2, 2)), np.zeros((G, 2))
        for g in range(G):
            np.add.at(V[g], said[g].astype(int), 1)
            at = rng.permutation(n)[:20]
            np.add.at(known[g], (y[g, at].astype(int), said[g, at].astype(int)), 1)
        mean, sd = means_and_deviations(known, V, seed=replica)
        held.append(np.abs(y.mean(axis=1) - mean) < norm.ppf(0.95) * sd)
    assert 0.86 < np.mean(held) < 0.95  # 400 intervals: a standard error of .015


def test_an_outlying_group_has_a_small_weight_and_leaves_the_others_alone():
    known, V, truth = field(G=12, n=400, labels=60, seed=2)
    sound = means_and_deviations(known, V)[0]
    known[0] = known[0, :, ::-1]  # the judge says the opposite there
    V[0] = V[0, ::-1]
    found = posterior_of(model_of(known, V))
    weight = found.normality(np.arange(12))
    assert weight[0] < POLICY.outlying < weight[1:].min()
    error = np.abs(found.shares().estimate[1:, 1] - truth[1:]).mean()
    assert error < 1.5 * np.abs(sound[1:] - truth[1:]).mean()


def test_probabilities_given_categories_are_those_of_labels_where_there_are_many():
    known, V, _ = field(n=2_000, labels=1_500)
    given = known / known.sum(axis=1, keepdims=True)
    found = posterior_of(model_of(known, V)).classes(np.arange(6))
    assert found[..., 1] == pytest.approx(given[:, 1], abs=0.05)


def test_rows_given_their_class_inform_the_base_beside_labels_of_the_field():
    known, V, truth = field(n=1_000, labels=15, seed=5)
    checked = 400 * np.array([[0.8, 0.2], [0.15, 0.85]])
    alone = posterior_of(model_of(known, V)).whole()
    beside = posterior_of(model_of(known, V, checked)).whole()
    assert beside.deviation[0, 1] < 0.8 * alone.deviation[0, 1]
    assert abs(beside.estimate[0, 1] - truth.mean()) < 3 * beside.deviation[0, 1]


def test_with_many_classes_shares_are_those_of_labelled_rows_of_each_category():
    """Above 120 log-odds the variance components stay at the middle of their prior."""
    K, n = 12, 5_000
    for seed in range(4):
        rng = np.random.default_rng(seed)
        M, p = 0.6 * np.eye(K) + 0.4 / K, rng.dirichlet(np.full(K, 4.0))
        known = rng.multinomial(600, (p[:, None] * M).ravel()).reshape(K, K).astype(float)
        V = known.sum(axis=0) + rng.multinomial(4_000, p @ M)
        given = np.stack([rng.dirichlet(known[:, j] + 1 / K**2, n) for j in range(K)], axis=1)
        conjugate = np.einsum("j,njk->nk", V / V.sum(), given)
        found = posterior_of(model_of(known[None], V[None])).shares()
        sd = conjugate.std(axis=0)
        assert (np.abs(found.estimate[0] - conjugate.mean(axis=0)) < sd).all()
        assert (found.deviation[0] / sd).mean() == pytest.approx(0.95, abs=0.1)


# Rows given their class, from elsewhere -----------------------------------------------------------------------


def under_label_shift(given, V, *, grouped=False):
    problem = judges_differ(Problem(np.asarray(given, float), np.atleast_2d(V).astype(float), 0.0, grouped))
    return Judge().posterior(problem, random_state=0)


def test_rows_chosen_by_class_give_the_integral_over_sensitivity_and_specificity():
    """Given each sensitivity and specificity that these rows allow, the share has its own posterior."""
    sens, spec, rest = (44, 50), (46, 50), np.array([700, 300])
    x, cell = (np.arange(160) + 0.5) / 160, POLICY.rows_of_a_cell
    # Pseudo-rows are spread half evenly and half as all rows are.
    pooled = np.array([spec[0] + sens[1] - sens[0], spec[1] - spec[0] + sens[0]]) / 100
    zero, one = 2 * cell * (0.25 + 0.5 * pooled)
    se, sp = x[:, None, None], x[None, :, None]
    q = x * se + (1 - x) * (1 - sp)
    logs = rest[1] * np.log(q) + rest[0] * np.log1p(-q)
    given = np.exp(logs - logs.max(axis=2, keepdims=True))
    given /= given.sum(axis=2, keepdims=True)
    weight = np.exp(
        beta.logpdf(se, sens[0] + one, sens[1] - sens[0] + zero)
        + beta.logpdf(sp, spec[0] + zero, spec[1] - spec[0] + one)
    )
    density = (weight / weight.sum() * given).sum(axis=(0, 1))
    mean = density @ x
    sd = np.sqrt(density @ x**2 - mean**2)
    rows = [[spec[0], spec[1] - spec[0]], [sens[1] - sens[0], sens[0]]]
    found = under_label_shift(rows, rest).summary(0.9)
    assert abs(found.mean[0, 1] - mean) < 0.06 * sd
    assert found.sd[0, 1] == pytest.approx(sd, rel=0.06)


def test_a_judge_that_is_known_leaves_the_binomial_of_its_verdicts():
    found = under_label_shift(1e9 * np.eye(2), [300, 700]).summary(0.9)
    assert found.mean[0, 1] == pytest.approx(701 / 1002, abs=1e-3)
    assert found.sd[0, 1] == pytest.approx(beta(701, 301).std(), rel=0.02)


def test_a_group_of_many_rows_is_worth_no_more_than_its_judge_is_known_and_the_whole_averages():
    given = 200 * np.array([[0.85, 0.15], [0.15, 0.85]])
    V = np.tile([[5_000.0, 5_000.0]], (40, 1))
    problem = judges_differ(Problem(given, V, 0.0, True))
    rows = problem.V.sum(axis=1)
    # Variance of the share of a category in a group: that of its judge, Σ p² (1 − Σ M²) / (κ + 1).
    assert rows == pytest.approx(0.5 * 31 / (0.25 * 2 * (1 - 0.85**2 - 0.15**2)), rel=0.05)
    assert problem.total.sum() == pytest.approx(40 * rows[0])
    alone = Problem(given, V[:1], 0.0, False)
    assert judges_differ(alone) is alone


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [30.0, 1e6])
def test_intervals_hold_the_truth_whether_judges_elsewhere_differ_or_not(kappa):
    held, rng = [], np.random.default_rng(11)
    M = np.array([[0.85, 0.15], [0.12, 0.88]])
    for _ in range(30):
        p = rng.beta(5, 3, 12)
        own = np.array([[rng.dirichlet(kappa * row) for row in M] for _ in p])
        V = np.array([rng.multinomial(300, (1 - s) * m[0] + s * m[1]) for s, m in zip(p, own, strict=True)])
        given = np.array([rng.multinomial(200, row) for row in M])
        found = under_label_shift(given, V, grouped=True).summary(0.9)
        held.append((found.lower[:, 1] <= p) & (p <= found.upper[:, 1]))
    # 360 intervals, correlated within a field: nominal .9, wider than needed where judges are the same.
    assert 0.85 < np.mean(held) < (0.95 if kappa < 1e3 else 1.0)


def test_reordered_draws_correlate_and_keep_the_draws_of_each_group():
    rng = np.random.default_rng(0)
    draws = rng.dirichlet([3.0, 2.0], (2, 64 * 16))
    found = reordered(draws, np.array([[1.0, 0.8], [0.8, 1.0]]), of=1, per_draw=16, seed=0)
    assert np.corrcoef(found[..., 1])[0, 1] == pytest.approx(0.75, abs=0.08)
    blocks = draws.reshape(2, 64, 16, 2), found.reshape(2, 64, 16, 2)
    assert np.array_equal(*(np.sort(b[..., 1], axis=2) for b in blocks))
    assert found.sum(axis=2) == pytest.approx(1)
