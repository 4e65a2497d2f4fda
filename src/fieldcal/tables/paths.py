"""Which files are meant, what is in them, and whether a target may be written: asked before any work."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from fieldcal.errors import InputError
from fieldcal.names import did_you_mean

#: What can be written.
SUFFIXES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
_WILD = set("*?[")


def find(source: str) -> list[Path]:
    """The files that a path or a glob names, in order."""
    if "://" in source:
        raise InputError(
            f"{source!r} is an address. fieldcal reads files and goes to no network: fetch it first, or use the engine "
            "where the table lives."
        )
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        raise InputError(f"{source!r} is a folder. Name its files: {source.rstrip('/')}/*.parquet")
    if _WILD & set(source):
        found = [Path(p) for p in sorted(glob.glob(source, recursive=True)) if Path(p).is_file()]
        if not found:
            raise InputError(f"No file matches {source!r}. Is the pattern right, and quoted for the shell?")
        return found
    if path.exists():  # a pipe such as <(…): read it like standard input
        raise InputError(f"{source!r} is no plain file. Send it to standard input and name it '-'.")
    beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    raise InputError(f"There is no file {source!r}.{did_you_mean(path.name, beside)}")


def kind_of(path: Path, name: str) -> Literal["csv", "parquet"]:
    """Told by the first bytes; a name that says otherwise is an error."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise InputError(f"Cannot read {name!r}: {error.strerror}.") from None
    if not head:
        raise InputError(f"{name!r} is empty: it has not even a header.")
    if head == b"PAR1":
        return "parquet"
    if path.suffix.lower() == ".parquet":
        raise InputError(f"{name!r} is named .parquet but is no parquet file. Was it copied whole?")
    return "csv"


def spool(stream: BinaryIO, folder: Path) -> Path:
    """Standard input as a file: DuckDB looks at it more than once."""
    target = folder / "standard_input"
    with target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return target


def check_target(target: str, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse what cannot be written, or would be written over an input."""
    if target == "-":
        return
    path = Path(target)
    if not target.lower().endswith(SUFFIXES):
        raise InputError(
            f"Cannot tell what to write to {target!r}: its name must end in one of {', '.join(SUFFIXES)}."
        )
    check_place(path, inputs)


def check_place(path: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse a target without a place: no folder, a read-only one, or an input."""
    if not path.parent.is_dir():
        raise InputError(
            f"Cannot write {str(path)!r}: there is no folder {str(path.parent)!r}. Make it first."
        )
    if path.is_dir():
        raise InputError(f"Cannot write {str(path)!r}: it is a folder. Add the name of a file.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"Cannot write in {str(path.parent)!r}: it is read-only. Choose another folder.")
    if any(is_same(path, Path(given)) for given in inputs):
        raise InputError(
            f"The output {str(path)!r} is an input: it would be written over. Choose another name."
        )


def is_same(one: Path, two: Path) -> bool:
    """Whether two paths are one file, through links of any kind."""
    try:
        return one.samefile(two)
    except OSError:
        return one.absolute() == two.absolute()


def listed(paths: Sequence[Path]) -> list[str]:
    """As DuckDB takes them: names with a star in them are files, not patterns."""
    return [glob.escape(str(p)) if _WILD & set(str(p)) else str(p) for p in paths]
