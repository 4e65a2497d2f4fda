"""Means, variances and scores, against closed forms, scipy and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from fieldcal.errors import InputError
from fieldcal.regression import (
    PiecewiseLinear,
    from_cdf,
    from_distribution,
    from_masses,
    from_moments,
    from_samples,
)
from regression.builders import EXACT, FORMS, MASSES, MEAN, SD, SUPPORT

Y = np.array([0.3, 4.0, -2.0])


def brute_crps(predictions, y):
    """The integral of (F(x) − [x ≥ y])², by the midpoints of a grid that has y among its points."""
    x = np.linspace(-40.0, 60.0, 50_001)
    middle, step = (x[1:] + x[:-1]) / 2.0, x[1] - x[0]
    return ((predictions.cdf(middle) - (middle >= np.reshape(y, (-1, 1)))) ** 2).sum(axis=1) * step


def normal_crps(y, mean, sd):
    z = (y - mean) / sd
    return sd * (z * (2.0 * stats.norm.cdf(z) - 1.0) + 2.0 * stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi))


def test_the_crps_of_a_normal_distribution_is_the_closed_form():
    z = np.linspace(-6.0, 6.0, 49)
    scores = from_moments(np.zeros(49), 1.0).crps(z)
    np.testing.assert_allclose(scores, normal_crps(z, 0.0, 1.0), rtol=1e-5)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "skpro"])
def test_the_crps_is_what_brute_force_says(form):
    old = FORMS[form]()
    masses = np.where(old.masses(SUPPORT) > 0.0, MASSES, 0.0)
    for one in (old, old.reshaped(SUPPORT, masses / masses.sum(axis=1, keepdims=True))):
        np.testing.assert_allclose(one.crps(Y), brute_crps(one, Y), rtol=1e-3, atol=1e-3)


def test_the_crps_of_lines_with_tails_and_atoms_is_exact():
    for y in (-30.0, -0.5, 0.0, 0.2, 1.0, 7.0, 50.0):
        jump = from_cdf([[0.0, 0.1, 0.5, 0.8, 1.0]], [-1.0, 0.0, 0.0, 2.0, 5.0])
        tails = from_masses([[0.2, 0.3, 0.4, 0.1]], SUPPORT_OF_FOUR)
        for one in (jump, tails):
            assert one.crps([y])[0] == pytest.approx(brute_crps(one, [y])[0], abs=6e-4)


SUPPORT_OF_FOUR = type(SUPPORT).of([0.0, 1.0, 2.0])


def test_the_crps_of_samples_is_the_energy_form():
    draws = np.random.default_rng(2).normal(size=(3, 31))
    spread = np.abs(draws[:, :, None] - draws[:, None, :]).mean(axis=(1, 2))
    expected = np.abs(draws - Y[:, None]).mean(axis=1) - spread / 2.0
    np.testing.assert_allclose(from_samples(draws).crps(Y), expected, rtol=1e-12)


def test_the_crps_of_counts_is_a_sum_over_whole_numbers():
    k = np.arange(200)
    expected = ((stats.poisson(30.0).cdf(k) - (k >= 33)) ** 2).sum()
    assert from_distribution(stats.poisson(30.0)).crps([33.0])[0] == pytest.approx(expected, rel=1e-9)


def test_means_and_variances_by_quadrature_agree_with_scipy():
    laws = (stats.norm(1.0, 2.0), stats.gamma(0.5), stats.t(5.0), stats.laplace(), stats.lognorm(0.8))
    for law in (*laws, stats.uniform(), stats.poisson(3.0)):
        listed = from_distribution([law])  # a list takes the general way
        assert listed.mean()[0] == pytest.approx(law.mean(), rel=1e-5, abs=1e-9)
        assert listed.var()[0] == pytest.approx(law.var(), rel=1e-4)
        np.testing.assert_array_equal(from_distribution(law).mean(), law.mean())
        np.testing.assert_array_equal(from_distribution(law).var(), law.var())


def test_exact_moments_of_tables_agree_with_quadrature():
    for form in ("quantiles", "cdf", "masses"):
        table = EXACT[form]()
        general = super(PiecewiseLinear, table)
        np.testing.assert_allclose(table.mean(), general.mean(), rtol=0, atol=1e-5)
        np.testing.assert_allclose(table.var(), general.var(), rtol=1e-4)
        np.testing.assert_allclose(table.crps(Y), general.crps(Y), rtol=1e-4)


def test_moments_after_reshaping_are_those_of_truncated_normals():
    new = from_moments(MEAN, SD).reshaped(SUPPORT, MASSES)
    edges = np.concatenate([[-np.inf], SUPPORT.points, [np.inf]])
    for row, (m, s) in enumerate(zip(MEAN, SD, strict=True)):
        parts = [stats.truncnorm((a - m) / s, (b - m) / s, m, s) for a, b in itertools.pairwise(edges)]
        mean = sum(p * part.mean() for p, part in zip(MASSES[row], parts, strict=True))
        second = sum(p * part.moment(2) for p, part in zip(MASSES[row], parts, strict=True))
        assert new.mean()[row] == pytest.approx(mean, rel=1e-6, abs=1e-7)
        assert new.var()[row] == pytest.approx(second - mean**2, rel=1e-5)


def test_the_log_score_is_minus_the_log_density():
    for form in ("moments", "scipy", "list", "skpro"):
        np.testing.assert_allclose(FORMS[form]().log_score(Y), -stats.norm(MEAN, SD).logpdf(Y), rtol=1e-12)
    with pytest.raises(InputError, match=r"no density.*crps"):
        FORMS["samples"]().log_score(Y)
