"""Faults that pass for label shift: another unit, swapped classes, predictions recalibrated before."""

from __future__ import annotations

import numpy as np

from fieldcal.core import guards
from fieldcal.core.policy import POLICY
from fieldcal.objects import Finding, group_keys
from fieldcal.objects.verdict import State
from fieldcal.verbs.findings.evidence import Seen

_CHECK_ORDER = "Check the order of the columns, and which class a single column speaks of, in lab and field."


def same_units(seen: Seen) -> Finding | None:
    """Field predictions divided by 100."""
    found = seen.suspicions.get("other_units")
    if found is None:
        return None
    return Finding(
        code="other_units",
        question="Are the field's predictions in the lab's units?",
        state=_sure(found),
        text="The field looks as if its predictions had been divided by 100, far more than like any mixture of the "
        f"lab's classes ({_odds(found)}).",
        remedy="Check that lab and field were scored by the same version of the model and in the same units.",
    )


def same_order(seen: Seen) -> Finding | None:
    """Classes that were swapped in the field."""
    question, remedy = "Are the field's classes in the lab's order?", _CHECK_ORDER
    found = seen.suspicions.get("swapped")
    if found is not None:
        text = "The field looks as if its two classes were swapped (1 − p in place of p), far more than like any "
        text += f"mixture of the lab's classes ({_odds(found)})."
        return Finding(code="swapped", question=question, state=_sure(found), text=text, remedy=remedy)
    apart = seen.disagreement
    if apart is None or not apart.explained_by(apart.reordered):
        return None
    moved = [group_keys.show(seen.lab.classes[k], width=20) for k, at in enumerate(apart.order) if at != k]
    if not moved:
        return None
    text = "The field looks like no mixture of the classes, and far more like one if some columns were in another "
    text += f"order: those of {', '.join(moved[:6])}{', …' if len(moved) > 6 else ''}."
    return Finding(code="swapped", question=question, state=_plain(seen), text=text, remedy=remedy)


def counted_raw(seen: Seen) -> Finding:
    """Predictions that were recalibrated before they were counted."""
    question, classes = "Were raw predictions counted?", seen.lab.classes
    found, apart = seen.suspicions.get("recalibrated"), seen.disagreement
    if found is not None:
        text = f"The field looks as if its predictions had been recalibrated before, to {found.prevalence:.0%} of "
        text += f"{group_keys.show(classes[1], width=30)}, far more than like any mixture of the lab's "
        return _recalibrated_before(question, _sure(found), f"{text}classes ({_odds(found)}).")
    if apart is not None and apart.explained_by(apart.recalibrated):
        k = int(np.abs(apart.prevalence - seen.lab.p_lab).argmax())
        text = "The field looks like no mixture of the classes, and far more as if its predictions had been "
        text += (
            f"recalibrated before, to {apart.prevalence[k]:.0%} of {group_keys.show(classes[k], width=30)}."
        )
        return _recalibrated_before(question, _plain(seen), text)
    if seen.scores is not None and seen.lab.n_bins >= guards.FEWEST_BINS:
        text = "Nothing looks as if they had been recalibrated before."
        return Finding(code="counted_raw", question=question, state="ok", text=text)
    text = "Only you can know: bins of two classes would mostly show it, these seldom do. Recalibrated predictions "
    text += "that are counted again are corrected twice."
    return Finding(code="maybe_recalibrated", question=question, state="ask", text=text)


def _recalibrated_before(question: str, state: State, text: str) -> Finding:
    return Finding(
        code="recalibrated_before",
        question=question,
        state=state,
        text=text,
        remedy="Count the predictions as the model gives them; a correction that is made twice is wrong.",
    )


def _plain(seen: Seen) -> State:
    """More than two classes: what is beyond what noise could leave of label shift."""
    return "do_not_use" if seen.evidence.overall.upper < POLICY.explained[0] else "care"


def _sure(found: guards.Suspicion) -> State:
    """A real field can look a little like a fault, never so much."""
    return "do_not_use" if found.gain >= guards.CERTAIN else "care"


def _odds(found: guards.Suspicion) -> str:
    return f"odds of a {'million' if found.gain >= guards.CERTAIN else 'thousand'} to one or more"
