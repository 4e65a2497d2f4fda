"""Several files of one folder that take their places together.

A scratch folder inside the folder holds ``new/``, the files to come; ``old/``, links to those that they replace; and a
journal of both lists of names. One rename of the scratch folder, from ``.tmp`` to ``.redo``, decides:

- before it, nothing in the folder has been touched, and the scratch folder can be thrown away;
- after it, all that is missing are renames, which `redo` makes. A rename needs no space, and what is done already is
  not done again: whoever comes after a crash calls `redo` once more, and everything is new;
- if the system refuses one of them, another rename, to ``.undo``, decides for the way back, and `undo` takes it in the
  same manner: the links in ``old/`` need no space either, and everything is as before.

So a reader may meet some new files beside old ones for as long as some renames take, and a crash in just that moment
keeps it so until somebody writes there again; no file is ever half, and none is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

NEW, OLD = "new", "old"
_NAMES = "journal.json"


def prepare(scratch: Path, folder: Path, own: Iterable[str]) -> None:
    """Write down what will be replaced, and keep it: everything that can fail for want of space.

    Parameters
    ----------
    scratch : with the files to come in ``new/``
    folder : where they go
    own : names that belong to whoever writes; what has one of them and does not come again, goes
    """
    new = sorted(os.listdir(scratch / NEW))
    old = sorted(name for name in {*own, *new} if os.path.lexists(folder / name))
    (scratch / OLD).mkdir()
    for name in old:
        _keep(folder / name, scratch / OLD / name)
        if name in new:
            shutil.copymode(folder / name, scratch / NEW / name)
    with (scratch / _NAMES).open("w", encoding="utf-8") as stream:
        json.dump({NEW: new, OLD: old}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    for each in (scratch / NEW, scratch / OLD, scratch):
        sync(each)


def redo(scratch: Path) -> None:
    """Put the new files into the folder around the scratch folder, as far as they are not there."""
    _put(scratch, NEW, instead_of=OLD)


def undo(scratch: Path) -> None:
    """Put the old files back, as far as they are not there."""
    _put(scratch, OLD, instead_of=NEW)


def _put(scratch: Path, kind: str, *, instead_of: str) -> None:
    """Move the files of one kind to their places, and take away what only the other kind has."""
    folder, names = scratch.parent, _read(scratch)
    for name in names[kind]:
        if os.path.lexists(scratch / kind / name):
            os.replace(scratch / kind / name, folder / name)
    for name in set(names[instead_of]) - set(names[kind]):
        (folder / name).unlink(missing_ok=True)
    # From here on there is nothing to do again.
    sync(folder)
    (scratch / _NAMES).unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """Names in it reach the disk; not every system can be asked for it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _keep(path: Path, link: Path) -> None:
    try:
        os.link(path, link)
    except OSError:  # not every file system has links
        shutil.copy2(path, link)


def _read(scratch: Path) -> dict[str, list[str]]:
    """The names; none where all is done and only the scratch folder is left to remove."""
    try:
        names = json.loads((scratch / _NAMES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {NEW: [], OLD: []}
    return {kind: [os.path.basename(name) for name in names[kind]] for kind in (NEW, OLD)}
