"""Bad input and faults on tables, in every engine. The number in each test's id is the row of the table of faults."""

from __future__ import annotations

import decimal
import functools
import math
import operator
import re
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalError, GroupWarning, InputError, InputTypeError, UnseenGroupWarning
from fieldcal.objects import group_keys
from tables import truth
from tables.engines import Engine, same_values

HOSTILE = {
    "script": "</script><img src=x onerror=alert(1)>",
    "latex": "$\\frac{$",
    "formula": '=HYPERLINK("http://x","y")',
    "emoji": "\U0001f4a9 \U0001f468‍\U0001f469‍\U0001f467",
    "rtl": "‮gnp.exe‬",
    "long": "long " * 2_000,
    "quote": "it's",
    "double-quote": 'say "hi"',
    "dot": "a.b.c",
    "backtick": "a`b``c",
    "semicolon": "x; DROP TABLE log; --",
    "space": " two  words ",
    "brackets": "[0]{1}(2)<3>",
    "backslash": "a\\b\\",
    "newline": "a\nb\tc",
    "percent": "100%s %(x)d {}",
}


@functools.cache
def rows(n=90):
    rng = np.random.default_rng(11)
    return pa.table(
        {
            "p": rng.uniform(size=n),
            "town": pa.array(np.array(["York", "Leeds", None], dtype=object)[np.arange(n) % 3], pa.string()),
            "year": pa.array([None if i % 4 == 3 else 2020 + i % 4 for i in range(n)], pa.int64()),
        }
    )


@functools.cache
def prevalence(*by):
    return truth.estimate(truth.binary_lab(), rows(), by)


def with_towns(towns, kind=None):
    return pa.table({"p": np.linspace(0.05, 0.95, len(towns)), "town": pa.array(towns, kind)})


def new_scores(engine, prev, table, **options):
    return np.array(engine.read(tables.recalibrate(prev, engine.make(table), **options))["p_recalibrated"])


def expected(prev, table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenGroupWarning)
        return truth.recalibrate(prev, table, **options)[:, 0]


# 11: groups that the estimate never saw -------------------------------------------------------------------


@pytest.mark.conformance
@pytest.mark.parametrize(
    "unseen",
    [pytest.param(name, id=f"fault_11_unseen_{name}") for name in ("global", "raw", "error")],
)
def test_fault_11_rows_of_unseen_groups_go_as_told(engine, unseen):
    table = with_towns(["York", "Hull", None, "Hull", "Leeds"])
    if unseen == "error":
        with pytest.raises(
            InputError, match=r"The groups of 2 rows .*'Hull'.*unseen='global' or unseen='raw'"
        ):
            new_scores(engine, prevalence("town"), table, unseen=unseen)
        return
    if unseen == "global":
        with pytest.warns(UnseenGroupWarning, match=r"The groups of 2 rows .one is 'Hull'.*whole field"):
            new = new_scores(engine, prevalence("town"), table)
    else:
        new = new_scores(engine, prevalence("town"), table, unseen=unseen)
        assert new[1] == pytest.approx(table["p"][1].as_py(), abs=1e-12)
    np.testing.assert_allclose(new, expected(prevalence("town"), table, unseen=unseen), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("by", "table", "shown"),
    [
        pytest.param(("town",), with_towns(["York", None, "Leeds"]), "(null)", id="fault_11_null_is_unseen"),
        pytest.param(
            ("town", "year"),
            pa.table(
                {
                    "p": [0.3, 0.6],
                    "town": pa.array([None, "York"], pa.string()),
                    "year": pa.array([None, 2020]),
                }
            ),
            "(null), (null)",
            id="fault_11_pair_of_nulls_is_unseen",
        ),
        pytest.param(
            ("year",),
            pa.table({"p": [0.3, 0.6], "year": pa.array([0, 2020])}),
            "0",
            id="fault_11_filler_is_unseen",
        ),
    ],
)
def test_fault_11_an_unseen_null_is_named_and_nothing_is_taken_for_null(local_engine, by, table, shown):
    known = rows()
    if shown == "(null)":
        known = known.filter(pa.compute.is_valid(known["town"]))
    if shown == "(null), (null)":
        known = known.filter(
            pa.compute.or_(pa.compute.is_valid(known["town"]), pa.compute.is_valid(known["year"]))
        )
    prev = truth.estimate(truth.binary_lab(), known, by)
    with pytest.warns(UnseenGroupWarning, match=rf"1 rows .*one is '{re.escape(shown)}'"):
        new = new_scores(local_engine, prev, table)
    np.testing.assert_allclose(new, expected(prev, table), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "unseen", [pytest.param(name, id=f"fault_11_unchecked_{name}") for name in ("global", "raw")]
)
def test_fault_11_unchecked_rows_of_unseen_groups_go_as_told_without_a_word(local_engine, unseen):
    table = with_towns(["York", "Hull", None])
    new = new_scores(local_engine, prevalence("town"), table, unseen=unseen, check=False)
    np.testing.assert_allclose(new, expected(prevalence("town"), table, unseen=unseen), rtol=0, atol=1e-12)


