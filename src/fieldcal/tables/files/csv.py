"""CSV as people write it. DuckDB finds the dialect and reads; what a column holds is asked of every row.

DuckDB's own guesses are made from the first rows, and lose what they do not expect: "01" becomes 1, "0x10" 16, "yes"
true, rows that start with # are comments, a title is skipped, and the columns of a second file are taken by position.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fieldcal.errors import InputError
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables.files.paths import listed

_SAMPLE = 20_000
_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
#: What stands for a missing number; text keeps it.
_NO_NUMBER = ("", "NA")
#: What only looks like a number.
_CODE = r"^[-+]?0[0-9xX]|_|^[+]\d+$"
_DAY = r"\d{4}-\d{2}-\d{2}"
_MOMENT = _DAY + r"[ T]\d{2}:\d{2}(:\d{2}([.]\d+)?)?"
#: The types that are tried, the first that fits every cell is taken; without one, a column is text.
_TYPES = ("BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP")
_WRITTEN = {"BOOLEAN": "true|false", "DATE": _DAY, "TIMESTAMP": _MOMENT}


@dataclass(frozen=True)
class Dialect:
    """How the cells of a file are told apart."""

    delimiter: str
    quote: str
    escape: str
    compression: str


def read(connection: Any, paths: Sequence[Path], *, text: Sequence[str]) -> Any:
    """A relation over the files; a column is a number or a date only if every cell says so."""
    dialect = _dialect(connection, paths[0])
    names = _header(paths[0], dialect)
    for path in paths[1:]:
        _refuse_another(path, paths[0], names, dialect)
    relation = _as_text(connection, paths, names, dialect)
    tried = {name: _TYPES for name in names if name not in text}
    sample = relation.limit(_SAMPLE)
    decimal = _decimal(sample, dialect)
    types = _fitting(relation, _fitting(sample, tried, decimal), decimal)
    return relation.select(*(_typed(name, types.get(name, ()), decimal) for name in names))


def _refuse_another(path: Path, first: Path, names: Sequence[str], dialect: Dialect) -> None:
    """DuckDB takes the columns of further files by position, whatever their names."""
    if _compression(path) != dialect.compression:
        raise InputError(
            f"One of {first.name!r} and {path.name!r} is gzipped. Unpack it, or open them one by one."
        )
    if _header(path, dialect) != names:
        raise InputError(
            f"{path.name!r} has other columns than {first.name!r}. Files of one table need the same header."
        )


def _compression(path: Path) -> str:
    with path.open("rb") as stream:
        return "gzip" if stream.read(2) == b"\x1f\x8b" else "none"  # whatever it is named


def _dialect(connection: Any, path: Path) -> Dialect:
    """What DuckDB's sniffer finds; the header decides where ragged rows confuse it."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    packed = _compression(path)
    sniff = "SELECT Delimiter, Quote, Escape FROM sniff_csv($path, compression=$packed, comment='', skip=0)"
    try:
        found = connection.execute(sniff, {"path": listed([path])[0], "packed": packed}).fetchall()[0]
    except duckdb.Error:
        found = (",", "", "")
    delimiter, quote, escape = (cell if len(cell) == 1 else "" for cell in map(str, found))
    dialect = Dialect(delimiter or ",", quote or '"', escape or quote or '"', packed)
    names = _header(path, dialect)
    if len(names) == 1 and any(d in names[0] for d in _DELIMITERS):
        dialect = Dialect(max(_DELIMITERS, key=names[0].count), '"', '"', packed)
    return dialect


def _header(path: Path, dialect: Dialect) -> list[str]:
    """The names in the first line, as they are: DuckDB would rename repeated ones."""
    try:
        with _opened(path, dialect.compression == "gzip") as stream:
            cells = next(csv.reader(stream, delimiter=dialect.delimiter, quotechar=dialect.quote), [])
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path.name!r} cannot be used: {error}.") from None
    if not any(cell.strip() for cell in cells):
        raise InputError(
            f"{path.name!r} has no header: its first line is empty. Put the names of the columns there."
        )
    if not all(cell.isprintable() for cell in cells):  # also bytes that are no UTF-8
        raise InputError(
            f"{path.name!r}, line 1, is not text in UTF-8. Save it as CSV in UTF-8, or as parquet."
        )
    if _are_values(cells):
        raise InputError(
            f"{path.name!r} has no header: its first line holds values, {cells[0]!r:.40} and so on. Put the names of "
            "the columns there."
        )
    names = [cell or f"column{i}" for i, cell in enumerate(cells)]
    refuse_repeats([name.lower() for name in names])
    return names


