"""Judges and tests: what the shares behind their categories are estimated from."""

from __future__ import annotations

import numpy as np

from fieldcal.core.policy import POLICY
from fieldcal.objects.problem import looks_random
from fieldcal.objects.verdict import State
from fieldcal.verbs.findings.context import MOST_NAMED, Context
from fieldcal.verbs.findings.wording import Raised, raised


def rests_on(context: Context) -> Raised:
    """Labels of these rows, or the assumption that the judge makes the errors that it made where it was checked."""
    own, elsewhere = float(context.judge.known.sum()), float(context.judge.given.sum())
    by_class = context.field.labelled.get("by_class")
    chosen = 0.0 if by_class is None else float(by_class.counts.sum())
    if own >= POLICY.enough:
        return raised(
            "labelled_here", n=own, grouped=context.field.grouped, more=elsewhere > 0, elsewhere=elsewhere
        )
    if chosen >= POLICY.enough:
        return raised("labelled_by_class", n=chosen)
    return raised("judge_assumed", "few" if own else "elsewhere", n=own, elsewhere=elsewhere)


def tells_apart(context: Context) -> Raised:
    """A judge that gives much the same categories to every class."""
    low, middle = np.quantile(context.judge.separation, [0.05, 0.5])
    seen = low > POLICY.judge_says_something
    return raised("judge_tells" if seen else "judge_blind", low=low, middle=middle)


def same_judge(context: Context) -> Raised | None:
    """How far the judge's errors differ between groups, as far as labelled groups show."""
    judge = context.judge
    if judge.spread is None:
        return None
    low, middle, high = np.quantile(judge.spread, [0.05, 0.5, 0.95])
    labelled, odd = int((judge.labelled > 0).sum()), judge.outlying
    if labelled < 2:
        by_class = bool(context.field.labelled) and not judge.by_labels
        return raised("judge_not_rehearsed", middle=middle, by_class=by_class)
    measured = {"low": low, "middle": middle, "high": high, "labelled": labelled}
    if not len(odd) and middle < POLICY.noticeable:
        return raised("judge_same", **measured)
    named = odd[:MOST_NAMED] if len(odd) else judge.farthest()
    return raised(
        "judges_differ",
        groups=(context.field.groups[g] for g in named),
        outlying=len(odd) > 0,
        n=len(odd),
        total=len(context.field.groups),
        **measured,
    )


def random_sample(context: Context) -> Raised | None:
    """Rows that were declared as drawn at random, and do not look like it."""
    p_value = looks_random(context.lab, context.field) if context.field.labelled else None
    if p_value is None:
        return None
    return raised("looks_random" if p_value >= POLICY.beyond_doubt else "not_random", p_value=p_value)


def every_value_checked(context: Context) -> Raised | None:
    """Categories of which no row was checked, where rows were chosen by category: their classes are unknown."""
    field = context.field
    if set(field.labelled) != {"by_score"} or field.unseen:  # `known_values` is about the latter
        return None
    rows, unchecked = np.asarray(field.V, dtype=np.float64).sum(axis=0), context.judge.unchecked
    share = float(rows[unchecked].sum() / max(rows.sum(), 1.0))
    if share <= POLICY.unseen_categories:
        return raised("values_checked")
    names = np.array(context.lab.partition.labels([str(c) for c in context.lab.classes]))[unchecked]
    state: State = "do_not_use" if share > POLICY.large_share else "care"
    return raised("values_unchecked", state=state, named=", ".join(names[:MOST_NAMED]), share=share)
