"""prevalence.csv: the table of prevalences, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcal import files

if TYPE_CHECKING:
    from fieldcal.objects import Prevalence

#: A spreadsheet takes text that starts like this for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Null(float):
    """Written as nothing at all, where csv would write the quotes of an empty text: null is not ''."""

    def __repr__(self) -> str:
        return ""


def write_csv(prev: Prevalence, path: Path) -> None:
    """One row per group and class, no text of which is a formula; UTF-8, atomically."""
    columns = {name: list(map(_no_formula, values)) for name, values in prev.to_dict().items()}
    files.write_atomically(path, as_csv(columns).encode("utf-8", "replace"))


def as_csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """Text in quotes, numbers bare, null empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(_Null() if value is None else value for value in row)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
