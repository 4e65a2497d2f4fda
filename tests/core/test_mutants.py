"""What nothing held when the code of the core was changed on purpose, one operator at a time (decision 16)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import beta

from core.test_stories import doubt, told
from fieldcal.core.goodness_of_fit import between_shift
from fieldcal.core.likelihood import nll
from fieldcal.core.ordered import Shape, _tilted, approximate_ordered_mean, ordered_mode
from fieldcal.core.partition import Quantiles, Simplex
from fieldcal.core.posterior_binary import binary_draws
from fieldcal.core.priors import Prior, Smooth
from fieldcal.core.problem import Penalty, Problem
from fieldcal.core.shrinkage import informative
from fieldcal.core.stories import beta_interval, tell
from fieldcal.core.trust import Trust
from fieldcal.errors import InputError

M = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
V = np.array([[30.0, 50.0, 20.0], [5.0, 10.0, 25.0]])
LABELLED = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 1.0]])


def problem(labelled=None):
    return Problem(1000 * M, V, 1.0, True, labelled=labelled)


def test_a_bin_that_no_class_fills_changes_no_likelihood_of_rows_elsewhere():
    wider = np.column_stack([M, np.zeros(3)])
    p = np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    assert_allclose(nll(p, wider, np.column_stack([V, [0, 0]])), nll(p, M, V), rtol=1e-14)


def test_labels_of_the_field_stay_with_the_whole_and_with_some_of_its_groups():
    given = problem(LABELLED)
    assert_array_equal(given.whole().labelled, [[5.0, 2.0, 4.0]])
    assert_array_equal(given.take(np.array([1])).labelled, LABELLED[1:])
    assert problem().take(np.array([1])).labelled is None


class PseudoRows(Prior):
    """Five rows in every bin; of as many classes as it is told."""

    name: ClassVar[str] = "pseudo-rows"

    def __init__(self, classes=0.0):
        self.classes = classes

    def penalty(self, problem):
        penalty = Penalty.of(problem, bins=5.0)
        return penalty if np.ndim(self.classes) == 0 else replace(penalty, classes=self.classes)


def test_pseudo_rows_of_bins_are_added_to_the_rows():
    posterior = PseudoRows().posterior(problem(), random_state=0)
    assert_array_equal(posterior.V, V + 5)


def test_pseudo_rows_of_classes_that_differ_by_group_are_refused():
    with pytest.raises(InputError, match=r"shape \(2, 3\), but .* one number for each of the 3 classes"):
        PseudoRows(np.ones((2, 3))).posterior(problem(), random_state=0)


def test_what_a_smooth_prior_learnt_is_used_as_it_was_learnt():
    learnt = {"alpha": np.full((64, 3), 2.0), "sigma": 1.0, "roughness": 0.3, "nugget": 0.05}
    posterior = Smooth().posterior(problem(), random_state=0, learnt=learnt)
    assert posterior.order.shape == Shape(0.3, 0.05)
    assert posterior.problem is not None


def test_a_prior_that_pulls_away_costs_loss_at_the_mode_of_ordered_classes():
    free, pulled = (ordered_mode(M[None], V, strength * np.array([8.0, 1.0, 1.0])) for strength in (1e-3, 10))
    assert (pulled.loss > free.loss + 1).all()
    assert (nll(pulled.p, M, V) > nll(free.p, M, V)).all()


def test_prevalences_that_are_tilted_sum_to_one_in_every_draw():
    tilted = _tilted(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), np.array([[0.0, 1.0, 2.0]]))
    assert_allclose(tilted.sum(axis=1), 1)


def test_small_groups_of_ordered_classes_that_do_not_differ_stay_with_the_whole():
    rng = np.random.default_rng(3)
    p = np.array([0.5, 0.3, 0.2])
    groups = rng.multinomial(30, p @ M, size=40).astype(float)
    common, each = approximate_ordered_mean(1000 * M, groups, p_lab=np.full(3, 1 / 3))
    assert np.abs(each - common).max() < 0.1


def test_draws_of_two_classes_are_one_for_each_m_unless_more_are_asked_for():
    draws = np.stack([M[:2] / M[:2].sum(axis=1, keepdims=True)] * 7)
    found = binary_draws(draws, V, np.ones((7, 2)), np.random.default_rng(0))
    assert found.shape == (2, 7, 2)


@pytest.mark.parametrize("mean", [0.02, 0.1, 0.2, 0.5, 0.8, 0.98])
def test_the_interval_of_shares_is_betas_and_one_sided_only_where_it_piles_up(mean):
    variance = 0.12 * mean * (1 - mean)
    strength = mean * (1 - mean) / variance - 1
    a, b = mean * strength, (1 - mean) * strength
    lower, upper = beta_interval(np.array([mean]), np.array([variance]), 0.9, n=np.array([1e6]))
    low, high = (0.0, 0.9) if a < 1 else (0.1, 1.0) if b < 1 else (0.05, 0.95)
    expected = beta(a, b).ppf([low, high])
    assert_allclose(np.ravel([lower, upper]), expected, atol=1e-3)


def test_a_caller_who_trusts_partly_is_told_the_corners_or_what_the_rehearsal_adds():
    trust = Trust(0.3, 0.6, set_by_caller=True)
    corners = tell(doubt(), trust, moved=True, grouped=True)
    assert_allclose(sorted(s.weight for s in corners), sorted([0.12, 0.18, 0.28, 0.42]))
    (one,) = tell(doubt(excess=0.01), trust, moved=True, grouped=True)
    assert one.weight == 1


def test_after_a_rehearsal_a_field_that_has_not_moved_is_one_story():
    stories = tell(doubt(excess=0.01), Trust(0.0, 0.8, rehearsed=1.0), moved=False, grouped=True)
    assert [s.weight for s in stories] == [1.0]
    parts = doubt().parts
    assert_allclose(stories[0].centre(parts.urc), parts.mixed(0.0, 0.8))
    assert len(told(doubt(excess=0.01), 0.0, 0.8)) > 1


def test_what_is_wrong_with_a_partition_is_named_in_its_error():
    with pytest.raises(InputError, match=r"^Simplex\(min_rows=…\) must be a whole number of at least 1"):
        Simplex(6, min_rows=0)
    with pytest.raises(InputError, match=r"^Quantiles\(n=…\) must be a whole number of at least 1"):
        Quantiles(0)


def test_with_as_many_bins_as_classes_no_difference_of_groups_can_contradict():
    F, V = np.array([[80.0, 20.0], [30.0, 70.0]]), np.array([[500.0, 500.0], [800.0, 200.0]])
    found = between_shift(F, V, smoothing=1.0)
    assert found.shifted
    assert not found.testable


def test_groups_that_contradict_label_shift_leave_less_than_all_of_it_possible():
    rng = np.random.default_rng(0)
    F = 10 * np.array([[500.0, 300.0, 150.0, 50.0], [50.0, 150.0, 300.0, 500.0]])
    V = 2000 * rng.dirichlet(np.full(4, 5.0), size=12)  # no mixtures of the rows of F
    found = between_shift(F, V, smoothing=1.0)
    assert found.contradicted
    assert found.share <= found.upper < 1


def test_which_of_equal_groups_are_looked_at_is_left_to_chance():
    V = np.column_stack([np.arange(200.0), 200 - np.arange(200.0)])
    chosen = [informative(V, 20, np.random.default_rng(seed)) for seed in (1, 2)]
    assert [len(rows) for rows in chosen] == [20, 20]
    assert not np.array_equal(*chosen)
