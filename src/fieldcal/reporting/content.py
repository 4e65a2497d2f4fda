"""What a report says: one dict of plain data, the numbers of an estimate and sentences made of them.

`report_content` is the whole of it, section by section in the order of the page. HTML, Markdown and JSON are made of
this dict and of nothing else. Nothing is judged here: the verdict, its reasons, the checklist and the remedies are the
findings of the estimate.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fieldcal.objects import Prevalence, group_keys, show
from fieldcal.plots import tables
from fieldcal.reporting.evaluation import Evaluation, Numbers
from fieldcal.reporting.labels import labels_section, taught_sentence
from fieldcal.reporting.sections import (
    checklist_section,
    digests_section,
    ends_of_whole,
    in_short,
    interval_words,
    number_or_none,
    quality_section,
    settings_section,
    shown_name,
    table_of_groups,
    verdict_section,
    versions_section,
)
from fieldcal.types import Floats
from fieldcal.verbs.plan import labels_to_settle

SCHEMA = 1
#: Groups drawn beside the whole field: those that fit worst, and those whose distribution changes most.
WORST_FITS, MOST_CHANGED = 3, 3
TITLE_WIDTH = 200  # letters

_ROUNDING = 1e-9  # changes smaller than this are none

_MEANINGS = {
    "ok": "Nothing speaks against using the recalibrated predictions.",
    "care": "Whether recalibration helps here is not certain. Read why, and what would decide it, before you use it.",
    "do_not_use": "Keep the raw predictions: the method cannot be trusted on this data.",
}
_MEANING_OF_NO_TRUST = "Predictions are left as they are: nothing here supports a change."
_MEANING_OF_CALIBRATION = (
    "Predictions are calibrated on the lab and not recalibrated: nothing here supports a further change."
)
_LAST_ADVICE = "Report again when the model, the lab or the field has changed."
_HOW_TO_APPLY = "fieldcal recalibrate, or fieldcal.recalibrate(prev, predictions, groups=…)."
#: Findings that say what trust rests on: in how groups differ, and in how the whole field moved.
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
)

#: Findings on why the whole field moved, or whether it did.
_SETTLED_BY_LABELS = ("shift_believed", "shift_uncertain", "shift_untestable", "labels_undecided")


def report_content(
    prev: Prevalence,
    *,
    of: Hashable = None,
    found: Evaluation | None = None,
    title: str | None = None,
    about: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Everything that a report of this estimate says; ``found`` is what labels of the field say, if there are any."""
    k = tables.focus(prev, of)
    content = {
        "fieldcal": "report",
        "schema": SCHEMA,
        "title": group_keys.show(title or "Recalibration report", width=TITLE_WIDTH),
        "about": about or {},
        "verdict": verdict_section(prev, _meaning(prev), [_advice(prev), *_remedies(prev)], _LAST_ADVICE),
        "summary": _summary_section(prev, k),
        "changes": _change_sentences(prev, k),
        "groups": table_of_groups(prev, k, found),
        "trust": _trust_sentences(prev),
        "labels": labels_section(prev, k),
        "labelled": None if found is None else _labelled_section(found, prev, k),
        "figures": _figure_tables(prev, k, found),
        "checklist": checklist_section(prev),
        "quality": quality_section(prev),
        "settings": settings_section(prev),
        "versions": versions_section(),
        "digests": digests_section(prev),
    }
    return {**content, "in_short": in_short(content)}


# -- verdict and summary ---------------------------------------------------------------------------------------


def _meaning(prev: Prevalence) -> str:
    if prev.verdict.level == "do_not_use" or prev.steps:
        return _MEANINGS[prev.verdict.level]
    return _MEANING_OF_CALIBRATION if prev.only_calibrated else _MEANING_OF_NO_TRUST


def _advice(prev: Prevalence) -> str:
    level, protected = prev.verdict.level, prev.verdict.finding("protected")
    if level == "do_not_use":
        return "Keep using the raw predictions, and do not quote these estimates as facts."
    if protected is not None:
        return protected.remedy
    if prev.only_calibrated:
        return (
            f"Apply it: {_HOW_TO_APPLY} It only calibrates. The table shows what the method would have said."
        )
    if prev.untouched:
        return "There is nothing to apply. The table shows what the method would have said."
    if level == "care":
        return f"Settle the points below first, then apply it: {_HOW_TO_APPLY}"
    return f"Apply it: {_HOW_TO_APPLY}"


