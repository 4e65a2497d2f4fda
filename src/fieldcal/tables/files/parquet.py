"""Parquet: checks that several files form one table, and positions of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError
from fieldcal.storage import refuse_repeats
from fieldcal.tables.files.paths import listed
from fieldcal.tables.files.text import ANY, Kinds, Roles, literal, quoted, typed

#: Columns that DuckDB adds to every parquet file, unless the file has columns of these names.
_VIRTUAL = {"file_index", "file_row_number"}
_SHORT = {"TINYINT", "SMALLINT", "UTINYINT", "USMALLINT"}
_NUMBERS = _SHORT | {"INTEGER", "UINTEGER", "BIGINT", "FLOAT", "DOUBLE"}
_MOST_ROWS = 2**40  # of one file


def as_parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A table of columns as the bytes of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    stream = pa.BufferOutputStream()
    parquet.write_table(pa.table({name: list(values) for name, values in columns.items()}), stream)
    return bytes(stream.getvalue())


def read(
    connection: Any, paths: Sequence[Path], roles: Roles, keys: Sequence[str], row_id: str | None = None
) -> tuple[Any, Kinds]:
    """A relation over the files, and the candidate types of keys without a role.

    Parameters
    ----------
    keys : of ``key=value`` in the names of folders, typed as the columns of a CSV
    row_id : name of a last column with the position of each row; omitted if other columns hide it
    """
    _refuse_repeats(connection, paths[0])
    names = list(dict.fromkeys([*_common_types(connection, paths), *keys]))
    columns = ["*"]
    if row_id is not None and not _VIRTUAL & {name.lower() for name in names}:
        # A number for all rows would be counted on one core; parquet's own number costs nothing.
        columns.append(f"file_index::BIGINT * {_MOST_ROWS} + file_row_number AS {quoted(row_id)}")
        names.append(row_id)
    files = f"[{', '.join(map(literal, listed(paths)))}], union_by_name={len(paths) > 1}"
    hive = f"hive_partitioning={bool(keys)}, hive_types_autocast=false"
    relation = connection.sql(f"SELECT {', '.join(columns)} FROM read_parquet({files}, {hive})")
    if not keys:
        return relation, {}
    kinds = {n: tried for n, tried in roles.types(names).items() if n in keys}
    return typed(relation, kinds, names, check=False), {key: ANY for key in keys if key not in kinds}


def largest_row_group(connection: Any, path: Path) -> int:
    """Memory in bytes that a thread may need: the largest row group, compressed and uncompressed."""
    groups = """
        SELECT max(size) FROM (
            SELECT sum(total_compressed_size + total_uncompressed_size) AS size FROM parquet_metadata($path)
            GROUP BY row_group_id)
    """
    return int(connection.execute(groups, {"path": listed([path])[0]}).fetchall()[0][0] or 0)


def _refuse_repeats(connection: Any, path: Path) -> None:
    """Refuse names that differ only in case or repeat, which DuckDB would rename or merge."""
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


def _common_types(connection: Any, paths: Sequence[Path]) -> dict[str, str]:
    """Types of the first file; refuses missing columns and other types, which DuckDB would fill or convert."""
    first = _types(connection, paths[0])
    for path in paths[1:]:
        other = _types(connection, path)
        for name in [*first, *other]:
            if name not in first or name not in other:
                lacking, having = (paths[0], path) if name not in first else (path, paths[0])
                raise InputError(
                    f"{lacking.name!r} has no column {name!r:.60}, but {having.name!r} has. Files of one table need "
                    "the same columns."
                )
            if first[name] != other[name] and not {first[name], other[name]} <= _NUMBERS:
                raise InputError(
                    f"The column {name!r:.60} holds {first[name]} in {paths[0].name!r} and {other[name]} in "
                    f"{path.name!r}. Cast one of them."
                )
    return first


def _types(connection: Any, path: Path) -> dict[str, str]:
    relation = connection.read_parquet(listed([path])[0], hive_partitioning=False)
    return dict(zip(relation.columns, map(str, relation.types), strict=True))
