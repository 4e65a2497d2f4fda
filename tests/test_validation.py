"""Validators that return what they checked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fieldcal.errors import FieldcalError, InputError, WeightWarning
from fieldcal.validation import as_labels, as_scores, as_weights, effective_size

probabilities = st.floats(0, 1)


@settings(deadline=None)
@given(arrays(np.float64, st.integers(0, 20), elements=probabilities))
def test_probabilities_pass_unchanged(scores):
    checked = as_scores(scores, classes=None)
    np.testing.assert_array_equal(checked.values, scores)
    assert checked.missing is None
    assert (checked.n_missing, checked.clipped, checked.columns) == (0, 0, False)


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


def test_one_column_is_the_second_class():
    column = np.array([[0.2], [0.7]])
    assert as_scores(column, classes=None, n_classes=2).values.tolist() == [0.2, 0.7]
    assert as_scores(pd.DataFrame({"p": [0.2, 0.7]}), classes=(0, 1), n_classes=2).values.ndim == 1


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_tables_are_read_by_the_names_of_the_classes(kind):
    table = kind({"c": [0.5, 0.1], "a": [0.2, 0.3], "b": [0.3, 0.6]})
    checked = as_scores(table, classes=("a", "b", "c"), n_classes=3)
    assert checked.values.tolist() == [[0.2, 0.3, 0.5], [0.3, 0.6, 0.1]]
    assert checked.columns


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_columns_that_do_not_match_are_refused_with_the_close_one(kind):
    table = kind({"cat": [0.5], "dog": [0.2], "brid": [0.3]})
    with pytest.raises(InputError, match=r"none is named 'bird'\. Did you mean 'brid'\?"):
        as_scores(table, classes=("bird", "cat", "dog"), n_classes=3)


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


def test_given_classes_keep_their_order():
    classes, codes = as_labels(["b", "a", "b"], classes=["b", "a"])
    assert classes == ("b", "a")
    assert codes.tolist() == [0, 1, 0]
    with pytest.raises(InputError):
        as_labels(["b", "a"], classes=["b", "a", "a"])


def test_weights_come_back_as_floats_or_not_at_all():
    assert as_weights(None, n=3) is None
    assert as_weights([1, 2, 0], n=3).tolist() == [1.0, 2.0, 0.0]
    assert as_weights([], n=0).tolist() == []
    with pytest.warns(WeightWarning, match=r"effective sample size is 1\.2 of 3"):
        as_weights([20, 1, 1], n=3)


def test_the_effective_sample_size_is_kishs():
    assert effective_size(np.ones(7)) == 7
    assert effective_size(np.array([3.0, 1.0])) == pytest.approx(1.6)
    assert effective_size(np.zeros(3)) == 0
    assert effective_size(np.zeros(0)) == 0
