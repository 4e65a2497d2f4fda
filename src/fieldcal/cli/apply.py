"""decide and change-prevalence: decisions, or predictions for a known mix of classes, for every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.inputs import session
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command

if TYPE_CHECKING:
    pass


@command("tables.decide:decide", reads=["prevalence_file", "table"], writes=["output"])
def decide(settings: Settings, prevalence_file: Path, table: str, *, output: str, **given: Any) -> None:
    """A class for every row: same rows, same order, one more column.

    Example: fieldcal decide prevalence.json field.csv -o decided.csv --goal '0,1;20,0'
    """
    from fieldcal import tables
    from fieldcal.tables.files.costs_and_shares import goal_lines, goal_of
    from fieldcal.tables.files.verbs import lines_of
    from fieldcal.verbs.recalibrate import check_decidable

    prev = fieldcal.Prevalence.load(prevalence_file)
    check_decidable(prev, acknowledge=given["acknowledge"], shape=given["shape"])
    given["goal"] = goal = goal_of(given["goal"], prev.classes)
    with session(settings) as opened:
        source = opened.open(table)
        with out.working(settings, "decide"), lines_of(source):
            made = tables.decide_file(prev, opened, source, output, **given)
    first = f"{made.rows:,} rows decided, {made.changed:,} otherwise than by the largest prediction"
    if prev.verdict.level == "do_not_use":
        first += "; not recommended: the verdict is to keep the raw predictions"
    lines = [*goal_lines(goal, prev.classes), first, *(f"  {line}" for line in made.lines())]
    costs = {"goal": goal, "costs": None} if isinstance(goal, str) else {"goal": "costs", "costs": goal}
    data = {"rows": made.rows, **costs, **made.to_dict(), "verdict": prev.verdict.level}
    out.done(settings, data, [output], "\n".join(lines))


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
    if not isinstance(wanted, dict) or all(isinstance(key, str) for key in wanted):
        return wanted
    return [{"group": list(k) if isinstance(k, tuple) else k, "new": v} for k, v in wanted.items()]
