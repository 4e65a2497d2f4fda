"""Intervals of shares and draws around them: mixtures of normals on the logit scale, and Beta distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit, ndtr, ndtri, softmax

from fieldcal.types import Floats

_STEPS = 40  # halvings of the range in which a quantile of a mixture lies
_WIDEST = 10.0  # standard deviation on the logit scale: anything at all
#: Half a row of more rows than there are; closer to 0 or 1 the logarithm of the odds has no digits left.
_LEAST = 1e-14


@dataclass(frozen=True)
class Shares:
    """Of the classes, as a mixture over hypotheses: one normal each on the logit scale."""

    weights: Floats  # (H,)
    means: Floats  # (H, n, K)
    variances: Floats  # (H, n, K)
    estimate: Floats  # (n, K)

    def beside(self, weight: float, other: Shares) -> Shares:
        """The same beside another mixture, which has this weight."""
        if not weight:
            return self
        return Shares(
            np.concatenate([(1 - weight) * self.weights, weight * other.weights]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.variances, other.variances]),
            (1 - weight) * self.estimate + weight * other.estimate,
        )

    def interval(self, level: float, n: Floats) -> tuple[Floats, Floats]:
        """Equal-tailed, of shares of so many rows (n,)."""
        return interval_of_mixture(
            list(self.means), list(self.variances), self.weights, level, n=n, holds=self.estimate
        )

    @property
    def deviation(self) -> Floats:
        """(n, K) standard deviations around the estimate."""
        square = self.variances + (self.means - self.estimate) ** 2
        return np.asarray(np.sqrt(np.einsum("h,hnk->nk", self.weights, square)))


def interval_of_mixture(
    means: Sequence[Floats],
    variances: Sequence[Floats],
    weights: Floats,
    level: float,
    *,
    n: Floats,
    holds: Floats,
    ends: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> tuple[Floats, Floats]:
    """Equal-tailed interval of a mixture of shares, each normal on the logit scale, with means (G, K) and variances.

    Parameters
    ----------
    n : (G,) rows
    holds : (G, K) what the interval must hold
    ends : (G, K) where it reaches to 0, and to 1, whatever the mixture says
    """
    # Of two classes one is the mirror of the other.
    columns = slice(1, None) if holds.shape[1] == 2 else slice(None)
    curves = [_on_logits(m[:, columns], v[:, columns], n) for m, v in zip(means, variances, strict=True)]
    nowhere = np.zeros(holds.shape, dtype=bool)
    at_zero, at_one = (at[:, columns] for at in ((nowhere, nowhere) if ends is None else ends))
    tail, least = (1 - level) / 2, 0.5 / (n[:, None] + 1)
    lower = expit(_quantile(curves, weights, np.where(at_one & ~at_zero, 2 * tail, tail)))
    upper = expit(_quantile(curves, weights, np.where(at_zero & ~at_one, 1 - 2 * tail, 1 - tail)))
    lower = np.where((lower <= least) | at_zero, 0.0, lower)
    upper = np.where((upper >= 1 - least) | at_one, 1.0, upper)
    if holds.shape[1] == 2:
        lower, upper = np.hstack([1 - upper, lower]), np.hstack([1 - lower, upper])
    return np.minimum(lower, holds), np.maximum(upper, holds)


def _on_logits(mean: Floats, variance: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation on the logit scale."""
    centre, variance = _off_the_ends(mean, variance, n)
    return logit(centre), np.minimum(np.sqrt(variance) / (centre * (1 - centre)), _WIDEST)


def _off_the_ends(mean: Floats, variance: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Predictions of exactly 0 leave no variance; but n rows cannot tell a prevalence of 0 from one of half a row."""
    least = np.maximum(0.5 / (n[:, None] + 1), _LEAST)
    centre = np.clip(mean, least, 1 - least)
    s = centre * (1 - centre)
    at_end = (mean <= least) | (mean >= 1 - least)
    variance = np.where(at_end, np.maximum(variance, s / (n[:, None] + 2)), variance)
    return centre, np.maximum(variance, 1e-18)


def _beta(mean: Floats, variance: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Parameters of the Beta with this mean and variance."""
    centre, variance = _off_the_ends(mean, variance, n)
    s = centre * (1 - centre)
    strength = s / np.minimum(variance, 0.9 * s) - 1
    return np.maximum(centre * strength, 1e-9), np.maximum((1 - centre) * strength, 1e-9)


def _quantile(curves: list[tuple[Floats, Floats]], weights: Floats, at: Floats) -> Floats:
    """By halving between the lowest and the highest of the quantiles of single normals."""
    own = [m + s * ndtri(at) for m, s in curves]
    low, high = np.minimum.reduce(own), np.maximum.reduce(own)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        below = sum(w * ndtr((middle - m) / s) for w, (m, s) in zip(weights, curves, strict=True)) < at
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def beta_interval(
    mean: Floats, variance: Floats, level: float, *, n: Floats, holds: Floats | None = None
) -> tuple[Floats, Floats]:
    """Equal-tailed interval of the Beta with this mean and variance; one-sided where it piles up at an end."""
    a, b = _beta(mean, variance, n)
    tail = (1 - level) / 2
    with np.errstate(all="ignore"):
        lower = np.where(a < 1, 0.0, betaincinv(a, b, np.where(b < 1, 2 * tail, tail)))
        upper = np.where(b < 1, 1.0, betaincinv(a, b, 1 - np.where(a < 1, 2 * tail, tail)))
    lower, upper = np.nan_to_num(lower, nan=0.0), np.nan_to_num(upper, nan=1.0)
    holds = mean if holds is None else holds
    return np.minimum(lower, holds), np.maximum(upper, holds)


def perturbed(p: Floats, variance: Floats, rng: np.random.Generator) -> Floats:
    """Shares around p with this variance of each, by noise on the logarithms; they sum to one."""
    noise = spread_on_logs(p, variance) * rng.standard_normal(p.shape)
    return np.asarray(softmax(np.log(np.clip(p, 1e-12, 1.0)) + noise, axis=-1))


def spread_on_logs(p: Floats, variance: Floats) -> Floats:
    """Standard deviation of independent noise on the logarithms that gives shares p this variance of each."""
    p = np.clip(p, 1e-12, 1.0)
    rest = (np.square(p).sum(axis=-1, keepdims=True) - p**2) / np.maximum(1 - p, 1e-12) ** 2
    sd = np.sqrt(variance) / np.maximum(p * (1 - p), 1e-9) / np.sqrt(1 + rest)
    return np.asarray(np.minimum(sd, _WIDEST))
