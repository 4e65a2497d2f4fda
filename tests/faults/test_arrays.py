"""Bad input and faults on arrays. The number in each test's name is the row of the table of faults.

E: an error that says what, which value, what next. W: an own warning and a result. D: visible in `status`.
In every case, no input is changed.
"""

from __future__ import annotations

import decimal
import fractions
import functools

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
    SmallSampleWarning,
    UnseenGroupWarning,
    WeightWarning,
)
from fieldcal.objects import UNNAMED, Batch

URC = {"prior": "flat", "point": "mode", "trust": 1}  # the paper's plain estimator
UNCALIBRATED = "ignore:The model is not calibrated:fieldcal.errors.CalibrationWarning"
OURS = "ignore::fieldcal.errors.FieldcalWarning"
NAN = float("nan")


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
    field = fieldcal.count(binary_lab(), data.proba_field, groups=data.groups_field)
    return fieldcal.estimate(binary_lab(), field, **URC)


@functools.cache
def three_prevalence():
    return fieldcal.estimate(three_lab(), fieldcal.count(three_lab(), three().proba_field), **URC)


def count(scores, **options):
    return unchanged(fieldcal.count, binary_lab(), scores, **options)


def of_bins(ids, labels, n, **options):
    return fieldcal.learn(ids, labels, partition=fieldcal.partitions.Bins(n), **options)


def flags(prev, group=0):
    return {flag.strip() for flag in prev.status[group].split(",")}


def unchanged(call, *values, **options):
    """Nothing that is passed in may differ afterwards."""

    def content():
        return [repr(np.asarray(given, dtype=object).tolist()) for given in (*values, *options.values())]

    before = content()
    try:
        return call(*values, **options)
    finally:
        assert content() == before


def interval_is_sound(prev):
    assert np.isfinite(prev.estimate).all()
    assert (prev.lower >= 0).all()
    assert (prev.upper <= 1).all()
    assert (prev.lower <= prev.estimate + 1e-12).all()
    assert (prev.estimate <= prev.upper + 1e-12).all()
    np.testing.assert_allclose(prev.estimate.sum(axis=1), 1, atol=1e-9)


FOUR = np.array([0.1, 0.9, 0.2, 0.8])
SUMS = np.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.52], [0.9, 0.8, 0.7], [0.5, 0.5, 0.0]])
ZEROS = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 0.0]])


def learn(y, classes=None, scores=FOUR, **options):
    return unchanged(fieldcal.learn, scores, y, classes=classes, **options)


def count_three(scores, **options):
    return unchanged(fieldcal.count, three_lab(), scores, **options)


def recalibrate(scores, prev=binary_prevalence, **options):
    return unchanged(fieldcal.recalibrate, prev(), scores, **options)


