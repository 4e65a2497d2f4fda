"""Fault 65: many classes with groups. How long it takes is measured by ``benchmarks/speed.py growth``."""

from __future__ import annotations

import numpy as np
import pytest

import fieldcal
from fieldcal.core import likelihood
from fieldcal.core.response import confusable_classes


def test_fault_65_information_and_classes_alike_are_found_among_many():
    rng = np.random.default_rng(0)
    M, p = rng.dirichlet(np.ones(9), 6), rng.dirichlet(np.ones(6), 8)
    V = rng.poisson(3, (8, 9)).astype(float)
    one_by_one = np.concatenate([likelihood.information(p[[g]], M, V[[g]]) for g in range(8)])
    np.testing.assert_allclose(one_by_one, likelihood.information(p, M, V), rtol=1e-12)
    M = np.random.default_rng(0).dirichlet(np.ones(30), 120)
    M[[7, 90]] = M[40]
    assert confusable_classes(M) == [(7, 40), (7, 90), (40, 90)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_fault_65_sixty_classes_with_groups_are_found_within_their_intervals_and_progress_is_told():
    K, rng = 60, np.random.default_rng(0)
    truth = rng.dirichlet(np.full(K, 5.0))

    def predicted(y):
        odds = np.exp(rng.normal(size=(len(y), K)) + 4 * np.eye(K)[y])
        return odds / odds.sum(axis=1, keepdims=True)

    y, moved, groups = rng.integers(K, size=6000), rng.choice(K, size=6000, p=truth), np.arange(6000) % 3
    lab = fieldcal.learn(predicted(y), y)
    told = []
    field = fieldcal.count(lab, predicted(moved), groups=groups)
    prev = fieldcal.estimate(lab, field, trust=1, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)
    whole = prev.whole
    assert np.mean((whole.lower <= truth) & (truth <= whole.upper)) > 0.75
    assert np.abs(whole.estimate - truth).mean() < 0.3 * np.abs(1 / K - truth).mean()
