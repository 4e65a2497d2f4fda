"""Label shift: what cross-validation over lab groups, labelled field rows or histograms support."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.core import break_even as core
from fieldcal.core.goodness_of_fit import ShiftExplained
from fieldcal.core.hypotheses import KINDS, Kind
from fieldcal.core.policy import POLICY
from fieldcal.core.trust import correction_size
from fieldcal.objects.break_even import reference_of
from fieldcal.objects.prevalence_parts import FieldLabels, PriorPredictive
from fieldcal.verbs.findings.context import Context
from fieldcal.verbs.findings.wording import Raised, raised

#: Findings on predictions and decisions, not on the estimate; and doubts that labels settle.
_SETTLED = ("uncalibrated", "recall_lost", "errors_traded", "misfit", "some_class_rows")
#: Doubts about the differences between groups, which labels settle if they support label shift between them.
_SETTLED_BETWEEN = ("beyond_rehearsal", "trust_withheld", "rehearsed")
_SUPPORTED: dict[Kind, str] = {
    "label_shift": "labels_say_label_shift",
    "unchanged": "labels_say_same",
    "other": "labels_say_other",
}


def set_by_caller(context: Context) -> Raised | None:
    """A trust that the caller set."""
    trust, labels = context.trust, context.labels
    if not trust.set_by_caller:
        return None
    given = trust.overall if labels is None else labels.before.overall
    updated = labels is not None and 0 < given < 1
    return raised("assumed", "causes" if given > 0 else "", given=given, updated=updated, trust=trust.overall)


# Between groups ---------------------------------------------------------------------------------------------


def one_population(context: Context) -> Raised | None:
    """No groups, so none that could differ."""
    return None if context.field.grouped else raised("one_population")


def lab_groups(context: Context) -> Raised | None:
    """Whether the errors of the lab's groups carry over to the field, and how much of the field they cover."""
    found = context.by_lab_groups
    if found is None:
        return None
    rows = np.asarray(context.field.n, dtype=np.float64)
    labels = np.asarray(found.lab_rows, dtype=np.float64)
    known, share = np.count_nonzero(labels), float(rows[labels > 0].sum() / max(rows.sum(), 1e-300))
    enough = share >= POLICY.decided and known >= POLICY.few
    carried = enough and found.persistence >= POLICY.decided
    # Groups that differ by label shift alone need not be the same in lab and field.
    only_shares = found.between >= POLICY.decided and found.group_sd < POLICY.shift_sd
    given = found.given_persistence is not None
    sure = (carried or only_shares) and not given
    return raised(
        "lab_groups",
        "known" if share > 0 else "unknown",
        state="ok" if sure else "care",
        sure=sure,
        rows=labels.sum(),
        known=known,
        total=len(rows),
        share=share,
        persistence=found.persistence,
        given=given,
        between=found.between,
    )


def rehearsed(context: Context) -> Raised | None:
    """What cross-validation over lab groups made of the correction between groups."""
    found, trust = context.evidence.rehearsal, context.trust
    if context.by_lab_groups is not None or trust.set_by_caller or not context.field.grouped or found is None:
        return None
    change, error = (
        float(np.interp(trust.between, found.grid, curve))
        for curve in (found.change_by_trust, found.change_by_trust_se)
    )
    worst, worst_error = found.change_by_trust[-1], found.change_by_trust_se[-1]
    helps = found.trust > 0
    harms = bool(
        not helps and worst > POLICY.sure_errors * worst_error and trust.rehearsed == 1 and trust.nothing
    )
    return raised(
        "rehearsed",
        state="ok" if helps else "do_not_use" if harms else "care",
        lab_groups=found.n_groups,
        rows=found.n_rows,
        helps=helps,
        change=change,
        error=error,
        none=not helps and trust.between == 0,
        some=not helps and trust.between != 0,
        harms=harms,
        worst=worst,
        worst_error=worst_error,
    )


def withheld(context: Context) -> Raised | None:
    """A field that goes beyond what cross-validation over lab groups covers."""
    found, trust = context.evidence.rehearsal, context.trust
    if trust.set_by_caller or not context.field.grouped or found is None:
        return None
    if trust.rehearsed < POLICY.decided:
        return raised("beyond_rehearsal", reach=trust.rehearsed)
    if context.by_lab_groups is not None or trust.between >= POLICY.decided * found.trust:
        return None
    return raised("trust_withheld", supported=found.trust, trust=trust.between)


