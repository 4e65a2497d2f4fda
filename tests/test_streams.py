"""Streams: batches that are added once and taken out exactly, windows of time, shards in any order."""

from __future__ import annotations

import copy
import datetime as dt
import functools
import itertools
import json
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fieldcal
from fieldcal import Field, storage
from fieldcal.errors import ArtefactError, InputError, InputTypeError
from fieldcal.objects import SCORE_UNIT, UNNAMED, Batch

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.WeightWarning")

UTC = dt.UTC
GROUPS = (
    None,
    "a",
    "b",
    1,
    True,
    ("a", None),
    ("a", 1),
    ("a", True),
    dt.date(2020, 2, 29),
    dt.datetime(2020, 2, 29, 12),
    dt.datetime(2020, 2, 29, 12, tzinfo=UTC),  # does not compare with the one before
)
SCORES = (0.0, 0.1, 0.3, 0.5, 0.75, 1.0, float("nan"))
WEIGHTS = (1.0, 2.0, 0.1, 1 / 3, 1e9, 1e-9)
IDS = ("2020-01-01", "2020-01-02", "2020-02-01", "10", "9", "Zürich 🐭")


@functools.cache
def lab():
    data = fieldcal.datasets.label_shift(n_lab=600, random_state=4)
    return fieldcal.learn(data.proba_lab, data.y_lab, partition=5)


def field(rows, *, batch=None, weighted=False):
    """The field of (score, group, weight)."""
    scores, groups, weights = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    weight = np.array(weights) if weighted and rows else None
    return fieldcal.count(
        lab(), np.array(scores, float), groups=groups, sample_weight=weight, missing="drop", batch=batch
    )


def of(parts, *, weighted=False):
    """The field of a dictionary of rows per id; those of None have no name."""
    return sum(
        field(rows, batch=id, weighted=weighted)
        for id, rows in sorted(parts.items(), key=lambda p: str(p[0]))
    )


def rows(least=0):
    row = st.tuples(st.sampled_from(SCORES), st.sampled_from(GROUPS), st.sampled_from(WEIGHTS))
    return st.lists(row, min_size=least, max_size=8)


def streams(least=0):
    """Rows per id; always some without one, be it none at all."""
    named = st.dictionaries(st.sampled_from(IDS), rows(), min_size=least, max_size=len(IDS))
    return st.builds(lambda unnamed, batches: {None: unnamed, **batches}, rows(), named)


def sound(made):
    """Loading checks that the totals are those of the parts, to the last bit."""
    assert Field.from_json(made.to_json()) == made
    return made


# Properties


@settings(max_examples=60, deadline=None)
@given(stream=streams(), weighted=st.booleans(), order=st.randoms(use_true_random=False))
def test_batches_merge_to_the_same_bytes_in_any_order_and_any_bracketing(stream, weighted, order):
    shards = [field(some, batch=id, weighted=weighted) for id, some in stream.items()]
    while len(shards) > 1:
        one = shards.pop(order.randrange(len(shards)))
        two = shards.pop(order.randrange(len(shards)))
        shards.append(one + two)
        assert one + two == two + one
    assert sound(shards[0]).to_json() == of(stream, weighted=weighted).to_json()


@settings(max_examples=60, deadline=None)
@given(stream=streams(), weighted=st.booleans(), data=st.data())
def test_any_run_of_adding_and_retracting_ends_in_the_field_of_what_is_left(stream, weighted, data):
    now, left = field(stream[None], weighted=weighted), {None: stream[None]}
    for id in data.draw(st.lists(st.sampled_from([id for id in stream if id] or ["x"]), max_size=12)):
        if id in left:
            now = now.retract(id)
            del left[id]
        else:
            left[id] = stream.get(id, [])
            now = now.add(field(left[id], weighted=weighted), id)
            assert now.add(field(left[id], weighted=weighted), id) is now
    assert now.to_json() == of(left, weighted=weighted).to_json()


# Adding


def one_population(scores, **options):
    return fieldcal.count(lab(), scores, **options)


def test_the_same_id_with_other_counts_asks_to_retract_first():
    made = field([]).add(field([(0.1, "a", 1)]), "monday")
    others = ([(0.1, "b", 1)], [(0.9, "a", 1)], [(0.1, "a", 1), (np.nan, "a", 1)], [(0.1, "a", 1)] * 2)
    for other in others:
        with pytest.raises(InputError, match=r"'monday' exists already, with other.*retract\('monday'\)"):
            made.add(field(other), "monday")
    assert made.retract("monday").add(field([(0.9, "a", 1)]), "monday").n.tolist() == [1]
    for group, other in ((1, True), (("a", 1), ("a", True))):  # that look alike
        with pytest.raises(InputError, match="other counts"):
            field([(0.1, group, 1)], batch="x").add(field([(0.1, other, 1)]), "x")


