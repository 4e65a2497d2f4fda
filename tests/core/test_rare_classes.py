"""Rare and absent classes: the small version of the last lines of benchmarks/coverage.py, on histograms alone."""

from __future__ import annotations

import numpy as np
import pytest

from fieldcal.core.posterior import Summary
from fieldcal.core.priors import Pooled
from fieldcal.core.problem import Problem
from fieldcal.core.response import auto_smoothing

REPLICAS = 60


def response(K: int) -> np.ndarray:
    """A classifier that is right about half of the time: rows of classes, two bins for each of them."""
    M = np.full((K, 2 * K), 0.5 / (2 * K))
    for k in range(K):
        M[k, 2 * k : 2 * k + 2] += [0.3, 0.2]
    return M


def shares(K: int, last: float) -> np.ndarray:
    """The last class has this share; the others divide the rest evenly."""
    return np.append(np.full(K - 1, (1 - last) / (K - 1)), last)


def estimates(K: int, *, lab: float, field: float, rows: int = 1000, replicas: int = REPLICAS) -> Summary:
    """Of one population, drawn again and again; each (replicas, K)."""
    found, M = [], response(K)
    for seed in range(replicas):
        rng = np.random.default_rng(seed)
        F = np.array(
            [rng.multinomial(n, m) for n, m in zip(rng.multinomial(3000, shares(K, lab)), M, strict=True)]
        )
        V = rng.multinomial(rows, shares(K, field) @ M)[None].astype(float)
        problem = Problem(F.astype(float), V, auto_smoothing(F), False)
        found.append(Pooled().posterior(problem, random_state=seed).summary(0.9))
    return Summary(
        *(np.concatenate([getattr(s, x) for s in found]) for x in ("mean", "sd", "lower", "upper"))
    )


def coverage(found: Summary, truth: float) -> float:
    return float(((found.lower[:, -1] <= truth) & (truth <= found.upper[:, -1])).mean())


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("lab", [0.01, None])
def test_the_interval_of_an_absent_class_holds_zero(K, lab):
    found = estimates(K, lab=lab or 1 / K, field=0.0)
    assert coverage(found, 0.0) >= 0.86
    assert found.upper[:, -1].mean() < 0.08  # and not because it holds everything


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 5])
def test_the_interval_of_a_rare_class_covers_it_and_is_not_made_common(K):
    quarter = 0.01 / (0.01 + 4 * 0.99)
    assert coverage(estimates(K, lab=0.01, field=quarter), quarter) >= 0.86
    found = estimates(K, lab=0.01, field=0.01)
    assert 0.007 < found.mean[:, -1].mean() < 0.014


@pytest.mark.parametrize("K", [2, 5])
def test_a_class_that_is_plainly_there_does_not_reach_zero(K):
    found = estimates(K, lab=0.01, field=0.2, replicas=10)
    assert np.all(found.lower[:, -1] > 0.05)
    assert np.abs(found.mean[:, -1].mean() - 0.2) < 0.04
