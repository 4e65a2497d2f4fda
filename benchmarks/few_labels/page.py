"""Tables and bars as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

KINDS = ("consistent", "random", "moved")
Column = Callable[[pd.DataFrame], str]


def number(value: float, digits: int = 4, *, sign: bool = False) -> str:
    """.0123: no zero before the point, as the docs write numbers."""
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("0.", ".", 1 if abs(value) < 1 else 0)


def error_of(values: pd.Series) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def with_error(values: pd.Series, digits: int = 4, *, sign: bool = False) -> str:
    return f"{number(values.mean(), digits, sign=sign)} ±{number(error_of(values), digits)}"


def mean_of(name: str, digits: int = 4, *, sign: bool = False, error: bool = False) -> Column:
    """A column that is the mean over files, with its standard error if asked."""

    def cell(some: pd.DataFrame) -> str:
        return (
            with_error(some[name], digits, sign=sign)
            if error
            else number(some[name].mean(), digits, sign=sign)
        )

    return cell


def ratio_of(name: str, other: str) -> Column:
    """A column that is a ratio of means over files."""
    return lambda some: number(ratio(some, name, other), 2)


def ratio(some: pd.DataFrame, name: str, other: str) -> float:
    return float(some[name].mean() / some[other].mean())


def parts(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """The frame by these keys; kinds in their order."""
    order = frame.assign(kind=pd.Categorical(frame.kind, KINDS))
    for at, some in order.groupby(list(keys), observed=True):
        yield tuple(map(str, at)), some


def table(
    frame: pd.DataFrame, keys: Mapping[str, str], columns: Mapping[str, Column], *, markdown: bool
) -> list[str]:
    """A row for each value of the keys (name in the frame → title)."""
    rows = [[*at, *(cell(some) for cell in columns.values())] for at, some in parts(frame, list(keys))]
    return grid([*keys.values(), *columns], rows, markdown=markdown)


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |" if markdown else "  ".join(padded)

    rule = ["|" + "|".join("-" * (width + 2) for width in widths) + "|"] if markdown else []
    return ["", line(head), *rule, *map(line, rows), ""]


def bar(what: str, met: bool) -> str:
    return f"{'met   ' if met else 'MISSED'} {what}"


def worst(values: pd.Series, noise: pd.Series | None = None, *, lowest: bool = False, digits: int = 3) -> str:
    """A line with the five worst of a series whose index names them."""
    chosen = values.sort_values(ascending=lowest).head(5)
    errors = {} if noise is None else {at: f" ±{number(noise[at], digits)}" for at in chosen.index}
    shown = (f"{name_of(at)} {number(value, digits)}{errors.get(at, '')}" for at, value in chosen.items())
    return f"         {'lowest' if lowest else 'highest'}: " + ", ".join(shown)


def name_of(at: object) -> str:
    return " ".join(map(str, at)) if isinstance(at, tuple) else str(at)
