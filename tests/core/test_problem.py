"""Pseudo-rows, likelihoods and modes of one small problem, by what must hold whatever the method."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fieldcal.core.likelihood import nll
from fieldcal.core.ordered import Shape, _tilted, approximate_ordered_mean, ordered_mode
from fieldcal.core.posterior_binary import binary_draws
from fieldcal.core.priors import Prior, Smooth
from fieldcal.core.problem import Penalty, Problem
from fieldcal.errors import InputError

M = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
V = np.array([[30.0, 50.0, 20.0], [5.0, 10.0, 25.0]])


def problem():
    return Problem(1000 * M, V, 1.0, True)


def test_bins_that_no_class_fills_change_nothing_and_pseudo_rows_are_added():
    wider = np.column_stack([M, np.zeros(3)])
    p = np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    assert_allclose(nll(p, wider, np.column_stack([V, [0, 0]])), nll(p, M, V), rtol=1e-14)


class PseudoRows(Prior):
    """Five rows in every bin; of as many classes as it is told."""

    name: ClassVar[str] = "pseudo-rows"

    def __init__(self, classes=0.0):
        self.classes = classes

    def penalty(self, problem):
        penalty = Penalty.of(problem, bins=5.0)
        return penalty if np.ndim(self.classes) == 0 else replace(penalty, classes=self.classes)


def test_pseudo_rows_of_bins_are_added_and_those_of_classes_are_the_same_in_all_groups():
    posterior = PseudoRows().posterior(problem(), random_state=0)
    assert_array_equal(posterior.V, V + 5)
    with pytest.raises(InputError, match=r"shape \(2, 3\), but .* one number for each of the 3 classes"):
        PseudoRows(np.ones((2, 3))).posterior(problem(), random_state=0)


def test_a_smooth_prior_is_used_as_it_was_learnt_and_one_that_pulls_away_costs_loss():
    learnt = {"alpha": np.full((64, 3), 2.0), "sigma": 1.0, "roughness": 0.3, "nugget": 0.05}
    posterior = Smooth().posterior(problem(), random_state=0, learnt=learnt)
    assert posterior.order.shape == Shape(0.3, 0.05)
    assert posterior.problem is not None
    free, pulled = (ordered_mode(M[None], V, strength * np.array([8.0, 1.0, 1.0])) for strength in (1e-3, 10))
    assert (pulled.loss > free.loss + 1).all()
    assert (nll(pulled.p, M, V) > nll(free.p, M, V)).all()


def test_tilted_prevalences_sum_to_one_and_groups_that_do_not_differ_stay_with_the_whole():
    tilted = _tilted(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), np.array([[0.0, 1.0, 2.0]]))
    assert_allclose(tilted.sum(axis=1), 1)
    rng = np.random.default_rng(3)
    p = np.array([0.5, 0.3, 0.2])
    groups = rng.multinomial(30, p @ M, size=40).astype(float)
    common, each = approximate_ordered_mean(1000 * M, groups, p_lab=np.full(3, 1 / 3))
    assert np.abs(each - common).max() < 0.1
    draws = np.stack([M[:2] / M[:2].sum(axis=1, keepdims=True)] * 7)
    found = binary_draws(draws, V, np.ones((7, 2)), np.random.default_rng(0))
    assert found.shape == (2, 7, 2)
