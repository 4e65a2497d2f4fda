"""report, demo and show: results for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.inputs import pairs_of, session
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command, taken
from fieldcal.errors import InputError
from fieldcal.storage import writable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Prevalence

REPORT, LABELLED = "reporting.page:report", "tables.rows_to_label:read_labelled"
PAGE = "report.html"


@command(
    REPORT, LABELLED, reads=["prevalence_file", "labelled", "paired"], writes=["output"], without=["crossing"]
)
def report(
    settings: Settings,
    prevalence_file: Path,
    *,
    output: Path,
    labelled: str | None = None,
    paired: str | None = None,
    item: list[str] | None = None,
    **given: Any,
) -> None:
    """A page that people read: may I use this, where did it change, how sure is it?

    Example: fieldcal report prevalence.json -o report.html --title "Shops in March"
    """
    from fieldcal.objects.lookup import class_of

    if output.suffix.lower() not in (".html", ".htm", ".md", ".json"):
        raise InputError(
            f"A report is written as .html, .md or .json, but not {str(output)!r}. Add an ending."
        )
    columns = taken(LABELLED, given)
    if labelled is None and any(columns.values()):
        raise InputError(
            "--label, --by, --scores, --quantiles and --predictions are about the table of --labelled, which is not "
            "given."
        )
    prev = fieldcal.Prevalence.load(prevalence_file)
    rows = {} if labelled is None else _labelled_rows(settings, prev, labelled, columns)
    about = taken(REPORT, given) | {"of": class_of(prev, given["of"])}
    pairs = pairs_of(settings, prev, paired, item)
    with out.working(settings, "report"):
        made = fieldcal.report(prev, pairs=pairs, **about, **rows)
        made.save(output)
    out.done(settings, out.report_data(made), [output], str(made))


def _labelled_rows(
    settings: Settings, prev: fieldcal.Prevalence, path: str, columns: dict[str, Any]
) -> dict[str, Any]:
    from fieldcal import tables
    from fieldcal.tables.weight_table import bind

    numbers = columns["quantiles"] if columns["scores"] is None else columns["scores"]
    roles = {name: columns[name] for name in ("by", "label", "predictions")}
    with session(settings) as opened, out.working(settings, "read labels"):
        source = bind(prev, opened.open(path), scores=numbers, **roles)
        return tables.read_labelled(prev, source.relation, **columns)


@command()
def demo(settings: Settings, *, output: Path = Path("fieldcal-demo")) -> None:
    """Show it on real data: rodents in trap plots, from training to a page, in under a minute."""
    from fieldcal import demo as portal
    from fieldcal.tables.files.paths import check_is_no_file

    check_is_no_file(output, "demo")
    writable(output / PAGE)
    _ = fieldcal.report  # what it needs and is not installed is named before the work
    with out.steps(settings, portal.STEPS + 1) as step:
        found = portal.run(step=step)
        step("report")
        output.mkdir(parents=True, exist_ok=True)
        page = output / PAGE
        found.report().save(page)
    data = {**out.prevalence_data(found.prev), "found": portal.sentences(found), "written": [str(page)]}
    parts = [portal.introduction(found), "", portal.table(found), "", *out.verdict(found.prev.verdict), ""]
    out.result(settings, data, *parts, *portal.sentences(found), "", f"The report: {page}")


@command()
def show(settings: Settings, artefact: Path) -> None:
    """What a file holds, in words, and what can be done with it next.

    Example: fieldcal show out/prevalence.json
    """
    from fieldcal.objects import Field, Lab, Prevalence, describe
    from fieldcal.objects.lookup import load_any

    held, version = load_any(artefact)
    if isinstance(held, Lab):
        data, parts = describe.lab_data(held), describe.lab_parts(held)
        following = f"count {artefact} FIELD_TABLE -o field.json, or fieldcal plan {artefact} --rows N"
    elif isinstance(held, Field):
        data, parts = describe.field_data(held) | {"lab": held.lab}, describe.field_parts(held)
        following = f"estimate lab.json {artefact} -o prevalence.json, or "
        following += f"fieldcal merge {artefact} OTHER.json -o BOTH.json"
    else:
        assert isinstance(held, Prevalence)
        data, parts = _estimate(held)
        following = f"recalibrate {artefact} TABLE -o new.parquet; or decide, contrast, report, check, plan"
    last = f"digest: {held.digest} (file format {version}, read by fieldcal {fieldcal.__version__})"
    data = {"kind": held.kind, "format": version, **data}
    out.result(settings, data, *parts, f"next: fieldcal {following}", last)


def _estimate(prev: Prevalence) -> tuple[dict[str, Any], list[RenderableType]]:
    """An estimate for scripts, and for people."""
    from fieldcal.objects import break_even, describe
    from fieldcal.objects.prevalence_table import shown_class

    decisions, sheet = describe.performance(prev, all_in="the output of --json")
    data = {
        **out.prevalence_data(prev),
        "prior": prev.prior,
        "point": prev.point,
        "design_effect": prev.design_effect,
        "performance": decisions,
        "lab": describe.lab_data(prev.lab),
        "field": describe.field_data(prev.field),
    }
    head = "An estimate: the share of each class in the field, from a lab and a field"
    protected = f"protected groups: {'yes: applied with --acknowledge only' if prev.protected else 'no'}"
    lines = [*describe.estimate_lines(prev), protected, str(prev.lab).partition("\n")[0], str(prev.field)]
    margins = break_even.sheet(prev, shown_class(prev))
    more = [] if margins is None else ["", *margins.parts()]
    return data, [head, *out.table(prev), *lines, *more, "", *sheet, *out.verdict(prev.verdict), ""]