def _opened(path: Path, packed: bool) -> IO[str]:
    stream = gzip.GzipFile(path) if packed else path.open("rb")
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _are_values(cells: Sequence[str]) -> bool:
    """Numbers only, and not 0, 1, 2 …, which may well be the names of classes."""
    whole = [cell.strip() for cell in cells]
    if not all(_NUMBER.fullmatch(cell) for cell in whole):
        return False
    return not any(whole == [str(i + start) for i in range(len(whole))] for start in (0, 1))


def _as_text(connection: Any, paths: Sequence[Path], names: Sequence[str], dialect: Dialect) -> Any:
    """Every cell as it is written; an empty one is null, one with quotes around nothing is empty text."""
    return connection.read_csv(
        listed(paths),
        auto_detect=False,
        header=True,
        columns=dict.fromkeys(names, "VARCHAR"),
        sep=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=dialect.escape,
        compression=dialect.compression,
        comment="",
        skiprows=0,
        allow_quoted_nulls=False,
    )


def _decimal(sample: Any, dialect: Dialect) -> str:
    """A comma, if there are columns of numbers with one and none with a point."""
    if dialect.delimiter == ",":
        return "."
    columns = list(zip(*sample.limit(1_000).fetchall(), strict=True))
    written = [[c for c in column if c not in (None, *_NO_NUMBER)] for column in columns]
    numbers = [column for column in written if column and all(_NUMBER.fullmatch(c) for c in column)]
    comma, point = (any(any(sign in c for c in column) for column in numbers) for sign in ",.")
    return "," if comma and not point else "."


def _fitting(relation: Any, tried: Mapping[str, Sequence[str]], decimal: str) -> dict[str, tuple[str, ...]]:
    """The types that hold every cell of each column; a column without any cell is text."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    asked = [(name, kind) for name, kinds in tried.items() for kind in kinds]
    # Asked although nothing is to be learned: lines that are no rows of the table are found now.
    questions = [duckdb.FunctionExpression("count", duckdb.StarExpression())]
    questions += [duckdb.FunctionExpression("bool_and", _fits(name, kind, decimal)) for name, kind in asked]
    answers = relation.aggregate([q.alias(f"a{i}") for i, q in enumerate(questions)]).fetchall()[0][1:]
    fits = {pair for pair, answer in zip(asked, answers, strict=True) if answer}
    return {name: tuple(k for k in kinds if (name, k) in fits) for name, kinds in tried.items()}


def _fits(name: str, kind: str, decimal: str) -> Any:
    """Whether a cell survives being a value of the type; null where there is nothing to survive."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    function, constant = duckdb.FunctionExpression, duckdb.ConstantExpression
    cell = duckdb.ColumnExpression(name)
    if kind in _WRITTEN:
        pattern = constant(_WRITTEN[kind])
        return cell.try_cast(kind).is_not_null() & function("regexp_full_match", cell, pattern)
    number = _number(cell, decimal)
    if kind == "BIGINT":  # 007, +7 and 0x7 are codes
        survives = (number.try_cast(kind).cast("VARCHAR") == number) & number.try_cast(kind).is_not_null()
    else:  # more digits than a float64 has are no measurement
        short = (function("length", number) <= constant(15)) | function("contains", number, constant("."))
        code = function("regexp_matches", number, constant(_CODE))
        survives = number.try_cast(kind).is_not_null() & short & ~code
    return duckdb.CaseExpression(number.is_not_null(), survives)


def _number(cell: Any, decimal: str) -> Any:
    """The cell's text, with a point; null where it stands for no number."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    bare = duckdb.FunctionExpression("trim", cell)
    written = duckdb.CaseExpression(bare.isnotin(*map(duckdb.ConstantExpression, _NO_NUMBER)), bare)
    if decimal == ".":
        return written
    signs = (duckdb.ConstantExpression(","), duckdb.ConstantExpression("."))
    return duckdb.FunctionExpression("replace", written, *signs)


def _typed(name: str, kinds: Sequence[str], decimal: str) -> Any:
    duckdb = require("duckdb", "cli", purpose="to read files")
    cell = duckdb.ColumnExpression(name)
    if not kinds:
        return cell
    value = cell if kinds[0] in _WRITTEN else _number(cell, decimal)
    return value.cast(kinds[0]).alias(name)
