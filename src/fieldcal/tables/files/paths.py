"""Files behind a name, their format, and checks of targets, before any work."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import gzip
import os
import shutil
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, cast

from fieldcal.errors import InputError, reason
from fieldcal.storage import check_own, did_you_mean, nearest, writable

#: What can be written.
SUFFIXES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
Format = Literal["csv", "jsonl", "parquet"]
#: How files are named that are JSON Lines, or CSV, whatever they begin with.
_JSON_LINES, _CSV = (".jsonl", ".ndjson"), (".csv", ".tsv")
_TABLES = (".parquet", *_CSV, *_JSON_LINES, ".json")
_WILD = set("*?[")
_GLANCE = 2**12
#: First bytes of supported binary files: parquet and gzip.
_BINARY = (b"PAR1", b"\x1f\x8b")


def find(source: str) -> list[Path]:
    """The files that a path, a folder or a glob names, in order."""
    if "://" in source:
        raise InputError(
            f"{source!r} is a URL. fieldcal reads files only: download it first, or use the engine of the "
            "table."
        )
    path = Path(source)
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # too long, or with a sign that no name has
        raise InputError(f"There is no file {source!r:.200}: {reason(error)}.") from None
    if path.is_file():
        return [path]
    if path.is_dir():
        return _in_folder(path)
    if is_pattern(source):
        found = [Path(p) for p in sorted(glob.glob(source, recursive=True)) if Path(p).is_file()]
        if not found:
            raise InputError(f"No file matches {source!r}. Is the pattern right, and quoted for the shell?")
        return found
    if path.exists():  # a pipe such as <(…): read it like standard input
        raise InputError(f"{source!r} is not a regular file. Send it to standard input and name it '-'.")
    beside: list[str] = []
    with contextlib.suppress(OSError):  # a folder that cannot be read
        beside = os.listdir(path.parent)
    raise InputError(f"There is no file {source!r:.200}.{did_you_mean(path.name, beside)}")


def _in_folder(folder: Path) -> list[Path]:
    """The tables in a folder and in those below; names that begin with . or _ are those of notes, as _SUCCESS."""
    found = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and _is_table(path.relative_to(folder))
    ]
    if not found:
        raise InputError(
            f"The folder {str(folder)!r} holds no table: no file in it or below ends in {', '.join(_TABLES)}, with or "
            "without .gz. If tables have other names, give a pattern in quotes, such as "
            f"'{folder}/**/part-*'."
        )
    return found


def _is_table(path: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return not hidden and path.name.lower().removesuffix(".gz").endswith(_TABLES)


def keys_of(source: str, paths: Sequence[Path]) -> list[str]:
    """The keys of folders named ``key=value``, which are columns; of a single file, none."""
    if source == "-" or Path(source).is_file():
        return []
    keys = [[part.partition("=")[0] for part in path.parts[:-1] if "=" in part] for path in paths]
    other = next((path for path, found in zip(paths, keys, strict=True) if found != keys[0]), None)
    if other is not None:
        raise InputError(
            f"{str(paths[0])!r} and {str(other)!r} are in folders of different keys (key=value), so that {source!r} is "
            "no single table. Name one kind of folder."
        )
    return keys[0]


def is_pattern(source: str) -> bool:
    """Whether a name stands for several; a file may have a star in its name."""
    return bool(_WILD & set(source)) and not os.path.lexists(source)


def _matches(path: Path, pattern: str) -> bool:
    return _parts_match(Path(os.path.abspath(path)).parts, Path(os.path.abspath(pattern)).parts)


def _parts_match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns or not parts:
        return not patterns and not parts
    if patterns[0] == "**":
        return _parts_match(parts, patterns[1:]) or _parts_match(parts[1:], patterns)
    return fnmatch.fnmatchcase(parts[0], patterns[0]) and _parts_match(parts[1:], patterns[1:])


def format_of(paths: Sequence[Path], name: str) -> Format:
    """The format by the first bytes; a contradicting name, or files of two formats, are an error."""
    formats = {path: _format_of(path, name if len(paths) == 1 else str(path)) for path in paths}
    if len(set(formats.values())) > 1:
        other = next(path for path in paths if formats[path] != formats[paths[0]])
        raise InputError(
            f"{name!r} finds files of two kinds: {paths[0].name!r} is {formats[paths[0]]}, {other.name!r} is "
            f"{formats[other]}. Name one kind."
        )
    return formats[paths[0]]


def _format_of(path: Path, name: str) -> Format:
    try:
        if not path.stat().st_size:  # also what a system makes up as it is read, perhaps without end
            raise InputError(f"{name!r} is empty: it has no header.")
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise InputError(f"Cannot read {name!r}: {error.strerror}.") from None
    if head == b"PAR1":
        return "parquet"
    if path.suffix.lower() == ".parquet":
        raise InputError(f"{name!r} is named .parquet but is not a parquet file. Was it copied whole?")
    if head == b"PK\x03\x04":
        raise InputError(f"{name!r} is a spreadsheet or another zip file. Save it as CSV or parquet.")
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix in _CSV:
        return "csv"
    begin = _first_sign(path)
    if suffix == ".json" and begin == b"[":
        raise InputError(f"{name!r} is one list of JSON. Write one object per line: jq -c '.[]' does it.")
    return "jsonl" if suffix in _JSON_LINES or begin == b"{" else "csv"


def is_gzip(path: Path) -> bool:
    """Whether a file is packed, whatever it is named."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def unpacked(path: Path) -> BinaryIO:
    """The file, open to be read; unpacked if it is gzipped."""
    return cast(BinaryIO, gzip.GzipFile(path)) if is_gzip(path) else path.open("rb")


