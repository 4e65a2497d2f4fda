"""fieldcal run: the stages of all four verbs, and what goes into its folder."""

from __future__ import annotations

import dataclasses
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import fieldcal
from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.commands import EXIT_CODES, REPORT, estimate_stage, learn_stage, recalibrate_stage
from fieldcal.cli.inputs import check_folder, session
from fieldcal.cli.labels import FieldLabels, Item, Labels, count_with_labels, read_pairs
from fieldcal.cli.main import signals
from fieldcal.cli.options import Applying, Counting, Estimating, Learning, arguments
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError
from fieldcal.storage import atomic_folder, write_atomically

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.objects.derived import Comparison, Pairs
    from fieldcal.tables.files.session import Source

RECALIBRATED = "recalibrated.parquet"
SHARES, DIFFERENCES = "shares.csv", "differences.csv"  # of values
TABLE = "prevalence.csv"
#: What `run` writes; of an earlier run, what is not written again goes.
RUN_FILES = ("lab.json", "field.json", "prevalence.json", TABLE, SHARES, DIFFERENCES, RECALIBRATED, REPORT)


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
    item: Item = None,
    model: Annotated[str | None, opt.option("model")] = None,
    recalibrated: Annotated[bool, opt.option("recalibrated", "--recalibrated")] = False,
    check: Annotated[bool, opt.option("check", "--check")] = False,
) -> int:
    """All four verbs; the results go into a folder, all of them or none.

    Example: fieldcal run lab.csv field.csv --scores p --positive yes --label churned --by shop -o out

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
    if applying.shape == "bins" and labels.label is None and labels.labelled is None and not groups:
        raise InputError(
            "--shape bins needs labels of field rows or groups, but none are given. Give labels with --field-label or "
            "--labelled, groups with --by, or leave it out."
        )
    tables = [lab_table, *([field_table] if field_table else [])]
    check_folder(output, [*tables, *([labels.labelled] if labels.labelled else [])], RUN_FILES)
    earlier = [name for name in RUN_FILES if (output / name).exists()]
    with session(settings) as opened:
        known = opened.open(lab_table)
        unknown = known if field_table is None else opened.open(field_table)
        _refuse_field_first(learning.label, known, unknown)
        by = _groups_of_lab(settings, groups, known)
        lab = learn_stage(settings, known, by=by, missing=counting.missing, **given)
        counted: dict[str, Any] = {"by": groups or [], "scores": None, **arguments(counting)}
        field = count_with_labels(settings, lab, opened, unknown, labels, **counted)
        prev = estimate_stage(settings, lab, field, **estimated)
        paired = {
            "by": groups or [],
            "item": opt.names(item),
            "label": labels.label,
            "missing": counting.missing,
        }
        pairs = None if item is None else read_pairs(settings, lab, unknown, **paired)
        found = _compared(settings, prev, pairs) if of_values else []
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
                rows = recalibrate_stage(settings, prev, opened, unknown, inside / RECALIBRATED, **applied)
            _write_report(settings, prev, inside / REPORT, pairs, data=unknown.name, model=model)
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
    all_in = str(output / (SHARES if of_values else TABLE))
    told = [*out.table(prev, all_in), *(_compared_parts(found) if of_values else [])]
    applied_to = [] if rows is None else ["", out.recalibrated_text(prev, rows)]
    parts = [str(lab), str(field), "", *told, *applied_to, "", *out.verdict(prev.verdict)]
    out.done(settings, data, [output / name for name in made], *parts)
    return EXIT_CODES[prev.verdict.level] if check else 0


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


def _refuse_field_first(label: str, lab: Source, field: Source) -> None:
    if label not in lab.columns and label in field.columns:
        raise InputError(
            f"The first table, {lab.name!r:.60}, has no column {label!r:.60}, but the second has. The table with "
            "labels comes first: fieldcal run LAB_TABLE FIELD_TABLE."
        )


def _labels_of_run(learning: Learning, labels: Labels, field_table: str | None) -> Labels:
    """Of one table, the labels of the lab are the field's; --design is about the lab's where the field has none."""
    if learning.predictions is None:
        return labels
    if field_table is None and labels.label is None and labels.labelled is None:
        return dataclasses.replace(labels, label=learning.label)
    has_labels = labels.label is not None or labels.labelled is not None
    return labels if has_labels else dataclasses.replace(labels, design=None)


def _write_artefacts(folder: Path, lab: Lab, field: Field, prev: Prevalence, found: list[Comparison]) -> None:
    for artefact in (lab, field, prev):
        artefact.save(folder / f"{artefact.kind}.json")
    columns = _share_columns(prev) if lab.of_values else prev.to_dict()
    write_atomically(folder / (SHARES if lab.of_values else TABLE), out.safe_csv(columns))
    if found:
        write_atomically(folder / DIFFERENCES, out.safe_csv(_difference_columns(found)))


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


def _groups_of_lab(settings: Settings, groups: list[str] | None, lab: Source) -> list[str] | None:
    """The group columns that the lab has; without any it is learnt all the same, but nothing is rehearsed."""
    held = [name for name in groups or [] if name in lab.relation.columns]
    for name in groups or []:
        if name not in held:
            rest = (
                f"its groups are those of {', '.join(held)}"
                if held
                else "nothing can be rehearsed on its groups"
            )
            out.warn(settings, f"The lab has no column {name!r}: {rest}.")
    return held or None


def _share_columns(prev: Prevalence) -> dict[str, list[Any]]:
    """One row per slice and class, those of the whole field first."""
    table, K = prev.to_dict(), len(prev.classes)
    keys = [name for name in table if name.startswith("group")]
    labelled = _labelled(prev)
    counts = [sum(labelled), *(labelled if prev.field.grouped else ())]
    says = {} if not _verdicts_are_classes(prev) else {"verdict_share": table["mean_prediction"]}
    return {
        "scope": ["slice" if scope == "group" else scope for scope in table["scope"]],
        **{name.replace("group", "slice", 1): table[name] for name in keys},
        "class": table["class"],
        "n": table["n"],
        "labelled": [n for n in counts for _ in range(K)],
        **says,
        "share": table["estimate"],
        "lower": table["lower"],
        "upper": table["upper"],
        "status": table["status"],
    }


def _verdicts_are_classes(prev: Prevalence) -> bool:
    """Whether a judge says the classes themselves, so that its verdicts have shares to compare with."""
    from fieldcal.core.values import Values

    partition = prev.lab.partition
    return isinstance(partition, Values) and len(partition.says(prev.classes)) == partition.m == len(
        prev.classes
    )


def _labelled(prev: Prevalence) -> list[int]:
    rows = [0] * len(prev.groups)
    for found in prev.field.labelled.values():
        for at, counts in zip(found.at, found.counts, strict=True):
            rows[at] += int(counts.sum())
    return rows


def _compared(settings: Settings, prev: Prevalence, pairs: Pairs | None) -> list[Comparison]:
    """Every two slices: of two classes the last, of more each. None, with a warning, where there are too many."""
    if not prev.field.grouped or len(prev.groups) < 2:
        return []
    try:
        of = prev.classes[1:] if len(prev.classes) == 2 else prev.classes
        return [prev.compare(of=c, pairs=pairs) for c in of]
    except InputError as error:
        out.warn(settings, f"No {DIFFERENCES}: {out.explain(error)}")
        return []


def _difference_columns(found: list[Comparison]) -> dict[str, list[Any]]:
    """One row per class and two slices, the surest first."""
    rows = [
        (c.of, dataclasses.asdict(d) | {"a": _text(d.a), "b": _text(d.b)})
        for c in found
        for d in c.differences
    ]
    names = ("lower", "upper", "all_lower", "all_upper", "probability", "found")
    return {
        "class": [of for of, _ in rows],
        "slice": [row["a"] for _, row in rows],
        "against": [row["b"] for _, row in rows],
        "difference": [row["estimate"] for _, row in rows],
        **{name: [row[name] for _, row in rows] for name in names},
    }


def _text(key: Any) -> Any:
    """A slice in one cell: the parts of several columns with commas."""
    return (
        key if not isinstance(key, tuple) else ",".join("null" if part is None else str(part) for part in key)
    )


def _compared_parts(found: list[Comparison]) -> list[RenderableType]:
    """The differences, to read."""
    return [part for comparison in found for part in ("", str(comparison))]
