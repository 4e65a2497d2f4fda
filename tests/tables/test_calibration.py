"""Tables of every engine read predictions as a calibrated lab on arrays does."""

from __future__ import annotations

import functools

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from tables import truth


def over_confident(proba):
    columns = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    squares = columns**2
    squares = squares / squares.sum(axis=1, keepdims=True)
    return squares[:, 1] if proba.ndim == 1 else squares


@functools.cache
def data(n_classes):
    p_lab, moved = ((0.5, 0.5), (0.8, 0.2)) if n_classes == 2 else ((0.5, 0.3, 0.2), (0.2, 0.2, 0.6))
    return fieldcal.datasets.label_shift(
        n_lab=1500, n_field=400, p_lab=p_lab, prevalence=[p_lab, moved], random_state=4
    )


def rows(proba, **others):
    columns = {"p": proba} if proba.ndim == 1 else {f"p_{k}": c for k, c in enumerate(proba.T)}
    return pa.table(columns | others)


@functools.cache
def learnt(method, n_classes):
    d = data(n_classes)
    scores = "p" if n_classes == 2 else "p_*"
    return tables.learn(
        rows(over_confident(d.proba_lab), y=d.y_lab), scores=scores, label="y", calibration=method
    )


@pytest.mark.conformance
def test_every_engine_counts_calibrated_predictions_to_the_last_bit(engine):
    for method, n_classes in (("sigmoid", 2), ("isotonic", 3), ("temperature", 3)):
        lab, d = learnt(method, n_classes), data(n_classes)
        proba = over_confident(d.proba_field)
        proba[:2] = [0.0, 1.0] if n_classes == 2 else [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        towns = np.array(["York", "Leeds"])[d.groups_field].tolist()
        table = rows(proba, town=towns)
        assert tables.count(lab, engine.make(table), by="town") == truth.count(lab, table, ["town"])


@pytest.mark.slow
@pytest.mark.conformance
def test_every_engine_recalibrates_calibrated_predictions(engine):
    for method, n_classes in (("isotonic", 2), ("sigmoid", 3)):
        lab, d = learnt(method, n_classes), data(n_classes)
        proba, towns = over_confident(d.proba_field), np.array(["York", "Leeds"])[d.groups_field].tolist()
        table = rows(proba, town=towns, row=list(range(len(towns))))
        prev = fieldcal.estimate(lab, truth.count(lab, table, ["town"]), trust=0.7)
        found = engine.read(tables.recalibrate(prev, engine.make(table), by="town"))
        new = np.array([found[n] for n in found if n.endswith("_recalibrated")]).T[np.argsort(found["row"])]
        expected = fieldcal.recalibrate(prev, proba, groups=towns)
        np.testing.assert_allclose(new.reshape(expected.shape), expected, rtol=0, atol=1e-12)


def test_every_engine_and_sql_read_the_smallest_predictions_alike(local_engine):
    values, hits = [0.0, 1e-200, 0.3, 0.7], [10, 40, 60, 160]  # of 200 rows each
    p = np.repeat(values, 200)
    y = np.concatenate([np.arange(200) < n for n in hits]).astype(int)
    lab = tables.learn(rows(p, y=y), scores="p", label="y", calibration="isotonic")
    field = np.array([0.0, 5e-324, 1e-200, 1e-100, 1e-12, 1e-9, 0.3, 0.5, 1.0])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, np.repeat(field, 60)), trust=1)
    expected = fieldcal.recalibrate(prev, field)
    assert expected[0] == expected[2]
    table = rows(field, row=list(range(len(field))))
    found = local_engine.read(tables.recalibrate(prev, local_engine.make(table)))
    new = np.array(found["p_recalibrated"])[np.argsort(found["row"])]
    np.testing.assert_allclose(new, expected, rtol=0, atol=1e-12)
    statement = tables.sql_recalibrate(prev, "given", dialect="duckdb")
    with duckdb.connect() as connection:
        connection.register("given", table)
        made = connection.sql(statement).fetchnumpy()
    np.testing.assert_allclose(made["p_recalibrated"], expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_decisions_and_rows_to_label_in_a_table_are_those_on_arrays(local_engine):
    lab, d = learnt("sigmoid", 3), data(3)
    proba = over_confident(d.proba_field)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba), trust=1)
    found = local_engine.read(tables.decide(prev, local_engine.make(rows(proba)), goal="balanced"))
    assert found["decision"] == fieldcal.decide(prev, proba, goal="balanced").tolist()
    lab, d = learnt("sigmoid", 2), data(2)
    proba = over_confident(d.proba_field)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba))
    chosen = tables.rows_to_label(prev, rows(proba, row=list(range(len(proba)))), 20)
    assert sorted(chosen["row"].to_pylist()) == fieldcal.rows_to_label(prev, proba, 20).tolist()
