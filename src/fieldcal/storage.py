"""Files that are read and written whole, JSON that can be trusted, words for what is misspelt, optional imports."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import json
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fieldcal.errors import (
    ArtefactError,
    FieldcalError,
    InputError,
    InputTypeError,
    MissingExtraError,
    reason,
)

#: Larger artefacts than this are refused before they are read.
MAX_BYTES = 2**30
#: The column in which a table of labels says how each row was chosen.
DESIGN_COLUMN = "fieldcal_design"
#: Prefix of the hidden folders, beside the targets, that hold unfinished files; a killed process leaves its own.
UNFINISHED = ".fieldcal-"


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The whole file, if it is a plain one, of a size that an artefact can have, and does not grow meanwhile."""
    target = as_path(path)
    try:
        size = plain_size(target)
        if not size:  # also what a system makes up as it is read, perhaps without end
            raise ArtefactError(f"{target.name!r} is corrupt: it is empty. Make it again.")
        if size > MAX_BYTES:
            raise ArtefactError(f"{target.name!r} has {size:,} bytes, more than any artefact: not read.")
        with target.open("rb") as stream:
            data = stream.read(size + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, FieldcalError):
            raise
        raise ArtefactError(f"Cannot read {str(target)!r:.200}: {reason(error)}.") from None
    if len(data) > size:
        raise ArtefactError(
            f"Cannot read {str(target)!r}: it grows while it is read. Is it still being written?"
        )
    return data


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees all of it or none."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files: all are on the disk before the first of them takes its place."""
    with contextlib.ExitStack() as stack:
        for path, data in contents.items():
            temporary = stack.enter_context(atomic_path(path))
            temporary.write_bytes(data)
            _sync(temporary)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write to, which replaces the target at the end; an error removes it.

    It is in a hidden folder beside the target, on the same file system. If the target is a link, the file at its end is
    replaced and the link stays.
    """
    target = writable(Path(path))
    try:
        scratch = _scratch(target.parent)
    except OSError as error:
        raise InputError(
            f"Cannot write {target.name!r} in {str(target.parent)!r}: {reason(error)}. Choose another folder."
        ) from None
    try:
        with scratch as made:
            temporary = Path(made, target.name)
            yield temporary
            _sync(temporary)
            _keep_mode(target, temporary)
            os.replace(temporary, target)
    except OSError as error:
        if isinstance(error, FieldcalError):
            raise
        raise InputError(f"Cannot write {os.fspath(path)!r}: {reason(error)}. Nothing was changed.") from None


@contextlib.contextmanager
def atomic_folder(folder: Path, *, own: Sequence[str]) -> Iterator[Path]:
    """A temporary folder to write to, which replaces the target at the end; an error removes it.

    A new target appears with one rename, and so do the folders above it. An existing one takes two: it is renamed to
    ``<name>.old-…``, the new folder gets its name, and the old one is removed. A kill between the two leaves the old
    folder whole under that name. Files in it that are not ``own`` are hard links to the same files in both.

    A folder that cannot be renamed gets its files one by one, after all are written: a mount point, the working folder,
    one in a read-only folder, one with subfolders. There a kill between two renames leaves old files beside new ones.

    Parameters
    ----------
    folder : the target
    own : names that only this writer uses; a file of an earlier time that is not written again is removed
    """
    target = Path(os.path.realpath(folder))
    there = target.is_dir()
    try:
        place = nearest(target) if not there else target.parent if _can_be_renamed(target) else target
        with _scratch(place) as made:
            new = Path(made, "new")
            inside = new / target.relative_to(place)
            inside.mkdir(parents=True)
            try:
                yield inside
            except FieldcalError as error:  # it names the place where the file would have been
                error.args = tuple(
                    part.replace(str(inside), str(folder)) if isinstance(part, str) else part
                    for part in error.args
                )
                raise
            if not there:
                top = next(new.iterdir())
                os.rename(top, place / top.name)
            elif place == target or not _swap(inside, target, own):
                _replace_files(inside, target, own)
    except OSError as error:
        if isinstance(error, FieldcalError | BrokenPipeError):
            raise
        raise InputError(f"Cannot write in {str(folder)!r}: {reason(error)}. Nothing was changed.") from None


def _swap(new: Path, target: Path, own: Sequence[str]) -> bool:
    """Put a new folder in the place of another; False if it cannot be renamed, and is as it was."""
    old = target.with_name(f"{target.name}.old-{os.urandom(4).hex()}")
    names = os.listdir(target)
    try:
        for name in set(names).difference(own):
            os.link(target / name, new / name, follow_symlinks=False)
        for name in (".", *own):
            _keep_mode(target / name, new / name)
        os.rename(target, old)
        os.rename(new, target)
    except (OSError, NotImplementedError):  # it has subfolders, or the file system no links
        return False
    finally:
        if not target.exists():
            os.rename(old, target)
    try:
        _remove(old, names)
    except KeyboardInterrupt:
        _remove(old, names)
        raise
    return True


def _remove(folder: Path, names: Sequence[str]) -> None:
    """Remove a folder with these files; others, which came just now, stay."""
    with contextlib.suppress(OSError):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def _replace_files(new: Path, target: Path, own: Sequence[str]) -> None:
    for name in own:
        try:
            if (new / name).exists():
                _keep_mode(target / name, new / name)
                os.replace(new / name, target / name)
            else:
                (target / name).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"Cannot write {str(target / name)!r}: {reason(error)}. Of {', '.join(own)} in this folder, those "
                "before it are new and the others old. Choose another folder."
            ) from None


def _scratch(place: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place, ignore_cleanup_errors=True)


def _sync(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _keep_mode(old: Path, new: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copymode(old, new)


def _can_be_renamed(folder: Path) -> bool:
    fixed = os.path.ismount(folder) or folder.samefile(os.curdir)
    return not fixed and os.access(folder.parent, os.W_OK | os.X_OK)


def nearest(folder: Path) -> Path:
    """The folder itself, or the first above it that exists."""
    return next(path for path in (folder, *folder.parents) if os.path.lexists(path))


def check_own(folder: Path, own: Sequence[str]) -> None:
    """Refuse what cannot be replaced: folders, devices and links that have the name of a file to come."""
    for path in (folder / name for name in own):
        if path.is_symlink():
            raise InputError(
                f"Cannot write {str(path)!r}: it is a link, and would not be one any more. Remove it, or choose "
                "another folder."
            )
        writable(path)


def writable(path: Path) -> Path:
    """The file that is written under this name, at the end of links; what must not be replaced is refused."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise InputError(
                f"Cannot write {str(path)!r}: it is a link to {os.readlink(path)!r}, which is not there. Remove the "
                "link, or make the file."
            ) from None
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:  # a loop of links, a name that is too long or holds a null
        raise InputError(f"Cannot write {str(path)!r}: {reason(error)}. Choose another name.") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"Cannot write {str(path)!r}: it is a folder. Add the name of a file.")
    if not stat.S_ISREG(mode) or _of_the_system(path):
        raise InputError(
            f"Cannot write {str(path)!r}: it is no plain file, but a device or a pipe. Name a file."
        )
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"Cannot write {str(path)!r}: it is read-only. Choose another name.")
    return Path(os.path.realpath(path))


