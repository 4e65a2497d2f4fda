"""From evidence to findings. Each finding is a small function in a list; to add one, write it and add it to the list.

`LAB` looks at a lab alone (`learn` warns of what it finds), `FIELD` at everything that `estimate` measured. The
report's checklist is both lists in their order; thresholds are in `core.policy`, nowhere else.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable

from fieldcal.errors import (
    CalibrationWarning,
    ConvergenceWarning,
    FieldcalWarning,
    IdentifiabilityWarning,
    Option,
    PoolingWarning,
    SmallSampleWarning,
)
from fieldcal.objects import Finding, Lab
from fieldcal.verbs.findings import cautions, faults, field, judges, lab, labels, trust
from fieldcal.verbs.findings.evidence import SPOKEN_OF
from fieldcal.verbs.findings.evidence import Seen as Seen
from fieldcal.verbs.findings.field import group_status as group_status

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

LAB: list[Callable[[Lab], Finding | None]] = [
    lab.better_than_chance,
    lab.enough_rows,
    lab.told_apart,
    lab.held_out,
    lab.calibrated,
    lab.probabilities,
    lab.separates,
    lab.bins_filled,
]
FIELD: list[Callable[[Seen], Finding | None]] = [
    field.looks_alike,
    trust.set_by_caller,
    trust.lab_groups,
    trust.rehearsed,
    trust.withheld,
    trust.not_rehearsed,
    trust.one_population,
    trust.shift,
    labels.contradicted,
    labels.random_sample,
    labels.among_the_rows,
    labels.scores_hold,
    field.every_group_labelled,
    field.groups_fit,
    field.overdispersed,
    field.converged,
    field.complete,
    field.known_values,
    field.independent,
    field.no_new_class,
    field.narrow,
    faults.same_units,
    faults.same_order,
    faults.counted_raw,
    cautions.homogeneous,
    cautions.no_bias,
    cautions.may_depend_on_groups,
    cautions.recall_kept,
    cautions.errors_kept,
]
#: Of values, whose shares come with all that is not known of the judge: there is nothing that a lab alone would show.
OF_VALUES: list[Callable[[Seen], Finding | None]] = [
    judges.rests_on,
    judges.tells_apart,
    judges.same_judge,
    judges.random_sample,
    judges.every_value_checked,
    field.every_group_labelled,
    field.looks_alike,
    field.groups_fit,
    field.complete,
    field.known_values,
    field.independent,
    field.no_new_class,
    field.narrow,
]


def findings(seen: Seen) -> tuple[Finding, ...]:
    """All that is to be said about an estimate, in the order of the checklist."""
    if seen.judged is not None:
        return tuple(finding for ask in OF_VALUES if (finding := ask(seen)) is not None)
    found = (*(ask(seen.lab) for ask in LAB), *(ask(seen) for ask in FIELD))
    return tuple(labels.for_people(seen, finding) for finding in found if finding is not None)


def warn_about_lab(lab: Lab) -> None:
    """Warn of what makes every estimate from this lab shaky."""
    _warn((ask(lab) for ask in ([] if lab.of_values else LAB)), WARNED_IN_LAB, stacklevel=4)


def warn_about_field(found: Iterable[Finding]) -> None:
    """Warn of what makes this estimate shaky, beyond what `learn` warned of."""
    _warn(found, WARNED_IN_FIELD, stacklevel=5)


def _warn(
    found: Iterable[Finding | None], categories: dict[str, type[FieldcalWarning]], *, stacklevel: int
) -> None:
    for finding in found:
        if finding is None or (finding.code in _WARNED_AT_WORST and finding.state != "do_not_use"):
            continue
        if finding.code in categories:
            text = f"{finding.text} {finding.remedy}".strip()
            warnings.warn(categories[finding.code](*in_parts(text)), stacklevel=stacklevel)


def in_parts(text: str) -> tuple[str | Option, ...]:
    """The text of a finding in parts, its options as such: so a front end can spell them its own way."""
    spelled = {str(option): option for option in SPOKEN_OF}
    parts = re.split(f"({'|'.join(map(re.escape, spelled))})", text)
    return tuple(spelled.get(part, part) for part in parts if part)
