"""CSV as people write it. DuckDB finds the dialect and reads text; only columns that have a role get a type.

DuckDB's own guesses are made from the first rows, and lose what they do not expect: "01" becomes 1, "0x10" 16, "yes"
true, rows that start with # are comments, a title is skipped, and the columns of a second file are taken by position.
Here a column with a role has a type only if every cell of every file fits it; all other columns are their text.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fieldcal.errors import InputError
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables.files.paths import is_gzip, listed

_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
#: What stands for a missing number; text keeps it.
_NO_NUMBER = ("", "NA")
_DAY = r"\d{4}-\d{2}-\d{2}"
#: How a cell of each type is written. Others would not come back as they were: 007, +7 and 0x7 are codes, and more
#: digits than a float64 holds, without a point, are an id.
_WRITTEN = {
    "BIGINT": r"0|-?[1-9]\d*",
    "DOUBLE": r"[-+]?(0|[1-9]\d*)?[.]\d*([eE][-+]?\d+)?|-?(0|[1-9]\d{0,14})([eE][-+]?\d+)?|(?i)nan|[-+]?inf(inity)?",
    "BOOLEAN": "true|false",
    "DATE": _DAY,
    "TIMESTAMP": _DAY + r"[ T]\d{2}:\d{2}(:\d{2}([.]\d+)?)?",
}
_NUMBERS = ("BIGINT", "DOUBLE")
_OF_SCORES, _OF_TIMES = ("DOUBLE",), ("DATE", "TIMESTAMP")
_LONGEST_HEADER = 2**21  # of characters
_LONGEST_LINE = 2_000_000  # of bytes; DuckDB refuses longer ones, but loses those of 32 MB and more
_CHUNK, _GLANCE = 2**20, 2**12


@dataclass(frozen=True)
class Dialect:
    """How the cells of a file are told apart."""

    delimiter: str
    quote: str
    escape: str
    compression: str


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are for. Names that the table lacks are refused later, by whoever needs them.

    Parameters
    ----------
    scores : columns of predictions or quantiles; ``*`` stands for any part of a name
    label, by, time : columns of the label, the groups and the time
    text : columns of these that are text, whatever they hold
    values : columns of values, which are text, too
    """

    scores: tuple[str, ...] = ()
    label: str | None = None
    by: tuple[str, ...] = ()
    time: str | None = None
    text: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def named(self) -> list[str]:
        """All of them."""
        alone = [name for name in (self.label, self.time) if name is not None]
        return [*self.scores, *self.by, *alone, *self.values]

    def types(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """For each column with a role, the types that are tried in this order; text where none fits.

        Examples
        --------
        >>> Roles(scores=("p_*",), by=("town",)).types(["id", "p_no", "p_yes", "town"])
        {'town': ('BIGINT', 'BOOLEAN', 'DATE', 'TIMESTAMP'), 'p_no': ('DOUBLE',), 'p_yes': ('DOUBLE',)}
        """
        scores = [n for n in names if any(n == p or _matches(n, p) for p in self.scores)]
        tried: dict[str, tuple[str, ...]] = dict.fromkeys(self.by, ("BIGINT", "BOOLEAN", "DATE", "TIMESTAMP"))
        tried |= {} if self.time is None else {self.time: _OF_TIMES}
        tried |= {} if self.label is None else {self.label: ("BIGINT", "DOUBLE", "BOOLEAN")}
        tried |= dict.fromkeys(scores, _OF_SCORES)
        tried |= dict.fromkeys(self.values, ())
        return {n: () if n in self.text else kinds for n, kinds in tried.items() if n in names}


def _matches(name: str, pattern: str) -> bool:
    """A star stands for anything; every other letter for itself."""
    head, star, tail = pattern.partition("*")
    return bool(star) and name.startswith(head) and name.endswith(tail) and len(name) >= len(pattern) - 1


def columns(connection: Any, paths: Sequence[Path]) -> list[str]:
    """The names in the header, which all files share."""
    dialect = _dialect(connection, paths[0])
    names = _header(paths[0], dialect)
    for path in paths[1:]:
        _refuse_another(path, paths[0], names, dialect)
    return names


def read(connection: Any, paths: Sequence[Path], roles: Roles) -> Any:
    """A relation over the files: columns with a role typed, all others their text."""
    dialect, names = _dialect(connection, paths[0]), columns(connection, paths)
    relation = _as_text(connection, paths, names, dialect)
    numbers = [n for n, kinds in roles.types(names).items() if "DOUBLE" in kinds]
    return typed(relation, names, roles, _decimal(relation, numbers, dialect))


def typed(relation: Any, names: Sequence[str], roles: Roles, decimal: str = ".") -> Any:
    """A relation of text, its columns with a role of the type that fits all their cells."""
    types = _fitting(relation, roles.types(names), decimal)
    return relation.select(*(_typed(name, types.get(name), decimal) for name in names))


def line_of(connection: Any, path: Path, row: int) -> int | None:
    """The line, from 1, on which a row begins; cells may have line breaks."""
    dialect = _dialect(connection, path)
    with _readable(path), _opened(path, dialect.compression == "gzip") as stream:
        reader, begin, seen = csv.reader(stream, delimiter=dialect.delimiter, quotechar=dialect.quote), 1, -1
        for cells in reader:
            seen += bool(cells)
            if seen > row:
                return begin
            begin = reader.line_num + 1
    return None


def duckdbs_types(connection: Any, paths: Sequence[Path], relation: Any, roles: Roles) -> dict[str, str]:
    """For columns without a role, the types that DuckDB itself would give them, where no cell loses by it."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    dialect = _dialect(connection, paths[0])
    sniff = (
        "SELECT Columns FROM sniff_csv($path, delim=$delimiter, quote=$quote, escape=$escape, "
        "compression=$compression, header=true, comment='', skip=0)"
    )
    try:
        answer = connection.execute(sniff, {"path": listed(paths)[0], **vars(dialect)}).fetchall()
    except duckdb.Error:  # rows that only our dialect reads: everything stays text
        return {}
    guessed = zip(relation.columns, (column["type"] for column in answer[0][0]), strict=False)
    taken = roles.types(relation.columns)
    # Others lose something: parquet holds a HUGEINT as a float64.
    return without_loss(relation, {n: kind for n, kind in guessed if kind in _WRITTEN and n not in taken})


def without_loss(relation: Any, wanted: Mapping[str, str]) -> dict[str, str]:
    """The types of those columns of text that hold nothing but values of their type."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    asked = [_is_written(duckdb.ColumnExpression(name), kind) for name, kind in wanted.items()]
    return {name: wanted[name] for name, fits in zip(wanted, _all(relation, asked), strict=True) if fits}


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
    return "gzip" if is_gzip(path) else "none"


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
    with _readable(path), _opened(path, dialect.compression == "gzip") as stream:
        text = stream.read(_LONGEST_HEADER)
        lines = io.StringIO(text, newline="")
        cells = next(csv.reader(lines, delimiter=dialect.delimiter, quotechar=dialect.quote), [])
    if len(text) == _LONGEST_HEADER and not lines.read(1):
        raise InputError(f"{path.name!r}, line 1, is longer than any header. Is this a CSV with line ends?")
    if not any(cell.strip() for cell in cells):
        raise InputError(
            f"{path.name!r} has no header: its first line is empty. Put the names of the columns there."
        )
    if any("\ud800" <= c <= "\udfff" or c == "\0" for cell in cells for c in cell):  # bytes that are no UTF-8
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


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path.name!r} cannot be used: {error}. Was it copied whole?") from None