def _of_the_system(path: Path) -> bool:
    """/dev/stdout is a plain file if the shell sent it into one, which would be replaced under the shell's feet."""
    place = Path(os.path.realpath(path.parent))
    return str(place) == "/dev" or any(str(p) in ("/proc", "/sys") for p in (place, *place.parents))


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a table, by its name."""
    return Path(path).suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".gz", ".zst")


def as_path(path: Any) -> Path:
    """Where something lies, if this can be the name of a file."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"path must be the path of a file, but got {path!r:.60}.")
    return Path(path)


def plain_size(path: Path) -> int:
    """The bytes of a plain file. Devices and pipes have no size, and may have no end."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        here = next((f", such as {str(f)!r}" for f in sorted(path.glob("prevalence.json"))), "")
        raise ArtefactError(f"Cannot read {str(path)!r}: it is a folder. Add the name of a file{here}.")
    if not stat.S_ISREG(found.st_mode):
        raise ArtefactError(f"Cannot read {str(path)!r}: it is no plain file. Save it to one first.")
    return found.st_size


def canonical(content: Any) -> bytes:
    """One spelling of each content: sorted keys, no spaces, ASCII, no NaN."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def digest(content: Any) -> str:
    """SHA-256 of the canonical spelling."""
    return hashlib.sha256(canonical(content)).hexdigest()


def parse(data: bytes, *, name: str) -> Any:
    """JSON without duplicate keys or NaN literals; nested too deep, it raises RecursionError."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except ArtefactError as error:
        raise ArtefactError(f"{name} is corrupt: {error}") from None
    except ValueError as error:
        raise ArtefactError(f"{name} is corrupt, it is no valid JSON: {error}.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(k for k, _ in pairs).most_common(1)[0][0]
        raise ArtefactError(f"the key {twice[:40]!r} appears twice.")
    return content


def _no_constant(literal: str) -> Any:
    raise ArtefactError(f"it holds the literal {literal}, which no artefact has.")


def did_you_mean(value: Any, options: Sequence[Any]) -> str:
    """A sentence with the closest option; empty if none is close."""
    close = difflib.get_close_matches(str(value), [str(o) for o in options], n=1)
    return f" Did you mean {close[0]!r:.60}?" if close and close[0] != str(value) else ""


def refuse_repeats(names: Sequence[Any]) -> None:
    """Every column name must say which column is meant."""
    twice = [(name, times) for name, times in Counter(names).items() if times > 1]
    if twice:
        listed = ", ".join(f"{name!r:.60} ({times} times)" for name, times in twice[:6])
        raise InputError(
            f"Column names appear more than once: {listed}{', …' if len(twice) > 6 else ''}. Rename or drop them."
        )


def require(module: str, extra: str, *, purpose: str) -> ModuleType:
    """The module, or an error that says how to get it.

    Parameters
    ----------
    module : what is imported
    extra : the extra of fieldcal that brings it
    purpose : what it is needed for, as the middle of a sentence
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{module} is needed {purpose}, and is not installed. Install it: pip install 'fieldcal[{extra}]'"
        ) from None
