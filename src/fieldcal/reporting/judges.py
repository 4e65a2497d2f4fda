"""What a report of values says: shares and slices, what the shares rest on, and the judge itself.

As `content` does for probabilities: one dict of plain data, section by section. Nothing is judged here: what is said of
the judge in words are the findings of the estimate, and the numbers beside them are of its posterior.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import Prevalence, group_keys, show
from fieldcal.objects.derived import Pairs
from fieldcal.objects.show import CHOSEN
from fieldcal.plots import tables
from fieldcal.reporting.content import SCHEMA, TITLE_WIDTH
from fieldcal.reporting.labels import MORE_LABELS
from fieldcal.reporting.sections import (
    STATUS_NOTES,
    Line,
    checklist_section,
    digests_section,
    ends_of_whole,
    interval_words,
    judged_in_short,
    labelled_rows_of,
    number_or_none,
    prior_in_words,
    quality_lines,
    shown_name,
    table_of_groups,
    verdict_section,
    versions_section,
)
from fieldcal.types import Design, Floats
from fieldcal.verbs.estimate import DEFAULT_LEVEL
from fieldcal.verbs.plan import plan

#: Of more slices than this, not every two are compared.
MOST_COMPARED = 100
#: Of more slices than this, to foretell what labels buy takes longer than a report should.
MOST_PLANNED = 30
#: Differences, and slices with a judge of their own, that are told.
MOST_DIFFERENCES, MOST_JUDGES = 20, 12
#: Classes times values beyond which the table of the judge is no table to read.
MOST_RATES = 120

_LEAST_CHANCE = 0.005  # of being the highest, to be named
_MEANINGS = {
    "ok": "Nothing speaks against quoting these shares, each with its interval.",
    "care": "Read why, and what would settle it, before you quote these shares.",
    "do_not_use": "Do not quote these shares: something speaks against them.",
}
_FIRST_ADVICE = {
    "ok": "Quote the share with its interval, and not the judge's own rate.",
    "care": "Quote the share with its interval and with what it rests on, and not the judge's own rate.",
    "do_not_use": "Do not quote these shares as facts.",
}
_LAST_ADVICE = "Check some rows again when the judge, its instructions or what is judged has changed."
#: Findings that say what the shares rest on, and how the judge differs between slices.
_OF_THE_TITLE = ("labelled_here", "labelled_by_class", "judge_assumed")
_RESTS_ON = (*_OF_THE_TITLE, "looks_random", "not_random", "judge_tells", "judge_blind")
_SAME_JUDGE = ("judge_same", "judges_differ", "judge_not_rehearsed")
_DESIGNS: dict[Design, str] = {
    "random": "They were drawn at random among these rows, so that they are rows like all others whose class is known.",
    "by_score": "They are some of these rows, chosen by their values or slices: each tells of its own value and slice.",
    "by_class": "They were chosen by their class, or elsewhere: they tell what the judge says of each class, and "
    "nothing of the shares.",
}


def judged_content(
    prev: Prevalence,
    *,
    of: Hashable = None,
    title: str | None = None,
    pairs: Pairs | None = None,
    about: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Everything that a report of this estimate says; ``pairs`` are the items that slices are compared on."""
    k, level = tables.focus(prev, of), prev.verdict.level
    content = {
        "fieldcal": "report",
        "schema": SCHEMA,
        "title": group_keys.show(title or "True shares behind the verdicts", width=TITLE_WIDTH),
        "about": about or {},
        "verdict": verdict_section(
            prev, _MEANINGS[level], [_FIRST_ADVICE[level], *prev.verdict.remedies], _LAST_ADVICE
        ),
        "summary": _summary_section(prev, k),
        "changes": [_whole_sentence(prev, k), *_slice_sentences(prev, k)],
        "groups": table_of_groups(prev, k, None),
        "differences": _differences_section(prev, k, pairs),
        "judge": _judge_section(prev, k),
        "rests_on": _rests_on_section(prev),
        "more": _more_section(prev, k),
        "figures": {"forest": tables.forest(prev, of=prev.classes[k])},
        "checklist": checklist_section(prev),
        "quality": _quality_section(prev),
        "settings": _settings_section(prev),
        "versions": versions_section(),
        "digests": digests_section(prev),
    }
    return {**content, "in_short": judged_in_short(content)}


