"""Content of a report: one dict of plain data with numbers of an estimate and sentences made from them.

`report_content` returns all of it, in the order of the page. HTML, Markdown and JSON are rendered from this dict
alone. It evaluates nothing itself: verdict, reasons, checklist and remedies are the findings of the estimate.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fieldcal.core.policy import POLICY
from fieldcal.objects import Prevalence, break_even, group_keys, show
from fieldcal.objects.derived import Pairs
from fieldcal.plots import tables
from fieldcal.reporting import judges
from fieldcal.reporting.evaluation import Evaluation, PredictedNumbers
from fieldcal.reporting.labels import labels_section, not_independent_sentence
from fieldcal.reporting.over_time import over_time_section
from fieldcal.reporting.sections import (
    checklist_section,
    digests_section,
    ends_of_whole,
    interval_words,
    judge_section_summaries,
    quality_section,
    section_summaries,
    settings_section,
    shown_name,
    table_of_groups,
    verdict_section,
    versions_section,
)
from fieldcal.types import Floats
from fieldcal.verbs.plan import labels_to_settle

SCHEMA = 1
TITLE = "Recalibration report"
#: Groups drawn besides the whole field: those with the worst fit, and those with the largest change.
WORST_FITS, MOST_CHANGED = 3, 3
TITLE_WIDTH = 200  # letters

_ROUNDING = 1e-9  # smaller changes are rounding errors

_MEANINGS = {
    "ok": "You can use the recalibrated predictions.",
    "care": "It is uncertain whether recalibration helps here. Read the reasons and the remedies before you use it.",
    "do_not_use": "Keep the raw predictions: the method is not reliable on these data.",
}
_MEANING_OF_NO_TRUST = "Predictions stay unchanged: the data support no correction."
_MEANING_OF_CALIBRATION = (
    "Predictions are calibrated on the lab and not recalibrated: the data support no further correction."
)
_LAST_ADVICE = "Report again when the model, the lab or the field has changed."
_HOW_TO_APPLY = "fieldcal recalibrate, or fieldcal.recalibrate(prev, predictions, groups=…)."
#: Findings on the basis of trust: for differences between groups, and for the whole field.
_FINDINGS_BETWEEN_GROUPS = (
    *("lab_groups", "rehearsed", "trust_withheld", "beyond_rehearsal"),
    *("not_rehearsed", "groups_alike", "other_populations"),
    *("labels_between", "labels_between_undecided", "labels_between_other"),
)
_FINDINGS_OVERALL = (
    *("unmoved", "another_population", "shift_untestable", "shift_uncertain"),
    *("shift_explained", "shift_believed"),
    *("labels_unmoved", "labels_undecided"),
    *("labels_say_label_shift", "labels_say_same", "labels_say_other"),
    "break_even",
)

#: Findings on the shift of the whole field that labels would settle.
_SETTLED_BY_LABELS = ("shift_believed", "shift_uncertain", "shift_untestable", "labels_undecided")


def report_content(
    prev: Prevalence,
    *,
    of: Hashable = None,
    evaluation: Evaluation | None = None,
    title: str | None = None,
    about: dict[str, str] | None = None,
    pairs: Pairs | None = None,
) -> dict[str, Any]:
    """Content of the report of an estimate.

    Parameters
    ----------
    evaluation : that on labelled rows, if there are any
    pairs : of categories, items that several groups share
    """
    k = tables.focus(prev, of)
    if prev.is_judged:
        usual, own, summaries = judges.TITLE, judges.judged_sections(prev, k, pairs), judge_section_summaries
    else:
        usual, own, summaries = TITLE, _sections(prev, k, evaluation), section_summaries
    content = {
        "fieldcal": "report",
        "schema": SCHEMA,
        "title": group_keys.show(title or usual, width=TITLE_WIDTH),
        "about": about or {},
        **own,
        "summary": {**_summary_section(prev, k), **own["summary"]},
        "over_time": over_time_section(prev, k),
        "groups": table_of_groups(prev, k, evaluation),
        "checklist": checklist_section(prev),
        "versions": versions_section(),
        "digests": digests_section(prev),
    }
    return {**content, "in_short": summaries(content)}


def _sections(prev: Prevalence, k: int, evaluation: Evaluation | None) -> dict[str, Any]:
    """The sections that only a report on probabilities or distributions has."""
    return {
        "verdict": verdict_section(prev, _meaning(prev), [_advice(prev), *_remedies(prev)], _LAST_ADVICE),
        "summary": {
            "lab_rows": prev.lab.n,
            "lab": float(prev.lab.p_lab[k]),
            "moved": _total_variation(prev)[0] if _outcome(prev) == "interval" else None,
            "trust_between": prev.trust_between,
            "trust_overall": prev.trust_overall,
            "untouched": prev.untouched,
            "only_calibrated": prev.only_calibrated,
            "protected": prev.protected,
        },
        "changes": _change_sentences(prev, k),
        "trust": _trust_sentences(prev),
        "labels": labels_section(prev, k),
        "labelled": None if evaluation is None else _labelled_section(evaluation, prev, k),
        "figures": _figure_tables(prev, k, evaluation),
        "quality": quality_section(prev),
        "settings": settings_section(prev),
    }


# -- verdict and summary ---------------------------------------------------------------------------------------


def _meaning(prev: Prevalence) -> str:
    if prev.verdict.level == "do_not_use" or prev.steps:
        return _MEANINGS[prev.verdict.level]
    return _MEANING_OF_CALIBRATION if prev.only_calibrated else _MEANING_OF_NO_TRUST


def _advice(prev: Prevalence) -> str:
    level, protected = prev.verdict.level, prev.verdict.finding("protected")
    if level == "do_not_use":
        return "Keep using the raw predictions, and do not report these estimates."
    if protected is not None:
        return protected.remedy
    if prev.only_calibrated:
        return (
            f"Apply it: {_HOW_TO_APPLY} It only calibrates. The table shows the estimate under label shift."
        )
    if prev.untouched:
        return "There is nothing to apply. The table shows the estimate under label shift."
    if level == "care":
        return f"Resolve the points below first, then apply it: {_HOW_TO_APPLY}"
    return f"Apply it: {_HOW_TO_APPLY}"


def _remedies(prev: Prevalence) -> list[str]:
    """Remedies of the findings; the first may add the number of labels that would decide."""
    asked = [
        f.remedy
        for f in prev.verdict.reported
        if f.code in _SETTLED_BY_LABELS and "fieldcal plan" in f.remedy
    ]
    n = labels_to_settle(prev) if asked else None
    if not n:
        return list(prev.verdict.remedies)
    more = " more" if prev.labels is not None else ""
    number = (
        f"About {n:,}{more} labelled rows, drawn from the field at random, would probably decide between the "
        "hypotheses; see fieldcal plan."
    )
    return [number if remedy in asked else remedy for remedy in prev.verdict.remedies]


def _summary_section(prev: Prevalence, k: int) -> dict[str, Any]:
    field = prev.field
    return {
        "outcome": _outcome(prev),
        "class": shown_name(prev.classes[k]),
        "classes": len(prev.classes),
        "groups": len(prev.groups) if field.grouped else None,
        "by": [shown_name(column) for column in field.by],
        "field_rows": float(field.n.sum()),
        "level": prev.level,
        "mean_prediction": float(prev.whole.mean_prediction[k]),
        "estimate": float(prev.whole.estimate[k]),
        **ends_of_whole(prev, k),
    }


# -- what changed ----------------------------------------------------------------------------------------------


def _change_sentences(prev: Prevalence, k: int) -> list[str]:
    if prev.only_calibrated:
        return [
            "Predictions are calibrated on the lab and not recalibrated: trust is 0, so every estimate is the "
            "mean of the calibrated predictions."
        ]
    if prev.untouched:
        return [
            "Nothing: trust is 0, so predictions are unchanged and every estimate is the mean prediction."
        ]
    if _outcome(prev) == "interval":
        return _changes_of_a_distribution(prev, k)
    which = shown_name(prev.classes[k])
    before, after = prev.whole.mean_prediction[k], prev.whole.estimate[k]
    whole = (
        f"Over the whole field the mean prediction of {which} is {before:.1%}; the estimate of its share is "
        f"{after:.1%}{interval_words(prev, None, k)}. In the lab its share was {prev.lab.p_lab[k]:.1%}."
    )
    return [
        *_not_recommended(prev),
        whole,
        *(_changes_by_group(prev, k) if prev.field.grouped and len(prev.groups) else []),
    ]


def _not_recommended(prev: Prevalence) -> list[str]:
    if prev.verdict.level != "do_not_use":
        return []
    return ["Not recommended. If it were applied anyway, it would have the following effects."]


def _changes_of_a_distribution(prev: Prevalence, k: int) -> list[str]:
    """For a regression: difference between estimated and predicted distribution, and the group with the largest."""
    whole, each = _total_variation(prev)
    from_lab = np.abs(prev.whole.estimate - prev.lab.p_lab).sum() / 2.0
    sentences = [
        *_not_recommended(prev),
        f"Over the whole field the estimate moves {whole:.1%} of the rows to other intervals than the predictions, "
        f"and {from_lab:.1%} to others than in the lab (total variation, {len(prev.classes)} "
        "intervals).",
    ]
    if not prev.field.grouped or not len(prev.groups):
        return sentences
    g, n = int(np.argmax(each)), np.asarray(prev.n, dtype=np.float64)
    sentences.append(
        f"The median over groups is {np.median(each):.1%}; the maximum is in {shown_name(prev.groups[g])} "
        f"({show.amount(n[g])} rows): {each[g]:.1%}."
    )
    sentences.append(
        f"Comparisons between groups use their share of the interval {shown_name(prev.classes[k])}."
    )
    return sentences


def _changes_by_group(prev: Prevalence, k: int) -> list[str]:
    n = np.asarray(prev.n, dtype=np.float64)
    mean_prediction, estimate = prev.mean_prediction[:, k], prev.estimate[:, k]
    change = estimate - mean_prediction
    sentences = [
        f"The estimate is above the mean prediction in {int((change > 0).sum()):,} and below it in "
        f"{int((change < 0).sum()):,} of {len(n):,} groups."
    ]
    if prev.lower is not None and prev.upper is not None:
        outside = (mean_prediction < prev.lower[:, k]) | (mean_prediction > prev.upper[:, k])
        rows = n[outside].sum() / max(n.sum(), 1e-300)
        sentences.append(
            f"In {int(outside.sum()):,} groups ({rows:.0%} of the rows) the mean prediction lies outside the "
            f"{prev.level:.0%} interval of the estimate."
            if outside.any()
            else f"All {len(n):,} mean predictions lie within the {prev.level:.0%} intervals."
        )
    margin = break_even.against_lab(prev)["break_even"][:-1, k]
    if not np.isnan(margin).all():
        sentences.append(
            f"In {int((margin >= POLICY.break_even).sum()):,} of {len(n):,} groups the conclusion that the share of "
            f"{shown_name(prev.classes[k])} is above or below the lab's holds unless {POLICY.break_even:.0%} of rows "
            "or more are scored differently than in the lab."
        )
    g = int(np.argmax(n * np.abs(change)))
    sentences.append(
        f"The correction affects most rows in group {shown_name(prev.groups[g])} ({show.amount(n[g])} rows): "
        f"mean prediction {mean_prediction[g]:.1%}, estimate {estimate[g]:.1%}{interval_words(prev, g, k)}."
    )
    return sentences


# -- trust, and labels -----------------------------------------------------------------------------------------


def _trust_sentences(prev: Prevalence) -> list[str]:
    """Probabilities of label shift between groups and overall, and the findings on both."""
    sentences = _texts_of(prev, ("assumed",))
    if prev.field.grouped:
        sentences.append(
            f"Label shift explains the differences between groups with probability {prev.trust_between:.2f}; their "
            "predictions take this share of the correction."
        )
        sentences += _texts_of(prev, _FINDINGS_BETWEEN_GROUPS)
    sentences.append(
        f"Label shift explains the change of the whole field with probability {prev.trust_overall:.2f}."
    )
    return sentences + _texts_of(prev, _FINDINGS_OVERALL)


def _texts_of(prev: Prevalence, codes: tuple[str, ...]) -> list[str]:
    return [finding.text for finding in prev.verdict.findings if finding.code in codes]


def _labelled_section(evaluation: Evaluation, prev: Prevalence, k: int) -> dict[str, Any]:
    """Evaluation on labelled rows: effect of recalibration and coverage of the intervals."""
    result = _labelled_result(evaluation, prev)
    sentences = [*not_independent_sentence(prev), result]
    within, some = evaluation.inside(prev, k)
    if some and prev.field.grouped:
        sentences.append(
            f"The labelled share of {shown_name(prev.classes[k])} agrees with the estimate's {prev.level:.0%} "
            f"interval, allowing for the noise of the labels, in {within:,} of {some:,} groups."
        )
    if evaluation.numbers is not None:
        sentences += _sentences_of_numbers(evaluation.numbers)
    return {
        "rows": len(evaluation.y),
        "result": result,
        "sentences": sentences,
        "measures": evaluation.table(),
    }


def _labelled_result(evaluation: Evaluation, prev: Prevalence) -> str:
    if prev.untouched:
        return f"Predictions are unchanged, so nothing differs on {len(evaluation.y):,} labelled field rows."
    change, se = evaluation.change()
    score = "log loss" if evaluation.numbers is None else "the log score of the intervals"
    made = "calibrated, not recalibrated," if prev.only_calibrated else "recalibrated"
    return (
        f"On {len(evaluation.y):,} labelled field rows the {made} predictions are "
        f"{evaluation.better_or_worse()}: {score} changes by {change:+.3f} ± {se:.3f} per row."
    )


def _sentences_of_numbers(numbers: PredictedNumbers) -> list[str]:
    before, after = numbers.crps
    change, se = (after - before).mean(), (after - before).std() / np.sqrt(len(before))
    held = numbers.covered(0.9)
    return [
        f"The continuous ranked probability score (CRPS, in units of the number, lower is better) of the recalibrated "
        f"predictions differs by {change:+.3g} ± {se:.2g} from that of the raw ones, which is {before.mean():.3g}.",
        f"90% intervals contain {held['before']:.1%} of the numbers in the raw predictions and "
        f"{held['after']:.1%} in the recalibrated ones.",
    ]


# -- figures ---------------------------------------------------------------------------------------------------


def _figure_tables(prev: Prevalence, k: int, evaluation: Evaluation | None) -> dict[str, Any]:
    """The table behind each figure; None if there is none."""
    lab, grouped, of = prev.lab, prev.field.grouped, prev.classes[k]
    rehearsed = grouped and lab.rehearsal is not None and not prev.rests_on_lab_groups
    numbers = None if evaluation is None else evaluation.numbers
    return {
        "trust": tables.trust(lab, used=prev.trust_between) if rehearsed else None,
        "breakdown": tables.breakdown(prev, of=of) if _outcome(prev) == "class" else None,
        "explanations": None if prev.labels is None else tables.explanations(prev),
        "forest": tables.forest(prev, of=of, truth=None if evaluation is None else evaluation.truth),
        "changes": tables.changes(prev, of=of) if grouped and prev.steps else None,
        "bins": [tables.bins(prev), *(tables.bins(prev, group=prev.groups[g]) for g in _worst_fits(prev))],
        "curve": tables.curve(prev, of=of),
        # With bin ids there are no predictions whose calibration could be drawn.
        "reliability": None if not lab.partition.takes_probabilities else tables.reliability(lab, of=of),
        "labelled": None
        if evaluation is None
        else tables.reliability_of(
            evaluation.before, evaluation.after, evaluation.y, classes=prev.classes, of=of
        ),
        "response": tables.response(lab),
        "distributions": _distribution_tables(prev),
        "pit": None if numbers is None else numbers.pit,
        "coverage": None if numbers is None else numbers.coverage,
    }


def _worst_fits(prev: Prevalence) -> list[int]:
    if not prev.field.grouped:
        return []
    order = np.argsort(-prev.fit.effect, kind="stable").tolist()
    return [g for g in order if "inconsistent" in prev.status[g]][:WORST_FITS]


def _distribution_tables(prev: Prevalence) -> list[dict[str, Any]]:
    """Tables of ordered classes: the whole field, and the groups whose distribution changes most."""
    if not prev.lab.ordered:
        return []
    most: list[int] = []
    if prev.field.grouped:
        _, each = _total_variation(prev)
        most = [g for g in np.argsort(-each, kind="stable").tolist() if each[g] > _ROUNDING][:MOST_CHANGED]
    return [tables.distribution(prev), *(tables.distribution(prev, group=prev.groups[g]) for g in most)]


# -- shared ----------------------------------------------------------------------------------------------------


def _outcome(prev: Prevalence) -> str:
    return prev.lab.outcome.noun


def _total_variation(prev: Prevalence) -> tuple[float, Floats]:
    """Total variation between mean prediction and estimate: of the whole field, and of each group (0 without rows),
    (G,).

    It is the share of rows that the estimate assigns to another class than the predictions.
    """
    each = np.abs(prev.estimate - prev.mean_prediction).sum(axis=1) / 2.0
    whole = np.abs(prev.whole.estimate - prev.whole.mean_prediction).sum() / 2.0
    return float(whole), np.where(np.asarray(prev.n) > 0, each, 0.0)
