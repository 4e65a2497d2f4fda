"""Bad input and faults on tables. The number in a test's name is the row of the table of faults."""

from __future__ import annotations

import decimal
import functools
import itertools
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

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "$\\frac{$",
    '=HYPERLINK("http://x","y")',
    "long " * 2_000,
]
HOSTILE += [
    "\U0001f4a9 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u202egnp.exe\u202c",
    "it's",
    'say "hi"',
    "a.b.c",
]
HOSTILE += [
    "a`b``c",
    "x; DROP TABLE log; --",
    " two  words ",
    "[0]{1}(2)<3>",
    "a\\b\\",
    "a\nb\tc",
    "100%s %(x)d {}",
]


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


@pytest.mark.conformance
def test_fault_11_rows_of_unseen_groups_go_as_told_without_a_check_without_a_word(engine):
    prev, table = prevalence("town"), with_towns(["York", "Hull", None, "Hull", "Leeds"])
    with pytest.raises(InputError, match=r"The groups of 2 rows .*'Hull'.*unseen='global' or unseen='raw'"):
        new_scores(engine, prev, table, unseen="error")
    with pytest.warns(UnseenGroupWarning, match=r"The groups of 2 rows .one is 'Hull'.*whole field"):
        new = new_scores(engine, prev, table)
    np.testing.assert_allclose(new, expected(prev, table), rtol=0, atol=1e-12)
    new = new_scores(engine, prev, table, unseen="raw")
    assert new[1] == pytest.approx(table["p"][1].as_py(), abs=1e-12)
    np.testing.assert_allclose(new, expected(prev, table, unseen="raw"), rtol=0, atol=1e-12)
    prev, table = prevalence("town"), with_towns(["York", "Hull", None])
    for unseen in ("global", "raw"):
        new = new_scores(engine, prev, table, unseen=unseen, check=False)
        np.testing.assert_allclose(new, expected(prev, table, unseen=unseen), rtol=0, atol=1e-12)


PAIR = {"town": pa.array([None, "York"], pa.string()), "year": pa.array([None, 2020])}
UNSEEN = {
    "null": (["town"], with_towns(["York", None, "Leeds"]), "(null)"),
    "pair_of_nulls": (["town", "year"], pa.table({"p": [0.3, 0.6], **PAIR}), "(null), (null)"),
    "filler": (["year"], pa.table({"p": [0.3, 0.6], "year": pa.array([0, 2020])}), "0"),
}


@pytest.mark.parametrize(("by", "table", "shown"), UNSEEN.values(), ids=UNSEEN)
def test_fault_11_an_unseen_null_is_named_and_nothing_is_taken_for_null(engine, by, table, shown):
    known = rows()
    if shown != "0":
        valid = [pa.compute.is_valid(known[name]) for name in by]
        known = known.filter(functools.reduce(pa.compute.or_, valid))
    prev = truth.estimate(truth.binary_lab(), known, by)
    with pytest.warns(UnseenGroupWarning, match=rf"1 rows .*one is '{re.escape(shown)}'"):
        new = new_scores(engine, prev, table)
    np.testing.assert_allclose(new, expected(prev, table), rtol=0, atol=1e-12)


WITH_NULLS = [
    pa.array(["", None, "a", None, ""]),
    pa.array([0, None, 1, None, 0]),
    pa.array([False, None, True, None, False]),
    pa.array([None] * 5, pa.string()),
    pa.array(["", None, "null", "NaN", "None"]),
]


@pytest.mark.conformance
def test_fault_12_null_is_a_group_of_its_own_and_the_same_everywhere(local_engine):
    for column in WITH_NULLS:
        table = pa.table({"p": [0.1, 0.3, 0.5, 0.7, 0.9], "g": column})
        field = tables.count(truth.binary_lab(), local_engine.make(table), by="g")
        truth.assert_same_counts(field, truth.count(truth.binary_lab(), table, ["g"]))
        assert field.n[field.groups.index(None)] == column.null_count
        prev = fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN)
        new = new_scores(local_engine, prev, table)
        np.testing.assert_allclose(new, expected(prev, table), rtol=0, atol=1e-12)


