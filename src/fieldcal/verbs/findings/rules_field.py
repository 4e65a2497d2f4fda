"""What the field shows: its fit, its rows, its intervals, and faults that pass for label shift."""

from __future__ import annotations

import numpy as np

from fieldcal.core import guards
from fieldcal.core.policy import POLICY
from fieldcal.core.response import row_per_weight
from fieldcal.core.values import Values
from fieldcal.objects import Verdict
from fieldcal.objects.problem import looks_random
from fieldcal.objects.verdict import State
from fieldcal.verbs.findings.context import MOST_NAMED, Context
from fieldcal.verbs.findings.wording import Raised, raised

# Fit --------------------------------------------------------------------------------------------------------


def looks_alike(context: Context) -> Raised:
    """A field that no mixture of the lab's classes explains."""
    whole = context.evidence.whole
    effect = float(whole.effect[0])
    if whole.df <= 0 or not context.field.n.sum():
        return raised("mixture_untestable")
    if context.evidence.unlike_any_mixture:
        return raised("unlike_any_mixture", effect=effect)
    misfit = not context.field.grouped and context.evidence.inconsistent.any()
    return raised("misfit" if misfit else "looks_alike", effect=effect)


def groups_fit(context: Context) -> Raised | None:
    """Groups that no mixture of the classes explains."""
    if not context.field.grouped:
        return None
    odd = context.evidence.inconsistent
    if not odd.any():
        return raised("groups_fit")
    n, effect = int(odd.sum()), np.where(odd, context.evidence.misfit.effect, -1.0)
    worst = np.argsort(-effect, kind="stable")[: min(MOST_NAMED, n)]
    groups = (context.field.groups[g] for g in worst)
    return raised("groups_inconsistent", groups=groups, n=n, total=len(odd), share=odd.mean())


def overdispersed(context: Context) -> Raised | None:
    """Misfit that looks like variance."""
    return raised("overdispersed") if context.evidence.edge == "low" else None


def converged(context: Context) -> Raised | None:
    """A solver that stopped at its limit."""
    mode = context.evidence.mode
    if mode is None or mode.converged.all():
        return None
    return raised("not_converged", n=int((~mode.converged).sum()), total=len(mode.gap), gap=mode.gap.max())


# Rows -------------------------------------------------------------------------------------------------------


def complete(context: Context) -> Raised:
    """Rows without a prediction."""
    n = context.field.dropped
    total = n + float(context.field.n.sum())
    many = n > POLICY.noticeable * total
    return raised("rows_dropped" if many else "complete", n=n, total=total, share=n / max(total, 1.0))


def known_values(context: Context) -> Raised | None:
    """Categories that no lab row has."""
    partition, unseen = context.lab.partition, context.field.unseen
    if not isinstance(partition, Values):
        return None
    counted = float(context.field.n.sum())
    total = counted if partition.takes_in_all else counted + unseen  # elsewhere they are in no bin
    share = unseen / max(total, 1.0)
    if share <= POLICY.unseen_categories:
        return raised("values_known", n=unseen, total=total)
    # With weights the sum is not of rows, and the share a rough one.
    state: State = "do_not_use" if share > POLICY.large_share and not context.field.weighted else "care"
    return raised(
        "values_unseen", state=state, n=unseen, total=total, share=share, counted=partition.takes_in_all
    )


def independent(context: Context) -> Raised:
    """Rows that carry the same information more than once."""
    n, effect = float(context.field.n.sum()), context.design_effect
    rows = n * float(row_per_weight(n, context.field.weight_squares.sum()))
    return raised(
        "design_effect" if effect > 1 else "maybe_dependent",
        weighted=rows != n,
        total=n,
        rows=rows,
        effect=effect,
        effective=rows / effect,
    )


def no_new_class(context: Context) -> Raised:
    """Rows where the lab had none."""
    n = float(context.evidence.novel.sum())
    return raised("novel", n=n) if n > 0 else raised("maybe_new_class")


def every_group_labelled(context: Context) -> Raised | None:
    """Groups without a labelled row beside groups that have some: their estimates rest on the labels of others."""
    without = np.flatnonzero(context.without_labels)
    if not len(without):
        return None
    n = np.asarray(context.field.n, dtype=np.float64)
    largest = without[np.argsort(-n[without], kind="stable")][:MOST_NAMED]
    groups = tuple(context.field.groups[g] for g in largest)
    judged = context.judged is not None
    # A rehearsal shows on the lab's labels that estimates carry over to groups without labels.
    supported = not judged and (context.evidence.rehearsal is not None or context.trust.set_by_caller)
    return raised(
        "groups_without_labels",
        state="ok" if supported else "care",
        groups=groups,
        n=len(without),
        total=len(n),
        named=groups,
        judged=judged,
    )


