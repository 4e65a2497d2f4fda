"""CSV as people write it: what DuckDB's sniffer finds, and what it would lose."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError
from fieldcal.tables.engines.duckdb import told
from fieldcal.tables.paths import listed

_SAMPLE = 1_000
_LOOKED_AT = 100_000
_LOOKED_THROUGH = 2**28
_DELIMITERS = (",", ";", "\t", "|")
_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
#: By the type that the sniffer found: text that it would not give back. Codes such as 007, and answers such as yes.
_LOSSY = {"BIGINT": r"\s*([-+]?0[0-9]|\+).*", "BOOLEAN": r"(?i)\s*(t|f|y|n|yes|no|0|1)\s*"}


def read(connection: Any, paths: Sequence[Path], *, name: str, text: Sequence[str]) -> Any:
    """A relation over the files, with the types that their text allows."""
    options: dict[str, Any] = {"header": True, "dtype": dict.fromkeys(text, "VARCHAR")}
    if _is_gzip(paths[0]):  # whatever it is named
        options["compression"] = "gzip"
    if sum(path.stat().st_size for path in paths) <= _LOOKED_THROUGH:
        options["sample_size"] = -1  # a column is of the type that all of its rows have
    with told(name):
        relation = _relation(connection, paths, options)
        _refuse_ragged(paths[0], relation.columns, name)
        if _has_decimal_commas(relation):
            options["decimal"] = ","
            relation = _relation(connection, paths, options)
        lossy = _lossy(connection, paths, relation, options)
        if lossy:
            options["dtype"] |= dict.fromkeys(lossy, "VARCHAR")
            relation = _relation(connection, paths, options)
    return relation


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def _refuse_ragged(path: Path, columns: list[str], name: str) -> None:
    """A single column that is named like several: some row has more fields or fewer, and the sniffer gave up."""
    marks = [mark for mark in _DELIMITERS if mark in columns[0]]
    if len(columns) > 1 or not marks:
        return
    with (gzip.open if _is_gzip(path) else open)(path, "rt", encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream, delimiter=marks[0])
        wide = len(next(rows))
        for row in islice(rows, _LOOKED_AT):
            if row and len(row) != wide:
                raise InputError(
                    f"{name!r}, line {rows.line_num} has {len(row)} fields, but the header has {wide}. "
                    "Correct that line."
                )


def _relation_of_text(connection: Any, paths: Sequence[Path], options: dict[str, Any]) -> Any:
    return _relation(connection, paths, {**options, "all_varchar": True, "dtype": None, "decimal": None})


def _relation(connection: Any, paths: Sequence[Path], options: dict[str, Any]) -> Any:
    asked = {k: v for k, v in options.items() if v}
    return connection.read_csv(listed(paths), **asked)


def _has_decimal_commas(relation: Any) -> bool:
    """Whether a column that was taken for text holds numbers such as 0,25."""
    columns = [n for n, t in zip(relation.columns, relation.types, strict=True) if str(t) == "VARCHAR"]
    if not columns:
        return False
    rows = relation.limit(_SAMPLE).fetchall()
    for name in columns:
        at = relation.columns.index(name)
        values = [row[at] for row in rows if row[at] is not None]
        if values and all(_COMMA.fullmatch(v) for v in values):
            return True
    return False


def _lossy(connection: Any, paths: Sequence[Path], relation: Any, options: dict[str, Any]) -> list[str]:
    """Columns that were taken for numbers or truth values, but whose text these would not give back."""
    import duckdb

    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    suspects = [n for n, t in types.items() if t in _LOSSY]
    if not suspects:
        return []
    raw = _relation_of_text(connection, paths, options)
    matches = []
    for name in suspects:
        column, pattern = duckdb.ColumnExpression(name), duckdb.ConstantExpression(_LOSSY[types[name]])
        match = duckdb.FunctionExpression("regexp_full_match", column, pattern)
        matches.append(duckdb.FunctionExpression("bool_or", match))
    seen = raw.aggregate(matches)
    return [n for n, lossy in zip(suspects, seen.fetchall()[0], strict=True) if lossy]
