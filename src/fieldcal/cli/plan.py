"""plan: what would narrow an estimate, and which rows to label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.inputs import session
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command, taken
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from fieldcal.objects import Lab, Prevalence

PLAN, CHOOSE = "verbs.plan:plan", "tables.rows_to_label:rows_to_label"


@command(PLAN, CHOOSE, reads=["artefact", "table"], writes=["output"], without=["crossing"])
def plan(
    settings: Settings, artefact: Path, table: str | None = None, *, output: str | None = None, **given: Any
) -> None:
    """What makes the interval wide, what would narrow it, how many labels would decide, and which rows to label.

    Example: fieldcal plan prevalence.json field.parquet --rows 100 -o to_label.csv
    """
    if table is not None:
        _choose(settings, artefact, table, given["n"], output, **taken(CHOOSE, given))
        return
    about_rows = {"-o": output, "--label": given["label"], "--by": given["by"], "--scores": given["scores"]}
    for name, value in about_rows.items():
        if value is not None:
            raise InputError(
                f"{name} is about rows to label, chosen from a table of the field. Name it after the estimate: "
                "fieldcal plan prevalence.json field.parquet --rows 100 -o to_label.csv."
            )
    from fieldcal.objects.lookup import class_of, two_groups

    held = _planned_for(artefact, given)
    asked = taken(PLAN, given) | {
        "of": class_of(held, given["of"]),
        "apart": two_groups(held, given["apart"]),
    }
    first = None
    if isinstance(held, fieldcal.Prevalence) and len(held.classes) > 2:
        first = "plan: estimating the interval anew for each number of labels, which takes minutes with many classes"
    with out.working(settings, "plan", first=first) as progress:
        planned = fieldcal.plan(held, progress=progress, **asked)
    out.result(settings, planned.to_dict(), repr(planned))


def _planned_for(path: Path, given: dict[str, Any]) -> Prevalence | Lab:
    """An estimate; or, where --rows gives the size of a field, a lab."""
    from fieldcal.objects.lookup import kind_of

    if given["n"] is not None:
        return fieldcal.Lab.load(path)
    if given["prevalence"] is not None:
        raise InputError("--prevalence is for planning with a lab. Add --rows, and give LAB.json.")
    if kind_of(path) == "lab":
        raise InputError(
            f"{path.name} is a lab, which has no field to plan for. Say how many rows it will have: --rows 1000."
        )
    return fieldcal.Prevalence.load(path)


def _choose(
    settings: Settings, artefact: Path, table: str, n: int | None, output: str | None, **given: Any
) -> None:
    """Choose rows of a table to label, and write them."""
    from fieldcal.tables.files.verbs import label_column, rows_to_label_file

    if n is None or output is None:
        raise InputError(
            "To choose rows of a table, say how many and where to write them: --rows 100 -o to_label.csv."
        )
    prev = fieldcal.Prevalence.load(artefact)
    given["label"] = name = label_column(prev.lab, given["label"])
    with session(settings) as opened, out.working(settings, "plan"):
        rows_to_label_file(prev, opened, opened.open(table), output, n, **given)
    text = f"{n:,} rows to label: fill in the column {name!r}, then fieldcal estimate … --labelled FILE."
    out.done(settings, {"rows": n, "label": name, "design": "by_score"}, [output], text)
