"""What people see of an object, and how it looks in a terminal; `notebook` says how it looks in a notebook.

Names come from data. They are shortened and lose what is not printable in `keys.show`, and reach rich as `Text`, which
reads no markup. Rich is imported where it is used: it is not there in a plain installation.
"""

from __future__ import annotations

import html
from collections.abc import Hashable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.objects import group_keys

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
    return group_keys.show(key, width=NAME)


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


ESTIMATE, NAIVE, MUTED = "#0072b2", "#d55e00", "#7b8794"
_SIGNS = {"ok": ("✓", "#009e73"), "care": ("!", "#e69f00"), "do_not_use": ("✕", "#cc3311")}
_STRIP, _STRIP_HEIGHT, _EDGE = 160, 16, 6  # pixels: a dot at 0 must not be cut
_SCALES = (0.01, 0.02, 0.05, *(tenths / 10 for tenths in range(1, 11)))
_NUMBERS_UP_TO = 12  # bins: more of them, and numbers would not fit
_REASONS = 20
_CELL = "text-align:right;padding:2px 8px"
_LEFT = "text-align:left;padding:2px 8px 2px 0"


def lab_page(lab: Lab) -> str:
    """The classes with their rows, and M as a heat map: the darker, the more probable."""
    at = shown_classes(lab)
    M, bins = together(lab.M[at])
    about = f"M: probability of bins 1–{lab.n_bins}, given the class"
    about += f"; neighbours together, {len(bins)} columns" if len(bins) < lab.n_bins else ""
    numbers = len(bins) <= _NUMBERS_UP_TO
    head = [_th("class", _LEFT), _th("rows"), _th("prevalence"), _th(about, span=len(bins))]
    rows = [
        _td(_name(lab.classes[k]), _LEFT)
        + _td(amount(lab.F[k].sum()))
        + _td(f"{lab.p_lab[k]:.1%}")
        + "".join(_heat(p, M.max(), of, number=numbers) for p, of in zip(row, bins, strict=True))
        for k, row in zip(at, M, strict=True)
    ]
    notes = [
        more(len(lab.classes), len(at)),
        rehearsal_text(lab),
        clipped_text(lab.clipped),
    ]
    return _page(lab_title(lab), _table(head, rows), *map(_note, notes))


def field_page(field: Field) -> str:
    """The histogram of all rows, and those of the largest groups, on one scale."""
    counts, bins = together(field.V.sum(axis=0, keepdims=True))
    words = [f"bin {of}: {amount(n)} rows" for of, n in zip(bins, counts[0], strict=True)]
    whole = _bars(shares(counts)[0], top=0.0, width=320, height=64, words=words)
    caption = _note(f"rows in bins 1–{field.n_bins}")
    groups = _group_bars(field) if field.grouped and field.groups else ""
    return _page(repr(field), whole, caption, groups, _note(clipped_text(field.clipped)))


def prevalence_page(prev: Prevalence) -> str:
    """The table of prevalences, each line with its picture, and the verdict."""
    head, rows = prev.table()
    used = [i for i, title in enumerate(head) if title]  # no interval, no column
    at = [(g, k) for _, g, k in prev.shown()]
    top = _scale(prev, at)
    heads = [_th(head[i], _LEFT if i == 0 else _CELL) for i in used]
    lines = [
        "".join(_td(f"<bdi>{html.escape(row[i])}</bdi>", _LEFT if i == 0 else _CELL) for i in used)
        + _td(_strip(prev, g, k, top), "padding:2px 8px")
        for row, (g, k) in zip(rows, at, strict=True)
    ]
    table = _table([*heads, _axis(top)], lines)
    hidden = _note(hidden_text(prev, len(rows)))
    return _page(prev.title(), table, hidden, _legend(prev), verdict_page(prev.verdict))


def verdict_page(verdict: Verdict) -> str:
    """The verdict in words, with a sign and a colour beside them, and its reasons."""
    sign, colour = _SIGNS[verdict.level]
    head = html.escape(repr(verdict).partition("\n")[0])
    reasons = [_reason(reason) for reason in verdict.reasons[:_REASONS]]
    hidden = more(len(verdict.reasons), len(reasons))
    listed = "".join(f"<li>{reason}</li>" for reason in [*reasons, *([hidden] if hidden else [])])
    listed = f'<ul style="margin:2px 0 0;padding-left:20px">{listed}</ul>' if listed else ""
    return (
        f'<div style="border-left:4px solid {colour};padding:4px 10px;margin:6px 0;max-width:60em">'
        f'<b><span style="color:{colour}">{sign}</span> {head}</b>{listed}</div>'
    )


# Pieces


def _page(title: str, *parts: str) -> str:
    head = f'<div style="font-weight:bold;margin:4px 0">{html.escape(title)}</div>'
    return f'<div style="font-size:13px;line-height:1.45;overflow-x:auto">{head}{"".join(parts)}</div>'


def _name(key: Any) -> str:
    """A name from data; ``bdi`` keeps right-to-left ones from turning the numbers beside them around."""
    return f"<bdi>{html.escape(name(key))}</bdi>"


def _reason(text: str) -> str:
    return html.escape(group_keys.show(text, width=1_000))


def _note(text: str) -> str:
    return f'<div style="opacity:.75;margin:2px 0">{html.escape(text)}</div>' if text else ""


def _table(head: list[str], rows: list[str]) -> str:
    # Notebooks centre tables and paint every second row: neither suits a heat map.
    clear = '<tr style="background:transparent">'
    lines = "".join(f"{clear}{row}</tr>" for row in rows)
    return (
        '<table style="border-collapse:collapse;margin:4px 0;border:0;color:inherit;font-size:inherit">'
        f"<thead>{clear}{''.join(head)}</tr></thead><tbody>{lines}</tbody></table>"
    )


