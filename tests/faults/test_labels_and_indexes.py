"""Faults 61, 63 and 64: numbers beyond measure, labels that are nearly the same, pandas indexes that disagree."""

from __future__ import annotations

import decimal
import fractions
import functools
import warnings

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
from fieldcal.errors import FieldcalError, InputError, InputTypeError, LabelWarning

UNWARNED = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@functools.cache
def data():
    return fieldcal.datasets.label_shift(n_lab=600, n_field=300, n_groups=3, random_state=0)


@functools.cache
def made():
    lab = fieldcal.learn(data().proba_lab, data().y_lab)
    field = fieldcal.count(lab, data().proba_field, groups=data().groups_field)
    return lab, field, fieldcal.estimate(lab, field)


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


PROBABILITIES = ["0.125", "0.25", "0.5", "0.75"]
DECIMALS = pa.table({"p": pa.array([decimal.Decimal(x) for x in PROBABILITIES], pa.decimal128(10, 4))})


@pytest.mark.conformance
def test_fault_61_decimal_columns_are_scores_like_others(local_engine):
    if not local_engine.name.startswith("pandas") or local_engine.name == "pandas-pyarrow":
        counted = tables.count(made()[0], local_engine.make(DECIMALS), scores="p")
        exact = fieldcal.count(made()[0], [float(x) for x in PROBABILITIES])
        assert counted.V.tolist() == exact.V.tolist()
        assert counted.score_sums.tolist() == exact.score_sums.tolist()


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
    with pytest.warns(LabelWarning, match="differ by blanks or case only. They are treated") as said:
        lab = fieldcal.learn(proba, y)
    assert set(lab.classes) == {"other", one, two}
    text = str(next(w.message for w in said if w.category is LabelWarning))
    assert repr(one) in text
    assert repr(two) in text
    rows = pa.table({"y": y, **{f"p_{k}": column for k, column in enumerate(proba.T)}})
    with pytest.warns(LabelWarning, match="differ by blanks or case only"):
        tables.learn(rows, label="y", scores=["p_0", "p_1", "p_2"], classes=sorted({"other", one, two}))


