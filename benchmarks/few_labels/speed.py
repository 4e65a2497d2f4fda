"""What labels cost: an estimate of 1,000 groups with 10,000 labels, over the same without labels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.few_labels.files import with_gaps
from benchmarks.few_labels.page import bar, grid

import fieldcal

TITLE = "Speed, 1,000 groups with 10,000 labels"
QUESTIONS = ((2, "lab groups"), (2, "field groups"), (4, "field groups"))
RUNS = 5


def measure(
    *, groups: int = 1000, rows: int = 200, labels: int = 10_000, runs: int = RUNS
) -> list[dict[str, Any]]:
    """In turns, so that both meet the same machine."""
    return [
        {"way": way, "classes": n_classes, "replica": replica}
        | {name: seconds(lab, field) for name, field in fields.items()}
        for n_classes, way in QUESTIONS
        for lab, fields in [question(n_classes, way, groups=groups, rows=rows, labels=labels)]
        for replica in range(runs)
    ]


def question(
    n_classes: int, way: str, *, groups: int, rows: int, labels: int
) -> tuple[fieldcal.Lab, dict[str, fieldcal.Field]]:
    """A lab, and a field of it without and with labels."""
    data = fieldcal.datasets.label_shift(
        n_lab=5000, n_field=groups * rows, n_groups=groups, p_lab=np.full(n_classes, 1 / n_classes)
    )
    lab_groups = data.groups_lab % 20 if way == "lab groups" else None
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=lab_groups)
    known = with_gaps(data.y_field, np.random.default_rng(0).permutation(groups * rows)[:labels])
    plain = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    labelled = fieldcal.count(lab, data.proba_field, groups=data.groups_field, y=known)
    return lab, {"without": plain, "with": labelled}


def seconds(lab: fieldcal.Lab, field: fieldcal.Field) -> float:
    start = time.perf_counter()
    fieldcal.estimate(lab, field)
    return time.perf_counter() - start


def page(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    times = frame.groupby(["way", "classes"])[["without", "with"]].median()
    times["ratio"] = times["with"] / times["without"]
    rows = [
        [way, str(classes), f"{some['without']:.3f}", f"{some['with']:.3f}", f"{some.ratio:.2f}"]
        for (way, classes), some in times.iterrows()
    ]
    yield "Median seconds:"
    yield from grid(["", "classes", "without labels", "with labels", "ratio"], rows, markdown=markdown)
    yield "7. Speed"
    worst = times.ratio.max()
    yield bar(f"labels cost at most {worst:.2f} × the estimate without them (≤ 2)", worst <= 2)
