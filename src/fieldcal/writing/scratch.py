"""Folders for what is not finished, which never outlive their makers for long.

A maker holds a lock on its scratch folder for as long as it lives; the system lets go of it however the maker ends. So
a scratch folder whose lock can be had is dead, and the next who makes one in the same place removes it. Only folders
with our name, of this machine (locks may not be seen from another) and of this user are looked at.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

from fieldcal.writing import journal

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: nothing is ever known to be dead there
    fcntl = None


State = Literal["tmp", "redo", "undo"]
_PREFIX = f".fieldcal-{hashlib.sha256(platform.node().encode()).hexdigest()[:8]}-"
_NAME = re.compile(re.escape(_PREFIX) + r"\w{8}\.(tmp|redo|undo)")
_ATTEMPTS = 100


class Scratch:
    """A folder that is removed when it is closed, collected, or when the process ends; after a kill by the next.

    Parameters
    ----------
    place : the folder to make it in; raises OSError if that cannot be

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from fieldcal.writing import Scratch
    >>> place = Path(tempfile.mkdtemp())
    >>> with Scratch(place) as scratch:
    ...     _ = (scratch.path / "half.txt").write_text("not yet")
    >>> os.listdir(place)
    []
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        sweep(Path(place))
        self.path, descriptor = _make(Path(os.path.abspath(place)))
        self._finish = weakref.finalize(self, _finish, self.path, descriptor, os.getpid())

    def decide(self, state: State) -> None:
        """Say by its name what is to become of its content, see `journal`."""
        named = self.path.with_suffix(f".{state}")
        os.rename(self.path, named)
        self.path = named
        journal.sync(named.parent)

    def close(self) -> None:
        """Do what was decided, and remove it."""
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sweep(place: Path) -> None:
    """Finish or remove the scratch folders in a place whose makers are dead."""
    try:
        names = [name for name in os.listdir(place) if _NAME.fullmatch(name)]
    except OSError:
        return  # whoever wants to write there will be told
    for name in names:
        try:
            descriptor = _lock(place / name)
        except OSError:  # its maker lives, it is not ours, or nobody can tell
            continue
        try:
            _settle(place / name)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """One at a time, where the file system has locks."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(place: Path) -> tuple[Path, int | None]:
    """A new folder, and a descriptor that holds its lock where there are locks.

    Before it is locked it looks dead, and somebody may sweep it away: then another one is made.
    """
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(dir=place, prefix=_PREFIX, suffix=".tmp"))
        try:
            return path, _lock(path)
        except (FileNotFoundError, BlockingIOError):
            continue
        except OSError:
            return path, None
    raise OSError(errno.EBUSY, "Temporary folders vanish as soon as they are made", str(place))


def _lock(path: Path) -> int:
    """A descriptor that holds the lock of a folder of ours; OSError where it cannot be had."""
    if fcntl is None:
        raise OSError(errno.ENOLCK, "There are no locks", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "It is somebody else's", str(path))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(path)  # it may have gone while we waited
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _settle(path: Path) -> None:
    """Do what a scratch folder's name says, under any of its names, and remove it."""
    tmp, redo, undo = (path.with_suffix(f".{state}") for state in get_args(State))
    if redo.is_dir():
        journal.redo(redo)
    if undo.is_dir():
        journal.undo(undo)
    for each in (tmp, redo, undo):
        shutil.rmtree(each, ignore_errors=True)


def _finish(path: Path, descriptor: int | None, maker: int) -> None:
    if os.getpid() != maker:  # a fork: what it inherited is not its own
        return
    try:
        _settle(path)
    except KeyboardInterrupt:
        _settle(path)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
