"""A column of times cut into windows, each of which becomes a batch of the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.errors import InputTypeError
from fieldcal.objects import Field, Lab, group_keys
from fieldcal.objects.windows import check_windows, name_of, start_of
from fieldcal.tables.count_table import Counted, as_field
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table

#: What the engine cuts at, for each unit; multiples of it are put together here, as no engine has them all.
_CUT = {
    "s": "SECOND",
    "m": "MINUTE",
    "h": "HOUR",
    "d": "DAY",
    "w": "DAY",
    "mo": "MONTH",
    "q": "MONTH",
    "y": "YEAR",
}


@dataclass(frozen=True)
class Window:
    """A column of times, cut into windows of one length."""

    table: Table
    column: str
    every: str

    @classmethod
    def of(cls, table: Table, time: Any, every: Any) -> Window:
        """The window, checked for its two arguments."""
        check_windows(time, every)
        table.require([time], role="time")
        dtype = table.dtype(time)
        if dtype.family not in ("date", "time"):
            raise InputTypeError(
                f"The column {time!r:.60} must hold dates or times, but is {dtype}. Cast it first."
            )
        return cls(table, time, every)

    @property
    def name(self) -> str:
        """Our name of the column of starts."""
        return self.table.helper("window")

    def expression(self) -> Expr:
        """The start of each row's window, or of the unit that the window is made of; by the clock of a zone."""
        unit = _CUT[check_windows(self.column, self.every)[1]]
        return self.table.backend.cut_time(self.table.column(self.column), unit)

    def ids(self, starts: Any) -> list[str | None]:
        """Window ids as text that sorts by time: a date if windows are whole days."""
        listed = starts.tolist() if isinstance(starts, np.ndarray) else starts
        return [
            None if group_keys.is_null(s) else name_of(start_of(s, self.every), self.every) for s in listed
        ]


def in_windows(lab: Lab, counted: Counted, seen: Counted, *, by: Sequence[str], **found: Any) -> Field:
    """One batch per window; rows without a time, and left-out rows, are in no batch."""
    windows = np.array([w or "" for w in counted.windows or ()], dtype=object)
    nothing = np.zeros(0, dtype=np.intp)
    field = as_field(lab, counted.part(nothing), by=by, seen=None if seen is counted else seen, **found)
    for start in sorted(set(windows.tolist())):
        part = as_field(lab, counted.part(np.flatnonzero(windows == start)), by=by)
        field = field + (part if not start else part.named(start))
    return field
