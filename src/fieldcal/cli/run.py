"""run: the stages of all four verbs, and what goes into its folder."""

from __future__ import annotations

import dataclasses
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.commands import (
    COUNT,
    ESTIMATE,
    EXIT_CODES,
    LEARN,
    RECALIBRATE,
    count_stage,
    estimate_stage,
    recalibrate_stage,
)
from fieldcal.cli.inputs import session
from fieldcal.cli.main import signals
from fieldcal.cli.output import Settings
from fieldcal.cli.pages import PAGE
from fieldcal.cli.signature import command, taken
from fieldcal.errors import InputError
from fieldcal.storage import atomic_folder, write_atomically

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.objects.derived import Comparison, Pairs
    from fieldcal.tables.files.session import Session, Source

RECALIBRATED = "recalibrated.parquet"
SHARES, DIFFERENCES = "shares.csv", "differences.csv"  # of values
TABLE = "prevalence.csv"
#: What `run` writes; of an earlier run, what is not written again goes.
RUN_FILES = ("lab.json", "field.json", "prevalence.json", TABLE, SHARES, DIFFERENCES, RECALIBRATED, PAGE)


@dataclasses.dataclass(frozen=True)
class _Found:
    """What `run` has estimated."""

    lab: Lab
    field: Field
    prev: Prevalence
    pairs: Pairs | None
    differences: list[Comparison]


@command(LEARN, COUNT, ESTIMATE, RECALIBRATE)
def run(
    settings: Settings,
    lab_table: str,
    field_table: str | None = None,
    *,
    output: Path,
    field_label: str | None = None,
    labelled: str | None = None,
    item: list[str] | None = None,
    model: str | None = None,
    recalibrated: bool = False,
    check: bool = False,
    **given: Any,
) -> int:
    """All four verbs; the results go into a folder, all of them or none.

    Example: fieldcal run lab.csv field.csv --scores p --positive yes --label churned --by shop -o out

    A report that cannot be made is a warning: the rest is there. Other files in the folder stay.

    With --predictions, the values of a judge, it writes the share of each class in every group and how groups differ:
    fieldcal run judged.csv --predictions verdict --label human --by model --design random -o out
    """
    from fieldcal.tables.files.paths import check_results

    of_values = given["predictions"] is not None
    if not of_values:
        _check_probabilities(field_table, item, recalibrated)
    label, design = _labels_of_run(given, field_label, labelled, field_table)
    if given["shape"] == "bins" and label is None and labelled is None and not given["by"]:
        raise InputError(
            "--shape bins needs labels of field rows or groups, but none are given. Give labels with --field-label or "
            "--labelled, groups with --by, or leave it out."
        )
    check_results(output, [table for table in (lab_table, field_table, labelled) if table], RUN_FILES)
    earlier = [name for name in RUN_FILES if (output / name).exists()]
    with session(settings) as opened:
        lab_source = opened.open(lab_table)
        source = lab_source if field_table is None else opened.open(field_table)
        of_field = {"label": label, "design": design, "labelled": labelled, "item": item}
        found = _estimated(settings, opened, lab_source, source, given, of_field)
        with atomic_folder(output, own=RUN_FILES) as inside:
            _write_artefacts(inside, found)
            rows = None
            if recalibrated or not of_values:
                applied = taken(RECALIBRATE, given)
                rows = _recalibrated(settings, found.prev, opened, source, inside / RECALIBRATED, applied)
            _write_report(settings, found.prev, inside / PAGE, found.pairs, data=source.name, model=model)
            written = [name for name in RUN_FILES if (inside / name).exists()]
    for name in earlier:
        if name not in written:
            out.warn(settings, f"{str(output / name)!r} was of an earlier run, and is removed.")
    _tell(settings, found, output, written, rows)
    return EXIT_CODES[found.prev.verdict.level] if check else 0


def _check_probabilities(field_table: str | None, item: Any, recalibrated: bool) -> None:
    """Refuse one table where two are needed, and options that only values have."""
    if field_table is None:
        raise InputError(
            "run needs two tables, LAB_TABLE with labels and FIELD_TABLE. One is enough for the values of a judge, "
            "some rows of which have labels: name them with --predictions."
        )
    for name, value in (("--item", item), ("--recalibrated", recalibrated or None)):
        if value is not None:
            raise InputError(f"{name} goes with --predictions, the values of a judge. Leave it out.")


def _labels_of_run(
    given: dict[str, Any], label: str | None, labelled: str | None, field_table: str | None
) -> tuple[str | None, Any]:
    """The column of field labels and their design.

    In one table, labels of the lab are the field's; --design is about the lab's where the field has none.
    """
    design = given["design"]
    if given["predictions"] is None:
        given["design"] = None
    elif label is None and labelled is None:
        return (given["label"], design) if field_table is None else (None, None)
    return label, design


