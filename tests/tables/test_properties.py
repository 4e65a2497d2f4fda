"""The same random table through every engine gives one and the same Field, and the same new probabilities."""

from __future__ import annotations

import functools
import math
import warnings

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalError, FieldcalWarning
from tables import truth
from tables.engines import IN_MEMORY, Engine

relaxed = settings(
    deadline=None, derandomize=True, max_examples=15, suppress_health_check=[HealthCheck.too_slow]
)
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
    made = {"auto": "auto", "cells": fieldcal.Simplex(9), "argmax": fieldcal.Simplex(few), "few": few}[
        partition
    ]
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
    near = [
        f(e) for e in edges for f in (float, lambda e: math.nextafter(e, 0), lambda e: math.nextafter(e, 1))
    ]
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


@pytest.mark.slow
@settings(relaxed, max_examples=8)
@given(random_tables(), st.floats(0.1, 1.0))
def test_rescaled_rows_give_one_field_and_one_answer_in_every_engine(case, share):
    lab, table, by = case
    for k, name in enumerate(lab.columns.scores):
        table = table.set_column(
            k,
            name,
            pa.array([None if v is None else v * share for v in table[name].to_pylist()], pa.float64()),
        )
    options = {"missing": "drop", "normalize": True}
    expected = answer(lambda: truth.count(lab, table, by, **options).to_json())
    for name in ("pandas-pyarrow", "polars-lazy", "pyarrow", "duckdb"):
        frame = Engine(name).make(table)
        found = answer(lambda frame=frame: tables.count(lab, frame, by=by, **options).to_json())
        assert found == expected, name


def _estimate(lab, table, by):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldcalWarning)
        return truth.estimate(lab, table, by, missing="drop")


@pytest.mark.slow
@relaxed
@given(random_tables(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_shards_in_any_order_give_the_bytes_of_the_whole(case, random, n_shards):
    lab, table, by = case
    by = by or [WORDS[0]]  # an empty shard of one population is refused
    if by[0] not in table.column_names:
        table = table.append_column(by[0], pa.array(["x"] * len(table), pa.string()))
    whole = truth.count(lab, table, by, missing="drop")
    order = random.sample(range(len(table)), len(table))
    shards = [table.take(pa.array(order[i::n_shards], pa.int64())) for i in range(n_shards)]
    engines = [Engine(random.choice(IN_MEMORY)) for _ in shards]
    counted = [
        answer(lambda e=e, s=s: tables.count(lab, e.make(s), by=by, missing="drop"))
        for e, s in zip(engines, shards, strict=True)
    ]
    assert sum(counted[1:], start=counted[0]).to_json() == whole.to_json()


def test_random_tables_give_the_same_on_spark(spark):
    engine = Engine("spark", spark)
    for seed, n_classes in enumerate((1, 3)):
        rng = np.random.default_rng(seed)
        lab = lab_of(n_classes, "auto")
        proba = rng.dirichlet(np.full(max(n_classes, 2), 0.5), 200)[:, -n_classes:]
        proba[:20, 0] = np.where(rng.uniform(size=20) < 0.5, np.nan, proba[:20, 0])
        if n_classes == 1:
            proba[20:60, 0] = rng.choice(edges_of(lab), 40)
        columns = {
            c: pa.array(
                [None if np.isnan(v) and i % 2 else v for i, v in enumerate(proba[:, k])], pa.float64()
            )
            for k, c in enumerate(lab.columns.scores)
        }
        columns["group by"] = pa.array(
            rng.choice(np.array(["", "a|b", "é", None], dtype=object), 200), pa.string()
        )
        columns["count"] = pa.array(
            [None if v == 0 else int(v) for v in rng.integers(-2, 3, 200)], pa.int64()
        )
        table, by = pa.table(columns), ["group by", "count"]
        frame = engine.make(table)
        field = tables.count(lab, frame, by=by, missing="drop")
        truth.assert_same_counts(field, truth.count(lab, table, by, missing="drop"))
        prev = _estimate(lab, table, by)
        new = engine.read(tables.recalibrate(prev, frame, missing="keep"))
        names = [f"{c}_recalibrated" for c in lab.columns.scores]
        truth.assert_same_values(new, names, truth.recalibrate(prev, table, missing="keep"))
