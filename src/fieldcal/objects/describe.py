"""Labs, fields and estimates: as plain data for scripts, and in words for people, below their tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fieldcal.objects import group_keys, show

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.objects.derived import Interval

_SHOWN = 12
_MOST_GROUPS = 2_000  # draws of all of them are held at once
#: How the bins of each kind of partition are made.
_BINS = {
    "edges": "intervals of the score",
    "edges_above_zero": "intervals of the score above 0",
    "expected": "intervals of the expected place or number",
    "simplex": "regions of the predictions of all classes",
    "bins": "as given",
    "values": "one per value, rare ones merged",
}


def lab_data(lab: Lab) -> dict[str, Any]:
    """What a script may want to know of a lab."""
    rehearsal = lab.rehearsal
    return {
        "digest": lab.digest,
        "rows": lab.n,
        "classes": list(lab.classes),
        "positive": positive_data(lab),
        "prevalence": lab.p_lab.tolist(),
        "bins": lab.n_bins,
        "condition_number": lab.conditioning.condition_number,
        "log_loss": lab.log_loss,
        "accuracy": lab.accuracy,
        "columns": None if lab.columns is None else lab.columns.content(),
        "outcome": lab.outcome.content(),
        "rehearsal": None
        if rehearsal is None
        else {
            "groups": rehearsal.n_groups,
            "rows": rehearsal.n_rows,
            "trust": rehearsal.trust,
            "change_of_log_loss": rehearsal.change,
            "standard_error": rehearsal.change_se,
        },
    }


def positive_lines(lab: Lab) -> list[str]:
    """Which class a single column is about, where there is one."""
    text = show.positive_text(lab)
    return [text] if text else []


def positive_data(lab: Lab) -> dict[str, Any] | None:
    """The single column that is the probability of one of two classes, and that class."""
    return None if lab.positive_column is None else {"column": lab.positive_column, "class": lab.classes[1]}


def field_data(field: Field) -> dict[str, Any]:
    """What a script may want to know of a field."""
    return {
        "digest": field.digest,
        "rows": field.n.sum().item(),
        "groups": len(field.groups) if field.grouped else None,
        "by": list(field.by),
        "bins": field.n_bins,
        "batches": list(field.batch_ids),
        "labelled": {design: found.counts.sum().item() for design, found in field.labelled.items()},
        "dropped": field.dropped,
        "unseen": field.unseen,
        "clipped": field.clipped,
    }


def status_data(prev: Prevalence) -> list[dict[str, Any]]:
    """What is known of each group: its rows and the flags of its status."""
    if not prev.field.grouped:
        return []
    return [
        {"group": list(key) if isinstance(key, tuple) else key, "n": float(n), "status": status.split(",")}
        for key, n, status in zip(prev.groups, prev.n, prev.status, strict=True)
    ]


def prevalence_data(prev: Prevalence) -> dict[str, Any]:
    """The trust, and the table with one row per group and class, those of the whole field first and by themselves."""
    columns = prev.to_dict()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {
        "trust_between": prev.trust_between,
        "trust_overall": prev.trust_overall,
        "labels": None if prev.labels is None or prev.by_model is None else prev.by_model.summary(),
        "level": prev.level,
        "protected": prev.protected,
        "positive": positive_data(prev.lab),
        "whole": [row for row in rows if row["scope"] == "whole"],
        "prevalence": rows,
    }


def applied_text(prev: Prevalence, rows: int) -> str:
    """How many rows were written, and whether anything happened to them, for better or worse."""
    if prev.untouched:
        return f"{rows:,} rows written, their predictions unchanged: trust is 0"
    if prev.only_calibrated:
        return (
            f"{rows:,} rows written, their predictions calibrated on the lab and not recalibrated: trust is 0"
        )
    if prev.verdict.level == "do_not_use":
        return f"{rows:,} rows written as asked, which is not recommended: the verdict is to keep the raw predictions"
    return f"{rows:,} rows recalibrated"


def applied_data(prev: Prevalence, rows: int | None) -> dict[str, Any]:
    return {"rows": rows, "changed": not prev.untouched if rows is not None else None}


def lab_parts(lab: Lab) -> list[RenderableType]:
    """A lab: its table, columns, bins and classes."""
    head = "A lab: what the model predicts for rows of each class, learnt from rows with labels"
    lines = [] if lab.rehearsal else ["not rehearsed: no groups of the lab say how far to trust label shift"]
    if lab.columns is not None:
        held = {
            name: [value] if isinstance(value, str) else value for name, value in vars(lab.columns).items()
        }
        lines.append(
            "columns: " + "; ".join(f"{name} {_listed(value)}" for name, value in held.items() if value)
        )
    order = ", in an order that means something" if lab.ordered else ""
    lines += [
        f"bins: {lab.n_bins}, {_BINS.get(lab.partition.kind, type(lab.partition).__name__)}",
        f"{lab.outcome.plural}: {_listed(lab.classes)}{order}",
    ]
    return [head, *show.lab_sheet(lab).parts(), *lines]


def field_parts(field: Field) -> list[RenderableType]:
    """A field: its table, groups and batches."""
    labels = "and the labels of some" if field.labelled else "without labels"
    head = f"A field: how many rows fell into each bin of predictions, {labels}"
    groups = _listed(field.by) if field.by else "unnamed" if field.grouped else "none"
    lines = [
        f"columns of groups: {groups}",
        f"batches: {_listed(field.batch_ids) if field.batch_ids else 'none named'}",
        f"counted with the lab {field.lab}",
    ]
    return [head, *show.field_sheet(field).parts(), *lines]


def estimate_lines(prev: Prevalence) -> list[str]:
    whence = "as given" if prev.trust.set_by_caller else "estimated"
    between = f", {prev.trust_between:.2f} of the differences between groups" if prev.field.grouped else ""
    prior = ", ".join(
        f"{value}" if name == "name" else f"{name} {value}" for name, value in prev.prior.items()
    )
    return [
        f"label shift, {whence}: probability {prev.trust_overall:.2f} for the whole field{between}",
        f"prior: {group_keys.show(prior, width=200)}; point: {prev.point}; design effect: {prev.design_effect:g}",
    ]


def performance(prev: Prevalence, *, all_in: str) -> tuple[list[dict[str, Any]] | None, list[RenderableType]]:
    """Rows, precision and recall of the decisions per class; none of a regression, or of very many groups."""
    if prev.lab.outcome.kind == "intervals" or len(prev.groups) > _MOST_GROUPS:
        return None, []
    found = prev.performance()
    level = f"{next(iter(found['count'].values())).level:.0%} interval"
    cells = [
        [
            show.name(c),
            *(text for name in found for text in _with_interval(found[name][c], name == "count")),
        ]
        for c in prev.classes
    ]
    hidden = show.more(len(cells), _SHOWN)
    sheet = show.Sheet(
        "Decisions by the largest prediction in the whole field, estimated without their labels",
        ["class", *(text for name in ("rows", "precision", "recall") for text in (name, level))],
        cells[:_SHOWN],
        (f"{hidden}: all are in {all_in}" if hidden else "",),
    )
    rows = [{"class": c, **{name: each[c].to_dict() for name, each in found.items()}} for c in prev.classes]
    return rows, [*sheet.parts(), ""]


def ranking_sheet(rows: Sequence[tuple[Hashable, float, Interval]], of: Hashable) -> show.Sheet:
    """Groups with their probability of the highest share, and their shares."""
    cells = [
        [group_keys.short(g), f"{p:.3f}", f"{s.estimate:.3f}", f"{s.lower:.3f} – {s.upper:.3f}"]
        for g, p, s in rows[:_SHOWN]
    ]
    return show.Sheet(
        f"Which group has the highest share of {show.name(of)}",
        ["group", "probability", "share", f"{rows[0][2].level:.0%} interval"],
        cells,
        (show.more(len(rows), len(cells)),),
    )


def _with_interval(found: Interval, counted: bool) -> list[str]:
    style = ",.0f" if counted else ".3f"
    return [f"{found.estimate:{style}}", f"{found.lower:{style}} – {found.upper:{style}}"]


def _listed(names: Iterable[Hashable]) -> str:
    listed = list(names)
    more = show.more(len(listed), _SHOWN)
    return ", ".join(map(show.name, listed[:_SHOWN])) + (f" {more}" if more else "")
