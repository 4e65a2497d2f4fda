"""Alarms of a field over time, in four kinds: the share, the assumption, the input, the volume."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldcal.core import alarms as core
from fieldcal.errors import InputError, option
from fieldcal.objects import group_keys, show
from fieldcal.objects.outcome import place_of_class

if TYPE_CHECKING:
    from fieldcal.objects.over_time import OverTime

Kind = Literal["share", "assumption", "input", "volume"]
#: What the kinds mean, in the order of their tables; the exit codes of a job.
KINDS: dict[Kind, tuple[str, int]] = {
    "input": ("the input broke", 3),
    "assumption": ("the assumption broke", 3),
    "share": ("the share changed", 2),
    "volume": ("the volume changed", 2),
}
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Alarm:
    """One alarm.

    Attributes
    ----------
    kind : "share", "assumption", "input" or "volume"
    group : None for the whole field
    window : the window in which it was raised first
    since : the window in which the change is most probable
    last : the latest window in which it is raised
    text : what happened, with its numbers
    severity : 2, to be looked at, or 3, broken
    """

    kind: Kind
    group: Hashable
    window: str
    since: str
    last: str
    text: str
    severity: int


@dataclass(frozen=True, eq=False)
class Alarms:
    """Alarms, the newest first. Made by `OverTime.alarms`.

    Attributes
    ----------
    rate : the probability of one or more false alarms of a kind over all groups and windows, at most
    margin : width of the band within which shares may move
    """

    alarms: tuple[Alarm, ...]
    rate: float
    margin: float

    @property
    def severity(self) -> int:
        """0 nothing, 2 to be looked at, 3 broken; also the exit code of a job."""
        return max((alarm.severity for alarm in self.alarms), default=0)

    def of(self, kind: Kind) -> tuple[Alarm, ...]:
        """Those of one kind."""
        return tuple(alarm for alarm in self.alarms if alarm.kind == kind)

    def __len__(self) -> int:
        return len(self.alarms)

    def __iter__(self) -> Iterator[Alarm]:
        return iter(self.alarms)

    def to_dict(self) -> dict[str, list[Any]]:
        """A row per alarm, as plain lists."""
        names = ("kind", "group", "window", "since", "last", "severity", "text")
        rows = [asdict(alarm) | {"group": _named(alarm.group)} for alarm in self.alarms]
        return {name: [row[name] for row in rows] for name in names}

    def __repr__(self) -> str:
        counts = [f"{len(self.of(k)):,} {words}" for k, (words, _) in KINDS.items() if self.of(k)]
        head = f"{len(self):,} alarm{'s' * (len(self) != 1)}" + (f": {', '.join(counts)}" if counts else "")
        lines = [f"  {alarm.window}  {alarm.text}" for alarm in self.alarms[:_MOST_SHOWN]]
        more = len(self) - _MOST_SHOWN
        return "\n".join([head, *lines, *([f"  … {more:,} more"] if more > 0 else [])])


def alarms_of(
    over: OverTime, *, of: Hashable = None, margin: float = 0.0, rate: float = 0.05, since: Any = None
) -> Alarms:
    """All alarms of a field over time; see `OverTime.alarms`."""
    for name, value in (("margin", margin), ("rate", rate)):
        if not 0 <= value < 1 or (name == "rate" and value == 0):
            raise InputError(f"{option(name)} must be a share between 0 and 1, but got {value!r:.40}.")
    k, start = place_of_class(over.classes, of), 0 if since is None else over.place(since)
    found = [
        *_shares(over, k, start, margin, rate),
        *_raised(
            over,
            start,
            "assumption",
            core.broken(over.misfit[:, start:], over.effect[:, start:], rate),
            _misfit,
        ),
        *_raised(over, start, "input", core.silent(over.n[:, start:]), _silent),
    ]
    volume, factor = core.unusual_volume(over.n[:, start:], rate)

    def rows(over: OverTime, r: int, t: int) -> str:
        return f"{over.n[r, t]:,.0f} rows, {factor[r, t - start]:.2g} times as many as before"

    found += _raised(over, start, "volume", volume & ~core.silent(over.n[:, start:]), rows)
    order = sorted(range(len(found)), key=lambda i: (found[i].window, found[i].severity), reverse=True)
    return Alarms(tuple(found[i] for i in order), rate, margin)


def _shares(over: OverTime, k: int, start: int, margin: float, rate: float) -> Iterator[Alarm]:
    V = over.histograms[:, start:]
    parts = V.sum(axis=2, keepdims=True)
    p = (over.urc[:, start:] * parts).sum(axis=1) / np.maximum(parts.sum(axis=1), 1e-12)
    p = np.where(p.sum(axis=1, keepdims=True) > 0, p, over.urc.mean(axis=1))
    evidence = core.evidence_of_change(V, over.response, p, k, margin=margin)
    raised = core.e_rejected(evidence.log_e, rate)
    for r in np.flatnonzero(raised.any(axis=1)):
        first, last = int(raised[r].argmax()), len(raised[r]) - 1 - int(raised[r, ::-1].argmax())
        at = start + int(evidence.change[r, first])
        before, after = (
            over.estimate[r, w, k].mean() for w in (slice(start, at), slice(at, start + first + 1))
        )
        change = f"{before:.3f} before {over.names[at]}, {after:.3f} since"
        who = f"The share of {group_keys.show(over.classes[k], width=30)} in {_named(over.groups[r])}"
        names = (over.names[start + first], over.names[at], over.names[start + last])
        yield Alarm(
            "share",
            over.groups[r],
            *names,
            f"{who} {'rose' if evidence.up[r, first] else 'fell'}: {change}.",
            2,
        )


def _raised(over: OverTime, start: int, kind: Kind, raised: Any, words: Any) -> list[Alarm]:
    """An alarm for each group that has one, from the first window to the last."""
    found = []
    for r in np.flatnonzero(raised.any(axis=1)):
        windows = start + np.flatnonzero(raised[r])
        first, last = over.names[windows[0]], over.names[windows[-1]]
        text = f"{_named(over.groups[r])}: {words(over, r, windows[-1])}."
        found.append(Alarm(kind, over.groups[r], first, first, last, text, KINDS[kind][1]))
    return found


def _misfit(over: OverTime, r: int, t: int) -> str:
    return f"no mixture of the classes explains its predictions (misfit {over.effect[r, t]:.2f}, Cohen's w)"


def _silent(over: OverTime, r: int, t: int) -> str:
    return f"no rows in the window of {over.names[t]}"


def _named(group: Hashable) -> str:
    return "the whole field" if group is None else show.name(group)


def metrics(over: OverTime, found: Alarms, of: Hashable) -> bytes:
    """The newest window with rows of every group, as OpenMetrics text; the whole field has the group ""."""
    k = place_of_class(over.classes, of)
    names = ["", *(group_keys.show(key, width=200) for key in over.groups[1:])]
    newest = [int(np.flatnonzero(n > 0)[-1]) if (n > 0).any() else -1 for n in over.n]
    label = group_keys.show(over.classes[k], width=200)
    lines = ["# TYPE fieldcal_share gauge", "# HELP fieldcal_share Share of a class in the newest window."]
    for r, (name, t) in enumerate(zip(names, newest, strict=True)):
        for bound in ("estimate", "lower", "upper", "mean_prediction"):
            value = float(getattr(over, bound)[r, t, k])
            if value == value:
                lines.append(_sample("share", value, {"group": name, "class": label, "value": bound}))
    lines += ["# TYPE fieldcal_rows gauge", "# HELP fieldcal_rows Rows of the newest window."]
    lines += [_sample("rows", over.n[r, -1], {"group": name}) for r, name in enumerate(names)]
    lines += ["# TYPE fieldcal_alarms gauge", "# HELP fieldcal_alarms Alarms by kind."]
    lines += [_sample("alarms", len(found.of(kind)), {"kind": kind}) for kind in KINDS]
    lines += ["# TYPE fieldcal_severity gauge", f"fieldcal_severity {found.severity}", "# EOF"]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _sample(name: str, value: float, labels: dict[str, str]) -> str:
    """One line: names are data, so backslashes, quotes and line ends in them are escaped."""
    escaped = {k: v.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for k, v in labels.items()}
    listed = ",".join(f'{k}="{v}"' for k, v in escaped.items())
    return f"fieldcal_{name}{{{listed}}} {value:.6g}"
