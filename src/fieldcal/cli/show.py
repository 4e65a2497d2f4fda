"""Results on stdout, messages on stderr. Names come from data: nothing in them is ever a command to the terminal."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from fieldcal.cli.settings import Settings
from fieldcal.cli.words import in_options, one_line
from fieldcal.errors import FieldcalWarning

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

    from fieldcal.objects import Prevalence, Verdict

_WIDE = 2_000


@contextmanager
def warnings_in_one_line(settings: Settings) -> Iterator[None]:
    """Python's warnings as ``warning: …``, each text once."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(settings, in_options(str(message)))

    with warnings.catch_warnings(action="always", category=FieldcalWarning):
        warnings.showwarning = show  # put back by catch_warnings
        yield


def warn(settings: Settings, text: str) -> None:
    """A warning for people, on stderr, and for scripts with --json."""
    if one_line(text) not in settings.warnings:
        settings.warnings.append(one_line(text))
        note(settings, f"warning: {text}")


def note(settings: Settings, text: str) -> None:
    """A message for people, on stderr."""
    if not settings.quiet:
        sys.stderr.write(f"{one_line(text)}\n")
        sys.stderr.flush()


def result(settings: Settings, data: Mapping[str, Any], *parts: RenderableType) -> None:
    """The answer, on stdout: one JSON object, or something to read."""
    if settings.json:
        whole = {**data, "warnings": settings.warnings}
        sys.stdout.write(json.dumps(whole, allow_nan=False, default=str) + "\n")
    else:
        for part in parts:
            console(sys.stdout).print(part, soft_wrap=isinstance(part, str))
    sys.stdout.flush()


def console(stream: TextIO) -> Console:
    """A console that takes names literally, has no colours if ``NO_COLOR`` is set, and cuts nothing in a file."""
    from rich.console import Console

    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        width=None if stream.isatty() else _WIDE,
    )


def table(prev: Prevalence) -> list[RenderableType]:
    """The prevalences as a table with its title, and what it leaves out."""
    from fieldcal.objects import display

    return display.prevalence_parts(prev)


def verdict(answer: Verdict) -> list[RenderableType]:
    """The verdict with its reasons."""
    from fieldcal.objects import display

    return display.verdict_parts(answer)


def records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """A table of columns as one dictionary per row."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@contextmanager
def working(settings: Settings, text: str) -> Iterator[Callable[[int, int], None] | None]:
    """A moving sign on stderr while something lasts, where somebody watches.

    Gives a function to call with what is done and what there is to do, or None.
    """
    with _bar(settings) as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task(one_line(text), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def steps(settings: Settings, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on stderr that goes on with every step, where somebody watches. Gives a function to name the next."""
    with _bar(settings) as bar:
        if bar is None:
            yield lambda text: None
            return
        task = bar.add_task("", total=total, completed=-1)
        yield lambda text: bar.update(task, advance=1, description=one_line(text))


@contextmanager
def _bar(settings: Settings) -> Iterator[Progress | None]:
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), BarColumn(), TimeElapsedColumn(), words)
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        yield bar
