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
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes().map(lambda moment: moment.replace(fold=0)),
    st.datetimes(timezones=st.just(dt.UTC)).map(lambda moment: moment.replace(fold=0)),
    st.times().map(lambda time: time.replace(fold=0)),
    st.uuids(),
    st.binary(max_size=8),
    st.sampled_from([1, "1", 1.0, True, 0, 0.0, -0.0, False, "", "a|b", ("a", "b"), (), ((),)]),
)
any_key = st.recursive(plain, lambda parts: st.tuples(parts, parts), max_leaves=4)


def shown(found):
    """repr tells 1, "1", 1.0 and True apart where == does not."""
    return [repr(k) for k in found]


@settings(max_examples=300, deadline=None)
@given(any_key)
def test_every_key_survives_json_with_its_type(key):
    key = group_keys.normalize(key)
    text = json.dumps(group_keys.encode(key))
    again = group_keys.decode(json.loads(text))
    assert repr(again) == repr(key)
    assert json.dumps(group_keys.encode(again)) == text


@settings(max_examples=200, deadline=None)
@given(st.lists(any_key, max_size=12), st.randoms(use_true_random=False))
def test_the_keys_found_do_not_depend_on_the_order_of_the_rows(rows, random):
    found, codes = group_keys.factorize(rows, n=len(rows))
    mixed = rows.copy()
    random.shuffle(mixed)
    again, _ = group_keys.factorize(mixed, n=len(rows))
    assert shown(again) == shown(found)
    assert group_keys.distinct(found)
    assert shown(found[c] for c in codes) == shown(map(group_keys.normalize, rows))


@settings(max_examples=100, deadline=None)
@given(st.lists(any_key, max_size=8), st.lists(any_key, max_size=8))
def test_the_union_of_two_sets_of_keys_is_what_all_rows_together_give(one, two):
    first, _ = group_keys.factorize(one, n=len(one))
    second, _ = group_keys.factorize(two, n=len(two))
    both, _ = group_keys.factorize(one + two, n=len(one) + len(two))
    assert shown(group_keys.union(first, second)) == shown(group_keys.union(second, first)) == shown(both)
    assert (group_keys.positions(both, first) >= 0).all()


def test_keys_are_sorted_by_type_then_value_and_null_comes_last():
    found, _ = group_keys.factorize([None, "b", 2, "a", 10, True, 1.5], n=7)
    assert found == (True, 1.5, 2, 10, "a", "b", None)


def test_keys_that_cannot_be_compared_still_have_one_order():
    moments = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2019, 1, 1)]
    one, _ = group_keys.factorize(moments, n=3)
    two, _ = group_keys.factorize(moments[::-1], n=3)
    assert one == two


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ([decimal.Decimal("1.50"), decimal.Decimal("1.5")], decimal.Decimal("1.5")),
        ([decimal.Decimal("1E+2"), decimal.Decimal("100.0")], decimal.Decimal("100")),
        ([decimal.Decimal("0.00"), decimal.Decimal("-0")], decimal.Decimal("0")),
        ([0.0, -0.0], 0.0),
        ([np.float64(0.5), 0.5, np.float32(0.5), np.longdouble(0.5)], 0.5),
        ([np.int8(3), 3, np.uint64(3)], 3),
        ([np.bool_(True), True], True),
        ([np.str_("a"), "a"], "a"),
        ([np.bytes_(b"a"), b"a"], b"a"),
        ([np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01")], dt.datetime(2020, 1, 1)),
        ([None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), decimal.Decimal("NaN")], None),
    ],
)
def test_different_spellings_of_a_key_are_one_key_in_any_order(many, one):
    for rows in (many, many[::-1]):
        found, codes = group_keys.factorize(rows, n=len(rows))
        assert shown(found) == [repr(one)]
        assert not codes.any()


def test_long_decimals_are_not_rounded():
    long = decimal.Decimal("1." + "1" * 60)
    assert group_keys.normalize(long) == long
    assert group_keys.normalize(decimal.Decimal("1E+5000000")) == decimal.Decimal("1E+5000000")


def test_enums_become_the_value_that_a_file_gives_back():
    class Colour(enum.StrEnum):
        RED = "red"

    class Level(enum.IntEnum):
        LOW = 1

    class Old(str, enum.Enum):  # noqa: UP042
        RED = "red"

    found, _ = group_keys.factorize([Colour.RED, Old.RED, "red", Level.LOW, 1], n=5)
    assert shown(found) == ["1", "'red'"]


