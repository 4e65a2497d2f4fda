"""Labelled field rows without lab groups: against integrals, importance sampling, simulations and limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import expit, log_expit, logsumexp, softmax
from scipy.stats import multivariate_normal, norm

from core.model_worlds import new_field, unit, without_lab_groups
from fieldcal.core.field_posterior import posterior_of, prior_predictive
from fieldcal.core.hypotheses import KINDS, ByClass, Hypothesis, LabelledRows, hypotheses, lab_base
from fieldcal.core.offsets import Offsets, against_first, with_first
from fieldcal.core.policy import POLICY
from fieldcal.core.trust import Trust

#: Standard deviations of changes of bins, and their prior probabilities.
CHANGES = ((0.05, 0.6), (0.6, 0.4))
NO_CHANGE = ((0.0,), (1.0,))


def three(free, *, distance=1.0):
    weights = (0.4, 0.4, 0.2)
    means = (np.full(free, distance), np.zeros(free), np.full(free, distance / 2))
    variances = (0.05, 0.02, 0.6)
    return tuple(
        Hypothesis(kind, w, w, mean, v * unit(free))
        for kind, w, mean, v in zip(KINDS, weights, means, variances, strict=True)
    )


def unchanged(free, *, sd=0.1):
    return (Hypothesis("unchanged", 1.0, 1.0, np.zeros(free), sd**2 * unit(free)),)


def field_of(K=2, m=6, G=1, *, counts=None, by_class=None, rows=5000.0, found=None, changes=CHANGES, t=None):
    """A field of an exact lab."""
    rng = np.random.default_rng([K, m, G])
    base = 0.9 * rng.dirichlet(np.ones(K), m) + 0.1 / K
    V = rows * rng.dirichlet(np.full(m, 20.0), G)
    found = three(K - 1) if found is None else found
    return without_lab_groups(
        base,
        np.full((m, K), 0.004),
        V,
        counts,
        hypotheses=found,
        changes=changes,
        by_class=by_class,
        t=t,
    )


def labels_of(model, shift, n, seed=0):
    """Classes (G, K, m) of n rows per group, drawn at random, if log-odds are shifted (K − 1,)."""
    rng = np.random.default_rng(seed)
    V, base = model.counts.V, model.counts.base
    Q = softmax(np.log(base) + np.append(0.0, shift), axis=1)
    rows = rng.multinomial(n, V / V.sum(axis=1, keepdims=True))
    return rng.multinomial(rows, Q).swapaxes(1, 2).astype(float)


# -- against integrals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(2.0, 1.0), (6.0, 24.0), (60.0, 240.0)])
def test_one_bin_of_two_classes_is_the_mixture_that_integrals_give(labels):
    """One log-odds, six normal priors of it, binomial labels."""
    base, noise, n, (no, yes) = np.array([[0.6, 0.4]]), np.array([[0.01, 0.015]]), 1e6, labels
    model = without_lab_groups(
        base, noise, np.array([[n]]), np.reshape(labels, (1, 2, 1)), hypotheses=three(1), changes=CHANGES
    )
    found = posterior_of(model)
    evidence, means = np.empty((3, 2)), np.empty((3, 2))
    for i, h in enumerate(model.hypotheses):
        for j, (change, weight) in enumerate(zip(*CHANGES, strict=True)):
            centre = np.log(0.4 / 0.6) + h.mean[0]
            sd = np.sqrt(h.covariance[0, 0] + noise.sum() + change**2)

            def density(z, power=0, centre=centre, sd=sd):
                like = yes * log_expit(z) + no * log_expit(-z) + 0.5 * (yes + no)
                return expit(z) ** power * np.exp(like) * norm.pdf(z, centre, sd)

            ends, points = (centre - 10 * sd, centre + 10 * sd), [centre, np.log(yes / no)]
            total = quad(density, *ends, points=points)[0]
            evidence[i, j] = h.weight * weight * total
            means[i, j] = quad(density, *ends, (1,), points=points)[0] / total
    evidence /= evidence.sum()
    assert_allclose([found.weight(kind) for kind in KINDS], evidence.sum(axis=1), atol=0.003)
    assert found.probability_of_change(0.5) == pytest.approx(evidence[:, 1].sum(), abs=0.003)
    assert found.shares().estimate[0, 1] == pytest.approx((evidence * means).sum(), abs=0.005)


@pytest.mark.parametrize("design", ["random", "by_class", "both"])
def test_two_bins_are_the_mixture_that_a_grid_gives(design):
    """Two log-odds are normal beforehand; rows by class enter through P(bin | class)."""
    base, noise = np.array([[0.8, 0.2], [0.3, 0.7]]), np.full((2, 2), 0.01)
    v = np.array([0.55, 0.45])
    random = np.array([[14.0, 6.0], [5.0, 15.0]]) * (design != "by_class")
    by_class = np.array([[30.0, 20.0], [8.0, 42.0]]) if design != "random" else None
    model = without_lab_groups(
        base, noise, 1e6 * v[None], random[None], hypotheses=three(1), changes=CHANGES, by_class=by_class
    )
    found = posterior_of(model)
    axis = np.linspace(-7, 7, 561)
    z = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    p = expit(z)
    like = (random[1] * log_expit(z) + random[0] * log_expit(-z)).sum(axis=-1)
    if by_class is not None:
        for k, q in enumerate((1 - p, p)):
            joint = v * q
            like += (by_class[k] * np.log(joint / joint.sum(axis=-1, keepdims=True))).sum(axis=-1)
    like = np.exp(like - like.max())
    share = p @ v
    slope = np.log(base[:, 1] / base[:, 0])
    slope = slope - v @ slope
    weights, moments = np.zeros(3), np.zeros(3)
    for i, h in enumerate(model.hypotheses):
        for change, weight in zip(*CHANGES, strict=True):
            covariance = h.covariance[0, 0] + POLICY.slope_change**2 * np.outer(slope, slope)
            covariance = covariance + np.diag(noise.sum(axis=1) + change**2)
            centre = np.log(base[:, 1] / base[:, 0]) + h.mean
            density = h.weight * weight * like * multivariate_normal(centre, covariance).pdf(z)
            weights[i] += density.sum()
            moments += [(density * share**power).sum() for power in range(3)]
    mean = moments[1] / moments[0]
    sd = np.sqrt(moments[2] / moments[0] - mean**2)
    assert_allclose([found.weight(kind) for kind in KINDS], weights / weights.sum(), atol=0.015)
    assert found.shares().estimate[0, 1] == pytest.approx(mean, abs=0.1 * sd)
    assert found.shares().deviation[0, 1] == pytest.approx(sd, rel=0.05)


def test_one_bin_of_three_classes_is_the_mixture_that_a_grid_gives():
    base, noise, labels = (
        np.array([[0.5, 0.3, 0.2]]),
        np.array([[0.01, 0.02, 0.03]]),
        np.array([9.0, 4.0, 7.0]),
    )
    model = without_lab_groups(
        base, noise, np.array([[1e6]]), labels.reshape(1, 3, 1), hypotheses=three(2), changes=CHANGES
    )
    found = posterior_of(model)
    axis = np.linspace(-5, 5, 401)
    z = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    p = softmax(with_first(z), axis=-1)
    like = np.exp((labels * np.log(p)).sum(axis=-1))
    weights, total = np.zeros(3), np.zeros(3)
    for i, h in enumerate(model.hypotheses):
        for change, weight in zip(*CHANGES, strict=True):
            covariance = h.covariance + np.diag(noise[0, 1:]) + noise[0, 0] + change**2 * unit(2)
            centre = np.log(base[0, 1:] / base[0, 0]) + h.mean
            density = h.weight * weight * like * multivariate_normal(centre, covariance).pdf(z)
            weights[i] += density.sum()
            total += np.einsum("ab,abk->k", density, p)
    assert_allclose([found.weight(kind) for kind in KINDS], weights / weights.sum(), atol=0.015)
    assert_allclose(found.shares().estimate[0], total / total.sum(), atol=0.01)


def grouped(seed, *, m=2, G=6, n=30, beta=0.5, sigma=0.3, tau=0.1, change=0.4, shift=0.0):
    """Groups of which the last has no label."""
    rng = np.random.default_rng(seed)
    p = np.linspace(0.2, 0.75, m)
    V = np.round(400 * rng.dirichlet(np.full(m, 5.0), G))
    t = rng.normal(0, 0.5, G)
    eta = np.log(p / (1 - p)) + shift + rng.normal(0, change, m)
    eta = eta + (beta * t + rng.normal(0, sigma, G))[:, None] + tau * rng.normal(size=(G, m))
    rows = rng.multinomial(n, V / V.sum(axis=1, keepdims=True))
    rows[-1] = 0
    yes = rng.binomial(rows, expit(eta))
    seen = Offsets((t + np.sqrt(0.05) * rng.normal(size=G))[:, None], np.full((G, 1, 1), 0.05))
    return without_lab_groups(
        np.column_stack([1 - p, p]),
        np.full((m, 2), 0.004),
        1e3 * V,
        np.stack([rows - yes, yes], axis=1),
        hypotheses=three(1),
        changes=CHANGES,
        t=seen,
    )


def sampled(model, N=60_000, S=64, seed=0):
    """Weights of the hypotheses, probability of the large change, means and deviations of shares of class 1.

    By importance sampling from the prior of everything common; given that, of each group's effects, too.
    """
    rng, counts = np.random.default_rng(seed), model.counts
    G, _, m = counts.shape
    mean, sd = (np.array(x) for x in zip(*model.components, strict=True))
    theta, atom = mean + sd * rng.normal(size=(N, 3)), rng.random(N) < POLICY.label_shift_between
    beta = np.where(atom, 1.0, np.logaddexp(0, 8 * theta[:, 0]) / 8)
    sigma, tau = (np.where(atom, np.exp(-6), np.exp(np.clip(theta[:, i], -6, 2))) for i in (1, 2))
    kind = rng.choice(3, N, p=[h.weight for h in model.hypotheses])
    centre, variance = (np.array([x(h) for h in model.hypotheses])[kind] for x in (_mean, _variance))
    large = rng.choice(2, N, p=CHANGES[1])
    logit = np.log(counts.base[:, 1] / counts.base[:, 0])
    slope = logit - counts.V.sum(axis=0) @ logit / counts.V.sum()
    bins = np.sqrt(counts.base_noise.sum(axis=1) + np.array(CHANGES[0])[large, None] ** 2)
    common = logit + (centre + np.sqrt(variance) * rng.normal(size=N))[:, None]
    common = common + POLICY.slope_change * rng.normal(size=(N, 1)) * slope + bins * rng.normal(size=(N, m))
    logs, first, second = np.zeros(N), np.empty((N, G)), np.empty((N, G))
    for g in range(G):
        wide = np.sqrt(rng.chisquare(POLICY.outlying_freedom, (N, S)) / POLICY.outlying_freedom)
        own = np.sqrt(sigma**2 + beta**2 * counts.t_field.covariance[g, 0, 0])
        effects = (own[:, None] * rng.normal(size=(N, S)))[..., None]
        effects = (effects + tau[:, None, None] * rng.normal(size=(N, S, m))) / wide[..., None]
        eta = (common + (beta * counts.t_field.mean[g, 0])[:, None])[:, None] + effects
        like = (counts.field[g, 1] * log_expit(eta) + counts.field[g, 0] * log_expit(-eta)).sum(axis=2)
        total = logsumexp(like, axis=1)
        share, inner = expit(eta) @ (counts.V[g] / counts.V[g].sum()), np.exp(like - total[:, None])
        first[:, g], second[:, g] = (inner * share).sum(axis=1), (inner * share**2).sum(axis=1)
        logs += total
    w = softmax(logs)
    assert 1 / (w**2).sum() > 500, "too few samples"
    means = w @ first
    return np.bincount(kind, w, 3), w @ (large == 1), means, np.sqrt(w @ second - means**2)


def _mean(h):
    return h.mean[0]


def _variance(h):
    return h.covariance[0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"n": 60}, {"n": 100, "tau": 0.5, "change": 0.05}, {"n": 100, "m": 3, "shift": 1.0}],
    ids=["few", "many", "bins_of_groups", "shifted"],
)
def test_groups_have_the_posterior_that_importance_sampling_gives(options):
    model = grouped(1, **options)
    kinds, change, means, deviations = sampled(model)
    found = posterior_of(model)
    shares = found.shares()
    assert_allclose([found.weight(kind) for kind in KINDS], kinds, atol=0.05)
    assert found.probability_of_change(0.5) == pytest.approx(change, abs=0.05)
    assert (np.abs(shares.estimate[:, 1] - means) < 0.25 * deviations).all()
    assert_allclose(shares.deviation[:, 1], deviations, rtol=0.15)


# -- simulations -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("G", "K", "labels", "by_class", "n"),
    [
        (1, 2, 100, 0, 400),
        (1, 2, 0, 100, 500),
        (1, 3, 50, 60, 200),
        (20, 2, 100, 0, 150),
        (20, 2, 20, 80, 120),
    ],
)
def test_intervals_cover_shares_drawn_from_the_prior(G, K, labels, by_class, n):
    changes = POLICY.calibration_change, (1 - POLICY.indifferent, POLICY.indifferent)
    options = {"G": G, "K": K, "labels": labels, "by_class": by_class, "changes": changes}
    covered = []
    for seed in range(n):
        model, truth = new_field(seed, hypotheses=three(K - 1), **options)
        lower, upper = posterior_of(model, seed).shares().interval(0.9, model.counts.V.sum(axis=1))
        covered.append(((lower <= truth) & (truth <= upper))[:, 1:].mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.04)


def test_p_values_of_labels_are_uniform_if_the_hypothesis_holds_and_small_if_not():
    same, other = unchanged(1), (Hypothesis("other", 1.0, 1.0, np.array([2.0]), 1e-4 * unit(1)),)
    p_values, contradicted = [], []
    for seed in range(60):
        model, _ = new_field(seed, G=1, m=4, hypotheses=same, changes=NO_CHANGE)
        p_values.append(prior_predictive(posterior_of(model), "unchanged").p_value)
        if seed < 10:
            model, _ = new_field(seed, G=1, m=4, hypotheses=other, changes=NO_CHANGE, labels=1000)
            found = posterior_of(replace(model, hypotheses=same))
            contradicted.append(prior_predictive(found, "unchanged").p_value)
            assert prior_predictive(found, "label_shift") is None
    assert np.mean(np.array(p_values) < 0.5) == pytest.approx(0.5, abs=0.15)
    assert np.mean(np.array(p_values) < 0.1) == pytest.approx(0.1, abs=0.08)
    assert max(contradicted) < 0.01


# -- limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3])
def test_with_many_labels_the_estimate_is_the_share_of_labels_poststratified_by_score(K):
    plain = field_of(K)
    Q = softmax(np.log(plain.counts.base) + np.linspace(-1.0, 1.0, K), axis=1)
    shares = posterior_of(field_of(K, counts=2000 * Q.T[None], rows=1e7)).shares()
    v = plain.counts.V[0] / plain.counts.V[0].sum()
    assert_allclose(shares.estimate[0], v @ Q, atol=1e-3)
    lower, upper = shares.interval(0.9, np.array([1e7]))
    assert (upper - lower).max() < 0.03


def test_without_labels_hypotheses_keep_their_weights_and_many_labels_decide():
    before = posterior_of(field_of(3))
    assert_allclose([before.weight(kind) for kind in KINDS], [0.4, 0.4, 0.2])
    plain = field_of(2)
    for kind, shift in (("label_shift", 1.0), ("unchanged", 0.0)):
        after = posterior_of(field_of(2, counts=labels_of(plain, [shift], 800)))
        assert after.weight(kind) > 0.8


@pytest.mark.parametrize("G", [1, 5])
def test_names_of_the_classes_do_not_matter(G):
    K, order = 3, [2, 0, 1]
    rng = np.random.default_rng(1)
    logs, shift = 0.3 * rng.normal(size=(G, K)), np.array([0.5, 0.0, -0.4])
    variance = np.array([0.02, 0.05, 0.1])

    def solved(names):
        covariance = np.diag(variance[names][1:]) + variance[names][0]
        found = (
            Hypothesis("label_shift", 0.5, 0.5, against_first(shift[names]), covariance),
            *(replace(h, weight=0.5, estimate=0.5) for h in unchanged(2)),
        )
        t = Offsets(against_first(logs[:, names]), np.tile(covariance, (G, 1, 1))) if G > 1 else None
        model = field_of(K, G=G, found=found, t=t, counts=labels_of(field_of(K, G=G), [-0.5, -0.2], 30))
        counts = model.counts
        counts = replace(
            counts,
            base=counts.base[:, names],
            field=counts.field[:, names],
            by_class=np.arange(18.0).reshape(3, 6)[names],
        )
        return posterior_of(replace(model, counts=counts))

    one, two = solved([0, 1, 2]), solved(order)
    n = one.model.counts.V.sum(axis=1)
    assert_allclose(two.weight("label_shift"), one.weight("label_shift"), atol=1e-3)
    assert_allclose(two.shares().estimate, one.shares().estimate[:, order], atol=1e-3)
    assert_allclose(
        two.shares().interval(0.9, n), np.array(one.shares().interval(0.9, n))[..., order], atol=2e-3
    )


@pytest.mark.parametrize(("K", "G"), [(2, 1), (3, 1), (2, 6), (3, 4)])
def test_intervals_are_the_quantiles_of_joint_draws(K, G):
    counts = labels_of(field_of(K, G=G), np.full(K - 1, 0.8), 30)
    found = posterior_of(field_of(K, G=G, counts=counts, rows=3000.0))
    draws, shares = found.draws(np.arange(G), 4000), found.shares()
    assert_allclose(draws.sum(axis=2), 1.0)
    assert_allclose(draws.mean(axis=1), shares.estimate, atol=0.01)
    lower, upper = shares.interval(0.9, np.full(G, 3000.0))
    assert_allclose(np.quantile(draws, 0.05, axis=1), lower, atol=0.02)
    assert_allclose(np.quantile(draws, 0.95, axis=1), upper, atol=0.02)


def test_the_whole_field_is_the_groups_together():
    G = 5
    counts = labels_of(field_of(G=G), [0.6], 20)
    counts[3] = 0  # a group without labels
    found = posterior_of(field_of(G=G, counts=counts))
    n = found.model.counts.V.sum(axis=1)
    assert_allclose(found.whole().estimate[0], n @ found.shares().estimate / n.sum(), rtol=1e-9)
    together = np.einsum("g,gdk->dk", n / n.sum(), found.draws(np.arange(G), 4000))
    lower, upper = found.whole().interval(0.9, n.sum(keepdims=True))
    assert_allclose(np.quantile(together, [0.05, 0.95], axis=0), [lower[0], upper[0]], atol=0.02)


def test_groups_with_labels_follow_them_and_groups_without_learn_from_the_others():
    G, plain = 6, field_of(G=6, found=unchanged(1, sd=0.3))
    counts = labels_of(plain, [1.6], 80)
    counts[0] = labels_of(plain, [-1.6], 80)[0]
    counts[5] = 0
    found = posterior_of(field_of(G=G, counts=counts, found=unchanged(1, sd=0.3)))
    V, shares = plain.counts.V, found.shares()
    before = (V @ plain.counts.base / V.sum(axis=1, keepdims=True))[:, 1]
    moved = shares.estimate[:, 1] - before
    assert moved[0] < -0.1
    assert (moved[1:5] > 0.1).all()
    assert moved[5] > 0.03
    assert shares.deviation[5, 1] > 2 * shares.deviation[:5, 1].max()


@pytest.mark.parametrize("seed", [0, 4])
def test_a_change_of_bins_that_labels_prove_leaves_components_as_if_it_were_given(seed):
    """Points that are weighed by another evidence than they were drawn by have β = 1, σ = 0 of seed 4."""
    model = grouped(seed, m=4, G=8, n=1000, change=0.5)
    large = ((CHANGES[0][1],), (1.0,))
    either, given = (posterior_of(replace(model, changes=changes)) for changes in (CHANGES, large))
    assert either.probability_of_change(0.5) > 0.999
    for name in ("beta", "group", "bins"):
        assert either.mean(name) == pytest.approx(given.mean(name), rel=0.05)


def test_labels_show_that_bins_changed_only_if_they_did():
    plain = field_of(rows=1e6)
    for scatter, expected in ((0.0, False), (0.8, True)):
        shift = scatter * np.tile([1.0, -1.0], 3)[:, None] * [0.0, 1.0]
        Q = softmax(np.log(plain.counts.base) + shift, axis=1)
        for n in (5.0, 500.0):
            found = posterior_of(field_of(counts=n * Q.T[None], rows=1e6)).probability_of_change(0.5)
            assert found > 0.99 if expected and n > 5 else found < 0.5
        assert expected or found < 0.02


@pytest.mark.parametrize("G", [1, 6])
def test_other_labels_at_the_same_points_are_the_posterior_with_those_labels(G):
    plain = field_of(G=G)
    some, more = (labels_of(plain, [0.4], n) for n in (40, 60))
    by_class = np.full((2, 6), 3.0)
    updated = posterior_of(field_of(G=G, counts=some)).with_counts(more, by_class)
    anew = posterior_of(field_of(G=G, counts=more, by_class=by_class))
    tolerance = 1e-4 if G == 1 else 0.06  # the points are those of other labels
    assert_allclose([updated.weight(k) for k in KINDS], [anew.weight(k) for k in KINDS], atol=tolerance)
    off = np.abs(updated.shares().estimate - anew.shares().estimate)
    assert (off < (1e-4 if G == 1 else 0.15 * anew.shares().deviation)).all()
    assert_allclose(updated.shares().deviation, anew.shares().deviation, rtol=1e-3 if G == 1 else 0.1)


# -- rows chosen by class ----------------------------------------------------------------------------------


def test_gradient_and_information_of_rows_chosen_by_class_are_those_of_their_likelihood():
    m, K, rng = 5, 3, np.random.default_rng(0)
    X, offset = rng.normal(size=(m, K - 1, 4)), rng.normal(size=(1, m, K - 1))
    v, d = rng.dirichlet(np.ones(m)), 0.3 * rng.normal(size=4)

    def given_class(d):
        """Logarithms of P(bin | class), (K, m)."""
        joint = v[:, None] * softmax(with_first(offset[0] + X @ d), axis=1)
        return np.log(joint / joint.sum(axis=0)).T

    counts = rng.poisson(4.0, (K, m)).astype(float)
    term = ByClass(counts, np.log(v), offset, X)
    assert term.value(d[None])[0] == pytest.approx((counts * given_class(d)).sum())
    scores = approx_fprime(d, lambda x: given_class(x).ravel(), 1e-7).reshape(K, m, 4)
    gradient, information = term.slopes(d[None])
    assert_allclose(gradient[0], np.einsum("kj,kjd->d", counts, scores), atol=1e-4)
    expected = counts.sum(axis=1)[:, None] * np.exp(given_class(d))
    assert_allclose(information[0], np.einsum("kj,kjd,kje->de", expected, scores, scores), atol=1e-4)


#: P(bin | class), and shares of the classes.
M = np.array([[0.4, 0.25, 0.15, 0.1, 0.06, 0.04], [0.02, 0.05, 0.1, 0.18, 0.25, 0.4]])
P = np.array([0.8, 0.2])


def test_many_rows_chosen_by_class_find_the_shares_that_histograms_and_they_imply():
    """Half of each class: their histograms are P(bin | class) in the field, whatever the lab has."""
    model = replace(field_of(by_class=3000 * M), changes=((0.02, 1.0), (0.5, 0.5)))
    model = replace(model, counts=replace(model.counts, V=1e5 * (P @ M)[None]))
    shares = posterior_of(model).shares()
    assert_allclose(shares.estimate[0], P, atol=0.02)
    lower, upper = shares.interval(0.9, np.array([1e5]))
    assert lower[0, 1] < 0.2 < upper[0, 1]


def test_rows_chosen_by_class_in_equal_numbers_are_no_sample_of_the_shares():
    plain = field_of()
    right = replace(plain.counts, base=(P[:, None] * M / (P @ M)).T, V=1e5 * (P @ M)[None])
    as_random = posterior_of(replace(plain, counts=replace(right, field=100 * M[None]))).shares()
    by_class = posterior_of(replace(plain, counts=replace(right, by_class=100 * M))).shares()
    assert by_class.estimate[0, 1] == pytest.approx(0.2, abs=0.05)
    assert as_random.estimate[0, 1] > 0.3
    assert by_class.deviation[0, 1] > as_random.deviation[0, 1]


# -- prior information -------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [False, True])
def test_weights_of_hypotheses_sum_to_one_and_a_trust_that_the_caller_sets_leaves_no_other(moved):
    def of(trust, n=0.0):
        rows = LabelledRows(np.zeros(1, int), np.full((1, 3, 2), n / 6), np.zeros((1, 3, 2)))
        shift, covariance = np.array([0.6, 0.2]), 0.01 * unit(2)
        return hypotheses(shift, covariance, trust=trust, shifted=moved, labels=rows, weighed=True)

    found = of(Trust(0.4, 0.5), 100.0)
    assert {h.kind for h in found} == set(KINDS)
    assert sum(h.weight for h in found) == pytest.approx(1.0)
    for n in (0.0, 10.0, 1000.0):
        assert sum(h.in_estimate(n) for h in found) == pytest.approx(1.0)
    assert [h.kind for h in of(Trust(1.0, 1.0, set_by_caller=True))] == ["label_shift"]
    assert [h.kind for h in of(Trust(0.0, 0.0, set_by_caller=True))] == ["unchanged"]
    assert [h.kind for h in of(Trust(0.3, 0.3, set_by_caller=True))] == ["label_shift", "unchanged"]
    # Many labels: all three enter the estimate with the weights that they have in the interval.
    assert_allclose([h.in_estimate(1e4) for h in found], [h.weight for h in found])


def test_the_lab_share_of_a_bin_follows_its_rows_and_without_rows_the_mean_prediction():
    centres = np.array([[0.7, 0.3], [0.2, 0.8]])
    F = np.array([[0.0, 9e5], [0.0, 1e5]])
    base, noise = lab_base(F, centres)
    assert_allclose(base, [[0.7, 0.3], [0.9, 0.1]], atol=1e-4)
    assert (noise[0] > 100 * noise[1]).all()
