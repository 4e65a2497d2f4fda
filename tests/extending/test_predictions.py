"""A kind of prediction that fieldcal does not know: one class, and every verb takes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fieldcal
from fieldcal.regression import Predictions


@dataclass(frozen=True)
class Uniform(Predictions):
    """Anywhere between two ends, alike."""

    low: np.ndarray
    high: np.ndarray

    def __len__(self):
        return len(self.low)

    def _cdf(self, x, before):
        return np.clip((x - self.low[:, None]) / (self.high - self.low)[:, None], 0.0, 1.0)

    def _pdf(self, x):
        inside = (x >= self.low[:, None]) & (x <= self.high[:, None])
        return np.where(inside, 1.0 / (self.high - self.low)[:, None], 0.0)

    def _ppf(self, u):
        return self.low[:, None] + u * (self.high - self.low)[:, None]

    def _take(self, rows):
        return Uniform(self.low[rows], self.high[rows])


def world(seed, n, tilt):
    """Numbers anywhere in their interval; the larger the tilt, the more of the larger ones are met."""
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=20 * n)
    y = middle + rng.uniform(-1.5, 1.5, 20 * n)
    weight = np.exp(tilt * y)
    met = rng.choice(20 * n, n, replace=False, p=weight / weight.sum())
    return Uniform(middle[met] - 1.5, middle[met] + 1.5), y[met], rng.choice(["York", "Leeds"], n)


def test_the_four_verbs_take_it():
    lab_rows, y, _ = world(0, 4_000, 0.0)
    field_rows, truth, towns = world(1, 3_000, 0.7)
    lab = fieldcal.learn(lab_rows, y)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, field_rows, groups=towns), trust=1)
    assert fieldcal.Prevalence.from_json(prev.to_json()) == prev
    share = np.bincount(lab.outcome.codes(truth), minlength=len(lab.classes)) / len(truth)
    assert np.abs(prev.whole.urc - share).sum() < 0.5 * np.abs(lab.p_lab - share).sum()
    new = fieldcal.recalibrate(prev, field_rows, groups=towns)
    assert new.crps(truth).mean() < field_rows.crps(truth).mean()