# 12: null, NaN and "" as groups ---------------------------------------------------------------------------


@pytest.mark.conformance
@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array(["", None, "a", None, ""]), id="fault_12_text"),
        pytest.param(pa.array([0, None, 1, None, 0]), id="fault_12_int"),
        pytest.param(pa.array([False, None, True, None, False]), id="fault_12_bool"),
        pytest.param(pa.array([None] * 5, pa.string()), id="fault_12_only_null"),
        pytest.param(pa.array(["", None, "null", "NaN", "None"]), id="fault_12_words"),
    ],
)
def test_fault_12_null_is_a_group_of_its_own_and_the_same_everywhere(local_engine, column):
    table = pa.table({"p": [0.1, 0.3, 0.5, 0.7, 0.9], "g": column})
    field = tables.count(truth.binary_lab(), local_engine.make(table), by="g")
    truth.assert_same_counts(field, truth.count(truth.binary_lab(), table, ["g"]))
    assert field.n[field.groups.index(None)] == column.null_count
    prev = fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN)
    np.testing.assert_allclose(
        new_scores(local_engine, prev, table), expected(prev, table), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    "nulls",
    [
        pytest.param([None, None], id="fault_12_none"),
        pytest.param([math.nan, math.nan], id="fault_12_nan"),
        pytest.param([math.nan, None], id="fault_12_nan_and_none"),
        pytest.param([pd.NA, None], id="fault_12_na"),
    ],
)
def test_fault_12_all_nulls_of_a_pandas_column_of_objects_are_one_group(nulls):
    frame = pd.DataFrame({"p": [0.1, 0.4, 0.6, 0.9], "g": pd.Series(["", *nulls, "a"], dtype=object)})
    field = tables.count(truth.binary_lab(), frame, by="g")
    assert field.groups == ("", "a", None)
    assert field.n.tolist() == [1, 1, 2]
    prev = fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN)
    plain = with_towns(["", None, None, "a"])
    new = tables.recalibrate(prev, frame)["p_recalibrated"]
    wanted = fieldcal.recalibrate(prev, frame["p"].to_numpy(), groups=plain["town"].to_pylist())
    np.testing.assert_allclose(new, wanted, rtol=0, atol=1e-12)


