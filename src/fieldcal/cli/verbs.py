"""fieldcal learn, count, merge, estimate, recalibrate, check."""

from __future__ import annotations

import functools
import itertools
import operator
from pathlib import Path
from typing import Annotated

import typer

from fieldcal.cli import describe, show, stages
from fieldcal.cli import options as opt
from fieldcal.cli.reading import check_target, field_or_counts, session
from fieldcal.cli.settings import Settings
from fieldcal.cli.spreadsheet import write_csv
from fieldcal.errors import InputError

EXIT_CODES = {"ok": 0, "care": 2, "do_not_use": 3}


def learn(
    ctx: typer.Context,
    table: opt.LabTable,
    label: opt.Label,
    output: opt.Output,
    scores: opt.Scores = None,
    quantiles: opt.Quantiles = None,
    by: opt.By = None,
    classes: opt.Classes = None,
    bins: opt.BinCount = None,
    ordered: opt.Ordered = False,
    normalize: opt.Normalize = False,
    intervals: opt.Intervals = None,
    crossing: opt.CrossingRows = "error",
) -> None:
    """Learn from predictions with labels."""
    settings: Settings = ctx.obj
    check_target(output, [table])
    with session(settings) as opened:
        lab = stages.learn_stage(
            settings,
            opened.open(table),
            label=label,
            scores=scores,
            quantiles=quantiles,
            by=opt.names(by),
            classes=classes,
            bins=bins,
            ordered=ordered,
            normalize=normalize,
            intervals=intervals,
            crossing=crossing,
        )
    lab.save(output)
    show.result(settings, {**describe.lab_data(lab), "written": [str(output)]}, str(lab))
    show.note(settings, f"wrote {output}")


def count(
    ctx: typer.Context,
    lab_file: opt.LabFile,
    table: opt.FieldTable,
    output: opt.Output,
    by: opt.By = None,
    scores: opt.FieldScores = None,
    missing: opt.MissingRows = "error",
    batch: opt.Batch = None,
    time: opt.Time = None,
    every: opt.Every = None,
    normalize: opt.Normalize = False,
    quantiles: opt.FieldQuantiles = None,
    crossing: opt.CrossingRows = "error",
) -> None:
    """Count field predictions per group and bin."""
    from fieldcal.objects import Lab

    settings: Settings = ctx.obj
    check_target(output, [lab_file, table])
    lab = Lab.load(lab_file)
    with session(settings) as opened:
        field = stages.count_stage(
            settings,
            lab,
            opened.open(table),
            by=opt.names(by),
            scores=opt.names(scores),
            missing=missing,
            batch=batch,
            time=time,
            every=every,
            normalize=normalize,
            quantiles=quantiles,
            crossing=crossing,
        )
    field.save(output)
    show.result(settings, {**describe.field_data(field), "written": [str(output)]}, str(field))
    show.note(settings, f"wrote {output}")


def merge(
    ctx: typer.Context,
    fields: Annotated[
        list[Path], typer.Argument(metavar="FIELD.json...", help="Fields counted with the same lab.")
    ],
    output: opt.Output,
    retract: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Take the batch of this name out again.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Only batches named after this time or later."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Only batches named after a time before this."),
    ] = None,
) -> None:
    """Put counts together, exactly and in any order."""
    from fieldcal.objects import Field
    from fieldcal.tables.paths import is_same

    settings: Settings = ctx.obj
    check_target(output, fields)
    twice = [b for a, b in itertools.combinations(fields, 2) if is_same(a, b)]
    if twice:
        raise InputError(f"{str(twice[0])!r} is given twice, and its rows would count twice. Leave one out.")
    field = functools.reduce(operator.add, map(Field.load, fields))
    for batch in retract or ():
        field = field.retract(batch)
    if start is not None or end is not None:
        field = field.window(start, end)
    field.save(output)
    show.result(settings, {**describe.field_data(field), "written": [str(output)]}, str(field))
    show.note(settings, f"wrote {output}")


