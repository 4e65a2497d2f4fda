"""What a lab alone shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.core import guards
from fieldcal.core.policy import POLICY
from fieldcal.core.response import confusable_classes
from fieldcal.objects import Lab
from fieldcal.types import Floats
from fieldcal.verbs.findings.wording import Raised, raised


def better_than_chance(lab: Lab) -> Raised:
    """Columns in another order than the classes, or a model that learnt the opposite."""
    worst = _worse_than_chance(lab)
    if worst is None:
        return raised("better_than_chance")
    return raised(
        "worse_than_chance",
        "two" if len(lab.classes) == 2 else "columns",
        name=lab.classes[worst],
        classes=lab.classes,
        first=lab.classes[0],
        second=lab.classes[1],
        column=lab.positive_column,
        named=lab.positive_column is not None,
    )


def enough_rows(lab: Lab) -> Raised:
    """A class with few lab rows."""
    rows = lab.n_effective
    rarest = int(rows.argmin())
    few, enough = POLICY.few, POLICY.enough
    code = "few_class_rows" if rows[rarest] <= few else "some_class_rows"
    return raised(
        code if rows[rarest] < enough else "enough_class_rows", name=lab.classes[rarest], n=rows[rarest]
    )


def told_apart(lab: Lab) -> Raised:
    """Classes that no histogram distinguishes."""
    number = lab.conditioning.condition_number
    if lab.n_bins == 1:
        return raised("one_bin")
    # Neighbours in an order are hard to distinguish by nature: the smooth prior is made for that.
    if lab.ordered or number < POLICY.poor_condition:
        return raised("told_apart", number=number, limit=POLICY.poor_condition)
    pairs = confusable_classes(lab.M)
    first, second = (lab.classes[k] for k in (pairs[0] if pairs else (0, 1)))
    return raised("confusable_classes", number=number, named=bool(pairs), first=first, second=second)


def held_out(lab: Lab) -> Raised | None:
    """A lab that is the training set."""
    if lab.of_values:  # a judge may always be right
        return None
    if lab.log_loss is None:
        return raised("maybe_held_out")
    good = lab.n_effective.min() >= POLICY.enough and lab.log_loss < POLICY.harmless
    return raised("too_good" if good else "held_out", loss=lab.log_loss)


def calibrated(lab: Lab) -> Raised | None:
    """Predictions that are not the shares they claim to be."""
    # Categories claim no share, and no calibration turns hard decisions into probabilities.
    if lab.of_values or lab.only_decisions:
        return None
    error, by = lab.calibration.error, lab.calibration_map
    found: dict[str, Any] = {
        "error": error,
        "fitted": by is not None,
        "method": "" if by is None else by.method,
    }
    if not (error > POLICY.noticeable and lab.calibration.p_value < POLICY.beyond_doubt):
        return raised("calibrated", "raw" if by is None else "fitted", **found)
    if by is not None:
        remedy = "labels" if by.method == "isotonic" else "isotonic"
    else:
        remedy = "sigmoid" if lab.outcome.kind == "classes" else "distributions"
    return raised("uncalibrated", remedy, **found)


def probabilities(lab: Lab) -> Raised | None:
    """Hard decisions in place of probabilities."""
    return raised("hard_decisions") if lab.only_decisions else None


def separates(lab: Lab) -> Raised | None:
    """Predictions with next to no information about the class."""
    if lab.n_bins == 1 or _worse_than_chance(lab) is not None:  # said above, and worse
        return None
    found = guards.separation(np.asarray(lab.F, dtype=np.float64), lab.bin_means)
    low, high = POLICY.separates
    margin = POLICY.sure_errors * found.error
    enough = lab.F.sum(axis=1) >= POLICY.enough  # `enough_rows` is about the others
    known = np.array([enough[a] and enough[b] for a, b in found.pairs])
    blind = known & (found.auc < low) & (found.auc + margin < high)
    weak = known & ((found.auc < high) | (found.auc - margin < 0.5))
    # Of many classes some are alike, and neighbours in an order are by nature: only pairs next to chance count.
    if not (weak.all() if lab.ordered or len(lab.classes) == 2 else blind.any()):
        return None
    worst = int(np.where(weak, found.auc, np.inf).argmin())
    first, second = (lab.classes[k] for k in found.pairs[worst])
    return raised(
        "cannot_separate",
        state="do_not_use" if blind.all() else "care",
        first=first,
        second=second,
        auc=found.auc[worst],
        error=found.error[worst],
    )


def bins_filled(lab: Lab) -> Raised | None:
    """More bins than the lab can fill; those that the caller cut, as others are limited by `learn`."""
    most = lab.partition.most_bins(lab.n_effective, ordered=lab.ordered)
    if lab.n_bins <= most:
        return None
    return raised("many_bins", bins=lab.n_bins, most=most, categories=lab.of_values)


def _worse_than_chance(lab: Lab) -> int | None:
    """A class whose predictions are clearly lower on its own rows than on the others; None if there is none."""
    F = lab.F_effective
    for k, own in enumerate(F):
        (high, high_error), (low, low_error) = (
            _mean(lab.bin_means[:, k], rows) for rows in (own, F.sum(axis=0) - own)
        )
        if high - low < -POLICY.doubtless_errors * np.hypot(high_error, low_error) - 1e-12:
            return k
    return None


def _mean(values: Floats, rows: Floats) -> tuple[float, float]:
    n = max(float(rows.sum()), 1e-300)
    mean = float(rows @ values) / n
    return mean, float(np.sqrt(max(float(rows @ values**2) / n - mean**2, 0.0) / n))