def test_fault_12_all_nulls_of_a_pandas_column_of_objects_are_one_group():
    for nulls in ([None, None], [math.nan, math.nan], [math.nan, None], [pd.NA, None]):
        frame = pd.DataFrame({"p": [0.1, 0.4, 0.6, 0.9], "g": pd.Series(["", *nulls, "a"], dtype=object)})
        field = tables.count(truth.binary_lab(), frame, by="g")
        assert (field.groups, field.n.tolist()) == (("", "a", None), [1, 1, 2])
        prev = fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN)
        new = tables.recalibrate(prev, frame)["p_recalibrated"]
        wanted = fieldcal.recalibrate(prev, frame["p"].to_numpy(), groups=["", None, None, "a"])
        np.testing.assert_allclose(new, wanted, rtol=0, atol=1e-12)


def test_fault_13_a_column_of_several_types_or_of_categories_that_are_no_text_is_refused():
    mixed = [[1, "1", 2], [1, 1.0, True], [1, True, 0], [decimal.Decimal(1), 1, 2]]
    frames = [pd.DataFrame({"p": 0.5, "g": pd.Series(values, dtype=object)}) for values in mixed]
    for values in (pd.Categorical([1, "1", 2]), pd.Categorical([1, 2, None]), pd.cut([1, 2, 3], 2)):
        frames.append(pd.DataFrame({"p": 0.5, "g": values}))
    frames.append(pa.table({"p": [0.5], "g": pa.array([1]).dictionary_encode()}))
    for frame in frames:
        with pytest.raises(InputTypeError, match=r"'g' is of type .*convert it first"):
            tables.count(truth.binary_lab(), frame, by="g")


@pytest.mark.conformance
def test_fault_13_groups_of_another_type_are_not_taken_for_the_same(local_engine):
    numbers, text, truths = pa.array([0, 1, 1]), pa.array(["0", "1", "True"]), pa.array([False, True, True])
    for counted, applied in itertools.permutations([numbers, text, truths], 2):
        prev = truth.estimate(truth.binary_lab(), pa.table({"p": [0.2, 0.4, 0.9], "g": counted}), ["g"])
        frame = local_engine.make(p=[0.2, 0.4, 0.9], g=applied)
        with pytest.raises(InputError, match=r"none can match\. Cast the columns"):
            tables.recalibrate(prev, frame)


def test_fault_13_of_mixed_keys_a_column_finds_those_of_its_own_type(engine):
    lab = truth.binary_lab()
    scores = np.repeat([0.1, 0.4, 0.7, 0.95], 10)
    keys = [key for key in (1, "1", True, (1,)) for _ in range(10)]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=keys), **truth.PLAIN)
    for column, own in ((pa.array([1]), 1), (pa.array(["1"]), "1"), (pa.array([True]), True)):
        frame = engine.make(p=[0.5], g=column)
        new = engine.read(tables.recalibrate(prev, frame, by="g"))["p_recalibrated"]
        np.testing.assert_allclose(new, fieldcal.recalibrate(prev, [0.5], groups=[own]), rtol=0, atol=1e-12)


def test_fault_14_float_group_columns_are_refused_and_those_of_pandas_told_a_way_out(engine):
    for kind in (pa.float64(), pa.float32()):
        frame = engine.make(p=[0.1, 0.2], g=pa.array([1.5, 2.0], kind))
        with pytest.raises(InputTypeError, match=r"'g' holds decimal fractions .*whole numbers or text"):
            tables.count(truth.binary_lab(), frame, by="g")
        with pytest.raises(InputTypeError, match=r"'g' holds decimal fractions"):
            tables.recalibrate(prevalence("year"), frame, by="g")
    frame = pd.DataFrame({"p": [0.1, 0.2, 0.3], "g": [1, 2, None]})
    with pytest.raises(InputTypeError, match=r"'g' holds .*in pandas, whole numbers with gaps are Int64"):
        tables.count(truth.binary_lab(), frame, by="g")
    assert tables.count(truth.binary_lab(), frame.astype({"g": "Int64"}), by="g").groups == (1, 2, None)


NO_GROUPS = [
    pa.array([[1], [2]]),
    pa.array([{"a": 1}, {"a": 2}]),
    pa.array([decimal.Decimal(1), decimal.Decimal(2)], pa.decimal128(12, 2)),
    pa.array([b"a", b"b"]),
    pa.array([1, 2], pa.duration("us")),
    pa.array([1, 2], pa.time64("us")),
    pa.array([None, None], pa.null()),
]


