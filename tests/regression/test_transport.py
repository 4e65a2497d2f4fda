"""The map T from old to new cumulative masses."""

from __future__ import annotations

import numpy as np
import pytest

from fieldcal.regression.intervals import Transport, passed
from fieldcal.regression.predictions import panels


def test_counting_knots_agrees_with_numpy_on_both_sides_of_ties():
    rng = np.random.default_rng(0)
    for width in (1, 2, 3, 7, 8, 9, 31):
        knots = np.sort(rng.integers(0, 6, (5, width)) / 2.0, axis=1)
        at = np.concatenate([rng.integers(-1, 8, (5, 11)) / 2.0, np.full((5, 2), [-np.inf, np.inf])], axis=1)
        for side in ("left", "right"):
            expected = [np.searchsorted(k, a, side=side) for k, a in zip(knots, at, strict=True)]
            np.testing.assert_array_equal(passed(knots, at, equal=side == "right"), expected)


def transport():
    old = np.array([[0.1, 0.4, 0.4, 0.9], [0.0, 0.0, 0.5, 1.0]])
    new = np.array([[0.3, 0.3, 0.3, 0.5], [0.0, 0.0, 0.1, 1.0]])
    return Transport.between(old, new), old, new


def test_the_map_and_its_inverse_cancel_where_there_is_mass():
    T, old, new = transport()
    np.testing.assert_array_equal(T.forward(old), new)
    u = np.tile(np.linspace(0.0, 1.0, 101), (2, 1))
    np.testing.assert_allclose(T.forward(T.backward(u)), u, rtol=0, atol=1e-15)
    T = Transport.between(np.array([[0.5]]), np.array([[0.25]]))
    assert T.steepness(np.array([[0.0, 0.5, 0.75, 1.0]])).tolist() == [[0.5, 0.5, 1.5, 1.5]]


def test_the_inverse_gives_the_smallest_level_and_at_zero_the_largest():
    T = Transport.between(np.array([[0.2, 0.5]]), np.array([[0.0, 0.0]]))
    assert T.backward(np.array([[0.0, 1.0]])).tolist() == [[0.5, 1.0]]
    T = Transport.between(np.array([[0.2, 0.5]]), np.array([[0.4, 0.4]]))
    assert T.backward(np.array([[0.4]])).tolist() == [[0.2]]


@pytest.mark.parametrize("breaks", [[], [0.3], [0.0, 0.2, 0.2, 1.0]])
def test_weights_of_all_levels_sum_to_one_and_polynomials_are_exact(breaks):
    u, w = panels(np.array([breaks]))
    assert w.sum() == pytest.approx(1.0, abs=1e-14)
    assert (w * u**8).sum() == pytest.approx(1 / 9, abs=1e-14)
    assert (u > 0.0).all()
    assert (u < 1.0).all()
