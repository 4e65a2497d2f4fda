"""Field: histograms of predictions per group, stored by batch, so that batches are merged and removed exactly."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from fieldcal.core.response import row_per_weight
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import group_keys, show
from fieldcal.objects.artefact import Artefact, KeyTuple, Texts, check_shapes, sealed
from fieldcal.objects.batches import (
    AXES,
    Batch,
    Batches,
    Labelled,
    Table,
    Time,
    difference,
    made_batch,
    moments,
    sum_of,
    within,
)
from fieldcal.objects.windows import OF, check_windows
from fieldcal.storage import did_you_mean
from fieldcal.types import Design, Keys

if TYPE_CHECKING:
    from rich.console import Group

    from fieldcal.objects.lab import Lab

#: The id of counts without a name. It sorts before all others.
UNNAMED = ""


class Field(Artefact):
    """Histogram of predictions per group, and labels of the rows whose class is known.

    Made by `fieldcal.count`. `Field + Field` merges exactly, in any order.

    Attributes
    ----------
    batches : the counts by batch id, in the order of the ids; counts without a name have the id ``""``
    by : names of the columns of the group keys; empty if the keys came from arrays
    every : the length of the windows that the batches lie in, such as ``"1w"``; None if they are no windows

    Notes
    -----
    A field stores its batches only; all totals are computed on first use. A group belongs to each batch that contains
    it, with or without rows, so `retract` restores the state before `add`, to the last byte.
    Integer totals are updated when a batch is added or removed, which is exact; floats (weights that are not whole) are
    summed again, in the order of the ids. So named batches give the same bytes in any order, weighted or not. Only
    counts *without* a name whose weights are not multiples of a power of two can depend on the order of merging, by
    rounding.

    Examples
    --------
    >>> import fieldcal
    >>> lab = fieldcal.datasets.example().lab
    >>> monday = fieldcal.count(lab, [0.1, 0.7], groups=["Leeds", "York"])
    >>> tuesday = fieldcal.count(lab, [0.2], groups=["York"])
    >>> (monday + tuesday).n.tolist(), monday + tuesday == tuesday + monday
    ([1, 2], True)
    >>> week = monday.add(tuesday, id="2020-03-03")
    >>> week
    Field: 3 rows, 2 groups, 8 bins, 1 batch
    >>> week.add(tuesday, id="2020-03-03") == week, week.retract("2020-03-03") == monday
    (True, True)
    """

    kind: ClassVar[str] = "field"

    lab: str  # digest of the lab whose partition was used
    classes: KeyTuple
    n_bins: int = Slot(ge=1, lt=2**31)
    grouped: bool
    by: Texts = ()
    every: str | None = None
    batches: dict[str, Batch]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.by and not self.grouped:
            raise ValueError("one population has no group columns")
        if self.every is not None:
            check_windows(..., self.every)
        batches = {id: self._checked(id, batch) for id, batch in self.batches.items()}
        self.__dict__["batches"] = self._without_blank(batches)
        return self

    @model_serializer(mode="wrap")
    def _without_windows(self, content: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """Fields without windows have the bytes that they had before there were any.

        Without a return type, so that the JSON schema is that of the fields.
        """
        return {k: v for k, v in content(self).items() if v is not None or k != "every"}

    def _checked(self, id: str, batch: Batch) -> Batch:
        """The validated batch; restores the width of tables without rows, which JSON loses."""
        where = f"the batch {id!r:.60}"
        if id != UNNAMED:
            check_id(id)
        if not self.grouped and batch.groups != (None,):
            raise ValueError(f"{where} of one population does not have the single group null")
        if _strays(self.by, batch.groups):
            raise ValueError(f"{where} has groups without one value for each of the columns {self.by!r:.80}")
        if not batch.groups:
            empty = self._blank
            batch = batch.model_copy(
                update={n: getattr(empty, n) for n in AXES if not getattr(batch, n).size}
            )
        check_shapes(batch, self._shapes(len(batch.groups)), f"{where}: ")
        for design, labelled in batch.labelled.items():
            if labelled.counts.shape[1:] != (len(self.classes), self.n_bins):
                raise ValueError(f"{where}: the {design} labels have other classes or bins than the field")
        return batch

    def is_of(self, lab: Lab) -> bool:
        """Whether it was counted with this lab: same digest, and same numbers of classes and bins."""
        same = self.n_bins == lab.n_bins and group_keys.same(self.classes, lab.classes)
        return same and self.lab == lab.digest

    @property
    def batch_ids(self) -> tuple[str, ...]:
        """Ids of the named batches, in order."""
        return tuple(id for id in self.batches if id != UNNAMED)

    @property
    def groups(self) -> Keys:
        """The G keys of all batches in canonical order; the single key None without groups."""
        return self._total.groups

    @property
    def V(self) -> Table:
        """(G, m) rows per group and bin, or sums of their weights."""
        return self._total.V

    @property
    def score_sums(self) -> Table:
        """(G, K) sums of predictions, in units of 2**-30."""
        return self._total.score_sums

    @property
    def weight_squares(self) -> Table:
        """(G, m) sums of squared weights; numbers of rows if unweighted."""
        return self._total.weight_squares

    @property
    def labelled(self) -> dict[Design, Labelled]:
        """Labelled rows by design; positions refer to `groups`."""
        return self._total.labelled

    @cached_property
    def n_labelled(self) -> float:
        """Number of labelled rows (or sum of their weights), of all designs."""
        return float(sum(labelled.counts.sum(dtype=np.float64) for labelled in self.labelled.values()))

    @cached_property
    def labelled_rows(self) -> NDArray[np.float64]:
        """(G,) labelled rows per group (or sums of their weights), of all designs."""
        rows = np.zeros(len(self.groups))
        for labelled in self.labelled.values():
            rows[labelled.at] += labelled.counts.sum(axis=(1, 2))
        return sealed(rows)

    @property
    def dropped(self) -> int:
        """Number of rows left out because their prediction is missing."""
        return self._total.dropped

    @property
    def clipped(self) -> int:
        """Number of predictions clipped to [0, 1]."""
        return self._total.clipped

    @property
    def unseen(self) -> int:
        """Number of rows with a category that is not in the lab."""
        return self._total.unseen

    @cached_property
    def n(self) -> Table:
        """(G,) rows per group, or sums of their weights."""
        return sealed(self.V.sum(axis=1))

    @cached_property
    def weighted(self) -> bool:
        """Whether any row has a weight other than 1."""
        return not np.array_equal(self.V, self.weight_squares)

    @cached_property
    def n_effective(self) -> NDArray[np.float64]:
        """(G,) effective sample size per group: Kish's (1965) ``(Σ w)² / Σ w²``."""
        return sealed(self.n * row_per_weight(self.n, self.weight_squares.sum(axis=1)))

    @cached_property
    def mean_prediction(self) -> NDArray[np.float64]:
        """(G, K) mean prediction per group."""
        # As floats: the sum over many classes can exceed 64 bits.
        total = self.score_sums.sum(axis=1, keepdims=True, dtype=np.float64)
        equal = np.full(self.score_sums.shape, 1.0 / max(1, len(self.classes)))
        return sealed(np.divide(self.score_sums, total, out=equal, where=total > 0))

    def __add__(self, other: object) -> Field:
        if isinstance(other, Artefact) and not isinstance(other, Field):
            raise InputTypeError(
                f"A Field and a {type(other).__name__} cannot be added. Add fields of the same lab."
            )
        if not isinstance(other, Field):
            return NotImplemented
        _check_mergeable(self, other)
        batches = {**self.batches, **other.batches}
        if UNNAMED in self.batches and UNNAMED in other.batches:
            batches[UNNAMED] = sum_of([self.batches[UNNAMED], other.batches[UNNAMED]]).alone()
        known = None
        if self._adds_up and other._adds_up:
            known = sum_of([self._total, other._total])
        made = self._of(batches, known, by=self.by or other.by)
        return made if made.every == (self.every or other.every) else made.over(other.every or "")

    def __radd__(self, other: object) -> Field:
        """Supports ``sum(fields)``, which starts from 0."""
        return self if other == 0 else NotImplemented

    def named(self, id: str) -> Field:
        """The same counts as one named batch, as from ``count(…, batch=id)``; the field must not have named batches.

        Batches that are windows keep their start: ``"2026-03-04"`` becomes ``"2026-03-04/id"``, so that more rows of a
        window can be added under another name.
        """
        check_id(id)
        if self.every is not None and not any(OF in name for name in self.batch_ids):
            return self._of({f"{name}{OF}{id}" if name else name: b for name, b in self.batches.items()})
        if self.batch_ids:
            raise InputError(
                f"This field has batches already, the first is {self.batch_ids[0]!r:.60}, so that it cannot be "
                f"named {id!r:.60} as a whole. Merge it with field + other, which keeps the names."
            )
        return self._of({id: self._total.alone()})

    def add(self, batch: Field, id: str) -> Field:
        """A new field with one more named batch; adding the same batch again changes nothing.

        If the name exists with other counts, this is an error.
        """
        if not isinstance(batch, Field):
            raise InputTypeError(
                f"add takes a Field, but got {type(batch).__name__}. Count it first: fieldcal.count(lab, …)."
            )
        check_id(id)
        new = batch if tuple(batch.batches) == (id,) != (UNNAMED,) else batch.named(id)
        if id not in self.batches:
            return self + new
        _check_alike(self, new)
        if not self.batches[id].same(new.batches[id]):
            raise InputError(
                f"The batch {id!r:.60} exists already, with other counts. To replace it, retract it first: "
                f"field.retract({id!r:.60}).add(…)."
            )
        return self

    def retract(self, id: str) -> Field:
        """A new field without a batch, exactly as if it had never been added. Groups of this batch only are removed."""
        gone = self.batches[self._find(id)]
        batches = {i: batch for i, batch in self.batches.items() if i != id}
        left = difference(self._total, gone) if self._adds_up and len(batches) > 1 else None
        return self._of(batches, left)

    def only(self, ids: Iterable[str]) -> Field:
        """A field of the named batches only, without unnamed counts."""
        if not isinstance(ids, Iterable):
            raise InputTypeError(f"only takes the names of batches, but got {ids!r:.60}.")
        wanted = {self._find(id) for id in ([ids] if isinstance(ids, str) else ids)}
        return self._of({id: batch for id, batch in self.batches.items() if id in wanted})

    def window(self, start: Time = None, end: Time = None) -> Field:
        """A field of the batches within a time window, if their names are dates or times in ISO format.

        The window contains names from ``start`` on and before ``end``; a date means its midnight, None is no bound.
        Unnamed counts are in no window.
        """
        if not self.batch_ids:
            ways = f"{option('batch')}, or with {option('time')} and {option('every')}"
            raise InputError(f"This field has no batches, so no windows. Count with {ways}, first.")
        return self.only(within(self.batch_ids, start, end))

    def over(self, every: str) -> Field:
        """The same counts, in windows of this length: batches whose names are dates or times are cut into them.

        ``every`` is a length such as ``"1d"``, ``"1w"`` or ``"1mo"``. `estimate` then follows shares over windows,
        ``prev.over_time``. A batch lies in the window of its name, whole.
        """
        check_windows(..., every)
        moments(self.batch_ids)
        return self.model_copy(update={"every": every})

    @cached_property
    def _total(self) -> Batch:
        parts = list(self.batches.values())
        return (parts[0] if len(parts) == 1 else sum_of(parts)) if parts else self._blank

    @cached_property
    def _adds_up(self) -> bool:
        """Whether the total can be updated in place. Fractions that happen to sum to integers cannot."""
        return self._total.is_exact and all(batch.is_exact for batch in self.batches.values())

    @property
    def _blank(self) -> Batch:
        groups = () if self.grouped else (None,)
        tables = {n: np.zeros(shape, np.int64) for n, shape in self._shapes(len(groups)).items()}
        return made_batch(groups, tables)

    def _shapes(self, n_groups: int) -> dict[str, tuple[int, ...]]:
        sizes = {"m": self.n_bins, "K": len(self.classes)}
        return {name: (n_groups, *(sizes[axis] for axis in axes)) for name, axes in AXES.items()}

    def _without_blank(self, batches: dict[str, Batch]) -> Batches:
        """Batches without an empty unnamed one, so that equal fields have equal bytes."""
        nothing = UNNAMED in batches and batches[UNNAMED].same(self._blank)
        return Batches({id: batch for id, batch in batches.items() if not (nothing and id == UNNAMED)})

    def _of(
        self, batches: dict[str, Batch], total: Batch | None = None, *, by: tuple[str, ...] | None = None
    ) -> Field:
        """A field of these batches, with their total if it is exact.

        Not validated: checking all batches at every addition would slow down long streams.
        """
        made = Field.model_construct(
            lab=self.lab,
            classes=self.classes,
            n_bins=self.n_bins,
            grouped=self.grouped,
            by=self.by if by is None else by,
            every=self.every,
            batches=self._without_blank(batches),
        )
        if total is not None and total.is_exact and len(batches) > 1:
            made.__dict__.update(_total=total, _adds_up=True)
        return made

    def _find(self, id: str) -> str:
        if isinstance(id, str) and id != UNNAMED and id in self.batches:
            return id
        ids = self.batch_ids
        count = f"the {len(ids):,} here" if ids else "those here: there are none"
        raise InputError(
            f"There is no batch {id!r:.60} among {count}.{did_you_mean(id, ids)} See field.batch_ids."
        )

    def __repr__(self) -> str:
        groups = f"{len(self.groups):,} groups" if self.grouped else "one population"
        n = len(self.batch_ids)
        batches = f", {n:,} batch{'es' * (n > 1)}" if n else ""
        batches += f" in windows of {self.every}" if self.every else ""
        labelled = f", {show.amount(self.n_labelled)} labelled" if self.labelled else ""
        dropped = f", {self.dropped:,} rows dropped (without a usable prediction)" if self.dropped else ""
        unseen = f", {self.unseen:,} rows with a value that is not in the lab" if self.unseen else ""
        counted = f"{show.amount(self.n.sum())} rows, {groups}, {self.n_bins} bins"
        return f"Field: {counted}{labelled}{batches}{dropped}{unseen}"

    def __rich__(self) -> Group:
        return show.stacked(show.field_sheet(self).parts())

    def _repr_html_(self) -> str:
        return show.field_sheet(self).page()


