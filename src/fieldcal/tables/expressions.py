"""What happens to the scores of a row, written once for narwhals and for SQL in the words of `core.backend`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from fieldcal.core.backend import Backend, Expr, clipped, total
from fieldcal.core.partition import Partition
from fieldcal.objects import SCORE_UNIT
from fieldcal.validation import CLIP, SUM_TOLERANCE

__all__ = [
    "Backend",
    "Expr",
    "below",
    "clipped",
    "inside",
    "is_one",
    "is_rounding",
    "recalibrated",
    "scaled",
    "total",
    "units",
]


def inside(backend: Backend, columns: Sequence[Expr], *, slack: float = 0.0) -> Expr:
    """Whether all scores of a row are numbers in [0, 1]; false for NaN in every engine."""
    parts = [(x >= backend.number(-slack)) & (x <= backend.number(1.0 + slack)) for x in columns]
    return reduce(lambda a, b: a & b, parts)


def is_one(backend: Backend, value: Expr) -> Expr:
    """Whether a row's total is one, as far as rounding goes."""
    return (value >= backend.number(1.0 - SUM_TOLERANCE)) & (value <= backend.number(1.0 + SUM_TOLERANCE))


def is_rounding(backend: Backend, x: Expr) -> Expr:
    """Whether a score lies beyond 0 or 1 by no more than rounding."""
    low = (x < backend.number(0.0)) & (x >= backend.number(-CLIP))
    return low | ((x > backend.number(1.0)) & (x <= backend.number(1.0 + CLIP)))


def units(backend: Backend, x: Expr) -> Expr:
    """A score in whole units, rounded half up: sums of them are exact in any order."""
    return backend.floor(x * backend.number(1.0 / SCORE_UNIT) + backend.number(0.5))


def below(partition: Partition, backend: Backend, columns: Sequence[Expr], bins: Expr) -> list[Expr]:
    """For each bin but the last, whether the row lies in it or in one before it."""
    own = partition.below(backend, columns)
    return [bins <= backend.integer(j) for j in range(partition.m - 1)] if own is None else own


def recalibrated(backend: Backend, columns: Sequence[Expr], ratios: Sequence[Expr]) -> list[Expr]:
    """The known-bias lemma. ``ratios``: the weight of every class but the first, over the first's."""
    if len(columns) == 1:
        up = columns[0] * ratios[0]
        return [up / (up + (backend.number(1.0) - columns[0]))]
    parts = scaled(columns, ratios)
    whole = total(parts)
    return [x / whole for x in parts]


def scaled(columns: Sequence[Expr], ratios: Sequence[Expr]) -> list[Expr]:
    """The scores of several classes times their weights, before they are made to sum to one."""
    return [columns[0], *(x * r for x, r in zip(columns[1:], ratios, strict=True))]
