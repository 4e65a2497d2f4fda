"""What the commands are given: checked before the work where that is possible, and opened."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcal.cli.output import Settings, working
from fieldcal.errors import InputError

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


def check_files(settings: Settings, targets: Sequence[str | Path], inputs: Sequence[str]) -> None:
    """Refuse targets that cannot be written, or that are read; one that is text is a table."""
    from fieldcal.tables.files.paths import check_inputs, check_output, check_target

    for target in targets:
        if str(target) != "-":
            if isinstance(target, str):
                check_target(target, [])
            check_output(Path(target), inputs)
        elif isinstance(target, Path):
            raise InputError(
                "Only tables are written to standard output, by `recalibrate` and `decide`. Name a file."
            )
        elif settings.json:
            raise InputError("--json and -o - both want standard output. Write the table to a file.")
        elif sys.__stdout__ is None:
            raise InputError("Standard output is closed. Name a file.")
    check_inputs(inputs)


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
