"""The Laplace approximation of multilevel logits, against a log posterior written down and differentiated here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import gammaln, log_softmax

from fieldcal.core.multilevel import Labels, Priors, fit

NORMAL = 1e7  # degrees of freedom with which Student's t is a normal
BOTH = pytest.mark.parametrize("K", [2, 3])


def covariance(rng, n, size):
    A = rng.normal(size=(n, n))
    return size * (np.eye(n) + 0.3 * A @ A.T / n)


def problem(K, *, freedom=NORMAL, L=3, m=2, D=3, seed=0, bins=True):
    """Three groups with labels in two phases and two bins; none is empty."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 9, (L, 2, m, K)).astype(float)
    q = 2 * (K - 1)
    labels = Labels(counts, rng.normal(size=(2, m, K - 1, D)))
    priors = Priors(
        offset=rng.normal(size=(1, L, 2, m, K - 1)),
        common=np.linalg.inv(covariance(rng, D, 0.8))[None],
        group=np.array([[np.linalg.inv(covariance(rng, q, 0.5)) for _ in range(L)]]),
        bins=np.linalg.inv(covariance(rng, q, 0.3))[None] if bins else None,
        freedom=freedom,
    )
    return labels, priors


def log_posterior(labels, priors, x, scale):
    """At vectors (n, N) of d, u and e: log likelihood, normal density of d, Student's densities of the groups.

    ``scale``: what multiplies the prior precision of each group.
    """
    L, F, m, K = labels.counts.shape
    k, nu, D, q = K - 1, priors.freedom, priors.common.shape[1], F * (K - 1)
    d = x[:, :D]
    u = x[:, D : D + L * q].reshape(-1, L, q)
    e = x[:, D + L * q :].reshape(-1, L, m, q)
    total = 0.5 * np.linalg.slogdet(priors.common[0])[1] - 0.5 * D * np.log(2 * np.pi)
    total = total - 0.5 * np.einsum("na,ab,nb->n", d, priors.common[0], d)
    for g in range(L):
        square = np.einsum("na,ab,nb->n", u[:, g], priors.group[0, g], u[:, g])
        logs = np.linalg.slogdet(priors.group[0, g])[1]
        for j in range(m):
            square = square + np.einsum("na,ab,nb->n", e[:, g, j], priors.bins[0], e[:, g, j])
            logs += np.linalg.slogdet(priors.bins[0])[1]
            for f in range(F):
                own = slice(f * k, (f + 1) * k)
                eta = priors.offset[0, g, f, j] + d @ labels.X[f, j].T + u[:, g, own] + e[:, g, j, own]
                logs_of_classes = log_softmax(np.hstack([np.zeros((len(x), 1)), eta]), axis=1)
                total = total + logs_of_classes @ labels.counts[g, f, j]
        p = q * (1 + m)
        constant = gammaln((nu + p) / 2) - gammaln(nu / 2) - 0.5 * p * np.log(nu * np.pi)
        total = total + (constant + 0.5 * logs) - 0.5 * (nu + p) * np.log1p(scale[g] * square / nu)
    return total


def flat(labels, priors, scale=(1.0, 1.0, 1.0)):
    return lambda x: log_posterior(labels, priors, x, scale)


def vector(found):
    return np.concatenate([found.d[0], found.u[0].ravel(), found.e[0].ravel()])


