"""Faults 61, 63 and 64: numbers beyond measure, labels that are nearly the same, pandas indexes that disagree."""

from __future__ import annotations

import decimal
import fractions
import functools
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

import fieldcal
from fieldcal import metrics, plots, regression, tables
from fieldcal.cli.main import main
from fieldcal.errors import FieldcalError, InputError, InputTypeError, LabelWarning, WeightWarning

UNWARNED = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@functools.cache
def data():
    return fieldcal.datasets.label_shift(n_lab=600, n_field=300, n_groups=3, random_state=0)


@functools.cache
def made():
    lab = fieldcal.learn(data().proba_lab, data().y_lab)
    field = fieldcal.count(lab, data().proba_field, groups=data().groups_field)
    return lab, field, fieldcal.estimate(lab, field)


# Fault 61: numbers beyond measure ---------------------------------------------------------------------------

HUGE = {
    "fault_61_int": [0.5, 10**400],
    "fault_61_negative_int": [0.5, -(10**400)],
    "fault_61_object_array": np.array([0.5, 10**400], dtype=object),
    "fault_61_fraction": [0.5, fractions.Fraction(10**400, 3)],
    "fault_61_decimal": [0.5, decimal.Decimal("1e400")],
}


@pytest.mark.parametrize("scores", HUGE.values(), ids=HUGE)
def test_a_score_beyond_floats_is_refused_as_infinite(scores):
    for verb in (
        lambda p: fieldcal.count(made()[0], p),
        lambda p: fieldcal.recalibrate(made()[2], p, groups=[0, 1]),
    ):
        with pytest.raises(InputError, match=r"must be probabilities, but reach -?inf\. Infinite scores"):
            verb(scores)


def test_fault_61_weights_and_numbers_beyond_floats_are_refused():
    with pytest.raises(InputError, match="1 sample weights are NaN or infinite, the first in row 1"):
        fieldcal.count(made()[0], [0.5, 0.5], sample_weight=[1, 10**400])
    with pytest.raises(InputTypeError, match="The numbers y must be numbers"):
        fieldcal.learn(regression.from_moments([0.0, 1.0], [1.0, 1.0]), [0, 10**400])


def test_fault_61_weights_of_most_sizes_only_count_by_their_ratios():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = fieldcal.learn(data().proba_lab, data().y_lab)
        huge = fieldcal.learn(data().proba_lab, data().y_lab, sample_weight=np.full(600, 1e20))
        field = fieldcal.count(huge, data().proba_field, sample_weight=np.full(300, 1e20))
        prev = fieldcal.estimate(huge, field)
    np.testing.assert_allclose(huge.M, plain.M, rtol=1e-12)
    same = fieldcal.estimate(plain, fieldcal.count(plain, data().proba_field))
    np.testing.assert_allclose(prev.estimate, same.estimate, rtol=1e-9)


@pytest.mark.parametrize("weight", [5e-324, 1e-50, 1e50, 1e200], ids=lambda w: f"fault_61_weight_{w}")
def test_weights_whose_squares_no_float_holds_are_refused(weight):
    with pytest.raises(InputError, match=r"row 1 has .*Rescale them"):
        fieldcal.count(made()[0], [0.5, 0.5, 0.5], sample_weight=[1.0, weight, 1.0])


def test_fault_61_one_huge_weight_among_small_ones_is_told_without_a_foreign_warning():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fieldcal.count(made()[0], [0.5, 0.5, 0.5, 0.4], sample_weight=[1.0, 1e20, 1e-20, 1.0])
    assert [w.category for w in said] == [WeightWarning]


