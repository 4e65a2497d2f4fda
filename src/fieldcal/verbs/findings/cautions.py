"""The paper's contraindications: what recalibration does to groups and to hard decisions, even where it is right.

Each always has its sentence in the checklist, also where it does not apply.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import guards
from fieldcal.core.group_bias import MOST_KEPT, amplification
from fieldcal.core.policy import POLICY
from fieldcal.objects import Finding, group_keys
from fieldcal.types import Floats, Ints
from fieldcal.verbs.findings.evidence import BALANCED, GROUPS, MOST_NAMED, PROTECTED, Seen

_BIAS = "Is the model free of bias for these groups?"
_SURVIVES = "Does every class survive in hard decisions?"
_ERRORS = "Do hard decisions make the same errors as before?"
_ALL_MATTER = f"Use {BALANCED} where every class matters, or costs of errors as the goal."
_TENFOLD = 10.0  # larger factors are not worth a number: shares end at 0 and 1


# Groups -----------------------------------------------------------------------------------------------------


def homogeneous(seen: Seen) -> Finding | None:
    """Lab groups in which a class does not look like itself."""
    found = seen.lab.homogeneity
    if found is None or len(_biased(seen)):  # then `no_bias` says which group, and how
        return None
    question = "Does a class look the same in all lab groups?"
    measured = f"Cramér's V {found.effect:.2f}"
    if found.effect <= POLICY.small_effect or found.p_value >= POLICY.beyond_doubt:
        return Finding(code="homogeneous", question=question, state="ok", text=f"Yes ({measured}).")
    text = f"The lab's groups differ in what a class looks like ({measured}): they differ by more than their "
    return Finding(code="heterogeneous", question=question, state="care", text=f"{text}prevalences.")


def no_bias(seen: Seen) -> Finding:
    """Predictions that are too high or too low for a group, given the class: recalibration by group adds to that."""
    lab, found = seen.lab, seen.lab.bias
    if not seen.field.grouped:
        text = "Does not apply: without groups, nothing is recalibrated by group."
        return Finding(code="not_by_group", question=_BIAS, state="ok", text=text)
    factor = _times(float(np.median(amplification(lab.M, lab.bin_means))))
    if lab.outcome.kind == "intervals":
        text = "Unknown: it is not measured for predictions of a number. If they are too high for a group, given the "
        text += "number, recalibrating by group adds to that."
        return Finding(code="maybe_biased", question=_BIAS, state="ask", text=text)
    if found is None:
        text = "Unknown: the lab has no groups that would show it. If predictions are too high for a group, given the "
        text += f"class, recalibrating by group multiplies that by about {factor}. {GROUPS} measures it."
        return Finding(code="maybe_biased", question=_BIAS, state="ask", text=text)
    biased = _biased(seen)
    if seen.by_lab_groups is not None and seen.by_lab_groups.persistence >= POLICY.decided:
        return _corrected(biased, found.tested)
    if not len(biased):
        text = f"Of {found.tested:,} groups of the lab none is clearly off given the class. Recalibrating by group "
        text += f"multiplies what is left of a bias by about {factor}."
        return Finding(code="unbiased", question=_BIAS, state="ok", text=text)
    return Finding(
        code="biased",
        question=_BIAS,
        state="care",
        text=_bias_in_words(seen, biased),
        remedy="Does a feature stand for the group, or were labels of a group wrong? Mend the model, or do not "
        "recalibrate by these groups: count the field without them.",
        groups=tuple(lab.bias_groups[i] for i in biased),
    )


def _corrected(biased: Ints, tested: int) -> Finding:
    """Where the model of the lab's groups holds each group's own error."""
    many = f"at least {len(biased):,}" if len(biased) == MOST_KEPT else f"{len(biased):,}"
    text = f"Given the class, predictions are off for {many} of {tested:,} groups of the lab. The estimate corrects "
    text += "each group by its own lab labels, as far as groups persist."
    return Finding(code="bias_corrected", question=_BIAS, state="ok", text=text)


def _biased(seen: Seen) -> Ints:
    """Places of the lab groups that are off beyond noise, and that the full correction makes worse; the worst first."""
    lab, found = seen.lab, seen.lab.bias
    if found is None or not seen.field.grouped or lab.outcome.kind == "intervals":
        return np.array([], dtype=np.intp)
    harm = np.abs(found.after) - np.abs(found.miss)
    told = np.flatnonzero((found.adjusted < POLICY.beyond_doubt) & (harm > POLICY.noticeable))
    return told[np.argsort(-harm[told], kind="stable")]


def _bias_in_words(seen: Seen, biased: Ints) -> str:
    lab, found, trust = seen.lab, seen.lab.bias, seen.trust.between
    assert found is not None
    first = int(biased[0])
    k, bias, error = int(found.of[first]), found.bias[first], found.error[first]
    whom, what = (group_keys.show(x, width=30) for x in (lab.bias_groups[first], lab.classes[k]))
    text = f"In the lab, predictions for {what} were {100 * abs(bias):.1f} ± {100 * error:.1f} points too "
    text += f"{'high' if bias > 0 else 'low'} in group {whom}, given the class, against the whole lab"
    if len(biased) > 1:
        more = " or more" if len(biased) == MOST_KEPT else ""
        text += f"; {len(biased):,}{more} of {found.tested:,} groups are off like this"
    before, after = found.miss[first], found.after[first]
    text += f". Recalibrating by group makes of it about {100 * abs(after):.1f} points in the estimate; "
    text += f"the mean prediction is off by {100 * abs(before):.1f}"
    if trust == 0:
        return f"{text}, which with a trust of 0 between groups is left as it is."
    mixed = 100 * abs((1 - trust) * before + trust * after)
    return f"{text}{f', with a trust of {trust:.2f} the estimate by {mixed:.1f}' if trust < 1 else ''}."


def _times(factor: float) -> str:
    return f"{factor:.1f}" if factor < _TENFOLD else f"{_TENFOLD:.0f} or more"


def may_depend_on_groups(seen: Seen) -> Finding:
    """Groups that must not decide."""
    question = "May decisions depend on the group?"
    if not seen.field.grouped and not seen.protected:
        text = "Does not apply: there are no groups."
        return Finding(code="no_groups", question=question, state="ok", text=text)
    unequal = _unequal_in_words(seen)
    if seen.protected:
        text = f"No: declared protected. Estimated, but not to be applied: {unequal}."
        remedy = "Use the prevalences to watch the groups; predictions are not to be changed by them."
        return Finding(code="protected", question=question, state="ask", text=text, remedy=remedy)
    text = f"Only you can know: {unequal}. If the group must not matter, estimate with {PROTECTED}."
    return Finding(code="maybe_protected", question=question, state="ask", text=text)


def _unequal_in_words(seen: Seen) -> str:
    found = guards.most_unequal(seen.steps, seen.lab.bin_means)
    if found is None:
        return "equal predictions stay equal in all groups, as nothing is corrected between them"
    what = group_keys.show(seen.lab.classes[found.of], width=30)
    ends = (
        f"{value:.0%} in {group_keys.show(seen.field.groups[g], width=30)}"
        for g, value in zip(found.groups, found.after, strict=True)
    )
    return f"a prediction of {found.before:.0%} for {what} becomes {' and '.join(ends)}"


# Hard decisions ---------------------------------------------------------------------------------------------


def recall_kept(seen: Seen) -> Finding:
    """Classes that disappear from hard decisions."""
    if seen.decisions is None:
        return Finding(code="recall_kept", question=_SURVIVES, state="ok", text=_no_decisions(seen))
    before, after = seen.decisions
    recall, new = 1 - before.misses, 1 - after.misses
    lost = np.flatnonzero(_is_lost(recall, new))
    if len(lost):
        worst = lost[np.argsort(new[lost] - recall[lost], kind="stable")][:MOST_NAMED]
        falls = ", ".join(_fall(seen, k, recall[k], new[k]) for k in worst)
        text = f"If the largest recalibrated prediction decides, recall falls: {falls}. The probabilities are right, "
        text += "but a class that got rare hardly ever has the largest."
        return Finding(code="recall_lost", question=_SURVIVES, state="care", text=text, remedy=_ALL_MATTER)
    if _is_lost(before.recall, after.recall).any():
        return _lost_in_groups(seen, before, after)
    k = int(np.abs(new - recall).argmax())
    text = f"Yes. The largest change of recall: {_fall(seen, k, recall[k], new[k])}."
    return Finding(code="recall_kept", question=_SURVIVES, state="ok", text=text)


def _lost_in_groups(seen: Seen, before: guards.HardDecisions, after: guards.HardDecisions) -> Finding:
    fall = np.where(_is_lost(before.recall, after.recall), before.recall - after.recall, -1.0)
    groups = np.flatnonzero(fall.max(axis=1) >= 0)
    groups = groups[np.argsort(-fall[groups].max(axis=1), kind="stable")]
    g, k = int(groups[0]), int(fall[groups[0]].argmax())
    text = f"In the whole field, but not in {len(groups):,} of {len(fall):,} groups, where a class is rare: "
    text += f"in {group_keys.show(seen.field.groups[g], width=30)} recall falls most: "
    return Finding(
        code="recall_lost_in_groups",
        question=_SURVIVES,
        state="ask",
        text=f"{text}{_fall(seen, k, before.recall[g, k], after.recall[g, k])}.",
        remedy=_ALL_MATTER,
        groups=tuple(seen.field.groups[i] for i in groups[:MOST_NAMED]),
    )


def _is_lost(before: Floats, after: Floats) -> NDArray[np.bool_]:
    return np.asarray((before >= POLICY.errors_traded) & (after < POLICY.recall_kept * before))


def _fall(seen: Seen, k: int, before: float, after: float) -> str:
    return f"{group_keys.show(seen.lab.classes[k], width=30)} from {before:.2f} to {after:.2f}"


def errors_kept(seen: Seen) -> Finding:
    """False alarms (type I) that are exchanged for misses (type II), or misses for false alarms."""
    if seen.decisions is None:
        return Finding(code="errors_kept", question=_ERRORS, state="ok", text=_no_decisions(seen))
    before, after = seen.decisions
    alarms, misses = after.false_alarms - before.false_alarms, after.misses - before.misses
    rise = np.maximum(alarms, misses)
    k = 1 if len(rise) == 2 else int(np.maximum(rise, -np.minimum(alarms, misses)).argmax())
    text = f"In hard decisions for {group_keys.show(seen.lab.classes[k], width=30)}, false alarms (type I) go from "
    text += f"{before.false_alarms[k]:.1%} to {after.false_alarms[k]:.1%} of the rows of other classes, misses (type "
    text += f"II) from {before.misses[k]:.1%} to {after.misses[k]:.1%} of its own."
    if rise[k] < POLICY.errors_traded:
        return Finding(code="errors_kept", question=_ERRORS, state="ok", text=text)
    return Finding(
        code="errors_traded",
        question=_ERRORS,
        state="ask",
        text=text,
        remedy="Which error costs more, only you can know: decide with costs of errors as the goal.",
    )


def _no_decisions(seen: Seen) -> str:
    if seen.lab.outcome.kind == "intervals":
        return "Does not apply: a number is predicted, and nothing is decided."
    if seen.lab.only_decisions:
        return "Does not apply: predictions of 0 and 1 stay what they are."
    if not seen.field.n.sum():
        return "Does not apply: there are no rows."
    done = "changed" if seen.lab.calibration_map is None else "recalibrated"
    return f"Does not apply: predictions are not {done}."
