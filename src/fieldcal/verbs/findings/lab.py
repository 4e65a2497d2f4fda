"""What a lab alone shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import guards
from fieldcal.core.partition import most_bins
from fieldcal.core.policy import POLICY
from fieldcal.core.response import confusable_classes
from fieldcal.core.values import Values, most_values
from fieldcal.objects import Finding, Lab, group_keys, show
from fieldcal.verbs.findings.evidence import CLASSES, ISOTONIC, POSITIVE, SIGMOID, VALUES


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
        remedy=_in_order(lab),
    )


def _in_order(lab: Lab) -> str:
    if len(lab.classes) != 2:
        asked = f"Are the columns in the order of the classes {lab.classes!r:.200}?"
        return f"{asked} If not, pass {CLASSES} in their order."
    first, second = lab.classes
    column = "A single column" if lab.positive_column is None else f"The column {lab.positive_column!r:.60}"
    return (
        f"{column} is taken for the probability of {second!r:.60}. If it is that of {first!r:.60}, learn again and "
        f"name that class with {POSITIVE}. Two columns are taken in the order {lab.classes!r:.200}, or in that of "
        f"{CLASSES}."
    )


def enough_rows(lab: Lab) -> Finding:
    """A class whose predictions are mostly a guess."""
    rows = lab.n_effective
    rarest = int(rows.argmin())
    name, n = lab.classes[rarest], rows[rarest]
    question = "Has the lab enough rows of every class?"
    remedy = f"Label more rows of {group_keys.show(name, width=30)}."
    if n > POLICY.few and n < POLICY.enough:
        text = f"The lab has only {show.amount(n)} rows of class {name!r}: little can be put to the test."
        return Finding(code="some_class_rows", question=question, state="care", text=text, remedy=remedy)
    if n <= POLICY.few:
        text = f"Class {name!r} has {n:g} lab rows: where its predictions fall is mostly a guess, and the intervals "
        text += "will be wide."
        return Finding(
            code="few_class_rows", question=question, state="care", text=text, remedy="Label more rows of it."
        )
    text = f"The rarest, {group_keys.show(name, width=30)}, has {show.amount(n)}."
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


def held_out(lab: Lab) -> Finding | None:
    """A lab that is the training set."""
    if lab.of_values:  # a judge may always be right
        return None
    question = "Were the lab rows kept out of training?"
    if lab.log_loss is None:
        return Finding(code="maybe_held_out", question=question, state="ask", text="Only you can know.")
    if lab.n_effective.min() < POLICY.enough or lab.log_loss >= POLICY.harmless:
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
    if lab.of_values:  # there is nothing that claims to be a share
        return None
    if lab.only_decisions:  # said by `probabilities`: no calibration makes them what they are not
        return None
    error, p_value = lab.calibration.error, lab.calibration.p_value
    poor = error > POLICY.noticeable and p_value < POLICY.beyond_doubt
    if lab.calibration_map is not None:
        return _after_calibration(lab.calibration_map.method, error, question, poor=poor)
    if not poor:
        text = f"Predictions and shares differ by {error:.3f} on average in the lab."
        return Finding(code="calibrated", question=question, state="ok", text=text)
    return Finding(
        code="uncalibrated",
        question=question,
        state="care",
        text=f"The model is not calibrated on the lab: predictions and shares differ by {error:.3f} on average. "
        "Prevalences stay right, recalibrated probabilities inherit the error.",
        remedy=f"Calibrate on the lab: {SIGMOID}."
        if lab.outcome.kind == "classes"
        else "Calibrate the model's distributions first, on rows of their own.",
    )


def _after_calibration(method: str, error: float, question: str, *, poor: bool) -> Finding:
    """Of predictions that were calibrated on the lab, by fits that had not seen them."""
    told = f"differ by {error:.3f} on average, on rows that each fit had not seen."
    if not poor:
        text = f"It was calibrated there ({method}): calibrated predictions and shares {told}"
        return Finding(code="calibrated", question=question, state="ok", text=text)
    return Finding(
        code="uncalibrated",
        question=question,
        state="care",
        text=f"The model was calibrated on the lab ({method}), and is not calibrated yet: calibrated predictions and "
        f"shares {told} Prevalences stay right, recalibrated probabilities inherit the error.",
        remedy="Label more rows, or look at the model."
        if method == "isotonic"
        else f"Calibrate by steps: {ISOTONIC}.",
    )


def probabilities(lab: Lab) -> Finding | None:
    """Hard decisions in place of probabilities."""
    if not lab.only_decisions:
        return None
    return Finding(
        code="hard_decisions",
        question="Are the predictions probabilities?",
        state="care",
        text="All lab predictions are exactly 0 or 1: these are hard decisions, not probabilities. Prevalences can be "
        "estimated from them (it is the adjusted count), but whether the field moved by label shift cannot be tested, "
        "and recalibrated they stay 0 and 1.",
        remedy="Pass the model's probabilities: predict_proba, not predict. Where there are none, as of a judge or a "
        f"test, let them be values: {VALUES}.",
    )


def separates(lab: Lab) -> Finding | None:
    """Predictions that say next to nothing about the class."""
    if lab.n_bins == 1 or _worse_than_chance(lab) is not None:  # said above, and worse
        return None
    found = guards.separation(np.asarray(lab.F, dtype=np.float64), lab.bin_means)
    low, high = POLICY.separates
    margin = POLICY.sure_errors * found.error
    enough = lab.F.sum(axis=1) >= POLICY.enough  # of others, `enough_rows` speaks
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
    most = (
        most_values(lab.n_effective, judges=lab.partition.judges, ordered=lab.ordered)
        if isinstance(lab.partition, Values)
        else most_bins(lab.n_effective, ordered=lab.ordered)
    )
    if lab.n_bins <= most:
        return None
    return Finding(
        code="many_bins",
        question="Has the lab enough rows for its bins?",
        state="care",
        text=f"There are {lab.n_bins:,} bins, but the lab's rows fill {most:,} at most: noise in the bins blurs the "
        "classes, and the estimate is biased towards the lab.",
        remedy=f"{'Merge values' if lab.of_values else 'Cut at fewer edges'}, {most:,} bins at most, or label more "
        "rows.",
    )


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


def _mean(values: NDArray[np.float64], rows: NDArray[np.float64]) -> tuple[float, float]:
    n = max(float(rows.sum()), 1e-300)
    mean = float(rows @ values) / n
    return mean, float(np.sqrt(max(float(rows @ values**2) / n - mean**2, 0.0) / n))
