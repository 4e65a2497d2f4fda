"""What an estimate costs: ``python benchmarks/field_model_speed.py [--runs 3] [--groups 100000]``

labels      1,000 groups × 8 bins with 10,000 labels, over the same without (at most 1.5)
known       the same with a lab that has labels of all these groups by name
categories  300 groups of two categories, a tenth of 40,000 rows labelled: learning, counting and the estimate (.3 s)
many        100,000 binary groups of 30 rows without labels: µs per group
memory      the most that an estimate allocates, for 10,000 and 100,000 groups without labels, and for 1,000 and 4,000
            groups that the lab knows by name with ten labels each: growth over growth of groups (linear: 1)

Seconds of processor time; of several runs the fastest.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core, set before numpy is loaded; modules come from the root, not from this folder.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from benchmarks.few_labels.files import with_gaps
from benchmarks.few_labels.speed import QUESTIONS, question
from benchmarks.field_model.judged import Judged, fieldcal_shares
from benchmarks.field_model.output import save, show

import fieldcal

GROUPS, ROWS, LABELS = 1000, 200, 10_000
JUDGED_GROUPS, JUDGED_ROWS = 300, 40_000
MANY, FEW_ROWS = 100_000, 30
KNOWN = (1000, 4000)
Pair = tuple[fieldcal.Lab, fieldcal.Field]
Record = dict[str, Any]


def fastest(call: Callable[[], object], runs: int) -> float:
    def once() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    return min(once() for _ in range(runs))


def allocated(call: Callable[[], object]) -> float:
    """Most bytes that were allocated at a time, in MiB."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def unknown_groups(groups: int) -> Pair:
    """Binary groups of few rows, a lab without groups."""
    data = fieldcal.datasets.label_shift(
        n_lab=2000, n_field=groups * FEW_ROWS, n_groups=groups, random_state=0
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=8)
    return lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field)


def known_groups(groups: int, rows: int, labels: int) -> tuple[fieldcal.Lab, dict[str, fieldcal.Field]]:
    """Binary groups of which the lab has twenty rows each; the field without and with labels."""
    data = fieldcal.datasets.label_shift(
        n_lab=groups * 20, n_field=groups * rows, n_groups=groups, random_state=0
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=np.arange(groups * 20) % groups, partition=8)
    known = with_gaps(data.y_field, np.random.default_rng(0).permutation(groups * rows)[:labels])
    names = data.groups_field
    plain = fieldcal.count(lab, data.proba_field, groups=names)
    return lab, {
        "without": plain,
        "with": fieldcal.count(lab, data.proba_field, groups=names, y=known),
    }


def two_categories(rng: np.random.Generator, groups: int, rows: int) -> tuple[Judged, np.ndarray]:
    group = np.arange(rows) % groups
    human = (rng.random(rows) < rng.uniform(0.2, 0.8, groups)[group]).astype(int)
    right = rng.random(rows) < rng.uniform(0.5, 0.9, groups)[group]
    verdict = np.where(right, human, 1 - human)
    labelled = np.zeros(rows, dtype=bool)
    labelled[rng.permutation(rows)[: rows // 10]] = True
    return Judged(verdict, verdict, human, group), labelled


def labels_cost(runs: int, groups: int) -> Iterator[Record]:
    asked = {
        f"{way}, K = {classes}": question(classes, way, groups=groups, rows=ROWS, labels=10 * groups)
        for classes, way in QUESTIONS
    }
    asked["known groups, K = 2"] = known_groups(groups, ROWS, 10 * groups)
    for name, (lab, fields) in asked.items():
        spent = {key: fastest(partial(fieldcal.estimate, lab, field), runs) for key, field in fields.items()}
        yield {
            "what": f"{groups} groups with {10 * groups} labels, {name}",
            "seconds": spent["with"],
            "without": spent["without"],
            "ratio": spent["with"] / spent["without"],
        }


def groups_cost(runs: int, many: int, judged_groups: int) -> Iterator[Record]:
    rows = JUDGED_ROWS * judged_groups // JUDGED_GROUPS
    judged, labelled = two_categories(np.random.default_rng(0), judged_groups, rows)
    seconds = fastest(partial(fieldcal_shares, judged, labelled), runs)
    yield {"what": f"{judged_groups} groups of two categories", "seconds": seconds}
    lab, field = unknown_groups(many)
    seconds = fastest(partial(fieldcal.estimate, lab, field), max(runs // 2, 1))
    yield {"what": f"{many} binary groups", "seconds": seconds, "us_per_group": 1e6 * seconds / many}


def memory(many: int, known: tuple[int, int]) -> Iterator[Record]:
    for name, sizes in (("without labels", (many // 10, many)), ("known, with labels", known)):
        used = []
        for groups in sizes:
            if name == "without labels":
                lab, field = unknown_groups(groups)
            else:
                lab, fields = known_groups(groups, FEW_ROWS, 10 * groups)
                field = fields["with"]
            used.append(allocated(partial(fieldcal.estimate, lab, field)))
        growth = (used[1] / used[0]) / (sizes[1] / sizes[0])
        yield {"what": f"{sizes[1]} groups over {sizes[0]}, {name}", "mib": used[1], "growth": growth}


def main(argv: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--groups", type=int, default=MANY, help="the largest number of groups")
    parser.add_argument("--csv", type=Path, help="write the figures here")
    options = parser.parse_args(None if argv is None else list(argv))
    warnings.simplefilter("ignore")
    part = options.groups / MANY
    records = [
        *labels_cost(options.runs, max(int(GROUPS * part), 20)),
        *groups_cost(options.runs, options.groups, max(int(JUDGED_GROUPS * part), 10)),
        *memory(options.groups, (max(int(KNOWN[0] * part), 10), max(int(KNOWN[1] * part), 40))),
    ]
    columns = ["what", "seconds", "without", "ratio", "us_per_group", "mib", "growth"]
    frame: pd.DataFrame = save(records, options.csv).reindex(columns=columns)
    show("Cost of an estimate", frame, {"us_per_group": 1, "mib": 1, "ratio": 2, "growth": 2})


if __name__ == "__main__":
    main()
