"""Hypotheses about how the whole field came about, with their prior weights and the shift that each implies.

*Label shift*: predictions of a class are distributed as in the lab, and the classes' shares changed. *Unchanged*: a
prediction means what it meant in the lab. *Other*: anything around the two. A histogram cannot tell them apart for
sure, so that each has a weight in the interval; in the estimate only the first two have one until labels decide.

Where there are no labels, groups have the first two hypotheses twice: about the shift of the whole field, and about
their differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from fieldcal.core.offsets import with_first
from fieldcal.core.policy import POLICY
from fieldcal.core.trust import Trust
from fieldcal.types import Floats, Ints


@dataclass(frozen=True)
class LabelledRows:
    """Rows of the field whose class is known, as effective rows."""

    groups: Ints  # (L,) places of the groups that have any, ascending
    given_bin: Floats  # (L, K, m) drawn at random, or by looking at predictions
    by_class: Floats  # (L, K, m) chosen by class

    @property
    def n(self) -> float:
        return float(self.given_bin.sum() + self.by_class.sum())

    @property
    def only_by_class(self) -> bool:
        """Whether there are some, all chosen by class."""
        return bool(self.by_class.any()) and not self.given_bin.any()


def lab_base(F: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """P(class | bin) in the lab (m, K), and the variance of its logarithms.

    From lab counts F (K, m) as effective rows; mean predictions (m, K) count as a few rows more.
    """
    rows = np.maximum(F.T + POLICY.rows_of_a_prediction * centres, 1e-3)
    return rows / rows.sum(axis=1, keepdims=True), 1 / np.maximum(rows, 0.5)


@dataclass(frozen=True)
class ByClass:
    """Likelihood of rows that were chosen by class: ``Π P(j | k)``, with ``P(j | k) ∝ v_j P(k | j)``, at P points."""

    counts: Floats  # (K, m)
    log_v: Floats  # (m,)
    offset: Floats  # (P, m, K − 1) of log-odds against the first class
    X: Floats  # (m, K − 1, D)

    def _logs(self, d: Floats) -> tuple[Floats, Floats]:
        """log P(k | j) and log P(j | k) at common effects (P, D), (P, m, K) each."""
        logs = with_first(self.offset + np.einsum("mkd,pd->pmk", self.X, d))
        logs = logs - logsumexp(logs, axis=2, keepdims=True)
        joint = logs + self.log_v[:, None]
        return logs, joint - logsumexp(joint, axis=1, keepdims=True)

    def value(self, d: Floats) -> Floats:
        return np.asarray((self.counts.T * self._logs(d)[1]).sum(axis=(1, 2)))

    def slopes(self, d: Floats) -> tuple[Floats, Floats]:
        """Gradient (P, D), and Fisher's information (P, D, D), which is never negative."""
        logs, given = self._logs(d)
        Q, q, Z = np.exp(logs), np.exp(given), with_first(self.X.swapaxes(1, 2)).swapaxes(1, 2)
        # Of log P(k | j): Z_j' (1_k − P_j), less its mean over the bins of class k.
        scores = Z - np.einsum("pjl,jld->pjd", Q, Z)[:, :, None, :]  # (P, m, K, D)
        scores = scores - np.einsum("pjk,pjkd->pkd", q, scores)[:, None]
        n = self.counts.sum(axis=1)
        flat = (scores * np.sqrt(q * n)[..., None]).reshape(len(d), -1, self.X.shape[2])
        return np.einsum("kj,pjkd->pd", self.counts, scores), flat.swapaxes(1, 2) @ flat


