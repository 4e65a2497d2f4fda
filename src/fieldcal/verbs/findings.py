"""From evidence to findings. Each finding is a small function in a list; to add one, write it and add it to the list.

`LAB` looks at a lab alone (`learn` warns of what it finds), `FIELD` at everything that `estimate` measured. The
report's checklist is both lists in their order; thresholds are in `core.policy`, nowhere else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import guards
from fieldcal.core.goodness_of_fit import ShiftExplained
from fieldcal.core.partition import Edges, most_bins
from fieldcal.core.policy import POLICY
from fieldcal.core.response import confusable_classes, row_per_weight
from fieldcal.core.reweight import Step
from fieldcal.core.sample_size import labels_to_decide
from fieldcal.core.trust import Evidence, Trust
from fieldcal.errors import (
    CalibrationWarning,
    ConvergenceWarning,
    FieldcalWarning,
    IdentifiabilityWarning,
    Option,
    PoolingWarning,
    SmallSampleWarning,
)
from fieldcal.objects import Field, Finding, Lab, WholeField, group_keys
from fieldcal.objects.verdict import State
from fieldcal.types import Floats

#: Groups that a finding names, at most.
_NAMED = 20
#: Findings of a lab that `learn` warns of, and of a field that `estimate` warns of; each with its category.
WARNED_IN_LAB: dict[str, type[FieldcalWarning]] = {
    "worse_than_chance": CalibrationWarning,
    "few_class_rows": SmallSampleWarning,
    "confusable_classes": IdentifiabilityWarning,
    "too_good": CalibrationWarning,
    "uncalibrated": CalibrationWarning,
    "hard_decisions": CalibrationWarning,
    "cannot_separate": IdentifiabilityWarning,
}
#: Of these only the worst state is warned of.
_WARNED_AT_WORST = ("cannot_separate",)
WARNED_IN_FIELD: dict[str, type[FieldcalWarning]] = {
    "not_converged": ConvergenceWarning,
    "overdispersed": PoolingWarning,
}
#: Options that texts speak of. A finding is stored, in Python's spelling; a warning carries the option itself.
_CLASSES, _GROUPS = Option("classes"), Option("groups", verb="learn")
_SIGMOID, _PROTECTED = Option("calibration", "sigmoid"), Option("protected", True)
_DESIGN = Option("design_effect")
_BALANCED = Option("goal", "balanced", verb="decide")


@dataclass(frozen=True)
class Seen:
    """Everything a finding may look at."""

    lab: Lab
    field: Field
    evidence: Evidence
    trust: Trust
    protected: bool = False
    whole: WholeField | None = None
    design_effect: float = 1.0
    width: Floats | None = None  # (G, K) of the intervals
    steps: tuple[Step, ...] = ()  # that predictions of the whole field take
    V: Floats | None = None  # (G, m) as effective rows

    @cached_property
    def suspicions(self) -> dict[str, guards.Suspicion]:
        """Faults of two classes that explain the field better than any mixture, by name."""
        partition = self.lab.partition
        if len(self.lab.classes) != 2 or not isinstance(partition, Edges):
            return {}
        V = np.asarray(self.field.V, dtype=np.float64) if self.V is None else self.V
        scores = guards.Scores(
            self.lab.M, self.lab.n_effective, self.lab.p_lab, np.asarray(partition.edges), V
        )
        return {
            _FAULTS.get(s.fault, s.fault): s for s in guards.suspicions(scores, grouped=self.field.grouped)
        }


def findings(seen: Seen) -> tuple[Finding, ...]:
    """All that is to be said about an estimate, in the order of the checklist."""
    found = (*(ask(seen.lab) for ask in LAB), *(ask(seen) for ask in FIELD))
    return tuple(finding for finding in found if finding is not None)


def warn_about_lab(lab: Lab) -> None:
    """Warn of what makes every estimate from this lab shaky."""
    _warn((ask(lab) for ask in LAB), WARNED_IN_LAB)


def warn_about_field(found: Iterable[Finding]) -> None:
    """Warn of what makes this estimate shaky, beyond what `learn` warned of."""
    _warn(found, WARNED_IN_FIELD)


def _warn(found: Iterable[Finding | None], categories: dict[str, type[FieldcalWarning]]) -> None:
    for finding in found:
        if finding is None or (finding.code in _WARNED_AT_WORST and finding.state != "do_not_use"):
            continue
        if finding.code in categories:
            text = f"{finding.text} {finding.remedy}".strip()
            warnings.warn(categories[finding.code](*_parts(text)), stacklevel=4)


def _parts(text: str) -> tuple[str | Option, ...]:
    """The text as a warning takes it, in parts before and after the option that it speaks of."""
    for option in (_CLASSES, _GROUPS, _SIGMOID, _PROTECTED, _BALANCED):
        before, found, after = text.rpartition(str(option))
        if found:
            return before, option, after
    return (text,)


# The lab ----------------------------------------------------------------------------------------------------


def better_than_chance(lab: Lab) -> Finding:
    """Columns in another order than the classes, or a model that learnt the opposite."""
    question = "Are predictions for a class higher on its own rows?"
    worst = _worse_than_chance(lab)
    if worst is None:
        return Finding(code="better_than_chance", question=question, state="ok", text="Yes, for every class.")
    return Finding(
        code="worse_than_chance",
        question=question,
        state="do_not_use",
        text=f"Predictions for class {lab.classes[worst]!r} are lower on rows of that class than on others: worse "
        "than chance.",
        remedy=f"Are the columns in the order of the classes {lab.classes!r:.200}? If not, pass {_CLASSES} in their "
        "order.",
    )


def enough_rows(lab: Lab) -> Finding:
    """A class whose predictions are mostly a guess."""
    rows = lab.n_effective
    rarest = int(rows.argmin())
    name, n = lab.classes[rarest], rows[rarest]
    question = "Has the lab enough rows of every class?"
    remedy = f"Label more rows of {group_keys.show(name, width=30)}."
    if n > POLICY.few_class_rows and n < POLICY.enough_class_rows:
        text = f"The lab has only {n:g} rows of class {name!r}: little can be put to the test."
        return Finding(code="some_class_rows", question=question, state="care", text=text, remedy=remedy)
    if n <= POLICY.few_class_rows:
        text = f"Class {name!r} has {n:g} lab rows: where its predictions fall is mostly a guess, and the intervals "
        text += "will be wide."
        return Finding(
            code="few_class_rows", question=question, state="care", text=text, remedy="Label more rows of it."
        )
    text = f"The rarest, {group_keys.show(name, width=30)}, has {n:,.6g}."
    return Finding(code="enough_class_rows", question=question, state="ok", text=text)


def told_apart(lab: Lab) -> Finding:
    """Classes that no histogram tells from each other."""
    question = "Do the predictions tell the classes apart?"
    number = lab.conditioning.condition_number
    if lab.n_bins == 1:
        text = "All lab predictions fall into one bin: every field looks the same."
        return Finding(code="one_bin", question=question, state="do_not_use", text=text)
    # Neighbours in an order are hard to tell apart by nature: the smooth prior is made for that.
    if lab.ordered or number < POLICY.poor_condition:
        text = f"Condition number of the response matrix {number:.3g}; below {POLICY.poor_condition:g} is good enough."
        return Finding(code="told_apart", question=question, state="ok", text=text)
    pairs = confusable_classes(lab.M)
    which = f" ({lab.classes[pairs[0][0]]!r} and {lab.classes[pairs[0][1]]!r})" if pairs else ""
    return Finding(
        code="confusable_classes",
        question=question,
        state="care",
        text=f"The bins hardly tell some classes apart{which}: condition number of M {number:.3g}. Estimates will lean "
        "on the prior.",
        remedy="Use more bins, a better model, or merge classes.",
    )


def held_out(lab: Lab) -> Finding:
    """A lab that is the training set."""
    question = "Were the lab rows kept out of training?"
    if lab.log_loss is None:
        return Finding(code="maybe_held_out", question=question, state="ask", text="Only you can know.")
    if lab.n < POLICY.too_good_rows or lab.log_loss >= POLICY.too_good:
        text = f"Their log loss is {lab.log_loss:.3g}: plausible."
        return Finding(code="held_out", question=question, state="ok", text=text)
    return Finding(
        code="too_good",
        question=question,
        state="care",
        text=f"The lab's log loss is {lab.log_loss:.2g}, implausibly low. Are these rows the model was trained on?",
        remedy="Use held-out rows, or the field will look as if it had moved.",
    )


def calibrated(lab: Lab) -> Finding | None:
    """Predictions that are not the shares they claim to be."""
    question = "Is the model calibrated on the lab?"
    if _only_decisions(lab):  # said by `probabilities`: no calibration makes them what they are not
        return None
    error, p_value = lab.calibration.error, lab.calibration.p_value
    if error <= POLICY.poor_calibration or p_value >= POLICY.poor_calibration_p:
        text = f"Predictions and shares differ by {error:.3f} on average in the lab."
        return Finding(code="calibrated", question=question, state="ok", text=text)
    return Finding(
        code="uncalibrated",
        question=question,
        state="care",
        text=f"The model is not calibrated on the lab: predictions and shares differ by {error:.3f} on average. "
        "Prevalences stay right, recalibrated probabilities inherit the error.",
        remedy=f"Calibrate first, for instance with {_SIGMOID} in Recalibrator.",
    )


def homogeneous(lab: Lab) -> Finding | None:
    """Lab groups in which a class does not look like itself."""
    found = lab.homogeneity
    if found is None:
        return None
    question = "Does a class look the same in all lab groups?"
    measured = f"Cramér's V {found.effect:.2f}"
    if found.effect <= POLICY.small_effect or found.p_value >= POLICY.heterogeneity_p:
        return Finding(code="homogeneous", question=question, state="ok", text=f"Yes ({measured}).")
    text = f"The lab's groups differ in what a class looks like ({measured}): they differ by more than their "
    return Finding(code="heterogeneous", question=question, state="care", text=f"{text}prevalences.")


def probabilities(lab: Lab) -> Finding | None:
    """Hard decisions in place of probabilities."""
    if not _only_decisions(lab):
        return None
    return Finding(
        code="hard_decisions",
        question="Are the predictions probabilities?",
        state="care",
        text="All lab predictions are exactly 0 or 1: these are hard decisions, not probabilities. Prevalences can be "
        "estimated from them (it is the adjusted count), but whether the field moved by label shift cannot be tested, "
        "and recalibrated they stay 0 and 1.",
        remedy="Pass the model's probabilities: predict_proba, not predict.",
    )


def separates(lab: Lab) -> Finding | None:
    """Predictions that say next to nothing about the class."""
    if lab.n_bins == 1 or _worse_than_chance(lab) is not None:  # said above, and worse
        return None
    found = guards.separation(np.asarray(lab.F, dtype=np.float64), lab.bin_means)
    low, high = POLICY.separates
    margin = POLICY.separates_for_sure * found.error
    enough = lab.F.sum(axis=1) >= POLICY.enough_class_rows  # of others, `enough_rows` speaks
    known = np.array([enough[a] and enough[b] for a, b in found.pairs])
    blind = known & (found.auc < low) & (found.auc + margin < high)
    weak = known & ((found.auc < high) | (found.auc - margin < 0.5))
    # Of many classes some are alike, and neighbours in an order are by nature: only what is next to chance is told.
    if not (weak.all() if lab.ordered or len(lab.classes) == 2 else blind.any()):
        return None
    worst = int(np.where(weak, found.auc, np.inf).argmin())
    names = " and ".join(group_keys.show(lab.classes[k], width=30) for k in found.pairs[worst])
    measured = f"AUC {found.auc[worst]:.2f} ± {found.error[worst]:.2f}, where .5 is chance"
    text = f"The predictions hardly tell {names} apart: {measured}. What a field says about their prevalences is "
    return Finding(
        code="cannot_separate",
        question="Do the predictions separate the classes at all?",
        state="do_not_use" if blind.all() else "care",
        text=f"{text}mostly noise.",
        remedy="Use a model that knows more about them, or label more rows if there are few; of more than two classes, "
        "merge these.",
    )


def bins_filled(lab: Lab) -> Finding | None:
    """More bins than the lab can fill; those that the caller cut, as others are limited by `learn`."""
    most = most_bins(lab.n_effective, ordered=lab.ordered)
    if lab.n_bins <= most:
        return None
    return Finding(
        code="many_bins",
        question="Has the lab enough rows for its bins?",
        state="care",
        text=f"There are {lab.n_bins:,} bins, but the lab's rows fill {most:,} at most: noise in the bins blurs the "
        "classes, and the estimate is biased towards the lab.",
        remedy=f"Cut at fewer edges, {most:,} bins at most, or label more rows.",
    )


def _only_decisions(lab: Lab) -> bool:
    """Whether every prediction was exactly 0 or 1: only then are all means of bins."""
    if lab.partition.takes == "ids":
        return False
    means = lab.bin_means[lab.bin_scores.any(axis=1)]
    return bool(np.isin(means, (0.0, 1.0)).all())


def _worse_than_chance(lab: Lab) -> int | None:
    """A class whose predictions are clearly lower on its own rows than on the others; None if there is none."""
    F = lab.F_effective
    for k, own in enumerate(F):
        (high, high_error), (low, low_error) = (
            _mean(lab.bin_means[:, k], rows) for rows in (own, F.sum(axis=0) - own)
        )
        if high - low < -POLICY.worse_than_chance * np.hypot(high_error, low_error) - 1e-12:
            return k
    return None


def _mean(values: NDArray[np.float64], rows: NDArray[np.float64]) -> tuple[float, float]:
    """Weighted mean and its standard error."""
    n = max(float(rows.sum()), 1e-300)
    mean = float(rows @ values) / n
    return mean, float(np.sqrt(max(float(rows @ values**2) / n - mean**2, 0.0) / n))


# Trust ------------------------------------------------------------------------------------------------------


def set_by_caller(seen: Seen) -> Finding | None:
    """A trust that nobody earned."""
    if not seen.trust.set_by_caller:
        return None
    text = (
        f"Label shift is taken to hold with probability {seen.trust.overall:g}, as told: assumed, not tested."
    )
    remedy = _CAUSES if seen.trust.overall > 0 else ""
    return Finding(code="assumed", question="Was the trust earned?", state="care", text=text, remedy=remedy)


def rehearsed(seen: Seen) -> Finding | None:
    """What happened when the lab's own groups played the field."""
    found, trust = seen.evidence.rehearsal, seen.trust
    if trust.set_by_caller or not seen.field.grouped or found is None:
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
    harms = bool(worst > POLICY.sure_harm * error) and trust.rehearsed == 1 and trust.nothing
    if harms:
        text += f" The full correction made log loss worse by {worst:.3f} ± {error:.3f}."
    return Finding(code="rehearsed", question=_BY_MIX, state="do_not_use" if harms else "care", text=text)


