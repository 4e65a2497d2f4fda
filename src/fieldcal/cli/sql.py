"""sql: statements and weights for a warehouse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command


@command("tables.sql:count_statement", name="sql count")
def count(settings: Settings, lab_file: Path, table: str, **given: Any) -> None:
    """Print the statement that counts. Give its result, as CSV or Parquet, to `fieldcal estimate`."""
    from fieldcal.tables.sql import count_statement

    _print(settings, given, count_statement(fieldcal.Lab.load(lab_file), table, **given))


@command("tables.sql:recalibrate_statement", name="sql recalibrate")
def recalibrate(settings: Settings, prevalence_file: Path, table: str, **given: Any) -> None:
    """Print the statement that adds recalibrated predictions."""
    from fieldcal.tables.sql import recalibrate_statement

    _print(settings, given, recalibrate_statement(fieldcal.Prevalence.load(prevalence_file), table, **given))


@command("tables.sql:decide_statement", name="sql decide")
def decide(settings: Settings, prevalence_file: Path, table: str, **given: Any) -> None:
    """Print the statement that adds recalibrated predictions and the decided class."""
    from fieldcal.tables.files.costs_and_shares import goal_of
    from fieldcal.tables.sql import decide_statement

    prev = fieldcal.Prevalence.load(prevalence_file)
    goal = goal_of(given["goal"], prev.classes)
    _print(settings, given, decide_statement(prev, table, **given | {"goal": goal}))


@command("tables.weight_table:weights_table", name="sql weights")
def weights(settings: Settings, prevalence_file: Path, **given: Any) -> None:
    """Print the weights of the groups as CSV. Load the keys as text."""
    from fieldcal.tables.files.formats import as_csv, records
    from fieldcal.tables.sql import weights_table

    columns = weights_table(fieldcal.Prevalence.load(prevalence_file), **given)
    if settings.json:
        out.result(settings, {"weights": records(columns)})
    else:
        sys.stdout.write(as_csv(columns))


def _print(settings: Settings, given: dict[str, Any], statement: str) -> None:
    if settings.json:
        out.result(settings, {"dialect": given["dialect"], "statement": statement})
    else:  # as it is: names in it must arrive at the warehouse unchanged
        sys.stdout.write(f"{statement.rstrip(';')};\n")


COMMANDS = (count, decide, recalibrate, weights)
