from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal

from fieldcal.core.reweight import Step, class_weights, reweight, reweight_binary, steps_of

relaxed = settings(deadline=None, derandomize=True, max_examples=100)

shares = st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 1e-320, 1e-300, 1e-17, 1 - 2**-53, 1.0])


def setting(seed: int, n_classes: int = 3, n: int = 50):
    rng = np.random.default_rng(seed)
    p, q, r = rng.dirichlet(np.full(n_classes, 2.0), 3)
    return rng.dirichlet(np.ones(n_classes), n), p, q, r


def test_equal_prevalences_change_nothing_and_two_moves_in_turn_are_one():
    proba, p, *_ = setting(0)
    assert_allclose(reweight(proba, class_weights(p, p)), proba, rtol=1e-14)
    assert_allclose(reweight_binary(proba[:, 0], class_weights(p, p)[:2]), proba[:, 0], rtol=1e-14)
    proba, p, q, r = setting(2)
    in_turn = reweight(reweight(proba, class_weights(q, p)), class_weights(r, q))
    assert_allclose(in_turn, reweight(proba, class_weights(r, p)), rtol=1e-13)
    proba, p, q, _ = setting(5)
    before = proba.copy()
    reweight(proba, class_weights(p, q))
    reweight_binary(proba[:, 0], class_weights(p, q)[:2])
    assert_array_equal(proba, before)


def test_a_row_is_multiplied_by_its_own_ratio_of_prevalences_and_normalised():
    proba, p, p_lab, _ = setting(1)
    expected = proba * p / p_lab
    assert_allclose(
        reweight(proba, class_weights(p, p_lab)), expected / expected.sum(axis=1, keepdims=True), rtol=1e-13
    )
    proba, p, q, r = setting(4, n=2)
    table = class_weights(np.vstack([q, r]), p)
    expected = np.vstack([reweight(proba[:1], table[0]), reweight(proba[1:], table[1])])
    assert_allclose(reweight(proba, table), expected, rtol=1e-15)
    binary = reweight_binary(proba[:, 0], table[:, :2])
    assert_allclose(binary[1], reweight_binary(proba[1:, 0], table[1, :2])[0], rtol=1e-15)


@relaxed
@given(st.lists(shares, min_size=1, max_size=20).map(np.array), shares, shares.filter(lambda x: 0 < x < 1))
def test_one_column_and_two_give_the_same_answer_without_a_warning(score, second, lab_second):
    weights = class_weights(np.array([1 - second, second]), np.array([1 - lab_second, lab_second]))
    assert np.isfinite(weights).all()
    one = reweight_binary(score, weights)
    two = reweight(np.column_stack([1 - score, score]), weights)
    assert np.isfinite(two).all()
    assert_allclose(one, two[:, 1], rtol=1e-12, atol=1e-307)  # 12 digits: logarithms near −744
    assert_array_equal(one[score == 0], 0)
    assert_array_equal(one[score == 1], 1)


def test_certain_and_missing_predictions_and_rows_whose_classes_are_ruled_out_stay():
    for certain in (0, 1, 2):
        proba = np.eye(3)[[certain]]
        for p in (np.array([0.2, 0.3, 0.5]), np.array([1e-320, 1.0, 1e-200]), np.array([0.0, 0.0, 1.0])):
            assert_array_equal(reweight(proba, class_weights(p, np.array([0.3, 0.3, 0.4]))), proba)
    proba = np.array([[0.4, 0.6, 0.0], [0.2, 0.3, 0.5]])
    new = reweight(proba, np.array([0.0, 0.0, 1.0]))
    assert_allclose(new, [[0.4, 0.6, 0.0], [0.0, 0.0, 1.0]], rtol=1e-15)
    assert reweight_binary(np.array([0.0, 1.0, 0.3]), np.array([0.0, 1.0])).tolist() == [0.0, 1.0, 1.0]
    assert reweight_binary(np.array([0.0, 1.0, 0.3]), np.array([1.0, 0.0])).tolist() == [0.0, 1.0, 0.0]
    weights = np.array([0.5, 1.0])
    assert np.isnan(reweight_binary(np.array([np.nan]), weights)).all()
    new = reweight(np.array([[np.nan, 0.5], [0.5, 0.5]]), weights)
    assert np.isnan(new[0]).any()
    assert_allclose(new[1], [1 / 3, 2 / 3])


