"""How long a prevalence takes: 1,000 groups of 500 rows, fieldcal beside QuaPy, the same rows in the same run.

    python benchmarks/speed.py [--groups 1000] [--rows 500] [--runs 5]

fieldcal counts and estimates all groups at once; QuaPy's EMQ takes one group at a time. Bar: at least 100 times as
fast per group with the weak classifier of the quantification experiment (lab 50 %, prevalences of the groups Beta
with mean .1). EM takes the fewer steps the better the classifier is, so that with a good one the ratio is smaller: it
is measured too, without a bar. The fastest of several runs each, since noise only ever adds. For information: the
defaults of fieldcal, with intervals, and the recalibration of the rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import fieldcal

BAR = 100.0
URC = {"prior": "flat", "point": "mode", "trust": 1, "level": None}  # the paper's estimator, no intervals


@dataclass(frozen=True)
class Groups:
    """Lab and field, as they lie in a log: rows of all groups mixed."""

    proba_lab: NDArray[np.float64]
    y_lab: NDArray[np.intp]
    proba_field: NDArray[np.float64]
    groups_field: NDArray[np.intp]


def fastest(call: Callable[[], object], runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def good_classifier(n_groups: int, n_rows: int) -> Groups:
    """Two normals 1.5 apart in each of two directions: an accuracy of about .86."""
    data = fieldcal.datasets.label_shift(
        n_lab=2000, n_field=n_groups * n_rows, n_groups=n_groups, random_state=0
    )
    return Groups(data.proba_lab, data.y_lab, data.proba_field, data.groups_field)


def weak_classifier(n_groups: int, n_rows: int) -> Groups:
    """Rows of one pool, with replacement, by the prevalence of their group: an accuracy of about .7."""
    X, y = make_classification(
        n_samples=12_000,
        n_features=4,
        n_informative=2,
        n_redundant=0,
        class_sep=0.4,
        flip_y=0.1,
        random_state=0,
    )
    proba = LogisticRegression().fit(X[:2000], y[:2000]).predict_proba(X)
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n_groups), n_rows)
    labels = rng.random(len(groups)) < rng.beta(2, 18, size=n_groups)[groups]
    pools = [4000 + np.flatnonzero(y[4000:] == k) for k in (0, 1)]
    rows = np.where(labels, rng.choice(pools[1], len(groups)), rng.choice(pools[0], len(groups)))
    order = rng.permutation(len(groups))
    return Groups(proba[2000:4000, 1], y[2000:4000], proba[rows[order], 1], groups[order])


def fieldcal_calls(data: Groups) -> dict[str, Callable[[], object]]:
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    scores, groups = data.proba_field, data.groups_field
    field = fieldcal.count(lab, scores, groups=groups)
    prev = fieldcal.estimate(lab, field, **URC)
    return {
        "fieldcal count": lambda: fieldcal.count(lab, scores, groups=groups),
        "fieldcal estimate": lambda: fieldcal.estimate(lab, field, **URC),
        "fieldcal count + estimate": lambda: fieldcal.estimate(
            lab, fieldcal.count(lab, scores, groups=groups), **URC
        ),
        "… + recalibrate": lambda: fieldcal.recalibrate(prev, scores, groups=groups),
        "fieldcal defaults, intervals": lambda: fieldcal.estimate(
            lab, fieldcal.count(lab, scores, groups=groups), trust=1
        ),
    }


def quapy_call(data: Groups) -> Callable[[], object]:
    """QuaPy's EMQ, given the posteriors: the classifier is not part of the measurement."""
    from quapy.method.aggregative import EMQ

    columns = np.column_stack([1 - data.proba_field, data.proba_field])
    samples = [columns[data.groups_field == g] for g in range(data.groups_field.max() + 1)]
    p_lab = np.bincount(data.y_lab) / len(data.y_lab)
    return lambda: [EMQ.EM(p_lab, sample) for sample in samples]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for workload in (weak_classifier, good_classifier):
        data = workload(options.groups, options.rows)
        cost = {name: fastest(call, options.runs) for name, call in fieldcal_calls(data).items()}
        cost["… + recalibrate"] += cost["fieldcal count + estimate"]
        cost["QuaPy EMQ"] = fastest(quapy_call(data), max(1, options.runs // 2))
        ratio = cost["QuaPy EMQ"] / cost["fieldcal count + estimate"]
        print(workload.__name__.replace("_", " "))
        for name, seconds in cost.items():
            print(f"  {name:<30} {1e6 * seconds / options.groups:9.1f} µs per group")
        bar = f"bar: at least {BAR:g}, {'met' if ratio >= BAR else 'MISSED'}"
        print(f"  EMQ / count + estimate: {ratio:.0f} ({bar if workload is weak_classifier else 'no bar'})\n")


if __name__ == "__main__":
    main()
