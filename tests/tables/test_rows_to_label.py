"""Rows of a table to label: the same as of arrays, in every engine, and what is filled in goes back."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import InputError
from tables.engines import Engine

TOWNS = ("York", "Leeds", None)


@functools.cache
def world(grouped, n_classes=2):
    """A table of field rows with different predictions, its classes, and the estimate of it."""
    p_lab = np.full(n_classes, 1 / n_classes)
    data = fieldcal.datasets.label_shift(n_lab=1500, n_field=900, n_groups=3, p_lab=p_lab, random_state=1)
    scores = ["p"] if n_classes == 2 else [f"p_{k}" for k in range(n_classes)]

    def columns(proba, y, groups):
        town = pa.array([TOWNS[g % 3] for g in groups], pa.string())
        parts = proba.reshape(len(proba), -1).T
        return pa.table(
            {"id": np.arange(len(y)), **dict(zip(scores, parts, strict=True)), "town": town, "y": y}
        )

    lab = tables.learn(columns(data.proba_lab, data.y_lab, data.groups_lab), scores=scores, label="y")
    field = columns(data.proba_field, data.y_field, data.groups_field)
    prev = fieldcal.estimate(lab, tables.count(lab, field, by="town" if grouped else []))
    return field, prev


def arrays(field, prev):
    names = prev.lab.columns.scores
    proba = np.column_stack([field[c] for c in names])
    groups = field["town"].to_pylist() if prev.field.grouped else None
    return (proba[:, 0] if len(names) == 1 else proba), groups


def as_columns(answer):
    if isinstance(answer, pd.DataFrame):
        return {name: [None if pd.isna(v) else v for v in column] for name, column in answer.items()}
    return answer.to_pydict() if isinstance(answer, pa.Table) else answer.to_dict(as_series=False)


@pytest.mark.conformance
def test_every_engine_chooses_the_rows_that_arrays_choose(engine):
    for grouped, n_classes in ((False, 2), (True, 3)):
        field, prev = world(grouped, n_classes)
        found = as_columns(tables.rows_to_label(prev, engine.make(field.drop_columns("y")), 60))
        proba, groups = arrays(field, prev)
        assert sorted(found["id"]) == fieldcal.rows_to_label(prev, proba, 60, groups=groups).tolist()
        assert list(found) == [*field.drop_columns("y").column_names, "y", "fieldcal_design"]
        assert set(found["y"]) == {None}
        assert set(found["fieldcal_design"]) == {"by_score"}
    some = [y if i % 2 else None for i, y in enumerate(field["y"].to_pylist())]
    at = field.column_names.index("y")
    table = engine.make(field.set_column(at, "y", pa.array(some, pa.int64())))
    found = as_columns(tables.rows_to_label(prev, table, 300))
    assert len(found["id"]) == 300
    assert not any(i % 2 for i in found["id"]), "rows with a label are not chosen again"
    with pytest.raises(InputError, match=r"n is 451, but there are 450 rows"):
        tables.rows_to_label(prev, table, 451)


def test_equal_predictions_are_told_apart_by_the_rest_of_the_row():
    for name in ("polars-lazy", "duckdb"):
        field, prev = world(grouped=False)
        rounded = field.set_column(1, "p", pa.array(np.round(field["p"].to_numpy(), 1)))
        frames = [Engine(name).make(rows) for rows in (rounded, rounded, rounded.take(np.arange(900)[::-1]))]
        found = [as_columns(tables.rows_to_label(prev, frame, 40, label="none"))["id"] for frame in frames]
        assert len(set(found[0])) == 40
        assert found[0] == found[1] == found[2]


def test_scores_that_are_none_are_refused_or_left_out():
    for name in ("pandas", "polars-lazy", "duckdb"):
        field, prev = world(grouped=False)
        p = field["p"].to_pylist()
        gaps = field.set_column(1, "p", pa.array([None, *p[1:]])).drop_columns("y")
        with pytest.raises(InputError, match=r"no score|missing"):
            tables.rows_to_label(prev, Engine(name).make(gaps), 10)
        everything = tables.rows_to_label(prev, Engine(name).make(gaps), 899, missing="drop")
        assert sorted(as_columns(everything)["id"]) == list(range(1, 900))
        outside = field.set_column(1, "p", pa.array([70.0, *p[1:]])).drop_columns("y")
        with pytest.raises(InputError, match="probabilities"):
            tables.rows_to_label(prev, Engine(name).make(outside), 10)


def test_what_is_filled_in_narrows_the_estimate_and_is_not_chosen_again():
    field, prev = world(grouped=True)
    rows = tables.rows_to_label(prev, field.drop_columns("y"), 100)
    y = pa.array(field["y"].to_numpy()[rows["id"].to_numpy()])
    filled = rows.set_column(rows.column_names.index("y"), "y", y)
    more = tables.count(prev.lab, filled, by="town", label="y", design="by_score", only_labels=True)
    later = fieldcal.estimate(prev.lab, prev.field + more)
    assert later.field.n_labelled == 100
    assert (later.whole.upper - later.whole.lower)[1] < (prev.whole.upper - prev.whole.lower)[1]
    field, prev = world(grouped=False)
    rows = tables.rows_to_label(prev, field.drop_columns("y"), 10)
    with pytest.raises(InputError, match="already has a column 'fieldcal_design'"):
        tables.rows_to_label(prev, rows, 5)
