"""Labelled rows of the field, and the lab's class probabilities of each bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from fieldcal.core.log_odds import with_first
from fieldcal.core.policy import POLICY
from fieldcal.types import Floats, Ints


@dataclass(frozen=True)
class LabelledRows:
    """Rows of the field whose class is known, as effective rows."""

    groups: Ints  # (L,) places of the groups that have any, ascending
    given_bin: Floats  # (L, K, m) drawn at random, or by looking at predictions
    by_class: Floats  # (L, K, m) chosen by class

    @property
    def n(self) -> float:
        """How many they are."""
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
        """The log likelihood, (P,)."""
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
