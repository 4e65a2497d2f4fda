"""What callers get wrong: every error says what, where, and what next."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fieldcal.errors import FieldcalError, InputError, InputTypeError
from fieldcal.objects import Intervals
from fieldcal.regression import (
    from_cdf,
    from_distribution,
    from_masses,
    from_moments,
    from_quantiles,
    from_samples,
)
from fieldcal.regression.intervals import Transport
from regression.builders import Arrays, Frames

U = [0.1, 0.5, 0.9]
HALVES = Intervals.of([0.0])
NAN, INF = np.nan, np.inf

BAD = {
    "fault_49_crossing": (
        lambda: from_quantiles([[1, 2, 3], [1, 3, 2], [3, 2, 1]], U),
        r"cross in 2 of 3 rows, the first is row 1\. Pass crossing='sort'",
    ),
    "fault_49_falling_cdf": (
        lambda: from_cdf([[0.0, 0.5, 1.0], [0.6, 0.5, 1.0]], [0, 1, 2]),
        r"falls in 1 of 2 rows, the first is row 1.*repair=True",
    ),
    "fault_49_cdf_outside": (lambda: from_cdf([[-0.1, 0.5, 1.0]], [0, 1, 2]), r"leaves \[0, 1\] in 1 of 1 rows"),
    "fault_49_cdf_unfinished": (
        lambda: from_cdf([[0.0, 0.5, 0.9]], [0, 1, 2]),
        r"does not end at 1 in 1 of 1 rows.*ending at 0\.9.*Extend the grid",
    ),
    "fault_49_cdf_of_zeros": (lambda: from_cdf([[0.0, 0.0]], [0, 1], repair=True), r"row 0 is 0 on the whole grid"),
    "percent-levels": (lambda: from_quantiles([[1, 2]], [10, 90]), r"strictly between 0 and 1.*Divide percent"),
    "levels-with-ends": (lambda: from_quantiles([[1, 2, 3]], [0.0, 0.5, 1.0]), r"minimum or a maximum"),
    "unsorted-levels": (lambda: from_quantiles([[1, 2]], [0.9, 0.1]), r"must increase, but 0\.1 follows 0\.9"),
    "repeated-levels": (lambda: from_quantiles([[1, 2]], [0.5, 0.5]), r"each level once"),
    "one-level": (lambda: from_quantiles([[1]], [0.5]), r"at least two levels, but there are 1"),
    "too-few-levels": (lambda: from_quantiles([[1, 2, 3]], [0.1, 0.9]), r"3 columns of quantiles but 2 levels"),
    "unknown-crossing": (lambda: from_quantiles([[1, 2, 3]], U, crossing="fix"), r"but got 'fix'"),
    "nan-quantiles": (
        lambda: from_quantiles([[1, 2, 3], [1, NAN, 3], [INF, 2, 3]], U),
        r"2 of 3 rows of the quantiles hold NaN or infinity, the first is row 1",
    ),
    "flat-quantiles": (lambda: from_quantiles([1, 2, 3], U), r"one row per prediction.*shape \(3,\).*one row"),
    "nan-samples": (lambda: from_samples([[1.0, NAN]]), r"1 of 1 rows of the samples hold NaN"),
    "no-samples": (lambda: from_samples(np.empty((2, 0))), r"at least one sample"),
    "masked-samples": (lambda: from_samples(np.ma.array([[1.0, 2.0]], mask=[[0, 1]])), r"hold NaN"),
    "unsorted-grid": (lambda: from_cdf([[0.0, 0.5, 1.0]], [0, 2, 1]), r"Sort the grid"),
    "three-times-a-point": (lambda: from_cdf([[0.0, 0.5, 0.7, 1.0]], [0, 1, 1, 1]), r"at most twice"),
    "short-grid": (lambda: from_cdf([[0.0, 0.5, 1.0]], [0, 1]), r"3 columns but the grid has 2 points"),
    "nan-grid": (lambda: from_cdf([[0.0, 1.0]], [0, NAN]), r"grid points hold NaN"),
    "masses-of-others": (lambda: from_masses([[0.2, 0.3, 0.5]], HALVES), r"shape \(n, 2\).*have \(1, 3\)"),
    "negative-masses": (lambda: from_masses([[0.5, 0.5], [-0.2, 1.2]], HALVES), r"row 1 holds -0\.2"),
    "masses-short-of-one": (lambda: from_masses([[0.5, 0.4]], HALVES), r"row 0 sum to 0\.9.*Divide"),
    "endless-masses": (lambda: from_masses([[0.5, 0.5]], HALVES), r"extent of its open ends is unknown.*Pass low"),
    "low-too-high": (lambda: from_masses([[0.5, 0.5]], HALVES, low=0.0, high=1.0), r"low=0 must be finite and below"),
    "high-infinite": (lambda: from_masses([[0.5, 0.5]], HALVES, low=-1.0, high=INF), r"high must be a finite number"),
    "no-spread": (
        lambda: from_moments([1, 2, 3], [1, 0, -1]),
        r"must be positive, but 2 of 3 are not, the first is row 1 with 0",
    ),
    "negative-gamma": (lambda: from_moments([1, -2], 1.0, family="gamma"), r"'gamma' must be positive, but 1 of 2"),
    "unknown-family": (lambda: from_moments([1], 1.0, family="norml"), r"no family 'norml'\. Did you mean 'normal'"),
    "nan-moments": (lambda: from_moments([1, NAN], 1.0), r"1 of 2 rows of the means hold NaN"),
    "spreads-of-others": (lambda: from_moments([1, 2], [1, 1, 1]), r"one for each of the 2 rows.*shape \(3,\)"),
    "square-parameters": (lambda: from_distribution(stats.norm(np.zeros((2, 2)))), r"shape \(2, 2\).*ravel"),
    "nan-parameters": (lambda: from_distribution(stats.norm([0.0, NAN])), r"1 of 2 distributions.*row 1.*NaN"),
    "wide-frame": (lambda: from_distribution(Wide(np.zeros(2), np.ones(2))), r"shape \(2, 3\).*\(n, 1\)"),
    "wrong-answers": (lambda: from_distribution(Wrong()), r"shape \(3, 1\) but returned \(1, 3\)"),
    "rows-without-iloc": (lambda: from_distribution(Arrays()).take([0]), r"Arrays has no iloc.*list"),
    "rows-beyond-the-last": (lambda: from_samples([[1.0]]).take([1]), r"not rows of 1 predictions: \[1\]"),
    "coverage-in-percent": (lambda: from_samples([[1.0]]).interval(90), r"between 0 and 1, but is 90.*pass 0\.9"),
    "levels-in-percent": (lambda: from_samples([[1.0]]).ppf([5, 95]), r"\[0, 1\], but reach 95.*divide by 100"),
    "nan-points": (lambda: from_samples([[1.0]]).cdf([NAN, 1.0]), r"1 of the points are NaN"),
    "points-of-others": (lambda: from_samples([[1.0]]).cdf(np.zeros((2, 3))), r"or \(1, P\), but have \(2, 3\)"),
    "too-many-truths": (lambda: from_samples([[1.0]]).crps([1, 2]), r"numbers y must be one for each of the 1 rows"),
    "nan-truth": (lambda: from_moments([1, 2], 1.0).log_score([1, NAN]), r"numbers y hold NaN.*row 1"),
    "mass-from-nothing": (
        lambda: from_samples([[1.0, 2.0]]).reshaped(HALVES, [[0.3, 0.7]]),
        r"Row 0 should get mass 0\.3 in the interval '≤ 0', where its distribution has none",
    ),
    "masses-for-other-rows": (
        lambda: from_moments([1, 2], 1.0).reshaped(HALVES, [[0.3, 0.7]]),
        r"shape \(2, 2\).*have \(1, 2\)",
    ),
    "unequal-maps": (
        lambda: Transport.between(np.zeros((1, 2)), np.zeros((1, 3))),
        r"shapes \(1, 2\) and \(1, 3\)\. Use predictions\.reshaped",
    ),
}  # fmt: skip


class Wide(Frames):
    shape = (2, 3)


class Wrong(Arrays):
    def ppf(self, u):
        return u.T


def test_fault_49_what_cannot_be_right_is_refused_with_the_way_out():
    for case in BAD:
        call, message = BAD[case]
        with pytest.raises((InputError, InputTypeError), match=message) as caught:
            call()
        assert isinstance(caught.value, FieldcalError)


def test_what_is_no_number_is_refused():
    for values in ([["a", "b"]], np.array([["1", 2.0]], dtype=object), [[1.0], [1.0, 2.0]], [[1j, 2j]]):
        with pytest.raises(InputTypeError, match=r"samples must be numbers.*np\.asarray"):
            from_samples(values)
    for thing in ([stats.norm(), 3], 3, stats.norm):
        with pytest.raises(InputTypeError, match="not a distribution of numbers"):
            from_distribution(thing)


def test_fault_49_crossing_quantiles_are_sorted_on_request():
    repaired = from_quantiles([[1, 2, 3], [1, 3, 2]], U, crossing="sort")
    assert repaired.values.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_fault_49_a_bad_distribution_function_is_repaired_on_request():
    repaired = from_cdf([[-0.1, 0.6, 0.4, 0.8], [0.2, 0.5, 1.3, 1.0]], [0, 1, 2, 3], repair=True)
    np.testing.assert_allclose(repaired.values, [[0.0, 0.75, 0.75, 1.0], [0.2, 0.5, 1.0, 1.0]])


def test_fault_49_rounding_is_no_fault():
    c = np.array([[-1e-12, 0.5, 0.5 - 1e-12, 1.0 + 1e-12], [0.0, 0.1, 0.2, 1.0 - 5e-7]])
    straight = from_cdf(c, [0, 1, 2, 3]).values
    assert (np.diff(straight, axis=1) >= 0.0).all()
    assert straight[:, 0].tolist() == [0.0, 0.0]
    assert straight[:, -1].tolist() == [1.0, 1.0]
    crossed = from_quantiles([[1.0, 2.0, 2.0 - 1e-12]], U).values
    assert (np.diff(crossed) >= 0.0).all()


@pytest.mark.parametrize("y", [-1e6, 1e6], ids=["fault_49_below", "fault_49_above"])
def test_a_number_outside_every_interval_lies_in_an_open_one(y):
    support = Intervals.of([0.0, 1.0, 2.0])
    for predictions in (
        from_quantiles([[0.0, 1.0, 2.0]], U),
        from_masses([[0.1, 0.4, 0.4, 0.1]], support),
        from_masses([[0.1, 0.4, 0.4, 0.1]], support, low=-1.0, high=3.0),
        from_cdf([[0.1, 0.5, 1.0]], [0.0, 1.0, 2.0]),
        from_samples([[0.0, 1.0, 2.0]]),
    ):
        assert predictions.cdf([y])[0, 0] == pytest.approx(float(y > 0), abs=1e-12)
        assert predictions.crps([y])[0] == pytest.approx(1e6, rel=1e-4)


def test_a_trace_of_mass_where_there_was_none_is_rounding():
    new = from_samples([[1.0, 2.0]]).reshaped(HALVES, [[1e-12, 1.0 - 1e-12]])
    assert new.values.tolist() == [[1.0, 2.0]]
