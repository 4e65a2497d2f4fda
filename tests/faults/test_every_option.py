"""Faults 59, 60 and 62: options of public functions with values that cannot be.

An option that several functions share is tried in the first two of them. Each call either succeeds or raises a
`FieldcalError`; anything else is a fault. What no option could be is refused by the option's name. Features ``X`` and
targets ``y`` of the estimators are checked by scikit-learn, which raises a ValueError or TypeError of its own.
"""

from __future__ import annotations

import collections
import functools
import inspect
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

import fieldcal
from fieldcal import datasets, metrics, plots, regression, tables
from fieldcal.errors import FieldcalError

ODD = {
    "none": None,
    "text": "x",
    "negative": -1,
    "nan": float("nan"),
    "beyond_floats": 10**400,
    "ragged": [[1], [2, 3]],
    "object": object(),
}


@functools.cache
def world():
    """A small case of everything."""
    data = datasets.label_shift(n_lab=200, n_field=100, n_groups=3, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    return data, lab, field, fieldcal.estimate(lab, field)


@functools.cache
def in_tables():
    data, *_ = world()
    lab_rows = pa.table({"p": data.proba_lab, "g": data.groups_lab, "y": data.y_lab})
    rows = pa.table({"p": data.proba_field, "g": data.groups_field, "y": data.y_field})
    lab = tables.learn(lab_rows, label="y", scores="p", by="g")
    return lab_rows, rows, lab, fieldcal.estimate(lab, tables.count(lab, rows))


@functools.cache
def numbers():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    return regression.from_moments((y + 0.7 * rng.normal(size=200)) / 1.49, np.full(200, 0.57)), y


@functools.cache
def verdicts():
    """What a judge says, pass or fail, and a lab and an estimate of it."""
    data, *_ = world()
    said = np.where(data.proba_lab > 0.5, "pass", "fail")
    lab = fieldcal.learn(said, data.y_lab, kind="values", design="random")
    return said, lab, fieldcal.estimate(lab, fieldcal.count(lab, said), prior="flat", trust=1)


@functools.cache
def ordered():
    data = datasets.label_shift(n_lab=300, n_field=60, p_lab=[0.4, 0.3, 0.3], random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=True)
    return fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field))


@functools.cache
def features():
    data, *_ = world()
    return np.column_stack([data.proba_lab, np.sin(9 * data.proba_lab)])


def probabilities():
    data, *_ = world()
    return np.column_stack([1 - data.proba_lab, data.proba_lab])


@functools.cache
def recalibrator():
    return fieldcal.Recalibrator().fit(probabilities(), world()[0].y_lab)


@functools.cache
def regressor():
    return fieldcal.RecalibratedRegressor(LinearRegression()).fit(features(), numbers()[1])


def with_recalibrator(**options):
    return fieldcal.Recalibrator(**options).fit(probabilities(), world()[0].y_lab).adapt(probabilities()[:50])


def with_classifier(**options):
    model = fieldcal.RecalibratedClassifier(LogisticRegression(), **options)
    return model.fit(features(), world()[0].y_lab).adapt(features()[:50])


def with_regressor(**options):
    model = fieldcal.RecalibratedRegressor(LinearRegression(), **options)
    return model.fit(features(), numbers()[1]).adapt(features()[:50]).predict(features()[:2])


def frozen():
    return fieldcal.RecalibratedClassifier(
        FrozenEstimator(LogisticRegression().fit(features(), world()[0].y_lab))
    )


