"""fieldcal report, demo: pages for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldcal.cli import describe, show, stages
from fieldcal.cli import options as opt
from fieldcal.cli.reading import check_target, session
from fieldcal.cli.settings import Settings
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from fieldcal.objects import Prevalence

REPORT = "report.html"
_ENDINGS = (".html", ".htm", ".md", ".json")

PageOutput = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Where to write: .html, .md or .json.", show_default=False
    ),
]


def report(
    ctx: typer.Context,
    prevalence_file: opt.PrevalenceFile,
    output: PageOutput,
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
    by: opt.By = None,
    scores: opt.FieldScores = None,
    quantiles: opt.FieldQuantiles = None,
) -> None:
    """A page that people read: may I use this, where did it change, how sure is it?"""
    from fieldcal.objects import Prevalence

    settings: Settings = ctx.obj
    if output.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"A report is written as .html, .md or .json, but not {str(output)!r}. Add an ending."
        )
    if labelled is None and (label or by or scores or quantiles):
        raise InputError(
            "--label, --by, --scores and --quantiles are about the table of --labelled, which is not given."
        )
    check_target(output, [prevalence_file, *([labelled] if labelled else [])])
    prev = Prevalence.load(prevalence_file)
    rows = None
    if labelled is not None:
        with session(settings) as opened:
            table, groups, columns = opened.open(labelled), opt.names(by), opt.names(scores)
            rows = stages.labelled_stage(
                settings, prev, table, label=label, by=groups, scores=columns, quantiles=quantiles
            )
    made = stages.report_stage(settings, prev, output, of=of, title=title, rows=rows)
    show.result(settings, {**describe.report_data(made), "written": [str(output)]}, str(made))
    show.note(settings, f"wrote {output}")


def beside(settings: Settings, prev: Prevalence, folder: Path) -> Path | None:
    """The page of `run`; None, with a warning, where the libraries for it are not installed."""
    from fieldcal.errors import MissingExtraError

    try:
        stages.report_stage(settings, prev, folder / REPORT)
    except MissingExtraError as error:
        show.warn(settings, f"No {REPORT}: {error}")
        return None
    return folder / REPORT


def demo(
    ctx: typer.Context,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder for the page.")
    ] = Path("fieldcal-demo"),
) -> None:
    """Show it on real data: rodents in trap plots, from training to a page, in under a minute."""
    from fieldcal import demo as portal

    settings: Settings = ctx.obj
    if output.exists() and not output.is_dir():
        raise InputError(
            f"The output {str(output)!r} is a file, but `demo` needs a folder. Choose another name."
        )
    with show.steps(settings, portal.STEPS + 1) as step:
        found = portal.run(step=step)
        step("report")
        output.mkdir(parents=True, exist_ok=True)
        page = output / REPORT
        found.report().save(page)
    data = {**describe.prevalence_data(found.prev), "found": portal.sentences(found), "written": [str(page)]}
    parts = [portal.introduction(found), "", portal.table(found), "", *show.verdict(found.prev.verdict), ""]
    show.result(settings, data, *parts, *portal.sentences(found), "", f"The report: {page}")