#: By row: what is done, and what is said of it.
REFUSED = {
    1: [
        (lambda: learn([0, 0, 1, 1], scores=[0.1, 0.2, 0.3, NAN]), "1 of 4 lab predictions are missing"),
        (lambda: recalibrate([0.2, NAN, 0.7], groups=[0, 1, 2]), "1 of 3"),
    ],
    2: [
        (lambda: count(np.array([0.2, np.inf])), "Infinite"),
        (lambda: count(np.array([NAN, np.inf, -np.inf])), "missing"),
        (lambda: count(np.array([3.0, 50.0, 97.0])), r"must be probabilities, but reach 97\b.*percent"),
        (lambda: count(np.array([0.2, 1.2])), "percent"),
        (lambda: count(np.array([-3.0, 0.2, 4.0])), "logits"),
        (lambda: count(np.array([-0.1, -2.3])), "log-probabilities"),
        (lambda: count(np.array([1 + 2e-6])), "percent"),
        (lambda: learn([0, 1], scores=[-4.0, 0.5]), r"lab predictions .* reach -4\b"),
    ],
    4: [
        (lambda: count_three(SUMS), r"row 2 sums to 2\.4\b.*normalize=True"),
        (lambda: recalibrate(SUMS, three_prevalence), r"row 2 sums to 2\.4\b"),
    ],
    6: [
        (lambda: count_three(ZEROS), r"Row 1 .* all zeros"),
        (lambda: count_three(ZEROS, normalize=True), r"Row 1 .* all zeros"),
    ],
    8: [
        (lambda: count(0.5), r"shape \(n,\) or \(n, K\)"),
        (lambda: count(np.zeros((2, 2, 2))), r"shape \(2, 2, 2\)"),
        (lambda: count([[0.1, 0.9], [0.2]]), "unequal length"),
        (lambda: count(np.full((4, 3), 1 / 3)), "3 columns.*there are 2"),
    ],
    9: [
        (lambda: count([]), "field is empty"),
        (lambda: count([NAN], missing="drop"), "field is empty"),
        (lambda: learn([], scores=[]), "The lab has no rows"),
    ],
    11: [
        (
            lambda: recalibrate([0.3, 0.3], groups=[0, 77], unseen="error"),
            r"1 groups \(1 rows, the first is '77'",
        ),
        (lambda: recalibrate([0.3], groups=[0], unseen="skip"), "unseen must be"),
        (lambda: recalibrate([0.3]), r"per group \(3 of them\)"),
        (lambda: recalibrate([[0.2, 0.3, 0.5]], three_prevalence, groups=["a"]), "one population"),
    ],
    21: [
        (lambda: learn([0, 1, 0, 1], [0, 1, 2]), r"no row of class 2"),
        (lambda: learn([0, 0, 0, 0]), r"single class, \[0\]"),
        (lambda: learn([0, 1, 2, 1], [0, 1]), r"label 2 is not among the classes \[0, 1\]"),
        (lambda: learn(["cat", "dgo", "cat", "dog"], ["cat", "dog"]), r"label 'dgo' .* Did you mean 'dog'\?"),
        (lambda: learn(["0", "1", "0", "1"], [0, 1]), r"label '0' is not among the classes \[0, 1\]"),
        (lambda: learn([0, 1, None, 1]), r"1 labels are missing"),
        (lambda: learn([0, 1, 0]), r"4 predictions but 3 labels"),
        (lambda: learn(np.eye(2)[[0, 1, 0, 1]]), r"one-hot\? Take the argmax"),
        (lambda: learn(["a", "b", "c", "c"]), r"one column, which means 2 classes, but there are 3"),
        (lambda: learn([0, 1, 0, 1], scores=np.full((4, 3), 1 / 3)), "3 columns, which means 3 classes, but"),
        (lambda: learn([[0], [1], [0], [1]]), r"of type list.*use str\("),
        (lambda: learn([0.5, 1.5, 0.5, 1.5]), r"0\.5 is a float that is not a whole number.*use str\("),
        (lambda: learn(1), "one label per row"),
        (lambda: learn([0, 1, 0, 1], sample_weight=[1, 0, 1, 0]), "class 1 have weight zero"),
    ],
    41: [(lambda: count([0.4], batch=7), "batch must be a name")],
}
NO_NUMBERS = [
    ["0.2", "0.5"],
    np.array(["high", "low"]),
    np.array(["0.2", 0.5], dtype=object),
    [b"0.2"],
    "0.5",
]
NO_NUMBERS += [pd.Series(["a", "b"]), pl.Series(["a", "b"]), pa.array(["a", "b"]), np.array([0.5 + 1j])]
NO_NUMBERS += [np.array(["2020-01-01"], dtype="M8[D]"), [{"p": 0.5}], object()]


@pytest.mark.parametrize("row", REFUSED, ids=[f"fault_{row:02}_refused" for row in REFUSED])
def test_what_cannot_be_is_refused_in_words_that_say_what_and_where(row):
    for call, words in REFUSED[row]:
        with pytest.raises(InputTypeError if "use str" in words else FieldcalError, match=words):
            call()


def test_fault_08_what_is_no_number_is_refused():
    for scores in NO_NUMBERS:
        with pytest.raises(InputTypeError, match=r"must be numbers, but hold .* of type .*Convert"):
            fieldcal.count(binary_lab(), scores)
        with pytest.raises(InputTypeError, match="must be numbers"):
            fieldcal.learn(scores, [0, 1])
    with pytest.raises(InputTypeError, match="sample_weight must be numbers"):
        count([0.5], sample_weight=["heavy"])


def test_fault_31_bad_weights_are_refused():
    for weight, words in (
        ([1, -2, 1, 1], r"must not be negative, but row 1 has -2"),
        ([1, 1, NAN, 1], r"1 sample weights are NaN or infinite, the first in row 2"),
        ([1, np.inf, 1, 1], r"NaN or infinite, the first in row 1"),
        ([0, 0, 0, 0], r"All sample weights are zero"),
        ([1, 1, 1], r"4 rows but sample_weight has shape \(3,\)"),
        ([[1], [1], [1], [1]], r"4 rows but sample_weight has shape \(4, 1\)"),
        (1, r"shape \(\)"),
    ):
        for call in (lambda w: count(FOUR, sample_weight=w), lambda w: learn([0, 1, 0, 1], sample_weight=w)):
            with pytest.raises(InputError, match=words):
                call(np.array(weight))


