"""A value that has a mass of its own, in every form that can have one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fieldcal.objects import Intervals
from fieldcal.regression import (
    from_cdf,
    from_distribution,
    from_masses,
    from_quantiles,
    from_samples,
)

ATOM = Intervals.of([2.0], atoms=[0.0])  # below 0, 0, (0, 2], above 2


def quantile_ties():
    return from_quantiles([[-1.0, 0.0, 0.0, 0.0, 3.0, 4.0]], [0.05, 0.1, 0.3, 0.5, 0.9, 0.95])


def cdf_jump():
    return from_cdf([[0.0, 0.1, 0.5, 0.8, 1.0]], [-1.0, 0.0, 0.0, 2.0, 5.0])


def zero_samples():
    return from_samples([[-0.5, 0.0, 0.0, 0.0, 0.0, 0.7, 1.2, 1.9, 3.0, 4.0]])


def atom_masses():
    return from_masses([[0.1, 0.4, 0.3, 0.2]], ATOM)


def quantiles_from_zero():
    return from_quantiles([[0.0, 0.0, 1.0, 3.0]], [0.1, 0.5, 0.8, 0.9])


def cdf_from_zero():
    return from_cdf([[0.5, 0.8, 1.0]], [0.0, 2.0, 5.0])


EVERYWHERE = [quantile_ties, cdf_jump, zero_samples, atom_masses]
AT_THE_START = [quantiles_from_zero, cdf_from_zero]


@pytest.mark.parametrize("build", EVERYWHERE)
def test_fault_49_an_atom_at_zero_has_its_own_interval_and_keeps_it(build):
    old = build()
    assert old.masses(ATOM)[0, 1] == pytest.approx(0.4, abs=1e-12)
    assert old.cdf([0.0], before=True)[0, 0] == pytest.approx(0.1, abs=1e-12)
    asked = [[0.2, 0.1, 0.3, 0.4]]
    new = old.reshaped(ATOM, asked)
    np.testing.assert_allclose(new.masses(ATOM), asked, rtol=0, atol=1e-12)
    assert (new.ppf([0.201, 0.299]) == 0.0).all()
    assert new.ppf([0.199])[0, 0] < 0.0 < new.ppf([0.31])[0, 0]


@pytest.mark.parametrize("build", AT_THE_START)
def test_fault_49_what_lies_below_the_start_is_an_atom_at_the_start(build):
    old = build()
    np.testing.assert_allclose(old.masses(ATOM)[0, :2], [0.0, 0.5], rtol=0, atol=1e-12)
    new = old.reshaped(ATOM, [[0.0, 0.2, 0.3, 0.5]])
    np.testing.assert_allclose(new.masses(ATOM), [[0.0, 0.2, 0.3, 0.5]], rtol=0, atol=1e-12)
    assert (new.ppf([0.0, 0.1, 0.2]) == 0.0).all()
    assert new.cdf([-1e-9])[0, 0] == 0.0


def test_the_atom_can_vanish_and_nothing_divides_by_it():
    new = cdf_jump().reshaped(ATOM, [[0.5, 0.0, 0.5, 0.0]])
    assert new.masses(ATOM).tolist()[0] == pytest.approx([0.5, 0.0, 0.5, 0.0], abs=1e-12)
    assert new.ppf([1.0])[0, 0] == 2.0
    again = new.reshaped(ATOM, [[0.1, 0.0, 0.9, 0.0]])
    assert again.cdf([0.0, 2.0]).tolist()[0] == pytest.approx([0.1, 1.0])
    within = cdf_jump().reshaped(Intervals.of([2.0]), [[0.4, 0.6]])  # it moves with its interval
    assert within.cdf([0.0], before=True)[0, 0] == pytest.approx(0.05)
    assert within.cdf([0.0])[0, 0] == pytest.approx(0.25)


def test_whole_numbers_are_atoms_of_discrete_families():
    counts = from_distribution(stats.poisson([1.0, 3.0]))
    zero = Intervals.of([2.0], atoms=[0.0])
    np.testing.assert_allclose(counts.masses(zero)[:, 1], np.exp([-1.0, -3.0]), rtol=1e-12)
    new = counts.reshaped(zero, [[0.0, 0.5, 0.25, 0.25]] * 2)
    np.testing.assert_allclose(new.masses(zero), [[0.0, 0.5, 0.25, 0.25]] * 2, rtol=0, atol=1e-12)
    k = np.arange(60)
    for row, rate in enumerate((1.0, 3.0)):
        p = stats.poisson(rate).pmf(k)
        weight = np.select([k == 0, k <= 2], [0.5 / p[0], 0.25 / p[1:3].sum()], 0.25 / p[3:].sum())
        assert new.mean()[row] == pytest.approx((weight * p * k).sum(), rel=1e-7)


def test_the_log_score_at_an_atom_is_that_of_its_mass():
    assert cdf_jump().log_score([0.0])[0] == pytest.approx(-np.log(0.4))
    assert cdf_jump().log_score([1.0])[0] == pytest.approx(-np.log(0.15))
    assert cdf_jump().log_score([9.0])[0] == np.inf
    assert from_distribution(stats.poisson(3.0)).log_score([2.0])[0] == pytest.approx(
        -stats.poisson(3.0).logpmf(2)
    )
