"""What the commands do between reading and writing: one function per verb, shared with `run`."""

from __future__ import annotations

import functools
import itertools
import operator
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fieldcal
from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.options import (
    Settings,
    fitting_options,
    intervals_of,
    names,
    prior_of,
    quantile_columns,
    score_names,
    trust_of,
)
from fieldcal.cli.output import check_target, existing, field_or_counts, session, write_csv
from fieldcal.errors import InputError
from fieldcal.storage import did_you_mean

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.reporting import Report
    from fieldcal.tables.files.session import Session, Source


_TRUTH = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "0"), False
)


def learn_stage(
    settings: Settings,
    source: Source,
    *,
    label: str,
    by: list[str] | None,
    scores: Sequence[str] | None,
    quantiles: Sequence[str] | None,
    **options: Any,
) -> Lab:
    """From a table with labels to a Lab, of classes or of a number."""
    if (scores is None) == (quantiles is None):
        raise InputError(
            f"Of --scores and --quantiles {'none is' if scores is None else 'both are'} given, but one is needed: "
            "--scores names columns with probabilities of classes, --quantiles columns with quantiles of a number."
        )
    fitting = fitting_options(options, of_number=scores is None)
    learn = _learn_classes if quantiles is None else _learn_number
    columns = quantile_columns(quantiles) if quantiles is not None else score_names(scores or ())
    source = source.bound(scores=columns, label=label, by=by)
    with out.working(settings, "learn"):
        return learn(source.relation, scores or quantiles or (), label=label, by=by or (), **fitting)


def _learn_classes(
    relation: Any,
    scores: Sequence[str],
    *,
    label: str,
    by: Sequence[str],
    classes: Sequence[str] | None,
    bins: int | None,
    ordered: bool,
    normalize: bool,
) -> Lab:
    from fieldcal import tables

    return tables.learn(
        relation,
        scores=score_names(scores),
        label=label,
        by=by,
        classes=_typed(names(classes), relation, label),
        partition="auto" if bins is None else bins,
        ordered=ordered,
        normalize=normalize,
    )


def _learn_number(relation: Any, quantiles: Sequence[str], *, intervals: str | None, **options: Any) -> Lab:
    from fieldcal.regression import frames

    columns, cut = quantile_columns(quantiles), intervals_of(intervals)
    return frames.learn_table(relation, quantiles=columns, intervals=cut, **options)


def count_stage(settings: Settings, lab: Lab, source: Source, **options: Any) -> Field:
    """From a table of the field to a Field."""
    verbs, fitting = _verbs_of(lab), _of_lab(lab, options)
    columns = fitting.get("scores", fitting.get("quantiles"))
    source = source.bound(lab, scores=columns, by=fitting.get("by"), time=fitting.get("time"))
    with out.working(settings, "count"):
        return verbs.count(lab, source.relation, **fitting)


def estimate_stage(
    settings: Settings, lab: Lab, field: Field, *, trust: str, prior: str, level: float, protected: bool
) -> Prevalence:
    """From a Lab and a Field to a Prevalence."""
    with out.working(settings, "estimate") as progress:
        return fieldcal.estimate(
            lab,
            field,
            trust=trust_of(trust),
            prior=prior_of(prior),
            level=level,
            protected=protected,
            progress=progress,
        )


def recalibrate_stage(
    settings: Settings, prev: Prevalence, session: Session, source: Source, target: Path, **options: Any
) -> int:
    """From a Prevalence and a table to a new file; how many rows it has."""
    verbs, fitting = _verbs_of(prev.lab), _of_lab(prev.lab, options)
    with out.working(settings, "recalibrate"):
        return verbs.recalibrate_file(prev, session, source, str(target), **fitting)


def labelled_stage(settings: Settings, prev: Prevalence, source: Source, **options: Any) -> dict[str, Any]:
    """From a table of the field to its labelled rows."""
    from fieldcal.tables.weight_table import bind

    verbs, fitting = _verbs_of(prev.lab), _of_lab(prev.lab, options)
    columns = fitting.get("scores", fitting.get("quantiles"))
    source = bind(prev, source, scores=columns, by=fitting.get("by"), label=fitting.get("label"))
    with out.working(settings, "read labels"):
        return verbs.read_labelled(prev, source.relation, **fitting)