def not_rehearsed(context: Context) -> Raised | None:
    """Groups whose differences only labels, or only histograms, can explain."""
    between, trust = context.evidence.between, context.trust
    if trust.set_by_caller or between is None or context.evidence.rehearsal is not None:
        return None
    if between.shifted and context.labels is not None and _enough(context.labels):
        return _by_labels_between(context.labels, trust.between)
    if context.by_lab_groups is not None:
        return None
    if not between.shifted:
        return raised("groups_alike")
    n = np.maximum(np.asarray(context.field.n, dtype=np.float64), 1e-300)
    if context.evidence.refused(between, float(np.average(context.evidence.misfit.effect, weights=n))):
        return raised("other_populations", share=between.share)
    return raised("not_rehearsed", share=between.share, followed=trust.between != 0, trust=trust.between)


def _by_labels_between(labels: FieldLabels, trust: float) -> Raised:
    if max(trust, 1 - trust) < POLICY.decided:
        code = "labels_between_undecided"
    else:
        code = "labels_between_other" if trust < 0.5 else "labels_between"
    return raised(code, n=labels.n, trust=trust)


# The whole field --------------------------------------------------------------------------------------------


def shift(context: Context) -> Raised:
    """A field that shifted as a whole: not at all, inexplicably, or as label shift implies."""
    found, given, grouped = context.evidence.overall, context.trust.set_by_caller, context.field.grouped
    decided = _by_labels(context)
    if decided is not None:
        return decided
    if not found.shifted:
        if given and context.trust.overall > 0:
            return raised("unmoved", "noise", state="care", grouped=grouped)
        unchanged = context.trust.nothing and context.lab.calibration_map is None
        return raised(
            "unmoved", "unchanged" if unchanged else "other_corrections", state="ok", grouped=grouped
        )
    if context.evidence.refused(found, float(context.evidence.whole.effect[0])):
        return raised("another_population", state="care" if given else "do_not_use", share=found.share)
    if not found.testable:
        return raised("shift_untestable")
    values: dict[str, Any] = {
        "share": found.share,
        "ranged": found.lower < 0.995,
        "least": found.lower,
        "most": found.upper,
    }
    if given:
        return raised("shift_explained", **values)
    if context.trust.overall == 0:
        return raised("shift_uncertain", _why_not(found), **values)
    return raised("shift_believed", trust=context.trust.overall, **values)


def _why_not(found: ShiftExplained) -> str:
    if found.share <= POLICY.explained[0]:
        return "little"
    if found.upper <= POLICY.explained_most[0]:
        return "more"
    if found.lower <= POLICY.explained_least[0]:
        return "noise"
    return "uninformative"


def _by_labels(context: Context) -> Raised | None:
    """How the whole field shifted, by its labels; None without enough of them, or where the caller set the trust."""
    model, labels = context.by_model, context.labels
    if model is None or labels is None or context.trust.set_by_caller or not _enough(labels):
        return None
    weights: dict[str, Any] = {kind: model.weight(kind) for kind in KINDS}
    kind = max(KINDS, key=model.weight)
    little = _size(context) < POLICY.harmless and weights["other"] < 1 - POLICY.decided
    if not context.evidence.overall.shifted and kind != "other":
        return _unshifted(labels, little=little)
    if kind != "other" and little:
        return raised("labels_unmoved", "little", n=labels.n, **weights)
    if weights[kind] < POLICY.decided:
        return raised("labels_undecided", "hypotheses", n=labels.n, **weights)
    return raised(_SUPPORTED[kind], n=labels.n, weight=weights[kind])


def _unshifted(labels: FieldLabels, *, little: bool) -> Raised:
    about_shares = labels.n - labels.rows.get("by_class", 0.0) >= POLICY.enough
    surprising = _surprising(labels.same)
    if little and about_shares and not surprising:
        return raised("labels_unmoved", "still", n=labels.n)
    return raised(
        "labels_undecided", "classes" if surprising else "noise" if about_shares else "by_class", n=labels.n
    )


def _size(context: Context) -> float:
    """Of the full correction of the whole field, in log loss: what it would cost if the lab's classes were right."""
    if context.whole is None:
        return np.inf
    ratio = np.log(np.maximum(context.whole.urc, 1e-12)) - np.log(np.maximum(context.lab.p_lab, 1e-12))
    V = np.asarray(context.field.V, dtype=np.float64).sum(axis=0, keepdims=True)
    return correction_size(context.lab.bin_means, V, ratio[None])


