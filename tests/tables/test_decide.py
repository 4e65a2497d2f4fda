"""decide on tables: what `fieldcal.decide` says of the same rows as arrays, as one more column of the table."""

from __future__ import annotations

import functools
import math
import warnings

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalWarning, InputError, InputTypeError, UnseenGroupWarning
from tables import truth
from tables.engines import IN_MEMORY, Engine, same_values

QUIET = [HealthCheck.too_slow]
relaxed = settings(deadline=None, derandomize=True, max_examples=25, suppress_health_check=QUIET)
CLASSES = {
    2: [(0, 1), ("no", "yes"), (False, True), (-(2**53) - 1, 2**62 + 1)],
    3: [(0, 1, 2), ("cat", "dog", "eel")],
}
COSTS = {
    2: ["accuracy", "balanced", [[0, 1], [20, 0]], [[-1.0, 2], [0.5, -3]], [[1, 1], [1, 1]]],
    3: ["accuracy", "balanced", [[0, 1, 5], [2, 0, 1], [9, 0.1, 0]], np.ones((3, 3)) - np.eye(3)],
}
TIES = {1: [0.5, 0.0, 1.0], 2: [[0.5, 0.5]], 3: [[0.4, 0.4, 0.2], [1 / 3] * 3, [0.2, 0.4, 0.4], [0, 0, 1]]}


@functools.cache
def lab_of(columns, names):
    lab = {1: truth.binary_lab, 2: functools.partial(truth.wide_lab, 2), 3: truth.wide_lab}[columns]()
    named = lab.model_copy(update={"outcome": lab.outcome.model_copy(update={"labels": names})})
    for remembered in ("classes", "digest"):
        vars(named).pop(remembered, None)
    return named


def scores_of(lab, n, seed):
    """Random predictions with ties among them, (n, columns)."""
    columns = len(lab.columns.scores)
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(size=(n, 1)) if columns == 1 else rng.dirichlet(np.ones(columns), n)
    ties = np.array(TIES[columns], dtype=float).reshape(-1, columns)
    pick = rng.uniform(size=n) < 0.3
    drawn[pick] = ties[rng.integers(len(ties), size=pick.sum())]
    return drawn


def table_of(lab, scores, **more):
    return pa.table({n: scores[:, i] for i, n in enumerate(lab.columns.scores)} | more)


def as_arrays(prev, table, **options):
    """The truth: what arrays say, row by row; None where a score is missing."""
    proba = truth.proba(table, prev.lab.columns.scores)
    there = ~np.isnan(proba if proba.ndim == 1 else proba.sum(axis=1))
    groups = truth.groups(table, prev.field.by)
    kept = None if groups is None else [g for g, here in zip(groups, there, strict=True) if here]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenGroupWarning)
        decided = iter(fieldcal.decide(prev, proba[there], groups=kept, **options).tolist())
    return [next(decided) if here else None for here in there]


def plain(values):
    """pandas says that text is missing by NaN."""
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


@st.composite
def cases(draw):
    columns = draw(st.sampled_from([1, 2, 3]))
    n_classes = max(columns, 2)
    lab = lab_of(columns, draw(st.sampled_from(CLASSES[n_classes])))
    by = draw(st.sampled_from([(), ("town",)]))
    counted = table_of(lab, scores_of(lab, 60, 1), town=["York", "Leeds", None] * 20)
    prev = truth.trusted(truth.estimate(lab, counted, by), *draw(st.sampled_from(truth.TRUSTS)))
    n = draw(st.integers(0, 30))
    towns = st.sampled_from(["York", "Leeds", None, "Hull"])
    town = pa.array(draw(st.lists(towns, min_size=n, max_size=n)), pa.string())
    table = table_of(lab, scores_of(lab, n, draw(st.integers(0, 5))), town=town)
    gaps = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    if n and draw(st.booleans()):
        name = lab.columns.scores[-1]
        held = [None if gap else v for v, gap in zip(table[name].to_pylist(), gaps, strict=True)]
        table = table.set_column(
            table.schema.get_field_index(name), name, pa.chunked_array([pa.array(held, pa.float64())])
        )
    options = {
        "goal": draw(st.sampled_from(COSTS[n_classes])),
        "unseen": draw(st.sampled_from(["global", "raw"])),
    }
    return prev, table, options


@pytest.mark.slow
@relaxed
@given(cases())
def test_every_engine_decides_what_arrays_decide_row_by_row(case):
    prev, table, options = case
    expected = as_arrays(prev, table, **options)
    for name in IN_MEMORY:
        engine = Engine(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenGroupWarning)
            new = engine.read(tables.decide(prev, engine.make(table), missing="keep", **options))
        assert plain(new["decision"]) == expected, name
        assert [type(v) for v in plain(new["decision"])] == [type(v) for v in expected], name


@functools.cache
def rows():
    lab = lab_of(1, ("no", "yes"))
    return table_of(lab, scores_of(lab, 60, 3), town=["York", "Leeds", None] * 20, note=["é"] * 60)


@functools.cache
def prevalence(*by, names=("no", "yes")):
    return truth.estimate(lab_of(1, names), rows(), by)


