"""contrast: questions to an estimate about its groups. Nothing is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.inputs import pairs_of
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Prevalence
    from fieldcal.objects.derived import Pairs, Ranking

    #: An answer for scripts, and for people.
    Answer = tuple[dict[str, Any], list[RenderableType]]


@command(
    "objects.prevalence:Prevalence.contrast",
    "objects.prevalence:Prevalence.compare",
    reads=["prevalence_file", "paired"],
)
def contrast(
    settings: Settings,
    prevalence_file: Path,
    groups: list[str] | None = None,
    *,
    rank: bool = False,
    totals: Any = None,
    all_groups: bool = False,
    reference: str | None = None,
    paired: str | None = None,
    item: list[str] | None = None,
    **given: Any,
) -> None:
    """Compare groups: the difference of two shares with its interval, a ranking, other mixes of groups.

    Example: fieldcal contrast prevalence.json York Leeds --of spam
    """
    many = all_groups or reference is not None
    if len(groups or ()) not in (0, 2) or not (groups or rank or totals or many):
        raise InputError(
            f"contrast compares two groups, but got {len(groups or ())}. Name two, or use --all, --reference, --rank "
            "or --totals."
        )
    asked = _asked(settings, prevalence_file, paired, item, given)
    answers = [
        asked.pair(groups, given["kind"]) if groups else ({}, []),
        asked.all_of_them(reference, given["errors"]) if many else ({}, []),
        asked.ranking() if rank else ({}, []),
        asked.mixed(totals) if totals else ({}, []),
    ]
    data: dict[str, Any] = {"of": asked.of, "assume": asked.assume}
    parts: list[RenderableType] = []
    for for_scripts, for_people in answers:
        data |= for_scripts
        parts += [*for_people, *([""] if for_people else [])]
    verdict = asked.prev.verdict
    out.result(settings, data | out.verdict_data(verdict), *parts, *out.verdict(verdict))


@command("verbs.compare:compare", reads=["earlier", "later"])
def compare(settings: Settings, earlier: Path, later: Path, **given: Any) -> None:
    """What changed from one estimate to another, in every group that both have.

    Example: fieldcal compare february/prevalence.json march/prevalence.json --of spam
    """
    from fieldcal.objects.lookup import class_of

    estimates = fieldcal.Prevalence.load(earlier), fieldcal.Prevalence.load(later)
    found = fieldcal.compare(*estimates, **given | {"of": class_of(estimates[1], given["of"])})
    out.result(settings, {"comparison": found.to_dict()}, repr(found))


def _asked(
    settings: Settings, path: Path, paired: str | None, item: list[str] | None, given: dict[str, Any]
) -> _Asked:
    """The estimate, how it is asked, and a note where groups might be paired."""
    from fieldcal.objects.lookup import class_of

    prev = fieldcal.Prevalence.load(path)
    if not prev.field.grouped:
        raise InputError(
            "This estimate is of one population: there are no groups to compare. Count with --by and estimate again."
        )
    of = class_of(prev, given["of"])
    pairs = pairs_of(settings, prev, paired, item)
    if prev.is_judged and pairs is None:
        out.note(
            settings,
            "Groups are compared as independent samples. If they were judged on the same items, name the counted table "
            "and its column of items: --paired TABLE --item COLUMN.",
        )
    return _Asked(prev, prev.classes[-1] if of is None else of, given["level"], given["assume"], pairs)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """An estimate and how it is asked."""

    prev: Prevalence
    of: Hashable
    level: float | None
    assume: Literal["trust", "label_shift"]
    pairs: Pairs | None

    @property
    def options(self) -> dict[str, Any]:
        return {"of": self.of, "assume": self.assume, "level": self.level}

    def pair(self, texts: Sequence[str], kind: Literal["difference", "ratio"]) -> Answer:
        from fieldcal.objects import group_keys, show
        from fieldcal.objects.lookup import group_of

        a, b = (group_of(self.prev, text) for text in texts)
        found = self.prev.contrast(a, b, kind=kind, pairs=self.pairs, **self.options)
        shares = self.prev.shares([a, b], **self.options)
        names = [group_keys.short(group) for group in (a, b)]
        lines = [
            f"Share of {show.name(self.of)}",
            *(f"  {n}: {s}" for n, s in zip(names, shares, strict=True)),
            f"  {kind}, {names[0]} against {names[1]}: {found}",
            f"  {names[0]} has the larger share with probability {found.probability:.3f}",
        ]
        data = {}
        if self.prev.lab.outcome.kind == "classes":
            margin = self.prev.break_even(contrast=(a, b), of=self.of, level=self.level)
            lines.append(f"  break-even: {margin.text()}")
            data = {"break_even": {name: column[0] for name, column in margin.to_dict().items()}}
        groups = [{"group": _plain(g), **s.to_dict()} for g, s in zip((a, b), shares, strict=True)]
        return {"kind": kind, "groups": groups, "contrast": found.to_dict(), **data}, list(lines)

    def all_of_them(self, reference: str | None, errors: float) -> Answer:
        """Every two groups, or all against one."""
        from fieldcal.objects.lookup import group_of

        base = ... if reference is None else group_of(self.prev, reference)
        found = self.prev.compare(base, errors=errors, pairs=self.pairs, **self.options)
        return {"comparison": found.to_dict()}, list(repr(found).split("\n"))

    def ranking(self) -> Answer:
        """How likely each group has the highest share, beside its share."""
        from fieldcal.objects import describe, show

        found: Ranking = self.prev.ranking(of=self.of, assume=self.assume, pairs=self.pairs)
        order = show.largest(found.probability, len(found.groups))
        shares = self.prev.shares(**self.options)
        rows = [(found.groups[g], float(found.probability[g]), shares[g]) for g in order]
        ranked = [{"group": _plain(g), "highest": p, "share": share.to_dict()} for g, p, share in rows]
        return {"ranking": ranked}, describe.ranking_sheet(rows, self.of).parts()

    def mixed(self, totals: list[tuple[str, str]]) -> Answer:
        """The share in a population of groups of these sizes."""
        from fieldcal.objects import show
        from fieldcal.objects.lookup import totals_of

        sizes = totals_of(self.prev, totals)
        found = self.prev.poststratify(sizes, **self.options)
        left_out = len(self.prev.groups) - len(sizes)
        lines = [
            f"Share of {show.name(self.of)} in a population of {len(sizes):,} groups of these sizes: {found}",
            *([f"  {left_out:,} groups have no size, and are left out"] if left_out else []),
        ]
        return {"population": {"groups": len(sizes), **found.to_dict()}}, list(lines)


def _plain(key: Hashable) -> Any:
    """A group for JSON: parts of a tuple as a list."""
    return list(key) if isinstance(key, tuple) else key
