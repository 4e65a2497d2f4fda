"""Lab, Field and Prevalence: the small frozen objects that pass between the verbs, and nothing else does."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import model_validator

from fieldcal import keys
from fieldcal.artefacts import (
    Artefact,
    Counts,
    Flags,
    Frozen,
    KeyTuple,
    Numbers,
    PartitionField,
    Texts,
)
from fieldcal.core.response import Conditioning, conditioning, response_matrix
from fieldcal.errors import InputError

#: Sums of predictions are kept in whole units of 2**-30, so that merging is exact in any order.
SCORE_UNIT = 2.0**-30


class Lab(Artefact):
    """What the lab teaches: how predictions are distributed given the class.

    Made by `fieldcal.learn`. Holds the counts `F` behind `M`, the partition, and what was seen on the way.
    """

    kind: ClassVar[str] = "lab"

    classes: KeyTuple
    partition: PartitionField
    F: Counts
    smoothing: float = Slot(ge=0)
    bin_scores: Counts  # (m, K) sums of the predictions in each bin, in units of SCORE_UNIT
    n: int = Slot(ge=0)
    clipped: int = Slot(default=0, ge=0)
    log_loss: float | None = None
    accuracy: float | None = None

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        shape = (len(self.classes), self.partition.m)
        if self.F.shape != shape:
            raise ValueError(f"F has shape {self.F.shape}, but classes and bins need {shape}")
        return self

    @cached_property
    def M(self) -> NDArray[np.float64]:
        """The response matrix: `M[i, j]` is the probability of bin `j` given class `i`."""
        return response_matrix(self.F, smoothing=self.smoothing)

    @cached_property
    def p_lab(self) -> NDArray[np.float64]:
        """Class prevalences in the lab."""
        return np.asarray(self.F.sum(axis=1) / self.F.sum())

    @cached_property
    def conditioning(self) -> Conditioning:
        """Rank, condition number and smallest singular value of M."""
        return conditioning(self.M)

    @property
    def n_bins(self) -> int:
        """The number of bins that the partition really has."""
        return int(self.partition.m)

    def __repr__(self) -> str:
        classes = ", ".join(
            f"{keys.show(c, width=20)} {p:.1%}" for c, p in zip(self.classes[:6], self.p_lab, strict=False)
        )
        more = ", …" if len(self.classes) > 6 else ""
        quality = self.conditioning
        return (
            f"Lab: {self.n:,} rows, {len(self.classes)} classes ({classes}{more}), {self.n_bins} bins, "
            f"condition number {quality.condition_number:.3g}"
        )


class Field(Artefact):
    """What the field shows: a histogram of predictions per group, and nothing else of it.

    Made by `fieldcal.count`. `Field + Field` merges exactly, in any order.
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
        if isinstance(values, dict) and len(values.get("groups", (0,))) == 0:
            for name, width in (("V", values.get("n_bins", 1)), ("score_sums", len(values["classes"]))):
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
        return np.asarray(self.V.sum(axis=1))

    @cached_property
    def naive(self) -> NDArray[np.float64]:
        """Mean prediction per group and class."""
        total = self.score_sums.sum(axis=1, keepdims=True).astype(np.float64)
        equal = np.full(self.score_sums.shape, 1.0 / max(1, len(self.classes)))
        return np.asarray(np.divide(self.score_sums, total, out=equal, where=total > 0))

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
    return table


class Fit(Frozen):
    """How the estimate was reached, per group."""

    gap: Numbers  # (G,) optimality gap of the mode, per row
    n_iter: Counts  # (G,)
    converged: Flags  # (G,)
    novel: Counts  # (G,) rows in bins that the lab never filled


class Prevalence(Artefact):
    """Class prevalences per group: naive, URC's, and the one to use, with an interval.

    Made by `fieldcal.estimate`; handed to `fieldcal.recalibrate`.

    Attributes
    ----------
    groups : the G group keys; the single key None when the field has no groups
    classes : the K classes
    n : (G,) rows per group
    naive : (G, K) mean prediction
    urc : (G, K) URC's estimate, whatever the trust
    value : (G, K) the prevalence after recalibration: naive at trust 0, URC's at trust 1
    lower, upper : (G, K) interval of ``value`` at ``level``
    trust : (G,) how far URC's estimate is followed
    status : (G,) "ok", or what to know about the group
    fit : how the estimate was reached
    """

    kind: ClassVar[str] = "prevalence"

    lab: Lab
    field: Field
    prior: dict[str, float | str]
    point: str
    level: float = Slot(gt=0, lt=1)
    urc: Numbers
    value: Numbers
    lower: Numbers
    upper: Numbers
    trust: Numbers
    weights: Numbers  # (G, K) what predictions are multiplied with
    overall_weights: Numbers  # (K,) the same for groups that were never seen
    status: Texts
    fit: Fit

    @property
    def groups(self) -> keys.Keys:
        """The group keys, in the order of the rows."""
        return self.field.groups

    @property
    def classes(self) -> keys.Keys:
        """The classes, in the order of the columns."""
        return self.lab.classes

    @property
    def n(self) -> NDArray[Any]:
        """Rows per group."""
        return self.field.n

    @property
    def naive(self) -> NDArray[np.float64]:
        """Mean prediction per group and class."""
        return self.field.naive
