"""Files that are either the old or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from fieldcal.errors import FieldcalError, InputError, reason
from fieldcal.writing.journal import sync
from fieldcal.writing.scratch import Scratch


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees all of it or none."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; what is there takes the target's place if all goes well, and is gone if not.

    It is in a scratch folder beside the target, so that a rename is all that is left to do. Of a link, the file at its
    end is the target, and the link stays.
    """
    target = writable(Path(path))
    try:
        scratch = Scratch(target.parent)
    except OSError as error:
        raise InputError(
            f"Cannot write {target.name!r} in {str(target.parent)!r}: {reason(error)}. Choose another folder."
        ) from None
    try:
        with scratch:
            temporary = scratch.path / target.name
            yield temporary
            _replace(temporary, target)
    except OSError as error:
        if isinstance(error, FieldcalError):
            raise
        raise InputError(f"Cannot write {os.fspath(path)!r}: {reason(error)}. Nothing was changed.") from None


def _replace(temporary: Path, target: Path) -> None:
    with temporary.open("rb+") as stream:
        os.fsync(stream.fileno())
    if target.exists():
        temporary.chmod(target.stat().st_mode & 0o777)
    os.replace(temporary, target)
    sync(target.parent)


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
