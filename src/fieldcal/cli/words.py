"""Errors and warnings in the words of the command line: one line, and a way out."""

from __future__ import annotations

import os
import re
import sys

from fieldcal.errors import FieldcalError

_LONGEST = 2_000
_INTERNAL = "This is a bug in fieldcal. Run again with --debug and report what it prints."
_MEMORY = "Out of memory. Set --memory-limit, so that more is kept on disk, or count in parts and merge them."
_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "duckdb": "cli",
    "sqlglot": "sql",
    "jinja2": "report",
    "matplotlib": "report",
}
#: Ways out are told in Python; here they are options.
_FLAG = re.compile(r"\b(acknowledge|normalize)=True\b")
_NAMES = "missing|unseen|trust|prior|level|batch|label|by|scores|classes|name|time|every|quantiles|crossing|intervals"
_OPTION = re.compile(rf"\b({_NAMES})=(['\"]?)([\w.{{}}]+|…|<[^>]*>)\2")

_LEVELS = re.compile(r"\bquantiles=\{(0\.\d+): '(\w+)', (0\.\d+): '(\w+)'\}")


def one_line(text: str) -> str:
    """Any text on one line, without control or direction characters, and not endless."""
    line = "".join(c if c.isprintable() else "·" for c in " ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def in_options(text: str) -> str:
    """A sentence about arguments of functions as one about options.

    Examples
    --------
    >>> from fieldcal.cli.words import in_options
    >>> in_options("Drop those rows, or pass missing='drop'. Pass acknowledge=True if that is meant.")
    'Drop those rows, or pass --missing drop. Pass --acknowledge if that is meant.'
    """
    text = _LEVELS.sub(lambda m: f"--quantiles {m[1]}={m[2]},{m[3]}={m[4]}", text)
    return _OPTION.sub(lambda m: f"--{m[1]} {m[3]}", _FLAG.sub(r"--\1", text))


def explain(error: BaseException) -> str:
    """What is wrong and what to do about it."""
    if hasattr(error, "format_message"):  # of typer: the arguments cannot be understood
        path = getattr(getattr(error, "ctx", None), "command_path", "fieldcal")
        return f"{_sentence(error.format_message())} Try '{path} --help'."
    if isinstance(error, FieldcalError):
        return in_options(str(error))
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
    extra = _EXTRAS.get(package, "all")
    return f"This needs {package!r}, which is not installed: pip install 'fieldcal[{extra}]'"


def _system(error: OSError) -> str:
    where = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, (str, bytes)) else ""
    what = _sentence(error.strerror or str(error))
    return f"Cannot read or write{where}: {what} Check the path, the permissions and the disk."


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "?", "!")) else f"{text}."
