"""Log-odds of classes against the first: from logarithms and back, and how probabilities follow them."""

from __future__ import annotations

import numpy as np

from fieldcal.types import Floats


def against_first(logs: Floats) -> Floats:
    """Of every other class against the first, (…, K − 1)."""
    return np.asarray(logs[..., 1:] - logs[..., :1])


def with_first(logs: Floats) -> Floats:
    """Back: (…, K), those of the first class are 0."""
    return np.concatenate([np.zeros((*logs.shape[:-1], 1)), logs], axis=-1)


def slopes_of(Q: Floats) -> Floats:
    """How probabilities (…, K) change with their log-odds, (…, K, K)."""
    return np.asarray(Q[..., None] * np.eye(Q.shape[-1]) - Q[..., None] * Q[..., None, :])
