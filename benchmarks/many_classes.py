"""Time with many classes and groups. ``python benchmarks/many_classes.py [--most 200]``

`learn` (20,000 rows), `count` (5,000 rows in 5 groups), `estimate` and `recalibrate` for 25, 50, 100 and 200 classes:
processor seconds of each, and the exponent of K that fits their sum. It must not exceed 2.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fieldcal

CLASSES = (25, 50, 100, 200)
MOST_EXPONENT = 2.0
LAB_ROWS, FIELD_ROWS, GROUPS = 20_000, 5_000, 5


def predictions(y: np.ndarray, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Of a model that finds the true class three standard deviations above the others."""
    logits = rng.normal(size=(len(y), n_classes))
    logits[np.arange(len(y)), y] += 3
    odds = np.exp(logits)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def timed(what: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, float]:
    """What it gives, and processor seconds."""
    start = time.process_time()
    return what(*args, **options), time.process_time() - start


def seconds(n_classes: int) -> list[float]:
    """Of learn, count, estimate and recalibrate."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=LAB_ROWS)
    moved = rng.choice(n_classes, size=FIELD_ROWS, p=rng.dirichlet(np.full(n_classes, 2.0)))
    lab_rows, field_rows = (predictions(labels, n_classes, rng) for labels in (y, moved))
    groups = rng.integers(GROUPS, size=FIELD_ROWS)
    lab, learning = timed(fieldcal.learn, lab_rows, y)
    field, counting = timed(fieldcal.count, lab, field_rows, groups=groups)
    prev, estimating = timed(fieldcal.estimate, lab, field)
    _, recalibrating = timed(fieldcal.recalibrate, prev, field_rows, groups=groups)
    return [learning, counting, estimating, recalibrating]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=max(CLASSES), help="classes at most")
    most = parser.parse_args().most
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    seconds(3)  # imports
    sizes = [K for K in CLASSES if most >= K]
    print(f"{'classes':>8}{'learn':>9}{'count':>9}{'estimate':>10}{'recalibrate':>13}{'all':>9}")
    total = []
    for K in sizes:
        each = seconds(K)
        total.append(sum(each))
        print(
            f"{K:>8}{each[0]:>9.2f}{each[1]:>9.2f}{each[2]:>10.2f}{each[3]:>13.3f}{total[-1]:>9.2f}",
            flush=True,
        )
    exponent = float(np.polyfit(np.log(sizes), np.log(total), 1)[0])
    print(f"seconds ~ K^{exponent:.2f} (bar: {MOST_EXPONENT:g})")
    if exponent > MOST_EXPONENT:
        raise SystemExit(f"The time grows as K^{exponent:.2f}, faster than K^{MOST_EXPONENT:g}.")


if __name__ == "__main__":
    main()
