"""Names and numbers as tables of plots hold them: short text, and Python floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.objects import Lab, group_keys
from fieldcal.plots import style

Table = dict[str, Any]


#: Letters of a name from the data.
NAME_WIDTH = 28


_LONGEST_NAME = 200  # letters compared to keep names distinct


_IN_BIN = 12  # letters of a class in the label of a bin


def short_names(given: Sequence[Hashable]) -> list[str]:
    """Keys of groups or classes as short text on one line."""
    whole = [group_keys.show(key, width=_LONGEST_NAME).strip() or '""' for key in given]
    return style.all_shortened(whole, NAME_WIDTH)


def class_labels(lab: Lab) -> list[str]:
    """Classes under an axis; intervals with the fewest digits (at least three) that keep their ends distinct."""
    return list(lab.outcome.short_labels)


def bin_labels(lab: Lab) -> list[str]:
    """One short label per bin of the lab's partition."""
    return lab.partition.labels([group_keys.show(name, width=_IN_BIN) for name in lab.classes])


def plain(values: ArrayLike) -> list[float | None]:
    """A list of Python floats; None for values that are not finite."""
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def number(value: Any) -> float | None:
    """A Python float, or None."""
    return float(value) if math.isfinite(value) else None


def table_of(given: Any, column: str, make: Callable[..., Table], *more: Any, **options: Any) -> Table:
    """The argument itself if it is a table with this column, else the table made from it."""
    return given if isinstance(given, dict) and column in given else make(given, *more, **options)
