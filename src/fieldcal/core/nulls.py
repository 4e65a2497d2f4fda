"""What counts as missing, in whatever library it was made."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np


def is_null(value: Any) -> bool:
    """None, NaN, NaT, NA: the nulls of Python, numpy, pandas and polars."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
