"""Tables in files, larger than memory if need be: DuckDB reads them, and writes them whole or not at all.

CSV has no types: DuckDB guesses them, except that a column stays text where its type would lose some of it ("01" is
not 1, and "yes" not true).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from fieldcal.errors import InputError
from fieldcal.extras import require
from fieldcal.files import atomic_path
from fieldcal.tables import csv_files
from fieldcal.tables.engines.duckdb import told
from fieldcal.tables.interruptible import hangs, interruptible
from fieldcal.tables.paths import check_target, find, kind_of, listed, spool

Reader = Literal["auto", "csv", "parquet"]

_ANSWER = "fieldcal_answer"


class Session:
    """A DuckDB connection of its own, with limits, for reading and writing files.

    Parameters
    ----------
    memory_limit : such as "1GB"; what does not fit goes to disk
    threads : by default all
    temp_directory : where it goes; by default the system's

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fieldcal.tables.files import Session
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
        self.connection = duckdb.connect()
        if memory_limit is not None:
            self._limit(memory_limit)
        self._folder = tempfile.TemporaryDirectory(prefix="fieldcal-", dir=temp_directory)
        self._set("temp_directory", self._folder.name)
        self._set("home_directory", self._folder.name)  # the user's own may be missing or read-only
        self._set("autoinstall_known_extensions", False)  # nothing is fetched from a network
        self._set("enable_progress_bar", False)
        if threads is not None:
            self._set("threads", threads)

    def _set(self, name: str, value: object) -> None:
        self.connection.execute(f"SET {name} = $value", {"value": value})

    def _limit(self, limit: str) -> None:
        duckdb = require("duckdb", "cli", purpose="to read and write files")
        try:
            self._set("memory_limit", limit)
        except duckdb.Error:
            raise InputError(
                f"The memory limit {limit!r} is not understood. Write it as 1GB or 500MB."
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove what was spilled to disk."""
        if not hangs(self.connection):
            self.connection.close()
        self._folder.cleanup()

    def open(
        self, source: str | os.PathLike[str], *, reader: Reader = "auto", text: Sequence[str] = ()
    ) -> Source:
        """A table in one file or in several.

        Parameters
        ----------
        source : a path, a glob, or "-" for standard input
        reader : what the files are; by default told by their names and first bytes
        text : columns of a CSV that are not to be read as numbers or dates
        """
        given = os.fspath(source)
        paths = [spool(sys.stdin.buffer, Path(self._folder.name))] if given == "-" else find(given)
        kind = kind_of(paths[0], given) if reader == "auto" else reader
        name = "standard input" if given == "-" else given
        return Source(self, tuple(paths), kind, name, tuple(text))

    def write(self, relation: Any, target: str | os.PathLike[str], *, sources: Iterable[Source] = ()) -> int:
        """Write a relation; how many rows it has.

        Parameters
        ----------
        target : a name that ends in .parquet, .csv, .csv.gz or .tsv; "-" writes CSV to standard output
        sources : what is read for it, and must not be written over
        """
        given = os.fspath(target)
        check_target(given, [path for source in sources for path in source.paths])
        if given == "-":
            return self._to_stdout(relation)
        with atomic_path(given) as temporary, told(given):
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
        run = partial(self.connection.execute, copy, {"path": str(path)})
        rows = interruptible(self.connection, lambda: run().fetchall()[0][0])
        self.connection.execute(f"DROP VIEW {_ANSWER}")
        return int(rows)

    def _to_stdout(self, relation: Any) -> int:
        """Worked out first, so that an error leaves half a table to nobody."""
        path = Path(self._folder.name) / "answer.csv"
        with told("standard output"):
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
    kind: Literal["csv", "parquet"]
    name: str
    text: tuple[str, ...]

    @cached_property
    def relation(self) -> Any:
        """The table, as a relation of DuckDB on the session's connection."""
        connection = self.session.connection
        if self.kind == "csv":
            return csv_files.read(connection, self.paths, name=self.name, text=self.text)
        with told(self.name):
            return connection.read_parquet(listed(self.paths))

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.relation.columns)

    def with_row_id(self) -> tuple[Any, list[str]]:
        """The table and, at its end, columns that say the order of its rows; none where they must be numbered first.

        Parquet files know the number of each row, which saves counting them on one core.
        """
        if self.kind == "csv" or len(self.paths) > 1 or "file_row_number" in map(str.lower, self.columns):
            return self.relation, []
        with told(self.name):
            return self.session.connection.read_parquet(listed(self.paths), file_row_number=True), [
                "file_row_number"
            ]
