"""Labels of field rows: counted with the field, per design, and merged, taken out and saved like everything else."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit

import fieldcal
from fieldcal import Field, regression
from fieldcal.errors import FieldcalError, InputError


@functools.cache
def world(n=400):
    """A lab, and a field of which every fifth row or so has a label."""
    data = fieldcal.datasets.label_shift(n_lab=1000, n_field=n, n_groups=5, random_state=3)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=5)
    seen = np.random.default_rng(5).random(n) < 0.2
    y = [label if known else None for label, known in zip(data.y_field.tolist(), seen, strict=True)]
    return lab, data.proba_field, data.groups_field, y


def plainly(lab, proba, codes, y, weight=None):
    """Labelled rows per group, class and bin, one by one."""
    table = np.zeros((max(codes) + 1, len(lab.classes), lab.n_bins))
    weight = np.ones(len(y)) if weight is None else weight
    for g, j, label, w in zip(codes, lab.partition.assign(proba), y, weight, strict=True):
        if label is not None:
            table[g, lab.classes.index(label), j] += w
    return table


# Counting


def test_labels_are_counted_per_group_class_and_bin():
    lab, proba, groups, y = world()
    field = fieldcal.count(lab, proba, groups=groups, y=y)
    found = field.labelled["random"]
    assert found.at.tolist() == [0, 1, 2, 3, 4]
    codes = [field.groups.index(g) for g in groups]
    np.testing.assert_array_equal(found.counts, plainly(lab, proba, codes, y))
    assert found.counts.dtype == np.int64
    assert field.n_labelled == sum(label is not None for label in y)
    assert repr(field) == f"Field: 400 rows, 5 groups, 5 bins, {field.n_labelled:.0f} labelled"


def test_labels_that_are_all_missing_give_the_same_bytes_as_none():
    lab, proba, groups, y = world()
    weight = np.linspace(0.1, 2.0, len(y))
    without = fieldcal.count(lab, proba, groups=groups, sample_weight=weight)
    for none in (None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")):
        missing = fieldcal.count(
            lab, proba, groups=groups, sample_weight=weight, y=[none] * len(y), design="by_class"
        )
        assert missing.to_json() == without.to_json()
        assert missing.n_labelled == 0
    dropped = fieldcal.count(lab, [0.2, np.nan, 0.7], y=[0, 1, None], missing="drop")
    assert (dropped.n_labelled, dropped.dropped) == (1, 1)


def test_labelled_counts_are_sums_of_the_weights_in_whatever_order_rows_come():
    lab, proba, groups, y = world()
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(y))
    field = fieldcal.count(lab, proba, groups=groups, y=y, sample_weight=weight)
    codes = [field.groups.index(g) for g in groups]
    np.testing.assert_allclose(field.labelled["random"].counts, plainly(lab, proba, codes, y, weight))
    order = np.random.default_rng(1).permutation(len(y))
    again = fieldcal.count(
        lab, proba[order], groups=groups[order], y=[y[i] for i in order], sample_weight=weight[order]
    )
    assert again.to_json() == field.to_json()
    double = fieldcal.count(lab, proba, groups=groups, y=y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_array_equal(
        double.labelled["random"].counts, 2 * plainly(lab, proba, codes, y).astype(int)
    )


def in_forms():
    """Labels 0 and 1 of the first and the third of four rows, in whatever holds them."""
    values = [1, None, 0, None]
    return (
        np.array([1.0, np.nan, 0.0, np.nan]),
        np.ma.array([1, 9, 0, 9], mask=[0, 1, 0, 1]),
        np.array([[1.0], [np.nan], [0.0], [np.nan]]),
        pd.Series(values, dtype="Int64"),
        pd.Series([1, pd.NA, 0, None], dtype=object),
        pd.Series(pd.Categorical(values, categories=[0, 1])),
        pd.Series([True, None, False, None], dtype="boolean"),
        pd.DataFrame({"y": values}),
        pl.Series([1.0, None, 0.0, float("nan")]),
        pa.chunked_array([values[:1], values[1:]]),
    )


def test_labels_come_in_any_form_with_any_null():
    lab, *_ = world()
    expected = fieldcal.count(lab, [0.9, 0.2, 0.1, 0.5], y=[1, None, 0, None])
    assert expected.n_labelled == 2
    for form in in_forms():
        assert fieldcal.count(lab, [0.9, 0.2, 0.1, 0.5], y=form) == expected


def test_labels_that_cannot_be_are_refused_with_their_value_and_row():
    lab, *_ = world()
    for y, words in (
        ([None, 1, 7], "The label 7 in row 2 is not among the classes"),
        ([None, 1, "1"], "The label '1' in row 2 is not among the classes"),
        ([np.nan, 0.5, 1.0], "The label 0.5 in row 1 is not among the classes"),
        ([None, (0, 1), 1], r"The label \(0, 1\) in row 1"),
        (["", None, 1], "The label '' in row 0"),
        ([0, 1], "There are 3 predictions but 2 labels y"),
        ("abc", "y must be one label per row"),
        ({0: 1, 1: 0, 2: 1}, "y must be one label per row"),
        (np.eye(3, 2), "one-hot"),
    ):
        with pytest.raises(FieldcalError, match=words):
            fieldcal.count(lab, [0.1, 0.2, 0.3], y=y)
    for given, words in (
        ({"design": "by_class"}, "design.* describes labels, but none are given.*y"),
        ({"only_labels": True}, "only_labels.* describes labels, but none are given.*y"),
        (
            {"y": [0, 1], "design": "best"},
            "design must be 'random', 'by_score' or 'by_class', but got 'best'",
        ),
        ({"y": [None, None], "only_labels": True}, "There are no labels"),
    ):
        with pytest.raises(InputError, match=words):
            fieldcal.count(lab, [0.1, 0.2], **given)


# Numbers


@functools.cache
def numbers():
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    predicted = regression.from_moments((y + 0.7 * rng.normal(size=400)) / 1.49, np.full(400, 0.57))
    return fieldcal.learn(predicted, y, intervals=[-1, 0, 1]), predicted, y


def test_numbers_are_labels_of_the_intervals_that_they_lie_in():
    lab, predicted, y = numbers()
    given = np.where(np.arange(400) % 3 == 0, y, np.nan)
    found = fieldcal.count(lab, predicted, y=given).labelled["random"].counts
    expected = np.histogram(y[::3], bins=[-np.inf, -1, 0, 1, np.inf])[0]
    np.testing.assert_array_equal(found.sum(axis=(0, 2)), expected)
    for form in (np.ma.array(y, mask=np.isnan(given)), pd.Series(given).astype("Float64"), pl.Series(given)):
        assert fieldcal.count(lab, predicted, y=form) == fieldcal.count(lab, predicted, y=given)


# Labels that come later


def test_a_second_table_of_labels_is_merged_into_what_one_call_gives():
    lab, proba, groups, y = world()
    weight = np.random.default_rng(2).integers(1, 4, len(y)).astype(float)
    known = [i for i, label in enumerate(y) if label is not None]
    given = {"groups": groups[known], "y": [y[i] for i in known], "sample_weight": weight[known]}
    later = fieldcal.count(lab, proba[known], **given, only_labels=True)
    both = fieldcal.count(lab, proba, groups=groups, sample_weight=weight) + later
    assert both == fieldcal.count(lab, proba, groups=groups, y=y, sample_weight=weight)
    assert not any(table.any() for table in (later.V, later.score_sums, later.weight_squares))


def test_a_group_that_only_the_labels_have_comes_in_without_rows():
    lab, *_ = world()
    field = fieldcal.count(lab, [0.2, 0.4], groups=["b", "d"])
    both = field + fieldcal.count(lab, [0.9, 0.1], groups=["c", "a"], y=[1, 0], only_labels=True)
    assert both.groups == ("a", "b", "c", "d")
    assert both.n.tolist() == [0, 1, 0, 1]
    assert both.labelled["random"].at.tolist() == [0, 2]
    assert both.labelled["random"].counts.sum(axis=2).tolist() == [[1, 0], [0, 1]]


# Files and memory


def test_labels_cannot_be_changed():
    lab, proba, groups, y = world()
    found = fieldcal.count(lab, proba, groups=groups, y=y).labelled
    with pytest.raises(TypeError, match="labels of a Field cannot be changed"):
        found["by_score"] = found["random"]
    with pytest.raises(ValueError, match="read-only"):
        found["random"].counts[0] = 1


def test_a_file_whose_labels_cannot_be_is_refused():
    lab, *_ = world()
    for wrong, words in (
        ({"at": [5]}, "more groups than the batch has"),
        ({"at": [-1]}, "counts must not be negative"),
        ({"at": [0.5]}, "at must be positions"),
        ({"at": [0, 1]}, "a table of classes and bins for each"),
        ({"counts": [[[1] * 5] * 3]}, "other classes or bins"),
    ):
        content = fieldcal.count(lab, [0.2, 0.6], groups=["a", "b"], y=[0, None]).content()
        content["batches"][""]["labelled"]["random"] |= wrong
        with pytest.raises(ValueError, match=words):
            Field.model_validate(content)


# Estimators and words


def test_an_estimator_adapts_to_rows_some_of_which_have_labels():
    _, proba, groups, y = world()
    columns = np.column_stack([1 - proba, proba])
    data = fieldcal.datasets.label_shift(n_lab=1000, random_state=3)
    fitted = fieldcal.Recalibrator(partition=5).fit(
        np.column_stack([1 - data.proba_lab, data.proba_lab]), data.y_lab
    )
    field = fitted.adapt(columns, groups=groups, y=y, design="by_class").field_
    assert set(field.labelled) == {"by_class"}
    later = fitted.adapt(columns, groups=groups).partial_adapt(
        columns, groups=groups, y=y, design="by_class", only_labels=True
    )
    assert later.field_ == field


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(("rehearsed", "state"), [(False, "care"), (True, "ok")])
def test_fault_77_a_group_without_labels_is_marked_and_asks_for_care_unless_lab_groups_were_rehearsed(
    rehearsed, state
):
    data = fieldcal.datasets.label_shift(n_lab=1500, n_field=1500, n_groups=4, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab if rehearsed else None)
    y = np.where((data.groups_field < 3) & (np.arange(1500) % 5 == 0), data.y_field, np.nan)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field, y=y))
    assert ["no_labels" in status for status in prev.status] == [False, False, False, True]
    found = prev.verdict.finding("groups_without_labels")
    assert (found.state, found.groups) == (state, (3,))
    assert rehearsed or prev.verdict.level != "ok"


def test_groups_with_one_prediction_for_all_rows_leave_the_others_their_correction():
    rng = np.random.default_rng(3)
    share, G, rows = rng.beta(3, 5, 50), 50, 300
    group = np.repeat(np.arange(G), rows)

    def model(y):
        return expit(1.6 * rng.normal(np.where(y, 0.8, -0.8)) - 0.5)

    y_lab, y = rng.random(2_000) < 0.375, rng.random(len(group)) < share[group]
    lab, scores = fieldcal.learn(model(y_lab), y_lab.astype(int)), model(y)
    given = np.full(len(y), np.nan)
    known = rng.choice(len(y), 200, replace=False)
    given[known] = y[known]
    truth, errors = np.bincount(group, y) / rows, []
    for broken in (0, 5):
        some = np.where(group < broken, scores.mean(), scores)
        prev = fieldcal.estimate(lab, fieldcal.count(lab, some, groups=group, y=given))
        order = [prev.groups.index(g) for g in range(G)]
        errors.append(np.abs(prev.estimate[order, 1] - truth)[5:].mean())
    assert errors[1] < 1.1 * errors[0]