def test_products_that_underflow_are_still_compared():
    proba = np.array([[1e-320, 1e-310, 1.0]])
    weights = np.array([1.0, 1e-10, 0.0])
    new = reweight(proba, weights)
    assert_allclose(
        new[0, 0] / new[0, 1], np.exp(np.log(1e-320) - np.log(1e-310) - np.log(1e-10)), rtol=1e-12
    )
    assert_allclose(new.sum(), 1, rtol=1e-14)
    assert new[0, 2] == 0


def test_a_step_mixes_old_and_new_and_no_row_loses_more_than_the_trust_allows():
    proba, p, p_lab, _ = setting(6)
    weights = class_weights(p, p_lab)
    for trust in (0.0, 0.25, 1.0):
        expected = (1 - trust) * proba + trust * reweight(proba, weights)
        assert_allclose(Step(trust, weights).apply(proba), expected, rtol=1e-13)
    proba, p, p_lab, _ = setting(7)
    for trust in (0.1, 0.59, 0.9):
        lost = np.log(proba) - np.log(Step(trust, class_weights(p, p_lab)).apply(proba))
        assert lost.max() <= -np.log(1 - trust) + 1e-12


def test_binary_steps_equal_steps_over_two_columns_and_more_trust_moves_further():
    proba, p, p_lab, _ = setting(8, n_classes=2)
    step = Step(0.4, class_weights(p, p_lab))
    assert_allclose(step.apply_binary(proba[:, 1]), step.apply(proba)[:, 1], rtol=1e-13)
    weights = class_weights(p, p_lab)
    moved = [Step(t, weights).apply(proba)[:, 1] - proba[:, 1] for t in np.linspace(0, 1, 6)]
    assert np.all(np.diff(moved, axis=0) * np.sign(p[1] - p_lab[1]) > 0)


def test_steps_of_groups_with_weights_of_their_own_go_by_the_place_of_the_row():
    proba, p, p_lab, r = setting(9, n=2)
    step = Step(0.5, class_weights(np.vstack([p, r]), p_lab))
    each = [Step(0.5, class_weights(q, p_lab)).apply(proba[i : i + 1])[0] for i, q in enumerate((r, p))]
    assert_allclose(step.of(np.array([1, 0])).apply(proba), each, rtol=1e-14)


def steps(overall, between, grouped=True):
    _, p, p_lab, r = setting(10)
    known = {"urc": np.vstack([p, r]), "whole": (p + r) / 2, "p_lab": p_lab}
    return steps_of(**known, overall=overall, between=between, grouped=grouped)


def test_full_trust_is_the_papers_lemma_and_what_is_not_trusted_is_no_step():
    (only,) = steps(1.0, 1.0)
    _, p, p_lab, r = setting(10)
    assert only.trust == 1
    assert_allclose(only.weights, class_weights(np.vstack([p, r]), p_lab), rtol=1e-14)
    assert (steps(0.0, 0.0), [step.weights.ndim for step in steps(0.4, 0.0)]) == ((), [1])
    assert [step.weights.ndim for step in steps(0.0, 0.4)] == [2]
    assert [step.trust for step in steps(0.4, 0.7)] == [0.4, 0.7]
    assert [step.trust for step in steps(0.4, 0.4, grouped=False)] == [0.4]


def test_a_class_that_the_whole_field_lacks_divides_nothing_by_zero():
    urc, whole, p_lab = np.array([[0.0, 1.0], [0.3, 0.7]]), np.array([0.0, 1.0]), np.array([0.5, 0.5])
    found = steps_of(urc=urc, whole=whole, p_lab=p_lab, overall=0.5, between=0.5, grouped=True)
    new = np.array([[0.4, 0.6]])
    for step in found:
        new = step.of(np.array([0])).apply(new)
    assert np.isfinite(new).all()
    assert new.sum() == pytest.approx(1)
