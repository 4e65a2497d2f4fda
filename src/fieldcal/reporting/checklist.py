"""Contraindications as a checklist: what the data answer, and what only people can."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fieldcal.core.goodness_of_fit import Misfit
from fieldcal.core.response import POOR_CONDITION
from fieldcal.core.trust import RAMP
from fieldcal.objects import Field, Lab, Prevalence, group_keys
from fieldcal.verbs import findings

#: fine, look at it, speaks against use, cannot be seen in the data
State = Literal["fine", "look", "against", "ask"]
Item = dict[str, Any]


def checklist(lab: Lab, field: Field, prev: Prevalence, whole: Misfit) -> list[Item]:
    """One item per reason not to use the method, each with a state and an answer in words."""
    return [
        _looks_alike(field, whole),
        _moved_by_label_shift(prev),
        _groups_differ_by_mix(lab, field),
        _groups_fit(field, prev),
        _enough_rows(lab),
        _told_apart(lab),
        _held_out(lab),
        _calibrated(lab),
        _present(field),
        _no_new_class(field, prev),
        _may_depend_on_groups(field, prev),
        _no_bias(),
    ]


def _item(question: str, state: State, answer: str) -> Item:
    return {"question": question, "state": state, "answer": answer}


def _looks_alike(field: Field, whole: Misfit) -> Item:
    question = "Does the field look like a mixture of the lab's classes?"
    effect = float(whole.effect[0])
    if whole.df <= 0 or not field.n.sum():
        return _item(question, "ask", "Cannot be tested: there are no more bins than classes, or no rows.")
    measured = f"Cohen's w {effect:.2f} beyond noise"
    if findings.is_foreign(whole):
        return _item(
            question, "against", f"No ({measured}): another model, a fault in scoring, another world."
        )
    if effect > findings.SMALL_EFFECT and whole.p_value[0] < findings.FALSE_DISCOVERIES:
        return _item(question, "look", f"Not quite ({measured}; .1 is small, .3 medium, .5 large).")
    return _item(question, "fine", f"Yes ({measured}; below .1 is small).")


def _moved_by_label_shift(prev: Prevalence) -> Item:
    question = "Did the whole field move only in its mix of classes?"
    moved = prev.movement
    if not moved.moved:
        return _item(question, "fine", "It did not move from the lab beyond noise.")
    if not moved.testable:
        return _item(question, "ask", "It moved. With as many bins as classes, how cannot be tested.")
    share, lower = (min(max(x, 0.0), 1.0) for x in (moved.share, moved.lower))
    text = f"Label shift explains {share:.0%} of the movement, {lower:.0%} or more for all we know."
    if findings.is_another_population(moved, alone=not prev.field.grouped):
        return _item(question, "against", text)
    return _item(question, "look" if moved.lower < RAMP[1] else "fine", text)


def _groups_differ_by_mix(lab: Lab, field: Field) -> Item:
    question = "Do groups differ only in their mix of classes?"
    if not field.grouped:
        return _item(question, "fine", "There is one population, without groups.")
    rehearsal = lab.rehearsal
    if rehearsal is None:
        return _item(question, "ask", "Not rehearsed: the lab was learnt without groups.")
    if rehearsal.tau == 0:
        text = "In the rehearsal no strength of the correction helped for sure: groups are left alone."
        return _item(question, "against", text)
    text = f"The rehearsal earned a strength of {rehearsal.tau:.2f} out of 1."
    odd = lab.homogeneity is not None and (
        lab.homogeneity.effect > findings.SMALL_EFFECT and lab.homogeneity.p_value < 1e-3
    )
    if odd and lab.homogeneity is not None:
        text += (
            f" What a class looks like differs between lab groups (Cramér's V {lab.homogeneity.effect:.2f})."
        )
    return _item(question, "look" if odd or rehearsal.tau < 0.5 else "fine", text)


def _groups_fit(field: Field, prev: Prevalence) -> Item:
    question = "Does every group look like a mixture of the classes?"
    odd = sum("inconsistent" in s for s in prev.status)
    if not field.grouped or not odd:
        return _item(question, "fine", "None stands out.")
    return _item(
        question, "look", f"{odd:,} of {len(prev.groups):,} do not: marked inconsistent in the table."
    )


def _enough_rows(lab: Lab) -> Item:
    rows = lab.F.sum(axis=1)
    rarest = int(rows.argmin())
    text = f"The rarest, {group_keys.show(lab.classes[rarest], width=30)}, has {rows[rarest]:,.6g}."
    enough = rows[rarest] >= findings.ENOUGH_CLASS_ROWS
    state: State = "fine" if enough else "against" if rows[rarest] <= findings.FEW_CLASS_ROWS else "look"
    return _item("Has the lab enough rows of every class?", state, text)


def _told_apart(lab: Lab) -> Item:
    question = "Do the predictions tell the classes apart?"
    if lab.n_bins == 1:
        return _item(question, "against", "No: all lab predictions fall into one bin.")
    number = lab.conditioning.condition_number
    text = f"Condition number of the response matrix {number:.3g}; below {POOR_CONDITION:g} is good enough."
    return _item(question, "fine" if number < POOR_CONDITION else "against", text)


def _held_out(lab: Lab) -> Item:
    question = "Were the lab rows kept out of training?"
    if lab.log_loss is None:
        return _item(question, "ask", "Only you can know.")
    good = lab.n >= 100 and lab.log_loss < findings.TOO_GOOD
    text = f"Their log loss is {lab.log_loss:.3g}" + (", implausibly low." if good else ": plausible.")
    return _item(question, "against" if good else "fine", text)


def _calibrated(lab: Lab) -> Item:
    error, p = lab.calibration.error, lab.calibration.p_value
    poor = error > findings.POOR_CALIBRATION and p < 1e-4
    text = f"Predictions and shares differ by {error:.3f} on average in the lab."
    return _item("Is the model calibrated on the lab?", "look" if poor else "fine", text)


def _present(field: Field) -> Item:
    total = field.dropped + float(field.n.sum())
    many = field.dropped > 0.05 * total
    text = f"{field.dropped:,} of {total:,.0f} rows had none and were dropped."
    return _item("Does every field row have a prediction?", "look" if many else "fine", text)


def _no_new_class(field: Field, prev: Prevalence) -> Item:
    question = "Could the field hold a class that the lab never saw?"
    novel = float(np.sum(prev.fit.novel))
    if novel:
        return _item(question, "look", f"{novel:,.6g} rows fall into bins that the lab never filled.")
    return _item(question, "ask", "Only you can know. No row falls where the lab had none.")


def _may_depend_on_groups(field: Field, prev: Prevalence) -> Item:
    question = "May decisions depend on the group?"
    if prev.protected:
        return _item(question, "against", "No: declared protected. Estimated, but not to be applied.")
    if not field.grouped:
        return _item(question, "fine", "There are no groups.")
    return _item(question, "ask", "Only you can know. If not, estimate with protected=True.")


def _no_bias() -> Item:
    answer = "Only you can know. A feature that stands for the group would make the correction count twice."
    return _item("Is the model free of bias for these groups?", "ask", answer)
