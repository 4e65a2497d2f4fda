"""A report as Markdown: for a pull request, a ticket, an e-mail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from fieldcal.reporting.page import STATES, lines

#: Lines of the table of groups.
MOST = 30
#: What Markdown, or HTML inside it, would read as something other than itself.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&@])")


def markdown(content: dict[str, Any]) -> str:
    """Verdict, changes, groups, checklist, settings."""
    v, g = content["verdict"], content["groups"]
    shown = lines(g)[:MOST]
    parts = [
        f"# {escaped(content['title'])}",
        f"## {v['headline']}",
        v["meaning"],
        _bullets(v["reasons"]),
        "### What to do",
        _bullets(v["advice"]),
        "## What changed, and for whom",
        _bullets(content["changes"]),
        _table(*_lines(g, shown)),
        f"… and {len(g['names']) - len(shown):,} more" if len(g["names"]) > len(shown) else "",
        "## Why trust it, and how far",
        _bullets(content["trust"]),
        *_labelled(content["labelled"]),
        "## Reasons not to use it: a checklist",
        _bullets(f"{STATES[i['state']][0]} {i['question']} {i['answer']}" for i in content["checklist"]),
        "## Data quality",
        _table(
            ["What", "Count", "Note"],
            [[q["what"], f"{q['count']:,.6g}", q["note"]] for q in content["quality"]],
        ),
        "## Settings, versions, digests",
        _bullets(
            f"{key}: {value}"
            for section in ("settings", "versions", "digests")
            for key, value in content[section].items()
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def escaped(text: str) -> str:
    """Text that shows as it is, on one line.

    Examples
    --------
    >>> from fieldcal.reporting.markdown import escaped
    >>> print(escaped("a|b <i> *c*"))
    a\\|b \\<i\\> \\*c\\*
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(text)}" for text in texts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    made = ["|".join(["", *map(escaped, head), ""]), "|".join(["", *["---"] * len(head), ""])]
    return "\n".join(made + ["|".join(["", *map(escaped, row), ""]) for row in rows])


def _lines(groups: dict[str, Any], shown: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    of = f" of {groups['classes'][0]['class']}" if groups["unit"] == "group" else ""
    ends = "from – to" if groups["unit"] == "interval" else "interval"
    head = [groups["unit"], "rows", f"mean prediction{of}", "estimate", ends, "status"]
    rows = []
    for line in shown:
        interval = "" if line["lower"] is None else f"{line['lower']:.1%} – {line['upper']:.1%}"
        numbers = [f"{line['n']:,.6g}", f"{line['naive']:.1%}", f"{line['value']:.1%}", interval]
        rows.append([line["name"], *numbers, line["status"]])
    return head, rows


def _labelled(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    rows = [[m["measure"], f"{m['before']:.4f}", f"{m['after']:.4f}"] for m in found["measures"]]
    return [
        "## Was it right? What labels of the field say",
        _bullets(found["sentences"]),
        _table(["measure", "before", "after"], rows),
    ]
