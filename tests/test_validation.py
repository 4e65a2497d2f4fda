"""Validators that return what they checked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fieldcal.errors import FieldcalError, InputError
from fieldcal.validation import as_labels, as_scores, effective_size

probabilities = st.floats(0, 1)


@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_whatever_comes_out_is_a_probability_or_marked_as_missing(scores):
    kept = scores.copy()
    try:
        checked = as_scores(scores, classes=None, missing="drop")
    except FieldcalError:
        checked = None
    np.testing.assert_array_equal(scores, kept)
    if checked is not None:
        present = ~np.isnan(checked.values)
        assert ((checked.values[present] >= 0) & (checked.values[present] <= 1)).all()
        assert checked.n_missing == (~present).sum()


@settings(deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(2, 5)), elements=probabilities))
def test_normalized_rows_sum_to_one_or_are_refused_for_being_zero(proba):
    if (proba.sum(axis=1) == 0).any():
        with pytest.raises(InputError, match="all zeros"):
            as_scores(proba, classes=None, normalize=True)
    else:
        checked = as_scores(proba, classes=None, normalize=True)
        np.testing.assert_allclose(checked.values.sum(axis=1), 1)


def test_columns_named_after_numbers_match_numeric_and_boolean_classes():
    table = pd.DataFrame({"2": [0.8], "1": [0.2]})
    assert as_scores(table, classes=(1, 2), n_classes=2).values.tolist() == [[0.2, 0.8]]
    table = pd.DataFrame({True: [0.8], False: [0.2]})
    assert as_scores(table, classes=(False, True), n_classes=2).values.tolist() == [[0.2, 0.8]]


def test_labels_are_ordered_as_scikit_learn_orders_them():
    for y in (["b", "a", "c"], [3, -1, 2], [True, False, True], [2.0, -1.0, 10.0]):
        classes, codes = as_labels(y)
        expected, expected_codes = np.unique(y, return_inverse=True)
        assert list(classes) == expected.tolist()
        assert codes.tolist() == expected_codes.tolist()


def test_the_effective_sample_size_is_kishs():
    assert effective_size(np.ones(7)) == 7
    assert effective_size(np.array([3.0, 1.0])) == pytest.approx(1.6)
    assert effective_size(np.zeros(3)) == 0
    assert effective_size(np.zeros(0)) == 0
