"""Files as populations of which a few labels are known, and what the labels and predictions alone make of them."""

from __future__ import annotations

import importlib.util
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.score_files import kind_of, log_loss, read
from scipy.optimize import minimize
from scipy.special import logsumexp

import fieldcal

LEVEL = 0.9
MOST_ROWS = 20_000  # of a field; larger ones are thinned, always alike
LEAST_ROWS = 600  # of a field that is asked as one population
INSTALL = "pip install -r benchmarks/peers/requirements.txt -e ."


@dataclass(frozen=True)
class Settings:
    replicas: int = 20
    sizes: tuple[int, ...] = (30, 100, 300)
    peer: bool = True  # PPI++ beside it


@dataclass(frozen=True)
class Found:
    """What a section measured in one file: a record per question and replica, or why there is none."""

    records: list[dict[str, Any]] = field(default_factory=list)
    skipped: str = ""


@dataclass(frozen=True)
class Population:
    """The field of a file and a lab that learnt without groups."""

    file: str
    kind: str
    lab: fieldcal.Lab
    proba: np.ndarray
    y: np.ndarray

    @property
    def n_classes(self) -> int:
        return self.proba.shape[1]

    @property
    def truth(self) -> np.ndarray:
        return shares(self.y, self.n_classes)

    def count(self, rows: np.ndarray, design: str = "random") -> fieldcal.Field:
        """The field with the labels of these rows."""
        return fieldcal.count(self.lab, self.proba, y=with_gaps(self.y, rows), design=design)

    def about(self) -> dict[str, Any]:
        return {"file": self.file, "kind": self.kind, "classes": self.n_classes, "rows": len(self.y)}


def population(path: Path) -> Population:
    data = read(path)
    keep = thinned(len(data.y), MOST_ROWS)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, classes=range(data.proba_lab.shape[1]))
    return Population(path.stem, kind_of(path.stem), lab, data.proba[keep], data.y[keep])


def thinned(n: int, most: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def rng_of(file: str, *at: int) -> np.random.Generator:
    """Other rows in every file, the same in every run."""
    return np.random.default_rng([zlib.crc32(file.encode()), *at])


def with_gaps(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The labels of these rows, missing elsewhere."""
    known = np.full(len(y), np.nan)
    known[rows] = y[rows]
    return known


def shares(y: np.ndarray, n_classes: int) -> np.ndarray:
    return np.bincount(y, minlength=n_classes) / max(len(y), 1)


def judged(values: np.ndarray) -> np.ndarray:
    """Of two classes the second says it all."""
    return values[..., 1:] if values.shape[-1] == 2 else values


def change(prev: fieldcal.Prevalence, proba: np.ndarray, y: np.ndarray, groups: Any = None) -> float:
    """Of log loss, by what the estimate makes of the predictions; negative is better."""
    return log_loss(fieldcal.recalibrate(prev, proba, groups=groups), y) - log_loss(proba, y)


def best_tilt(proba: np.ndarray, y: np.ndarray) -> float:
    """Change of log loss by the one reweighting of the classes that is best in hindsight."""
    scores, one_hot = np.log(np.clip(proba, 1e-15, 1)), np.eye(proba.shape[1])[y]

    def loss(tilt: np.ndarray) -> tuple[float, np.ndarray]:
        tilted = scores + tilt
        total = logsumexp(tilted, axis=1, keepdims=True)
        value = float((total[:, 0] - tilted[np.arange(len(y)), y]).mean())
        return value, (np.exp(tilted - total) - one_hot).mean(axis=0)

    start = np.zeros(proba.shape[1])
    return float(minimize(loss, start, jac=True, method="L-BFGS-B").fun) - loss(start)[0]


def error(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(judged(np.abs(estimate - truth)).mean())


@dataclass(frozen=True)
class Shares:
    """Estimates of shares with their intervals; the last axis is the class."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def judged(self, truth: np.ndarray, of: str = "") -> dict[str, float]:
        held = (truth >= self.lower - 1e-12) & (truth <= self.upper + 1e-12)
        known = np.isfinite(self.lower)
        return {
            f"e{of}": error(self.estimate, truth),
            f"covered{of}": float(judged(np.where(known, held, np.nan)).mean()),
            f"width{of}": float(judged(self.upper - self.lower).mean()),
        }


def has_peer() -> bool:
    return importlib.util.find_spec("ppi_py") is not None


def prediction_powered(proba: np.ndarray, y: np.ndarray, rows: np.ndarray) -> Shares:
    """PPI++ of every class: labelled rows beside the predictions of the others, with its power tuned."""
    rest = np.setdiff1d(np.arange(len(y)), rows)
    found = [power_tuned(y[rows] == k, proba[rows, k], proba[rest, k]) for k in range(proba.shape[1])]
    return Shares(*np.array(found).T)


def power_tuned(y: np.ndarray, said: np.ndarray, elsewhere: np.ndarray) -> tuple[float, float, float]:
    """PPI++ of a mean, with its interval: labels, the predictions of these rows, those of the others."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    seen = (y.astype(float), said.astype(float), elsewhere.astype(float))
    lower, upper = np.ravel(ppi_mean_ci(*seen, alpha=1 - LEVEL, lam=None))
    return ppi_mean_pointestimate(*seen, lam=None).item(), lower, upper


def unknown(n_classes: int) -> Shares:
    """In the place of a peer that is not asked."""
    return Shares(*np.full((3, n_classes), np.nan))
