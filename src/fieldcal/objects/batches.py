"""Batches: counts of rows that came together, their sums and differences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field as Slot
from pydantic import model_validator

from fieldcal.objects import group_keys
from fieldcal.objects.artefact import MOST, Counts, Frozen, KeyTuple, ReadOnly, sealed
from fieldcal.objects.labelled import ByDesign, Labelled, Table, add_labels, added, subtract_labels
from fieldcal.types import Design, Ints, Keys

#: The tables of a batch: the axes of each after the groups; m bins, K classes. One more is a line here and in `Batch`.
AXES: dict[str, tuple[str, ...]] = {"V": ("m",), "score_sums": ("K",), "weight_squares": ("m",)}

#: Rows, or predictions, that something is said of besides, whatever their group.
ROWS = ("dropped", "clipped", "unseen")


class Batch(Frozen):
    """Counts per group of the rows that came together, in canonical order of the groups.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, [0.1, 0.7], groups=["Leeds", "York"], batch="monday")
    >>> field.batches["monday"].groups, field.batches["monday"].V.sum(axis=1).tolist()
    (('Leeds', 'York'), [1, 1])
    """

    groups: KeyTuple
    V: Counts  # (G, m)
    score_sums: Counts  # (G, K) sums of the predictions, in units of SCORE_UNIT
    weight_squares: Counts  # (G, m) sums of the squared weights; rows where they have none
    dropped: int = Slot(default=0, ge=0, lt=MOST)
    clipped: int = Slot(default=0, ge=0, lt=MOST)
    unseen: int = Slot(default=0, ge=0, lt=MOST)
    labelled: dict[Design, Labelled] = Slot(default_factory=ByDesign)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not group_keys.in_order(self.groups):
            raise ValueError("the groups of a batch are in another order than ours")
        for found in self.labelled.values():
            if found.at[-1] >= len(self.groups):
                raise ValueError("there are labels of more groups than the batch has")
        self.__dict__["labelled"] = ByDesign(self.labelled)
        return self

    @cached_property
    def holders(self) -> Ints:
        """How many batches have each group. A sum counts them here, so that `difference` knows who is left."""
        return sealed(np.ones(len(self.groups), dtype=np.intp))

    def alone(self) -> Batch:
        """The same counts as one batch, of however many they are the sum."""
        return Batch.model_construct(**{name: getattr(self, name) for name in Batch.model_fields})

    @property
    def is_exact(self) -> bool:
        """Whether all counts are whole numbers, which add up alike in any order."""
        return self.labels.is_exact and all(getattr(self, name).dtype.kind == "i" for name in AXES)

    @property
    def labels(self) -> ByDesign:
        """What `labelled` holds, by its own type."""
        return self.labelled  # type: ignore[return-value]

    def same(self, other: Batch) -> bool:
        """Whether both hold the same counts of the same groups, whole numbers or floats."""
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
    """A batch of what is known to fit; ``holders`` may be among the tables, and none of the `ROWS` is 0 of each."""
    rest = {"labelled": ByDesign() if labelled is None else labelled, **(rows or dict.fromkeys(ROWS, 0))}
    made = Batch.model_construct(**dict[str, Any](groups=groups, **rest))
    made.__dict__.update({name: sealed(table) for name, table in tables.items()})
    return made


def sum_of(parts: Sequence[Batch]) -> Batch:
    """All parts together; where they hold floats, added in the order given."""
    groups = group_keys.union(*(part.groups for part in parts))
    at = _places(groups, [part.groups for part in parts])
    return made_batch(
        groups,
        {name: added(len(groups), at, [getattr(p, name) for p in parts]) for name in (*AXES, "holders")},
        add_labels([part.labels for part in parts], at),
        {name: sum(getattr(part, name) for part in parts) for name in ROWS},
    )


def difference(total: Batch, gone: Batch) -> Batch:
    """What `sum_of` makes of the parts that stay: for whole numbers only, whose differences are exact.

    A group goes with the last batch that has it, and stays, even without rows, where another one has it.
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
        groups,
        tables,
        labelled,
        {name: getattr(total, name) - getattr(gone, name) for name in ROWS},
    )


def _places(groups: Keys, lists: Sequence[Keys]) -> list[Ints | slice]:
    """Where the keys of each list stand among the groups; the dictionary of all of them is made once."""
    if all(group_keys.same(groups, wanted) for wanted in lists if wanted):
        return [slice(None) if wanted else slice(0) for wanted in lists]
    everywhere = group_keys.positions(groups, tuple(chain.from_iterable(lists)))
    return list(np.split(everywhere, np.cumsum([len(wanted) for wanted in lists])[:-1]))
