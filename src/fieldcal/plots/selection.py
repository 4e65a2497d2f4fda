"""Selection of the groups to draw, if there are more than there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldcal.errors import InputError
from fieldcal.types import Floats, Ints

_HALF_OF_90 = 1.645  # half-width of a 90 % interval, in standard errors


@dataclass(frozen=True)
class Lines:
    """Candidate lines of a forest plot: groups, or classes."""

    size: Floats  # rows; larger lines come first
    rows: Floats
    mean_prediction: Floats
    estimate: Floats
    lower: Floats | None
    upper: Floats | None
    misfit: Floats  # effect size of groups that fit no mixture of the classes, else 0


def select_lines(lines: Lines, limit: int) -> list[int]:
    """Selected lines: half for the largest, a quarter for the worst fits, the rest for reliable differences."""
    check_limit(limit)
    if len(lines.size) <= limit:
        return list(range(len(lines.size)))
    largest = np.argsort(-lines.size, kind="stable")
    bad = np.argsort(-lines.misfit, kind="stable")[: np.count_nonzero(lines.misfit > 0)]
    half = (limit + 1) // 2
    return take([(largest, half), (bad, (limit - half) // 2), (by_certain_change(lines), limit)], limit)


def by_certain_change(lines: Lines) -> Ints:
    """Positions by the distance from the mean prediction to the interval, then by the difference in interval widths.

    Differs from a plain ratio, which is huge for a class with a share near zero and a tiny interval.
    """
    change = np.abs(lines.estimate - lines.mean_prediction)
    half = _half_width(lines)
    beyond = np.where(lines.rows > 0, np.maximum(change - half, 0.0), -1.0)
    return np.lexsort((-change / np.maximum(half, 1e-12), -beyond))


def _half_width(lines: Lines) -> Floats:
    """Half-width of the interval; without intervals, of the sampling noise."""
    if lines.lower is None or lines.upper is None:
        noise = np.sqrt(lines.estimate * (1.0 - lines.estimate) / np.maximum(lines.rows, 1.0))
        return np.asarray(_HALF_OF_90 * noise)
    # On the side of the interval on which the mean prediction lies.
    return np.where(
        lines.mean_prediction < lines.estimate, lines.estimate - lines.lower, lines.upper - lines.estimate
    )


def select_groups(shift: Floats, rows: Floats, limit: int) -> list[int]:
    """The lowest, the highest and the largest groups; groups without rows only if there is room for all."""
    check_limit(limit)
    if len(shift) <= limit:
        return list(range(len(shift)))
    counted = np.flatnonzero(rows > 0)
    by_shift = counted[np.argsort(shift[counted], kind="stable")]
    largest = np.argsort(-rows, kind="stable")
    third = limit // 3
    return take([(by_shift, third), (by_shift[::-1], third), (largest, limit)], limit)


def take(orders: Sequence[tuple[Ints, int]], limit: int) -> list[int]:
    """Up to the given number from each order, without repeats, at most ``limit`` in total."""
    taken: dict[int, None] = {}
    for order, places in orders:
        goal = min(len(taken) + places, limit)
        for i in order[: 2 * limit].tolist():
            if len(taken) >= goal:
                break
            taken.setdefault(i)
    return list(taken)


def check_limit(limit: int) -> None:
    """Refuse limits below one."""
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise InputError(f"limit must be a whole number of at least 1, but got {limit!r:.60}.")
