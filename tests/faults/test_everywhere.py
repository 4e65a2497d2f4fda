"""Bad rows are judged alike by every way in, and told in words that say how many and what next.

The ways in are arrays, an engine with a plan of its own (polars), one with SQL (DuckDB), and the command line with a
file. That all engines count and recalibrate alike is tested in `tests/tables`.
"""

from __future__ import annotations

import contextlib
import functools
import io
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from fieldcal import Field, tables
from fieldcal.cli.main import main
from fieldcal.errors import FieldcalError, InputError
from tables import truth
from tables.engines import Engine

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
GOOD = [0.1, 0.9, 0.25, 0.5, 0.5, 0.75, 0.3]
THREE = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.4, 0.4, 0.2]]


@dataclass(frozen=True)
class Case:
    """Rows, what is said of them, and what there is when it is allowed."""

    table: pa.Table
    says: str
    allowed: dict[str, Any] = field(default_factory=dict)
    dropped: int = 0


def two(*odd: Any, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"p": pa.array([*GOOD, *odd], kind or pa.float64(), from_pandas=False)})


def three(*odd: list[float]) -> pa.Table:
    columns = np.array([*THREE, *odd]).T
    return pa.table({name: pa.array(c) for name, c in zip(truth.NAMES, columns, strict=False)})


NONE = r"1 of 8 (rows have no score|field predictions are missing)"
REFUSED = [
    Case(two(None), NONE, {"missing": "drop"}, dropped=1),
    Case(two(float("nan")), NONE, {"missing": "drop"}, dropped=1),
    Case(two(float("inf")), r"inf"),
    Case(two(10.0, 90.0, 35.0), r"percent"),
    Case(two(-3.2, 2.5, 4.1), r"logits|outside"),
    Case(three([0.5, 0.5, 0.5]), r"sum", {"normalize": True}),
    Case(three([0.0, 0.0, 0.0]), r"zero|sum"),
    Case(pa.table({"p": ["0.5", "high"]}), r"must be numbers|'high'"),
    Case(two().slice(0, 0), r"no rows"),
]


@functools.cache
def lab(n_columns):
    return truth.binary_lab() if n_columns == 1 else truth.wide_lab(3)


@functools.cache
def prevalence(n_columns):
    made = truth.estimate(lab(n_columns), two() if n_columns == 1 else three())
    return truth.trusted(made, 0.5, 0.5)


def lab_of(table):
    return lab(3 if "p_a" in table.column_names else 1)


class Way:
    """One way to give rows to fieldcal; errors come back as they are told to a user of it."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder

    def count(self, table, **options):
        if self.name == "arrays":
            return truth.count(lab_of(table), table, **options)
        if self.name != "command line":
            return tables.count(lab_of(table), Engine(self.name).make(table), **options)
        lab_of(table).save(self.folder / "made.json")
        self._call("count", table, "field.json", options)
        return Field.load(self.folder / "field.json")

    def recalibrate(self, table):
        prev = prevalence(3 if "p_a" in table.column_names else 1)
        if self.name == "arrays":
            return truth.recalibrate(prev, table)
        engine = Engine("duckdb" if self.name == "command line" else self.name)
        if self.name == "command line":
            prev.save(self.folder / "made.json")
            self._call("recalibrate", table, "new.parquet", {})
            new = pq.read_table(self.folder / "new.parquet").to_pydict()
        else:
            new = engine.read(tables.recalibrate(prev, engine.make(table)))
        return np.array([new[f"{name}_recalibrated"] for name in prev.lab.columns.scores], dtype=float).T

    def _call(self, verb, table, target, options):
        pa.csv.write_csv(table, self.folder / "rows.csv")
        given = [x for name, value in options.items() for x in (f"--{name}", value) if x is not True]
        said = io.StringIO()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(io.StringIO()),
            pytest.raises(SystemExit) as ended,
        ):
            main([verb, "made.json", "rows.csv", "-o", target, *given])
        if ended.value.code:
            raise InputError(" ".join(said.getvalue().split()))


@pytest.fixture(params=["arrays", "duckdb", "polars", "command line"])
def way(request, tmp_path):
    return Way(request.param, tmp_path)


@pytest.mark.slow
def test_fault_01_02_04_06_08_09_bad_rows_are_refused_in_the_same_words_by_every_way_in(way):
    for case in REFUSED:
        with pytest.raises(FieldcalError, match=f"(?i){case.says}"):
            way.count(case.table)
        if case.allowed:
            found = way.count(case.table, **case.allowed)
            assert found.dropped == case.dropped
            expected = truth.count(lab_of(case.table), case.table, **case.allowed)
            np.testing.assert_array_equal(found.V, expected.V)
        if case.table.num_rows:
            with pytest.raises(FieldcalError, match=f"(?i){case.says}"):
                way.recalibrate(case.table)


ACCEPTED = [  # with how many predictions are moved into [0, 1]
    (two(1 + 1e-12, -1e-12), 2),
    (two(0.0, 1.0, 0.0), 0),
    (pa.table({"p": pa.array([0.25, 0.5, 0.75, 0.875], pa.float32())}), 0),
    (pa.table({"p": pa.array([0, 1, 1, 0], pa.int64())}), 0),
    (pa.table({"p": pa.array([Decimal("0.25"), Decimal("0.75")], pa.decimal128(5, 3))}), 0),
    (two(5e-324, 1e-320, 2.2e-308), 0),
]


@pytest.mark.slow
def test_fault_03_05_07_37_odd_rows_that_are_probabilities_are_counted_by_every_way_in(way):
    for table, clipped in ACCEPTED:
        expected = truth.count(lab(1), table)
        found = way.count(table)
        np.testing.assert_array_equal(found.V, expected.V)
        np.testing.assert_array_equal(found.score_sums, expected.score_sums)
        assert found.clipped == clipped
        new = way.recalibrate(table)
        np.testing.assert_allclose(new, truth.recalibrate(prevalence(1), table), rtol=1e-9, atol=0)
        scores = truth.proba(table, ["p"])
        np.testing.assert_array_equal(new[scores == 0], 0)
        np.testing.assert_array_equal(new[scores == 1], 1)
