"""Every form: new masses are met, the shape inside of intervals stays, and forms turn into each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Intervals
from fieldcal.regression import (
    Distribution,
    PiecewiseLinear,
    Predictions,
    as_predictions,
    from_cdf,
    from_masses,
    from_moments,
    from_quantiles,
)
from fieldcal.regression.predictions import Reshaped
from regression.builders import EXACT, FORMS, GRID, LEVELS, MASSES, NORMAL, SUPPORT, TRUTH, Arrays

INSIDE = np.array([-3.0, -1.7, -1.0, -0.6, -0.1, 0.0, 0.1, 0.3, 0.4, 0.9, 1.9, 2.0, 2.4, 5.0])


def asked(predictions, support=SUPPORT, masses=MASSES):
    """The masses, moved to where the form has some."""
    old = predictions.masses(support)
    new = np.where(old > 0.0, masses, 0.0)
    return new / new.sum(axis=1, keepdims=True)


def conditional(predictions, x, support=SUPPORT):
    """The distribution function at x within the interval that x lies in; NaN where that has no mass."""
    c = np.hstack([np.zeros((len(predictions), 1)), predictions.cumulative(support)])
    mass, codes = predictions.masses(support), support.codes(x)
    inside = mass[:, codes] > 0.0
    return np.where(
        inside, (predictions.cdf(x) - c[:, codes]) / np.where(inside, mass[:, codes], 1.0), np.nan
    )


def test_the_masses_after_reshaping_are_those_asked_for():
    for form, build in EXACT.items():
        old = build()
        masses = asked(old)
        new = old.reshaped(SUPPORT, masses)
        np.testing.assert_allclose(new.masses(SUPPORT), masses, rtol=0, atol=1e-12)
        np.testing.assert_allclose(conditional(new, INSIDE), conditional(old, INSIDE), rtol=0, atol=1e-11)
        same = old.reshaped(SUPPORT, old.masses(SUPPORT))
        np.testing.assert_allclose(same.cdf(INSIDE), old.cdf(INSIDE), rtol=0, atol=1e-13)
        np.testing.assert_allclose(same.ppf(LEVELS), old.ppf(LEVELS), rtol=0, atol=1e-11)
        if form != "arrays":  # which has no density
            np.testing.assert_allclose(same.pdf([-0.63, 0.7]), old.pdf([-0.63, 0.7]), rtol=1e-11)


def test_columns_after_reshaping_are_those_of_the_new_distributions():
    new = FORMS["quantiles"]().reshaped(SUPPORT, MASSES)
    np.testing.assert_allclose(new.cdf(new.values), np.tile(LEVELS, (3, 1)), rtol=0, atol=1e-12)
    new = FORMS["cdf"]().reshaped(SUPPORT, MASSES)
    np.testing.assert_array_equal(new.values, new.cdf(GRID))
    again = from_cdf(new.values, new.form.at)  # the boundaries are grid points, so nothing is lost
    np.testing.assert_allclose(again.masses(SUPPORT), MASSES, rtol=0, atol=1e-12)
    old, wide = FORMS["quantiles"](), Intervals.of([-5.0, 0.0])  # where a boundary cuts a tail
    new = old.reshaped(wide, old.masses(wide))
    assert (new.form.kind, new.form.at) == ("quantiles", old.form.at)
    np.testing.assert_allclose(new.values, old.values, rtol=0, atol=1e-12)


def test_samples_meet_masses_and_shapes_as_near_as_their_number_allows():
    for size in (40, 2000):
        old = FORMS["samples"](size)
        new = old.reshaped(SUPPORT, asked(old))
        assert new.values.shape == old.values.shape
        assert (
            np.abs(new.cumulative(SUPPORT) - np.cumsum(asked(old), axis=1)[:, :-1]).max()
            <= 0.5 / size + 1e-12
        )
        assert np.abs(new.masses(SUPPORT) - asked(old)).max() <= 1 / size + 1e-12
        mass = np.minimum(new.masses(SUPPORT), old.masses(SUPPORT))[:, SUPPORT.codes(INSIDE)]
        gap = np.abs(conditional(new, INSIDE) - conditional(old, INSIDE))
        assert (gap * mass <= 3.0 / size)[mass > 0.0].all()
        np.testing.assert_array_equal(old.reshaped(SUPPORT, old.masses(SUPPORT)).values, old.values)


def test_the_form_that_comes_back_is_the_one_that_went_in():
    for form in FORMS:
        old = FORMS[form]()
        new = old.reshaped(SUPPORT, asked(old))
        if form not in ("quantiles", "cdf", "masses", "samples"):
            assert type(new) is Reshaped
            assert new.form is None
            with pytest.raises(InputError, match=r"no values\. Use ppf\(levels\)"):
                _ = new.values
            continue
        if form != "quantiles":  # of which a boundary cuts a tail
            assert type(new) is PiecewiseLinear
        assert new.form.kind == form
        np.testing.assert_array_equal(new.form.at, old.form.at)
        assert new.values.shape == old.values.shape


def test_a_normal_distribution_in_every_form_is_close_to_the_truth():
    for form, tolerance in [
        (form, {"quantiles": 2e-3, "cdf": 2e-5, "samples": 3e-4, "masses": 3e-3}.get(form, 1e-14))
        for form in NORMAL
    ]:
        x = np.linspace(-6.0, 7.0, 131)
        assert np.abs(FORMS[form]().cdf(x) - TRUTH.cdf(x[:, None]).T).max() < tolerance


def test_quantiles_and_distribution_functions_are_inverse_to_each_other():
    for form in EXACT:
        predictions = EXACT[form]()
        u = np.linspace(0.001, 0.999, 200)
        np.testing.assert_allclose(predictions.cdf(predictions.ppf(u)), np.tile(u, (3, 1)), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_rows_that_are_taken_are_the_rows_alone():
    for form in [form for form in FORMS if form != "arrays"]:
        predictions = FORMS[form]()
        new = predictions.reshaped(SUPPORT, asked(predictions))
        for whole in (predictions, new):
            for rows in ([2, 0, 0], slice(1, 3), np.array([True, False, True])):
                some = whole.take(rows)
                assert type(some) is type(whole)
                np.testing.assert_array_equal(some.cdf(INSIDE), whole.cdf(INSIDE)[rows])
                np.testing.assert_array_equal(some.ppf(LEVELS), whole.ppf(LEVELS)[rows])
                np.testing.assert_allclose(some.mean(), whole.mean()[rows], rtol=1e-13, atol=1e-15)


def test_the_density_is_the_slope_of_the_distribution_function():
    for form in EXACT:
        predictions = EXACT[form]()
        if form == "arrays":
            with pytest.raises(InputError, match="has no pdf"):
                predictions.pdf([0.0])
            continue
        new = predictions.reshaped(SUPPORT, asked(predictions))
        x, h = np.array([-2.003, -0.617, 0.213, 1.018, 2.511]), 1e-6
        slopes = (new.cdf(x + h) - new.cdf(x - h)) / (2.0 * h)
        np.testing.assert_allclose(new.pdf(x), slopes, rtol=1e-5, atol=1e-8)


def test_tails_of_quantiles_continue_the_density_of_the_outermost_segment():
    one = from_quantiles([[1.0, 2.0, 5.0]], [0.2, 0.5, 0.6])
    assert one.pdf([1.0 - 1e-12])[0, 0] == pytest.approx(0.3)
    assert one.pdf([5.0 + 1e-12])[0, 0] == pytest.approx(0.1 / 3.0)
    assert one.cdf([1.0, 5.0])[0].tolist() == pytest.approx([0.2, 0.6])
    assert one.cdf([1.0 - 2.0 / 3.0])[0, 0] == pytest.approx(0.2 * np.exp(-1.0))
    assert one.ppf([0.8])[0, 0] == pytest.approx(5.0 + 12.0 * np.log(2.0))


def test_open_intervals_without_ends_get_tails_and_with_ends_are_uniform():
    tails = from_masses([[0.2, 0.3, 0.4, 0.1]], Intervals.of([0.0, 1.0, 2.0]))
    assert tails.pdf([0.0, 2.5]).tolist()[0] == pytest.approx([0.3, 0.4 * np.exp(-0.5 * 4.0)])
    ends = from_masses([[0.2, 0.3, 0.4, 0.1]], Intervals.of([0.0, 1.0, 2.0]), low=-1.0, high=4.0)
    assert ends.cdf([-2.0, -0.5, 3.0, 5.0]).tolist()[0] == pytest.approx([0.0, 0.1, 0.95, 1.0])
    assert ends.ppf([0.0, 1.0]).tolist() == [[-1.0, 4.0]]


def test_every_family_has_the_moments_it_was_given():
    for family in ("normal", "lognormal", "gamma", "laplace", "logistic", "student"):
        predictions = from_moments([1.0, 4.0], [0.5, 3.0], family=family)
        assert isinstance(predictions, Distribution)
        np.testing.assert_allclose(predictions.given.mean(), [1.0, 4.0], rtol=1e-12)
        np.testing.assert_allclose(predictions.given.std(), [0.5, 3.0], rtol=1e-12)
        # scipy's families take other parameters than these two, but for the normal one
        rtol = 0 if family == "normal" else 1e-15
        np.testing.assert_allclose(predictions.moments(), [[1.0, 4.0], [0.5, 3.0]], rtol=rtol)


def test_whatever_stands_for_predictions_becomes_predictions():
    known = FORMS["samples"]()
    assert as_predictions(known) is known
    for thing in (stats.norm(), [stats.norm()], (stats.norm(), stats.gamma(2.0)), Arrays()):
        assert isinstance(as_predictions(thing), Predictions)
    assert len(as_predictions(stats.norm())) == 1
    ways = "from_quantiles.*from_cdf.*from_samples.*from_masses.*from_moments.*from_distribution"
    for thing in (np.zeros((3, 2)), None, "normal", [], [1.0, 2.0], 3.0):
        with pytest.raises(InputTypeError, match=ways):
            as_predictions(thing)
