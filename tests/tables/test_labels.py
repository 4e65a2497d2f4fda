"""Labels of some rows of a table: counted in every engine as arrays count them, to the last bit."""

from __future__ import annotations

import datetime as dt
import functools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalError, InputError
from fieldcal.objects import Classes, Lab
from tables import truth
from tables.engines import IN_MEMORY, Engine

DAYS = [dt.date(2024, 2, 28 + i) for i in range(2)]
NOONS = [dt.datetime(day.year, day.month, day.day, 12) for day in DAYS]
KNOWN = 0.3


@functools.cache
def lab_of(classes=(0, 1)):
    """A lab of two or more classes with these names."""
    lab = truth.binary_lab() if len(classes) == 2 else truth.wide_lab(len(classes))
    return Lab.from_json(lab.model_copy(update={"outcome": Classes(labels=classes)}).to_json())


@functools.cache
def rows_of(n_classes=2, n=240, missing=False):
    """Predictions, two columns of groups, days, and the place of the class where it is known."""
    rng = np.random.default_rng(n_classes)
    proba = rng.dirichlet(np.full(n_classes, 0.7), n)
    if missing:
        proba[rng.random(n) < 0.1, -1] = np.nan
        proba[100:110, -1] = np.nan
    towns = np.array(["York", "Leeds", "", None, "Hull"], dtype=object)
    town = rng.choice(towns, n)
    town[100:110] = "Whitby"  # a group that may lose all its rows
    names = ("p",) if n_classes == 2 else truth.NAMES[:n_classes]
    known = rng.random(n) < KNOWN
    known[105] = True
    known &= town != "Hull"  # a group without a label
    return pa.table(
        {
            **{c: x.copy() for c, x in zip(names, proba.T[-len(names) :], strict=True)},
            "town": pa.array(town, pa.string()),
            "year": pa.array([int(y) or None for y in rng.choice([0, 2019, 2020], n)], pa.int32()),
            "at": pa.array(rng.choice(np.array([*NOONS, None], dtype=object), n), pa.timestamp("us")),
            "place": pa.array(
                [
                    int(k) if seen else None
                    for k, seen in zip(rng.integers(0, n_classes, n), known, strict=True)
                ]
            ),
        }
    )


def labelled(rows, values, kind):
    """The rows with a column ``y`` of the classes, by their places."""
    column = [None if k is None else values[k] for k in rows["place"].to_pylist()]
    return rows.append_column("y", pa.array(column, kind) if isinstance(kind, pa.DataType) else kind(column))


def same_as_arrays(engine, lab, rows, by=(), y=None, **options):
    y = rows["y"].to_pylist() if y is None else y
    field = tables.count(lab, engine.make(rows), by=by, label="y", **options)
    truth.assert_same_counts(field, truth.count(lab, rows, by, y=y, **options))
    return field


#: Names of the classes in the lab, in the table, and the table's type.
KINDS = {
    "int": ((0, 1), (0, 1), pa.int32()),
    "float": ((0, 1), (0.0, 1.0), pa.float64()),
    "single": ((0, 1), (0.0, 1.0), pa.float32()),
    "text": (("no", "yes"), ("no", "yes"), pa.string()),
    "categories": (("no", "yes"), ("no", "yes"), lambda v: pa.array(v, pa.string()).dictionary_encode()),
    "bool": ((False, True), (False, True), pa.bool_()),
    "bool-for-int": ((0, 1), (False, True), pa.bool_()),
    "four": (("a", "b", "c", "d"), ("a", "b", "c", "d"), pa.string()),
    "four-int": ((1, 2, 3, 4), (1, 2, 3, 4), pa.int64()),
}


@pytest.mark.conformance
def test_labels_of_every_kind_are_counted_as_arrays_count_them(engine):
    for kind in ("float", "bool", "four") if engine.name == "spark" else KINDS:
        classes, values, type_of = KINDS[kind]
        rows = labelled(rows_of(len(classes)), values, type_of)
        field = same_as_arrays(engine, lab_of(classes), rows, ["town"])
        assert field.n_labelled == sum(v is not None for v in rows["y"].to_pylist())


def test_labels_are_counted_with_any_groups_and_design_and_alone(local_engine):
    for by in ((), ("town", "year")):
        for only in (False, True):
            rows = labelled(rows_of(), (0, 1), pa.int64())
            field = same_as_arrays(local_engine, lab_of(), rows, by, design="by_score", only_labels=only)
            assert set(field.labelled) == {"by_score"}


def test_rows_without_a_prediction_lose_their_label(local_engine):
    for n_classes in (2, 4):
        for only in (False, True):
            classes = tuple(range(n_classes))
            rows = labelled(rows_of(n_classes, missing=True), classes, pa.int64())
            field = same_as_arrays(
                local_engine, lab_of(classes), rows, ["town"], missing="drop", only_labels=only
            )
            assert 0 < field.n_labelled < sum(v is not None for v in rows["y"].to_pylist())
            assert ("Whitby" in field.groups) != only