@pytest.mark.parametrize(
    "groups",
    [
        ["b", "a", "b"],
        ("b", "a", "b"),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        np.array([["b"], ["a"], ["b"]]),
        pd.Series(["b", "a", "b"], index=[5, 5, 5]),
        pd.Index(["b", "a", "b"]),
        pd.Categorical(["b", "a", "b"]),
        pd.DataFrame({"g": ["b", "a", "b"]}),
        pl.Series(["b", "a", "b"]),
        pl.Series(["b", "a", "b"], dtype=pl.Categorical),
        pl.DataFrame({"g": ["b", "a", "b"]}),
        pa.array(["b", "a", "b"]),
        pa.array(["b", "a", "b"]).dictionary_encode(),
        pa.table({"g": ["b", "a", "b"]}),
        iter(["b", "a", "b"]),
    ],
    ids=lambda g: type(g).__module__.split(".")[0] + "-" + type(g).__name__,
)
def test_every_kind_of_column_gives_the_same_keys(groups):
    found, codes = group_keys.factorize(groups, n=3)
    assert found == ("a", "b")
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "groups",
    [
        pd.DataFrame({"c": ["x", "x", "y"], "year": [1, 1, 2]}),
        pl.DataFrame({"c": ["x", "x", "y"], "year": [1, 1, 2]}),
        pa.table({"c": ["x", "x", "y"], "year": [1, 1, 2]}),
        [("x", 1), ("x", 1), ("y", 2)],
        np.array([["x", 1], ["x", 1], ["y", 2]], dtype=object),
    ],
    ids=["pandas", "polars", "pyarrow", "tuples", "numpy"],
)
def test_several_columns_make_tuples(groups):
    found, codes = group_keys.factorize(groups, n=3)
    assert shown(found) == ["('x', 1)", "('y', 2)"]
    assert codes.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "values",
    [
        np.array([5, -3, 5, 10**12, 0]),
        np.array([2**63 - 1, -(2**63), 0]),
        np.array([2**64 - 1, 2**63, 0], dtype=np.uint64),
        np.array([-(2**63)] * 3),
        np.array([2**63 - 1] * 3 + [2**63 - 5]),
        np.array([3, 1, 2], dtype=np.int8),
        np.array([-128, 127], dtype=np.int8),
        np.array([True, False, True]),
        np.array([], dtype=int),
        np.array([7]),
    ],
    ids=repr,
)
def test_whole_numbers_of_any_range_are_found_like_any_object(values):
    fast = group_keys.factorize(values, n=len(values))
    slow = group_keys.factorize(values.tolist(), n=len(values))
    assert shown(fast[0]) == shown(slow[0])
    assert fast[1].tolist() == slow[1].tolist()


@pytest.mark.parametrize("groups", ["abc", b"abc", 5, None, np.array(5), np.array("abc"), object()])
def test_what_is_no_column_is_refused(groups):
    with pytest.raises(FieldcalError, match="one key per row"):
        group_keys.factorize(groups, n=3)


def test_columns_of_another_length_and_keys_that_cannot_be_hashed_are_refused():
    with pytest.raises(InputError, match="3 predictions but 2 groups"):
        group_keys.factorize(["a", "b"], n=3)
    with pytest.raises(InputTypeError, match="hashable"):
        group_keys.factorize([["a"], ["b"]], n=2)
    with pytest.raises(InputTypeError, match="hashable"):
        group_keys.factorize([{"a": 1}], n=1)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (float("inf"), InputError),
        (object(), InputTypeError),
        (frozenset({1}), InputTypeError),
        (1 + 2j, InputTypeError),
        (pd.Interval(0, 1), InputTypeError),
        (dt.timedelta(1), InputTypeError),
        (("a", object()), InputTypeError),
    ],
)
def test_keys_that_json_cannot_hold_are_refused_when_saved(key, error):
    with pytest.raises(error, match="cannot be saved"):
        group_keys.encode(key)


def test_tuples_nested_without_end_are_refused_both_ways():
    deep: tuple = ()
    for _ in range(100):
        deep = (deep,)
    with pytest.raises(InputTypeError, match="cannot be saved"):
        group_keys.encode(deep)
    with pytest.raises(ArtefactError, match="nested too deep"):
        group_keys.decode(json.loads("[" * 100 + "]" * 100))


@pytest.mark.parametrize(
    "value",
    [
        {"uuid": "{12345678-1234-5678-1234-567812345678}"},
        {"bytes": "AB"},
        {"date": "2020-W01-1"},
        {"datetime": "2020-01-01"},
        {"decimal": "1.50"},
        {"decimal": " 1"},
    ],
    ids=repr,
)
def test_a_file_in_another_spelling_is_refused_because_it_would_not_save_to_the_same_bytes(value):
    with pytest.raises(ArtefactError, match="spelling"):
        group_keys.decode(value)


def test_keys_are_shown_short_and_on_one_line():
    assert group_keys.show(None) == "(null)"
    assert group_keys.show("a\nb\u202ec") == "a·b·c"
    assert group_keys.show(("x", 1, None)) == "x, 1, (null)"
    assert len(group_keys.show("x" * 10_000)) == 40
    assert group_keys.show(uuid.UUID(int=0)).startswith("00000000-")


def test_arranging_gives_what_factorizing_gives():
    rng = np.random.default_rng(0)
    text = [f"g{i}" for i in rng.permutation(200)]
    pairs = [(f"a{i % 7}", int(i)) for i in rng.permutation(200)]
    gaps = [(None if i % 3 == 0 else "x", None if i % 5 == 0 else int(i)) for i in range(60)]
    gaps = list(dict.fromkeys(gaps))
    for values in (
        text,
        pairs,
        gaps,
        [*text, None],
        [*text, "g1"],
        [1, "1", True, 1.0],
        [("a", 1), ("a", True)],
        [],
    ):
        arranged, expected = (
            group_keys.arrange(list(values)),
            group_keys.factorize(list(values), n=len(values)),
        )
        assert repr(arranged[0]) == repr(expected[0])
        np.testing.assert_array_equal(arranged[1], expected[1])


def test_equal_moments_in_two_zones_are_one_key_with_one_spelling():
    here = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    there = dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)
    for order in ([here, there], [there, here]):
        found, _ = group_keys.factorize(order, n=2)
        assert [k.isoformat() for k in found] == ["2024-01-01T10:00:00+00:00"]
