"""The section on rows of the field that were counted with their labels: what came, what it says, whether it helps.

The same rows never judge what they taught: predictions are judged by `cross_validate`, and what explanations said of
the labels is what they said before they saw one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.core.intervals import beta_interval
from fieldcal.objects import Prevalence, show
from fieldcal.objects.from_model import FieldLabels
from fieldcal.objects.show import CHOSEN
from fieldcal.reporting.sections import shown_name
from fieldcal.verbs.cross_validate import CrossValidation, cannot_judge, cross_validate
from fieldcal.verbs.estimate import DEFAULT_LEVEL
from fieldcal.verbs.plan import LABELS, plan

#: Classes whose shares among labelled rows are told.
MOST_CLASSES = 12
#: Numbers of further labels for which the width of the interval is foretold.
MORE_LABELS = LABELS
#: Of more groups than this, to foretell it takes longer than a report should.
MOST_GROUPS = 2_000


def labels_section(prev: Prevalence, k: int) -> dict[str, Any] | None:
    """What labelled rows say, and what more would say of class k, as plain data; None where there are none."""
    labels = prev.labels
    if labels is None:
        return None
    reason = cannot_judge(prev)
    judged = cross_validate(prev, random_state=prev.seed) if reason is None else None
    level = prev.level or DEFAULT_LEVEL
    return {
        **labels_summary(prev),
        "level": level,
        "sentences": [_rows_sentence(labels), *_foretold_sentences(prev, labels)],
        "shares": _shares(prev, labels, level),
        "judged": [_words_of(judged)] if judged is not None else [_not_judged(labels, reason)],
        "helps": None if judged is None else judged.tilt.word,
        "cross_validation": None if judged is None else judged.to_dict(),
        "more": _more(prev, k),
    }


def labels_summary(prev: Prevalence) -> dict[str, Any]:
    """Rows by design, and the hypotheses before labels were seen and after."""
    assert prev.by_model is not None
    found = prev.by_model.summary()
    return {"rows": found["rows"], "before": found["before"], "after": found["hypotheses"]}


def taught_sentence(prev: Prevalence) -> list[str]:
    """What to know of rows that evaluate an estimate with labels."""
    if prev.labels is None:
        return []
    return [
        f"The estimate uses {show.amount(prev.labels.n)} labelled rows. Rows that were counted with "
        "their labels are no independent test of it: leave them out of these."
    ]


def _rows_sentence(labels: FieldLabels) -> str:
    parts = [f"{show.amount(n)} chosen {CHOSEN[design]}" for design, n in labels.rows.items()]
    total = f"{show.amount(labels.n)} rows of the field were counted with their labels"
    if len(parts) == 1:
        return f"{total}, all of them chosen {CHOSEN[next(iter(labels.rows))]}."
    return f"{total}: {', '.join(parts[:-1])} and {parts[-1]}."


def _foretold_sentences(prev: Prevalence, labels: FieldLabels) -> list[str]:
    if labels.observed is None:
        return [
            "All of them were chosen by class, so that their shares say nothing of the field's; where the predictions "
            "of each class fall does."
        ]
    said = [
        f"{name} in {told.rarity} of cases"
        for name, told in (
            ("label shift", labels.label_shift),
            (f"“same”, the lab's {prev.lab.outcome.plural},", labels.same),
        )
        if told is not None
    ]
    if not said:
        return []
    return [
        "Before a label was seen, each explanation foretold their shares from their predictions. Chance makes as large "
        f"a difference to {', and to '.join(said)}."
    ]


def _shares(prev: Prevalence, labels: FieldLabels, level: float) -> list[dict[str, Any]]:
    """Of the classes among rows that were not chosen by class: what came, with its interval, and what was foretold."""
    if labels.observed is None:
        return []
    came, n = labels.observed, prev.posterior.model.counts.field.sum()
    ends = beta_interval(came[None], (came * (1 - came) / n)[None], level, n=np.array([n]))
    lower, upper = (end[0] for end in ends)
    told = [None if said is None else said.expected for said in (labels.label_shift, labels.same)]
    apart = np.max([np.abs(came - said) for said in told if said is not None] or [came], axis=0)
    shown = sorted(np.argsort(-apart, kind="stable")[:MOST_CLASSES].tolist())
    return [
        {
            "class": shown_name(prev.classes[k]),
            "observed": float(came[k]),
            "lower": float(lower[k]),
            "upper": float(upper[k]),
            "label_shift": None if told[0] is None else float(told[0][k]),
            "same": None if told[1] is None else float(told[1][k]),
        }
        for k in shown
    ]


def _words_of(judged: CrossValidation) -> str:
    aside = f" The {show.amount(judged.not_judging)} rows chosen by class teach, but cannot judge." * (
        judged.not_judging > 0
    )
    return (
        f"The same rows never judge what they taught: {judged.rows:,} labelled rows were dealt into {judged.folds} "
        f"parts, and each part was predicted by what the others teach. So judged, recalibrated predictions are "
        f"{judged.tilt.word}: log loss changes by {judged.tilt.change:+.3f} ± {judged.tilt.se:.3f} per row."
        f"{aside} Each row stands at the mean prediction of its bin, since a field holds counts."
    )


def _not_judged(labels: FieldLabels, reason: str | None) -> str:
    return f"Whether recalibration helps, these rows do not say. {reason}"


def _more(prev: Prevalence, k: int) -> dict[str, Any]:
    """What further labels would buy: how wide the interval of class k in the whole field is, and will be."""
    numbers = MORE_LABELS if len(prev.groups) <= MOST_GROUPS else ()
    found = plan(prev, of=prev.classes[k], labels=numbers, random_state=prev.seed)
    lower, upper = prev.whole.lower, prev.whole.upper
    now = None if lower is None or upper is None else float(upper[k] - lower[k])
    wide = "" if now is None else f" is {100 * now:.1f} percentage points wide. It"
    interval = f"the {found.level:.0%} interval of {shown_name(prev.classes[k])} in the whole field"
    return {
        "sentence": f"What more labels would buy: {interval}{wide} will be about so wide with more of them, in "
        "percentage points (fieldcal plan says which rows to label):",
        "now": now,
        "widths": [
            {"labels": n, **{more.design: more.width for more in found.more_labels if more.labels == n}}
            for n in numbers
        ],
    }
