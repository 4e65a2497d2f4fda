"""Log-odds against the first class, offsets that label shift implies for groups, and how far groups persist."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, logsumexp, polygamma

from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Posterior
from fieldcal.types import Floats, Ints


def against_first(logs: Floats) -> Floats:
    """Of every other class against the first, (…, K − 1)."""
    return np.asarray(logs[..., 1:] - logs[..., :1])


def with_first(logs: Floats) -> Floats:
    """Back: (…, K), those of the first class are 0."""
    return np.concatenate([np.zeros((*logs.shape[:-1], 1)), logs], axis=-1)


def slopes_of(Q: Floats) -> Floats:
    """How probabilities (…, K) change with their log-odds, (…, K, K)."""
    return np.asarray(Q[..., None] * np.eye(Q.shape[-1]) - Q[..., None] * Q[..., None, :])


_LEAST = 1e-4  # of a share whose logarithm is taken
_LEAST_ROWS = 0.5  # pseudo-rows behind such a share
_TINY = 1e-300


@dataclass(frozen=True)
class Offsets:
    """Log-ratios of classes against the first, with their error."""

    mean: Floats  # (n, K − 1)
    covariance: Floats  # (n, K − 1, K − 1)

    @classmethod
    def of(cls, p: Floats, sd: Floats, base: Floats) -> Offsets:
        """Of shares p (n, K) with posterior standard deviations sd, relative to a base (K,).

        The moments of logarithms of the Beta that has the mean and the standard deviation of each share.
        """
        p = np.clip(p, _LEAST, 1 - _LEAST)
        strength = np.clip(p * (1 - p) / np.maximum(sd, 1e-6) ** 2 - 1, 0.2, 1e7)
        a, b = np.maximum(p * strength, _LEAST_ROWS), np.maximum((1 - p) * strength, _LEAST_ROWS)
        variance = polygamma(1, a)
        mean = against_first(digamma(a) - digamma(a + b)) - against_first(np.log(np.maximum(base, _LEAST)))
        free = np.eye(p.shape[1] - 1)
        return cls(mean, variance[:, 1:, None] * free + variance[:, :1, None])

    def take(self, rows: Ints) -> Offsets:
        """Some of them; an unknown one, −1, is 0 without an error."""
        known = rows >= 0
        return Offsets(
            np.where(known[:, None], self.mean[rows], 0.0),
            np.where(known[:, None, None], self.covariance[rows], 0.0),
        )

    def followed(self, share: Floats) -> Offsets:
        """Shrunk to a share (n,) of each; what is not followed adds to its error."""
        left = (1 - share)[:, None] * self.mean
        return Offsets(share[:, None] * self.mean, self.covariance + left[:, :, None] * left[:, None, :])


def offsets_of(posterior: Posterior, base: Floats) -> Offsets:
    """Of groups under label shift; of more than two classes from the mode and the curvature there, which is fast."""
    if posterior.M.shape[1] == 2:
        found = posterior.summary(0.9)
        return Offsets.of(found.mean, found.sd, base)
    p = np.clip(posterior.mode().p, _LEAST, 1.0)
    p = p / p.sum(axis=1, keepdims=True)
    M, strength = posterior.problem.M, float(np.median(posterior.alpha.sum(axis=1)))
    expected = np.maximum(p @ M, _TINY)
    slopes = slopes_of(p)[..., 1:]  # (n, K, K − 1) of shares with their log-ratios
    through = np.einsum("gka,kj->gja", slopes, M)
    information = np.einsum("gj,gja,gjb->gab", posterior.V / expected**2, through, through, optimize=True)
    information += strength * slopes_of(p)[:, 1:, 1:] + 1e-3 * np.eye(p.shape[1] - 1)
    mean = against_first(np.log(p)) - against_first(np.log(np.maximum(base, _LEAST)))
    return Offsets(mean, np.linalg.inv(information))


@dataclass(frozen=True)
class Persistence:
    """How far groups keep their errors from lab to field: values and their probabilities."""

    values: Floats  # (R,)
    weights: Floats  # (R,)

    @property
    def mean(self) -> float:
        return float(self.values @ self.weights)

    def likely(self, least: float = 0.02) -> Persistence:
        """Without values that hardly matter."""
        kept = self.weights >= least * self.weights.max()
        return Persistence(self.values[kept], self.weights[kept] / self.weights[kept].sum())


def persistence(
    lab: tuple[Floats, Floats], field: tuple[Floats, Floats], *, given: float | None = None
) -> Persistence:
    """From how well the groups' mean predictions in the field resemble those in the lab, beyond noise.

    Parameters
    ----------
    lab, field : deviations of mean predictions (n, K) of groups known to both from those of all, and their variances
    given : a value that the caller set
    """
    if given is not None:
        return Persistence(np.array([given]), np.ones(1))
    values, prior = (np.array(x) for x in POLICY.persistence)
    logs = np.log(prior)
    (z_lab, noise_lab), (z_field, noise_field) = lab, field
    n, K = z_lab.shape
    if n > 2:
        own = np.maximum(z_lab.var(axis=0) - noise_lab.mean(axis=0), 1e-7)
        later = np.maximum(z_field.var(axis=0) - noise_field.mean(axis=0), 1e-7)
        for i, rho in enumerate(values):
            a, b, c = own + noise_lab, later + noise_field, rho * np.sqrt(own * later)
            det = a * b - c**2
            square = (b * z_lab**2 - 2 * c * z_lab * z_field + a * z_field**2) / det
            logs[i] -= 0.5 * (np.log(det) + square).sum() / (K if K == 2 else K - 1)  # classes sum to one
    return Persistence(values, np.exp(logs - logsumexp(logs)))