def calls():
    """Each function with arguments that are right, and which of its parameters are tried (by default all)."""
    data, lab, field, prev = world()
    lab_rows, rows, table_lab, table_prev = in_tables()
    predicted, y = numbers()
    said, value_lab, value_prev = verdicts()
    systems, items = ["a", "b"] * (len(said) // 2), [i // 2 for i in range(len(said))]
    judged_field = fieldcal.count(value_lab, said, y=data.y_lab, groups=systems)
    judged = fieldcal.estimate(value_lab, judged_field)
    pairs = fieldcal.pairs(value_lab, said, systems, items)
    number_lab = fieldcal.learn(predicted, y, intervals=[0.0])
    support = number_lab.outcome
    dated = field.named("2024-01-01")
    with_labels = fieldcal.count(lab, data.proba_field, y=data.y_field)
    by_labels = fieldcal.estimate(lab, with_labels)
    one = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field))
    labelled = {"proba": data.proba_field, "y": data.y_field, "groups": data.groups_field}
    return {
        "learn": (fieldcal.learn, {"predictions": data.proba_lab, "y": data.y_lab}),
        "learn_numbers": (fieldcal.learn, {"predictions": predicted, "y": y}),
        "learn_values": (
            fieldcal.learn,
            {"predictions": said, "y": data.y_lab, "kind": "values", "design": "random"},
        ),
        "count_values": (fieldcal.count, {"lab": value_lab, "predictions": said, "y": data.y_lab}),
        "recalibrate_values": (fieldcal.recalibrate, {"prev": value_prev, "predictions": said}),
        "decide_values": (fieldcal.decide, {"prev": value_prev, "predictions": said}),
        "estimate_values": (fieldcal.estimate, {"lab": value_lab, "field": judged_field}),
        "contrast_values": (judged.contrast, {"a": "a", "b": "b", "pairs": pairs}),
        "compare_values": (judged.compare, {"reference": "a"}),
        "plan_values": (fieldcal.plan, {"lab": judged, "labels": []}),
        "pairs": (
            fieldcal.pairs,
            {"lab": value_lab, "predictions": said, "groups": systems, "items": items, "y": data.y_lab},
        ),
        "from_rates": (fieldcal.Lab.from_rates, {"sensitivity": 0.9, "specificity": 0.8, "n": (50, 60)}),
        "from_confusion": (fieldcal.Lab.from_rates, {"confusion": [[40, 10], [5, 45]]}),
        "Values": (fieldcal.Values, {"bins": ["pass", "fail"]}),
        "count": (fieldcal.count, {"lab": lab, "predictions": data.proba_field}),
        "count_labels": (
            fieldcal.count,
            {"lab": lab, "predictions": data.proba_field, "y": data.y_field},
        ),
        "count_numbers": (fieldcal.count, {"lab": number_lab, "predictions": predicted, "y": y}),
        "estimate": (fieldcal.estimate, {"lab": lab, "field": field}),
        "check": (fieldcal.check, {"lab": lab, "field": field}),
        "recalibrate": (
            fieldcal.recalibrate,
            {"prev": prev, "predictions": data.proba_field, "groups": data.groups_field},
        ),
        "recalibrate_bins": (
            fieldcal.recalibrate,
            {"prev": by_labels, "predictions": data.proba_field, "shape": "bins"},
        ),
        "decide": (
            fieldcal.decide,
            {"prev": prev, "predictions": data.proba_field, "groups": data.groups_field},
        ),
        "change_prevalence": (
            fieldcal.change_prevalence,
            {"predictions": data.proba_field, "old": 0.5, "new": 0.1},
        ),
        "plan": (fieldcal.plan, {"lab": lab, "n": 100}),
        "cross_validate": (fieldcal.cross_validate, {"prev": fieldcal.estimate(lab, with_labels)}),
        "plan_labels": (fieldcal.plan, {"lab": one, "labels": [5]}),
        "rows_to_label": (
            fieldcal.rows_to_label,
            {"prev": prev, "predictions": data.proba_field, "n": 5, "groups": data.groups_field},
        ),
        "report": (fieldcal.report, {"prev": prev, **labelled}),
        "label_shift": (datasets.label_shift, {"n_lab": 20, "n_field": 10}),
        "quantification": (datasets.quantification, {"n_lab": 50, "n_pool": 2000}),
        "judged": (datasets.judged, {"n_items": 20, "n_labels": 10}),
        "absolute_error": (metrics.absolute_error, {"estimate": [0.1, 0.9], "truth": [0.2, 0.8]}),
        "relative_absolute_error": (
            metrics.relative_absolute_error,
            {"estimate": [0.1, 0.9], "truth": [0.2, 0.8], "n": 10},
        ),
        "brier_parts": (metrics.brier_parts, {"proba": data.proba_field, "y": data.y_field}),
        "calibration_error": (metrics.calibration_error, {"proba": data.proba_field, "y": data.y_field}),
        "plots_bins": (plots.bins, {"prev": prev}),
        "plots_changes": (plots.changes, {"prev": prev}),
        "plots_curve": (plots.curve, {"prev": prev}),
        "plots_forest": (plots.forest, {"prev": prev}),
        "plots_explanations": (plots.explanations, {"prev": fieldcal.estimate(lab, with_labels)}),
        "plots_distribution": (plots.distribution, {"prev": ordered()}),
        "plots_reliability": (plots.reliability, {"lab": lab}),
        "plots_response": (plots.response, {"lab": lab}),
        "plots_trust": (plots.trust, {"lab": lab}),
        "plots_coverage": (plots.coverage, {"before": predicted, "after": predicted, "y": y}),
        "plots_pit": (plots.pit, {"before": predicted, "after": predicted, "y": y}),
        "plots_reliability_of": (
            plots.reliability_of,
            {"before": data.proba_field, "after": data.proba_field, "y": data.y_field, "classes": [0, 1]},
        ),
        "as_predictions": (regression.as_predictions, {"thing": predicted}),
        "from_cdf": (regression.from_cdf, {"values": [[0, 0.5, 1.0]], "grid": [0.0, 1.0, 2.0]}),
        "from_distribution": (regression.from_distribution, {"dist": predicted}),
        "from_masses": (
            regression.from_masses,
            {"masses": [[0.5, 0.5]], "support": support, "low": -1.0, "high": 1.0},
        ),
        "from_moments": (regression.from_moments, {"mean": [0.0, 1.0], "sd": [1.0, 1.0]}),
        "from_quantiles": (
            regression.from_quantiles,
            {"values": [[0.0, 1.0, 2.0]], "levels": [0.1, 0.5, 0.9]},
        ),
        "from_samples": (regression.from_samples, {"samples": [[0.0, 1.0, 2.0]]}),
        "Predictions_cdf": (predicted.cdf, {"x": [0.0]}),
        "Predictions_pdf": (predicted.pdf, {"x": [0.0]}),
        "Predictions_ppf": (predicted.ppf, {"u": [0.5]}),
        "Predictions_interval": (predicted.interval, {"coverage": 0.9}),
        "Predictions_sample": (predicted.sample, {"size": 3}),
        "Predictions_crps": (predicted.crps, {"y": y}),
        "Predictions_log_score": (predicted.log_score, {"y": y}),
        "Predictions_take": (predicted.take, {"rows": [0]}),
        "tables_learn": (tables.learn, {"frame": lab_rows, "label": "y", "scores": "p"}),
        "tables_count": (tables.count, {"lab": table_lab, "frame": rows}),
        "tables_recalibrate": (tables.recalibrate, {"prev": table_prev, "frame": rows}),
        "tables_recalibrate_bins": (
            tables.recalibrate,
            {"prev": by_labels, "frame": rows, "scores": "p", "by": [], "shape": "bins"},
        ),
        "tables_change_prevalence": (
            tables.change_prevalence,
            {"frame": rows, "scores": "p", "old": 0.5, "new": 0.1},
        ),
        "sql_change_prevalence": (
            tables.sql_change_prevalence,
            {"table": "t", "dialect": "duckdb", "scores": "p", "old": 0.5, "new": 0.1},
        ),
        "tables_decide": (tables.decide, {"prev": table_prev, "frame": rows}),
        "tables_rows_to_label": (
            tables.rows_to_label,
            {"prev": table_prev, "frame": rows, "n": 5, "label": "new"},
        ),
        "tables_read_labelled": (tables.read_labelled, {"prev": table_prev, "frame": rows}),
        "sql_count": (tables.sql_count, {"lab": table_lab, "table": "t", "dialect": "duckdb"}),
        "sql_recalibrate": (
            tables.sql_recalibrate,
            {"prev": table_prev, "table": "t", "dialect": "duckdb"},
        ),
        "sql_decide": (tables.sql_decide, {"prev": table_prev, "table": "t", "dialect": "duckdb"}),
        "KL": (fieldcal.KL, {}),
        "Dirichlet": (fieldcal.Dirichlet, {}),
        "Continuity": (fieldcal.Continuity, {}),
        "Bins": (fieldcal.Bins, {"n": 3}),
        "Edges": (fieldcal.Edges, {"edges": [0.5]}),
        "Expected": (fieldcal.Expected, {"n": 3}),
        "Quantiles": (fieldcal.Quantiles, {"n": 3}),
        "Simplex": (fieldcal.Simplex, {"cells": 3}),
        "Recalibrator": (with_recalibrator, {}, fieldcal.Recalibrator),
        "RecalibratedClassifier": (with_classifier, {}, fieldcal.RecalibratedClassifier),
        "RecalibratedRegressor": (with_regressor, {}, fieldcal.RecalibratedRegressor),
        "Recalibrator_fit": (fieldcal.Recalibrator().fit, {"X": probabilities(), "y": data.y_lab}),
        "Recalibrator_adapt": (recalibrator().adapt, {"X": probabilities()}),
        "Recalibrator_partial_adapt": (recalibrator().partial_adapt, {"X": probabilities()}),
        "RecalibratedRegressor_adapt": (regressor().adapt, {"X": features()}),
        "Recalibrator_predict_proba": (recalibrator().predict_proba, {"X": probabilities()}),
        "RecalibratedClassifier_fit": (frozen().fit, {"X": features(), "y": data.y_lab}),
        "RecalibratedRegressor_predict_interval": (regressor().predict_interval, {"X": features()}),
        "RecalibratedRegressor_predict_quantiles": (
            regressor().predict_quantiles,
            {"X": features(), "alpha": [0.5]},
        ),
        "Field_named": (field.named, {"id": "x"}),
        "Field_add": (field.add, {"batch": field, "id": "x"}),
        "Field_retract": (dated.retract, {"id": "2024-01-01"}),
        "Field_only": (dated.only, {"ids": ["2024-01-01"]}),
        "Field_window": (dated.window, {}),
        "Lab_extended": (lab.extended, {"field": with_labels}),
        "Prevalence_draws": (prev.draws, {}),
        "Prevalence_contrast": (prev.contrast, {"a": 0, "b": 1}),
        "Prevalence_shares": (prev.shares, {}),
        "Prevalence_ranking": (prev.ranking, {}),
        "Prevalence_poststratify": (prev.poststratify, {"totals": [1, 1, 1]}),
        "Prevalence_performance": (prev.performance, {}),
        "Prevalence_to_frame": (prev.to_frame, {}),
        "Lab_load": (fieldcal.Lab.load, {"path": "none.json"}),
        "Lab_from_json": (fieldcal.Lab.from_json, {"data": lab.to_json()}),
    }


