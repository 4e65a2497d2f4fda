"""The warnings of a lab, the status of each group, and the verdict over all."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.goodness_of_fit import NOISE, Misfit, Movement, misfit
from fieldcal.core.response import POOR_CONDITION, confusable_classes
from fieldcal.core.trust import ALONE, RAMP, Trust
from fieldcal.errors import (
    CalibrationWarning,
    FieldcalWarning,
    IdentifiabilityWarning,
    Option,
    SmallSampleWarning,
)
from fieldcal.objects import Field, Lab
from fieldcal.objects.verdict import Level, Verdict

FEW_CLASS_ROWS = 5
#: Lab rows of a class below which nothing is simply "ok".
ENOUGH_CLASS_ROWS = 30
FEW_GROUP_ROWS = 20
#: Misfits smaller than this (Cohen's w) are real in a large group and do not matter.
SMALL_EFFECT = 0.1
#: A field that misses every mixture by this much (Cohen's w) is not of this model.
LARGE_EFFECT = 0.5
FALSE_DISCOVERIES = 0.05
#: Standard errors below zero that a free prevalence must reach to be called impossible.
OUTSIDE = 3.0
#: Mean distance between predictions and shares in the lab that deserves a warning, if it is no chance.
POOR_CALIBRATION = 0.03
#: A trust below this share of what the rehearsal earned is told.
HELD_BACK = 0.75
#: A lab this good is probably the training set.
TOO_GOOD = 0.005


@dataclass(frozen=True)
class Findings:
    """What the estimate noticed, for the verdict to weigh."""

    whole: Misfit  # of the whole field as one population
    misfit: Misfit
    novel: NDArray[np.float64]
    trust: Trust
    asked: bool  # whether the caller set the trust
    edge: str


def warn_about_lab(lab: Lab) -> None:
    """Warn of what makes every estimate from this lab shaky."""
    for concern in lab_concerns(lab):
        warnings.warn(concern, stacklevel=3)


def lab_concerns(lab: Lab) -> list[FieldcalWarning]:
    """What is shaky about a lab, in words."""
    found = (_backwards(lab), _few_rows(lab), _alike(lab), _too_good(lab), _uncalibrated(lab))
    return [concern for concern in found if concern is not None]


def _backwards(lab: Lab) -> FieldcalWarning | None:
    worst = worse_than_chance(lab)
    if worst is None:
        return None
    return CalibrationWarning(
        f"Predictions for class {lab.classes[worst]!r} are lower on rows of that class than on others: worse than "
        f"chance. Are the columns in the order of the classes {lab.classes!r:.200}? If not, pass ",
        Option("classes"),
        " in their order.",
    )


def _few_rows(lab: Lab) -> FieldcalWarning | None:
    rows = lab.F.sum(axis=1)
    rarest = int(rows.argmin())
    if rows[rarest] > FEW_CLASS_ROWS:
        return None
    return SmallSampleWarning(
        f"Class {lab.classes[rarest]!r} has {rows[rarest]:g} lab rows: where its predictions fall is mostly a "
        "guess, and the intervals will be wide. Label more rows of it.",
    )


def _alike(lab: Lab) -> FieldcalWarning | None:
    # Neighbours in an order are hard to tell apart by nature: the smooth prior is made for that.
    if lab.ordered or lab.n_bins == 1 or lab.conditioning.condition_number < POOR_CONDITION:
        return None
    pairs = confusable_classes(lab.M)
    which = f" ({lab.classes[pairs[0][0]]!r} and {lab.classes[pairs[0][1]]!r})" if pairs else ""
    return IdentifiabilityWarning(
        f"The bins hardly tell some classes apart{which}: condition number of M "
        f"{lab.conditioning.condition_number:.3g}. Estimates will lean on the prior. Use more bins, a better "
        "model, or merge classes.",
    )


def _too_good(lab: Lab) -> FieldcalWarning | None:
    if lab.log_loss is None or lab.n < 100 or lab.log_loss >= TOO_GOOD:
        return None
    return CalibrationWarning(
        f"The lab's log loss is {lab.log_loss:.2g}, implausibly low. Are these rows the model was trained on? "
        "Use held-out rows, or the field will look as if it had moved.",
    )


def _uncalibrated(lab: Lab) -> FieldcalWarning | None:
    if lab.calibration.error <= POOR_CALIBRATION or lab.calibration.p_value >= 1e-4:
        return None
    return CalibrationWarning(
        f"The model is not calibrated on the lab: predictions and shares differ by "
        f"{lab.calibration.error:.3f} on average. Prevalences stay right, recalibrated probabilities inherit "
        "the error. Calibrate first, for instance with ",
        Option("calibration", "sigmoid"),
        " in Recalibrator.",
    )


def worse_than_chance(lab: Lab) -> int | None:
    """A class whose predictions are clearly lower on its own rows than on the others; None if there is none."""
    F = np.asarray(lab.F, dtype=np.float64)
    for k, own in enumerate(F):
        means = [_mean(lab.bin_means[:, k], rows) for rows in (own, F.sum(axis=0) - own)]
        (high, high_error), (low, low_error) = means
        if high - low < -4 * np.hypot(high_error, low_error) - 1e-12:
            return k
    return None


def _mean(values: NDArray[np.float64], rows: NDArray[np.float64]) -> tuple[float, float]:
    """Weighted mean and its standard error."""
    n = max(float(rows.sum()), 1e-300)
    mean = float(rows @ values) / n
    return mean, float(np.sqrt(max(float(rows @ values**2) / n - mean**2, 0.0) / n))


def group_status(lab: Lab, field: Field, findings: Findings, converged: NDArray[np.bool_]) -> tuple[str, ...]:
    """What to know about each group: flags joined by commas, or "ok"."""
    misfit, n = findings.misfit, field.n
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = (misfit.free < -OUTSIDE * np.maximum(misfit.free_se, 1e-12)).any(axis=1) & (n > 0)
    flags = {
        "prior_only": (n == 0) | (lab.n_bins == 1),
        "few_rows": (n > 0) & (n < FEW_GROUP_ROWS),
        "novel": findings.novel > 0,
        "inconsistent": inconsistent(misfit),
        "boundary": outside & (n >= FEW_GROUP_ROWS),
        "not_converged": ~converged,
    }
    table = np.column_stack(list(flags.values()))
    names = np.array(list(flags))
    calm = np.asarray(~table.any(axis=1))
    return tuple("ok" if calm[g] else ",".join(names[table[g]]) for g in range(len(n)))


def whole_misfit(lab: Lab, field: Field, common: NDArray[np.float64]) -> Misfit:
    """How far the whole field is from every mixture of the classes."""
    total = np.asarray(field.V.sum(axis=0, keepdims=True), dtype=np.float64)
    return misfit(lab.M, total, common[None], rows=lab.A.sum(axis=1))


def is_foreign(whole: Misfit) -> bool:
    """A field so unlike the lab that nothing learnt there applies: another model, a scoring fault, another world."""
    return bool(whole.effect[0] > LARGE_EFFECT and whole.p_value[0] < NOISE)


def inconsistent(misfit: Misfit) -> NDArray[np.bool_]:
    """Groups that no mixture of the classes explains: beyond chance over all groups, and large enough to matter."""
    return np.asarray((misfit.adjusted < FALSE_DISCOVERIES) & (misfit.effect > SMALL_EFFECT))


def judge(lab: Lab, field: Field, findings: Findings) -> Verdict:
    """Weigh everything: the worst reason decides."""
    reasons: list[tuple[Level, str]] = [("care", str(concern)) for concern in lab_concerns(lab)]
    if worse_than_chance(lab) is not None:
        reasons.append(("do_not_use", "The predictions are worse than chance in the lab itself."))
    if lab.n_bins == 1:
        reasons.append(("do_not_use", "All lab predictions fall into one bin: every field looks the same."))
    rows = lab.F.sum(axis=1)
    if FEW_CLASS_ROWS < rows.min() < ENOUGH_CLASS_ROWS:
        few = lab.classes[int(rows.argmin())]
        reasons.append(
            ("care", f"The lab has only {rows.min():g} rows of class {few!r}: little can be put to the test.")
        )
    if is_foreign(findings.whole):
        reasons.append(
            (
                "do_not_use",
                "The field does not look like any mixture of the lab's classes "
                f"(Cohen's w {findings.whole.effect[0]:.2f}): another model, a fault in scoring, or another world.",
            )
        )
    reasons += _about_trust(lab, field, findings)
    reasons += _about_field(field, findings)
    if (
        lab.homogeneity is not None
        and lab.homogeneity.effect > SMALL_EFFECT
        and lab.homogeneity.p_value < 1e-3
    ):
        reasons.append(
            (
                "care",
                "The lab's groups differ in what a class looks like (Cramér's V "
                f"{lab.homogeneity.effect:.2f}): they differ by more than their prevalences.",
            )
        )
    if findings.edge == "low":
        reasons.append(
            ("care", "The groups differ more than prevalences can: misfit that looks like variance.")
        )
    order: tuple[Level, ...] = ("ok", "care", "do_not_use")
    level: Level = max((r[0] for r in reasons), key=order.index, default="ok")
    ranked = sorted(reasons, key=lambda r: -order.index(r[0]))
    return Verdict(level=level, reasons=tuple(text for _, text in ranked))


def _about_trust(lab: Lab, field: Field, findings: Findings) -> list[tuple[Level, str]]:
    trust, moved = findings.trust, findings.trust.movement
    if findings.asked:
        return [("care", f"The trust was set by hand, to {trust.groups:g}: nothing was put to the test.")]
    found: list[tuple[Level, str]] = []
    rehearsal = lab.rehearsal
    nothing = trust.common == 0 and trust.groups == 0
    if field.grouped and rehearsal is not None:
        text = f"Rehearsed on {rehearsal.n_groups:,} groups and {rehearsal.n_rows:,} rows of the lab: "
        if rehearsal.tau == 0:
            text += (
                "no strength of the correction helped for sure; differences between groups are left alone."
            )
        else:
            change, error = (
                float(np.interp(trust.groups, rehearsal.exponents, curve))
                for curve in (rehearsal.curve, rehearsal.curve_se)
            )
            text += f"log loss is expected to change by {change:+.3f} ± {error:.3f}."
        harms = bool(
            rehearsal.curve[-1] > rehearsal.curve_se[-1]
        )  # the full correction does harm, beyond noise
        refused = nothing and (moved.moved or harms)
        found.append(("do_not_use" if refused else "care" if rehearsal.tau == 0 else "ok", text))
        if trust.groups < HELD_BACK * rehearsal.tau:
            beyond = "because the field goes beyond what was rehearsed"
            earned = f"The rehearsal earned a trust of {rehearsal.tau:.2f} in how groups differ"
            found.append(("care", f"{earned}; {trust.groups:.2f} is used, {beyond}."))
    elif field.grouped:
        found.append(_unrehearsed(trust, nothing))
    if moved.moved:
        found += _about_movement(trust, nothing, alone=not field.grouped)
    elif not field.grouped:
        found.append(("ok", "The field has not moved from the lab beyond noise: there is little to correct."))
    return found


def _about_movement(trust: Trust, nothing: bool, *, alone: bool) -> list[tuple[Level, str]]:
    """A field that moved as a whole: contradicted, not known well enough, or believed."""
    moved = trust.movement
    share = f"Label shift explains {_share(moved.share)} of how the whole field moved"
    level: Level = "do_not_use" if nothing else "care"
    if is_another_population(moved, alone=alone):
        return [(level, f"{share}: the field is another population, not another mix of classes.")]
    if not moved.testable:
        return [
            (
                "care",
                "The field has moved; with as many bins as classes, whether by label shift cannot be tested.",
            )
        ]
    if moved.lower < RAMP[0]:
        end = "it is not relied on" if nothing else "look at it"
        return [
            (level, f"{share}, but as far as these rows tell it may be only {_share(moved.lower)}: {end}.")
        ]
    if trust.common > 0:
        return [("care", f"{share}. A movement of everything cannot be rehearsed; look at it.")]
    return []


def is_another_population(moved: Movement, *, alone: bool) -> bool:
    """Whether the misfit speaks against label shift so plainly that nothing of it is believed."""
    refused = moved.upper < ALONE[0] if alone else moved.share < RAMP[0]
    return moved.contradicted and refused


def _share(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.0%}"


def _unrehearsed(trust: Trust, nothing: bool) -> tuple[Level, str]:
    spread = trust.group_movement or Movement(1.0, 1.0, 1.0, 1.0)
    remedy = "Give learn(…, groups=…) to rehearse it."
    if not spread.moved:
        return ("care", f"The groups do not differ beyond noise: nothing to correct between them. {remedy}")
    text = f"Label shift explains {_share(spread.share)} of how the groups differ; not rehearsed. {remedy}"
    return ("do_not_use" if nothing else "care", text)


def _about_field(field: Field, findings: Findings) -> list[tuple[Level, str]]:
    found: list[tuple[Level, str]] = []
    odd = int(inconsistent(findings.misfit).sum())
    if odd:
        share = odd / max(len(field.groups), 1)
        found.append(
            (
                "care",
                f"{odd:,} of {len(field.groups):,} groups ({share:.0%}) do not look like any mixture of the classes."
                if field.grouped
                else "The field does not look like any mixture of the classes.",
            )
        )
    if findings.novel.sum() > 0:
        found.append(("care", f"{findings.novel.sum():g} rows fall into bins that the lab never filled."))
    if field.dropped > 0.05 * (field.dropped + float(field.n.sum())):
        found.append(("care", f"{field.dropped:,} rows had no prediction and were dropped."))
    return found
