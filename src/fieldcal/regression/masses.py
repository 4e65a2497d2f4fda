"""Predictions that come as probabilities of intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldcal.errors import InputError
from fieldcal.objects import Support
from fieldcal.regression import checks
from fieldcal.regression.checks import Floats, Ints
from fieldcal.regression.lines import Lines
from fieldcal.regression.tabulated import Table


@dataclass(frozen=True, eq=False)
class IntervalMasses(Table):
    """Masses ``values`` (n, K) of the intervals of a ``support``."""

    support: Support

    def _take(self, rows: Ints) -> IntervalMasses:
        return IntervalMasses(self.values[rows], self.law._take(rows), self.support)

    def reshaped(self, support: Support, masses: ArrayLike) -> IntervalMasses:
        """The masses of the own intervals, of the distributions with new masses of the given ones."""
        law = self.law.reshaped(support, masses)
        if np.array_equal(support.points, self.support.points) and np.array_equal(
            support.before, self.support.before
        ):
            return IntervalMasses(checks.numbers(masses, "masses"), law, self.support)
        return IntervalMasses(law.masses(self.support), law, self.support)


def from_masses(
    masses: ArrayLike, support: Support, *, low: float | None = None, high: float | None = None
) -> IntervalMasses:
    """Predictive distributions from the probabilities of intervals.

    Inside an interval the distribution is uniform; an atom is exact. The first and the last interval are open: they
    get exponential tails that continue the density of the nearest interval with a width, or end at ``low`` and
    ``high``. The scale of a tail is never wider than all inner intervals together, so that a nearly empty
    neighbour does not throw it to infinity.

    Parameters
    ----------
    masses : (n, K), rows sum to one
    support : with K intervals
    low, high : finite ends, outside of all boundaries

    Examples
    --------
    >>> from fieldcal.objects import Support
    >>> from fieldcal.regression import from_masses
    >>> support = Support.of([1.0], atoms=[0.0])
    >>> support.labels
    ('< 0', '0', '(0, 1]', '> 1')
    >>> one = from_masses([[0.1, 0.4, 0.3, 0.2]], support, low=-1.0)
    >>> one.cdf([-0.5, 0.0, 0.5, 1.0]).round(3).tolist()
    [[0.05, 0.5, 0.65, 0.8]]
    >>> round(float(one.mean()[0]), 4)
    0.4333
    """
    values = checks.interval_masses(masses, support)
    left = _end(low, support, below=True)
    right = _end(high, support, below=False)
    n, points = len(values), support.points
    c = np.minimum(np.cumsum(values, axis=1)[:, :-1], 1.0)
    x = np.broadcast_to(points, (n, len(points)))
    scales = [np.zeros(n), np.zeros(n)]
    if left is None:
        scales[0] = _scale(values, support, first=True)
    else:
        x, c = np.hstack([np.full((n, 1), left), x]), np.hstack([np.zeros((n, 1)), c])
    if right is None:
        scales[1] = _scale(values, support, first=False)
    else:
        x, c = np.hstack([x, np.full((n, 1), right)]), np.hstack([c, np.ones((n, 1))])
    return IntervalMasses(values, Lines.through(x, c, low=scales[0], high=scales[1]), support)


def _end(end: float | None, support: Support, *, below: bool) -> float | None:
    if end is None:
        return None
    edge = float(support.points[0] if below else support.points[-1])
    if not np.isfinite(end) or (end >= edge if below else end <= edge):
        name, side = ("low", "below") if below else ("high", "above")
        raise InputError(f"{name}={end:g} must be finite and {side} the outermost boundary {edge:g}.")
    return float(end)


def _scale(masses: Floats, support: Support, *, first: bool) -> Floats:
    """Scale of an open end: its mass, over the density of the nearest interval with a width."""
    own = masses[:, 0] if first else masses[:, -1]
    widths = np.diff(support.points)
    wide = np.flatnonzero(widths > 0.0)
    if not own.any():
        return np.zeros(len(own))
    if not len(wide):
        raise InputError(
            f"The support {support.labels} has no inner interval with a width, so nothing says how far its open "
            "ends reach. Pass low=... and high=..., or a support with more edges."
        )
    near = wide[0] if first else wide[-1]
    neighbour = masses[:, near + 1]
    cap = float(support.points[-1] - support.points[0])
    with np.errstate(divide="ignore", over="ignore"):
        raw = own * widths[near] / np.where(neighbour > 0.0, neighbour, np.nan)
    return np.fmin(np.where(own > 0.0, raw, 0.0), cap)
