"""One suite over all engines: the counts of numpy to the last bit, its recalibrated values to 1e-12."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math

import numpy as np
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import InputError, InputTypeError
from tables import truth
from tables.engines import same_values

TOWNS = ["York", "Leeds", "", "a|b", "a", None]


@functools.cache
def field_rows(n=300, seed=0):
    """Scores at, just below and just above every edge, 0 and 1 among others; groups with null and ""."""
    rng = np.random.default_rng(seed)
    edges = np.array(truth.binary_lab().partition.edges)
    near = [edges, np.nextafter(edges, 0), np.nextafter(edges, 1), [0.0, 1.0, 5e-324, 1e-300, -0.0]]
    special = np.concatenate(near)
    p = rng.permutation(np.concatenate([special, rng.beta(0.8, 1.2, n - len(special))]))
    return pa.table(
        {
            "id": np.arange(n),
            "p": p,
            "town": pa.array(rng.choice(np.array(TOWNS, dtype=object), n), pa.string()),
            "year": pa.array([int(y) or None for y in rng.choice([0, 2019, 2020], n)], pa.int32()),
            "note": pa.array([None if i % 7 == 0 else f"row {i}" for i in range(n)]),
        }
    )


@functools.cache
def wide_rows(n_classes=3, n=300, seed=0, share=1.0):
    """Several classes; rows of certainty and of ties among them. ``share`` of one is the sum of each row."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, 0.7), n)
    proba[:n_classes] = np.eye(n_classes)
    proba[n_classes : n_classes + 4] = 1 / n_classes
    proba[10:14, :2], proba[10:14, 2:] = 0.5, 0.0
    columns = dict(zip(truth.NAMES, (share * proba).T, strict=False))
    town = rng.choice(np.array(TOWNS, dtype=object), n)
    return pa.table({**{c: x.copy() for c, x in columns.items()}, "town": pa.array(town, pa.string())})


def both_agree(engine, lab, rows, by=(), **options):
    """Count in the engine and as arrays; then recalibrate by that estimate in both. Nothing else may change."""
    frame = engine.make(rows)
    before, types = engine.read(frame), engine.types(frame)
    field = tables.count(lab, frame, by=by, **options)
    truth.assert_same_counts(field, truth.count(lab, rows, by, **options))
    prev = fieldcal.estimate(lab, field, **truth.PLAIN)
    answer = tables.recalibrate(prev, frame, **options)
    new, names = engine.read(answer), [f"{name}_recalibrated" for name in lab.columns.scores]
    truth.assert_same_values(new, names, truth.recalibrate(prev, rows, **options))
    assert list(new) == [*before, *names]
    assert same_values({name: new[name] for name in before}, before)
    assert list(engine.types(answer).items())[: len(types)] == list(types.items())
    assert same_values(engine.read(frame), before)
    return field, new


@pytest.mark.conformance
def test_counts_are_numpys_and_rows_keep_their_order_and_columns(engine):
    for by in ((), ("town",), ("town", "year")):
        rows = field_rows()
        field, new = both_agree(engine, truth.binary_lab(), rows, by)
        assert field.by == by
        assert new["id"] == list(range(len(rows)))


DAY, NOON = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 15, 250_000)
GROUP_COLUMNS = {
    "int8": pa.array([-128, 127, None, 0, 127], pa.int8()),
    "int64": pa.array([2**63 - 1, -(2**63), None, 2**53 + 1, 2**53], pa.int64()),
    "uint64": pa.array([2**64 - 1, 0, None, 1, 1], pa.uint64()),
    "bool": pa.array([True, False, None, False, True]),
    "date": pa.array([DAY, dt.date(1969, 7, 20), None, dt.date(1970, 1, 1), DAY]),
    "seconds": pa.array(
        [NOON.replace(microsecond=0), None, None, dt.datetime(1969, 7, 20), None], pa.timestamp("s")
    ),
    "microseconds": pa.array(
        [NOON, dt.datetime(1, 1, 1), None, dt.datetime(1970, 1, 1), NOON], pa.timestamp("us")
    ),
    "categorical": pa.array(["b", "a", None, "", "b"]).dictionary_encode(),
    "large-text": pa.array(["é", "é", None, "", "A"], pa.large_string()),
}


