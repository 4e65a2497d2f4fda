"""The map T from old to new cumulative masses, and piecewise linear interpolation.

Let a distribution F have cumulative masses ``C`` at the boundaries of a support. The distribution with masses ``C'``
and the same shape inside every interval is ``T(F(x))``, where T is piecewise linear through (0, 0), the points (C, C')
and (1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcal.errors import InputError
from fieldcal.types import Floats, Ints


def passed(knots: Floats, at: Floats, *, equal: bool | NDArray[np.bool_]) -> Ints:
    """Number of the row's knots below each point, or up to it with ``equal``.

    Parameters
    ----------
    knots : (n, P), at : (n, Q)

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.regression.transport import passed
    >>> passed(np.array([[0.0, 1.0, 1.0, 2.0]]), np.array([[1.0, 1.5]]), equal=False).tolist()
    [[1, 3]]
    """
    rows = np.arange(len(knots))[:, None]
    low, high = np.zeros(at.shape, dtype=np.intp), np.full(at.shape, knots.shape[1], dtype=np.intp)
    for _ in range(knots.shape[1].bit_length()):  # bisection, vectorised over all points
        middle = (low + high) // 2
        knot = knots[rows, np.minimum(middle, knots.shape[1] - 1)]
        further = (low < high) & ((knot < at) | (equal & (knot == at)))
        high = np.where(further, high, middle)
        low = np.where(further, middle + 1, low)
    return low


def ends(knots: Floats, after: Ints) -> tuple[Floats, Floats]:
    """The ends of the segment of each point; one end twice outside of all segments."""
    rows, last = np.arange(len(knots))[:, None], knots.shape[1] - 1
    return knots[rows, np.clip(after - 1, 0, last)], knots[rows, np.clip(after, 0, last)]


def follow(x: Floats, y: Floats, at: Floats, *, equal: bool | NDArray[np.bool_]) -> Floats:
    """Piecewise linear interpolation of the row's knots, constant outside; ``equal`` selects the side of a jump.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.regression.transport import follow
    >>> x, y = np.array([[0.0, 1.0, 1.0, 2.0]]), np.array([[0.0, 0.2, 0.8, 1.0]])
    >>> follow(x, y, np.array([[0.5, 1.0, 9.0]]), equal=True).tolist()
    [[0.1, 0.8, 1.0]]
    """
    after = passed(x, at, equal=equal)
    (left, right), (bottom, top) = ends(x, after), ends(y, after)
    share = ratio(np.clip(at, left, right) - left, right - left)
    return np.clip(bottom + share * (top - bottom), bottom, top)


def slope(x: Floats, y: Floats, at: Floats) -> Floats:
    """Slope of the segment that ends at, or contains, each point; 0 outside."""
    after = passed(x, at, equal=False)
    (left, right), (bottom, top) = ends(x, after), ends(y, after)
    return ratio(top - bottom, right - left)


def ratio(a: Floats, b: Floats) -> Floats:
    """``a / b``, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0.0)


@dataclass(frozen=True, eq=False)
class Transport:
    """T for n rows: ``old`` and ``new`` are (n, K + 1), from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.regression.transport import Transport
    >>> T = Transport.between(np.array([[0.5, 0.5, 0.8]]), np.array([[0.2, 0.2, 0.8]]))
    >>> T.forward(np.array([[0.25, 0.5, 0.9]])).tolist()
    [[0.1, 0.2, 0.9]]
    >>> T.backward(np.array([[0.1, 0.2, 0.9]])).round(12).tolist()
    [[0.25, 0.5, 0.9]]
    """

    old: Floats
    new: Floats

    @classmethod
    def between(cls, old: Floats, new: Floats) -> Transport:
        """From cumulative masses at the boundaries, (n, K − 1)."""
        if old.shape != new.shape:
            raise InputError(
                f"Old and new cumulative masses must have the same rows and columns, but have shapes {old.shape} and "
                f"{new.shape}. Use predictions.reshaped(support, masses)."
            )
        zero, one = np.zeros((len(old), 1)), np.ones((len(old), 1))
        return cls(np.hstack([zero, old, one]), np.hstack([zero, new, one]))

    def forward(self, c: Floats) -> Floats:
        """New cumulative levels of old ones."""
        return follow(self.old, self.new, c, equal=True)

    def backward(self, u: Floats) -> Floats:
        """The smallest old levels that reach the new ones; for 0 the largest that is still 0."""
        return follow(self.new, self.old, u, equal=u <= 0.0)

    def steepness(self, c: Floats) -> Floats:
        """Factor by which densities change; intervals are right-closed."""
        return slope(self.old, self.new, np.maximum(c, np.finfo(np.float64).tiny))

    def take(self, rows: Ints) -> Transport:
        """The given rows."""
        return Transport(self.old[rows], self.new[rows])
