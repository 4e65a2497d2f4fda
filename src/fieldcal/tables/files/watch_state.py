"""What a job that is run again and again has counted so far: one file, from which everything else follows.

A table is a file, or all files in a folder and below. Every file is counted once, in windows, under its own name
(``2026-03-04/day=4/part.parquet``), so that a file that has changed is retracted and counted again, and the state does
not depend on how many runs there were, nor on where one of them was killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fieldcal.core.policy import POLICY
from fieldcal.errors import ArtefactError, FieldcalError, InputError
from fieldcal.objects import Field, Lab
from fieldcal.objects.alarms import KINDS, Alarm
from fieldcal.storage import canonical, digest, parse, read_bytes
from fieldcal.tables.files.paths import find, is_pattern

_CHUNK = 2**20


@dataclass(frozen=True)
class State:
    """Files that were counted, and the field that they make.

    Parameters
    ----------
    files : by name: size, time of change and digest, and rows, among them those left out and those without a time
    options : digests of those by which rows were counted, and by which the estimate and its alarms were made
    """

    lab: str
    files: Mapping[str, Mapping[str, Any]]
    field: Field | None
    severity: int = 0
    options: tuple[str, str] = ("", "")

    @classmethod
    def load(cls, path: Path, lab: Lab) -> State:
        """The state in a file; an empty one if there is none."""
        if not path.exists():
            return cls(lab.digest, {}, None)
        found = parse(read_bytes(path), name=path.name)
        try:
            if found["fieldcal"] != "watch":
                raise KeyError("fieldcal")
            field = (
                None if found["field"] is None else Field.from_json(canonical(found["field"]), name=path.name)
            )
            state = cls(found["lab"], found["files"], field, found["severity"], tuple(found["options"]))
        except (KeyError, TypeError):
            raise ArtefactError(
                f"{str(path)!r} is no state of fieldcal watch. Name another folder."
            ) from None
        if state.lab != lab.digest:
            raise InputError(
                f"The state in {str(path)!r} was counted with another lab ({state.lab[:8]}…, not {lab.digest[:8]}…). "
                "Use another folder for the new lab, or remove this one to count everything again."
            )
        return state

    def to_json(self) -> bytes:
        """The bytes of the file."""
        field = None if self.field is None else json.loads(self.field.to_json())
        content = {"lab": self.lab, "files": self.files, "field": field, "severity": self.severity}
        content["options"] = list(self.options)
        return canonical({"fieldcal": "watch", **content}) + b"\n"

    def under(self, counted: Mapping[str, Any], asked: Mapping[str, Any]) -> State:
        """With these options; where rows were counted by others, nothing is counted yet."""
        options = (
            digest({k: str(v) for k, v in counted.items()}),
            digest({k: str(v) for k, v in asked.items()}),
        )
        if self.options[0] not in ("", options[0]):
            return State(self.lab, {}, None, options=options)
        return replace(self, options=options)

    def with_file(self, name: str, about: Mapping[str, Any], counted: Field) -> State:
        """With the counts of a file, in place of earlier ones of the same name."""
        field = self.field
        for id in () if field is None else [id for id in field.batch_ids if id.partition("/")[2] == name]:
            assert field is not None
            field = field.retract(id)
        rows = {"rows": float(counted.n.sum()), "dropped": counted.dropped + counted.unseen}
        inside = counted.only(counted.batch_ids)
        about = {**about, **rows, "without_time": float(counted.n.sum() - inside.n.sum())}
        about["last"] = max((id.partition("/")[0] for id in inside.batch_ids), default="")
        total = inside if field is None else field + inside
        return replace(self, files={**self.files, name: about}, field=total)

    def broken_files(self) -> list[Alarm]:
        """Alarms of files in which many rows have no prediction, an unknown category, or no time."""
        found = []
        for name, about in sorted(self.files.items()):
            total = about["rows"] + about["dropped"]
            for key, what in (("dropped", "have no usable prediction"), ("without_time", "have no time")):
                if about[key] > POLICY.noticeable * total:
                    text = f"{name}: {about[key]:,.0f} of {total:,.0f} rows {what}."
                    window = about["last"]
                    found.append(Alarm("input", None, window, window, window, text, KINDS["input"][1]))
        return found


def count_new(
    state: State, source: str, count: Callable[[str, str], Field], log: Callable[[str], None]
) -> tuple[State, list[Alarm]]:
    """The state with the files that are new or have changed, and alarms of those that cannot be counted.

    Parameters
    ----------
    count : from what to open, and the name of the batch, to counts
    """
    paths, failed = find(source), []
    top = Path(source) if Path(source).is_dir() else None
    for path in paths:
        name = path.relative_to(top).as_posix() if top is not None else path.name
        about = _changed(path, state.files.get(name))
        if about is None:
            continue
        try:
            counted = count(_opened_as(path, alone=top is None and not is_pattern(source)), name)
        except FieldcalError as error:
            text = f"{name}: {error}"
            failed.append(Alarm("input", None, "", "", "", text, KINDS["input"][1]))
            log(f"not counted: {text}")
            continue
        state = state.with_file(name, about, counted)
        log(f"counted {name}: {counted.n.sum():,.0f} rows")
    return state, failed


def _opened_as(path: Path, *, alone: bool) -> str:
    """A file in a folder as a pattern of one file, so that folders named ``key=value`` stay columns."""
    return str(path) if alone else str(path.with_name(f"[{path.name[0]}]{path.name[1:]}"))


def _changed(path: Path, known: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Size, time and digest of a file; None if it is as it was."""
    status = path.stat()
    about = {"size": status.st_size, "changed": status.st_mtime_ns}
    if known is not None and all(known[key] == value for key, value in about.items()):
        return None
    content = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            content.update(chunk)
    if known is not None and known["sha256"] == content.hexdigest():
        return None
    return {**about, "sha256": content.hexdigest()}
