"""Tables of objects for people, in a terminal and in a notebook.

Names come from data. They are shortened and stripped of unprintable characters in `group_keys.show`, passed to rich as
`Text`, which does not interpret markup, and escaped in HTML. Rich is imported late, because it is optional.
"""

from __future__ import annotations

import html
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.objects import group_keys
from fieldcal.types import Design, Floats

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from fieldcal.objects.field import Field
    from fieldcal.objects.lab import Lab
    from fieldcal.objects.verdict import Verdict


SHOWN_CLASSES = 12
SHOWN_GROUPS = 8
SHOWN_BINS = 24
SHOWN_VALUES = 8
NAME = 24  # characters of a name
#: Where Python has the full table.
TO_FRAME = "to_frame()"
#: Verdict: sign, and colours in a terminal and in a notebook.
SIGNS = {
    "ok": ("✓", "green", "#009e73"),
    "care": ("!", "yellow", "#e69f00"),
    "do_not_use": ("✕", "red", "#cc3311"),
}
#: Designs of labelled rows, in words.
CHOSEN: dict[Design, str] = {"random": "at random", "by_score": "by score", "by_class": "by class"}
_REASONS = 20
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_NEXT_TO_NOTHING = 0.005


@dataclass(frozen=True)
class Sheet:
    """A table with a title, and notes below it."""

    title: str
    head: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...]  # empty ones are skipped
    names: int = 1  # number of leading columns with names

    def parts(self) -> list[RenderableType]:
        """The parts for a terminal, from top to bottom."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for i, title in enumerate(self.head):
            table.add_column(Text(title), justify="left" if i < self.names else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return [Text(self.title), table, *(Text(note) for note in self.notes if note)]

    def page(self) -> str:
        """HTML for a notebook; styles only what notebooks get wrong."""
        # ``bdi`` keeps right-to-left names from turning the numbers beside them around.
        rows = [
            [f"<td{self._side(i)}><bdi>{html.escape(cell)}</bdi></td>" for i, cell in enumerate(row)]
            for row in self.rows
        ]
        head = [f"<th{self._side(i)}>{html.escape(title)}</th>" for i, title in enumerate(self.head)]
        lines = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in self.notes if note)
        return (
            f'<div style="overflow-x:auto"><b>{html.escape(self.title)}</b><table style="font-family:monospace">'
            f"<thead><tr>{''.join(head)}</tr></thead><tbody>{lines}</tbody></table>{notes}</div>"
        )

    def _side(self, column: int) -> str:
        """The alignment of a column: names left, numbers right; histograms keep their spaces."""
        return f' style="text-align:{"left" if column < self.names else "right"};white-space:pre"'


def lab_sheet(lab: Lab) -> Sheet:
    """The most frequent classes in the lab's order, each with its row of M."""
    at = sorted(largest(lab.p_lab, SHOWN_CLASSES))
    says = lab.of_values and lab.n_bins <= SHOWN_VALUES
    shown = _rates(lab.M[at]) if says else [[bars] for bars in _heights(together(lab.M[at]))]
    head = [f"judged {name(v)}" for v in _value_names(lab)] if says else [f"{bins_word(lab)} given class"]
    rows = [
        [name(lab.classes[k]), amount(np.round(lab.F[k].sum(), 6)), f"{lab.p_lab[k]:.1%}", *cells]
        for k, cells in zip(at, shown, strict=True)
    ]
    hidden = more(len(lab.classes), len(at))
    notes = (hidden, positive_text(lab), rehearsal_text(lab), _clipped_text(lab.clipped))
    share = "share of them" if lab.of_values else "prevalence"
    return Sheet(lab_title(lab), ["class", "rows", share, *head], rows, notes)


def field_sheet(field: Field) -> Sheet:
    """The largest groups, each with its histogram."""
    at = largest(field.n, SHOWN_GROUPS)
    counts = together(field.V[at])
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    rows = [
        [name(field.groups[g]) if field.grouped else "all", amount(field.n[g]), bars]
        for g, bars in zip(at, _heights(shares), strict=True)
    ]
    notes = (more(len(field.groups), len(at)), labelled_text(field), _clipped_text(field.clipped))
    return Sheet(repr(field), ["group", "rows", "bins"], rows, notes)


def verdict_parts(verdict: Verdict, *, reasons: Sequence[str] | None = None) -> list[RenderableType]:
    """The verdict and its reasons, for a terminal."""
    from rich.text import Text

    head, *lines = verdict.text(reasons).split("\n")
    return [Text(head, style=SIGNS[verdict.level][1]), *map(Text, lines)]