Kind = Literal["label_shift", "unchanged", "other"]
KINDS: tuple[Kind, ...] = ("label_shift", "unchanged", "other")


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One of them: the shift of log-odds against the first class is normal around ``mean``."""

    kind: Kind
    weight: float  # in the interval
    estimate: float  # in the estimate, as long as there are no labels
    mean: Floats  # (K − 1,)
    covariance: Floats  # (K − 1, K − 1)

    def in_estimate(self, n: float) -> float:
        """Its weight in the estimate beside n labels of the field: from a few on they decide, and all enter it."""
        alone = float(np.exp(-n / POLICY.first_labels))
        return alone * self.estimate + (1 - alone) * self.weight


def hypotheses(
    shift: Floats, covariance: Floats, *, trust: Trust, shifted: bool, labels: LabelledRows, weighed: bool
) -> tuple[Hypothesis, ...]:
    """The hypotheses about a field, their weights summing to one.

    Parameters
    ----------
    shift, covariance : what label shift implies for the whole field, (K − 1,) and (K − 1, K − 1)
    trust : the probability of label shift, from the histogram or from the caller, who leaves no third hypothesis
    shifted : whether the field's histogram differs from the lab's beyond noise
    labels : of the field
    weighed : whether labels weigh the hypotheses, so that all three must be open
    """
    unit = (np.eye(len(shift)) + 1) / 2
    small, loose = POLICY.shift_sd**2 * unit, (np.abs(shift).max() / 2 + POLICY.other_sd) ** 2 * unit
    # A field that has not shifted beyond noise may have shifted within it.
    around, still = (
        (small, small) if shifted else (0 * unit, small @ np.linalg.solve(small + covariance, covariance))
    )
    if labels.only_by_class:  # they cannot show a shift of the shares
        around, still = around + small, still + small
    weights, near = _weights(trust, shifted=shifted, weighed=weighed)
    found = (
        Hypothesis("label_shift", weights[0], near[0], shift, covariance + around),
        Hypothesis("unchanged", weights[1], near[1], 0 * shift, still),
        Hypothesis("other", weights[2], near[2], shift / 2, loose),
    )
    return tuple(h for h in found if h.weight > 0)


_Weights = tuple[float, float, float]


def _weights(trust: Trust, *, shifted: bool, weighed: bool) -> tuple[_Weights, _Weights]:
    """Of the hypotheses in the interval and in the estimate."""
    t = trust.overall
    if trust.set_by_caller:
        return (t, 1 - t, 0.0), (t, 1 - t, 0.0)
    if not shifted:
        rest = POLICY.beyond_noise if weighed else 0.0
        return _split(rest * (1 - POLICY.indifferent), rest * POLICY.indifferent), (0.0, 1.0, 0.0)
    first = max(t, POLICY.least_label_shift)
    return _split(first, (1 - first) * POLICY.indifferent), (t, 1 - t, 0.0)


def _split(label_shift: float, other: float) -> _Weights:
    return label_shift, 1 - label_shift - other, other


@dataclass(frozen=True)
class ShareHypothesis:
    """One of the hypotheses about shares of groups that no label decides between."""

    weight: float  # in the interval
    overall: float = 0.0  # how much of the shift of the whole field is label shift
    between: float = 0.0  # how much of the differences between groups is
    #: "lab_groups": they differ as the lab's groups did in cross-validation; "other": neither label shift nor unchanged
    kind: Literal["histogram", "lab_groups", "other"] = "histogram"


def share_hypotheses(
    trust: Trust, *, shifted: bool, grouped: bool, validated: bool
) -> tuple[ShareHypothesis, ...]:
    """Hypotheses without labels, their weights summing to one.

    Parameters
    ----------
    trust : from histograms and lab groups, or from the caller, who leaves no third hypothesis
    shifted : whether the field's histogram differs from the lab's beyond noise
    validated : whether cross-validation over lab groups measured how far estimates of groups miss
    """
    if trust.set_by_caller and validated:
        return (ShareHypothesis(1.0, trust.overall, trust.between, "lab_groups"),)
    if trust.set_by_caller:
        return _likely(_pairs(trust.overall, trust.between, grouped=grouped))
    known = trust.rehearsed if grouped else 0.0
    open_ = [replace(h, weight=(1 - known) * h.weight) for h in _undecided(trust, shifted, grouped)]
    return _likely([*_after_validation(trust, known, shifted), *open_])


def _likely(found: Sequence[ShareHypothesis]) -> tuple[ShareHypothesis, ...]:
    return tuple(h for h in found if h.weight > 0)


def _pairs(overall: float, between: float, *, grouped: bool) -> list[ShareHypothesis]:
    """Label shift or unchanged, overall and between groups; unchanged in both comes first."""
    if not grouped:  # one question alone
        return [ShareHypothesis(w, o, o) for o, w in _either(overall)]
    return [ShareHypothesis(w * v, o, b) for o, w in _either(overall) for b, v in _either(between)]


def _either(probability: float) -> tuple[tuple[float, float], tuple[float, float]]:
    return (0.0, 1 - probability), (1.0, probability)


def _undecided(trust: Trust, shifted: bool, grouped: bool) -> list[ShareHypothesis]:
    least = POLICY.least_label_shift
    # Groups of a field that has not shifted have no hypothesis about how it shifted.
    overall = max(trust.overall, least) if shifted or not grouped else 0.0
    unchanged, *others = _pairs(overall, max(trust.between, least), grouped=grouped)
    rest = POLICY.indifferent if shifted or grouped else 0.0
    near = replace(unchanged, weight=unchanged.weight * (1 - rest))
    return [near, *others, ShareHypothesis(unchanged.weight * rest, kind="other")]


def _after_validation(trust: Trust, known: float, shifted: bool) -> list[ShareHypothesis]:
    """Groups differ as the lab's own did; how the whole field shifted is still open."""
    overall = max(trust.overall, POLICY.least_label_shift) if shifted else 0.0
    rest = POLICY.indifferent if shifted else 0.0
    weights = (0.0, (1 - overall) * (1 - rest)), (1.0, overall)
    found = [ShareHypothesis(known * w, o, trust.between, "lab_groups") for o, w in weights]
    return [*found, ShareHypothesis(known * (1 - overall) * rest, kind="other")]
