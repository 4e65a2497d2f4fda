"""Labelled rows of the field: one posterior of three explanations, against independent computations of the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax
from scipy.stats import norm

from fieldcal.core.explanations import Belief, centred
from fieldcal.core.labelled_rows import Base, ByClass, Explanation, LabelledRows
from fieldcal.core.labels import Model
from fieldcal.core.log_odds import against_first, precisions, with_first
from fieldcal.core.reweight import matched_tilt
from fieldcal.core.trust import Trust

RNG = np.random.default_rng(0)


def base(K=3, m=6, rows=4000):
    rng = np.random.default_rng(K * m)
    centres = rng.dirichlet(np.ones(K), size=m)
    F = rows / m * centres.T
    return Base.of(F, centres, np.full(m, 1000.0))


def belief(K=3, G=1, *, moved=True, trust=None, **options):
    rng = np.random.default_rng(1)
    p_lab, whole = np.full(K, 1 / K), np.arange(K, 0, -1) ** 2.0 / sum(k**2 for k in range(1, K + 1))
    urc = rng.dirichlet(40 * whole, size=G) if G > 1 else whole[None]
    trust = Trust(0.4, 0.5) if trust is None else trust
    sd = np.full((G, K), 0.02)
    return Belief(p_lab, urc, sd, whole, sd[0], trust, moved=moved, grouped=G > 1, **options)


def labelled(counts, by_class=None):
    counts = np.asarray(counts, dtype=float)
    by_class = np.zeros(counts.shape) if by_class is None else np.asarray(by_class, dtype=float)
    return LabelledRows(np.arange(len(counts)), counts, by_class)


def drawn(model, tilt, n, seed=0):
    """Labels of n rows per group, drawn at random, (G, K, m), if the tilt is this."""
    rng, G = np.random.default_rng(seed), len(model.V)
    Q = softmax(model.base.logs + np.asarray(tilt), axis=1)
    counts = np.zeros((G, *Q.T.shape))
    for g in range(G):
        bins = rng.choice(len(Q), size=n, p=model.V[g] / model.V[g].sum())
        for j in bins:
            counts[g, rng.choice(Q.shape[1], p=Q[j]), j] += 1
    return counts


def model(counts=None, *, K=3, m=6, G=1, by_class=None, n=5000.0):
    b = base(K, m)
    V = np.random.default_rng(2).dirichlet(np.full(m, 20.0), size=G) * n
    none = np.zeros((G, K, m))
    labels = labelled(none if counts is None else counts, by_class)
    return Model(b, V, labels, grouped=G > 1)


def test_independent_effects_against_the_first_class_have_the_covariance_of_differences():
    variance = RNG.uniform(0.1, 2.0, (5, 4))
    for own, v in zip(precisions(variance), variance, strict=True):
        differences = np.hstack([-np.ones((3, 1)), np.eye(3)])
        assert_allclose(np.linalg.inv(own), differences @ np.diag(v) @ differences.T, rtol=1e-9)
    logs = RNG.normal(size=(7, 4))
    assert_allclose(softmax(with_first(against_first(logs)), axis=1), softmax(logs, axis=1))


def test_one_bin_of_two_classes_is_the_mixture_that_integrals_give():
    """One log-odds, three normal beliefs about it, binomial labels: everything can be integrated."""
    F, labels, n = np.array([[600.0], [400.0]]), np.array([[[6.0], [24.0]]]), 10_000.0
    b = Base.of(F, np.array([[0.6, 0.4]]), np.array([n]))
    # The realised share of the rows without a label is their probability, with so many of them.
    found = Model(b, np.array([[n]]), labelled(labels), grouped=False)
    told = [
        Explanation("label_shift", 0.4, np.array([[-0.5, 0.5]]), np.full(2, 0.02), None, 0.1),
        Explanation("same", 0.4, np.zeros((1, 2)), np.full(2, 0.01), None, 0.1),
        Explanation("other", 0.2, np.array([[-0.25, 0.25]]), np.full(2, 0.5), None, 0.4),
    ]
    learnt = found.learn(told)
    evidence, means = [], []
    for x in told:
        centre = (b.logs[0, 1] - b.logs[0, 0]) + x.tilt[0, 1] - x.tilt[0, 0]
        sd = np.sqrt(x.variance.sum() + (x.off**2 + b.noise[0]).sum())

        def weight(z, power=0, centre=centre, sd=sd):
            p = expit(z)
            return p**power * p**24 * (1 - p) ** 6 * norm.pdf(z, centre, sd)

        ends = (centre - 10 * sd, centre + 10 * sd)
        total = quad(weight, *ends, points=[centre, 1.4])[0]
        evidence.append(x.weight * total)
        means.append(quad(weight, *ends, (1,), points=[centre, 1.4])[0] / total)
    weights = np.array(evidence) / sum(evidence)
    assert_allclose([learnt.weight(x.kind) for x in told], weights, atol=0.01)
    known = 24 / n
    expected = weights @ (np.array(means) * (1 - 30 / n) + known)
    assert learnt.shares().mean[0, 1] == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("K", [2, 3])
def test_with_many_labels_the_estimate_is_the_share_of_labels_poststratified_by_score(K):
    plain = model(K=K)
    tilt = np.linspace(-1.0, 1.0, K)
    counts = 2000 * softmax(plain.base.logs + tilt, axis=1).T[None]
    rich = model(counts, K=K, n=1e7)
    found = rich.learn(belief(K).explanations()).shares()
    v = rich.V[0] / rich.V[0].sum()
    assert_allclose(found.mean[0], v @ (counts[0] / counts[0].sum(axis=0)).T, atol=2e-3)
    lower, upper = found.interval(0.9)
    assert (upper - lower).max() < 0.03


def test_without_labels_nothing_is_learnt_and_many_say_which_explanation_holds():
    told = belief(2)
    urc = centred(told.whole, told.p_lab)
    for kind, tilt in (("label_shift", urc), ("same", 0 * urc)):
        rich = model(drawn(model(K=2), tilt, 800), K=2)
        assert rich.learn(told.explanations()).weight(kind) > 0.8
    told = belief(3)
    learnt = model().learn(told.explanations())
    for kind in ("label_shift", "same", "other"):
        before = sum(x.weight for x in told.explanations() if x.kind == kind)
        assert learnt.weight(kind) == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize("G", [1, 5])
def test_names_of_the_classes_do_not_matter(G):
    K, order = 3, [2, 0, 1]
    counts = drawn(model(G=G), [0.3, -0.2, 0.1], 40)
    told = belief(K, G)
    one = model(counts, G=G).learn(told.explanations()).shares()
    b = base()
    mixed = Base(b.logs[:, order], b.noise[:, order], b.slope[:, order], b.centres[:, order])
    vectors = (x[..., order] for x in (told.p_lab, told.urc, told.sd, told.whole, told.whole_sd))
    other = Belief(*vectors, told.trust, moved=True, grouped=G > 1)
    renamed = Model(mixed, model(G=G).V, labelled(counts[:, order]), grouped=G > 1)
    two = renamed.learn(other.explanations()).shares()
    assert_allclose(two.mean, one.mean[:, order], atol=1e-4)
    assert_allclose(two.interval(0.9), np.asarray(one.interval(0.9))[..., order], atol=1e-3)


@pytest.mark.parametrize(("K", "G"), [(2, 1), (3, 1), (2, 6), (3, 4)])
def test_intervals_are_the_quantiles_of_joint_draws(K, G):
    counts = drawn(model(K=K, G=G), np.linspace(-0.4, 0.4, K), 30)
    learnt = model(counts, K=K, G=G, n=3000.0).learn(belief(K, G).explanations())
    draws = learnt.draws(np.arange(G), 4000, np.random.default_rng(0))
    found = learnt.shares()
    assert_allclose(draws.sum(axis=2), 1.0)
    assert_allclose(draws.mean(axis=1), found.mean, atol=0.015)
    lower, upper = found.interval(0.9)
    assert_allclose(np.quantile(draws, 0.05, axis=1), lower, atol=0.03)
    assert_allclose(np.quantile(draws, 0.95, axis=1), upper, atol=0.03)


def test_the_whole_field_is_the_groups_together():
    G = 5
    counts = drawn(model(K=2, G=G), [-0.3, 0.3], 20)
    counts[3] = 0  # a group without labels
    at = np.array([0, 1, 2, 4])
    rich = Model(base(2), model(K=2, G=G).V, LabelledRows(at, counts[at], 0 * counts[at]), grouped=True)
    learnt = rich.learn(belief(2, G).explanations())
    whole, each, n = learnt.whole_shares(), learnt.shares(), rich.V.sum(axis=1)
    assert_allclose(whole.mean[0], n @ each.mean / n.sum(), rtol=1e-9)
    draws = learnt.draws(np.arange(G), 4000, np.random.default_rng(0))
    together = np.einsum("g,gdk->dk", n / n.sum(), draws)
    lower, upper = whole.interval(0.9)
    assert_allclose(np.quantile(together, [0.05, 0.95], axis=0), [lower[0], upper[0]], atol=0.02)


def test_explanations_that_are_not_pursued_have_no_weight():
    G = 8
    counts = drawn(model(K=2, G=G), [-0.6, 0.6], 400)
    rich, told = model(counts, K=2, G=G), belief(2, G).explanations()
    learnt = rich.learn(told)
    logs = np.array([np.log(x.weight) + rich.fitted(x).log_evidence for x in told])
    for kind in ("label_shift", "same", "other"):
        exact = softmax(logs)[[x.kind == kind for x in told]].sum()
        assert learnt.weight(kind) == pytest.approx(exact, abs=2e-3)
    assert len(learnt.pieces) < len(told)


def test_groups_with_labels_listen_to_them_and_groups_without_learn_from_the_others():
    G, K = 6, 2
    told = belief(K, G, trust=Trust(0.0, 0.0))
    counts = drawn(model(K=K, G=G), [-0.8, 0.8], 80)
    counts[0] = drawn(model(K=K, G=G), [0.8, -0.8], 80)[0]
    counts[5] = 0
    at = np.arange(5)
    V = model(K=K, G=G).V
    few = Model(base(K), V, LabelledRows(at, counts[at], 0 * counts[at]), grouped=True)
    found = few.learn(told.explanations()).shares().mean[:, 1]
    unmoved = (V / V.sum(axis=1, keepdims=True)) @ softmax(base(K).logs, axis=1)[:, 1]
    assert found[0] < unmoved[0] - 0.03
    assert (found[1:5] > unmoved[1:5] + 0.05).all()
    assert found[5] > unmoved[5] + 0.03


def test_the_gradient_of_rows_chosen_by_class_is_that_of_their_likelihood():
    m, K = 6, 3
    rich = model(K=K, by_class=RNG.poisson(4.0, (1, K, m)))
    Z, v = rich.all_Z, rich.V[0]
    term = ByClass(rich.labels.by_class[0], np.log(v), rich.base.logs, Z)
    d = 0.3 * RNG.normal(size=Z.shape[2])
    gradient, information = term.slopes(d)
    assert_allclose(gradient, approx_fprime(d, term.value, 1e-7), atol=1e-4)
    assert np.linalg.eigvalsh(information).min() > -1e-9


def test_many_rows_chosen_by_class_find_the_shares_that_histograms_and_they_imply():
    """Half of each class: their histograms are P(bin | class) in the field, whatever the lab says."""
    K, m = 2, 6
    M = np.array([[0.4, 0.25, 0.15, 0.1, 0.06, 0.04], [0.02, 0.05, 0.1, 0.18, 0.25, 0.4]])
    p = np.array([0.8, 0.2])
    b = base(K, m)
    V = 1e5 * (p @ M)[None]
    rich = Model(b, V, labelled(np.zeros((1, K, m)), 3000 * M[None]), grouped=False)
    found = rich.learn(belief(K, by_class=True).explanations()).shares()
    assert_allclose(found.mean[0], p, atol=0.02)
    lower, upper = found.interval(0.9)
    assert lower[0, 1] < 0.2 < upper[0, 1]


def test_rows_chosen_by_class_in_equal_numbers_are_no_sample_of_the_shares():
    K, m = 2, 6
    rich = model(drawn(model(K=K), [0.7, -0.7], 0), K=K, by_class=np.full((1, K, m), 10.0))
    random = model(np.full((1, K, m), 10.0), K=K)
    told = belief(K).explanations()
    by_class, as_random = (x.learn(told).shares().mean[0, 1] for x in (rich, random))
    assert abs(as_random - 0.5) < 0.06  # taken for a random sample, half of each class says one half
    assert abs(by_class - as_random) > 0.05


def test_a_matched_tilt_makes_the_mean_prediction_the_share():
    for K in (2, 4):
        rng = np.random.default_rng(3)
        centres, V = rng.dirichlet(np.ones(K), size=9), rng.integers(1, 100, (50, 9)).astype(float)
        shares = rng.dirichlet(np.full(K, 2.0), size=50)
        tilt = matched_tilt(centres, V, shares)
        Q = softmax(np.log(centres) + tilt[:, None, :], axis=2)
        assert_allclose(np.einsum("gj,gjk->gk", V / V.sum(axis=1, keepdims=True), Q), shares, atol=1e-7)


def test_the_weights_of_explanations_sum_to_one_and_a_caller_who_is_sure_leaves_one():
    for G in (1, 7):
        for moved in (False, True):
            assert sum(x.weight for x in belief(3, G, moved=moved).explanations()) == pytest.approx(1.0)
    told = belief(3, trust=Trust(1.0, 1.0, set_by_caller=True)).explanations()
    assert {x.kind for x in told} == {"label_shift"}
    told = belief(3, trust=Trust(0.0, 0.0, set_by_caller=True)).explanations()
    assert {x.kind for x in told} == {"same"}
