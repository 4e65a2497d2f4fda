"""Tables of an estimate from values, such as the verdicts of a judge: shares of groups, and how groups differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

from fieldcal.core.values import Values
from fieldcal.objects.derived import Comparison, Pairs
from fieldcal.objects.prevalence import Prevalence


def share_columns(prev: Prevalence) -> dict[str, list[Any]]:
    """One row per group and class, those of the whole field first."""
    table, K = prev.to_dict(), len(prev.classes)
    keys = [name for name in table if name.startswith("group")]
    labelled = _labelled(prev)
    counts = [sum(labelled), *(labelled if prev.field.grouped else ())]
    verdicts = {"verdict_share": table["mean_prediction"]} if _values_are_classes(prev) else {}
    return {
        "scope": ["slice" if scope == "group" else scope for scope in table["scope"]],
        **{name.replace("group", "slice", 1): table[name] for name in keys},
        "class": table["class"],
        "n": table["n"],
        "labelled": [n for n in counts for _ in range(K)],
        **verdicts,
        "share": table["estimate"],
        "lower": table["lower"],
        "upper": table["upper"],
        "status": table["status"],
    }


def comparisons(prev: Prevalence, pairs: Pairs | None) -> list[Comparison]:
    """Every two groups: the shares of the last of two classes, or of each of more."""
    if not prev.field.grouped or len(prev.groups) < 2:
        return []
    classes = prev.classes[1:] if len(prev.classes) == 2 else prev.classes
    return [prev.compare(of=c, pairs=pairs) for c in classes]


def difference_columns(comparisons: Sequence[Comparison]) -> dict[str, list[Any]]:
    """One row per class and two groups, the surest first."""
    rows = [(c.of, dataclasses.asdict(d)) for c in comparisons for d in c.differences]
    names = ("lower", "upper", "all_lower", "all_upper", "probability", "found")
    return {
        "class": [of for of, _ in rows],
        "slice": [_in_one_cell(row["a"]) for _, row in rows],
        "against": [_in_one_cell(row["b"]) for _, row in rows],
        "difference": [row["estimate"] for _, row in rows],
        **{name: [row[name] for _, row in rows] for name in names},
    }


def _values_are_classes(prev: Prevalence) -> bool:
    """Whether a judge gives the classes themselves, so that its verdicts have shares to compare with."""
    partition = prev.lab.partition
    if not isinstance(partition, Values) or partition.m != len(prev.classes):
        return False
    return len(partition.says(prev.classes)) == partition.m


def _labelled(prev: Prevalence) -> list[int]:
    """Labelled rows of each group."""
    rows = [0] * len(prev.groups)
    for found in prev.field.labelled.values():
        for at, counts in zip(found.at, found.counts, strict=True):
            rows[at] += int(counts.sum())
    return rows


def _in_one_cell(key: Hashable) -> Any:
    """A group of several columns: its parts with commas."""
    if not isinstance(key, tuple):
        return key
    return ",".join("null" if part is None else str(part) for part in key)
