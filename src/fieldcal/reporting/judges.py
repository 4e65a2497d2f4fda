"""Sections of a report on categories: shares by group, their basis, and the error rates of the judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import Prevalence, show
from fieldcal.objects.derived import Pairs
from fieldcal.objects.show import CHOSEN
from fieldcal.plots import tables
from fieldcal.reporting.labels import MORE_LABELS
from fieldcal.reporting.sections import (
    STATUS_NOTES,
    Line,
    interval_words,
    labelled_rows_of,
    number_or_none,
    prior_in_words,
    quality_lines,
    shown_name,
    verdict_section,
)
from fieldcal.types import Design, Floats
from fieldcal.verbs.estimate import DEFAULT_LEVEL
from fieldcal.verbs.plan import plan

#: With more groups than this, not all pairs are compared.
MOST_COMPARED = 100
#: With more groups than this, the widths with more labels take too long to predict.
MOST_PLANNED = 30
#: Most differences, and most outlying groups, that are listed.
MOST_DIFFERENCES, MOST_JUDGES = 20, 12
#: Most classes times categories for which the judge's error rates are shown as a table.
MOST_RATES = 120

_LEAST_CHANCE = 0.005  # smallest probability of being the highest that is listed
_MEANINGS = {
    "ok": "You can report these shares with their intervals.",
    "care": "Read the reasons and the remedies before you report these shares.",
    "do_not_use": "Do not report these shares, for the reasons below.",
}
_FIRST_ADVICE = {
    "ok": "Report the share with its interval instead of the judge's own rate.",
    "care": "Report the share with its interval and its assumptions instead of the judge's own rate.",
    "do_not_use": "Do not report these shares.",
}
_LAST_ADVICE = "Label new rows when the judge, its instructions or the rows have changed."
#: Findings on the basis of the shares, and on differences of the judge between groups.
_OF_THE_TITLE = ("labelled_here", "labelled_by_class", "judge_assumed")
_RESTS_ON = (*_OF_THE_TITLE, "looks_random", "not_random", "judge_tells", "judge_blind")
_SAME_JUDGE = ("judge_same", "judges_differ", "judge_not_rehearsed")
_DESIGNS: dict[Design, str] = {
    "random": "They are a random sample of these rows.",
    "by_score": "They are some of these rows, chosen by their values or groups: each informs its own value and group.",
    "by_class": "They were chosen by their class, or elsewhere: they inform the judge's error rates, but "
    "not the shares.",
}


TITLE = "True shares behind the verdicts"


def judged_sections(prev: Prevalence, k: int, pairs: Pairs | None) -> dict[str, Any]:
    """The sections that only a report on categories has; ``pairs`` are items that several groups share."""
    level, labelled = prev.verdict.level, labelled_rows_of(prev)
    return {
        "verdict": verdict_section(
            prev, _MEANINGS[level], [_FIRST_ADVICE[level], *prev.verdict.remedies], _LAST_ADVICE
        ),
        "summary": {
            "labelled_rows": 0.0 if labelled is None else float(labelled.sum()),
            "says_classes": _value_of(prev, k) is not None,
        },
        "changes": [_whole_sentence(prev, k), *_group_sentences(prev, k)],
        "differences": _differences_section(prev, k, pairs),
        "judge": _judge_section(prev, k),
        "rests_on": _rests_on_section(prev),
        "more": _more_section(prev, k),
        "figures": {"forest": tables.forest(prev, of=prev.classes[k])},
        "quality": _quality_section(prev),
        "settings": _settings_section(prev),
    }


# -- shares ----------------------------------------------------------------------------------------------------


def _whole_sentence(prev: Prevalence, k: int) -> str:
    which, rows = shown_name(prev.classes[k]), f"{show.amount(float(prev.field.n.sum()))} rows"
    share = f"{prev.whole.estimate[k]:.1%}{interval_words(prev, None, k)}"
    before = prev.whole.mean_prediction[k]
    if _value_of(prev, k) is None:
        return (
            f"The true share of {which} in {rows} is {share}. By the class shares of each value among the "
            f"labelled rows alone, it would be {before:.1%}."
        )
    return f"The judge says {which} of {before:.1%} of {rows}; the true share is {share}."


def _group_sentences(prev: Prevalence, k: int) -> list[str]:
    if not prev.field.grouped or len(prev.groups) < 2:
        return []
    share, judged = prev.estimate[:, k], prev.mean_prediction[:, k]
    low, high = int(np.argmin(share)), int(np.argmax(share))
    ends = [
        f"in {shown_name(prev.groups[g])}, {share[g]:.1%}{interval_words(prev, g, k)}" for g in (low, high)
    ]
    sentences = [f"By group it is lowest {ends[0]}, and highest {ends[1]}."]
    if prev.lower is not None and prev.upper is not None:
        outside = int(((judged < prev.lower[:, k]) | (judged > prev.upper[:, k])).sum())
        sentences.append(
            f"In {number_or_none(outside)} of {len(share):,} groups the share as judged lies outside the interval of "
            "the true one."
        )
    return sentences


# -- differences -----------------------------------------------------------------------------------------------


def _differences_section(prev: Prevalence, k: int, pairs: Pairs | None) -> dict[str, Any] | None:
    """The ranking of the groups and their differences; None with fewer than two groups."""
    if not prev.field.grouped or len(prev.groups) < 2:
        return None
    return {**_ranking(prev, k, pairs), **_comparison(prev, k, pairs)}


def _ranking(prev: Prevalence, k: int, pairs: Pairs | None) -> dict[str, Any]:
    ranking = prev.ranking(of=prev.classes[k], pairs=pairs)
    order = np.argsort(-ranking.probability, kind="stable")[:5].tolist()
    named = [g for g in order if ranking.probability[g] >= _LEAST_CHANCE] or order[:1]
    first, *others = [(shown_name(ranking.groups[g]), float(ranking.probability[g])) for g in named]
    more = "".join(f"; {name} with {probability:.2f}" for name, probability in others)
    return {
        "best": f"{first[0]} has the highest share of {shown_name(prev.classes[k])} with probability "
        f"{first[1]:.2f}{more}.",
        "ranking": [{"group": name, "probability": probability} for name, probability in (first, *others)],
    }


def _comparison(prev: Prevalence, k: int, pairs: Pairs | None) -> dict[str, Any]:
    G = len(prev.groups)
    if G > MOST_COMPARED:
        result = f"All pairs of {G:,} groups are too many to compare here: Prevalence.compare takes a group to compare "
        return {"sentences": [f"{result}all others with."], "compared": 0, "found": 0, "lines": []}
    compared = prev.compare(of=prev.classes[k], pairs=pairs)
    found = compared.found
    marginal = sum(d.lower > 0 or d.upper < 0 for d in compared.differences)
    simultaneous = sum(d.all_lower > 0 or d.all_upper < 0 for d in compared.differences)
    n = len(compared.differences)
    result = (
        f"{len(found):,} of {n:,} differences between two groups are found: of those, at most {compared.errors:.0%} "
        "are expected to have the wrong sign."
        if found
        else f"None of {n:,} differences between two groups is found: the sign of each is uncertain."
    )
    return {
        "sentences": [
            result,
            f"Of the marginal {compared.level:.0%} intervals, {number_or_none(marginal)} {_exclude(marginal)} 0. "
            f"Of the simultaneous intervals, {number_or_none(simultaneous)} {_exclude(simultaneous)} it (the last "
            "column).",
            *([] if pairs is None else ["Groups are compared on the same items, so shared errors cancel."]),
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


def _exclude(n: int) -> str:
    return "excludes" if n == 1 else "exclude"


_OF_DIFFERENCE = ("estimate", "lower", "upper", "all_lower", "all_upper", "probability", "found")


# -- the judge -------------------------------------------------------------------------------------------------


def _judge_section(prev: Prevalence, k: int) -> dict[str, Any]:
    """Error rates of the judge with intervals, and their differences between groups."""
    judged, lab = prev.judged, prev.lab
    M = judged.rates
    counts = np.round(judged.given + judged.known.sum(axis=0), 6)
    tail = (1 - (prev.level or DEFAULT_LEVEL)) / 2
    lower, upper = np.quantile(M, [tail, 1 - tail], axis=0)
    shown = counts.size <= MOST_RATES
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
            for c in (range(len(counts)) if shown else ())
        ],
        "same": [f"{f.question} {f.text}" for f in prev.verdict.findings if f.code in _SAME_JUDGE],
        **_judge_by_group(prev, k),
    }


def _judge_by_group(prev: Prevalence, k: int) -> dict[str, Any]:
    """Share judged as class k among the rows of each class, by group, highest first."""
    judged, j = prev.judged, _value_of(prev, k)
    rows = judged.labelled
    at = np.flatnonzero(rows > 0)
    if j is None or judged.spread is None or len(at) < 2:
        return {"by_slice": [], "overall": None, "kinder": None}
    at = at[np.argsort(-rows[at], kind="stable")[:200]]
    own = judged.rates_of(at)[..., j]  # (groups, K)
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
        f"It says {which} most often in {shown_name(prev.groups[g])}: of {own[c]:.0%} of the rows there that are "
        f"{shown_name(prev.classes[c])}, by the labelled rows, and of {common[c]:.0%} over all groups."
    )


# -- what the shares rest on, and what more labels would buy ---------------------------------------------------


def _rests_on_section(prev: Prevalence) -> list[str]:
    texts = {
        f.code: f.text if f.code in _OF_THE_TITLE else f"{f.question} {f.text}" for f in prev.verdict.findings
    }
    chosen = {design: float(labelled.counts.sum()) for design, labelled in prev.field.labelled.items()}
    sentences = [
        f"{show.amount(n)} of these rows were counted with their labels, chosen {CHOSEN[design]}. {_DESIGNS[design]}"
        for design, n in chosen.items()
    ]
    if not sentences and prev.lab.design is not None:
        sentences = [f"The judge was learnt from {prev.lab.n:,} labelled rows. {_DESIGNS[prev.lab.design]}"]
    return [*sentences, *(texts[code] for code in _RESTS_ON if code in texts)]


def _more_section(prev: Prevalence, k: int) -> dict[str, Any] | None:
    """Predicted width of the intervals with more labels; None if it cannot be predicted."""
    if len(prev.groups) > MOST_PLANNED or not MORE_LABELS:
        return None
    try:
        planned = plan(prev, of=prev.classes[k], labels=MORE_LABELS, random_state=prev.seed)
    except InputError:
        return None
    designs = list(dict.fromkeys(more.design for more in planned.more_labels))
    return {
        "sentence": f"With more labels the {planned.level:.0%} interval of {shown_name(prev.classes[k])} over all "
        f"rows, now {100 * planned.width:.1f} percentage points wide, will have about the following width "
        f"{'(in brackets that of a typical group) ' if prev.field.grouped else ''}(see fieldcal plan):",
        "designs": [f"Chosen {CHOSEN[design]}" for design in designs],
        "widths": [
            {
                "labels": n,
                "each": [
                    {"width": more.width, "group_width": more.group_width}
                    for more in planned.more_labels
                    if more.labels == n
                ],
            }
            for n in dict.fromkeys(more.labels for more in planned.more_labels)
        ],
    }


# -- details ---------------------------------------------------------------------------------------------------


def _quality_section(prev: Prevalence) -> list[dict[str, Any]]:
    field = prev.field
    counts: list[Line] = [
        ("Rows counted", float(field.n.sum()), "with their weights, if they had any"),
        ("Rows dropped", field.dropped, "no value"),
        ("Rows with a value that is not in the lab", field.unseen, ""),
        ("Labelled rows that the judge was learnt from", prev.lab.n, ""),
    ]
    notes = {flag: STATUS_NOTES[flag] for flag in ("prior_only", "few_rows")}
    return quality_lines(prev, counts, "Groups", notes)


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
        "group columns": ", ".join(shown_name(c) for c in prev.field.by) or "from arrays",
    }


# -- shared ----------------------------------------------------------------------------------------------------


def _value_of(prev: Prevalence, k: int) -> int | None:
    """The bin of the value with the name of class k; None if values are not classes."""
    says: dict[int, int] = prev.lab.partition.says(prev.classes)  # type: ignore[attr-defined]
    return next((j for j, c in says.items() if c == k), None)
