"""Batch: what was counted under one name; how such parts add up to a Field, and are taken out of it again."""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Sequence
from itertools import chain, islice, pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator
from pydantic import Field as Slot

from fieldcal.core.response import whole
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import group_keys
from fieldcal.objects.artefact import Counts, Frozen, KeyTuple, sealed
from fieldcal.types import Ints, Keys

Rows = Ints | slice
Table = NDArray[Any]

#: Whole numbers from here on go on as floats: two that are smaller add up within 64 bits.
_LIMIT = 2**62
_PLAIN = ({int}, {str}, {dt.date})
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Part(Frozen):
    """Counts per group of some of a field's rows."""

    groups: KeyTuple
    V: Counts
    score_sums: Counts
    dropped: int = Slot(default=0, ge=0)
    clipped: int = Slot(default=0, ge=0)


class Batch(Part):
    """Counts per group of the rows that came under one name, so that they can be taken out again.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> (monday,) = fieldcal.count(lab, [0.1, 0.7], groups=["Leeds", "York"], batch="monday").batches
    >>> monday.id, monday.groups, monday.V.sum(axis=1).tolist()
    ('monday', ('Leeds', 'York'), [1, 1])
    """

    id: str = Slot(min_length=1)


Batches = Annotated[
    tuple[Batch, ...], BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
]


def total(parts: Sequence[Part]) -> Part:
    """All parts together; where they hold floats, added in the order given."""
    groups = _all_groups([part.groups for part in parts])
    at = _all_places(groups, [part.groups for part in parts])
    return Part.model_construct(
        groups=groups,
        V=_added(len(groups), at, [part.V for part in parts]),
        score_sums=_added(len(groups), at, [part.score_sums for part in parts]),
        dropped=sum(part.dropped for part in parts),
        clipped=sum(part.clipped for part in parts),
    )


def without(everything: Part, gone: Part, stay: Sequence[Part]) -> Part:
    """What `total` makes of the parts that stay, by subtraction: for whole numbers only, which is exact.

    A group goes with the part that brought it, but stays, even without rows, where another part has it.
    """
    rows = np.arange(len(everything.groups))[_places(everything.groups, gone.groups)]
    V, score_sums = everything.V.copy(), everything.score_sums.copy()
    V[rows] -= gone.V
    score_sums[rows] -= gone.score_sums
    bare = rows[~(V[rows].any(axis=1) | score_sums[rows].any(axis=1))]
    lost = bare[_in_none(tuple(everything.groups[i] for i in bare), stay)]
    groups = everything.groups
    if len(lost):
        left = np.delete(np.arange(len(groups)), lost)
        groups = group_keys.union(tuple(groups[i] for i in left), ())
        order = group_keys.positions(everything.groups, groups)
        V, score_sums = V[order], score_sums[order]
    return Part.model_construct(
        groups=groups,
        V=sealed(V),
        score_sums=sealed(score_sums),
        dropped=everything.dropped - gone.dropped,
        clipped=everything.clipped - gone.clipped,
    )


def exact(parts: Sequence[Part]) -> bool:
    """Whether all parts hold whole numbers, which add up alike in any order."""
    return all(table.dtype.kind == "i" for part in parts for table in (part.V, part.score_sums))


def same(one: Part, two: Part) -> bool:
    """Whether two parts hold the same counts of the same groups."""
    return (
        (one.dropped, one.clipped) == (two.dropped, two.clipped)
        and _same_groups(one.groups, two.groups)
        and _same_table(one.V, two.V)
        and _same_table(one.score_sums, two.score_sums)
    )


def in_order(part: Part) -> Part:
    """The part with its groups in canonical order, as counting makes them."""
    groups = part.groups
    ordered = groups if _plainly_sorted(groups) else group_keys.union(groups, ())
    if _same_groups(groups, ordered):
        return part
    order = group_keys.positions(groups, ordered)
    return Part.model_construct(
        groups=ordered,
        V=sealed(part.V[order]),
        score_sums=sealed(part.score_sums[order]),
        dropped=part.dropped,
        clipped=part.clipped,
    )


def check_id(id: Any) -> None:
    """Refuse what cannot name a batch."""
    if not isinstance(id, str):
        raise InputTypeError(f"A batch is named by a string, but got {id!r:.60}. Use str(…).")
    if not id or any("\ud800" <= c <= "\udfff" for c in id):  # half of a pair: no file can hold it
        raise InputError(
            f"{id!r:.60} cannot name a batch: it is empty or no valid text. Choose another name."
        )