def hessian(function, x, step=2e-3):
    """Of minus the function, by central differences; their error is of the order of step²."""
    at, out = step * np.eye(len(x)), np.zeros((len(x), len(x)))
    i, j = np.triu_indices(len(x))
    ends = [function(x + a * at[i] + b * at[j]) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    out[i, j] = out[j, i] = -(ends[0] - ends[1] - ends[2] + ends[3]) / (4 * step**2)
    return out


def optimum(function, start):
    """Of BFGS, with slopes by differences."""
    step = 1e-5 * np.eye(len(start))

    def slope(x):
        found = function(np.concatenate([x[None], x + step, x - step]))
        up, down = np.split(found[1:], 2)
        return -found[0], -(up - down) / 2e-5

    return minimize(slope, start, jac=True, method="BFGS")


def parts(labels, priors):
    """Places of d, of the u of group g, and of the e of its bin j."""
    L, F, m, K = labels.counts.shape
    D, q = priors.common.shape[1], F * (K - 1)
    u = [D + g * q + np.arange(q) for g in range(L)]
    e = [[D + L * q + (g * m + j) * q + np.arange(q) for j in range(m)] for g in range(L)]
    return np.arange(D), u, e


@BOTH
@pytest.mark.parametrize("freedom", [5.0, NORMAL])
def test_given_the_scales_of_groups_the_mode_is_that_of_a_general_optimiser(K, freedom):
    labels, priors = problem(K, freedom=freedom)
    found = fit(labels, priors)
    density = flat(labels, replace(priors, freedom=NORMAL), scale=found.scale[0])
    best = optimum(density, np.zeros(len(vector(found))))
    # The iteration ends where a step gains less than 1e-5 in log density.
    assert density(vector(found)[None])[0] == pytest.approx(-best.fun, abs=5e-5)
    assert_allclose(vector(found), best.x, atol=0.005)


@BOTH
def test_the_scale_of_a_group_is_that_of_a_step_of_em(K):
    """The conjugate Gamma: degrees of freedom and coordinates over degrees of freedom and expected square."""
    labels, priors = problem(K, freedom=5.0)
    found = fit(labels, priors)
    H = hessian(flat(labels, replace(priors, freedom=NORMAL), scale=found.scale[0]), vector(found))
    d, u, e = parts(labels, priors)
    cov = np.linalg.inv(H[len(d) :, len(d) :])
    x = vector(found)
    for g in range(len(u)):
        at = np.concatenate([u[g], *e[g]])
        precision = block_diag(priors.group[0, g], *[priors.bins[0]] * len(e[g]))
        second = np.outer(x[at], x[at]) + cov[np.ix_(at - len(d), at - len(d))]
        assert found.scale[0, g] == pytest.approx((5 + len(at)) / (5 + (precision * second).sum()), rel=2e-3)


@BOTH
def test_the_evidence_is_the_density_at_the_mode_times_the_volume_of_the_numerical_hessian(K):
    labels, priors = problem(K)
    found, density = fit(labels, priors), flat(labels, priors)
    x = vector(found)
    H = hessian(density, x)
    expected = density(x[None])[0] + 0.5 * len(x) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(H)[1]
    # Differences of step h err by about h²/12 of a fourth derivative (a quarter of the rows): 1e-6 per coordinate.
    assert found.log_evidence[0] == pytest.approx(expected, abs=2e-4)


@BOTH
def test_the_precisions_and_covariances_are_those_of_the_numerical_hessian(K):
    labels, priors = problem(K)
    found = fit(labels, priors)
    H = hessian(flat(labels, priors), vector(found))
    d, u, e = parts(labels, priors)
    every = np.arange(len(H))
    assert_allclose(np.linalg.inv(found.S[0]), np.linalg.inv(H)[np.ix_(d, d)], rtol=1e-4, atol=1e-5)
    given_d = np.setdiff1d(every, d)
    cov = np.linalg.inv(H[np.ix_(given_d, given_d)])
    for g, own in enumerate(u):
        at = own - len(d)
        assert_allclose(found.U[0, g], cov[np.ix_(at, at)], rtol=1e-4, atol=1e-5)
        bins = np.concatenate(e[g])
        out = H[np.ix_(own, bins)] @ np.linalg.inv(H[np.ix_(bins, bins)])
        assert_allclose(found.C[0, g], H[np.ix_(own, d)] - out @ H[np.ix_(bins, d)], rtol=1e-4, atol=1e-4)
        for j, at in enumerate(e[g]):
            assert_allclose(found.E[0, g, j], np.linalg.inv(H[np.ix_(at, at)]), rtol=1e-4, atol=1e-5)
            assert_allclose(found.A[0, g, j], H[np.ix_(at, at)] - priors.bins[0], rtol=1e-4, atol=1e-4)


@BOTH
def test_without_effects_of_bins_is_the_limit_of_effects_that_vanish(K):
    labels, priors = problem(K)
    q = priors.group.shape[-1]
    coarse = fit(labels, replace(priors, bins=None))
    fine = fit(labels, replace(priors, bins=1e9 * np.eye(q)[None]))
    for name in ("d", "u", "S", "C", "U", "log_evidence"):
        assert_allclose(getattr(coarse, name), getattr(fine, name), rtol=1e-5, atol=1e-5, err_msg=name)
    assert not coarse.e.any()


@BOTH
def test_common_effects_that_are_alike_in_all_bins_take_the_same_way_as_others(K):
    labels, priors = problem(K, bins=False)
    X = labels.X.copy()
    X[..., 0] = X[:1, :1, :, 0]
    alike = replace(labels, X=X)
    coarse = fit(alike, priors)
    fine = fit(alike, replace(priors, bins=1e9 * np.eye(priors.group.shape[-1])[None]))
    for name in ("d", "u", "S", "C", "U", "log_evidence"):
        assert_allclose(getattr(coarse, name), getattr(fine, name), rtol=1e-5, atol=1e-5, err_msg=name)


def stacked(*priors):
    names = ("offset", "common", "group", "bins")
    joined = {
        name: None if getattr(priors[0], name) is None else np.concatenate([getattr(p, name) for p in priors])
        for name in names
    }
    return replace(priors[0], **joined)


@BOTH
@pytest.mark.parametrize("bins", [True, False])
def test_points_solved_side_by_side_are_those_solved_alone(K, bins):
    labels, first = problem(K, freedom=5.0, bins=bins)
    others = [problem(K, freedom=5.0, bins=bins, seed=seed)[1] for seed in (1, 2)]
    together = fit(labels, stacked(first, *others))
    for p, priors in enumerate((first, *others)):
        alone = fit(labels, priors)
        # Each point goes on for as long as any gains; alone it stops at a gain of 1e-5.
        assert_allclose(together.log_evidence[p], alone.log_evidence[0], atol=1e-3)
        assert_allclose(together.d[p], alone.d[0], atol=0.01)
        assert_allclose(together.S[p], alone.S[0], rtol=0.01)


@BOTH
@pytest.mark.parametrize("bins", [True, False])
def test_the_order_of_the_groups_does_not_matter(K, bins):
    labels, priors = problem(K, freedom=5.0, bins=bins)
    order = np.array([2, 0, 1])
    other = fit(
        replace(labels, counts=labels.counts[order]),
        replace(priors, offset=priors.offset[:, order], group=priors.group[:, order]),
    )
    one = fit(labels, priors)
    assert_allclose(other.u, one.u[:, order], atol=1e-9)
    assert_allclose(other.U, one.U[:, order], atol=1e-9)
    assert_allclose(other.d, one.d, atol=1e-9)
    assert_allclose(other.log_evidence, one.log_evidence, atol=1e-8)


@BOTH
@pytest.mark.parametrize("bins", [True, False])
def test_common_effects_that_are_held_stay_and_the_groups_are_the_same_given_them(K, bins):
    labels, priors = problem(K, bins=bins)
    free = fit(labels, priors)
    held = fit(labels, priors, at=free.d)
    assert (held.d == free.d).all()
    for name in ("u", "e", "C", "U", "E"):
        assert_allclose(getattr(held, name), getattr(free, name), atol=1e-4, err_msg=name)
    elsewhere = fit(labels, priors, at=free.d + 1.0)
    assert (elsewhere.d == free.d + 1.0).all()
    assert np.abs(elsewhere.u - free.u).max() > 0.05


@BOTH
@pytest.mark.parametrize("bins", [True, False])
@pytest.mark.parametrize("freedom", [5.0, NORMAL])
def test_a_group_without_labels_keeps_its_prior_and_adds_nothing_to_the_evidence(K, bins, freedom):
    labels, priors = problem(K, bins=bins, freedom=freedom)
    counts = labels.counts.copy()
    counts[1] = 0
    found = fit(replace(labels, counts=counts), priors)
    assert_allclose(found.u[0, 1], 0.0, atol=1e-12)
    assert_allclose(found.e[0, 1], 0.0, atol=1e-12)
    assert found.scale[0, 1] == pytest.approx(1.0, abs=1e-6)
    assert_allclose(found.U[0, 1] @ priors.group[0, 1], np.eye(len(found.U[0, 1])), atol=1e-5)
    rest = [0, 2]
    without = fit(
        replace(labels, counts=counts[rest]),
        replace(priors, offset=priors.offset[:, rest], group=priors.group[:, rest]),
    )
    assert_allclose(found.d, without.d, atol=1e-8)
    if freedom == NORMAL:  # with few it adds a constant, which depends on nothing but their number
        assert_allclose(found.log_evidence, without.log_evidence, atol=1e-5)


def test_an_outlying_group_frees_itself_and_leaves_the_common_effects_alone():
    labels, priors = problem(2, L=30, D=1, bins=False)
    X = np.ones_like(labels.X)
    rng = np.random.default_rng(4)
    ones = rng.binomial(200, 0.5, (30, 2, 2))
    counts = np.stack([200 - ones, ones], axis=3).astype(float)
    odd = counts.copy()
    odd[0] = [1, 199]
    tight = np.broadcast_to(np.eye(2) / 0.05, (1, 30, 2, 2))
    priors = replace(priors, offset=np.zeros_like(priors.offset), group=tight)
    moved = {}
    for freedom in (5.0, NORMAL):
        one, two = (fit(Labels(c, X), replace(priors, freedom=freedom)) for c in (counts, odd))
        moved[freedom] = abs(float(two.d[0, 0] - one.d[0, 0]))
        if freedom == 5.0:
            assert two.scale[0, 0] < 0.2 < two.scale[0, 1:].min()
    assert moved[5.0] < 0.3 * moved[NORMAL]
