"""How the texts of options are read, as they are typed in a shell. What cannot be read raises a ValueError."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

from fieldcal.errors import InputError


def names(given: Sequence[str]) -> list[str]:
    """Names with commas between them; one that holds a comma stands in double quotes.

    Examples
    --------
    >>> from fieldcal.texts import names
    >>> names(["a,b", '"c,d"'])
    ['a', 'b', 'c,d']
    """
    try:
        found = [name for text in given for name in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error:
        raise InputError(
            f"The names {', '.join(given)!r:.80} hold a line break. Put such a name into double quotes, inside of "
            "those for the shell, or rename the column."
        ) from None
    if "" in found:
        raise ValueError
    return found


def some_names(given: Sequence[str]) -> list[str]:
    """Names, at least one."""
    found = names(given)
    if not found:
        raise ValueError
    return found


def one_or_more(given: Sequence[str]) -> str | list[str]:
    """A single name, or a pattern, as it is; several as a list."""
    found = some_names(given)
    return found[0] if len(found) == 1 else found


def quantile_columns(given: Sequence[str]) -> str | dict[float, str]:
    """A pattern as it is; ``0.1=low,0.9=high`` as the column of each level."""
    found = some_names(given)
    if len(found) == 1 and "*" in found[0]:
        return found[0]
    parts = [text.partition("=") for text in found]
    columns = {float(level): column for level, _, column in parts}
    if len(columns) < len(parts) or not all(0 < level < 1 and name for level, name in columns.items()):
        raise ValueError
    return columns


def number_or(*words: str) -> Callable[[str], Any]:
    """Reads a number, or one of the words as it is; ``none`` is None."""
    return lambda text: (None if text == "none" else text) if text in words else float(text)


def number_list(text: str) -> list[float]:
    """Numbers with commas between them, at least one."""
    return [float(part) for part in text.split(",") if part.strip()] or [float(text)]


def number_rows(text: str) -> list[list[float]]:
    """Numbers: commas between those of a row, semicolons between rows.

    Examples
    --------
    >>> from fieldcal.texts import number_rows
    >>> number_rows("388,12;10,110")
    [[388.0, 12.0], [10.0, 110.0]]
    """
    return [[float(cell) for cell in row.split(",")] for row in text.split(";")]


def whole_numbers(text: str) -> list[int]:
    """Whole numbers with commas between them; none for 0."""
    found = [int(part) for part in text.split(",")]
    return [] if found == [0] else found


def atoms(text: str) -> list[float] | str:
    """auto, none, or numbers with commas between them."""
    return text if text == "auto" else [] if text == "none" else number_list(text)


def intervals(text: str) -> Any:
    """auto, how many, edges with commas, or with semicolons pairs of ends; ``5,`` is one edge."""
    if text == "auto" or ";" in text:
        return text if text == "auto" else number_rows(text)
    return number_list(text) if "," in text else int(text)