def _first_sign(path: Path) -> bytes:
    """The first byte that is not blank, of the beginning of a file; none where it is damaged."""
    with contextlib.suppress(OSError, EOFError, zlib.error), unpacked(path) as stream:
        return stream.read(_GLANCE).lstrip()[:1]
    return b""


def spool(stream: TextIO | None, folder: Path) -> Path:
    """Standard input as a file, because DuckDB reads it more than once."""
    if stream is None:
        raise InputError("Standard input is closed. Send a table to it, or name a file.")
    target = folder / "standard input"
    try:
        first = stream.buffer.read(1 << 20)
        if b"\0" in first and not first.startswith(_BINARY):  # a device such as /dev/zero has no end
            raise InputError(
                "Standard input is not a table: it contains binary data. Send CSV, JSON Lines or parquet."
            )
        with target.open("wb") as file:
            file.write(first)
            shutil.copyfileobj(stream.buffer, file, 1 << 20)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"Cannot copy standard input to {str(folder.parent)!r}: {reason(error)}. Is it a table, and is there "
            "space? TMPDIR may name another folder."
        ) from None
    return target


def check_target(target: str, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse targets that cannot be written, or are an input."""
    if target == "-":
        return
    path = Path(target)
    if not target.lower().endswith(SUFFIXES):
        raise InputError(
            f"Cannot tell what to write to {target!r}: its name must end in one of {', '.join(SUFFIXES)}; - is "
            "standard output."
        )
    check_place(path, inputs)


def check_place(path: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse a target in a missing or read-only folder, or one that is an input."""
    if not path.parent.is_dir():
        raise InputError(
            f"Cannot write {str(path)!r}: there is no folder {str(path.parent)!r}. Make it first."
        )
    check_folder(writable(path).parent)
    refuse_inputs(path, inputs)


def check_output(target: Path, inputs: Sequence[str]) -> None:
    """Refuse a file that cannot be written, or that is read; tables may go to standard output, ``-``."""
    check_place(target, _existing(inputs))
    _refuse_streams(target, inputs)


def check_results(folder: Path, inputs: Sequence[str], files: Sequence[str]) -> None:
    """Refuse a folder that cannot be made, or that holds what is read.

    Parameters
    ----------
    files : what is written into it
    """
    check_is_no_file(folder, "run")
    check_inputs(inputs)
    read = _existing(given for given in inputs if given != "-")
    for path in read:
        if Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents:
            raise InputError(
                f"The output folder {str(folder)!r} holds the input {str(path)!r}, which might be overwritten. Choose "
                "another folder."
            )
    check_own(folder, files)
    for target in (folder / name for name in files):
        refuse_inputs(target, read)
        _refuse_streams(target, inputs)


def check_is_no_file(folder: Path, command: str) -> None:
    """Refuse what cannot be a folder, or where none can be made."""
    if os.path.lexists(folder) and not folder.is_dir():
        what = "a link that leads to no folder" if folder.is_symlink() else "a file"
        raise InputError(
            f"The output {str(folder)!r} is {what}, but `{command}` needs a folder. Choose another name."
        )
    check_folder(nearest(Path(os.path.realpath(folder))))


def check_inputs(inputs: Sequence[str]) -> None:
    """Standard input can be read only once."""
    if inputs.count("-") > 1:
        raise InputError("Only one of the tables can come from standard input. Give the others as files.")


def _existing(inputs: Iterable[str]) -> list[Path]:
    return [Path(path) for given in inputs for path in (given, *glob.glob(given, recursive=True))]


def _refuse_streams(target: Path, inputs: Sequence[str]) -> None:
    """Refuse a file that the shell has opened for us: ``- < x`` reads it, ``> x`` writes to it."""
    if not target.exists():
        return
    streams = {1: "standard output goes to", 2: "standard error goes to"}
    streams |= {0: "standard input comes from"} if "-" in inputs else {}
    for descriptor, words in streams.items():
        with contextlib.suppress(OSError):  # it is closed
            if os.path.samestat(os.fstat(descriptor), target.stat()):
                raise InputError(
                    f"The output {str(target)!r} is the file that {words}: one would destroy the other. Choose another "
                    "name."
                )


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to."""
    if not folder.is_dir():
        raise InputError(f"Cannot write in {str(folder)!r}: it is no folder. Choose another.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"Cannot write in {str(folder)!r}: it is read-only. Choose another folder.")


def refuse_inputs(path: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse a target that is an input, or would become one the next time."""
    given = [os.fspath(one) for one in inputs]
    if any(is_same(path, Path(one)) for one in given):
        raise InputError(
            f"The output {str(path)!r} is an input: it would be written over. Choose another name."
        )
    reader = next((one for one in given if _would_read(one, path)), None)
    if reader is not None:
        raise InputError(
            f"The output {str(path)!r} would be an input of {reader!r} the next time. Choose another folder."
        )


def _would_read(source: str, path: Path) -> bool:
    if is_pattern(source):
        return _matches(path, source)
    return Path(source).is_dir() and Path(os.path.realpath(source)) in Path(os.path.realpath(path)).parents


def is_same(one: Path, two: Path) -> bool:
    """Whether two paths are the same file, through any links."""
    try:
        return one.samefile(two)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(two)


def listed(paths: Sequence[Path]) -> list[str]:
    """As DuckDB takes them: names with a star in them are files, not patterns."""
    return [glob.escape(os.path.abspath(p)) for p in paths]  # whole, as ~ would be a home
