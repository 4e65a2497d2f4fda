"""Methods: one word for the options of `learn` and `estimate` that belong together.

A method says what "auto" means; an option that is given stands, whatever the method. A new one is a line in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fieldcal.core.partition import (
    Edges,
    EdgesAboveZero,
    PartitionLike,
    Quantiles,
    QuantilesAboveZero,
)
from fieldcal.core.priors import Continuity, Flat, PriorLike
from fieldcal.errors import InputError, option
from fieldcal.options import check_choice
from fieldcal.types import Point

MethodName = Literal["default", "paper", "reference"]

#: The number of intervals in the paper's experiments, and what its authors "had good experiences with".
PAPER_BINS = 4


@dataclass(frozen=True)
class Method:
    """What the options are that nobody gave."""

    partition: Callable[[int], PartitionLike]  # of the number of classes
    smoothing: float | Literal["auto"]
    prior: Callable[[int, bool], PriorLike]  # of the number of classes, and whether they have an order
    trust: float | Literal["auto"]
    point: Point
    limits_bins: bool = True  # whether a lab gets no more bins than its rows can fill
    counts_zeros: bool = True  # whether a score of exactly 0 is in any bin
    most_classes: int | None = None

    def cut(self, partition: PartitionLike) -> PartitionLike:
        """The partition, without zeros where they are not counted."""
        if self.counts_zeros or isinstance(partition, str):
            return partition
        if isinstance(partition, (int, np.integer)) and not isinstance(partition, bool):
            return QuantilesAboveZero(int(partition))
        if isinstance(partition, Quantiles):
            return QuantilesAboveZero(partition.n)
        if isinstance(partition, Edges):
            return EdgesAboveZero(partition.edges)
        raise InputError(
            f"The authors' code cuts the score of two classes into intervals, but got {partition!r:.60}. Use "
            f"{option('method', 'paper')}."
        )

    def check(self, n_classes: int) -> None:
        """Refuse more classes than it is for."""
        if self.most_classes is not None and n_classes > self.most_classes:
            raise InputError(
                f"The authors' code knows two classes, but there are {n_classes}. Use {option('method', 'paper')}."
            )


def _as_many_as_classes(n_classes: int) -> PartitionLike:
    return PAPER_BINS if n_classes == 2 else n_classes


def _continuity(n_classes: int, ordered: bool) -> PriorLike:
    """The paper gives no strength. Here a step of all of an average interval's share costs one unit of likelihood."""
    return Continuity(float(n_classes**2)) if ordered and n_classes > 2 else Flat()


METHODS: dict[str, Method] = {
    "default": Method(lambda _: "auto", "auto", lambda _, __: "auto", "auto", "mean"),
    "paper": Method(_as_many_as_classes, 0.0, _continuity, 1.0, "mode", limits_bins=False),
    "reference": Method(
        lambda _: PAPER_BINS,
        0.0,
        lambda _, __: Flat(),
        1.0,
        "mode",
        limits_bins=False,
        counts_zeros=False,
        most_classes=2,
    ),
}


def as_method(name: MethodName) -> Method:
    check_choice("method", name, tuple(METHODS))
    return METHODS[name]
