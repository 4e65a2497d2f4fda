"""What the page says in words: the verdict and what to do, why to trust it, what changed and for whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.objects import Prevalence
from fieldcal.reporting.evaluation import Evaluation, Numbers
from fieldcal.reporting.groups import mean, name, variation

_MEANING = {
    "ok": "Nothing speaks against using the recalibrated predictions.",
    "care": "Recalibration probably helps here, but that is not certain. Read why before you use it.",
    "do_not_use": "Keep the raw predictions: the method cannot be trusted on this data.",
}
_WORDS = {"ok": "OK to use", "care": "Use with care", "do_not_use": "Do not use"}


def verdict(prev: Prevalence) -> dict[str, Any]:
    """Level, headline, what it means, the reasons and the next steps."""
    level = prev.verdict.level
    return {
        "level": level,
        "headline": _WORDS[level],
        "meaning": _UNTOUCHED if level == "care" and is_untouched(prev) else _MEANING[level],
        "reasons": list(prev.verdict.reasons),
        "advice": advice(prev),
    }


_APPLY = {
    "class": "Apply it: fieldcal recalibrate, or fieldcal.recalibrate(prev, proba, groups=…).",
    "interval": "Apply it: fieldcal.regression.recalibrate(prev, predicted, groups=…).",
}
_KINDS = {"class": "classes", "interval": "intervals"}
_UNTOUCHED = "Predictions are left as they are: nothing here earned enough trust to change them."


def outcome(prev: Prevalence) -> str:
    """What the model tells apart, in one word."""
    return "class" if prev.lab.support is None else "interval"


def is_untouched(prev: Prevalence) -> bool:
    """Whether recalibration changes no prediction."""
    return bool(prev.common_trust == 0 and not prev.trust.any())


def advice(prev: Prevalence) -> list[str]:
    """What to do next, the most useful first."""
    lab, field, level = prev.lab, prev.field, prev.verdict.level
    found = []
    if level == "do_not_use":
        found.append("Keep using the raw predictions, and do not quote these prevalences as facts.")
    elif prev.protected:
        found.append("Use the prevalences to watch the groups; predictions are not to be changed by them.")
    elif is_untouched(prev):
        found.append("There is nothing to apply. The table shows what the method would have said.")
    else:
        found.append(_APPLY[outcome(prev)])
    if field.grouped and lab.rehearsal is None:
        found.append("Learn again with the groups of the lab rows, so that the correction can be rehearsed.")
    rows = lab.F.sum(axis=1)
    if rows.min() < 30:
        found.append(f"Label more rows of {name(lab.classes[int(rows.argmin())])}.")
    if any("inconsistent" in s for s in prev.status) and field.grouped:
        found.append("Look at the groups marked inconsistent: what is different about them?")
    if prev.movement.moved and level != "ok":
        found.append(
            "Label a few hundred field rows drawn at random and report again with them: they would tell."
        )
    if level == "ok":
        found.append("Report again when the model, the lab or the field has changed.")
    return found


def trust(prev: Prevalence) -> list[str]:
    """How far the method is followed, and on what evidence."""
    found = []
    rehearsal, moved = prev.lab.rehearsal, prev.movement
    if prev.field.grouped:
        tau = float(prev.trust.max(initial=0.0))
        found.append(f"Differences between groups are followed with strength {tau:.2f} out of 1.")
        if rehearsal is not None:
            change = f"{rehearsal.change:+.3f} ± {rehearsal.change_se:.3f}"
            end = f"At strength {rehearsal.tau:.2f} log loss changed by {change}."
            end = end if rehearsal.tau else "No strength helped for sure."
            found.append(
                f"In the rehearsal {rehearsal.n_groups:,} groups of the lab played the field, labels held out "
                f"({rehearsal.n_rows:,} rows). {end}"
            )
            if tau < rehearsal.tau:
                found.append(
                    f"Of the {rehearsal.tau:.2f} that it earned, {tau:.2f} is used: the field goes beyond what was "
                    "rehearsed."
                )
        else:
            found.append("The lab has no groups, so nothing could be rehearsed: only histograms speak.")
    found.append(
        f"The movement of the whole field is followed with strength {prev.common_trust:.2f} out of 1."
    )
    if not moved.moved:
        found.append("The field as a whole has not moved from the lab beyond noise.")
    elif moved.testable:
        share, lower = (min(max(x, 0.0), 1.0) for x in (moved.share, moved.lower))
        found.append(
            f"A change of the mix of {_KINDS[outcome(prev)]} explains {share:.0%} of that movement ({lower:.0%} at "
            "one standard error below)."
        )
    return found


def changes(prev: Prevalence, k: int) -> list[str]:
    """What changed, and for whom."""
    if is_untouched(prev):
        return ["Nothing: trust is 0, so that every estimate equals the mean prediction."]
    if prev.lab.support is not None:
        return _whole_distribution(prev, k)
    which = name(prev.classes[k])
    before, after = mean(prev, prev.naive)[k], mean(prev, prev.value)[k]
    found = [
        f"Over the whole field the share of {which} is {after:.1%} by the estimate; the predictions themselves "
        f"average {before:.1%}; in the lab it was {prev.lab.p_lab[k]:.1%}."
    ]
    return found + (_for_whom(prev, k) if prev.field.grouped and len(prev.groups) else [])


def _whole_distribution(prev: Prevalence, k: int) -> list[str]:
    """Of a regression: how far the distribution of the number moves, and for whom most."""
    whole, each = variation(prev)
    from_lab = np.abs(mean(prev, prev.value) - prev.lab.p_lab).sum() / 2.0
    found = [
        f"Over the whole field the estimate puts {whole:.1%} of the rows into other intervals than the predictions "
        f"themselves do, and {from_lab:.1%} into others than in the lab (total variation, {len(prev.classes)} "
        "intervals)."
    ]
    if not prev.field.grouped or not len(prev.groups):
        return found
    g, n = int(np.argmax(each)), np.asarray(prev.n, dtype=np.float64)
    found.append(
        f"By group it is {np.median(each):.1%} at the median, and most in {name(prev.groups[g])} ({n[g]:,.6g} rows): "
        f"{each[g]:.1%}."
    )
    found.append(f"Where groups are compared, it is by their share of the interval {name(prev.classes[k])}.")
    return found


def _for_whom(prev: Prevalence, k: int) -> list[str]:
    found, G, n = [], len(prev.groups), np.asarray(prev.n, dtype=np.float64)
    shift = prev.value[:, k] - prev.naive[:, k]
    up, down = int((shift > 0).sum()), int((shift < 0).sum())
    found.append(f"It rises in {up:,} and falls in {down:,} of {G:,} groups.")
    if prev.lower is not None and prev.upper is not None:
        outside = (prev.naive[:, k] < prev.lower[:, k]) | (prev.naive[:, k] > prev.upper[:, k])
        share = n[outside].sum() / max(n.sum(), 1e-300)
        found.append(
            f"In {int(outside.sum()):,} of them ({share:.0%} of the rows) the mean prediction lies outside the "
            f"{prev.level:.0%} interval of the estimate."
        )
    g = int(np.argmax(n * np.abs(shift)))
    found.append(
        f"The correction moves most rows in group {name(prev.groups[g])} ({n[g]:,.6g} rows): {prev.naive[g, k]:.1%} → "
        f"{prev.value[g, k]:.1%}{_interval(prev, g, k)}."
    )
    return found


def _interval(prev: Prevalence, g: int, k: int) -> str:
    if prev.lower is None or prev.upper is None:
        return ""
    return f" ({prev.level:.0%} interval {prev.lower[g, k]:.1%} to {prev.upper[g, k]:.1%})"


def labelled(found: Evaluation, prev: Prevalence, k: int) -> list[str]:
    """Whether it helped, and whether intervals hold, where labels say so."""
    change, se = found.change()
    words = "better" if change < -2 * se else "worse" if change > 2 * se else "no different beyond noise"
    score = "log loss" if found.numbers is None else "the log score of the intervals"
    said = [
        f"On {len(found.y):,} labelled field rows the recalibrated predictions are {words}: {score} changes by "
        f"{change:+.3f} ± {se:.3f} per row."
    ]
    within, some = found.inside(prev, k)
    if some and prev.field.grouped:
        said.append(
            f"The labelled share of {name(prev.classes[k])} lies in the estimate's {prev.level:.0%} interval, give or "
            f"take the noise of the labels, in {within:,} of {some:,} groups."
        )
    return said if found.numbers is None else said + _of_numbers(found.numbers)


def _of_numbers(found: Numbers) -> list[str]:
    before, after = found.crps
    change, se = (after - before).mean(), (after - before).std() / np.sqrt(len(before))
    held = found.covered(0.9)
    return [
        f"The continuous ranked probability score (CRPS, in units of the number, less is better) changes by "
        f"{change:+.3g} ± {se:.2g} from {before.mean():.3g}.",
        f"Intervals that should hold 90% of the numbers held {held['before']:.1%} before and hold {held['after']:.1%} "
        "after.",
    ]