# Intervals --------------------------------------------------------------------------------------------------


def narrow(context: Context) -> Raised | None:
    """Intervals that leave nearly everything possible."""
    if context.width is None:
        return None
    grouped, widest = context.field.grouped, np.asarray(context.width).max(axis=1, initial=0.0)
    wide = np.flatnonzero(widest > 1 - POLICY.large_share)
    if not len(wide):
        return None
    n = np.asarray(context.field.n, dtype=np.float64)
    many = n[wide].sum() >= POLICY.noticeable * n.sum() or len(wide) >= POLICY.noticeable * len(n)
    worst = wide[np.argsort(-widest[wide], kind="stable")][:MOST_NAMED]
    return raised(
        "says_nothing",
        "groups" if grouped else "field",
        state="care" if many else "ok",
        groups=(context.field.groups[g] for g in worst) if grouped else (),
        n=len(wide),
        total=len(widest),
        limit=1 - POLICY.large_share,
    )


def group_status(context: Context, verdict: Verdict) -> tuple[str, ...]:
    """What is known of each group: flags joined by commas; without flags the verdict, so "ok" only if that is ok."""
    evidence, misfit = context.evidence, context.evidence.misfit
    n = np.asarray(context.V).sum(axis=1)  # effective rows
    with np.errstate(divide="ignore", invalid="ignore"):
        below = misfit.free < -POLICY.doubtless_errors * np.maximum(misfit.free_se, 1e-12)
    flags = {
        "prior_only": (n == 0) | (context.lab.n_bins == 1),
        "few_rows": (n > 0) & (n < POLICY.few),
        "no_labels": context.without_labels,
        "not_in_lab": context.not_in_lab,
        "novel": evidence.novel > 0,
        "inconsistent": evidence.inconsistent,
        "boundary": below.any(axis=1) & (n >= POLICY.few),
        "not_converged": np.zeros(len(n), dtype=bool) if evidence.mode is None else ~evidence.mode.converged,
    }
    table = np.column_stack(list(flags.values()))
    names = np.array(list(flags))
    plain = np.asarray(~table.any(axis=1))
    return tuple(verdict.level if plain[g] else ",".join(names[table[g]]) for g in range(len(n)))


# Faults: another unit, swapped classes, predictions recalibrated before --------------------------------------


def same_units(context: Context) -> Raised | None:
    """Field predictions divided by 100."""
    found = context.suspicions.get("other_units")
    return None if found is None else raised("other_units", state=_sure(found), ratio=_ratio(found))


def same_order(context: Context) -> Raised | None:
    """Classes that were swapped in the field."""
    found, more = context.suspicions.get("swapped"), context.disagreement
    if found is not None:
        return raised("swapped", "two", state=_sure(found), ratio=_ratio(found))
    if more is None or not more.explained_by(more.reordered):
        return None
    moved = [context.lab.classes[k] for k, at in enumerate(more.order) if at != k]
    return raised("swapped", "many", state=_plain(context), names=moved) if moved else None


def counted_raw(context: Context) -> Raised:
    """Predictions that were recalibrated before they were counted."""
    classes, found, more = context.lab.classes, context.suspicions.get("recalibrated"), context.disagreement
    if found is not None:
        return raised(
            "recalibrated_before",
            "two",
            state=_sure(found),
            prevalence=found.prevalence,
            name=classes[1],
            ratio=_ratio(found),
        )
    if more is not None and more.explained_by(more.recalibrated):
        k = int(np.abs(more.prevalence - context.lab.p_lab).argmax())
        return raised(
            "recalibrated_before",
            "many",
            state=_plain(context),
            prevalence=more.prevalence[k],
            name=classes[k],
        )
    tested = context.scores is not None and context.lab.n_bins >= guards.FEWEST_BINS
    return raised("counted_raw" if tested else "maybe_recalibrated")


def _plain(context: Context) -> State:
    """More than two classes: what is beyond what noise could leave of label shift."""
    return "do_not_use" if context.evidence.overall.upper < POLICY.explained[0] else "care"


def _sure(found: guards.Suspicion) -> State:
    """A real field can look a little like a fault, never so much."""
    return "do_not_use" if found.gain >= guards.CERTAIN else "care"


def _ratio(found: guards.Suspicion) -> int:
    return 1_000_000 if found.gain >= guards.CERTAIN else 1_000


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
