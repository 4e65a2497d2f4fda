"""Several files, or all of a folder, that are all old or all new."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fieldcal.errors import FieldcalError, InputError, reason
from fieldcal.writing import journal
from fieldcal.writing.files import writable, write_atomically
from fieldcal.writing.scratch import Scratch, exclusive, sweep


@contextlib.contextmanager
def atomic_folder(folder: Path, *, own: Sequence[str]) -> Iterator[Path]:
    """A folder to write to; its files take their places in the target together if all goes well.

    A target that is not there yet appears with one rename, with all its files and the folders above it. One that is
    there keeps what is not ``own``; see `journal` for why the rest is all old or all new, also after a crash. Two that
    write to one target at the same time come one after the other.

    Parameters
    ----------
    folder : the target
    own : names that only this writer uses; a file of an earlier time that does not come again is removed
    """
    target = Path(os.path.realpath(folder))
    place = nearest(target)
    scratch = None
    try:
        sweep(target.parent)
        with Scratch(place) as scratch:
            inside = scratch.path / journal.NEW / target.relative_to(place)
            inside.mkdir(parents=True)
            with _spelled_as(folder, inside):
                yield inside
            sweep(inside)
            if place == target:
                _swap(scratch, target, own)
            else:
                _appear(scratch.path / journal.NEW, place, inside)
    except OSError as error:
        if isinstance(error, FieldcalError | BrokenPipeError):
            raise
        state = "It is as it was before."
        if scratch is not None and (scratch.path / journal.OLD).is_dir():  # not even the way back was open
            state = f"Some of its files are new already; the earlier ones are in {str(scratch.path / journal.OLD)!r}."
        raise InputError(f"Cannot write in {str(folder)!r}: {reason(error)}. {state}") from None


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files: all are whole before any is in its place, and those of one folder come together."""
    given = {writable(path): path for path in contents}
    folders = {
        folder: [path for path in given if path.parent == folder] for folder in {p.parent for p in given}
    }
    try:
        with contextlib.ExitStack() as stack:
            scratches = {folder: stack.enter_context(Scratch(folder)) for folder in folders}
            for folder, scratch in scratches.items():
                inside = scratch.path / journal.NEW
                inside.mkdir()
                for path in folders[folder]:
                    with (
                        _spelled_as(given[path].parent, inside),
                        _spelled_as(given[path], inside / path.name),
                    ):
                        write_atomically(inside / path.name, contents[given[path]])
            for folder, scratch in scratches.items():
                _swap(scratch, folder, [path.name for path in folders[folder]])
    except OSError as error:
        shown = " and ".join(repr(str(path)) for path in contents)
        raise InputError(f"Cannot write {shown}: {reason(error)}. Nothing was changed.") from None


def check_own(folder: Path, own: Sequence[str]) -> None:
    """Refuse what cannot be replaced: folders, devices and links that have the name of a file to come."""
    for path in (folder / name for name in own):
        if path.is_symlink():
            raise InputError(
                f"Cannot write {str(path)!r}: it is a link, and would not be one any more. Remove it, or choose "
                "another folder."
            )
        writable(path)


@contextlib.contextmanager
def _spelled_as(folder: Path, inside: Path) -> Iterator[None]:
    """Errors about a file on its way name the place where it would have been."""
    try:
        yield
    except FieldcalError as error:
        error.args = tuple(
            part.replace(str(inside), str(folder)) if isinstance(part, str) else part for part in error.args
        )
        raise


def nearest(folder: Path) -> Path:
    """The folder itself, or the first above it that is there."""
    return next(path for path in (folder, *folder.parents) if os.path.lexists(path))


def _appear(made: Path, place: Path, inside: Path) -> None:
    journal.sync(inside)
    (top,) = made.iterdir()
    os.rename(top, place / top.name)
    journal.sync(place)


def _swap(scratch: Scratch, target: Path, own: Sequence[str]) -> None:
    """Into a folder that is there: prepare, decide, move; and back, if a move is refused."""
    with exclusive(target):
        try:
            check_own(target, own)
            journal.prepare(scratch.path, target, own)
            scratch.decide("redo")
            journal.redo(scratch.path)
        except OSError:
            if scratch.path.suffix == ".redo":
                scratch.decide("undo")
            raise
        finally:
            scratch.close()
