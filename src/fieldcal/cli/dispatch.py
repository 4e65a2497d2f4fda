"""From arguments to an exit code: streams, errors, and the commands by name.

Nothing here needs typer before it runs, so that its absence is reported in one line.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fieldcal.cli.main import INTERRUPTED, signals
from fieldcal.cli.output import Settings, explain, one_line, warnings_in_one_line

if TYPE_CHECKING:
    from fieldcal.cli.signature import Command

CLOSED_PIPE = 141


def run(args: Sequence[str] | None) -> int:
    """The exit code of the command with these arguments."""
    settings = Settings()
    _prepare_streams()
    # It warns of a home that it cannot write to, and draws all the same.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        with warnings_in_one_line(settings):
            code = command().main(
                args=None if args is None else list(args),
                prog_name="fieldcal",
                standalone_mode=False,
                obj=settings,
            )
            sys.stdout.flush()
            if code == INTERRUPTED or signals:  # typer makes a code of it
                raise KeyboardInterrupt
    except BaseException as error:
        return _failed(error, settings)
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    """Streams that the caller closed lead nowhere; signs that the locale cannot spell are replaced."""
    sys.stdout, sys.stderr = (s or open(os.devnull, "w") for s in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _failed(error: BaseException, settings: Settings) -> int:
    """Print what happened in one line; the exit code."""
    causes = list(_causes(error))
    if settings.debug:
        traceback.print_exception(error)
    if signals or any(isinstance(e, KeyboardInterrupt) for e in causes):
        text, code = "Interrupted.\n", INTERRUPTED
    elif any(isinstance(e, BrokenPipeError) for e in causes):  # typer and rich make a SystemExit of it
        text, code = "", CLOSED_PIPE
    elif isinstance(error, SystemExit) and not isinstance(error.code, str):
        return int(error.code or 0)
    else:
        text, code = f"error: {one_line(explain(error))}\n", 1
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(text)
        sys.stderr.flush()
    _discard_output()
    return code


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _discard_output() -> None:
    """Output that cannot be written would be another error when Python ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def all_commands() -> tuple[Command, ...]:
    """Every command, in the order of the help."""
    from fieldcal.cli import apply, commands, contrast, pages, plan, sql, watch
    from fieldcal.cli import run as all_verbs

    verbs = (commands.learn, commands.count, commands.merge, commands.estimate, commands.recalibrate)
    others = (
        apply.decide,
        apply.change_prevalence,
        plan.plan,
        contrast.contrast,
        contrast.compare,
        watch.alarms,
        watch.watch,
        pages.show,
    )
    return (*verbs, commands.check, all_verbs.run, pages.report, pages.demo, *others, *sql.COMMANDS)


def command() -> Any:
    """The root command; help is plain text where nobody looks at it in colour."""
    import typer.main

    from fieldcal.cli import signature

    fancy = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    app = typer.Typer(
        rich_markup_mode="rich" if fancy else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(signature.root)
    below = typer.Typer(help="Statements for a warehouse.")
    for made in all_commands():
        (below if made.name.startswith("sql ") else app).command(made.name.split()[-1])(made.typed())
    app.add_typer(below, name="sql")
    built = typer.main.get_command(app)
    _share(built, [p for p in built.params if p.name in signature.EVERYWHERE])
    return built


def _share(group: Any, params: list[Any]) -> None:
    for below in group.commands.values():
        below.params.extend(params)
        if hasattr(below, "commands"):
            _share(below, params)
