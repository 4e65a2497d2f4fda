"""CSV and JSON Lines: DuckDB reads every value as text, and only columns with a role get a type.

DuckDB's own type detection uses the first rows and changes values: "01" becomes 1, "0x10" 16 and "yes" true. Here a
column gets a type only if every cell of every file fits it.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables.files.paths import is_gzip, listed, unpacked

_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
_BACKSLASHES = re.compile(r'\\"(?![",;\t|\r\n]|$)')  # as Spark writes a quote inside of quotes
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
#: The types that are tried in a column without a role, which gets one on the way into parquet.
ANY = tuple(_WRITTEN)
_NUMBERS = ("BIGINT", "DOUBLE")
_OF_SCORES, _OF_TIMES = ("DOUBLE",), ("DATE", "TIMESTAMP")
_HEAD = 2**20  # of bytes: longer than any header
_SAMPLE = 1_000  # of rows
_LONGEST = 2_000_000  # bytes of a line that DuckDB takes
Kinds = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Roles:
    """Roles of the columns. Names that the table lacks are refused later, where they are needed.

    Parameters
    ----------
    scores : columns of predictions or quantiles; ``*`` stands for any part of a name
    label, by, time : columns of the label, the groups and the time
    text : columns of these that are text, whatever they hold
    values : columns of categories, which are text, too
    """

    scores: tuple[str, ...] = ()
    label: str | None = None
    by: tuple[str, ...] = ()
    time: str | None = None
    text: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def types(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Candidate types for each column with a role, in order; text if none fits.

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
    head, star, tail = pattern.partition("*")
    return bool(star) and name.startswith(head) and name.endswith(tail) and len(name) >= len(pattern) - 1


def typed(
    relation: Any, kinds: Kinds, names: Sequence[str], decimal: str = ".", *, check: bool = True
) -> Any:
    """These columns of a relation; those of text in `kinds` with the first of its types that fits all cells.

    Parameters
    ----------
    check : read every cell, so that lines that are no rows and bytes that are no text are found before any work
    """
    types = fitting(relation, kinds, decimal, also=relation.columns if check else ())
    cells = {n: f"CAST({_value(n, kind, decimal)} AS {kind})" for n, kind in types.items()}
    return relation.project(", ".join(f"{cells.get(n, quoted(n))} AS {quoted(n)}" for n in names))


def fitting(relation: Any, kinds: Kinds, decimal: str = ".", also: Sequence[str] = ()) -> dict[str, str]:
    """The first type that fits every cell of a column; text for a column without cells if allowed."""
    asked = [(name, kind) for name, tried in kinds.items() for kind in tried]
    questions = [f"bool_and({_fits(_value(name, kind, decimal), kind)})" for name, kind in asked]
    questions += [f"count({quoted(name)})" for name in also]
    if not questions:
        return {}
    answers = relation.aggregate(", ".join(f"{q} AS a{i}" for i, q in enumerate(questions))).fetchall()[0]
    fits = [
        (name, kind)
        for (name, kind), answer in zip(asked, answers, strict=False)
        if answer or (answer is None and kinds[name] in (_OF_SCORES, _OF_TIMES))
    ]
    return dict(reversed(fits))  # the first of a column is the last to be set


def free_types(relation: Any, kinds: Kinds) -> dict[str, str]:
    """As `fitting` for many columns: a sample selects the candidates that are tested on all rows."""
    likely = fitting(relation.limit(_SAMPLE), kinds)
    return fitting(relation, {name: kinds[name][kinds[name].index(kind) :] for name, kind in likely.items()})


def _fits(value: str, kind: str) -> str:
    written = f"regexp_full_match({value}, {literal(_WRITTEN[kind])})"
    return f"CASE WHEN {value} IS NOT NULL THEN TRY_CAST({value} AS {kind}) IS NOT NULL AND {written} END"


def _value(name: str, kind: str, decimal: str) -> str:
    if kind not in _NUMBERS:
        return quoted(name)
    number = f"nullif(nullif(trim({quoted(name)}), ''), 'NA')"
    return number if decimal == "." else f"replace({number}, ',', '.')"


# CSV ------------------------------------------------------------------------------------------------------


def csv_columns(paths: Sequence[Path]) -> list[str]:
    """The names in the header, which all files share: DuckDB takes further files by position."""
    names, delimiter, _ = _header(paths[0])
    for path in paths[1:]:
        if _header(path)[:2] != (names, delimiter):
            raise InputError(
                f"{path.name!r} has other columns than {paths[0].name!r}. Files of one table need the same header."
            )
    return names


def read_csv(connection: Any, paths: Sequence[Path], roles: Roles, keys: Sequence[str]) -> tuple[Any, Kinds]:
    """A relation over the files: columns with a role typed, all others their text; and the types that these may have.

    Parameters
    ----------
    keys : of ``key=value`` in the names of folders
    """
    names, (_, delimiter, escape) = csv_columns(paths), _header(paths[0])
    for path in paths:
        _refuse_endless_line(path)
    relation = connection.read_csv(
        listed(paths),
        auto_detect=False,
        header=True,
        columns=dict.fromkeys(names, "VARCHAR"),
        sep=delimiter,
        quotechar='"',
        escapechar=escape,
        compression=_compression(paths),
        comment="",
        skiprows=0,
        allow_quoted_nulls=False,  # an empty cell is null, one with quotes around nothing is empty text
        hive_partitioning=bool(keys),
        hive_types_autocast=False,
    )
    names = list(dict.fromkeys([*names, *keys]))
    kinds = roles.types(names)
    decimal = _decimal(relation, [n for n, tried in kinds.items() if "DOUBLE" in tried], delimiter)
    return typed(relation, kinds, names, decimal), {n: ANY for n in names if n not in kinds}


def _header(path: Path) -> tuple[list[str], str, str]:
    """The names in the first line as they are, as DuckDB would rename repeated ones; delimiter and escape."""
    text = _head(path)
    try:
        found = {sign: _first_row(text, sign) for sign in ",;\t|"}
    except csv.Error:  # a cell of more than 128 kB
        found = {",": ([], "")}
    delimiter = max(found, key=lambda sign: len(found[sign][0]))
    cells, rest = found[delimiter]
    if not rest and len(text) >= _HEAD // 4:  # a sign has four bytes at most
        raise InputError(f"{path.name!r}, line 1, is longer than any header. Is this a CSV with line ends?")
    if not any(cell.strip() for cell in cells):
        raise InputError(
            f"{path.name!r} has no header: its first line is empty. Put the names of the columns there."
        )
    if any("\ud800" <= c <= "\udfff" or c == "\0" for cell in cells for c in cell):  # bytes that are no UTF-8
        raise InputError(
            f"{path.name!r}, line 1, is not text in UTF-8. Save it as CSV in UTF-8, or as parquet."
        )
    names = [cell or f"column{i}" for i, cell in enumerate(cells)]
    refuse_repeats([name.lower() for name in names])
    return names, delimiter, "\\" if _BACKSLASHES.search(text) else '"'


def _refuse_endless_line(path: Path) -> None:
    """DuckDB refuses lines of more than 2 MB, but drops such a line without an error if it is the last."""
    if is_gzip(path) or path.stat().st_size <= _LONGEST:
        return
    with path.open("rb") as stream:
        stream.seek(-_LONGEST, io.SEEK_END)
        if len(stream.read().rstrip(b"\r\n").splitlines()) == 1:
            raise InputError(
                f"The last line of {path.name!r} is longer than 2 MB. Is this a CSV with line ends?"
            )


def _first_row(text: str, delimiter: str) -> tuple[list[str], str]:
    lines = io.StringIO(text, newline="")
    return next(csv.reader(lines, delimiter=delimiter), []), lines.read(1)


def _head(path: Path) -> str:
    try:
        with unpacked(path) as stream:
            return stream.read(_HEAD).decode("utf-8-sig", "surrogateescape")
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path.name!r} cannot be used: {error}. Was it copied whole?") from None


def _decimal(relation: Any, names: Sequence[str], delimiter: str) -> str:
    """A comma, if some numeric columns use it and none uses a point."""
    if delimiter == "," or not names:
        return "."
    sample = relation.project(", ".join(map(quoted, names))).limit(_SAMPLE).fetchall()
    columns = [[c for c in column if c not in (None, "", "NA")] for column in zip(*sample, strict=True)]
    signs = "".join(c for column in columns if all(map(_NUMBER.fullmatch, column)) for c in column)
    return "," if "," in signs and "." not in signs else "."


def line_of(path: Path, row: int, *, is_csv: bool) -> int | None:
    """The line, from 1, on which a row begins; cells of a CSV may have line breaks."""
    if not is_csv:
        return next((number for i, (number, _) in enumerate(_lines(path)) if i == row), None)
    begin, seen, (_, delimiter, escape) = 1, -1, _header(path)
    with unpacked(path) as stream, io.TextIOWrapper(stream, "utf-8", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, escapechar=None if escape == '"' else escape)
        for cells in reader:
            seen += bool(cells)
            if seen > row:
                return begin
            begin = reader.line_num + 1
    return None


# JSON Lines -----------------------------------------------------------------------------------------------


def read_json_lines(
    connection: Any, paths: Sequence[Path], roles: Roles, keys: Sequence[str]
) -> tuple[Any, Kinds]:
    """As `read_csv`, for one object per line; keys of nested objects are columns by their path, ``judge.verdict``."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    files = f"[{', '.join(map(literal, listed(paths)))}], compression={literal(_compression(paths, 'uncompressed'))}"
    objects = f"read_ndjson_objects({files}, hive_partitioning=false)"
    question = (
        f"SELECT json_group_structure(json)::VARCHAR, bool_and(json_type(json) = 'OBJECT') FROM {objects}"
    )
    try:
        found, are_objects = connection.execute(question).fetchall()[0]
    except duckdb.InvalidInputException:
        _refuse_line(paths)  # DuckDB's own number may be that of the next line
        raise
    if are_objects is False:
        _refuse_line(paths)
    structure = json.loads(found) if found and found.startswith("{") else {}
    leaves = dict(_leaves(structure, ()))
    if not leaves:
        raise InputError(f"{paths[0].name!r} has no line with a key, so no rows. Is this the right file?")
    refuse_repeats([".".join(path).lower() for path in leaves])
    for name in [*roles.scores, *roles.by, *roles.values, roles.label or "", roles.time or ""]:
        _refuse_mixed(connection, objects, name, leaves)
    types = ", ".join(f"{literal(key)}: {literal(_type(below))}" for key, below in structure.items())
    hive = f"hive_partitioning={bool(keys)}, hive_types_autocast=false"
    lines = f"read_ndjson({files}, columns={{{types}}}, records=true, format='newline_delimited', {hive})"
    cells = [f"{_cell(path)} ->> '$' AS {quoted('.'.join(path))}" for path in leaves]
    relation = connection.sql(f"SELECT {', '.join([*cells, *map(quoted, keys)])} FROM {lines}")
    names = relation.columns
    kinds = roles.types(names)
    free = {".".join(path): _FREE.get(kind, ()) for path, kind in leaves.items()} | dict.fromkeys(keys, ANY)
    return typed(relation, kinds, names), {n: tried for n, tried in free.items() if tried and n not in kinds}


