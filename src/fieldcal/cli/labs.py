"""fieldcal rates, fieldcal extend: labs that are not learnt from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.inputs import check_output
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError


def rates(
    settings: Settings,
    output: opt.Output,
    sensitivity: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="How often the test says positive of positive rows: 0.92."),
    ] = None,
    specificity: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="How often the test says negative of negative rows: 0.97."),
    ] = None,
    confusion: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="In place of the two: a row per true class and a column per value, as numbers of rows, "
            "'388,12;10,110', or as shares with --n.",
        ),
    ] = None,
    n: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS",
            help="The rows behind the rates: positive and negative ones, 120,400; of --confusion one number per class.",
        ),
    ] = None,
    intervals: Annotated[
        str | None,
        typer.Option(
            metavar="ENDS",
            help="In place of --n: the intervals of sensitivity and specificity, '0.85,0.96;0.95,0.98'.",
        ),
    ] = None,
    level: Annotated[float, typer.Option(metavar="LEVEL", help="Probability content of --intervals.")] = 0.95,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="The classes in their order: healthy,ill. By default negative,positive; of --confusion 0,1,…",
            show_default=False,
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="What the test says, in the order of the columns: -,+. By default the classes.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """A lab from published rates of a test, without rows. Count and estimate with it as with any other.

    Example: fieldcal rates --sensitivity 0.92 --specificity 0.97 --n 120,400 -o lab.json, then
    fieldcal count lab.json survey.csv --predictions result --by region -o field.json
    """
    from fieldcal.objects import Lab

    check_output(output, [])
    numbers = [] if n is None else _rows(n, "--n")
    if len(numbers) > 1:
        raise InputError(f"--n must be one row of numbers, such as 120,400, but got {n!r:.60}.")
    lab = Lab.from_rates(
        sensitivity=sensitivity,
        specificity=specificity,
        confusion=None if confusion is None else _rows(confusion, "--confusion"),
        n=numbers[0] if numbers else None,
        intervals=None if intervals is None else _rows(intervals, "--intervals"),
        level=level,
        classes=opt.names(classes),
        values=opt.names(values),
    )
    lab.save(output)
    out.done(settings, out.lab_data(lab), [output], str(lab))


def extend(
    settings: Settings,
    lab_file: opt.LabFile,
    field_file: Annotated[
        Path, typer.Argument(metavar="FIELD.json", help="Counted with this lab, and with labels.")
    ],
    output: opt.Output,
) -> None:
    """The next lab: this one, and the labelled rows of a field. Count fields anew with it.

    Example: fieldcal extend lab.json field.json -o lab2.json
    """
    from fieldcal.objects import Field, Lab

    check_output(output, [lab_file, field_file])
    lab = Lab.load(lab_file).extended(Field.load(field_file))
    lab.save(output)
    out.done(settings, out.lab_data(lab), [output], str(lab))


def _rows(text: str, option: str) -> list[list[float]]:
    """Numbers: commas between those of a row, semicolons between rows.

    Examples
    --------
    >>> from fieldcal.cli.labs import _rows
    >>> _rows("388,12;10,110", "--confusion")
    [[388.0, 12.0], [10.0, 110.0]]
    """
    found: list[list[Any]] = [[opt.number(cell) for cell in row.split(",")] for row in text.split(";")]
    if any(value is None for row in found for value in row):
        raise InputError(f"{option} must be numbers such as '1,2' or '1,2;3,4', but got {text!r:.60}.")
    return found