def test_fault_14_columns_of_other_types_are_refused_and_an_id_counted_with_a_warning(local_engine, engine):
    for column in NO_GROUPS:
        frame = local_engine.make(p=[0.1, 0.2], g=column)
        with pytest.raises(InputTypeError, match=r"'g' is of type .*convert it first, as str\(…\)") as caught:
            tables.count(truth.binary_lab(), frame, by="g")
        assert group_keys.KINDS in str(caught.value), "the words of arrays"
    frame = engine.make(p=np.linspace(0, 1, 120), id=[f"row {i}" for i in range(120)])
    with pytest.warns(GroupWarning, match=r"120 rows fall into 120 groups.*Is this an id\?") as caught:
        field = tables.count(truth.binary_lab(), frame, by="id")
    assert len(field.groups) == 120
    assert [w.filename for w in caught if w.category is GroupWarning] == [__file__]


@functools.cache
def million():
    """1.2 million rows in a million groups, in no order; their counts, an estimate, and new scores as arrays."""
    rng = np.random.default_rng(15)
    groups = rng.permutation(np.concatenate([np.arange(1_000_000), rng.integers(0, 1_000_000, 200_000)]))
    scores, lab = rng.uniform(size=len(groups)), truth.binary_lab(fieldcal.partitions.Edges([0.5]))
    field = fieldcal.count(lab, scores, groups=groups).model_copy(update={"by": ("g",)})
    prev = fieldcal.estimate(lab, field, **truth.PLAIN)
    return pa.table({"p": scores, "g": groups}), prev, fieldcal.recalibrate(prev, scores, groups=groups)


@pytest.mark.slow
def test_fault_15_a_million_groups_are_counted_and_recalibrated(local_engine):
    table, prev, wanted = million()
    frame = local_engine.make(table)
    field = tables.count(prev.lab, frame, by="g")
    assert len(field.groups) == 1_000_000
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


BARS = [("a|b", "c"), ("a", "b|c"), ("('a'", "'b')"), (",a", ""), ("", ",a"), ("", "")]
NULLS = [(None, "a"), ("a", None), (None, None), ("", None)]


@pytest.mark.conformance
def test_fault_16_several_columns_make_tuples_and_never_joined_text(engine):
    pairs = BARS + NULLS
    one, two = (pa.array([pair[i] for pair in 3 * pairs], pa.string()) for i in (0, 1))
    table = pa.table({"p": np.linspace(0, 1, 3 * len(pairs)), "one": one, "two": two})
    field = tables.count(truth.binary_lab(), engine.make(table), by=["one", "two"])
    truth.assert_same_counts(field, truth.count(truth.binary_lab(), table, ["one", "two"]))
    assert set(field.groups) == set(pairs)
    prev = fieldcal.estimate(truth.binary_lab(), field, **truth.PLAIN)
    np.testing.assert_allclose(new_scores(engine, prev, table), expected(prev, table), rtol=0, atol=1e-12)


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
def test_fault_17_and_20_columns_of_any_name_are_read_and_written(local_engine):
    names = HOSTILE
    for score, group in zip(names[::2], names[1::2], strict=True):
        others = {f"x{name}": rows()["year"] for name in (score, group)}
        whole_run(
            local_engine, pa.table({score: rows()["p"], group: rows()["town"], **others}), score, [group]
        )


def test_fault_20_a_column_named_like_a_pattern_is_refused(engine):
    for name in ("*", "^p.*$"):
        for names in (["p", "town", name], [name, "town", "p"]):
            table = pa.table([rows()["p"], rows()["town"], rows()["year"]], names=names)
            with pytest.raises(InputError, match=rf"'{re.escape(name)}' is named like a pattern.*Rename"):
                whole_run(engine, table, names[0], ["town"])


def test_fault_20_columns_of_any_name_are_read_and_written_on_spark(spark):
    odd = {f"other {name}": pa.array(np.arange(90)) for name in HOSTILE}
    table = pa.table({"a.`p`;'\"": rows()["p"], "to`wn.x": rows()["town"], "ye.ar": rows()["year"], **odd})
    whole_run(Engine("spark", spark), table, "a.`p`;'\"", ["to`wn.x", "ye.ar"])


