"""Costs of decisions and shares of classes, as people write them: in one line, or in a small file."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldcal.errors import InputError, named
from fieldcal.objects import show
from fieldcal.option_rows import OPTIONS
from fieldcal.options import refused
from fieldcal.storage import did_you_mean, is_table, read_bytes
from fieldcal.tables.files.session import Session
from fieldcal.tables.files.text import quoted
from fieldcal.texts import names
from fieldcal.types import Keys
from fieldcal.verbs.change_prevalence import as_prevalences

Costs = list[list[float]]
GOALS = {"accuracy": "the most probable class", "balanced": "the best mean recall of all classes"}


def goal_of(text: str, classes: Keys) -> str | Costs:
    """A goal by its name, or costs as numbers in the order of the classes.

    Examples
    --------
    >>> from fieldcal.tables.files.costs_and_shares import goal_of
    >>> goal_of("balanced", (0, 1)), goal_of("0,1;20,0", (0, 1))
    ('balanced', [[0.0, 1.0], [20.0, 0.0]])
    """
    if text in GOALS:
        return text
    kind = Path(text).suffix.lower()
    if kind in (".csv", ".json"):
        content = _content(text)
        return _from_json(content, text, classes) if kind == ".json" else _from_csv(content, text, classes)
    if "," not in text:
        raise InputError(
            f"{named('goal')} must be accuracy, balanced, costs such as '0,1;20,0', or a file .csv or .json with "
            f"costs, but got {text!r:.60}.{did_you_mean(text, list(GOALS))}"
        )
    return _square([part.split(",") for part in text.split(";")], named("goal"), classes)


def goal_lines(goal: str | Costs, classes: Keys, at_most: int = 12) -> list[str]:
    """In words: what is decided for, or what each mistake costs."""
    if isinstance(goal, str):
        return [f"goal: {goal}, {GOALS[goal]}"]
    name = [show.name(c) for c in classes]
    lines = [
        f"costs: deciding {name[d]} when the truth is {name[i]} costs {cost:g}"
        for i, row in enumerate(goal)
        for d, cost in enumerate(row)
        if cost or i != d
    ]
    more = show.more(len(lines), at_most)
    return [*lines[:at_most], *([more] if more else [])]


def _content(path: str) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"The costs in {path!r:.80} are not UTF-8 text. Save the file as such.") from None


def _from_csv(content: str, path: str, classes: Keys) -> Costs:
    """Numbers alone; or names of decisions in the first row, and of true classes in the first column."""
    try:
        cells = [row for row in csv.reader(content.splitlines(), skipinitialspace=True) if any(row)]
    except csv.Error:
        cells = []
    if len(cells) == len(classes) + 1:
        decisions, *rows = cells
        by_class = {row[0]: dict(zip(decisions[1:], row[1:], strict=False)) for row in rows}
        return _by_name(by_class, path, classes)
    return _square(cells, repr(path)[:80], classes)


def _from_json(content: str, path: str, classes: Keys) -> Costs:
    """Lists of numbers; or an object of true classes, each with an object of decisions."""
    try:
        found = json.loads(content)
    except ValueError:
        raise InputError(f"{path!r:.80} is no JSON. Write costs as [[0, 1], [20, 0]].") from None
    if isinstance(found, dict):
        return _by_name(found, path, classes)
    return _square(found, repr(path)[:80], classes)


def _by_name(by_class: Mapping[str, Any], path: str, classes: Keys) -> Costs:
    words = [str(c) for c in classes]
    for given in (by_class, *by_class.values()):
        if not isinstance(given, Mapping) or set(given) != set(words):
            held = ", ".join(map(str, given)) if isinstance(given, Mapping) else repr(given)
            raise InputError(
                f"The costs in {path!r:.80} must name the classes {', '.join(words):.120}, as true classes (rows) and "
                f"as decisions (columns), but name {held:.120}."
            )
    return _square([[by_class[i][d] for d in words] for i in words], repr(path)[:80], classes)


def _square(cells: Any, where: str, classes: Keys) -> Costs:
    n = len(classes)
    is_square = isinstance(cells, list) and len(cells) == n
    if not is_square or any(not isinstance(row, list) or len(row) != n for row in cells):
        raise InputError(
            f"The costs of {where} must be {n} rows (true classes) of {n} numbers (decisions), in the order "
            f"{', '.join(map(str, classes)):.120}. Write them as '{';'.join([','.join('0' * n)] * n):.60}'."
        )
    return [[_cost(cell, where) for cell in row] for row in cells]


def _cost(cell: Any, where: str) -> float:
    value = number(str(cell))
    if value is None or not abs(value) < float("inf"):
        raise InputError(f"The costs of {where} must be finite numbers, but have {cell!r:.60}.")
    return value


def number(text: str) -> float | None:
    """Of a text that is one."""
    try:
        return float(text)
    except ValueError:
        return None


def shares_of(text: str, name: str) -> float | list[float] | dict[str, float]:
    """One share, one number per class, or numbers by the name of the class.

    Parameters
    ----------
    name : the option whose text this is

    Examples
    --------
    >>> from fieldcal.tables.files.costs_and_shares import shares_of
    >>> shares_of("0.05", "old"), shares_of("7,2,1", "old"), shares_of("cat=1,dog=3", "old")
    (0.05, [7.0, 2.0, 1.0], {'cat': 1.0, 'dog': 3.0})
    """
    try:
        pairs = [part.rpartition("=") for part in names([text])]
        values = [float(last) for _, _, last in pairs]
    except ValueError:
        pairs, values = [], []
    classes = [word for word, sign, _ in pairs if sign]
    if not values or len(classes) not in (0, len(values)):
        raise refused(name, text, OPTIONS[name].must)
    as_prevalences(name, values if classes or len(values) > 1 else values[0])  # refused as it is typed
    if len(set(classes)) < len(classes):
        raise InputError(f"{named(name)} names a class twice, in {text!r:.60}. Give each one number.")
    return dict(zip(classes, values, strict=True)) if classes else values if len(values) > 1 else values[0]


def shares_of_groups(session: Session, path: str, by: Sequence[str]) -> dict[Any, Any]:
    """The prevalences of every group, from a table of them."""
    if not is_table(path):
        raise InputError(
            f"With {named('by')}, {named('new')} names a table of the groups' shares (CSV or Parquet), but got "
            f"{path!r:.60}. Leave {named('by')} out if all groups have the same."
        )
    of_new = f"The table {path!r:.60} of {named('new')}"
    columns = session.open(path).relation.columns
    shares = [name for name in columns if name not in by]
    unmatched = [name for name in by if name not in columns]
    if unmatched or not shares:
        what = f"has no column {unmatched[0]!r:.60}" if unmatched else "has no column of shares"
        raise InputError(f"{of_new} {what}: it has {', '.join(columns):.120}.")
    rows = session.open(path).bound(scores=shares, by=by).relation.project(*map(quoted, [*by, *shares]))
    found: dict[Any, Any] = {}
    for row in rows.fetchall():
        key = row[0] if len(by) == 1 else tuple(row[: len(by)])
        if key in found:
            raise InputError(f"{of_new} has the group {key!r:.60} twice. Leave one.")
        values = {
            name: _share(value, name, of_new) for name, value in zip(shares, row[len(by) :], strict=True)
        }
        found[key] = values[shares[0]] if len(shares) == 1 else values
    return found


def _share(value: Any, column: str, of_new: str) -> float:
    found = None if value is None else number(str(value))
    if found is None:
        raise InputError(
            f"{of_new} has {value!r:.40} in its column {column!r:.40}, which is no share. Leave all columns out but "
            "those of the groups and their shares."
        )
    return found
