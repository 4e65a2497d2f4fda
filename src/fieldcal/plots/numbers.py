"""Numbers that JSON can hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Table = dict[str, Any]


def plain(values: ArrayLike) -> list[float | None]:
    """A list of Python's floats; None for what is not finite."""
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def number(value: Any) -> float | None:
    """One of Python's floats, or None."""
    return float(value) if math.isfinite(value) else None
