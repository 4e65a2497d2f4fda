"""Hypotheses about how the whole field came about, with their prior weights and the shift that each implies.

*Label shift*: predictions of a class are distributed as in the lab, and the classes' shares moved. *Unchanged*: a
prediction means what it meant in the lab. *Other*: anything around the two. A histogram cannot tell them apart for
sure, so that each has a weight in the interval; in the estimate only the first two have one until labels decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fieldcal.core.policy import POLICY
from fieldcal.types import Floats

Kind = Literal["label_shift", "unchanged", "other"]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One of them: the shift of log-odds against the first class is normal around ``mean``."""

    kind: Kind
    weight: float  # in the interval
    estimate: float  # in the estimate
    mean: Floats  # (K − 1,)
    covariance: Floats  # (K − 1, K − 1)


def hypotheses(
    shift: Floats,
    covariance: Floats,
    *,
    trust: float,
    moved: bool,
    labels: float = 0.0,
) -> tuple[Hypothesis, ...]:
    """The hypotheses about a field, their weights summing to one.

    Parameters
    ----------
    shift, covariance : what label shift implies for the whole field, (K − 1,) and (K − 1, K − 1)
    trust : the probability of label shift, from the histogram or from the caller
    moved : whether the field's histogram differs from the lab's beyond noise
    labels : labelled rows of the field; from a few on they decide, and all three enter the estimate
    """
    place = 0 if moved else 1
    unit = (np.eye(len(shift)) + 1) / 2
    loose = (np.abs(shift).max() / 2 + POLICY.other_off[place]) ** 2 * unit
    around = POLICY.label_shift_off[place] ** 2 * unit
    still = POLICY.same_off[place] ** 2 * unit
    if not moved:  # it may have moved within the noise of its histogram
        small = POLICY.unseen_shift**2 * unit
        still = still + small @ np.linalg.solve(small + covariance, covariance)
    if moved:
        first = max(trust, POLICY.story_label_shift)
        weights = (first, (1 - first) * (1 - POLICY.story_other), (1 - first) * POLICY.story_other)
        estimates = (trust, 1 - trust, 0.0)
    else:
        weights = POLICY.explanations[1] if labels else (0.0, 1.0, 0.0)
        estimates = (0.0, 1.0, 0.0)
    alone = float(np.exp(-labels / POLICY.first_labels))
    near = [alone * e + (1 - alone) * w for e, w in zip(estimates, weights, strict=True)]
    found = (
        Hypothesis("label_shift", weights[0], near[0], shift, covariance + around),
        Hypothesis("unchanged", weights[1], near[1], 0 * shift, still),
        Hypothesis("other", weights[2], near[2], shift / 2, loose),
    )
    return tuple(h for h in found if h.weight > 0)
