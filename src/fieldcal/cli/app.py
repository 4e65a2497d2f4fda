"""The commands put together, with the options that all of them have."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
import typer.main

import fieldcal
from fieldcal.cli import company, everything, pages, verbs
from fieldcal.cli.settings import EVERYWHERE

_PANEL = "Options of every command"


def _remember(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Into the settings; not given after the command must not undo given before it."""
    if value and param.name:
        setattr(ctx.obj, param.name, value)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"fieldcal {fieldcal.__version__}\n")
        raise typer.Exit


def _option(*flags: str, **more: Any) -> Any:
    return typer.Option(
        *flags, callback=_remember, expose_value=False, rich_help_panel=_PANEL, show_default=False, **more
    )


def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    json: Annotated[bool, _option("--json", help="One JSON object on standard output.")] = False,
    quiet: Annotated[bool, _option("--quiet", "-q", help="Results and errors only.")] = False,
    debug: Annotated[bool, _option("--debug", help="Show where an error came from.")] = False,
    memory_limit: Annotated[
        str | None,
        _option("--memory-limit", metavar="SIZE", help="Of DuckDB, such as 1GB; more goes to disk."),
    ] = None,
    threads: Annotated[int | None, _option("--threads", metavar="N", min=1, help="Of DuckDB.")] = None,
) -> None:
    """Recalibrate a deployed model from nothing but the predictions it makes in the field.

    learn, count, estimate, recalibrate; or all of it with run.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def command() -> Any:
    """The root command; help is plain text where nobody looks at it in colour."""
    fancy = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    app = typer.Typer(
        rich_markup_mode="rich" if fancy else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(root)
    for verb in (verbs.learn, verbs.count, verbs.merge, verbs.estimate, verbs.recalibrate, verbs.check):
        app.command()(verb)
    app.command()(everything.run)
    app.command()(pages.report)
    app.add_typer(company.sql, name="sql")
    app.command()(company.schema)
    app.command()(pages.demo)
    built = typer.main.get_command(app)
    _share(built, [p for p in built.params if p.name in EVERYWHERE])
    return built


def _share(group: Any, params: list[Any]) -> None:
    """Let options of the root stand behind every command as well."""
    for below in group.commands.values():
        below.params.extend(params)
        if hasattr(below, "commands"):
            _share(below, params)
