"""decide and change-prevalence: decisions, or predictions for a known mix of classes, for every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcal.cli import output as out
from fieldcal.cli.inputs import session
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command

if TYPE_CHECKING:
    from fieldcal.objects import Prevalence
    from fieldcal.tables.decide import Decided
    from fieldcal.tables.files.costs_and_shares import Costs
    from fieldcal.types import Keys

_SHOWN = 12


@command("tables.decide:decide", reads=["prevalence_file", "table"], writes=["output"])
def decide(settings: Settings, prevalence_file: Path, table: str, *, output: str, **given: Any) -> None:
    """A class for every row: same rows, same order, one more column.

    Example: fieldcal decide prevalence.json field.csv -o decided.csv --goal '0,1;20,0'
    """
    from fieldcal import tables
    from fieldcal.objects import Prevalence
    from fieldcal.tables.files.costs_and_shares import goal_of
    from fieldcal.tables.files.verbs import lines_of
    from fieldcal.verbs.recalibrate import check_decidable

    prev = Prevalence.load(prevalence_file)
    check_decidable(prev, acknowledge=given["acknowledge"], shape=given["shape"])
    given["goal"] = goal = goal_of(given["goal"], prev.classes)
    with session(settings) as opened:
        source = opened.open(table)
        with out.working(settings, "decide"), lines_of(source):
            made = tables.decide_file(prev, opened, source, output, **given)
    lines = [*_goal_lines(goal, prev.classes), *_decided_lines(prev, made)]
    out.done(settings, _data(prev, goal, made), [output], "\n".join(lines))


def _goal_lines(goal: str | Costs, classes: Keys) -> list[str]:
    from fieldcal.objects import show
    from fieldcal.tables.files.costs_and_shares import GOALS

    if isinstance(goal, str):
        return [f"goal: {goal}, {GOALS[goal]}"]
    name = [show.name(c) for c in classes]
    lines = [
        f"costs: deciding {name[d]} when the truth is {name[i]} costs {cost:g}"
        for i, row in enumerate(goal)
        for d, cost in enumerate(row)
        if cost or i != d
    ]
    more = show.more(len(lines), _SHOWN)
    return [*lines[:_SHOWN], *([more] if more else [])]


def _decided_lines(prev: Prevalence, made: Decided) -> list[str]:
    """How many rows are which class, by the largest prediction and by the decision."""
    from fieldcal.objects import show

    first = f"{made.rows:,} rows decided, {made.changed:,} otherwise than by the largest prediction"
    if prev.verdict.level == "do_not_use":
        first += "; not recommended: the verdict is to keep the raw predictions"
    shown = sorted(made.after, key=lambda c: -max(made.before[c], made.after[c]))[:_SHOWN]
    lines = [
        f"  {show.name(c)}: {made.before[c]:,} rows by the largest prediction, {made.after[c]:,} by the decision"
        for c in prev.classes
        if c in shown
    ]
    more = show.more(len(prev.classes), len(shown))
    undecided = f"  {made.undecided:,} rows without a prediction stay undecided" if made.undecided else ""
    return [first, *lines, *(line for line in (more and f"  {more}", undecided) if line)]


def _data(prev: Prevalence, goal: str | Costs, made: Decided) -> dict[str, Any]:
    return {
        "rows": made.rows,
        "goal": goal if isinstance(goal, str) else "costs",
        "costs": None if isinstance(goal, str) else goal,
        "classes": list(prev.classes),
        "decided": [{"class": c, "before": made.before[c], "after": made.after[c]} for c in prev.classes],
        "changed": made.changed,
        "undecided": made.undecided,
        "verdict": prev.verdict.level,
    }


@command("tables.change_prevalence:change_prevalence", reads=["table", "new"], writes=["output"])
def change_prevalence(
    settings: Settings,
    table: str,
    *,
    output: str,
    old: str,
    new: str,
    by: list[str] | None = None,
    **given: Any,
) -> None:
    """Predictions for another mix of classes, which you know: also to undo class weights or resampling.

    Example: fieldcal change-prevalence scores.csv --scores p --old 0.5 --new 0.05 -o new.csv
    """
    from fieldcal import tables
    from fieldcal.tables.files.costs_and_shares import shares_of, shares_of_groups

    of_old = shares_of(old, "old")
    with session(settings) as opened, out.working(settings, "change-prevalence"):
        of_new: Any = shares_of_groups(opened, new, by) if by else shares_of(new, "new")
        source, given["by"] = opened.open(table), by or ()
        rows = tables.change_prevalence_file(opened, source, output, old=of_old, new=of_new, **given)
    text = f"{rows:,} rows, from {old} to {new}; right as far as these numbers are"
    out.done(settings, {"rows": rows, "old": of_old, "new": _by_group(of_new)}, [output], text)


def _by_group(wanted: Any) -> Any:
    """For JSON, where keys are text."""
    if not isinstance(wanted, dict) or all(isinstance(key, str) for key in wanted):
        return wanted
    return [{"group": list(k) if isinstance(k, tuple) else k, "new": v} for k, v in wanted.items()]