def check_parts(everything: Part, rest: Part, batches: Sequence[Batch]) -> None:
    """Refuse parts that do not fit together, or not with what they are said to add up to."""
    if not all(a.id < b.id for a, b in pairwise(batches)):
        raise ValueError("the ids of the batches are not distinct and in order")
    for part in (rest, *batches):
        where = f"the batch {part.id!r:.60}" if isinstance(part, Batch) else "the rest"
        shapes = ((part.V, everything.V), (part.score_sums, everything.score_sums))
        if any(mine.shape != (len(part.groups), full.shape[1]) for mine, full in shapes):
            raise ValueError(f"{where} has tables of other shapes than its groups and the field need")
        if in_order(part) is not part:
            raise ValueError(f"{where} has its groups in another order than ours")
    if not same(total((rest, *batches)), everything):
        raise ValueError("the counts are not the sum of the batches and the rest")


def within(ids: Sequence[str], start: Any, end: Any) -> list[str]:
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
    given = group_keys.normalize(value)
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


def _all_groups(lists: Sequence[Keys]) -> Keys:
    """All keys, once, in canonical order; a list that is there already costs a comparison."""
    found: list[Keys] = []
    for groups in lists:
        if groups and not (found and _same_groups(found[-1], groups)):
            found.append(groups)
    if len(found) < 2:
        return found[0] if found else ()
    return group_keys.union(found[0], tuple(chain.from_iterable(found[1:])))


def _plainly_sorted(groups: Keys) -> bool:
    """Whether Python's own order shows that keys are in order: a million of them are looked at in an instant."""
    known: tuple[Any, ...] = groups[:-1] if groups and groups[-1] is None else groups  # null is last
    if not known:
        return True
    columns: list[Any] = [known]
    if set(map(type, known)) == {tuple}:
        widths = set(map(len, known))
        columns = [map(operator.itemgetter(i), known) for i in range(max(widths))] if len(widths) == 1 else []
    plain = bool(columns) and all(set(map(type, column)) in _PLAIN for column in columns)
    return plain and all(map(operator.lt, known, islice(known, 1, None)))


def _places(groups: Keys, wanted: Keys) -> Rows:
    return slice(None) if _same_groups(groups, wanted) else group_keys.positions(groups, wanted)


def _all_places(groups: Keys, lists: Sequence[Keys]) -> list[Rows]:
    """`_places` of every list; the dictionary of all keys is made once."""
    if all(_same_groups(groups, wanted) for wanted in lists if wanted):
        return [slice(None) if wanted else np.zeros(0, dtype=np.intp) for wanted in lists]
    everywhere = group_keys.positions(groups, tuple(chain.from_iterable(lists)))
    return list(np.split(everywhere, np.cumsum([len(wanted) for wanted in lists])[:-1]))


def _same_groups(one: Keys, two: Keys) -> bool:
    """Whether the keys are the same, in the same order; 1 and True are not, although Python has them equal."""
    if one is two:
        return True
    types = list(map(type, one))
    if one != two or types != list(map(type, two)):
        return False
    if tuple not in types:
        return True
    return bool(np.array_equal(group_keys.positions(one, two), np.arange(len(one))))


def _same_table(one: Table, two: Table) -> bool:
    return one.dtype == two.dtype and np.array_equal(one, two)


def _in_none(wanted: Keys, parts: Sequence[Part]) -> NDArray[np.bool_]:
    """Which of the keys no part has."""
    absent = np.ones(len(wanted), dtype=bool)
    for part in parts:
        if not absent.any():
            break
        found = group_keys.positions(wanted, part.groups)
        absent[found[found >= 0]] = False
    return absent


def _added(n_rows: int, at: Sequence[Rows], tables: Sequence[Table]) -> Table:
    """The sum of tables whose rows stand at the given places; floats where integers would overflow."""
    out = np.zeros((n_rows, tables[0].shape[1]), dtype=np.result_type(*tables))
    bound = 0  # of what stands in ``out``
    for rows, table in zip(at, tables, strict=True):
        largest = int(table.max(initial=0))
        if out.dtype.kind == "i" and bound + largest >= _LIMIT:
            bound = int(out.max(initial=0))
            if max(bound, largest) >= _LIMIT:
                out = out.astype(np.float64)
        out[rows] += table
        bound += largest
    if out.dtype.kind == "i" and bound >= _LIMIT and out.max(initial=0) >= _LIMIT:
        out = out.astype(np.float64)
    return sealed(whole(out))
