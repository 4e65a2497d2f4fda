"""Hypotheses about how the whole field came about, with their prior weights and the shift that each implies.

*Label shift*: predictions of a class are distributed as in the lab, and the classes' shares moved. *Unchanged*: a
prediction means what it meant in the lab. *Other*: anything around the two. A histogram cannot tell them apart for
sure, so that each has a weight in the interval; in the estimate only the first two have one until labels decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fieldcal.core.labelled_rows import LabelledRows
from fieldcal.core.policy import POLICY
from fieldcal.core.trust import Trust
from fieldcal.types import Floats

Kind = Literal["label_shift", "unchanged", "other"]
KINDS: tuple[Kind, ...] = ("label_shift", "unchanged", "other")


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One of them: the shift of log-odds against the first class is normal around ``mean``."""

    kind: Kind
    weight: float  # in the interval
    estimate: float  # in the estimate
    mean: Floats  # (K − 1,)
    covariance: Floats  # (K − 1, K − 1)


def hypotheses(
    shift: Floats, covariance: Floats, *, trust: Trust, moved: bool, labels: LabelledRows, weighed: bool
) -> tuple[Hypothesis, ...]:
    """The hypotheses about a field, their weights summing to one.

    Parameters
    ----------
    shift, covariance : what label shift implies for the whole field, (K − 1,) and (K − 1, K − 1)
    trust : the probability of label shift, from the histogram or from the caller, who leaves no third hypothesis
    moved : whether the field's histogram differs from the lab's beyond noise
    labels : of the field; from a few on they decide, and all three enter the estimate
    weighed : whether labels weigh the hypotheses, so that all three must be open
    """
    place, n = 0 if moved else 1, labels.n
    unit = (np.eye(len(shift)) + 1) / 2
    # Rows that were all chosen by class cannot show a shift of the shares.
    untested = POLICY.untested_off[place] ** 2 * unit if labels.only_by_class else 0 * unit
    loose = (np.abs(shift).max() / 2 + POLICY.other_off[place]) ** 2 * unit
    around = POLICY.label_shift_off[place] ** 2 * unit + untested
    still = POLICY.same_off[place] ** 2 * unit + untested
    if not moved:  # it may have moved within the noise of its histogram
        small = POLICY.unseen_shift**2 * unit
        still = still + small @ np.linalg.solve(small + covariance, covariance)
    weights, estimates = _weights(trust, moved=moved, weighed=weighed)
    alone = float(np.exp(-n / POLICY.first_labels))
    near = [alone * e + (1 - alone) * w for e, w in zip(estimates, weights, strict=True)]
    found = (
        Hypothesis("label_shift", weights[0], near[0], shift, covariance + around),
        Hypothesis("unchanged", weights[1], near[1], 0 * shift, still),
        Hypothesis("other", weights[2], near[2], shift / 2, loose),
    )
    return tuple(h for h in found if h.weight > 0)


_Weights = tuple[float, float, float]


def _weights(trust: Trust, *, moved: bool, weighed: bool) -> tuple[_Weights, _Weights]:
    """Of the hypotheses in the interval and in the estimate."""
    t = trust.overall
    if trust.set_by_caller:
        return (t, 1 - t, 0.0), (t, 1 - t, 0.0)
    if not moved:
        return (POLICY.explanations[1] if weighed else (0.0, 1.0, 0.0)), (0.0, 1.0, 0.0)
    first = max(t, POLICY.story_label_shift)
    other = (1 - first) * POLICY.story_other
    return (first, 1 - first - other, other), (t, 1 - t, 0.0)