@pytest.mark.conformance
def test_spark_and_every_other_engine_keep_the_table_and_add_one_column(engine):
    for goal in ("accuracy", "balanced"):
        frame = engine.make(rows())
        before = engine.read(frame)
        after = engine.read(tables.decide(prevalence("town"), frame, goal=goal))
        assert after.pop("decision") == as_arrays(prevalence("town"), rows(), goal=goal)
        assert same_values(after, before)


def test_pandas_keeps_its_index_and_whole_numbers_with_gaps_stay_whole():
    frame = Engine("pandas").make(pa.table({"p": [0.1, None, 0.9]})).set_axis([7, 7, "x"])
    new = tables.decide(prevalence(names=(0, 1)), frame, missing="keep")
    assert (new.index.tolist(), str(new["decision"].dtype)) == ([7, 7, "x"], "Int64")
    whole = tables.decide(prevalence(names=(0, 1)), frame.iloc[[0, 2]])
    assert str(whole["decision"].dtype) == "int64"


def test_equal_gains_go_to_the_first_class_though_rounding_tells_them_apart():
    assert fieldcal.core.decision.largest(np.array([[0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3]])).tolist() == [0, 0]
    balanced_lab = truth.trusted(prevalence(), 1.0, 1.0)
    at = float(balanced_lab.lab.p_lab[1])  # balanced, the label shift cancels: a tie but for rounding
    for factor in (1 - 1e-16, 1, 1 + 1e-15):
        table = pa.table({"p": [at * factor]})
        for name in IN_MEMORY:
            engine = Engine(name)
            new = engine.read(tables.decide(balanced_lab, engine.make(table), goal="balanced"))
            assert new["decision"] == ["no"]


def test_what_cannot_be_decided_is_refused_or_stays_undecided():
    for options, words in (
        ({"goal": "best"}, "'accuracy', 'balanced' or a matrix"),
        ({"goal": [[0, 1, 2]]}, r"finite \(2, 2\) matrix"),
        ({"goal": [[0, math.inf], [1, 0]]}, "finite"),
        ({"name": "p"}, "already has"),
        ({"name": ""}, "cannot name a column"),
        ({"scores": "q"}, "no column 'q'"),
        ({"by": "p"}, "one population"),
    ):
        with pytest.raises((InputError, InputTypeError), match=words):
            tables.decide(prevalence(), pa.table({"p": [0.2]}), **options)
    frame = pa.table({"p": [0.2, None]})
    with pytest.raises(InputError, match="missing"):
        tables.decide(prevalence(), frame)
    assert tables.decide(prevalence(), frame, missing="keep")["decision"].to_pylist()[1] is None
    frame = pa.table({"p": [0.2], "town": ["Hull"]})
    with pytest.warns(UnseenGroupWarning, match="whole field") as caught:
        tables.decide(prevalence("town"), frame, acknowledge=True)
    assert caught[0].filename == __file__
    with pytest.raises(InputError, match="not in the field"):
        tables.decide(prevalence("town"), frame, unseen="error")


def test_numbers_protected_groups_and_classes_that_no_column_holds_are_refused():
    numbers = fieldcal.regression.from_moments(np.linspace(-2, 2, 200), np.ones(200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldcalWarning)
        lab = fieldcal.learn(numbers, np.linspace(-3, 3, 200), intervals=[-1, 1])
        of_numbers = fieldcal.estimate(lab, fieldcal.count(lab, numbers))
    with pytest.raises(InputError, match="estimate is of a number"):
        tables.decide(of_numbers, pa.table({"p": [0.2]}))
    blind = prevalence("town").model_copy(update={"protected": True})
    with pytest.raises(InputError, match="protected"):
        tables.decide(blind, rows())
    assert tables.decide(blind, rows(), acknowledge=True).num_rows == 60
    with pytest.raises(InputError, match="cannot stand in one column"):
        tables.decide(prevalence(names=(0, "one")), rows())
    with pytest.raises(InputError, match="cannot stand in one column"):
        tables.decide(prevalence(names=(0, 2**70)), rows())


def test_a_file_is_decided_into_a_file_and_the_changes_are_counted(session, tmp_path):
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"p": [0.1, 0.6, 0.9, None], "town": ["York", "Leeds", None, "York"]}).write_parquet(path)
    prev = prevalence("town")
    options = {"goal": [[0, 1], [20, 0]]}
    done = tables.decide_file(
        prev, session, session.open(path), tmp_path / "new.parquet", missing="keep", **options
    )
    written = pl.read_parquet(tmp_path / "new.parquet")
    assert written["p"].to_list() == [0.1, 0.6, 0.9, None]
    decided = written["decision"].to_list()
    assert decided == as_arrays(prev, pl.read_parquet(path).to_arrow(), **options)
    assert (done.rows, done.undecided) == (4, 1)
    assert done.before == {"no": 1, "yes": 2}
    assert done.after == {name: decided.count(name) for name in ("no", "yes")}
    assert done.changed == sum(a != b for a, b in zip(["no", "yes", "yes"], decided[:3], strict=True))
