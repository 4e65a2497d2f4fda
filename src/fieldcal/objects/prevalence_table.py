"""The table of an estimate for people: the whole field and the largest groups."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from fieldcal.objects import group_keys, show

if TYPE_CHECKING:
    from fieldcal.objects.prevalence import Prevalence

_SHOWN_GROUPS = 12
_SHOWN_LINES = 36  # group lines, if every class has one


def title(prev: Prevalence) -> str:
    """The title of the table."""
    rows = f"{float(np.sum(prev.n)):,.0f} rows"
    what = "Share" if prev.is_judged else "Prevalence"
    if not prev.field.grouped:
        return f"{'Shares behind the values' if prev.is_judged else what} in one population, {rows}"
    classes = f"{len(prev.classes):,} {prev.lab.outcome.plural}"
    of = group_keys.show(prev.classes[1], width=30) if prev.shows_one_class else classes
    return f"{what} of {of} in {len(prev.groups):,} groups, {rows}"


def table(prev: Prevalence) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a line per class of the whole field and of the largest groups."""
    interval = "" if prev.level is None else f"{prev.level:.0%} interval"
    first = ["group", "class"] if prev.field.grouped else ["class"]
    names = ["mean prediction", "under label shift", "estimate"]
    if prev.is_judged:
        names[0], names[2] = "as judged", "share"
    head = [*first, "n", *names, interval, "status"]
    lines = [_line(prev, *line) for line in shown_lines(prev)]
    left_out = {"class"} if prev.shows_one_class else set()
    if prev.is_judged:  # no assumption about the shift
        left_out.add("under label shift")
    kept = [i for i, column in enumerate(head) if column not in left_out]
    return [head[i] for i in kept], [[line[i] for i in kept] for line in lines]


def text(prev: Prevalence) -> str:
    """Title, table, notes and verdict as plain text."""
    head, rows = table(prev)
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in [head, *rows]]
    notes = [f"  {note}" for note in show.prevalence_notes(prev) if note]
    return "\n".join([title(prev), *lines, *notes, repr(prev.verdict)])


def shown_class(prev: Prevalence) -> int:
    """The second of two classes; of more, the one with the largest correction."""
    if len(prev.classes) == 2:
        return 1
    rows = np.asarray(prev.n, dtype=np.float64) @ np.abs(prev.estimate - prev.mean_prediction)
    return int((rows if rows.any() else np.abs(prev.whole.urc - prev.lab.p_lab)).argmax())


def shown_lines(prev: Prevalence) -> list[tuple[Hashable, int | None, int]]:
    """The lines: name, position of the group (None: the whole field) and of the class."""
    changed = show.largest(np.abs(prev.whole.urc - prev.lab.p_lab), show.SHOWN_CLASSES)
    classes = [1] if prev.shows_one_class else sorted(changed)
    if not prev.field.grouped:
        return [(prev.classes[k], 0, k) for k in classes]
    fit = 1 if len(classes) > _SHOWN_LINES else _SHOWN_LINES // len(classes)
    at = show.largest(prev.n, min(fit, _SHOWN_GROUPS))
    lines: list[tuple[Hashable, int | None]] = [("whole field", None), *((prev.groups[g], g) for g in at)]
    return [(name, g, k) for name, g in lines for k in classes]


def interval_text(prev: Prevalence, g: int | None, k: int) -> str:
    """The interval of one class in a group, or in the whole field; empty without a level."""
    lower, upper = (prev.whole.lower, prev.whole.upper) if g is None else (prev.lower, prev.upper)
    if lower is None or upper is None:
        return ""
    at = k if g is None else (g, k)
    return f"{lower[at]:.3f} – {upper[at]:.3f}"


def _line(prev: Prevalence, name: Hashable, g: int | None, k: int) -> list[str]:
    held, at = (prev.whole, k) if g is None else (prev, (g, k))
    shares = (held.mean_prediction[at], held.urc[at], held.estimate[at])
    n, status = (np.sum(prev.n), "") if g is None else (prev.n[g], show.status(prev.status[g]))
    names = [show.name(name), show.name(prev.classes[k])] if prev.field.grouped else [show.name(name)]
    numbers = [show.amount(n), *(f"{share:.3f}" for share in shares), interval_text(prev, g, k)]
    return [*names, *numbers, status]
