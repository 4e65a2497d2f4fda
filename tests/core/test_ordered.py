"""Classes with an order: neighbours inform each other, and a field that has not moved is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.metrics import log_loss

import fieldcal
from fieldcal.core.ordered import (
    Order,
    Shape,
    approximate_ordered_mean,
    field_steps,
    group_steps,
    order_of,
    ordered_mode,
    smooth_draws,
    walk,
)
from fieldcal.core.partition import Expected, ExpectedEdges
from fieldcal.core.posterior_mcmc import conditional_mode, make_target
from fieldcal.core.problem import Squares
from fieldcal.core.response import auto_smoothing, response_matrix, smoothing_cells
from fieldcal.errors import InputError


def world(n_lab=4000, n=4000, mean=0.0, sd=1.0, K=8, seed=0):
    """Numbers, seen through noise; a calibrated predictor of their intervals. The field has other numbers."""
    rng = np.random.default_rng(seed)
    lab, field = rng.standard_normal(n_lab), mean + sd * rng.standard_normal(n)
    cuts = norm.ppf(np.arange(1, K) / K)
    b, s = 1 / 1.49, np.sqrt(1 - 1 / 1.49)

    def masses(y):
        x = y + 0.7 * rng.standard_normal(len(y))
        inner = norm.cdf((cuts - b * x[:, None]) / s)
        return np.diff(np.column_stack([np.zeros(len(x)), inner, np.ones(len(x))]), axis=1)

    return (masses(lab), np.searchsorted(cuts, lab)), (masses(field), np.searchsorted(cuts, field))


def counted(seed=0, **options):
    (C, y), (D, z) = world(seed=seed, **options)
    K = C.shape[1]
    partition = Expected(12).fit(C, y, K)
    F = np.zeros((K, partition.m))
    np.add.at(F, (y, partition.assign(C)), 1)
    V = np.bincount(partition.assign(D), minlength=partition.m).astype(float)
    return (
        F + smoothing_cells(F, auto_smoothing(F)),
        V,
        F.sum(axis=1) / F.sum(),
        np.bincount(z, minlength=K) / len(z),
    )


def target(seed=0, terms=()):
    rng = np.random.default_rng(seed)
    S, K, m, B = 2, 5, 7, 3
    M = rng.dirichlet(np.ones(m), size=(S, K))
    V = rng.integers(0, 50, (B, m)).astype(float)
    log_centre = np.log(rng.dirichlet(np.ones(K), size=(S, 1)))
    order = Order(log_centre, np.array([3.0, 7.0])[:, None, None], Shape(0.4, 0.2))
    return make_target(M, V, np.full((S, K), 1e-6), order=order, terms=terms), rng.standard_normal((S, B, K))


@pytest.mark.parametrize("terms", [(), (Squares(40.0),)], ids=["walk", "walk and continuity"])
def test_the_gradient_is_that_of_the_density_and_the_curvature_is_positive(terms):
    found, x = target(terms=terms)
    numeric = np.empty_like(x)
    for k in range(x.shape[-1]):
        e = 1e-5 * np.eye(x.shape[-1])[k]
        numeric[..., k] = (found.value(x + e) - found.value(x - e)) / 2e-5
    assert_allclose(found.gradient(x), numeric, atol=1e-6)
    assert np.linalg.eigvalsh(found.information(x)).min() > 0


@pytest.mark.parametrize("continuity", [0.0, 300.0])
def test_the_mode_is_where_a_general_optimiser_finds_it(continuity):
    A, V, p_lab, _ = counted(mean=0.6)
    M, alpha = A / A.sum(axis=1, keepdims=True), 5.0 * p_lab
    shape = Shape(0.5, 0.3)
    found = ordered_mode(M[None], V[None], alpha, shape)
    if continuity:  # the two together are a density like any other
        order, terms = order_of(alpha[None], shape), (Squares(continuity),)
        both = make_target(M[None], V[None], np.full((1, len(M)), 1e-6), order=order, terms=terms)
        x, _, _ = conditional_mode(both, max_iter=200, tolerance=1e-8)
        mode = np.exp(x[0, 0] - np.logaddexp.reduce(x[0, 0]))
    else:
        assert found.converged.all()
        mode = found.p[0]
    path = walk(len(M), shape)
    believed = np.linalg.pinv(path @ path.T)

    def loss(x):
        p = np.exp(x - np.logaddexp.reduce(x))
        steps = x - np.log(p_lab) - (x - np.log(p_lab))[0]
        prior = 0.5 * 5.0 * steps @ believed @ steps + continuity * (np.diff(p) ** 2).sum()
        return -V @ np.log(p @ M) + prior + 0.5 * len(x) * x.mean() ** 2

    best = minimize(loss, np.log(p_lab), method="BFGS", options={"gtol": 1e-6})
    p = np.exp(best.x - np.logaddexp.reduce(best.x))
    assert_allclose(mode, p, atol=2e-5)


def test_without_movement_the_steps_are_small_and_with_it_they_are_large():
    A, V, p_lab, _ = counted()
    still = field_steps(A, V, p_lab=p_lab).typical
    A, V, p_lab, _ = counted(mean=0.8, sd=0.7)
    assert field_steps(A, V, p_lab=p_lab).typical > 4 * still


def wandering(size, roughness, n, p_lab, rng):
    """Prevalences (n, K) after walks of a known size and roughness."""
    x = size * rng.standard_normal((n, len(p_lab) - 1)) @ walk(len(p_lab), Shape(roughness)).T
    p = p_lab * np.exp(x)
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "roughness"), [(0.1, 0.1), (0.5, 0.1), (0.2, 1.0)])
def test_the_size_and_roughness_of_a_known_walk_are_found(size, roughness):
    rng = np.random.default_rng(0)
    A, _, p_lab, _ = counted(n_lab=50_000)
    M = A / A.sum(axis=1, keepdims=True)
    found = []
    for p in wandering(size, roughness, 30, p_lab, rng):
        found.append(field_steps(A, rng.multinomial(20_000, p @ M).astype(float), p_lab=p_lab))
    assert 0.6 < np.exp(np.mean([np.log(f.typical) for f in found])) / size < 1.7
    assert (np.median([f.shape.roughness + f.shape.nugget for f in found]) >= 0.3) == (roughness >= 0.3)


@pytest.mark.parametrize(("size", "roughness"), [(0.05, 0.1), (0.15, 0.1), (0.1, 1.0)])
def test_groups_that_walk_around_the_whole_are_found_to(size, roughness):
    rng = np.random.default_rng(1)
    A, _, p_lab, _ = counted(n_lab=50_000)
    M = A / A.sum(axis=1, keepdims=True)
    p = wandering(size, roughness, 300, p_lab, rng)
    V = np.array([rng.multinomial(400, row @ M) for row in p]).astype(float)
    assert 0.6 < group_steps(A, V, p.mean(axis=0), rng).typical / size < 1.5


def test_draws_have_the_mode_inside_and_narrow_with_rows():
    A, V, p_lab, _ = counted(mean=0.5)
    M = np.broadcast_to(A / A.sum(axis=1, keepdims=True), (16, *A.shape))
    widths = []
    for factor in (0.1, 1.0, 10.0):
        alpha = np.repeat(4.0 * p_lab[None], 16, axis=0)
        draws = smooth_draws(M, factor * V[None], alpha, np.random.default_rng(0), per_draw=8)[0]
        assert_allclose(draws.sum(axis=1), 1)
        mode = ordered_mode(M[:1], factor * V[None], 4.0 * p_lab).p[0]
        assert (np.abs(draws.mean(axis=0) - mode) < 3 * draws.std(axis=0)).all()
        widths.append(draws.std(axis=0).mean())
    assert widths[0] > widths[1] > widths[2]


def test_the_stand_in_of_rehearsals_is_near_the_posterior():
    A, V, p_lab, truth = counted(mean=0.5, sd=0.9)
    common, each = approximate_ordered_mean(A, np.stack([V, V]), p_lab=p_lab)
    assert np.abs(common - truth).mean() < 0.5 * np.abs(p_lab - truth).mean()
    assert_allclose(each[0], each[1])
    assert (each > 0).all()


def estimated(ordered=True, seed=0, groups=None, **options):
    (C, y), (D, z) = world(seed=seed, **options)
    lab = fieldcal.learn(C, y, ordered=ordered)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, D, groups=groups), trust=1)
    return prev, D, z


@pytest.mark.parametrize("seed", range(3))
def test_a_field_that_has_not_moved_loses_next_to_nothing(seed):
    prev, D, z = estimated(seed=seed)
    assert prev.prior["name"] == "smooth"
    change = log_loss(z, fieldcal.recalibrate(prev, D)) - log_loss(z, D)
    assert change < 0.002


@pytest.mark.slow
def test_a_field_that_has_moved_gains_and_the_truth_is_approached_as_it_grows():
    gains, errors = [], []
    inner = norm.cdf((norm.ppf(np.arange(1, 8) / 8) - 0.6) / 0.9)
    truth = np.diff(np.concatenate([[0.0], inner, [1.0]]))
    for n in (100, 1000, 10_000):
        found = [estimated(n=n, n_lab=2 * n, mean=0.6, sd=0.9, seed=seed) for seed in range(4)]
        gains.append(
            np.mean([log_loss(z, D) - log_loss(z, fieldcal.recalibrate(prev, D)) for prev, D, z in found])
        )
        errors.append(np.mean([np.abs(prev.urc[0] - truth).mean() for prev, _, _ in found]))
    assert gains[1] > 0.04
    assert gains[2] > 0.055
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01


@pytest.mark.slow
def test_small_groups_do_better_with_an_order_than_without():
    errors, means = {}, np.linspace(-1, 1, 12)
    for ordered in (True, False):
        found = []
        for seed in range(3):
            (C, y), _ = world(seed=seed, K=12)
            fields = [world(n=60, mean=m, seed=seed + i, K=12)[1] for i, m in enumerate(means)]
            lab = fieldcal.learn(C, y, ordered=ordered)
            D = np.concatenate([f[0] for f in fields])
            prev = fieldcal.estimate(lab, fieldcal.count(lab, D, groups=np.arange(720) // 60), trust=1)
            truth = np.array([np.bincount(f[1], minlength=12) / 60 for f in fields])
            found.append(np.abs(prev.urc - truth).mean())
        errors[ordered] = np.mean(found)
    assert errors[True] < 0.9 * errors[False]


def test_two_classes_have_no_order_to_speak_of():
    data = fieldcal.datasets.label_shift(n_lab=1000, n_field=500, n_groups=3)
    found = []
    for ordered in (True, False):
        lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=ordered)
        field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
        found.append(fieldcal.estimate(lab, field, trust=1))
    np.testing.assert_array_equal(found[0].urc, found[1].urc)
    np.testing.assert_array_equal(found[0].lower, found[1].lower)
    assert found[0].prior["name"] == "pooled"


@pytest.mark.parametrize("prior", ["smooth", "continuity", fieldcal.priors.Continuity(500)])
def test_an_estimate_of_ordered_classes_survives_a_file_with_its_draws(prior, tmp_path):
    (C, y), (D, _) = world(n=300, K=5)
    lab = fieldcal.learn(C, y, ordered=True)
    field = fieldcal.count(lab, D, groups=np.arange(300) % 3)
    prev = fieldcal.estimate(lab, field, prior=prior, trust=1)
    prev.save(tmp_path / "prev.json")
    again = fieldcal.Prevalence.load(tmp_path / "prev.json")
    assert again == prev
    assert again.lab.ordered
    np.testing.assert_array_equal(again.draws([1, 0]), prev.draws([1, 0]))
    assert ((prev.lower <= prev.urc) & (prev.urc <= prev.upper)).all()


def test_the_papers_continuity_term_draws_neighbours_together_and_labels_are_believed():
    (C, y), (D, _) = world(n=300, K=5)
    lab = fieldcal.learn(C, y, ordered=True)
    field = fieldcal.count(lab, D)
    roughness = [
        np.square(
            np.diff(fieldcal.estimate(lab, field, prior=fieldcal.priors.Continuity(s), trust=1).urc)
        ).sum()
        for s in (0, 100, 10_000)
    ]
    assert roughness[0] > roughness[1] > roughness[2]
    assert roughness[2] < 1e-3
    (C, y), (D, _) = world(n=200, K=5)
    lab = fieldcal.learn(C, y, ordered=True)
    plain, many = (
        fieldcal.estimate(lab, fieldcal.count(lab, D, y=known)) for known in (None, np.full(len(D), 2))
    )
    assert many.estimate[0, 2] > max(0.8, plain.estimate[0, 2])


def test_bins_of_the_expected_value_are_filled_alike_and_follow_the_values():
    rng = np.random.default_rng(0)
    C, y = rng.dirichlet(np.ones(8), size=4000), rng.integers(0, 8, 4000)
    partition = Expected(10).fit(C, y, 8)
    assert np.ptp(np.bincount(partition.assign(C))) <= 1
    place = C @ np.arange(8)
    assert (np.diff(place[np.lexsort((place, partition.assign(C)))]) >= -1e-12).all()
    other = Expected(10, values=(0, 1, 2, 3, 4, 5, 6, 100)).fit(C, y, 8)
    assert other.values[-2:] == (0.06, 1.0)
    assert (other.assign(C) != partition.assign(C)).any()


def test_bins_of_the_expected_value_refuse_what_makes_no_sense():
    eye = np.eye(3)
    for call in (
        *(lambda: Expected(0), lambda: Expected(3, values=(1, 1, 1)).fit(eye, np.arange(3), 3)),
        *(
            lambda: Expected(3, values=(1, 2)).fit(eye, np.arange(3), 3),
            lambda: ExpectedEdges((0, 2), (0.5,)),
        ),
        *(lambda: ExpectedEdges((0, 1), (0.5, 0.5)), lambda: ExpectedEdges((0, 1), (0.5,)).assign(eye)),
    ):
        with pytest.raises(InputError):
            call()


def test_the_response_matrix_of_ordered_classes_is_one_like_any_other_and_text_needs_an_order():
    (C, y), _ = world()
    lab = fieldcal.learn(C, y, ordered=True)
    assert_allclose(lab.M, response_matrix(lab.F, smoothing=lab.smoothing))
    assert (lab.partition.kind, lab.n_bins) == ("expected", 12)
    (C, y), _ = world(n=200, K=3)
    names = np.array(["low", "mid", "high"])
    with pytest.raises(InputError, match="needs the order of the classes, but they are text"):
        fieldcal.learn(C, names[y], ordered=True)
    lab = fieldcal.learn(C, names[y], classes=["low", "mid", "high"], ordered=True)
    assert lab.classes == ("low", "mid", "high")
    assert_allclose(lab.F, fieldcal.learn(C, y, ordered=True).F)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
@pytest.mark.parametrize("shift", ["none", "slope", "curve"])
def test_intervals_of_shifts_that_are_smooth_cover_what_they_say(shift):
    """The field outweighs the lab here: what draws of M leave out of the doubt is put back into the centre."""
    K, rng = 6, np.random.default_rng(0)
    place = np.arange(K) / (K - 1) - 0.5
    p_lab = np.exp(-4 * place**2)
    p_lab /= p_lab.sum()
    p = p_lab * np.exp({"none": 0 * place, "slope": 2 * place, "curve": 6 * place**2}[shift])
    p /= p.sum()

    def draw(prevalence, n):
        y = rng.choice(K, size=n, p=prevalence)
        C = p_lab * norm.pdf(y[:, None] + rng.standard_normal((n, 1)) - np.arange(K))
        return C / C.sum(axis=1, keepdims=True), y

    covered = []
    for _ in range(20):
        lab = fieldcal.learn(*draw(p_lab, 600), ordered=True)
        prev = fieldcal.estimate(lab, fieldcal.count(lab, draw(p, 20_000)[0]), trust=1)
        covered.append(((prev.lower[0] <= p) & (p <= prev.upper[0])).mean())
    assert np.mean(covered) > 0.84


def test_nothing_breaks_where_the_field_is_a_billion_times_the_lab():
    (C, y), (D, _) = world(n_lab=600, n=500, K=12)
    lab = fieldcal.learn(C, y, ordered=True)
    huge = fieldcal.estimate(lab, fieldcal.count(lab, D, sample_weight=np.full(500, 1e8)), trust=1)
    assert np.isfinite(huge.urc).all()
    one = fieldcal.count(lab, D, groups=["a"] * 500)
    alone, whole = (fieldcal.estimate(lab, f, trust=1) for f in (one, fieldcal.count(lab, D)))
    assert_allclose(alone.urc, whole.urc, atol=1e-12)
