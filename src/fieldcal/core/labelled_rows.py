"""What the posterior with labels is made of: labelled rows, what the lab says of a bin, explanations of the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from fieldcal.core.intervals import interval_of_mixture
from fieldcal.core.policy import POLICY
from fieldcal.types import Floats, Ints

Kind = Literal["label_shift", "same", "other"]
KINDS: tuple[Kind, ...] = ("label_shift", "same", "other")

_TINY = 1e-300


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
    def believed_without(self) -> float:
        """The weight that is left to what was believed without any: so few cannot make much of it."""
        return float(np.exp(-self.n / POLICY.first_labels))


@dataclass(frozen=True)
class Base:
    """What the lab says of the classes in each bin."""

    logs: Floats  # (m, K) log P_lab(k | j)
    noise: Floats  # (m, K) variance of them
    slope: Floats  # (m, K) how they change if the model is more, or less, sure of itself
    centres: Floats  # (m, K) mean prediction

    @classmethod
    def of(cls, F: Floats, centres: Floats, v: Floats) -> Base:
        """From lab counts F (K, m), as effective rows; predictions count as a few rows more. v: the field, (m,)."""
        rows = np.maximum(F.T + POLICY.rows_of_a_prediction * centres, 1e-3)
        logs = np.log(rows / rows.sum(axis=1, keepdims=True))
        slope = logs - logs.mean(axis=1, keepdims=True)
        slope = slope - (v @ slope) / max(v.sum(), _TINY)
        return cls(logs, POLICY.lab_noise / np.maximum(rows, 0.5), slope, np.maximum(centres, 1e-6))


@dataclass(frozen=True)
class Explanation:
    """One answer to how the classes of the field came about, before labels are seen."""

    kind: Kind
    weight: float
    tilt: Floats  # (G, K) or (1, K), where all groups have the same
    variance: Floats  # (K,) of what all groups have in common beside it
    own: Floats | None  # (G, K) of what a group has alone; None for one population
    off: float  # δ, the scale of what no tilt explains
    between: float = 0.0  # how much of the differences between groups is followed
    group_off: float | None = None  # the scale of what a group has alone, where it was not rehearsed

    @property
    def story(self) -> tuple[Kind, float]:
        """What it says of the tilt."""
        return self.kind, self.between


@dataclass(frozen=True)
class Foretold:
    """Shares of the classes among labelled rows, given their predictions: what came, and what was said to come."""

    observed: Floats  # (K,)
    expected: Floats  # (K,)
    chance: float  # p-value of so large a difference


@dataclass(frozen=True)
class ByClass:
    """Likelihood of rows that were chosen by class: ``Π P(j | k)``, with ``P(j | k) ∝ v_j P(k | j)``."""

    counts: Floats  # (K, m)
    log_v: Floats  # (m,)
    offset: Floats  # (m, K)
    Z: Floats  # (m, K, D)

    def _logs(self, d: Floats) -> tuple[Floats, Floats]:
        """log P(k | j), (m, K), and log P(j | k), (m, K)."""
        logs = self.offset + self.Z @ d
        logs = logs - logsumexp(logs, axis=1, keepdims=True)
        joint = logs + self.log_v[:, None]
        return logs, joint - logsumexp(joint, axis=0, keepdims=True)

    def value(self, d: Floats) -> float:
        """The log likelihood."""
        return float((self.counts.T * self._logs(d)[1]).sum())

    def slopes(self, d: Floats) -> tuple[Floats, Floats]:
        """Gradient, and Fisher's information, which is never negative."""
        logs, given = self._logs(d)
        Q, q = np.exp(logs), np.exp(given)  # (m, K) each
        # Of log P(k | j): Z_j' (1_k − P_j), less its mean over the bins of class k.
        scores = self.Z - np.einsum("jl,jld->jd", Q, self.Z)[:, None, :]  # (m, K, D)
        scores = scores - np.einsum("jk,jkd->kd", q, scores)[None]
        n = self.counts.sum(axis=1)
        flat = (scores * np.sqrt(q * n)[:, :, None]).reshape(-1, scores.shape[2])
        return np.einsum("kj,jkd->d", self.counts, scores), flat.T @ flat


@dataclass(frozen=True)
class Shares:
    """Of the classes in every group, as a mixture of explanations."""

    weights: Floats
    means: tuple[Floats, ...]  # (G, K) each
    variances: tuple[Floats, ...]
    n: Floats  # (G,)

    def beside(
        self, weight: float, weights: Floats, means: Sequence[Floats], variances: Sequence[Floats]
    ) -> Shares:
        """The same beside another mixture, which has this weight."""
        return Shares(
            np.concatenate([(1 - weight) * self.weights, weight * weights]),
            (*self.means, *means),
            (*self.variances, *variances),
            self.n,
        )

    @property
    def mean(self) -> Floats:
        """(G, K)."""
        mean = sum(w * m for w, m in zip(self.weights, self.means, strict=True))
        return np.asarray(mean / np.sum(mean, axis=1, keepdims=True))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Equal-tailed."""
        return interval_of_mixture(self.means, self.variances, self.weights, level, n=self.n, holds=self.mean)