def test_a_batch_counted_under_its_name_can_be_added_under_it_and_under_no_other():
    monday = field([(0.1, "a", 1)], batch="monday")
    assert field([]).add(monday, "monday").to_json() == monday.to_json()
    with pytest.raises(InputError, match=r"has batches already, the first is 'monday'.*field \+ other"):
        field([]).add(monday, "tuesday")
    with pytest.raises(InputError, match="has batches already"):
        field([]).add(monday + field([(0.1, "a", 1)]), "monday")


def test_adding_takes_a_field_and_a_name():
    made = field([(0.1, "a", 1)])
    with pytest.raises(InputTypeError, match=r"add takes a Field, but got list.*Count it first"):
        made.add([0.1, 0.2], "x")
    with pytest.raises(InputTypeError, match="named by a string, but got 7"):
        made.add(made, 7)
    for bad in ("", "half \ud800"):
        with pytest.raises(InputError, match="cannot name a batch"):
            made.add(made, bad)
    with pytest.raises(InputError, match="cannot name a batch"):
        one_population([0.1], batch="")


def test_a_batch_of_another_lab_is_refused_even_where_its_name_is_known():
    data = fieldcal.datasets.label_shift(n_lab=600, random_state=5)
    other = fieldcal.learn(data.proba_lab, data.y_lab, partition=5)
    made = one_population([0.1], batch="x")
    for id in ("x", "y"):
        with pytest.raises(InputError, match="different labs"):
            made.add(fieldcal.count(other, [0.1]), id)


# Retracting


def test_retracting_takes_back_what_was_dropped_and_clipped():
    made = one_population([0.5]).add(one_population([np.nan, 1 + 1e-9, 0.2], missing="drop"), "x")
    assert (made.dropped, made.clipped) == (1, 1)
    assert (made.retract("x").dropped, made.retract("x").clipped) == (0, 0)


def test_one_population_stays_one_when_its_last_batch_goes():
    made = one_population([0.5, 0.1], batch="x")
    empty = sound(made.retract("x"))
    assert (empty.groups, empty.n.tolist(), empty.batches) == ((None,), [0], {})
    assert empty.add(one_population([0.5, 0.1]), "x").to_json() == made.to_json()


def test_an_unknown_id_gives_the_nearest_and_says_how_many_there_are():
    made = field([], batch="monday") + field([], batch="tuesday")
    with pytest.raises(InputError, match=r"no batch 'mondya' among the 2 here\. Did you mean 'monday'\?"):
        made.retract("mondya")
    with pytest.raises(InputError, match=r"no batch 7 among the 2 here\. See"):
        made.only([7])
    with pytest.raises(InputError, match="there are none"):
        field([(0.1, "a", 1)]).retract("monday")


def test_counts_beyond_62_bits_become_floats_and_come_back_as_whole_numbers():
    one = one_population([0.1])
    big = counted_as(one, score_sums=np.full((1, 2), 2**61 + 1))
    two = sound(big.add(big, "x"))
    assert two.score_sums.dtype == np.float64
    three = sound(two.add(big, "y").add(one, "z"))
    assert (three.score_sums > 2.0**62).all()
    np.testing.assert_allclose(three.mean_prediction, 0.5)
    assert three.retract("z").retract("y").to_json() == two.to_json()
    assert two.retract("x").to_json() == big.to_json()
    assert (one.add(big, "x").add(big, "y")).retract("y").score_sums.dtype == np.int64


def test_batches_beyond_62_bits_merge_to_the_same_bytes_in_any_order():
    def batch(units, id):
        return counted_as(one_population([0.1]), score_sums=np.full((1, 2), units)).named(id)

    shards = [batch(2**61, "x"), batch(2**61, "y"), batch(2**29 + 511, "a"), batch(2**29 + 511, "b")]
    merged = {sum(order).to_json() for order in itertools.permutations(shards)}
    assert len(merged) == 1
    assert merged == {sound(sum(shards)).to_json()}


def test_weights_that_add_up_to_a_whole_number_by_chance_do_so_in_no_order_or_in_all():
    def batch(weight, id):
        return one_population([0.5], sample_weight=[weight]).named(id)

    shards = [batch(0.2, "1"), batch(0.7, "2"), batch(0.1, "3")]
    assert 0.2 + 0.7 + 0.1 != 0.1 + 0.2 + 0.7 == 1
    assert len({sum(order).to_json() for order in itertools.permutations(shards)}) == 1
    half = batch(0.5, "1") + batch(0.5, "2")
    assert half.n.dtype == np.int64
    assert half.retract("2").to_json() == batch(0.5, "1").to_json()
    three = half + batch(1.5, "3")
    assert three.retract("1").n.tolist() == [2]


