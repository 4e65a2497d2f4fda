"""fieldcal run: all four verbs in one command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldcal.cli import describe, pages, show, stages
from fieldcal.cli import options as opt
from fieldcal.cli.reading import existing, session
from fieldcal.cli.settings import Settings
from fieldcal.cli.spreadsheet import write_csv
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.tables.files import Session, Source

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
        lab = stages.learn_stage(settings, known, by=_groups_of_lab(settings, groups, known), **learning)
        field = stages.count_stage(settings, lab, unknown, **counting)
        prev = stages.estimate_stage(settings, lab, field, **estimating)
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
        show.warn(settings, f"The lab has no column {groups[0]!r}: nothing can be rehearsed on its groups.")
        return None
    return groups


def _write_small(settings: Settings, folder: Path, lab: Lab, field: Field, prev: Prevalence) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for artefact in (lab, field, prev):
        artefact.save(folder / f"{artefact.kind}.json")
    write_csv(prev, folder / "prevalence.csv")
    written = [folder / name for name in ("lab.json", "field.json", "prevalence.json", "prevalence.csv")]
    page = pages.beside(settings, prev, folder)
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
        show.warn(settings, f"No {RECALIBRATED}: the groups are protected. Use --acknowledge if it is meant.")
        return None
    return stages.recalibrate_stage(settings, prev, opened, source, folder / RECALIBRATED, **options)


def _report(
    settings: Settings, lab: Lab, field: Field, prev: Prevalence, rows: int | None, written: list[Path]
) -> None:
    if rows is not None:
        written = [*written, written[0].with_name(RECALIBRATED)]
    data = {
        "lab": describe.lab_data(lab),
        "field": describe.field_data(field),
        **describe.prevalence_data(prev),
        "rows": rows,
        "written": list(map(str, written)),
    }
    show.result(settings, data, str(lab), str(field), "", *show.table(prev), "", *show.verdict(prev.verdict))
    for path in written:
        show.note(settings, f"wrote {path}")