def holds(engine, kind):
    """pandas has dates and decimals as mere objects, unless pyarrow holds them; Spark has no unsigned numbers."""
    return kind not in {"pandas": NO_TYPE, "pandas-nullable": NO_TYPE, "spark": ("uint64",)}.get(engine, ())


NO_TYPE = ("date", "decimals")


@pytest.mark.conformance
def test_a_key_of_all_types_at_once_is_numpys(engine):
    kinds = [kind for kind in GROUP_COLUMNS if holds(engine.name, kind)]
    rows = pa.table({"p": [0.1, 0.4, 0.6, 0.8, 0.9], **{k: GROUP_COLUMNS[k] for k in kinds}})
    both_agree(engine, truth.binary_lab(), rows, kinds)


EXACT = [0.0, 0.125, 0.25, 0.5, 0.75, 1.0]
SCORE_COLUMNS = {
    "float32": pa.array(EXACT, pa.float32()),
    "float32-rounded": pa.array([0.1, 0.2, 0.3, 0.7, 0.9, 0.99], pa.float32()),
    "integers": pa.array([0, 1, 1, 0, 1, 1], pa.int64()),
    "small-integers": pa.array([0, 1, 1, 0, 1, 1], pa.int8()),
    "truth-values": pa.array([False, True, True, False, True, True]),
    "decimals": pa.array([decimal.Decimal(str(x)) for x in EXACT], pa.decimal128(10, 4)),
}


@pytest.mark.conformance
def test_scores_of_every_type_are_compared_in_float64(engine):
    lab = truth.binary_lab(fieldcal.partitions.Edges([0.1, 0.125, 0.25, 0.3, 0.5, 0.75]))
    rows = pa.table({k: column for k, column in SCORE_COLUMNS.items() if holds(engine.name, k)})
    frame = engine.make(rows)
    for name in rows.column_names:
        found = tables.count(lab, frame, scores=name)
        truth.assert_same_counts(found, truth.count(lab, rows, scores=[name]))


def test_scores_that_are_no_numbers_are_refused(engine):
    for column in (pa.array(["0.2", "0.5"]), pa.array([dt.date(2020, 1, 1), None])):
        with pytest.raises(InputTypeError, match=r"scores in column 'p' must be numbers, but are .*Cast"):
            tables.count(truth.binary_lab(), engine.make(p=column))


GAPS = [0.1, None, 0.9, math.nan, 0.4, None]


@pytest.mark.conformance
def test_missing_scores_are_refused_with_their_number_or_dropped_and_their_groups_stay(engine):
    rows = pa.table({"p": pa.array([1 + 1e-9, *GAPS[1:]]), "town": pa.array(["a", "a", "b", "b", None, "c"])})
    field = tables.count(truth.binary_lab(), engine.make(rows), by="town", missing="drop")
    truth.assert_same_counts(field, truth.count(truth.binary_lab(), rows, ["town"], missing="drop"))
    assert (field.dropped, field.clipped) == (3, 1)
    assert dict(zip(field.groups, field.n.tolist(), strict=True)) == {"a": 1, "b": 1, "c": 0, None: 1}
    frame = engine.make(p=pa.array(GAPS), town=list("abcdef"))
    with pytest.raises(InputError, match=r"3 of 6 rows have no score \(null or NaN\) in 'p'.*missing='drop'"):
        tables.count(truth.binary_lab(), frame, by="town")


def test_scores_outside_0_and_1_are_refused_with_the_likely_cause(local_engine):
    for scores, message in (
        ([3.0, 97.0, None], r"'p' reaches 97 \(2 values are outside\)\. Are these percentages"),
        ([-3.0, 0.2, 4.0], r"reaches -?[34] \(2 .*logits"),
        ([-0.1, -2.3, -1.0], r"reaches -2\.3 \(3 .*log-probabilities"),
        ([0.5, math.inf, 0.1], r"reaches inf \(1 .*Infinite"),
        ([0.5, 1 + 2e-6, 0.1], r"reaches 1 \(1 .*percent"),
    ):
        frame = local_engine.make(p=pa.array(scores))
        with pytest.raises(InputError, match=message):
            tables.count(truth.binary_lab(), frame, missing="drop")
        with pytest.raises(InputError, match=message):
            tables.recalibrate(truth.estimate(truth.binary_lab(), field_rows()), frame, missing="keep")


