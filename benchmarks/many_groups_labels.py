"""Many groups, a judge and some labels in each: ``python benchmarks/many_groups_labels.py FOLDER [--trials 20]``

The protocol of Li and Ignatiadis (2025, "Prediction-powered adaptive shrinkage estimation") on two files of the folder:

lmarena_pairs.parquet  298 pairs of language models, people's votes, the verdicts of a reward model; 10 % of the rows
                       of each pair are labelled; the target is the share of all rows of the pair
galaxyzoo.parquet      102 regions of the sky, spiral or not by people and by a classifier; 20 % of the rows of each
                       region are labelled; the target is the share of spirals in the others. ``--classes`` gives
                       fieldcal the classifier's eight classes (3, 4 and 5 are spirals) instead of spiral or not

Per trial (seeds 42, 43, …) and method: mean squared error over groups, coverage and width of the 90 % intervals,
seconds of processor time after import. fieldcal takes the judge's answers as categories; it
estimates the share of all rows, from which that of the rows without a label follows. The peers of the same run get
the same rows. Figures under "published" are those of the paper, 200 trials, other draws.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core, set before numpy is loaded; modules come from the root, not from this folder.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from benchmarks.field_model.judged import PEERS, Judged, fieldcal_shares, scores
from benchmarks.field_model.output import save, show
from benchmarks.judges.tally import Answer

SPIRAL = (3, 4, 5)
FIRST_SEED = 42
PUBLISHED = {
    "lmarena_pairs": {
        "labels only": 0.01617,
        "judge's rate": 0.01558,
        "PPI++": 0.01657,
        "shrinkage": 0.00828,
        "PAS": 0.00892,
        "UniPAS": 0.00807,
        "EB-PPI": 0.01087,
    },
    "galaxyzoo": {"EB-PPI": 0.00080, "UniPAS": 0.00089},
}


@dataclass(frozen=True)
class Benchmark:
    name: str
    labelled: float  # share of the rows of each group
    rest: bool  # the target is the share of the unlabelled rows, else of all rows

    def read(self, folder: Path, *, classes: bool = False) -> Judged:
        frame = pd.read_parquet(folder / f"{self.name}.parquet", columns=["group", "verdict", "human"])
        category, human = (frame[name].to_numpy().astype(int) for name in ("verdict", "human"))
        group = np.unique(frame["group"].to_numpy(), return_inverse=True)[1]
        if self.name == "galaxyzoo":
            verdict, human = (np.isin(values, SPIRAL).astype(int) for values in (category, human))
            return Judged(category if classes else verdict, verdict, human, group)
        return Judged(category, category, human, group)

    def draw(self, judged: Judged, seed: int) -> np.ndarray:
        """The labelled rows, the same share in each group, at least one."""
        rng, labelled = np.random.default_rng(seed), np.zeros(len(judged.human), dtype=bool)
        for g in range(judged.n_groups):
            rows = rng.permutation(np.flatnonzero(judged.group == g))
            labelled[rows[: max(int(self.labelled * len(rows)), 1)]] = True
        return labelled


BENCHMARKS = (Benchmark("lmarena_pairs", 0.1, rest=False), Benchmark("galaxyzoo", 0.2, rest=True))


def of_the_rest(answer: Answer, judged: Judged, labelled: np.ndarray) -> Answer:
    """Shares of the rows without a label, from shares of all rows: labelled rows are known."""
    n, rows = (np.bincount(judged.group[at], minlength=judged.n_groups) for at in (labelled, slice(None)))
    hits = np.bincount(judged.group[labelled], judged.human[labelled], minlength=judged.n_groups)
    parts = (answer.estimate, answer.lower, answer.upper)
    return Answer(*(np.clip((rows * part - hits) / np.maximum(rows - n, 1), 0, 1) for part in parts))


def trial(benchmark: Benchmark, judged: Judged, seed: int) -> Iterator[dict[str, Any]]:
    """A record for each method."""
    labelled = benchmark.draw(judged, seed)
    target = ~labelled if benchmark.rest else np.ones(len(labelled), dtype=bool)
    truth, about = judged.mean(judged.human, target), {"data": benchmark.name, "seed": seed}
    found = fieldcal_shares(judged, labelled)
    answer = of_the_rest(found.answer, judged, labelled) if benchmark.rest else found.answer
    yield about | {"method": "fieldcal", "seconds": found.seconds} | scores(answer, truth)
    for name, method in PEERS.items():
        yield about | {"method": name} | scores(method(judged, labelled), truth)


def published() -> Iterator[dict[str, Any]]:
    for data, figures in PUBLISHED.items():
        for method, mse in figures.items():
            yield {"data": data, "method": f"published: {method}", "mse": mse}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    by = frame.groupby(["data", "method"], sort=False)
    means = by[["mse", "error", "covered", "width", "seconds"]].mean()
    return means.assign(slowest=by.seconds.max()).reset_index()


def main(argv: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--only", choices=[benchmark.name for benchmark in BENCHMARKS])
    parser.add_argument("--classes", action="store_true", help="the classifier's eight classes of galaxies")
    parser.add_argument("--csv", type=Path, help="write a row for each trial and method here")
    options = parser.parse_args(None if argv is None else list(argv))
    warnings.simplefilter("ignore")
    records: list[dict[str, Any]] = []
    for benchmark in BENCHMARKS:
        if (
            options.only not in (None, benchmark.name)
            or not (options.folder / f"{benchmark.name}.parquet").exists()
        ):
            continue
        judged = benchmark.read(options.folder, classes=options.classes)
        for seed in range(FIRST_SEED, FIRST_SEED + options.trials):
            found = list(trial(benchmark, judged, seed))
            print(f"{benchmark.name} {seed} {found[0]['mse']:.5f} {found[0]['seconds']:.1f} s", flush=True)
            records += found
    frame = save(records, options.csv)
    known = pd.DataFrame([row for row in published() if row["data"] in set(frame.data)])
    show(
        f"Means over {options.trials} trials",
        pd.concat([summary(frame), known]),
        {"mse": 5, "seconds": 2, "slowest": 2},
    )


if __name__ == "__main__":
    main()
