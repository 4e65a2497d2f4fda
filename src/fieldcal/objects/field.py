"""Field: histograms of predictions per group."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import model_validator

from fieldcal import keys
from fieldcal.artefacts import Artefact, Counts, KeyTuple, Texts, sealed
from fieldcal.core.response import whole
from fieldcal.errors import InputError

#: Sums of predictions are kept in whole units of 2**-30, so that merging is exact in any order.
SCORE_UNIT = 2.0**-30


class Field(Artefact):
    """What the field shows: a histogram of predictions per group, and nothing else of it.

    Made by `fieldcal.count`. `Field + Field` merges exactly, in any order.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> monday = fieldcal.count(lab, [0.1, 0.7], groups=["Leeds", "York"])
    >>> tuesday = fieldcal.count(lab, [0.2], groups=["York"])
    >>> (monday + tuesday).n.tolist(), monday + tuesday == tuesday + monday
    ([1, 2], True)
    """

    kind: ClassVar[str] = "field"

    lab: str  # digest of the lab whose partition was used
    classes: KeyTuple
    n_bins: int = Slot(ge=1)
    grouped: bool
    groups: KeyTuple
    V: Counts
    score_sums: Counts  # (G, K) sums of the predictions, in units of SCORE_UNIT
    dropped: int = Slot(default=0, ge=0)
    clipped: int = Slot(default=0, ge=0)
    batches: Texts = ()

    @model_validator(mode="before")
    @classmethod
    def _empty_shapes(cls, values: Any) -> Any:
        """JSON cannot tell the width of a table without rows."""
        if isinstance(values, dict) and np.size(values.get("V", 0)) == 0:
            widths = {"V": values.get("n_bins"), "score_sums": np.size(values.get("classes", ()))}
            for name, width in widths.items():
                if type(width) is int and np.size(values.get(name, 0)) == 0:
                    values = {**values, name: np.zeros((0, width), dtype=np.int64)}
        return values

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        if self.V.shape != (len(self.groups), self.n_bins):
            raise ValueError(
                f"V has shape {self.V.shape} for {len(self.groups)} groups and {self.n_bins} bins"
            )
        if self.score_sums.shape != (len(self.groups), len(self.classes)):
            raise ValueError(f"score_sums has shape {self.score_sums.shape}")
        return self

    @cached_property
    def n(self) -> NDArray[Any]:
        """Rows (or their weights) per group."""
        return sealed(self.V.sum(axis=1))

    @cached_property
    def naive(self) -> NDArray[np.float64]:
        """Mean prediction per group and class."""
        total = self.score_sums.sum(axis=1, keepdims=True).astype(np.float64)
        equal = np.full(self.score_sums.shape, 1.0 / max(1, len(self.classes)))
        return sealed(np.divide(self.score_sums, total, out=equal, where=total > 0))

    def __add__(self, other: object) -> Field:
        if not isinstance(other, Field):
            return NotImplemented
        self._check_mergeable(other)
        groups = keys.union(self.groups, other.groups)
        at = [keys.positions(groups, part.groups) for part in (self, other)]
        tables = {
            name: _merge(len(groups), at, getattr(self, name), getattr(other, name))
            for name in ("V", "score_sums")
        }
        return Field(
            lab=self.lab,
            classes=self.classes,
            n_bins=self.n_bins,
            grouped=self.grouped,
            groups=groups,
            dropped=self.dropped + other.dropped,
            clipped=self.clipped + other.clipped,
            batches=tuple(sorted((*self.batches, *other.batches))),
            **tables,
        )

    def __radd__(self, other: object) -> Field:
        """So that ``sum(fields)`` works: it starts from 0."""
        return self if other == 0 else NotImplemented

    def _check_mergeable(self, other: Field) -> None:
        differences = []
        if self.classes != other.classes:
            differences.append(f"classes {self.classes!r:.80} and {other.classes!r:.80}")
        if self.n_bins != other.n_bins:
            differences.append(f"{self.n_bins} and {other.n_bins} bins")
        if self.lab != other.lab:
            differences.append(f"labs {self.lab[:8]}… and {other.lab[:8]}…")
        if differences:
            raise InputError(
                f"These counts were made with different labs: {'; '.join(differences)}. Count again with one lab."
            )
        if self.grouped != other.grouped:
            raise InputError(
                "One of these fields has groups and the other has none. Count both the same way."
            )
        twice = sorted(set(self.batches) & set(other.batches))
        if twice:
            raise InputError(
                f"The batch {twice[0]!r} is in both fields: merging would count its rows twice. Leave one out."
            )

    def __repr__(self) -> str:
        groups = f"{len(self.groups):,} groups" if self.grouped else "one population"
        dropped = f", {self.dropped:,} rows dropped (missing predictions)" if self.dropped else ""
        return f"Field: {self.n.sum():,} rows, {groups}, {self.n_bins} bins{dropped}"


def _merge(n_groups: int, at: list[NDArray[np.intp]], one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
    """The sum of two tables whose rows stand at the given places; floats where integers would overflow."""
    dtype = np.result_type(one, two)
    if dtype.kind == "i" and one.max(initial=0) / 2 + two.max(initial=0) / 2 >= 2.0**61:
        dtype = np.dtype(np.float64)
    table = np.zeros((n_groups, one.shape[1]), dtype=dtype)
    table[at[0]] += one
    table[at[1]] += two
    return whole(table)
