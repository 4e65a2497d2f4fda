"""Regression: recovery beside a model that knows the field, cost beside a plain copy, and real data without a shift.

    python benchmarks/regression.py [DIR]

DIR: a folder with ``scores/diabetes-LOS9_ord__medical_specialty__random.parquet`` and ``tables/flights.parquet``;
without it, the real data are left out.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.metrics import log_loss

import fieldcal
from fieldcal import regression

NOISE = 0.7
SLOPE = 1 / (1 + NOISE**2)
SD = float(np.sqrt(1 - SLOPE))
LEVELS = np.arange(1, 20) / 20


def predicted(x):
    return regression.from_moments(SLOPE * x, np.full(len(x), SD))


def oracle(x, mean, sd):
    variance = 1 / (1 / sd**2 + 1 / NOISE**2)
    return regression.from_moments(
        variance * (mean / sd**2 + x / NOISE**2), np.full(len(x), np.sqrt(variance))
    )


def covered(distribution, y, coverage):
    low, high = distribution.interval(coverage).T
    return ((low <= y) & (y <= high)).mean()


def recovery(replicas: int = 10) -> None:
    """Lab N(0, 1), field N(mean, sd²), the number seen through noise of sd 0.7."""
    print("Recovery, lab and field of n rows, trust 1, mean ± se over replicas")
    print(f"{'field':>14} {'n':>6} {'CRPS before':>12} {'after':>16} {'coverage of 90 %':>26}")
    print(f"{'':>14} {'':>6} {'/ oracle':>12} {'/ oracle':>16} {'before':>12} {'after':>13}")
    for mean, sd in ((0.0, 1.0), (0.8, 0.7), (-1.0, 1.0)):
        for n in (500, 5_000, 20_000):
            rows = []
            for seed in range(replicas):
                rng = np.random.default_rng(seed)
                y_lab, y = rng.standard_normal(n), mean + sd * rng.standard_normal(n)
                x_lab, x = (v + NOISE * rng.standard_normal(n) for v in (y_lab, y))
                lab = fieldcal.learn(predicted(x_lab), y_lab)
                prev = fieldcal.estimate(lab, fieldcal.count(lab, predicted(x)), trust=1)
                old, best = predicted(x), oracle(x, mean, sd)
                new = fieldcal.recalibrate(prev, old)
                truth = best.crps(y).mean()
                rows.append(
                    [d.crps(y).mean() / truth for d in (old, new)] + [covered(d, y, 0.9) for d in (old, new)]
                )
            centre, se = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(replicas)
            print(
                f"N({mean:+.1f}, {sd:.1f}²) {n:>9,} {centre[0]:>12.3f} {centre[1]:>8.3f} ± {se[1]:.3f} "
                f"{centre[2]:>12.3f} {centre[3]:>7.3f} ± {se[3]:.3f}",
                flush=True,
            )


def cost(n: int = 1_000_000, n_groups: int = 1_000) -> None:
    """A million rows of 19 quantiles, 20 intervals, 1,000 groups: one pass, beside a copy of the same array."""
    rng = np.random.default_rng(0)
    y_lab = rng.standard_normal(20_000)
    edges = norm.ppf(np.arange(1, 20) / 20)
    x_lab = y_lab + 0.3 * rng.standard_normal(len(y_lab))
    sharp = regression.from_moments(x_lab / 1.09, np.full(len(x_lab), np.sqrt(1 - 1 / 1.09)))
    lab = fieldcal.learn(sharp, y_lab, intervals=edges)
    x, groups = rng.standard_normal(n), rng.integers(0, n_groups, n)
    values = (x / 1.09)[:, None] + np.sqrt(1 - 1 / 1.09) * norm.ppf(LEVELS)
    given = regression.from_quantiles(values, LEVELS)
    times = {}
    start = time.perf_counter()
    copy = values.copy()
    copy += 0.0
    times["a plain copy"] = time.perf_counter() - start
    start = time.perf_counter()
    field = fieldcal.count(lab, given, groups=groups)
    times["count"] = time.perf_counter() - start
    start = time.perf_counter()
    prev = fieldcal.estimate(lab, field, trust=1, point="mode", level=None)
    times["estimate (mode)"] = time.perf_counter() - start
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    new = fieldcal.recalibrate(prev, given, groups=groups)
    times["recalibrate"] = time.perf_counter() - start
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(
        f"\nCost, {n:,} rows × {lab.outcome.size} intervals × {n_groups:,} groups, {len(LEVELS)} quantile columns"
    )
    for name, seconds in times.items():
        print(f"{name:>18} {seconds:>8.2f} s   {seconds / times['a plain copy']:>8.1f} × a copy")
    size = values.nbytes / 1e9
    print(
        f"peak memory grew by {more:.2f} GB in recalibrate; the predictions are {size:.2f} GB and come back as "
        f"{type(new).__name__}"
    )


def ordered_classes(folder: Path) -> None:
    """Nine ordered classes, lab and field drawn at random: no shift."""
    import polars as pl

    rows = pl.read_parquet(folder / "scores" / "diabetes-LOS9_ord__medical_specialty__random.parquet")
    columns = [c for c in rows.columns if c.startswith("p_")]
    lab_rows, field_rows = (rows.filter((pl.col("split") == "dev") == is_lab) for is_lab in (True, False))
    proba_lab, proba = (t.select(columns).to_numpy() for t in (lab_rows, field_rows))
    proba_lab, proba = (p / p.sum(axis=1, keepdims=True) for p in (proba_lab, proba))
    y = field_rows["y"].to_numpy()
    print("\nNo shift: diabetes-LOS9_ord, change of log score")
    for grouped in (False, True):
        groups = [t["group"].to_list() if grouped else None for t in (lab_rows, field_rows)]
        lab = fieldcal.learn(proba_lab, lab_rows["y"].to_numpy(), groups=groups[0], ordered=True)
        prev = fieldcal.estimate(lab, fieldcal.count(lab, proba, groups=groups[1]))
        new = fieldcal.recalibrate(prev, proba, groups=groups[1])
        labels = range(proba.shape[1])
        change = log_loss(y, new, labels=labels) - log_loss(y, proba, labels=labels)
        print(f"  {'with groups' if grouped else 'one population':>15}: {change:+.5f}")


def flights(folder: Path) -> None:
    """Arrival delay from a quantile regressor, group = destination, lab and field drawn at random."""
    import polars as pl
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = pl.read_parquet(folder / "tables" / "flights.parquet").drop_nulls(["arr_delay"])
    numbers = [c for c in rows.columns if rows[c].dtype.is_numeric() and c not in _LATE]
    X = rows.select(numbers).to_numpy().astype(float)
    y, destination = rows["arr_delay"].to_numpy().astype(float), rows["dest"].to_numpy()
    part = np.random.default_rng(0).choice(3, size=len(y), p=[0.2, 0.3, 0.5])
    levels = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])
    train = part == 0
    values = np.column_stack(
        [
            HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=60, random_state=0)
            .fit(X[train], y[train])
            .predict(X[~train])
            for q in levels
        ]
    )
    given = regression.from_quantiles(values, levels, crossing="sort")
    lab_rows, field_rows = np.flatnonzero(part[~train] == 1), np.flatnonzero(part[~train] == 2)
    y, destination = y[~train], destination[~train]
    print(
        f"\nNo shift: flights, {len(lab_rows):,} lab and {len(field_rows):,} field rows, change of log score and CRPS"
    )
    for grouped in (False, True):
        groups = [destination[r] if grouped else None for r in (lab_rows, field_rows)]
        lab = fieldcal.learn(given.take(lab_rows), y[lab_rows], groups=groups[0])
        old, truth = given.take(field_rows), y[field_rows]
        prev = fieldcal.estimate(lab, fieldcal.count(lab, old, groups=groups[1]))
        new = fieldcal.recalibrate(prev, old, groups=groups[1])
        masses = [d.masses(lab.outcome) for d in (old, new)]
        codes = lab.outcome.codes(truth)
        score = [-np.log(np.clip(m[np.arange(len(codes)), codes], 1e-12, 1)).mean() for m in masses]
        print(
            f"  {'with groups' if grouped else 'one population':>15}: {score[1] - score[0]:+.5f}, CRPS "
            f"{new.crps(truth).mean() - old.crps(truth).mean():+.5f} of {old.crps(truth).mean():.3f}; "
            f"{lab.outcome.size} intervals, trust {prev.trust_between:.2f}, {prev.trust_overall:.2f}",
            flush=True,
        )


_LATE = {"arr_delay", "dep_delay", "dep_time", "arr_time", "air_time"}  # known only afterwards


def main() -> None:
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    recovery()
    cost()
    if len(sys.argv) > 1:
        ordered_classes(Path(sys.argv[1]))
        flights(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
