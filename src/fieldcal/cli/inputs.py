"""What the commands are given: refused before the work where it cannot be, and read as what it stands for."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcal.cli.output import Settings
from fieldcal.errors import FieldcalError, InputError
from fieldcal.storage import check_own, did_you_mean, nearest, parse, read_bytes

if TYPE_CHECKING:
    from fieldcal.objects import Lab, Prevalence
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


def class_of(prev: Prevalence | Lab, text: str | None) -> Hashable:
    """The class that is spelled so; classes need not be text."""
    if text is None:
        return None
    spelled = {str(c): c for c in reversed(prev.classes)}
    if text not in spelled:
        known = ", ".join(map(str, prev.classes))
        raise InputError(
            f"There is no class {text!r:.60}.{did_you_mean(text, list(spelled))} There are {known:.200}."
        )
    return spelled[text]


_TRUTH = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "0"), False
)


def typed(classes: Sequence[str], relation: Any, label: str) -> list[Hashable]:
    """Classes as the label column spells them: 0 is a number if the labels are numbers."""
    kind = str(dict(zip(relation.columns, relation.types, strict=True)).get(label, "VARCHAR")).upper()
    if kind == "BOOLEAN":  # also what DuckDB makes of a CSV with yes and no
        return [_TRUTH.get(c.lower(), c) for c in classes]
    if not kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")) and "INT" not in kind:
        return list(classes)
    return [int(number) if (number := _whole(c)) is not None else c for c in classes]


def _whole(text: str) -> int | None:
    """A whole number, also as a column with gaps spells it: 1.0."""
    head, _, tail = text.partition(".")
    return int(head) if head.lstrip("+-").isdecimal() and not tail.strip("0") else None