@pytest.mark.parametrize(
    "scores",
    [
        np.array([0.1, NAN, 0.9, NAN, 0.4]),
        [0.1, None, 0.9, NAN, 0.4],
        pd.Series([0.1, pd.NA, 0.9, pd.NA, 0.4], dtype="Float64"),
        pl.Series([0.1, None, 0.9, NAN, 0.4]),
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
    assert (field.dropped, field.V.sum()) == (2, 3)
    assert field == fieldcal.count(binary_lab(), [0.1, NAN, 0.9, NAN, 0.4], missing="drop")
    assert "2 rows dropped" in repr(field)


def test_fault_01_a_missing_row_is_dropped_whole_or_kept_missing():
    proba = np.array([[0.2, 0.3, 0.5], [NAN, 0.5, 0.5], [0.1, 0.1, 0.8]])
    field = count_three(proba, missing="drop", groups=["a", "b", "a"], sample_weight=[2, 3, 2])
    assert (field.dropped, field.groups) == (1, ("a", "b"))
    assert field.n.tolist() == [4, 0], "a group that lost all its rows stays visible"
    kept = recalibrate(proba, three_prevalence, missing="keep")
    assert np.isnan(kept).any(axis=1).tolist() == [False, True, False]
    new = recalibrate(np.array([0.2, NAN, 0.7]), groups=[0, 1, 2], missing="keep")
    assert np.isnan(new).tolist() == [False, True, False]


def test_fault_03_rounding_beyond_0_and_1_is_clipped_and_counted():
    scores = np.array([1 + 1e-12, -1e-12, 0.5, 1.0, 0.0])
    field = count(scores)
    assert field.clipped == 2
    assert field.V.tolist() == count([1, 0, 0.5, 1, 0]).V.tolist()
    assert recalibrate(scores, groups=[0] * 5)[[0, 1]].tolist() == [1.0, 0.0]
    data = binary()
    assert fieldcal.learn(np.append(data.proba_lab, 1 + 1e-9), np.append(data.y_lab, 1)).clipped == 1


def test_fault_04_normalize_rescales_rows_in_every_verb():
    data = three()
    votes = data.proba_lab * np.linspace(0.3, 0.99, len(data.proba_lab))[:, None]
    lab = unchanged(fieldcal.learn, votes, data.y_lab, normalize=True)
    assert lab == fieldcal.learn(votes / votes.sum(axis=1, keepdims=True), data.y_lab)
    scaled = 0.5 * data.proba_field
    field = unchanged(fieldcal.count, lab, scaled, normalize=True)
    assert field.V.tolist() == fieldcal.count(lab, scaled / scaled.sum(axis=1, keepdims=True)).V.tolist()
    prev = fieldcal.estimate(lab, field, **URC)
    np.testing.assert_allclose(
        fieldcal.recalibrate(prev, scaled, normalize=True), fieldcal.recalibrate(prev, data.proba_field)
    )


def test_fault_05_exact_0_and_1_stay_even_of_a_class_that_the_estimate_rules_out():
    data = binary()
    lab = fieldcal.learn(np.append(data.proba_lab, [0.0, 1.0]), np.append(data.y_lab, [0, 1]))
    field = fieldcal.count(lab, [0.0, 1.0, 1.0])
    assert (field.V[0, 0], field.V[0, -1]) == (1, 2)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), **URC)
    assert fieldcal.recalibrate(prev, [0.0, 1.0]).tolist() == [0.0, 1.0]
    assert fieldcal.recalibrate(three_prevalence(), np.eye(3)).tolist() == np.eye(3).tolist()
    lab = fieldcal.learn(np.repeat([0.1, 0.9], 50), np.repeat([0, 1], 50), smoothing=0, partition=2)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, np.full(30, 0.1)), **URC)
    assert (prev.urc[0, 1], fieldcal.recalibrate(prev, [0.0, 0.5, 1.0]).tolist()) == (0, [0.0, 0.0, 1.0])
    assert fieldcal.recalibrate(prev, [[0.0, 1.0], [0.5, 0.5]]).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_fault_07_every_type_of_number_is_compared_in_float64():
    exact, (scores, y) = [0.0, 0.125, 0.25, 0.5, 0.75, 1.0], (binary().proba_lab, binary().y_lab)
    lab = fieldcal.learn(scores, y, partition=fieldcal.partitions.Edges([0.125, 0.25, 0.5, 0.75]))
    for given in (
        *(np.array(exact, dtype=kind) for kind in (np.float16, np.float32, np.longdouble, object)),
        *([kind(x) for x in exact] for kind in (decimal.Decimal, fractions.Fraction)),
        *(
            pd.Series(exact, dtype="Float32"),
            pl.Series(exact, dtype=pl.Float32),
            pa.array(exact, type=pa.float32()),
        ),
    ):
        assert fieldcal.count(lab, given) == fieldcal.count(lab, np.array(exact))
    for kind in (int, np.int8, np.uint64, bool):
        assert fieldcal.count(lab, np.array([0, 1, 1], dtype=kind)) == fieldcal.count(lab, [0.0, 1.0, 1.0])
    tenth = fieldcal.learn(scores, y, partition=fieldcal.partitions.Edges([0.1]))  # float32 0.1 is above 0.1
    assert fieldcal.count(tenth, np.array([0.1], dtype=np.float32)).V.tolist() == [[0, 1]]
    assert fieldcal.count(tenth, np.array([0.1], dtype=np.float64)).V.tolist() == [[1, 0]]
    half = three().proba_field.astype(np.float16)  # rows may miss a sum of one by rounding
    assert fieldcal.count(three_lab(), half).V.sum() == len(half)


