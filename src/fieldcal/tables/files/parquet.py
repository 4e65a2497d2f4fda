"""Parquet: several files are one table only if they agree, and every row knows its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables.files.paths import listed

#: Columns that DuckDB adds to every parquet file, unless the file has columns of these names.
_VIRTUAL = ("file_index", "file_row_number")
_NUMBERS = {
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "FLOAT",
    "DOUBLE",
}
_MOST_ROWS = 2**40  # of one file


def as_parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A table of columns as the bytes of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    stream = pa.BufferOutputStream()
    parquet.write_table(pa.table({name: list(values) for name, values in columns.items()}), stream)
    return bytes(stream.getvalue())


def read(connection: Any, paths: Sequence[Path]) -> Any:
    """A relation over the files."""
    _refuse_repeats(connection, paths[0])
    mixed = _disagree(connection, paths)
    return connection.read_parquet(listed(paths), union_by_name=mixed)


def numbered(relation: Any, files: int, name: str) -> Any | None:
    """The relation with the place of each row at its end, or None where a column hides it.

    A number for all rows would be counted on one core; parquet's own number costs nothing.
    """
    duckdb = require("duckdb", "cli", purpose="to read files")
    if {column.lower() for column in relation.columns} & set(_VIRTUAL):
        return None
    file, row = (duckdb.ColumnExpression(column) for column in _VIRTUAL)
    place = row if files == 1 else file.cast("BIGINT") * duckdb.ConstantExpression(_MOST_ROWS) + row
    return relation.select(duckdb.StarExpression(), place.alias(name))


def largest_row_group(connection: Any, path: Path) -> int:
    """Bytes that a thread may have to hold: the largest row group, packed and unpacked."""
    groups = """
        SELECT max(size) FROM (
            SELECT sum(total_compressed_size + total_uncompressed_size) AS size FROM parquet_metadata($path)
            GROUP BY row_group_id)
    """
    return int(connection.execute(groups, {"path": listed([path])[0]}).fetchall()[0][0] or 0)


def _refuse_repeats(connection: Any, path: Path) -> None:
    """DuckDB would rename the second of two, and take names that differ in case for the same."""
    query = "SELECT name, num_children FROM parquet_schema($path)"
    rows = connection.execute(query, {"path": listed([path])[0]}).fetchall()
    names, inside = [], 0
    for name, children in rows[1:]:  # the first is the file itself; the children of a column follow it
        if inside:
            inside -= 1
        else:
            names.append(name)
        inside += children or 0
    refuse_repeats([name.lower() for name in names])


def _disagree(connection: Any, paths: Sequence[Path]) -> bool:
    """Whether types differ between files; columns must not, as DuckDB would drop what the first file lacks."""
    first = _types(connection, paths[0])
    mixed = False
    for path in paths[1:]:
        other = _types(connection, path)
        for name in [*first, *other]:
            if name not in first or name not in other:
                lacking, having = (paths[0], path) if name not in first else (path, paths[0])
                raise InputError(
                    f"{lacking.name!r} has no column {name!r:.60}, but {having.name!r} has. Files of one table need "
                    "the same columns."
                )
            if not _compatible(first[name], other[name]):
                raise InputError(
                    f"The column {name!r:.60} holds {first[name]} in {paths[0].name!r} and {other[name]} in "
                    f"{path.name!r}. Cast one of them."
                )
        mixed = mixed or first != other
    return mixed


def _types(connection: Any, path: Path) -> dict[str, str]:
    relation = connection.read_parquet(listed([path])[0])
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _compatible(one: str, two: str) -> bool:
    return one == two or {one, two} <= _NUMBERS
