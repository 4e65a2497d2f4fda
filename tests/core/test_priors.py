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


def test_the_penalty_of_each_prior_is_its_formula():
    M, p_lab, p = setting(1, 4)
    v = M.sum(axis=0)
    for prior, formula in (
        (Flat(), lambda x: 0.0),
        (KL(7), lambda x: 7 * entropy(x, p_lab)),
        (Dirichlet(7), lambda x: -dirichlet.logpdf(x, 1 + 7 * p_lab)),
        (KLBins(3), lambda x: 3 * (v * np.log(v / (x @ M))).sum()),  # its first argument sums to the classes
        (Continuity(7), lambda x: 7 * sum((x[k + 1] - x[k]) ** 2 for k in range(3))),
    ):
        found, expected = prior.penalty(known(M, p_lab)).value(p, M), np.array([formula(x) for x in p])
        constant = prior.name in ("dirichlet", "kl_bins")  # known but for one
        assert_allclose(
            found - constant * found[0], expected - constant * expected[0], rtol=1e-10, atol=1e-15
        )


def test_divergences_are_lowest_at_the_lab_and_the_reference_at_equal_prevalences():
    for prior in (KL(2), Dirichlet(2)):
        M, p_lab, p = setting(5)
        penalty = prior.penalty(known(M, p_lab))
        assert np.all(penalty.value(p, M) > penalty.value(p_lab, M))
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


def test_a_prior_without_strength_is_flat_and_pseudo_rows_may_differ_between_groups():
    for kind in (KL, Dirichlet, KLBins, Continuity):
        M, p_lab, p = setting(8)
        assert_allclose(kind(0).penalty(known(M, p_lab)).value(p, M), 0, atol=0)
    M, p_lab, p = setting(11)
    own = np.arange(1, 7).reshape(2, 3) / 2
    penalty = Penalty(np.zeros(5), own, 0.0, p_lab)
    assert_allclose(penalty.value(p[:2], M), -(own * np.log(p[:2])).sum(axis=1), rtol=1e-14)


def test_classes_that_lab_or_field_lack_are_infinite_only_where_the_formula_is():
    M, _, p = setting(9)
    p_lab = np.array([0.4, 0.6, 0.0])
    for prior in (Flat(), Dirichlet(2), KLBins(2)):
        assert np.isfinite(prior.penalty(known(M, p_lab)).value(p, M)).all()
    assert KL(2).penalty(known(M, p_lab)).value(p, M).tolist() == [np.inf] * len(p)
    M, p_lab, _ = setting(10)
    edge = np.array([[0.0, 0.3, 0.7]])
    assert np.isfinite(KL(1).penalty(known(M, p_lab)).value(edge, M)).all()
    assert Dirichlet(1).penalty(known(M, p_lab)).value(edge, M).tolist() == [np.inf]


def test_strengths_and_names_that_are_no_prior_are_refused():
    for kind in (KL, Dirichlet, Continuity):
        for strength in (-1, np.inf, np.nan):
            with pytest.raises(InputError, match="strength"):
                kind(strength)
    for wrong in ("ridge", "reference", "custom", "sum", None, 3, KL):
        with pytest.raises(InputError, match="prior must be one of"):
            as_prior(wrong)


def test_a_name_stands_for_a_prior_a_prior_for_itself_and_auto_follows_the_order():
    for prior in (Flat(), KL(), Dirichlet(), Pooled(), Smooth(), Continuity()):
        assert as_prior(prior.name) == prior
        assert as_prior(prior) is prior
    assert as_prior("auto") == Pooled()
    assert as_prior("auto", ordered=True) == Smooth()
    assert as_prior("pooled", ordered=True) == Pooled()


def test_a_prior_is_what_its_description_in_a_file_says_if_that_is_known():
    summed = KL(3) + Continuity(0.5) + Flat()
    for prior in (Flat(), KL(3), Dirichlet(0.5), Continuity(2), Pooled(), Smooth(), summed):
        assert prior_from(json.loads(json.dumps(prior.spec()))) == prior
    for strength in (np.float64(3), np.float32(3), np.int64(3)):
        prior = KL(strength) + Continuity(strength)
        assert prior_from(json.loads(json.dumps(prior.spec()))) == KL(3) + Continuity(3)
    with pytest.raises(InputError, match=r"'ridge' is not known here\. Import the module that defines it"):
        prior_from({"name": "ridge", "strength": 3})