def test_fault_09_an_empty_batch_with_groups_merges_into_others_and_is_no_estimate():
    empty, some = count([], groups=[]), count([0.2], groups=["a"])
    assert empty.V.shape == (0, 8)
    assert fieldcal.Field.from_json(empty.to_json()) == empty
    assert empty + some == some + empty == some
    for ask in (fieldcal.estimate, fieldcal.check):
        with pytest.raises(InputError, match="it has no rows"):
            ask(binary_lab(), empty)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")
def test_fault_10_a_group_with_one_row_is_flagged_and_has_a_wide_interval():
    data = binary()
    field = count(data.proba_field, groups=np.where(np.arange(len(data.proba_field)) == 0, "tiny", "large"))
    prev = fieldcal.estimate(binary_lab(), field, trust=1)
    interval_is_sound(prev)
    assert "few_rows" in flags(prev, 1)
    assert "few_rows" not in flags(prev, 0)
    width = prev.upper - prev.lower
    assert (width[1] > 3 * width[0]).all()


def test_fault_11_unseen_groups_get_the_estimate_of_the_whole_field_or_are_left_alone():
    prev = binary_prevalence()
    with pytest.warns(UnseenGroupWarning, match=r"2 groups \(2 rows, the first is '77'\).*unseen='raw'"):
        new = recalibrate(np.array([0.3, 0.3, 0.3]), groups=np.array([0, 77, 78]))
    weights = prev.steps_unseen[0].weights
    assert new[1] == new[2] == pytest.approx(0.3 * weights[1] / (0.3 * weights[1] + 0.7 * weights[0]))
    assert new[0] != new[1]
    assert recalibrate([0.3, 0.3], groups=[0, 77], unseen="raw")[1] == pytest.approx(0.3, abs=1e-15)


def test_fault_12_null_is_a_group_of_its_own_in_a_composite_key_too_and_not_the_empty_string():
    for groups in (
        ["a", None, "", NAN],
        np.array(["a", None, "", np.nan], dtype=object),
        pd.Series(["a", None, "", None]),
        pd.Series(["a", pd.NA, "", pd.NA], dtype="string"),
        pd.Series(["a", None, "", None], dtype="category"),
        ["a", pd.NaT, "", np.datetime64("NaT", "ns")],
        ["a", decimal.Decimal("NaN"), "", np.float32("nan")],
        *(pl.Series(["a", None, "", None]), pa.array(["a", None, "", None])),
        pa.chunked_array([["a", None], ["", None]]),
    ):
        field = fieldcal.count(binary_lab(), [0.1, 0.2, 0.8, 0.9], groups=groups)
        assert (field.groups, field.n.tolist()) == (("", "a", None), [1, 1, 2])
    for groups in (
        *(pd.Series([3, None, 3], dtype="Int64"), pl.Series([3, None, 3]), pa.array([3, None, 3])),
        np.ma.array([3, 4, 3], mask=[0, 1, 0]),
    ):
        field = fieldcal.count(binary_lab(), [0.1, 0.2, 0.8], groups=groups)
        assert field.groups == (3, None)
        assert [type(k) for k in field.groups] == [int, type(None)], "whole numbers stay whole"
    groups = pd.DataFrame({"country": ["x", "x", None], "year": [2001, 2001, 2002]})
    field = count(np.array([0.1, 0.2, 0.8]), groups=groups)
    assert field.groups == (("x", 2001), (None, 2002))
    assert fieldcal.Field.from_json(field.to_json()) == field


def test_fault_13_look_alike_groups_do_not_merge_and_are_unseen():
    groups = [1, "1", True, (1,), ("1",), (True,)]
    field = count(np.linspace(0.1, 0.9, len(groups)), groups=groups)
    assert sorted(map(repr, field.groups)) == sorted(map(repr, groups))
    again = fieldcal.Field.from_json(field.to_json())
    assert list(map(repr, again.groups)) == list(map(repr, field.groups))
    assert (field + again).n.tolist() == [2] * len(groups)
    for stranger in ("0", False, (0,)):
        with pytest.raises(InputError, match="not in the field"):
            recalibrate([0.3], groups=[stranger], unseen="error")
    known = [np.int8(0), np.uint64(0), 0.0]  # the last as in a pandas column with gaps
    assert recalibrate([0.3] * 3, groups=known, unseen="error").shape == (3,)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")
