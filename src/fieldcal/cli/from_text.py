"""Texts of options that stand for objects: bins, calibrations, priors, and the classes and groups of an artefact."""

from __future__ import annotations

import csv
import functools
import json
import operator
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.errors import InputError
from fieldcal.options import refused
from fieldcal.storage import did_you_mean, read_bytes
from fieldcal.texts import names

if TYPE_CHECKING:
    from fieldcal.core.priors import Prior, PriorLike
    from fieldcal.objects import Lab, Prevalence

_SHOWN = 12


def bins(text: str) -> Any:
    """How many bins, where to cut, or a way to make so many; ``0.5,`` is one cut.

    Examples
    --------
    >>> from fieldcal.cli.from_text import bins
    >>> bins("8"), bins("0.2,0.5"), bins("quantiles:8")
    (8, Edges(edges=(0.2, 0.5)), Quantiles(n=8))
    """
    if text == "auto":
        return text
    if text.lower().endswith(".json"):
        return fieldcal.Lab.load(text).partition
    if "," in text:
        return fieldcal.partitions.Edges([float(part) for part in text.split(",") if part.strip()])
    ways: dict[str, Callable[[int], Any]] = {
        "quantiles": fieldcal.partitions.Quantiles,
        "simplex": fieldcal.partitions.Simplex,
        "expected": fieldcal.partitions.Expected,
        "given": fieldcal.partitions.Bins,
        "": int,
    }
    way, _, size = text.strip().rpartition(":")
    if way not in ways or not (size.isdecimal() and int(size) > 0):
        raise ValueError
    return ways[way](int(size))


def calibration(text: str) -> Any:
    """A way to calibrate, or what another lab is calibrated by."""
    from fieldcal.core.calibration import CALIBRATIONS

    known = ", ".join(CALIBRATIONS)
    if text in CALIBRATIONS:
        return text
    if not text.lower().endswith(".json"):
        raise refused("calibration", text, f"be {known}, or the file of a calibrated lab such as lab.json")
    found = fieldcal.Lab.load(text).calibration_map
    if found is None:
        raise InputError(
            f"The lab in {text!r:.80} is not calibrated, so that --calibration takes nothing from it. Name one that "
            f"is, or {known}."
        )
    return found


def prior(text: str) -> PriorLike:
    """A prior by its name, with a strength where it has one, ``kl:10``; or a sum of several."""
    if text == "auto":
        return "auto"  # what it means depends on the lab
    return functools.reduce(operator.add, (_one_prior(part.strip(), text) for part in text.split("+")))


def _one_prior(text: str, whole: str) -> Prior:
    from fieldcal.core.priors import KL, Continuity, Dirichlet, KLBins, as_prior

    name, colon, strength = text.partition(":")
    if name and not colon and name != "auto":
        return as_prior(name)  # type: ignore[arg-type]  # it refuses what it does not know
    kinds: dict[str, type[KL | Dirichlet | Continuity | KLBins]]
    kinds = {kind.name: kind for kind in (KL, Dirichlet, Continuity, KLBins)}
    value = number(strength)
    if name not in kinds or value is None:
        words = f"be a name, or {', '.join(kinds)} with a strength such as kl:10, or a sum of these with +"
        raise refused("prior", whole, words)
    return kinds[name](value)


#: How texts of options are read that stand for objects which the table of options does not know.
READERS: Mapping[str, Callable[[Any], Any]] = {"partition": bins, "calibration": calibration, "prior": prior}


def number(text: str) -> float | None:
    """Of a text that is one."""
    try:
        return float(text)
    except ValueError:
        return None


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
    from fieldcal.objects import group_keys

    for key in (_as_key(text), text):
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


def _as_key(text: str) -> Any:
    """What JSON makes of it, if that can be a group; else the ellipsis."""
    from fieldcal.objects import group_keys

    try:
        return group_keys.normalize(group_keys.decode(json.loads(text)))
    except (ValueError, TypeError, RecursionError, fieldcal.FieldcalError):
        return ...


def _parts(key: Hashable) -> tuple[str, ...]:
    return tuple(
        "null" if part is None else str(part) for part in (key if isinstance(key, tuple) else (key,))
    )


def totals_of(prev: Prevalence, text: str) -> dict[Hashable, float]:
    """Sizes of groups: ``York=100,Leeds=50``, or a CSV file with the group's columns and the size last."""
    if text.lower().endswith(".csv"):
        lines = read_bytes(text).decode("utf-8-sig", "replace").splitlines()
        cells = [row for row in csv.reader(lines) if row]
        if cells and number(cells[0][-1]) is None:  # names of columns
            cells = cells[1:]
        rows = [(row[0] if len(row) == 2 else ",".join(row[:-1]), row[-1]) for row in cells]
    else:
        try:
            rows = [part.rpartition("=")[::2] for part in names([text])]
        except ValueError:
            raise refused("totals", text, "be sizes such as York=100,Leeds=50") from None
    sizes: dict[Hashable, float] = {}
    for name, size in rows:
        group = group_of(prev, name)
        if group in sizes:
            raise InputError(f"--totals names the group {name!r:.60} twice. Add its sizes up.")
        value = number(size)
        if value is None or not 0.0 <= value < float("inf"):
            raise InputError(f"--totals must have numbers, none negative, but has {size!r:.60}.")
        sizes[group] = value
    return sizes