def parameters(function, shown=None):
    """Of the public signature."""
    plain = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(shown or function).parameters.values()
    return [p.name for p in given if p.kind in plain and p.name != "estimator"]


@functools.cache
def known_calls():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calls()


def tried():
    """Each function, with those of its options that fewer than two functions before it have."""
    seen = collections.Counter()
    for name, (function, _, *shown) in known_calls().items():
        options = [option for option in parameters(function, *shown) if seen[option] < 2]
        seen.update(options)
        if options:
            yield name, options


CASES = dict(tried())
EACH = pytest.mark.parametrize("name", CASES, ids=[f"fault_60_{name}" for name in CASES])


def outcome(function, given):
    """The error of a call, or None."""
    try:
        function(**given)
    except Exception as error:  # whatever it is, the test looks at it
        return error
    finally:
        plt.close("all")
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@EACH
def test_an_odd_value_of_an_option_works_or_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    function, right, *_ = known_calls()[name]
    for option in CASES[name]:
        by_sklearn = option in ("X", "y") and name.startswith("Recalibrat")
        allowed = (FieldcalError, ValueError, TypeError) if by_sklearn else FieldcalError
        for kind, value in ODD.items():
            error = outcome(function, {**right, option: value})
            assert error is None or isinstance(error, allowed), (
                f"{option}={kind}: {type(error).__name__}: {error}"
            )


