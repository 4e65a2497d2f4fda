"""The table of counts, one row per group: what every engine and every warehouse makes, and a Field is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal import keys
from fieldcal.core.partition import Bins
from fieldcal.objects import SCORE_UNIT, Field, Lab

ROWS, VALID = "fieldcal_rows", "fieldcal_valid"
MISSING, OUTSIDE, UNSUMMED, CLIPPED = (
    "fieldcal_missing",
    "fieldcal_outside",
    "fieldcal_unsummed",
    "fieldcal_clipped",
)
#: Only warehouses say these: elsewhere a second look does.
FLAWS = (MISSING, OUTSIDE, UNSUMMED, CLIPPED)

Ints = NDArray[np.int64]


def group_column(i: int) -> str:
    """The name of the i-th part of the key, from 0."""
    return f"fieldcal_group_{i + 1}"


def null_column(i: int) -> str:
    """The name of the flag that says that the i-th part is null, where a format cannot."""
    return f"fieldcal_null_{i + 1}"


def below_columns(lab: Lab) -> list[str]:
    """Valid rows in this bin or one before it; the last bin is what is left."""
    return [f"fieldcal_below_{j + 1}" for j in range(lab.n_bins - 1)]


def units_columns(lab: Lab) -> list[str]:
    """Sums of predictions in whole units: of the second of two classes, or of every class; none for given bin ids."""
    if isinstance(lab.partition, Bins):
        return []
    K = len(lab.classes)
    return ["fieldcal_units_2"] if K == 2 else [f"fieldcal_units_{k + 1}" for k in range(K)]


@dataclass(frozen=True)
class Counted:
    """A table of counts in memory: group keys as they came, and whole numbers."""

    groups: Any  # as keys.factorize takes them; None for one population
    rows: Ints
    valid: Ints
    below: Ints  # (rows of the table, m − 1)
    units: Ints  # (rows of the table, 1 or K)
    windows: Sequence[str | None] | None = None  # the window of each row, where there are windows

    @classmethod
    def read(
        cls, lab: Lab, columns: Mapping[str, Any], groups: Any, windows: Sequence[str | None] | None = None
    ) -> Counted:
        """From the columns of a table of counts."""
        rows, valid = _ints(columns[ROWS]), _ints(columns[VALID])

        def stack(names: list[str]) -> Ints:
            parts = [_ints(columns[c]) for c in names]
            return np.column_stack(parts) if parts else np.zeros((len(rows), 0), dtype=np.int64)

        return cls(groups, rows, valid, stack(below_columns(lab)), stack(units_columns(lab)), windows)

    def part(self, at: NDArray[np.intp]) -> Counted:
        """Some rows of the table."""
        groups = self.groups  # None for one population
        if groups is not None:
            groups = groups[at] if isinstance(groups, np.ndarray) else [groups[i] for i in at]
        return Counted(groups, self.rows[at], self.valid[at], self.below[at], self.units[at])

    def tables(self, lab: Lab) -> tuple[Ints, Ints]:
        """Rows per bin, and sums of predictions per class."""
        V = np.empty((len(self.rows), lab.n_bins), dtype=np.int64)
        V[:, :-1], V[:, -1] = self.below, self.valid
        V[:, 1:] -= self.below  # of the bins up to this one, those before it
        if isinstance(lab.partition, Bins):
            return V, _shares_in_units(lab, V)
        if len(lab.classes) > 2:
            return V, self.units
        return V, np.column_stack([self.valid * int(1 / SCORE_UNIT) - self.units[:, 0], self.units[:, 0]])


def as_field(
    lab: Lab,
    counted: Counted,
    *,
    by: Sequence[str],
    grouped: bool | None = None,
    seen: Counted | None = None,
    dropped: int = 0,
    clipped: int = 0,
) -> Field:
    """The Field that the same rows would give as arrays.

    Parameters
    ----------
    grouped : whether there are groups; by default if their columns have names
    seen : the counts of all rows, where some were then left out: groups that lost all of theirs stay, with none
    """
    names: keys.Keys = (None,)
    codes = np.zeros(len(counted.rows), dtype=np.intp)
    grouped = bool(by) if grouped is None else grouped
    if grouped:
        names, codes = keys.arrange(counted.groups)
        if seen is not None and seen is not counted:
            present, (names, _) = names, keys.arrange(seen.groups)
            codes = keys.positions(names, present)[codes]
    tables = []
    for part in counted.tables(lab):
        table = np.zeros((len(names), part.shape[1]), dtype=np.int64)
        if len(names) == len(codes) > 1:  # every group once, the usual case
            table[codes] = part
        else:
            np.add.at(table, codes, part)
        tables.append(table)
    return Field(
        lab=lab.digest,
        classes=lab.classes,
        n_bins=lab.n_bins,
        grouped=grouped,
        groups=names,
        V=tables[0],
        score_sums=tables[1],
        dropped=dropped,
        clipped=clipped,
        by=tuple(by),
    )


def _shares_in_units(lab: Lab, V: Ints) -> Ints:
    """With given bin ids there are no predictions; the lab's share of each class in the bin stands in for them."""
    shares = lab.F.T / np.maximum(lab.F.sum(axis=0), 1e-300)[:, None]
    second = np.floor(shares / SCORE_UNIT + 0.5).astype(np.int64)
    if len(lab.classes) == 2:
        second[:, 0] = int(1 / SCORE_UNIT) - second[:, 1]
    return np.asarray(V @ second)


def _ints(values: Any) -> Ints:
    """Whole numbers, however the engine writes them (decimals, floats, text)."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.int64)
    return np.array([0 if v is None else int(v) for v in values], dtype=np.int64)
