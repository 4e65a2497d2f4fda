"""fieldcal contrast: questions to an estimate about its groups. Nothing is written."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import fieldcal
from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.inputs import class_of
from fieldcal.cli.labels import Paired, pairs_of
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError
from fieldcal.storage import did_you_mean, read_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Prevalence
    from fieldcal.objects.derived import Pairs, Ranking

_SHOWN = 12
Of = Annotated[str | None, opt.option("Of")]
Assume = Annotated[Literal["trust", "label_shift"], opt.option("Assume")]


def contrast(
    settings: Settings,
    prevalence_file: opt.PrevalenceFile,
    paired: Paired,
    groups: Annotated[list[str] | None, opt.argument("groups")] = None,
    of: Of = None,
    kind: Annotated[Literal["difference", "ratio"], opt.option("kind")] = "difference",
    rank: Annotated[bool, opt.option("rank", "--rank")] = False,
    totals: Annotated[str | None, opt.option("totals")] = None,
    every: Annotated[bool, opt.option("every.contrast", "--all")] = False,
    reference: Annotated[str | None, opt.option("reference")] = None,
    errors: Annotated[float, opt.option("errors")] = 0.05,
    level: Annotated[float | None, opt.option("level.contrast")] = None,
    assume: Assume = "trust",
) -> None:
    """Compare groups: the difference of two shares with its interval, a ranking, other mixes of groups.

    Example: fieldcal contrast prevalence.json York Leeds --of spam
    """
    from fieldcal.objects import Prevalence
    from fieldcal.options import check_level

    many = every or reference is not None
    if len(groups or ()) not in (0, 2) or not (groups or rank or totals or many):
        raise InputError(
            f"contrast compares two groups, but got {len(groups or ())}. Name two, or use --all, --reference, "
            "--rank or --totals."
        )
    prev = Prevalence.load(prevalence_file)
    if not prev.field.grouped:
        raise InputError(
            "This estimate is of one population: there are no groups to compare. Count with --by and estimate again."
        )
    if level is not None:
        check_level(level)
    chosen = class_of(prev, of)
    pairs = pairs_of(settings, prev, paired)
    if prev.is_judged and pairs is None:
        out.note(
            settings,
            "Groups are compared as independent samples. If they were judged on the same items, name the counted table "
            "and its column of items: --paired TABLE --item COLUMN.",
        )
    asked = _Asked(prev, prev.classes[-1] if chosen is None else chosen, level, assume, pairs)
    data: dict[str, Any] = {"of": asked.of, "assume": assume}
    parts: list[RenderableType] = []
    for found, told in (
        asked.pair(groups, kind) if groups else ({}, []),
        asked.all_of_them(reference, errors) if many else ({}, []),
        asked.ranking() if rank else ({}, []),
        asked.mixed(totals) if totals else ({}, []),
    ):
        data |= found
        parts += [*told, *([""] if told else [])]
    data |= out.verdict_data(prev.verdict)
    out.result(settings, data, *parts, *out.verdict(prev.verdict))


@dataclasses.dataclass(frozen=True)
class _Asked:
    """An estimate and how it is asked; answers for scripts, and in words."""

    prev: Prevalence
    of: Hashable
    level: float | None
    assume: Literal["trust", "label_shift"]
    pairs: Pairs | None

    @property
    def options(self) -> dict[str, Any]:
        return {"of": self.of, "assume": self.assume, "level": self.level}

    def pair(
        self, texts: Sequence[str], kind: Literal["difference", "ratio"]
    ) -> tuple[dict[str, Any], list[RenderableType]]:
        """One group against another."""
        from fieldcal.objects import group_keys, show

        a, b = (group_of(self.prev, text) for text in texts)
        found = self.prev.contrast(a, b, kind=kind, pairs=self.pairs, **self.options)
        shares = self.prev.shares([a, b], **self.options)
        names = [group_keys.short(group) for group in (a, b)]
        lines = [
            f"Share of {show.name(self.of)}",
            *(f"  {n}: {s}" for n, s in zip(names, shares, strict=True)),
        ]
        lines.append(f"  {kind}, {names[0]} against {names[1]}: {found}")
        lines.append(f"  {names[0]} has the larger share with probability {found.probability:.3f}")
        told = [{"group": as_plain(g), **s.to_dict()} for g, s in zip((a, b), shares, strict=True)]
        return {"kind": kind, "groups": told, "contrast": found.to_dict()}, list(lines)

    def all_of_them(
        self, reference: str | None, errors: float
    ) -> tuple[dict[str, Any], list[RenderableType]]:
        """Every two groups, or all against one."""
        base = ... if reference is None else group_of(self.prev, reference)
        found = self.prev.compare(base, errors=errors, pairs=self.pairs, **self.options)
        return {"comparison": found.to_dict()}, repr(found).split("\n")  # type: ignore[return-value]

    def ranking(self) -> tuple[dict[str, Any], list[RenderableType]]:
        """How likely each group is the highest, beside its share."""
        from fieldcal.objects import group_keys, show

        found: Ranking = self.prev.ranking(of=self.of, assume=self.assume, pairs=self.pairs)
        order = show.largest(found.probability, len(found.groups))
        shares = self.prev.shares(**self.options)
        rows = [(found.groups[g], float(found.probability[g]), shares[g]) for g in order]
        cells = [
            [
                group_keys.short(g),
                f"{p:.3f}",
                f"{share.estimate:.3f}",
                f"{share.lower:.3f} – {share.upper:.3f}",
            ]
            for g, p, share in rows[:_SHOWN]
        ]
        sheet = show.Sheet(
            f"Which group has the highest share of {show.name(self.of)}",
            ["group", "probability", "share", f"{rows[0][2].level:.0%} interval"],
            cells,
            (show.more(len(rows), len(cells)),),
        )
        told = [{"group": as_plain(g), "highest": p, "share": share.to_dict()} for g, p, share in rows]
        return {"ranking": told}, sheet.parts()

    def mixed(self, text: str) -> tuple[dict[str, Any], list[RenderableType]]:
        """The share in a population of groups of these sizes."""
        from fieldcal.objects import show

        sizes = totals_of(self.prev, text)
        found = self.prev.poststratify(sizes, **self.options)
        left_out = len(self.prev.groups) - len(sizes)
        lines = [
            f"Share of {show.name(self.of)} in a population of {len(sizes):,} groups of these sizes: {found}"
        ]
        lines += [f"  {left_out:,} groups have no size, and are left out"] if left_out else []
        return {"population": {"groups": len(sizes), **found.to_dict()}}, list(lines)


def group_of(prev: Prevalence, text: str) -> Hashable:
    """The group that is spelled so: as JSON, as text, or its parts with commas between them."""
    from fieldcal.objects import group_keys

    read = _as_key(text)
    for key in (read, text):
        if key is not ... and int(group_keys.positions(prev.groups, (key,))[0]) >= 0:
            return key
    parts = tuple(part.strip() for part in next(csv.reader([text]), []))
    spelled = [
        key for key in prev.groups if parts == _parts(key) or text == group_keys.show(key, width=10_000)
    ]
    if len(spelled) == 1:
        return spelled[0]
    if spelled:
        ways = " or ".join(
            repr(json.dumps(group_keys.encode(key), ensure_ascii=False)) for key in spelled[:3]
        )
        raise InputError(f"{len(spelled)} groups are spelled {text!r:.60}. Write which one as JSON: {ways}.")
    known = [",".join(_parts(key)) for key in prev.groups]
    listed = ", ".join(repr(name)[:60] for name in known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    raise InputError(f"There is no group {text!r:.60}.{did_you_mean(text, known)} There are {listed}.")


def _as_key(text: str) -> Any:
    """What JSON makes of it, if that can be a group; else the ellipsis."""
    from fieldcal.objects import group_keys

    try:
        return group_keys.normalize(group_keys.decode(json.loads(text)))
    except (ValueError, TypeError, RecursionError, fieldcal.FieldcalError):
        return ...


def _parts(key: Hashable) -> tuple[str, ...]:
    return tuple(
        "null" if part is None else str(part) for part in (key if isinstance(key, tuple) else (key,))
    )


def totals_of(prev: Prevalence, text: str) -> dict[Hashable, float]:
    """Sizes of groups: ``York=100,Leeds=50``, or a CSV file with the group's columns and the size last."""
    rows: list[tuple[str, str]] = []
    if text.lower().endswith(".csv"):
        cells = [
            row for row in csv.reader(read_bytes(text).decode("utf-8-sig", "replace").splitlines()) if row
        ]
        if cells and opt.number(cells[0][-1]) is None:  # names of columns
            cells = cells[1:]
        rows = [(row[0] if len(row) == 2 else ",".join(row[:-1]), row[-1]) for row in cells]
    else:
        for part in opt.names([text]) or ():
            name, _, size = part.rpartition("=")
            rows.append((name, size))
    sizes: dict[Hashable, float] = {}
    for name, size in rows:
        group = group_of(prev, name)
        if group in sizes:
            raise InputError(f"--totals names the group {name!r:.60} twice. Add its sizes up.")
        sizes[group] = size_of(size, "--totals")
    return sizes


def size_of(text: str, option: str) -> float:
    """A number that is not negative."""
    value = opt.number(text)
    if value is None or not 0.0 <= value < float("inf"):
        raise InputError(f"{option} must have numbers, none negative, but has {text!r:.60}.")
    return value


def as_plain(key: Hashable) -> Any:
    """A group for JSON: parts of a tuple as a list."""
    return list(key) if isinstance(key, tuple) else key
