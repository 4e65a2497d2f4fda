"""A small table, given as columns, in the format that the extension of a file names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError
from fieldcal.tables.files.parquet import as_parquet

Columns = Mapping[str, Sequence[Any]]
#: A spreadsheet takes text that starts like this for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Null(float):
    """Written as nothing at all, where csv would write the quotes of an empty text: null is not ''."""

    def __repr__(self) -> str:
        return ""


def table_format(path: Path) -> Callable[[Columns], bytes]:
    """What writes a table in the format that the extension names."""
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise InputError(
            f"A table is written as {', '.join(_FORMATS)}, but {str(path)!r} ends otherwise. Change the extension."
        )
    return found


def records(columns: Columns) -> list[dict[str, Any]]:
    """A table of columns as one dictionary per row."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def safe_csv(columns: Columns) -> bytes:
    """A table no text of which is a formula; UTF-8."""
    safe = {name: list(map(_no_formula, values)) for name, values in columns.items()}
    return as_csv(safe).encode("utf-8", "replace")


def as_csv(columns: Columns) -> str:
    """Text in quotes, numbers bare, null empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(_Null() if value is None else value for value in row)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _as_json(columns: Columns) -> bytes:
    return json.dumps(records(columns), default=str).encode()


def _as_json_lines(columns: Columns) -> bytes:
    return "".join(json.dumps(row, default=str) + "\n" for row in records(columns)).encode()


_FORMATS: dict[str, Callable[[Columns], bytes]] = {
    ".csv": safe_csv,
    ".parquet": as_parquet,
    ".json": _as_json,
    ".jsonl": _as_json_lines,
}
