"""Labelled rows that judge what they did not teach: counts dealt into folds, and losses compared row by row.

Rows are known by group, class and bin alone, so that those of a cell can change places: to deal counts is to deal rows.
Rows that were chosen by class teach in every fold and judge in none, since their classes are not the field's.

References
----------
Stone, M. (1974). Cross-validatory choice and assessment of statistical predictions. JRSS B 36, 111-147.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fieldcal.core.labels import Model
from fieldcal.core.reweight import safe_log
from fieldcal.types import Floats, Ints


@dataclass(frozen=True)
class Fold:
    """Rows that are held out, and what the others say."""

    model: Model
    groups: Ints  # (n,) places of the groups of the rows
    classes: Ints  # (n,)
    bins: Ints  # (n,)

    def losses(self, proba: Floats) -> Floats:
        """Log loss of predictions (n, K) for the rows, (n,)."""
        return -safe_log(proba[np.arange(len(self.classes)), self.classes])


def folds(model: Model, counts: Ints, n_folds: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Every row is held out once.

    Parameters
    ----------
    counts : (L, K, m) rows of the model's ``labels.given_bin``, which are worth what it says
    """
    labels, known = model.labels, np.maximum(counts, 1)
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    fold = rng.permutation(len(cells)) % n_folds
    for i in range(n_folds):
        held = cells[fold == i]
        left = counts - np.bincount(held, minlength=counts.size).reshape(counts.shape)
        others = replace(labels, given_bin=labels.given_bin * left / known)
        at, classes, bins = np.unravel_index(held, counts.shape)
        yield Fold(replace(model, labels=others), labels.groups[at], classes, bins)


def paired(change: Floats, worth: float) -> tuple[float, float]:
    """Mean change of the loss and its standard error, from those of rows (n,), each worth so many effective rows."""
    n = len(change)
    return float(change.mean()), float(change.std(ddof=1) / np.sqrt(n * worth))
