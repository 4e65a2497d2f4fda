"""Bad input and faults on arrays. The number in each test's name is the row of the table of faults.

E: an error that says what, which value, what next. W: an own warning and a result. D: visible in `status`.
In every case, no input is changed.
"""

from __future__ import annotations

import copy
import decimal
import fractions
import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import threadpoolctl

import fieldcal
from fieldcal.errors import (
    CalibrationWarning,
    ConvergenceWarning,
    FieldcalError,
    IdentifiabilityWarning,
    InputError,
    InputTypeError,
    PoolingWarning,
    SmallSampleWarning,
    UnseenGroupWarning,
    WeightWarning,
)
from fieldcal.objects import UNNAMED, Batch

URC = {"prior": "flat", "point": "mode", "trust": 1}  # the paper's plain estimator
UNCALIBRATED = "ignore:The model is not calibrated:fieldcal.errors.CalibrationWarning"
TOO_GOOD = "ignore:The lab's log loss:fieldcal.errors.CalibrationWarning"


@functools.cache
def binary():
    return fieldcal.datasets.label_shift(
        n_lab=2000, n_field=1200, prevalence=[[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], random_state=1
    )


@functools.cache
def three():
    return fieldcal.datasets.label_shift(
        n_lab=3000, n_field=900, p_lab=(0.5, 0.3, 0.2), prevalence=[[0.2, 0.2, 0.6]], random_state=2
    )


@functools.cache
def binary_lab():
    return fieldcal.learn(binary().proba_lab, binary().y_lab)


@functools.cache
def three_lab():
    return fieldcal.learn(three().proba_lab, three().y_lab)


@functools.cache
def binary_prevalence():
    data = binary()
    return fieldcal.estimate(
        binary_lab(), fieldcal.count(binary_lab(), data.proba_field, groups=data.groups_field), **URC
    )


@functools.cache
def three_prevalence():
    return fieldcal.estimate(three_lab(), fieldcal.count(three_lab(), three().proba_field), **URC)


def flags(prev, group=0):
    return {flag.strip() for flag in prev.status[group].split(",")}


def unchanged(call, *values, **options):
    """Call with deep copies kept aside; nothing that was passed in may differ afterwards."""
    before = copy.deepcopy((values, options))
    try:
        return call(*values, **options)
    finally:
        for kept, now in zip(before[0], values, strict=True):
            _assert_same(kept, now)
        for name, kept in before[1].items():
            _assert_same(kept, options[name])


def _assert_same(kept, now):
    if isinstance(kept, np.ndarray):
        np.testing.assert_array_equal(kept, now)
        assert kept.dtype == now.dtype
    elif isinstance(kept, (pd.DataFrame, pd.Series)):
        assert kept.equals(now)
        assert kept.index.equals(now.index)
    elif isinstance(kept, (pl.DataFrame, pl.Series, pa.Table)):
        assert kept.equals(now)
    else:
        assert repr(kept) == repr(now)


def interval_is_sound(prev):
    assert np.isfinite(prev.estimate).all()
    assert (prev.lower >= 0).all()
    assert (prev.upper <= 1).all()
    assert (prev.lower <= prev.estimate + 1e-12).all()
    assert (prev.estimate <= prev.upper + 1e-12).all()
    np.testing.assert_allclose(prev.estimate.sum(axis=1), 1, atol=1e-9)


# 1: missing scores


@pytest.mark.parametrize(
    "scores",
    [
        np.array([0.1, np.nan, 0.9, np.nan, 0.4]),
        [0.1, None, 0.9, float("nan"), 0.4],
        pd.Series([0.1, pd.NA, 0.9, pd.NA, 0.4], dtype="Float64"),
        pl.Series([0.1, None, 0.9, float("nan"), 0.4]),
        pa.array([0.1, None, 0.9, None, 0.4]),
        np.ma.array([0.1, 0.5, 0.9, 0.5, 0.4], mask=[0, 1, 0, 1, 0]),
        np.array([0.1, decimal.Decimal("NaN"), 0.9, None, 0.4], dtype=object),
    ],
    ids=["numpy", "list", "pandas", "polars", "pyarrow", "masked", "decimal"],
)
def test_fault_01_missing_scores_are_refused_or_dropped_and_counted(scores):
    with pytest.raises(InputError, match=r"2 of 5 .* missing .* row 1\b.*missing='drop'"):
        fieldcal.count(binary_lab(), scores)
    field = fieldcal.count(binary_lab(), scores, missing="drop")
    assert field.dropped == 2
    assert field.V.sum() == 3
    assert field == fieldcal.count(binary_lab(), [0.1, np.nan, 0.9, np.nan, 0.4], missing="drop")
    assert "2 rows dropped" in repr(field)


def test_fault_01_a_row_with_one_missing_class_is_dropped_whole():
    proba = np.array([[0.2, 0.3, 0.5], [np.nan, 0.5, 0.5], [0.1, 0.1, 0.8]])
    field = unchanged(fieldcal.count, three_lab(), proba, missing="drop", groups=["a", "b", "a"])
    assert field.dropped == 1
    assert field.groups == ("a", "b")
    assert field.n.tolist() == [2, 0], "a group that lost all its rows stays visible"


def test_fault_01_a_missing_score_in_the_lab_is_refused_with_the_count():
    proba = np.append(binary().proba_lab[:-1], np.nan)
    with pytest.raises(InputError, match=r"1 of 2000 lab predictions are missing"):
        fieldcal.learn(proba, binary().y_lab)


def test_fault_01_recalibrate_refuses_missing_scores_or_keeps_them_missing():
    proba = np.array([0.2, np.nan, 0.7])
    groups = [0, 1, 2]
    with pytest.raises(InputError, match="1 of 3"):
        fieldcal.recalibrate(binary_prevalence(), proba, groups=groups)
    new = unchanged(fieldcal.recalibrate, binary_prevalence(), proba, groups=groups, missing="keep")
    assert np.isnan(new).tolist() == [False, True, False]
    columns = np.array([[0.2, 0.3, 0.5], [np.nan, 0.5, 0.5]])
    kept = fieldcal.recalibrate(three_prevalence(), columns, missing="keep")
    assert np.isnan(kept).any(axis=1).tolist() == [False, True]


def test_fault_01_dropped_rows_take_their_weights_and_groups_along():
    field = fieldcal.count(
        binary_lab(), [0.1, np.nan, 0.9], groups=["a", "b", "c"], sample_weight=[2, 3, 2], missing="drop"
    )
    assert field.n.tolist() == [2, 0, 2]


@pytest.mark.parametrize("option", ["keep", "ignore", None, True])
def test_fault_01_an_unknown_way_to_treat_missing_scores_is_refused(option):
    with pytest.raises(InputError, match="'error' or 'drop'"):
        fieldcal.count(binary_lab(), [0.5], missing=option)


# 2: not probabilities


@pytest.mark.parametrize(
    ("scores", "cause"),
    [
        ([0.2, np.inf], "Infinite"),
        ([-np.inf, 0.5], "Infinite"),
        ([np.inf, -np.inf, 0.5], "Infinite"),
        ([np.nan, np.inf, -np.inf], "missing"),
        ([3.0, 50.0, 97.0], "percent"),
        ([0.2, 1.2], "percent"),
        ([-3.0, 0.2, 4.0], "logits"),
        ([-0.1, -2.3], "log-probabilities"),
        ([1e308, 1e308], "logits"),
        ([1 + 2e-6], "percent"),
        ([-2e-6, 0.3], "logits"),
    ],
)
def test_fault_02_scores_outside_0_and_1_are_refused_with_the_likely_cause(scores, cause):
    with pytest.raises(InputError, match=cause):
        unchanged(fieldcal.count, binary_lab(), np.array(scores))


def test_fault_02_the_worst_value_is_named():
    with pytest.raises(InputError, match=r"must be probabilities, but reach 97\b"):
        fieldcal.count(binary_lab(), [3.0, 97.0])
    with pytest.raises(InputError, match=r"lab predictions .* reach -4\b"):
        fieldcal.learn([-4.0, 0.5], [0, 1])


# 3: rounding


def test_fault_03_rounding_beyond_0_and_1_is_clipped_and_counted():
    scores = np.array([1 + 1e-12, -1e-12, 0.5, 1.0, 0.0])
    field = unchanged(fieldcal.count, binary_lab(), scores)
    assert field.clipped == 2
    assert field.V.tolist() == fieldcal.count(binary_lab(), [1, 0, 0.5, 1, 0]).V.tolist()
    new = unchanged(fieldcal.recalibrate, binary_prevalence(), scores, groups=[0] * 5)
    assert new[[0, 1]].tolist() == [1.0, 0.0]
    data = binary()
    lab = fieldcal.learn(np.append(data.proba_lab, 1 + 1e-9), np.append(data.y_lab, 1))
    assert lab.clipped == 1


# 4: rows that do not sum to one


def test_fault_04_rows_must_sum_to_one_and_the_worst_is_named():
    proba = np.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.52], [0.9, 0.8, 0.7], [0.5, 0.5, 0.0]])
    with pytest.raises(InputError, match=r"row 2 sums to 2\.4\b.*normalize=True"):
        unchanged(fieldcal.count, three_lab(), proba)
    with pytest.raises(InputError, match=r"row 2 sums to 2\.4\b"):
        fieldcal.recalibrate(three_prevalence(), proba)


