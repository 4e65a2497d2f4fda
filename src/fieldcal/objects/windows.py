"""Windows of time of one length: where they start, how they are named, and the counts of a field in them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.errors import InputError, Word, option
from fieldcal.objects import group_keys
from fieldcal.types import Floats, Ints

if TYPE_CHECKING:
    from fieldcal.objects.field import Field

_LENGTH = re.compile(r"([1-9][0-9]{0,3})(s|m|h|d|w|mo|q|y)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MONTHS = {"mo": 1, "q": 3, "y": 12}
#: The first of the epoch: weeks begin on Mondays, other lengths count from here.
_MONDAY = dt.datetime(1970, 1, 5)
#: Between the start of a window and the name of what was counted in it: "2026-03-04/late".
OF = "/"
_MOST = 20_000


def check_windows(time: Any, every: Any) -> tuple[int, str]:
    """How many of which unit a window has; refuses one of the two arguments without the other."""
    found = _LENGTH.fullmatch(every) if isinstance(every, str) else None
    if time is None or found is None:
        length = Word("<length such as '1d', '1w', '1mo', '6h'>")
        needed = f"{option('time', Word('<column>'))} and {option('every', length)}"
        shown = time if time is None or isinstance(time, str) else Word("…")
        raise InputError(f"Windows need {needed}, but got {option('time', shown)}, {option('every', every)}.")
    return int(found[1]), found[2]


def start_of(value: dt.date | dt.datetime, every: str) -> dt.datetime:
    """The start of the window that a moment lies in."""
    times, unit = check_windows(..., every)
    moment = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
    if unit in _MONTHS:
        length = times * _MONTHS[unit]
        months = (moment.year * 12 + moment.month - 1) // length * length
        return dt.datetime(months // 12, months % 12 + 1, 1, tzinfo=moment.tzinfo)
    zero = _MONDAY.replace(tzinfo=moment.tzinfo)
    length = times * _SECONDS[unit]
    return zero + dt.timedelta(seconds=(moment - zero) // dt.timedelta(seconds=length) * length)


def end_of(start: dt.datetime, every: str) -> dt.datetime:
    """The start of the next window."""
    times, unit = check_windows(..., every)
    if unit not in _MONTHS:
        return start + dt.timedelta(seconds=times * _SECONDS[unit])
    months = start.year * 12 + start.month - 1 + times * _MONTHS[unit]
    return dt.datetime(months // 12, months % 12 + 1, 1, tzinfo=start.tzinfo)


def name_of(start: dt.datetime, every: str) -> str:
    """Text that sorts by time: a date if windows are whole days."""
    whole_days = check_windows(..., every)[1] not in ("s", "m", "h")
    return (start.date() if whole_days else start).isoformat()


def cut(time: Any, every: Any, *, n: int) -> tuple[list[str | None], Ints]:
    """Names of the windows that hold n times, None for missing ones, and the position of each time among them."""
    check_windows(time, every)
    values = np.asarray(time)
    if values.dtype == object:
        plain = [None if group_keys.is_null(v) else v for v in values.tolist()]
        values = np.array(
            [v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in plain], object
        )
    if values.shape != (n,):
        raise InputError(f"There are {n} predictions but {len(values)} times. Give one time per row.")
    try:
        moments = values.astype("datetime64[us]") if values.dtype.kind in "MUO" else None
    except (TypeError, ValueError):
        moments = None
    if moments is None:
        first = next((v for v in values.tolist() if v is not None), None)
        raise InputError(
            f"{option('time')} must hold dates or times, such as '2026-03-04' or numpy's datetime64, but got "
            f"{first!r:.60}."
        )
    days, codes = np.unique(moments.astype("datetime64[s]"), return_inverse=True)
    names = [None if np.isnat(d) else name_of(start_of(d.item(), every), every) for d in days]
    distinct = sorted(set(names), key=lambda name: (name is not None, name or ""))
    place = {name: i for i, name in enumerate(distinct)}
    return list(distinct), np.array([place[name] for name in names], dtype=np.intp)[codes.reshape(n)]


@dataclass(frozen=True)
class Windows:
    """The counts of a field by group and window."""

    every: str
    starts: tuple[dt.datetime, ...]  # also of windows without rows, from the first to the last
    V: Floats  # (G, T, m)
    score_sums: Floats  # (G, T, K)
    labels: Floats  # (G, T, K, m) labelled rows, not chosen by their class

    @property
    def ends(self) -> tuple[dt.datetime, ...]:
        """The end of each window, which is not in it."""
        return tuple(end_of(start, self.every) for start in self.starts)

    @property
    def names(self) -> list[str]:
        """The starts as text."""
        return [name_of(start, self.every) for start in self.starts]


def windows_of(field: Field) -> Windows | None:
    """The counts in windows; None of a field without. Batches without a name are in no window."""
    if field.every is None or not field.batch_ids:
        return None
    from fieldcal.objects.batches import moments

    begun = {id: start_of(moment, field.every) for id, moment in moments(field.batch_ids).items()}
    starts = _all(min(begun.values()), max(begun.values()), field.every)
    place = {start: t for t, start in enumerate(starts)}
    G, K, m, T = len(field.groups), len(field.classes), field.n_bins, len(starts)
    V, sums, labels = np.zeros((G, T, m)), np.zeros((G, T, K)), np.zeros((G, T, K, m))
    where = {group_keys.identity(key): g for g, key in enumerate(field.groups)}
    for id, start in begun.items():
        batch, t = field.batches[id], place[start]
        at = np.array([where[group_keys.identity(key)] for key in batch.groups], dtype=np.intp)
        V[at, t] += batch.V
        sums[at, t] += batch.score_sums
        for design, labelled in batch.labelled.items():
            if design != "by_class":
                labels[at[labelled.at], t] += labelled.counts
    return Windows(field.every, tuple(starts), V, sums, labels)


def _all(first: dt.datetime, last: dt.datetime, every: str) -> Sequence[dt.datetime]:
    starts = [first]
    while starts[-1] < last:
        starts.append(end_of(starts[-1], every))
        if len(starts) > _MOST:
            raise InputError(
                f"From {first} to {last} there are more than {_MOST:,} windows of {every}. Choose longer ones, "
                "field.over('1d'), or a shorter period, field.window(…)."
            )
    return starts
