"""JSON that can be trusted, words for what is missing or misspelt, optional imports."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import json
import os
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fieldcal.errors import (
    ArtefactError,
    FieldcalError,
    InputError,
    InputTypeError,
    MissingExtraError,
    reason,
)

#: Larger artefacts than this are refused before they are read.
MAX_BYTES = 2**30
#: The column in which a table of labels says how each row was chosen.
DESIGN_COLUMN = "fieldcal_design"


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The whole file, if it is a plain one, of a size that an artefact can have, and does not grow meanwhile."""
    target = as_path(path)
    try:
        size = plain_size(target)
        if not size:  # also what a system makes up as it is read, perhaps without end
            raise ArtefactError(f"{target.name!r} is corrupt: it is empty. Make it again.")
        if size > MAX_BYTES:
            raise ArtefactError(f"{target.name!r} has {size:,} bytes, more than any artefact: not read.")
        with target.open("rb") as stream:
            data = stream.read(size + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, FieldcalError):
            raise
        raise ArtefactError(f"Cannot read {str(target)!r:.200}: {reason(error)}.") from None
    if len(data) > size:
        raise ArtefactError(
            f"Cannot read {str(target)!r}: it grows while it is read. Is it still being written?"
        )
    return data


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a table, by its name."""
    return Path(path).suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".gz", ".zst")


def as_path(path: Any) -> Path:
    """Where something lies, if this can be the name of a file."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"path must be the path of a file, but got {path!r:.60}.")
    return Path(path)


def plain_size(path: Path) -> int:
    """The bytes of a plain file. Devices and pipes have no size, and may have no end."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        here = next((f", such as {str(f)!r}" for f in sorted(path.glob("prevalence.json"))), "")
        raise ArtefactError(f"Cannot read {str(path)!r}: it is a folder. Add the name of a file{here}.")
    if not stat.S_ISREG(found.st_mode):
        raise ArtefactError(f"Cannot read {str(path)!r}: it is no plain file. Save it to one first.")
    return found.st_size


def canonical(content: Any) -> bytes:
    """One spelling of each content: sorted keys, no spaces, ASCII, no NaN."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def digest(content: Any) -> str:
    """SHA-256 of the canonical spelling."""
    return hashlib.sha256(canonical(content)).hexdigest()


def parse(data: bytes, *, name: str) -> Any:
    """JSON without duplicate keys or NaN literals; nested too deep, it raises RecursionError."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except ArtefactError as error:
        raise ArtefactError(f"{name} is corrupt: {error}") from None
    except ValueError as error:
        raise ArtefactError(f"{name} is corrupt, it is no valid JSON: {error}.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(k for k, _ in pairs).most_common(1)[0][0]
        raise ArtefactError(f"the key {twice[:40]!r} appears twice.")
    return content


def _no_constant(literal: str) -> Any:
    raise ArtefactError(f"it holds the literal {literal}, which no artefact has.")


def did_you_mean(value: Any, options: Sequence[Any]) -> str:
    """A sentence with the closest option; empty if none is close."""
    close = difflib.get_close_matches(str(value), [str(o) for o in options], n=1)
    return f" Did you mean {close[0]!r:.60}?" if close and close[0] != str(value) else ""


def refuse_repeats(names: Sequence[Any]) -> None:
    """Every column name must say which column is meant."""
    twice = [(name, times) for name, times in Counter(names).items() if times > 1]
    if twice:
        listed = ", ".join(f"{name!r:.60} ({times} times)" for name, times in twice[:6])
        raise InputError(
            f"Column names appear more than once: {listed}{', …' if len(twice) > 6 else ''}. Rename or drop them."
        )


def require(module: str, extra: str, *, purpose: str) -> ModuleType:
    """The module, or an error that says how to get it.

    Parameters
    ----------
    module : what is imported
    extra : the extra of fieldcal that brings it
    purpose : what it is needed for, as the middle of a sentence
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{module} is needed {purpose}, and is not installed. Install it: pip install 'fieldcal[{extra}]'"
        ) from None
