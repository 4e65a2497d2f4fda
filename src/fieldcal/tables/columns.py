"""Columns of predictions: their roles, types and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np

from fieldcal.core.calibration import CalibrationMap
from fieldcal.core.partition import takes_ids
from fieldcal.errors import InputTypeError, option
from fieldcal.objects import Lab
from fieldcal.options import check_goes_with
from fieldcal.tables import expressions as row
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table
from fieldcal.tables.engines.base import floats
from fieldcal.tables.groups import Grouping
from fieldcal.tables.names import score_names, warn_if_recalibrated
from fieldcal.tables.quantile_columns import QuantileColumns, QuantilesLike
from fieldcal.tables.rows import Rows
from fieldcal.tables.value_columns import OfClasses, ValueColumns
from fieldcal.types import Crossing
from fieldcal.validation import CLIP


@dataclass(frozen=True)
class Scores(OfClasses):
    """The score columns of one table, in the order of the classes, or the one of the second of two."""

    table: Table
    columns: tuple[str, ...]
    normalize: bool
    n_ids: int | None = None  # given bin ids in place of predictions: how many bins there are
    counts_zeros: bool = (
        True  # whether a binary score of exactly 0 is in any bin; else it is as good as missing
    )
    calibration: CalibrationMap | None = None  # what predictions are read as; bins are of what the model said

    @classmethod
    def of(cls, table: Table, lab: Lab, scores: str | Sequence[str] | None, *, normalize: bool) -> Scores:
        """The given columns, or those of the lab; checked to exist and to be numeric."""
        ids = lab.n_bins if takes_ids(lab.partition) else None
        columns = score_names(lab, scores)
        return cls(table, columns, normalize, ids, calibration=lab.calibration_map).checked()

    def checked(self) -> Scores:
        """Refuse columns that do not exist or are not numeric."""
        self.table.require(self.columns, role="scores")
        for name in self.columns:
            dtype = self.table.dtype(name)
            if self.n_ids is not None and dtype.family != "integer":
                raise InputTypeError(f"The bin ids in {name!r:.60} must be whole numbers, but are {dtype}.")
            if not (dtype.is_number or dtype.family == "bool") and self.table.has_rows():
                raise InputTypeError(
                    f"The scores in column {name!r:.60} must be numbers, but are {dtype}. Cast the column first; "
                    f"verdicts, ratings and other values are named with {option('predictions')}."
                )
        return self

    def names(self) -> list[str]:
        """Internal names of the score columns."""
        return [self.table.helper(f"score_{k}") for k in range(len(self.columns))]

    def named(self) -> list[Expr]:
        """The columns under these names."""
        return [self.table.backend.column(n) for n in self.names()]

    def raw(self) -> list[Expr]:
        """The columns as float64 (bin ids unchanged); null where they are null or NaN.

        NaN is tested explicitly, because statistics of Parquet files omit it, and engines that rely on them would
        evaluate the comparison as true.
        """
        backend, given = self.table.backend, self._as_given()
        if self.n_ids is not None:
            return given
        kept = [backend.when(backend.is_number(x), x) for x in given]
        if self.counts_zeros:
            return kept
        return [backend.when(backend.is_number(x) & ~row.is_zero(backend, given[-1]), x) for x in given]

    def _as_given(self) -> list[Expr]:
        if self.n_ids is not None:
            return [self.table.column(self.columns[0])]
        return [self.table.backend.double(self.table.column(c)) for c in self.columns]

    def expressions(self, *, repair: bool = False) -> dict[str, Expr]:
        """The columns under internal names; ``repair`` clips rounding errors."""
        columns = self.raw()
        if repair and self.n_ids is None:
            columns = [row.clipped(self.table.backend, x) for x in columns]
        return dict(zip(self.names(), columns, strict=True))

    def unguarded(self) -> dict[str, Expr]:
        """The columns as they are, NaN included, where `present` is asked beside every condition."""
        return dict(zip(self.names(), self._as_given() if self.counts_zeros else self.raw(), strict=True))

    def present(self, columns: Sequence[Expr]) -> Expr:
        """Whether no score of the row is null or NaN."""
        backend = self.table.backend
        if self.n_ids is not None:
            return ~backend.absent(columns[0])
        return reduce(and_, (backend.is_finite(x) for x in columns))

    def missing(self) -> Expr:
        """Whether any score of the row is null or NaN."""
        return reduce(or_, (self.table.backend.absent(x) for x in self.raw()))

    def valid(self, columns: Sequence[Expr], *, slack: float = 0.0) -> Expr:
        """Whether a row can be binned as it is; not true where a score is null."""
        backend = self.table.backend
        if self.n_ids is not None:
            return (columns[0] >= backend.integer(0)) & (columns[0] < backend.integer(self.n_ids))
        inside = row.inside(backend, columns, slack=slack)
        if len(columns) == 1:
            return inside
        if self.normalize:
            return inside & (row.total(columns) > backend.number(0.0))
        return inside & row.is_one(backend, row.total(columns))

    def usable(self, columns: Sequence[Expr]) -> Expr:
        """Whether a row could be repaired: in range up to rounding."""
        return self.valid(columns, slack=CLIP)

    def final(self, columns: Sequence[Expr]) -> list[Expr]:
        """The predictions of a valid row, in the form that is binned."""
        if not self.normalize or len(columns) == 1:
            return list(columns)
        whole = row.total(columns)
        return [x / whole for x in columns]

    def as_read(self, columns: Sequence[Expr], hold: row.Hold) -> Sequence[Expr]:
        """The predictions as probabilities to sum and recalibrate: calibrated, if the lab is.

        ``hold`` materialises expressions that are used repeatedly.
        """
        if self.calibration is None:
            return columns
        return row.calibrated(self.table.backend, self.calibration, columns, hold)

    def predictions(self, read: Mapping[str, Any]) -> Any:
        """The scores of rows that were read, (n,) or (n, K); NaN where they are missing."""
        if self.n_ids is not None:
            return np.asarray(read[self.names()[0]])
        columns = [floats(read[n]) for n in self.names()]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)


#: Columns of probabilities, of quantiles of a number, or of values.
PredictionColumns = Scores | QuantileColumns | ValueColumns


def prediction_columns(
    table: Table,
    lab: Lab,
    *,
    scores: str | Sequence[str] | None,
    quantiles: QuantilesLike | None,
    predictions: str | Sequence[str] | None = None,
    normalize: bool = False,
    crossing: Crossing = "error",
) -> PredictionColumns:
    """The given columns, or those of the lab, of the kind of the lab."""
    named = {"scores": scores, "quantiles": quantiles, "predictions": predictions}
    check_goes_with(lab.predicted, **named, normalize=normalize, crossing=crossing)
    if lab.of_values:
        return ValueColumns.of(table, lab, predictions)
    columns: Scores | QuantileColumns
    if lab.outcome.kind == "intervals":
        columns = QuantileColumns.of(table, lab, quantiles, crossing=crossing)
    else:
        columns = Scores.of(table, lab, scores, normalize=normalize)
    warn_if_recalibrated(columns.columns, lab)
    return columns


@dataclass(frozen=True)
class ReadRows:
    """Rows that were read: probabilities, distributions or values, groups (None without group columns), and other
    columns.
    """

    predictions: Any
    groups: Any
    others: Mapping[str, Any]


def read_rows(
    columns: PredictionColumns,
    grouping: Grouping,
    *,
    others: Mapping[str, Expr] | None = None,
    rows: Rows | None = None,
) -> ReadRows:
    """The rows of the table, or some of them, with ``others``, columns by their new names."""
    table, names = columns.table, {n: columns.table.helper(n) for n in others or ()}
    made = dict(zip(columns.names(), columns.raw(), strict=True)) | grouping.expressions()
    made |= {names[n]: x for n, x in (others or {}).items()}
    # All of it in one query: a lazy table may have its rows in another order the next time.
    read = table.collect((table.rows if rows is None else rows).select(made))
    return ReadRows(
        columns.predictions(read),
        grouping.decode([read[n] for n in grouping.names()]),
        {n: read[name] for n, name in names.items()},
    )


def read_labelled_rows(
    columns: PredictionColumns, grouping: Grouping, label: str, *, labelled_only: bool = False
) -> tuple[ReadRows, Any]:
    """The rows, or those with a label, and their labels."""
    table, y = columns.table, columns.label(label)
    has_label = ~table.backend.absent(table.column(label))
    rows = read_rows(
        columns, grouping, others={"label": y}, rows=table.rows.where(has_label) if labelled_only else None
    )
    return rows, columns.labels(rows.others["label"], label)
