"""Intervals of a number: their boundaries, whether neighbours can be distinguished, and the transport of masses.

Let a distribution F have cumulative masses ``C`` at the boundaries of a support. The distribution with masses ``C'``
and the same shape inside every interval is ``T(F(x))``, where T is piecewise linear through (0, 0), the points (C, C')
and (1, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.goodness_of_fit import homogeneity
from fieldcal.errors import InputError, option
from fieldcal.objects import Intervals
from fieldcal.options import as_array
from fieldcal.types import Floats, Ints

#: Tolerance for the sum of a row of masses, which is then rescaled.
SUM_TOLERANCE = 1e-6
#: A mass below this in an interval that had none is a rounding error; more is refused.
NO_MASS = 1e-9
#: Default number of intervals, and lab rows that each needs.
INTERVALS, ROWS = 20, 50
#: How often the outermost of automatic intervals are halved.
TAIL_CUTS = 3
#: A value with at least this share of the rows is an atom with an interval of its own.
ATOM = 0.05
#: Neighbours whose predictions look alike with at least this p-value are merged.
ALIKE = 0.01
#: Bins in which predictions of neighbours are compared.
_BINS = 10


def choose_support(
    y: Floats, intervals: int | None, atoms: Sequence[float] | Literal["auto"], weight: Floats | None
) -> Intervals:
    """Intervals with equally many of the lab's numbers, and atoms; their number is limited by the rows."""
    if not len(y):
        raise InputError(
            "The lab has no rows: there are no numbers to cut into intervals. Check the filter before this."
        )
    size = np.ones(len(y)) if weight is None else weight
    own = _atoms(y, size) if isinstance(atoms, str) else np.unique(as_array("atoms", atoms))
    continuous = ~np.isin(y, own)
    number = min(INTERVALS, int(size.sum() // ROWS)) if intervals is None else intervals
    number = max(2, number) - len(own)
    tails = TAIL_CUTS if intervals is None else 0
    cuts = (
        _quantiles(y[continuous], size[continuous], number, tails)
        if continuous.any() and number > 1
        else np.empty(0)
    )
    if not len(cuts) and (not len(own) or not continuous.any()) and len(own) < 2:
        raise InputError(f"All {len(y):,} numbers are the same, {y[0]:g}: there is nothing to predict.")
    return _without_empty(Intervals.of(cuts, atoms=own), y)


def _atoms(y: Floats, size: Floats) -> Floats:
    values, at = np.unique(y, return_inverse=True)
    return np.asarray(values[np.bincount(at, weights=size) >= ATOM * size.sum()])


def _levels(number: int, rows: float, tails: int) -> Floats:
    """Levels in equal steps, with the outermost halved while rows suffice, because shifts affect the tails most."""
    levels = np.arange(1, number) / number
    end = 1 / number
    for _ in range(tails):
        end /= 2
        if end * rows < ROWS:
            break
        levels = np.concatenate([[end], levels, [1 - end]])
    return levels


def _quantiles(y: Floats, size: Floats, number: int, tails: int) -> Floats:
    """Cuts at the quantiles; never at the largest value, above which there is nothing."""
    order = np.argsort(y, kind="stable")
    share = np.cumsum(size[order]) / size.sum()
    at = np.searchsorted(share, _levels(number, size.sum(), tails) - 1e-12)
    cuts = _round(np.unique(y[order][np.minimum(at, len(y) - 1)]))
    return np.asarray(cuts[cuts < y.max()])


def _round(cuts: Floats) -> Floats:
    """Cuts rounded to the fewest digits that keep them clearly distinct."""
    if len(cuts) < 2:
        return cuts
    digits = int(np.clip(1 - np.floor(np.log10(np.diff(cuts).min())), -12, 12))
    return np.unique(np.round(cuts, digits)) + 0.0  # no −0


def _without_empty(support: Intervals, y: Floats) -> Intervals:
    filled = np.bincount(support.codes(y), minlength=support.size) > 0
    keep = np.ones(len(support.points), dtype=bool)
    for k in np.flatnonzero(~filled):
        keep[min(int(k), len(keep) - 1)] = False
    return Intervals(points=support.points[keep], before=support.before[keep])


def given_support(edges: Any, atoms: Sequence[float]) -> Intervals:
    cuts = as_array("intervals", edges).ravel()
    if np.isnan(cuts).any() or np.any(np.diff(cuts) <= 0):
        raise InputError(
            f"Edges must strictly increase, but got {cuts.tolist()!r:.80}. Sort them, drop repeats."
        )
    # The open ends may be given as infinity.
    return Intervals.of(cuts[np.isfinite(cuts)], atoms=as_array("atoms", atoms))


def indistinguishable_neighbours(expected: Floats, codes: Ints, size: int) -> list[int]:
    """Intervals whose predictions cannot be distinguished from those of the next interval."""
    bins = np.searchsorted(np.quantile(expected, np.arange(1, _BINS) / _BINS), expected)
    table = np.zeros((size, _BINS))
    np.add.at(table, (codes, bins), 1)
    return [k for k in range(size - 1) if homogeneity(table[k : k + 2, None]).p_value > ALIKE]


def _joint(support: Intervals, k: int) -> int:
    """The boundary to remove so that interval k merges with the next; keeps the near side of an atom."""
    points = support.points
    own = np.zeros(len(points), dtype=bool)  # whether a boundary belongs to an atom
    own[:-1] |= points[:-1] == points[1:]
    own[1:] |= own[:-1]
    beyond = [b for b in (k, k + 1, k - 1) if 0 <= b < len(points) and not own[b]]
    return beyond[0] if beyond else k


def merge_indistinguishable(support: Intervals, expected: Floats, y: Floats) -> Intervals:
    """Intervals merged until each can be distinguished from the next; at least two."""
    while support.size > 2:
        alike = indistinguishable_neighbours(expected, support.codes(y), support.size)
        if not alike:
            break
        keep = np.ones(len(support.points), dtype=bool)
        keep[[_joint(support, k) for k in alike[::2]]] = (
            False  # every other one, as merging changes the neighbours
        )
        if not keep.any():
            keep[len(keep) // 2] = True
        support = Intervals(points=support.points[keep], before=support.before[keep])
    return support


def find_intervals(
    expected: Floats, y: Floats, intervals: Any, atoms: Any, weight: Floats | None
) -> Intervals:
    """The requested intervals, if predictions can distinguish them; "auto" merges those that they cannot."""
    if isinstance(intervals, str):
        if intervals != "auto":
            raise InputError(f"intervals must be 'auto', a number or edges, but got {intervals!r}.")
        return merge_indistinguishable(choose_support(y, None, atoms, weight), expected, y)
    if isinstance(intervals, (int, np.integer)) and not isinstance(intervals, bool):
        if not 2 <= intervals <= max(len(y), 2):
            raise InputError(
                f"intervals must be two at least and {len(y):,} rows at most, but got {intervals}."
            )
        support = choose_support(y, int(intervals), atoms, weight)
    else:
        support = given_support(intervals, () if isinstance(atoms, str) else atoms)
    codes = support.codes(y)
    rows = np.bincount(codes, minlength=support.size)
    if not rows.all():
        empty = support.labels[int(rows.argmin())]
        raise InputError(f"No number of the lab lies in the interval {empty}. Choose other edges, or 'auto'.")
    alike = indistinguishable_neighbours(expected, codes, support.size)
    if alike:
        one, two = support.labels[alike[0]], support.labels[alike[0] + 1]
        raise InputError(
            f"The predictions cannot tell the intervals {one} and {two} apart ({len(alike)} of {support.size - 1} "
            f"pairs of neighbours). Use fewer intervals, or {option('intervals', 'auto')}."
        )
    return support


def check_masses(array: Floats, support: Intervals, *, n: int | None = None) -> Floats:
    """Validated masses of the intervals, (n, K); every row sums to one."""
    if array.shape[1] != support.size or (n is not None and len(array) != n):
        rows = "n" if n is None else f"{n}"
        raise InputError(
            f"The masses must have shape ({rows}, {support.size}), one column per interval of the support, but "
            f"have {array.shape}."
        )
    if array.size and array.min() < 0.0:
        row = int((array < 0.0).any(axis=1).argmax())
        raise InputError(
            f"Masses must not be negative, but row {row} holds {array[row].min():.4g}. Are these logarithms, or "
            "cumulative masses? Pass the probability of each interval."
        )
    total = array.sum(axis=1, keepdims=True)
    if array.size and np.abs(total - 1.0).max() > SUM_TOLERANCE:
        row = int(np.abs(total - 1.0).argmax())
        raise InputError(
            f"The masses of a row must sum to one, but those of row {row} sum to {total[row, 0]:.6g}. "
            "Divide each row by its sum if they are unnormalised."
        )
    return np.asarray(array / total)


def without_new_support(new: Floats, old: Floats, support: Intervals) -> Floats:
    """New masses where there was mass before; other intervals have no shape to keep, so their mass is refused."""
    shapeless = (old <= 0.0) & (new > 0.0)
    if not shapeless.any():
        return new
    worst = np.where(shapeless, new, 0.0)
    if worst.max() > NO_MASS:
        row, k = np.unravel_index(int(worst.argmax()), worst.shape)
        raise InputError(
            f"Row {row} should get mass {worst[row, k]:.4g} in the interval {support.labels[k]!r}, where its "
            "distribution has none, so there is no shape to keep. Multiply the old masses by weights instead."
        )
    kept = np.where(shapeless, 0.0, new)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def passed(knots: Floats, at: Floats, *, equal: bool | NDArray[np.bool_]) -> Ints:
    """Number of the row's knots below each point, or up to it with ``equal``.

    Parameters
    ----------
    knots : (n, P), at : (n, Q)

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.regression.intervals import passed
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
    >>> from fieldcal.regression.intervals import follow
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
    >>> from fieldcal.regression.intervals import Transport
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
        return Transport(self.old[rows], self.new[rows])
