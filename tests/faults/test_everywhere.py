"""Bad rows are judged alike by every way in, and told in words that say how many and what next."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from faults.surfaces import SURFACES
from fieldcal.errors import FieldcalError
from tables import truth

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
REFUSED = {
    "fault_01_null": Case(two(None), NONE, {"missing": "drop"}, dropped=1),
    "fault_01_nan": Case(two(float("nan")), NONE, {"missing": "drop"}, dropped=1),
    "fault_02_infinite": Case(two(float("inf")), r"inf"),
    "fault_02_percent": Case(two(10.0, 90.0, 35.0), r"percent"),
    "fault_02_logits": Case(two(-3.2, 2.5, 4.1), r"logits|outside"),
    "fault_04_sums": Case(three([0.5, 0.5, 0.5]), r"sum", {"normalize": True}),
    "fault_06_zeros": Case(three([0.0, 0.0, 0.0]), r"zero|sum"),
    "fault_08_text": Case(pa.table({"p": ["0.5", "high"]}), r"must be numbers|'high'"),
    "fault_09_no_rows": Case(two().slice(0, 0), r"no rows"),
}


@functools.cache
def lab(n_columns):
    return truth.binary_lab() if n_columns == 1 else truth.wide_lab(3)


@functools.cache
def prevalence(n_columns):
    made = truth.estimate(lab(n_columns), two() if n_columns == 1 else three())
    return truth.trusted(made, 0.5, 0.5)


def lab_of(table):
    return lab(3 if "p_a" in table.column_names else 1)


@pytest.fixture(params=SURFACES, ids=str)
def surface(request, tmp_path):
    spark = request.getfixturevalue("spark") if request.param.kind == "spark" else None

    class Way:
        name = request.param.name

        def count(self, table, **options):
            return request.param.count(lab_of(table), table, tmp_path, spark, **options)

        def recalibrate(self, table, **options):
            prev = prevalence(3 if "p_a" in table.column_names else 1)
            return request.param.recalibrate(prev, table, tmp_path, spark, **options)

    return Way()


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_bad_rows_are_refused_in_the_same_words_by_every_way_in(surface, case):
    with pytest.raises(FieldcalError, match=f"(?i){case.says}"):
        surface.count(case.table)
    if case.allowed:
        found = surface.count(case.table, **case.allowed)
        assert found.dropped == case.dropped
        expected = truth.count(lab_of(case.table), case.table, **case.allowed)
        np.testing.assert_array_equal(found.V, expected.V)
    if case.table.num_rows:
        with pytest.raises(FieldcalError, match=f"(?i){case.says}"):
            surface.recalibrate(case.table)


ROUNDED = two(1 + 1e-12, -1e-12)
ACCEPTED = {
    "fault_03_rounded": (ROUNDED, 2),
    "fault_05_exact": (two(0.0, 1.0, 0.0), 0),
    "fault_07_float32": (pa.table({"p": pa.array([0.25, 0.5, 0.75, 0.875], pa.float32())}), 0),
    "fault_07_whole": (pa.table({"p": pa.array([0, 1, 1, 0], pa.int64())}), 0),
    "fault_07_decimal": (
        pa.table({"p": pa.array([Decimal("0.25"), Decimal("0.75")], pa.decimal128(5, 3))}),
        0,
    ),
    "fault_37_denormal": (two(5e-324, 1e-320, 2.2e-308), 0),
}


@pytest.mark.parametrize(("table", "clipped"), ACCEPTED.values(), ids=ACCEPTED)
def test_odd_rows_that_are_probabilities_are_counted_by_every_way_in(surface, table, clipped):
    expected = truth.count(lab(1), table)
    found = surface.count(table)
    np.testing.assert_array_equal(found.V, expected.V)
    np.testing.assert_array_equal(found.score_sums, expected.score_sums)
    assert found.clipped == clipped
    new = surface.recalibrate(table)
    np.testing.assert_allclose(new, truth.recalibrate(prevalence(1), table), rtol=1e-9, atol=0)
    scores = truth.proba(table, ["p"])
    np.testing.assert_array_equal(new[scores == 0], 0)
    np.testing.assert_array_equal(new[scores == 1], 1)


def test_fault_09_groups_without_rows_are_an_empty_table_by_every_way_in(surface):
    table = pa.table({"p": pa.array([], pa.float64()), "g": pa.array([], pa.string())})
    found = surface.count(table, by=["g"])
    assert found.groups == ()
    assert found.n.sum() == 0
