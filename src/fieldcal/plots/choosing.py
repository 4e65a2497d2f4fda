"""Which lines and curves to show where there are too many.

All sorting is on whole arrays; only what is shown is ever looped over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcal.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_SURE = 1.645  # half an interval of 90 %, in standard errors


@dataclass(frozen=True)
class Lines:
    """Candidates for the lines of a forest: groups, or the classes of one population."""

    size: Floats  # what is large comes first
    rows: Floats
    naive: Floats
    value: Floats
    lower: Floats | None
    upper: Floats | None
    misfit: Floats  # effect of groups that no mixture of the classes explains, 0 elsewhere


def worth_showing(lines: Lines, limit: int) -> list[int]:
    """Half of the places for the largest, a quarter for what fits badly, the others for what surely moved."""
    check_limit(limit)
    if len(lines.size) <= limit:
        return list(range(len(lines.size)))
    largest = np.argsort(-lines.size, kind="stable")
    bad = np.argsort(-lines.misfit, kind="stable")[: np.count_nonzero(lines.misfit > 0)]
    half = (limit + 1) // 2
    return take([(largest, half), (bad, (limit - half) // 2), (moved_for_sure(lines), limit)], limit)


def moved_for_sure(lines: Lines) -> Ints:
    """Positions by the distance from the mean prediction to the interval; inside it, in units of its width.

    Differs from a plain ratio: a class that is next to absent has a tiny interval, and a huge ratio says nothing there.
    """
    change = np.abs(lines.value - lines.naive)
    half = _half_width(lines)
    beyond = np.where(lines.rows > 0, np.maximum(change - half, 0.0), -1.0)
    return np.lexsort((-change / np.maximum(half, 1e-12), -beyond))


def spread_of(shift: Floats, rows: Floats, limit: int) -> list[int]:
    """The lowest, the highest and the largest; groups without rows only where there is room for all."""
    check_limit(limit)
    if len(shift) <= limit:
        return list(range(len(shift)))
    counted = np.flatnonzero(rows > 0)
    by_shift = counted[np.argsort(shift[counted], kind="stable")]
    largest = np.argsort(-rows, kind="stable")
    third = limit // 3
    return take([(by_shift, third), (by_shift[::-1], third), (largest, limit)], limit)


def take(orders: Sequence[tuple[Ints, int]], limit: int) -> list[int]:
    """From each order as many as it has places, nothing twice, at most ``limit`` together."""
    taken: dict[int, None] = {}
    for order, places in orders:
        goal = min(len(taken) + places, limit)
        for i in order[: 2 * limit].tolist():
            if len(taken) >= goal:
                break
            taken.setdefault(i)
    return list(taken)


def check_limit(limit: int) -> None:
    """At least one."""
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise InputError(f"limit must be a whole number of at least 1, but got {limit!r:.60}.")


def _half_width(lines: Lines) -> Floats:
    """Of the interval; of the noise of so many rows where no interval was asked for."""
    if lines.lower is None or lines.upper is None:
        noise = np.sqrt(lines.value * (1.0 - lines.value) / np.maximum(lines.rows, 1.0))
        return np.asarray(_SURE * noise)
    # From the end of the interval that the mean prediction lies beyond.
    return np.where(lines.naive < lines.value, lines.value - lines.lower, lines.upper - lines.value)
