"""Files that are either the old or the new one, never half of one; JSON that can be trusted."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fieldcal.errors import (
    ArtefactError,
    FieldcalError,
    InputError,
    InputTypeError,
    MissingExtraError,
    Option,
)

#: Larger artefacts than this are refused before they are read.
MAX_BYTES = 2**30


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees all of it or none."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside the target to write to; it takes the target's place if all goes well, and is gone if not."""
    target = Path(path)
    check_replaceable(target)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    except OSError as error:
        raise InputError(
            f"Cannot write {target.name!r} in {str(target.parent)!r}: {error.strerror}. Choose another folder."
        ) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        temporary.chmod(_mode(target))
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and not isinstance(error, FieldcalError):
            raise InputError(
                f"Cannot write {str(target)!r}: {error.strerror}. Nothing was changed."
            ) from None
        raise


def check_replaceable(target: Path) -> None:
    """Refuse what must not be replaced: folders, devices and pipes, and what somebody made read-only."""
    if not target.exists():
        return
    mode = target.stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError(f"Cannot write {str(target)!r}: it is a folder. Add the name of a file.")
    if not stat.S_ISREG(mode):
        raise InputError(f"Cannot write {str(target)!r}: it is no plain file. Choose another name.")
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"Cannot write {str(target)!r}: it is read-only. Choose another name.")


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or what a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


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


def as_path(path: object) -> Path:
    """Where something lies, if this can be the name of a file."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"The path of a file is expected, but got {type(path).__name__}.")
    return Path(path)


def plain_size(path: Path) -> int:
    """The bytes of a plain file. Devices and pipes have no size, and may have no end."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise ArtefactError(f"Cannot read {str(path)!r}: it is a folder. Add the name of a file.")
    if not stat.S_ISREG(found.st_mode):
        raise ArtefactError(f"Cannot read {str(path)!r}: it is no plain file. Save it to one first.")
    return found.st_size


def reason(error: OSError | ValueError) -> str:
    """Why a path cannot be used, in the system's words; a path that no system has is a ValueError."""
    return getattr(error, "strerror", None) or str(error)


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


def column_names(given: Any, option: str) -> tuple[str, ...]:
    """One name or several; none where nothing is given."""
    listed = () if given is None else (given,) if isinstance(given, str) else given
    if isinstance(listed, Iterable) and not isinstance(listed, (bytes, Mapping)):
        found = tuple(listed)
        if all(isinstance(name, str) for name in found):
            return found
    raise no_name(given, option)


def no_name(given: object, option: str) -> InputTypeError:
    """Names are text: files and most engines know no others."""
    return InputTypeError(
        Option(option, given),
        " does not name a column by text. Rename columns that are named by numbers or tuples first: "
        "frame.columns = [str(c) for c in frame.columns].",
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