def withheld(seen: Seen) -> Finding | None:
    """A field that goes beyond what was rehearsed."""
    found, trust = seen.evidence.rehearsal, seen.trust
    if trust.set_by_caller or not seen.field.grouped or found is None:
        return None
    question = "Is the field like what was rehearsed?"
    if trust.rehearsed < POLICY.withheld:
        text = f"Groups differ more than those of the lab did: the rehearsal speaks for {trust.rehearsed:.0%} of it."
        return Finding(
            code="beyond_rehearsal", question=question, state="care", text=text, remedy=_labels(seen)
        )
    if trust.between >= POLICY.withheld * found.trust:
        return None
    text = f"The rehearsal earned a trust of {found.trust:.2f} in how groups differ; {trust.between:.2f} is used, "
    text += "because the field moved in a way that was not rehearsed."
    return Finding(code="trust_withheld", question=question, state="care", text=text)


def not_rehearsed(seen: Seen) -> Finding | None:
    """Groups whose differences only histograms speak of."""
    between = seen.evidence.between
    if seen.trust.set_by_caller or between is None or seen.evidence.rehearsal is not None:
        return None
    if not between.shifted:
        text = "The groups do not differ beyond noise: nothing is corrected between them."
        return Finding(code="groups_alike", question=_BY_MIX, state="ok", text=text)
    share = f"Label shift explains {_share(between.share)} of how the groups differ"
    remedy = f"Give {_GROUPS} the grouping that the field has, to rehearse it."
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
    if not found.shifted:
        text = f"The {'whole ' if seen.field.grouped else ''}field has not moved from the lab beyond noise"
        if given and seen.trust.overall > 0:
            text += ": what is corrected may be noise."
            return Finding(code="unmoved", question=_WHOLE, state="care", text=text)
        end = ": unchanged." if seen.trust.nothing else ": nothing is corrected for it."
        return Finding(code="unmoved", question=_WHOLE, state="ok", text=f"{text}{end}")
    share = f"Label shift explains {_share(found.share)} of how the whole field moved"
    if seen.evidence.refused(found, float(seen.evidence.whole.effect[0])):
        text = f"{share}: the field is another population, not another mix of classes."
        state: State = "care" if given else "do_not_use"
        return Finding(
            code="another_population", question=_WHOLE, state=state, text=text, remedy=_labels(seen)
        )
    if not found.testable:
        text = "The field has moved; with as many bins as classes, whether by label shift cannot be tested."
        return Finding(
            code="shift_untestable", question=_WHOLE, state="care", text=text, remedy=_labels(seen)
        )
    return _explained(seen, share)


