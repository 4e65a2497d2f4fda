"""What the field shows: its fit, its rows, its intervals."""

from __future__ import annotations

import numpy as np

from fieldcal.core.policy import POLICY
from fieldcal.core.response import row_per_weight
from fieldcal.core.values import Values
from fieldcal.objects import Finding, Verdict, group_keys, show
from fieldcal.verbs.findings.evidence import DESIGN, MAX_ITER, MOST_NAMED, Seen


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
    worst = np.argsort(-effect, kind="stable")[: min(MOST_NAMED, int(odd.sum()))]
    text = f"{int(odd.sum()):,} of {G:,} groups ({odd.mean():.0%}) do not look like any mixture of the "
    return Finding(
        code="groups_inconsistent",
        question=question,
        state="care",
        text=f"{text}classes.",
        remedy="Look at the groups marked inconsistent: what is different about them?",
        groups=tuple(seen.field.groups[g] for g in worst),
    )


def overdispersed(seen: Seen) -> Finding | None:
    """Misfit that looks like variance."""
    if seen.evidence.edge != "low":
        return None
    return Finding(
        code="overdispersed",
        question="Do groups differ as prevalences can?",
        state="care",
        text="The groups differ more than prevalences can: misfit that looks like variance.",
        remedy="Read the verdict before you use the estimates.",
    )


def converged(seen: Seen) -> Finding | None:
    """A solver that stopped at its limit."""
    mode = seen.evidence.mode
    if mode is None or mode.converged.all():
        return None
    text = f"{int((~mode.converged).sum())} of {len(mode.gap)} groups stopped at the iteration limit, "
    text += f"the worst with an optimality gap of {mode.gap.max():.2g} per row."
    return Finding(
        code="not_converged",
        question="Is every mode found?",
        state="care",
        text=text,
        remedy=f"Raise it, {MAX_ITER}.",
    )


def complete(seen: Seen) -> Finding:
    """Rows without a prediction."""
    dropped, question = seen.field.dropped, "Does every field row have a prediction?"
    total = dropped + float(seen.field.n.sum())
    if dropped > POLICY.noticeable * total:
        text = f"{dropped:,} rows had no prediction and were dropped."
        return Finding(code="rows_dropped", question=question, state="care", text=text)
    text = f"{dropped:,} of {total:,.0f} rows had none and were dropped."
    return Finding(code="complete", question=question, state="ok", text=text)


def known_values(seen: Seen) -> Finding | None:
    """Values that no lab row has."""
    partition, unseen = seen.lab.partition, seen.field.unseen
    if not isinstance(partition, Values):
        return None
    question = "Does the lab know every value of the field?"
    counted = float(seen.field.n.sum())
    total = counted if partition.takes_in_all else counted + unseen  # elsewhere they are in no bin
    share = unseen / max(total, 1.0)
    if share <= POLICY.noticeable:
        text = f"{unseen:,} of {total:,.0f} rows have a value that it has never seen."
        return Finding(code="values_known", question=question, state="ok", text=text)
    fate = "they count with the nearest, or with other rare ones"
    fate = fate if partition.takes_in_all else "they are left out"
    return Finding(
        code="values_unseen",
        question=question,
        # With weights the sum is not of rows, and the share a rough one.
        state="do_not_use" if share > POLICY.large_share and not seen.field.weighted else "care",
        text=f"{unseen:,} of {total:,.0f} rows ({share:.1%}) have a value that the lab has never seen: {fate}, and "
        "what classes they are is a guess.",
        remedy="Correct their spelling, or label rows with these values and learn again.",
    )


def independent(seen: Seen) -> Finding:
    """Rows that say the same thing more than once."""
    question, field, text = "Are field rows independent of each other?", seen.field, ""
    n = float(field.n.sum())
    rows = n * float(row_per_weight(n, field.weight_squares.sum()))
    if rows != n:
        text = f"Their weights, {show.amount(n)} together, say as much as {rows:,.0f} rows of equal weight (Kish). "
    if seen.design_effect > 1:
        text += f"Not taken to be: with a design effect of {seen.design_effect:g} they say as much as "
        text += f"{rows / seen.design_effect:,.0f} independent ones."
        return Finding(code="design_effect", question=question, state="ask", text=text)
    text += f"Assumed. If some share a person, a place or a day, estimate with {DESIGN}, or intervals are too narrow."
    return Finding(code="maybe_dependent", question=question, state="ask", text=text)


