"""Labelled rows that judge what they did not teach: counts dealt into folds, and losses compared row by row.

Rows are known by group, class and bin alone, so that those of a cell can change places: to deal counts is to deal rows.
Rows that were chosen by class teach in every fold and judge in none, since their classes are not the field's.

References
----------
Stone, M. (1974). Cross-validatory choice and assessment of statistical predictions. JRSS B 36, 111-147.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fieldcal.core.field_posterior import Posterior
from fieldcal.core.reweight import safe_log
from fieldcal.types import Floats, Ints


@dataclass(frozen=True)
class Fold:
    """Rows that are held out, and the posterior of the others."""

    posterior: Posterior
    groups: Ints  # (n,) places of the groups of the rows
    classes: Ints  # (n,)
    bins: Ints  # (n,)

    def losses(self, proba: Floats) -> Floats:
        """Log loss of predictions (n, K) for the rows, (n,)."""
        return -safe_log(proba[np.arange(len(self.classes)), self.classes])


def folds(posterior: Posterior, counts: Ints, n_folds: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Every row is held out once.

    Parameters
    ----------
    counts : (G, K, m) labelled rows, as many as the field labels of the model are effective rows of
    """
    model = posterior.model
    labels = np.array(model.counts.field)
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    fold = rng.permutation(len(cells)) % n_folds
    for i in range(n_folds):
        held = cells[fold == i]
        left = counts - np.bincount(held, minlength=counts.size).reshape(counts.shape)
        others = labels.copy()
        others[: len(counts)] *= left / np.maximum(counts, 1)
        at, classes, bins = np.unravel_index(held, counts.shape)
        yield Fold(posterior.with_counts(others, model.counts.by_class), at, classes, bins)


def paired(change: Floats, worth: float) -> tuple[float, float]:
    """Mean change of the loss and its standard error, from those of rows (n,), each worth so many effective rows."""
    n = len(change)
    return float(change.mean()), float(change.std(ddof=1) / np.sqrt(n * worth))
