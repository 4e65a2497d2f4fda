"""Field: histograms of predictions per group."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import model_validator

from fieldcal.errors import InputError, InputTypeError, Option
from fieldcal.objects import show
from fieldcal.objects.alike import check_alike, check_mergeable, strays
from fieldcal.objects.artefact import Artefact, Counts, KeyTuple, Texts, sealed
from fieldcal.objects.batch import (
    Batch,
    Batches,
    Part,
    check_id,
    check_parts,
    exact,
    in_order,
    same,
    total,
    within,
    without,
)
from fieldcal.storage import did_you_mean

if TYPE_CHECKING:
    from rich.console import Group

#: Sums of predictions are kept in whole units of 2**-30, so that merging is exact in any order.
SCORE_UNIT = 2.0**-30

Time = str | dt.date | dt.datetime | None


class Field(Artefact):
    """What the field shows: a histogram of predictions per group, and nothing else of it.

    Made by `fieldcal.count`. `Field + Field` merges exactly, in any order.

    Attributes
    ----------
    groups : the G group keys; the single key None when there are no groups
    by : names of the columns that the keys come from; empty if they came from arrays
    V : (G, m) rows per group and bin
    n, mean_prediction : (G,) rows and (G, K) mean prediction per group
    dropped, clipped : rows left out for missing predictions; predictions moved into [0, 1]
    batches : what was counted under a name, in the order of the names
    rest : what was counted without one; None where nothing has a name, for then it is the whole

    Notes
    -----
    All counts are totals over the batches and the rest. Both are stored beside the totals, and a group belongs to each
    part that has it, with rows or without. So `retract` brings back what was there before `add`, to the last byte:
    whole numbers are subtracted; floats (weights that are not whole) are never, but added up again from what is left,
    in the order of the ids. Batches give the same bytes in any order, weighted or not. Only shards *without* a name
    whose weights are not multiples of a power of two can differ, by rounding, with the order of merging.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
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
    n_bins: int = Slot(ge=1)
    grouped: bool
    by: Texts = ()
    groups: KeyTuple
    V: Counts
    score_sums: Counts  # (G, K) sums of the predictions, in units of SCORE_UNIT
    dropped: int = Slot(default=0, ge=0)
    clipped: int = Slot(default=0, ge=0)
    batches: Batches = ()
    rest: Part | None = None

    @model_validator(mode="before")
    @classmethod
    def _empty_shapes(cls, values: Any) -> Any:
        """JSON cannot tell the width of a table without rows."""
        if not isinstance(values, dict):
            return values
        widths = {"V": values.get("n_bins"), "score_sums": np.size(values.get("classes", ()))}
        values = _with_widths(values, widths)
        if isinstance(values.get("batches"), list):
            values = {**values, "batches": [_with_widths(batch, widths) for batch in values["batches"]]}
        return {**values, "rest": _with_widths(values.get("rest"), widths)}

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        if self.V.shape != (len(self.groups), self.n_bins):
            raise ValueError(
                f"V has shape {self.V.shape} for {len(self.groups)} groups and {self.n_bins} bins"
            )
        if self.score_sums.shape != (len(self.groups), len(self.classes)):
            raise ValueError(f"score_sums has shape {self.score_sums.shape}")
        if not self.grouped and (self.groups != (None,) or self.by):
            raise ValueError("one population has the single group null and no group columns")
        if len(set(self.by)) < len(self.by) or strays(self.by, self.groups):
            raise ValueError(f"the groups do not have one value for each of the columns {self.by!r:.80}")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if (self.rest is None) != (not self.batches):
            raise ValueError("there is a rest beside the batches, and only there")
        if self.rest is not None:
            check_parts(self._everything, self.rest, self.batches)
        return self

    @cached_property
    def n(self) -> NDArray[Any]:
        """Rows (or their weights) per group."""
        return sealed(self.V.sum(axis=1))

    @cached_property
    def mean_prediction(self) -> NDArray[np.float64]:
        """Mean prediction per group and class."""
        # As floats: the sum over many classes can pass 64 bits where no single one does.
        total = self.score_sums.sum(axis=1, keepdims=True, dtype=np.float64)
        equal = np.full(self.score_sums.shape, 1.0 / max(1, len(self.classes)))
        return sealed(np.divide(self.score_sums, total, out=equal, where=total > 0))

    @property
    def batch_ids(self) -> tuple[str, ...]:
        """The names of the batches, in order."""
        return tuple(batch.id for batch in self.batches)

    def __add__(self, other: object) -> Field:
        if not isinstance(other, Field):
            return NotImplemented
        check_mergeable(self, other)
        rest = self._merged_rest(other)
        batches = tuple(sorted((*self.batches, *other.batches), key=lambda batch: batch.id))
        everything = None
        if batches and exact((rest, *batches)):
            everything = total((self._everything, other._everything))
        return self._made_of(rest, batches, everything, by=self.by or other.by)

    def __radd__(self, other: object) -> Field:
        """So that ``sum(fields)`` works: it starts from 0."""
        return self if other == 0 else NotImplemented

    def named(self, id: str) -> Field:
        """The same counts as one batch.

        Parameters
        ----------
        id : str
            Its name. The field must not have batches yet.

        Returns
        -------
        Field
            As from ``count(…, batch=id)``.
        """
        check_id(id)
        if self.batches:
            raise InputError(
                f"This field has batches already, the first is {self.batches[0].id!r:.60}, so that it cannot be "
                f"named {id!r:.60} as a whole. Merge it with field + other, which keeps the names."
            )
        counts = {name: getattr(self._everything, name) for name in Part.model_fields}
        batch = Batch.model_construct(id=id, **counts)
        return self._made_of(self._blank, (batch,))

    def add(self, batch: Field, id: str) -> Field:
        """Merge a batch under a name; once, however often it is sent.

        Parameters
        ----------
        batch : Field
            Counted with the same lab.
        id : str
            Its name. If it is here already with the same counts, nothing changes; with others, it is an error.

        Returns
        -------
        Field
            A new one; this one stays as it is.
        """
        if not isinstance(batch, Field):
            raise InputTypeError(
                f"add takes a Field, but got {type(batch).__name__}. Count it first: fieldcal.count(lab, …)."
            )
        alone = batch.batch_ids == (id,) and batch._is_blank(batch._unnamed)
        new = batch if alone else batch.named(id)
        known = self._by_id.get(id)
        if known is None:
            return self + new
        check_alike(self, new)
        if not same(known, new.batches[0]):
            raise InputError(
                f"The batch {id!r:.60} is here already, with other counts. If these replace them, retract it first: "
                f"field.retract({id!r:.60}).add(…)."
            )
        return self

    def retract(self, id: str) -> Field:
        """Take a batch out again, exactly: what is left is what there would be without it.

        Parameters
        ----------
        id : str
            The name it was added under.

        Returns
        -------
        Field
            A new one. Groups that only this batch had are gone.
        """
        gone = self._find(id)
        batches = tuple(batch for batch in self.batches if batch is not gone)
        parts = (self._unnamed, *batches)
        everything = None
        if batches and exact((self._everything, gone, *parts)):
            everything = without(self._everything, gone, parts)
        return self._made_of(self._unnamed, batches, everything)

    def only(self, ids: Iterable[str]) -> Field:
        """Some of the batches, and nothing that was counted without a name.

        Parameters
        ----------
        ids : names of batches, or one name

        Returns
        -------
        Field
        """
        if not isinstance(ids, Iterable):
            raise InputTypeError(f"only takes the names of batches, but got {ids!r:.60}.")
        wanted = {self._find(id).id for id in ([ids] if isinstance(ids, str) else ids)}
        return self._made_of(self._blank, tuple(batch for batch in self.batches if batch.id in wanted))

    def window(self, start: Time = None, end: Time = None) -> Field:
        """The batches of a stretch of time, where their names are dates or times in ISO format.

        Parameters
        ----------
        start, end : str, date or datetime, optional
            Batches whose name is at ``start`` or later, and before ``end``. A date is its midnight. None: no bound.

        Returns
        -------
        Field
            Without rows if there is no batch in it. What was counted without a name is in no window.

        Examples
        --------
        >>> import fieldcal
        >>> data = fieldcal.datasets.label_shift(n_lab=2000)
        >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
        >>> days = [fieldcal.count(lab, [0.2] * d, batch=f"2020-03-{d:02}") for d in range(1, 8)]
        >>> sum(days).window("2020-03-03", "2020-03-05").batch_ids
        ('2020-03-03', '2020-03-04')
        """
        if not self.batches:
            raise InputError(
                "This field has no batches, so no windows. Count with ",
                Option("batch"),
                ", or with ",
                Option("time"),
                " and ",
                Option("every"),
                ", first.",
            )
        return self.only(within(self.batch_ids, start, end))

    @cached_property
    def _by_id(self) -> dict[str, Batch]:
        return {batch.id: batch for batch in self.batches}

    @cached_property
    def _everything(self) -> Part:
        """The totals, in canonical order; those of batches are, those of a Field made by hand may not be."""
        everything = Part.model_construct(**{name: getattr(self, name) for name in Part.model_fields})
        return everything if self.batches else in_order(everything)

    @property
    def _unnamed(self) -> Part:
        """What was counted without a name."""
        return self._everything if self.rest is None else self.rest

    @property
    def _blank(self) -> Part:
        """Nothing counted; one population is there even so."""
        groups = () if self.grouped else (None,)
        V, score_sums = (np.zeros((len(groups), size), np.int64) for size in (self.n_bins, len(self.classes)))
        return Part.model_construct(groups=groups, V=sealed(V), score_sums=sealed(score_sums))

    def _is_blank(self, part: Part) -> bool:
        return len(part.groups) == len(self._blank.groups) and same(part, self._blank)

    def _merged_rest(self, other: Field) -> Part:
        """What neither field has under a name; that of one alone stays as it is, to the last byte."""
        if self._is_blank(other._unnamed):
            return self._unnamed
        return other._unnamed if self._is_blank(self._unnamed) else total((self._unnamed, other._unnamed))

    def _made_of(
        self,
        rest: Part,
        batches: tuple[Batch, ...],
        everything: Part | None = None,
        *,
        by: tuple[str, ...] | None = None,
    ) -> Field:
        """The field of these parts. Their totals, where known, save adding them up, unless they had to become floats.

        Not validated: to check all batches whenever one is added would make a long stream slow.
        """
        if not batches:
            everything = rest
        elif everything is None or not exact([everything]):
            everything = total((rest, *batches))
        return Field.model_construct(
            lab=self.lab,
            classes=self.classes,
            n_bins=self.n_bins,
            grouped=self.grouped,
            by=self.by if by is None else by,
            **{name: getattr(everything, name) for name in Part.model_fields},
            batches=batches,
            rest=rest if batches else None,
        )

    def _find(self, id: str) -> Batch:
        if isinstance(id, str) and id in self._by_id:
            return self._by_id[id]
        count = f"the {len(self.batches):,} here" if self.batches else "those here: there are none"
        raise InputError(
            f"There is no batch {id!r:.60} among {count}.{did_you_mean(id, self.batch_ids)} See field.batch_ids."
        )

    def __repr__(self) -> str:
        groups = f"{len(self.groups):,} groups" if self.grouped else "one population"
        batches = f", {len(self.batches):,} batch{'es' * (len(self.batches) > 1)}" if self.batches else ""
        dropped = f", {self.dropped:,} rows dropped (missing predictions)" if self.dropped else ""
        return f"Field: {show.amount(self.n.sum())} rows, {groups}, {self.n_bins} bins{batches}{dropped}"

    def __rich__(self) -> Group:
        return show.stacked(show.field_parts(self))

    def _repr_html_(self) -> str:
        return show.field_page(self)


def _with_widths(values: Any, widths: dict[str, Any]) -> Any:
    """A dictionary of tables in which those without rows have their width."""
    if not isinstance(values, dict) or np.size(values.get("V", 0)) > 0:
        return values
    tables = {
        name: np.zeros((0, width), np.int64)
        for name, width in widths.items()
        if type(width) is int and np.size(values.get(name, 0)) == 0
    }
    return {**values, **tables}
