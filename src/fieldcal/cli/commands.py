"""The commands: read, one stage per verb, write, tell. `cli.run` has the stages of all four verbs."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import fieldcal
from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.inputs import (
    check_is_no_file,
    check_output,
    check_table_target,
    class_of,
    kind_of,
    refuse_standard_input_twice,
    session,
    typed,
)
from fieldcal.cli.labels import (
    Labels,
    Paired,
    add_labels,
    check_of_another_table,
    complete_rows,
    count_with_labels,
    lines_of,
    pairs_of,
    without_blanks,
)
from fieldcal.cli.options import Applying, Counting, Estimating, FieldColumns, LearningOrRates, arguments
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError
from fieldcal.storage import writable, write_together

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.objects.derived import Pairs
    from fieldcal.reporting import Report
    from fieldcal.tables.files.session import Session, Source

EXIT_CODES = {"ok": 0, "care": 2, "do_not_use": 3}
REPORT = "report.html"


def learn(
    settings: Settings, output: opt.Output, options: LearningOrRates, table: opt.LabTable = None
) -> None:
    """Learn from predictions with labels, or from published rates of a test.

    Example: fieldcal learn lab.csv --scores p --positive yes --label churned --by shop -o lab.json

    Rates: fieldcal learn --sensitivity 0.92 --specificity 0.97 --n 120,400 -o lab.json, then
    fieldcal count lab.json survey.csv --predictions result --by region -o field.json
    """
    from fieldcal.objects import Lab

    check_output(output, [] if table is None else [table])
    if table is None:
        if options.of_rates is None:
            raise InputError(
                "learn needs a table of predictions with labels, LAB_TABLE, or published rates of a test: "
                "--sensitivity, --specificity and --n, or --confusion."
            )
        if options.of_a_table is not None:
            raise InputError(
                f"{options.of_a_table} is about a table of predictions, {options.of_rates} about published rates, "
                "which have none. Leave one out."
            )
        lab = Lab.from_rates(**options.for_rates())
    else:
        if options.of_rates is not None:
            raise InputError(f"{options.of_rates} is about published rates, without a table. Leave one out.")
        if options.label is None:
            raise InputError("Name the column with the true class: --label COLUMN.")
        with session(settings) as opened:
            lab = learn_stage(settings, opened.open(table), **options.for_table())
    lab.save(output)
    out.done(settings, out.lab_data(lab), [output], str(lab), *out.positive_lines(lab))


def count(
    settings: Settings,
    lab_file: opt.LabFile,
    table: opt.FieldTable,
    output: opt.Output,
    columns: FieldColumns,
    options: Counting,
    labels: Labels,
) -> None:
    """Count field predictions per group and bin, and labels where some rows have them.

    Example: fieldcal count lab.json field.csv -o field.json
    """
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
    artefacts: Annotated[list[Path], opt.argument("artefacts")],
    output: opt.Output,
    retract: Annotated[list[str] | None, opt.option("retract")] = None,
    only: Annotated[list[str] | None, opt.option("only")] = None,
    start: Annotated[str | None, opt.option("start", "--from")] = None,
    end: Annotated[str | None, opt.option("end", "--until")] = None,
) -> None:
    """Put counts together, exactly and in any order; or labs.

    Example: fieldcal merge monday.json tuesday.json -o both.json
    """
    from fieldcal.objects import Field, Lab
    from fieldcal.tables.files.paths import is_same

    check_output(output, artefacts)
    twice = [b for a, b in itertools.combinations(artefacts, 2) if is_same(a, b)]
    if twice:
        raise InputError(f"{str(twice[0])!r} is given twice, and its rows would count twice. Leave one out.")
    if kind_of(artefacts[0]) == "lab":
        if retract or only or start is not None or end is not None:
            raise InputError("--retract, --only, --from and --until are about fields, but these are labs.")
        lab = functools.reduce(operator.add, map(Lab.load, artefacts))
        lab.save(output)
        out.done(settings, out.lab_data(lab), [output], str(lab))
        return
    field = functools.reduce(operator.add, map(Field.load, artefacts))
    for batch in retract or ():
        field = field.retract(batch)
    if only:
        field = field.only(only)
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
    table: Annotated[Path | None, opt.option("table", "--table", "--csv")] = None,
    by: Annotated[list[str] | None, opt.option("by")] = None,
    missing: opt.MissingRows = "error",
    normalize: opt.Normalize = False,
) -> None:
    """Prevalence of every group, interval, verdict.

    The table: mean prediction (what the model says), under label shift (what the counts say if label shift is all that
    happened; in the file of --table the column urc), estimate (the mean prediction, corrected as far as trust goes; use
    this one), interval, trust (the probability that the whole field moved by label shift in its line, that groups
    differ by it in theirs).

    Example: fieldcal estimate lab.json field.json -o prevalence.json --table prevalence.csv
    """
    from fieldcal.objects import Lab
    from fieldcal.tables.files.paths import is_same

    targets = [output] if table is None else [output, table]
    if table is not None and is_same(table, output):
        raise InputError(
            f"The estimate and its table would both be written to {str(table)!r}. Name another for --table."
        )
    write_table = None if table is None else out.table_format(table)
    for target in targets:
        check_output(target, [lab_file, field_file, *([labels.labelled] if labels.labelled else [])])
    given = arguments(options)
    lab = Lab.load(lab_file)
    field = _field(
        settings, lab, field_file, labels, missing=missing, normalize=normalize, **arguments(columns)
    )
    prev = estimate_stage(settings, lab, field, **given)
    contents = {output: prev.to_json()}
    if table is not None and write_table is not None:
        contents[table] = write_table(prev.to_dict())
    write_together(contents)
    told = out.table(prev, f"{table}" if table else "the table of --table, and in --json")
    out.done(settings, out.prevalence_data(prev), targets, *told, "", *out.verdict(prev.verdict))


def recalibrate(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    table: opt.AnyTable,
    output: opt.TableOutput,
    columns: FieldColumns,
    options: Applying,
) -> None:
    """New predictions: same rows, same order.

    Example: fieldcal recalibrate prevalence.json field.csv -o new.csv
    """
    from fieldcal.objects import Prevalence
    from fieldcal.verbs.recalibrate import check_applicable

    to_stdout = check_table_target(settings, output, [prevalence_file, table])
    prev = Prevalence.load(prevalence_file)
    check_applicable(prev, acknowledge=options.acknowledge, shape=options.shape)
    with session(settings) as opened:
        given = arguments(columns) | arguments(options)
        rows = recalibrate_stage(settings, prev, opened, opened.open(table), output, **given)
    text = out.recalibrated_text(prev, rows)
    if to_stdout:
        out.note(settings, text)
    else:
        data = out.recalibrated_data(prev, rows) | {"verdict": prev.verdict.level}
        out.done(settings, data, [output], text)


def check(
    settings: Settings,
    artefacts: Annotated[list[Path], opt.argument("artefacts.check")],
) -> int:
    """May it be used? Exit code 0: yes; 2: with care; 3: no.

    Example: fieldcal check prevalence.json
    """
    from fieldcal.objects import Lab, Prevalence

    if len(artefacts) == 1:
        prev = Prevalence.load(artefacts[0])
    elif len(artefacts) == 2:
        lab = Lab.load(artefacts[0])
        field = _field(settings, lab, artefacts[1], Labels())
        prev = estimate_stage(settings, lab, field, **arguments(Estimating()))
    else:
        raise InputError(
            f"check takes PREVALENCE.json, or LAB.json FIELD.json, but got {len(artefacts)} files."
        )
    code = EXIT_CODES[prev.verdict.level]
    data = {
        **out.verdict_data(prev.verdict),
        "groups": out.status_data(prev),
        "positive": out.positive_data(prev.lab),
        "exit_code": code,
    }
    out.result(settings, data, *out.verdict(prev.verdict), *out.positive_lines(prev.lab))
    return code


def report(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    output: opt.PageOutput,
    columns: FieldColumns,
    paired: Paired,
    of: Annotated[str | None, opt.option("of")] = None,
    title: Annotated[str | None, opt.option("title")] = None,
    data: Annotated[str | None, opt.option("data")] = None,
    model: Annotated[str | None, opt.option("model")] = None,
    period: Annotated[str | None, opt.option("period")] = None,
    labelled: Annotated[str | None, opt.option("labelled")] = None,
    label: Annotated[str | None, opt.option("label.report")] = None,
) -> None:
    """A page that people read: may I use this, where did it change, how sure is it?

    Example: fieldcal report prevalence.json -o report.html --title "Shops in March"
    """
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
    tables = [table for table in (labelled, paired.paired) if table]
    check_output(output, [prevalence_file, *tables])
    refuse_standard_input_twice(tables)
    prev = Prevalence.load(prevalence_file)
    pairs = pairs_of(settings, prev, paired)
    rows = None
    if labelled is not None:
        with session(settings) as opened:
            rows = _labelled(settings, prev, opened.open(labelled), label=label, **arguments(columns))
    about = {"title": title, "data": data, "model": model, "period": period}
    made = _report(settings, prev, output, of=class_of(prev, of), pairs=pairs, rows=rows, **about)
    out.done(settings, out.report_data(made), [output], str(made))


def demo(
    settings: Settings,
    output: Annotated[Path, opt.option("output", "-o", "--output")] = Path("fieldcal-demo"),
) -> None:
    """Show it on real data: rodents in trap plots, from training to a page, in under a minute."""
    from fieldcal import demo as portal

    check_is_no_file(output, "demo")
    writable(output / REPORT)
    _ = fieldcal.report  # what it needs and is not installed is told before the work
    with out.steps(settings, portal.STEPS + 1) as step:
        found = portal.run(step=step)
        step("report")
        output.mkdir(parents=True, exist_ok=True)
        page = output / REPORT
        found.report().save(page)
    data = {**out.prevalence_data(found.prev), "found": portal.sentences(found), "written": [str(page)]}
    parts = [portal.introduction(found), "", portal.table(found), "", *out.verdict(found.prev.verdict), ""]
    out.result(settings, data, *parts, *portal.sentences(found), "", f"The report: {page}")


VERBS: tuple[Callable[..., int | None], ...] = (learn, count, merge, estimate, recalibrate, check)
PAGES: tuple[Callable[..., int | None], ...] = (report, demo)


# The stages, from a table or an artefact to the next.


def learn_stage(
    settings: Settings,
    source: Source,
    *,
    by: Sequence[str] | None,
    label: str,
    missing: str = "error",
    **given: Any,
) -> Lab:
    """The lab of a table; with ``missing="drop"`` of its rows that have a prediction and a label."""
    from fieldcal import tables

    values = given["predictions"]
    source = source.bound(scores=_predictions(given), predictions=values, label=label, by=by)
    given["partition"] = "auto" if given["partition"] is None else given["partition"]
    if given["classes"] is not None:
        given["classes"] = typed(given["classes"], source.relation, label)
    if given["positive"] is not None:
        given["positive"] = typed([given["positive"]], source.relation, label)[0]
    with out.working(settings, "learn"), lines_of(source):
        relation = source.relation if values is None else without_blanks(source, label)
        if missing == "drop" and values is None:
            relation = complete_rows(settings, source, [label, *_names(_predictions(given))])
        return tables.learn(relation, label=label, by=by or (), **given)


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


def estimate_stage(settings: Settings, lab: Lab, field: Field, **given: Any) -> Prevalence:
    """The estimate, with a moving sign."""
    with out.working(settings, "estimate") as progress:
        return fieldcal.estimate(lab, field, progress=progress, **given)


def recalibrate_stage(
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
    pairs: Pairs | None = None,
    rows: dict[str, Any] | None = None,
    **about: str | None,
) -> Report:
    with out.working(settings, "report"):
        made = fieldcal.report(prev, of=of, pairs=pairs, **about, **(rows or {}))
        made.save(target)
    return made


def _names(columns: Any) -> list[str]:
    if isinstance(columns, Mapping):
        columns = list(columns.values())
    return [columns] if isinstance(columns, str) else list(columns or ())


def _predictions(given: Mapping[str, Any]) -> Any:
    return given.get("quantiles") if given.get("scores") is None else given["scores"]
