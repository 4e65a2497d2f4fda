"""Values in tables, the verdicts of judges and the results of tests: learnt and counted as arrays are."""

from __future__ import annotations

import datetime as dt
import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalError, RowError, ValueWarning
from tables import truth
from tables.engines import IN_MEMORY, Engine

SPELLED = {"pass": ["pass", "Pass", "PASS "], "fail": ["fail", " fail", "FAIL"]}
LAZY = [name for name in IN_MEMORY if name in ("polars-lazy", "duckdb")]


@functools.cache
def judged(n=600):
    """A judge in four forms, and a second one; people checked every third row; two models on four days."""
    rng = np.random.default_rng(0)
    good = rng.random(n) < 0.65
    says = np.where(rng.random(n) < np.where(good, 0.9, 0.2), "pass", "fail")
    rating = np.clip(np.where(good, 4, 2) + rng.integers(-1, 2, n), 1, 5)
    days = [dt.datetime(2024, 5, 1 + int(d), 12) for d in rng.integers(0, 4, n)]
    return pa.table(
        {
            "verdict": pa.array([rng.choice(SPELLED[s]) for s in says], pa.string()),
            "rating": pa.array(rating.tolist(), pa.int32()),
            "score": pa.array((np.minimum(rating, 3) / 4).tolist(), pa.float64()),
            "ok": pa.array((says == "pass").tolist(), pa.bool_()),
            "second": pa.array(
                [("A", "B")[int(rng.random() < (0.8 if g else 0.3))] for g in good], pa.string()
            ),
            "human": pa.array(
                [None if i % 3 else "good" if g else "bad" for i, g in enumerate(good)], pa.string()
            ),
            "model": pa.array(rng.choice(["x", "y", "z"], n).tolist(), pa.string()),
            "at": pa.array(days, pa.timestamp("us")),
        }
    )


def listed(rows, columns):
    """The values of rows, of several judges as tuples."""
    found = [rows[name].to_pylist() for name in columns]
    return found[0] if len(columns) == 1 else list(zip(*found, strict=True))


def from_arrays(rows, columns, design="random"):
    values, human, model = listed(rows, columns), rows["human"].to_pylist(), rows["model"].to_pylist()
    return fieldcal.learn(values, human, kind="values", design=design, groups=model)


def from_table(frame, columns, **options):
    return tables.learn(
        frame, predictions=columns, **{"label": "human", "by": "model", "design": "random", **options}
    )


@functools.cache
def lab_of(*columns):
    return from_table(judged(), columns)


def counted(lab, rows, columns, by=("model",), **options):
    field = fieldcal.count(lab, listed(rows, columns), groups=truth.groups(rows, by), **options)
    return field.model_copy(update={"by": tuple(by)})


JUDGES = [("verdict",), ("rating",), ("score",), ("ok",), ("verdict", "second"), ("score", "second")]


def judges_on(engine):
    return JUDGES[::2] if engine.name == "spark" else JUDGES


@pytest.mark.conformance
def test_every_engine_learns_and_counts_values_as_arrays_to_the_byte(engine):
    for columns in judges_on(engine):
        rows = judged()
        lab = from_table(engine.make(rows), columns)
        assert lab.columns.scores == columns
        assert lab.model_copy(update={"columns": None}).to_json() == from_arrays(rows, columns).to_json()
        field = tables.count(lab, engine.make(rows), label="human")
        truth.assert_same_counts(field, counted(lab, rows, columns, y=rows["human"].to_pylist()))


def with_gaps(rows, column, at, filler=None):
    values = [filler if i in at else v for i, v in enumerate(rows[column].to_pylist())]
    return rows.set_column(rows.column_names.index(column), column, pa.array(values, rows[column].type))


def test_null_blank_and_nan_are_missing_refused_with_their_row_or_dropped(local_engine):
    for column in ("verdict", "rating", "score", "ok"):
        lab, rows = lab_of(column), with_gaps(judged(), column, {4, 7, 11})
        frame = local_engine.make(rows)
        with pytest.raises(RowError, match=r"^3 of 600 rows have no value.*the first is row 4") as refused:
            tables.count(lab, frame)
        assert refused.value.row == 4
        field = tables.count(lab, frame, missing="drop")
        assert field.dropped == 3
        truth.assert_same_counts(field, counted(lab, rows, (column,), missing="drop"))
    for column, blank in (("verdict", "  "), ("verdict", ""), ("score", float("nan"))):
        lab, rows = lab_of(column), with_gaps(judged(), column, {5}, blank)
        with pytest.raises(RowError, match="the first is row 5"):
            tables.count(lab, local_engine.make(rows))
        field = tables.count(lab, local_engine.make(rows), missing="drop")
        truth.assert_same_counts(field, counted(lab, rows, (column,), missing="drop"))


