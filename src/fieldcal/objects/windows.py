"""Windows of time over batches whose names are dates or times in ISO format."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import group_keys

Time = str | dt.date | dt.datetime | None

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def within(ids: Sequence[str], start: Time, end: Time) -> list[str]:
    """The ids, which are dates or times in ISO format, that lie in [start, end)."""
    times = {id: _instant(id, "the batch id") for id in ids}
    low = None if start is None else _instant(start, "start")
    high = None if end is None else _instant(end, "end")
    bounds = [bound for bound in (low, high) if bound is not None]
    if len({time.utcoffset() is None for time in (*times.values(), *bounds)}) > 1:
        raise InputError(
            "Times with and without an offset from UTC cannot be compared, and the batch ids, start and end have "
            "both. Give all of them one, such as '2020-01-01T00:00+00:00', or none."
        )
    if low is not None and high is not None and low > high:
        raise InputError(f"The window starts at {low} and ends before that, at {high}. Swap start and end.")
    return [
        id for id, time in times.items() if (low is None or low <= time) and (high is None or time < high)
    ]


def _instant(value: Any, name: str) -> dt.datetime:
    """A date, a time, or either in ISO format; a date is its midnight."""
    given = group_keys.normalize(value) if isinstance(value, (str, dt.date, np.datetime64)) else None
    if isinstance(given, dt.datetime):
        return given
    if isinstance(given, dt.date):
        return dt.datetime.combine(given, dt.time())
    if not isinstance(given, str):
        raise InputTypeError(f"{name} must be a date, a time or text in ISO format, but got {value!r:.60}.")
    try:
        if _DATE.match(given):
            return dt.datetime.fromisoformat(given)
    except ValueError:
        pass
    raise InputError(
        f"A window of time needs dates or times in ISO format, such as '2020-02-29' or '2020-02-29T12:00', but "
        f"{name} is {given!r:.60}. Use only([…]) to choose batches by name."
    )
