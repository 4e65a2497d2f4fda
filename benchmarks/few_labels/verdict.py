"""100 random labels on the questions of ``benchmarks/truth.py``: does the verdict know what the full correction does?

The verdict is about the estimate that was made with the labels. Where they show that the full correction harms, the
estimate differs from it, and an "ok" may be right about what it recommends and still stand over a field in which label
shift does not hold. So beside the bar there is what was applied: how often an "ok" stands over a change that harms.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.few_labels.files import Found, Settings, change, rng_of, with_gaps
from benchmarks.few_labels.page import Column, bar, mean_of, number, parts, table
from benchmarks.truth import HARMED, STAINED, Data, kind_of, read

import fieldcal

TITLE = "Verdicts with 100 random labels"
LABELS = 100
SMALLEST_ALONE = 300  # field rows of a group that is asked alone
MOST_REPLICAS = 5
LEVELS = ("ok", "care", "do_not_use")
KEYS = {"way": "", "kind": ""}


def measure(path: Path, settings: Settings) -> Found:
    data = read(path)
    classes = range(data.proba_lab.shape[1])
    bare = fieldcal.learn(data.proba_lab, data.y_lab, classes=classes)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab, classes=classes)
    everything = np.arange(len(data.y))
    if len(everything) < SMALLEST_ALONE:
        return Found(skipped=f"{len(everything)} field rows, fewer than {SMALLEST_ALONE}")
    questions: list[tuple[str, str, fieldcal.Lab, np.ndarray]] = [
        ("lab groups", "whole", lab, everything),
        ("field groups", "whole", bare, everything),
        ("one population", "whole", bare, everything),
    ]
    for group in dict.fromkeys(data.groups):
        rows = np.flatnonzero(data.groups == group)
        if len(rows) >= SMALLEST_ALONE:
            questions.append(("one group", str(group), bare, rows))
    records = []
    for way, part, using, rows in questions:
        about = {"file": path.stem, "kind": kind_of(path.stem), "way": way, "part": part}
        draws = [rng_of(f"{path.stem} {part}", r) for r in range(min(settings.replicas, MOST_REPLICAS))]
        records += [about | found for found in ask(data, rows, using, draws, grouped=way.endswith("groups"))]
    return Found(records)


def ask(
    data: Data, rows: np.ndarray, lab: fieldcal.Lab, draws: list[np.random.Generator], *, grouped: bool
) -> Iterator[dict[str, Any]]:
    proba, y, groups = data.proba[rows], data.y[rows], data.groups[rows] if grouped else None
    field = fieldcal.count(lab, proba, groups=groups)
    full = change(fieldcal.estimate(lab, field, trust=1), proba, y, groups)
    before = fieldcal.estimate(lab, field).verdict.level
    for replica, rng in enumerate(draws):
        known = with_gaps(y, rng.choice(len(y), LABELS, replace=False))
        prev = fieldcal.estimate(lab, fieldcal.count(lab, proba, groups=groups, y=known))
        yield {
            "replica": replica,
            "rows": len(y),
            "full": full,
            "change": change(prev, proba, y, groups),
            "before": before,
            "verdict": prev.verdict.level,
        }


def said(level: str, of: str = "verdict") -> Column:
    return lambda some: f"{(some[of] == level).mean():.0%}"


VERDICTS: dict[str, Column] = {
    "questions": lambda some: str(len(some.drop_duplicates(["file", "part"]))),
    **{level: said(level) for level in LEVELS},
    **{f"{level}, no labels": said(level, "before") for level in LEVELS},
    "log loss": mean_of("change", sign=True),
    "trust 1": mean_of("full", sign=True),
}
HARM: dict[str, Column] = {
    "cases": lambda some: str(len(some)),
    "log loss": mean_of("change", sign=True),
    "worst": lambda some: number(some.change.max(), sign=True),
    "harmed > .01": lambda some: f"{(some.change > HARMED).mean():.1%}",
    "trust 1": mean_of("full", sign=True),
    "worst ": lambda some: number(some.full.max(), sign=True),
    "harmed > .01 ": lambda some: f"{(some.full > HARMED).mean():.1%}",
}


def page(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    yield "Verdicts with labels, and without; changes of log loss by the estimate with labels, and by trust=1:"
    yield from table(frame, KEYS, VERDICTS, markdown=markdown)
    yield "What stands behind each verdict:"
    yield from table(frame, {"verdict": "", "kind": ""}, HARM, markdown=markdown)
    yield "6. Verdicts"
    harmful = frame[frame.full > HARMED]
    if len(harmful):
        warned = (harmful.verdict != "ok").mean()
        yield bar(
            f"trust=1 harms by > .01, and it is not ok: {warned:.1%} of {len(harmful)} (≥ 95 %)",
            warned >= 0.95,
        )
        for (way, kind), some in parts(harmful, KEYS):
            passed = some[some.verdict == "ok"]
            if len(passed):
                applied = f"applied they change log loss by {number(passed.change.mean(), sign=True)}"
                worst = f"at worst {number(passed.change.max(), sign=True)}"
                yield f"         ok all the same: {way}, {kind}: {len(passed)} of {len(some)}; {applied}, {worst}"
    whole = frame[(frame.kind == "consistent") & (frame.part == "whole")]
    if len(whole):
        share = (whole.verdict == "ok").mean()
        yield bar(f"consistent files that are ok: {share:.1%} of {len(whole)} (≥ 80 %)", share >= 0.8)
        for way, some in whole.groupby("way"):
            yield f"         {way}: {(some.verdict == 'ok').mean():.1%} of {len(some)}"
    passed = frame[frame.verdict == "ok"]
    for most in (STAINED, HARMED):
        over = int((passed.change > most).sum())
        yield f"       ok over a harm above {number(most, 3)} by what was applied: {over} of {len(passed)}"