@pytest.mark.conformance
def test_several_classes_are_binned_as_numpy_does(engine):
    for partition, kind, bins in (
        ("auto", "simplex", 18),
        (fieldcal.partitions.Simplex(3), "simplex", 3),
        (fieldcal.partitions.Expected(9, values=(0.0, 0.1, 0.7)), "expected", 9),
    ):
        lab = truth.wide_lab(3, partition)
        assert (lab.partition.kind, lab.n_bins) == (kind, bins)
        _, new = both_agree(engine, lab, wide_rows(3), ["town"])
        total = np.sum([new[f"{c}_recalibrated"] for c in lab.columns.scores], axis=0)
        np.testing.assert_allclose(total, 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "partition", [fieldcal.partitions.Simplex(12), fieldcal.partitions.Simplex(48, min_rows=2)], ids=str
)
def test_a_dozen_classes_make_no_expression_too_long(local_engine, partition):
    """Written as one expression, the answer grows with the third power of the number of classes."""
    rng = np.random.default_rng(12)
    proba = rng.dirichlet(np.full(12, 0.4), 6000)
    y = (rng.uniform(size=(6000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    names = [f"p_{k}" for k in range(12)]
    lab = truth.with_columns(fieldcal.learn(proba, y, partition=partition), *names)
    rows = pa.table({name: 0.5 * proba[:50, k] for k, name in enumerate(names)})
    both_agree(local_engine, lab, rows, normalize=True)


@pytest.mark.filterwarnings("ignore:DataFrame is highly fragmented")  # of pandas
def test_any_partition_is_counted_from_one_column_even_of_two_hundred_edges(local_engine):
    for partition in (
        fieldcal.partitions.Simplex(2),
        fieldcal.partitions.Simplex(6),
        fieldcal.partitions.Edges([0.5]),
        fieldcal.partitions.Expected(4),
    ):
        both_agree(local_engine, truth.binary_lab(partition), field_rows(), ["town"])
    lab = truth.binary_lab(fieldcal.partitions.Edges(np.linspace(0, 1, 201)))
    truth.assert_same_counts(
        tables.count(lab, local_engine.make(field_rows()), by="town"),
        truth.count(lab, field_rows(), ["town"]),
    )


def test_given_bin_ids_are_counted_and_what_is_none_is_refused_or_dropped(engine, local_engine):
    lab = truth.id_lab()
    rows = pa.table({"bin": pa.array([0, 3, 1, 3, 2, 2], pa.int16()), "town": pa.array(["a", None] * 3)})
    for by in ([], ["town"]):
        truth.assert_same_counts(tables.count(lab, engine.make(rows), by=by), truth.count(lab, rows, by))
    with pytest.raises(InputError, match=r"Bin ids must lie in 0 \.\. 3, but 'bin' spans -1 \.\. 4"):
        tables.count(lab, local_engine.make(bin=pa.array([0, -1, 4])))
    with pytest.raises(InputTypeError, match=r"bin ids in 'bin' must be whole numbers"):
        tables.count(lab, local_engine.make(bin=[0.0, 1.0]))
    gaps = local_engine.make(bin=pa.array([0, None, 3]))
    with pytest.raises(InputError, match="1 of 3 rows"):
        tables.count(lab, gaps)
    field = tables.count(lab, gaps, missing="drop")
    assert (field.V.tolist(), field.dropped) == ([[1, 0, 0, 1]], 1)


@pytest.mark.conformance
def test_rows_that_do_not_sum_to_one_are_refused_or_rescaled_and_rows_of_zeros_refused(engine, local_engine):
    lab, rows = truth.wide_lab(), wide_rows(share=0.7)
    with pytest.raises(InputError, match=r"'p_a', 'p_b', .*sum to one, but in 300 rows .*normalize=True"):
        tables.count(lab, engine.make(rows), by="town")
    both_agree(engine, lab, rows, ["town"], normalize=True)
    for normalize in (False, True):
        frame = local_engine.make(p_a=[0.2, 0.0], p_b=[0.3, 0.0], p_c=[0.5, 0.0])
        with pytest.raises(InputError, match=r"In 1 rows the scores 'p_a', 'p_b', 'p_c' are all zero"):
            tables.count(truth.wide_lab(), frame, normalize=normalize)