def test_fault_04_normalize_rescales_rows_in_every_verb():
    data = three()
    votes = data.proba_lab * np.linspace(0.3, 0.99, len(data.proba_lab))[:, None]
    same = votes / votes.sum(axis=1, keepdims=True)
    lab = unchanged(fieldcal.learn, votes, data.y_lab, normalize=True)
    assert lab == fieldcal.learn(same, data.y_lab)
    scaled = 0.5 * data.proba_field
    field = unchanged(fieldcal.count, lab, scaled, normalize=True)
    assert field.V.tolist() == fieldcal.count(lab, scaled / scaled.sum(axis=1, keepdims=True)).V.tolist()
    prev = fieldcal.estimate(lab, field, **URC)
    np.testing.assert_allclose(
        fieldcal.recalibrate(prev, scaled, normalize=True), fieldcal.recalibrate(prev, data.proba_field)
    )


# 5: certainty


def test_fault_05_exact_0_and_1_are_binned_and_stay_0_and_1():
    data = binary()
    scores = np.concatenate([data.proba_lab, [0.0, 1.0]])
    lab = fieldcal.learn(scores, np.concatenate([data.y_lab, [0, 1]]))
    field = fieldcal.count(lab, [0.0, 1.0, 1.0])
    assert field.V[0, 0] == 1
    assert field.V[0, -1] == 2
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), **URC)
    assert fieldcal.recalibrate(prev, [0.0, 1.0]).tolist() == [0.0, 1.0]
    one_hot = np.eye(3)
    assert fieldcal.recalibrate(three_prevalence(), one_hot).tolist() == one_hot.tolist()


def test_fault_05_certainty_of_a_class_that_the_estimate_rules_out_is_left_alone():
    lab = fieldcal.learn(np.repeat([0.1, 0.9], 50), np.repeat([0, 1], 50), smoothing=0, partition=2)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, np.full(30, 0.1)), **URC)
    assert prev.urc[0, 1] == 0
    new = fieldcal.recalibrate(prev, [0.0, 0.5, 1.0])
    assert new.tolist() == [0.0, 0.0, 1.0]
    columns = fieldcal.recalibrate(prev, [[0.0, 1.0], [0.5, 0.5]])
    assert columns.tolist() == [[0.0, 1.0], [1.0, 0.0]]


# 6: a row of zeros


@pytest.mark.parametrize("normalize", [False, True])
def test_fault_06_a_row_of_zeros_is_refused(normalize):
    proba = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 0.0]])
    with pytest.raises(InputError, match=r"Row 1 .* all zeros"):
        unchanged(fieldcal.count, three_lab(), proba, normalize=normalize)


# 7: number types

EXACT = [0.0, 0.125, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    "scores",
    [
        np.array(EXACT, dtype=np.float16),
        np.array(EXACT, dtype=np.float32),
        np.array(EXACT, dtype=np.longdouble),
        [decimal.Decimal(x) for x in EXACT],
        [fractions.Fraction(x) for x in EXACT],
        np.array(EXACT, dtype=object),
        pd.Series(EXACT, dtype="Float32"),
        pl.Series(EXACT, dtype=pl.Float32),
        pa.array(EXACT, type=pa.float32()),
    ],
    ids=["float16", "float32", "longdouble", "decimal", "fraction", "object", "pandas", "polars", "pyarrow"],
)
def test_fault_07_every_type_of_number_is_compared_in_float64(scores):
    lab = fieldcal.learn(
        binary().proba_lab, binary().y_lab, partition=fieldcal.Edges([0.125, 0.25, 0.5, 0.75])
    )
    assert fieldcal.count(lab, scores) == fieldcal.count(lab, np.array(EXACT))


@pytest.mark.parametrize("dtype", [int, np.int8, np.uint64, bool])
def test_fault_07_whole_numbers_0_and_1_are_scores(dtype):
    field = fieldcal.count(binary_lab(), np.array([0, 1, 1], dtype=dtype))
    assert field == fieldcal.count(binary_lab(), [0.0, 1.0, 1.0])


def test_fault_07_single_precision_scores_are_not_rounded_onto_an_edge():
    lab = fieldcal.learn(binary().proba_lab, binary().y_lab, partition=fieldcal.Edges([0.1]))
    assert float(np.float32(0.1)) > 0.1
    assert fieldcal.count(lab, np.array([0.1], dtype=np.float32)).V.tolist() == [[0, 1]]
    assert fieldcal.count(lab, np.array([0.1], dtype=np.float64)).V.tolist() == [[1, 0]]


def test_fault_07_half_precision_rows_may_miss_a_sum_of_one_by_rounding():
    proba = three().proba_field.astype(np.float16)
    assert fieldcal.count(three_lab(), proba).V.sum() == len(proba)


# 8: no numbers


