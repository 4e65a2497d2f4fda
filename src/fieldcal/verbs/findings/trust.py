"""What trust rests on: how groups differ, and how the whole field moved."""

from __future__ import annotations

import numpy as np

from fieldcal.core.goodness_of_fit import ShiftExplained
from fieldcal.core.policy import POLICY
from fieldcal.objects import Finding
from fieldcal.objects.verdict import State
from fieldcal.verbs.findings import labels
from fieldcal.verbs.findings.evidence import GROUPS, Seen

_BY_MIX = "Do groups differ only in their mix of classes?"
_CARRIED = "Do the errors of the lab's groups carry over to the field's groups?"
_WHOLE = "Did the whole field move only in its mix of classes?"
_LABEL_SOME = "Labelled rows, drawn from the field at random, would decide; fieldcal plan says how many."
_CAUSES = (
    "Does the class cause what the model sees, as a species its measurements or a disease its symptoms? Then label "
    "shift is plausible. Does what the model sees cause the class, as an occupation the income? Then it is not."
)


def set_by_caller(seen: Seen) -> Finding | None:
    """A trust that nobody earned."""
    if not seen.trust.set_by_caller:
        return None
    given = seen.trust.overall if seen.labels is None else seen.labels.before.overall
    text = f"Label shift is taken to hold with probability {given:g}, as told: assumed, not tested."
    if seen.labels is not None and 0 < given < 1:
        text += f" Labels make it {seen.trust.overall:.2f}."
    remedy = _CAUSES if given > 0 else ""
    return Finding(code="assumed", question="Was the trust earned?", state="care", text=text, remedy=remedy)


def lab_groups(seen: Seen) -> Finding | None:
    """Whether the errors of the lab's groups carry over to the field, and how much of the field they cover."""
    found = seen.by_lab_groups
    if found is None:
        return None
    rows, labels = np.asarray(seen.field.n, dtype=np.float64), np.asarray(found.lab_rows, dtype=np.float64)
    known = float(rows[labels > 0].sum() / max(rows.sum(), 1e-300))
    shifted = f"{min(found.between, 1.0):.0%} of the differences between groups are taken as label shift."
    if known > 0:
        text = f"Learned from {labels.sum():,.0f} lab rows of {np.count_nonzero(labels):,} of the field's "
        text += f"{len(rows):,} groups ({known:.0%} of the rows): the model's error for a group carries over from lab "
        text += "to field with "
        given = ", as given" if found.given_persistence is not None else ""
        text += f"correlation {found.persistence:.2f}{given}; {shifted}"
    else:
        text = f"The lab has other groups than the field. Learned from them: {shifted}"
    enough = known >= POLICY.decided and np.count_nonzero(labels) >= POLICY.few
    carried = enough and found.persistence >= POLICY.decided
    # Groups that differ by label shift alone need not be the same in lab and field.
    only_mixed = found.between >= POLICY.decided and found.group_sd < POLICY.shift_sd
    sure = (carried or only_mixed) and found.given_persistence is None
    state: State = "ok" if sure else "care"
    return Finding(
        code="lab_groups", question=_CARRIED, state=state, text=text, remedy="" if sure else _LABEL_SOME
    )


def rehearsed(seen: Seen) -> Finding | None:
    """What happened when the lab's own groups played the field."""
    found, trust = seen.evidence.rehearsal, seen.trust
    if seen.by_lab_groups is not None or trust.set_by_caller or not seen.field.grouped or found is None:
        return None
    text = f"Rehearsed on {found.n_groups:,} groups and {found.n_rows:,} rows of the lab: "
    if found.trust > 0:
        change, error = (
            float(np.interp(trust.between, found.grid, curve))
            for curve in (found.change_by_trust, found.change_by_trust_se)
        )
        text += f"log loss is expected to change by {change:+.3f} ± {error:.3f}."
        return Finding(code="rehearsed", question=_BY_MIX, state="ok", text=text)
    text += "no weight of the correction helped for sure"
    text += "; differences between groups are left alone." if trust.between == 0 else "."
    worst, error = found.change_by_trust[-1], found.change_by_trust_se[-1]
    harms = bool(worst > POLICY.sure_errors * error) and trust.rehearsed == 1 and trust.nothing
    if harms:
        text += f" The full correction made log loss worse by {worst:.3f} ± {error:.3f}."
    return Finding(code="rehearsed", question=_BY_MIX, state="do_not_use" if harms else "care", text=text)