def test_fault_15_many_groups_have_intervals_by_default():
    proba = np.resize(binary().proba_field, 4_000)
    prev = fieldcal.estimate(binary_lab(), count(proba, groups=np.arange(4_000) % 2_000), trust=1)
    interval_is_sound(prev)
    assert set(prev.status) == {"few_rows"}


@pytest.mark.filterwarnings(UNCALIBRATED)
@pytest.mark.parametrize("rows", [1, 5])
def test_fault_22_a_class_with_few_lab_rows_warns(rows):
    data = binary()
    keep = np.concatenate([np.flatnonzero(data.y_lab == 0), np.flatnonzero(data.y_lab == 1)[:rows]])
    with pytest.warns(SmallSampleWarning, match=rf"only {rows} rows? of class 1.*Label more"):
        fieldcal.learn(data.proba_lab[keep], data.y_lab[keep])


def test_fault_22_the_noise_of_a_small_class_enters_the_interval():
    """The same M from 4 rows of class 1 and from 4,000: the interval must tell the two apart."""
    ids = np.array([0] * 6 + [1] * 2 + [0] * 1 + [1] * 3)
    labels = np.array([0] * 8 + [1] * 4)
    with pytest.warns(SmallSampleWarning):
        small = of_bins(ids, labels, 2, smoothing=0)
    large = of_bins(np.tile(ids, 1000), np.tile(labels, 1000), 2, smoothing=0)
    np.testing.assert_allclose(small.M, large.M)
    width = []
    for lab in (small, large):
        prev = fieldcal.estimate(lab, fieldcal.count(lab, np.repeat([0, 1], 200)), **URC)
        interval_is_sound(prev)
        width.append(float((prev.upper - prev.lower)[0, 1]))
    assert width[0] > 1.5 * width[1]


@pytest.mark.parametrize("names", [(0, 1), (False, True), ("no", "yes"), (0.0, 1.0), (-1, 1)], ids=str)
def test_fault_23_labels_of_every_type_stand_for_their_class(names):
    data = binary()
    labels = np.array(names)[data.y_lab]
    for given in (labels, labels.tolist(), pd.Series(labels), pl.Series(labels), labels[:, None]):
        lab = fieldcal.learn(data.proba_lab, given)
        assert lab.classes == tuple(np.array(names).tolist())
        assert lab.F.tolist() == binary_lab().F.tolist()
    for labels in (data.y_lab.astype(float), data.y_lab.astype(bool)):
        assert fieldcal.learn(data.proba_lab, labels, classes=[0, 1]) == binary_lab()


@pytest.mark.filterwarnings(UNCALIBRATED)
def test_fault_23_columns_are_matched_by_name_and_predictions_worse_than_chance_warn():
    data = three()
    names = np.array(["ant", "bee", "fly"])
    table = pd.DataFrame(data.proba_lab, columns=names)
    turned = fieldcal.learn(table[["fly", "ant", "bee"]], names[data.y_lab])
    assert fieldcal.learn(table, names[data.y_lab]) == turned
    with pytest.raises(InputError, match=r"none is named 'fly'\. Did you mean 'flyy'\?"):
        fieldcal.learn(table.rename(columns={"fly": "flyy"}), names[data.y_lab])
    with pytest.raises(InputError, match="do not match the classes"):
        fieldcal.learn(table.assign(wasp=0.0), names[data.y_lab])
    two = binary()
    alike = pd.DataFrame({1: 1 - two.proba_lab, "1": two.proba_lab})
    lab = fieldcal.learn(alike, [("1" if y else 1) for y in two.y_lab])
    assert lab.classes == (1, "1")
    assert lab.F.tolist() == binary_lab().F.tolist()
    with pytest.warns(CalibrationWarning, match=r"worse than chance.*name that class with positive"):
        fieldcal.learn(1 - binary().proba_lab, binary().y_lab)
    with pytest.warns(CalibrationWarning, match="order of the classes"):
        fieldcal.learn(three().proba_lab[:, [1, 2, 0]], three().y_lab)


def test_fault_24_numeric_0_and_1_labels_give_the_right_M():
    proba, labels = np.array([0.1, 0.2, 0.6, 0.3, 0.7, 0.8, 0.9, 0.4]), np.repeat([0, 1], 4)
    with pytest.warns(SmallSampleWarning):
        lab = fieldcal.learn(proba, labels, partition=fieldcal.partitions.Edges([0.5]), smoothing=0)
    assert lab.F.tolist() == [[3, 1], [1, 3]]
    np.testing.assert_allclose(lab.M, [[0.75, 0.25], [0.25, 0.75]])


@pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")
def test_fault_25_a_constant_classifier_cannot_be_identified_without_a_prior():
    lab = fieldcal.learn(np.full(100, 0.3), np.repeat([0, 1], [70, 30]))
    assert lab.n_bins == 1
    field = fieldcal.count(lab, np.full(40, 0.3))
    with pytest.raises(InputError, match=r"cannot be identified.*prior other than 'flat'"):
        fieldcal.estimate(lab, field, **URC)
    for prior in ("dirichlet", "auto"):
        prev = fieldcal.estimate(lab, field, prior=prior, trust=1)
        interval_is_sound(prev)
        assert "prior_only" in flags(prev)
    assert "prior_only" not in flags(three_prevalence())


@pytest.mark.filterwarnings(UNCALIBRATED, "ignore:The predictions hardly separate")
def test_fault_26_tied_edges_merge_and_the_true_number_of_bins_is_reported():
    rng = np.random.default_rng(0)
    lab = fieldcal.learn(
        np.choose(rng.integers(3, size=600), [0.2, 0.5, 0.8]), rng.integers(2, size=600), partition=8
    )
    assert lab.n_bins <= 3
    assert lab.F.shape == (2, lab.n_bins)
    assert f"{lab.n_bins} bins" in repr(lab)
    two_decimals = np.round(binary().proba_lab, 2)
    rounded = fieldcal.learn(two_decimals, binary().y_lab, partition=50)
    assert 10 < rounded.n_bins <= 50
    assert fieldcal.count(rounded, two_decimals).V.tolist() == [rounded.F.sum(axis=0).tolist()]
    for found in (lab, rounded):
        assert (found.F.sum(axis=0) > 0).all(), "no bin is empty"


@pytest.mark.filterwarnings("ignore::fieldcal.errors.SmallSampleWarning")
def test_fault_27_classes_alike_or_nearly_so_warn_and_the_interval_grows():
    rng = np.random.default_rng(3)
    ids = [rng.choice(4, 400, p=[0.6, 0.2, 0.1, 0.1]), np.tile(np.repeat([2, 3], [30, 70]), 2)]
    with pytest.warns(IdentifiabilityWarning, match=r"'b' and 'c'.*condition number"):
        lab = of_bins(np.concatenate(ids), np.repeat(["a", "b", "c"], [400, 100, 100]), 4)
    assert lab.conditioning.rank == 2
    assert not lab.conditioning.full_rank
    field = np.repeat([0, 1, 2, 3], [120, 60, 90, 130])
    estimates = []
    for moved in (field, np.append(field[1:], 3)):  # one row of 400 moves from bin 0 to bin 3
        prev = fieldcal.estimate(lab, fieldcal.count(lab, moved), prior="flat", trust=1)
        interval_is_sound(prev)
        estimates.append(prev)
    assert np.abs(estimates[0].estimate - estimates[1].estimate).max() < 0.02, "the point does not jump"
    width = (estimates[0].upper - estimates[0].lower)[0]
    assert (width[1:] > 2 * width[0]).all(), "b and c can stand for each other, a cannot"
    F = np.array([[500_000_000, 500_000_000, 0], [500_000_001, 499_999_999, 0], [0, 0, 1000]])
    with pytest.warns(IdentifiabilityWarning):
        lab = of_bins(np.tile([0, 1, 2], 3), np.repeat([0, 1, 2], 3), 3, sample_weight=F.ravel(), smoothing=0)
    assert lab.conditioning.condition_number > 1e8
    interval_is_sound(fieldcal.estimate(lab, fieldcal.count(lab, [0, 0, 1, 2, 2]), prior="flat", trust=1))


@pytest.mark.parametrize("smoothing", [0, "auto"])
def test_fault_28_field_rows_in_a_bin_the_lab_never_filled_are_flagged(smoothing):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 200)
    ids = np.where(labels, rng.choice(3, 400, p=[0.1, 0.3, 0.6]), rng.choice(3, 400, p=[0.6, 0.3, 0.1]))
    lab = of_bins(ids, labels, 4, smoothing=smoothing)
    field = fieldcal.count(lab, [0, 1, 2, 3] * 20 + [0, 1, 2] * 40, groups=["new"] * 80 + ["known"] * 120)
    prev = fieldcal.estimate(lab, field, **URC)
    interval_is_sound(prev)
    assert "novel" in flags(prev, prev.groups.index("new"))
    assert "novel" not in flags(prev, prev.groups.index("known"))
    assert prev.fit.novel.tolist() == [0, 20]
    alone = fieldcal.estimate(lab, fieldcal.count(lab, [3] * 10), **URC)
    interval_is_sound(alone)
    assert "novel" in flags(alone)


