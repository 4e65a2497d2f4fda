"""Statements for a warehouse, executed in DuckDB beside the verbs on arrays; every kind of them elsewhere too."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import functools
import itertools
import sqlite3
import sys
import warnings

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import fieldcal
from confidence import confidence_cells
from fieldcal.core.reweight import Step
from fieldcal.errors import InputError, InputTypeError, MissingExtraError
from fieldcal.objects import Classes, Lab
from fieldcal.partitions import Bins, Edges, Expected, Simplex
from fieldcal.tables import read_counts
from fieldcal.tables.sql import count_statement, decide_statement, recalibrate_statement, weights_table
from tables import postgres as server
from tables import truth

PARSED_ONLY = ["snowflake", "bigquery", "spark", "trino", "redshift", "tsql", "mysql", "clickhouse"]
PARSED_ONLY += ["databricks", "oracle", "sqlite"]
URC = {"prior": "flat", "point": "mode", "trust": 1}  # strong weights, and some of exactly 0
TYPES = {"float64": "DOUBLE PRECISION", "float32": "REAL", "text": "TEXT", "int": "BIGINT", "date": "DATE"}
TYPES |= {"bool": "BOOLEAN", "numeric": "DECIMAL(12, 4)"}
ARROW = {"float64": pa.float64(), "float32": pa.float32(), "text": pa.string(), "int": pa.int64()}
ARROW |= {"date": pa.date32(), "bool": pa.bool_(), "numeric": pa.decimal128(12, 4)}


class Warehouse:
    def __init__(self, dialect, link):
        self.dialect, self.link = dialect, link

    def load(self, name, columns):
        """Columns are name → (type, values); ``name`` is written as in SQL."""
        listed = ", ".join(f"{_quoted(c)} {TYPES[kind]}" for c, (kind, _) in columns.items())
        self.link.execute(f"DROP TABLE IF EXISTS {name}")
        self.link.execute(f"CREATE TABLE {name} ({listed})")
        self.insert(name, columns, zip(*(values for _, values in columns.values()), strict=True))

    def insert(self, name, columns, rows):
        self.link.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)

    def rows(self, statement):
        answer = self.link.execute(statement)
        return [d[0] for d in answer.description], answer.fetchall()


class DuckDB(Warehouse):
    def insert(self, name, columns, rows):
        made = as_arrow({str(i): column for i, column in enumerate(columns.values())})
        self.link.register("made", made).execute(f"INSERT INTO {name} SELECT * FROM made")


class Postgres(Warehouse):
    def insert(self, name, columns, rows):
        with self.link.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


class Spark(Warehouse):
    def load(self, name, columns):
        self.link.createDataFrame(as_arrow(columns)).createOrReplaceTempView(name)

    def rows(self, statement):
        answer = self.link.sql(statement)
        return answer.columns, [tuple(row) for row in answer.collect()]


def as_arrow(columns):
    return pa.table([pa.array(values, ARROW[kind]) for kind, values in columns.values()], names=list(columns))


def _quoted(name):
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


@pytest.fixture(scope="session")
def postgres():
    with server.running() as link:
        yield Postgres("postgres", link)


@pytest.fixture
def warehouse():
    return DuckDB("duckdb", duckdb.connect())


@pytest.fixture
def sqlite():
    with contextlib.closing(sqlite3.connect(":memory:")) as link:
        warehouse = Warehouse("sqlite", link)
        try:
            warehouse.rows("SELECT FLOOR(1.5)")
        except sqlite3.OperationalError:
            pytest.skip("Python's SQLite was built without FLOOR")
        yield warehouse


@pytest.fixture(params=["postgres", "sqlite", "spark"])
def elsewhere(request):
    """The other warehouses, on which every kind of statement runs."""
    made = request.getfixturevalue(request.param)
    return Spark("spark", made) if request.param == "spark" else made


@functools.cache
def data(n_classes=2):
    if n_classes == 2:
        return fieldcal.datasets.label_shift(
            n_lab=2000, n_field=500, prevalence=[[0.9, 0.1], [0.3, 0.7]], random_state=1
        )
    return fieldcal.datasets.label_shift(
        n_lab=3000,
        n_field=500,
        p_lab=(0.5, 0.3, 0.2),
        prevalence=[[0.2, 0.2, 0.6], [0.8, 0.1, 0.1]],
        random_state=2,
    )


@functools.cache
def learnt(partition="auto", n_classes=2, columns=1):
    """Of a partition, or of a method of calibration."""
    d = data(n_classes)
    proba = d.proba_lab if n_classes > 2 or columns == 1 else np.column_stack([1 - d.proba_lab, d.proba_lab])
    method = partition in ("sigmoid", "isotonic", "temperature")
    return fieldcal.learn(proba, d.y_lab, **{"calibration" if method else "partition": partition})


def score_rows(lab, columns):
    """Field scores with every edge and its neighbours, exact ends, rounding, denormals, NaN and null."""
    rng = np.random.default_rng(5)
    special = [0.0, 1.0, 0.1 + 0.2, 1 / 3, 5e-324, 1e-310, 1e-200, 1 - 2**-53, 0.5 * 2**-30, 1.5 * 2**-30]
    for edge in getattr(lab.partition, "edges", ()) if isinstance(lab.partition, Edges) else ():
        special += [edge, np.nextafter(edge, 0), np.nextafter(edge, 1)]
    if columns < 3:
        p = np.concatenate([special, data().proba_field])
        rows = [[q] for q in p] if columns == 1 else [[1 - q, q] for q in p]
    else:
        simplex = [[0.4, 0.4, 0.2], [1 / 3] * 3, [0.2, 0.4, 0.4], [1, 0, 0], [0, 0, 1], [0.5, 0.2999, 0.2]]
        rows = [*simplex, *data(3).proba_field.tolist()]
    rounding = [[-5e-7, 1 + 5e-7, 0.0][:columns], [1 + 1e-6, -1e-6, 0.0][:columns]]
    lost = [[np.nan, 0.5, 0.5][:columns], [None, 0.5, 0.5][:columns], [0.5, 0.5, np.nan][-columns:]]
    return [
        [None if v is None else float(v) for v in rows_]
        for rows_ in [*rng.permutation(rows).tolist(), *rounding, *lost]
    ]


def as_array(rows):
    array = np.array([[np.nan if v is None else v for v in row] for row in rows])
    return array[:, 0] if array.shape[1] == 1 else array


def table_of(rows, names, kind="float64", **groups):
    return {n: (kind, [row[i] for row in rows]) for i, n in enumerate(names)} | groups


def some_groups(
    n, values=("York", "Leeds", None, "", "01", "1", "null", "it's", "a|b", "é 漢 😀", "two\n  lines ")
):
    return [values[i % len(values)] for i in range(n)]


def field_of(warehouse, lab, table, *, reading=(), **options):
    names, rows = warehouse.rows(count_statement(lab, table, dialect=warehouse.dialect, **options))
    columns = [list(c) for c in zip(*rows, strict=True)] or [[] for _ in names]
    made = {
        n: pa.array(c, pa.string() if "_group_" in n or n == "fieldcal_label" else pa.int64())
        for n, c in zip(names, columns, strict=True)
    }
    assert all(
        isinstance(v, (int, decimal.Decimal)) and v == int(v)
        for n, c in made.items()
        if c.type != pa.string()
        for v in c.to_pylist()
    )
    return read_counts(lab, pa.table(made), by=options.get("by"), missing="drop", **dict(reading))


def assert_same_field(got, expected):
    assert got.groups == expected.groups
    np.testing.assert_array_equal(got.V, expected.V)
    np.testing.assert_array_equal(got.score_sums, expected.score_sums)
    np.testing.assert_array_equal(got.weight_squares, expected.weight_squares)
    assert (got.dropped, got.clipped, got.grouped) == (expected.dropped, expected.clipped, expected.grouped)
    assert got.lab == expected.lab
    assert got.model_copy(update={"by": ()}).batches == expected.batches


def quiet_estimate(lab, field, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.FieldcalWarning)
        return fieldcal.estimate(lab, field, **(URC | options))


def quiet_recalibrate(prev, proba, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.UnseenGroupWarning)
        return fieldcal.recalibrate(prev, proba, missing="keep", **options)


CASES = [
    pytest.param("auto", 2, 1, id="edges"),
    pytest.param("auto", 2, 2, id="edges of two columns"),
    pytest.param(Edges(np.linspace(0, 1, 300)[1:-1]), 2, 1, id="three hundred bins"),
    pytest.param(Simplex(2), 2, 1, id="argmax"),
    pytest.param("auto", 3, 3, id="simplex of three"),
    pytest.param(Simplex(3), 3, 3, id="argmax of three"),
    pytest.param(confidence_cells(((0.5, 0.7, 0.9), (), (0.6,))), 3, 3, id="argmax by confidence"),
    pytest.param(Expected(7), 3, 3, id="expected of three"),
    pytest.param("sigmoid", 2, 1, id="calibrated"),
    pytest.param("isotonic", 2, 2, id="isotonic of two columns"),
    pytest.param("sigmoid", 3, 3, id="sigmoid of three", marks=pytest.mark.slow),
    pytest.param("temperature", 3, 3, id="temperature of three"),
]


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(("partition", "n_classes", "columns"), CASES)
def test_a_warehouse_counts_what_arrays_count_to_the_last_bit(warehouse, partition, n_classes, columns):
    lab = learnt(partition, n_classes, columns)
    rows = score_rows(lab, columns)
    names = ["p", "q", "r"][:columns]
    groups = some_groups(len(rows))
    warehouse.load("leads", table_of(rows, names, town=("text", groups)))
    expected = fieldcal.count(lab, as_array(rows), groups=groups, missing="drop")
    assert expected.clipped > 0
    assert expected.dropped == 3
    assert_same_field(field_of(warehouse, lab, "leads", by="town", scores=names), expected)


DAYS = (dt.date(2024, 1, 2), dt.date(2024, 2, 1))
#: Classes, the type of the label column, and its values.
LABELS = [
    pytest.param((0, 1), "int", (0, 1), id="whole numbers"),
    pytest.param((0, 1), "float64", (0.0, 1.0), id="floats"),
    pytest.param(("no", "it's é"), "text", ("no", "it's é"), id="text"),
    pytest.param((False, True), "bool", (False, True), id="truth values"),
    pytest.param((False, True), "int", (0, 1), id="whole numbers for truth values"),
    pytest.param(DAYS, "date", DAYS, id="dates"),
    pytest.param((1, 2, 3), "int", (1, 2, 3), id="three classes"),
]


def renamed(lab, classes):
    return Lab.from_json(lab.model_copy(update={"outcome": Classes(labels=classes)}).to_json())


def labelled_world(classes, kind, values):
    """A lab of these classes; a table with scores that may be missing, groups, and labels of every third row."""
    columns = 1 if len(classes) == 2 else 3
    lab = renamed(learnt("auto", len(classes), columns), classes)
    rows = score_rows(lab, columns)
    names, groups = ["p", "q", "r"][:columns], some_groups(len(rows))
    places = [i // 3 % len(classes) if i % 3 == 0 or i > len(rows) - 4 else None for i in range(len(rows))]
    y = [None if k is None else values[k] for k in places]
    table = table_of(rows, names, town=("text", groups), y=(kind, y))
    arrays = {"groups": groups, "y": [None if k is None else classes[k] for k in places], "missing": "drop"}
    return lab, table, functools.partial(fieldcal.count, lab, as_array(rows), **arrays), names


@pytest.mark.parametrize(("classes", "kind", "values"), LABELS)
def test_a_warehouse_counts_labels_as_arrays_do(warehouse, classes, kind, values):
    for only_labels in (False, True):
        lab, table, arrays, names = labelled_world(classes, kind, values)
        warehouse.load("leads", table)
        said = {"design": "by_class", "only_labels": only_labels}
        field = field_of(warehouse, lab, "leads", by="town", scores=names, label="y", reading=said)
        assert_same_field(field, arrays(**said))
        assert field.n_labelled > 100


def test_labels_that_are_no_class_or_that_were_read_as_numbers_are_refused(warehouse):
    warehouse.load("leads", {"p": ("float64", [0.2, 0.7, 0.8]), "y": ("text", ["maybe", None, "maybe"])})
    with pytest.raises(InputError, match="label 'maybe' in 2 rows is not among"):
        field_of(warehouse, learnt(), "leads", scores="p", label="y")
    lab = renamed(learnt(), ("01", "02"))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE leads AS SELECT 0.3 AS p, '01' AS y")
    counts = connection.sql(count_statement(lab, "leads", dialect="duckdb", scores="p", label="y")).pl()
    assert read_counts(lab, counts).n_labelled == 1
    with pytest.raises(InputTypeError, match="Read it as text"):
        read_counts(lab, counts.with_columns(pl.col("fieldcal_label").cast(pl.Int64)))
    for classes, dialect, words in (
        (("yes", "Yes "), "mysql", "are equal in a warehouse"),
        ((1, "1"), "duckdb", "are equal in a warehouse"),
        ((dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)), "duckdb", "print in different ways"),
    ):
        lab = renamed(learnt(), classes)
        with pytest.raises(InputError, match=words):
            count_statement(lab, "leads", dialect=dialect, scores="p", label="y")


def test_scores_in_single_precision_and_decimals_are_compared_in_double(warehouse):
    lab = learnt(Edges([float(np.float32(0.1)), 0.3, 0.7]))
    p = np.concatenate([np.float32([0.1, 0.3, 0.7, 1 / 3]), data().proba_field.astype(np.float32)])
    warehouse.load("leads", {"p": ("float32", p.tolist())})
    assert_same_field(field_of(warehouse, lab, "leads", scores="p"), fieldcal.count(lab, p))
    exact = [decimal.Decimal(i) / 10 for i in range(11)]
    warehouse.load("leads", {"p": ("numeric", exact)})
    assert_same_field(
        field_of(warehouse, lab, "leads", scores="p"), fieldcal.count(lab, [float(v) for v in exact])
    )


def test_given_bin_ids_are_counted_and_strays_are_found(warehouse):
    ids = np.random.default_rng(0).integers(0, 4, 400)
    lab = fieldcal.learn(ids, ids + np.arange(400) % 3 > 2, partition=Bins(4))
    warehouse.load("leads", {"bin": ("int", ids.tolist()), "town": ("text", some_groups(400))})
    expected = fieldcal.count(lab, ids, groups=some_groups(400))
    assert_same_field(field_of(warehouse, lab, "leads", by="town", scores="bin"), expected)
    warehouse.load("leads", {"bin": ("float64", [0.0, 3.0, 4.0, -1.0, 1.5, None, np.nan])})
    assert flaws(warehouse, lab, "leads", scores="bin") == {"rows": 7, "valid": 2, "missing": 2, "outside": 3}


def flaws(warehouse, lab, table, **options):
    names, rows = warehouse.rows(count_statement(lab, table, dialect=warehouse.dialect, by=[], **options))
    found = {n.removeprefix("fieldcal_"): int(v) for n, v in zip(names, rows[0], strict=True)}
    return {n: found[n] for n in ("rows", "valid", "missing", "outside", "unsummed", "clipped") if found[n]}


def test_a_row_that_cannot_be_used_is_counted_under_one_reason(warehouse):
    flaws_of = {"missing": (None, np.nan), "outside": (np.inf, -np.inf, 1e308, 37.0, -1e-5, 1.0 + 2e-6)}
    flaws_of |= {"clipped": (1.0 + 1e-6, -1e-6), "valid": (-0.0,)}
    for flaw, score in ((flaw, score) for flaw, scores in flaws_of.items() for score in scores):
        warehouse.load("leads", {"p": ("float64", [score])})
        expected = {"rows": 1, "valid": int(flaw in ("clipped", "valid")), flaw: 1}
        assert flaws(warehouse, learnt(), "leads", scores="p") == {n: v for n, v in expected.items() if v}
    warehouse.load("leads", {"p": ("float64", []), "town": ("text", [])})
    assert flaws(warehouse, learnt(), "leads", scores="p") == {}
    statement = count_statement(learnt(), "leads", dialect=warehouse.dialect, by="town", scores="p")
    assert warehouse.rows(statement)[1] == []


def test_a_row_of_three_classes_that_cannot_be_used_is_counted_under_one_reason(warehouse):
    for row, expected in (
        ([0.5, 0.3, 0.1999], {"valid": 1}),
        ([0.5, 0.3, 0.1], {"unsummed": 1}),
        ([0.0, 0.0, 0.0], {"unsummed": 1}),
        ([1e308, 1e308, 0.0], {"outside": 1}),
        ([0.5, np.nan, 37.0], {"missing": 1}),
        ([None, 0.5, 37.0], {"missing": 1}),
        ([np.nan, None, np.nan], {"missing": 1}),
        ([-1e-7, 1 + 1e-7, 0.0], {"valid": 1, "clipped": 2}),
    ):
        warehouse.load("leads", table_of([row], ["a", "b", "c"]))
        found = flaws(warehouse, learnt("auto", 3, 3), "leads", scores=["a", "b", "c"])
        assert found == {"rows": 1, **expected}


def test_fault_16_several_group_columns_stay_apart(warehouse):
    a = ["a|b", "a", "a|", "", None, "a", None]
    b = ["c", "b|c", "b|c", None, "", None, None]
    p = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    warehouse.load("leads", {"p": ("float64", p), "a": ("text", a), "b": ("text", b)})
    field = field_of(warehouse, learnt(), "leads", by=["a", "b"], scores="p")
    expected = fieldcal.count(learnt(), p, groups=list(zip(a, b, strict=True)))
    assert len(expected.groups) == 7
    assert_same_field(field, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(("partition", "n_classes", "columns"), [CASES[0], CASES[1], CASES[4]])
def test_every_statement_runs_elsewhere_whatever_groups_are_called(elsewhere, partition, n_classes, columns):
    odd = ("York", None, "", "${x}", "a${x}b$${y}", "it's", "\\'; --", "a\\", "two\nlines", "01")
    names = ["a.`b`", "q;", "r"][:columns]
    lab, table, arrays, _ = labelled_world(
        tuple(range(n_classes)), "float64", [float(k) for k in range(n_classes)]
    )
    rows = score_rows(lab, columns)
    if columns == 2:  # of which labelled_world has no table
        lab = learnt(partition, n_classes, columns)
    else:
        elsewhere.load("leads", table)
        field = field_of(elsewhere, lab, "leads", by="town", scores=["p", "q", "r"][:columns], label="y")
        assert_same_field(field, arrays())
    groups = some_groups(len(rows), odd)
    elsewhere.load("leads", table_of(rows, names, town=("text", groups)))
    field = field_of(elsewhere, lab, "leads", by="town", scores=names)
    assert_same_field(field, fieldcal.count(lab, as_array(rows), groups=groups, missing="drop"))
    prev = quiet_estimate(lab, field)
    got = recalibrated(elsewhere, prev, rows, names, groups, by="town")
    expected = quiet_recalibrate(prev, as_array(rows), groups=groups)
    np.testing.assert_allclose(got, expected.reshape(len(rows), -1), rtol=0, atol=1e-12)
    for goal in GOALS[n_classes][1:3]:
        decided = decided_by(elsewhere, prev, rows, names, groups, by="town", goal=goal)
        assert decided == decided_by_arrays(prev, rows, groups, goal=goal)
    by_bin = labelled_estimate(lab, rows, groups)
    got = recalibrated(elsewhere, by_bin, rows, names, groups, by="town", shape="bins")
    expected = quiet_recalibrate(by_bin, as_array(rows), groups=groups, shape="bins")
    np.testing.assert_allclose(got, expected.reshape(len(rows), -1), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(("partition", "n_classes", "columns"), [*CASES[1:5:3], CASES[3], *CASES[-3:]])
def test_a_warehouse_recalibrates_as_arrays_do(warehouse, partition, n_classes, columns):
    for unseen in ("global", "raw"):
        lab = learnt(partition, n_classes, columns)
        rows = score_rows(lab, columns)
        names, groups = ["p", "q", "r"][:columns], some_groups(len(rows))
        warehouse.load("leads", table_of(rows, names, town=("text", groups)))
        seen = [g for g in groups if g not in ("Leeds", "null")]
        prev = quiet_estimate(lab, field_of(warehouse, lab, "leads", by="town", scores=names))
        few = quiet_estimate(
            lab, fieldcal.count(lab, as_array(rows)[[g in seen for g in groups]], groups=seen, missing="drop")
        )
        trusts = [(1.0, 1.0), (0.3, 0.6), (1.0, 0.45)] if unseen == "raw" else truth.TRUSTS
        cases = [(prev, {}), *((truth.trusted(few, *given), {"by": "town"}) for given in trusts)]
        for estimate, options in cases:
            got = recalibrated(warehouse, estimate, rows, names, groups, unseen=unseen, **options)
            expected = quiet_recalibrate(estimate, as_array(rows), groups=groups, unseen=unseen)
            np.testing.assert_allclose(got, expected.reshape(len(rows), -1), rtol=0, atol=1e-12)


def recalibrated(warehouse, prev, rows, names, groups, **options):
    """The new columns in the order of the rows; checks that everything else came back as it was."""
    row_id = list(range(len(rows)))
    warehouse.load("leads", {"id": ("int", row_id), **table_of(rows, names), "town": ("text", groups)})
    statement = recalibrate_statement(prev, "leads", dialect=warehouse.dialect, scores=names, **options)
    found, answer = warehouse.rows(statement)
    assert found == ["id", *names, "town", *(f"{n}_recalibrated" for n in names)]
    answer = sorted(answer)
    assert [a[0] for a in answer] == row_id
    assert [a[len(names) + 1] for a in answer] == groups
    kept = np.array([a[1 : len(names) + 1] for a in answer], dtype=float)
    np.testing.assert_array_equal(kept, as_array(rows).reshape(len(rows), -1))
    new = [a[-len(names) :] for a in answer]
    assert all(v is None or v == v for a in new for v in a), "NaN must become null"
    return np.array(new, dtype=float)


@pytest.mark.slow
def test_weights_in_a_loaded_table_do_what_weights_in_the_statement_do(warehouse):
    for trusts in ((1.0, 1.0), (0.3, 0.6), (0.0, 0.6), (0.3, 0.0)):
        lab = learnt("auto", 3, 3)
        rows, names = score_rows(lab, 3), ["p", "q", "r"]
        groups = some_groups(len(rows))
        prev = quiet_estimate(lab, fieldcal.count(lab, as_array(rows), groups=groups, missing="drop"))
        prev = truth.trusted(prev, *trusts)
        columns = weights_table(prev)
        kinds = {n: "text" if "_group_" in n else "int" if "_null_" in n else "float64" for n in columns}
        warehouse.load("loaded", {n: (kinds[n], values) for n, values in columns.items()})
        direct = recalibrated(warehouse, prev, rows, names, groups, by="town")
        loaded = recalibrated(warehouse, prev, rows, names, groups, by="town", weights="loaded")
        np.testing.assert_array_equal(direct, loaded)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_fault_37_products_of_tiny_scores_and_extreme_weights_do_not_underflow(warehouse, n_classes):
    lab = learnt("auto", n_classes, 1 if n_classes == 2 else 3)
    tiny = [5e-324, 1e-320, 1e-300, 1e-161, 1e-160, 1e-100, 1e-30, 0.0]
    rows = (
        [[t] for t in tiny]
        if n_classes == 2
        else [[t, 1 - t, 0.0] for t in tiny] + [[0.0, t, 1 - t] for t in tiny]
    )
    K, names = len(lab.classes), ["p", "q", "r"][: len(rows[0])]
    groups = some_groups(len(rows))
    prev = quiet_estimate(lab, fieldcal.count(lab, data(n_classes).proba_field, groups=some_groups(500)))
    extreme = [[1.0] * K, [0.0] * (K - 1) + [1.0], [1.0] + [0.0] * (K - 1), [1e-40] * (K - 1) + [1.0]]
    extreme = list(map(np.array, extreme))
    for first, second, trust in itertools.product(extreme, extreme, (1.0, 0.5)):
        steps = Step(trust, first), Step(1.5 - trust, np.tile(second, (len(prev.groups), 1)))
        for taken in (steps, steps[1:]) if first is second else (steps,):
            changed = prev.model_copy(update={"steps": taken, "steps_unseen": taken[:-1]})
            got = recalibrated(warehouse, changed, rows, names, groups, by="town")
            assert np.isfinite(got).all()
            assert ((got >= 0) & (got <= 1)).all()


def labelled_estimate(lab, rows, groups=None):
    """From rows of which every fifth has a label that its scores do not foretell."""
    y = np.random.default_rng(3).integers(0, len(lab.classes), len(rows)).tolist()
    known = [c if i % 5 == 0 else None for i, c in enumerate(y)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.FieldcalWarning)
        field = fieldcal.count(lab, as_array(rows), groups=groups, y=known, missing="drop")
        return fieldcal.estimate(lab, field)


def test_without_labels_a_statement_by_bin_is_refused():
    prev = quiet_estimate(learnt(), fieldcal.count(learnt(), data().proba_field))
    for statement in (recalibrate_statement, decide_statement):
        with pytest.raises(InputError, match="Label some rows"):
            statement(prev, "leads", dialect="duckdb", scores="p", shape="bins")


TINY_COSTS = [[0, 1e-200, 1], [1e-90, 0, 1], [1, 1, 0]]
GOALS = {
    2: ["accuracy", "balanced", [[0, 1], [20, 0]], [[-5, 1], [0.1, -2]], [[3, 3], [3, 3]]],
    3: ["accuracy", "balanced", [[0, 1, 5], [2, 0, 1], [9, 0.1, 0]], TINY_COSTS],
}


def decided_by(warehouse, prev, rows, names, groups, **options):
    """The decisions in the order of the rows, beside the recalibrated columns."""
    ids = "int", list(range(len(rows)))
    warehouse.load("leads", {"id": ids, **table_of(rows, names, town=("text", groups))})
    statement = decide_statement(prev, "leads", dialect=warehouse.dialect, scores=names, **options)
    found, answer = warehouse.rows(statement)
    assert found == ["id", *names, "town", *(f"{n}_recalibrated" for n in names), "decision"]
    return [answered[-1] for answered in sorted(answer, key=lambda answered: answered[0])]


def decided_by_arrays(prev, rows, groups, **options):
    proba = as_array(rows)
    there = ~np.isnan(proba if proba.ndim == 1 else proba.sum(axis=1))
    kept = [g for g, here in zip(groups, there, strict=True) if here] if prev.field.grouped else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.UnseenGroupWarning)
        answers = iter(fieldcal.decide(prev, proba[there], groups=kept, **options).tolist())
    return [next(answers) if here else None for here in there]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partition", "columns", "classes"),
    [
        *(("auto", 1, (0, 1)), ("auto", 2, ("it's", "é ${x}")), ("auto", 1, (False, True))),
        *(("auto", 3, ("a", "b", "c")), ("sigmoid", 2, (0, 1)), ("temperature", 3, (0, 1, 2))),
    ],
    ids=["numbers", "text", "truth", "three", "calibrated", "three calibrated"],
)
def test_a_warehouse_decides_as_arrays_do(warehouse, partition, columns, classes):
    n_classes = len(classes)
    lab = renamed(learnt(partition, n_classes, columns), classes)
    rows = score_rows(lab, columns)
    names, groups = ["p", "q", "r"][:columns], some_groups(len(rows))
    seen = [g not in ("Leeds", "null") for g in groups]
    few = fieldcal.count(
        lab,
        as_array(rows)[seen],
        groups=[g for g, is_seen in zip(groups, seen, strict=True) if is_seen],
        missing="drop",
    )
    one = quiet_estimate(lab, fieldcal.count(lab, as_array(rows), missing="drop"), level=None)
    several = quiet_estimate(lab, few, level=None)
    for goal, trusts, unseen in zip(
        GOALS[n_classes],
        itertools.cycle([(0.3, 0.0), (0.3, 0.6), (1.0, 1.0), (0.0, 0.0)]),
        itertools.cycle(["global", "raw", "raw"]),
    ):
        options = {"goal": goal, "unseen": unseen}
        prev = truth.trusted(several, *trusts)
        got = decided_by(warehouse, prev, rows, names, groups, by="town", **options)
        assert got == decided_by_arrays(prev, rows, groups, **options), options
        got = decided_by(warehouse, truth.trusted(one, *trusts), rows, names, groups, goal=goal)
        assert got == decided_by_arrays(truth.trusted(one, *trusts), rows, groups, goal=goal), goal


def test_an_edge_is_the_same_double_in_the_warehouse(warehouse):
    for edge in (0.1 + 0.2, 1 / 3, 5e-324, 2.2250738585072014e-308, 1e-17, 1 - 2**-53, 0.7000000000000001):
        lab = learnt().model_copy(update={"partition": Edges([edge]), "F": np.array([[3, 1], [1, 3]])})
        near = [np.nextafter(edge, 0), edge, np.nextafter(edge, 1)]
        warehouse.load("leads", {"p": ("float64", [float(v) for v in near])})
        names, rows = warehouse.rows(count_statement(lab, "leads", dialect=warehouse.dialect, scores="p"))
        assert dict(zip(names, rows[0], strict=True))["fieldcal_below_1"] == 2


ODD = ['a "b" c', "it's", "schema.table.column", "a`b`", 'p"; DROP TABLE leads; --', " two  words ", "a]b[c"]
ODD += ["a\\", "100% {} %s $1 :x ?", "/* a */ -- b", "a\nb\tc", "select", "Group", "😀 né"]
ODD += ["fieldcal_score_1", "fieldcal_row"]  # like ours


def test_fault_20_odd_column_names_are_taken_literally(warehouse):
    for odd in ODD:
        lab, other = learnt(), odd + "2"
        rows = score_rows(lab, 1)
        groups = some_groups(len(rows))
        warehouse.load("leads", {odd: ("float64", [r[0] for r in rows]), other: ("text", groups)})
        expected = fieldcal.count(lab, as_array(rows), groups=groups, missing="drop")
        field = field_of(warehouse, lab, "leads", by=other, scores=odd)
        assert_same_field(field, expected)
        prev = quiet_estimate(lab, field)
        options = {"dialect": warehouse.dialect, "by": other, "scores": odd, "name": "new {}"}
        names, answer = warehouse.rows(recalibrate_statement(prev, "leads", **options))
        assert names == [odd, other, "new " + odd]
        assert len(answer) == len(rows)


def test_fault_20_a_table_may_have_any_name(warehouse):
    odd = ['"my leads"', 'Odd."leads; DROP TABLE victim"', 'odd."a.b"', '"it""s"', "my leads"]
    for table in [*odd, "leads; DROP TABLE victim"]:
        quoted = f'"{table}"' if '"' not in table else table  # as it is for the user
        warehouse.link.execute("CREATE SCHEMA IF NOT EXISTS odd")
        warehouse.load("victim", {"p": ("float64", [0.5])})
        warehouse.load(quoted, {"p": ("float64", [0.5, None])})
        assert flaws(warehouse, learnt(), table, scores="p") == {"rows": 2, "valid": 1, "missing": 1}
        assert warehouse.rows("SELECT p FROM victim")[1] == [(0.5,)]


def test_groups_named_like_attacks_are_groups(warehouse):
    drop = "; DROP TABLE victim; "
    groups = [f"'{drop}--", f"\\'{drop}--", f"$${drop}$$", "E'\\x27'", "${x} %(p)s ? :1 {}", "York", None]
    p = np.linspace(0.1, 0.9, len(groups)).tolist()
    warehouse.load("victim", {"p": ("float64", [0.5])})
    warehouse.load("leads", {"p": ("float64", p), "g": ("text", groups)})
    prev = quiet_estimate(learnt(), fieldcal.count(learnt(), p, groups=groups))
    options = {"dialect": warehouse.dialect, "by": "g", "scores": "p", "unseen": "raw"}
    got = {g: new for _, g, new in warehouse.rows(recalibrate_statement(prev, "leads", **options))[1]}
    expected = fieldcal.recalibrate(prev, p, groups=groups)
    np.testing.assert_allclose([got[g] for g in groups], expected, rtol=0, atol=1e-12)
    assert warehouse.rows("SELECT p FROM victim")[1] == [(0.5,)]


@pytest.mark.slow
def test_other_dialects_read_back_as_the_statement_that_was_meant():
    for dialect in PARSED_ONLY:
        for n_classes in (2, 3):
            lab = learnt("auto", n_classes, 1 if n_classes == 2 else 3)
            scores = ['it\'s "p"`;--'] if n_classes == 2 else ["p]", 'q"', "r`"]
            groups = ["O'Neill\\", None, "", 'a"b`c'] * 20
            proba = data(n_classes).proba_field[:80]
            prev = quiet_estimate(lab, fieldcal.count(lab, proba, groups=groups))
            for text in (
                count_statement(lab, "db.leads", dialect=dialect, by="my group", scores=scores, label="my y"),
                recalibrate_statement(prev, "db.leads", dialect=dialect, by="my group", scores=scores),
            ):
                (parsed,) = sqlglot.parse(text, read=dialect)
                assert isinstance(parsed, exp.Select)
                columns = {c.name for c in parsed.find_all(exp.Column)}
                assert {*scores, "my group"} <= columns
                assert ("my y" in columns) == ("fieldcal_label" in text)
                assert {t.name for t in parsed.find_all(exp.Table) if t.db} == {"leads"}
            held = {e.this for e in parsed.find_all(exp.Literal, exp.National) if isinstance(e.this, str)}
            assert {"O'Neill\\", 'a"b`c'} <= held


def test_a_name_that_a_dialect_has_no_quotes_for_is_refused():
    for dialect, name in (("spark", "a ${x}"), ("databricks", "${x}"), ("clickhouse", 'p\\"; --')):
        for role in ("scores", "by", "table"):
            quoted = exp.to_identifier(name, quoted=True).sql(dialect=dialect)
            names = {"scores": "p", "by": "g", "table": "leads"} | {role: quoted if role == "table" else name}
            if dialect == "clickhouse" and role == "table":
                names["table"] = "`a\\\\b`"
            with pytest.raises(InputError, match="Rename"):
                count_statement(learnt(), dialect=dialect, **names)


def test_sums_are_wide_where_64_bits_would_wrap_or_fail():
    for dialect in ("spark", "trino", "bigquery", "clickhouse", "tsql"):
        parsed = sqlglot.parse_one(count_statement(learnt(), "t", dialect=dialect, scores="p"), read=dialect)
        sums = list(parsed.find_all(exp.Sum))
        assert sums
        wide = ("DECIMAL", "BIGDECIMAL", "BIGNUMERIC", "NUMERIC")
        assert all(any(k in repr(s.this.args["to"].this).upper() for k in wide) for s in sums)


def estimate(groups=None, n=8, **options):
    lab = learnt()
    return quiet_estimate(lab, fieldcal.count(lab, data().proba_field[:n], groups=groups), **options)


def test_what_names_no_dialect_table_or_column_is_refused():
    for dialect, close in (("postgre", "'postgres'"), ("Snowflaek", "'snowflake'"), ("prql", "Known are")):
        with pytest.raises(InputError, match=close):
            count_statement(learnt(), "leads", dialect=dialect, scores="p")
        with pytest.raises(InputTypeError, match="dialect must be a name"):
            count_statement(learnt(), "leads", dialect=None, scores="p")
    named, options = estimate(["York"] * 8), {"dialect": "postgres", "scores": "p"}
    for table in ("", "  ", "read_parquet('x')", "'", '"a', "a.b.c.d", "f(1)", "?", '""'):
        for verb, given, more in (
            (count_statement, (learnt(), table), {}),
            (recalibrate_statement, (estimate(), table), {}),
            (recalibrate_statement, (named, "leads"), {"by": "town", "weights": table}),
        ):
            with pytest.raises(InputError, match=r'not the name of a table in postgres.*"schema"."my table"'):
                verb(*given, **options, **more)
    with pytest.raises(InputTypeError, match="must be the name of a table"):
        count_statement(learnt(), None, **options)
    for options, words in (
        ({"scores": ["a", "b", "c"]}, "3 columns of scores for 2 classes"),
        ({"scores": ["a", "a"]}, "more than once"),
        ({"scores": "p", "by": ["g", "g"]}, "more than once"),
        ({"scores": ""}, "must be names of columns"),
        ({"scores": "p", "by": [3]}, "does not name a column by text"),
    ):
        with pytest.raises(fieldcal.FieldcalError, match=words):
            count_statement(learnt(), "leads", dialect="duckdb", **options)


#: The groups of an estimate, options, and what is said.
REFUSED = [
    (["York", "Leeds"], {}, r"per group \(2 of them\), counted from arrays: pass by="),
    (None, {"by": "town"}, "for one population, but by="),
    (None, {"weights": "w"}, "no table of them is needed"),
    ([("York", 1), ("Leeds", 2)], {"by": "town"}, "has 2 parts, but 1 columns"),
    (["York"] * 2, {"by": ["a", "b"]}, "has 1 parts, but 2 columns"),
    ([dt.datetime(2024, 1, 1, 12), "York"], {"by": "g"}, r"is a datetime.*fieldcal sql count"),
    ([1, "1"], {"by": "g"}, "are equal in this warehouse"),
    ([True, "true"], {"by": "g"}, "are equal in this warehouse"),
    (["york", "York"], {"by": "g", "dialect": "mysql"}, "are equal in this warehouse"),
    (["York", "York "], {"by": "g", "dialect": "tsql"}, "are equal in this warehouse"),
    *((["York", "Leeds"], {"by": "town", "name": n}, "new column would be named") for n in ("{}", "town")),
]


def test_what_a_statement_of_new_scores_cannot_do_is_refused():
    for groups, options, words in REFUSED:
        prev = estimate(None if groups is None else groups * 4)
        with pytest.raises(InputError, match=words):
            recalibrate_statement(prev, "leads", **{"dialect": "duckdb", "scores": "p"} | options)
    with pytest.raises(InputError, match="no table of them is needed"):
        weights_table(estimate())
    assert weights_table(estimate([("York", 1), ("Leeds", 2)] * 4))["fieldcal_group_2"] == ["2", "1"]


def test_fault_45_without_sqlglot_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    for module in ("sql_words", "statements"):
        monkeypatch.delitem(sys.modules, f"fieldcal.tables.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'fieldcal\[sql\]'"):
        count_statement(learnt(), "leads", dialect="duckdb", scores="p")
