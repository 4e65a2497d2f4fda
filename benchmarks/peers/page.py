"""From tables of values to a page: means with standard errors, the best in bold, and what beats what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.peers.data import NOMINAL, Column, Table
from scipy.stats import t

#: Beyond this many standard errors a difference counts; see `beyond` for few replicas.
BEYOND = 2.0


@dataclass(frozen=True)
class Summary:
    mean: float
    error: float  # nan with one value
    n: int


def summary(values: Sequence[float | None]) -> Summary | None:
    """Mean and standard error of what was measured; None if nothing was."""
    kept = np.array([v for v in values if v is not None], dtype=float)
    if not len(kept):
        return None
    error = kept.std(ddof=1) / math.sqrt(len(kept)) if len(kept) > 1 else math.nan
    return Summary(float(kept.mean()), float(error), len(kept))


def paired(ours: Sequence[float | None], theirs: Sequence[float | None]) -> Summary | None:
    """Ours minus theirs, on the replicas that both have."""
    return summary(
        [a - b if a is not None and b is not None else None for a, b in zip(ours, theirs, strict=True)]
    )


def beyond(found: Summary) -> bool:
    """Is it further from zero than chance explains? With few replicas Student's t asks for more than two errors."""
    if found.n < 2:
        return False
    return abs(found.mean) > max(BEYOND, float(t.ppf(0.975, found.n - 1))) * found.error


def rows(table: Table) -> list[str]:
    """Methods in the order in which they first appear."""
    return list(dict.fromkeys(name for column in table.columns for name in column.values))


def is_ours(name: str) -> bool:
    return name.startswith("fieldcal")


def decimals(value: float, digits: int = 3) -> str:
    """.257 rather than 0.257, as in the other tables of the docs."""
    text = f"{abs(value):.{digits}f}".removeprefix("0")
    return f"−{text}" if value < 0 and float(text) else text


