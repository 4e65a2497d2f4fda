"""Results as a CSV file and as short tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.few_labels.page import grid, number


def text(value: object, digits: int) -> str:
    """A cell: counts as they are, other numbers with so many digits, nothing for NaN."""
    if not isinstance(value, float):
        return str(value)
    return number(value, digits) if np.isfinite(value) else ""


def show(title: str, frame: pd.DataFrame, digits: Mapping[str, int] | None = None) -> None:
    """Print a table with three digits in each column, or as many as given."""
    digits = digits or {}
    rows = [
        [text(value, digits.get(name, 3)) for name, value in zip(frame.columns, row, strict=True)]
        for row in frame.itertuples(index=False)
    ]
    print(f"\n{title}", *grid(list(frame.columns), rows, markdown=False), sep="\n", flush=True)


def save(records: Sequence[Mapping[str, object]], path: Path | None) -> pd.DataFrame:
    """All records as a frame, written to the path if there is one."""
    frame = pd.DataFrame(list(records))
    if path is not None:
        frame.to_csv(path, index=False)
    return frame