@UNWARNED
def test_fault_63_the_command_line_tells_both_spellings_and_refuses_a_third(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    proba, y = spelled("pos", "pos ")
    pl.DataFrame({"y": y, "p_other": proba[:, 0], "p_pos": proba[:, 1], "p_pos ": proba[:, 2]}).write_parquet(
        "l.parquet"
    )
    with pytest.raises(SystemExit) as ended:
        main(["learn", "l.parquet", "--label", "y", "--scores", "p_*", "-o", "lab.json"])
    assert ended.value.code == 0
    assert "'pos' and 'pos ' differ by blanks or case only" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(InputError, match=r"The label 'yes ' is not among the classes \['no', 'yes'\].*'yes'"):
        fieldcal.learn([0.1, 0.9], ["no", "yes "], classes=["no", "yes"])


@pytest.mark.filterwarnings("error::fieldcal.errors.LabelWarning")
@UNWARNED
def test_fault_63_groups_that_differ_by_blanks_or_case_are_groups_of_their_own():
    counted = fieldcal.count(made()[0], [0.1, 0.2, 0.3], groups=["York", "york", "York "])
    assert counted.groups == ("York", "York ", "york")


DISAGREE = "The indexes of {} and {} disagree: row 0 is .*Rows are matched by position.*reset_index.*loc"
OTHERS = [  # reordered, shifted, named
    lambda n: pd.RangeIndex(n)[::-1],
    lambda n: pd.RangeIndex(5, n + 5),
    lambda n: pd.Index([f"row {i}" for i in range(n)]),
]


def of_classifier(X, y):
    model = FrozenEstimator(LogisticRegression().fit(data().proba_lab[:, None], data().y_lab))
    return fieldcal.RecalibratedClassifier(model).fit(X.to_frame("x"), y)


P, Y, G = data().proba_lab, data().y_lab, data().groups_lab
FIELD, GROUPS, TRUE = data().proba_field, data().groups_field, data().y_field
ONES = np.ones(300)
#: By the verb and the names of two arguments: the arguments, and a call with both.
PAIRS = {
    "learn predictions y": (P, Y, fieldcal.learn),
    "learn predictions groups": (P, G, lambda a, b: fieldcal.learn(a, Y, groups=b)),
    "learn predictions sample_weight": (P, np.ones(600), lambda a, b: fieldcal.learn(a, Y, sample_weight=b)),
    "learn y groups": (Y, G, lambda a, b: fieldcal.learn(P, a, groups=b)),
    "count predictions groups": (FIELD, GROUPS, lambda a, b: fieldcal.count(made()[0], a, groups=b)),
    "count predictions sample_weight": (
        FIELD,
        ONES,
        lambda a, b: fieldcal.count(made()[0], a, sample_weight=b),
    ),
    "recalibrate predictions groups": (
        FIELD,
        GROUPS,
        lambda a, b: fieldcal.recalibrate(made()[2], a, groups=b),
    ),
    "decide predictions groups": (FIELD, GROUPS, lambda a, b: fieldcal.decide(made()[2], a, groups=b)),
    "report proba y": (FIELD, TRUE, lambda a, b: fieldcal.report(made()[2], proba=a, y=b, groups=GROUPS)),
    "report proba groups": (
        FIELD,
        GROUPS,
        lambda a, b: fieldcal.report(made()[2], proba=a, y=TRUE, groups=b),
    ),
    "fit y groups": (
        Y,
        G,
        lambda a, b: fieldcal.Recalibrator().fit(np.column_stack([1 - P, P]), a, groups=b),
    ),
    "fit_classifier X y": (P, Y, of_classifier),
    "fit_regressor X y": (
        *(P, P),
        lambda a, b: fieldcal.RecalibratedRegressor(LinearRegression()).fit(a.to_frame("x"), b),
    ),
    "calibration_error proba y": (FIELD, TRUE, metrics.calibration_error),
    "absolute_error estimate truth": (np.full(5, 0.2), np.full(5, 0.2), metrics.absolute_error),
    "moments mean sd": (np.arange(5.0), np.ones(5), regression.from_moments),
    "plot before y": (FIELD, TRUE, lambda a, b: plots.reliability_of(a, FIELD, b, classes=[0, 1])),
}


@UNWARNED
@pytest.mark.parametrize("pair", PAIRS, ids=[f"fault_64_{name.replace(' ', '_')}" for name in PAIRS])
def test_objects_whose_indexes_disagree_are_refused(pair):
    one, two, call = PAIRS[pair]
    for other in OTHERS:
        with pytest.raises(InputError, match=DISAGREE.format(*pair.split()[1:])):
            call(pd.Series(one), pd.Series(two, index=other(len(two))))


@UNWARNED
def test_fault_64_one_index_for_all_or_an_index_beside_arrays_is_fine():
    odd = pd.Index([7] * 300)  # duplicated: row 47
    numbers = pd.Index(range(300), dtype="int32")
    plain = fieldcal.recalibrate(made()[2], FIELD, groups=GROUPS)
    for predictions, groups in (
        *(
            (pd.Series(FIELD, index=odd), g)
            for g in (pd.Series(GROUPS, index=odd), GROUPS, pl.Series(GROUPS))
        ),
        (pd.Series(FIELD), pd.Series(GROUPS, index=numbers)),
    ):
        found = fieldcal.recalibrate(made()[2], predictions, groups=groups)
        np.testing.assert_array_equal(found, plain)


@UNWARNED
def test_fault_64_objects_of_unequal_length_are_told_their_lengths():
    with pytest.raises(FieldcalError, match="There are 600 predictions but 2 labels"):
        fieldcal.learn(pd.Series(data().proba_lab), pd.Series([0, 1], index=[4, 5]))