def test_unknown_values_are_named_and_counted_in_windows_too(local_engine):
    for column, value, fate in (
        ("verdict", "unsure", "Left out: 2 rows"),
        ("verdict", "pas", "Did you mean 'pass'"),
        ("rating", 9, "nearest"),
    ):
        lab, rows = lab_of(column), with_gaps(judged(), column, {5, 8}, value)
        with pytest.warns(ValueWarning, match=rf"in 2 of 600 rows: '{value}' \(2 rows\).*{fate}"):
            field = tables.count(lab, local_engine.make(rows))
        with pytest.warns(ValueWarning):
            arrays = counted(lab, rows, (column,))
        assert field.unseen == 2
        truth.assert_same_counts(field, arrays)
    lab, rows = lab_of("verdict"), with_gaps(judged(), "verdict", {5, 8}, "unsure")
    with pytest.warns(ValueWarning):
        field = tables.count(lab, local_engine.make(rows), label="human", time="at", every="1d")
    assert field.batch_ids == ("2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04")
    with warnings.catch_warnings(action="ignore", category=ValueWarning):
        for day in field.batch_ids:
            part = rows.filter(pa.array([t.date().isoformat() == day for t in rows["at"].to_pylist()]))
            alone = counted(lab, part, ("verdict",), y=part["human"].to_pylist())
            assert field.window(day, day + "T23").batches[day].same(alone.named(day).batches[day])
    assert sum(batch.unseen for batch in field.batches.values()) == field.unseen == 2


def test_objects_of_pandas_and_categories_are_values_of_all_kinds():
    says = ["pass", True, 4, 4.0, "4", None, "FAIL", float("nan")] * 30
    human = ["good", "bad", "good", "bad"] * 60
    frame = pd.DataFrame({"verdict": pd.Series(says, dtype=object), "human": human})
    frame.index = range(240, 0, -1)
    known = frame[frame["verdict"].notna()]
    lab = tables.learn(known, predictions="verdict", label="human", design="random")
    assert lab.partition.labels(()) == ["4", "fail", "pass", "true"]
    field = tables.count(lab, frame, missing="drop")
    assert field == fieldcal.count(lab, says, missing="drop")
    for kind in ("category", "enum"):
        rows = judged()
        texts = pl.Series("verdict", rows["verdict"].to_pylist())
        dtype = pl.Categorical if kind == "category" else pl.Enum(texts.unique().sort())
        frame = pl.DataFrame({"verdict": texts.cast(dtype), "model": rows["model"].to_pylist()})
        truth.assert_same_counts(
            tables.count(lab_of("verdict"), frame), counted(lab_of("verdict"), rows, ("verdict",))
        )


def test_of_rows_without_a_label_only_their_values_are_read():
    for name in LAZY:
        rows = judged()
        rare = with_gaps(rows, "verdict", {i for i in range(600) if i % 3 == 1 and i < 60}, "unsure")
        lab = from_table(Engine(name).make(rare), "verdict")
        assert ("unsure",) in lab.partition.known
        assert lab.model_copy(update={"columns": None}) == from_arrays(rare, ("verdict",))


def test_labelled_rows_without_a_value_or_with_labels_taken_for_one_are_refused_with_their_row(local_engine):
    rows = with_gaps(judged(), "verdict", {1, 9, 12}, " ")
    with pytest.raises(FieldcalError, match=r"2 of 200 labelled rows have no value.*the first is row 9"):
        from_table(local_engine.make(rows), "verdict")
    for label, says in (
        ("Good", "differ only in case or blanks"),
        ("good ", "differ only in case or blanks"),
        (" ", "is blank"),
    ):
        rows = with_gaps(judged(), "human", {9, 12}, label)
        with pytest.raises(
            RowError, match=rf"(?s)2 rows, the first is row 9.*{says}|{says}.*2 rows, the first is row 9"
        ):
            from_table(local_engine.make(rows), "verdict")


def test_what_does_not_go_with_values_or_the_kind_of_the_lab_is_refused():
    for options, says in (
        ({"design": None}, r"design='random'.*design='by_score'.*design='by_class'"),
        ({"scores": "score"}, "scores and predictions are given"),
        ({"predictions": None}, "none is given"),
        ({"predictions": []}, "at least one"),
        ({"predictions": ["verdict", "verdict"]}, "each once"),
        ({"predictions": "verdikt"}, "Did you mean 'verdict'"),
        ({"predictions": "at"}, "text, numbers or truth values"),
        ({"normalize": True}, "does not go with values"),
        ({"crossing": "sort"}, "does not go with values"),
        ({"intervals": 4}, "does not go with values"),
    ):
        given = {"predictions": "verdict", "label": "human", "design": "random", **options}
        with pytest.raises(FieldcalError, match=says):
            tables.learn(judged(), **given)
    with pytest.raises(FieldcalError, match=r"scores='score' does not go with values.*predictions"):
        tables.count(lab_of("verdict"), judged(), scores="score")
    with pytest.raises(FieldcalError, match=r"predictions='verdict' does not go with probabilities.*scores"):
        tables.count(truth.binary_lab(), judged(), predictions="verdict")
    with pytest.raises(FieldcalError, match=r"must be numbers, but are String.*predictions"):
        tables.learn(judged(), scores="verdict", label="human")
    with pytest.raises(FieldcalError, match="2 columns of values, but 1 in the lab"):
        tables.count(lab_of("verdict"), judged(), predictions=["verdict", "second"])
    with pytest.raises(FieldcalError, match=r"of values, .* there is no SQL"):
        tables.sql_count(lab_of("verdict"), "judged", dialect="duckdb")
    with pytest.raises(FieldcalError, match=r"of values, .* there is no SQL"):
        tables.sql_recalibrate(estimated("verdict"), "judged", dialect="duckdb")


