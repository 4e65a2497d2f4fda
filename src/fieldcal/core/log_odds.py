"""Log-odds of classes against the first: effects, their precision, and how probabilities follow them."""

from __future__ import annotations

import numpy as np

from fieldcal.types import Floats, Ints


def against_first(logs: Floats) -> Floats:
    """Of every other class against the first, (…, K − 1)."""
    return np.asarray(logs[..., 1:] - logs[..., :1])


def with_first(logs: Floats) -> Floats:
    """Back: (…, K), those of the first class are 0."""
    return np.concatenate([np.zeros((*logs.shape[:-1], 1)), logs], axis=-1)


def precisions(variance: Floats) -> Floats:
    """Of independent effects of classes with these variances (n, K), against the first class, (n, K − 1, K − 1)."""
    rest = 1 / variance[:, 1:]
    inner = rest[:, :, None] * np.eye(rest.shape[1])
    # The inverse of diag(v) + v_1·11' (Sherman and Morrison).
    return np.asarray(
        inner - rest[:, :, None] * rest[:, None, :] / (1 / variance[:, 0] + rest.sum(axis=1))[:, None, None]
    )


def slopes_of(Q: Floats) -> Floats:
    """How probabilities (…, K) change with their log-odds, (…, K, K)."""
    return np.asarray(Q[..., None] * np.eye(Q.shape[-1]) - Q[..., None] * Q[..., None, :])


def spread_noise(slopes: Floats, of: Ints, variance: Floats) -> Floats:
    """What independent effects of the cells' groups, or bins, do to the sums over all cells, (K, K)."""
    names, place = np.unique(of, return_inverse=True)
    together = np.zeros((len(names), *slopes.shape[1:]))
    np.add.at(together, place, slopes)
    return np.asarray(np.einsum("jkl,jl,jml->km", together, variance, together))