@pytest.mark.parametrize(
    "scores",
    [
        ["0.2", "0.5"],
        np.array(["high", "low"]),
        np.array(["0.2", 0.5], dtype=object),
        [b"0.2"],
        pd.Series(["a", "b"]),
        pl.Series(["a", "b"]),
        pa.array(["a", "b"]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([0.5 + 1j]),
        [{"p": 0.5}],
        object(),
        "0.5",
    ],
)
def test_fault_08_what_is_no_number_is_refused(scores):
    with pytest.raises(InputTypeError, match=r"must be numbers, but hold .* of type .*Convert"):
        fieldcal.count(binary_lab(), scores)
    with pytest.raises(InputTypeError, match="must be numbers"):
        fieldcal.learn(scores, [0, 1])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (0.5, r"shape \(n,\) or \(n, K\)"),
        (None, r"shape \(n,\) or \(n, K\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        ([[0.1, 0.9], [0.2]], "unequal length"),
        (np.full((4, 3), 1 / 3), "3 columns.*there are 2"),
    ],
    ids=["scalar", "none", "cube", "ragged", "three-columns"],
)
def test_fault_08_scores_of_a_strange_shape_are_refused(scores, message):
    with pytest.raises(InputError, match=message):
        fieldcal.count(binary_lab(), scores)


# 9: nothing there


def test_fault_09_an_empty_field_is_refused_for_one_population():
    for empty in ([], np.empty((0, 2)), pd.Series([], dtype=float)):
        with pytest.raises(InputError, match="field is empty"):
            fieldcal.count(binary_lab(), empty)
    with pytest.raises(InputError, match="field is empty"):
        fieldcal.count(binary_lab(), [np.nan], missing="drop")


def test_fault_09_an_empty_batch_with_groups_merges_into_others_and_is_no_estimate():
    empty = fieldcal.count(binary_lab(), [], groups=[])
    assert empty.V.shape == (0, 8)
    assert fieldcal.Field.from_json(empty.to_json()) == empty
    some = fieldcal.count(binary_lab(), [0.2], groups=["a"])
    assert empty + some == some + empty == some
    for ask in (fieldcal.estimate, fieldcal.check):
        with pytest.raises(InputError, match="it has no rows"):
            ask(binary_lab(), empty)


def test_fault_09_an_empty_lab_is_refused():
    with pytest.raises(InputError, match="The lab has no rows"):
        fieldcal.learn([], [])


# 10: a group with one row


def test_fault_10_a_group_with_one_row_is_flagged_and_has_a_wide_interval():
    data = binary()
    groups = np.where(np.arange(len(data.proba_field)) == 0, "tiny", "large")
    field = unchanged(fieldcal.count, binary_lab(), data.proba_field, groups=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoolingWarning)
        prev = fieldcal.estimate(binary_lab(), field, trust=1)
    interval_is_sound(prev)
    assert "few_rows" in flags(prev, 1)
    assert "few_rows" not in flags(prev, 0)
    width = prev.upper - prev.lower
    assert (width[1] > 3 * width[0]).all()


# 11: groups that estimate never saw


def test_fault_11_unseen_groups_get_the_estimate_of_the_whole_field_with_a_warning():
    prev = binary_prevalence()
    proba = np.array([0.3, 0.3, 0.3])
    groups = np.array([0, 77, 78])
    with pytest.warns(UnseenGroupWarning, match=r"2 groups \(2 rows, the first is '77'\).*unseen='raw'"):
        new = unchanged(fieldcal.recalibrate, prev, proba, groups=groups)
    weights = prev.steps_unseen[0].weights
    assert new[1] == new[2] == pytest.approx(0.3 * weights[1] / (0.3 * weights[1] + 0.7 * weights[0]))
    assert new[0] != new[1]


def test_fault_11_unseen_groups_can_be_left_alone_or_refused():
    prev = binary_prevalence()
    new = fieldcal.recalibrate(prev, [0.3, 0.3], groups=[0, 77], unseen="raw")
    assert new[1] == pytest.approx(0.3, abs=1e-15)
    with pytest.raises(InputError, match=r"1 groups \(1 rows, the first is '77'\) were not in the field"):
        fieldcal.recalibrate(prev, [0.3, 0.3], groups=[0, 77], unseen="error")
    with pytest.raises(InputError, match="unseen must be"):
        fieldcal.recalibrate(prev, [0.3], groups=[0], unseen="skip")
    with pytest.raises(InputError, match=r"per group \(3 of them\)"):
        fieldcal.recalibrate(prev, [0.3])
    with pytest.raises(InputError, match="one population"):
        fieldcal.recalibrate(three_prevalence(), [[0.2, 0.3, 0.5]], groups=["a"])


# 12: nulls as groups


@pytest.mark.parametrize(
    "groups",
    [
        ["a", None, "", float("nan")],
        np.array(["a", None, "", np.nan], dtype=object),
        pd.Series(["a", None, "", None]),
        pd.Series(["a", pd.NA, "", pd.NA], dtype="string"),
        pd.Series(["a", None, "", None], dtype="category"),
        ["a", pd.NaT, "", np.datetime64("NaT", "ns")],
        ["a", decimal.Decimal("NaN"), "", np.float32("nan")],
        pl.Series(["a", None, "", None]),
        pa.array(["a", None, "", None]),
        pa.chunked_array([["a", None], ["", None]]),
    ],
    ids=["list", "numpy", "pandas", "string", "category", "nat", "decimal", "polars", "pyarrow", "chunked"],
)
def test_fault_12_null_is_a_group_of_its_own_and_the_empty_string_is_not_null(groups):
    field = fieldcal.count(binary_lab(), [0.1, 0.2, 0.8, 0.9], groups=groups)
    assert field.groups == ("", "a", None)
    assert field.n.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "groups",
    [
        pd.Series([3, None, 3], dtype="Int64"),
        pl.Series([3, None, 3]),
        pa.array([3, None, 3]),
        np.ma.array([3, 4, 3], mask=[0, 1, 0]),
    ],
    ids=["pandas", "polars", "pyarrow", "masked"],
)
def test_fault_12_whole_numbers_with_a_null_stay_whole(groups):
    field = fieldcal.count(binary_lab(), [0.1, 0.2, 0.8], groups=groups)
    assert field.groups == (3, None)
    assert [type(k) for k in field.groups] == [int, type(None)]


def test_fault_12_a_null_inside_a_composite_key_is_kept():
    groups = pd.DataFrame({"country": ["x", "x", None], "year": [2001, 2001, 2002]})
    field = unchanged(fieldcal.count, binary_lab(), np.array([0.1, 0.2, 0.8]), groups=groups)
    assert field.groups == (("x", 2001), (None, 2002))
    assert fieldcal.Field.from_json(field.to_json()) == field


# 13: look-alikes


def test_fault_13_look_alike_groups_do_not_merge():
    groups = [1, "1", True, (1,), ("1",), (True,)]
    proba = np.linspace(0.1, 0.9, len(groups))
    field = fieldcal.count(binary_lab(), proba, groups=groups)
    assert len(field.groups) == len(groups)
    assert sorted(map(repr, field.groups)) == sorted(map(repr, groups))
    again = fieldcal.Field.from_json(field.to_json())
    assert list(map(repr, again.groups)) == list(map(repr, field.groups))
    assert (field + again).n.tolist() == [2] * len(groups)


def test_fault_13_a_look_alike_of_a_known_group_is_unseen():
    prev = binary_prevalence()
    for stranger in ("0", False, (0,)):
        with pytest.raises(InputError, match="not in the field"):
            fieldcal.recalibrate(prev, [0.3], groups=[stranger], unseen="error")
    known = [np.int8(0), np.uint64(0), 0.0]  # the last as in a pandas column with gaps
    assert fieldcal.recalibrate(prev, [0.3] * 3, groups=known, unseen="error").shape == (3,)