def _th(title: str, style: str = _CELL, *, span: int = 1) -> str:
    wide = f' colspan="{span}"' if span > 1 else ""
    style = "text-align:left;padding:2px 8px" if span > 1 else style
    return f'<th style="{style}"{wide}>{html.escape(title)}</th>'


def _td(content: str, style: str = _CELL) -> str:
    """A cell; its content is HTML already."""
    return f'<td style="{style}">{content}</td>'


def _heat(p: float, top: float, bins: str, *, number: bool) -> str:
    """A cell as opaque as its bin is probable; where it hides the theme's background, its text is white.

    The most probable cell is opaque: with many bins all would be too faint otherwise, on dark themes above all.
    """
    shade = p / top
    ink = ";color:#fff" if shade >= 0.9 else ""
    text = f"{p:.2f}".removeprefix("0") if number else ""
    pad = "2px 6px" if number else "2px 7px"
    style = f"background:rgba(0,114,178,{shade:.2f});padding:{pad}{ink}"
    return f'<td style="{style}" title="bin {bins}: {p:.3f}">{text}</td>'


def _svg(width: int, height: int, words: str, shapes: str) -> str:
    return (
        f'<svg role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'style="vertical-align:middle"><title>{html.escape(words)}</title>{shapes}</svg>'
    )


def _bars(
    share: NDArray[np.float64],
    *,
    top: float,
    width: int,
    height: int,
    words: list[str] | None = None,
) -> str:
    """A histogram; words of each bar are seen when pointing at it, and without them all bars are one short path."""
    step, unit = width / len(share), (height - 1) / max(top, share.max(initial=0.0), 1e-300)
    boxes = [(i * step + 0.5, max(step - 1, 0.5), p * unit) for i, p in enumerate(share)]
    base = f'<path d="M0 {height - 0.5}h{width}" stroke="{MUTED}"/>'
    if words is None:
        path = "".join(f"M{x:.1f} {height}v{-h:.1f}h{w:.1f}v{h:.1f}z" for x, w, h in boxes if h > 0)
        return _svg(width, height, "histogram", f'<path d="{path}" fill="{ESTIMATE}"/>{base}')
    bars = "".join(
        f'<rect x="{x:.1f}" y="{height - h:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{ESTIMATE}">'
        f"<title>{html.escape(text)}</title></rect>"
        for (x, w, h), text in zip(boxes, words, strict=True)
    )
    return _svg(width, height, "histogram of all rows", bars + base)


def _group_bars(field: Field) -> str:
    at = largest(field.n, SHOWN_GROUPS)
    share = shares(together(field.V[at])[0])
    top = float(share.max(initial=0.0))
    rows = [
        _td(_name(field.groups[g]), _LEFT)
        + _td(amount(field.n[g]))
        + _td(_bars(row, top=top, width=_STRIP, height=22), "padding:2px 8px")
        for g, row in zip(at, share, strict=True)
    ]
    head = [_th("group", _LEFT), _th("rows"), _th("share of its rows per bin")]
    return _table(head, rows) + _note(more(len(field.groups), len(at)))


def _scale(prev: Prevalence, at: list[tuple[int, int]]) -> float:
    """The end of the axis that all lines share: a round number that nothing shown is beyond."""
    tables = [t for t in (prev.mean_prediction, prev.estimate, prev.upper) if t is not None]
    worst = max((float(table[cell]) for table in tables for cell in at), default=1.0)
    return next((scale for scale in _SCALES if scale >= worst), 1.0)


def _axis(top: float) -> str:
    ends = f"<span>0</span><span>{top:g}</span>"
    line = f"display:flex;justify-content:space-between;width:{_STRIP}px;font-weight:normal;opacity:.75"
    return f'<th style="padding:2px 8px"><div style="{line}">{ends}</div></th>'


def _strip(prev: Prevalence, g: int, k: int, top: float) -> str:
    """The interval as a line, the mean prediction as a ring, the estimate as a dot; both are seen where they meet."""

    def x(p: float) -> str:
        return f"{_EDGE + (_STRIP - 2 * _EDGE) * min(p / top, 1.0):.1f}"

    y, before, after = _STRIP_HEIGHT // 2, float(prev.mean_prediction[g, k]), float(prev.estimate[g, k])
    shapes = f'<path d="M{_EDGE} {y}H{_STRIP - _EDGE}" stroke="{MUTED}" opacity=".4"/>'
    if prev.lower is not None and prev.upper is not None:
        line = f"M{x(prev.lower[g, k])} {y}H{x(prev.upper[g, k])}"
        shapes += f'<path d="{line}" stroke="{ESTIMATE}" stroke-width="2.5"/>'
    shapes += f'<circle cx="{x(after)}" cy="{y}" r="3.5" fill="{ESTIMATE}"/>'
    shapes += f'<circle cx="{x(before)}" cy="{y}" r="5" fill="none" stroke="{NAIVE}" stroke-width="1.75"/>'
    interval = prev.interval_text(g, k)
    words = f"estimate {after:.3f}{f' ({interval})' if interval else ''}, mean prediction {before:.3f}"
    return _svg(_STRIP, _STRIP_HEIGHT, words, shapes)


def _legend(prev: Prevalence) -> str:
    marks = [(ESTIMATE, "●", "estimate"), (NAIVE, "○", "mean prediction")]
    if prev.level is not None:
        marks.append((ESTIMATE, "━", f"{prev.level:.0%} interval"))
    return "<div>" + " &nbsp; ".join(f'<b style="color:{c}">{m}</b> {w}' for c, m, w in marks) + "</div>"