@functools.cache
def estimated(*columns, by=("model",)):
    lab = lab_of(*columns)
    return fieldcal.estimate(lab, tables.count(lab, judged(), by=by, label="human"))


RECALIBRATED = [("verdict",), ("rating",), ("verdict", "second")]


@pytest.fixture(scope="module")
def estimates():
    return {columns: estimated(*columns) for columns in RECALIBRATED}


def new_rows(columns):
    """Field rows with a model that was never counted and a value that the lab has never seen, and gaps."""
    rows = judged().slice(0, 60)
    rows = with_gaps(rows, "model", {3, 4}, "new")
    rows = with_gaps(rows, columns[0], {6, 7})
    return with_gaps(rows, "verdict", {9}, "unsure") if "verdict" in columns else rows


@pytest.mark.conformance
def test_every_engine_gives_the_probability_of_each_class_as_arrays_do(engine, estimates):
    for columns in RECALIBRATED:
        prev, rows = estimates[columns], new_rows(columns)
        with warnings.catch_warnings(action="ignore"):
            made = tables.recalibrate(prev, engine.make(rows), missing="keep")
            arrays = fieldcal.recalibrate(
                prev, listed(rows, columns), groups=rows["model"].to_pylist(), missing="keep"
            )
        found = engine.read(made)
        names = ["p_bad_recalibrated", "p_good_recalibrated"]
        assert list(found) == [*rows.column_names, *names]
        truth.assert_same_values(found, names, arrays)
        assert engine.name.startswith("pandas") or found[names[0]][6] is None
        assert found["at"] == rows["at"].to_pylist()


@pytest.mark.conformance
def test_every_engine_decides_as_arrays_do(local_engine, estimates):
    for columns in (("verdict",), ("verdict", "second"), ("rating",)):
        for goal in ("accuracy", "balanced", ((0.0, 1.0), (5.0, 0.0))):
            prev, rows = estimates[columns], new_rows(columns)
            known = [
                i
                for i, v in enumerate(listed(rows, columns))
                if None not in (v if isinstance(v, tuple) else (v,))
            ]
            with warnings.catch_warnings(action="ignore"):
                made = tables.decide(prev, local_engine.make(rows), goal=goal, missing="keep")
                part = rows.take(known)
                models = part["model"].to_pylist()
                arrays = fieldcal.decide(prev, listed(part, columns), groups=models, goal=goal)
            decided = [v if isinstance(v, str) else None for v in local_engine.read(made)["decision"]]
            assert [decided[i] for i in known] == list(arrays)
            assert [decided[i] for i in range(60) if i not in known] == [None, None]


def test_rows_that_cannot_be_recalibrated_are_told_by_their_number(local_engine):
    prev, frame = estimated("verdict"), local_engine.make(new_rows(("verdict",)))
    with pytest.raises(RowError, match=r"2 of 60 rows have no value .* the first is row 6"):
        tables.recalibrate(prev, frame)
    with pytest.warns() as told:
        tables.recalibrate(prev, frame, missing="keep")
    words = [str(w.message) for w in told]
    assert len(words) == 2, words
    assert any("in 1 of 60 rows: 'unsure' (1 row)" in w for w in words), words
    assert any("groups of 2 rows (one is 'new')" in w for w in words)
    with pytest.warns(ValueWarning), pytest.raises(FieldcalError, match="groups of 2 rows"):
        tables.recalibrate(prev, frame, missing="keep", unseen="error")


def test_pairs_of_a_table_are_those_of_arrays(local_engine):
    rows = judged().append_column("question", pa.array([i // 3 for i in range(600)]))
    rows = rows.set_column(rows.column_names.index("model"), "model", pa.array(["x", "y", "z"] * 200))
    lab = from_table(rows, "verdict")
    found = tables.pairs(lab, local_engine.make(rows), item="question", label="human")
    arrays = fieldcal.pairs(
        lab,
        rows["verdict"].to_pylist(),
        rows["model"].to_pylist(),
        rows["question"].to_pylist(),
        y=rows["human"].to_pylist(),
    )
    assert found.groups == arrays.groups
    assert np.array_equal(found.bins, arrays.bins)
    assert np.array_equal(found.classes, arrays.classes)
