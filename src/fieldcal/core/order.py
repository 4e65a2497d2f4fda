"""What an order of the classes says about neighbours: terms of a log density in ``x``, with ``p = softmax(x)``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Order:
    """Beliefs about neighbours, for classes that have an order: their places are along the last axis.

    ``−½ strength · Σ (Δ_{k+1} − Δ_k)²`` with ``Δ = x − log centre``: the logarithm of ``p / centre`` walks at random.
    The paper's continuity term is ``−continuity · Σ (p_{k+1} − p_k)²``.
    """

    log_centre: Floats  # (S, 1, K)
    strength: Floats  # (S, 1, 1)
    continuity: float = 0.0

    def value(self, x: Floats, p: Floats) -> Floats:
        """Of the log density, (S, B)."""
        steps = np.diff(x - self.log_centre, axis=-1)
        jumps = np.diff(p, axis=-1)
        return np.asarray(
            -0.5 * (self.strength * steps**2).sum(axis=-1) - self.continuity * (jumps**2).sum(axis=-1)
        )

    def gradient(self, x: Floats, p: Floats) -> Floats:
        """(S, B, K)."""
        g = self.strength * _back(np.diff(x - self.log_centre, axis=-1))
        if self.continuity:
            pull = 2 * self.continuity * _back(np.diff(p, axis=-1))
            g = g + p * (pull - (p * pull).sum(axis=-1, keepdims=True))
        return np.asarray(g)

    def information(self, p: Floats) -> Floats:
        """Curvature, (S, B, K, K), positive semidefinite."""
        K = p.shape[-1]
        D = np.diff(np.eye(K), axis=0)
        H = self.strength[..., None] * (D.T @ D)
        if self.continuity:
            J = p[..., :, None] * (np.eye(K) - p[..., None, :])  # dp / dx, symmetric
            H = H + 2 * self.continuity * J @ (D.T @ D) @ J
        return np.asarray(np.broadcast_to(H, (*p.shape, K)))


def _back(steps: Floats) -> Floats:
    """Minus the transpose of differences: what each place feels of the steps on both sides of it."""
    ends = np.zeros((*steps.shape[:-1], 1))
    return np.diff(np.concatenate([ends, steps, ends], axis=-1), axis=-1)