def report_stage(
    settings: Settings,
    prev: Prevalence,
    target: Path,
    *,
    of: str | None = None,
    title: str | None = None,
    rows: dict[str, Any] | None = None,
) -> Report:
    """From a Prevalence to a page."""
    with out.working(settings, "report"):
        made = fieldcal.report(
            prev.lab, prev.field, prev, of=_class_of(prev, of), title=title, **(rows or {})
        )
        made.save(target)
    return made


@dataclass(frozen=True)
class Verbs:
    """The verbs on tables, for classes or for a number."""

    count: Callable[..., Field]
    recalibrate_file: Callable[..., int]
    read_labelled: Callable[..., dict[str, Any]]


def _verbs_of(lab: Lab) -> Verbs:
    if lab.support is None:
        from fieldcal import tables

        return Verbs(tables.count, tables.recalibrate_file, tables.read_labelled)
    from fieldcal.regression import frames  # which loads much that classes do not need

    return Verbs(frames.count_table, frames.recalibrate_file, frames.read_labelled)


def _of_lab(lab: Lab, options: dict[str, Any]) -> dict[str, Any]:
    """The options that fit what the lab is of; columns of quantiles understood."""
    fitting = fitting_options(options, of_number=lab.support is not None)
    if fitting.get("quantiles") is not None:
        fitting["quantiles"] = quantile_columns(fitting["quantiles"])
    return fitting


def _class_of(prev: Prevalence, text: str | None) -> Hashable:
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


def _typed(classes: list[str] | None, relation: Any, label: str) -> Sequence[Hashable] | None:
    """Classes as the label column spells them: 0 is a number if the labels are numbers."""
    kind = str(dict(zip(relation.columns, relation.types, strict=True)).get(label, "VARCHAR")).upper()
    if classes is None:
        return None
    if kind == "BOOLEAN":  # also what DuckDB makes of a CSV with yes and no
        return [_TRUTH.get(c.lower(), c) for c in classes]
    return [int(c) if "INT" in kind and c.lstrip("+-").isdecimal() else c for c in classes]


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
        lab = learn_stage(
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
    out.result(settings, {**out.lab_data(lab), "written": [str(output)]}, str(lab))
    out.note(settings, f"wrote {output}")


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
        field = count_stage(
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
    out.result(settings, {**out.field_data(field), "written": [str(output)]}, str(field))
    out.note(settings, f"wrote {output}")


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
    from fieldcal.tables.files.paths import is_same

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
    out.result(settings, {**out.field_data(field), "written": [str(output)]}, str(field))
    out.note(settings, f"wrote {output}")


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
    prev = estimate_stage(settings, lab, field, trust=trust, prior=prior, level=level, protected=protected)
    prev.save(output)
    if csv is not None:
        write_csv(prev, csv)
    data = {**out.prevalence_data(prev), "written": list(map(str, targets))}
    out.result(settings, data, *out.table(prev), "", *out.verdict(prev.verdict))
    out.note(settings, f"wrote {' and '.join(map(str, targets))}")


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
    from fieldcal.verbs.recalibrate import check_applicable

    settings: Settings = ctx.obj
    to_stdout = str(output) == "-"
    if to_stdout and settings.json:
        raise InputError("--json and -o - both want standard output. Write the table to a file.")
    if not to_stdout:
        check_target(output, [prevalence_file, table])
    prev = Prevalence.load(prevalence_file)
    check_applicable(prev, acknowledge=acknowledge)
    with session(settings) as opened:
        rows = recalibrate_stage(
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
        out.note(settings, text)
        return
    out.result(settings, {"rows": rows, "written": [str(output)]}, text)
    out.note(settings, f"wrote {output}")


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
        answer = estimate_stage(
            settings, lab, field, trust="auto", prior="auto", level=0.9, protected=False
        ).verdict
    else:
        raise InputError(
            f"check takes PREVALENCE.json, or LAB.json FIELD.json, but got {len(artefacts)} files."
        )
    code = EXIT_CODES[answer.level]
    out.result(settings, {**out.verdict_data(answer), "exit_code": code}, *out.verdict(answer))
    raise typer.Exit(code)


REPORT = "report.html"
_ENDINGS = (".html", ".htm", ".md", ".json")

PageOutput = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Where to write: .html, .md or .json.", show_default=False
    ),
]


def report(
    ctx: typer.Context,
    prevalence_file: opt.PrevalenceFile,
    output: PageOutput,
    of: Annotated[
        str | None,
        typer.Option(metavar="CLASS", help="The class it is about; by default the one corrected most."),
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="The headline.")] = None,
    labelled: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE", help="Field rows, some with labels: predictions before and after are compared."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Of --labelled: the true class; by default as in the lab."),
    ] = None,
    by: opt.By = None,
    scores: opt.FieldScores = None,
    quantiles: opt.FieldQuantiles = None,
) -> None:
    """A page that people read: may I use this, where did it change, how sure is it?"""
    from fieldcal.objects import Prevalence

    settings: Settings = ctx.obj
    if output.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"A report is written as .html, .md or .json, but not {str(output)!r}. Add an ending."
        )
    if labelled is None and (label or by or scores or quantiles):
        raise InputError(
            "--label, --by, --scores and --quantiles are about the table of --labelled, which is not given."
        )
    check_target(output, [prevalence_file, *([labelled] if labelled else [])])
    prev = Prevalence.load(prevalence_file)
    rows = None
    if labelled is not None:
        with session(settings) as opened:
            table, groups, columns = opened.open(labelled), opt.names(by), opt.names(scores)
            rows = labelled_stage(
                settings, prev, table, label=label, by=groups, scores=columns, quantiles=quantiles
            )
    made = report_stage(settings, prev, output, of=of, title=title, rows=rows)
    out.result(settings, {**out.report_data(made), "written": [str(output)]}, str(made))
    out.note(settings, f"wrote {output}")


