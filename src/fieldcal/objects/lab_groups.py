"""Lab rows by group, class and bin, stored sparsely: with many groups most cells are empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from fieldcal.core.response import whole
from fieldcal.objects import group_keys
from fieldcal.objects.artefact import Counts, Frozen, check_shapes
from fieldcal.objects.batches import Labelled, added
from fieldcal.types import Floats, Ints, Keys


class GroupCounts(Frozen):
    """Counts of lab rows by group, class and bin, in the order of ``Lab.groups``."""

    cells: Counts  # (N,) ascending: cell (g, k, j) of G groups, K classes and m bins is (g·K + k)·m + j
    rows: Counts  # (N,) rows of each cell, or sums of weights
    prediction_sums: Counts | None = None  # (G, K) in units of SCORE_UNIT; None without probabilities

    @model_validator(mode="after")
    def _sparse(self) -> Self:
        if self.cells.ndim != 1 or self.cells.dtype.kind != "i" or np.any(np.diff(self.cells) <= 0):
            raise ValueError("cells must be ascending positions in a table of groups, classes and bins")
        check_shapes(self, {"rows": self.cells.shape})
        return self

    def check(self, n_groups: int, n_classes: int, n_bins: int) -> None:
        """Refuse counts of more groups, classes or bins than the lab has."""
        check_shapes(self, {"prediction_sums": (n_groups, n_classes)}, "by_group: ")
        if len(self.cells) and self.cells[-1] >= n_groups * n_classes * n_bins:
            raise ValueError("by_group: there are counts of more groups than the lab has")


def count_by_group(
    groups: Ints, y: Ints, bins: Ints, *, shape: tuple[int, int], weight: Floats | None
) -> Cells:
    """Rows counted from the positions of their groups, classes and bins; ``shape``: numbers of classes and bins.

    Weights that are not whole are added in the order of the rows.
    """
    cells, place = np.unique((groups * shape[0] + y) * shape[1] + bins, return_inverse=True)
    rows = whole(np.bincount(place, weights=weight, minlength=len(cells)))
    return Cells(cells[rows > 0], rows[rows > 0], shape)


@dataclass(frozen=True)
class Cells:
    """Rows (or weights) by group, class and bin, of the cells that are not empty."""

    at: Ints  # ascending, as in `GroupCounts`
    rows: NDArray[Any]
    shape: tuple[int, int]  # classes and bins

    @classmethod
    def of_labels(cls, labelled: Labelled, rows: NDArray[Any], places: Ints) -> Cells:
        """Labelled rows of a field, (L, K, m), whose groups have these positions."""
        g, k, j = np.nonzero(rows)
        shape = rows.shape[1], rows.shape[2]
        at = (places[labelled.at[g]] * shape[0] + k) * shape[1] + j
        order = np.argsort(at)
        return cls(at[order], rows[g, k, j][order], shape)

    @property
    def group(self) -> Ints:
        return np.asarray(self.at // (self.shape[0] * self.shape[1]))

    @property
    def of_class(self) -> Ints:
        return np.asarray(self.at // self.shape[1] % self.shape[0])

    @property
    def bin(self) -> Ints:
        return np.asarray(self.at % self.shape[1])

    def moved(self, places: Ints) -> Cells:
        """The same cells with new positions of their groups, in the same order."""
        size = self.shape[0] * self.shape[1]
        return Cells(places[self.group] * size + self.at % size, self.rows, self.shape)

    def scaled(self, by: Floats) -> Cells:
        """Rows times factors by class and bin, broadcast to (K, m); cells without rows are dropped."""
        rows = self.rows * np.broadcast_to(by, self.shape)[self.of_class, self.bin]
        return Cells(self.at[rows > 0], rows[rows > 0], self.shape)

    def plus(self, other: Cells) -> Cells:
        """The sum of both, exact for whole numbers."""
        at, place = np.unique(np.concatenate([self.at, other.at]), return_inverse=True)
        places = np.split(place, [len(self.at)])
        return Cells(at, added(len(at), places, [self.rows, other.rows]), self.shape)

    def sums(self, n_groups: int, values: Floats) -> Floats:
        """Sums per group of a value that each bin has, (m, C) to (G, C)."""
        group, of_bin = self.group, values[self.bin] * self.rows[:, None]
        columns = [np.bincount(group, weights=column, minlength=n_groups) for column in of_bin.T]
        return np.column_stack(columns)


def cells_of(counts: GroupCounts, shape: tuple[int, int]) -> Cells:
    """The counts of a lab as `Cells`, for these numbers of classes and bins."""
    return Cells(counts.cells, counts.rows, shape)


def merged(groups: Keys, parts: Sequence[tuple[Keys, GroupCounts]], shape: tuple[int, int]) -> GroupCounts:
    """The counts of two labs together; their groups are among these."""
    places = [group_keys.positions(groups, keys) for keys, _ in parts]
    one, two = (cells_of(counts, shape).moved(at) for (_, counts), at in zip(parts, places, strict=True))
    total = one.plus(two)
    sums = [counts.prediction_sums for _, counts in parts]
    known = [table for table in sums if table is not None]
    return GroupCounts(
        cells=total.at,
        rows=total.rows,
        prediction_sums=added(len(groups), places, known) if len(known) == len(sums) else None,
    )


def dense(counts: GroupCounts, groups: Ints, shape: tuple[int, int]) -> Floats:
    """Tables of classes and bins of these groups, (n, K, m); zeros for the position −1."""
    size = shape[0] * shape[1]
    low, high = (np.searchsorted(counts.cells, (groups + i) * size) for i in (0, 1))
    low, high = (np.where(groups < 0, 0, edge) for edge in (low, high))
    n = high - low
    taken = np.repeat(low - np.cumsum(n) + n, n) + np.arange(n.sum())
    table = np.zeros((len(groups), size))
    table[np.repeat(np.arange(len(groups)), n), counts.cells[taken] % size] = counts.rows[taken]
    return table.reshape(-1, *shape)
