"""Two systems on the same 300 items: how much better is one, with and without the pairs.

Items are hard or easy for both systems, so that their classes correlate by about one half; in some cells the judge errs
on both answers to an item alike. Labels: 100 items, both answers; or as many answers at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.few_labels.files import LEVEL, power_tuned, rng_of
from benchmarks.judges import ours, peers
from benchmarks.judges.contest import Settings
from benchmarks.judges.tally import Answer, Tallies
from scipy.stats import norm, t

ITEMS, LABELLED = 300, 100
SHARES = ((0.6, 0.7), (0.8, 0.8), (0.3, 0.5))
JUDGES = ((0.9, 0.8), (0.75, 0.75))
ALIKE = 0.72  # correlation of the normals behind classes, and behind errors where they are alike


@dataclass(frozen=True)
class Cell:
    shares: tuple[float, float]
    judge: tuple[float, float]
    errors: str  # apart, alike
    labels: str  # items, rows

    @property
    def key(self) -> str:
        return f"pairs shares={self.shares} judge={self.judge} errors {self.errors} labelled {self.labels}"


@dataclass(frozen=True)
class Paired:
    """(items, 2): class and verdict of each system's answer, and whether a person saw it."""

    y: np.ndarray
    values: np.ndarray
    seen: np.ndarray


def cells() -> list[Cell]:
    return [
        Cell(shares, judge, errors, labels)
        for shares in SHARES
        for judge in JUDGES
        for errors in ("apart", "alike")
        for labels in ("items", "rows")
    ]


def paired(cell: Cell, rng: np.random.Generator) -> Paired:
    y = (uniforms(ALIKE, rng) < cell.shares).astype(int)
    sensitivity, specificity = cell.judge
    alike = ALIKE if cell.errors == "alike" else 0.0
    right = uniforms(alike, rng) < np.where(y == 1, sensitivity, specificity)
    seen = np.zeros((ITEMS, 2), dtype=bool)
    if cell.labels == "items":
        seen[rng.choice(ITEMS, LABELLED, replace=False)] = True
    else:
        seen.flat[rng.choice(2 * ITEMS, 2 * LABELLED, replace=False)] = True
    return Paired(y, np.where(right, y, 1 - y), seen)


def uniforms(correlation: float, rng: np.random.Generator) -> np.ndarray:
    common, own = rng.standard_normal((ITEMS, 1)), rng.standard_normal((ITEMS, 2))
    return np.asarray(norm.cdf(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own))


def measure(cell: Cell, settings: Settings) -> list[dict[str, Any]]:
    found, truth = Tallies(), np.array([cell.shares[1] - cell.shares[0]])
    for replica in range(settings.replicas):
        data = paired(cell, rng_of(cell.key, replica))
        human = np.where(data.seen, data.y, np.nan)
        items, systems = np.indices(data.y.shape)
        said = ours.contrasts(data.values.ravel(), human.ravel(), systems.ravel(), items.ravel())
        if cell.labels == "items":
            said |= {"labels only": labels_only(data)} | (by_peers(data) if settings.peers else {})
        for method, answer in said.items():
            found.add(method, "contrast", answer, truth)
    about = {
        "cell": cell.key,
        "shares": str(cell.shares),
        "judge": str(cell.judge),
        "errors": cell.errors,
        "labels": cell.labels,
    }
    return list(found.records(about))


def labels_only(data: Paired) -> Answer:
    """Mean difference over the items that were labelled."""
    more = np.diff(data.y[data.seen.all(axis=1)], axis=1).ravel()
    half = t.ppf((1 + LEVEL) / 2, len(more) - 1) * more.std(ddof=1) / np.sqrt(len(more))
    return Answer.of([(more.mean(), more.mean() - half, more.mean() + half)])


def by_peers(data: Paired) -> dict[str, Answer]:
    known = {"truescore ppi_compare": truescore_compare, "ppi-python PPI++ of differences": powered}
    return {name: Answer.of([method(data)]) for name, method in known.items() if peers.installed(name)}


def truescore_compare(data: Paired) -> peers.Interval:
    import truescore

    index = np.flatnonzero(data.seen.all(axis=1))
    found = truescore.ppi_compare(
        data.values[:, 1],
        data.values[:, 0],
        data.y[index, 1],
        data.y[index, 0],
        index,
        alpha=1 - LEVEL,
    )
    return found.difference, found.low, found.high


def powered(data: Paired) -> peers.Interval:
    known = data.seen.all(axis=1)
    more, said = np.diff(data.y, axis=1).ravel(), np.diff(data.values, axis=1).ravel()
    return power_tuned(more[known], said[known], said[~known])