def _summary_section(prev: Prevalence, k: int) -> dict[str, Any]:
    field, labelled = prev.field, labelled_rows_of(prev)
    return {
        "outcome": prev.lab.outcome.noun,
        "class": shown_name(prev.classes[k]),
        "classes": len(prev.classes),
        "groups": len(prev.groups) if field.grouped else None,
        "by": [shown_name(column) for column in field.by],
        "field_rows": float(field.n.sum()),
        "labelled_rows": 0.0 if labelled is None else float(labelled.sum()),
        "level": prev.level,
        "mean_prediction": float(prev.whole.mean_prediction[k]),
        "estimate": float(prev.whole.estimate[k]),
        **ends_of_whole(prev, k),
        "says_classes": _value_of(prev, k) is not None,
    }


# -- shares ----------------------------------------------------------------------------------------------------


def _whole_sentence(prev: Prevalence, k: int) -> str:
    which, rows = shown_name(prev.classes[k]), f"{show.amount(float(prev.field.n.sum()))} rows"
    share = f"{prev.whole.estimate[k]:.1%}{interval_words(prev, None, k)}"
    before = prev.whole.mean_prediction[k]
    if _value_of(prev, k) is None:
        return (
            f"The true share of {which} in {rows} is {share}. Taking every value for what it meant among the labelled "
            f"rows, it would be {before:.1%}."
        )
    return f"The judge says {which} of {before:.1%} of {rows}; the true share is {share}."


def _slice_sentences(prev: Prevalence, k: int) -> list[str]:
    if not prev.field.grouped or len(prev.groups) < 2:
        return []
    share, judged = prev.estimate[:, k], prev.mean_prediction[:, k]
    low, high = int(np.argmin(share)), int(np.argmax(share))
    ends = [
        f"in {shown_name(prev.groups[g])}, {share[g]:.1%}{interval_words(prev, g, k)}" for g in (low, high)
    ]
    found = [f"By slice it is lowest {ends[0]}, and highest {ends[1]}."]
    if prev.lower is not None and prev.upper is not None:
        outside = int(((judged < prev.lower[:, k]) | (judged > prev.upper[:, k])).sum())
        found.append(
            f"In {number_or_none(outside)} of {len(share):,} slices the share as judged lies outside the interval of "
            "the true one."
        )
    return found


# -- differences -----------------------------------------------------------------------------------------------


def _differences_section(prev: Prevalence, k: int, pairs: Pairs | None) -> dict[str, Any] | None:
    """Which slice is highest, and which two differ; None where there are no two."""
    if not prev.field.grouped or len(prev.groups) < 2:
        return None
    return {**_ranking(prev, k, pairs), **_comparison(prev, k, pairs)}


def _ranking(prev: Prevalence, k: int, pairs: Pairs | None) -> dict[str, Any]:
    found = prev.ranking(of=prev.classes[k], pairs=pairs)
    order = np.argsort(-found.probability, kind="stable")[:5].tolist()
    named = [g for g in order if found.probability[g] >= _LEAST_CHANCE] or order[:1]
    first, *others = [(shown_name(found.groups[g]), float(found.probability[g])) for g in named]
    more = "".join(f"; {name} with {chance:.2f}" for name, chance in others)
    return {
        "best": f"{first[0]} has the highest share of {shown_name(prev.classes[k])} with probability "
        f"{first[1]:.2f}{more}.",
        "ranking": [{"group": name, "probability": chance} for name, chance in (first, *others)],
    }


