"""From evidence to findings: a rule gives a code and numbers, `messages` has the words for each code.

To add a finding, write its rule, add it to a list below, and its message to the table. `LAB` looks at a lab alone
(`learn` warns of what it finds), `FIELD` at everything that `estimate` measured, `JUDGED` at the categories of a judge
or a test. The report's checklist is `LAB` and `FIELD` in their order. Thresholds are in `core.policy`, nowhere else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

from fieldcal.errors import (
    CalibrationWarning,
    ConvergenceWarning,
    FieldcalWarning,
    IdentifiabilityWarning,
    PoolingWarning,
    SmallSampleWarning,
)
from fieldcal.objects import Finding, Lab
from fieldcal.verbs.findings import rules_decisions as decisions
from fieldcal.verbs.findings import rules_field as field
from fieldcal.verbs.findings import rules_lab as lab
from fieldcal.verbs.findings import rules_shift as shift
from fieldcal.verbs.findings.context import Context as Context
from fieldcal.verbs.findings.messages import in_words
from fieldcal.verbs.findings.messages import marked as marked
from fieldcal.verbs.findings.rules_field import group_status as group_status
from fieldcal.verbs.findings.wording import Raised

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

LAB: list[Callable[[Lab], Raised | None]] = [
    lab.better_than_chance,
    lab.enough_rows,
    lab.told_apart,
    lab.held_out,
    lab.calibrated,
    lab.probabilities,
    lab.separates,
    lab.bins_filled,
]
FIELD: list[Callable[[Context], Raised | None]] = [
    field.looks_alike,
    shift.set_by_caller,
    shift.lab_groups,
    shift.rehearsed,
    shift.withheld,
    shift.not_rehearsed,
    shift.one_population,
    shift.shift,
    shift.break_even,
    shift.contradicted,
    shift.random_sample,
    shift.among_the_rows,
    shift.scores_hold,
    field.every_group_labelled,
    field.groups_fit,
    field.overdispersed,
    field.converged,
    field.complete,
    field.known_values,
    field.independent,
    field.no_new_class,
    field.narrow,
    field.same_units,
    field.same_order,
    field.counted_raw,
    decisions.homogeneous,
    decisions.no_bias,
    decisions.may_depend_on_groups,
    decisions.recall_kept,
    decisions.errors_kept,
]
#: Of a judge, whose errors are part of what is estimated: there is nothing that a lab alone would show.
JUDGED: list[Callable[[Context], Raised | None]] = [
    field.rests_on,
    field.tells_apart,
    field.same_judge,
    field.random_sample,
    field.every_value_checked,
    field.every_group_labelled,
    field.looks_alike,
    field.groups_fit,
    field.complete,
    field.known_values,
    field.independent,
    field.no_new_class,
    field.narrow,
]


def findings(context: Context) -> tuple[Finding, ...]:
    """Everything that was found about an estimate, in the order of the checklist."""
    if context.judged is not None:
        found = [rule(context) for rule in JUDGED]
    else:
        found = [*(rule(context.lab) for rule in LAB), *(rule(context) for rule in FIELD)]
        found = [raised and shift.settled(context, raised) for raised in found]
    return tuple(in_words(raised) for raised in found if raised is not None)


def warn_about_lab(lab: Lab) -> None:
    """Warn of what makes every estimate from this lab shaky."""
    found = [rule(lab) for rule in ([] if lab.of_values else LAB)]
    _warn([in_words(raised) for raised in found if raised is not None], WARNED_IN_LAB, stacklevel=4)


def warn_about_field(found: Iterable[Finding]) -> None:
    """Warn of what makes this estimate shaky, beyond what `learn` warned of."""
    _warn(found, WARNED_IN_FIELD, stacklevel=5)


def _warn(found: Iterable[Finding], categories: dict[str, type[FieldcalWarning]], *, stacklevel: int) -> None:
    for finding in found:
        only_worst = finding.code in _WARNED_AT_WORST and finding.state != "do_not_use"
        if finding.code in categories and not only_worst:
            warnings.warn(categories[finding.code](marked(finding)), stacklevel=stacklevel)
