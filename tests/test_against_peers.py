"""The defaults where the paper compares methods: a small version of ``benchmarks/quantification.py`` and its like."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import baselines
from experiments.quantification_data import quantification

import fieldcal

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.mark.slow
@pytest.mark.parametrize(("lab_share", "field_share"), [(0.5, 0.05), (0.05, 0.5)], ids=["A", "B"])
def test_a_field_that_moved_is_estimated_no_worse_than_by_em(lab_share, field_share):
    """If label shift holds, and is told to: the default trusts a histogram no further than it can tell."""
    ours, shown, em = [], [], []
    for seed in range(15):
        data = quantification(
            p_lab=(1 - lab_share, lab_share),
            p_fields=(1 - field_share, field_share),
            sizes=(50, 100, 500, 1000),
            random_state=seed,
        )
        lab = fieldcal.learn(data.proba_lab, data.y_lab)
        for proba in data.proba_fields:
            prev = fieldcal.estimate(lab, fieldcal.count(lab, proba), trust=1)
            ours.append(abs(prev.urc[0, 1] - field_share))
            shown.append(abs(prev.estimate[0, 1] - field_share))
            em.append(abs(baselines.em(proba, lab=data.proba_lab, y=data.y_lab)[1] - field_share))
    for found in (ours, shown):
        difference = np.reshape(np.subtract(found, em), (15, -1)).mean(
            axis=1
        )  # one per replica: fields share a lab
        assert difference.mean() < 2 * difference.std() / np.sqrt(15)
        assert difference.mean() < 0.005


def tiny_groups(groups, rows, mean, concentration, seed):
    """Error of the mean prediction, of the estimate, and of what is shown, over groups with Beta prevalences."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(mean * concentration, (1 - mean) * concentration, groups)
    pool = quantification(p_fields=(0.5, 0.5), sizes=(6000,), n_pool=20_000, random_state=seed)
    member = np.repeat(np.arange(groups), rows)
    label = (rng.random(len(member)) < truth[member]).astype(int)
    proba = np.empty(len(member))
    for k in (0, 1):
        own = pool.proba_fields[0][pool.y_fields[0] == k, 1]
        proba[label == k] = rng.choice(own, size=int((label == k).sum()))
    lab = fieldcal.learn(pool.proba_lab[:, 1], pool.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba, groups=member))
    return [np.abs(p[:, 1] - truth).mean() for p in (prev.mean_prediction, prev.urc, prev.estimate)]


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "rows"), [(300, 30), (600, 5)])
@pytest.mark.parametrize(("mean", "concentration"), [(0.05, 20), (0.5, 10), (0.5, 1000)])
def test_tiny_groups_are_estimated_no_worse_than_by_the_mean_prediction(groups, rows, mean, concentration):
    errors = [tiny_groups(groups, rows, mean, concentration, seed) for seed in range(4)]
    naive, urc, value = np.mean(errors, axis=0)
    assert urc < naive
    assert value <= naive + 1e-9  # equal where the groups do not differ beyond noise and are left alone


def test_a_handful_of_rows_that_has_not_moved_is_nearly_left_alone():
    data = fieldcal.datasets.label_shift(n_lab=5000, p_lab=(0.98, 0.02), n_groups=1, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    rng = np.random.default_rng(0)
    for n, most in ((3, 0.15), (10, 0.12), (30, 0.08)):
        rows = [rng.choice(len(data.proba_lab), size=n, replace=False) for _ in range(15)]
        found = [fieldcal.estimate(lab, fieldcal.count(lab, data.proba_lab[r])).estimate[0, 1] for r in rows]
        assert np.mean(found) < most