def _explained(seen: Seen, share: str) -> Finding:
    """A movement that label shift explains in part: followed as far as unlabelled rows can earn."""
    trust, found = seen.trust, seen.evidence.overall
    range_ = f" (between {_share(found.lower)} and {_share(found.upper)})" if found.lower < 0.995 else ""
    if trust.set_by_caller:
        return Finding(code="shift_explained", question=_WHOLE, state="care", text=f"{share}{range_}.")
    if trust.overall == 0:
        text = f"{share}{range_}{_why_not(found)}: it is not followed."
        return Finding(code="shift_uncertain", question=_WHOLE, state="care", text=text, remedy=_labels(seen))
    text = (
        f"{share}{range_}. Other changes can look alike: it is followed with probability {trust.overall:.2f}."
    )
    return Finding(code="shift_believed", question=_WHOLE, state="care", text=text, remedy=_labels(seen))


def _why_not(found: ShiftExplained) -> str:
    """What a movement lacks that is not followed at all."""
    if found.share <= POLICY.explained[0] or found.upper <= POLICY.explained_most[0]:
        return ", too little"
    if found.lower <= POLICY.explained_least[0]:
        return ", but that may be noise"
    return ", but the predictions know too little of the classes to tell"


def _labels(seen: Seen) -> str:
    """How many labels would decide which story holds."""
    if seen.whole is None:
        return _LABEL_SOME
    n = labels_to_decide(seen.whole.mean_prediction, seen.whole.urc)
    if n is None:
        return _LABEL_SOME
    return f"About {n:,} labelled rows, drawn from the field at random, would decide: see fieldcal plan."


