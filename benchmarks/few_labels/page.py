"""Tables and bars as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

KINDS = ("consistent", "random", "moved")


def number(value: float, digits: int = 4, *, sign: bool = False) -> str:
    if not np.isfinite(value):
        return "–"
    return (
        f"{value:{'+' if sign else ''}.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
    )


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], *, markdown: bool) -> list[str]:
    rows = [list(row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |" if markdown else "  ".join(padded)

    rule = ["|" + "|".join("-" * (width + 2) for width in widths) + "|"] if markdown else []
    return [line(head), *rule, *map(line, rows)]


def bar(what: str, met: bool) -> str:
    return f"{'met   ' if met else 'MISSED'} {what}"


def error_of(values: pd.Series) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def with_error(values: pd.Series, digits: int = 4, *, sign: bool = False) -> str:
    return f"{number(values.mean(), digits, sign=sign)} ±{number(error_of(values), digits)}"


def worst(values: pd.Series, most: int = 5, *, largest: bool = True, digits: int = 3) -> str:
    """The worst few of a series whose index names them."""
    chosen = values.sort_values(ascending=not largest).head(most)
    return ", ".join(f"{name_of(at)} {number(value, digits, sign=True)}" for at, value in chosen.items())


def name_of(at: object) -> str:
    return " ".join(map(str, at)) if isinstance(at, tuple) else str(at)