@pytest.mark.parametrize("end", [0, 1])
def test_fault_29_all_field_rows_at_one_end_leave_a_one_sided_interval(end):
    lab = binary_lab()
    for point in ("mode", "mean"):
        prev = fieldcal.estimate(lab, count(np.full(60, float(end))), prior="flat", point=point, trust=1)
        interval_is_sound(prev)
        width = (prev.upper - prev.lower)[0]
        assert (width > 1e-3).all()
        assert (width < 0.5).all()
        assert prev.estimate[0, end] > 0.9
        assert point == "mode" or prev.estimate[0, 1 - end] > 0, "never exactly 0 or 1"
    data = fieldcal.datasets.label_shift(
        n_lab=4000, n_field=3000, prevalence=[np.eye(2)[end]], separation=2.0, random_state=5
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), **URC)
    interval_is_sound(prev)
    assert prev.upper[0, end] > 0.97, "it reaches the truth, a field of one class"
    assert (prev.upper - prev.lower).min() > 1e-4


@pytest.mark.parametrize("trust", [0, 0.5])
def test_fault_29_certain_predictions_that_are_left_alone_have_an_interval_too(trust):
    # Bin 0 holds rows of class 0 alone in the lab: its stand-in prediction for the others is exactly zero.
    ids = of_bins([0, 0, 1, 1, 1, 2, 2, 2] * 20, [0, 0, 0, 1, 1, 1, 2, 2] * 20, 3)
    for prev in (
        fieldcal.estimate(binary_lab(), count(np.zeros(60)), trust=trust),
        fieldcal.estimate(ids, fieldcal.count(ids, [0] * 5), prior="flat", trust=trust),
    ):
        interval_is_sound(prev)
        assert (prev.upper - prev.lower > 1e-6).all()


def test_fault_30_frequencies_that_no_prevalence_can_give_are_flagged():
    """Rogan and Gladen below zero: a test with 20 % false positives that finds 5 % positives."""
    ids = np.concatenate([np.repeat([0, 1], [800, 200]), np.repeat([0, 1], [100, 900])])
    lab = of_bins(ids, np.repeat([0, 1], 1000), 2, smoothing=0)
    found = np.repeat([0, 1, 0, 1], [950, 50, 500, 500])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, found, groups=np.repeat(["out", "in"], 1000)), **URC)
    interval_is_sound(prev)
    assert "boundary" in flags(prev, prev.groups.index("out"))
    assert "boundary" not in flags(prev, prev.groups.index("in"))
    assert prev.urc[prev.groups.index("out"), 1] == 0


@pytest.mark.parametrize("huge", [1e6, 1e20])
def test_fault_31_one_huge_weight_warns_with_the_effective_sample_size(huge):
    weight = np.append(huge, np.ones(1199))
    with pytest.warns(
        WeightWarning, match=r"exceeds the sum of all 1,199 others.*sample size is 1\.0 of 1200"
    ):
        field = count(binary().proba_field, sample_weight=weight)
    interval_is_sound(fieldcal.estimate(binary_lab(), field, **URC))


def test_fault_32_counts_of_any_size_are_added_exactly_and_give_the_same_estimate():
    lab, few = binary_lab(), count(binary().proba_field[:1000])
    held = {name: getattr(few, name) * 10**9 for name in ("V", "weight_squares")}
    held["score_sums"] = few.score_sums * 1e9  # beyond 64 bits
    content = {name: getattr(few, name) for name in type(few).model_fields}
    many = fieldcal.Field(**{**content, "batches": {UNNAMED: Batch(groups=few.groups, **held)}})
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
    # From 2**23 rows on, a plain float sum of score units would round.
    rows = 2**23 + 3
    field = fieldcal.count(binary_lab(), np.full(rows, 1 - 2.0**-30))
    assert field.score_sums.dtype == np.int64
    assert field.score_sums.tolist() == [[rows, rows * (2**30 - 1)]]


@pytest.mark.parametrize("trust", [1, "auto"])
@pytest.mark.filterwarnings("ignore::fieldcal.errors.TrustWarning")
def test_fault_32_a_field_far_from_the_lab_has_an_answer_however_large(trust):
    lab = of_bins([0, 1, 0, 1, 0] * 40, [0, 1, 0, 1, 1] * 40, 4)
    for rows in (1, 100, 10**5):
        interval_is_sound(
            fieldcal.estimate(lab, fieldcal.count(lab, [2, 3] * rows), prior="flat", trust=trust)
        )


@pytest.mark.parametrize("prevalence", [binary_prevalence, three_prevalence], ids=["binary", "three"])
def test_fault_36_the_iteration_limit_is_visible_with_the_gap(prevalence):
    solved = prevalence()
    with pytest.warns(
        ConvergenceWarning, match=r"iteration limit.*optimality gap is .* Raise the limit: max_iter=…"
    ):
        prev = fieldcal.estimate(solved.lab, solved.field, **URC, max_iter=1)
    stopped = np.flatnonzero(~prev.fit.converged)
    assert len(stopped)
    for group in stopped:
        assert "not_converged" in flags(prev, group)
        assert prev.fit.gap[group] > solved.fit.gap[group]
    assert all("not_converged" not in flags(solved, g) for g in range(len(solved.status)))


