"""Partial pooling over many groups: error and cost. ``python benchmarks/many_groups.py [--replicas 5]``

Error: 2,000 groups of 10 to 2,000 rows (log-uniform), Beta-distributed prevalence, the scores of the paper's
quantification experiment, lab 2,000 rows, 8 bins; the pooled estimate against the posterior mean with the true prior
known. Cost: microseconds per group with intervals as the number of groups grows, and peak memory.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import fieldcal
from fieldcal.core.posterior import summarise
from fieldcal.core.response import response_draws
from fieldcal.objects import SCORE_UNIT, Batch, Field

SETTINGS = ((0.1, 20), (0.5, 10), (0.3, 100))
GROUPS = 2000


def scores(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(
        n_samples=40_000,
        n_features=4,
        n_informative=2,
        n_redundant=0,
        class_sep=0.4,
        flip_y=0.1,
        random_state=seed,
    )
    model = LogisticRegression().fit(X[:2000], y[:2000])
    return model.predict_proba(X[2000:])[:, 1], y[2000:]


def error(mean: float, concentration: float, seed: int) -> dict[str, float]:
    """Mean absolute error of each estimate over the groups."""
    rng = np.random.default_rng([seed, int(1000 * mean)])
    proba, y = scores(seed)
    lab_at = rng.permutation(len(y))[:2000]
    rest = np.setdiff1d(np.arange(len(y)), lab_at)
    size = np.exp(rng.uniform(np.log(10), np.log(2000), GROUPS)).astype(int)
    truth = rng.beta(mean * concentration, (1 - mean) * concentration, GROUPS)
    groups = np.repeat(np.arange(GROUPS), size)
    labels = rng.random(len(groups)) < truth[groups]
    field = np.empty(len(groups))
    for k in (0, 1):
        pool = proba[rest[y[rest] == k]]
        field[labels == k] = rng.choice(pool, size=int((labels == k).sum()))
    lab = fieldcal.learn(proba[lab_at], y[lab_at], partition=8)
    counted = fieldcal.count(lab, field, groups=groups)
    alpha = concentration * np.array([1 - mean, mean])
    M = response_draws(lab.A, 64, rng)
    known = summarise(M, np.asarray(counted.V, dtype=float), alpha, level=0.9, rng=rng).mean[:, 1]
    estimates = {
        "naive": counted.mean_prediction[:, 1],
        "flat, mode": fieldcal.estimate(lab, counted, prior="flat", point="mode", level=None, trust=1).urc[
            :, 1
        ],
        "pooled": fieldcal.estimate(lab, counted, trust=1).urc[:, 1],
        "true prior known": known,
    }
    return {name: float(np.abs(p - truth).mean()) for name, p in estimates.items()}


def cost(n_groups: int) -> float:
    """Microseconds per group of the pooled estimate with intervals, counts given."""
    rng = np.random.default_rng(0)
    proba, y = scores(0)
    lab = fieldcal.learn(proba[:2000], y[:2000], partition=8)
    truth = rng.beta(2, 18, n_groups)
    size = np.exp(rng.uniform(np.log(10), np.log(2000), n_groups)).astype(int)
    V = rng.multinomial(size, np.column_stack([1 - truth, truth]) @ lab.M)
    sums = (V @ lab.bin_means / SCORE_UNIT).astype(np.int64)
    field = Field(
        lab=lab.digest,
        classes=lab.classes,
        n_bins=8,
        grouped=True,
        batches={"": Batch(groups=tuple(range(n_groups)), V=V, score_sums=sums, weight_squares=V)},
    )
    start = time.perf_counter()
    fieldcal.estimate(lab, field)
    return (time.perf_counter() - start) / n_groups * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=5)
    replicas = parser.parse_args().replicas
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    for mean, concentration in SETTINGS:
        rows = [error(mean, concentration, seed) for seed in range(replicas)]
        means = {name: float(np.mean([r[name] for r in rows])) for name in rows[0]}
        ratio = means["pooled"] / means["true prior known"]
        shown = "  ".join(f"{name} {value:.3f}" for name, value in means.items())
        met = "met" if ratio <= 1.15 else "MISSED"
        print(
            f"Beta mean {mean}, concentration {concentration}: {shown}  pooled / known {ratio:.3f} (≤ 1.15) {met}",
            flush=True,
        )
    for n_groups in (1_000, 10_000, 100_000):
        per_group = cost(n_groups)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        met = ("met" if per_group <= 100 else "MISSED") if n_groups == 100_000 else ""
        print(f"{n_groups:>9,} groups: {per_group:6.1f} µs per group, peak {peak:,.0f} MiB {met}", flush=True)


if __name__ == "__main__":
    main()