# Checks that fields can be merged


def _check_mergeable(one: Field, two: Field) -> None:
    _check_alike(one, two)
    twice = sorted(set(one.batch_ids) & set(two.batch_ids))
    if twice:
        raise InputError(
            f"The batch {twice[0]!r:.60} is in both fields: merging would count its rows twice. Leave one out."
        )


def _check_alike(one: Field, two: Field) -> None:
    differences = []
    if one.classes != two.classes:
        differences.append(f"classes {one.classes!r:.80} and {two.classes!r:.80}")
    if one.n_bins != two.n_bins:
        differences.append(f"{one.n_bins} and {two.n_bins} bins")
    if one.lab != two.lab:
        differences.append(f"labs {one.lab[:8]}… and {two.lab[:8]}…")
    if differences:
        raise InputError(
            f"These counts were made with different labs: {'; '.join(differences)}. Count again with one lab."
        )
    if one.grouped != two.grouped:
        raise InputError("One of these fields has groups and the other has none. Count both the same way.")
    if one.every and two.every and one.every != two.every:
        raise InputError(
            f"The windows of one field are {one.every} long, those of the other {two.every}. Cut both alike: "
            f"field.over({one.every!r})."
        )
    if one.by != two.by:
        _check_columns(one, two)


def _check_columns(one: Field, two: Field) -> None:
    """Refuse different group columns; fields from arrays match any with as many key parts."""
    if one.by and two.by:
        raise InputError(
            f"One of these fields was counted by {_listed(one.by)} and the other by {_listed(two.by)}. "
            "Count both by the same columns, in the same order."
        )
    named, other = (one, two) if one.by else (two, one)
    odd = _strays(named.by, other.groups)
    if odd:
        raise InputError(
            f"One of these fields was counted by {_listed(named.by)}, but the other has the group "
            f"{group_keys.show(odd[0])!r}. Count both the same way."
        )


def _strays(by: tuple[str, ...], groups: Keys) -> list[Any]:
    if len(by) < 2:
        return []
    return [key for key in groups if type(key) is not tuple or len(key) != len(by)]


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name!r:.40}" for name in names[:6]) + (", …" if len(names) > 6 else "")


def check_id(id: Any) -> None:
    if not isinstance(id, str):
        raise InputTypeError(f"A batch is named by a string, but got {id!r:.60}. Use str(…).")
    if not id or any("\ud800" <= c <= "\udfff" for c in id):  # a lone surrogate cannot be written
        raise InputError(
            f"{id!r:.60} cannot name a batch: it is empty or no valid text. Choose another name."
        )
