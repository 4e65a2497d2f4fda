"""Ctrl-C, and a polite request to end: remembered, so that the exit code is right whoever swallows the exception."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Annotated, Any, Self, TextIO

import typer
import typer.main

import fieldcal
from fieldcal.cli import commands, sql
from fieldcal.cli.options import EVERYWHERE, Settings
from fieldcal.cli.output import explain, one_line, warnings_in_one_line

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Watch:
    """While it is on, these signals raise KeyboardInterrupt, so that whatever is half-written is taken away."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows it nowhere else
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
                    self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        raise KeyboardInterrupt

    @property
    def exit_code(self) -> int:
        """What a shell would report: 130 for Ctrl-C."""
        return 128 + (self.caught or signal.SIGINT)


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
    for verb in (
        commands.learn,
        commands.count,
        commands.merge,
        commands.estimate,
        commands.recalibrate,
        commands.check,
    ):
        app.command()(verb)
    app.command()(commands.run)
    app.command()(commands.report)
    app.add_typer(sql.sql, name="sql")
    app.command()(sql.schema)
    app.command()(commands.demo)
    built = typer.main.get_command(app)
    _share(built, [p for p in built.params if p.name in EVERYWHERE])
    return built


def _share(group: Any, params: list[Any]) -> None:
    """Let options of the root stand behind every command as well."""
    for below in group.commands.values():
        below.params.extend(params)
        if hasattr(below, "commands"):
            _share(below, params)


CLOSED_PIPE = 141


def run(args: Sequence[str] | None, watch: Watch) -> int:
    """Parse, call, and say what happened by the exit code."""
    settings = Settings()
    _prepare_streams()
    # It tells of a home that it cannot write to, and draws all the same.
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