def beside(settings: Settings, prev: Prevalence, folder: Path) -> Path | None:
    """The page of `run`; None, with a warning, where the libraries for it are not installed."""
    from fieldcal.errors import MissingExtraError

    try:
        report_stage(settings, prev, folder / REPORT)
    except MissingExtraError as error:
        out.warn(settings, f"No {REPORT}: {error}")
        return None
    return folder / REPORT


def demo(
    ctx: typer.Context,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder for the page.")
    ] = Path("fieldcal-demo"),
) -> None:
    """Show it on real data: rodents in trap plots, from training to a page, in under a minute."""
    from fieldcal import demo as portal

    settings: Settings = ctx.obj
    if output.exists() and not output.is_dir():
        raise InputError(
            f"The output {str(output)!r} is a file, but `demo` needs a folder. Choose another name."
        )
    with out.steps(settings, portal.STEPS + 1) as step:
        found = portal.run(step=step)
        step("report")
        output.mkdir(parents=True, exist_ok=True)
        page = output / REPORT
        found.report().save(page)
    data = {**out.prevalence_data(found.prev), "found": portal.sentences(found), "written": [str(page)]}
    parts = [portal.introduction(found), "", portal.table(found), "", *out.verdict(found.prev.verdict), ""]
    out.result(settings, data, *parts, *portal.sentences(found), "", f"The report: {page}")


Options = dict[str, Any]
RECALIBRATED = "recalibrated.parquet"

Folder = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="FOLDER",
        help="The folder for the results; made if missing.",
        show_default=False,
    ),
]


