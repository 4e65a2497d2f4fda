"""All methods on the same trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from benchmarks.few_labels.files import LEVEL
from benchmarks.judges import ours, peers
from benchmarks.judges.tally import Answer, Tallies
from benchmarks.judges.trial import Trial
from scipy.stats import norm


@dataclass(frozen=True)
class Settings:
    replicas: int = 400
    peers: bool = True


def contest(trials: Iterable[Trial], settings: Settings, *, sliced: bool = False) -> Tallies:
    """What each method makes of every trial, for the whole share and, if sliced, for the slices."""
    found = Tallies()
    for trial in trials:
        asked = list(trial.asked)
        truth, slice_truth = trial.truth[asked], trial.slice_truth[:, asked]
        whole, slices = ours.shares(trial, sliced=sliced)
        found.add("fieldcal", "whole", whole, truth)
        said = peers.answers(trial, sliced=sliced) if settings.peers else {}
        for method, answer in said.items():
            found.add(method, "whole", answer, truth)
        if not sliced:
            continue
        found.add("fieldcal", "slices", slices, slice_truth)
        found.add("raw verdicts", "slices", raw_verdicts(trial), slice_truth)
        found.add("labels only", "slices", labels_only(trial), slice_truth)
        if settings.peers and peers.installed("truescore"):
            found.add("truescore estimate_slices", "slices", peers.truescore_slices(trial), slice_truth)
    return found


def raw_verdicts(trial: Trial) -> Answer:
    """Share of each verdict in every slice."""
    return by_slice(trial, trial.rows.slices, lambda k: trial.verdict(trial.rows, k))


def labels_only(trial: Trial) -> Answer:
    """Share of the labels of every slice; of all labels where a slice has none."""
    known = trial.calibration
    return by_slice(trial, known.slices, lambda k: (known.y == k).astype(float))


def by_slice(trial: Trial, slices: np.ndarray, said: Callable[[int], np.ndarray]) -> Answer:
    n_slices = len(trial.slice_truth)
    n = np.bincount(slices, minlength=n_slices)
    columns = []
    for k in trial.asked:
        hits = np.bincount(slices, weights=said(k), minlength=n_slices)
        columns.append(wilson(np.where(n > 0, hits, hits.sum()), np.where(n > 0, n, n.sum())))
    return Answer(*(np.column_stack(part) for part in zip(*columns, strict=True)))


def wilson(hits: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares with Wilson's intervals."""
    share, z = hits / n, norm.ppf((1 + LEVEL) / 2)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return share, middle - half, middle + half