def _estimated(
    settings: Settings,
    opened: Session,
    lab_source: Source,
    source: Source,
    given: dict[str, Any],
    of_field: dict[str, Any],
) -> _Found:
    from fieldcal.tables.files.verbs import learn_source, pairs_source

    by, missing = given["by"] or [], given["missing"]
    _refuse_field_first(given["label"], lab_source, source)
    lab_by = _groups_of_lab(settings, by, lab_source)
    with out.working(settings, "learn"):
        lab = learn_source(lab_source, missing=missing, **taken(LEARN, given) | {"by": lab_by})
    item, labelled = of_field.pop("item"), of_field.pop("labelled")
    # The lab has the columns of the predictions; the field's are named the same.
    counted = (
        taken(COUNT, given) | of_field | {"by": by, "scores": None, "quantiles": None, "predictions": None}
    )
    field = count_stage(settings, lab, opened, source, labelled, **counted)
    prev = estimate_stage(settings, lab, field, **taken(ESTIMATE, given))
    pairs = None
    if item is not None:
        with out.working(settings, "pair"):
            pairs = pairs_source(lab, source, by=by, item=item, label=of_field["label"], missing=missing)
    return _Found(lab, field, prev, pairs, _compared(settings, prev, pairs) if lab.of_values else [])


def _recalibrated(
    settings: Settings,
    prev: Prevalence,
    opened: Session,
    source: Source,
    target: Path,
    given: dict[str, Any],
) -> int | None:
    """How many rows were written; None, with a warning, if the groups are protected."""
    if prev.protected and not given["acknowledge"]:
        out.warn(settings, f"No {RECALIBRATED}: the groups are protected. Use --acknowledge if it is meant.")
        return None
    # Columns and groups are those that the estimate knows.
    given |= {"missing": "error" if given["missing"] == "error" else "keep"}
    given |= {"by": None, "scores": None, "quantiles": None, "predictions": None}
    return recalibrate_stage(settings, prev, opened, source, target, **given)


def _tell(settings: Settings, found: _Found, output: Path, written: list[str], rows: int | None) -> None:
    """The answer, for scripts and for people."""
    from fieldcal.objects import describe

    prev, of_values = found.prev, found.lab.of_values
    data = {
        "lab": describe.lab_data(found.lab),
        "field": describe.field_data(found.field),
        **out.prevalence_data(prev),
        **({"differences": [c.to_dict() for c in found.differences]} if of_values else {}),
        **describe.applied_data(prev, rows),
    }
    shown = out.table(prev, str(output / (SHARES if of_values else TABLE)))
    shown += [part for comparison in found.differences for part in ("", str(comparison))]
    applied = [] if rows is None else ["", describe.applied_text(prev, rows)]
    parts = [str(found.lab), str(found.field), "", *shown, *applied, "", *out.verdict(prev.verdict)]
    out.done(settings, data, [output / name for name in written], *parts)


def _refuse_field_first(label: str, lab: Source, field: Source) -> None:
    if label not in lab.columns and label in field.columns:
        raise InputError(
            f"The first table, {lab.name!r:.60}, has no column {label!r:.60}, but the second has. The table with "
            "labels comes first: fieldcal run LAB_TABLE FIELD_TABLE."
        )


def _write_artefacts(folder: Path, found: _Found) -> None:
    from fieldcal.objects.prevalence_table import difference_columns, share_columns
    from fieldcal.tables.files.formats import safe_csv

    for artefact in (found.lab, found.field, found.prev):
        artefact.save(folder / f"{artefact.kind}.json")
    name, columns = TABLE, found.prev.to_dict()
    if found.lab.of_values:
        name, columns = SHARES, share_columns(found.prev)
    write_atomically(folder / name, safe_csv(columns))
    if found.differences:
        write_atomically(folder / DIFFERENCES, safe_csv(difference_columns(found.differences)))


def _write_report(
    settings: Settings, prev: Prevalence, page: Path, pairs: Pairs | None, **about: str | None
) -> None:
    """What stops the page from being made is a warning; what stops it from being written stops the whole."""
    try:
        with out.working(settings, "report"):
            text = fieldcal.report(prev, pairs=pairs, **about).html()
    except Exception as error:
        if signals:
            raise KeyboardInterrupt from error
        if settings.debug:
            traceback.print_exception(error)
        out.warn(settings, f"No {page.name}: {out.explain(error)}")
        return
    write_atomically(page, text.encode("utf-8"))


def _groups_of_lab(settings: Settings, groups: list[str], lab: Source) -> list[str] | None:
    """The group columns that the lab has; without any it is learnt all the same, but nothing is rehearsed."""
    held = [name for name in groups if name in lab.relation.columns]
    for name in groups:
        if name not in held:
            rest = (
                f"its groups are those of {', '.join(held)}"
                if held
                else "nothing can be rehearsed on its groups"
            )
            out.warn(settings, f"The lab has no column {name!r}: {rest}.")
    return held or None


def _compared(settings: Settings, prev: Prevalence, pairs: Pairs | None) -> list[Comparison]:
    """How every two groups differ; none, with a warning, if there are too many."""
    from fieldcal.objects.prevalence_table import comparisons

    try:
        return comparisons(prev, pairs)
    except InputError as error:
        out.warn(settings, f"No {DIFFERENCES}: {out.explain(error)}")
        return []
