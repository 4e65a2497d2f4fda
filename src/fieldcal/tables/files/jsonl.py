"""JSON Lines: one object per line, keys of objects inside of it by their path, ``judge.verdict``.

As in CSV, every value is first the text that it is, and only columns that have a role get a type: DuckDB's own types
would come from the first lines. Its parser tells of a line that is broken, but not of which: lines are counted here.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables.files import csv
from fieldcal.tables.files.csv import Roles
from fieldcal.tables.files.paths import is_gzip, listed

_MIXED = "JSON"  # what DuckDB says of a key whose values are of several kinds
#: The types of columns without a role in parquet, by what DuckDB says of them: it holds a HUGEINT as a float64.
_TYPES = dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT"), "BIGINT") | {k: k for k in ("DOUBLE", "BOOLEAN")}
_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


@dataclass(frozen=True)
class Keys:
    """The columns of files.

    Attributes
    ----------
    pointers : where each column is in a line, by its name
    types : what DuckDB says of its values
    objects : pointers of the keys that are objects in all lines, the line itself among them
    """

    pointers: dict[str, str]
    types: dict[str, str]
    objects: list[str]


def read(connection: Any, paths: Sequence[Path], roles: Roles) -> Any:
    """A relation over the files: columns with a role typed, all others their text."""
    keys = find_keys(connection, paths)
    mixed = [name for name, kind in keys.types.items() if kind == _MIXED]
    for name in roles.named():
        _refuse_mixed(connection, paths, name, keys, mixed)
    names = list(keys.pointers)
    cells = ", ".join(f"cells[{i + 1}] AS {_quoted(name)}" for i, name in enumerate(names))
    pointers = ", ".join(map(_literal, keys.pointers.values()))
    text = f"SELECT json_extract_string(json, [{pointers}]) AS cells FROM {_lines_of(paths)}"
    return csv.typed(connection.sql(f"SELECT {cells} FROM ({text})"), names, roles)


def duckdbs_types(connection: Any, paths: Sequence[Path], relation: Any, roles: Roles) -> dict[str, str]:
    """For columns without a role, the types in which they go into parquet: those of numbers and truth values."""
    types = find_keys(connection, paths).types
    taken = roles.types(list(types))
    wanted = {name: _TYPES[kind] for name, kind in types.items() if kind in _TYPES and name not in taken}
    return csv.without_loss(relation, wanted)


def find_keys(connection: Any, paths: Sequence[Path]) -> Keys:
    """All keys of all lines, each of which must be an object that has no key twice."""
    duckdb = require("duckdb", "cli", purpose="to read files")
    question = (
        f"SELECT json_group_structure(json), bool_and(json_type(json) = 'OBJECT') FROM {_lines_of(paths)}"
    )
    try:
        structure, objects = connection.execute(question).fetchall()[0]
    except duckdb.InvalidInputException:
        _refuse_line(paths, _fault)
        raise
    if structure is None:
        raise InputError(f"{paths[0].name!r} has no lines, so no rows. Was it written whole?")
    if not objects:
        _refuse_line(paths, _fault)
    pointers, types, inside = {}, {}, [""]
    found = json.loads(structure)
    for path, kind in _leaves(found if isinstance(found, dict) else {}, (), inside):
        name = ".".join(path)
        if name in pointers or not all(path):
            raise InputError(
                f"{paths[0].name!r} has two keys that are both {name!r:.60}, or one without a name. Rename one."
            )
        pointers[name], types[name] = _pointer(path), kind
    if not pointers:
        raise InputError(f"{paths[0].name!r} has lines without any key. Is this the right file?")
    refuse_repeats([name.lower() for name in pointers])
    _refuse_twice(connection, paths, inside)
    return Keys(pointers, types, inside)


def _leaves(
    structure: Any, above: tuple[str, ...], inside: list[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The path of every key that is not an object in all lines, and its type; lists are their text."""
    for key, below in structure.items():
        path = (*above, key)
        if isinstance(below, dict):
            inside.append(_pointer(path))
            yield from _leaves(below, path, inside)
        else:
            yield path, below if isinstance(below, str) else "VARCHAR"


def _refuse_twice(connection: Any, paths: Sequence[Path], objects: Sequence[str]) -> None:
    keys = [f"json_keys(json{', ' + _literal(p) if p else ''})" for p in objects]
    twice = " OR ".join(f"coalesce(len({k}) > len(list_distinct({k})), false)" for k in keys)
    if connection.execute(f"SELECT bool_or({twice}) FROM {_lines_of(paths)}").fetchall()[0][0]:
        _refuse_line(paths, _repeated)


def _refuse_mixed(
    connection: Any, paths: Sequence[Path], name: str, keys: Keys, mixed: Sequence[str]
) -> None:
    """A column that is asked for, itself or by what is inside of it, must not be an object in some lines only."""
    asked = next((key for key in mixed if name == key or name.startswith(f"{key}.")), None)
    if asked is None:
        return
    kind = f"json_type(json, {_literal(keys.pointers[asked])})"
    counted = connection.execute(f"SELECT {kind}, count(*) FROM {_lines_of(paths)} GROUP BY 1").fetchall()
    kinds = {k: n for k, n in counted if k not in ("NULL", None)}
    objects = kinds.pop("OBJECT", 0)
    if not objects or not kinds:
        return
    path, few = keys.pointers[asked], objects <= sum(kinds.values())

    def odd(value: Any) -> str | None:
        held = _at(value, path)
        if held is None or isinstance(held, dict) != few:
            return None
        said = ("an object", "none") if few else ("no object", "one")
        return f"has {said[0]} at {asked!r:.60}, where other lines have {said[1]}"

    _refuse_line(paths, lambda text: odd(json.loads(text)))


def _fault(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"is no JSON: {getattr(error, 'msg', 'nested too deep')} (character {getattr(error, 'pos', 0) + 1})"
    return None if isinstance(value, dict) else f"holds {_KINDS.get(type(value), 'a number')}, not an object"


def _repeated(text: str) -> str | None:
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [key for key, _ in pairs]
        found.extend(name for name in names if names.count(name) > 1)
        return dict(pairs)

    json.loads(text, object_pairs_hook=collect)
    return f"has the key {found[0]!r:.60} twice" if found else None


def _refuse_line(paths: Sequence[Path], fault: Any) -> None:
    for path in paths:
        for number, text in numbered(path):
            words = "is not text in UTF-8" if text is None else fault(text)
            if words is not None:
                raise InputError(f"{path.name!r}, line {number}, {words}. Write one whole object per line.")


def numbered(path: Path) -> Iterator[tuple[int, str | None]]:
    """The lines that are not blank, with their numbers from 1; None where they are no text."""
    with gzip.open(path, "rb") if is_gzip(path) else path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                try:
                    yield number, line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    yield number, None


def _at(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part.replace("~1", "/").replace("~0", "~"))
    return value


def _pointer(path: Sequence[str]) -> str:
    """RFC 6901."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def _lines_of(paths: Sequence[Path]) -> str:
    """The table function that gives one JSON value per line. Lines that it cannot read are errors."""
    if len({is_gzip(path) for path in paths}) > 1:
        raise InputError(
            f"Of the files {paths[0].name!r} and so on some are gzipped. Unpack these, or open them one by one."
        )
    files = ", ".join(map(_literal, listed(paths)))
    packed = "gzip" if is_gzip(paths[0]) else "uncompressed"
    return f"read_ndjson_objects([{files}], ignore_errors=false, compression='{packed}')"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
