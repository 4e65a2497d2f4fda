"""Priors that add up, and penalties of a caller's own: against an independent solver, by hand, and on a grid."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import rel_entr, xlogy

import fieldcal
from fieldcal.core.posterior import Posterior
from fieldcal.core.priors import KL, Continuity, Custom, Dirichlet, Flat, Pooled, Prior, Smooth, Sum
from fieldcal.core.problem import Penalty, Problem, Squares, curvature
from fieldcal.core.solve import SOFT_TOLERANCE, solve
from fieldcal.errors import InputError, InputTypeError
from known import known, well_conditioned


def problem(
    n_classes: int, *, rows: int = 400, lab: int = 2000, sparse: bool = False, groups: int = 4, seed: int = 0
) -> Problem:
    """A lab and groups of a field; where it is sparse, most groups lack a class."""
    rng = np.random.default_rng([seed, n_classes])
    M, p_lab = well_conditioned(rng, n_classes, n_classes + 4), rng.dirichlet(np.full(n_classes, 5.0))
    p = rng.dirichlet(np.full(n_classes, 0.3 if sparse else 3.0), groups)
    V = np.array([rng.multinomial(rows, q / q.sum()) for q in p @ M]).astype(float)
    return Problem(np.round(lab * p_lab[:, None] * M) + 1.0, V, 1.0, True)


def by_hand(prior: Prior, p_lab: np.ndarray) -> Custom:
    """The same penalty as the caller would write it."""
    s, D = prior.strength, np.diff(np.eye(len(p_lab)), axis=0)
    return {
        "kl": lambda: Custom(
            lambda p: s * (p * np.log(p / p_lab)).sum(axis=-1), lambda p: s * (np.log(p / p_lab) + 1)
        ),
        "dirichlet": lambda: Custom(
            lambda p: -s * (p_lab * np.log(p)).sum(axis=-1), lambda p: -s * p_lab / p
        ),
        "continuity": lambda: Custom(
            lambda p: s * ((p @ D.T) ** 2).sum(axis=-1), lambda p: 2 * s * p @ (D.T @ D)
        ),
    }[prior.name]()


def counted_groups(n_classes: int, rows: int):
    """Three groups that differ; their classes have an order."""
    p_lab = np.linspace(2, 1, n_classes) / np.linspace(2, 1, n_classes).sum()
    data = fieldcal.datasets.label_shift(
        n_lab=1000,
        n_field=3 * rows,
        n_groups=3,
        p_lab=p_lab,
        prevalence=np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 0.5), 3),
        random_state=0,
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=n_classes > 2)
    return lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field)


def combined(p, M, v, p_lab, kl, continuity):
    """The paper's combined loss of one group, from its words and scipy."""
    divergence, steps = rel_entr(p, p_lab).sum(), (np.diff(p) ** 2).sum()
    return -xlogy(v, p @ M).sum() + kl * divergence + continuity * steps


def by_clarabel(M, v, p_lab, kl, continuity):
    p, seen = cp.Variable(len(M)), v > 0
    loss = -v[seen] @ cp.log(M.T[seen] @ p) + kl * cp.sum(cp.rel_entr(p, p_lab))
    loss += continuity * cp.sum_squares(cp.diff(p))
    best = None
    for scale in (v.sum() + kl + continuity, 1.0, 10.0):  # tolerances this tight are not met in every scaling
        task = cp.Problem(cp.Minimize(loss / scale), [cp.sum(p) == 1, p >= 0])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        found = np.clip(p.value, 0, None) / np.clip(p.value, 0, None).sum()
        if best is None or combined(found, M, v, p_lab, kl, continuity) < combined(
            best, M, v, p_lab, kl, continuity
        ):
            best = found
        if task.status == cp.OPTIMAL:
            break
    return best


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(("kl", "continuity"), [(10, 5), (0.01, 1e5), (1e5, 0.01)])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("rows", [20, 2000])
def test_the_mode_under_a_divergence_and_continuity_is_an_independent_solvers(
    kl, continuity, n_classes, rows
):
    lab, field = counted_groups(n_classes, rows)
    prev = fieldcal.estimate(
        lab, field, point="mode", level=None, prior=KL(kl) + Continuity(continuity), trust=1
    )
    assert prev.prior == {
        "name": "kl + continuity",
        "parts": [{"name": "kl", "strength": kl}, {"name": "continuity", "strength": continuity}],
    }
    for v, p, gap in zip(np.asarray(field.V, dtype=float), prev.urc, prev.fit.gap, strict=True):
        best = by_clarabel(lab.M, v, lab.p_lab, kl, continuity)
        of = (lab.M, v, lab.p_lab, kl, continuity)
        above = (combined(p, *of) - combined(best, *of)) / (v.sum() + kl)
        assert above <= gap + 1e-11, "the gap is an upper bound"
        assert_allclose(p, best, rtol=0, atol=1e-5)
    assert prev.fit.gap.max() <= SOFT_TOLERANCE
    assert prev.fit.converged.all()


