"""fieldcal sql dbt: a package of macros, as a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.decisions import DecisionName, Goal, goal_of
from fieldcal.cli.inputs import check_folder
from fieldcal.cli.options import ScoreColumns, arguments
from fieldcal.cli.output import Settings
from fieldcal.cli.show import load_any
from fieldcal.cli.sql import CountedLabel, Dialect, Unseen
from fieldcal.errors import ArtefactError, InputError
from fieldcal.writing import atomic_folder, write_atomically


def sql_dbt(
    settings: Settings,
    artefact: Annotated[
        Path,
        typer.Argument(metavar="FILE.json", help="An estimate; or a lab, of which there is `count` alone."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="The folder of the package.", show_default=False
        ),
    ],
    dialect: Dialect,
    columns: ScoreColumns,
    package: Annotated[
        str, typer.Option(metavar="NAME", help="Macros are called as NAME.recalibrate(ref('predictions')).")
    ] = "fieldcal",
    label: CountedLabel = None,
    goal: Goal = "accuracy",
    unseen: Unseen = "global",
    name: opt.NewName = "{}_recalibrated",
    decision: DecisionName = "decision",
    acknowledge: opt.Acknowledge = False,
    shape: opt.WeightShape = "tilt",
) -> None:
    """Write a dbt package with the macros count, recalibrate and decide; all of it or none.

    Example: fieldcal sql dbt out/prevalence.json --dialect duckdb -o fieldcal_dbt
    """
    from fieldcal.objects import Lab, Prevalence
    from fieldcal.tables.dbt import FILES, dbt_package

    _check_is_ours(output)
    check_folder(output, [str(artefact)], FILES, "sql dbt")
    held, _ = load_any(artefact)
    if not isinstance(held, (Lab, Prevalence)):
        raise ArtefactError(f"{artefact.name} holds a {held.kind!r}, but a lab or a prevalence is needed.")
    made = dbt_package(
        held,
        dialect=dialect,
        package=package,
        **arguments(columns),
        label=label,
        goal=goal_of(goal, held.classes),
        unseen=unseen,
        name=name,
        decision=decision,
        acknowledge=acknowledge,
        shape=shape,
    )
    with atomic_folder(output, own=FILES) as inside:
        for file, text in made.items():
            write_atomically(inside / file, text.encode("utf-8"))
    data = {"package": package, "dialect": dialect, "digest": held.digest}
    verbs = ", ".join(sorted(Path(file).stem for file in made if file.endswith(".sql")))
    out.done(settings, data, [output / file for file in made], f"dbt package {package}: {verbs}")


def _check_is_ours(folder: Path) -> None:
    """Refuse a folder with anything in it that is no package of ours: a project's own files have the same names."""
    from fieldcal.tables.dbt import FILES, MARK

    if not any((folder / name).exists() for name in FILES):
        return
    project = folder / FILES[0]
    if project.is_file() and project.read_bytes().startswith(MARK.encode()):
        return
    raise InputError(
        f"The folder {str(folder)!r} holds files of a package that fieldcal did not write, and would overwrite them. "
        "Choose another folder."
    )
