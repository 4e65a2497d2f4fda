"""Bins of the expected value, for classes that have an order: the paper's suggestion for regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.cuts import Floats, Ints, as_columns, columns_of, cut, quantile_cuts
from fieldcal.errors import InputError


@dataclass(frozen=True)
class ExpectedEdges:
    """Intervals of ``Σ_k values_k · C_k``, cut at given edges (fitted). Values and edges lie in [0, 1]."""

    values: tuple[float, ...]
    edges: tuple[float, ...]
    kind: ClassVar[Literal["expected"]] = "expected"

    def __post_init__(self) -> None:
        numbers = np.array([*self.values, *self.edges])
        if len(self.values) < 2 or not (
            np.isfinite(numbers).all() and ((numbers >= 0) & (numbers <= 1)).all()
        ):
            raise InputError(
                "The values and edges of an expectation must lie in [0, 1], two values at least."
            )
        if np.any(np.diff(self.edges) <= 0):
            raise InputError(
                f"Edges must strictly increase, but got {self.edges!r:.80}. Sort them, drop repeats."
            )

    @property
    def m(self) -> int:
        """The number of bins."""
        return len(self.edges) + 1

    def assign(self, scores: Floats) -> Ints:
        """Bin ids, shape (n,)."""
        return cut(expected(columns_of(scores, len(self.values)), self.values), np.asarray(self.edges))


@dataclass(frozen=True)
class Expected:
    """Bins of the expected value, equally likely in the lab: for classes that have an order.

    Parameters
    ----------
    n : number of bins; more than there are classes is fine
    values : what each class counts as, by default its place in the order

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import Expected
    >>> proba = np.array([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])
    >>> Expected(2).fit(proba, np.array([0, 1, 2, 0]), 3).assign(proba).tolist()
    [0, 1, 1, 0]
    """

    n: int
    values: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, (int, np.integer)) or self.n < 1:
            raise InputError(f"Expected(n=…) must be a whole number of at least 1, but got {self.n!r}.")

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> ExpectedEdges:
        """Cut at quantiles of the lab's expected values."""
        values = np.asarray(range(n_classes) if self.values is None else self.values, dtype=np.float64)
        if values.shape != (n_classes,) or not np.isfinite(values).all() or np.ptp(values) == 0:
            raise InputError(
                f"Expected(values=…) must be {n_classes} finite numbers, not all the same, but got {self.values!r:.80}."
            )
        scaled = tuple(((values - values.min()) / np.ptp(values)).tolist())
        scores = as_columns(scores)
        return ExpectedEdges(scaled, tuple(quantile_cuts(expected(scores, scaled), self.n, weight).tolist()))


def expected(scores: NDArray[np.float64], values: tuple[float, ...]) -> Floats:
    """``Σ_k values_k · C_k``, class after class: every engine adds in this order, to the last bit."""
    total = scores[:, 0] * values[0]
    for k in range(1, len(values)):
        total = total + scores[:, k] * values[k]
    return np.asarray(np.clip(total, 0.0, 1.0))
