"""What the commands are given: refused before the work where it cannot be, and read as what it stands for."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcal.cli.output import Settings, working
from fieldcal.errors import FieldcalError, InputError
from fieldcal.storage import check_own, nearest, parse, read_bytes

if TYPE_CHECKING:
    from fieldcal.objects import Prevalence
    from fieldcal.objects.derived import Pairs
    from fieldcal.tables.files.session import Session


@contextmanager
def session(settings: Settings) -> Iterator[Session]:
    """DuckDB, within the limits of --memory-limit and --threads."""

    from fieldcal.tables.files.session import Session

    with Session(memory_limit=settings.memory_limit, threads=settings.threads) as opened:
        yield opened


def check_output(target: Path, inputs: Sequence[str | Path]) -> None:
    """Refuse before the work what cannot be written, or would overwrite an input."""

    from fieldcal.tables.files.paths import check_place

    if str(target) == "-":
        raise InputError(
            "Only tables are written to standard output, by `recalibrate` and `decide`. Name a file."
        )
    check_place(target, _existing(inputs))
    _refuse_streams(target, inputs)


def check_table_target(settings: Settings, target: Path, inputs: Sequence[str | Path]) -> bool:
    """The same for a table; whether it goes to standard output."""
    from fieldcal.tables.files.paths import check_target

    if str(target) != "-":
        check_target(str(target), [])
        check_output(target, inputs)
        return False
    if settings.json:
        raise InputError("--json and -o - both want standard output. Write the table to a file.")
    if sys.__stdout__ is None:
        raise InputError("Standard output is closed. Name a file.")
    return True


def _refuse_streams(target: Path, inputs: Sequence[str | Path]) -> None:
    """Refuse a file that the shell has opened for us: ``- < x`` reads it, ``> x`` writes to it."""
    if not target.exists():
        return
    streams = {1: "standard output goes to", 2: "standard error goes to"}
    streams |= {0: "standard input comes from"} if "-" in map(str, inputs) else {}
    for descriptor, words in streams.items():
        with suppress(OSError):  # it is closed
            if os.path.samestat(os.fstat(descriptor), target.stat()):
                raise InputError(
                    f"The output {str(target)!r} is the file that {words}: one would destroy the other. Choose another "
                    "name."
                )


def _existing(inputs: Iterable[str | Path]) -> list[Path]:
    return [Path(path) for given in inputs for path in (given, *glob.glob(str(given), recursive=True))]


def check_is_no_file(folder: Path, command: str) -> None:
    """Refuse what cannot be a folder, or where none can be made."""
    from fieldcal.tables.files import paths

    if os.path.lexists(folder) and not folder.is_dir():
        what = "a link that leads to no folder" if folder.is_symlink() else "a file"
        raise InputError(
            f"The output {str(folder)!r} is {what}, but `{command}` needs a folder. Choose another name."
        )
    paths.check_folder(nearest(Path(os.path.realpath(folder))))


def refuse_standard_input_twice(inputs: Sequence[str]) -> None:
    """It can be read only once."""
    if inputs.count("-") > 1:
        raise InputError("Only one of the tables can come from standard input. Give the others as files.")


def check_folder(folder: Path, inputs: Sequence[str], files: Sequence[str]) -> None:
    """Refuse before the work a folder that cannot be made, or that holds what is read.

    Parameters
    ----------
    files : what `run` writes into it
    """
    from fieldcal.tables.files.paths import refuse_inputs

    check_is_no_file(folder, "run")
    refuse_standard_input_twice(inputs)
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


def kind_of(path: Path) -> str | None:
    """Whether a file says that it holds a lab, a field or a prevalence; None where it says nothing of the kind."""
    try:
        envelope = parse(read_bytes(path), name=path.name)
    except (FieldcalError, RecursionError):
        return None  # those who read it say what is wrong
    kind = envelope.get("fieldcal") if isinstance(envelope, dict) else None
    return kind if isinstance(kind, str) else None


def pairs_of(settings: Settings, prev: Prevalence, table: str | None, item: list[str] | None) -> Pairs | None:
    """Which rows of an estimate's own table are about the same item, where --paired and --item name them."""
    from fieldcal.tables.files.verbs import pairs_source

    if table is None and item is None:
        return None
    if table is None or item is None:
        raise InputError(
            "Items are compared with both --paired, the table that was counted, and --item, its column of items. Give "
            "both, or neither."
        )
    with session(settings) as opened, working(settings, "pair"):
        source = opened.open(table)
        known = prev.lab.columns
        label = known.label if known is not None and known.label in source.columns else None
        return pairs_source(prev.lab, source, by=list(prev.field.by), item=item, label=label)