def test_the_solution_of_a_sum_says_its_loss_and_where_it_was_stopped():
    for n_classes in (2, 3, 5):
        task = problem(n_classes)
        penalty = (KL(10) + Dirichlet(3) + Continuity(50)).penalty(task)
        full = solve(task.M, task.V, penalty)
        early = solve(task.M, task.V, penalty, max_iter=1)
        plain = [combined(p, task.M, v, task.p_lab, 10, 50) for p, v in zip(full.p, task.V, strict=True)]
        expected = plain - 3 * (task.p_lab * np.log(full.p)).sum(axis=1)
        assert_allclose(full.loss - full.loss[0], expected - expected[0], rtol=1e-9, atol=1e-9)
        assert np.all(early.loss >= full.loss - 1e-9)
        assert early.n_iter.max() == 1


def test_terms_without_strength_change_nothing():
    for n_classes in (2, 4):
        task = problem(n_classes)
        for prior in (KL(5.0), Dirichlet(5.0), Flat()):
            plain = prior.posterior(task, random_state=0).mode()
            more = (prior + Continuity(0)).posterior(task, random_state=0).mode()
            assert_allclose(more.p, plain.p, rtol=0, atol=1e-6)


def test_a_group_without_rows_is_answered_with_the_minimum_and_no_groups_with_nothing():
    task = problem(4)
    nothing = Problem(task.F, 0 * task.V, task.smoothing, True)
    found = (KL(10) + Continuity(5)).posterior(nothing, random_state=0).mode()
    best = by_clarabel(task.M, np.zeros(task.M.shape[1]), task.p_lab, 10, 5)
    assert_allclose(found.p, np.tile(best, (4, 1)), rtol=0, atol=1e-6)
    for prior in (Flat(), Smooth(), Pooled(), Continuity(5), KL(10) + Continuity(5)):
        for n_classes in (2, 3):
            task = problem(n_classes)
            posterior = prior.posterior(task.take(slice(0)), random_state=0)
            assert posterior.mode().p.shape == posterior.summary(0.9).mean.shape == (0, n_classes)
            assert posterior.draws().shape == (0, 256, n_classes)


def test_the_sum_of_two_penalties_is_the_sum_of_their_values_and_strengths():
    rng = np.random.default_rng(0)
    task = problem(4)
    p = rng.dirichlet(np.ones(4), 100)
    one = Penalty.of(task, bins=rng.random(8), classes=rng.random(4), entropy=3.0, terms=(Squares(2.0),))
    two = Penalty.of(task, bins=rng.random(8), classes=rng.random(4), terms=(Squares(5.0), Squares(1.0)))
    for a, b in ((one, two), (two, one), (two, two), (one, one)):
        apart = a.value(p, task.M) + b.value(p, task.M)
        assert_allclose((a + b).value(p, task.M), apart, rtol=1e-12)
    task = problem(3)
    for kind in (KL, Dirichlet, Continuity):
        one, two = kind(7).penalty(task), (kind(3) + kind(4)).penalty(task)
        p = np.random.default_rng(0).dirichlet(np.ones(3), 50)
        assert_allclose(two.value(p, task.M), one.value(p, task.M), rtol=1e-12)
        assert_allclose(
            (kind(3) + kind(4)).posterior(task, random_state=0).mode().p,
            kind(7).posterior(task, random_state=0).mode().p,
            rtol=0,
            atol=1e-7,
        )
    left = (KL(1) + Dirichlet(2)) + Continuity(3)
    right = KL(1) + (Dirichlet(2) + Continuity(3))
    assert left == right == Sum((KL(1), Dirichlet(2), Continuity(3)))
    assert left.spec()["name"] == "kl + dirichlet + continuity"