def test_fault_13_times_finer_than_python_can_hold_are_refused_and_not_merged():
    for groups in (
        np.array([1, 2], dtype="M8[ns]"),
        pd.Series(np.array([1, 2], dtype="M8[ns]")),
        [np.datetime64(1, "ns"), np.datetime64(2, "ns")],
    ):
        with pytest.raises(InputError, match="finer than a microsecond"):
            fieldcal.count(binary_lab(), [0.1, 0.2], groups=groups)


# 15: a million groups


@pytest.mark.slow
def test_fault_15_a_million_groups_work_in_memory_of_groups_times_bins():
    n_groups = 1_000_000
    proba = np.resize(binary().proba_field, n_groups)
    groups = np.arange(n_groups)
    field = fieldcal.count(binary_lab(), proba, groups=groups)
    assert field.V.shape == (n_groups, 8)
    assert field.V.sum() == n_groups
    prev = fieldcal.estimate(binary_lab(), field, **URC, level=None)
    assert prev.estimate.shape == (n_groups, 2)
    new = fieldcal.recalibrate(prev, proba, groups=groups)
    assert np.isfinite(new).all()


@pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")
def test_fault_15_many_groups_have_intervals_by_default():
    n_groups = 5_000
    proba = np.resize(binary().proba_field, 2 * n_groups)
    field = fieldcal.count(binary_lab(), proba, groups=np.arange(2 * n_groups) % n_groups)
    prev = fieldcal.estimate(binary_lab(), field, trust=1)
    interval_is_sound(prev)
    assert set(prev.status) == {"few_rows"}


# 21: classes and labels that do not fit


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([0, 1, 0, 1], [0, 1, 2], r"no row of class 2"),
        ([0, 0, 0, 0], None, r"single class, \[0\]"),
        ([0, 0, 0, 0], [0], r"single class, \[0\]"),
        ([0, 1, 2, 1], [0, 1], r"label 2 is not among the classes \[0, 1\]"),
        (["cat", "dgo", "cat", "dog"], ["cat", "dog"], r"label 'dgo' .* Did you mean 'dog'\?"),
        (["0", "1", "0", "1"], [0, 1], r"label '0' is not among the classes \[0, 1\]"),
        ([0, 1, None, 1], None, r"1 labels are missing"),
        ([0, 1, np.nan, 1], [0, 1], r"1 labels are missing"),
        ([0, 1, 0], None, r"4 predictions but 3 labels"),
        (np.eye(2)[[0, 1, 0, 1]], None, r"one-hot\? Take the argmax"),
    ],
)
def test_fault_21_labels_and_classes_that_do_not_fit_are_refused(labels, classes, message):
    with pytest.raises(InputError, match=message):
        unchanged(fieldcal.learn, np.array([0.1, 0.9, 0.2, 0.8]), labels, classes=classes)


def test_fault_21_more_classes_than_columns_are_refused():
    with pytest.raises(InputError, match=r"one column, which means 2 classes, but there are 3"):
        fieldcal.learn([0.1, 0.5, 0.9], ["a", "b", "c"])
    with pytest.raises(InputError, match=r"3 columns, which means 3 classes, but there are 2"):
        fieldcal.learn(np.full((4, 3), 1 / 3), [0, 1, 0, 1])


def test_fault_21_a_class_whose_rows_all_have_weight_zero_was_not_seen_either():
    data = binary()
    for smoothing in ("auto", 0):
        with pytest.raises(InputError, match=r"class 1 have weight zero"):
            fieldcal.learn(data.proba_lab, data.y_lab, sample_weight=1.0 - data.y_lab, smoothing=smoothing)


def test_fault_21_labels_that_cannot_be_hashed_or_counted_are_refused():
    with pytest.raises(InputTypeError, match=r"of type list.*use str\("):
        fieldcal.learn([0.1, 0.9], [[0], [1]])
    with pytest.raises(InputTypeError, match=r"0\.5 is a float and no whole number.*use str\("):
        fieldcal.learn([0.1, 0.9], [0.5, 1.5])
    with pytest.raises(InputTypeError, match="one label per row"):
        fieldcal.learn([0.1, 0.9], 1)


# 22: a class with few lab rows


@pytest.mark.filterwarnings(UNCALIBRATED)
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_fault_22_a_class_with_few_lab_rows_warns(rows):
    data = binary()
    keep = np.concatenate([np.flatnonzero(data.y_lab == 0), np.flatnonzero(data.y_lab == 1)[:rows]])
    with pytest.warns(SmallSampleWarning, match=rf"Class 1 has {rows} lab rows.*Label more"):
        fieldcal.learn(data.proba_lab[keep], data.y_lab[keep])


def test_fault_22_the_noise_of_a_small_class_enters_the_interval():
    """The same M from 4 rows of class 1 and from 4,000: the interval must tell the two apart."""
    ids = np.array([0] * 6 + [1] * 2 + [0] * 1 + [1] * 3)
    labels = np.array([0] * 8 + [1] * 4)
    with pytest.warns(SmallSampleWarning):
        small = fieldcal.learn(ids, labels, partition=fieldcal.Bins(2), smoothing=0)
    large = fieldcal.learn(np.tile(ids, 1000), np.tile(labels, 1000), partition=fieldcal.Bins(2), smoothing=0)
    np.testing.assert_allclose(small.M, large.M)
    field = np.repeat([0, 1], [200, 200])
    width = []
    for lab in (small, large):
        prev = fieldcal.estimate(lab, fieldcal.count(lab, field), **URC)
        interval_is_sound(prev)
        width.append(float((prev.upper - prev.lower)[0, 1]))
    assert width[0] > 1.5 * width[1]


# 23 and 24: labels of every type


@pytest.mark.parametrize(
    "names",
    [(0, 1), (False, True), ("no", "yes"), (0.0, 1.0), (-1, 1), (1, 2), (np.int8(0), np.int8(1))],
    ids=["int", "bool", "str", "float", "minus-one", "one-two", "numpy"],
)
def test_fault_23_labels_of_every_type_are_mapped_by_name(names):
    data = binary()
    labels = np.array(names)[data.y_lab]
    for given in (labels, labels.tolist(), pd.Series(labels), pl.Series(labels), labels[:, None]):
        lab = fieldcal.learn(data.proba_lab, given)
        assert lab.classes == tuple(np.array(names).tolist())
        assert lab.F.tolist() == binary_lab().F.tolist()


def test_fault_23_equal_labels_of_another_type_stand_for_the_class():
    data = binary()
    for labels in (data.y_lab.astype(float), data.y_lab.astype(bool)):
        lab = fieldcal.learn(data.proba_lab, labels, classes=[0, 1])
        assert lab.classes == (0, 1)
        assert lab.F.tolist() == binary_lab().F.tolist()


def test_fault_23_columns_are_matched_to_the_classes_by_name():
    data = three()
    names = np.array(["ant", "bee", "fly"])
    table = pd.DataFrame(data.proba_lab, columns=names)
    straight = fieldcal.learn(table, names[data.y_lab])
    turned = fieldcal.learn(table[["fly", "ant", "bee"]], names[data.y_lab])
    assert straight == turned
    with pytest.raises(InputError, match=r"none is named 'fly'\. Did you mean 'flyy'\?"):
        fieldcal.learn(table.rename(columns={"fly": "flyy"}), names[data.y_lab])
    with pytest.raises(InputError, match="do not match the classes"):
        fieldcal.learn(table.assign(wasp=0.0), names[data.y_lab])