@pytest.mark.filterwarnings(OURS)
def test_fault_37_denormals_certain_predictions_and_next_to_no_smoothing_leak_nothing():
    scores, groups = np.array([5e-324, 1e-320, 1e-310, 2.3e-308, 1 - 1e-16, 0.5]), np.zeros(6, dtype=int)
    prev = fieldcal.estimate(binary_lab(), count(scores, groups=groups), **URC)
    interval_is_sound(prev)
    new = unchanged(fieldcal.recalibrate, prev, scores, groups=groups)
    assert np.isfinite(new).all()
    assert (np.diff(new[:4]) >= 0).all()
    columns = np.array([[1e-320, 5e-324, 1.0], [1e-310, 1.0, 0.0], [1e-320, 0.5, 0.5]])
    np.testing.assert_allclose(recalibrate(columns, three_prevalence).sum(axis=1), 1)
    # A gamma draw of shape 1e-12 is exactly zero; a certain and wrong prediction has an infinite loss.
    ids = np.array([0, 1, 2] * 20)
    for smoothing in (0, 1e-12, 1e-300):
        lab = of_bins(ids, ids, 4, smoothing=smoothing)
        for prior in ("flat", "auto"):
            interval_is_sound(fieldcal.estimate(lab, fieldcal.count(lab, ids), prior=prior, trust=1))
    lab = of_bins(ids, ids, 3, smoothing=1e-200)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [0] * 50), **URC)
    new = fieldcal.recalibrate(prev, [[0.0, 1e-320, 1.0], [1e-320, 0.0, 1.0], [0.0, 0.5, 0.5]])
    np.testing.assert_allclose(new.sum(axis=1), 1)
    certain = np.repeat([0.0, 1.0], 50)
    lab = fieldcal.learn(certain, np.append(certain[:-1].astype(int), 0))
    assert lab.log_loss is None, "infinite, and no file holds an infinity"
    assert fieldcal.Lab.from_json(lab.to_json()) == lab


def test_fault_41_counts_of_another_lab_do_not_merge_and_the_difference_is_listed():
    data = binary()
    other = fieldcal.learn(data.proba_lab, data.y_lab, partition=5)
    one = count(data.proba_field)
    with pytest.raises(InputError, match=rf"8 and 5 bins; labs {one.lab[:8]}… and {other.digest[:8]}…"):
        one + fieldcal.count(other, data.proba_field)
    with pytest.raises(InputError, match="different labs: classes"):
        one + fieldcal.count(three_lab(), three().proba_field)
    with pytest.raises(InputError, match=r"another lab .* Count it again"):
        fieldcal.estimate(other, one, **URC)
    with pytest.raises(InputError, match="has groups and the other has none"):
        one + count(data.proba_field, groups=data.groups_field)
    with pytest.raises(TypeError, match="unsupported operand"):
        one + 1
    days = count([0.1, 0.2], batch="monday") + count([0.3], batch="tuesday")
    assert days.batch_ids == ("monday", "tuesday")
    with pytest.raises(InputError, match=r"batch 'monday' is in both.*twice"):
        days + count([0.4], batch="monday")


@pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")
def test_fault_50_the_number_of_threads_changes_no_count_and_no_estimate_beyond_1e_12():
    data, results = three(), []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            lab = fieldcal.learn(data.proba_lab, data.y_lab)
            field = fieldcal.count(lab, data.proba_field, groups=data.y_field)
            results.append((lab, field, fieldcal.estimate(lab, field, trust=1, random_state=3)))
    (lab, field, prev), (lab2, field2, prev2) = results
    assert lab.to_json() == lab2.to_json()
    assert field.to_json() == field2.to_json()
    for name in ("estimate", "urc", "lower", "upper"):
        np.testing.assert_allclose(getattr(prev, name), getattr(prev2, name), rtol=0, atol=1e-12)
    for step, step2 in zip(prev.steps, prev2.steps, strict=True):
        np.testing.assert_allclose(step.weights, step2.weights, rtol=0, atol=1e-12)
    with threadpoolctl.threadpool_limits(2):
        again = fieldcal.estimate(lab2, field2, trust=1, random_state=3)
    assert again.to_json() == prev2.to_json(), "the same seed gives the same bytes"


@pytest.mark.slow
@pytest.mark.filterwarnings(OURS)
@pytest.mark.parametrize("seed", range(12))
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
    own = rng.integers(5, size=len(ids)) if seed % 5 == 0 else None
    try:
        lab = of_bins(
            ids, labels, m, sample_weight=weight, smoothing=[0, "auto", 1e-12, 50.0][seed % 4], groups=own
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
