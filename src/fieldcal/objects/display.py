"""What people see of an object, and how it looks in a terminal; `notebook` says how it looks in a notebook.

Names come from data. They are shortened and lose what is not printable in `keys.show`, and reach rich as `Text`, which
reads no markup. Rich is imported where it is used: it is not there in a plain installation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcal import keys

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

    from fieldcal.objects.field import Field
    from fieldcal.objects.lab import Lab
    from fieldcal.objects.prevalence import Prevalence
    from fieldcal.objects.verdict import Verdict

SHOWN_CLASSES = 12
SHOWN_GROUPS = 8
SHOWN_BINS = 24
NAME = 24  # characters of a name
_COLOURS = {"ok": "green", "care": "yellow", "do_not_use": "red"}
_HEIGHTS = "▁▂▃▄▅▆▇█"
_NEXT_TO_NOTHING = 0.005


# What is shown, on either side


def amount(n: Any) -> str:
    """A number of rows; weights need not be whole."""
    return f"{float(n):,.0f}" if float(n).is_integer() else f"{float(n):,.1f}"


def name(key: Hashable) -> str:
    """A group or a class, in a table."""
    return keys.show(key, width=NAME)


def largest(sizes: NDArray[Any], at_most: int) -> list[int]:
    """Where the largest are, the first of equals first."""
    return [int(i) for i in np.argsort(-np.asarray(sizes), kind="stable")[:at_most]]


def more(n: int, shown: int) -> str:
    """What is left out, if anything is."""
    return f"… and {n - shown:,} more" if n > shown else ""


def together(table: NDArray[Any], at_most: int = SHOWN_BINS) -> tuple[NDArray[np.float64], list[str]]:
    """The columns of a table, neighbours added up until there are few, and the numbers of their bins."""
    m = table.shape[1]
    edges = np.linspace(0, m, min(m, at_most) + 1).astype(int)
    names = [f"{a + 1}" if b == a + 1 else f"{a + 1}–{b}" for a, b in pairwise(edges)]
    return np.add.reduceat(np.asarray(table, dtype=np.float64), edges[:-1], axis=1), names


def shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row by its sum; zeros where there is nothing."""
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(counts, total, out=np.zeros_like(counts), where=total > 0))


def shown_classes(lab: Lab) -> list[int]:
    """The most frequent, in the order that the lab has them."""
    return sorted(largest(lab.p_lab, SHOWN_CLASSES))


def lab_title(lab: Lab, classes: str = "") -> str:
    """A lab in one line."""
    return (
        f"Lab: {lab.n:,} rows, {len(lab.classes)} classes{classes}, {lab.n_bins} bins, "
        f"condition number {lab.conditioning.condition_number:.3g}"
    )


def rehearsal_text(lab: Lab) -> str:
    """What the rehearsal said, if there was one."""
    r = lab.rehearsal
    if r is None:
        return ""
    return (
        f"rehearsed on {r.n_groups:,} groups, {r.n_rows:,} rows: trust {r.tau:.2f}, "
        f"expected change of log loss {r.change:+.3f} ± {r.change_se:.3f}"
    )


def clipped_text(n: int) -> str:
    """How many predictions were moved, if any were."""
    return f"{n:,} predictions moved into [0, 1]" if n else ""


def hidden_text(prev: Prevalence, shown: int) -> str:
    """How many lines the table of prevalences leaves out, if any."""
    return more(len(prev.groups) if prev.field.grouped else len(prev.classes), shown)


# In a terminal: parts from top to bottom. A text among them stays as it is, whatever is in it.


def stacked(parts: Iterable[RenderableType]) -> Group:
    """The parts as one thing to print."""
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(part) if isinstance(part, str) else part for part in parts))


def lab_parts(lab: Lab) -> list[RenderableType]:
    """The classes, each with its row of M."""
    at = shown_classes(lab)
    M, _ = together(lab.M[at])
    rows = zip(at, lab.F[at].sum(axis=1), _heights(M), strict=True)
    table = grid(
        ["class", "rows", "prevalence", "bins given class"],
        [[name(lab.classes[k]), amount(n), f"{lab.p_lab[k]:.1%}", bars] for k, n, bars in rows],
    )
    notes = [more(len(lab.classes), len(at)), rehearsal_text(lab), clipped_text(lab.clipped)]
    return [lab_title(lab), table, *filter(None, notes)]


def field_parts(field: Field) -> list[RenderableType]:
    """The largest groups, each with its histogram."""
    at = largest(field.n, SHOWN_GROUPS)
    bars = _heights(shares(together(field.V[at])[0]))
    names = [name(field.groups[g]) if field.grouped else "all" for g in at]
    rows = [[label, amount(field.n[g]), bar] for label, g, bar in zip(names, at, bars, strict=True)]
    notes = [more(len(field.groups), len(at)), clipped_text(field.clipped)]
    return [repr(field), grid(["group", "rows", "bins"], rows), *filter(None, notes)]


def prevalence_parts(prev: Prevalence) -> list[RenderableType]:
    """The prevalences as a table with its title, and what it leaves out; without the verdict."""
    head, rows = prev.table()
    hidden = hidden_text(prev, len(rows))
    return [prev.title(), grid(head, rows), *([hidden] if hidden else [])]


def verdict_parts(verdict: Verdict) -> list[RenderableType]:
    """The verdict and its reasons."""
    from rich.text import Text

    head, *reasons = repr(verdict).split("\n")
    return [Text(head, style=_COLOURS[verdict.level]), *reasons]


def grid(head: list[str], rows: list[list[str]]) -> Table:
    """A table without lines, its first column to the left."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, title in enumerate(head):
        table.add_column(Text(title), justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _heights(probabilities: NDArray[np.float64]) -> list[str]:
    """Each row as bars, all on one scale; next to nothing, as from smoothing alone, has none."""
    top = max(probabilities.max(initial=0.0), 1e-300)
    least = np.where(probabilities < _NEXT_TO_NOTHING, 0, 1)
    steps = np.maximum(np.rint(probabilities / top * len(_HEIGHTS)).astype(int), least)
    return ["".join((" " + _HEIGHTS)[step] for step in row) for row in steps]
