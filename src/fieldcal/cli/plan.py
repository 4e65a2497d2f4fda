"""fieldcal plan: what would narrow an estimate, and which rows to label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import fieldcal
from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.answers import Assume, Of, group_of, size_of
from fieldcal.cli.inputs import check_table_target, class_of, kind_of, session
from fieldcal.cli.labels import label_column, relation_of
from fieldcal.cli.options import QuantileColumns, arguments
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fieldcal.objects import Lab, Prevalence
    from fieldcal.tables.files.session import Session


def plan(
    settings: Settings,
    artefact: Annotated[Path, opt.argument("artefact")],
    columns: QuantileColumns,
    table: Annotated[str | None, opt.argument("table.plan")] = None,
    rows: Annotated[int | None, opt.option("rows")] = None,
    output: Annotated[Path | None, opt.option("output.plan", "-o", "--output")] = None,
    label: Annotated[str | None, opt.option("label.plan")] = None,
    missing: opt.MissingRows = "error",
    seed: Annotated[int, opt.option("seed")] = 0,
    labels: Annotated[str | None, opt.option("labels")] = None,
    width: Annotated[float | None, opt.option("width")] = None,
    apart: Annotated[str | None, opt.option("apart")] = None,
    prevalence: Annotated[str | None, opt.option("prevalence")] = None,
    of: Of = None,
    level: Annotated[float | None, opt.option("level.plan")] = None,
    assume: Assume = "trust",
    normalize: opt.Normalize = False,
) -> None:
    """What makes the interval wide, what would narrow it, how many labels would decide, and which rows to label.

    Example: fieldcal plan prevalence.json field.parquet --rows 100 -o to_label.csv
    """
    from fieldcal.objects import Lab, Prevalence
    from fieldcal.options import check_whole

    if rows is not None:
        check_whole("--rows", rows, least=1)
    choosing = {"-o": output, "--label": label, "--by": columns.by, "--scores": columns.scores}
    given = [name for name, value in choosing.items() if value is not None]
    if table is not None:
        _choose(
            settings,
            artefact,
            table,
            rows,
            output,
            label,
            missing=missing,
            normalize=normalize,
            seed=seed,
            **arguments(columns),
        )
        return
    if given:
        raise InputError(
            f"{given[0]} is about rows to label, chosen from a table of the field. Name it after the estimate: "
            "fieldcal plan prevalence.json field.parquet --rows 100 -o to_label.csv."
        )
    shares: Any = (
        None if prevalence is None else [size_of(part, "--prevalence") for part in prevalence.split(",")]
    )
    if rows is None and shares is not None:
        raise InputError("--prevalence is for planning with a lab. Add --rows, and give LAB.json.")
    if rows is None and kind_of(artefact) == "lab":
        raise InputError(
            f"{artefact.name} is a lab, which has no field to plan for. Say how many rows it will have: --rows 1000."
        )
    held = Prevalence.load(artefact) if rows is None else Lab.load(artefact)
    asked: dict[str, Any] = {
        "n": rows,
        "prevalence": shares,
        "of": class_of(held, of),
        "level": level,
        "assume": assume,
        "labels": _numbers(labels),
        "width": width,
        "apart": None if apart is None else _two_groups(held, apart),
    }
    long = isinstance(held, Prevalence) and len(held.classes) > 2
    words = (
        "plan: estimating the interval anew for each number of labels, which takes minutes with many classes"
    )
    with out.working(settings, "plan", first=words if long else None) as progress:
        planned = fieldcal.plan(held, progress=progress, **asked)
    out.result(settings, planned.to_dict(), repr(planned))


def _two_groups(held: Prevalence | Lab, text: str) -> tuple[Hashable, Hashable]:
    from fieldcal.objects import Prevalence

    parts = [part.strip() for part in text.split(",")]
    if not isinstance(held, Prevalence) or len(parts) != 2:
        raise InputError(f"--apart names two slices of an estimate, such as A,B, but is {text!r:.60}.")
    a, b = (group_of(held, part) for part in parts)
    return a, b


def _numbers(text: str | None) -> list[int] | None:
    """Numbers of labels; none for 0."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"--labels must be whole numbers, such as 50,100,200, but is {text!r:.60}.")
    return [] if parts == ["0"] else [int(part) for part in parts]


def _choose(
    settings: Settings,
    artefact: Path,
    table: str,
    rows: int | None,
    output: Path | None,
    label: str | None,
    **given: Any,
) -> None:
    from fieldcal.objects import Prevalence

    if rows is None or output is None:
        raise InputError(
            "To choose rows of a table, say how many and where to write them: --rows 100 -o to_label.csv."
        )
    to_stdout = check_table_target(settings, output, [artefact, table])
    prev = Prevalence.load(artefact)
    name = label_column(prev.lab, label)
    with session(settings) as opened, out.working(settings, "plan"):
        _write(prev, opened, table, output, rows, label=name, **given)
    text = f"{rows:,} rows to label: fill in the column {name!r}, then fieldcal estimate … --labelled FILE."
    if to_stdout:
        out.note(settings, text)
    else:
        out.done(settings, {"rows": rows, "label": name, "design": "by_score"}, [output], text)


def _write(
    prev: Prevalence,
    opened: Session,
    table: str,
    output: Path,
    n: int,
    *,
    label: str,
    seed: int,
    **given: Any,
) -> None:
    from fieldcal import tables
    from fieldcal.tables.columns import group_columns
    from fieldcal.tables.weight_table import text_columns

    source = opened.open(table)
    given["by"] = list(group_columns(prev, given["by"]))
    text = text_columns(given["by"], prev.groups)
    relation = relation_of(prev.lab, source, given | {"label": label}, text=text)
    if prev.lab.outcome.kind == "intervals":  # no engine bins a distribution
        relation = relation.arrow().read_all()
    chosen = tables.rows_to_label(prev, relation, n, label=label, random_state=seed, **given)
    opened.write(opened.connection.from_arrow(chosen), output, sources=[source])