def refuse_unreadable(path: Path, *, longest: float = _LONGEST_LINE) -> None:
    """Refuse what DuckDB would read in part, and say nothing of it: damaged gzip, and lines longer than its buffers.

    A gzip is unpacked once, and its checksum compared, which DuckDB does not look at: one bit makes another number. Of
    a plain file only the beginning of every chunk is read, where it holds the end of a line.
    """
    packed, without_end = _compression(path) == "gzip", 0
    with _readable(path), gzip.GzipFile(path) if packed else path.open("rb") as stream:
        while head := stream.read(_GLANCE):
            tail = b"" if not packed and _ends_line(head) else stream.read(_CHUNK - len(head))
            without_end = 0 if _ends_line(head) or _ends_line(tail) else without_end + len(head) + len(tail)
            if without_end > longest:
                raise InputError(
                    f"{path.name!r} has a line that is longer than any row of a table. Is this no CSV, or are its line "
                    "ends lost?"
                )
            if not packed and not tail:
                stream.seek(_CHUNK - len(head), io.SEEK_CUR)


def _ends_line(data: bytes) -> bool:
    return b"\n" in data or b"\r" in data


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


def _decimal(relation: Any, columns: Sequence[str], dialect: Dialect) -> str:
    """A comma, if some columns of numbers are written with one and none with a point."""
    if dialect.delimiter == "," or not columns:
        return "."
    duckdb = require("duckdb", "cli", purpose="to read files")
    sample = relation.select(*map(duckdb.ColumnExpression, columns)).limit(1_000).fetchall()
    written = [[c for c in column if c not in (None, *_NO_NUMBER)] for column in zip(*sample, strict=True)]
    numbers = [column for column in written if column and all(_NUMBER.fullmatch(c) for c in column)]
    comma, point = (any(any(sign in c for c in column) for column in numbers) for sign in ",.")
    return "," if comma and not point else "."


