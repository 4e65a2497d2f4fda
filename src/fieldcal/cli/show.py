"""show: an artefact in words, and what can be done with it next."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command
from fieldcal.errors import ArtefactError
from fieldcal.storage import is_table, parse, read_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.objects.artefact import Artefact
    from fieldcal.objects.derived import Interval

    #: An artefact for scripts, and for people.
    Told = tuple[dict[str, Any], list[RenderableType]]

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


@command()
def show(settings: Settings, artefact: Path) -> None:
    """What a file holds, in words, and what can be done with it next.

    Example: fieldcal show out/prevalence.json
    """
    held, version = load_any(artefact)
    tell: dict[str, Callable[[Any, str], Told]] = {
        "lab": _lab,
        "field": _field,
        "prevalence": _prevalence,
    }
    data, parts = tell[held.kind](held, str(artefact))
    last = f"digest: {held.digest} (file format {version}, read by fieldcal {fieldcal.__version__})"
    out.result(settings, {"kind": held.kind, "format": version, **data}, *parts, last)


def load_any(path: Path) -> tuple[Artefact, int]:
    """An artefact of whatever kind, and the version of its format."""
    from fieldcal.objects import Field, Lab, Prevalence

    data, name = read_bytes(path), os.path.basename(path)
    if is_table(path):
        raise ArtefactError(
            f"{name} is a table. show takes JSON files that fieldcal wrote: a lab, a field or a prevalence."
        )
    envelope = parse(data, name=name)
    kinds: dict[str, type[Artefact]] = {c.kind: c for c in (Lab, Field, Prevalence)}
    kind = envelope.get("fieldcal") if isinstance(envelope, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ArtefactError(
            f"{name} is not a fieldcal artefact. Give a file that `fieldcal learn`, `count` or `estimate` wrote."
        )
    held = kinds[kind].from_json(data, name=name)
    return held, int(envelope["schema"])


def _lab(lab: Lab, path: str) -> Told:
    from fieldcal.objects import show as sheets

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
        f"next: fieldcal count {path} FIELD_TABLE -o field.json, or fieldcal plan {path} --rows N",
    ]
    return out.lab_data(lab), [head, *sheets.lab_sheet(lab).parts(), *lines]


def _field(field: Field, path: str) -> Told:
    from fieldcal.objects import show as sheets

    labels = "and the labels of some" if field.labelled else "without labels"
    head = f"A field: how many rows fell into each bin of predictions, {labels}"
    groups = _listed(field.by) if field.by else "unnamed" if field.grouped else "none"
    lines = [
        f"columns of groups: {groups}",
        f"batches: {_listed(field.batch_ids) if field.batch_ids else 'none named'}",
        f"counted with the lab {field.lab}",
        f"next: fieldcal estimate lab.json {path} -o prevalence.json, or fieldcal merge {path} OTHER.json -o BOTH.json",
    ]
    return out.field_data(field) | {"lab": field.lab}, [head, *sheets.field_sheet(field).parts(), *lines]


def _prevalence(prev: Prevalence, path: str) -> Told:
    head = "An estimate: the share of each class in the field, from a lab and a field"
    whence = "as given" if prev.trust.set_by_caller else "estimated"
    between = f", {prev.trust_between:.2f} of the differences between groups" if prev.field.grouped else ""
    prior = ", ".join(
        f"{value}" if name == "name" else f"{name} {value}" for name, value in prev.prior.items()
    )
    protected = "yes: applied with --acknowledge only" if prev.protected else "no"
    lines = [
        f"label shift, {whence}: probability {prev.trust_overall:.2f} for the whole field{between}",
        f"prior: {_safe(prior)}; point: {prev.point}; design effect: {prev.design_effect:g}",
        f"protected groups: {protected}",
        str(prev.lab).partition("\n")[0],
        str(prev.field),
    ]
    following = (
        f"next: fieldcal recalibrate {path} TABLE -o new.parquet; or decide, contrast, report, check, plan"
    )
    performance, decisions = _performance(prev)
    data = {
        **out.prevalence_data(prev),
        "prior": prev.prior,
        "point": prev.point,
        "design_effect": prev.design_effect,
        "performance": performance,
        "lab": out.lab_data(prev.lab),
        "field": out.field_data(prev.field),
    }
    return data, [head, *out.table(prev), *lines, "", *decisions, *out.verdict(prev.verdict), "", following]


def _performance(prev: Prevalence) -> tuple[list[dict[str, Any]] | None, list[RenderableType]]:
    """Rows, precision and recall of the decisions per class; none of a regression, or of very many groups."""
    from fieldcal.objects import show as sheets

    if prev.lab.outcome.kind == "intervals" or len(prev.groups) > _MOST_GROUPS:
        return None, []
    found = prev.performance()
    level = f"{next(iter(found['count'].values())).level:.0%} interval"
    cells = [
        [
            sheets.name(c),
            *(text for name in found for text in _with_interval(found[name][c], name == "count")),
        ]
        for c in prev.classes
    ]
    hidden = sheets.more(len(cells), _SHOWN)
    sheet = sheets.Sheet(
        "Decisions by the largest prediction in the whole field, estimated without their labels",
        ["class", *(text for name in ("rows", "precision", "recall") for text in (name, level))],
        cells[:_SHOWN],
        (f"{hidden}: all are in the output of --json" if hidden else "",),
    )
    rows = [{"class": c, **{name: each[c].to_dict() for name, each in found.items()}} for c in prev.classes]
    return rows, [*sheet.parts(), ""]


def _with_interval(found: Interval, counted: bool) -> list[str]:
    style = ",.0f" if counted else ".3f"
    return [f"{found.estimate:{style}}", f"{found.lower:{style}} – {found.upper:{style}}"]


def _listed(names: Iterable[Hashable]) -> str:
    from fieldcal.objects import show as sheets

    listed = list(names)
    more = sheets.more(len(listed), _SHOWN)
    return ", ".join(map(sheets.name, listed[:_SHOWN])) + (f" {more}" if more else "")


def _safe(text: str) -> str:
    from fieldcal.objects import group_keys

    return group_keys.show(text, width=200)
