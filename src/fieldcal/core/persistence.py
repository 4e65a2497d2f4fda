"""Persistence: how far groups keep their errors, and their place among the others, from lab to field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from fieldcal.core.policy import POLICY
from fieldcal.types import Floats


@dataclass(frozen=True)
class Persistence:
    """How far groups keep their errors from lab to field: values and their probabilities."""

    values: Floats  # (R,)
    weights: Floats  # (R,)

    @property
    def mean(self) -> float:
        """The expected persistence."""
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