def test_labels_may_be_absent_or_dates_or_times(local_engine):
    for kind in (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.null()):
        rows = pa.table({"p": [0.1, 0.4, 0.6], "town": ["a", "b", "b"], "y": pa.array([None] * 3, kind)})
        field = same_as_arrays(local_engine, lab_of(), rows, ["town"])
        assert field.to_json() == tables.count(lab_of(), local_engine.make(rows), by="town").to_json()
    for kind in ("date", "timestamp"):
        classes, type_of = (NOONS, pa.timestamp("us")) if kind == "timestamp" else (DAYS, pa.date32())
        same_as_arrays(local_engine, lab_of(tuple(classes)), labelled(rows_of(), classes, type_of), ["town"])


def test_pandas_may_hold_labels_with_gaps_as_objects():
    for classes in ((0, 1), (False, True), ("no", "yes"), tuple(DAYS)):
        y = [classes[1], None, classes[0], np.nan, classes[1]]
        frame = pd.DataFrame({"p": [0.1, 0.4, 0.6, 0.8, 0.9], "y": pd.Series(y, dtype=object)})
        field = tables.count(lab_of(classes), frame, label="y")
        assert field.to_json() == fieldcal.count(lab_of(classes), frame["p"], y=y).to_json()


def test_the_labels_of_a_window_are_in_its_batch(local_engine):
    for only_labels in (False, True):
        rows = labelled(rows_of(), (0, 1), pa.int64())
        field = tables.count(
            lab_of(),
            local_engine.make(rows),
            by="town",
            time="at",
            every="1d",
            label="y",
            only_labels=only_labels,
        )
        parts = []
        for noon in (None, *NOONS):
            part = rows.filter(pa.array([t == noon for t in rows["at"].to_pylist()]))
            counted = truth.count(lab_of(), part, ["town"], y=part["y"].to_pylist(), only_labels=only_labels)
            parts.append(counted if noon is None else counted.named(noon.date().isoformat()))
        assert field.to_json() == sum(parts).over("1d").to_json()
        last = DAYS[-1].isoformat()
        assert field.retract(last).to_json() == sum(parts[:-1]).over("1d").to_json()


def test_numbers_are_labels_of_quantiles(local_engine):
    rng = np.random.default_rng(0)
    center = rng.normal(size=600)
    quantiles = {f"q_{q}": center + z for q, z in ((10, -1.28), (50, 0.0), (90, 1.28))}
    y = center + rng.normal(size=600)
    lab = tables.learn(pl.DataFrame({**quantiles, "y": y}), quantiles="q_*", label="y", intervals=4)
    known = [v if i % 5 == 0 else None for i, v in enumerate(y.tolist())]
    rows = pa.table({**quantiles, "y": known, "town": ["a", "b", None] * 200})
    field = tables.count(lab, local_engine.make(rows), by="town", label="y", design="by_class")
    predictions = fieldcal.regression.from_quantiles(
        np.column_stack(list(quantiles.values())), [0.1, 0.5, 0.9]
    )
    expected = fieldcal.count(lab, predictions, groups=["a", "b", None] * 200, y=known, design="by_class")
    assert field.n_labelled == 120
    assert field.to_json() == expected.model_copy(update={"by": ("town",)}).to_json()


def test_labels_that_are_no_class_are_refused_with_value_and_number(local_engine):
    rows = pa.table({"p": [0.1, 0.4, 0.6, 0.8], "town": list("aabb"), "y": pa.array([7, None, 1, 7])})
    with pytest.raises(InputError, match=r"label 7 in 2 rows is not among the classes \[0, 1\]"):
        tables.count(lab_of(), local_engine.make(rows), by="town", label="y")
    for y, words in (
        (["1", None], r"label '1' in 1 row is not among the classes \[0, 1\]"),
        ([0.5, None], r"label 0\.5 in 1 row is not among"),
        ([math.inf, None], r"label inf in 1 row is not among"),
    ):
        with pytest.raises(InputError, match=words):
            tables.count(lab_of(), local_engine.make(p=[0.1, 0.4], y=y), label="y")


def test_columns_and_options_that_can_hold_no_label_are_refused():
    for name in IN_MEMORY:
        frame = Engine(name).make(p=[0.1, 0.4], y=[[1], None])
        with pytest.raises(FieldcalError, match="label"):
            tables.count(lab_of(), frame, label="y")
    for options in (
        {"design": "by_score"},
        {"only_labels": True},
        {"label": "y", "design": "x"},
        {"label": "z"},
    ):
        with pytest.raises(FieldcalError, match=r"label|design"):
            tables.count(lab_of(), pl.DataFrame({"p": [0.1], "y": [1]}), **options)
