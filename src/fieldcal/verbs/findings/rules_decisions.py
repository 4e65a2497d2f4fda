"""The paper's contraindications: what recalibration does to groups and to hard decisions, even where it is right.

Each always has its sentence in the checklist, also where it does not apply.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import guards
from fieldcal.core.group_bias import MOST_KEPT, amplification
from fieldcal.core.policy import POLICY
from fieldcal.objects.verdict import State
from fieldcal.types import Floats, Ints
from fieldcal.verbs.findings.context import MOST_NAMED, Context
from fieldcal.verbs.findings.wording import Raised, raised

# Groups -----------------------------------------------------------------------------------------------------


def homogeneous(context: Context) -> Raised | None:
    """Lab groups in which a class does not look like itself."""
    found = context.lab.homogeneity
    if found is None or len(_biased(context)):  # then `no_bias` names the group, and its error
        return None
    same = found.effect <= POLICY.small_effect or found.p_value >= POLICY.beyond_doubt
    return raised("homogeneous" if same else "heterogeneous", effect=found.effect)


def no_bias(context: Context) -> Raised:
    """Predictions that are too high or too low for a group, given the class: recalibration by group adds to that."""
    lab, found, model = context.lab, context.lab.bias, context.by_lab_groups
    if not context.field.grouped:
        return raised("not_by_group")
    factor = float(np.median(amplification(lab.M, lab.bin_means)))
    if lab.outcome.kind == "intervals":
        return raised("maybe_biased", "number")
    if found is None:
        return raised("maybe_biased", "no_groups", factor=factor)
    biased = _biased(context)
    many = {"n": len(biased), "capped": len(biased) == MOST_KEPT, "tested": found.tested}
    if model is not None and model.persistence >= POLICY.decided:
        return raised("bias_corrected", **many)
    if not len(biased):
        return raised("unbiased", tested=found.tested, factor=factor)
    first, trust = int(biased[0]), context.trust.between
    before, after = found.miss[first], found.after[first]
    return raised(
        "biased",
        groups=(lab.bias_groups[i] for i in biased),
        **many,
        several=len(biased) > 1,
        name=lab.classes[int(found.of[first])],
        group=lab.bias_groups[first],
        bias=100 * abs(found.bias[first]),
        error=100 * found.error[first],
        high=found.bias[first] > 0,
        before=100 * abs(before),
        after=100 * abs(after),
        ignored=trust == 0,
        part=0 < trust < 1,
        trust=trust,
        mixed=100 * abs((1 - trust) * before + trust * after),
    )


def _biased(context: Context) -> Ints:
    """Places of the lab groups that are off beyond noise, and that the full correction makes worse; the worst first."""
    lab, found = context.lab, context.lab.bias
    if found is None or not context.field.grouped or lab.outcome.kind == "intervals":
        return np.array([], dtype=np.intp)
    harm = np.abs(found.after) - np.abs(found.miss)
    at = np.flatnonzero((found.adjusted < POLICY.beyond_doubt) & (harm > POLICY.noticeable))
    return at[np.argsort(-harm[at], kind="stable")]


def may_depend_on_groups(context: Context) -> Raised:
    """Groups that must not decide."""
    if not context.field.grouped and not context.protected:
        return raised("no_groups")
    code = "protected" if context.protected else "maybe_protected"
    found = guards.most_unequal(context.steps, context.lab.bin_means)
    if found is None:
        return raised(code, "equal")
    first, second = (context.field.groups[g] for g in found.groups)
    return raised(
        code,
        "unequal",
        name=context.lab.classes[found.of],
        before=found.before,
        first=first,
        second=second,
        low=found.after[0],
        high=found.after[1],
    )


# Hard decisions ---------------------------------------------------------------------------------------------


def recall_kept(context: Context) -> Raised:
    """Classes that disappear from hard decisions."""
    if context.decisions is None:
        return _no_decisions("recall_kept", context)
    before, after = context.decisions
    recall, new = 1 - before.misses, 1 - after.misses
    lost = np.flatnonzero(_is_lost(recall, new))
    if len(lost):
        worst = lost[np.argsort(new[lost] - recall[lost], kind="stable")][:MOST_NAMED]
        return raised("recall_lost", changes=_changes(context, worst, recall, new))
    if _is_lost(before.recall, after.recall).any():
        return _lost_in_groups(context, before.recall, after.recall)
    largest = np.abs(new - recall).argmax(axis=0, keepdims=True)
    return raised("recall_kept", "kept", changes=_changes(context, largest, recall, new))


def _lost_in_groups(context: Context, before: Floats, after: Floats) -> Raised:
    fall = np.where(_is_lost(before, after), before - after, -1.0)
    at = np.flatnonzero(fall.max(axis=1) >= 0)
    at = at[np.argsort(-fall[at].max(axis=1), kind="stable")]
    g, groups = int(at[0]), context.field.groups
    worst = fall[g].argmax(axis=0, keepdims=True)
    return raised(
        "recall_lost_in_groups",
        groups=(groups[i] for i in at[:MOST_NAMED]),
        n=len(at),
        total=len(fall),
        group=groups[g],
        changes=_changes(context, worst, before[g], after[g]),
    )


def _is_lost(before: Floats, after: Floats) -> NDArray[np.bool_]:
    return np.asarray((before >= POLICY.errors_traded) & (after < POLICY.recall_kept * before))


def _changes(
    context: Context, classes: Ints, before: Floats, after: Floats
) -> list[tuple[Any, float, float]]:
    return [(context.lab.classes[k], before[k], after[k]) for k in classes]


def errors_kept(context: Context) -> Raised:
    """False alarms (type I) that are exchanged for misses (type II), or misses for false alarms."""
    if context.decisions is None:
        return _no_decisions("errors_kept", context)
    before, after = context.decisions
    alarms, misses = after.false_alarms - before.false_alarms, after.misses - before.misses
    rise = np.maximum(alarms, misses)
    k = 1 if len(rise) == 2 else int(np.maximum(rise, -np.minimum(alarms, misses)).argmax())
    errors = {
        "name": context.lab.classes[k],
        "alarms": before.false_alarms[k],
        "new_alarms": after.false_alarms[k],
        "misses": before.misses[k],
        "new_misses": after.misses[k],
    }
    if rise[k] < POLICY.errors_traded:
        return raised("errors_kept", "kept", **errors)
    by_recall = _is_lost(1 - before.misses, 1 - after.misses).any()  # `recall_kept` reports it
    state: State = "care" if rise[k] >= POLICY.large_share and not by_recall else "ask"
    return raised("errors_traded", state=state, **errors)


def _no_decisions(code: str, context: Context) -> Raised:
    if context.lab.outcome.kind == "intervals":
        return raised(code, "number")
    if context.lab.only_decisions:
        return raised(code, "only_decisions")
    if not context.field.n.sum():
        return raised(code, "no_rows")
    return raised(code, "unchanged", calibrated=context.lab.calibration_map is not None)