def test_fault_23_columns_named_by_look_alikes_are_not_confused():
    data = binary()
    table = pd.DataFrame({1: 1 - data.proba_lab, "1": data.proba_lab})
    labels = [("1" if y else 1) for y in data.y_lab]
    lab = fieldcal.learn(table, labels)
    assert lab.classes == (1, "1")
    assert lab.F.tolist() == binary_lab().F.tolist()


@pytest.mark.filterwarnings(UNCALIBRATED)
def test_fault_23_predictions_worse_than_chance_warn():
    data = binary()
    with pytest.warns(CalibrationWarning, match=r"worse than chance.*name that class with positive"):
        fieldcal.learn(1 - data.proba_lab, data.y_lab)
    with pytest.warns(CalibrationWarning, match="order of the classes"):
        fieldcal.learn(three().proba_lab[:, [1, 2, 0]], three().y_lab)


def test_fault_24_numeric_0_and_1_labels_give_the_right_M():
    proba = np.array([0.1, 0.2, 0.6, 0.3, 0.7, 0.8, 0.9, 0.4])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    with pytest.warns(SmallSampleWarning):
        lab = fieldcal.learn(proba, labels, partition=fieldcal.Edges([0.5]), smoothing=0)
    assert lab.F.tolist() == [[3, 1], [1, 3]]
    np.testing.assert_allclose(lab.M, [[0.75, 0.25], [0.25, 0.75]])


# 25: a constant classifier


def test_fault_25_a_constant_classifier_cannot_be_identified_without_a_prior():
    lab = fieldcal.learn(np.full(100, 0.3), np.repeat([0, 1], [70, 30]))
    assert lab.n_bins == 1
    field = fieldcal.count(lab, np.full(40, 0.3))
    with pytest.raises(InputError, match=r"cannot be identified.*prior other than 'flat'"):
        fieldcal.estimate(lab, field, **URC)


@pytest.mark.parametrize("prior", ["dirichlet", "auto"])
def test_fault_25_with_a_prior_the_estimate_of_a_constant_classifier_is_the_prior(prior):
    lab = fieldcal.learn(np.full(100, 0.3), np.repeat([0, 1], [70, 30]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoolingWarning)
        prev = fieldcal.estimate(lab, fieldcal.count(lab, np.full(40, 0.3)), prior=prior, trust=1)
    interval_is_sound(prev)
    assert "prior_only" in flags(prev)
    assert "prior_only" not in flags(three_prevalence())


# 26: ties


@pytest.mark.filterwarnings(UNCALIBRATED, "ignore:The predictions hardly tell")
def test_fault_26_tied_edges_merge_and_the_true_number_of_bins_is_reported():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=600)
    three_values = np.choose(rng.integers(3, size=600), [0.2, 0.5, 0.8])
    lab = fieldcal.learn(three_values, labels, partition=8)
    assert lab.n_bins <= 3
    assert lab.F.shape == (2, lab.n_bins)
    assert (lab.F.sum(axis=0) > 0).all(), "no bin is empty"
    assert f"{lab.n_bins} bins" in repr(lab)
    two_decimals = np.round(binary().proba_lab, 2)
    rounded = fieldcal.learn(two_decimals, binary().y_lab, partition=50)
    assert 10 < rounded.n_bins <= 50
    assert (rounded.F.sum(axis=0) > 0).all()
    assert fieldcal.count(rounded, two_decimals).V.tolist() == [rounded.F.sum(axis=0).tolist()]


# 27: classes that no bin tells apart


def confusable():
    """Classes "b" and "c" have the same predictions."""
    rng = np.random.default_rng(3)
    ids = np.concatenate(
        [rng.choice(4, 400, p=[0.6, 0.2, 0.1, 0.1]), np.tile(np.repeat([2, 3], [30, 70]), 2)]
    )
    return ids, np.repeat(["a", "b", "c"], [400, 100, 100])


def test_fault_27_classes_with_equal_rows_warn_and_are_named():
    ids, labels = confusable()
    with pytest.warns(IdentifiabilityWarning, match=r"'b' and 'c'.*condition number"):
        lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(4))
    assert lab.conditioning.rank == 2
    assert not lab.conditioning.full_rank


@pytest.mark.filterwarnings("ignore::fieldcal.errors.IdentifiabilityWarning")
def test_fault_27_the_point_does_not_jump_and_the_interval_grows():
    ids, labels = confusable()
    lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(4))
    field = np.repeat([0, 1, 2, 3], [120, 60, 90, 130])
    estimates = []
    for moved in (field, np.append(field[1:], 3)):  # one row of 400 moves from bin 0 to bin 3
        prev = fieldcal.estimate(lab, fieldcal.count(lab, moved), prior="flat", trust=1)
        interval_is_sound(prev)
        estimates.append(prev)
    assert np.abs(estimates[0].estimate - estimates[1].estimate).max() < 0.02
    width = (estimates[0].upper - estimates[0].lower)[0]
    assert width[1] > 2 * width[0], "b and c can stand for each other, a cannot"
    assert width[2] > 2 * width[0]


@pytest.mark.filterwarnings("ignore::fieldcal.errors.SmallSampleWarning")
def test_fault_27_a_condition_number_of_1e12_warns_and_is_solved():
    F = np.array([[500_000_000, 500_000_000, 0], [500_000_001, 499_999_999, 0], [0, 0, 1000]])
    ids = np.tile([0, 1, 2], 3)
    labels = np.repeat([0, 1, 2], 3)
    with pytest.warns(IdentifiabilityWarning):
        lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(3), sample_weight=F.ravel(), smoothing=0)
    assert lab.conditioning.condition_number > 1e8
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [0, 0, 1, 2, 2]), prior="flat", trust=1)
    interval_is_sound(prev)


# 28: bins that the lab never filled


@pytest.mark.parametrize("smoothing", [0, "auto"])
def test_fault_28_field_rows_in_a_bin_the_lab_never_filled_are_flagged(smoothing):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 200)
    ids = np.where(labels, rng.choice(3, 400, p=[0.1, 0.3, 0.6]), rng.choice(3, 400, p=[0.6, 0.3, 0.1]))
    lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(4), smoothing=smoothing)
    field = fieldcal.count(lab, [0, 1, 2, 3] * 20 + [0, 1, 2] * 40, groups=["new"] * 80 + ["known"] * 120)
    prev = fieldcal.estimate(lab, field, **URC)
    interval_is_sound(prev)
    assert "novel" in flags(prev, prev.groups.index("new"))
    assert "novel" not in flags(prev, prev.groups.index("known"))
    assert prev.fit.novel.tolist() == [0, 20]


@pytest.mark.parametrize("smoothing", [0, "auto"])
def test_fault_28_a_field_of_nothing_but_novel_rows_has_an_answer(smoothing):
    ids, labels = [0, 1, 0, 1, 0] * 40, [0, 1, 0, 1, 1] * 40
    lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(3), smoothing=smoothing)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [2] * 10), **URC)
    interval_is_sound(prev)
    assert "novel" in flags(prev)


# 29: the ends