# The field --------------------------------------------------------------------------------------------------


def looks_alike(seen: Seen) -> Finding:
    """A field that no mixture of the lab's classes explains."""
    question, whole = "Does the field look like a mixture of the lab's classes?", seen.evidence.whole
    measured = f"Cohen's w {float(whole.effect[0]):.2f}"
    if whole.df <= 0 or not seen.field.n.sum():
        text = "Cannot be tested: there are no more bins than classes, or no rows."
        return Finding(code="mixture_untestable", question=question, state="ask", text=text)
    if seen.evidence.unlike_any_mixture:
        return Finding(
            code="unlike_any_mixture",
            question=question,
            state="do_not_use",
            text=f"The field does not look like any mixture of the lab's classes ({measured}): another model, a fault "
            "in scoring, or another world.",
            remedy="Check that lab and field were scored by the same model, in the same units.",
        )
    if not seen.field.grouped and seen.evidence.inconsistent.any():
        text = f"The field does not look like any mixture of the classes ({measured}; .1 is small, .5 large)."
        return Finding(code="misfit", question=question, state="care", text=text)
    text = f"As far as can be seen ({measured} beyond noise; below .1 is small)."
    return Finding(code="looks_alike", question=question, state="ok", text=text)


def groups_fit(seen: Seen) -> Finding | None:
    """Groups that no mixture of the classes explains."""
    if not seen.field.grouped:
        return None
    question, odd = "Does every group look like a mixture of the classes?", seen.evidence.inconsistent
    if not odd.any():
        return Finding(code="groups_fit", question=question, state="ok", text="None stands out.")
    G, effect = len(odd), np.where(odd, seen.evidence.misfit.effect, -1.0)
    worst = np.argsort(-effect, kind="stable")[: min(_NAMED, int(odd.sum()))]
    text = (
        f"{int(odd.sum()):,} of {G:,} groups ({odd.mean():.0%}) do not look like any mixture of the classes."
    )
    return Finding(
        code="groups_inconsistent",
        question=question,
        state="care",
        text=text,
        remedy="Look at the groups marked inconsistent: what is different about them?",
        groups=tuple(seen.field.groups[g] for g in worst),
    )


