"""Hard decisions: the class whose expected gain is largest (the paper's section on contraindications)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.errors import InputError
from fieldcal.options import as_array
from fieldcal.types import Floats, Ints

#: Gains this near to the largest, as a share of it, are ties: engines differ in what rounding makes of equal ones.
TIE = 1e-12


@dataclass(frozen=True)
class Goal:
    """What decisions are to be good at.

    Parameters
    ----------
    costs : (K, K), true class by decision; None for the best mean recall, where a class counts by its prevalence
    """

    costs: Floats | None

    @classmethod
    def of(cls, goal: Any, n_classes: int) -> Goal:
        """From what a caller gives: "accuracy", "balanced" or costs.

        Examples
        --------
        >>> Goal.of("accuracy", 2).costs.tolist(), Goal.of("balanced", 2).costs
        ([[0.0, 1.0], [1.0, 0.0]], None)
        """
        if isinstance(goal, str):
            if goal not in ("accuracy", "balanced"):
                raise InputError(
                    f"goal must be 'accuracy', 'balanced' or a matrix of costs, but got {goal!r:.60}."
                )
            return cls(None if goal == "balanced" else 1.0 - np.eye(n_classes))
        costs = as_array("goal", goal)
        if costs.shape != (n_classes, n_classes) or not np.isfinite(costs).all():
            raise InputError(
                f"goal: costs must be a finite ({n_classes}, {n_classes}) matrix, true class by decision, but have "
                f"shape {costs.shape}."
            )
        return cls(costs)

    @property
    def savings(self) -> Floats | None:
        """What each decision saves against the worst one for the same class, (K, K): none negative, the largest is one.

        Only differences between decisions matter, and no scale; sums of what is not negative lose no digits.
        """
        if self.costs is None:
            return None
        costs = self.costs / max(float(np.abs(self.costs).max()), np.finfo(float).tiny)
        saved = costs.max(axis=1, keepdims=True) - costs
        return np.asarray(saved / (saved.max() or 1.0))

    def gains(self, proba: Floats, prevalence: Floats | float = 1.0) -> Floats:
        """The expected gain of every decision, (n, K).

        Parameters
        ----------
        proba : (n, K)
        prevalence : (K,) or (n, K), that the probabilities assume; of no matter with costs
        """
        savings = self.savings
        return np.asarray(proba / prevalence if savings is None else proba @ savings)


def divisors(prevalence: Floats) -> Floats:
    """Prevalences by which probabilities can be divided."""
    return np.maximum(prevalence, np.finfo(np.float64).tiny)


def largest(gains: Floats) -> Ints:
    """Where the largest gain of each row is, the first of equals.

    Examples
    --------
    >>> import numpy as np
    >>> largest(np.array([[0.1, 0.9], [0.5, 0.5], [0.3, 0.1 + 0.2]])).tolist()
    [1, 0, 0]
    """
    enough = gains >= (1.0 - TIE) * gains.max(axis=1, keepdims=True)
    return np.asarray(enough.argmax(axis=1))
