"""From arguments to an exit code: streams, errors, and the commands by name.

Nothing here needs typer before it runs, so that its absence can be told in one line.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TextIO

from fieldcal.cli.main import Watch
from fieldcal.cli.output import Settings, explain, one_line, warnings_in_one_line

CLOSED_PIPE = 141


def run(args: Sequence[str] | None, watch: Watch) -> int:
    """Parse, call, and say what happened by the exit code."""
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
    except BaseException as error:
        return _failed(error, settings, watch)
    if watch.caught is not None:
        return watch.exit_code
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    if None in (sys.stdin, sys.stdout, sys.stderr):  # closed by whoever called
        while os.open(os.devnull, os.O_RDWR) <= 2:  # or the next file to be opened would take its place
            pass
        sys.stdout, sys.stderr = (
            stream or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") for stream in (sys.stdout, sys.stderr)
        )
    out: TextIO = sys.stdout
    raw = getattr(out, "buffer", None)
    if isinstance(raw, io.RawIOBase) and out is sys.__stdout__:
        # Unbuffered (python -u), a write that is cut short by a closing pipe is no error, and nobody would notice.
        whole = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(whole, encoding=out.encoding, write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale that cannot spell a sign must not stop the work
            stream.reconfigure(errors="replace")


def _failed(error: BaseException, settings: Settings, watch: Watch) -> int:
    causes = list(_causes(error))
    if settings.debug:
        traceback.print_exception(error)
    if watch.caught is not None or any(isinstance(e, KeyboardInterrupt) for e in causes):
        _discard_output()
        return watch.exit_code
    if any(isinstance(e, BrokenPipeError) for e in causes):  # typer and rich make a SystemExit of it
        _discard_output()
        return CLOSED_PIPE
    if isinstance(error, SystemExit) and not isinstance(error.code, str):
        return int(error.code or 0)
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(f"error: {one_line(explain(error))}\n")
        sys.stderr.flush()
    _discard_output()
    return 1


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _discard_output() -> None:
    """What is still buffered has no reader: without this Python complains when it ends."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def command() -> Any:
    """The root command; help is plain text where nobody looks at it in colour."""
    import typer.main

    from fieldcal.cli import answers, commands, decisions, derived, known, labs, options, plan, show, sql
    from fieldcal.cli import run as all_verbs

    fancy = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    app = typer.Typer(
        rich_markup_mode="rich" if fancy else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(options.root)
    questions = (answers.contrast, derived.shares, derived.performance, derived.draws, derived.cross_validate)
    others = (decisions.decide, known.change_prevalence, plan.plan, *questions, show.show)
    for made in (*commands.VERBS, all_verbs.run, *commands.PAGES, *others, labs.rates, labs.extend):
        app.command()(options.flat(made))
    below = typer.Typer(help="Statements for a warehouse.")
    for name, made in sql.COMMANDS.items():
        below.command(name)(options.flat(made))
    app.add_typer(below, name="sql")
    app.command()(options.flat(sql.schema))
    built = typer.main.get_command(app)
    _share(built, [p for p in built.params if p.name in options.EVERYWHERE])
    return built


def _share(group: Any, params: list[Any]) -> None:
    for below in group.commands.values():
        below.params.extend(params)
        if hasattr(below, "commands"):
            _share(below, params)