def overdispersed(seen: Seen) -> Finding | None:
    """Misfit that looks like variance."""
    if seen.evidence.edge != "low":
        return None
    text = "The groups differ more than prevalences can (κ at the low edge of its range): misfit that looks like "
    return Finding(
        code="overdispersed",
        question="Do groups differ as prevalences can?",
        state="care",
        text=f"{text}variance.",
        remedy="Read the verdict before you use the estimates.",
    )


def converged(seen: Seen) -> Finding | None:
    """A solver that stopped at its limit."""
    mode = seen.evidence.mode
    if mode is None or mode.converged.all():
        return None
    text = (
        f"{int((~mode.converged).sum())} of {len(mode.gap)} groups stopped at the iteration limit, the worst "
    )
    text += f"with an optimality gap of {mode.gap.max():.2g} per row."
    return Finding(
        code="not_converged",
        question="Is every mode found?",
        state="care",
        text=text,
        remedy="Raise max_iter.",
    )


def complete(seen: Seen) -> Finding:
    """Rows without a prediction."""
    dropped, question = seen.field.dropped, "Does every field row have a prediction?"
    total = dropped + float(seen.field.n.sum())
    if dropped > POLICY.many_dropped * total:
        text = f"{dropped:,} rows had no prediction and were dropped."
        return Finding(code="rows_dropped", question=question, state="care", text=text)
    text = f"{dropped:,} of {total:,.0f} rows had none and were dropped."
    return Finding(code="complete", question=question, state="ok", text=text)


