"""Columns of categories, from judges or tests. An engine groups by them as they are; Python normalises them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import narwhals as nw

from fieldcal.core.values import LEFT_OUT, MISSING, Placed, Value, Values, canonical_texts, rows_of_values
from fieldcal.errors import InputError, InputTypeError, RowError, option
from fieldcal.objects import Columns, Lab
from fieldcal.options import column_names
from fieldcal.tables.engines import Table
from fieldcal.types import Ints

_TEXT = (nw.String, nw.Categorical, nw.Enum, nw.Unknown)


class OfClasses:
    """Columns whose labels are classes, with the names that a lab stores."""

    table: Table
    columns: tuple[str, ...]

    def label(self, name: str) -> nw.Expr:
        """The column of the true classes."""
        self.table.require([name], role="label")
        return self.table.column(name)

    def labels(self, read: Any, name: str) -> Any:
        """The true classes of rows that were read, as they are."""
        return read

    def remembered(self, label: str, by: tuple[str, ...]) -> Columns:
        """What a lab keeps of them."""
        return Columns(scores=self.columns, label=label, by=by)


@dataclass(frozen=True)
class ValueColumns(OfClasses):
    """The columns of categories in one table, one per judge."""

    table: Table
    columns: tuple[str, ...]

    @classmethod
    def find(cls, table: Table, predictions: str | Sequence[str]) -> ValueColumns:
        """The named columns, checked to exist and to hold categories."""
        names = column_names("predictions", predictions)
        if not names or len(set(names)) < len(names):
            raise InputError(
                f"{option('predictions', list(names))} must name one column of values per judge, at least one, and "
                "each once."
            )
        return cls(table, names).checked()

    @classmethod
    def of(cls, table: Table, lab: Lab, predictions: str | Sequence[str] | None) -> ValueColumns:
        """The given columns, or those of the lab."""
        if predictions is None and lab.columns is None:
            raise InputError(
                f"This lab was learnt from arrays and knows no column names. Pass {option('predictions')}, the column "
                "of values, or one per judge."
            )
        found = cls.find(table, lab.columns.scores if predictions is None else predictions)  # type: ignore[union-attr]
        assert isinstance(lab.partition, Values)
        if len(found.columns) != lab.partition.judges:
            raise InputError(
                f"There are {len(found.columns)} columns of values, but {lab.partition.judges} in the lab. Name one "
                "per judge, in the lab's order."
            )
        return found

    def checked(self) -> ValueColumns:
        """Refuse columns that are not there, or hold lists, times or the like."""
        self.table.require(self.columns, role="predictions")
        for name in self.columns:
            dtype = self.table.dtype(name)
            if not (dtype in (*_TEXT, nw.Boolean, nw.Object) or dtype.is_numeric()):
                raise InputTypeError(
                    f"The values in column {name!r:.60} must be text, numbers or truth values, but are {dtype}. Cast "
                    "the column to text first, or name a column inside of it."
                )
        return self

    def names(self) -> list[str]:
        """Our names of the columns."""
        return [self.table.helper(f"value_{k}") for k in range(len(self.columns))]

    def raw(self) -> list[nw.Expr]:
        """The columns in a form that rows can be grouped by; null where they are null or NaN."""
        return [self._raw(name) for name in self.columns]

    def expressions(self) -> list[nw.Expr]:
        """The same under our names."""
        return [x.alias(n) for x, n in zip(self.raw(), self.names(), strict=True)]

    def dtypes(self) -> list[Any]:
        """Their types."""
        return [self._dtype(name) for name in self.columns]

    def _dtype(self, name: str) -> Any:
        """One type for all text and one for all fractions; objects, which only pandas has, become their text."""
        dtype = self.table.dtype(name)
        if dtype in (*_TEXT, nw.Object):
            return nw.String
        return dtype if dtype == nw.Boolean or dtype.is_integer() else nw.Float64

    def _raw(self, name: str) -> nw.Expr:
        column, given, wanted = self.table.column(name), self.table.dtype(name), self._dtype(name)
        if given == nw.Object:
            return nw.when(~column.is_null()).then(column.cast(nw.String))
        if wanted != nw.Float64:
            return column if given == wanted else column.cast(wanted)
        number = column.cast(nw.Float64)
        return nw.when(~self.table.is_nan(number)).then(number)

    def predictions(self, read: Mapping[str, Any]) -> list[Any]:
        """The values of rows that were read; of several judges as tuples."""
        columns = self.listed(read)
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def listed(self, read: Mapping[str, Any]) -> list[list[Any]]:
        """One list per judge, of columns under our names."""
        return [list(read[name]) for name in self.names()]

    def split(self, predictions: Sequence[Any]) -> list[list[Any]]:
        """What `predictions` made, as one list per judge again."""
        if len(self.columns) == 1:
            return [list(predictions)]
        return [[row[k] for row in predictions] for k in range(len(self.columns))]

    def is_missing(self, columns: Sequence[Sequence[Any]]) -> nw.Expr:
        """Whether a row has no category: null, or blank text."""
        blank = [
            {
                v
                for v, text in zip(column, canonical_texts(column), strict=True)
                if text is None and type(v) is str
            }
            for column in columns
        ]
        parts = [
            x.is_null() | x.is_in(sorted(texts)) if texts else x.is_null()
            for x, texts in zip(self.raw(), blank, strict=True)
        ]
        return reduce(lambda a, b: a | b, parts)

    def refuse_missing(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        *,
        what: str,
        way_out: str,
        among: nw.Expr | None = None,
    ) -> NoReturn:
        """Refuse rows without a category; ``among`` is the number of rows that ``what`` describes.

        ``columns`` are the distinct categories, one column per judge; ``way_out`` ends the message.
        """
        named = ", ".join(f"{name!r:.60}" for name in self.columns[:4])
        missing = self.is_missing(columns)
        first = self.table.first(missing if among is None else missing & among)
        where = "" if first is None else f", the first is row {first}"
        raise RowError(
            f"{rows:,} of {what} have no value in {named} (null or blank){where}. {way_out}", row=first
        )


def has_value(columns: Sequence[Sequence[Any]]) -> list[bool]:
    """Which rows have a category of every judge."""
    return [value is not None for value in rows_of_values(columns)]


@dataclass(frozen=True)
class Unseen:
    """Rows of a table by whether the lab has their category."""

    placed: Placed  # where each combination of values belongs
    values: Counter[Value]  # those that the lab has never seen, each of so many rows
    missing: int  # rows without a value
    left_out: int  # rows with one that is in no bin

    @classmethod
    def of(cls, partition: Values, columns: Sequence[Sequence[Any]], rows: Ints) -> Unseen:
        """From combinations of categories, each with a number of rows; combinations may repeat."""
        placed, values = partition.place(columns), Counter[Value]()
        for value, unseen, n in zip(rows_of_values(columns), placed.unseen, rows, strict=True):
            if unseen and value is not None:
                values[value] += int(n)
        missing, left_out = (int(rows[placed.ids == fate].sum()) for fate in (MISSING, LEFT_OUT))
        return cls(placed, values, missing, left_out)