def _comparison(prev: Prevalence, k: int, pairs: Pairs | None) -> dict[str, Any]:
    G = len(prev.groups)
    if G > MOST_COMPARED:
        said = f"Every two of {G:,} slices are too many to compare here: Prevalence.compare takes a slice to compare "
        return {"sentences": [f"{said}all others with."], "compared": 0, "found": 0, "lines": []}
    compared = prev.compare(of=prev.classes[k], pairs=pairs)
    found = compared.found
    alone = sum(d.lower > 0 or d.upper < 0 for d in compared.differences)
    apart = sum(d.all_lower > 0 or d.all_upper < 0 for d in compared.differences)
    n = len(compared.differences)
    said = (
        f"{len(found):,} of {n:,} differences between two slices are found: of those, at most {compared.errors:.0%} "
        "are expected to have the wrong sign."
        if found
        else f"None of {n:,} differences between two slices is found: each may as well go the other way."
    )
    return {
        "sentences": [
            said,
            f"Of the {compared.level:.0%} intervals, taken one by one, {number_or_none(alone)} {_leave(alone)} out 0. "
            f"Taken together, so that all hold at once, {number_or_none(apart)} {_leave(apart)} it out (the last "
            "column).",
            *(
                []
                if pairs is None
                else ["Slices are compared on the same items, so that what they share is taken off."]
            ),
        ],
        "compared": n,
        "found": len(found),
        "lines": [
            {
                "a": shown_name(d.a),
                "b": shown_name(d.b),
                **{name: getattr(d, name) for name in _OF_DIFFERENCE},
            }
            for d in compared.differences[:MOST_DIFFERENCES]
        ],
    }


def _leave(n: int) -> str:
    return "leave" if n > 1 else "leaves"


_OF_DIFFERENCE = ("estimate", "lower", "upper", "all_lower", "all_upper", "probability", "found")


# -- the judge -------------------------------------------------------------------------------------------------


def _judge_section(prev: Prevalence, k: int) -> dict[str, Any]:
    """What it says of each class, with intervals, and how it differs between slices."""
    judged, lab = prev.judged, prev.lab
    M = judged.rates
    counts = np.round(judged.given + judged.known.sum(axis=0), 6)
    tail = (1 - (prev.level or DEFAULT_LEVEL)) / 2
    lower, upper = np.quantile(M, [tail, 1 - tail], axis=0)
    told = counts.size <= MOST_RATES
    return {
        "values": tables.bin_labels(lab),
        "rates": [
            {
                "class": shown_name(lab.classes[c]),
                "rows": float(counts[c].sum()),
                "cells": [
                    {
                        "rows": float(counts[c, j]),
                        "rate": float(M[:, c, j].mean()),
                        "lower": float(lower[c, j]),
                        "upper": float(upper[c, j]),
                    }
                    for j in range(counts.shape[1])
                ],
            }
            for c in (range(len(counts)) if told else ())
        ],
        "same": [f"{f.question} {f.text}" for f in prev.verdict.findings if f.code in _SAME_JUDGE],
        **_judges_of_slices(prev, k),
    }


