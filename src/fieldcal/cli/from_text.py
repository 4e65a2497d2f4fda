"""Texts of options that stand for objects or files: bins, calibrations, priors, sizes of groups."""

from __future__ import annotations

import csv
import functools
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.errors import InputError
from fieldcal.options import refused
from fieldcal.storage import read_bytes
from fieldcal.texts import names

if TYPE_CHECKING:
    from fieldcal.core.priors import Prior, PriorLike


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


def sizes(text: str) -> list[tuple[str, str]]:
    """``York=100,Leeds=50``, or a CSV file with the group's columns and the size last: groups and sizes as text."""
    if not text.lower().endswith(".csv"):
        return [(name, size) for name, _, size in (part.rpartition("=") for part in names([text]))]
    lines = read_bytes(text).decode("utf-8-sig", "replace").splitlines()
    cells = [row for row in csv.reader(lines) if row]
    if cells and number(cells[0][-1]) is None:  # names of columns
        cells = cells[1:]
    return [(row[0] if len(row) == 2 else ",".join(row[:-1]), row[-1]) for row in cells]


def number(text: str) -> float | None:
    """Of a text that is one."""
    try:
        return float(text)
    except ValueError:
        return None


#: How texts of options are read that stand for objects which the table of options does not know, or for a file.
READERS: Mapping[str, Callable[[Any], Any]] = {
    "partition": bins,
    "calibration": calibration,
    "prior": prior,
    "totals": sizes,
}
