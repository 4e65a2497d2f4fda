"""Rows of values that are about the same item, so that groups are compared on the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.inputs import session
from fieldcal.cli.labels import lines_of, relation_of
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from fieldcal.objects import Lab, Prevalence
    from fieldcal.objects.derived import Pairs
    from fieldcal.tables.files.session import Source

Item = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="Of values: what a row is about, such as the id of a question, so that groups are compared on the same "
        "items.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Where the items are."""

    paired: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Of values: the table that was counted, with the column of --item.",
            show_default=False,
        ),
    ] = None
    item: Item = None


def pairs_of(settings: Settings, prev: Prevalence, given: Paired) -> Pairs | None:
    """The pairs of an estimate's own rows, where they are asked for."""
    if given.paired is None and given.item is None:
        return None
    if given.paired is None or given.item is None:
        raise InputError(
            "Items are compared with both --paired, the table that was counted, and --item, its column of items. Give "
            "both, or neither."
        )
    with session(settings) as opened:
        source = opened.open(given.paired)
        held = prev.lab.columns
        label = held.label if held is not None and held.label in source.columns else None
        by = list(prev.field.by)
        return read_pairs(settings, prev.lab, source, by=by, item=opt.names(given.item), label=label)


def read_pairs(settings: Settings, lab: Lab, source: Source, **given: Any) -> Pairs:
    """The pairs of a table."""
    from fieldcal import tables

    relation = relation_of(lab, source, given)
    with out.working(settings, "pair"), lines_of(source):
        return tables.pairs(lab, relation, **given)