def _remedies(prev: Prevalence) -> list[str]:
    """Those of the findings; where labels would settle the shift of the whole field, with their number."""
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
        f"About {n:,}{more} labelled rows, drawn from the field at random, would decide if they come as expected; "
        "fieldcal plan says more."
    )
    return [number if remedy in asked else remedy for remedy in prev.verdict.remedies]


def _summary_section(prev: Prevalence, k: int) -> dict[str, Any]:
    lab, field = prev.lab, prev.field
    return {
        "outcome": _outcome(prev),
        "class": shown_name(prev.classes[k]),
        "classes": len(prev.classes),
        "groups": len(prev.groups) if field.grouped else None,
        "by": [shown_name(column) for column in field.by],
        "field_rows": float(field.n.sum()),
        "lab_rows": lab.n,
        "level": prev.level,
        "lab": float(lab.p_lab[k]),
        "mean_prediction": float(prev.whole.mean_prediction[k]),
        "estimate": float(prev.whole.estimate[k]),
        **ends_of_whole(prev, k),
        "moved": _total_variation(prev)[0] if _outcome(prev) == "interval" else None,
        "trust_between": prev.trust_between,
        "trust_overall": prev.trust_overall,
        "untouched": prev.untouched,
        "only_calibrated": prev.only_calibrated,
        "protected": prev.protected,
    }


# -- what changed ----------------------------------------------------------------------------------------------