def _fitting(relation: Any, tried: Mapping[str, Sequence[str]], decimal: str) -> dict[str, str]:
    """The first type that holds every cell of a column; without any cell, text where it may be text."""
    asked = [(name, kind) for name, kinds in tried.items() for kind in kinds]
    answers = _all(relation, [_fits(name, kind, decimal) for name, kind in asked])
    fits = [
        (name, kind)
        for (name, kind), answer in zip(asked, answers, strict=True)
        if answer or (answer is None and tried[name] in (_OF_SCORES, _OF_TIMES))
    ]
    return dict(reversed(fits))  # the first of a column is the last to be set


def _all(relation: Any, conditions: Sequence[Any]) -> Sequence[bool | None]:
    """Whether each condition is true in all rows where it is not null; null where it is null in all."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    function = duckdb.FunctionExpression
    questions = [function("bool_and", condition) for condition in conditions]
    # Every cell is counted too, so that lines that are no rows and bytes that are no text are found now.
    questions += [function("count", duckdb.ColumnExpression(name)) for name in relation.columns]
    answers = relation.aggregate([q.alias(f"a{i}") for i, q in enumerate(questions)]).fetchall()[0]
    return tuple(answers[: len(conditions)])


def _fits(name: str, kind: str, decimal: str) -> Any:
    """Whether a cell is a value of the type; null where there is none."""
    return _is_written(_value(name, kind, decimal), kind)


def _is_written(value: Any, kind: str) -> Any:
    """Whether a text is a value of the type, and written as one; null where it is null."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    written = duckdb.FunctionExpression("regexp_full_match", value, duckdb.ConstantExpression(_WRITTEN[kind]))
    return duckdb.CaseExpression(value.is_not_null(), value.try_cast(kind).is_not_null() & written)


def _value(name: str, kind: str, decimal: str) -> Any:
    """The cell's text; that of a number with a point, and null where it stands for none."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    function, constant = duckdb.FunctionExpression, duckdb.ConstantExpression
    cell = duckdb.ColumnExpression(name)
    if kind not in _NUMBERS:
        return cell
    bare = function("trim", cell)
    number = duckdb.CaseExpression(bare.isnotin(*map(constant, _NO_NUMBER)), bare)
    return number if decimal == "." else function("replace", number, constant(","), constant("."))


def _typed(name: str, kind: str | None, decimal: str) -> Any:
    duckdb = require("duckdb", "cli", purpose="to read files")
    if kind is None:
        return duckdb.ColumnExpression(name)
    return _value(name, kind, decimal).cast(kind).alias(name)