def run(
    ctx: typer.Context,
    lab_table: opt.LabTable,
    field_table: opt.FieldTable,
    label: opt.Label,
    output: Folder,
    scores: opt.Scores = None,
    quantiles: opt.Quantiles = None,
    by: opt.By = None,
    classes: opt.Classes = None,
    bins: opt.BinCount = None,
    ordered: opt.Ordered = False,
    normalize: opt.Normalize = False,
    intervals: opt.Intervals = None,
    crossing: opt.CrossingRows = "error",
    missing: opt.MissingRows = "error",
    batch: opt.Batch = None,
    time: opt.Time = None,
    every: opt.Every = None,
    trust: opt.Trust = "auto",
    prior: opt.Prior = "auto",
    level: opt.Level = 0.9,
    protected: opt.Protected = False,
    unseen: opt.UnseenGroups = "global",
    name: opt.NewName = "{}_recalibrated",
    acknowledge: opt.Acknowledge = False,
) -> None:
    """All four verbs; the results go into a folder."""
    settings: Settings = ctx.obj
    groups = opt.names(by)
    learning: Options = {
        "label": label,
        "scores": scores,
        "quantiles": quantiles,
        "classes": classes,
        "bins": bins,
        "ordered": ordered,
        "normalize": normalize,
        "intervals": intervals,
        "crossing": crossing,
    }
    counting: Options = {"by": groups or [], "missing": missing, "batch": batch, "time": time, "every": every}
    counting["normalize"] = normalize
    estimating: Options = {"trust": trust, "prior": prior, "level": level, "protected": protected}
    applying: Options = {"unseen": unseen, "name": name, "normalize": normalize, "acknowledge": acknowledge}
    applying["missing"] = "error" if missing == "error" else "keep"
    counting["crossing"] = applying["crossing"] = crossing
    _check_folder(output, [lab_table, field_table])
    with session(settings) as opened:
        known, unknown = opened.open(lab_table), opened.open(field_table)
        lab = learn_stage(settings, known, by=_groups_of_lab(settings, groups, known), **learning)
        field = count_stage(settings, lab, unknown, **counting)
        prev = estimate_stage(settings, lab, field, **estimating)
        written = _write_small(settings, output, lab, field, prev)
        rows = _write_large(settings, output, prev, opened, unknown, applying)
    _report(settings, lab, field, prev, rows, written)


def _check_folder(folder: Path, inputs: Sequence[str]) -> None:
    """Refuse before the work a folder that cannot be made, or that holds what is read."""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"The output {str(folder)!r} is a file, but `run` needs a folder. Choose another name."
        )
    if inputs[0] == inputs[1] == "-":
        raise InputError("Only one of the two tables can come from standard input. Give the other as a file.")
    for path in existing(given for given in inputs if given != "-"):
        if folder.resolve() in path.resolve().parents:
            raise InputError(
                f"The output folder {str(folder)!r} holds the input {str(path)!r}, which might be overwritten. Choose "
                "another folder."
            )
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not os.access(place, os.W_OK):
        raise InputError(f"Cannot write in {str(place)!r}: it is read-only. Choose another folder.")


def _groups_of_lab(settings: Settings, groups: list[str] | None, lab: Source) -> list[str] | None:
    """The group columns, if the lab has any of them; without them it teaches all the same, but rehearses nothing."""
    if groups and not set(groups) & set(lab.relation.columns):
        out.warn(settings, f"The lab has no column {groups[0]!r}: nothing can be rehearsed on its groups.")
        return None
    return groups


def _write_small(settings: Settings, folder: Path, lab: Lab, field: Field, prev: Prevalence) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for artefact in (lab, field, prev):
        artefact.save(folder / f"{artefact.kind}.json")
    write_csv(prev, folder / "prevalence.csv")
    written = [folder / name for name in ("lab.json", "field.json", "prevalence.json", "prevalence.csv")]
    page = beside(settings, prev, folder)
    return written if page is None else [*written, page]


def _write_large(
    settings: Settings,
    folder: Path,
    prev: Prevalence,
    opened: Session,
    source: Source,
    options: Options,
) -> int | None:
    """The recalibrated table, and how many rows it has; None if the groups must not be applied."""
    if prev.protected and not options["acknowledge"]:
        out.warn(settings, f"No {RECALIBRATED}: the groups are protected. Use --acknowledge if it is meant.")
        return None
    return recalibrate_stage(settings, prev, opened, source, folder / RECALIBRATED, **options)


def _report(
    settings: Settings, lab: Lab, field: Field, prev: Prevalence, rows: int | None, written: list[Path]
) -> None:
    if rows is not None:
        written = [*written, written[0].with_name(RECALIBRATED)]
    data = {
        "lab": out.lab_data(lab),
        "field": out.field_data(field),
        **out.prevalence_data(prev),
        "rows": rows,
        "written": list(map(str, written)),
    }
    out.result(settings, data, str(lab), str(field), "", *out.table(prev), "", *out.verdict(prev.verdict))
    for path in written:
        out.note(settings, f"wrote {path}")
