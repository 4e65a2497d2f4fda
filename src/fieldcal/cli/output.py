"""What is printed and written: results, tables, JSON, CSV, and errors in one line that spells options as flags."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fieldcal.errors import FieldcalError, FieldcalWarning, spelled
from fieldcal.options import flag_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

    from fieldcal.objects import Prevalence, Verdict
    from fieldcal.reporting import Report


@dataclass
class Settings:
    """The options of every command, filled while the arguments are parsed."""

    json: bool = False
    quiet: bool = False
    debug: bool = False
    memory_limit: str | None = None
    threads: int | None = None
    warnings: list[str] = field(default_factory=list)  # those shown so far, for --json


_LONGEST = 2_000
_INTERNAL = "This is a bug in fieldcal. Run again with --debug and report what it prints."
_MEMORY = "Out of memory. Set --memory-limit, so that more is kept on disk, or count in parts and merge them."
_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "duckdb": "cli",
    "sqlglot": "sql",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "polars": "polars",
    "pyspark": "spark",
}


def one_line(text: str) -> str:
    """Any text on one line, without control or direction characters, and not endless."""
    line = "".join(c if c.isprintable() else "·" for c in " ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def explain(error: BaseException) -> str:
    """What is wrong and what to do about it."""
    if hasattr(error, "format_message"):  # of typer: the arguments cannot be understood
        path = getattr(getattr(error, "ctx", None), "command_path", "fieldcal")
        return f"{_sentence(error.format_message())} Try '{path} --help'."
    if isinstance(error, FieldcalError):
        return error.spelled(flag_of)
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, OSError):
        return _system(error)
    if isinstance(error, ModuleNotFoundError):
        return not_installed(error)
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and isinstance(error, duckdb.Error):
        first = str(error).strip().partition("\n")[0]
        return f"{_sentence(first)} Check the table and the options."
    return f"{type(error).__name__}: {_sentence(str(error))} {_INTERNAL}"


def not_installed(error: ModuleNotFoundError) -> str:
    """Which package is missing, and how to get it."""
    package = (error.name or "typer").partition(".")[0]
    install = f"'fieldcal[{_EXTRAS[package]}]'" if package in _EXTRAS else package
    return f"This needs {package!r}, which is not installed: pip install {install}"


def _system(error: OSError) -> str:
    where = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, (str, bytes)) else ""
    what = _sentence(error.strerror or str(error))
    return f"Cannot read or write{where}: {what} Check the path, the permissions and the disk."


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "?", "!")) else f"{text}."


_WIDE = 2_000


@contextmanager
def warnings_in_one_line(settings: Settings) -> Iterator[None]:
    """Python's warnings as ``warning: …``, each text once."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(settings, message.spelled(flag_of) if isinstance(message, FieldcalWarning) else str(message))

    with warnings.catch_warnings(action="always", category=FieldcalWarning):
        warnings.showwarning = show  # put back by catch_warnings
        yield


def warn(settings: Settings, text: str) -> None:
    """A warning for people, on stderr, and for scripts with --json."""
    if one_line(text) not in settings.warnings:
        settings.warnings.append(one_line(text))
        note(settings, f"warning: {text}")


def note(settings: Settings, text: str) -> None:
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


def done(
    settings: Settings, data: Mapping[str, Any], written: Sequence[str | Path], *parts: RenderableType
) -> None:
    """The answer, and which files hold it; a table on stdout leaves stderr for the answer."""
    if "-" in map(str, written):
        for line in "\n".join(map(str, parts)).splitlines():
            note(settings, line)
        return
    result(settings, {**data, "written": list(map(str, written))}, *parts)
    for path in written:
        note(settings, f"wrote {path}")


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


def table(prev: Prevalence, all_in: str = "the output of --json") -> list[RenderableType]:
    """The prevalences as a table with its title, and what it leaves out."""
    from fieldcal.objects import prevalence_table

    return prevalence_table.sheet(prev, all_in=all_in).parts()


def verdict(answer: Verdict) -> list[RenderableType]:
    """The verdict with its reasons, which name options as flags."""
    from fieldcal.objects import show

    return show.verdict_parts(answer, reasons=_reasons(answer))


def _reasons(answer: Verdict) -> list[str]:
    from fieldcal.verbs.findings import marked

    return [spelled(marked(finding), flag_of) for finding in answer.reported]


@contextmanager
def working(
    settings: Settings, text: str, *, first: str | None = None
) -> Iterator[Callable[[int, int], None] | None]:
    """A moving sign on stderr while something lasts, where somebody watches; elsewhere the line ``first``, if any.

    Gives a function to call with what is done and what there is to do, or None.
    """
    with _bar(settings) as bar:
        if bar is None:
            if first is not None:
                note(settings, first)
            yield None
            return
        task = bar.add_task(one_line(text), total=None)
        yield lambda done, total: bar.update(
            task, completed=done, total=total, description=f"{one_line(text)} {done:,} of {total:,}"
        )


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


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    return {"verdict": verdict.level, "reasons": _reasons(verdict)}


def prevalence_data(prev: Prevalence) -> dict[str, Any]:
    """The verdict, and the table with one row per group and class, those of the whole field first and by themselves."""
    from fieldcal.objects import describe

    return {"digest": prev.digest, **verdict_data(prev.verdict), **describe.prevalence_data(prev)}


def report_data(report: Report) -> dict[str, Any]:
    """What stands at the top of a report, and whether labels confirm it."""
    content = report.content
    labelled = content.get("labelled")  # a report of values has none: their labels are in the estimate
    return {
        "verdict": content["verdict"]["level"],
        "reasons": content["verdict"]["reasons"],
        "advice": content["verdict"]["advice"],
        "labelled": labelled and labelled["measures"],
    }
