"""Tables in files, larger than memory if need be: DuckDB reads them, and writes them whole or not at all.

CSV has no types. The columns that the caller named have a role, and get the type that the role asks for if every cell
fits it: scores are numbers, labels and groups whole numbers if nothing is lost by it ("01" is not 1, so such a column
stays text), times are days or moments. All other columns are text: they go from CSV to CSV as they are, and take
DuckDB's own types on the way into parquet. JSON Lines are read the same way. Parquet's types are kept.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcal.errors import InputError, reason
from fieldcal.options import column_names
from fieldcal.storage import as_path, atomic_path, require
from fieldcal.tables.files import parquet
from fieldcal.tables.files.duckdb_errors import translated
from fieldcal.tables.files.paths import Format, check_target, find, format_of, is_pattern, keys_of, spool
from fieldcal.tables.files.text import (
    Kinds,
    Roles,
    csv_columns,
    free_types,
    line_of,
    quoted,
    read_csv,
    read_json_lines,
)

if TYPE_CHECKING:
    from fieldcal.objects import Lab

_ANSWER = "fieldcal_answer"
_LIMIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])(i?)B\s*", re.IGNORECASE)
_LEAST = 64 * 2**20
#: Of the memory limit: what sorts and joins may hold, and what readers may, so that neither starves the other.
_FOR_SORTING, _FOR_READING = 0.3, 0.45


class Session(AbstractContextManager["Session"]):
    """A DuckDB connection of its own, with limits, for reading and writing files.

    Parameters
    ----------
    memory_limit : such as "1GB"; what does not fit goes to disk. The process itself takes some 150 MB more
    threads : by default all; fewer where a memory limit and large row groups of a parquet file ask for it
    temp_directory : where it goes; by default the system's

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fieldcal.tables.files.session import Session
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "log.csv").write_text("p;town\\n0,25;York\\n0,5;Leeds\\n")
    >>> with Session(memory_limit="1GB") as session:
    ...     log = session.open(folder / "log.csv", scores="p")
    ...     print(log.columns, session.write(log.relation, folder / "log.parquet", sources=[log]))
    ['p', 'town'] 2
    """

    def __init__(
        self,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
    ) -> None:
        duckdb = require("duckdb", "cli", purpose="to read and write files")
        self.memory = None if memory_limit is None else _bytes(memory_limit)
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise InputError(f"threads must be a whole number from 1, but got {threads!r}.")
        self._scratch = _scratch(temp_directory)
        self._folder = Path(self._scratch.name)
        settings: dict[str, Any] = {
            "temp_directory": str(self._folder),
            "autoinstall_known_extensions": False,  # nothing is fetched from a network
            "autoload_known_extensions": False,
            "allow_persistent_secrets": False,
            # Without these, Ctrl-C waits until the query has ended, or for ever: DuckDB 2.0 locks itself out.
            "scheduler_process_partial": True,
            "async_threads": 0,
        }
        settings |= {} if threads is None else {"threads": threads}
        settings |= {} if self.memory is None else {"memory_limit": f"{self.memory // 1024}KiB"}
        known = _settings_of(duckdb)
        self.connection = duckdb.connect(config={n: v for n, v in settings.items() if n in known})
        for name, value in self._local_settings().items():
            if name in known:
                self.connection.execute(f"SET {name} = '{value}'")

    def _local_settings(self) -> dict[str, str]:
        settings = {
            "home_directory": str(self._folder).replace(
                "'", "''"
            ),  # the user's own may be missing or read-only
            "enable_progress_bar": "false",
            "TimeZone": "UTC",  # what is written is the same everywhere
            # The statistics of a parquet file may be damaged, or leave NaN out: its values decide, and nothing else.
            "disabled_optimizers": "statistics_propagation,filter_pushdown",
        }
        if self.memory is not None:
            # Otherwise readers that run ahead and the sort between them take all there is, and the query fails.
            settings["operator_memory_limit"] = f"{int(_FOR_SORTING * self.memory) // 1024}KiB"
            settings["read_ahead_depth"] = "0"
            settings["enable_external_file_cache"] = "false"
        return settings

    def fit_threads(self, needed: int) -> None:
        """Reduce the number of threads so that each can hold this many bytes."""
        if self.memory is None or not needed:
            return
        most = max(1, int(_FOR_READING * self.memory / needed))
        now = int(self.connection.execute("SELECT current_setting('threads')").fetchall()[0][0])
        if most < now:
            self.connection.execute("SET threads = $most", {"most": most})

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove what was spilled to disk."""
        self.connection.close()
        self._scratch.cleanup()

    def open(self, source: str | os.PathLike[str], **roles: Any) -> Source:
        """A table in one file or in several.

        Parameters
        ----------
        source : a file, a folder, a glob, or "-" for standard input. Folders named ``key=value`` are columns
        **roles : of columns, as in `Source.bound`; without one, a column of a CSV is text
        """
        given = source if isinstance(source, str) else str(as_path(source))
        paths = [spool(sys.stdin, self._folder)] if given == "-" else find(given)
        name = "standard input" if given == "-" else given
        made = Source(self, tuple(paths), format_of(paths, name), name, keys_of(given, paths))
        return made.bound(**roles)

    def write(self, relation: Any, target: str | os.PathLike[str], *, sources: Iterable[Source] = ()) -> int:
        """Write a relation; how many rows it has.

        Text is written as it is, also where a spreadsheet would take it for a formula: a table of data is not changed.

        Parameters
        ----------
        target : a name that ends in .parquet, .csv, .csv.gz or .tsv; "-" writes CSV to standard output
        sources : what is read for it, and must not be written over; columns of a CSV without a role go into parquet
            with the types that DuckDB gives them
        """
        given, sources = os.fspath(target), list(sources)
        check_target(given, [path for source in sources for path in source.inputs])
        if given == "-":
            return self._to_stdout(relation)
        read = ", ".join(source.name for source in sources) or given
        with atomic_path(given) as temporary, translated(read, target=given):
            if given.lower().endswith(".parquet"):
                relation = _with_types(relation, sources)
            return self._copy(relation, temporary, given)

    def _copy(self, relation: Any, path: Path, name: str) -> int:
        relation.create_view(_ANSWER, replace=True)
        if name.lower().endswith(".parquet"):
            options = "FORMAT parquet"
        else:
            sep = "\\t" if ".tsv" in name.lower() else ","
            packed = "gzip" if name.lower().endswith(".gz") else "none"
            options = f"FORMAT csv, HEADER, DELIMITER E'{sep}', COMPRESSION {packed}"
        copy = f"COPY {_ANSWER} TO $path ({options}, USE_TMP_FILE false)"
        rows = self.connection.execute(copy, {"path": str(path)}).fetchall()[0][0]
        self.connection.execute(f"DROP VIEW {_ANSWER}")
        return int(rows)

    def _to_stdout(self, relation: Any) -> int:
        """Writes the relation to standard output after it was computed, so that an error leaves no partial table."""
        path = self._folder / "answer.csv"
        with translated("standard output"):
            rows = self._copy(relation, path, path.name)
        with path.open("rb") as stream:
            shutil.copyfileobj(stream, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()
        path.unlink()
        return rows


@dataclass(frozen=True)
class Source:
    """A table in files, and the roles of its columns."""

    session: Session
    paths: tuple[Path, ...]
    format: Format
    name: str
    keys: Sequence[str] = ()
    roles: Roles = field(default_factory=Roles)
    _read: dict[Roles, tuple[Any, Kinds]] = field(
        default_factory=dict, repr=False, compare=False
    )  # shared by `bound`

    def bound(
        self,
        lab: Lab | None = None,
        *,
        scores: str | Iterable[str] | Mapping[Any, str] | None = None,
        predictions: str | Iterable[str] | None = None,
        label: str | None = None,
        by: str | Iterable[str] | None = None,
        time: str | None = None,
        text: Iterable[str] = (),
    ) -> Source:
        """The same table, its columns bound to their roles, by default to those that the lab remembers.

        Parameters
        ----------
        lab : whose columns are the default
        scores : columns of predictions or of quantiles, or a pattern such as ``"p_*"``
        predictions : columns of values, such as verdicts
        label, by, time : columns of the label, the groups and the time
        text : columns of these that are text, whatever they hold
        """
        known = None if lab is None else lab.columns
        if known is not None and lab is not None:
            if lab.of_values:
                predictions = known.scores if predictions is None else predictions
            else:
                scores = known.scores if scores is None else scores
            label = known.label if label is None else label
            by = known.by if by is None else by
        named = list(scores.values()) if isinstance(scores, Mapping) else scores
        columns, groups = column_names("scores", named), column_names("by", by)
        values = column_names("predictions", predictions)
        return replace(self, roles=Roles(columns, label, groups, time, tuple(text), values))

    @property
    def relation(self) -> Any:
        """The table, as a relation of DuckDB on the session's connection."""
        return self._table()[0]

    def _table(self) -> tuple[Any, Kinds]:
        if self.roles not in self._read:
            self._read[self.roles] = self._open()
        return self._read[self.roles]

    def _open(self, row_id: str | None = None) -> tuple[Any, Kinds]:
        with translated(self.name):
            relation, free = self._reader(row_id)
            return relation.set_alias(self.name), free  # which errors call it by

    def _reader(self, row_id: str | None) -> tuple[Any, Kinds]:
        given = self.session.connection, self.paths, self.roles, self.keys
        if self.format != "parquet":
            return (read_csv if self.format == "csv" else read_json_lines)(*given)
        if self.session.memory is not None:
            largest = max(self.paths, key=lambda path: path.stat().st_size)
            self.session.fit_threads(parquet.largest_row_group(self.session.connection, largest))
        return parquet.read(*given, row_id)

    def free_types(self) -> dict[str, str]:
        """The types of text columns without a role in parquet."""
        return free_types(*self._table())

    @property
    def columns(self) -> list[str]:
        """The names of its columns; of a CSV, the header is read for them and nothing else."""
        if self.format != "csv":
            return list(self.relation.columns)
        return list(dict.fromkeys([*csv_columns(self.paths), *self.keys]))

    def line_of(self, row: int) -> int | None:
        """The line, from 1, on which a row of a text file begins; None of parquet and of several files."""
        if self.format == "parquet" or len(self.paths) > 1:
            return None
        return line_of(self.paths[0], row, is_csv=self.format == "csv")

    @property
    def inputs(self) -> list[str]:
        """Files that must not be written: the inputs, and other matches of their folder or pattern."""
        several = is_pattern(self.name) or Path(self.name).is_dir()
        return [*map(str, self.paths), *([self.name] if several else [])]

    def with_row_id(self) -> tuple[Any, list[str]]:
        """The table, and the columns that hold the order of its rows; none if they must be counted."""
        name = "__fieldcal_row"
        while name in self.columns:
            name += "_"
        if self.format != "parquet":
            return self.relation, []
        table = self._open(name)[0]
        return table, [name] if name in table.columns else []


@cache
def _settings_of(duckdb: Any) -> frozenset[str]:
    """The settings that this version of DuckDB has; those that some lack only help later ones."""
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT name FROM duckdb_settings()").fetchall()
    return frozenset(name for (name,) in rows)


def _with_types(relation: Any, sources: Iterable[Source]) -> Any:
    types = {name: kind for source in sources for name, kind in source.free_types().items()}
    held = dict(zip(relation.columns, map(str, relation.types), strict=True))
    cast = {n: quoted(n) for n, kind in held.items() if n in types and kind == "VARCHAR"}
    if not cast:
        return relation
    return relation.project(f"* REPLACE ({', '.join(f'{q}::{types[n]} AS {q}' for n, q in cast.items())})")


def _bytes(limit: str) -> int:
    found = _LIMIT.fullmatch(limit) if isinstance(limit, str) else None
    if found is None:
        raise InputError(f"The memory limit {limit!r} is not understood. Write it as 1GB or 500MB.")
    unit = (1024 if found[3] else 1000) ** ("KMGT".index(found[2].upper()) + 1)
    size = int(float(found[1]) * unit)
    if size < _LEAST:
        raise InputError(f"The memory limit {limit!r} is too small for any table. Allow 100MB or more.")
    return size


def _scratch(place: str | os.PathLike[str] | None) -> tempfile.TemporaryDirectory[str]:
    try:
        place = place or tempfile.gettempdir()
        return tempfile.TemporaryDirectory(prefix="fieldcal-", dir=place, ignore_cleanup_errors=True)
    except OSError as error:
        where = f" in {str(place)!r}" if place else ""
        raise InputError(
            f"Cannot make a folder for temporary files{where}: {reason(error)}. Choose another with temp_directory, or "
            "set TMPDIR."
        ) from None
