"""The section of a report on windows of time: what changed, alarms, and a picture for the field and for groups."""

from __future__ import annotations

from typing import Any

from fieldcal.objects import Prevalence, group_keys, show
from fieldcal.objects.alarms import KINDS, Alarm
from fieldcal.plots.draw_over_time import most_changed, over_time_table

#: Groups with a picture, at most; alarms and changed groups that are listed.
MOST_PANELS, MOST_LISTED = 8, 20


def over_time_section(prev: Prevalence, k: int) -> dict[str, Any] | None:
    """Sentences, alarms and the tables of pictures; None without windows."""
    over = prev.over_time
    if over is None:
        return None
    of, alarms = prev.classes[k], over.alarms(of=prev.classes[k])
    first, last = over.names[0], over.names[-1]
    changes = over.changes(of=of)
    shares = [f"{over.estimate[0, t, k]:.1%}" for t in (0, -1)]
    interval = f"{100 * changes.lower[0, -1]:+.1f} to {100 * changes.upper[0, -1]:+.1f} points"
    missing = int((over.n[0] == 0).sum())
    sentences = [
        f"{len(over.starts):,} windows of {over.every}, from {first} to {last}."
        + (f" The field has no rows in {missing:,} of them." if missing else ""),
        f"The share of {show.name(of)} in the whole field was {shares[0]} in the first window and is {shares[1]} in "
        f"the newest: a change of {100 * changes.estimate[0, -1]:+.1f} points ({over.level:.0%} interval {interval}).",
    ]
    if prev.field.grouped:
        found = changes.found()
        named = ", ".join(show.name(group) for group in found[:MOST_LISTED])
        more = ", …" if len(found) > MOST_LISTED else ""
        sentences.append(
            f"{len(found):,} of {len(prev.groups):,} groups have another share than in the first window, of which at "
            f"most 5% are expected to be wrong{': ' if found else ''}{named}{more}."
        )
    groups = most_changed(over, k, alarms, MOST_PANELS) if prev.field.grouped else []
    panels = [over_time_table(prev, of=of, alarms=alarms)]
    panels += [over_time_table(prev, of=of, group=group, alarms=alarms) for group in groups]
    return {
        "sentences": sentences,
        "rate": alarms.rate,
        "alarms": [_line(alarm) for alarm in list(alarms)[:MOST_LISTED]],
        "more_alarms": max(0, len(alarms) - MOST_LISTED),
        "panels": panels,
    }


def _line(alarm: Alarm) -> dict[str, Any]:
    return {
        "kind": KINDS[alarm.kind][0],
        "group": "whole field" if alarm.group is None else group_keys.show(alarm.group, width=60),
        "window": alarm.window,
        "since": alarm.since,
        "text": alarm.text,
        "severity": alarm.severity,
    }
