"""Atomic files and folders, canonical JSON, suggestions for misspelt names, and optional imports."""

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

#: Larger artefacts are refused before they are read.
MAX_BYTES = 2**30
#: The column of a table of labels with the design of each row.
DESIGN_COLUMN = "fieldcal_design"
#: Prefix of the hidden folders, beside the targets, that hold unfinished files; a killed process leaves them behind.
UNFINISHED = ".fieldcal-"


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file of plausible size that does not grow while it is read."""
    target = as_path(path)
    try:
        size = plain_size(target)
        if not size:  # also pseudo-files such as those in /proc
            raise ArtefactError(f"{target.name!r} is corrupt: it is empty. Make it again.")
        if size > MAX_BYTES:
            raise ArtefactError(
                f"{target.name!r} has {size:,} bytes, more than any artefact can have. Check the path."
            )
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
    """Write a file so that a reader, or a crash, finds either the old or the new content."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files: all are on disk before the first one is renamed to its target."""
    with contextlib.ExitStack() as stack:
        for path, data in contents.items():
            temporary = stack.enter_context(atomic_path(path))
            temporary.write_bytes(data)
            _sync(temporary)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file that replaces the target at the end; it is removed after an error.

    It is in a hidden folder beside the target, on the same file system. If the target is a link, the file that it
    points to is replaced and the link stays.
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
    """A temporary folder that replaces the target at the end; it is removed after an error.

    A new target appears by one rename, with its parent folders. Replacing an existing one takes two: it is renamed to
    ``<name>.old-…``, the new folder takes its name, and the old one is removed. A kill between the two leaves the old
    folder whole under that name. Files that are not ``own`` are hard-linked into the new folder.

    A folder that cannot be renamed gets its files one by one, after all are written: a mount point, the working
    folder, one in a read-only folder, one with subfolders. A kill between two renames then leaves old files beside new
    ones.

    Parameters
    ----------
    folder : the target
    own : names that only this writer uses; an earlier file of such a name that is not written again is removed
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
            except FieldcalError as error:  # already names the file
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
    """Put a new folder in the place of another; False, with no change, if it cannot be renamed."""
    old = target.with_name(f"{target.name}.old-{os.urandom(4).hex()}")
    names = os.listdir(target)
    try:
        for name in set(names).difference(own):
            os.link(target / name, new / name, follow_symlinks=False)
        for name in (".", *own):
            _keep_mode(target / name, new / name)
        os.rename(target, old)
        os.rename(new, target)
    except (OSError, NotImplementedError):  # subfolders, or a file system without links
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
    """Remove a folder with these files, unless it contains others."""
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
    """The folder itself, or its nearest existing parent."""
    return next(path for path in (folder, *folder.parents) if os.path.lexists(path))


def check_own(folder: Path, own: Sequence[str]) -> None:
    """Refuse names that cannot be replaced because they are folders, devices or links."""
    for path in (folder / name for name in own):
        if path.is_symlink():
            raise InputError(
                f"Cannot write {str(path)!r}: it is a link, which the new file would replace. Remove it, or choose "
                "another folder."
            )
        writable(path)


def writable(path: Path) -> Path:
    """The file to write under this name, after following links; refuses folders and devices."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise InputError(
                f"Cannot write {str(path)!r}: it is a link to {os.readlink(path)!r}, which is not there. Remove the "
                "link, or make the file."
            ) from None
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:  # a loop of links, or a name that is too long or contains a null
        raise InputError(f"Cannot write {str(path)!r}: {reason(error)}. Choose another name.") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"Cannot write {str(path)!r}: it is a folder. Add the name of a file.")
    if not stat.S_ISREG(mode) or _of_the_system(path):
        raise InputError(f"Cannot write {str(path)!r}: it is a device or a pipe. Name a regular file.")
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"Cannot write {str(path)!r}: it is read-only. Choose another name.")
    return Path(os.path.realpath(path))


def _of_the_system(path: Path) -> bool:
    """Whether the path is in /dev, /proc or /sys, where a file cannot be replaced by a rename."""
    place = Path(os.path.realpath(path.parent))
    return str(place) == "/dev" or any(str(p) in ("/proc", "/sys") for p in (place, *place.parents))


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a table, judged by its name."""
    return Path(path).suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".gz", ".zst")


def as_path(path: Any) -> Path:
    """The path, if it can be one."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"path must be the path of a file, but got {path!r:.60}.")
    return Path(path)


def plain_size(path: Path) -> int:
    """The size of a regular file; refuses devices and pipes, which have no size."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        here = next((f", such as {str(f)!r}" for f in sorted(path.glob("prevalence.json"))), "")
        raise ArtefactError(f"Cannot read {str(path)!r}: it is a folder. Add the name of a file{here}.")
    if not stat.S_ISREG(status.st_mode):
        raise ArtefactError(f"Cannot read {str(path)!r}: it is a device or a pipe. Save it to a file first.")
    return status.st_size


def canonical(content: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, ASCII, no NaN."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def digest(content: Any) -> str:
    return hashlib.sha256(canonical(content)).hexdigest()


def parse(data: bytes, *, name: str) -> Any:
    """JSON without duplicate keys or NaN literals; raises RecursionError if nested too deeply."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except ArtefactError as error:
        raise ArtefactError(f"{name} is corrupt: {error}") from None
    except ValueError as error:
        raise ArtefactError(f"{name} is corrupt, it is not valid JSON: {error}.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(k for k, _ in pairs).most_common(1)[0][0]
        raise ArtefactError(f"the key {twice[:40]!r} appears twice.")
    return content


def _no_constant(literal: str) -> Any:
    raise ArtefactError(f"it holds the literal {literal}, which no artefact has.")


def did_you_mean(value: Any, options: Sequence[Any]) -> str:
    """A suggestion of the closest option; empty if none is close."""
    close = difflib.get_close_matches(str(value), [str(o) for o in options], n=1)
    return f" Did you mean {close[0]!r:.60}?" if close and close[0] != str(value) else ""


def refuse_repeats(names: Sequence[Any]) -> None:
    """Refuse column names that appear more than once."""
    twice = [(name, times) for name, times in Counter(names).items() if times > 1]
    if twice:
        listed = ", ".join(f"{name!r:.60} ({times} times)" for name, times in twice[:6])
        raise InputError(
            f"Column names appear more than once: {listed}{', …' if len(twice) > 6 else ''}. Rename or drop them."
        )


def require(module: str, extra: str, *, purpose: str) -> ModuleType:
    """The module, or an error with the command that installs it.

    Parameters
    ----------
    module : name of the module
    extra : the extra of fieldcal that installs it
    purpose : what needs it, as the middle of a sentence
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{module} is needed {purpose}, but is not installed. Install it: pip install 'fieldcal[{extra}]'"
        ) from None
