"""Problems of which tests know M and the lab's prevalences, without the counts behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fieldcal.core.problem import Problem


@dataclass(frozen=True)
class Known(Problem):
    """A problem whose M, A and p_lab are given, in place of what F would say; parts of it keep them."""

    response: np.ndarray = field(kw_only=True)
    pseudo_counts: np.ndarray = field(kw_only=True)
    prevalences: np.ndarray = field(kw_only=True)

    @cached_property
    def M(self):
        return self.response

    @cached_property
    def A(self):
        return self.pseudo_counts

    @cached_property
    def p_lab(self):
        return self.prevalences


def known(M, p_lab, V=None, *, A=None, **options):
    """Of a response matrix; A, the lab's counts behind it, matters only where M is drawn."""
    M = np.asarray(M, dtype=float)
    A = M if A is None else np.asarray(A, dtype=float)
    V = np.zeros((1, M.shape[1])) if V is None else np.atleast_2d(np.asarray(V, dtype=float))
    given = {"response": M, "pseudo_counts": A, "prevalences": np.asarray(p_lab, dtype=float)}
    return Known(A, V, 0.0, options.pop("grouped", False), **options, **given)


def counted(A, p_lab, V, **options):
    """Of smoothed counts; the lab's prevalences need not be theirs."""
    A = np.asarray(A, dtype=float)
    return known(A / A.sum(axis=1, keepdims=True), p_lab, V, A=A, **options)


def well_conditioned(rng: np.random.Generator, n_classes: int, n_bins: int) -> np.ndarray:
    """Each class has its own bins, blurred."""
    own = np.eye(n_classes)[:, np.arange(n_bins) % n_classes]
    M = own * rng.uniform(0.5, 1.5, own.shape) + rng.uniform(0.05, 0.4, own.shape)
    return M / M.sum(axis=1, keepdims=True)
