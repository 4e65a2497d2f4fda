"""The column of a table that holds the classes of those rows whose class is known, and is null elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.errors import InputTypeError
from fieldcal.objects import Classes, Lab, group_keys
from fieldcal.tables.columns import compared_as
from fieldcal.tables.engines import Table
from fieldcal.types import Design, Ints
from fieldcal.verbs.field_labels import STRAY, UNKNOWN, field_labels, label_places, stray_label

_KINDS = (nw.String, nw.Boolean, nw.Date, nw.Datetime, nw.Decimal, nw.Float64)


@dataclass(frozen=True)
class Labels:
    """The class of each row of a table of counts, as its place, `UNKNOWN` where it has none."""

    places: Ints
    design: Design
    only: bool  # whether their rows were counted before

    @property
    def known(self) -> Ints:
        """Which rows of the table have a label."""
        return np.flatnonzero(self.places != UNKNOWN)

    def part(self, at: Ints) -> Labels:
        """Those of some rows."""
        return replace(self, places=self.places[at])


@dataclass(frozen=True)
class LabelColumn:
    """The column of labels of one table."""

    table: Table
    column: str
    classes: Classes
    design: Design
    only: bool  # whether the rows were counted before

    @classmethod
    def of(cls, table: Table, lab: Lab, column: str, *, design: Design, only: bool) -> LabelColumn:
        """Checked: the column is there and holds what a class can be."""
        table.require([column], role="label")
        assert isinstance(lab.outcome, Classes)  # numbers are read into memory
        found = cls(table, column, lab.outcome, design, only)
        if table.dtype(column) == nw.Object and table.frame.implementation.is_pandas():
            values = table.values(column)
            field_labels(lab.outcome, values, n=len(values))
        elif found._dtype not in _KINDS and not found._dtype.is_integer():
            raise InputTypeError(
                f"The label column {column!r:.60} is of type {table.dtype(column)}. {group_keys.KINDS}: convert it "
                "first, as str(…) does."
            )
        return found

    @property
    def name(self) -> str:
        """Our name of the column."""
        return self.table.helper("label")

    @property
    def _dtype(self) -> Any:
        """The type in which labels are compared; a column of nulls alone has none, and counts as text."""
        dtype = self.table.dtype(self.column)
        if dtype.is_float():
            return nw.Float64
        return nw.String if dtype == nw.Unknown else compared_as(dtype)

    def expression(self) -> nw.Expr:
        """The labels, null where they are null or NaN."""
        labels, given = self.table.column(self.column), self.table.dtype(self.column)
        if given == nw.Object:
            return labels.alias(self.name)
        labels = labels if given == self._dtype else labels.cast(self._dtype)
        if given.is_float():
            labels = nw.when(~self.table.is_nan(labels)).then(labels)
        return labels.alias(self.name)

    def read(self, values: Sequence[Any], rows: Ints) -> Labels:
        """The classes of labels that were grouped by, each of so many rows."""
        return labels_of(self.classes, values, rows, design=self.design, only=self.only)


def labels_of(classes: Classes, values: Any, rows: Ints, *, design: Design, only: bool) -> Labels:
    """The places of labels, each of so many rows, all of which must be classes."""
    places = label_places(classes, values)
    strays = np.flatnonzero(places == STRAY)
    if len(strays):
        first = int(strays[0])
        n = int(rows[[i for i in strays if values[i] == values[first]]].sum())
        raise stray_label(classes, values, first, where=f"{n:,} row{'s' if n > 1 else ''}")
    return Labels(places, design, only)