@pytest.mark.parametrize("point", ["mode", "mean"])
@pytest.mark.parametrize("end", [0, 1])
def test_fault_29_all_field_rows_in_one_bin_leave_a_one_sided_interval(end, point):
    lab = binary_lab()
    field = fieldcal.count(lab, np.full(60, float(end)))
    prev = fieldcal.estimate(lab, field, prior="flat", point=point, trust=1)
    interval_is_sound(prev)
    width = (prev.upper - prev.lower)[0]
    assert (width > 1e-3).all()
    assert (width < 0.5).all()
    assert prev.estimate[0, end] > 0.9
    if point == "mean":
        assert prev.estimate[0, 1 - end] > 0, "never exactly 0 or 1"


@pytest.mark.parametrize("truth", [0, 1])
def test_fault_29_a_field_of_one_class_only_has_an_interval_that_reaches_it(truth):
    data = fieldcal.datasets.label_shift(
        n_lab=4000, n_field=3000, prevalence=[np.eye(2)[truth]], separation=2.0, random_state=5
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), **URC)
    interval_is_sound(prev)
    assert prev.upper[0, truth] > 0.97
    assert (prev.upper - prev.lower).min() > 1e-4


@pytest.mark.parametrize("trust", [0, 0.5])
def test_fault_29_certain_predictions_that_are_left_alone_have_an_interval_too(trust):
    prev = fieldcal.estimate(binary_lab(), fieldcal.count(binary_lab(), np.zeros(60)), trust=trust)
    interval_is_sound(prev)
    assert (prev.upper - prev.lower > 1e-6).all()


@pytest.mark.parametrize("trust", [0, 0.5])
def test_fault_29_a_class_that_no_prediction_gives_a_chance_has_an_interval_too(trust):
    """Bin 0 holds rows of class 0 alone in the lab: its stand-in prediction for the others is exactly zero."""
    ids, labels = [0, 0, 1, 1, 1, 2, 2, 2] * 20, [0, 0, 0, 1, 1, 1, 2, 2] * 20
    lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(3))
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [0] * 5), prior="flat", trust=trust)
    interval_is_sound(prev)
    assert (prev.upper - prev.lower > 1e-6).all()


# 30: outside what any prevalence can give


def test_fault_30_frequencies_that_no_prevalence_can_give_are_flagged():
    """Rogan and Gladen below zero: a test with 20 % false positives that finds 5 % positives."""
    ids = np.concatenate([np.repeat([0, 1], [800, 200]), np.repeat([0, 1], [100, 900])])
    lab = fieldcal.learn(ids, np.repeat([0, 1], 1000), partition=fieldcal.Bins(2), smoothing=0)
    field = fieldcal.count(
        lab, np.repeat([0, 1, 0, 1], [950, 50, 500, 500]), groups=np.repeat(["out", "in"], 1000)
    )
    prev = fieldcal.estimate(lab, field, **URC)
    interval_is_sound(prev)
    assert "boundary" in flags(prev, prev.groups.index("out"))
    assert "boundary" not in flags(prev, prev.groups.index("in"))
    assert prev.urc[prev.groups.index("out"), 1] == 0


# 31: weights


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -2, 1, 1], r"must not be negative, but row 1 has -2"),
        ([1, 1, np.nan, 1], r"1 sample weights are NaN or infinite, the first in row 2"),
        ([1, np.inf, 1, 1], r"NaN or infinite, the first in row 1"),
        ([0, 0, 0, 0], r"All sample weights are zero"),
        ([1, 1, 1], r"4 rows but sample_weight has shape \(3,\)"),
        ([[1], [1], [1], [1]], r"4 rows but sample_weight has shape \(4, 1\)"),
        (1, r"shape \(\)"),
        ([1e308] * 4, r"how many rows a row stands for, but row 0 has 1e\+308"),
        ([1, 1, 1e-200, 1], r"how many rows a row stands for, but row 2 has 1e-200"),
    ],
)
def test_fault_31_bad_weights_are_refused(weight, message):
    proba, labels = np.array([0.1, 0.8, 0.3, 0.9]), np.array([0, 1, 0, 1])
    with pytest.raises(InputError, match=message):
        unchanged(fieldcal.count, binary_lab(), proba, sample_weight=np.array(weight))
    with pytest.raises(InputError, match=message):
        unchanged(fieldcal.learn, proba, labels, sample_weight=np.array(weight))


def test_fault_31_weights_that_are_no_numbers_are_refused():
    with pytest.raises(InputTypeError, match="sample_weight must be numbers"):
        fieldcal.count(binary_lab(), [0.5], sample_weight=["heavy"])


@pytest.mark.parametrize("huge", [1e6, 1e12, 1e20])
def test_fault_31_one_huge_weight_warns_with_the_effective_sample_size(huge):
    data = binary()
    weight = np.ones(len(data.proba_field))
    weight[0] = huge
    with pytest.warns(WeightWarning, match=r"outweighs all 1199 others.*sample size is 1\.0 of 1200"):
        field = unchanged(fieldcal.count, binary_lab(), data.proba_field, sample_weight=weight)
    interval_is_sound(fieldcal.estimate(binary_lab(), field, **URC))


# 32: large counts


def test_fault_32_counts_up_to_1e12_give_the_same_estimate_as_1e3():
    data = binary()
    lab = binary_lab()
    few = fieldcal.count(lab, data.proba_field[:1000])
    tables = {name: getattr(few, name) * 10**9 for name in ("V", "weight_squares")}
    tables["score_sums"] = few.score_sums * 1e9  # beyond 64 bits
    content = {name: getattr(few, name) for name in type(few).model_fields}
    many = fieldcal.Field(**{**content, "batches": {UNNAMED: Batch(groups=few.groups, **tables)}})
    assert many.n.tolist() == [10**12]
    assert many.V.dtype == np.int64
    assert (many + many).n.tolist() == [2 * 10**12]
    np.testing.assert_allclose(many.mean_prediction, few.mean_prediction, rtol=1e-12)
    modes = [fieldcal.estimate(lab, f, **URC) for f in (few, many)]
    for prev in modes:
        interval_is_sound(prev)
        assert prev.fit.converged.all()
    np.testing.assert_allclose(modes[0].urc, modes[1].urc, atol=1e-7)
    assert (modes[1].upper - modes[1].lower < modes[0].upper - modes[0].lower).all()
    interval_is_sound(fieldcal.estimate(lab, many, prior="flat", trust=1))


def test_fault_32_more_rows_than_float64_adds_exactly_are_still_added_exactly():
    """From 2**23 rows on, a plain float sum of score units would round."""
    unit = 2.0**-30
    score = 1 - unit
    rows = 2**23 + 3
    field = fieldcal.count(binary_lab(), np.full(rows, score))
    assert field.score_sums.dtype == np.int64
    assert field.score_sums.tolist() == [[rows, rows * (2**30 - 1)]]


@pytest.mark.parametrize("trust", [1, "auto"])
@pytest.mark.filterwarnings("ignore::fieldcal.errors.TrustWarning")
def test_fault_32_a_field_far_from_the_lab_has_an_answer_however_large(trust):
    ids, labels = [0, 1, 0, 1, 0] * 40, [0, 1, 0, 1, 1] * 40
    lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(4))
    for rows in (1, 100, 10**5):
        prev = fieldcal.estimate(lab, fieldcal.count(lab, [2, 3] * rows), prior="flat", trust=trust)
        interval_is_sound(prev)


# 33 to 35: labs and fields that look wrong


