"""Faults 53, 59, 60 and 62: options and arguments that cannot be, each refused by name before any work.

An option is tried in the first function that has it: functions share the checks of their options. Each call either
succeeds or raises a `FieldcalError`; what no option could be is refused by the option's name.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import fieldcal
from fieldcal import Field, Lab, Prevalence, datasets, metrics, plots, regression, tables
from fieldcal.errors import FieldcalError
from fieldcal.regression import Predictions

pytestmark = pytest.mark.filterwarnings("ignore")
ODD = {"none": None, "text": "x", "negative": -1, "nan": float("nan"), "beyond_floats": 10**400}
ODD |= {"ragged": [[1], [2, 3]], "object": object()}


@pytest.fixture(scope="module")
def w():
    with warnings.catch_warnings(action="ignore"):
        data = datasets.label_shift(n_lab=200, n_field=100, n_groups=3, random_state=0)
        lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
        field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
        lab_rows = pa.table({"p": data.proba_lab, "g": data.groups_lab, "y": data.y_lab})
        rows = pa.table({"p": data.proba_field, "g": data.groups_field, "y": data.y_field})
        table_lab = tables.learn(lab_rows, label="y", scores="p", by="g")
        table_prev = fieldcal.estimate(table_lab, tables.count(table_lab, rows))
        rng = np.random.default_rng(0)
        y = rng.normal(size=200)
        predicted = regression.from_moments((y + 0.7 * rng.normal(size=200)) / 1.49, np.full(200, 0.57))
        said = np.where(data.proba_lab > 0.5, "pass", "fail")
        value_lab = fieldcal.learn(said, data.y_lab, kind="values", design="random")
        with_labels = fieldcal.count(lab, data.proba_field, y=data.y_field)
        by_labels, prev = fieldcal.estimate(lab, with_labels), fieldcal.estimate(lab, field)
        X = np.column_stack([data.proba_lab, np.sin(9 * data.proba_lab)])
        return SimpleNamespace(**{name: value for name, value in locals().items() if name != "rng"})


def with_classifier(w, **options):
    model = fieldcal.RecalibratedClassifier(LogisticRegression(), **options)
    return model.fit(w.X, w.data.y_lab).adapt(w.X[:50])


def with_regressor(w, **options):
    model = fieldcal.RecalibratedRegressor(LinearRegression(), **options)
    return model.fit(w.X, w.y).adapt(w.X[:50]).predict(w.X[:2])


#: Each function with arguments that are right; of an estimator, what makes and uses it.
CALLS = {
    fieldcal.learn: lambda w: {"predictions": w.data.proba_lab, "y": w.data.y_lab},
    fieldcal.count: lambda w: {"lab": w.lab, "predictions": w.data.proba_field, "y": w.data.y_field},
    fieldcal.estimate: lambda w: {"lab": w.lab, "field": w.field},
    fieldcal.check: lambda w: {"lab": w.lab, "field": w.field},
    fieldcal.recalibrate: lambda w: {"prev": w.by_labels, "predictions": w.data.proba_field},
    fieldcal.decide: lambda w: {"prev": w.by_labels, "predictions": w.data.proba_field},
    fieldcal.change_prevalence: lambda w: {"predictions": w.data.proba_field, "old": 0.5, "new": 0.1},
    fieldcal.plan: lambda w: {"lab": w.lab, "n": 100},
    fieldcal.cross_validate: lambda w: {"prev": w.by_labels},
    fieldcal.rows_to_label: lambda w: {"prev": w.by_labels, "predictions": w.data.proba_field, "n": 5},
    fieldcal.report: lambda w: {"prev": w.prev, "proba": w.data.proba_field, "y": w.data.y_field},
    fieldcal.pairs: lambda w: {
        "lab": w.value_lab,
        "predictions": w.said,
        "y": w.data.y_lab,
        "groups": ["a", "b"] * 100,
        "items": [i // 2 for i in range(200)],
    },
    Lab.from_rates: lambda w: {"sensitivity": 0.9, "specificity": 0.8, "n": (50, 60)},
    datasets.label_shift: lambda w: {"n_lab": 20, "n_field": 10},
    metrics.calibration_error: lambda w: {"proba": w.data.proba_field, "y": w.data.y_field},
    metrics.absolute_error: lambda w: {"estimate": [0.1, 0.9], "truth": [0.2, 0.8]},
    tables.learn: lambda w: {"frame": w.lab_rows, "label": "y", "scores": "p"},
    tables.count: lambda w: {"lab": w.table_lab, "frame": w.rows},
    tables.recalibrate: lambda w: {"prev": w.table_prev, "frame": w.rows},
    tables.rows_to_label: lambda w: {"prev": w.table_prev, "frame": w.rows, "n": 5, "label": "new"},
    tables.sql_count: lambda w: {"lab": w.table_lab, "table": "t", "dialect": "duckdb"},
    tables.sql_recalibrate: lambda w: {"prev": w.table_prev, "table": "t", "dialect": "duckdb"},
    regression.from_cdf: lambda w: {"values": [[0, 0.5, 1.0]], "grid": [0.0, 1.0, 2.0]},
    regression.from_moments: lambda w: {"mean": [0.0, 1.0], "sd": [1.0, 1.0]},
    regression.from_quantiles: lambda w: {"values": [[0.0, 1.0, 2.0]], "levels": [0.1, 0.5, 0.9]},
    regression.from_samples: lambda w: {"samples": [[0.0, 1.0, 2.0]]},
    Predictions.cdf: lambda w: {"self": w.predicted, "x": [0.0]},
    Predictions.ppf: lambda w: {"self": w.predicted, "u": [0.5]},
    Predictions.interval: lambda w: {"self": w.predicted, "coverage": 0.9},
    Predictions.sample: lambda w: {"self": w.predicted, "size": 3},
    fieldcal.priors.KL: lambda w: {},
    fieldcal.priors.Continuity: lambda w: {},
    fieldcal.partitions.Edges: lambda w: {"edges": [0.5]},
    fieldcal.partitions.Simplex: lambda w: {"cells": 3},
    fieldcal.RecalibratedClassifier: lambda w: with_classifier,
    fieldcal.RecalibratedRegressor: lambda w: with_regressor,
    Field.add: lambda w: {"self": w.field, "batch": w.field, "id": "x"},
    Field.only: lambda w: {"self": w.field.named("2024-01-01"), "ids": ["2024-01-01"]},
    Field.window: lambda w: {"self": w.field.named("2024-01-01")},
    Prevalence.contrast: lambda w: {"self": w.prev, "a": 0, "b": 1},
    Prevalence.compare: lambda w: {"self": w.prev, "reference": 0},
    Prevalence.poststratify: lambda w: {"self": w.prev, "totals": [1, 1, 1]},
    Prevalence.to_frame: lambda w: {"self": w.prev},
    Lab.from_json: lambda w: {"data": w.lab.to_json()},
}


def tried():
    """Each function with the options that none before it has."""
    seen = {"self", "estimator"}
    for function in CALLS:
        plain = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found = [p.name for p in inspect.signature(function).parameters.values() if p.kind in plain]
        if options := [name for name in found if name not in seen]:
            yield pytest.param(function, options, id=f"fault_60_{function.__qualname__}")
        seen.update(options)


#: These name a group or a class, and are refused as such; or they go with predictions of another kind.
OTHERWISE = {"of", "group", "name", "intervals", "atoms", "weights"}


@pytest.mark.parametrize(("function", "options"), [*tried()])
def test_an_odd_value_of_an_option_works_or_is_refused_by_the_name_of_the_option(w, function, options):
    right = CALLS[function](w)
    if callable(right):
        function, right = functools.partial(right, w), {}
    for option in options:
        for value in ODD.values():  # the last is an object()
            error = None
            try:
                function(**{**right, option: value})
            except FieldcalError as refused:
                error = refused
        if option not in right and option not in OTHERWISE:
            assert option in str(error), option


NAN = float("nan")
REFUSED = {
    fieldcal.learn: {
        "classes": [5, "ab"],
        "ordered": ["x"],
        "normalize": ["x"],
        "random_state": [-1, "x"],
        "groups": [5],
        "smoothing": ["x", -1, NAN],
        "partition": ["x", 0, None, True, 10**9],
    },
    fieldcal.count: {"missing": [1, "keep", None, True], "normalize": ["x"], "batch": [3], "groups": [5]},
    fieldcal.estimate: {
        "level": ["x", True, 0, 1, 90, NAN],
        "random_state": [-1, 1.5],
        "max_iter": ["x", 0],
        "point": [3, "median"],
        "protected": ["x"],
        "design_effect": [0.5],
        "prior": [3, "uniform", None],
        "trust": ["x", True, 1.5, -0.1, NAN],
    },
    fieldcal.plan: {"level": ["x"], "n": ["x"], "prevalence": ["x"], "assume": ["x"]},
    fieldcal.recalibrate: {"unseen": [3], "missing": [3]},
}


@pytest.mark.parametrize("verb", REFUSED, ids=lambda verb: verb.__name__)
def test_fault_60_an_option_that_cannot_be_is_refused_by_its_name(w, verb):
    for name, values in REFUSED[verb].items():
        for value in values:
            with pytest.raises(FieldcalError, match=f"{name}|at least 1") as refused:
                verb(**CALLS[verb](w) | {name: value})
            assert isinstance(refused.value, (ValueError, TypeError))


def test_fault_59_62_arguments_of_another_verb_are_told_the_right_call_and_numbers_beyond_reason_refused(w):
    proba, y, lab, field, prev = w.data.proba_lab, w.data.y_lab, w.lab, w.field, w.prev
    for call, words in (
        (lambda: fieldcal.count(proba, lab), r"fieldcal\.count\(lab, predictions\)"),
        (lambda: fieldcal.estimate(field, lab), "a Lab and a Field, in this order, but got Field and Lab"),
        (lambda: fieldcal.check(field, lab), "takes a Lab and a Field, in this order"),
        (
            lambda: fieldcal.recalibrate(proba, prev),
            r"a Prevalence and predictions, in this order.*\(prev, pred",
        ),
        (lambda: fieldcal.plan(field, n=10), "plan takes a Lab or a Prevalence, but got Field"),
        (lambda: fieldcal.plan(lab), r"Say how many rows it will have: fieldcal\.plan\(lab, n=1000\)"),
        (lambda: fieldcal.estimate(lab, proba), r"A Field comes from fieldcal\.count\(lab, pred"),
        (lambda: fieldcal.recalibrate(lab, proba), r"A Prevalence comes from fieldcal\.estimate"),
        (lambda: fieldcal.decide(proba, prev), r"Write fieldcal\.decide\(prev, predictions\)"),
        (lambda: fieldcal.count(lab, field), r"a Lab and predictions, in this order, but got Lab and Field"),
        (lambda: fieldcal.learn(lab, y), r"Write fieldcal\.learn\(predictions, y\)"),
        (lambda: fieldcal.learn(y, proba), "predictions first and then the labels"),
        (lambda: fieldcal.learn(y.astype(str), proba), "predictions first and then the labels"),
        (lambda: fieldcal.learn(proba, "y"), r"name of a column.*tables\.learn\(…, label='y'\)"),
        (lambda: fieldcal.rows_to_label(proba, prev, 3), r"rows_to_label\(prev, predictions, n\)"),
        (lambda: fieldcal.change_prevalence(prev, old=0.5, new=0.1), "takes predictions, but got Prevalence"),
        (lambda: fieldcal.cross_validate(lab), r"must be a Prevalence, but got Lab.*fieldcal\.estimate"),
        (lambda: lab + field, r"A Lab and a Field cannot be added.*lab\.extended\(field\)"),
        (lambda: field + lab, "A Field and a Lab cannot be added"),
        (lambda: tables.count(prev, w.rows), r"takes a Lab and a table.*tables\.count\(lab, frame\)"),
        (
            lambda: tables.read_labelled(lab, w.rows),
            r"a Prevalence and a table.*read_labelled\(prev, frame\)",
        ),
        (lambda: plots.forest(lab), "prev must be a Prevalence, but got Lab"),
        (lambda: fieldcal.report(lab), "report takes a Prevalence"),
        (lambda: prev.poststratify("x"), "totals must be numbers"),
    ):
        with pytest.raises(FieldcalError, match=words):
            call()
    for call, words in (
        (
            lambda: fieldcal.learn(w.predicted, w.y, intervals=10**9),
            "intervals must be two at least and 200 rows at",
        ),
        (
            lambda: metrics.calibration_error(w.data.proba_field, w.data.y_field, bins=10**9),
            "bins must be at most",
        ),
        (lambda: datasets.label_shift(n_field=10**9), "n_field must be at most"),
        (lambda: w.predicted.sample(10**9), "size must be at most"),
        (lambda: fieldcal.partitions.Quantiles(10**9), "n"),
    ):
        with pytest.raises(FieldcalError, match=words):
            call()
