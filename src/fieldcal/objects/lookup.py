"""Artefacts by their files, and their classes and groups by the text that people type for them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from fieldcal.errors import ArtefactError, FieldcalError, InputError, named
from fieldcal.objects import Field, Lab, Prevalence, group_keys
from fieldcal.objects.artefact import Artefact
from fieldcal.storage import did_you_mean, is_table, parse, read_bytes

_SHOWN = 12


def kind_of(path: Path) -> str | None:
    """Whether a file holds a lab, a field or a prevalence, by what it says; None where it says nothing of the kind."""
    try:
        envelope = parse(read_bytes(path), name=path.name)
    except (FieldcalError, RecursionError):
        return None  # those who read it say what is wrong
    kind = envelope.get("fieldcal") if isinstance(envelope, dict) else None
    return kind if isinstance(kind, str) else None


def load_any(path: Path) -> tuple[Artefact, int]:
    """An artefact of whatever kind, and the version of its format."""
    data, name = read_bytes(path), os.path.basename(path)
    if is_table(path):
        raise ArtefactError(
            f"{name} is a table. show takes JSON files that fieldcal wrote: a lab, a field or a prevalence."
        )
    envelope = parse(data, name=name)
    kinds: dict[str, type[Artefact]] = {c.kind: c for c in (Lab, Field, Prevalence)}
    kind = envelope.get("fieldcal") if isinstance(envelope, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ArtefactError(
            f"{name} is not a fieldcal artefact. Give a file that `fieldcal learn`, `count` or `estimate` wrote."
        )
    held = kinds[kind].from_json(data, name=name)
    return held, int(envelope["schema"])


def class_of(artefact: Prevalence | Lab, text: str | None) -> Hashable:
    """The class that is spelled so; classes need not be text."""
    if text is None:
        return None
    spelled = {str(c): c for c in reversed(artefact.classes)}
    if text not in spelled:
        known = ", ".join(map(str, artefact.classes))
        raise InputError(
            f"There is no class {text!r:.60}.{did_you_mean(text, list(spelled))} There are {known:.200}."
        )
    return spelled[text]


def group_of(prev: Prevalence, text: str) -> Hashable:
    """The group that is spelled so: as JSON, as text, or its parts with commas between them."""
    for key in (_from_json(text), text):
        if key is not ... and int(group_keys.positions(prev.groups, (key,))[0]) >= 0:
            return key
    parts = tuple(part.strip() for part in next(csv.reader([text]), []))
    spelled = [
        key for key in prev.groups if parts == _parts(key) or text == group_keys.show(key, width=10_000)
    ]
    if len(spelled) == 1:
        return spelled[0]
    if spelled:
        ways = " or ".join(
            repr(json.dumps(group_keys.encode(key), ensure_ascii=False)) for key in spelled[:3]
        )
        raise InputError(f"{len(spelled)} groups are spelled {text!r:.60}. Write which one as JSON: {ways}.")
    known = [",".join(_parts(key)) for key in prev.groups]
    listed = ", ".join(repr(name)[:60] for name in known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    raise InputError(f"There is no group {text!r:.60}.{did_you_mean(text, known)} There are {listed}.")


def two_groups(artefact: Prevalence | Lab, text: str | None) -> tuple[Hashable, Hashable] | None:
    """Two groups of an estimate, spelled with a comma between them."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not isinstance(artefact, Prevalence) or len(parts) != 2:
        raise InputError(
            f"{named('apart')} names two groups of an estimate, such as A,B, but is {text!r:.60}."
        )
    return group_of(artefact, parts[0]), group_of(artefact, parts[1])


def totals_of(prev: Prevalence, sizes: list[tuple[str, str]]) -> dict[Hashable, float]:
    """Sizes of groups, both as text."""
    found: dict[Hashable, float] = {}
    for name, text in sizes:
        group = group_of(prev, name)
        if group in found:
            raise InputError(f"{named('totals')} names the group {name!r:.60} twice. Add its sizes up.")
        try:
            found[group] = float(text)
        except ValueError:
            found[group] = float("nan")
        if not 0.0 <= found[group] < float("inf"):
            raise InputError(f"{named('totals')} must have numbers, none negative, but has {text!r:.60}.")
    return found


def _from_json(text: str) -> Any:
    """What JSON makes of it, if that can be a group; else the ellipsis."""
    try:
        return group_keys.normalize(group_keys.decode(json.loads(text)))
    except (ValueError, TypeError, RecursionError, FieldcalError):
        return ...


def _parts(key: Hashable) -> tuple[str, ...]:
    return tuple(
        "null" if part is None else str(part) for part in (key if isinstance(key, tuple) else (key,))
    )
