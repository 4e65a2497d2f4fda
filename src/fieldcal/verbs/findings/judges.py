"""Values of a judge or a test: what the shares behind them rest on."""

from __future__ import annotations

import numpy as np

from fieldcal.core.policy import POLICY
from fieldcal.objects import Finding, show
from fieldcal.objects.judged import Judged
from fieldcal.objects.problem import looks_random
from fieldcal.types import Keys
from fieldcal.verbs.findings.evidence import BY_CLASS, BY_SCORE, MOST_NAMED, Seen

_RESTS = "What do the shares rest on?"
_SAME_JUDGE = "Is the judge the same in every slice?"
_LABEL_SOME = (
    "Label some rows of this field, drawn at random, and count them with their labels: see fieldcal plan."
)


def rests_on(seen: Seen) -> Finding:
    """Labels of these rows, or the assumption that the judge is here as it was where it was checked."""
    judged = _judged(seen)
    own, elsewhere = float(judged.known.sum()), float(judged.given.sum())
    by_class = seen.field.labelled.get("by_class")
    if own >= POLICY.enough_labels:
        text = f"On {show.amount(own)} labelled rows of these rows: "
        text += (
            "slices share what they tell of the judge, as far as they agree."
            if seen.field.grouped
            else "nothing is assumed of the judge."
        )
        if elsewhere:
            text += f" {show.amount(elsewhere)} rows chosen by class, or elsewhere, add to what is known of the judge."
        return Finding(code="labelled_here", question=_RESTS, state="ok", text=text)
    if by_class is not None and float(by_class.counts.sum()) >= POLICY.enough_labels:
        text = f"On {show.amount(float(by_class.counts.sum()))} labelled rows of these rows that were chosen by class: "
        text += "they tell what the judge says of each class, if within a class they were chosen at random."
        return Finding(code="labelled_by_class", question=_RESTS, state="ok", text=text)
    if own:
        text = f"On {show.amount(own)} labelled rows of these rows, which are few."
    else:
        text = "On the assumption that the judge says of each class what it said where it was checked (on "
        text += f"{show.amount(elsewhere)} rows). No labelled row of this field tells whether it does."
    return Finding(code="judge_assumed", question=_RESTS, state="care", text=text, remedy=_LABEL_SOME)


def tells_apart(seen: Seen) -> Finding:
    """A judge that says much the same of every class."""
    question, found = "Does the judge tell the classes apart?", _judged(seen).separation
    low, middle = np.quantile(found, [0.05, 0.5])
    measured = f"the values of the two classes most alike differ in {middle:.0%} of rows"
    if low > POLICY.judge_says_something:
        return Finding(code="judge_tells", question=question, state="ok", text=f"Yes: {measured}.")
    text = f"Hardly, or it is not known well: {measured} ({low:.0%} at the least). What values say of the shares is "
    return Finding(
        code="judge_blind",
        question=question,
        state="care",
        text=f"{text}mostly noise, and the shares rest on labels alone.",
        remedy="Label more rows, or use a judge that knows more.",
    )


def same_judge(seen: Seen) -> Finding | None:
    """How far judges differ between slices, as far as labelled slices tell."""
    judged = _judged(seen)
    if judged.spread is None:
        return None
    low, middle, high = np.quantile(judged.spread, [0.05, 0.5, 0.95])
    slices = int((judged.known.sum(axis=(1, 2)) > 0).sum())
    measured = f"by about {middle:.3f} from slice to slice (90 % interval {low:.3f} to {high:.3f})"
    if slices < 2:
        by_class = seen.field.labelled and not judged.by_labels
        why = "labelled rows were chosen by class" if by_class else "no two slices have labels"
        text = f"Not measured: {why}. That a rate of .9 varies by about {middle:.3f} from slice to "
        text += "slice is assumed."
        return Finding(
            code="judge_not_rehearsed", question=_SAME_JUDGE, state="care", text=text, remedy=_LABEL_SOME
        )
    text = f"As {slices:,} labelled slices tell, a rate of .9 of the judge varies {measured}; the intervals allow for "
    text += "that."
    odd = judged.unlike_others
    if not len(odd) and middle < POLICY.judges_differ:
        return Finding(code="judge_same", question=_SAME_JUDGE, state="ok", text=text)
    what = "the judge is kinder to some slices than to others"
    if len(odd):
        what += f": {len(odd):,} of {len(seen.field.groups):,} probably have a judge of their own, unlike all others"
    return Finding(
        code="judges_differ",
        question=_SAME_JUDGE,
        state="care" if len(odd) or middle >= POLICY.judges_differ_much else "ok",
        text=f"No: {what}. {text}",
        remedy="Compare slices by their intervals, not by their verdicts; label more rows of the slices that "
        "matter.",
        groups=tuple(seen.field.groups[g] for g in odd[:MOST_NAMED]) or _farthest(seen, judged),
    )


def random_sample(seen: Seen) -> Finding | None:
    """Rows that are said to be drawn at random, and do not look like it."""
    chance = looks_random(seen.lab, seen.field) if seen.field.labelled else None
    if chance is None:
        return None
    question = "Do the labelled rows look like a random sample of the field?"
    if chance >= POLICY.not_random:
        return Finding(code="looks_random", question=question, state="ok", text="By their values, yes.")
    text = f"They are said to be, but their values are not those of the other rows (p = {chance:.2g})."
    return Finding(
        code="not_random",
        question=question,
        state="care",
        text=text,
        remedy=f"If they were chosen by looking at values or groups, say {BY_SCORE}; if by their class, {BY_CLASS}.",
    )


def every_value_checked(seen: Seen) -> Finding | None:
    """Values of which no row was checked, where rows were chosen by their value: nothing tells their classes."""
    judged = _judged(seen)
    if set(seen.field.labelled) != {"by_score"} or seen.field.unseen:  # `known_values` speaks of the latter
        return None
    question = "Was every value checked?"
    rows = np.asarray(seen.field.V, dtype=np.float64).sum(axis=0)
    unchecked = judged.known.sum(axis=(0, 1)) + judged.given.sum(axis=0) == 0
    share = float(rows[unchecked].sum() / max(rows.sum(), 1.0))
    if share <= POLICY.unseen_values[0]:
        return Finding(code="values_checked", question=question, state="ok", text="Yes, but for rare ones.")
    names = np.array(seen.lab.partition.labels([str(c) for c in seen.lab.classes]))
    named = ", ".join(names[unchecked][:MOST_NAMED])
    return Finding(
        code="values_unchecked",
        question=question,
        state="do_not_use" if share > POLICY.unseen_values[1] else "care",
        text=f"No row with the value {named} was checked, which {share:.0%} of the rows have: labels that were chosen "
        "by value say nothing of what classes these are, and the share of the whole is a guess.",
        remedy="Check some rows of every value, or rows drawn at random; if they were chosen by class, say "
        f"{BY_CLASS}.",
    )


def _judged(seen: Seen) -> Judged:
    assert seen.judged is not None
    return seen.judged


def _farthest(seen: Seen, judged: Judged) -> Keys:
    """Slices whose own judge is farthest from the common one, after their labelled rows; at most five."""
    own = judged.rates_of(np.arange(len(judged.known)))
    off = np.abs(own - judged.rates.mean(axis=0)).sum(axis=(1, 2))
    return tuple(seen.field.groups[g] for g in np.argsort(-off, kind="stable")[:5] if off[g] > 0)
