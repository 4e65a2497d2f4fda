"""DuckDB's errors about files, in one line: which file, which line, what to do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from fieldcal.errors import InputError
from fieldcal.storage import require

_LINE = re.compile(r"(?:CSV Error on Line: |JSON transform error in file .* in line )(\d+)")
_FILE = re.compile(r'(?:^\s*file = |JSON .* in file "|GZIP stream: )([^"\n]+)', re.MULTILINE)
_COLUMNS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_WRITE = re.compile(r'Could not write file \\*"(?P<path>.+?)\\*": (?P<why>[^"}\n]+)')
_KIND = re.compile(r"^(\w+ )*Error: ")
_TWICE = re.compile(r'has duplicate key "(.*)"')
#: What is said of a line or file, by a part of DuckDB's message in small letters.
_WORDS = {
    "unicode": "is not text in UTF-8. Save it as UTF-8.",
    "utf-8 encoded": "is not text in UTF-8. Save it as UTF-8.",
    "gzip": "cannot be used: its gzip is damaged or ends too early. Was it copied whole?",
    "unterminated quote": "opens a quote that does not end where the value ends. Correct it.",
    "maximum line size": "is longer than any row of a table. Is a quote left open, or is this not a CSV?",
    "state machine reached": "is not a regular CSV. Are its line ends mixed, or a quote left open?",
}


@contextlib.contextmanager
def translated(name: str, *, target: str | None = None) -> Iterator[None]:
    """Raise DuckDB's errors as `InputError`, and an interrupted query as the Ctrl-C that it was.

    Parameters
    ----------
    name : what is read, and is to blame
    target : what is written meanwhile
    """
    duckdb = require("duckdb", "cli", purpose="to read and write files")
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.OutOfMemoryException:
        raise InputError(
            f"The memory limit is too small for {name!r}. Raise it, use fewer threads, or write the file with smaller "
            "row groups."
        ) from None
    except duckdb.Error as error:
        raise InputError(_in_one_line(name, str(error), target or name)) from None
    except UnicodeDecodeError:  # of names and values that are none, in a damaged file
        raise InputError(f"{name!r} cannot be used: it holds text that is not UTF-8.") from None
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # what is left of a signal that came while DuckDB worked
            raise KeyboardInterrupt from None
        raise


def _in_one_line(name: str, message: str, target: str) -> str:
    """One line, without DuckDB's advice on options that fieldcal does not have."""
    if written := _WRITE.search(message):
        return _unwritten(target, written["path"], written["why"])
    where = _where(name, message)
    if columns := _COLUMNS.search(message):
        return (
            f"{where} has {columns[2]} values, but the header has {columns[1]} names. Correct the line, or put values "
            "that hold the delimiter in quotes."
        )
    if twice := _TWICE.search(message):
        return f"{where} has the key {twice[1]!r:.60} twice. Write one whole object per line."
    for part, words in _WORDS.items():
        if part in message.lower():
            return f"{where} {words}"
    first = next((part.strip() for part in message.splitlines() if part.strip()), "no reason is given")
    return f"{where} cannot be used: {_KIND.sub('', first)[:300].rstrip('.')}."


def _where(name: str, message: str) -> str:
    line, file = _LINE.search(message), _FILE.search(message)
    found = Path(file[1].strip()).name if file else ""
    shown = name if name.endswith(found) else found
    return f"{shown!r}, line {line[1]}," if line else f"{shown!r}"


def _unwritten(target: str, path: str, why: str) -> str:
    if "duckdb_temp" in path:
        return f"Cannot write temporary data that does not fit into memory: {why}. Free space, or set TMPDIR."
    return f"Cannot write {target!r}: {why}. Nothing was changed."
