"""fieldcal sql, schema: what goes with the verbs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.options import Settings
from fieldcal.cli.output import as_csv

if TYPE_CHECKING:
    from fieldcal.objects.artefact import Artefact


Dialect = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Of the warehouse: postgres, snowflake, bigquery, duckdb, spark …",
        show_default=False,
    ),
]
TableName = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table in the warehouse: name, or schema.name.")
]

sql = typer.Typer(help="Print statements for a warehouse.")


@sql.command("count")
def sql_count(
    ctx: typer.Context,
    lab_file: opt.LabFile,
    table: TableName,
    dialect: Dialect,
    by: opt.By = None,
    scores: opt.FieldScores = None,
) -> None:
    """Print the statement that counts. Give its result, as CSV or Parquet, to `fieldcal estimate`."""
    from fieldcal.objects import Lab
    from fieldcal.tables.sql import count_statement

    text = count_statement(
        Lab.load(lab_file), table, dialect=dialect, by=opt.names(by), scores=opt.names(scores)
    )
    _statement(ctx.obj, dialect, text)


@sql.command("recalibrate")
def sql_recalibrate(
    ctx: typer.Context,
    prevalence_file: opt.PrevalenceFile,
    table: TableName,
    dialect: Dialect,
    by: opt.By = None,
    scores: opt.FieldScores = None,
    unseen: Annotated[
        Literal["global", "raw"],
        typer.Option(help="Groups never counted: treat as the whole field, or leave alone."),
    ] = "global",
    name: opt.NewName = "{}_recalibrated",
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE", help="Where `fieldcal sql weights` was loaded; without it, they are written out."
        ),
    ] = None,
    acknowledge: opt.Acknowledge = False,
) -> None:
    """Print the statement that adds recalibrated predictions."""
    from fieldcal.objects import Prevalence
    from fieldcal.tables.sql import recalibrate_statement

    text = recalibrate_statement(
        Prevalence.load(prevalence_file),
        table,
        dialect=dialect,
        by=opt.names(by),
        scores=opt.names(scores),
        unseen=unseen,
        name=name,
        weights=weights,
        acknowledge=acknowledge,
    )
    _statement(ctx.obj, dialect, text)


@sql.command("weights")
def sql_weights(ctx: typer.Context, prevalence_file: opt.PrevalenceFile) -> None:
    """Print the weights of the groups as CSV. Load the keys as text."""
    from fieldcal.objects import Prevalence
    from fieldcal.tables.sql import weights_table

    columns = weights_table(Prevalence.load(prevalence_file))
    settings: Settings = ctx.obj
    if settings.json:
        out.result(settings, {"weights": out.records(columns)})
    else:
        sys.stdout.write(as_csv(columns))


def _statement(settings: Settings, dialect: str, text: str) -> None:
    if settings.json:
        out.result(settings, {"dialect": dialect, "statement": text})
    else:  # as it is: names in it must arrive at the warehouse unchanged
        sys.stdout.write(f"{text.rstrip(';')};\n")


def schema(
    ctx: typer.Context,
    kind: Annotated[Literal["lab", "field", "prevalence"], typer.Argument(help="Which artefact.")],
) -> None:
    """Print the JSON schema of an artefact's content."""
    from fieldcal.objects import Field, Lab, Prevalence

    kinds: dict[str, type[Artefact]] = {"lab": Lab, "field": Field, "prevalence": Prevalence}
    found = kinds[kind].model_json_schema(mode="serialization")
    for part in (found, *found.get("$defs", {}).values()):
        part["description"] = part.get("description", "").partition("\n\n")[0]
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