# 13: 1, "1", 1.0 and True ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1, "1", 2, "2"], id="fault_13_int_and_text"),
        pytest.param([1, 1.0, True, "1"], id="fault_13_all_four"),
        pytest.param([1, True, 0, False], id="fault_13_int_and_bool"),
        pytest.param([decimal.Decimal(1), 1, 2, 3], id="fault_13_decimal_and_int"),
    ],
)
def test_fault_13_a_pandas_column_of_several_types_is_refused(values):
    frame = pd.DataFrame({"p": [0.1, 0.4, 0.6, 0.9], "g": pd.Series(values, dtype=object)})
    with pytest.raises(InputTypeError, match=r"'g' is of type .*convert it first"):
        tables.count(truth.binary_lab(), frame, by="g")


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("counted", "applied"),
    [
        pytest.param(pa.array([1, 2, 1]), pa.array(["1", "2", "1"]), id="fault_13_int_then_text"),
        pytest.param(pa.array(["1", "2", "1"]), pa.array([1, 2, 1]), id="fault_13_text_then_int"),
        pytest.param(pa.array([0, 1, 1]), pa.array([False, True, True]), id="fault_13_int_then_bool"),
        pytest.param(pa.array([False, True, True]), pa.array([0, 1, 1]), id="fault_13_bool_then_int"),
        pytest.param(
            pa.array(["True", "x", "x"]), pa.array([True, False, True]), id="fault_13_text_then_bool"
        ),
    ],
)
def test_fault_13_groups_of_another_type_are_not_taken_for_the_same(local_engine, counted, applied):
    prev = truth.estimate(truth.binary_lab(), pa.table({"p": [0.2, 0.4, 0.9], "g": counted}), ["g"])
    frame = local_engine.make(p=[0.2, 0.4, 0.9], g=applied)
    with pytest.raises(InputError, match=r"none can match\. Cast the columns"):
        tables.recalibrate(prev, frame)


@pytest.mark.parametrize("name", [pytest.param("arrays", id="fault_13_mixed_keys_of_arrays")])
def test_fault_13_of_mixed_keys_a_column_finds_those_of_its_own_type(local_engine, name):
    lab = truth.binary_lab()
    scores = np.repeat([0.1, 0.4, 0.7, 0.95], 10)
    keys = [key for key in (1, "1", True, (1,)) for _ in range(10)]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=keys), **truth.PLAIN)
    for column, own in ((pa.array([1]), 1), (pa.array(["1"]), "1"), (pa.array([True]), True)):
        frame = local_engine.make(p=[0.5], g=column)
        new = local_engine.read(tables.recalibrate(prev, frame, by="g"))["p_recalibrated"]
        np.testing.assert_allclose(new, fieldcal.recalibrate(prev, [0.5], groups=[own]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(
            pd.DataFrame({"p": 0.5, "g": pd.Categorical([1, "1", 2])}), id="fault_13_categories_of_two_types"
        ),
        pytest.param(
            pd.DataFrame({"p": 0.5, "g": pd.Categorical([1, 2, None])}), id="fault_13_categories_of_numbers"
        ),
        pytest.param(
            pd.DataFrame({"p": 0.5, "g": pd.cut([1, 2, 3], 2)}), id="fault_13_categories_of_intervals"
        ),
        pytest.param(
            pa.table({"p": [0.5], "g": pa.array([1]).dictionary_encode()}),
            id="fault_13_dictionary_of_numbers",
        ),
    ],
)
def test_fault_13_categories_that_are_no_text_are_not_made_text_but_refused(frame):
    with pytest.raises(InputTypeError, match=r"'g' is of type .*convert it first"):
        tables.count(truth.binary_lab(), frame, by="g")


# 14: columns that are no groups ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [pytest.param(pa.float64(), id="fault_14_float64"), pytest.param(pa.float32(), id="fault_14_float32")],
)
def test_fault_14_a_float_group_column_is_refused(engine, kind):
    frame = engine.make(p=[0.1, 0.2], g=pa.array([1.5, 2.0], kind))
    with pytest.raises(InputTypeError, match=r"'g' holds decimal fractions .*whole numbers or text first"):
        tables.count(truth.binary_lab(), frame, by="g")
    with pytest.raises(InputTypeError, match=r"'g' holds decimal fractions"):
        tables.recalibrate(prevalence("year"), frame, by="g")