def test_two_entropies_are_one_but_for_a_constant_and_none_leaves_the_other_alone():
    for s, t in ((3.0, 7.0), (0.01, 50.0), (1e4, 1e-3), (5.0, 5.0)):
        for n_classes in (2, 3, 6):
            rng = np.random.default_rng(n_classes)
            task = problem(n_classes)
            c, d = rng.dirichlet(np.full(n_classes, 0.5), 2)
            p = np.concatenate([rng.dirichlet(np.full(n_classes, 0.5), 200), np.eye(n_classes)])
            one, two = Penalty.of(task, entropy=s, centre=c), Penalty.of(task, entropy=t, centre=d)
            both = one + two
            apart = one.value(p, task.M) + two.value(p, task.M)
            together = both.value(p, task.M)
            assert both.entropy == s + t
            assert_allclose(both.centre.sum(), 1, rtol=1e-12)
            assert_allclose(together - together[0], apart - apart[0], rtol=1e-9, atol=1e-9 * (s + t))
            assert_allclose((two + one).centre, both.centre, rtol=1e-12)
    task = problem(3)
    centre = np.array([0.2, 0.3, 0.5])
    strong, none = Penalty.of(task, entropy=4.0, centre=centre), Penalty.of(task)
    for both in (strong + none, none + strong):
        assert_allclose(both.centre, centre, rtol=1e-12)
    assert (none + none).entropy == 0


@pytest.mark.parametrize("lone", [Pooled(), Smooth()], ids=repr)
def test_priors_that_learn_from_the_field_stand_alone(lone):
    said = f"The prior '{lone.name}' learns its numbers from the field and stands alone. Add up the others"
    for make in (
        lambda: KL(1) + lone,
        lambda: lone + KL(1),
        lambda: KL(1) + Continuity(2) + lone,
        lambda: lone + lone,
    ):
        with pytest.raises(InputError, match=said):
            make()
    with pytest.raises(InputError, match=f"The prior '{lone.name}' has no penalty of its own"):
        lone.penalty(problem(3))


@pytest.mark.parametrize("kind", [KL, Dirichlet, Continuity])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_penalty_written_by_hand_has_the_mode_of_the_one_that_is_built_in(kind, n_classes):
    for strength in (0.05, 8.0, 1e4):
        for sparse in (False, True):
            task = problem(n_classes, sparse=sparse)
            prior = kind(strength)
            expected = prior.posterior(task, random_state=0).mode()
            found = by_hand(prior, task.p_lab).posterior(task, random_state=0).mode()
            assert found.converged.all()
            assert_allclose(found.p, expected.p, rtol=0, atol=1e-5)


def means(posterior: Posterior, per_draw: int = 64) -> np.ndarray:
    """The mean of the draws for each draw of M, (G, S, K)."""
    draws = posterior.draws(per_draw=per_draw)
    return draws.reshape(len(draws), len(posterior.M), per_draw, -1).mean(axis=2)


@pytest.mark.parametrize("kind", [KL, Dirichlet, Continuity])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_penalty_written_by_hand_has_the_posterior_mean_of_the_one_that_is_built_in(kind, n_classes):
    for sparse in (False, True):
        task = problem(n_classes, rows=60, sparse=sparse)
        prior = kind(8.0)
        built_in, own = (p.posterior(task, random_state=1) for p in (prior, by_hand(prior, task.p_lab)))
        assert_array_equal(built_in.M, own.M)
        difference = means(own) - means(
            built_in
        )  # the draws of M are the same: what is left is the sampler's
        error = difference.std(axis=1) / np.sqrt(difference.shape[1])
        assert error.max() < 0.005
        assert np.all(np.abs(difference.mean(axis=1)) <= 4 * error + 1e-9)


def test_penalties_of_the_wrong_shape_and_what_is_no_prior_are_refused_in_words():
    task = problem(3)
    summed = Custom(lambda p: (p**2).sum(), lambda p: 2 * p)
    with pytest.raises(InputError, match="one number for each row of prevalences"):
        summed.posterior(task, random_state=0).mode()
    scalar = Custom(lambda p: (p**2).sum(axis=-1), lambda p: (2 * p).sum(axis=-1))
    with pytest.raises(InputError, match="gradient of a penalty must have the shape of the prevalences"):
        scalar.posterior(task, random_state=0).mode()
    for wrong in ("flat", 3, None, KL, Penalty.of(known(np.eye(2), [0.5, 0.5]))):
        with pytest.raises(InputTypeError, match=r"Only priors add up, such as KL\(10\) \+ Continuity\(5\)"):
            KL(1) + wrong