def no_new_class(seen: Seen) -> Finding:
    """Rows where the lab had none."""
    question, novel = "Could the field hold a class that the lab never saw?", float(seen.evidence.novel.sum())
    if novel > 0:
        text = f"{show.amount(novel)} rows fall into bins that the lab never filled."
        return Finding(code="novel", question=question, state="care", text=text)
    text = "Only you can know. No row falls where the lab had none."
    return Finding(code="maybe_new_class", question=question, state="ask", text=text)


def narrow(seen: Seen) -> Finding | None:
    """Intervals that leave nearly everything possible."""
    if seen.width is None:
        return None
    widest = np.asarray(seen.width).max(axis=1, initial=0.0)
    wide = np.flatnonzero(widest > 1 - POLICY.large_share)
    if not len(wide):
        return None
    n = np.asarray(seen.field.n, dtype=np.float64)
    many = n[wide].sum() >= POLICY.noticeable * n.sum() or len(wide) >= POLICY.noticeable * len(n)
    whom = f"{len(wide):,} of {len(widest):,} groups" if seen.field.grouped else "this field"
    worst = wide[np.argsort(-widest[wide], kind="stable")][:MOST_NAMED]
    return Finding(
        code="says_nothing",
        question="Do the intervals say anything?",
        state="care" if many else "ok",
        text=f"The interval of {whom} spans more than {1 - POLICY.large_share:.0%} of what is possible: the data "
        "say next to nothing here.",
        remedy="Do not act on these estimates; count more rows, merge small groups, or label some.",
        groups=tuple(seen.field.groups[g] for g in worst) if seen.field.grouped else (),
    )


def group_status(seen: Seen, verdict: Verdict) -> tuple[str, ...]:
    """What is known of each group: flags joined by commas; without flags the verdict, so "ok" only if that is ok."""
    evidence, misfit = seen.evidence, seen.evidence.misfit
    n = np.asarray(seen.V).sum(axis=1)  # effective rows
    with np.errstate(divide="ignore", invalid="ignore"):
        below = misfit.free < -POLICY.doubtless_errors * np.maximum(misfit.free_se, 1e-12)
    flags = {
        "prior_only": (n == 0) | (seen.lab.n_bins == 1),
        "few_rows": (n > 0) & (n < POLICY.few),
        "no_labels": seen.without_labels,
        "not_in_lab": seen.not_in_lab,
        "novel": evidence.novel > 0,
        "inconsistent": evidence.inconsistent,
        "boundary": below.any(axis=1) & (n >= POLICY.few),
        "not_converged": np.zeros(len(n), dtype=bool) if evidence.mode is None else ~evidence.mode.converged,
    }
    table = np.column_stack(list(flags.values()))
    names = np.array(list(flags))
    plain = np.asarray(~table.any(axis=1))
    return tuple(verdict.level if plain[g] else ",".join(names[table[g]]) for g in range(len(n)))


def every_group_labelled(seen: Seen) -> Finding | None:
    """Groups without a labelled row beside groups that have some: their estimates rest on the labels of others."""
    without = np.flatnonzero(seen.without_labels)
    if not len(without):
        return None
    n = np.asarray(seen.field.n, dtype=np.float64)
    largest = without[np.argsort(-n[without], kind="stable")][:MOST_NAMED]
    groups = tuple(seen.field.groups[g] for g in largest)
    named = ", ".join(map(group_keys.show, groups[:5])) + (", …" if len(without) > 5 else "")
    what = "the judge" if seen.judged is not None else "the model"
    # A rehearsal shows on the lab's labels that estimates carry over to groups without labels.
    supported = seen.judged is None and (seen.evidence.rehearsal is not None or seen.trust.set_by_caller)
    return Finding(
        code="groups_without_labels",
        question="Does every group have labelled rows?",
        state="ok" if supported else "care",
        text=f"{len(without):,} of {len(n):,} groups have no labelled row ({named}): their estimates assume that "
        f"{what} errs there as in the labelled groups.",
        remedy="Label some rows of each of these groups, drawn at random.",
        groups=groups,
    )
