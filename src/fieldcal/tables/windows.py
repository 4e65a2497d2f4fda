"""A column of times cut into windows, each of which becomes a batch of the field."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.errors import InputError, InputTypeError, Word, option
from fieldcal.objects import Field, Lab, group_keys
from fieldcal.tables.count_table import Counted, as_field
from fieldcal.tables.engines import Table

_EVERY = re.compile(r"([1-9][0-9]{0,3})(s|m|h|d|w|mo|q|y)")
#: What the engine cuts at, for each unit; multiples of it are put together here, as no engine has them all.
_CUT = {"s": "1s", "m": "1m", "h": "1h", "d": "1d", "w": "1d", "mo": "1mo", "q": "1mo", "y": "1y"}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MONTHS = {"mo": 1, "q": 3, "y": 12}
#: The first of the epoch: weeks begin on Mondays, other lengths count from here.
_MONDAY = dt.datetime(1970, 1, 5)


@dataclass(frozen=True)
class Window:
    """A column of times, cut into windows of one length."""

    table: Table
    column: str
    every: str

    @classmethod
    def of(cls, table: Table, time: str | None, every: str | None, batch: str | None) -> Window:
        """The window, checked for its two arguments."""
        if time is None or every is None or not _EVERY.fullmatch(every):
            length = Word("<length such as '1d', '1w', '1mo', '6h'>")
            needed = f"{option('time', Word('<column>'))} and {option('every', length)}"
            given = f"{option('time', time)}, {option('every', every)}"
            raise InputError(f"Windows need {needed}, but got {given}.")
        if batch is not None:
            raise InputError(
                f"Windows are named after their start: give {option('batch')} or {option('time')}, not both."
            )
        table.require([time], role="time")
        dtype = table.dtype(time)
        if dtype not in (nw.Date, nw.Datetime):
            raise InputTypeError(
                f"The column {time!r:.60} must hold dates or times, but is {dtype}. Cast it first."
            )
        return cls(table, time, every)

    @property
    def name(self) -> str:
        """Our name of the column of starts."""
        return self.table.helper("window")

    def expression(self) -> nw.Expr:
        """The start of each row's window, or of the unit that the window is made of."""
        column, dtype = self.table.column(self.column), self.table.dtype(self.column)
        if dtype == nw.Datetime and dtype.time_zone is not None:  # cut by the clock of that zone, everywhere
            column = column.dt.replace_time_zone(None)
        # Cast at the end, as Spark's are of a zone after that, whatever they were, and come as those of Python's.
        return column.dt.truncate(_CUT[self._length()[1]]).cast(nw.Datetime("us")).alias(self.name)

    def ids(self, starts: Any) -> list[str | None]:
        """Window ids as text that sorts by time: a date if windows are whole days."""
        times, unit = self._length()
        listed = starts.tolist() if isinstance(starts, np.ndarray) else starts
        begun = [None if group_keys.is_null(s) else _start(s, times, unit) for s in listed]
        whole_days = unit not in ("s", "m", "h")
        return [b if b is None else (b.date() if whole_days else b).isoformat() for b in begun]

    def _length(self) -> tuple[int, str]:
        match = _EVERY.fullmatch(self.every)
        assert match is not None  # checked in `of`
        return int(match[1]), match[2]


def in_windows(lab: Lab, counted: Counted, seen: Counted, *, by: Sequence[str], **found: Any) -> Field:
    """One batch per window; rows without a time, and left-out rows, are in no batch."""
    windows = np.array([w or "" for w in counted.windows or ()], dtype=object)
    nothing = np.zeros(0, dtype=np.intp)
    field = as_field(lab, counted.part(nothing), by=by, seen=None if seen is counted else seen, **found)
    for start in sorted(set(windows.tolist())):
        part = as_field(lab, counted.part(np.flatnonzero(windows == start)), by=by)
        field = field + (part if not start else part.named(start))
    return field


def _start(value: dt.date | dt.datetime, times: int, unit: str) -> dt.datetime:
    moment = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
    if unit in _MONTHS:
        length = times * _MONTHS[unit]
        months = (moment.year * 12 + moment.month - 1) // length * length
        return dt.datetime(months // 12, months % 12 + 1, 1, tzinfo=moment.tzinfo)
    zero = _MONDAY.replace(tzinfo=moment.tzinfo)
    length = times * _SECONDS[unit]
    return zero + dt.timedelta(seconds=(moment - zero) // dt.timedelta(seconds=length) * length)