def test_the_curvature_of_a_term_is_that_of_its_formula_also_of_logarithms():
    for n_classes in (2, 5):
        p = np.random.default_rng(0).dirichlet(np.ones(n_classes), (3, 4))
        D = np.diff(np.eye(n_classes), axis=0)
        assert_allclose(
            curvature(Squares(3.0), p), np.broadcast_to(6 * D.T @ D, (3, 4, n_classes, n_classes)), atol=1e-8
        )
    # Differences must not leave the simplex: the logarithm of a negative prevalence is no number.
    for rare in (1e-3, 1e-7, 1e-12):
        p_lab = np.array([0.5, 0.3, 0.2])
        p = np.array([[1 - 0.3 - rare, 0.3, rare]])
        for prior, expected in ((KL(2.0), 2.0 / p[0]), (Dirichlet(2.0), 2.0 * p_lab / p[0] ** 2)):
            term = by_hand(prior, p_lab).penalty(known(np.eye(3), p_lab)).terms[0]
            assert_allclose(curvature(term, p)[0], np.diag(expected), rtol=0.1, atol=1e-3 / rare)


def exact_means(posterior: Posterior, task: Problem, kl: float, continuity: float):
    """The second class's mean and standard deviation for each group and draw of M, each (G, S), by brute force."""
    edges = np.linspace(0, np.pi / 2, 20_001)
    t = np.sin(0.5 * (edges[1:] + edges[:-1])) ** 2  # even in θ: fine where prevalences are near 0 or 1
    p = np.column_stack([1 - t, t])
    prior = -kl * rel_entr(p, task.p_lab).sum(axis=1) - continuity * (p[:, 1] - p[:, 0]) ** 2
    prior += 0.5 * np.log(t * (1 - t))  # uniform in p: the width of a cell
    mean, deviation = (np.empty((len(task.V), len(posterior.M))) for _ in range(2))
    for s, M in enumerate(posterior.M):
        log = np.log(p @ M) @ task.V.T + prior[:, None]
        weight = np.exp(log - log.max(axis=0))
        weight /= weight.sum(axis=0)
        mean[:, s] = t @ weight
        deviation[:, s] = np.sqrt(t**2 @ weight - mean[:, s] ** 2)
    return mean, deviation


@pytest.mark.parametrize(("kl", "continuity"), [(10, 5), (0.01, 0.01), (1e4, 1e4)])
@pytest.mark.parametrize("rows", [0, 30, 3000])
def test_the_posterior_of_a_sum_agrees_with_brute_force(kl, continuity, rows):
    task = problem(2, rows=rows, sparse=True)
    posterior = (KL(kl) + Continuity(continuity)).posterior(task, random_state=3)
    per_draw = 64
    draws = posterior.draws(per_draw=per_draw)[..., 1].reshape(4, len(posterior.M), per_draw)
    mean, deviation = exact_means(posterior, task, kl, continuity)
    for found, exact in ((draws, mean), ((draws - mean[..., None]) ** 2, deviation**2)):
        difference = found.mean(axis=2) - exact
        error = difference.std(axis=1) / np.sqrt(difference.shape[1])
        assert np.all(np.abs(difference.mean(axis=1)) < 3 * error)
    summary = posterior.summary(0.9)
    spread = np.sqrt((deviation**2).mean(axis=1) + mean.var(axis=1))
    assert_allclose(summary.mean[:, 1], mean.mean(axis=1), atol=0.2 * spread.max())
    assert_allclose(summary.sd[:, 1], spread, rtol=0.2)


def test_without_further_terms_the_sampler_and_the_quadrature_agree():
    task = problem(2, rows=60, sparse=True)
    exact, sampled = ((KL(10) + more).posterior(task, random_state=0) for more in (Flat(), Continuity(0)))
    assert not exact.penalty.terms
    difference = means(sampled, 64) - means(exact, 64)
    error = difference.std(axis=1) / np.sqrt(difference.shape[1])
    assert np.all(np.abs(difference.mean(axis=1)) <= 4 * error + 1e-9)