PROBABILITIES = ["0.125", "0.25", "0.5", "0.75"]
DECIMALS = pa.table({"p": pa.array([decimal.Decimal(x) for x in PROBABILITIES], pa.decimal128(10, 4))})
DECIMAL_TABLES = {
    "fault_61_pyarrow": DECIMALS,
    "fault_61_polars": pl.from_arrow(DECIMALS),
    "fault_61_polars_lazy": pl.from_arrow(DECIMALS).lazy(),
    "fault_61_duckdb": duckdb.connect().sql("SELECT unnest([0.125, 0.25, 0.5, 0.75]::DECIMAL(10, 4)[]) AS p"),
    "fault_61_pandas_pyarrow": DECIMALS.to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.mark.parametrize("table", DECIMAL_TABLES.values(), ids=DECIMAL_TABLES)
def test_decimal_columns_are_scores_like_others(table):
    counted = tables.count(made()[0], table, scores="p")
    exact = fieldcal.count(made()[0], [float(x) for x in PROBABILITIES])
    assert counted.V.tolist() == exact.V.tolist()
    assert counted.score_sums.tolist() == exact.score_sums.tolist()


def test_fault_61_decimals_in_arrays_are_numbers_and_their_nan_is_missing():
    given = np.array([decimal.Decimal("0.25"), decimal.Decimal("NaN"), decimal.Decimal("sNaN")], dtype=object)
    with pytest.raises(InputError, match="2 of 3 field predictions are missing"):
        fieldcal.count(made()[0], given)
    assert fieldcal.count(made()[0], given, missing="drop").dropped == 2


# Fault 63: labels that differ by blanks or case only --------------------------------------------------------

SPELLINGS = {
    "fault_63_blank": ("pos", "pos "),
    "fault_63_case": ("Pos", "pos"),
    "fault_63_inner_blank": ("not sure", "not  sure"),
    "fault_63_tab": ("pos", "\tpos"),
    "fault_63_no_break_space": ("pos", "pos\u00a0"),
    "fault_63_sharp_s": ("GROSS", "gro\u00df"),
}


def spelled(one, two):
    """Three classes, of which two are nearly the same."""
    y = np.array(["other", one, two])[np.arange(300) % 3]
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    return proba, y


@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
@pytest.mark.filterwarnings("ignore::fieldcal.errors.IdentifiabilityWarning")
@pytest.mark.parametrize(("one", "two"), SPELLINGS.values(), ids=SPELLINGS)
def test_labels_that_differ_by_blanks_or_case_are_kept_apart_and_told(one, two):
    proba, y = spelled(one, two)
    with pytest.warns(LabelWarning, match="differ by blanks or case only. They are kept apart") as said:
        lab = fieldcal.learn(proba, y)
    assert set(lab.classes) == {"other", one, two}
    text = str(next(w.message for w in said if w.category is LabelWarning))
    assert repr(one) in text
    assert repr(two) in text
    rows = pa.table({"y": y, **{f"p_{k}": column for k, column in enumerate(proba.T)}})
    with pytest.warns(LabelWarning, match="differ by blanks or case only"):
        tables.learn(rows, label="y", scores=["p_0", "p_1", "p_2"], classes=sorted({"other", one, two}))


@UNWARNED
def test_fault_63_the_command_line_tells_both_spellings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    proba, y = spelled("pos", "pos ")
    pl.DataFrame({"y": y, "p_other": proba[:, 0], "p_pos": proba[:, 1], "p_pos ": proba[:, 2]}).write_parquet(
        "l.parquet"
    )
    with pytest.raises(SystemExit) as ended:
        main(["learn", "l.parquet", "--label", "y", "--scores", "p_*", "-o", "lab.json"])
    assert ended.value.code == 0
    assert "'pos' and 'pos ' differ by blanks or case only" in " ".join(capsys.readouterr().err.split())


@UNWARNED
def test_fault_63_a_label_that_is_a_class_but_for_a_blank_is_refused_with_both():
    with pytest.raises(InputError, match=r"The label 'yes ' is not among the classes \['no', 'yes'\].*'yes'"):
        fieldcal.learn([0.1, 0.9], ["no", "yes "], classes=["no", "yes"])


@pytest.mark.filterwarnings("error::fieldcal.errors.LabelWarning")
@UNWARNED
def test_fault_63_groups_that_differ_by_blanks_or_case_are_groups_of_their_own():
    counted = fieldcal.count(made()[0], [0.1, 0.2, 0.3], groups=["York", "york", "York "])
    assert counted.groups == ("York", "York ", "york")


# Fault 64: pandas objects whose indexes disagree ------------------------------------------------------------

DISAGREE = "The indexes of {} and {} disagree: row 0 is .*Rows are matched by position.*reset_index.*loc"
OTHERS = {
    "reordered": lambda n: pd.RangeIndex(n)[::-1],
    "shifted": lambda n: pd.RangeIndex(5, n + 5),
    "named": lambda n: pd.Index([f"row {i}" for i in range(n)]),
}


def learning(**objects):
    given = {"predictions": data().proba_lab, "y": data().y_lab, "groups": data().groups_lab} | objects
    return fieldcal.learn(given.pop("predictions"), given.pop("y"), **given)


def counting(**objects):
    given = {"predictions": data().proba_field, "groups": data().groups_field} | objects
    return fieldcal.count(made()[0], given.pop("predictions"), **given)


def recalibrating(**objects):
    given = {"predictions": data().proba_field, "groups": data().groups_field} | objects
    return fieldcal.recalibrate(made()[2], given.pop("predictions"), **given)


def deciding(**objects):
    given = {"predictions": data().proba_field, "groups": data().groups_field} | objects
    return fieldcal.decide(made()[2], given.pop("predictions"), **given)


def reporting(**objects):
    given = {"proba": data().proba_field, "y": data().y_field, "groups": data().groups_field}
    return fieldcal.report(made()[2], **given | objects)


def fitting(**objects):
    given = {"X": np.column_stack([1 - data().proba_lab, data().proba_lab]), "y": data().y_lab} | objects
    return fieldcal.Recalibrator().fit(given.pop("X"), given.pop("y"), **given)


def fitting_classifier(**objects):
    X = pd.DataFrame({"x": data().proba_lab})
    model = FrozenEstimator(LogisticRegression().fit(X, data().y_lab))
    given = {"X": X, "y": data().y_lab} | objects
    frame = given.pop("X")
    frame = frame.to_frame("x") if isinstance(frame, pd.Series) else frame
    return fieldcal.RecalibratedClassifier(model).fit(frame, given.pop("y"), **given)


def fitting_regressor(**objects):
    X = pd.DataFrame({"x": data().proba_lab})
    given = {"X": X, "y": data().proba_lab + np.linspace(0, 1, 600)} | objects
    frame = given.pop("X")
    frame = frame.to_frame("x") if isinstance(frame, pd.Series) else frame
    return fieldcal.RecalibratedRegressor(LinearRegression()).fit(frame, given.pop("y"), **given)


def measuring(**objects):
    given = {"proba": data().proba_field, "y": data().y_field} | objects
    return metrics.calibration_error(given["proba"], given["y"])


def comparing(**objects):
    given = {"estimate": np.full(5, 0.2), "truth": np.full(5, 0.2)} | objects
    return metrics.absolute_error(given["estimate"], given["truth"])


def of_moments(**objects):
    given = {"mean": np.arange(5.0), "sd": np.ones(5)} | objects
    return regression.from_moments(given["mean"], given["sd"])


def plotting(**objects):
    given = {"before": data().proba_field, "after": data().proba_field, "y": data().y_field} | objects
    return plots.reliability_of(given["before"], given["after"], given["y"], classes=[0, 1])


PAIRS = [
    (learning, "predictions", data().proba_lab, "y", data().y_lab),
    (learning, "predictions", data().proba_lab, "groups", data().groups_lab),
    (learning, "predictions", data().proba_lab, "sample_weight", np.ones(600)),
    (learning, "y", data().y_lab, "groups", data().groups_lab),
    (counting, "predictions", data().proba_field, "groups", data().groups_field),
    (counting, "predictions", data().proba_field, "sample_weight", np.ones(300)),
    (recalibrating, "predictions", data().proba_field, "groups", data().groups_field),
    (deciding, "predictions", data().proba_field, "groups", data().groups_field),
    (reporting, "proba", data().proba_field, "y", data().y_field),
    (reporting, "proba", data().proba_field, "groups", data().groups_field),
    (fitting, "y", data().y_lab, "groups", data().groups_lab),
    (fitting_classifier, "X", data().proba_lab, "y", data().y_lab),
    (fitting_regressor, "X", data().proba_lab, "y", data().proba_lab),
    (measuring, "proba", data().proba_field, "y", data().y_field),
    (comparing, "estimate", np.full(5, 0.2), "truth", np.full(5, 0.2)),
    (of_moments, "mean", np.arange(5.0), "sd", np.ones(5)),
    (plotting, "before", data().proba_field, "y", data().y_field),
]


@UNWARNED
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(
    ("use", "first", "one", "second", "two"),
    PAIRS,
    ids=[f"fault_64_{use.__name__}_{first}_{second}" for use, first, _, second, _ in PAIRS],
)
def test_objects_whose_indexes_disagree_are_refused(use, first, one, second, two, other):
    with pytest.raises(InputError, match=DISAGREE.format(first, second)):
        use(**{first: pd.Series(one), second: pd.Series(two, index=other(len(two)))})


@UNWARNED
def test_fault_64_one_index_for_all_or_an_index_beside_arrays_is_fine():
    odd = pd.Index([7] * 300)  # duplicated: row 47
    plain = recalibrating()
    for groups in (
        pd.Series(data().groups_field, index=odd),
        data().groups_field,
        pl.Series(data().groups_field),
    ):
        found = recalibrating(predictions=pd.Series(data().proba_field, index=odd), groups=groups)
        np.testing.assert_array_equal(found, plain)
    same_numbers = pd.Series(data().groups_field, index=pd.Index(range(300), dtype="int32"))
    np.testing.assert_array_equal(
        recalibrating(predictions=pd.Series(data().proba_field), groups=same_numbers), plain
    )


@UNWARNED
def test_fault_64_objects_of_unequal_length_are_told_their_lengths():
    with pytest.raises(FieldcalError, match="There are 600 predictions but 2 labels"):
        fieldcal.learn(pd.Series(data().proba_lab), pd.Series([0, 1], index=[4, 5]))
