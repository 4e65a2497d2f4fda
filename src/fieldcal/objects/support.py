"""Support: the line of numbers, cut into intervals that are the classes of a regression."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import model_validator

from fieldcal.artefacts import Flags, Frozen, Numbers, sealed
from fieldcal.errors import InputError


class Support(Frozen):
    """Where the line of numbers is cut.

    Boundary ``i`` lies just after ``points[i]``, or just before it where ``before[i]``. So intervals are right-closed,
    and a value with an atom, which has a boundary on either side, is an interval of its own. The first and the last
    interval are open to infinity.

    Examples
    --------
    >>> from fieldcal.objects import Support
    >>> support = Support.of([1.0, 2.5], atoms=[0.0])
    >>> support.labels
    ('< 0', '0', '(0, 1]', '(1, 2.5]', '> 2.5')
    >>> support.codes([-3, 0, 0.5, 2.5, 9]).tolist()
    [0, 1, 2, 3, 4]
    """

    points: Numbers
    before: Flags

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.points.ndim != 1 or self.before.shape != self.points.shape or not len(self.points):
            raise ValueError("a support needs one flag for each of its boundaries, and at least one of them")
        if not np.isfinite(self.points).all():
            raise ValueError("boundaries must be finite")
        order = list(zip(self.points.tolist(), (~self.before).tolist(), strict=True))
        if order != sorted(set(order)):
            raise ValueError("boundaries must increase")
        return self

    @classmethod
    def of(cls, edges: ArrayLike, *, atoms: ArrayLike = ()) -> Support:
        """Cut after each of the edges, and around each of the atoms."""
        cuts, own = (np.asarray(x, dtype=np.float64).ravel() for x in (edges, atoms))
        if not (np.isfinite(cuts).all() and np.isfinite(own).all()):
            raise InputError(
                "Edges and atoms must be finite: the first and the last interval are open anyway."
            )
        after = np.unique(np.concatenate([cuts, own]))
        points = np.concatenate([np.unique(own), after])
        before = np.repeat([True, False], [len(np.unique(own)), len(after)])
        if not len(points):
            raise InputError("A support needs at least one edge, or there is nothing to tell apart.")
        order = np.lexsort((~before, points))
        return cls(points=sealed(points[order]), before=sealed(before[order]))

    @property
    def size(self) -> int:
        """How many intervals there are."""
        return len(self.points) + 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The intervals as people write them."""
        ends = [f"{x:.10g}" for x in self.points]
        if len(set(ends)) < len(set(self.points.tolist())):
            ends = [repr(float(x)) for x in self.points]
        first = f"{'<' if self.before[0] else '≤'} {ends[0]}"
        last = f"{'≥' if self.before[-1] else '>'} {ends[-1]}"
        inner = [self._inner(i, ends) for i in range(1, len(ends))]
        return (first, *inner, last)

    def _inner(self, i: int, ends: list[str]) -> str:
        if self.points[i - 1] == self.points[i]:
            return ends[i]
        opening, closing = "[" if self.before[i - 1] else "(", ")" if self.before[i] else "]"
        return f"{opening}{ends[i - 1]}, {ends[i]}{closing}"

    def codes(self, y: ArrayLike) -> NDArray[np.intp]:
        """The interval of each number; NaN is in none, and refused."""
        values = np.asarray(y, dtype=np.float64)
        if np.isnan(values).any():
            raise InputError(f"{int(np.isnan(values).sum()):,} of the numbers are missing. Drop those rows.")
        before, after = self.points[self.before], self.points[~self.before]
        passed = np.searchsorted(before, values, side="right") + np.searchsorted(after, values, side="left")
        return np.asarray(passed, dtype=np.intp)