def significant(value: float) -> str:
    """Three figures, thousands separated, never an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def cell(column: Column, name: str) -> str:
    found = summary(column.values.get(name, []))
    if found is None:
        return "failed" if column.values.get(name) else "–"
    if column.kind in ("time", "ratio"):
        return significant(found.mean)
    if column.kind == "share":
        return f"{found.mean:.0%}"
    if column.kind == "width" or math.isnan(found.error):
        return decimals(found.mean)
    return f"{decimals(found.mean)} ± {decimals(found.error)}"


def best(table: Table, column: Column) -> str | None:
    """The method in bold."""
    if column.kind not in ("error", "coverage", "time"):
        return None
    means = {
        name: found.mean
        for name, values in column.values.items()
        if name not in table.oracles and (found := summary(values)) is not None
    }
    target = NOMINAL if column.kind == "coverage" else 0.0
    return min(means, key=lambda name: abs(means[name] - target), default=None)


def footnotes(table: Table) -> tuple[dict[str, str], list[str]]:
    """Marks by row and the notes they point to; equal notes share a mark."""
    texts: dict[str, list[str]] = {}
    for name in rows(table):
        found = [table.notes[name]] if name in table.notes else []
        for reason, times in table.failures.get(name, {}).items():
            found.append(f"failed {times} time{'s' if times > 1 else ''} with `{reason}`.")
        if found:
            texts[name] = found
    order = list(dict.fromkeys(text for found in texts.values() for text in found))
    marks = {name: "".join(f" ({order.index(text) + 1})" for text in found) for name, found in texts.items()}
    return marks, [f"({at}) {text}" for at, text in enumerate(order, start=1)]


def grid(table: Table) -> list[str]:
    marks, notes = footnotes(table)
    winners = [best(table, column) for column in table.columns]
    lines = [
        "| | " + " | ".join(column.title for column in table.columns) + " |",
        "|---" * (len(table.columns) + 1) + "|",
    ]
    for name in rows(table):
        shown = [cell(column, name) for column in table.columns]
        shown = [f"**{c}**" if name == w else c for c, w in zip(shown, winners, strict=True)]
        lines.append(f"| {name}{marks.get(name, '')} | " + " | ".join(shown) + " |")
    return [*lines, "", *(line for note in notes for line in (note, ""))]


@dataclass(frozen=True)
class Verdicts:
    """How one row of fieldcal stands to the peers in one column."""

    ours: str
    column: str
    wins: dict[str, str]  # the peer, and how it is told
    losses: dict[str, str]
    ties: list[str]
    smaller: str | None  # the peer with the smallest error


def verdicts(table: Table, column: Column, ours: str) -> Verdicts:
    wins, losses, ties, means = {}, {}, [], {}
    for name, values in column.values.items():
        if is_ours(name) or name in table.oracles:
            continue
        difference = paired(column.values[ours], values)
        if difference is None:
            continue
        means[name] = summary(values).mean  # type: ignore[union-attr]
        sign = "+" if difference.mean > 0 else ""
        shown = f"{name} ({sign}{decimals(difference.mean)} ± {decimals(difference.error)})"
        if beyond(difference):
            (wins if difference.mean < 0 else losses)[name] = shown
        else:
            ties.append(name)
    return Verdicts(ours, column.title, wins, losses, ties, min(means, key=means.__getitem__, default=None))


def error_sentences(table: Table, column: Column) -> list[str]:
    lines = []
    for ours in table.ours:
        if summary(column.values.get(ours, [])) is None:
            lines.append(f"- {column.title}: {ours} gave no answer.")
            continue
        v = verdicts(table, column, ours)
        parts = [
            f"loses to {', '.join(v.losses.values())}" if v.losses else "loses to none",
            f"wins against {', '.join(v.wins.values())}" if v.wins else "wins against none",
        ]
        if v.ties:
            parts.append(f"undecided: {', '.join(v.ties)}")
        lines.append(f"- {column.title}: {ours} {'; '.join(parts)}.")
    return lines


def coverage_sentences(column: Column) -> list[str]:
    low, good, high = [], [], []
    for name, values in column.values.items():
        found = summary(values)
        if found is None:
            continue
        # The error that an honest interval would have: one of observed 100 % would be none at all.
        allowed = BEYOND * math.sqrt(NOMINAL * (1 - NOMINAL) / found.n)
        side = good if abs(found.mean - NOMINAL) <= allowed else (low if found.mean < NOMINAL else high)
        side.append(f"{name} ({decimals(found.mean, 2)})")
    parts = [
        f"{label}: {', '.join(names)}"
        for label, names in (("too low", low), ("not distinguishable from it", good), ("too high", high))
        if names
    ]
    return [f"- {column.title}, beyond two standard errors: {'; '.join(parts)}."]


def time_sentences(table: Table, column: Column) -> list[str]:
    means = {
        name: found.mean for name, values in column.values.items() if (found := summary(values)) is not None
    }
    peers = {name: value for name, value in means.items() if not is_ours(name)}
    if not peers:
        return [f"- {column.title}: no peer gave an answer."]
    quickest = min(peers, key=peers.__getitem__)
    lines = []
    for name, value in means.items():
        if is_ours(name):
            ratio = peers[quickest] / value
            word = (
                f"{significant(ratio)} times as fast as"
                if ratio >= 1
                else f"{significant(1 / ratio)} times the cost of"
            )
            lines.append(f"- {column.title}: {name} is {word} the fastest peer, {quickest}.")
    return lines


def sentences(table: Table) -> list[str]:
    """Losses first, as plainly as wins."""
    lines: list[str] = []
    for column in table.columns:
        if column.kind == "error":
            lines += error_sentences(table, column)
        elif column.kind == "coverage":
            lines += coverage_sentences(column)
        elif column.kind == "time":
            lines += time_sentences(table, column)
    return lines


def section(table: Table) -> list[str]:
    return [f"## {table.title}", "", table.text, "", *grid(table), *sentences(table), ""]


def overview(tables: Sequence[Table]) -> list[str]:
    """One line for every error column and row of fieldcal: how many peers are ahead."""
    lines = [
        "## In short",
        "",
        "Which other rows have a smaller error than fieldcal's, and how many a larger one, beyond two standard errors "
        "of the paired difference.",
        "",
        "| | ahead of fieldcal | behind | undecided | best of the others |",
        "|---|---|---|---|---|",
    ]
    for table in tables:
        for column in table.columns:
            for ours in table.ours:
                if column.kind == "error" and summary(column.values.get(ours, [])) is not None:
                    v = verdicts(table, column, ours)
                    ahead = ", ".join(v.losses) or "none"
                    lines.append(
                        f"| {table.title}, {column.title}: {ours} | {ahead} | {len(v.wins)} | {len(v.ties)} "
                        f"| {v.smaller or '–'} |"
                    )
    return [*lines, ""]


HEAD = """\
# fieldcal beside its peers

Made by `make peers` (`benchmarks/peers/`) on {date}, every method on the same predictions in one run: {versions}.

Mean ± standard error over replicas; bold is the best of a column. Every peer is used with its own defaults and gets the
posteriors of lab and field, never the features. Differences are paired by replica and called so beyond two standard
errors, or more where replicas are few (Student's t, 95 %). Tables of files and of real groups have no peers: see
[the other figures](benchmarks.md).
"""


def page(tables: Sequence[Table], *, versions: str, missing: Sequence[str] = ()) -> str:
    date = max((table.date for table in tables), default="")
    lines = [HEAD.format(date=date, versions=versions)]
    if missing:
        lines += [f"Not measured in this run: {', '.join(missing)}.", ""]
    lines += overview(tables)
    for table in tables:
        lines += section(table)
    return "\n".join(lines).rstrip() + "\n"
