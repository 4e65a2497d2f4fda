"""What an order of the classes says about neighbours: terms of a log density in ``x``, with ``p = softmax(x)``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Shape(NamedTuple):
    """What a path looks like, whatever its size."""

    roughness: float = 1.0  # how much the slope changes along the way
    nugget: float = 0.0  # how far each class strays by itself
    continuity: float = 0.0  # strength of the paper's term


PLAIN = Shape()


def walk(n_classes: int, shape: Shape) -> Floats:
    """From independent standard normals to ``log(p / centre)``, (K, K − 1), for a path of unit size.

    Its steps have a common slope, and change along the way by ``roughness`` times a random walk: close to a straight
    line where that is small. Each class may stray from the path by ``nugget``.
    """
    steps = step_covariance(n_classes, shape)
    return np.tril(np.ones((n_classes, n_classes - 1)), -1) @ np.linalg.cholesky(steps)


def step_covariance(n_classes: int, shape: Shape) -> Floats:
    """Of the steps from each class to the next, (K − 1, K − 1); the same from either end of the order."""
    n = n_classes - 1
    T = np.tril(np.ones((n, n)), -1)
    T = T - T.mean(axis=0)  # changes of slope around the mean slope
    D = np.diff(np.eye(n_classes), axis=0)
    rough, stray = shape.roughness**2 * T @ T.T, shape.nugget**2 * D @ D.T
    return np.asarray(1.0 + rough + stray + 1e-6 * np.eye(n))


@dataclass(frozen=True)
class Order:
    """Beliefs about neighbours, for classes that have an order: their places are along the last axis.

    ``−½ strength · d' Σ⁻¹ d`` with ``d`` the steps of ``x − log centre`` and ``Σ`` their covariance: the logarithm of
    ``p / centre`` walks at random. The paper's continuity term is ``−continuity · Σ (p_{k+1} − p_k)²``.
    """

    log_centre: Floats  # (S, 1, K)
    strength: Floats  # (S, 1, 1)
    shape: Shape = PLAIN

    @cached_property
    def precision(self) -> Floats:
        """Of the steps, for a strength of one."""
        return np.asarray(np.linalg.inv(step_covariance(self.log_centre.shape[-1], self.shape)))

    def value(self, x: Floats, p: Floats) -> Floats:
        """Of the log density, (S, B)."""
        steps = np.diff(x - self.log_centre, axis=-1)
        found = -0.5 * (self.strength * steps * (steps @ self.precision)).sum(axis=-1)
        if self.shape.continuity:
            found = found - self.shape.continuity * (np.diff(p, axis=-1) ** 2).sum(axis=-1)
        return np.asarray(found)

    def gradient(self, x: Floats, p: Floats) -> Floats:
        """(S, B, K)."""
        g = self.strength * _back(np.diff(x - self.log_centre, axis=-1) @ self.precision)
        if self.shape.continuity:
            pull = 2 * self.shape.continuity * _back(np.diff(p, axis=-1))
            g = g + p * (pull - (p * pull).sum(axis=-1, keepdims=True))
        return np.asarray(g)

    def information(self, p: Floats) -> Floats:
        """Curvature, (S, B, K, K), positive semidefinite."""
        K = p.shape[-1]
        D = np.diff(np.eye(K), axis=0)
        H = self.strength[..., None] * (D.T @ self.precision @ D)
        if self.shape.continuity:
            J = p[..., :, None] * (np.eye(K) - p[..., None, :])  # dp / dx, symmetric
            H = H + 2 * self.shape.continuity * J @ (D.T @ D) @ J
        return np.asarray(np.broadcast_to(H, (*p.shape, K)))


def _back(steps: Floats) -> Floats:
    """Minus the transpose of differences: what each place feels of the steps on both sides of it."""
    ends = np.zeros((*steps.shape[:-1], 1))
    return np.diff(np.concatenate([ends, steps, ends], axis=-1), axis=-1)
