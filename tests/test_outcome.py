"""Outcomes: masses and back again, for classes and for intervals, and what goes with which."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import norm

import fieldcal
from fieldcal import regression
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Classes, Intervals
from fieldcal.objects.outcome import are_distributions, as_numbers

ABC = Classes(labels=("a", "b", "c"))
HALVES = Intervals.of([0.0])


def test_new_probabilities_come_in_the_shape_and_order_of_the_given_ones():
    new = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    assert_array_equal(ABC.rebuild(np.zeros((2, 3)), new), new)
    shuffled = pd.DataFrame(0.0, index=[5, 5], columns=["c", "a", "b"])
    assert_array_equal(ABC.rebuild(shuffled, new), new[:, [2, 0, 1]])
    two = Classes(labels=(0, 1))
    assert two.rebuild(np.zeros((2, 1)), np.array([0.1, 0.2])).shape == (2, 1)
    assert two.rebuild([0.5, 0.5], np.array([0.1, 0.2])).shape == (2,)


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


def test_numbers_that_are_none_are_refused():
    for y, error, message in (
        (["high"], InputTypeError, "must be numbers, but hold .*high"),
        ([[1.0, 2.0]], InputError, r"one column, but have shape \(1, 2\)"),
        ([1.0, np.inf], InputError, "1 of the numbers y are missing .* the first in row 1"),
    ):
        with pytest.raises(error, match=message):
            as_numbers(y)


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
