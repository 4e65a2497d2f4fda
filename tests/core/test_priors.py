from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import dirichlet, entropy

from fieldcal.core.priors import KL, Continuity, Dirichlet, Flat, KLBins, Pooled, Smooth, as_prior, prior_from
from fieldcal.core.problem import Penalty
from fieldcal.errors import InputError
from known import known

PRIORS = [Flat(), KL(0.5), KL(20.0), Dirichlet(0.5), Dirichlet(20.0), KLBins(3.0)]
PRIORS += [Continuity(20.0), KL(2.0) + Dirichlet(3.0) + Continuity(0.5)]


def setting(seed: int, n_classes: int = 3, n_bins: int = 5):
    rng = np.random.default_rng(seed)
    M = rng.dirichlet(np.ones(n_bins), n_classes)
    return M, rng.dirichlet(np.full(n_classes, 5.0)), rng.dirichlet(np.ones(n_classes), 50)


def differences(values: np.ndarray) -> np.ndarray:
    """Penalties are known up to a constant."""
    return values - values[0]


def test_the_flat_prior_is_the_same_everywhere():
    M, p_lab, p = setting(0)
    assert_allclose(Flat().penalty(known(M, p_lab)).value(p, M), 0, atol=0)


def test_kl_is_its_strength_times_the_divergence_from_the_lab():
    M, p_lab, p = setting(1)
    expected = [7 * entropy(x, p_lab) for x in p]
    assert_allclose(KL(7).penalty(known(M, p_lab)).value(p, M), expected, rtol=1e-12)


def test_dirichlet_is_the_log_density_of_the_distribution_of_that_name():
    M, p_lab, p = setting(3)
    expected = np.array([-dirichlet.logpdf(x, 1 + 7 * p_lab) for x in p])
    assert_allclose(
        differences(Dirichlet(7).penalty(known(M, p_lab)).value(p, M)), differences(expected), rtol=1e-10
    )


def test_reference_is_the_divergence_on_bins_with_a_first_argument_that_sums_to_the_classes():
    M, p_lab, p = setting(4)
    v = M.sum(axis=0)
    expected = np.array([3 * (v * np.log(v / (x @ M))).sum() for x in p])
    assert_allclose(
        differences(KLBins(3).penalty(known(M, p_lab)).value(p, M)), differences(expected), rtol=1e-10
    )


def test_divergences_are_lowest_at_the_lab():
    for prior in (KL(2), Dirichlet(2)):
        M, p_lab, p = setting(5)
        penalty = prior.penalty(known(M, p_lab))
        assert np.all(penalty.value(p, M) > penalty.value(p_lab, M))


def test_reference_is_lowest_at_equal_prevalences_wherever_the_lab_is():
    M, p_lab, p = setting(6)
    penalty = KLBins(2).penalty(known(M, p_lab))
    assert np.all(penalty.value(p, M) > penalty.value(np.full(3, 1 / 3), M))


def test_penalties_are_convex_along_any_segment():
    for prior in PRIORS:
        for n_classes in (2, 3, 6):
            M, p_lab, p = setting(7, n_classes)
            penalty = prior.penalty(known(M, p_lab))
            one, two = p[:25], p[25:]
            for share in (0.05, 0.3, 0.5, 0.9):
                between = penalty.value(share * one + (1 - share) * two, M)
                ends = share * penalty.value(one, M) + (1 - share) * penalty.value(two, M)
                assert np.all(between <= ends + 1e-12)


def test_continuity_is_its_strength_times_the_squared_steps_between_neighbours():
    M, p_lab, p = setting(12, 4)
    expected = [7 * sum((x[k + 1] - x[k]) ** 2 for k in range(3)) for x in p]
    assert_allclose(Continuity(7).penalty(known(M, p_lab)).value(p, M), expected, rtol=1e-12)


def test_a_prior_without_strength_is_flat():
    for kind in (KL, Dirichlet, KLBins, Continuity):
        M, p_lab, p = setting(8)
        assert_allclose(kind(0).penalty(known(M, p_lab)).value(p, M), 0, atol=0)


def test_a_class_that_the_lab_lacks_does_not_spoil_priors_that_do_not_ask_for_it():
    M, _, p = setting(9)
    p_lab = np.array([0.4, 0.6, 0.0])
    for prior in (Flat(), Dirichlet(2), KLBins(2)):
        assert np.isfinite(prior.penalty(known(M, p_lab)).value(p, M)).all()
    assert KL(2).penalty(known(M, p_lab)).value(p, M).tolist() == [np.inf] * len(p)


def test_the_boundary_is_finite_for_kl_and_infinite_for_dirichlet():
    M, p_lab, _ = setting(10)
    edge = np.array([[0.0, 0.3, 0.7]])
    assert np.isfinite(KL(1).penalty(known(M, p_lab)).value(edge, M)).all()
    assert Dirichlet(1).penalty(known(M, p_lab)).value(edge, M).tolist() == [np.inf]


def test_class_pseudo_rows_may_differ_between_groups():
    M, p_lab, p = setting(11)
    own = np.arange(1, 7).reshape(2, 3) / 2
    penalty = Penalty(np.zeros(5), own, 0.0, p_lab)
    assert_allclose(penalty.value(p[:2], M), -(own * np.log(p[:2])).sum(axis=1), rtol=1e-14)


def test_strengths_that_count_no_rows_are_refused():
    for kind in (KL, Dirichlet, Continuity):
        for strength in (-1, np.inf, np.nan):
            with pytest.raises(InputError, match="strength"):
                kind(strength)


def test_a_name_stands_for_a_prior_and_a_prior_for_itself():
    for name, prior in (
        ("flat", Flat()),
        ("kl", KL()),
        ("dirichlet", Dirichlet()),
        ("pooled", Pooled()),
        ("smooth", Smooth()),
        ("continuity", Continuity()),
        ("auto", Pooled()),
    ):
        assert as_prior(name) == prior
        assert as_prior(prior) is prior


def test_where_neighbours_mean_something_the_default_is_smooth():
    assert as_prior("auto", ordered=True) == Smooth()
    assert as_prior("pooled", ordered=True) == Pooled()


def test_what_is_no_prior_is_refused():
    for wrong in ("ridge", "reference", "custom", "sum", None, 3, KL):
        with pytest.raises(InputError, match="prior must be one of"):
            as_prior(wrong)


def test_a_prior_is_what_its_description_in_a_file_says():
    for prior in (
        Flat(),
        KL(3),
        Dirichlet(0.5),
        Continuity(2),
        Pooled(),
        Smooth(),
        KL(3) + Continuity(0.5) + Flat(),
    ):
        assert prior_from(json.loads(json.dumps(prior.spec()))) == prior


def test_strengths_from_an_array_can_be_written_to_a_file():
    for strength in (np.float64(3), np.float32(3), np.int64(3)):
        prior = KL(strength) + Continuity(strength)
        assert prior_from(json.loads(json.dumps(prior.spec()))) == KL(3) + Continuity(3)


def test_a_file_that_names_an_unknown_prior_says_what_to_do():
    with pytest.raises(InputError, match=r"'ridge' is not known here\. Import the module that defines it"):
        prior_from({"name": "ridge", "strength": 3})