#: Options that name a group or a class are refused as keys; these go with predictions of another kind.
OTHERWISE = {
    "learn_intervals",
    "learn_atoms",
    "sql_decide_weights",
    "sql_recalibrate_weights",
    "plots_bins_group",
    "plots_distribution_group",
}


@pytest.mark.filterwarnings("ignore")
@EACH
def test_what_no_option_could_be_is_refused_by_the_name_of_the_option(name):
    function, right, *_ = known_calls()[name]
    for option in CASES[name]:
        if f"{name}_{option}" in OTHERWISE or option in right or option in ("of", "group", "name"):
            continue
        error = outcome(function, {**right, option: object()})
        if option == "groups" and error is None and name.startswith("RecalibratedRegressor_"):
            continue  # before `adapt` there is nothing that groups could choose from
        assert option in str(error), option


def test_fault_62_a_lab_and_a_field_in_each_others_place_are_told_apart_everywhere():
    data, lab, field, prev = world()
    wrong = [
        (lambda: fieldcal.check(field, lab), "takes a Lab and a Field, in this order"),
        (lambda: tables.count(prev, in_tables()[1]), r"takes a Lab and a table.*tables\.count\(lab, frame\)"),
        (
            lambda: tables.read_labelled(lab, in_tables()[1]),
            r"takes a Prevalence and a table.*read_labelled\(prev, frame\)",
        ),
        (lambda: plots.forest(lab), "prev must be a Prevalence, but got Lab"),
        (lambda: plots.response(prev), "lab must be a Lab, but got Prevalence"),
        (lambda: fieldcal.report(lab), "report takes a Prevalence"),
        (
            lambda: fieldcal.learn(data.y_lab.astype(str), data.proba_lab),
            "predictions first and then the labels",
        ),
    ]
    for call, words in wrong:
        with pytest.raises(FieldcalError, match=words):
            call()


def test_fault_59_numbers_beyond_reason_are_refused_before_memory_is_asked_for():
    data, *_ = world()
    predicted, y = numbers()
    for call, words in (
        (
            lambda: fieldcal.learn(predicted, y, intervals=10**9),
            "intervals must be two at least and 200 rows at most",
        ),
        (
            lambda: metrics.calibration_error(data.proba_field, data.y_field, bins=10**9),
            "bins must be at most",
        ),
        (lambda: datasets.label_shift(n_field=10**9), "n_field must be at most"),
        (lambda: predicted.sample(10**9), "size must be at most"),
        (lambda: fieldcal.Quantiles(10**9), "n"),
    ):
        with pytest.raises(FieldcalError, match=words):
            call()
