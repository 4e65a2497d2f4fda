"""The report's section on labelled field rows: their shares, the hypotheses, and the effect of recalibration.

Evaluation is out of sample: predictions by `cross_validate`, hypotheses by their prior predictive distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.core.intervals import beta_interval
from fieldcal.objects import Prevalence, show
from fieldcal.objects.prevalence_parts import FieldLabels, PriorPredictive
from fieldcal.objects.show import CHOSEN
from fieldcal.reporting.sections import shown_name
from fieldcal.verbs.cross_validate import CrossValidation, cannot_judge, cross_validate
from fieldcal.verbs.estimate import DEFAULT_LEVEL
from fieldcal.verbs.plan import LABELS, plan

#: Most classes whose labelled shares are listed.
MOST_CLASSES = 12
#: Numbers of further labels for which the width of the interval is predicted.
MORE_LABELS = LABELS
#: With more groups than this, the prediction takes too long for a report.
MOST_GROUPS = 2_000


def labels_section(prev: Prevalence, k: int) -> dict[str, Any] | None:
    """The section on labelled field rows as plain data; None without any."""
    labels = prev.labels
    if labels is None:
        return None
    reason = cannot_judge(prev)
    judged = cross_validate(prev, random_state=prev.seed) if reason is None else None
    level = prev.level or DEFAULT_LEVEL
    return {
        **labels_summary(prev),
        "level": level,
        "sentences": [_rows_sentence(labels), *_prior_predictive_sentences(labels)],
        "shares": _shares(prev, labels, level),
        "judged": [_words_of(judged)] if judged is not None else [_not_judged(labels, reason)],
        "helps": None if judged is None else judged.tilt.word,
        "cross_validation": None if judged is None else judged.to_dict(),
        "more": _more(prev, k),
    }


def labels_summary(prev: Prevalence) -> dict[str, Any]:
    """Rows by design, and the weights of the hypotheses before and after the labels."""
    assert prev.by_model is not None
    summary = prev.by_model.summary()
    return {"rows": summary["rows"], "before": summary["before"], "after": summary["hypotheses"]}


def not_independent_sentence(prev: Prevalence) -> list[str]:
    """The warning that rows whose labels enter the estimate do not evaluate it."""
    if prev.labels is None:
        return []
    return [
        f"The estimate uses {show.amount(prev.labels.n)} labelled rows. They are not "
        "an independent test of it: exclude them from the evaluation."
    ]


def _rows_sentence(labels: FieldLabels) -> str:
    parts = [f"{show.amount(n)} chosen {CHOSEN[design]}" for design, n in labels.rows.items()]
    total = f"{show.amount(labels.n)} rows of the field were counted with their labels"
    if len(parts) == 1:
        return f"{total}, all of them chosen {CHOSEN[next(iter(labels.rows))]}."
    return f"{total}: {', '.join(parts[:-1])} and {parts[-1]}."


def _prior_predictive_sentences(labels: FieldLabels) -> list[str]:
    if labels.observed is None:
        return [
            "All of them were chosen by class, so their shares carry no information on the field's shares; the "
            "distribution of predictions within each class does."
        ]
    p_values = [
        f"{name}: {_p_value(predicted)}"
        for name, predicted in (
            ("label shift", labels.label_shift),
            ("unchanged predictions", labels.same),
        )
        if predicted is not None
    ]
    if not p_values:
        return []
    return [
        "p-values of the labelled shares under the prior predictive distribution of each hypothesis: "
        f"{'; '.join(p_values)}."
    ]


def _p_value(predicted: PriorPredictive) -> str:
    p = predicted.p_value
    return "p < 0.001" if p < 1e-3 else f"p = {p:.3f}"


def _shares(prev: Prevalence, labels: FieldLabels, level: float) -> list[dict[str, Any]]:
    """Labelled shares of the classes with intervals, and their predictions; without rows chosen by class."""
    if labels.observed is None:
        return []
    observed, n = labels.observed, prev.posterior.model.counts.field.sum()
    ends = beta_interval(observed[None], (observed * (1 - observed) / n)[None], level, n=np.array([n]))
    lower, upper = (end[0] for end in ends)
    predicted = [None if p is None else p.expected for p in (labels.label_shift, labels.same)]
    difference = np.max([np.abs(observed - p) for p in predicted if p is not None] or [observed], axis=0)
    shown = sorted(np.argsort(-difference, kind="stable")[:MOST_CLASSES].tolist())
    return [
        {
            "class": shown_name(prev.classes[k]),
            "observed": float(observed[k]),
            "lower": float(lower[k]),
            "upper": float(upper[k]),
            "label_shift": None if predicted[0] is None else float(predicted[0][k]),
            "same": None if predicted[1] is None else float(predicted[1][k]),
        }
        for k in shown
    ]


def _words_of(judged: CrossValidation) -> str:
    aside = f" The {show.amount(judged.not_judging)} rows chosen by class are used for fitting only." * (
        judged.not_judging > 0
    )
    return (
        f"By cross-validation over {judged.rows:,} labelled rows in {judged.folds} folds, recalibrated predictions are "
        f"{judged.tilt.word}: log loss changes by {judged.tilt.change:+.3f} ± {judged.tilt.se:.3f} per row."
        f"{aside} Rows have the mean prediction of their bin, as a field holds counts only."
    )


def _not_judged(labels: FieldLabels, reason: str | None) -> str:
    return f"These rows cannot show whether recalibration helps. {reason}"


def _more(prev: Prevalence, k: int) -> dict[str, Any]:
    """Current width of the interval of class k in the whole field, and its predicted width with further labels."""
    numbers = MORE_LABELS if len(prev.groups) <= MOST_GROUPS else ()
    planned = plan(prev, of=prev.classes[k], labels=numbers, random_state=prev.seed)
    lower, upper = prev.whole.lower, prev.whole.upper
    now = None if lower is None or upper is None else float(upper[k] - lower[k])
    wide = "" if now is None else f" is {100 * now:.1f} percentage points wide. With further labels it"
    interval = f"the {planned.level:.0%} interval of {shown_name(prev.classes[k])} in the whole field"
    return {
        "sentence": f"Effect of more labels: {interval}{wide} will have about the following width, in "
        "percentage points (fieldcal plan selects rows to label):",
        "now": now,
        "widths": [
            {"labels": n, **{more.design: more.width for more in planned.more_labels if more.labels == n}}
            for n in numbers
        ],
    }
