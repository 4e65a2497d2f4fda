"""fieldcal sql: statements and weights for a warehouse."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Literal

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.apply import DecisionName, Goal, goal_of
from fieldcal.cli.options import ScoreColumns, arguments
from fieldcal.cli.output import Settings

Dialect = Annotated[str, opt.option("Dialect")]
TableName = Annotated[str, opt.argument("TableName")]
Unseen = Annotated[Literal["global", "raw"], opt.option("Unseen")]
CountedLabel = Annotated[str | None, opt.option("CountedLabel")]
Weights = Annotated[str | None, opt.option("Weights")]


def sql_count(
    settings: Settings,
    lab_file: opt.LabFile,
    table: TableName,
    dialect: Dialect,
    columns: ScoreColumns,
    label: CountedLabel = None,
) -> None:
    """Print the statement that counts. Give its result, as CSV or Parquet, to `fieldcal estimate`."""
    from fieldcal.objects import Lab
    from fieldcal.tables.sql import count_statement

    given = arguments(columns)
    text = count_statement(Lab.load(lab_file), table, dialect=dialect, label=label, **given)
    _statement(settings, dialect, text)


def sql_recalibrate(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    table: TableName,
    dialect: Dialect,
    columns: ScoreColumns,
    unseen: Unseen = "global",
    name: opt.NewName = "{}_recalibrated",
    weights: Weights = None,
    acknowledge: opt.Acknowledge = False,
    shape: opt.WeightShape = "auto",
) -> None:
    """Print the statement that adds recalibrated predictions."""
    from fieldcal.objects import Prevalence
    from fieldcal.tables.sql import recalibrate_statement

    text = recalibrate_statement(
        Prevalence.load(prevalence_file),
        table,
        dialect=dialect,
        **arguments(columns),
        unseen=unseen,
        name=name,
        weights=weights,
        acknowledge=acknowledge,
        shape=shape,
    )
    _statement(settings, dialect, text)


def sql_decide(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    table: TableName,
    dialect: Dialect,
    columns: ScoreColumns,
    goal: Goal = "accuracy",
    unseen: Unseen = "global",
    name: DecisionName = "decision",
    recalibrated: Annotated[str, opt.option("recalibrated.sql_decide")] = "{}_recalibrated",
    weights: Weights = None,
    acknowledge: opt.Acknowledge = False,
    shape: opt.WeightShape = "auto",
) -> None:
    """Print the statement that adds recalibrated predictions and the decided class."""
    from fieldcal.objects import Prevalence
    from fieldcal.tables.sql import decide_statement

    prev = Prevalence.load(prevalence_file)
    text = decide_statement(
        prev,
        table,
        dialect=dialect,
        **arguments(columns),
        goal=goal_of(goal, prev.classes),
        unseen=unseen,
        name=name,
        recalibrated=recalibrated,
        weights=weights,
        acknowledge=acknowledge,
        shape=shape,
    )
    _statement(settings, dialect, text)


def sql_weights(
    settings: Settings, prevalence_file: opt.PrevalenceFile, shape: opt.WeightShape = "auto"
) -> None:
    """Print the weights of the groups as CSV. Load the keys as text."""
    from fieldcal.objects import Prevalence
    from fieldcal.tables.sql import weights_table

    columns = weights_table(Prevalence.load(prevalence_file), shape=shape)
    if settings.json:
        out.result(settings, {"weights": out.records(columns)})
    else:
        sys.stdout.write(out.as_csv(columns))


COMMANDS: dict[str, Callable[..., None]] = {
    "count": sql_count,
    "decide": sql_decide,
    "recalibrate": sql_recalibrate,
    "weights": sql_weights,
}


def _statement(settings: Settings, dialect: str, text: str) -> None:
    if settings.json:
        out.result(settings, {"dialect": dialect, "statement": text})
    else:  # as it is: names in it must arrive at the warehouse unchanged
        sys.stdout.write(f"{text.rstrip(';')};\n")
