"""Columns: where a table has the predictions, the label and the groups."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, model_validator
from pydantic import Field as Slot

from fieldcal.errors import InputError
from fieldcal.objects.artefact import Flags, Frozen, Numbers, Texts, sealed

Levels = Annotated[tuple[float, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]


class Columns(Frozen):
    """The names of the columns that a lab was learnt from, so that later steps need none.

    ``scores`` holds one name per class in the order of the classes, or the one name of the second of two. In a
    regression it holds the names of the quantile columns, and ``levels`` their levels, which increase.
    """

    scores: Texts = Slot(min_length=1)
    label: str
    by: Texts = ()
    levels: Levels | None = None

    @model_validator(mode="after")
    def _one_level_each(self) -> Self:
        levels = self.levels
        if levels is None:
            return self
        if len(levels) != len(self.scores):
            raise ValueError(f"{len(levels)} levels for {len(self.scores)} columns of quantiles")
        if list(levels) != sorted(set(levels)) or levels[0] <= 0.0 or levels[-1] >= 1.0:
            raise ValueError("levels must increase, between 0 and 1")
        return self


class Intervals(Frozen):
    """Where the line of numbers is cut.

    Boundary ``i`` lies just after ``points[i]``, or just before it where ``before[i]``. So intervals are right-closed,
    and a value with an atom, which has a boundary on either side, is an interval of its own. The first and the last
    interval are open to infinity.

    Examples
    --------
    >>> from fieldcal.objects import Intervals
    >>> support = Intervals.of([1.0, 2.5], atoms=[0.0])
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
    def of(cls, edges: ArrayLike, *, atoms: ArrayLike = ()) -> Intervals:
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
