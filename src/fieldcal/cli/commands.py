"""The commands of the four verbs and their artefacts: learn, count, merge, estimate, recalibrate, check."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.inputs import session
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command, flags_of, parameters_of, taken
from fieldcal.errors import InputError
from fieldcal.option_rows import OPTIONS
from fieldcal.storage import write_together

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.tables.files.session import Session, Source

EXIT_CODES = {"ok": 0, "care": 2, "do_not_use": 3}
LEARN, RATES = "tables.learn:learn", "objects.lab:Lab.from_rates"
COUNT, ESTIMATE, RECALIBRATE = (
    "tables.count:count",
    "verbs.estimate:estimate",
    "tables.recalibrate:recalibrate",
)
#: Options of `count` that a table of labels, given to a later command, does not have.
NOT_OF_LABELS = ("batch", "time", "every", "crossing")


@command(LEARN, RATES, reads=["table"], writes=["output"])
def learn(
    settings: Settings,
    table: str | None = None,
    *,
    output: Path,
    label: str | None = None,
    **given: Any,
) -> None:
    """Learn from predictions with labels, or from published rates of a test.

    Example: fieldcal learn lab.csv --scores p --positive yes --label churned --by shop -o lab.json

    Rates: fieldcal learn --sensitivity 0.92 --specificity 0.97 --n 120,400 -o lab.json, then
    fieldcal count lab.json survey.csv --predictions result --by region -o field.json
    """
    from fieldcal.objects import describe
    from fieldcal.tables.files.verbs import learn_source

    given["label"] = label
    of_rates, of_a_table = _given_only(RATES, LEARN, given), _given_only(LEARN, RATES, given)
    if table is None:
        _check_rates(of_rates, of_a_table)
        intervals = None if given["intervals"] == "auto" else given["intervals"]
        lab = fieldcal.Lab.from_rates(**taken(RATES, given) | {"intervals": intervals})
    else:
        if of_rates is not None:
            raise InputError(f"{of_rates} is about published rates, without a table. Leave one out.")
        if label is None:
            raise InputError("Name the column with the true class: --label COLUMN.")
        with session(settings) as opened, out.working(settings, "learn"):
            lab = learn_source(opened.open(table), **taken(LEARN, given))
    lab.save(output)
    out.done(settings, describe.lab_data(lab), [output], str(lab), *describe.positive_lines(lab))


def _given_only(verb: str, other: str, given: Mapping[str, Any]) -> str | None:
    """The first given option that one of two verbs has alone."""
    for name, parameter in parameters_of(verb).items():
        usual = () if parameter.default is parameter.empty else (parameter.default,)
        if name not in parameters_of(other) and given[name] not in (None, *usual):
            return flags_of(name, OPTIONS[name])[0]
    return None


def _check_rates(of_rates: str | None, of_a_table: str | None) -> None:
    if of_rates is None:
        raise InputError(
            "learn needs a table of predictions with labels, LAB_TABLE, or published rates of a test: --sensitivity, "
            "--specificity and --n, or --confusion."
        )
    if of_a_table is not None:
        raise InputError(
            f"{of_a_table} is about a table of predictions, {of_rates} about published rates, which have none. Leave "
            "one out."
        )


@command(COUNT, reads=["lab_file", "table", "labelled"], writes=["output"])
def count(
    settings: Settings,
    lab_file: Path,
    table: str,
    *,
    output: Path,
    labelled: str | None = None,
    **given: Any,
) -> None:
    """Count field predictions per group and bin, and labels where some rows have them.

    Example: fieldcal count lab.json field.csv -o field.json
    """
    from fieldcal.objects import describe

    lab = fieldcal.Lab.load(lab_file)
    with session(settings) as opened:
        field = count_stage(settings, lab, opened, opened.open(table), labelled, **given)
    field.save(output)
    out.done(settings, describe.field_data(field), [output], str(field))


@command(reads=["artefacts"], writes=["output"])
def merge(
    settings: Settings,
    artefacts: list[Path],
    *,
    output: Path,
    retract: list[str] | None = None,
    only: list[str] | None = None,
    start: str | None = None,
    end: str | None = None,
) -> None:
    """Put counts together, exactly and in any order; or labs.

    Example: fieldcal merge monday.json tuesday.json -o both.json
    """
    from fieldcal.objects import describe
    from fieldcal.objects.lookup import kind_of
    from fieldcal.tables.files.paths import is_same

    twice = [b for a, b in itertools.combinations(artefacts, 2) if is_same(a, b)]
    if twice:
        raise InputError(f"{str(twice[0])!r} is given twice, and its rows would count twice. Leave one out.")
    if kind_of(artefacts[0]) == "lab":
        if retract or only or start is not None or end is not None:
            raise InputError("--retract, --only, --from and --until are about fields, but these are labs.")
        lab = functools.reduce(operator.add, map(fieldcal.Lab.load, artefacts))
        lab.save(output)
        out.done(settings, describe.lab_data(lab), [output], str(lab))
        return
    field = functools.reduce(operator.add, map(fieldcal.Field.load, artefacts))
    for batch in retract or ():
        field = field.retract(batch)
    if only:
        field = field.only(only)
    if start is not None or end is not None:
        field = field.window(start, end)
    field.save(output)
    out.done(settings, describe.field_data(field), [output], str(field))


@command(
    ESTIMATE,
    COUNT,
    reads=["lab_file", "field_file", "labelled"],
    writes=["output", "table"],
    without=NOT_OF_LABELS,
)
def estimate(
    settings: Settings,
    lab_file: Path,
    field_file: Path,
    *,
    output: Path,
    table: Path | None = None,
    labelled: str | None = None,
    **given: Any,
) -> None:
    """Prevalence of every group, interval, verdict.

    The table: mean prediction (what the model predicts), under label shift (what the counts support if label shift is
    all that happened; in the file of --table the column urc), estimate (the mean prediction, corrected as far as trust
    goes; use this one), interval, trust (the probability that the whole field shifted by label shift in its line, that
    groups differ by it in theirs).

    Example: fieldcal estimate lab.json field.json -o prevalence.json --table prevalence.csv
    """
    from fieldcal.tables.files.formats import table_format
    from fieldcal.tables.files.paths import is_same

    if table is not None and is_same(table, output):
        raise InputError(
            f"The estimate and its table would both be written to {str(table)!r}. Name another for --table."
        )
    write_table = None if table is None else table_format(table)
    lab = fieldcal.Lab.load(lab_file)
    field = field_stage(settings, lab, field_file, labelled, **taken(COUNT, given))
    prev = estimate_stage(settings, lab, field, **taken(ESTIMATE, given))
    contents = {output: prev.to_json()}
    if table is not None and write_table is not None:
        contents[table] = write_table(prev.to_dict())
    write_together(contents)
    shown = out.table(prev, f"{table}" if table else "the table of --table, and in --json")
    out.done(settings, out.prevalence_data(prev), list(contents), *shown, "", *out.verdict(prev.verdict))


@command(RECALIBRATE, reads=["prevalence_file", "table"], writes=["output"])
def recalibrate(settings: Settings, prevalence_file: Path, table: str, *, output: str, **given: Any) -> None:
    """New predictions: same rows, same order.

    Example: fieldcal recalibrate prevalence.json field.csv -o new.csv
    """
    from fieldcal.objects import describe
    from fieldcal.verbs.recalibrate import check_applicable

    prev = fieldcal.Prevalence.load(prevalence_file)
    check_applicable(prev, acknowledge=given["acknowledge"], shape=given["shape"])
    with session(settings) as opened:
        rows = recalibrate_stage(settings, prev, opened, opened.open(table), output, **given)
    data = describe.applied_data(prev, rows) | {"verdict": prev.verdict.level}
    out.done(settings, data, [output], describe.applied_text(prev, rows))


@command()
def check(settings: Settings, artefacts: list[Path]) -> int:
    """May it be used? Exit code 0: yes; 2: with care; 3: no.

    Example: fieldcal check prevalence.json
    """
    from fieldcal.objects import describe

    if len(artefacts) == 1:
        prev = fieldcal.Prevalence.load(artefacts[0])
    elif len(artefacts) == 2:
        lab = fieldcal.Lab.load(artefacts[0])
        prev = estimate_stage(settings, lab, field_stage(settings, lab, artefacts[1]))
    else:
        raise InputError(
            f"check takes PREVALENCE.json, or LAB.json FIELD.json, but got {len(artefacts)} files."
        )
    code = EXIT_CODES[prev.verdict.level]
    data = {
        **out.verdict_data(prev.verdict),
        "groups": describe.status_data(prev),
        "positive": describe.positive_data(prev.lab),
        "exit_code": code,
    }
    out.result(settings, data, *out.verdict(prev.verdict), *describe.positive_lines(prev.lab))
    return code


# The stages, from a table or an artefact to the next, with a moving sign where somebody watches.


def count_stage(
    settings: Settings, lab: Lab, opened: Session, source: Source, labelled: str | None, **given: Any
) -> Field:
    """The field of a table, with its labels or those of another table."""
    from fieldcal.tables.files.verbs import count_source

    with out.working(settings, "count"):
        return count_source(lab, source, None if labelled is None else opened.open(labelled), **given)


def field_stage(settings: Settings, lab: Lab, path: Path, labelled: str | None = None, **given: Any) -> Field:
    """A field from its artefact or a table of counts, with the labels of another table."""
    from fieldcal.tables.files.verbs import add_labels, field_of

    if labelled is None:
        _refuse_without_labels(given, is_artefact=path.suffix.lower() == ".json")
    with session(settings) as opened, out.working(settings, "count"):
        field = field_of(lab, opened, path, labels_elsewhere=labelled is not None, **given)
        return field if labelled is None else add_labels(lab, field, opened.open(labelled), **given)


def _refuse_without_labels(given: Mapping[str, Any], *, is_artefact: bool) -> None:
    """Refuse what is about a table of labels; of a table of counts, --design is about its own labels."""
    about = ("scores", "quantiles", "predictions", "label", *(["design"] if is_artefact else []))
    for name in about:
        if given.get(name) is not None:
            raise InputError(
                f"--{name} is about the table of --labelled, which is not given. Labels in the table of the field are "
                "counted with it: fieldcal count --label."
            )


def estimate_stage(settings: Settings, lab: Lab, field: Field, **given: Any) -> Prevalence:
    with out.working(settings, "estimate") as progress:
        return fieldcal.estimate(lab, field, progress=progress, **given)


def recalibrate_stage(
    settings: Settings, prev: Prevalence, opened: Session, source: Source, target: str | Path, **given: Any
) -> int:
    """How many rows were written."""
    from fieldcal import tables
    from fieldcal.tables.files.verbs import lines_of

    with out.working(settings, "recalibrate"), lines_of(source):
        return tables.recalibrate_file(prev, opened, source, str(target), **given)
