"""Numbers derived from an estimate: shares, precision and recall without labels, draws, cross-validation."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fieldcal
from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.answers import Assume, Of, as_plain, group_of
from fieldcal.cli.inputs import check_output, class_of
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError
from fieldcal.storage import write_atomically

if TYPE_CHECKING:
    from fieldcal.objects import Prevalence

_SHOWN = 36
Groups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GROUP",
        help="By default all. Of several columns, as a,b or as JSON: '[\"a\", 1]'.",
        show_default=False,
    ),
]
Level = Annotated[
    float | None,
    typer.Option(metavar="LEVEL", help="Probability content of the intervals; by default the estimate's."),
]


def shares(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    groups: Groups = None,
    of: Of = None,
    level: Level = None,
    assume: Assume = "trust",
) -> None:
    """The share of a class in each group, at another level or if label shift holds.

    Example: fieldcal shares prevalence.json York Leeds --of spam --level 0.95
    """
    from fieldcal.objects import Prevalence, group_keys, show

    prev = Prevalence.load(prevalence_file)
    chosen = class_of(prev, of)
    told = prev.classes[-1] if chosen is None else chosen
    named = _groups(prev, groups)
    found = prev.shares(named, of=told, level=level, assume=assume)
    keys = list(prev.groups) if named is None else named
    names = ["whole field" if not prev.field.grouped else group_keys.short(g) for g in keys]
    cells = [
        [name, f"{share.estimate:.3f}", f"{share.lower:.3f} – {share.upper:.3f}"]
        for name, share in zip(names, found, strict=True)
    ]
    width = f"{found[0].level:.0%} interval" if found else "interval"
    hidden = show.more(len(cells), _SHOWN)
    sheet = show.Sheet(
        f"Share of {show.name(told)}{_IF[assume]}",
        ["group", "share", width],
        cells[:_SHOWN],
        (f"{hidden}: all are in the output of --json" if hidden else "",),
    )
    rows = [{"group": as_plain(g), **share.to_dict()} for g, share in zip(keys, found, strict=True)]
    data = {"of": told, "assume": assume, "shares": rows, **out.verdict_data(prev.verdict)}
    out.result(settings, data, *sheet.parts(), "", *out.verdict(prev.verdict))


def performance(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    group: Annotated[
        str | None,
        typer.Argument(metavar="GROUP", help="By default all groups together.", show_default=False),
    ] = None,
    assume: Assume = "trust",
) -> None:
    """Rows, precision and recall of decisions by the largest prediction before recalibration, without labels.

    Example: fieldcal performance prevalence.json York
    """
    from fieldcal.objects import Prevalence, group_keys, show

    prev = Prevalence.load(prevalence_file)
    which: dict[str, Any] = {} if group is None else {"group": group_of(prev, group)}
    found = prev.performance(**which, assume=assume)
    level = next(iter(found["count"].values())).level
    where = "the whole field" if group is None else group_keys.short(which["group"])
    head = ["class"]
    for name in ("rows", "precision", "recall"):
        head += [name, f"{level:.0%} interval"]
    cells = [
        [
            show.name(c),
            *_counted(found["count"][c]),
            *_share(found["precision"][c]),
            *_share(found["recall"][c]),
        ]
        for c in prev.classes
    ]
    title = f"Decisions by the largest prediction in {where}, estimated without their labels{_IF[assume]}"
    hidden = show.more(len(cells), _SHOWN)
    notes = (f"{hidden}: all are in the output of --json" if hidden else "",)
    parts = show.Sheet(title, head, cells[:_SHOWN], notes).parts()
    rows = [{"class": c, **{name: each[c].to_dict() for name, each in found.items()}} for c in prev.classes]
    data = {
        "group": None if group is None else as_plain(which["group"]),
        "assume": assume,
        "classes": rows,
        **out.verdict_data(prev.verdict),
    }
    out.result(settings, data, *parts, "", *out.verdict(prev.verdict))


def draws(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write: .csv.", show_default=False)
    ],
    groups: Groups = None,
    assume: Assume = "trust",
) -> None:
    """Joint draws of the shares, one row per group and draw, to compute with: the same draw tells one story of all.

    Example: fieldcal draws prevalence.json -o draws.csv
    """
    from fieldcal.objects import Prevalence, group_keys

    if output.suffix.lower() != ".csv":
        raise InputError(f"Draws are written as .csv, but not {str(output)!r}. Add the ending.")
    check_output(output, [prevalence_file])
    prev = Prevalence.load(prevalence_file)
    named = _groups(prev, groups)
    found = prev.draws(named, assume=assume)
    size, n, _ = found.shape
    keys = list(prev.groups) if named is None else named
    texts = [group_keys.show(g) if isinstance(g, tuple) else g for g in keys]
    columns: dict[str, list[Any]] = {
        "group": [text for text in texts for _ in range(n)],
        "draw": list(range(n)) * size,
    }
    columns |= {f"share of {c}": found[..., k].ravel().tolist() for k, c in enumerate(prev.classes)}
    write_atomically(output, out.safe_csv(columns))
    data = {"groups": size, "draws": n, "classes": list(prev.classes), "assume": assume}
    out.done(settings, data, [output], f"{n:,} draws of {size:,} {'group' if size == 1 else 'groups'}")


def cross_validate(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    folds: Annotated[
        int, typer.Option(metavar="N", help="Into how many parts the labelled rows are dealt.")
    ] = 5,
    seed: opt.Seed = 0,
) -> None:
    """Does recalibration help, by the field's own labels? No row judges what it taught.

    Example: fieldcal cross-validate prevalence.json --folds 10
    """
    from fieldcal.objects import Prevalence

    found = fieldcal.cross_validate(Prevalence.load(prevalence_file), folds=folds, random_state=seed)
    out.result(settings, found.to_dict(), repr(found))


_IF = {"trust": "", "label_shift": ", if label shift holds"}


def _groups(prev: Prevalence, texts: list[str] | None) -> list[Hashable] | None:
    """The groups that are named; None for all."""
    if not texts:
        return None
    if not prev.field.grouped:
        raise InputError("This estimate is of one population, without groups. Leave the group out.")
    return [group_of(prev, text) for text in texts]


def _counted(found: Any) -> list[str]:
    return [f"{found.estimate:,.0f}", f"{found.lower:,.0f} – {found.upper:,.0f}"]


def _share(found: Any) -> list[str]:
    return [f"{found.estimate:.3f}", f"{found.lower:.3f} – {found.upper:.3f}"]
