"""What holds for all predictive distributions, however odd."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fieldcal.objects import Intervals
from fieldcal.regression import from_cdf, from_masses, from_moments, from_quantiles, from_samples

X = np.linspace(-12.0, 12.0, 97)
U = np.linspace(0.0, 1.0, 41)
SUPPORT = Intervals.of([-2.0, 1.0, 3.5], atoms=[0.0])
N, Q = 2, 5

halves = st.integers(-10, 10).map(lambda k: k / 2.0)  # ties, atoms and boundaries come often
values = arrays(np.float64, (N, Q), elements=halves)
weights = arrays(np.float64, (N, SUPPORT.size), elements=st.sampled_from([0.0, 0.1, 1.0, 7.0]))


def quantiles(v):
    return from_quantiles(np.sort(v, axis=1), [0.05, 0.2, 0.5, 0.8, 0.9])


def grid_cdf(v):
    c = np.cumsum(np.abs(v) + np.array([0.0, 0.0, 0.0, 0.0, 1.0]), axis=1)
    return from_cdf(c / c[:, -1:], [-3.0, 0.0, 0.0, 1.0, 4.0])


def masses(v):
    m = np.abs(np.hstack([v, np.ones((N, 1))]))
    return from_masses(m / m.sum(axis=1, keepdims=True), SUPPORT)


def moments(v):
    return from_moments(v[:, 0], np.abs(v[:, 1]) + 0.5, family="laplace")


KINDS = pytest.mark.parametrize("build", [quantiles, grid_cdf, masses, moments, from_samples])


def reshaped(old, weight):
    """With masses that were multiplied by weights, where the weights leave any."""
    m = old.masses(SUPPORT) * weight
    m = np.where(m.sum(axis=1, keepdims=True) > 0.0, m, old.masses(SUPPORT))
    m /= m.sum(axis=1, keepdims=True)
    return old.reshaped(SUPPORT, m), m


@KINDS
@settings(max_examples=25, deadline=None)
@given(values, weights)
def test_functions_increase_and_stay_in_their_range(build, v, weight):
    old = build(v)
    for one in (old, reshaped(old, weight)[0]):
        c, left, q = one.cdf(X), one.cdf(X, before=True), one.ppf(U)
        assert (np.diff(c, axis=1) >= 0.0).all()
        assert (c >= 0.0).all()
        assert (c <= 1.0).all()
        assert (left <= c + 1e-15).all()
        assert (left[:, 1:] >= c[:, :-1] - 1e-15).all()
        assert (q[:, 1:] >= q[:, :-1]).all()


@KINDS
@settings(max_examples=25, deadline=None)
@given(values, weights)
def test_no_mass_is_lost_and_all_is_where_it_was_asked_for(build, v, weight):
    old = build(v)
    new, asked = reshaped(old, weight)
    got = new.masses(SUPPORT)
    assert (got >= 0.0).all()
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    slack = 1.0 / Q if build is from_samples else 0.0
    np.testing.assert_allclose(got, asked, rtol=0, atol=slack + 1e-12)


@KINDS
@settings(max_examples=25, deadline=None)
@given(values, weights)
def test_a_quantile_is_the_first_number_that_reaches_its_level(build, v, weight):
    old = build(v)
    new, kept = reshaped(old, weight)
    u = U[1:-1]
    q = new.ppf(u)
    # A distribution function is rounded to 1e-16, and what is kept of a tail may be little more: the rest is noise.
    least = np.where(kept > 0, old.masses(SUPPORT), 1.0).min(axis=1, keepdims=True)
    slack = 1e-9 + 4 * np.finfo(float).eps / least
    assert (new.cdf(q) >= u - slack).all()
    assert (new.cdf(q - 1e-6) <= u + slack).all()


@KINDS
@settings(max_examples=25, deadline=None)
@given(values, weights, arrays(np.float64, (N,), elements=halves))
def test_the_crps_is_no_larger_than_the_mean_distance(build, v, weight, y):
    new, _ = reshaped(build(v), weight)
    score = new.crps(y)
    assert (score >= -1e-12).all()
    assert (score <= np.abs(y - new.mean()) + new.sd() + 1e-6).all()