def _change_sentences(prev: Prevalence, k: int) -> list[str]:
    if prev.only_calibrated:
        return [
            "Predictions are calibrated on the lab and not recalibrated: trust is 0, so that every estimate is the "
            "mean of the calibrated predictions."
        ]
    if prev.untouched:
        return [
            "Nothing: trust is 0, so that predictions are unchanged and every estimate is the mean prediction."
        ]
    if _outcome(prev) == "interval":
        return _changes_of_a_distribution(prev, k)
    which = shown_name(prev.classes[k])
    before, after = prev.whole.mean_prediction[k], prev.whole.estimate[k]
    whole = (
        f"Over the whole field the mean prediction of {which} is {before:.1%}, the estimate of its share "
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
    return [
        "Not recommended: this is what the method says, and what it would change if it were applied all the same."
    ]


def _changes_of_a_distribution(prev: Prevalence, k: int) -> list[str]:
    """Of a regression: how far the estimated distribution is from the predicted one, and for whom most."""
    whole, each = _total_variation(prev)
    from_lab = np.abs(prev.whole.estimate - prev.lab.p_lab).sum() / 2.0
    found = [
        *_not_recommended(prev),
        f"Over the whole field the estimate puts {whole:.1%} of the rows into other intervals than the predictions "
        f"themselves do, and {from_lab:.1%} into others than in the lab (total variation, {len(prev.classes)} "
        "intervals).",
    ]
    if not prev.field.grouped or not len(prev.groups):
        return found
    g, n = int(np.argmax(each)), np.asarray(prev.n, dtype=np.float64)
    found.append(
        f"By group it is {np.median(each):.1%} at the median, and most in {shown_name(prev.groups[g])} "
        f"({show.amount(n[g])} rows): {each[g]:.1%}."
    )
    found.append(
        f"Where groups are compared, it is by their share of the interval {shown_name(prev.classes[k])}."
    )
    return found


def _changes_by_group(prev: Prevalence, k: int) -> list[str]:
    n = np.asarray(prev.n, dtype=np.float64)
    mean_prediction, estimate = prev.mean_prediction[:, k], prev.estimate[:, k]
    change = estimate - mean_prediction
    found = [
        f"The estimate is above the mean prediction in {int((change > 0).sum()):,} and below it in "
        f"{int((change < 0).sum()):,} of {len(n):,} groups."
    ]
    if prev.lower is not None and prev.upper is not None:
        outside = (mean_prediction < prev.lower[:, k]) | (mean_prediction > prev.upper[:, k])
        rows = f" ({n[outside].sum() / max(n.sum(), 1e-300):.0%} of the rows)" if outside.any() else ""
        found.append(
            f"In {number_or_none(int(outside.sum()))} of them{rows} the mean prediction lies outside the "
            f"{prev.level:.0%} interval of the estimate."
        )
    g = int(np.argmax(n * np.abs(change)))
    found.append(
        f"The correction moves most rows in group {shown_name(prev.groups[g])} ({show.amount(n[g])} rows): "
        f"mean prediction {mean_prediction[g]:.1%}, estimate {estimate[g]:.1%}{interval_words(prev, g, k)}."
    )
    return found


# -- trust, and labels -----------------------------------------------------------------------------------------


def _trust_sentences(prev: Prevalence) -> list[str]:
    """How probable label shift is, between groups and overall, and what was found about either."""
    found = _texts_of(prev, ("assumed",))
    if prev.field.grouped:
        found.append(
            f"That groups differ by label shift has the probability {prev.trust_between:.2f}: so much of the "
            "correction goes into their predictions."
        )
        found += _texts_of(prev, _FINDINGS_BETWEEN_GROUPS)
    found.append(f"That the whole field moved by label shift has the probability {prev.trust_overall:.2f}.")
    return found + _texts_of(prev, _FINDINGS_OVERALL)


def _texts_of(prev: Prevalence, codes: tuple[str, ...]) -> list[str]:
    return [finding.text for finding in prev.verdict.findings if finding.code in codes]


def _labelled_section(found: Evaluation, prev: Prevalence, k: int) -> dict[str, Any]:
    """Whether it helped, and whether intervals hold, where labels say so."""
    result = _labelled_result(found, prev)
    said = [*taught_sentence(prev), result]
    within, some = found.inside(prev, k)
    if some and prev.field.grouped:
        said.append(
            f"The labelled share of {shown_name(prev.classes[k])} lies in the estimate's {prev.level:.0%} interval, "
            f"give or take the noise of the labels, in {within:,} of {some:,} groups."
        )
    if found.numbers is not None:
        said += _sentences_of_numbers(found.numbers)
    return {"rows": len(found.y), "result": result, "sentences": said, "measures": found.table()}


def _labelled_result(found: Evaluation, prev: Prevalence) -> str:
    if prev.untouched:
        return f"Predictions are unchanged, so that nothing differs on {len(found.y):,} labelled field rows."
    change, se = found.change()
    score = "log loss" if found.numbers is None else "the log score of the intervals"
    made = "calibrated, not recalibrated," if prev.only_calibrated else "recalibrated"
    return (
        f"On {len(found.y):,} labelled field rows the {made} predictions are {found.better_or_worse()}: {score} "
        f"changes by {change:+.3f} ± {se:.3f} per row."
    )


def _sentences_of_numbers(found: Numbers) -> list[str]:
    before, after = found.crps
    change, se = (after - before).mean(), (after - before).std() / np.sqrt(len(before))
    held = found.covered(0.9)
    return [
        f"The continuous ranked probability score (CRPS, in units of the number, less is better) of the recalibrated "
        f"predictions differs by {change:+.3g} ± {se:.2g} from that of the raw ones, which is {before.mean():.3g}.",
        f"Intervals that should hold 90% of the numbers hold {held['before']:.1%} in the raw predictions and "
        f"{held['after']:.1%} in the recalibrated ones.",
    ]


# -- figures ---------------------------------------------------------------------------------------------------


def _figure_tables(prev: Prevalence, k: int, found: Evaluation | None) -> dict[str, Any]:
    """The table behind each picture; None where there is none."""
    lab, grouped, of = prev.lab, prev.field.grouped, prev.classes[k]
    rehearsed = grouped and lab.rehearsal is not None and not prev.rests_on_lab_groups
    numbers = None if found is None else found.numbers
    return {
        "trust": tables.trust(lab, used=prev.trust_between) if rehearsed else None,
        "explanations": None if prev.labels is None else tables.explanations(prev),
        "forest": tables.forest(prev, of=of, truth=None if found is None else found.truth),
        "changes": tables.changes(prev, of=of) if grouped and prev.steps else None,
        "bins": [tables.bins(prev), *(tables.bins(prev, group=prev.groups[g]) for g in _worst_fits(prev))],
        "curve": tables.curve(prev, of=of),
        # Bin ids in place of predictions leave nothing to be calibrated.
        "reliability": None if not lab.partition.takes_probabilities else tables.reliability(lab, of=of),
        "labelled": None
        if found is None
        else tables.reliability_of(found.before, found.after, found.y, classes=prev.classes, of=of),
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
    """Of classes that have an order: the whole field, and the groups whose distribution changes most."""
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
    """Between mean prediction and estimate: of the whole field, and of each group, (G,), 0 where it has no rows.

    It is the share of rows that the estimate puts into another class than the predictions do.
    """
    each = np.abs(prev.estimate - prev.mean_prediction).sum(axis=1) / 2.0
    whole = np.abs(prev.whole.estimate - prev.whole.mean_prediction).sum() / 2.0
    return float(whole), np.where(np.asarray(prev.n) > 0, each, 0.0)
