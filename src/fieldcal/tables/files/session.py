"""Tables in files, larger than memory if need be: DuckDB reads them, and writes them whole or not at all.

CSV has no types. A column of it holds whole numbers, numbers, true and false, days or moments if every cell in every
row does, and loses nothing by it: "01" is not 1, so such a column stays text. A column may so be of one type in one
file and of another in the next; name those that have to agree, such as groups, in ``text``. Parquet's types are kept.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from fieldcal.errors import InputError
from fieldcal.storage import atomic_path, require
from fieldcal.tables.files import csv, parquet
from fieldcal.tables.files.duckdb_errors import translated
from fieldcal.tables.files.paths import Format, check_target, find, format_of, is_pattern, spool

Reader = Literal["auto", "csv", "parquet"]

_ANSWER = "fieldcal_answer"
_LIMIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])(i?)B\s*", re.IGNORECASE)
_LEAST = 64 * 2**20
#: Of the memory limit: what sorts and joins may hold, and what readers may, so that neither starves the other.
_FOR_SORTING, _FOR_READING = 0.3, 0.45


class Session:
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
    ...     log = session.open(folder / "log.csv")
    ...     print(log.columns, session.write(log.relation, folder / "log.parquet"))
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
        self._folder = _folder(temp_directory)
        self.connection = duckdb.connect(config=self._settings(threads))
        self.connection.execute("SET enable_progress_bar = false")
        self.connection.execute("SET TimeZone = 'UTC'")  # what is written is the same everywhere
        if self.memory is not None:
            self._share_memory(self.memory)

    def _settings(self, threads: int | None) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "temp_directory": self._folder.name,
            "home_directory": self._folder.name,  # the user's own may be missing or read-only
            "autoinstall_known_extensions": False,  # nothing is fetched from a network
            "autoload_known_extensions": False,
            "allow_persistent_secrets": False,
            # Without these, Ctrl-C waits until the query has ended, or for ever: DuckDB 2.0 locks itself out.
            "scheduler_process_partial": True,
            "async_threads": 0,
        }
        if threads is not None:
            settings["threads"] = threads
        if self.memory is not None:
            settings["memory_limit"] = f"{self.memory // 1024}KiB"
        return settings

    def _share_memory(self, limit: int) -> None:
        """Without this, readers that run ahead and the sort between them take all there is, and the query fails."""
        duckdb = require("duckdb", "cli", purpose="to read and write files")
        for name, value in (
            ("operator_memory_limit", f"{int(_FOR_SORTING * limit) // 1024}KiB"),
            ("read_ahead_depth", "0"),
            ("enable_external_file_cache", "false"),
        ):
            with contextlib.suppress(duckdb.CatalogException):  # an older DuckDB does not know it
                self.connection.execute(f"SET {name} = $value", {"value": value})

    def fit_threads(self, needed: int) -> None:
        """So few threads that each can hold so many bytes."""
        if self.memory is None or not needed:
            return
        most = max(1, int(_FOR_READING * self.memory / needed))
        now = int(self.connection.execute("SELECT current_setting('threads')").fetchall()[0][0])
        if most < now:
            self.connection.execute("SET threads = $most", {"most": most})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove what was spilled to disk."""
        self.connection.close()
        self._folder.cleanup()

    def open(
        self, source: str | os.PathLike[str], *, reader: Reader = "auto", text: Sequence[str] = ()
    ) -> Source:
        """A table in one file or in several.

        Parameters
        ----------
        source : a path, a glob, or "-" for standard input
        reader : what the files are; by default told by their first bytes
        text : columns of a CSV that are not to be read as numbers or dates
        """
        given = os.fspath(source)
        paths = [spool(sys.stdin.buffer, Path(self._folder.name))] if given == "-" else find(given)
        name = "standard input" if given == "-" else given
        found = format_of(paths, name)
        form = found if reader == "auto" else reader
        return Source(self, tuple(paths), form, name, tuple(text))

    def write(self, relation: Any, target: str | os.PathLike[str], *, sources: Iterable[Source] = ()) -> int:
        """Write a relation; how many rows it has.

        Text is written as it is, also where a spreadsheet would take it for a formula: a table of data is not changed.

        Parameters
        ----------
        target : a name that ends in .parquet, .csv, .csv.gz or .tsv; "-" writes CSV to standard output
        sources : what is read for it, and must not be written over
        """
        given = os.fspath(target)
        check_target(given, [given for source in sources for given in source.inputs])
        if given == "-":
            return self._to_stdout(relation)
        with atomic_path(given) as temporary, translated(given):
            return self._copy(relation, temporary, given)

    def _copy(self, relation: Any, path: Path, name: str) -> int:
        """The whole relation into one file, in the relation's order; how many rows."""
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
        """Worked out first, so that an error leaves half a table to nobody."""
        path = Path(self._folder.name) / "answer.csv"
        with translated("standard output"):
            rows = self._copy(relation, path, path.name)
        with path.open("rb") as stream:
            shutil.copyfileobj(stream, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()
        path.unlink()
        return rows


@dataclass(frozen=True)
class Source:
    """A table in files."""

    session: Session
    paths: tuple[Path, ...]
    format: Format
    name: str
    text: tuple[str, ...]

    @cached_property
    def relation(self) -> Any:
        """The table, as a relation of DuckDB on the session's connection."""
        connection = self.session.connection
        with translated(self.name):
            if self.format == "csv":
                return csv.read(connection, self.paths, text=self.text)
            if self.session.memory is not None:
                largest = max(self.paths, key=lambda path: path.stat().st_size)
                self.session.fit_threads(parquet.largest_row_group(connection, largest))
            return parquet.read(connection, self.paths)

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.relation.columns)

    @property
    def inputs(self) -> list[str]:
        """What must not be written: its files, and what its pattern would find besides."""
        return [*map(str, self.paths), *([self.name] if is_pattern(self.name) else [])]

    def with_row_id(self) -> tuple[Any, list[str]]:
        """The table and, at its end, a column that says the order of its rows; none where they must be counted."""
        name = "__fieldcal_row"
        while name in self.columns:
            name += "_"
        table = None
        if self.format == "parquet":
            table = parquet.numbered(self.relation, len(self.paths), name)
        return (self.relation, []) if table is None else (table, [name])


def _bytes(limit: str) -> int:
    """A memory limit in bytes."""
    found = _LIMIT.fullmatch(limit) if isinstance(limit, str) else None
    if found is None:
        raise InputError(f"The memory limit {limit!r} is not understood. Write it as 1GB or 500MB.")
    unit = (1024 if found[3] else 1000) ** ("KMGT".index(found[2].upper()) + 1)
    size = int(float(found[1]) * unit)
    if size < _LEAST:
        raise InputError(f"The memory limit {limit!r} is too small for any table. Allow 100MB or more.")
    return size


def _folder(inside: str | os.PathLike[str] | None) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="fieldcal-", dir=inside)
    except OSError as error:
        raise InputError(
            f"Cannot make a folder for temporary files in {str(inside or tempfile.gettempdir())!r}: {error.strerror}. "
            "Choose another with temp_directory, or set TMPDIR."
        ) from None