@pytest.mark.conformance
def test_fault_17_groups_of_any_text_are_kept_as_they_are(engine):
    table = with_towns([v for v in HOSTILE for _ in range(3)])
    field = whole_run(engine, table, "p", ["town"])
    assert set(field.groups) == set(HOSTILE)
    assert fieldcal.Field.from_json(field.to_json()) == field


def test_fault_17_long_names_and_values_are_shortened_in_what_is_said():
    text = "x" * 10_000
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


OURS = ["bin", "n", "count", "estimate", "rows", "valid", "unused", "c0", "index", "literal", "len"]
OURS += ["fieldcal_rows", "fieldcal_valid", "fieldcal_below_1", "fieldcal_units_2", "small_table"]
OURS += [f"__fieldcal_{name}" for name in ("row", "key_0", "score_0", "ratio_0")] + ["__FIELDCAL_KEY_0_NULL"]


@pytest.mark.conformance
def test_fault_18_columns_named_like_ours_are_columns_like_any(engine):
    for score, group in [
        ("bin", "n"),
        ("fieldcal_valid", "count"),
        ("__fieldcal_score_0", "__fieldcal_key_0"),
    ]:
        others = {name: rows()["year"] for name in OURS if name not in (score, group)}
        table = pa.table({**others, score: rows()["p"], group: rows()["town"]})
        whole_run(engine, table, score, [group])


def test_fault_19_names_that_appear_twice_are_refused_and_listed():
    frames = [
        pd.DataFrame([[0.1, 0.2, 1]], columns=["p", "p", "x"]),
        pa.table([[0.1], [0.2], [1]], names=["p", "p", "x"]),
    ]
    for frame in frames:
        for call in (
            lambda frame: tables.count(truth.binary_lab(), frame),
            lambda frame: tables.recalibrate(prevalence(), frame),
            lambda frame: tables.learn(frame, scores="p", label="x"),
        ):
            with pytest.raises(InputError, match=r"appear more than once: 'p' \(2 times\)\. Rename or drop"):
                call(frame)


def test_fault_19_names_that_appear_twice_are_refused_on_spark(spark):
    frame = Engine("spark", spark).make(p=[0.1], q=[0.2]).toDF("p", "p")
    with pytest.raises(InputError, match=r"appear more than once: 'p' \(2 times\)"):
        tables.count(truth.binary_lab(), frame)


MISSING = [
    ({"scores": "pp"}, r"no column 'pp' for the scores\. Did you mean 'p'\?.*'p', 'town', 'year'"),
    ({"by": "twon"}, r"no column 'twon' for the groups\. Did you mean 'town'\?"),
    ({"by": ["town", "Year"]}, r"no column 'Year' for the groups\. Did you mean 'year'\?"),
    ({"by": "zzz"}, r"no column 'zzz' for the groups\. The table has 'p', 'town', 'year'"),
    ({"by": ["town", "town"]}, r"\['town', 'town'\] name one twice"),
]


@pytest.mark.parametrize(("options", "message"), MISSING, ids=["score", "group", "case", "none", "twice"])
def test_fault_19_names_that_are_not_there_are_refused_with_a_close_match(engine, options, message):
    with pytest.raises(InputError, match=message):
        tables.count(truth.binary_lab(), engine.make(rows()), **options)


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


@pytest.mark.parametrize("threads", [1, 2, 7])
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
def test_fault_50_the_order_of_rows_changes_nothing(local_engine):
    shuffled = log().take(np.random.default_rng(0).permutation(len(log())))
    field = tables.count(truth.binary_lab(), local_engine.make(shuffled), by=["town", "year"])
    assert field.to_json() == reference()[0].to_json()


def test_fault_50_shards_of_different_engines_merge_in_any_order():
    names = ["pandas", "polars", "polars-lazy", "pyarrow", "duckdb", "pandas-pyarrow"]
    size = len(log()) // len(names)
    shards = [
        tables.count(truth.binary_lab(), Engine(name).make(log().slice(size * i, size)), by=["town", "year"])
        for i, name in enumerate(names)
    ]
    for order in (range(6), np.random.default_rng(1).permutation(6)):
        assert sum(shards[i] for i in order).to_json() == reference()[0].to_json()


def test_fault_50_spark_in_any_number_of_partitions_counts_the_same(spark):
    frame = Engine("spark", spark).make(log())
    field = tables.count(truth.binary_lab(), frame.repartition(5), by=["town", "year"])
    assert field.to_json() == reference()[0].to_json()
