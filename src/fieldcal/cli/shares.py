"""What `run` says and writes of values: the share of each class in every slice, and how slices differ."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fieldcal.cli import output as out
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Prevalence
    from fieldcal.objects.derived import Comparison, Pairs

SHARES, DIFFERENCES = "shares.csv", "differences.csv"


def share_columns(prev: Prevalence) -> dict[str, list[Any]]:
    """One row per slice and class, those of the whole field first."""
    table, K = prev.to_dict(), len(prev.classes)
    keys = [name for name in table if name.startswith("group")]
    labelled = _labelled(prev)
    counts = [sum(labelled), *(labelled if prev.field.grouped else ())]
    says = {} if not verdicts_are_classes(prev) else {"verdict_share": table["mean_prediction"]}
    return {
        "scope": ["slice" if scope == "group" else scope for scope in table["scope"]],
        **{name.replace("group", "slice", 1): table[name] for name in keys},
        "class": table["class"],
        "n": table["n"],
        "labelled": [n for n in counts for _ in range(K)],
        **says,
        "share": table["estimate"],
        "lower": table["lower"],
        "upper": table["upper"],
        "status": table["status"],
    }


def verdicts_are_classes(prev: Prevalence) -> bool:
    """Whether a judge says the classes themselves, so that its verdicts have shares to compare with."""
    from fieldcal.core.values import Values

    partition = prev.lab.partition
    return isinstance(partition, Values) and len(partition.says(prev.classes)) == partition.m == len(
        prev.classes
    )


def _labelled(prev: Prevalence) -> list[int]:
    rows = [0] * len(prev.groups)
    for found in prev.field.labelled.values():
        for at, counts in zip(found.at, found.counts, strict=True):
            rows[at] += int(counts.sum())
    return rows


def compared(settings: Settings, prev: Prevalence, pairs: Pairs | None) -> list[Comparison]:
    """Every two slices: of two classes the last, of more each. None, with a warning, where there are too many."""
    if not prev.field.grouped or len(prev.groups) < 2:
        return []
    try:
        of = prev.classes[1:] if len(prev.classes) == 2 else prev.classes
        return [prev.compare(of=c, pairs=pairs) for c in of]
    except InputError as error:
        out.warn(settings, f"No {DIFFERENCES}: {out.explain(error)}")
        return []


def difference_columns(found: list[Comparison]) -> dict[str, list[Any]]:
    """One row per class and two slices, the surest first."""
    rows = [(c.of, asdict(d) | {"a": _text(d.a), "b": _text(d.b)}) for c in found for d in c.differences]
    names = ("lower", "upper", "all_lower", "all_upper", "probability", "found")
    return {
        "class": [of for of, _ in rows],
        "slice": [row["a"] for _, row in rows],
        "against": [row["b"] for _, row in rows],
        "difference": [row["estimate"] for _, row in rows],
        **{name: [row[name] for _, row in rows] for name in names},
    }


def _text(key: Any) -> Any:
    """A slice in one cell: the parts of several columns with commas."""
    return (
        key if not isinstance(key, tuple) else ",".join("null" if part is None else str(part) for part in key)
    )


def compared_parts(found: list[Comparison]) -> list[RenderableType]:
    """The differences, to read."""
    return [part for comparison in found for part in ("", str(comparison))]
