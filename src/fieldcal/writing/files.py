"""Files that are either the old or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fieldcal.errors import FieldcalError, InputError


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees all of it or none."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside the target to write to; it takes the target's place if all goes well, and is gone if not."""
    target = Path(path)
    check_replaceable(target)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    except OSError as error:
        raise InputError(
            f"Cannot write {target.name!r} in {str(target.parent)!r}: {error.strerror}. Choose another folder."
        ) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        temporary.chmod(_mode(target))
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and not isinstance(error, FieldcalError):
            raise InputError(
                f"Cannot write {str(target)!r}: {error.strerror}. Nothing was changed."
            ) from None
        raise


def check_replaceable(target: Path) -> None:
    """Refuse what must not be replaced: folders, devices and pipes, and what somebody made read-only."""
    if not target.exists():
        return
    mode = target.stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError(f"Cannot write {str(target)!r}: it is a folder. Add the name of a file.")
    if not stat.S_ISREG(mode):
        raise InputError(f"Cannot write {str(target)!r}: it is no plain file. Choose another name.")
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"Cannot write {str(target)!r}: it is read-only. Choose another name.")


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or what a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