def independent(seen: Seen) -> Finding:
    """Rows that say the same thing more than once."""
    question, field, text = "Are field rows independent of each other?", seen.field, ""
    n = float(field.n.sum())
    rows = n * float(row_per_weight(n, field.weight_squares.sum()))
    if rows != n:
        text = f"Their weights, {n:,.6g} together, say as much as {rows:,.0f} rows of equal weight (Kish). "
    if seen.design_effect > 1:
        text += f"Not taken to be: with a design effect of {seen.design_effect:g} they say as much as "
        text += f"{rows / seen.design_effect:,.0f} independent ones."
        return Finding(code="design_effect", question=question, state="ask", text=text)
    text += f"Assumed. If some share a person, a place or a day, estimate with {_DESIGN}, or intervals are too narrow."
    return Finding(code="maybe_dependent", question=question, state="ask", text=text)


def no_new_class(seen: Seen) -> Finding:
    """Rows where the lab had none."""
    question, novel = "Could the field hold a class that the lab never saw?", float(seen.evidence.novel.sum())
    if novel > 0:
        text = f"{novel:g} rows fall into bins that the lab never filled."
        return Finding(code="novel", question=question, state="care", text=text)
    text = "Only you can know. No row falls where the lab had none."
    return Finding(code="maybe_new_class", question=question, state="ask", text=text)