def verdict_page(verdict: Verdict) -> str:
    """The verdict and its reasons, as HTML for a notebook."""
    sign, _, colour = SIGNS[verdict.level]
    head = html.escape(repr(verdict).partition("\n")[0])
    reasons = [group_keys.show(reason, width=1_000) for reason in verdict.reasons[:_REASONS]]
    hidden = more(len(verdict.reasons), len(reasons))
    listed = "".join(f"<li>{html.escape(reason)}</li>" for reason in [*reasons, *filter(None, [hidden])])
    listed = f"<ul>{listed}</ul>" if listed else ""
    return f'<div><b><span style="color:{colour}">{sign}</span> {head}</b>{listed}</div>'


def stacked(parts: Iterable[RenderableType]) -> Group:
    """Parts for a terminal as one printable object."""
    from rich.console import Group

    return Group(*parts)


def amount(n: Any) -> str:
    """A number of rows; weights need not be whole."""
    return f"{float(n):,.1f}".removesuffix(".0")


def name(key: Hashable) -> str:
    """A group or a class, as shown in a table."""
    return group_keys.show(key, width=NAME)


def status(flags: str, *, width: int = 80) -> str:
    """The status of a group in words: ``few_rows,novel`` is "few rows, novel", ``care`` is "use with care"."""
    from fieldcal.objects.verdict import WORDS  # verdict imports this module

    if flags in WORDS:
        return WORDS[flags].lower()
    return group_keys.show(flags.replace("_", " ").replace(",", ", "), width=width)


def largest(sizes: NDArray[Any], at_most: int) -> list[int]:
    """Positions of the largest sizes; ties by position."""
    return [int(i) for i in np.argsort(-np.asarray(sizes), kind="stable")[:at_most]]


def more(n: int, shown: int) -> str:
    """The number left out, as text; empty if nothing is."""
    return f"… and {n - shown:,} more" if n > shown else ""


def together(table: NDArray[Any], at_most: int = SHOWN_BINS) -> Floats:
    """The columns of a table, with neighbours added up until there are few."""
    edges = np.linspace(0, table.shape[1], min(table.shape[1], at_most) + 1).astype(int)
    return np.add.reduceat(np.asarray(table, dtype=np.float64), edges[:-1], axis=1)


def lab_title(lab: Lab, classes: str = "") -> str:
    if lab.design is not None:
        return (
            f"Lab: {lab.n:,} rows chosen {CHOSEN[lab.design]}, {len(lab.classes)} classes{classes}, {lab.n_bins} "
            f"{bins_word(lab)}"
        )
    calibrated = "" if lab.calibration_map is None else f", calibrated ({lab.calibration_map.method})"
    return (
        f"Lab: {lab.n:,} rows, {len(lab.classes)} classes{classes}, {lab.n_bins} {bins_word(lab)}{calibrated}"
    )


def bins_word(lab: Lab) -> str:
    return lab.partition.noun


def rehearsal_text(lab: Lab) -> str:
    """The result of the rehearsal, if there was one."""
    r = lab.rehearsal
    if r is None:
        return ""
    return (
        f"cross-validation over {r.n_groups:,} groups, {r.n_rows:,} rows: trust {r.trust:.2f}, "
        f"expected change of log loss {r.change:+.3f} ± {r.change_se:.3f}"
    )


def positive_text(lab: Lab) -> str:
    """The class of a single column of predictions, and why; empty for several columns."""
    if lab.positive_column is None:
        return ""
    why = "the second class in sorted order" if group_keys.in_order(lab.classes) else "as given"
    return f"{name(lab.positive_column)} is the probability of {name(lab.classes[1])}, {why}"


def labelled_text(field: Field) -> str:
    """Numbers of labelled rows by design; empty without any."""
    parts = [f"{amount(d.counts.sum())} chosen {CHOSEN[design]}" for design, d in field.labelled.items()]
    return f"labelled rows: {', '.join(parts)}" if parts else ""


def _clipped_text(n: int) -> str:
    return f"{n:,} predictions moved into [0, 1]" if n else ""


def _value_names(lab: Lab) -> list[str]:
    return lab.partition.labels([name(c) for c in lab.classes])


def _rates(M: Floats) -> list[list[str]]:
    return [[f"{rate:.1%}" for rate in row] for row in M]


def _heights(probabilities: Floats) -> list[str]:
    """Each row as bars on a common scale; cells of smoothing alone are blank."""
    top = max(probabilities.max(initial=0.0), 1e-300)
    least = np.where(probabilities < _NEXT_TO_NOTHING, 0, 1)
    steps = np.maximum(np.rint(probabilities / top * (len(_HEIGHTS) - 1)).astype(int), least)
    return ["".join(_HEIGHTS[step] for step in row) for row in steps]
