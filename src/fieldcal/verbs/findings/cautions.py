"""The paper's contraindications: what recalibration does to groups and to hard decisions, even where it is right."""

from __future__ import annotations

import numpy as np

from fieldcal.core import guards
from fieldcal.core.policy import POLICY
from fieldcal.objects import Finding, group_keys
from fieldcal.verbs.findings.evidence import BALANCED, MOST_NAMED, PROTECTED, Seen


def may_depend_on_groups(seen: Seen) -> Finding:
    """Groups that must not decide."""
    question = "May decisions depend on the group?"
    if seen.protected:
        text = "No: declared protected. Estimated, but not to be applied."
        remedy = "Use the prevalences to watch the groups; predictions are not to be changed by them."
        return Finding(code="protected", question=question, state="ask", text=text, remedy=remedy)
    if not seen.field.grouped:
        return Finding(code="no_groups", question=question, state="ok", text="There are no groups.")
    text = f"Only you can know. If not, estimate with {PROTECTED}."
    return Finding(code="maybe_protected", question=question, state="ask", text=text)


def no_bias(seen: Seen) -> Finding:
    """A feature that stands for the group."""
    text = "Only you can know. A feature that stands for the group would make the correction count twice."
    question = "Is the model free of bias for these groups?"
    return Finding(code="maybe_biased", question=question, state="ask", text=text)


def recall_kept(seen: Seen) -> Finding | None:
    """Classes that disappear from hard decisions."""
    if seen.lab.outcome.kind == "intervals" or not seen.steps:
        return None
    lab = seen.lab
    before, after = (guards.recall(lab.M, lab.bin_means, steps) for steps in ((), seen.steps))
    lost = np.flatnonzero((before >= POLICY.recall_before) & (after < POLICY.recall_kept * before))
    if not len(lost):
        return None
    worst = lost[np.argsort(after[lost] - before[lost], kind="stable")][:MOST_NAMED]
    falls = ", ".join(
        f"{group_keys.show(lab.classes[k], width=30)} from {before[k]:.2f} to {after[k]:.2f}" for k in worst
    )
    return Finding(
        code="recall_lost",
        question="Does every class survive in hard decisions?",
        state="care",
        text=f"If the largest recalibrated prediction decides, recall falls: {falls}. The probabilities are right, but "
        "a class that got rare hardly ever has the largest.",
        remedy=f"Use {BALANCED} where every class matters, or costs of errors as the goal.",
    )
