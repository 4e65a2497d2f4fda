"""Faults that pass for label shift: another unit, swapped classes, predictions recalibrated before."""

from __future__ import annotations

import numpy as np

from fieldcal.core import guards
from fieldcal.core.policy import POLICY
from fieldcal.objects import Finding, group_keys
from fieldcal.objects.verdict import State
from fieldcal.verbs.findings.evidence import Seen

_CHECK_ORDER = "Check the order of the columns, and which class a single column speaks of, in lab and field."
_UNITS = {
    "percent": "if its predictions had been divided by 100",
    "probit": "if its logits had gone through a probit in place of a sigmoid",
    "sigmoid_twice": "if a sigmoid had been applied to what are probabilities already",
}


def same_units(seen: Seen) -> Finding | None:
    """Another unit, link or version of the model in the field."""
    found = seen.suspicions.get("other_units")
    if found is None:
        return None
    slight = found.fault == "slope" and abs(np.log(found.slope)) <= np.log(POLICY.slight_slope)
    how = _UNITS.get(found.fault, f"if all logits had been multiplied by {found.slope:.2g}")
    return Finding(
        code="other_units",
        question="Are the field's predictions in the lab's units?",
        state="care" if slight else _sure(found),
        text=f"The field looks as {how}, far more than like any mixture of the lab's classes ({_odds(found)}).",
        remedy="Check that lab and field were scored by the same version of the model, in the same units and through "
        "the same link.",
    )


def same_order(seen: Seen) -> Finding | None:
    """Classes that were swapped in the field."""
    question, remedy = "Are the field's classes in the lab's order?", _CHECK_ORDER
    found = seen.suspicions.get("swapped")
    if found is not None:
        text = "The field looks as if its two classes were swapped (1 − p in place of p), far more than like any "
        text += f"mixture of the lab's classes ({_odds(found)})."
        return Finding(code="swapped", question=question, state=_sure(found), text=text, remedy=remedy)
    lab, v = seen.lab, np.asarray(seen.field.V.sum(axis=0), dtype=np.float64)
    if len(lab.classes) == 2 or lab.partition.takes == "ids" or not seen.evidence.overall.contradicted:
        return None
    sums = seen.field.score_sums.sum(axis=0, dtype=np.float64)
    order = guards.reordered(lab.M, lab.bin_means, v, sums / sums.sum())
    if order is None:
        return None
    moved = [group_keys.show(lab.classes[k], width=20) for k in range(len(order)) if order[k] != k]
    text = "The field looks like no mixture of the classes, and far more like one if some columns were in another "
    text += f"order: those of {', '.join(moved[:6])}{', …' if len(moved) > 6 else ''}."
    plain = seen.evidence.overall.upper < POLICY.refused[0]  # beyond what noise could leave of label shift
    state: State = "do_not_use" if plain else "care"
    return Finding(code="swapped", question=question, state=state, text=text, remedy=remedy)


def counted_raw(seen: Seen) -> Finding:
    """Predictions that were recalibrated before they were counted."""
    question, found = "Were raw predictions counted?", seen.suspicions.get("recalibrated")
    if found is not None:
        text = f"The field looks as if its predictions had been recalibrated before, to {found.prevalence:.0%} of "
        text += (
            f"{group_keys.show(seen.lab.classes[1], width=30)}, far more than like any mixture of the lab's "
        )
        return Finding(
            code="recalibrated_before",
            question=question,
            state=_sure(found),
            text=f"{text}classes ({_odds(found)}).",
            remedy="Count the predictions as the model gives them; a correction that is made twice is wrong.",
        )
    if seen.scores is not None and seen.lab.n_bins >= guards.FEWEST_BINS:
        text = "Nothing looks as if they had been recalibrated before."
        return Finding(code="counted_raw", question=question, state="ok", text=text)
    text = (
        "Only you can know: these counts do not show it, which takes two classes and four bins. Recalibrated "
    )
    text += "predictions that are counted again are corrected twice."
    return Finding(code="maybe_recalibrated", question=question, state="ask", text=text)


def _sure(found: guards.Suspicion) -> State:
    """A real field can look a little like a fault, never so much."""
    return "do_not_use" if found.gain >= POLICY.certain else "care"


def _odds(found: guards.Suspicion) -> str:
    return f"odds of a {'million' if found.gain >= POLICY.certain else 'thousand'} to one or more"