def may_depend_on_groups(seen: Seen) -> Finding:
    """Groups that must not decide."""
    question = "May decisions depend on the group?"
    if seen.protected:
        text = "No: declared protected. Estimated, but not to be applied."
        remedy = "Use the prevalences to watch the groups; predictions are not to be changed by them."
        return Finding(code="protected", question=question, state="ask", text=text, remedy=remedy)
    if not seen.field.grouped:
        return Finding(code="no_groups", question=question, state="ok", text="There are no groups.")
    text = f"Only you can know. If not, estimate with {_PROTECTED}."
    return Finding(code="maybe_protected", question=question, state="ask", text=text)


def no_bias(seen: Seen) -> Finding:
    """A feature that stands for the group."""
    text = "Only you can know. A feature that stands for the group would make the correction count twice."
    question = "Is the model free of bias for these groups?"
    return Finding(code="maybe_biased", question=question, state="ask", text=text)


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


def counted_raw(seen: Seen) -> Finding | None:
    """Predictions that were recalibrated before they were counted."""
    found = seen.suspicions.get("recalibrated")
    if found is None:
        return None
    text = (
        f"The field looks as if its predictions had been recalibrated before, to {found.prevalence:.0%} of "
    )
    text += f"{group_keys.show(seen.lab.classes[1], width=30)}, far more than like any mixture of the lab's classes "
    return Finding(
        code="recalibrated_before",
        question="Were raw predictions counted?",
        state=_sure(found),
        text=f"{text}({_odds(found)}).",
        remedy="Count the predictions as the model gives them; a correction that is made twice is wrong.",
    )


def narrow(seen: Seen) -> Finding | None:
    """Intervals that leave nearly everything possible."""
    if seen.width is None:
        return None
    widest = np.asarray(seen.width).max(axis=1, initial=0.0)
    wide = np.flatnonzero(widest > POLICY.wide)
    if not len(wide):
        return None
    n = np.asarray(seen.field.n, dtype=np.float64)
    many = n[wide].sum() >= POLICY.many_dropped * n.sum() or len(wide) >= POLICY.many_dropped * len(n)
    whom = f"{len(wide):,} of {len(widest):,} groups" if seen.field.grouped else "this field"
    worst = wide[np.argsort(-widest[wide], kind="stable")][:_NAMED]
    return Finding(
        code="says_nothing",
        question="Do the intervals say anything?",
        state="care" if many else "ok",
        text=f"The interval of {whom} spans more than {POLICY.wide:.0%} of what is possible: the data say next to "
        "nothing here.",
        remedy="Do not act on these estimates; count more rows, merge small groups, or label some.",
        groups=tuple(seen.field.groups[g] for g in worst) if seen.field.grouped else (),
    )