def withheld(seen: Seen) -> Finding | None:
    """A field that goes beyond what was rehearsed."""
    found, trust = seen.evidence.rehearsal, seen.trust
    if trust.set_by_caller or not seen.field.grouped or found is None:
        return None
    question = "Is the field like what was rehearsed?"
    if trust.rehearsed < POLICY.decided:
        text = (
            f"Groups differ more than those of the lab did: its labels support {trust.rehearsed:.0%} of it."
        )
        return Finding(
            code="beyond_rehearsal", question=question, state="care", text=text, remedy=_LABEL_SOME
        )
    if seen.by_lab_groups is not None or trust.between >= POLICY.decided * found.trust:
        return None
    text = f"The rehearsal earned a trust of {found.trust:.2f} in how groups differ; {trust.between:.2f} is used, "
    text += "because the field moved in a way that was not rehearsed."
    return Finding(code="trust_withheld", question=question, state="care", text=text)


def not_rehearsed(seen: Seen) -> Finding | None:
    """Groups whose differences only histograms speak of, or labels."""
    between, decided = seen.evidence.between, labels.between(seen, _BY_MIX)
    if decided is not None:
        return decided
    told = seen.trust.set_by_caller or seen.by_lab_groups is not None
    if told or between is None or seen.evidence.rehearsal is not None:
        return None
    if not between.shifted:
        text = "The groups do not differ beyond noise: nothing is corrected between them."
        return Finding(code="groups_alike", question=_BY_MIX, state="ok", text=text)
    share = f"Label shift explains {_share(between.share)} of how the groups differ"
    remedy = f"Give {GROUPS} the grouping that the field has, to rehearse it."
    n = np.maximum(np.asarray(seen.field.n, dtype=np.float64), 1e-300)
    if seen.evidence.refused(between, float(np.average(seen.evidence.misfit.effect, weights=n))):
        text = f"{share}: they are other populations, not other mixes of the classes."
        return Finding(
            code="other_populations", question=_BY_MIX, state="do_not_use", text=text, remedy=remedy
        )
    trust = seen.trust.between
    end = f"followed with probability {trust:.2f}" if trust else "too little to follow, they are left alone"
    text = f"{share}, as far as histograms tell: {end}; not rehearsed."
    return Finding(code="not_rehearsed", question=_BY_MIX, state="care", text=text, remedy=remedy)


def one_population(seen: Seen) -> Finding | None:
    """No groups, so none that could differ."""
    if seen.field.grouped:
        return None
    return Finding(
        code="one_population", question=_BY_MIX, state="ok", text="There is one population, without groups."
    )


def shift(seen: Seen) -> Finding:
    """A field that moved as a whole: not at all, inexplicably, or as label shift would have it move."""
    found, given = seen.evidence.overall, seen.trust.set_by_caller
    decided = labels.moved(seen, _WHOLE)
    if decided is not None:
        return decided
    if not found.shifted:
        text = f"The {'whole ' if seen.field.grouped else ''}field has not moved from the lab beyond noise"
        if given and seen.trust.overall > 0:
            text += ": what is corrected may be noise."
            return Finding(code="unmoved", question=_WHOLE, state="care", text=text)
        unchanged = seen.trust.nothing and seen.lab.calibration_map is None
        end = ": unchanged." if unchanged else ": nothing is corrected for it."
        return Finding(code="unmoved", question=_WHOLE, state="ok", text=f"{text}{end}")
    share = f"Label shift explains {_share(found.share)} of how the whole field moved"
    if seen.evidence.refused(found, float(seen.evidence.whole.effect[0])):
        text = f"{share}: the field is another population, not another mix of classes."
        state: State = "care" if given else "do_not_use"
        return Finding(code="another_population", question=_WHOLE, state=state, text=text, remedy=_LABEL_SOME)
    if not found.testable:
        text = "The field has moved; with as many bins as classes, whether by label shift cannot be tested."
        return Finding(code="shift_untestable", question=_WHOLE, state="care", text=text, remedy=_LABEL_SOME)
    return _explained(seen, share)


def _explained(seen: Seen, share: str) -> Finding:
    """A movement that label shift explains in part: followed as far as unlabelled rows can earn."""
    trust, found = seen.trust, seen.evidence.overall
    range_ = f" (between {_share(found.lower)} and {_share(found.upper)})" if found.lower < 0.995 else ""
    if trust.set_by_caller:
        return Finding(code="shift_explained", question=_WHOLE, state="care", text=f"{share}{range_}.")
    if trust.overall == 0:
        text = f"{share}{range_}{_why_not(found)}: it is not followed."
        return Finding(code="shift_uncertain", question=_WHOLE, state="care", text=text, remedy=_LABEL_SOME)
    text = (
        f"{share}{range_}. Other changes can look alike: it is followed with probability {trust.overall:.2f}."
    )
    return Finding(code="shift_believed", question=_WHOLE, state="care", text=text, remedy=_LABEL_SOME)


def _why_not(found: ShiftExplained) -> str:
    if found.share <= POLICY.explained[0]:
        return ", too little"
    if found.upper <= POLICY.explained_most[0]:
        return ", and something else moved too"
    if found.lower <= POLICY.explained_least[0]:
        return ", but that may be noise"
    return ", but the predictions know too little of the classes to tell"


def _share(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.0%}"
