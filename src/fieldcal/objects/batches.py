"""Batches: counts of rows that arrived together, with labels; their sums, differences and time windows.

Labelled rows are few even if there are a million groups, so only groups with labels are stored. How the rows were
chosen (their design) decides how they enter the likelihood, so each design has a table of its own.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import model_validator

from fieldcal.core.response import count_cells, whole
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import group_keys
from fieldcal.objects.artefact import MOST, Counts, Frozen, KeyTuple, ReadOnly, sealed
from fieldcal.types import DESIGNS, Design, Floats, Ints, Keys

#: Counts from here on become floats: two smaller integers add up within 64 bits.
_LIMIT = 2**62
Table = NDArray[Any]


class Labelled(Frozen):
    """Counts of labelled rows of one design."""

    at: Counts  # (L,) positions of the groups with labels, ascending
    counts: Counts  # (L, K, m) rows per group, class and bin, or sums of weights

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        if self.at.ndim != 1 or self.at.dtype.kind != "i" or not len(self.at):
            raise ValueError("at must be positions of groups, at least one")
        if self.counts.ndim != 3 or len(self.counts) != len(self.at):
            raise ValueError("counts must be a table of classes and bins for each of at")
        return self

    def same(self, other: Labelled) -> bool:
        """Whether both hold the same counts of the same type."""
        pairs = ((self.at, other.at), (self.counts, other.counts))
        return all(mine.dtype == its.dtype and np.array_equal(mine, its) for mine, its in pairs)


class ByDesign(ReadOnly[Design, Labelled]):
    """Labelled rows by design; designs without labels are absent."""

    refusal: ClassVar[str] = "The labels of a Field cannot be changed. Count them with their rows."

    def __init__(self, given: Mapping[Design, Labelled] | None = None) -> None:
        known = {} if given is None else given
        super().__init__({design: known[design] for design in DESIGNS if design in known})

    @property
    def is_exact(self) -> bool:
        return all(labelled.counts.dtype.kind == "i" for labelled in self.values())

    def same(self, other: ByDesign) -> bool:
        return self.keys() == other.keys() and all(self[design].same(other[design]) for design in self)


def count_labels(
    groups: Ints, y: Ints, bins: Ints, *, design: Design, shape: tuple[int, int], weight: Floats | None
) -> ByDesign:
    """Counts of labelled rows, from the positions of their groups, classes and bins; ``shape``: numbers of classes and
    bins.
    """
    at, row = np.unique(groups, return_inverse=True)
    cells = count_cells(row, y * shape[1] + bins, shape=(len(at), shape[0] * shape[1]), weight=weight)
    return ByDesign(_one(design, at, cells.reshape(-1, *shape)))


def labels_of_counts(groups: Ints, y: Ints, V: Table, *, design: Design, n_classes: int) -> ByDesign:
    """Counts of labelled rows, from histograms per group and class.

    Each row of V, (n, m), belongs to one group and class; pairs may repeat.
    """
    at, row = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(at), n_classes, V.shape[1]), dtype=V.dtype)
    np.add.at(counts, (row, y), V)
    return ByDesign(_one(design, at, counts))


def add_labels(parts: Sequence[ByDesign], places: Sequence[Ints | slice]) -> ByDesign:
    """The sum of all parts, whose groups move to the given positions; floats are added in the order given."""
    out: dict[Design, Labelled] = {}
    for design in DESIGNS:
        present = [
            (_moved(part[design].at, place), part[design].counts)
            for part, place in zip(parts, places, strict=True)
            if design in part
        ]
        if present:
            everywhere = np.unique(np.concatenate([at for at, _ in present]))
            rows = [np.searchsorted(everywhere, at) for at, _ in present]
            out |= _one(design, everywhere, added(len(everywhere), rows, [table for _, table in present]))
    return ByDesign(out)


def subtract_labels(
    total: ByDesign, gone: ByDesign, place: Ints | slice, stay: NDArray[np.bool_]
) -> ByDesign:
    """The counts without one part, for integers; ``stay`` are the groups that remain."""
    out: dict[Design, Labelled] = {}
    after = np.cumsum(stay) - 1
    for design, labelled in total.items():
        counts = labelled.counts.copy()
        if design in gone:
            counts[np.searchsorted(labelled.at, _moved(gone[design].at, place))] -= gone[design].counts
        out |= _one(design, after[labelled.at], counts)
    return ByDesign(out)


def added(n_rows: int, at: Sequence[Ints | slice], tables: Sequence[Table]) -> Table:
    """The sum of tables whose rows stand at the given positions; floats if integers would overflow."""
    out = np.zeros((n_rows, *tables[0].shape[1:]), dtype=np.result_type(*tables))
    for rows, table in zip(at, tables, strict=True):
        out = _wide(out, table)
        out[rows] += table
    return whole(_wide(out, out))


def _wide(out: Table, table: Table) -> Table:
    large = out.dtype.kind == "i" and max(out.max(initial=0), table.max(initial=0)) >= _LIMIT
    return out.astype(np.float64) if large else out


def _moved(at: Ints, place: Ints | slice) -> Ints:
    return at if isinstance(place, slice) else place[at]


def _one(design: Design, at: Ints, counts: Table) -> dict[Design, Labelled]:
    some = counts.any(axis=(1, 2))
    if not some.any():
        return {}
    tables = {"at": sealed(at[some].astype(np.int64)), "counts": sealed(counts[some])}
    return {design: Labelled.model_construct(**dict[str, Any](tables))}


#: The tables of a batch, with their axes after the groups (m bins, K classes). A new table needs a line here and in
#: `Batch`.
AXES: dict[str, tuple[str, ...]] = {"V": ("m",), "score_sums": ("K",), "weight_squares": ("m",)}

#: Numbers of rows (or predictions) that a batch reports besides its tables.
ROWS = ("dropped", "clipped", "unseen")


class Batch(Frozen):
    """Counts per group of rows that arrived together; groups are in canonical order."""

    groups: KeyTuple
    V: Counts  # (G, m)
    score_sums: Counts  # (G, K) sums of the predictions, in units of SCORE_UNIT
    weight_squares: Counts  # (G, m) sums of the squared weights; numbers of rows if unweighted
    dropped: int = Slot(default=0, ge=0, lt=MOST)
    clipped: int = Slot(default=0, ge=0, lt=MOST)
    unseen: int = Slot(default=0, ge=0, lt=MOST)
    labelled: dict[Design, Labelled] = Slot(default_factory=ByDesign)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not group_keys.in_order(self.groups):
            raise ValueError("the groups of a batch are not in canonical order")
        for labelled in self.labelled.values():
            if labelled.at[-1] >= len(self.groups):
                raise ValueError("there are labels of more groups than the batch has")
        self.__dict__["labelled"] = ByDesign(self.labelled)
        return self

    @cached_property
    def holders(self) -> Ints:
        """Number of batches that contain each group; `difference` uses it to find the groups that remain."""
        return sealed(np.ones(len(self.groups), dtype=np.intp))

    def alone(self) -> Batch:
        """The same counts as a single batch."""
        return Batch.model_construct(**{name: getattr(self, name) for name in Batch.model_fields})

    @property
    def is_exact(self) -> bool:
        """Whether all counts are integers, whose sums do not depend on the order."""
        return self.labels.is_exact and all(getattr(self, name).dtype.kind == "i" for name in AXES)

    @property
    def labels(self) -> ByDesign:
        return self.labelled  # type: ignore[return-value]

    def same(self, other: Batch) -> bool:
        """Whether both hold the same counts of the same groups, of the same type."""
        tables = [(getattr(self, name), getattr(other, name)) for name in AXES]
        return (
            all(getattr(self, name) == getattr(other, name) for name in ROWS)
            and group_keys.same(self.groups, other.groups)
            and self.labels.same(other.labels)
            and all(mine.dtype == its.dtype and np.array_equal(mine, its) for mine, its in tables)
        )


class Batches(ReadOnly[str, Batch]):
    """Batches by id, in the order of the ids."""

    refusal: ClassVar[str] = (
        "The batches of a Field cannot be changed. Use field.add(…) and field.retract(…)."
    )

    def __init__(self, given: dict[str, Batch]) -> None:
        super().__init__(sorted(given.items()))


def made_batch(
    groups: Keys,
    tables: dict[str, Table],
    labelled: ByDesign | None = None,
    rows: dict[str, int] | None = None,
) -> Batch:
    """A batch of checked tables; ``holders`` may be among them, and ``rows`` default to 0."""
    others = {"labelled": ByDesign() if labelled is None else labelled, **(rows or dict.fromkeys(ROWS, 0))}
    made = Batch.model_construct(**dict[str, Any](groups=groups, **others))
    made.__dict__.update({name: sealed(table) for name, table in tables.items()})
    return made


def sum_of(parts: Sequence[Batch]) -> Batch:
    """The sum of all parts; floats are added in the order given."""
    groups = group_keys.union(*(part.groups for part in parts))
    at = _places(groups, [part.groups for part in parts])
    return made_batch(
        groups,
        {name: added(len(groups), at, [getattr(p, name) for p in parts]) for name in (*AXES, "holders")},
        add_labels([part.labels for part in parts], at),
        {name: sum(getattr(part, name) for part in parts) for name in ROWS},
    )


def difference(total: Batch, gone: Batch) -> Batch:
    """The sum without one part, for integers only, whose differences are exact.

    A group is removed with the last batch that contains it; it stays, even with zero rows, while another batch does.
    """
    (at,) = _places(total.groups, [gone.groups])
    tables = {name: getattr(total, name).copy() for name in (*AXES, "holders")}
    for name, table in tables.items():
        table[at] -= getattr(gone, name)
    groups, stay = total.groups, tables["holders"] > 0
    labelled = subtract_labels(total.labels, gone.labels, at, stay)
    if not stay.all():
        groups = tuple(groups[g] for g in np.flatnonzero(stay))
        tables = {name: table[stay] for name, table in tables.items()}
    return made_batch(
        groups, tables, labelled, {name: getattr(total, name) - getattr(gone, name) for name in ROWS}
    )


def _places(groups: Keys, lists: Sequence[Keys]) -> list[Ints | slice]:
    """Positions of each list of keys among the groups."""
    if all(group_keys.same(groups, wanted) for wanted in lists if wanted):
        return [slice(None) if wanted else slice(0) for wanted in lists]
    everywhere = group_keys.positions(groups, tuple(chain.from_iterable(lists)))
    return list(np.split(everywhere, np.cumsum([len(wanted) for wanted in lists])[:-1]))


Time = str | dt.date | dt.datetime | None

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def within(ids: Sequence[str], start: Time, end: Time) -> list[str]:
    """The ids, dates or times in ISO format, within [start, end)."""
    times = moments(ids)
    low = None if start is None else _instant(start, "start")
    high = None if end is None else _instant(end, "end")
    bounds = [bound for bound in (low, high) if bound is not None]
    if len({time.utcoffset() is None for time in (*times.values(), *bounds)}) > 1:
        raise InputError(
            "Times with and without an offset from UTC cannot be compared, but the batch ids, start and end mix "
            "them. Give all of them an offset, such as '2020-01-01T00:00+00:00', or none."
        )
    if low is not None and high is not None and low > high:
        raise InputError(f"The window starts at {low} and ends before that, at {high}. Swap start and end.")
    return [
        id for id, time in times.items() if (low is None or low <= time) and (high is None or time < high)
    ]


def moments(ids: Sequence[str]) -> dict[str, dt.datetime]:
    """The time that each id names: a date or time in ISO format, before a slash where there is one."""
    return {id: _instant(id.partition("/")[0], "the batch id") for id in ids}


def _instant(value: Any, name: str) -> dt.datetime:
    """A date or time, or either in ISO format; a date means its midnight."""
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