def recall_kept(seen: Seen) -> Finding | None:
    """Classes that disappear from hard decisions."""
    if seen.lab.outcome.kind == "intervals" or not seen.steps:
        return None
    lab = seen.lab
    before, after = (guards.recall(lab.M, lab.bin_means, steps) for steps in ((), seen.steps))
    lost = np.flatnonzero((before >= POLICY.recall_before) & (after < POLICY.recall_kept * before))
    if not len(lost):
        return None
    worst = lost[np.argsort(after[lost] - before[lost], kind="stable")][:_NAMED]
    falls = ", ".join(
        f"{group_keys.show(lab.classes[k], width=30)} from {before[k]:.2f} to {after[k]:.2f}" for k in worst
    )
    return Finding(
        code="recall_lost",
        question="Does every class survive in hard decisions?",
        state="care",
        text=f"If the largest recalibrated prediction decides, recall falls: {falls}. The probabilities are right, but "
        "a class that got rare hardly ever has the largest.",
        remedy=f"Use {_BALANCED} where every class matters, or costs of errors as the goal.",
    )


def _sure(found: guards.Suspicion) -> State:
    """A real field can look a little like a fault, never so much."""
    return "do_not_use" if found.gain >= POLICY.certain else "care"


def _odds(found: guards.Suspicion) -> str:
    return f"odds of a {'million' if found.gain >= POLICY.certain else 'thousand'} to one or more"


def _share(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.0%}"


_BY_MIX = "Do groups differ only in their mix of classes?"
_WHOLE = "Did the whole field move only in its mix of classes?"
_LABEL_SOME = "A few hundred labelled rows, drawn from the field at random, would decide: see fieldcal plan."
_CAUSES = (
    "Does the class cause what the model sees, as a species its measurements or a disease its symptoms? Then label "
    "shift is plausible. Does what the model sees cause the class, as an occupation the income? Then it is not."
)
_CHECK_ORDER = "Check the order of the columns, and which class a single column speaks of, in lab and field."
#: Faults by the finding that speaks of them.
_FAULTS = dict.fromkeys(("percent", "probit", "sigmoid_twice", "slope"), "other_units")
_UNITS = {
    "percent": "if its predictions had been divided by 100",
    "probit": "if its logits had gone through a probit in place of a sigmoid",
    "sigmoid_twice": "if a sigmoid had been applied to what are probabilities already",
}

LAB: list[Callable[[Lab], Finding | None]] = [
    better_than_chance,
    enough_rows,
    told_apart,
    held_out,
    calibrated,
    homogeneous,
    probabilities,
    separates,
    bins_filled,
]
FIELD: list[Callable[[Seen], Finding | None]] = [
    looks_alike,
    set_by_caller,
    rehearsed,
    withheld,
    not_rehearsed,
    one_population,
    shift,
    groups_fit,
    overdispersed,
    converged,
    complete,
    independent,
    no_new_class,
    may_depend_on_groups,
    no_bias,
    same_units,
    same_order,
    counted_raw,
    narrow,
    recall_kept,
]


def group_status(lab: Lab, n: Floats, evidence: Evidence) -> tuple[str, ...]:
    """What to know about each group of n effective rows: flags joined by commas, or "ok"."""
    misfit = evidence.misfit
    with np.errstate(divide="ignore", invalid="ignore"):
        below = misfit.free < -POLICY.impossible * np.maximum(misfit.free_se, 1e-12)
    flags = {
        "prior_only": (n == 0) | (lab.n_bins == 1),
        "few_rows": (n > 0) & (n < POLICY.few_group_rows),
        "novel": evidence.novel > 0,
        "inconsistent": evidence.inconsistent,
        "boundary": below.any(axis=1) & (n >= POLICY.few_group_rows),
        "not_converged": np.zeros(len(n), dtype=bool) if evidence.mode is None else ~evidence.mode.converged,
    }
    table = np.column_stack(list(flags.values()))
    names = np.array(list(flags))
    calm = np.asarray(~table.any(axis=1))
    return tuple("ok" if calm[g] else ",".join(names[table[g]]) for g in range(len(n)))