@pytest.mark.parametrize("name", [pytest.param("Int64", id="fault_14_gaps_in_pandas")])
def test_fault_14_whole_numbers_that_pandas_made_floats_are_refused_with_a_way_out(name):
    frame = pd.DataFrame({"p": [0.1, 0.2, 0.3], "g": [1, 2, None]})
    with pytest.raises(InputTypeError, match=rf"'g' holds .*in pandas, whole numbers with gaps are {name}"):
        tables.count(truth.binary_lab(), frame, by="g")
    assert tables.count(truth.binary_lab(), frame.astype({"g": name}), by="g").groups == (1, 2, None)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([[1], [2]]), id="fault_14_lists"),
        pytest.param(pa.array([{"a": 1}, {"a": 2}]), id="fault_14_records"),
        pytest.param(
            pa.array([decimal.Decimal(1), decimal.Decimal(2)], pa.decimal128(12, 2)), id="fault_14_decimals"
        ),
        pytest.param(pa.array([b"a", b"b"]), id="fault_14_bytes"),
        pytest.param(pa.array([None, None], pa.null()), id="fault_14_no_type"),
        pytest.param(pa.array([1, 2], pa.duration("us")), id="fault_14_durations"),
        pytest.param(pa.array([1, 2], pa.time64("us")), id="fault_14_times_of_day"),
    ],
)
def test_fault_14_columns_of_other_types_are_refused_in_our_words(local_engine, column):
    frame = local_engine.make(p=[0.1, 0.2], g=column)
    if pa.types.is_null(column.type) and local_engine.name in (
        "pandas",
        "pandas-nullable",
    ):  # which take it for text
        assert tables.count(truth.binary_lab(), frame, by="g").groups == (None,)
        return
    with pytest.raises(InputTypeError, match=r"'g' is of type .*convert it first, as str\(…\)") as caught:
        tables.count(truth.binary_lab(), frame, by="g")
    assert group_keys.KINDS in str(caught.value), "the words of arrays"


@pytest.mark.parametrize("n", [pytest.param(120, id="fault_14_ids")])
def test_fault_14_an_id_as_group_is_counted_with_a_warning(engine, n):
    frame = engine.make(p=np.linspace(0, 1, n), id=[f"row {i}" for i in range(n)])
    with pytest.warns(GroupWarning, match=r"120 rows fall into 120 groups.*Is this an id\?") as caught:
        field = tables.count(truth.binary_lab(), frame, by="id")
    assert len(field.groups) == n
    assert [w.filename for w in caught if w.category is GroupWarning] == [__file__]


# 15: a million groups -------------------------------------------------------------------------------------


@functools.cache
def million():
    """1.2 million rows in a million groups, in no order; their counts, an estimate, and new scores as arrays."""
    rng = np.random.default_rng(15)
    groups = rng.permutation(np.concatenate([np.arange(1_000_000), rng.integers(0, 1_000_000, 200_000)]))
    scores, lab = rng.uniform(size=len(groups)), truth.binary_lab(fieldcal.Edges([0.5]))
    field = fieldcal.count(lab, scores, groups=groups).model_copy(update={"by": ("g",)})
    prev = fieldcal.estimate(lab, field, **truth.PLAIN)
    return pa.table({"p": scores, "g": groups}), prev, fieldcal.recalibrate(prev, scores, groups=groups)