def test_fault_33_a_lab_that_is_too_good_to_be_held_out_warns():
    y = np.repeat([0, 1], 100)
    with pytest.warns(CalibrationWarning, match=r"log loss is .*implausibly low.*trained on"):
        fieldcal.learn(np.where(y, 0.999, 0.001), y)


def test_fault_34_a_classifier_that_is_not_calibrated_on_the_lab_warns_with_a_remedy():
    data = binary()
    with pytest.warns(CalibrationWarning, match=r"not calibrated on the lab.*Calibrate on the lab: "):
        fieldcal.learn(data.proba_lab**3, data.y_lab)


def drifted(n, seed):
    """Rows of class 1 that look like no class of the lab: in the middle and at both ends."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.5, rng.random(n) * 0.05, 0.95 + rng.random(n) * 0.05)


def test_fault_35_a_group_that_no_mixture_of_the_classes_explains_is_inconsistent():
    data = binary()
    rows = np.flatnonzero(data.groups_field == 1)[:300]
    proba = np.concatenate([data.proba_field[rows], drifted(300, 0)])
    groups = np.repeat(["as in the lab", "drifted"], 300)
    prev = fieldcal.estimate(binary_lab(), fieldcal.count(binary_lab(), proba, groups=groups), **URC)
    assert "inconsistent" not in flags(prev, 0)
    assert "inconsistent" in flags(prev, 1)
    assert any("mixture of the classes" in reason for reason in prev.verdict.reasons)


# 36: the iteration limit


@pytest.mark.parametrize("prevalence", [binary_prevalence, three_prevalence], ids=["binary", "three"])
def test_fault_36_the_iteration_limit_is_visible_with_the_gap(prevalence):
    solved = prevalence()
    with pytest.warns(ConvergenceWarning, match=r"iteration limit.*gap of .* Raise it, max_iter=…"):
        prev = fieldcal.estimate(solved.lab, solved.field, **URC, max_iter=1)
    stopped = np.flatnonzero(~prev.fit.converged)
    assert len(stopped)
    for group in stopped:
        assert "not_converged" in flags(prev, group)
        assert prev.fit.gap[group] > solved.fit.gap[group]
    assert all("not_converged" not in flags(solved, g) for g in range(len(solved.status)))


# 37: denormals


def test_fault_37_denormal_probabilities_give_no_nan_and_no_warning():
    tiny = [5e-324, 1e-320, 1e-310, 2.3e-308]
    scores = np.array([*tiny, 1 - 1e-16, 0.5])
    field = unchanged(fieldcal.count, binary_lab(), scores, groups=np.zeros(6, dtype=int))
    prev = fieldcal.estimate(binary_lab(), field, **URC)
    interval_is_sound(prev)
    new = unchanged(fieldcal.recalibrate, prev, scores, groups=np.zeros(6, dtype=int))
    assert np.isfinite(new).all()
    assert (np.diff(new[:4]) >= 0).all()
    columns = np.array([[1e-320, 5e-324, 1.0], [1e-310, 1.0, 0.0], [1e-320, 0.5, 0.5]])
    wide = unchanged(fieldcal.recalibrate, three_prevalence(), columns)
    assert np.isfinite(wide).all()
    np.testing.assert_allclose(wide.sum(axis=1), 1)


@pytest.mark.filterwarnings(TOO_GOOD)
def test_fault_37_a_row_that_is_tiny_in_every_likely_class_keeps_a_sum_of_one():
    lab = fieldcal.learn([0, 1, 2] * 40, [0, 1, 2] * 40, partition=fieldcal.Bins(3), smoothing=1e-200)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [0] * 50), **URC)
    new = fieldcal.recalibrate(prev, [[0.0, 1e-320, 1.0], [1e-320, 0.0, 1.0], [0.0, 0.5, 0.5]])
    assert np.isfinite(new).all()
    np.testing.assert_allclose(new.sum(axis=1), 1)


@pytest.mark.parametrize("prior", ["flat", "auto"])
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_fault_37_a_smoothing_so_small_that_draws_of_M_underflow_leaks_nothing(prior):
    """Cells with next to no pseudo-rows: a gamma draw of shape 1e-12 is exactly zero."""
    ids, labels = np.array([0, 1, 2, 0, 1, 2] * 10), np.array([0, 1, 2, 0, 1, 2] * 10)
    for smoothing in (0, 1e-12, 1e-300):
        lab = fieldcal.learn(ids, labels, partition=fieldcal.Bins(4), smoothing=smoothing)
        interval_is_sound(fieldcal.estimate(lab, fieldcal.count(lab, ids), prior=prior, trust=1))


@pytest.mark.filterwarnings(
    "ignore:All lab predictions are exactly 0 or 1:fieldcal.errors.CalibrationWarning"
)
def test_fault_37_a_lab_of_certain_and_wrong_predictions_does_not_leak_warnings():
    proba = np.repeat([0.0, 1.0], 50)
    labels = np.append(proba[:-1].astype(int), 0)
    lab = fieldcal.learn(proba, labels)
    assert lab.log_loss is None, "infinite, and no file holds an infinity"
    assert fieldcal.Lab.from_json(lab.to_json()) == lab


# 41: merging what does not belong together


def test_fault_41_counts_of_another_lab_do_not_merge_and_the_difference_is_listed():
    data = binary()
    other = fieldcal.learn(data.proba_lab, data.y_lab, partition=5)
    one = fieldcal.count(binary_lab(), data.proba_field)
    with pytest.raises(InputError, match=rf"8 and 5 bins; labs {one.lab[:8]}… and {other.digest[:8]}…"):
        one + fieldcal.count(other, data.proba_field)
    with pytest.raises(InputError, match="different labs: classes"):
        one + fieldcal.count(three_lab(), three().proba_field)
    with pytest.raises(InputError, match=r"another lab .* Count it again"):
        fieldcal.estimate(other, one, **URC)
    with pytest.raises(InputError, match="has groups and the other has none"):
        one + fieldcal.count(binary_lab(), data.proba_field, groups=data.groups_field)
    with pytest.raises(TypeError, match="unsupported operand"):
        one + 1


def test_fault_41_the_same_batch_twice_is_refused():
    one = fieldcal.count(binary_lab(), [0.1, 0.2], batch="monday")
    two = fieldcal.count(binary_lab(), [0.3], batch="tuesday")
    assert (one + two).batch_ids == ("monday", "tuesday")
    with pytest.raises(InputError, match=r"batch 'monday' is in both.*twice"):
        (one + two) + fieldcal.count(binary_lab(), [0.4], batch="monday")
    with pytest.raises(InputTypeError, match="batch must be a name"):
        fieldcal.count(binary_lab(), [0.4], batch=7)


# 47: pandas indices


def test_fault_47_pandas_rows_are_aligned_by_position_whatever_their_index():
    data = binary()
    rng = np.random.default_rng(0)
    n = len(data.proba_field)
    plain = fieldcal.count(binary_lab(), data.proba_field, groups=data.groups_field)
    for index in (np.zeros(n, dtype=int), rng.permutation(n), [f"row{i % 7}" for i in range(n)]):
        proba = pd.Series(data.proba_field, index=index)
        groups = pd.Series(data.groups_field, index=index)
        weight = pd.Series(np.ones(n), index=index)
        field = unchanged(fieldcal.count, binary_lab(), proba, groups=groups, sample_weight=weight)
        assert field == plain
        new = unchanged(fieldcal.recalibrate, binary_prevalence(), proba, groups=groups)
        expected = fieldcal.recalibrate(binary_prevalence(), data.proba_field, groups=data.groups_field)
        np.testing.assert_array_equal(new, expected)
    turned = rng.permutation(len(data.y_lab))
    lab = fieldcal.learn(pd.Series(data.proba_lab, index=turned), pd.Series(data.y_lab, index=turned))
    assert lab == binary_lab()


# 48: many tests at once


def test_fault_48_ten_thousand_groups_tested_at_once_raise_no_false_alarm():
    rng = np.random.default_rng(0)
    lab = binary_lab()
    shares = rng.beta(2, 3, size=10_000)
    V = rng.multinomial(200, np.column_stack([1 - shares, shares]) @ lab.M)
    ids = np.repeat(np.tile(np.arange(8), 10_000), V.ravel())
    middles = np.array([0.0, *lab.partition.edges])[ids] + 1e-9
    field = fieldcal.count(lab, middles, groups=np.repeat(np.arange(10_000), 200))
    assert field.V.tolist() == V.tolist()
    prev = fieldcal.estimate(lab, field, **URC, level=None)
    assert (prev.fit.p_value < 0.05).sum() > 100, "single tests do raise alarms"
    assert sum("inconsistent" in status for status in prev.status) <= 5


# 50: the same answer however it is computed


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_fault_50_row_order_changes_no_lab(seed, grouped):
    data = fieldcal.datasets.label_shift(n_lab=1500, n_groups=12, random_state=seed)
    mixed = np.random.default_rng(seed).permutation(1500)
    labs = [
        fieldcal.learn(
            data.proba_lab[rows], data.y_lab[rows], groups=data.groups_lab[rows] if grouped else None
        )
        for rows in (np.arange(1500), mixed)
    ]
    assert (labs[0].rehearsal is not None) == grouped
    assert labs[0].to_json() == labs[1].to_json()


def test_fault_50_row_order_changes_no_count_and_no_estimate():
    for data in (binary(), three()):
        rng = np.random.default_rng(8)
        mixed, lab_mixed = rng.permutation(len(data.proba_field)), rng.permutation(len(data.y_lab))
        one = fieldcal.learn(data.proba_lab, data.y_lab)
        two = fieldcal.learn(data.proba_lab[lab_mixed], data.y_lab[lab_mixed])
        assert one.to_json() == two.to_json()
        fields = [
            fieldcal.count(one, data.proba_field[rows], groups=data.groups_field[rows])
            for rows in (np.arange(len(mixed)), mixed)
        ]
        assert fields[0].to_json() == fields[1].to_json()
        assert (
            fieldcal.estimate(one, fields[0], **URC).to_json()
            == fieldcal.estimate(two, fields[1], **URC).to_json()
        )


@pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")
def test_fault_50_the_number_of_threads_changes_no_count_and_no_estimate_beyond_1e_12():
    data = three()
    results = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            lab = fieldcal.learn(data.proba_lab, data.y_lab)
            field = fieldcal.count(lab, data.proba_field, groups=data.y_field)
            results.append((lab, field, fieldcal.estimate(lab, field, trust=1)))
    (lab, field, prev), (lab2, field2, prev2) = results
    assert lab.to_json() == lab2.to_json()
    assert field.to_json() == field2.to_json()
    for name in ("estimate", "urc", "lower", "upper"):
        np.testing.assert_allclose(getattr(prev, name), getattr(prev2, name), rtol=0, atol=1e-12)
    for step, step2 in zip(prev.steps, prev2.steps, strict=True):
        np.testing.assert_allclose(step.weights, step2.weights, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")
def test_fault_50_the_same_seed_gives_the_same_bytes():
    prev = binary_prevalence()
    runs = [fieldcal.estimate(prev.lab, prev.field, trust=1, random_state=3).to_json() for _ in range(2)]
    assert runs[0] == runs[1]


# All of it at once


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize("seed", range(24))
def test_strange_labs_and_fields_give_an_answer_or_an_error_of_our_own(seed):
    """Few rows, empty bins, zero and huge weights, any prior and trust: no NaN, no foreign error or warning."""
    rng = np.random.default_rng(seed)
    K, m = int(rng.integers(2, 5)), int(rng.integers(1, 8))
    shape = rng.dirichlet(np.full(m, rng.choice([0.05, 1.0, 20.0])) + 1e-9, size=K)
    labels = np.concatenate([np.arange(K), rng.integers(K, size=rng.choice([4, 30, 300]))])
    ids = np.array([rng.choice(m, p=shape[k] / shape[k].sum()) for k in labels])
    weight = rng.choice([0, 0.5, 1, 1e6], size=len(ids)) if seed % 3 == 0 else None
    rows = int(rng.choice([1, 3, 50, 1000]))
    groups = rng.integers(rng.choice([1, 3, 30]), size=rows) if seed % 2 else None
    try:
        lab = fieldcal.learn(
            ids,
            labels,
            partition=fieldcal.Bins(m),
            sample_weight=weight,
            smoothing=[0, "auto", 1e-12, 50.0][seed % 4],
            groups=rng.integers(5, size=len(ids)) if seed % 5 == 0 else None,
        )
    except FieldcalError:
        return
    field = fieldcal.count(lab, rng.integers(m, size=rows), groups=groups)
    proba = rng.dirichlet(np.full(K, 0.3), size=rows)
    for prior in ("auto", "flat", "kl", "dirichlet"):
        for trust in ("auto", 0, 1):
            try:
                prev = fieldcal.estimate(lab, field, prior=prior, trust=trust)
            except FieldcalError:
                assert m == 1
                continue
            interval_is_sound(prev)
            assert np.isfinite(fieldcal.recalibrate(prev, proba, groups=groups)).all()


# Options that cannot be


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, "level must lie between 0 and 1"),
        ({"level": 1}, "level must lie between 0 and 1"),
        ({"level": 90}, "level must lie between 0 and 1"),
        ({"level": float("nan")}, "level must lie between 0 and 1"),
        ({"trust": 1.5}, "trust must be"),
        ({"trust": -0.1}, "trust must be"),
        ({"trust": "full"}, "trust must be"),
        ({"trust": True}, "trust must be"),
        ({"trust": float("nan")}, "trust must be"),
        ({"point": "median"}, "point must be"),
        ({"prior": "uniform"}, "prior must be one of"),
        ({"prior": "reference"}, "prior must be one of"),
        ({"prior": None}, "prior must be one of"),
    ],
)
def test_options_of_estimate_that_cannot_be_are_refused_by_name(options, message):
    prev = binary_prevalence()
    with pytest.raises(FieldcalError, match=message):
        fieldcal.estimate(prev.lab, prev.field, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition": 0}, "at least 1"),
        ({"partition": "deciles"}, "partition must be"),
        ({"partition": None}, "partition must be"),
        ({"partition": True}, "partition must be"),
        ({"partition": fieldcal.Bins(3)}, "bin ids, integers"),
        ({"smoothing": -1}, "smoothing must be"),
        ({"smoothing": float("nan")}, "smoothing must be"),
        ({"smoothing": "none"}, "smoothing must be"),
    ],
)
def test_options_of_learn_that_cannot_be_are_refused_by_name(options, message):
    with pytest.raises(FieldcalError, match=message):
        fieldcal.learn(binary().proba_lab, binary().y_lab, **options)
