"""Tables in memory: pandas, polars' DataFrame, pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw

from fieldcal.tables.engines.base import Small, Table, values_of

#: pandas' types that have null, for those that have none.
_WITH_GAPS = {"int64": "Int64", "bool": "boolean"}


class Eager(Table):
    """New columns are worked out beside the table and then handed to it, so that index and rows stay as they are."""

    lazy = False

    def dtype(self, name: str) -> Any:
        """Categories can be of any type in pandas and pyarrow: those of text count as text, others as objects.

        Objects that are all decimals count as decimals: pandas has no type for them.
        """
        found = super().dtype(name)
        if found == nw.Object and _is_decimal(self.frame.get_column(self._safe[name])):
            return nw.Decimal()
        if found in (nw.Categorical, nw.Enum) and not _has_text(
            self.frame.get_column(self._safe[name]).to_native()
        ):
            return nw.Object()
        return found

    def first(self, condition: nw.Expr) -> int | None:
        """In the order of the table."""
        met = self.frame.select(condition.alias(self.helper("met"))).get_column(self.helper("met")).to_list()
        return next((i for i, is_met in enumerate(met) if is_met), None)

    def collect(self, frame: Any) -> dict[str, Any]:
        """Whole numbers as arrays, unless nulls would make them fractions; everything else as lists."""
        return {s.name: values_of(s) for s in frame.iter_columns()}

    def small(self, columns: Small, dtypes: Mapping[str, Any]) -> Any:
        """A frame of the same library."""
        backend = self.frame.implementation
        made = {
            name: nw.new_series(name, list(values), _whole(dtypes[name]), backend=backend).cast(dtypes[name])
            for name, values in columns.items()
        }
        return nw.from_dict(made)

    def prepare(self, columns: Sequence[nw.Expr]) -> Any:
        """Our columns alone, with the row's number: a join forgets the order in some libraries."""
        return self.frame.select(*columns).with_row_index(self.helper("row"))

    def align(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """pandas has several types for the same values, and does not join pyarrow's times with its own."""
        if not prepared.implementation.is_pandas():
            return small
        wanted = prepared.to_native().dtypes
        native = small.to_native().astype({theirs: wanted[ours] for ours, theirs in on.items()})
        return nw.from_native(native, eager_only=True)

    def look_up(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """A left join, sorted back."""
        joined = prepared.join(small, left_on=list(on), right_on=list(on.values()), how="left")
        return joined.sort(self.helper("row"))

    def finish(self, computed: Any, new: Mapping[str, nw.Expr]) -> Any:
        """By position: whatever index the table has is kept."""
        answer = computed.select(*(e.alias(n) for n, e in new.items()))
        return self.frame.with_columns(*(answer.get_column(n) for n in new)).to_native()

    def finish_with_gaps(self, computed: Any, name: str, values: nw.Expr, held: nw.Expr) -> Any:
        """With nullable types, because pandas would convert integers with gaps to floats, and booleans to objects."""
        if not self.frame.implementation.is_pandas():
            return super().finish_with_gaps(computed, name, values, held)
        answer = computed.select(values.alias(name), held.alias(self.helper("held"))).to_native()
        column, there = answer[name], answer[self.helper("held")].astype(bool)
        if not there.all():
            column = column.astype(_WITH_GAPS.get(str(column.dtype), column.dtype)).where(there)
        return self.frame.with_columns(nw.from_native(column, series_only=True)).to_native()


class Arrow(Eager):
    """pyarrow has several types of text, and joins none with another."""

    def align(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """The small table's keys get the big one's types: the other way round could overflow."""
        native, wanted = small.to_native(), prepared.to_native().schema
        for ours, theirs in on.items():
            place = native.column_names.index(theirs)
            native = native.set_column(place, theirs, native.column(place).cast(wanted.field(ours).type))
        return nw.from_native(native, eager_only=True)


def _whole(dtype: Any) -> Any:
    """The type of whole numbers, which may be too large for the one that a library would guess; None for others."""
    return dtype if dtype.is_integer() else None


def _is_decimal(series: nw.Series[Any]) -> bool:
    """Whether a column of objects holds decimals and nothing else, some at least."""
    held = series.drop_nulls().to_list()
    return bool(held) and all(isinstance(value, Decimal) for value in held)


def _has_text(native: Any) -> bool:
    """Whether the categories of a column are text; always so in polars."""
    kind = getattr(native, "type", None) or getattr(native.dtype, "pyarrow_dtype", None)
    if kind is not None:
        return "string" in str(kind.value_type)
    categories = getattr(getattr(native, "cat", None), "categories", ())
    return all(isinstance(c, str) for c in categories)
