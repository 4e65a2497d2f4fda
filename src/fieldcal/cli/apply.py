"""fieldcal decide and change-prevalence: decisions, or predictions for a known mix of classes, for every row."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.inputs import check_table_target, session
from fieldcal.cli.labels import lines_of
from fieldcal.cli.options import ClassColumns, arguments
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError
from fieldcal.storage import did_you_mean, is_table, read_bytes

if TYPE_CHECKING:
    from fieldcal.objects import Prevalence
    from fieldcal.tables.decide import Decided
    from fieldcal.tables.files.session import Session
    from fieldcal.types import Keys

Costs = list[list[float]]
_GOALS = {"accuracy": "the most probable class", "balanced": "the best mean recall of all classes"}
_SHOWN = 12

Goal = Annotated[str, opt.option("Goal")]
DecisionName = Annotated[str, opt.option("DecisionName")]


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """Options of `decide`, besides the columns and the goal."""

    unseen: opt.UnseenGroups = "global"
    missing: opt.KeptRows = "error"
    name: DecisionName = "decision"
    normalize: opt.Normalize = False
    acknowledge: opt.Acknowledge = False
    shape: opt.WeightShape = "auto"


def decide(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    table: Annotated[str, opt.argument("table.decide")],
    output: opt.TableOutput,
    columns: ClassColumns,
    options: Deciding,
    goal: Goal = "accuracy",
) -> None:
    """A class for every row: same rows, same order, one more column.

    Example: fieldcal decide prevalence.json field.csv -o decided.csv --goal '0,1;20,0'
    """
    from fieldcal import tables
    from fieldcal.objects import Prevalence
    from fieldcal.verbs.recalibrate import check_decidable

    to_stdout = check_table_target(settings, output, [prevalence_file, table])
    prev = Prevalence.load(prevalence_file)
    check_decidable(prev, acknowledge=options.acknowledge, shape=options.shape)
    wanted = goal_of(goal, prev.classes)
    with session(settings) as opened:
        given = arguments(columns) | arguments(options)
        source = opened.open(table)
        with out.working(settings, "decide"), lines_of(source):
            done = tables.decide_file(prev, opened, source, str(output), goal=wanted, **given)
    lines = [*_goal_lines(wanted, prev.classes), *_decided_lines(prev, done)]
    if to_stdout:
        for line in lines:
            out.note(settings, line)
    else:
        out.done(settings, _data(prev, wanted, done), [output], "\n".join(lines))


def goal_of(text: str, classes: Keys) -> str | Costs:
    """A goal by its name, or costs as numbers in the order of the classes.

    Examples
    --------
    >>> from fieldcal.cli.apply import goal_of
    >>> goal_of("balanced", (0, 1)), goal_of("0,1;20,0", (0, 1))
    ('balanced', [[0.0, 1.0], [20.0, 0.0]])
    """
    if text in _GOALS:
        return text
    kind = Path(text).suffix.lower()
    if kind in (".csv", ".json"):
        content = _text(text)
        return _from_json(content, text, classes) if kind == ".json" else _from_csv(content, text, classes)
    if "," not in text:
        raise InputError(
            f"--goal must be accuracy, balanced, costs such as '0,1;20,0', or a file .csv or .json with costs, but got "
            f"{text!r:.60}.{did_you_mean(text, list(_GOALS))}"
        )
    return _square([part.split(",") for part in text.split(";")], "--goal", classes)


def _text(path: str) -> str:
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
        named = {row[0]: dict(zip(decisions[1:], row[1:], strict=False)) for row in rows}
        return _by_name(named, path, classes)
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


def _by_name(named: Mapping[str, Any], path: str, classes: Keys) -> Costs:
    names = [str(c) for c in classes]
    for given in (named, *named.values()):
        if not isinstance(given, Mapping) or set(given) != set(names):
            held = ", ".join(map(str, given)) if isinstance(given, Mapping) else repr(given)
            raise InputError(
                f"The costs in {path!r:.80} must name the classes {', '.join(names):.120}, as true classes (rows) and "
                f"as decisions (columns), but name {held:.120}."
            )
    return _square([[named[i][d] for d in names] for i in names], repr(path)[:80], classes)


def _square(cells: Any, where: str, classes: Keys) -> Costs:
    n = len(classes)
    if (
        not isinstance(cells, list)
        or len(cells) != n
        or any(not isinstance(r, list) or len(r) != n for r in cells)
    ):
        raise InputError(
            f"The costs of {where} must be {n} rows (true classes) of {n} numbers (decisions), in the order "
            f"{', '.join(map(str, classes)):.120}. Write them as '{';'.join([','.join('0' * n)] * n):.60}'."
        )
    numbers = [[opt.number(str(cell)) for cell in r] for r in cells]
    for r, found in zip(cells, numbers, strict=True):
        for cell, value in zip(r, found, strict=True):
            if value is None or not abs(value) < float("inf"):
                raise InputError(f"The costs of {where} must be finite numbers, but have {cell!r:.60}.")
    return [[value for value in r if value is not None] for r in numbers]


def _goal_lines(goal: str | Costs, classes: Keys) -> list[str]:
    from fieldcal.objects import show

    if isinstance(goal, str):
        return [f"goal: {goal}, {_GOALS[goal]}"]
    name = [show.name(c) for c in classes]
    told = [
        f"costs: deciding {name[d]} when the truth is {name[i]} costs {cost:g}"
        for i, row in enumerate(goal)
        for d, cost in enumerate(row)
        if cost or i != d
    ]
    more = show.more(len(told), _SHOWN)
    return [*told[:_SHOWN], *([more] if more else [])]


def _decided_lines(prev: Prevalence, done: Decided) -> list[str]:
    """How many rows are which class, by the largest prediction and by the decision."""
    from fieldcal.objects import show

    told = f"{done.rows:,} rows decided, {done.changed:,} otherwise than by the largest prediction"
    if prev.verdict.level == "do_not_use":
        told += "; not recommended: the verdict is to keep the raw predictions"
    shown = sorted(done.after, key=lambda c: -max(done.before[c], done.after[c]))[:_SHOWN]
    lines = [
        f"  {show.name(c)}: {done.before[c]:,} rows by the largest prediction, {done.after[c]:,} by the decision"
        for c in prev.classes
        if c in shown
    ]
    more = show.more(len(prev.classes), len(shown))
    undecided = f"  {done.undecided:,} rows without a prediction stay undecided" if done.undecided else ""
    return [told, *lines, *(line for line in (more and f"  {more}", undecided) if line)]


def _data(prev: Prevalence, goal: str | Costs, done: Decided) -> dict[str, Any]:
    return {
        "rows": done.rows,
        "goal": goal if isinstance(goal, str) else "costs",
        "costs": None if isinstance(goal, str) else goal,
        "classes": list(prev.classes),
        "decided": [{"class": c, "before": done.before[c], "after": done.after[c]} for c in prev.classes],
        "changed": done.changed,
        "undecided": done.undecided,
        "verdict": prev.verdict.level,
    }


# Predictions for a mix of classes that the caller knows.


@dataclass(frozen=True, kw_only=True)
class Known:
    """Both mixes of classes."""

    scores: Annotated[list[str], opt.option("scores.known")]
    old: Annotated[str, opt.option("old")]
    new: Annotated[str, opt.option("new")]
    by: opt.By = None
    classes: Annotated[list[str] | None, opt.option("classes.known")] = None


@dataclass(frozen=True, kw_only=True)
class Changing:
    """The other options."""

    unseen: Annotated[Literal["error", "raw"], opt.option("unseen")] = "error"
    missing: opt.KeptRows = "error"
    normalize: opt.Normalize = False
    name: opt.NewName = "{}_recalibrated"


def change_prevalence(
    settings: Settings,
    table: Annotated[str, opt.argument("table.change_prevalence")],
    output: opt.TableOutput,
    known: Known,
    options: Changing,
) -> None:
    """Predictions for another mix of classes, which you know: also to undo class weights or resampling.

    Example: fieldcal change-prevalence scores.csv --scores p --old 0.5 --new 0.05 -o new.csv
    """
    from fieldcal import tables

    given = arguments(known)
    old, new = shares_of(given.pop("old"), "--old"), given.pop("new")
    by = given.pop("by") or []
    read = [new] if by else []
    to_stdout = check_table_target(settings, output, [table, *read])
    with session(settings) as opened, out.working(settings, "change-prevalence"):
        wanted = shares_of_groups(opened, new, by) if by else shares_of(new, "--new")
        rows = tables.change_prevalence_file(
            opened,
            opened.open(table),
            str(output),
            **given,
            old=old,
            new=wanted,
            by=by,
            **arguments(options),
        )
    text = f"{rows:,} rows, from {known.old} to {known.new}; right as far as these numbers are"
    if to_stdout:
        out.note(settings, text)
    else:
        out.done(settings, {"rows": rows, "old": old, "new": _by_group(wanted)}, [output], text)


def shares_of(text: str, option: str) -> float | list[float] | dict[str, float]:
    """One share, one number per class, or numbers by the name of the class.

    Examples
    --------
    >>> from fieldcal.cli.apply import shares_of
    >>> shares_of("0.05", "--old"), shares_of("7,2,1", "--old"), shares_of("cat=1,dog=3", "--old")
    (0.05, [7.0, 2.0, 1.0], {'cat': 1.0, 'dog': 3.0})
    """
    from fieldcal.verbs.change_prevalence import as_prevalences

    parts = opt.names([text]) or []
    pairs = [part.rpartition("=") for part in parts]
    numbers = [opt.number(last) for _, _, last in pairs]
    named = [name for name, sign, _ in pairs if sign]
    values = [value for value in numbers if value is not None]
    if not parts or len(values) < len(parts) or len(named) not in (0, len(parts)):
        raise InputError(f"{option} must be {opt.SHARES}, but got {text!r:.60}.")
    as_prevalences(option, values if named or len(values) > 1 else values[0])  # refused as it is typed
    if named:
        if len(set(named)) < len(named):
            raise InputError(f"{option} names a class twice, in {text!r:.60}. Give each one number.")
        return dict(zip(named, values, strict=True))
    return values[0] if len(values) == 1 else values


def shares_of_groups(opened: Session, path: str, by: Sequence[str]) -> dict[Any, Any]:
    """The prevalences of every group, from a table of them."""
    if not is_table(path):
        raise InputError(
            f"With --by, --new names a table of the groups' shares (CSV or Parquet), but got {path!r:.60}. Leave --by "
            "out if all groups have the same."
        )
    columns = opened.open(path).relation.columns
    shares = [name for name in columns if name not in by]
    lost = [name for name in by if name not in columns]
    if lost or not shares:
        what = f"has no column {lost[0]!r:.60}" if lost else "has no column of shares"
        raise InputError(f"The table {path!r:.60} of --new {what}: it has {', '.join(columns):.120}.")
    rows = opened.open(path).bound(scores=shares, by=by).relation.project(*map(_quoted, [*by, *shares]))
    found: dict[Any, Any] = {}
    for row in rows.fetchall():
        key = row[0] if len(by) == 1 else tuple(row[: len(by)])
        if key in found:
            raise InputError(f"The table {path!r:.60} of --new has the group {key!r:.60} twice. Leave one.")
        values = {name: _share(value, name, path) for name, value in zip(shares, row[len(by) :], strict=True)}
        found[key] = values[shares[0]] if len(shares) == 1 else values
    return found


def _share(value: Any, column: str, path: str) -> float:
    found = None if value is None else opt.number(str(value))
    if found is None:
        raise InputError(
            f"The table {path!r:.60} of --new has {value!r:.40} in its column {column!r:.40}, which is no share. Leave "
            "all columns out but those of the groups and their shares."
        )
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _by_group(wanted: Any) -> Any:
    """For JSON, where keys are text."""
    if not isinstance(wanted, dict) or all(isinstance(key, str) for key in wanted):
        return wanted
    return [{"group": list(k) if isinstance(k, tuple) else k, "new": v} for k, v in wanted.items()]