def estimate(
    ctx: typer.Context,
    lab_file: opt.LabFile,
    field_file: opt.FieldFile,
    output: opt.Output,
    trust: opt.Trust = "auto",
    prior: opt.Prior = "auto",
    level: opt.Level = 0.9,
    protected: opt.Protected = False,
    csv: opt.Csv = None,
    by: opt.CountedBy = None,
    missing: opt.MissingRows = "error",
) -> None:
    """Prevalence of every group, interval, verdict."""
    from fieldcal.objects import Lab

    settings: Settings = ctx.obj
    targets = [output] if csv is None else [output, csv]
    for target in targets:
        check_target(target, [lab_file, field_file])
    lab = Lab.load(lab_file)
    field = field_or_counts(settings, lab, field_file, by=opt.names(by), missing=missing)
    prev = stages.estimate_stage(
        settings, lab, field, trust=trust, prior=prior, level=level, protected=protected
    )
    prev.save(output)
    if csv is not None:
        write_csv(prev, csv)
    data = {**describe.prevalence_data(prev), "written": list(map(str, targets))}
    show.result(settings, data, *show.table(prev), "", *show.verdict(prev.verdict))
    show.note(settings, f"wrote {' and '.join(map(str, targets))}")


def recalibrate(
    ctx: typer.Context,
    prevalence_file: opt.PrevalenceFile,
    table: opt.AnyTable,
    output: opt.TableOutput,
    by: opt.By = None,
    scores: opt.FieldScores = None,
    unseen: opt.UnseenGroups = "global",
    missing: opt.KeptRows = "error",
    name: opt.NewName = "{}_recalibrated",
    normalize: opt.Normalize = False,
    acknowledge: opt.Acknowledge = False,
    quantiles: opt.FieldQuantiles = None,
    crossing: opt.CrossingRows = "error",
) -> None:
    """New predictions: same rows, same order."""
    from fieldcal.objects import Prevalence
    from fieldcal.verbs.recalibration import check_applicable

    settings: Settings = ctx.obj
    to_stdout = str(output) == "-"
    if to_stdout and settings.json:
        raise InputError("--json and -o - both want standard output. Write the table to a file.")
    if not to_stdout:
        check_target(output, [prevalence_file, table])
    prev = Prevalence.load(prevalence_file)
    check_applicable(prev, acknowledge=acknowledge)
    with session(settings) as opened:
        rows = stages.recalibrate_stage(
            settings,
            prev,
            opened,
            opened.open(table),
            output,
            by=opt.names(by),
            scores=opt.names(scores),
            unseen=unseen,
            missing=missing,
            name=name,
            normalize=normalize,
            acknowledge=acknowledge,
            quantiles=quantiles,
            crossing=crossing,
        )
    text = f"{rows:,} rows recalibrated"
    if to_stdout:
        show.note(settings, text)
        return
    show.result(settings, {"rows": rows, "written": [str(output)]}, text)
    show.note(settings, f"wrote {output}")


def check(
    ctx: typer.Context,
    artefacts: Annotated[
        list[Path],
        typer.Argument(
            metavar="PREVALENCE.json | LAB.json FIELD.json", help="An estimate, or what makes one."
        ),
    ],
) -> None:
    """May it be used? Exit code 0: yes; 2: with care; 3: no."""
    from fieldcal.objects import Lab, Prevalence

    settings: Settings = ctx.obj
    if len(artefacts) == 1:
        answer = Prevalence.load(artefacts[0]).verdict
    elif len(artefacts) == 2:
        lab = Lab.load(artefacts[0])
        field = field_or_counts(settings, lab, artefacts[1])
        answer = stages.estimate_stage(
            settings, lab, field, trust="auto", prior="auto", level=0.9, protected=False
        ).verdict
    else:
        raise InputError(
            f"check takes PREVALENCE.json, or LAB.json FIELD.json, but got {len(artefacts)} files."
        )
    code = EXIT_CODES[answer.level]
    show.result(settings, {**describe.verdict_data(answer), "exit_code": code}, *show.verdict(answer))
    raise typer.Exit(code)
