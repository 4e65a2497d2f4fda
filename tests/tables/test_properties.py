"""The same random table through every engine gives one and the same Field, and the same new probabilities."""

from __future__ import annotations

import functools
import math
import warnings

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalError, FieldcalWarning
from tables import truth
from tables.engines import IN_MEMORY, Engine

QUIET = [HealthCheck.too_slow]
relaxed = settings(deadline=None, derandomize=True, max_examples=15, suppress_health_check=QUIET)
KEYS = {
    "text": (
        st.sampled_from(["", " ", "a", "A", "a|b", "b", "é", "0", "null", "\U0001f600", "'", None]),
        pa.string(),
    ),
    "whole": (st.sampled_from([0, 1, -1, 2**53 + 1, -(2**63), 2**63 - 1, None]), pa.int64()),
    "any-text": (
        st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3),
        pa.string(),
    ),
    "truth": (st.sampled_from([True, False, None]), pa.bool_()),
}
WORDS = ("g", "count", "group by", "fieldcal_rows")


@functools.cache
def lab_of(n_classes, partition):
    few = max(2, n_classes)
    made = {
        "auto": "auto",
        "cells": fieldcal.partitions.Simplex(9),
        "argmax": fieldcal.partitions.Simplex(few),
        "few": few,
    }[partition]
    return truth.binary_lab(made) if n_classes == 1 else truth.wide_lab(n_classes, made)


def edges_of(lab):
    """Every number that a score is compared with."""
    p = lab.partition
    if p.kind == "simplex":
        return [t for tree in p.trees for f, t in zip(tree.feature, tree.threshold, strict=True) if f >= 0]
    return list(p.edges)


@st.composite
def random_tables(draw):
    """A lab, a table for it, and its group columns."""
    n_classes = draw(st.integers(1, 4))  # one: the second of two classes alone
    lab = lab_of(n_classes, draw(st.sampled_from(["auto", "cells", "argmax", "few"])))
    n = draw(st.integers(0, 14))
    rows = draw(st.lists(_scores(n_classes, edges_of(lab)), min_size=n, max_size=n))
    columns = {
        name: pa.array([row[k] for row in rows], pa.float64()) for k, name in enumerate(lab.columns.scores)
    }
    by = WORDS[: draw(st.integers(0, 2))]
    for name in by:
        values, kind = KEYS[draw(st.sampled_from(sorted(KEYS)))]
        columns[name] = pa.array(draw(st.lists(values, min_size=n, max_size=n)), kind)
    return lab, pa.table(columns), list(by)


def _scores(n_classes, edges):
    """The scores of one row: some at the edges, some missing, some rounded beyond 0 and 1."""
    near = [x for e in edges for x in (float(e), math.nextafter(e, 0), math.nextafter(e, 1))]
    special = st.sampled_from([0.0, 1.0, 0.5, 1 + 1e-9, -1e-9, 5e-324, *near])
    score = special | st.floats(0, 1)
    if n_classes == 1:
        return st.tuples(score | st.sampled_from([None, math.nan]))
    weights = st.lists(st.integers(0, 1000), min_size=n_classes, max_size=n_classes).filter(any)
    proper = weights.map(lambda w: [x / sum(w) for x in w])
    first = score.map(lambda s: [s, *[(1 - s) / (n_classes - 1)] * (n_classes - 1)])
    gap = st.tuples(proper, st.integers(0, n_classes - 1), st.sampled_from([None, math.nan]))
    return proper | first | gap.map(lambda g: [g[2] if k == g[1] else x for k, x in enumerate(g[0])])


def answer(call):
    """What a call gives, or the kind of error it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FieldcalWarning)
            return call()
    except FieldcalError as error:
        return type(error)


@pytest.mark.slow
@relaxed
@given(random_tables(), st.sampled_from(truth.TRUSTS) | st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_one_table_gives_one_field_and_one_answer_in_every_engine(case, trusts):
    lab, table, by = case
    expected = answer(lambda: truth.count(lab, table, by, missing="drop").to_json())
    has_rows = not isinstance(expected, type) and truth.count(lab, table, by, missing="drop").n.sum() > 0
    prev = truth.trusted(_estimate(lab, table, by), *trusts) if has_rows else None
    for name in IN_MEMORY:
        engine = Engine(name)
        frame = engine.make(table)
        found = answer(lambda frame=frame: tables.count(lab, frame, by=by, missing="drop").to_json())
        assert found == expected, name
        if prev is not None:
            new = engine.read(tables.recalibrate(prev, frame, missing="keep"))
            names = [f"{c}_recalibrated" for c in lab.columns.scores]
            truth.assert_same_values(new, names, truth.recalibrate(prev, table, missing="keep"))


def _estimate(lab, table, by):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldcalWarning)
        return truth.estimate(lab, table, by, missing="drop")