def test_a_batch_made_by_hand_is_checked_like_one_from_a_file():
    one = field([(0.1, "a", 1), (0.9, "b", 1)])
    with pytest.raises(ValueError, match=r"V has shape \(2, 4\), not \(2, 5\)"):
        counted_as(one, V=one.V[:, 1:])
    scrambled = Field(**{**_fields(one), "batches": dict.fromkeys(("b", "a", UNNAMED), one.batches[UNNAMED])})
    assert scrambled.to_json() == one.add(one, "a").add(one, "b").to_json()


# Windows


def days(*ids):
    return sum(field([(0.1, "a", 1)] * (i + 1), batch=id) for i, id in enumerate(ids))


def test_a_window_holds_its_start_and_not_its_end():
    made = days("2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04")
    assert made.window("2020-01-02", "2020-01-04").batch_ids == ("2020-01-02", "2020-01-03")
    assert made.window("2020-01-02", "2020-01-04").n.tolist() == [5]
    assert made.window(dt.date(2020, 1, 3)).batch_ids == ("2020-01-03", "2020-01-04")
    assert made.window(end=dt.datetime(2020, 1, 2, 0, 0, 1)).batch_ids == ("2020-01-01", "2020-01-02")
    assert made.window(np.datetime64("2020-01-04")).batch_ids == ("2020-01-04",)
    assert (made + field([(0.9, "b", 1)])).window() == made
    assert (made + field([(0.9, "b", 1)])).only("2020-01-02").n.tolist() == [2]
    assert made.window("2021-01-01").groups == ()
    assert one_population([0.1], batch="2020-01-01").window("2021-01-01").n.tolist() == [0]


def test_times_are_compared_as_times_and_not_as_text():
    made = days("2020-03-29T01:30:00+00:00", "2020-03-29T01:45:00+01:00")
    assert made.window("2020-03-29T01:00Z").batch_ids == ("2020-03-29T01:30:00+00:00",)
    assert made.window(None, dt.datetime(2020, 3, 29, 1, tzinfo=UTC)).batch_ids == (
        "2020-03-29T01:45:00+01:00",
    )
    mixed = days("2020-01-01", "2020-01-01T12:00:00")
    assert mixed.window("2020-01-01T06:00").batch_ids == ("2020-01-01T12:00:00",)


def test_bounds_that_are_no_times_are_named():
    made = days("2020-01-01", "2020-01-02")
    for id in ("monday", "2020-13-01", "20200101", "2020-01", "0"):
        with pytest.raises(InputError, match=rf"ISO format.*the batch id is '{id}'.*only\("):
            days("2020-01-01", id).window("2020-01-01")
    with pytest.raises(InputError, match=r"ISO format.*but start is 'January'"):
        made.window("January")
    with pytest.raises(InputTypeError, match=r"end must be a date.*2020"):
        made.window(None, 2020)
    with pytest.raises(InputError, match=r"starts at 2020-01-02.*ends before.*2020-01-01"):
        made.window("2020-01-02", "2020-01-01")
    with pytest.raises(InputError, match="no batches, so no windows"):
        field([(0.1, "a", 1)]).window("2020-01-01")
    with pytest.raises(InputTypeError, match="only takes the names of batches, but got 5"):
        made.only(5)
    with pytest.raises(InputError, match="with and without an offset"):
        days("2020-01-01T00:00", "2020-01-02T00:00+00:00").window("2020-01-01")
    with pytest.raises(InputError, match="with and without an offset"):
        made.window(dt.datetime(2020, 1, 1, tzinfo=UTC))


# Columns


def by(names, groups=("a", "b")):
    made = field([(0.1, group, 1) for group in groups])
    return Field(**{**_fields(made), "by": names})


def test_the_names_of_the_columns_survive_merging_naming_and_saving():
    plain, named = by(()), by(("city",))
    assert (plain + named).by == (named + plain).by == (named + named).by == ("city",)
    assert plain + named == named + plain
    made = sound(plain.add(named, "x"))
    assert (made.by, made.only("x").by, made.retract("x").by) == (("city",),) * 3


def test_fields_counted_by_other_columns_refuse_to_merge_and_both_are_named():
    with pytest.raises(InputError, match="counted by 'city' and the other by 'site'"):
        by(("city",)) + by(("site",))
    pair = (("a", 1),)
    with pytest.raises(InputError, match="by 'city', 'year' and the other by 'year', 'city'"):
        by(("city", "year"), pair).add(by(("year", "city"), pair), "x")
    with pytest.raises(InputError, match=r"by 'city', 'year', but the other has the group 'b'"):
        by(("city", "year"), pair) + by((), ["b"])
    assert (by(("city", "year"), pair) + by((), [("b", None)])).by == ("city", "year")
    with pytest.raises(ValueError, match="one value for each of the columns"):
        by(("a", "b"))


