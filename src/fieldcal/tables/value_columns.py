"""Columns of categories, from judges or tests. An engine groups by them as they are; Python normalises them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NoReturn

from fieldcal.core.values import LEFT_OUT, MISSING, Placed, Value, Values, canonical_texts, rows_of_values
from fieldcal.errors import InputError, InputTypeError, RowError, option
from fieldcal.objects import Columns, Lab
from fieldcal.options import column_names
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table, Type
from fieldcal.tables.groups import KeyColumn
from fieldcal.types import Ints

#: Types that are grouped by as text; objects, which only pandas has, as their text.
_TEXT = ("text", "null", "objects")


class OfClasses:
    """Columns whose labels are classes, with the names that a lab stores."""

    table: Table
    columns: tuple[str, ...]

    def label(self, name: str) -> Expr:
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
            if not (dtype.family in (*_TEXT, "bool") or dtype.is_number):
                raise InputTypeError(
                    f"The values in column {name!r:.60} must be text, numbers or truth values, but are {dtype}. Cast "
                    "the column to text first, or name a column inside of it."
                )
        return self

    def names(self) -> list[str]:
        """Our names of the columns."""
        return [self.table.helper(f"value_{k}") for k in range(len(self.columns))]

    def raw(self) -> list[Expr]:
        """The columns in a form that rows can be grouped by; null where they are null or NaN."""
        return [self._raw(name) for name in self.columns]

    def expressions(self) -> dict[str, Expr]:
        """The same under our names."""
        return dict(zip(self.names(), self.raw(), strict=True))

    def keys(self) -> list[KeyColumn]:
        """The same, to be matched with a small table."""
        given = zip(self.names(), self.raw(), map(self._type, self.columns), strict=True)
        return [KeyColumn(*column) for column in given]

    def _type(self, name: str) -> Type:
        """One type for all text and one for all fractions."""
        dtype = self.table.dtype(name)
        if dtype.family in _TEXT:
            return Type("text", "String")
        return dtype if dtype.family in ("bool", "integer") else Type("float", "Float64")

    def _raw(self, name: str) -> Expr:
        backend, column, wanted = self.table.backend, self.table.column(name), self._type(name)
        if wanted.family == "text":
            return backend.cast(column, "TEXT")
        if wanted.family != "float":
            return column
        number = backend.double(column)
        return backend.when(backend.is_number(number), number)

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

    def is_missing(self, columns: Sequence[Sequence[Any]]) -> Expr:
        """Whether a row has no category: null, or blank text."""
        backend, parts = self.table.backend, []
        for x, column in zip(self.raw(), columns, strict=True):
            texts = zip(column, canonical_texts(column), strict=True)
            blank = {v for v, text in texts if text is None and type(v) is str}
            absent = backend.absent(x)
            parts.append(absent | backend.among(x, sorted(blank)) if blank else absent)
        return reduce(or_, parts)

    def refuse_missing(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        *,
        what: str,
        way_out: str,
        among: Expr | None = None,
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