def _judges_of_slices(prev: Prevalence, k: int) -> dict[str, Any]:
    """How often the judge says class k of the rows of each class, slice by slice: the readiest first."""
    judged, j = prev.judged, _value_of(prev, k)
    rows = judged.known.sum(axis=(1, 2))
    at = np.flatnonzero(rows > 0)
    if j is None or judged.spread is None or len(at) < 2:
        return {"by_slice": [], "overall": None, "kinder": None}
    at = at[np.argsort(-rows[at], kind="stable")[:200]]
    own = judged.rates_of(at)[..., j]  # (slices, K)
    common = judged.rates.mean(axis=0)[:, j]
    readier = ((own - common) * prev.estimate[at]).sum(axis=1)
    order = np.argsort(-readier, kind="stable")
    if len(order) > MOST_JUDGES:
        order = np.concatenate([order[: MOST_JUDGES // 2], order[-MOST_JUDGES // 2 :]])
    return {
        "by_slice": [
            {"group": shown_name(prev.groups[at[i]]), "rows": float(rows[at[i]]), "rates": own[i].tolist()}
            for i in order
        ],
        "overall": common.tolist(),
        "kinder": _kinder(prev, k, int(at[order[0]]), own[order[0]], common)
        if prev.verdict.finding("judges_differ") is not None
        else None,
    }


def _kinder(prev: Prevalence, k: int, g: int, own: Floats, common: Floats) -> str:
    c, which = int(np.argmax(own - common)), shown_name(prev.classes[k])
    return (
        f"It says {which} most readily in {shown_name(prev.groups[g])}: of {own[c]:.0%} of the rows there that are "
        f"{shown_name(prev.classes[c])}, as far as labelled rows tell, and of {common[c]:.0%} over all slices."
    )


# -- what the shares rest on, and what more labels would buy ---------------------------------------------------


def _rests_on_section(prev: Prevalence) -> list[str]:
    texts = {
        f.code: f.text if f.code in _OF_THE_TITLE else f"{f.question} {f.text}" for f in prev.verdict.findings
    }
    chosen = {design: float(found.counts.sum()) for design, found in prev.field.labelled.items()}
    said = [
        f"{show.amount(n)} of these rows were counted with their labels, chosen {CHOSEN[design]}. {_DESIGNS[design]}"
        for design, n in chosen.items()
    ]
    if not said and prev.lab.design is not None:
        said = [f"The judge was learnt from {prev.lab.n:,} labelled rows. {_DESIGNS[prev.lab.design]}"]
    return [*said, *(texts[code] for code in _RESTS_ON if code in texts)]


def _more_section(prev: Prevalence, k: int) -> dict[str, Any] | None:
    """How wide intervals will be with more labels; None where that cannot be foretold."""
    if len(prev.groups) > MOST_PLANNED or not MORE_LABELS:
        return None
    try:
        found = plan(prev, of=prev.classes[k], labels=MORE_LABELS, random_state=prev.seed)
    except InputError:
        return None
    designs = list(dict.fromkeys(more.design for more in found.more_labels))
    return {
        "sentence": f"With more labels the {found.level:.0%} interval of {shown_name(prev.classes[k])} over all rows, "
        f"now {100 * found.width:.1f} percentage points wide, will be about so wide "
        f"{'(in brackets that of a typical slice) ' if prev.field.grouped else ''}(fieldcal plan tells more):",
        "designs": [f"Chosen {CHOSEN[design]}" for design in designs],
        "widths": [
            {
                "labels": n,
                "each": [
                    {"width": more.width, "group_width": more.group_width}
                    for more in found.more_labels
                    if more.labels == n
                ],
            }
            for n in dict.fromkeys(more.labels for more in found.more_labels)
        ],
    }


# -- details ---------------------------------------------------------------------------------------------------


def _quality_section(prev: Prevalence) -> list[dict[str, Any]]:
    field = prev.field
    counts: list[Line] = [
        ("Rows counted", float(field.n.sum()), "with their weights, if they had any"),
        ("Rows dropped", field.dropped, "no value"),
        ("Rows with a value that the lab has never seen", field.unseen, ""),
        ("Labelled rows that the judge was learnt from", prev.lab.n, ""),
    ]
    notes = {flag: STATUS_NOTES[flag] for flag in ("prior_only", "few_rows")}
    return quality_lines(prev, counts, "Slices", notes)


def _settings_section(prev: Prevalence) -> dict[str, str]:
    lab = prev.lab
    return {
        "values": f"{lab.n_bins}: {', '.join(tables.bin_labels(lab))}",
        "labelled rows of the lab": f"{lab.n:,}, chosen {CHOSEN[lab.design or 'random']}",
        "labelled rows of the field": f"{show.amount(prev.field.n_labelled)}"
        if prev.field.labelled
        else "none",
        "prior": prior_in_words(prev),
        "design effect": f"{prev.design_effect:.4g}",
        "interval": f"{prev.level or DEFAULT_LEVEL:.0%}",
        "seed": str(prev.seed),
        "slice columns": ", ".join(shown_name(c) for c in prev.field.by) or "from arrays",
    }


# -- shared ----------------------------------------------------------------------------------------------------


def _value_of(prev: Prevalence, k: int) -> int | None:
    """The bin of the value that says class k; None where values are not classes."""
    says: dict[int, int] = prev.lab.partition.says(prev.classes)  # type: ignore[attr-defined]
    return next((j for j, c in says.items() if c == k), None)
