"""Outcomes: masses and back again, for classes and for intervals, and what goes with which."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import fieldcal
from fieldcal import regression
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Classes, Intervals
from fieldcal.objects.outcome import are_distributions, as_numbers

ABC = Classes(labels=("a", "b", "c"))
HALVES = Intervals.of([0.0])


def test_the_masses_of_probabilities_are_the_probabilities_themselves():
    given = pd.DataFrame({"c": [0.2], "a": [0.3], "b": [0.5]})
    assert ABC.masses(given) is given


def test_new_probabilities_come_in_the_shape_and_order_of_the_given_ones():
    new = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    assert_array_equal(ABC.rebuild(np.zeros((2, 3)), new), new)
    shuffled = pd.DataFrame(0.0, index=[5, 5], columns=["c", "a", "b"])
    assert_array_equal(ABC.rebuild(shuffled, new), new[:, [2, 0, 1]])
    two = Classes(labels=(0, 1))
    assert two.rebuild(np.zeros((2, 1)), np.array([0.1, 0.2])).shape == (2, 1)
    assert two.rebuild([0.5, 0.5], np.array([0.1, 0.2])).shape == (2,)


def test_distributions_with_their_own_masses_are_what_they_were():
    given = regression.from_quantiles([[-1.0, 0.0, 1.0], [0.0, 0.5, 2.0]], [0.1, 0.5, 0.9])
    masses = HALVES.masses(given)
    assert_allclose(masses.sum(axis=1), 1.0)
    again = HALVES.rebuild(given, masses)
    assert type(again) is type(given)
    assert_allclose(again.values, given.values, atol=1e-12)


def test_distributions_are_known_by_what_they_can_do():
    for given, answer in (
        (regression.from_moments([0.0], [1.0]), True),
        (norm([0.0, 1.0]), True),
        ([norm(0.0), norm(1.0)], True),
        ([], False),
        ([0.1, 0.9], False),
        (np.full((2, 2), 0.5), False),
        (pd.DataFrame({"cdf": [0.1], "ppf": [0.9]}), False),
    ):
        assert are_distributions(given) is answer


def test_codes_are_places_in_the_order_of_the_outcome():
    assert ABC.codes(["c", "a"]).tolist() == [2, 0]
    assert Classes(labels=(0, 1)).codes([True, 0.0]).tolist() == [1, 0]
    assert HALVES.codes([-1, 0, 1]).tolist() == [0, 0, 1]
    with pytest.raises(InputError, match=r"'d' is not among the classes \['a', 'b', 'c'\]"):
        ABC.codes(["d"])
    with pytest.raises(InputError, match="1 of the numbers are missing"):
        HALVES.codes([np.nan])


def test_numbers_that_are_none_are_refused():
    for y, error, message in (
        (["high"], InputTypeError, "must be numbers, but hold .*high"),
        ([[1.0, 2.0]], InputError, r"one column, but have shape \(1, 2\)"),
        ([1.0, np.inf], InputError, "1 of the numbers y are missing .* the first in row 1"),
    ):
        with pytest.raises(error, match=message):
            as_numbers(y)


def test_options_of_the_other_outcome_are_refused_and_unset_ones_are_not():
    ABC.refuse(intervals="auto", crossing="error", normalize=True, classes=["a"])
    HALVES.refuse(classes=None, ordered=np.bool_(False), missing="error", intervals=[0.0])
    with pytest.raises(InputError, match=r"intervals=.* does not go with probabilities of classes"):
        ABC.refuse(intervals=np.array([0.0, 1.0]))
    with pytest.raises(
        InputError, match=r"classes=.* does not go with distributions of a number.*Use intervals=…"
    ):
        HALVES.refuse(classes=np.array(["a", "b"]))


def test_the_file_of_a_lab_says_what_its_outcome_is():
    data = fieldcal.datasets.label_shift(n_lab=500)
    classes = fieldcal.learn(data.proba_lab, data.y_lab)
    y = np.random.default_rng(0).normal(size=500)
    numbers = fieldcal.learn(regression.from_moments(y, np.full(500, 0.1)), y, intervals=[0.0])
    assert classes.content()["outcome"] == {"kind": "classes", "labels": [0, 1], "ordered": False}
    assert numbers.content()["outcome"] == {"kind": "intervals", "points": [0.0], "before": [False]}
    assert (numbers.classes, numbers.ordered) == (("≤ 0", "> 0"), True)
    for lab in (classes, numbers):
        again = fieldcal.Lab.from_json(lab.to_json())
        assert type(again.outcome) is type(lab.outcome)
        assert again == lab


def test_labels_for_people_are_short():
    assert Classes(labels=("", "x" * 50)).short_labels == ('""', "x" * 27 + "…")
    assert Intervals.of([1.23456, 2.0]).short_labels == ("≤ 1.23", "(1.23, 2]", "> 2")
    assert Intervals.of([1.23456, 1.23457]).short_labels[1] == "(1.23456, 1.23457]"
