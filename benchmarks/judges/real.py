"""Scores of real classifiers as verdicts: the field of a file is the population, and its labels say the truth.

Two classes: verdicts at .5, and ratings by fifths of the field's scores. More classes: the most likely one. Every
replica draws 1,000 rows of the field with replacement, and labels 100 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.few_labels.files import rng_of
from benchmarks.judges.contest import Settings, contest
from benchmarks.judges.simulated import DESIGNS, LABELS, ROWS
from benchmarks.judges.trial import Draw, Rows, trial_of
from benchmarks.score_files import kind_of, read


@dataclass(frozen=True)
class Cell:
    path: Path
    kind: str  # verdicts, ratings, classes
    design: str

    @property
    def key(self) -> str:
        return f"{self.path.stem} {self.kind} {self.design}"


def cells(folders: Sequence[Path]) -> list[Cell]:
    paths = sorted(path for folder in folders for path in folder.glob("*.parquet"))
    return [Cell(path, kind, design) for path in paths for kind in kinds(path) for design in DESIGNS]


def kinds(path: Path) -> tuple[str, ...]:
    return ("verdicts", "ratings") if population(path)[1].shape[1] == 2 else ("classes",)


@lru_cache(maxsize=2)
def population(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = read(path)
    return data.y, data.proba


def measure(cell: Cell, settings: Settings) -> list[dict[str, Any]]:
    y, proba = population(cell.path)
    truth = np.bincount(y, minlength=proba.shape[1]) / len(y)
    draw = drawn(y, valued(proba, ratings=cell.kind == "ratings"))
    trials = (
        trial_of(
            draw,
            rng_of(cell.key, replica),
            design=cell.design,
            truth=truth,
            rows=ROWS,
            labels=LABELS,
            ratings=cell.kind == "ratings",
        )
        for replica in range(settings.replicas)
    )
    about = {
        "cell": cell.key,
        "file": cell.path.stem,
        "source": kind_of(cell.path.stem),
        "kind": cell.kind,
        "design": cell.design,
        "classes": len(truth),
    }
    return list(contest(trials, settings).records(about))


def valued(proba: np.ndarray, *, ratings: bool) -> np.ndarray:
    """What a judge would have said: the most likely class, or a rating by fifths."""
    if not ratings:
        return (proba[:, 1] >= 0.5).astype(int) if proba.shape[1] == 2 else proba.argmax(axis=1)
    cuts = np.quantile(proba[:, 1], [0.2, 0.4, 0.6, 0.8])
    return 1 + np.searchsorted(cuts, proba[:, 1])


def drawn(y: np.ndarray, values: np.ndarray) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Rows:
        at = rng.integers(0, len(y), n)
        return Rows(y[at], values[at], np.zeros(n, dtype=int))

    return draw
