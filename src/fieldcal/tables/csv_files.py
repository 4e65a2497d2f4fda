"""CSV as people write it: what DuckDB's sniffer finds, and what it would lose."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError
from fieldcal.tables.paths import listed

_SAMPLE = 1_000
_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
_LINE = re.compile(r"[Ll]ine:?\s*(\d+)")
#: Text of digits that a number would not give back.
_LOSSY = r"\s*([-+]?0[0-9]|\+).*"


def read(connection: Any, paths: Sequence[Path], *, name: str, text: Sequence[str]) -> Any:
    """A relation over the files, with the types that their text allows."""
    options: dict[str, Any] = {"header": True, "types": dict.fromkeys(text, "VARCHAR")}
    with told(name):
        relation = _relation(connection, paths, options)
        if _has_decimal_commas(relation):
            options["decimal"] = ","
            relation = _relation(connection, paths, options)
        lossy = _lossy(connection, paths, relation, options)
        if lossy:
            options["types"] |= dict.fromkeys(lossy, "VARCHAR")
            relation = _relation(connection, paths, options)
    return relation


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
    """Columns taken for whole numbers whose text has zeros before them, or signs: codes, not numbers."""
    import duckdb

    suspects = [n for n, t in zip(relation.columns, relation.types, strict=True) if str(t) == "BIGINT"]
    if not suspects:
        return []
    raw = _relation(connection, paths, {**options, "all_varchar": True, "types": None})
    pattern = duckdb.ConstantExpression(_LOSSY)
    found = raw.select(
        *(
            duckdb.FunctionExpression("regexp_full_match", duckdb.ColumnExpression(n), pattern).alias(n)
            for n in suspects
        )
    )
    seen = found.aggregate(
        [duckdb.FunctionExpression("bool_or", duckdb.ColumnExpression(n)) for n in suspects]
    )
    return [n for n, lossy in zip(suspects, seen.fetchall()[0], strict=True) if lossy]


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """DuckDB's errors in one line of ours."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise InputError(
            f"The memory limit is too small for {name!r}. Raise it, or use fewer threads."
        ) from None
    except duckdb.Error as error:
        raise InputError(_words(name, str(error))) from None


def _words(name: str, message: str) -> str:
    """What DuckDB says, without its advice on options that fieldcal does not have."""
    line = _LINE.search(message)
    where = f", line {line[1]}" if line else ""
    lines = [part.strip() for part in message.splitlines() if part.strip()]
    if "utf-8" in message.lower() or "unicode" in message.lower():
        return f"{name!r}{where} is not text in UTF-8. Save it as UTF-8."
    first = next((p for p in lines if not p.startswith(("CSV Error on Line", "Original Line"))), lines[0])
    what = re.sub(r"^(Invalid Input|IO|Binder|Conversion|Parser) Error:\s*", "", first)
    return f"{name!r}{where} cannot be used: {what[:300].rstrip('.')}."
