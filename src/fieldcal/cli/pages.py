"""report and demo: pages for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.inputs import pairs_of, session
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command, taken
from fieldcal.errors import InputError
from fieldcal.storage import writable

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
