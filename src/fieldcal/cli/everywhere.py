"""The options that may stand before or after every command."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated, Any

import typer

import fieldcal
from fieldcal.cli.output import Settings

NAMES = tuple(f.name for f in dataclasses.fields(Settings) if f.name != "warnings")


def _remember(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Into the settings; not given after the command must not undo given before it."""
    if value and param.name:
        setattr(ctx.obj, param.name, value)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"fieldcal {fieldcal.__version__}\n")
        raise typer.Exit


def _everywhere(*flags: str, **more: Any) -> Any:
    panel = "Options of every command"
    return typer.Option(
        *flags, callback=_remember, expose_value=False, rich_help_panel=panel, show_default=False, **more
    )


def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    json: Annotated[bool, _everywhere("--json", help="One JSON object on standard output.")] = False,
    quiet: Annotated[bool, _everywhere("--quiet", "-q", help="Results and errors only.")] = False,
    debug: Annotated[bool, _everywhere("--debug", help="Show where an error came from.")] = False,
    memory_limit: Annotated[
        str | None,
        _everywhere("--memory-limit", metavar="SIZE", help="Of DuckDB, such as 1GB; more goes to disk."),
    ] = None,
    threads: Annotated[int | None, _everywhere("--threads", metavar="N", min=1, help="Of DuckDB.")] = None,
) -> None:
    """Recalibrate a deployed model from nothing but the predictions it makes in the field.

    learn, count, estimate, recalibrate; or all of it with run.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
