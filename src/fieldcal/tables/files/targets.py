"""Whether results may be written where somebody asks for them: refused before the work."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from fieldcal.errors import InputError
from fieldcal.storage import check_own, nearest
from fieldcal.tables.files import paths


def check_output(target: Path, inputs: Sequence[str]) -> None:
    """Refuse a file that cannot be written, or that is read; tables may go to standard output, ``-``."""
    paths.check_place(target, _existing(inputs))
    _refuse_streams(target, inputs)


def check_folder(folder: Path, inputs: Sequence[str], files: Sequence[str]) -> None:
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
        paths.refuse_inputs(target, read)
        _refuse_streams(target, inputs)


def check_is_no_file(folder: Path, command: str) -> None:
    """Refuse what cannot be a folder, or where none can be made."""
    if os.path.lexists(folder) and not folder.is_dir():
        what = "a link that leads to no folder" if folder.is_symlink() else "a file"
        raise InputError(
            f"The output {str(folder)!r} is {what}, but `{command}` needs a folder. Choose another name."
        )
    paths.check_folder(nearest(Path(os.path.realpath(folder))))


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
        with suppress(OSError):  # it is closed
            if os.path.samestat(os.fstat(descriptor), target.stat()):
                raise InputError(
                    f"The output {str(target)!r} is the file that {words}: one would destroy the other. Choose another "
                    "name."
                )
