"""The commands: read, one stage per verb, write, tell. `run` has the stages of all four verbs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fieldcal
from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli import shares
from fieldcal.cli.inputs import (
    check_folder,
    check_is_no_file,
    check_output,
    check_table_target,
    class_of,
    refuse_standard_input_twice,
    session,
    typed,
)
from fieldcal.cli.labels import (
    FieldLabels,
    Labels,
    add_labels,
    check_of_another_table,
    count_with_labels,
    lines_of,
    relation_of,
    without_blanks,
)
from fieldcal.cli.options import Applying, Counting, Estimating, FieldColumns, Learning, arguments
from fieldcal.cli.output import Settings
from fieldcal.cli.shares import DIFFERENCES, SHARES
from fieldcal.errors import InputError
from fieldcal.writing import (
    atomic_folder,
    writable,
    write_atomically,
    write_together,
)

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.objects.comparison import Comparison
    from fieldcal.objects.pairs import Pairs
    from fieldcal.reporting import Report
    from fieldcal.tables.files.session import Session, Source

EXIT_CODES = {"ok": 0, "care": 2, "do_not_use": 3}
REPORT = "report.html"
RECALIBRATED = "recalibrated.parquet"
TABLE = "prevalence.csv"
#: What `run` writes; of an earlier run, what is not written again goes.
RUN_FILES = ("lab.json", "field.json", "prevalence.json", TABLE, SHARES, DIFFERENCES, RECALIBRATED, REPORT)


def learn(settings: Settings, table: opt.LabTable, output: opt.Output, options: Learning) -> None:
    """Learn from predictions with labels."""
    check_output(output, [table])
    with session(settings) as opened:
        lab = _learn(settings, opened.open(table), **arguments(options))
    lab.save(output)
    out.done(settings, out.lab_data(lab), [output], str(lab))


def count(
    settings: Settings,
    lab_file: opt.LabFile,
    table: opt.FieldTable,
    output: opt.Output,
    columns: FieldColumns,
    options: Counting,
    labels: Labels,
) -> None:
    """Count field predictions per group and bin, and labels where some rows have them."""
    from fieldcal.objects import Lab

    inputs = [table, *([labels.labelled] if labels.labelled else [])]
    check_output(output, [lab_file, *inputs])
    refuse_standard_input_twice(inputs)
    lab = Lab.load(lab_file)
    with session(settings) as opened:
        given = arguments(columns) | arguments(options)
        field = count_with_labels(settings, lab, opened, opened.open(table), labels, **given)
    field.save(output)
    out.done(settings, out.field_data(field), [output], str(field))


def merge(
    settings: Settings,
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

    check_output(output, fields)
    twice = [b for a, b in itertools.combinations(fields, 2) if is_same(a, b)]
    if twice:
        raise InputError(f"{str(twice[0])!r} is given twice, and its rows would count twice. Leave one out.")
    field = functools.reduce(operator.add, map(Field.load, fields))
    for batch in retract or ():
        field = field.retract(batch)
    if start is not None or end is not None:
        field = field.window(start, end)
    field.save(output)
    out.done(settings, out.field_data(field), [output], str(field))


def estimate(
    settings: Settings,
    lab_file: opt.LabFile,
    field_file: opt.FieldFile,
    output: opt.Output,
    options: Estimating,
    labels: Labels,
    columns: FieldColumns,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write the table of prevalences here.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS", help="With a table of counts or of labels: the names of its group columns."
        ),
    ] = None,
    missing: opt.MissingRows = "error",
) -> None:
    """Prevalence of every group, interval, verdict.

    The table: mean prediction (what the model says), under label shift (what the counts say if label shift is all that
    happened; column urc), estimate (their mean, weighed by trust; use this one), interval, trust (the probability that
    the whole field moved by label shift in its line, that groups differ by it in theirs).
    """
    from fieldcal.objects import Lab
    from fieldcal.tables.files.paths import is_same

    targets = [output] if csv is None else [output, csv]
    if csv is not None and is_same(csv, output):
        raise InputError(
            f"The estimate and its table would both be written to {str(csv)!r}. Name another for --csv."
        )
    for target in targets:
        check_output(target, [lab_file, field_file, *([labels.labelled] if labels.labelled else [])])
    given = arguments(options)
    lab = Lab.load(lab_file)
    field = _field(settings, lab, field_file, labels, missing=missing, **arguments(columns))
    prev = _estimate(settings, lab, field, **given)
    contents = {output: prev.to_json()}
    if csv is not None:
        contents[csv] = out.prevalence_csv(prev)
    write_together(contents)
    out.done(settings, out.prevalence_data(prev), targets, *out.table(prev), "", *out.verdict(prev.verdict))


def recalibrate(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    table: opt.AnyTable,
    output: opt.TableOutput,
    columns: FieldColumns,
    options: Applying,
) -> None:
    """New predictions: same rows, same order."""
    from fieldcal.objects import Prevalence
    from fieldcal.verbs.recalibrate import check_applicable

    to_stdout = check_table_target(settings, output, [prevalence_file, table])
    prev = Prevalence.load(prevalence_file)
    check_applicable(prev, acknowledge=options.acknowledge, shape=options.shape)
    with session(settings) as opened:
        given = arguments(columns) | arguments(options)
        rows = _recalibrate(settings, prev, opened, opened.open(table), output, **given)
    text = out.recalibrated_text(prev, rows)
    if to_stdout:
        out.note(settings, text)
    else:
        data = out.recalibrated_data(prev, rows) | {"verdict": prev.verdict.level}
        out.done(settings, data, [output], text)


def check(
    settings: Settings,
    artefacts: Annotated[
        list[Path],
        typer.Argument(
            metavar="PREVALENCE.json | LAB.json FIELD.json", help="An estimate, or what makes one."
        ),
    ],
) -> int:
    """May it be used? Exit code 0: yes; 2: with care; 3: no."""
    from fieldcal.objects import Lab, Prevalence

    if len(artefacts) == 1:
        prev = Prevalence.load(artefacts[0])
    elif len(artefacts) == 2:
        lab = Lab.load(artefacts[0])
        field = _field(settings, lab, artefacts[1], Labels())
        prev = _estimate(settings, lab, field, **arguments(Estimating()))
    else:
        raise InputError(
            f"check takes PREVALENCE.json, or LAB.json FIELD.json, but got {len(artefacts)} files."
        )
    code = EXIT_CODES[prev.verdict.level]
    out.result(settings, {**out.verdict_data(prev.verdict), "exit_code": code}, *out.verdict(prev.verdict))
    return code


def run(
    settings: Settings,
    lab_table: opt.OneOrBothTables,
    output: opt.Folder,
    learning: Learning,
    counting: Counting,
    estimating: Estimating,
    applying: Applying,
    labelling: FieldLabels,
    field_table: opt.MaybeFieldTable = None,
    item: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="With --predictions: what a row is about, such as the id of a question, so that slices are compared "
            "on the same items.",
            show_default=False,
        ),
    ] = None,
    recalibrated: Annotated[
        bool,
        typer.Option(
            "--recalibrated",
            help="With --predictions: also write the probability of each class for every row.",
        ),
    ] = False,
) -> None:
    """All four verbs; the results go into a folder, all of them or none.

    A report that cannot be made is a warning: the rest is there. Other files in the folder stay.

    With --predictions, the values of a judge, it writes the share of each class in every slice and how slices differ:
    fieldcal run judged.csv --predictions verdict --label human --by model --design random -o out
    """
    applying = dataclasses.replace(applying, missing="error" if counting.missing == "error" else "keep")
    given, applied, estimated = arguments(learning), arguments(applying), arguments(estimating)
    groups, of_values = given.pop("by"), learning.predictions is not None
    given["design"] = learning.design if of_values else None
    labels = _labels_of_run(learning, labelling.labels, field_table)
    _check_run(of_values, field_table, item, recalibrated)
    if applying.shape == "bins" and labels.label is None and labels.labelled is None:
        raise InputError(
            "--shape bins needs labels of field rows, but none are given. Give them with --field-label or --labelled, "
            "or leave it out."
        )
    tables = [lab_table, *([field_table] if field_table else [])]
    check_folder(output, [*tables, *([labels.labelled] if labels.labelled else [])], RUN_FILES)
    earlier = [name for name in RUN_FILES if (output / name).exists()]
    with session(settings) as opened:
        known = opened.open(lab_table)
        unknown = known if field_table is None else opened.open(field_table)
        lab = _learn(settings, known, by=_groups_of_lab(settings, groups, known), **given)
        counted: dict[str, Any] = {"by": groups or [], "scores": None, **arguments(counting)}
        field = count_with_labels(settings, lab, opened, unknown, labels, **counted)
        prev = _estimate(settings, lab, field, **estimated)
        paired = {
            "by": groups or [],
            "item": opt.names(item),
            "label": labels.label,
            "missing": counting.missing,
        }
        pairs = None if item is None else _pairs(settings, lab, unknown, **paired)
        found = shares.compared(settings, prev, pairs) if of_values else []
        rows = None
        with atomic_folder(output, own=RUN_FILES) as inside:
            _write_artefacts(inside, lab, field, prev, found)
            if of_values and not recalibrated:
                pass
            elif prev.protected and not applying.acknowledge:
                out.warn(
                    settings,
                    f"No {RECALIBRATED}: the groups are protected. Use --acknowledge if it is meant.",
                )
            else:
                rows = _recalibrate(settings, prev, opened, unknown, inside / RECALIBRATED, **applied)
            _write_report(settings, prev, inside / REPORT)
            made = [name for name in RUN_FILES if (inside / name).exists()]
    for name in earlier:
        if name not in made:
            out.warn(settings, f"{str(output / name)!r} was of an earlier run, and is removed.")
    data = {
        "lab": out.lab_data(lab),
        "field": out.field_data(field),
        **out.prevalence_data(prev),
        **({"differences": [c.to_dict() for c in found]} if of_values else {}),
        **out.recalibrated_data(prev, rows),
    }
    told = shares.parts(prev, found) if of_values else out.table(prev)
    parts = [str(lab), str(field), "", *told, "", *out.verdict(prev.verdict)]
    parts += [] if rows is None else ["", out.recalibrated_text(prev, rows)]
    out.done(settings, data, [output / name for name in made], *parts)


def _check_run(of_values: bool, field_table: str | None, item: Any, recalibrated: bool) -> None:
    """Refuse one table where two are needed, and options of values without them."""
    if of_values:
        return
    if field_table is None:
        raise InputError(
            "run needs two tables, LAB_TABLE with labels and FIELD_TABLE. One is enough for the values of a judge, "
            "some rows of which have labels: name them with --predictions."
        )
    for name, value in (("--item", item), ("--recalibrated", recalibrated or None)):
        if value is not None:
            raise InputError(f"{name} goes with --predictions, the values of a judge. Leave it out.")


def _labels_of_run(learning: Learning, labels: Labels, field_table: str | None) -> Labels:
    """Of one table, the labels of the lab are the field's; --design is about the lab's where the field has none."""
    if learning.predictions is None:
        return labels
    if field_table is None and labels.label is None and labels.labelled is None:
        return dataclasses.replace(labels, label=learning.label)
    has_labels = labels.label is not None or labels.labelled is not None
    return labels if has_labels else dataclasses.replace(labels, design=None)


def report(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    output: opt.PageOutput,
    columns: FieldColumns,
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
) -> None:
    """A page that people read: may I use this, where did it change, how sure is it?"""
    from fieldcal.objects import Prevalence

    if output.suffix.lower() not in (".html", ".htm", ".md", ".json"):
        raise InputError(
            f"A report is written as .html, .md or .json, but not {str(output)!r}. Add an ending."
        )
    if labelled is None and (label or any(vars(columns).values())):
        raise InputError(
            "--label, --by, --scores, --quantiles and --predictions are about the table of --labelled, which is not "
            "given."
        )
    check_output(output, [prevalence_file, *([labelled] if labelled else [])])
    prev = Prevalence.load(prevalence_file)
    rows = None
    if labelled is not None:
        with session(settings) as opened:
            rows = _labelled(settings, prev, opened.open(labelled), label=label, **arguments(columns))
    made = _report(settings, prev, output, of=class_of(prev, of), title=title, rows=rows)
    out.done(settings, out.report_data(made), [output], str(made))


def demo(
    settings: Settings,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder for the page.")
    ] = Path("fieldcal-demo"),
) -> None:
    """Show it on real data: rodents in trap plots, from training to a page, in under a minute."""
    from fieldcal import demo as portal

    check_is_no_file(output, "demo")
    writable(output / REPORT)
    with out.steps(settings, portal.STEPS + 1) as step:
        found = portal.run(step=step)
        step("report")
        output.mkdir(parents=True, exist_ok=True)
        page = output / REPORT
        found.report().save(page)
    data = {**out.prevalence_data(found.prev), "found": portal.sentences(found), "written": [str(page)]}
    parts = [portal.introduction(found), "", portal.table(found), "", *out.verdict(found.prev.verdict), ""]
    out.result(settings, data, *parts, *portal.sentences(found), "", f"The report: {page}")


COMMANDS: tuple[Callable[..., int | None], ...] = (
    *(learn, count, merge, estimate, recalibrate, check),
    *(run, report, demo),
)


# The stages, from a table or an artefact to the next.


def _learn(settings: Settings, source: Source, *, by: Sequence[str] | None, label: str, **given: Any) -> Lab:
    from fieldcal import tables

    values = given["predictions"]
    source = source.bound(scores=_predictions(given), predictions=values, label=label, by=by)
    bins = given.pop("bins")
    given["partition"] = "auto" if bins is None else fieldcal.Edges(bins) if isinstance(bins, list) else bins
    given["classes"] = typed(given["classes"], source.relation, label)
    with out.working(settings, "learn"), lines_of(source):
        relation = source.relation if values is None else without_blanks(source, label)
        return tables.learn(relation, label=label, by=by or (), **given)


def _pairs(settings: Settings, lab: Lab, source: Source, **given: Any) -> Pairs:
    from fieldcal import tables

    relation = relation_of(lab, source, given)
    with out.working(settings, "pair"), lines_of(source):
        return tables.pairs(lab, relation, **given)


def _field(settings: Settings, lab: Lab, path: Path, labels: Labels, **given: Any) -> Field:
    """A field from its artefact, or from the table of counts that a warehouse made; and labels of another table."""
    from fieldcal import tables
    from fieldcal.objects import Field

    is_artefact = path.suffix.lower() == ".json"
    check_of_another_table(labels, given, is_artefact=is_artefact)
    with session(settings) as opened:
        if is_artefact:
            field = Field.load(path)
        else:
            counts: dict[str, Any] = {n: given[n] for n in ("by", "missing") if n in given}
            counts["design"] = "random" if labels.labelled or not labels.design else labels.design
            field = tables.read_counts(lab, opened.open(path).relation, **counts)
        if labels.labelled is None:
            return field
        return add_labels(settings, lab, field, opened.open(labels.labelled), labels, **given)


def _estimate(settings: Settings, lab: Lab, field: Field, **given: Any) -> Prevalence:
    with out.working(settings, "estimate") as progress:
        return fieldcal.estimate(lab, field, progress=progress, **given)


def _recalibrate(
    settings: Settings, prev: Prevalence, session: Session, source: Source, target: Path, **given: Any
) -> int:
    """How many rows were written."""
    from fieldcal import tables

    with out.working(settings, "recalibrate"), lines_of(source):
        return tables.recalibrate_file(prev, session, source, str(target), **given)


def _labelled(settings: Settings, prev: Prevalence, source: Source, **given: Any) -> dict[str, Any]:
    from fieldcal import tables
    from fieldcal.tables.weight_table import bind

    named: dict[str, Any] = {name: given[name] for name in ("by", "label", "predictions")}
    source = bind(prev, source, scores=_predictions(given), **named)
    with out.working(settings, "read labels"):
        return tables.read_labelled(prev, source.relation, **given)


def _report(
    settings: Settings,
    prev: Prevalence,
    target: Path,
    *,
    of: Hashable = None,
    title: str | None = None,
    rows: dict[str, Any] | None = None,
) -> Report:
    with out.working(settings, "report"):
        made = fieldcal.report(prev, of=of, title=title, **(rows or {}))
        made.save(target)
    return made


def _predictions(given: Mapping[str, Any]) -> Any:
    """The columns of scores or of quantiles, as far as they are named."""
    return given.get("quantiles") if given.get("scores") is None else given["scores"]


# What goes into `run`'s folder.


def _write_artefacts(folder: Path, lab: Lab, field: Field, prev: Prevalence, found: list[Comparison]) -> None:
    for artefact in (lab, field, prev):
        artefact.save(folder / f"{artefact.kind}.json")
    columns = shares.share_columns(prev) if lab.of_values else prev.to_dict()
    write_atomically(folder / (SHARES if lab.of_values else TABLE), out.safe_csv(columns))
    if found:
        write_atomically(folder / DIFFERENCES, out.safe_csv(shares.difference_columns(found)))


def _write_report(settings: Settings, prev: Prevalence, page: Path) -> None:
    """What stops the page from being made is a warning; what stops it from being written stops the whole."""
    try:
        with out.working(settings, "report"):
            text = fieldcal.report(prev).html()
    except Exception as error:
        if settings.debug:
            traceback.print_exception(error)
        out.warn(settings, f"No {page.name}: {out.explain(error)}")
        return
    write_atomically(page, text.encode("utf-8"))


def _groups_of_lab(settings: Settings, groups: list[str] | None, lab: Source) -> list[str] | None:
    """The group columns, if the lab has any of them; without them it teaches all the same, but rehearses nothing."""
    if groups and not set(groups) & set(lab.relation.columns):
        out.warn(settings, f"The lab has no column {groups[0]!r}: nothing can be rehearsed on its groups.")
        return None
    return groups
