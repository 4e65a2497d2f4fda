"""Problems of which tests know M and the lab's prevalences, without the counts behind them."""

from __future__ import annotations

import numpy as np

from fieldcal.core.problem import Problem


class Known(Problem):
    """A problem whose M and p_lab are given."""

    M = p_lab = A = None  # in place of what counts would say


def known(M, p_lab, V=None):
    """What a prior asks for: M, the lab's prevalences, and shapes."""
    M = np.asarray(M, dtype=float)
    V = np.zeros((1, M.shape[1])) if V is None else np.asarray(V, dtype=float)
    problem = Known(F=M, V=V, smoothing=0.0, grouped=False)
    object.__setattr__(problem, "M", M)
    object.__setattr__(problem, "A", M)
    object.__setattr__(problem, "p_lab", np.asarray(p_lab, dtype=float))
    return problem