# Labelled rows ----------------------------------------------------------------------------------------------


def contradicted(context: Context) -> Raised | None:
    """Labels that differ from the prior predictive of label shift; if the caller set a trust, whatever it is."""
    labels, model = context.labels, context.by_model
    if labels is None or model is None or labels.observed is None:
        return None
    predicted = labels.label_shift if labels.label_shift is not None else labels.same
    if predicted is None:
        return raised("labels_agree", "nothing")
    difference = labels.observed - predicted.expected
    k = 1 if len(difference) == 2 else int(np.abs(difference).argmax())
    by_shift, same = predicted is labels.label_shift, labels.same
    values: dict[str, Any] = {
        "name": context.lab.classes[k],
        "observed": labels.observed[k],
        "expected": predicted.expected[k],
        "p_value": predicted.p_value,
        "shift": by_shift,
        "both": by_shift and same is not None,
        "unchanged": np.nan if same is None else same.expected[k],
    }
    if not _surprising(predicted):
        return raised("labels_agree", "agree", **values)
    if model.weight("label_shift") >= POLICY.decided and not context.trust.set_by_caller:
        return raised("labels_agree", "likeliest", **values)
    return raised("labels_contradict", **values)


def random_sample(context: Context) -> Raised | None:
    """Rows that were declared as drawn at random, and do not look like it."""
    if context.labels is None or context.labels.looks_random is None:
        return None
    p_value = context.labels.looks_random
    return raised("labels_random" if p_value >= POLICY.beyond_doubt else "labels_not_random", p_value=p_value)


def among_the_rows(context: Context) -> Raised | None:
    """Labelled rows that cannot be rows of the field."""
    if context.labels is None or not context.labels.beyond:
        return None
    return raised(
        "labels_beyond_rows", "groups" if context.field.grouped else "field", n=context.labels.beyond
    )


def scores_hold(context: Context) -> Raised | None:
    """Scores that changed their meaning in the field, which no reweighting of the classes corrects."""
    labels = context.labels
    if labels is None or context.trust.set_by_caller:  # then labels show scores under the caller's assumption
        return None
    if labels.changed < POLICY.sure:
        return raised("scores_hold")
    return raised("scores_off", change=labels.change, changed=labels.changed)


def break_even(context: Context) -> Raised | None:
    """How wrong label shift may be before the whole field's share is no longer above (below) that of the lab."""
    lab, whole = context.lab, context.whole
    v = np.asarray(context.field.V, dtype=np.float64).sum(axis=0)
    if whole is None or lab.outcome.kind == "intervals" or not v.sum():
        return None
    K = len(lab.classes)
    k = 1 if K == 2 else int(np.abs(whole.estimate - lab.p_lab).argmax())
    c, above = lab.p_lab[[k]], whole.estimate[[k]] >= lab.p_lab[k]
    rows = v.sum() if context.V is None else context.V.sum()
    V, best = v[None] / v.sum(), core.closest(v[None] / v.sum(), lab.M)
    flip = core.flip(V, lab.M, k, c, above, best)
    change = float(flip.change[0] - best.change[0])
    noise = core.standard_error(flip, V, np.array([rows]), lab.A)
    lower = float(core.lower_end(np.array([change]), noise, 2 * POLICY.sure - 1)[0])
    if lower <= 0:
        return None
    reference = reference_of(lab)
    return raised(
        "break_even",
        state="ok" if change >= POLICY.break_even else "ask",
        name=lab.classes[k],
        above=above[0],
        lab=float(c[0]),
        change=change,
        lower=lower,
        tenths=reference.tenths(change),
        reference=reference.groups,
    )


def settled(context: Context, found: Raised) -> Raised:
    """A finding as a question to people, where labels settle the doubt and only decisions are left to weigh."""
    if found.state not in (None, "care") or found.code not in (*_SETTLED, *_SETTLED_BETWEEN):
        return found
    by_labels = _by_labels(context)
    if by_labels is None or by_labels.code not in ("labels_unmoved", _SUPPORTED["label_shift"]):
        return found
    if found.code in _SETTLED_BETWEEN and context.trust.between < POLICY.decided:
        return found
    case = "bins" if found.code == "uncalibrated" else found.case
    return found._replace(state="ask", case=case)


def _surprising(found: PriorPredictive | None) -> bool:
    return found is not None and found.p_value < POLICY.contradicts


def _enough(labels: FieldLabels) -> bool:
    return labels.n >= POLICY.enough
