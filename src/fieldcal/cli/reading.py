"""What commands read and write: artefacts, tables through DuckDB, and a target that is no input."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fieldcal.cli.settings import Settings

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab
    from fieldcal.tables.files import Session


@contextmanager
def session(settings: Settings) -> Iterator[Session]:
    """DuckDB, within the limits of --memory-limit and --threads."""
    from fieldcal.tables.files import Session

    with Session(memory_limit=settings.memory_limit, threads=settings.threads) as opened:
        yield opened


def field_or_counts(
    settings: Settings,
    lab: Lab,
    path: Path,
    *,
    by: Sequence[str] | None = None,
    missing: Literal["error", "drop"] = "error",
) -> Field:
    """A field from its artefact, or from the table of counts that a warehouse made."""
    from fieldcal import tables
    from fieldcal.objects import Field

    if path.suffix.lower() == ".json":
        return Field.load(path)
    with session(settings) as opened:
        columns = opened.open(path).columns
        keys = [name for name in columns if name.lower().startswith("fieldcal_group_")]
        table = opened.open(path, text=keys)  # a key such as 01 must not become 1
        return tables.read_counts(lab, table.relation, by=by, missing=missing)


def check_target(target: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse before the work what cannot be written, or would overwrite an input."""
    from fieldcal.tables.paths import check_place

    check_place(target, existing(inputs))


def existing(inputs: Iterable[str | Path]) -> list[Path]:
    """The files behind inputs, some of which may be globs."""
    return [Path(path) for given in inputs for path in (given, *glob.glob(str(given), recursive=True))]
