"""The model of lab groups, field labels and hypotheses: against long Markov chains, simulations and limits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_softmax, softmax

from core.model_worlds import unit, world
from fieldcal.core.field_blocks import expected_softmax
from fieldcal.core.field_model import Counts, Model
from fieldcal.core.field_posterior import posterior_of
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.intervals import interval_of_mixture
from fieldcal.core.offsets import Offsets, Persistence, persistence
from fieldcal.core.policy import POLICY

ALL = Persistence(np.array([1.0 - 1e-3]), np.ones(1))
NONE = Persistence(np.zeros(1), np.ones(1))
BOTH = pytest.mark.parametrize("K", [2, 3])


def still(free):
    return (Hypothesis("unchanged", 1.0, 1.0, np.zeros(free), 0.01 * unit(free)),)


def three(free):
    return (
        Hypothesis("label_shift", 0.5, 0.6, np.full(free, 0.8), 0.05 * unit(free)),
        Hypothesis("unchanged", 0.3, 0.4, np.zeros(free), 0.02 * unit(free)),
        Hypothesis("other", 0.2, 0.0, np.full(free, 0.4), 0.5 * unit(free)),
    )


def solved(found, seed=0, **changes):
    return posterior_of(
        Model(
            **{
                "counts": found.counts,
                "hypotheses": found.hypotheses,
                "persistence": found.persistence,
                **changes,
            }
        ),
        seed,
    )


def interval(shares, n, level=0.9):
    return interval_of_mixture(
        list(shares.means), list(shares.variances), shares.weights, level, n=n, holds=shares.estimate
    )


@cache
def small(K=2, seed=0, **options):
    return world(seed, K=K, **{"m": 3, "G": 12, "lab_rows": 60, **options})


# -- against the model itself ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "n"),
    [({}, 60), ({"m": 8}, 60), ({"lab_rows": 10}, 60), ({"K": 3}, 40), ({"field_labels": 10}, 60)],
    ids=["binary", "eight_bins", "few_lab_labels", "three_classes", "field_labels"],
)
def test_intervals_cover_the_shares_of_groups_drawn_from_the_prior(options, n):
    """Each field has one set of variance components, so that its groups miss together: standard error about .015."""
    covered = []
    for seed in range(n):
        drawn = world(seed, **options)
        changes = ((POLICY.calibration_change[1] if drawn.counts.field.any() else 0.0,), (1.0,))
        lower, upper = interval(solved(drawn, seed, changes=changes).shares(), drawn.counts.V.sum(axis=1))
        covered.append(((lower <= drawn.truth) & (drawn.truth <= upper))[:, 1:].mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=max(0.035, 2.5 * np.std(covered) / np.sqrt(n)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shares_are_those_of_a_long_markov_chain_over_all_effects_and_components(seed):
    drawn = world(seed, m=2, G=6, lab_rows=60, spread=0.2, noise=0.02)
    mean, sd, error = chain(drawn, seed)
    found = solved(drawn, seed).shares()
    # The rows' own noise is not in the chain: the share of 400 rows has a standard deviation of .02 around the mean.
    own = np.sqrt(np.maximum(found.variances[0][:, 1] - 0.16 / 400, 1e-6))
    assert (error < 0.15 * sd).all(), "the chain is too short"
    # Six groups leave the variance components wide open: eight points and Laplace's method miss by .1 to .45 sd.
    assert (np.abs(found.estimate[:, 1] - mean) < 4 * error + 0.5 * sd).all()
    assert np.median(own / sd) == pytest.approx(1.0, abs=0.25)


def chain(drawn, seed, n=60_000, walkers=24):
    """Mean, standard deviation and Monte Carlo error of expected field shares, (G,), by random-walk Metropolis.

    Over β, log σ, log τ, common effects, and of each group t, u, e in lab and field and its scale: two classes, one
    hypothesis, two bins. Coordinates are standard normal before they are seen, but for the scale.
    """
    rng, counts = np.random.default_rng(seed), drawn.counts
    G, _, m = counts.shape
    logit = np.log(counts.base[:, 1] / counts.base[:, 0])
    slope = logit.copy()
    lo, hi = (np.array(x) for x in zip(*POLICY.components, strict=True))
    t_mean = np.stack([counts.t_lab.mean[:, 0], counts.t_field.mean[:, 0]])
    t_var = float(counts.t_lab.covariance[0, 0, 0])
    spread = 0.2
    values, weights = drawn.persistence.values, drawn.persistence.weights
    like = counts.lab.transpose(0, 2, 1)  # (G, m, K)
    share = counts.V / counts.V.sum(axis=1, keepdims=True)
    nu = POLICY.outlying_freedom
    shift_sd = np.sqrt(drawn.hypotheses[0].covariance[0, 0])
    atom = POLICY.label_shift_between
    # Of each walker: θ (3), atom, ρ, d (1 + m + 1), and of each group t (2), u (2), e (2m), log of the scale.
    D, own = 3 + m, 2 + 2 + 2 * m + 1

    def unpack(x):
        theta, d, g = x[:, :3], x[:, 3 : 3 + D], x[:, 3 + D :].reshape(len(x), G, own)
        return theta, d, g

    def state(x, flag, rho):
        theta, d, g = unpack(x)
        beta = np.where(flag, 1.0, np.logaddexp(0, 8 * (lo[0] + hi[0] * theta[:, 0])) / 8)
        sigma, tau = (
            np.where(flag, np.exp(-6), np.exp(np.clip(lo[i] + hi[i] * theta[:, i], -6, 2))) for i in (1, 2)
        )
        c = (
            POLICY.shift_sd * d[:, :1]
            + POLICY.calibration_slope * d[:, 1:2] * slope
            + POLICY.calibration_bin * d[:, 2 : 2 + m]
        )
        a = shift_sd * d[:, 2 + m]
        wide = np.exp(-0.5 * g[..., -1])
        r = np.sqrt(1 - rho**2)[:, None]
        t = np.sqrt(spread) * np.stack([g[..., 0], rho[:, None] * g[..., 0] + r * g[..., 1]])
        u = sigma[:, None] * wide * np.stack([g[..., 2], rho[:, None] * g[..., 2] + r * g[..., 3]])
        z = g[..., 4:-1].reshape(len(x), G, 2, m)
        e = (tau[:, None] * wide)[..., None] * np.stack(
            [z[:, :, 0], rho[:, None, None] * z[:, :, 0] + r[..., None] * z[:, :, 1]]
        )
        eta = [logit + c[:, None] + (beta[:, None] * t[f] + u[f])[..., None] + e[f] for f in (0, 1)]
        return t, eta[0], eta[1] + a[:, None, None]

    def log_density(x, flag, rho):
        _, _, g = unpack(x)
        t, lab, _ = state(x, flag, rho)
        total = -0.5 * (x[:, : 3 + D] ** 2).sum(axis=1) - 0.5 * (g[..., :-1] ** 2).sum(axis=(1, 2))
        s = g[..., -1]  # w = exp(s) ~ Gamma(ν/2, ν/2), with the Jacobian
        total += (0.5 * nu * s - 0.5 * nu * np.exp(s)).sum(axis=1)
        logs = log_softmax(np.stack([np.zeros_like(lab), lab], axis=-1), axis=-1)
        total += (like * logs).sum(axis=(1, 2, 3))
        # Offsets are posteriors of t under a normal prior with variance `spread`: the likelihood is their ratio.
        noise = 1 / (1 / t_var - 1 / spread)
        seen = t_mean * noise / t_var
        return total - 0.5 * ((t - seen[:, None]) ** 2).sum(axis=(0, 2)) / noise

    x = 0.1 * rng.standard_normal((walkers, 3 + D + G * own))
    flag, rho = rng.random(walkers) < atom, rng.choice(values, walkers, p=weights)
    now = log_density(x, flag, rho)
    blocks = [np.arange(3), np.arange(3, 3 + D), *(3 + D + i * own + np.arange(own) for i in range(G))]
    step, kept = np.full(len(blocks), 0.4), []
    for i in range(n // len(blocks)):
        for b, block in enumerate(blocks):
            new = x.copy()
            new[:, block] += step[b] * rng.standard_normal((walkers, len(block)))
            value = log_density(new, flag, rho)
            yes = np.log(rng.random(walkers)) < value - now
            x[yes], now[yes] = new[yes], value[yes]
            if i < 1000:
                step[b] *= np.exp(0.1 * (yes.mean() - 0.3))
        new_rho, new_flag = rng.choice(values, walkers, p=weights), rng.random(walkers) < atom
        for other in ((flag, new_rho), (new_flag, rho)):
            value = log_density(x, *other)
            yes = np.log(rng.random(walkers)) < value - now
            now = np.where(yes, value, now)
            flag, rho = np.where(yes, other[0], flag), np.where(yes, other[1], rho)
        if i >= 1500 and i % 5 == 0:
            kept.append(np.einsum("gj,wgj->wg", share, expit(state(x, flag, rho)[2])))
    kept = np.array(kept)
    return kept.mean(axis=(0, 1)), kept.std(axis=(0, 1)), kept.mean(axis=0).std(axis=0) / np.sqrt(walkers)


# -- limits ------------------------------------------------------------------------------------------------


@BOTH
def test_without_persistence_the_names_of_lab_groups_do_not_matter(K):
    drawn = small(K)
    renamed = drawn.counts
    order = np.roll(np.arange(len(renamed.lab)), 1)
    t_lab = renamed.t_lab.take(order)
    renamed = replace(renamed, lab=renamed.lab[order], t_lab=t_lab, known=renamed.known[order])
    one, two = solved(drawn, persistence=NONE), solved(drawn, counts=renamed, persistence=NONE)
    # Lab and field keep one scale, so that a group that is outlying in the lab is a little less sure in the field.
    assert_allclose(two.shares().estimate, one.shares().estimate, atol=5e-3)
    with_names, without = solved(drawn, persistence=ALL), solved(drawn, counts=renamed, persistence=ALL)
    assert np.abs(with_names.shares().estimate - without.shares().estimate).max() > 0.02


def alike(K, rows, *, off=0.8, G=12, seed=3, noisy=False):
    """Groups with the same histograms in lab and field, and a model that errs for each by an offset of its own."""
    rng = np.random.default_rng(seed)
    m, k = 3, K - 1
    base = 0.9 * rng.dirichlet(np.full(K, 2.0), m) + 0.1 / K
    share = rng.dirichlet(np.full(m, 4.0), G)
    p = softmax(
        np.log(base)[None] + np.insert(off * rng.normal(size=(G, k)), 0, 0.0, axis=1)[:, None], axis=2
    )
    lab = rows * (share[:, :, None] * p).swapaxes(1, 2)
    if noisy:
        lab = rng.poisson(lab).astype(float)
    nowhere = Offsets(np.zeros((G, k)), np.tile(1e-4 * np.eye(k), (G, 1, 1)))
    counts = Counts(base, lab, np.zeros_like(lab), 2000.0 * share, nowhere, nowhere, np.ones(G), np.ones(G))
    return counts, np.einsum("gj,gjk->gk", share, p)


@BOTH
def test_with_many_lab_labels_and_full_persistence_a_share_is_that_of_the_lab(K):
    counts, expected = alike(K, 20_000.0)
    certain = (Hypothesis("unchanged", 1.0, 1.0, np.zeros(K - 1), 1e-6 * unit(K - 1)),)
    found = posterior_of(Model(counts, certain, ALL)).shares()
    assert_allclose(found.estimate, expected, atol=0.005)
    mean_prediction = counts.V @ counts.base / 2000
    assert np.abs(mean_prediction - expected).max() > 0.1


@BOTH
def test_more_lab_labels_make_intervals_narrower(K):
    n = np.full(12, 2000.0)
    widths = []
    for rows in (10.0, 100.0, 1000.0):
        lower, upper = interval(posterior_of(Model(alike(K, rows)[0], still(K - 1), ALL)).shares(), n)
        widths.append((upper - lower).mean())
    assert widths[0] > 1.1 * widths[1] > 1.1 * 1.1 * widths[2]


@BOTH
def test_less_persistence_makes_intervals_wider(K):
    counts, _ = alike(K, 300.0)
    n, widths = np.full(12, 2000.0), []
    for rho in (0.0, 0.5, 0.95):
        given = Persistence(np.array([rho]), np.ones(1))
        lower, upper = interval(posterior_of(Model(counts, still(K - 1), given)).shares(), n)
        widths.append((upper - lower).mean())
    assert widths[0] > widths[1] > widths[2]


@BOTH
@pytest.mark.parametrize("field_labels", [0, 15])
def test_draws_have_the_mean_and_the_quantiles_of_shares(K, field_labels):
    drawn = small(K, field_labels=field_labels, G=6, hypotheses=still(K - 1))
    found = solved(drawn)
    draws, shares = found.draws(np.arange(6), 2000), found.shares()
    assert_allclose(draws.sum(axis=2), 1.0, atol=1e-9)
    sd = draws.std(axis=1)
    # Of 2000 draws the mean errs by .022 standard deviations; curvature within the normal is not in the estimate.
    assert (np.abs(draws.mean(axis=1) - shares.estimate) < 0.2 * sd + 0.003).all()
    assert_allclose(np.sqrt(shares.variances[0]), sd, rtol=0.25, atol=0.003)
    lower, upper = interval(shares, drawn.counts.V.sum(axis=1))
    inside = (draws >= lower[:, None]) & (draws <= upper[:, None])
    assert inside.mean() == pytest.approx(0.9, abs=0.03)


@BOTH
def test_draws_of_groups_that_may_not_have_the_calibration_of_the_lab_have_the_mean_and_width_of_shares(K):
    """Where labels contradict the model in all bins alike: half of the probability is on either calibration."""
    counts, _ = alike(K, 3000.0, off=0.05)
    lab = counts.lab.copy()
    lab[:, 0] *= 3.0
    counts = replace(counts, lab=lab, known=0 * counts.known, calibrated=np.full(12, 0.5))
    found = posterior_of(Model(counts, still(K - 1), NONE))
    draws, shares = found.draws(np.arange(3), 1000), found.shares()
    sure = posterior_of(Model(replace(counts, calibrated=np.ones(12)), still(K - 1), NONE)).shares()
    assert np.abs(sure.estimate - shares.estimate).max() > 0.05
    sd = draws.std(axis=1)
    assert (np.abs(draws.mean(axis=1) - shares.estimate[:3]) < 0.2 * sd + 0.003).all()
    assert_allclose(np.sqrt(shares.variances[0])[:3], sd, rtol=0.25)


def test_draws_of_a_group_do_not_depend_on_which_groups_are_drawn():
    found = solved(small())
    assert (found.draws(np.array([4]), 40)[0] == found.draws(np.arange(6), 40)[4]).all()


@BOTH
def test_the_whole_is_the_mean_of_groups_weighted_by_rows(K):
    drawn = small(K)
    V = drawn.counts.V * np.arange(1, 13)[:, None]
    found = solved(drawn, counts=replace(drawn.counts, V=V))
    expected = V.sum(axis=1) @ found.shares().estimate / V.sum()
    assert_allclose(found.whole().estimate[0], expected, atol=1e-12)


@BOTH
def test_classes_by_bin_give_the_whole(K):
    drawn = small(K)
    found = solved(drawn)
    V = drawn.counts.V.sum(axis=0)
    assert_allclose(V @ found.classes_by_bin() / V.sum(), found.whole().estimate[0], atol=1e-9)


def test_field_labels_decide_between_the_hypotheses():
    right = {}
    for name, mean in (("label_shift", 0.8), ("unchanged", 0.0)):
        truth = (Hypothesis(name, 1.0, 1.0, np.array([mean]), np.array([[1e-4]])),)
        drawn = world(5, m=3, G=10, field_labels=60, hypotheses=truth)
        given = (
            Hypothesis("label_shift", 0.5, 0.5, np.array([2.0]), np.array([[0.01]])),
            Hypothesis("unchanged", 0.5, 0.5, np.zeros(1), np.array([[0.01]])),
        )
        if name == "label_shift":
            truth = (replace(truth[0], mean=np.array([2.0])),)
            drawn = world(5, m=3, G=10, field_labels=60, hypotheses=truth)
        found = solved(drawn, hypotheses=given)
        right[name] = found.weight(name)
        assert solved(small(), hypotheses=given).weight(name) == pytest.approx(0.5)  # no field labels
    assert min(right.values()) > 0.8


def test_one_group_whose_labels_contradict_everything_hardly_harms_the_others():
    errors = []
    for seed in range(5):
        counts, truth = alike(2, 200.0, off=0.2, G=30, seed=seed, noisy=True)
        one = posterior_of(Model(counts, still(1), ALL)).shares().estimate
        lab = counts.lab.copy()
        lab[0] = 200 * counts.V[0] / counts.V[0].sum() * np.array([[0.01], [0.99]])
        odd = posterior_of(Model(replace(counts, lab=lab), still(1), ALL)).shares().estimate
        assert odd[0, 1] > 0.85
        assert np.abs(odd[1:] - one[1:]).mean() < 0.01
        errors.append([np.abs(found - truth)[1:].mean() for found in (one, odd)])
    without, beside = np.mean(errors, axis=0)
    assert beside < 1.15 * without


# -- parts -------------------------------------------------------------------------------------------------


def test_expected_softmax_of_two_classes_is_that_of_gauss_hermite():
    x, w = np.polynomial.hermite_e.hermegauss(60)
    for mean in (-2.0, 0.0, 0.7):
        for sd in (0.1, 0.5, 1.0):
            expected = (w / w.sum()) @ expit(mean + sd * x)
            found = expected_softmax(np.array([mean]), np.array([[sd**2]]))
            assert found.sum() == pytest.approx(1.0)
            # Three nodes are exact to polynomials of degree five; the seventh moment enters with sd⁶.
            assert found[1] == pytest.approx(expected, abs=5e-3 * sd**6 + 1e-6)


@pytest.mark.parametrize(("k", "tolerance"), [(2, 2e-3), (3, 0.01)])
def test_expected_softmax_of_more_classes_is_that_of_gauss_hermite(k, tolerance):
    x, w = np.polynomial.hermite_e.hermegauss(20)
    grid = np.stack(np.meshgrid(*[x] * k, indexing="ij"), axis=-1).reshape(-1, k)
    weight = np.prod(np.meshgrid(*[w / w.sum()] * k, indexing="ij"), axis=0).ravel()
    mean, covariance = np.linspace(-1.0, 0.8, k), 0.5 * unit(k)
    points = mean + grid @ np.linalg.cholesky(covariance).T
    expected = weight @ softmax(np.column_stack([np.zeros(len(points)), points]), axis=1)
    plain = softmax(np.append(0.0, mean))
    assert_allclose(expected_softmax(mean, covariance), expected, atol=tolerance)
    assert np.abs(plain - expected).max() > 2 * tolerance or k == 3


def test_offsets_of_two_classes_are_moments_of_logarithms_of_beta_draws():
    rng = np.random.default_rng(0)
    p, sd = np.array([[0.7, 0.3], [0.95, 0.05]]), np.array([0.1, 0.02])
    base = np.array([0.6, 0.4])
    found = Offsets.of(p, np.column_stack([sd, sd]), base)
    for g in range(2):
        strength = p[g, 0] * p[g, 1] / sd[g] ** 2 - 1
        x = rng.beta(p[g, 1] * strength, p[g, 0] * strength, 400_000)
        logs = np.log(x / (1 - x)) - np.log(base[1] / base[0])
        assert found.mean[g, 0] == pytest.approx(logs.mean(), abs=0.01)
        assert found.covariance[g, 0, 0] == pytest.approx(logs.var(), rel=0.02)


def test_an_unknown_offset_is_zero_without_an_error():
    found = Offsets(np.ones((2, 1)), np.ones((2, 1, 1))).take(np.array([1, -1]))
    assert found.mean.tolist() == [[1.0], [0.0]]
    assert found.covariance.tolist() == [[[1.0]], [[0.0]]]


def seen(rho, *, n=80, K=2, noise=0.01, seed=0):
    """Deviations of the mean predictions of groups in lab and field, with noise."""
    rng = np.random.default_rng(seed)
    one, two = rng.normal(size=(2, n, K - 1))
    pair = 0.15 * one, 0.15 * (rho * one + np.sqrt(1 - rho**2) * two)
    full = [
        np.column_stack([-z.sum(axis=1), z])
        for z in (x + np.sqrt(noise) * 0.3 * rng.normal(size=x.shape) for x in pair)
    ]
    return [(z, np.full(z.shape, noise * 0.09)) for z in full]


@BOTH
def test_persistence_is_near_none_for_groups_drawn_anew_and_near_all_for_the_same(K):
    assert persistence(*seen(0.0, K=K)).mean < 0.12
    assert persistence(*seen(0.97, K=K)).mean > 0.85
    assert 0.3 < persistence(*seen(0.55, n=200, K=K)).mean < 0.8


def test_of_two_groups_persistence_is_that_of_the_prior_and_a_given_one_is_kept():
    values, weights = (np.array(x) for x in POLICY.persistence)
    assert persistence(*seen(0.0, n=2)).mean == pytest.approx(values @ weights)
    given = persistence(*seen(0.0), given=0.4)
    assert given.mean == 0.4
    assert len(given.values) == 1


def test_a_model_without_any_label_has_the_mean_prediction_and_wide_intervals():
    drawn = small()
    nothing = replace(drawn.counts, lab=0 * drawn.counts.lab, known=0 * drawn.counts.known)
    zero = Offsets(0 * nothing.t_lab.mean, nothing.t_lab.covariance)
    found = solved(drawn, counts=replace(nothing, t_lab=zero, t_field=zero)).shares()
    mean_prediction = nothing.V @ nothing.base / nothing.V.sum(axis=1, keepdims=True)
    assert_allclose(found.estimate, mean_prediction, atol=0.05)
    lower, upper = interval(found, nothing.V.sum(axis=1))
    known = interval(solved(drawn).shares(), nothing.V.sum(axis=1))
    assert (upper - lower).mean() > (known[1] - known[0]).mean()
