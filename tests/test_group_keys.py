"""Group keys: kept apart by type, in one order, to JSON and back."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldcal.errors import ArtefactError, FieldcalError, InputError, InputTypeError
from fieldcal.objects import group_keys

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.integers(-(2**53) + 1, 2**53 - 1).map(float),
    st.dates(),
    st.datetimes().map(lambda moment: moment.replace(fold=0)),
    st.datetimes(timezones=st.just(dt.UTC)).map(lambda moment: moment.replace(fold=0)),
    st.sampled_from([1, "1", 1.0, True, 0, 0.0, -0.0, False, "", "a|b", ("a", "b"), (), ((),)]),
)
any_key = st.recursive(plain, lambda parts: st.tuples(parts, parts), max_leaves=4)


def shown(found):
    """repr tells 1, "1", 1.0 and True apart where == does not."""
    return [repr(k) for k in found]


@settings(max_examples=150, deadline=None)
@given(any_key)
def test_every_key_survives_json_with_its_type(key):
    key = group_keys.normalize(key)
    text = json.dumps(group_keys.encode(key))
    again = group_keys.decode(json.loads(text))
    assert repr(again) == repr(key)
    assert json.dumps(group_keys.encode(again)) == text


@settings(max_examples=100, deadline=None)
@given(st.lists(any_key, max_size=12), st.randoms(use_true_random=False))
def test_the_keys_found_do_not_depend_on_the_order_of_the_rows(rows, random):
    found, codes = group_keys.factorize(rows, n=len(rows))
    mixed = rows.copy()
    random.shuffle(mixed)
    again, _ = group_keys.factorize(mixed, n=len(rows))
    assert shown(again) == shown(found)
    assert group_keys.distinct(found)
    assert shown(found[c] for c in codes) == shown(map(group_keys.normalize, rows))


def test_times_with_and_without_a_zone_do_not_compare_and_still_have_one_order_among_others():
    old, new, zoned = dt.datetime(2019, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(2019, 6, 1, tzinfo=dt.UTC)
    rows = [10, new, zoned, 9, old]
    for order in (rows, rows[::-1]):
        assert group_keys.factorize(order, n=5)[0] == (old, new, zoned, 9, 10)
    assert not group_keys.in_order((old, zoned, new, 9, 10))
    found, _ = group_keys.factorize([None, "b", 2, "a", 10, True, 1.0], n=7)
    assert shown(found) == ["True", "1", "2", "10", "'a'", "'b'", "None"]


def test_different_spellings_of_a_key_are_one_key_in_any_order():
    for many, one in (
        ([0.0, -0.0, 0], 0),
        ([np.float64(3), 3.0, np.float32(3), np.longdouble(3), np.float16(3)], 3),
        ([np.int8(3), 3, np.uint64(3)], 3),
        ([np.bool_(True), True], True),
        ([np.str_("a"), "a"], "a"),
        ([np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01")], dt.datetime(2020, 1, 1)),
        (
            [None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT", "ns"), decimal.Decimal("NaN")],
            None,
        ),
    ):
        for rows in (many, many[::-1]):
            found, codes = group_keys.factorize(rows, n=len(rows))
            assert shown(found) == [repr(one)]
            assert not codes.any()


def test_every_kind_of_column_gives_the_same_keys():
    for groups in (
        ("b", "a", "b"),
        np.array(["b", "a", "b"]),
        np.array([["b"], ["a"], ["b"]], dtype=object),
        pd.Series(["b", "a", "b"], index=[5, 5, 5]),
        pd.Index(["b", "a", "b"]),
        pd.Categorical(["b", "a", "b"]),
        pd.DataFrame({"g": ["b", "a", "b"]}),
        pl.Series(["b", "a", "b"], dtype=pl.Categorical),
        pl.DataFrame({"g": ["b", "a", "b"]}),
        pa.array(["b", "a", "b"]).dictionary_encode(),
        pa.table({"g": ["b", "a", "b"]}),
        iter(["b", "a", "b"]),
    ):
        found, codes = group_keys.factorize(groups, n=3)
        assert found == ("a", "b")
        assert codes.tolist() == [1, 0, 1]
    for gaps in (pd.Series([1, 2, None]), np.array([1.0, 2.0, np.nan]), pl.Series([1.0, 2.0, None])):
        assert shown(group_keys.factorize(gaps, n=3)[0]) == ["1", "2", "None"]


def test_several_columns_make_tuples():
    for groups in (
        pd.DataFrame({"c": ["x", "x", "y"], "year": [1, 1, 2]}),
        pl.DataFrame({"c": ["x", "x", "y"], "year": [1, 1, 2]}),
        pa.table({"c": ["x", "x", "y"], "year": [1, 1, 2]}),
        [("x", 1), ("x", 1), ("y", 2)],
        np.array([["x", 1], ["x", 1], ["y", 2]], dtype=object),
    ):
        found, codes = group_keys.factorize(groups, n=3)
        assert shown(found) == ["('x', 1)", "('y', 2)"]
        assert codes.tolist() == [0, 0, 1]


def test_whole_numbers_of_any_range_are_found_like_any_object():
    for values in (
        np.array([5, -3, 5, 10**12, 0]),
        np.array([2**63 - 1, -(2**63), 0]),
        np.array([2**64 - 1, 2**63, 0], dtype=np.uint64),
        np.array([2**63 - 1] * 3 + [2**63 - 5]),
        np.array([-128, 127], dtype=np.int8),
        np.array([True, False, True]),
        np.array([], dtype=int),
    ):
        fast = group_keys.factorize(values, n=len(values))
        slow = group_keys.factorize(values.tolist(), n=len(values))
        assert shown(fast[0]) == shown(slow[0])
        assert fast[1].tolist() == slow[1].tolist()


def test_what_is_no_column_is_refused():
    for groups in ("abc", b"abc", 5, None, np.array("abc"), object()):
        with pytest.raises(FieldcalError, match="one key per row"):
            group_keys.factorize(groups, n=3)
    with pytest.raises(InputError, match="3 predictions but 2 groups"):
        group_keys.factorize(["a", "b"], n=3)
    with pytest.raises(InputTypeError, match=r"of type list.*use str\("):
        group_keys.factorize([["a"], ["b"]], n=2)


def test_keys_of_other_types_are_refused_and_told_to_be_text():
    for key in (
        decimal.Decimal("1.5"),
        uuid.UUID(int=7),
        b"1",
        dt.time(12),
        np.timedelta64(1, "D"),
        object(),
        1 + 2j,
        pd.Period("2020-01"),
        enum.Enum("Colour", "RED").RED,
        frozenset({"x" * 10_000}),  # what is refused is shown short
    ):
        for rows in ([key], ["a", key], [("a", key)]):
            with pytest.raises(
                InputTypeError, match=r"^The key .* is of type .*tuples of these: use str\(…\)\.$"
            ) as caught:
                group_keys.factorize(rows, n=len(rows))
            assert len(str(caught.value)) < 250
        with pytest.raises(InputTypeError, match="cannot be saved"):
            group_keys.encode(key)


def test_floats_that_are_no_whole_numbers_are_refused_with_what_pandas_users_need_to_know():
    for key in (1.5, -0.1, float("inf"), 2.0**53, 1e300, np.float32(0.1)):
        with pytest.raises(
            InputTypeError, match=r"use str\(…\), or round it.*pandas column with gaps: 1\.0 is the key 1"
        ):
            group_keys.factorize([key, 1.0], n=2)


def test_tuples_nested_without_end_are_refused_both_ways():
    deep: tuple = ()
    for _ in range(100):
        deep = (deep,)
    with pytest.raises(InputTypeError, match="cannot be saved"):
        group_keys.encode(deep)
    with pytest.raises(ArtefactError, match="nested too deep"):
        group_keys.decode(json.loads("[" * 100 + "]" * 100))


def test_a_file_in_another_spelling_is_refused_because_it_would_not_save_to_the_same_bytes():
    for value in (
        {"date": "20200101"},
        {"datetime": "2020-01-01"},
        {"datetime": "2020-01-01T10:00:00+02:00"},
    ):
        with pytest.raises(ArtefactError, match="did not write"):
            group_keys.decode(value)
    for value in (1.5, {"decimal": "1"}, ["a", {"bytes": "ab"}]):
        with pytest.raises(ArtefactError, match="unknown kind"):
            group_keys.decode(value)


def test_arranging_gives_what_factorizing_gives():
    rng = np.random.default_rng(0)
    text = [f"g{i}" for i in rng.permutation(200)]
    pairs = [(f"a{i % 7}", int(i)) for i in rng.permutation(200)]
    gaps = list(dict.fromkeys((None if i % 3 == 0 else "x", None if i % 5 == 0 else i) for i in range(60)))
    for values in (
        text,
        pairs,
        gaps,
        [*text, None],
        [*text, "g1"],
        [1, "1", True, 1.0],
        [("a", 1), ("a", True)],
    ):
        arranged, expected = group_keys.arrange(list(values)), group_keys.factorize(values, n=len(values))
        assert repr(arranged[0]) == repr(expected[0])
        np.testing.assert_array_equal(arranged[1], expected[1])
