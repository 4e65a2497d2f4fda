"""The tilt of predictions after which their mean is a given share."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from fieldcal.types import Floats

_CELLS = 2_000_000  # numbers in memory at a time
_TINY = 1e-300


def matched_tilt(centres: Floats, V: Floats, shares: Floats, *, steps: int = 40) -> Floats:
    """Tilts (G, K) after which the mean prediction of each group is its share.

    The tilt with the best log loss in hindsight is the one whose mean prediction is the true share: the two have the
    same equation. Predictions stand at the centres of their bins.
    """
    target = np.clip(shares, 1e-9, None)
    target = target / target.sum(axis=1, keepdims=True)
    n = V.sum(axis=1, keepdims=True)
    v = np.where(n > 0, V / np.maximum(n, _TINY), 1 / V.shape[1])
    tilt = np.log(target) - np.log(np.maximum(v @ centres, 1e-9))
    K = target.shape[1]
    chunk = max(1, _CELLS // (V.shape[1] * K * K))
    for start in range(0, len(V), chunk):
        rows = slice(start, start + chunk)
        tilt[rows] = _matched(np.log(np.maximum(centres, 1e-15)), v[rows], target[rows], tilt[rows], steps)
    return np.asarray(tilt - tilt.max(axis=1, keepdims=True))


def _matched(logs: Floats, v: Floats, target: Floats, tilt: Floats, steps: int) -> Floats:
    """Newton's method; the last class is the reference."""
    K = target.shape[1]
    for _ in range(steps):
        Q = softmax(logs + tilt[:, None, :], axis=2)
        left = (target - np.einsum("gj,gjk->gk", v, Q))[:, :-1]
        if np.abs(left).max(initial=0.0) < 1e-10:
            break
        H = np.einsum("gj,gjk,kl->gkl", v, Q, np.eye(K)) - np.einsum("gj,gjk,gjl->gkl", v, Q, Q)
        H = H[:, :-1, :-1] + 1e-12 * np.eye(K - 1)
        move = np.linalg.solve(H, left[:, :, None])[:, :, 0]
        tilt = tilt.copy()
        tilt[:, :-1] += np.clip(move, -2.0, 2.0)
    return tilt