@pytest.mark.slow
@pytest.mark.parametrize("n", [pytest.param(1_000_000, id="fault_15_million_groups")])
def test_fault_15_a_million_groups_are_counted_and_recalibrated(local_engine, n):
    table, prev, wanted = million()
    frame = local_engine.make(table)
    field = tables.count(prev.lab, frame, by="g")
    assert len(field.groups) == n
    assert field.groups == prev.field.groups
    np.testing.assert_array_equal(field.V, prev.field.V)
    np.testing.assert_array_equal(field.score_sums, prev.field.score_sums)
    found, groups = _columns(tables.recalibrate(prev, frame), "p_recalibrated", "g")
    np.testing.assert_array_equal(groups, table["g"].to_numpy())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def _columns(frame, *names):
    """As arrays: a million rows are too many for Python's values."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, duckdb.DuckDBPyRelation):
        frame = frame.fetchnumpy()
    return [np.asarray(frame[name], dtype=np.float64 if "_" in name else np.int64) for name in names]


# 16: several columns --------------------------------------------------------------------------------------

BARS = [("a|b", "c"), ("a", "b|c"), ("('a'", "'b')"), (",a", ""), ("", ",a"), ("", "")]
NULLS = [(None, "a"), ("a", None), (None, None), ("", None)]


@pytest.mark.conformance
@pytest.mark.parametrize("pairs", [pytest.param(BARS + NULLS, id="fault_16_bars_and_nulls")])
def test_fault_16_several_columns_make_tuples_and_never_joined_text(engine, pairs):
    one, two = (pa.array([pair[i] for pair in 3 * pairs], pa.string()) for i in (0, 1))
    table = pa.table({"p": np.linspace(0, 1, 3 * len(pairs)), "one": one, "two": two})
    field = tables.count(truth.binary_lab(), engine.make(table), by=["one", "two"])
    truth.assert_same_counts(field, truth.count(truth.binary_lab(), table, ["one", "two"]))
    assert set(field.groups) == set(pairs)
    prev = fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN)
    np.testing.assert_allclose(new_scores(engine, prev, table), expected(prev, table), rtol=0, atol=1e-12)


# 17 and 20: hostile names and values ----------------------------------------------------------------------


def whole_run(engine, table, scores, by):
    """Learn, count, estimate and recalibrate, all by name; the same as on arrays."""
    frame = engine.make(table)
    lab = truth.with_columns(truth.binary_lab(), scores, by=by)
    field = tables.count(lab, frame)
    truth.assert_same_counts(field, truth.count(lab, table, by))
    prev = fieldcal.estimate(lab, field, **truth.PLAIN)
    new = engine.read(tables.recalibrate(prev, frame))
    assert list(new) == [*table.column_names, f"{scores}_recalibrated"]
    truth.assert_same_values(new, [f"{scores}_recalibrated"], truth.recalibrate(prev, table))
    new.pop(f"{scores}_recalibrated")
    assert same_values(new, engine.read(frame))
    return field


@pytest.mark.conformance
@pytest.mark.parametrize(
    "text",
    [pytest.param(v, id=f"fault{17 if i < 6 else 20}-{k}") for i, (k, v) in enumerate(HOSTILE.items())],
)
def test_fault_17_and_20_columns_of_any_name_are_read_and_written(local_engine, text):
    table = pa.table({text: rows()["p"], f"{text} town": rows()["town"], f"x{text}": rows()["year"]})
    whole_run(local_engine, table, text, [f"{text} town"])


@pytest.mark.parametrize(
    "name", [pytest.param("*", id="fault_20_star"), pytest.param("^p.*$", id="fault_20_pattern")]
)
def test_fault_20_a_column_named_like_a_pattern_is_a_column_or_refused(local_engine, name):
    for names in (["p", "town", name], [name, "town", "p"]):
        table = pa.table([rows()["p"], rows()["town"], rows()["year"]], names=names)
        if local_engine.name in ("polars", "polars-lazy", "duckdb"):
            with pytest.raises(InputError, match=rf"'{re.escape(name)}' is named like a pattern.*Rename"):
                whole_run(local_engine, table, names[0], ["town"])
        else:
            whole_run(local_engine, table, names[0], ["town"])


@pytest.mark.parametrize("name", [pytest.param("spark", id="fault_20_spark")])
def test_fault_20_columns_of_any_name_are_read_and_written_on_spark(spark, name):
    odd = {f"other {k} {v}": pa.array(np.arange(90)) for k, v in HOSTILE.items()}
    table = pa.table({"a.`p`;'\"": rows()["p"], "to`wn.x": rows()["town"], "ye.ar": rows()["year"], **odd})
    whole_run(Engine(name, spark), table, "a.`p`;'\"", ["to`wn.x", "ye.ar"])


@pytest.mark.conformance
@pytest.mark.parametrize("name", [pytest.param("values", id="fault_17_values")])
def test_fault_17_groups_of_any_text_are_kept_as_they_are(engine, name):
    towns = [v for v in HOSTILE.values() for _ in range(3)]
    table = with_towns(towns)
    field = whole_run(engine, table, "p", ["town"])
    assert set(field.groups) == set(HOSTILE.values())
    assert fieldcal.Field.from_json(field.to_json()) == field


@pytest.mark.parametrize("text", [pytest.param("x" * 10_000, id="fault_17_shortened")])
def test_fault_17_long_names_and_values_are_shortened_in_what_is_said(text):
    calls = [
        lambda: tables.count(truth.binary_lab(), pa.table({"p": [0.5]}), by=text),
        lambda: tables.count(truth.binary_lab(), pa.table({text: [0.5]}), scores="p"),
        lambda: tables.count(truth.binary_lab(), pa.table({text: [7.0]}), scores=text),
        lambda: tables.count(truth.binary_lab(), pa.table({text: ["7"]}), scores=text),
        lambda: tables.count(truth.binary_lab(), pa.table({"p": [0.5], text: [0.5]}), by=text),
        lambda: tables.recalibrate(prevalence(), pa.table({"p": [0.5], text: [1]}), name=text),
        lambda: tables.recalibrate(prevalence("town"), with_towns([text]), unseen="error"),
        lambda: tables.learn(pa.table({"p": [0.5], "y": [1]}), scores=[text, text], label="y"),
    ]
    for call in calls:
        with pytest.raises(FieldcalError) as refusal:
            call()
        assert len(str(refusal.value)) < 1_500


# 18: names like ours --------------------------------------------------------------------------------------

OURS = (
    "bin",
    "n",
    "count",
    "estimate",
    "rows",
    "valid",
    "unused",
    "c0",
    "index",
    "literal",
    "len",
    "fieldcal_rows",
    "fieldcal_valid",
    "fieldcal_below_1",
    "fieldcal_units_2",
    "__fieldcal_row",
    "__fieldcal_key_0",
    "__fieldcal_score_0",
    "__fieldcal_ratio_0",
    "__FIELDCAL_KEY_0_NULL",
    "small_table",
)


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("score", "group"),
    [pytest.param(a, b, id=f"fault_18_{a}-{b}") for a, b in zip(OURS, OURS[1:] + OURS[:1], strict=True)][::2],
)
def test_fault_18_columns_named_like_ours_are_columns_like_any(local_engine, score, group):
    others = {name: rows()["year"] for name in OURS if name not in (score, group)}
    whole_run(local_engine, pa.table({**others, score: rows()["p"], group: rows()["town"]}), score, [group])


@pytest.mark.parametrize("name", [pytest.param("spark", id="fault_18_spark")])
def test_fault_18_columns_named_like_ours_are_columns_like_any_on_spark(spark, name):
    others = {n: pa.array(np.arange(90)) for n in OURS if n not in ("bin", "count", "c0")}
    table = pa.table({"c0": rows()["p"], "count": rows()["town"], "bin": rows()["year"], **others})
    whole_run(Engine(name, spark), table, "c0", ["count", "bin"])


@pytest.mark.parametrize("name", [pytest.param(0, id="fault_18_numbers_as_names")])
def test_fault_18_pandas_columns_may_be_named_by_numbers(name):
    frame = pd.DataFrame({"p": [0.2, 0.8, 0.5], name: [1, 2, 3], "town": ["York", "Leeds", None]})
    field = tables.count(truth.binary_lab(), frame, by="town")
    assert field.n.tolist() == [1, 1, 1]
    assert tables.recalibrate(prevalence("town"), frame).columns.tolist() == [
        "p",
        name,
        "town",
        "p_recalibrated",
    ]


# 19: columns that are twice there, or not at all ----------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(pd.DataFrame([[0.1, 0.2, 1]], columns=["p", "p", "x"]), id="fault_19_twice_pandas"),
        pytest.param(pa.table([[0.1], [0.2], [1]], names=["p", "p", "x"]), id="fault_19_twice_pyarrow"),
    ],
)
def test_fault_19_names_that_appear_twice_are_refused_and_listed(frame):
    for call in (
        lambda: tables.count(truth.binary_lab(), frame),
        lambda: tables.recalibrate(prevalence(), frame),
        lambda: tables.learn(frame, scores="p", label="x"),
    ):
        with pytest.raises(InputError, match=r"appear more than once: 'p' \(2 times\)\. Rename or drop"):
            call()


@pytest.mark.parametrize("name", [pytest.param("spark", id="fault_19_twice_spark")])
def test_fault_19_names_that_appear_twice_are_refused_on_spark(spark, name):
    frame = Engine(name, spark).make(p=[0.1], q=[0.2]).toDF("p", "p")
    with pytest.raises(InputError, match=r"appear more than once: 'p' \(2 times\)"):
        tables.count(truth.binary_lab(), frame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"scores": "pp"},
            r"no column 'pp' for the scores\. Did you mean 'p'\?.*'p', 'town', 'year'",
            id="fault_19_score",
        ),
        pytest.param(
            {"by": "twon"}, r"no column 'twon' for the groups\. Did you mean 'town'\?", id="fault_19_group"
        ),
        pytest.param(
            {"by": ["town", "Year"]},
            r"no column 'Year' for the groups\. Did you mean 'year'\?",
            id="fault_19_case",
        ),
        pytest.param(
            {"by": "zzz"},
            r"no column 'zzz' for the groups\. The table has 'p', 'town', 'year'",
            id="fault_19_none_close",
        ),
        pytest.param(
            {"by": ["town", "town"]}, r"\['town', 'town'\] name one twice", id="fault_19_named_twice"
        ),
    ],
)
def test_fault_19_names_that_are_not_there_are_refused_with_a_close_match(engine, options, message):
    with pytest.raises(InputError, match=message):
        tables.count(truth.binary_lab(), engine.make(rows()), **options)


# 50: threads, order, shards, engines ----------------------------------------------------------------------


@functools.cache
def log(n=12_000):
    rng = np.random.default_rng(50)
    return pa.table(
        {
            "p": rng.beta(0.5, 0.9, n),
            "town": pa.array(
                np.array(["York", "Leeds", "Hull", None], dtype=object)[rng.integers(0, 4, n)], pa.string()
            ),
            "year": rng.integers(2019, 2024, n),
        }
    )


@functools.cache
def reference():
    lab = truth.binary_lab()
    field = truth.count(lab, log(), ["town", "year"])
    return field, fieldcal.estimate(lab, field, trust=1)


@pytest.mark.parametrize("threads", [pytest.param(n, id=f"fault_50_threads_{n}") for n in (1, 2, 7)])
def test_fault_50_the_number_of_threads_changes_nothing(threads):
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    field = tables.count(truth.binary_lab(), connection.from_arrow(log()), by=["town", "year"])
    wanted, prev = reference()
    assert field.to_json() == wanted.to_json()
    again = fieldcal.estimate(truth.binary_lab(), field, trust=1)
    for name in ("urc", "estimate", "lower", "upper", "whole.estimate", "whole.lower", "whole.upper"):
        same = operator.attrgetter(name)
        np.testing.assert_allclose(same(again), same(prev), rtol=0, atol=1e-12)
    for new, old in zip(again.steps, prev.steps, strict=True):
        assert new.trust == old.trust
        np.testing.assert_allclose(new.weights, old.weights, rtol=0, atol=1e-12)


@pytest.mark.conformance
@pytest.mark.parametrize("seed", [pytest.param(0, id="fault_50_order_of_rows")])
def test_fault_50_the_order_of_rows_changes_nothing(local_engine, seed):
    shuffled = log().take(np.random.default_rng(seed).permutation(len(log())))
    field = tables.count(truth.binary_lab(), local_engine.make(shuffled), by=["town", "year"])
    assert field.to_json() == reference()[0].to_json()


@pytest.mark.parametrize("seed", [pytest.param(1, id="fault_50_order_of_shards_and_engines")])
def test_fault_50_shards_counted_in_different_engines_merge_in_any_order(seed):
    names = ["pandas", "polars", "polars-lazy", "pyarrow", "duckdb", "pandas-pyarrow"]
    size = len(log()) // len(names)
    shards = [
        tables.count(truth.binary_lab(), Engine(name).make(log().slice(size * i, size)), by=["town", "year"])
        for i, name in enumerate(names)
    ]
    for order in (range(6), np.random.default_rng(seed).permutation(6)):
        assert sum(shards[i] for i in order).to_json() == reference()[0].to_json()


@pytest.mark.parametrize("name", [pytest.param("spark", id="fault_50_spark")])
def test_fault_50_spark_in_any_number_of_partitions_counts_the_same(spark, name):
    frame = Engine(name, spark).make(log())
    field = tables.count(truth.binary_lab(), frame.repartition(5), by=["town", "year"])
    assert field.to_json() == reference()[0].to_json()