#: The types of columns without a role in parquet, by what DuckDB says of them: text stays text.
_FREE = dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT", "DOUBLE"), _NUMBERS) | {"BOOLEAN": ("BOOLEAN",)}
_MIXED = "JSON"  # what DuckDB says of a key whose values are of several kinds


def _leaves(structure: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Path and type of every key that is not an object in all lines; lists are their text."""
    for key, below in structure.items():
        if isinstance(below, dict):
            yield from _leaves(below, (*above, key))
        else:
            yield (*above, key), below if isinstance(below, str) else "VARCHAR"


def _type(structure: Any) -> str:
    if not isinstance(structure, dict) or not structure:
        return "JSON"
    return f"STRUCT({', '.join(f'{quoted(key)} {_type(below)}' for key, below in structure.items())})"


def _cell(path: Sequence[str]) -> str:
    return quoted(path[0]) + "".join(f"[{literal(key)}]" for key in path[1:])


def _refuse_mixed(connection: Any, objects: str, name: str, leaves: Mapping[tuple[str, ...], str]) -> None:
    """Refuse a requested column that is an object in some lines only."""
    mixed = {".".join(path): path for path, kind in leaves.items() if kind == _MIXED}
    asked = next((key for key in mixed if name == key or name.startswith(f"{key}.")), None)
    if asked is None:
        return
    pointer = "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in mixed[asked])  # RFC 6901
    kind = f"json_type(json, {literal(pointer)})"
    counts = f"count(*) FILTER ({kind} = 'OBJECT'), count(*) FILTER ({kind} != 'NULL')"
    number, lines = connection.execute(f"SELECT {counts} FROM {objects}").fetchall()[0]
    if 0 < number < lines:
        raise InputError(
            f"{asked!r:.60} is an object in {number:,} of {lines:,} lines, and something else in the others. Write it "
            "the same way in all lines."
        )


def _refuse_line(paths: Sequence[Path]) -> None:
    """Refuse the first line that is not an object, if there is one."""
    for path in paths:
        for number, line in _lines(path):
            words = "is not an object"
            try:
                if isinstance(json.loads(line.decode()), dict):
                    continue
            except UnicodeDecodeError:
                words = "is not text in UTF-8"
            except (ValueError, RecursionError) as error:
                words = f"is not valid JSON: {getattr(error, 'msg', 'nested too deep')}"
            raise InputError(f"{path.name!r}, line {number}, {words}. Write one whole object per line.")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    with unpacked(path) as stream:
        yield from ((number, line) for number, line in enumerate(stream, start=1) if line.strip())


def _compression(paths: Sequence[Path], none: str = "none") -> str:
    packed = is_gzip(paths[0])
    for path in paths[1:]:
        if is_gzip(path) != packed:
            raise InputError(
                f"One of {paths[0].name!r} and {path.name!r} is gzipped. Unpack it, or open them one by one."
            )
    return "gzip" if packed else none


def literal(text: str) -> str:
    """As a constant in SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """As the name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'