def test_one_population_has_no_columns():
    with pytest.raises(ValueError, match="one population"):
        Field(**{**_fields(one_population([0.1])), "by": ("city",)})


# Files and the rest


def _fields(made):
    return {name: getattr(made, name) for name in type(made).model_fields}


def counted_as(made, **changes):
    """A field without names, with other counts, and as many rows as there are predictions."""
    batch = {**_fields(made.batches[UNNAMED]), **changes}
    if "score_sums" in changes:
        rows = np.zeros_like(batch["V"])
        rows[:, 0] = np.round(changes["score_sums"].sum(axis=1, dtype=float) * SCORE_UNIT)
        batch |= {"V": rows, "weight_squares": rows}
    return Field(**{**_fields(made), "batches": {UNNAMED: Batch(**batch)}})


def test_batches_are_frozen_like_everything_else():
    made = field([(0.1, "a", 1)]).add(field([(0.1, "b", 1)]), "x")
    before = made.to_json()
    added = made.add(field([(0.1, "c", 1)]), "y")
    assert made.to_json() == before
    parts = (made, added, added.retract("x"), *added.batches.values())
    arrays = [table for part in parts for table in (part.V, part.score_sums, part.weight_squares)]
    assert all(not table.flags.writeable for table in arrays)
    with pytest.raises(ValueError, match="frozen"):
        made.batches["x"].dropped = 1
    for change in (
        lambda batches: batches.update(y=batches["x"]),
        lambda batches: batches.__setitem__("y", batches["x"]),
        lambda batches: batches.__delitem__("x"),
        lambda batches: batches.__ior__({}),
        *(operator.methodcaller(name, "x") for name in ("pop", "setdefault")),
        *(operator.methodcaller(name) for name in ("popitem", "clear")),
    ):
        with pytest.raises(TypeError, match=r"cannot be changed. Use field.add"):
            change(made.batches)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert hash(made) == hash(Field.from_json(made.to_json()))


def saved():
    """A field with two batches and one without a name, as JSON values."""
    made = field([(0.1, "a", 1), (np.nan, "a", 1)]).add(field([(0.5, "a", 1), (0.9, "b", 1)]), "x")
    return json.loads(made.add(field([(0.7, "b", 1)]), "y").to_json())["content"]


def edited(change):
    content = saved()
    change(content)
    signed = {"fieldcal": "field", "schema": 1, "digest": storage.digest(content), "content": content}
    return storage.canonical(signed)


def part(content, id="x"):
    return content["batches"][id]


DAMAGES = {
    "an id that is no text": lambda c: c["batches"].update({"half \ud800": part(c)}),
    "a list of batches": lambda c: c.update(batches=list(c["batches"].values())),
    "no batches": lambda c: c.update(batches=None),
    "a batch that is a number": lambda c: c["batches"].update({"": 5}),
    "a batch with an unknown field": lambda c: part(c).update(note=1),
    "totals beside the batches": lambda c: c.update(V=part(c)["V"]),
    "a batch without the squares of its weights": lambda c: part(c).pop("weight_squares"),
    "rows whose weights have no squares": lambda c: part(c, "y").update(weight_squares=[[0] * 8]),
    "dropped rows below none": lambda c: part(c).update(dropped=-1),
    "a batch with a bin less": lambda c: part(c, "y").update(V=[[1] * 4]),
    "a batch with a group less": lambda c: part(c).update(groups=["a"]),
    "a batch with a class more": lambda c: part(c, "y").update(score_sums=[[1, 1, 1]]),
    "a batch with its groups in another order": lambda c: part(c).update(
        groups=["b", "a"], V=part(c)["V"][::-1], score_sums=part(c)["score_sums"][::-1]
    ),
    "a batch with a group twice": lambda c: part(c).update(groups=["a", "a"]),
    "a batch with rows that has no groups": lambda c: part(c, "y").update(groups=[]),
    "negative counts": lambda c: part(c, "").update(V=[[-1, 0, 0, 0, 0]]),
    "more columns than the keys have parts": lambda c: c.update(by=["a", "b"]),
    "groups in one population": lambda c: c.update(grouped=False),
    "bins without end and no rows": lambda c: c.update(
        n_bins=10**30, batches={"x": {**part(c), "groups": [], "V": [], "score_sums": []}}
    ),
}


def test_fault_40_parts_that_do_not_fit_together_are_refused():
    for damage in DAMAGES.values():
        with pytest.raises(ArtefactError, match=r"box\.json is corrupt") as caught:
            Field.from_json(edited(damage), name="box.json")
        assert len(str(caught.value)) < 400
