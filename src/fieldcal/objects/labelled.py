"""Labelled: rows of the field whose class is known, counted per group, class and bin.

They are few where groups may be a million, so that only groups with labels are held. How the rows were chosen, their
design, decides what they say; each design has a table of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from fieldcal.core.response import count_cells, whole
from fieldcal.objects.artefact import Counts, Frozen, ReadOnly, sealed
from fieldcal.types import DESIGNS, Design, Floats, Ints

#: Whole numbers from here on go on as floats: two that are smaller add up within 64 bits.
_LIMIT = 2**62
Table = NDArray[Any]


class Labelled(Frozen):
    """Counts of labelled rows of one design.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> sites = ["Leeds", "York", "York"]
    >>> field = fieldcal.count(lab, [0.1, 0.7, 0.2], groups=sites, y=[None, 1, None])
    >>> found = field.labelled["random"]
    >>> found.at.tolist(), found.counts.sum(axis=2).tolist()
    ([1], [[0, 1]])
    """

    at: Counts  # (L,) places among the groups, ascending: those that have labels
    counts: Counts  # (L, K, m) rows per group, class and bin, or sums of their weights

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        if self.at.ndim != 1 or self.at.dtype.kind != "i" or not len(self.at):
            raise ValueError("at must be places of groups, at least one")
        if self.counts.ndim != 3 or len(self.counts) != len(self.at):
            raise ValueError("counts must be a table of classes and bins for each of at")
        return self

    def same(self, other: Labelled) -> bool:
        """Whether both hold the same counts at the same places, whole numbers or floats."""
        pairs = ((self.at, other.at), (self.counts, other.counts))
        return all(mine.dtype == its.dtype and np.array_equal(mine, its) for mine, its in pairs)


class ByDesign(ReadOnly[Design, Labelled]):
    """Labelled rows by their design; a design without any is not there."""

    refusal: ClassVar[str] = "The labels of a Field cannot be changed. Count them with their rows."

    def __init__(self, given: Mapping[Design, Labelled] | None = None) -> None:
        known = {} if given is None else given
        super().__init__({design: known[design] for design in DESIGNS if design in known})

    @property
    def is_exact(self) -> bool:
        """Whether all counts are whole numbers."""
        return all(found.counts.dtype.kind == "i" for found in self.values())

    def same(self, other: ByDesign) -> bool:
        """Whether both hold the same counts."""
        return self.keys() == other.keys() and all(self[design].same(other[design]) for design in self)


def count_labels(
    groups: Ints, y: Ints, bins: Ints, *, design: Design, shape: tuple[int, int], weight: Floats | None
) -> ByDesign:
    """Labelled rows counted, from the places of their groups, classes and bins.

    Parameters
    ----------
    shape : how many classes and bins there are
    """
    at, row = np.unique(groups, return_inverse=True)
    cells = count_cells(row, y * shape[1] + bins, shape=(len(at), shape[0] * shape[1]), weight=weight)
    return ByDesign(_one(design, at, cells.reshape(-1, *shape)))


def labels_of_counts(groups: Ints, y: Ints, V: Table, *, design: Design, n_classes: int) -> ByDesign:
    """Labelled rows that were counted per bin, from the places of their groups and classes.

    Parameters
    ----------
    V : (n, m), counts of the rows of one group and class; the same pair may come again
    """
    at, row = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(at), n_classes, V.shape[1]), dtype=V.dtype)
    np.add.at(counts, (row, y), V)
    return ByDesign(_one(design, at, counts))


def add_labels(parts: Sequence[ByDesign], places: Sequence[Ints | slice]) -> ByDesign:
    """All parts together, each with its groups at other places; floats are added in the order given."""
    out: dict[Design, Labelled] = {}
    for design in DESIGNS:
        found = [
            (_moved(part[design].at, place), part[design].counts)
            for part, place in zip(parts, places, strict=True)
            if design in part
        ]
        if found:
            everywhere = np.unique(np.concatenate([at for at, _ in found]))
            rows = [np.searchsorted(everywhere, at) for at, _ in found]
            out |= _one(design, everywhere, added(len(everywhere), rows, [table for _, table in found]))
    return ByDesign(out)


def subtract_labels(
    total: ByDesign, gone: ByDesign, place: Ints | slice, stay: NDArray[np.bool_]
) -> ByDesign:
    """What `add_labels` makes of the parts that stay, for whole numbers, when some of the groups go."""
    out: dict[Design, Labelled] = {}
    after = np.cumsum(stay) - 1
    for design, found in total.items():
        counts = found.counts.copy()
        if design in gone:
            counts[np.searchsorted(found.at, _moved(gone[design].at, place))] -= gone[design].counts
        out |= _one(design, after[found.at], counts)
    return ByDesign(out)


def added(n_rows: int, at: Sequence[Ints | slice], tables: Sequence[Table]) -> Table:
    """The sum of tables whose rows stand at the given places; floats where integers would overflow."""
    out = np.zeros((n_rows, *tables[0].shape[1:]), dtype=np.result_type(*tables))
    for rows, table in zip(at, tables, strict=True):
        out = _wide(out, table)
        out[rows] += table
    return whole(_wide(out, out))


def _wide(out: Table, table: Table) -> Table:
    """The first of two tables, as floats where whole numbers of either reach the limit."""
    large = out.dtype.kind == "i" and max(out.max(initial=0), table.max(initial=0)) >= _LIMIT
    return out.astype(np.float64) if large else out


def _moved(at: Ints, place: Ints | slice) -> Ints:
    return at if isinstance(place, slice) else place[at]


def _one(design: Design, at: Ints, counts: Table) -> dict[Design, Labelled]:
    """The labels of a design, of groups that have any; nothing if none has."""
    some = counts.any(axis=(1, 2))
    if not some.any():
        return {}
    tables = {"at": sealed(at[some].astype(np.int64)), "counts": sealed(counts[some])}
    return {design: Labelled.model_construct(**dict[str, Any](tables))}
