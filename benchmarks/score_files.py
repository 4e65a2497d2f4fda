"""Score files: predictions of a classifier for a lab and a field, with groups and labels.

Parquet files with the columns ``split`` ("dev" is the lab, the rest the field), ``group``, ``y`` (class index) and
``p_<class>`` (binary: ``p_1`` alone).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Data:
    proba_lab: np.ndarray
    y_lab: np.ndarray
    groups_lab: np.ndarray
    proba: np.ndarray
    y: np.ndarray
    groups: np.ndarray


def kind_of(name: str) -> str:
    """Whether label shift holds by construction, lab and field rows were drawn alike, or the field moved."""
    if name.startswith(("SYN", "letter")):
        return "consistent"
    return "random" if "random" in name else "moved"


def read(path: Path) -> Data:
    table = pq.read_table(path)
    scores = [c for c in table.column_names if c.startswith("p_")]
    proba = np.column_stack([table[c].to_numpy().astype(float) for c in scores])
    proba = (
        np.column_stack([1 - proba, proba]) if len(scores) == 1 else proba / proba.sum(axis=1, keepdims=True)
    )
    split, group = (np.array(table[c].to_pylist(), dtype=object) for c in ("split", "group"))
    y, lab = table["y"].to_numpy().astype(int), split == "dev"
    return Data(proba[lab], y[lab], group[lab], proba[~lab], y[~lab], group[~lab])


def log_loss(proba: np.ndarray, y: np.ndarray, smallest: float = 1e-15) -> float:
    """With predictions of exactly 0 kept finite, the same before and after."""
    return float(-np.log(np.clip(proba[np.arange(len(y)), y], smallest, 1)).mean())


def shares(y: np.ndarray, place: np.ndarray, n_groups: int, n_classes: int) -> np.ndarray:
    """Share of each class in each group, (groups, classes)."""
    table = np.zeros((n_groups, n_classes))
    np.add.at(table, (place, y), 1)
    return table / np.maximum(table.sum(axis=1, keepdims=True), 1)
