"""Two classes: what the posterior is made of, before anything is integrated.

The prior of every draw of ``M``, the derivatives of the log density in ``θ = arcsin √p``, its modes, and the rule by
which an interval becomes one-sided. `quadrature` builds on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, rel_entr

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
#: Three or more levels of probability -> as many arrays (..., ) of ``θ``.
Quantiles = Callable[[Floats], list[Floats]]
HALF_PI = np.pi / 2
#: The posterior counts as leaning on an end where its 5 % point is below this share of its median, in ``θ``.
#: A half-normal has .09 there, a density that vanishes at the end (Rayleigh) .27.
LEANING = 0.15
#: Edges next to an end, between which a prior may be too steep for the middle of a cell to stand for it.
END = 4

_TINY = 1e-300


@dataclass(frozen=True)
class BetaPrior:
    """``Beta(a_s, b_s) · exp(−entropy · KL(p ‖ centre))`` for every draw s."""

    a: Floats  # (S,) second class
    b: Floats  # (S,) first class
    entropy: float
    centre: Floats  # (2,)

    def tilt(self, p: Floats) -> Floats:
        """Logarithm of the entropy factor."""
        if not self.entropy:
            return np.zeros_like(p)
        return np.asarray(-self.entropy * (rel_entr(p, self.centre[1]) + rel_entr(1 - p, self.centre[0])))

    def cells(self, edges: Floats) -> tuple[Floats, Floats]:
        """Nodes p and log masses of the cells between edges in θ, each (S, T)."""
        a, b = self.a[:, None], self.b[:, None]
        x = np.sin(edges) ** 2
        mass = np.maximum(np.diff(betainc(a, b, x), axis=1), _TINY)
        p = np.tile(np.sin(middles(edges)) ** 2, (len(a), 1))
        # A Beta may have a pole at an end: there the likelihood is wanted at the mean of the cell.
        first = a / (a + b) * np.diff(betainc(a + 1, b, x[:END]), axis=1) / mass[:, : END - 1]
        last = a / (a + b) * np.diff(betainc(a + 1, b, x[-END:]), axis=1) / mass[:, 1 - END :]
        p[:, : END - 1] = np.clip(first, x[: END - 1], x[1:END])
        p[:, 1 - END :] = np.clip(last, x[-END:-1], x[1 - END :])
        return p, np.log(mass) + self.tilt(p)

    def window(self, outside: float = 1e-7) -> tuple[float, float]:
        """Range of θ that holds the Beta of every draw: priors may be far narrower than [0, 1]."""
        low = betaincinv(self.a, self.b, outside).min()
        high = betaincinv(self.a, self.b, 1 - outside).max()
        return float(np.arcsin(np.sqrt(low))), float(np.arcsin(np.sqrt(high)))

    def take(self, s: Rows) -> BetaPrior:
        """The priors of some draws."""
        return BetaPrior(self.a[s], self.b[s], self.entropy, self.centre)

    def typical(self) -> BetaPrior:
        """One prior in place of all: the medians."""
        return BetaPrior(
            np.median(self.a, keepdims=True), np.median(self.b, keepdims=True), self.entropy, self.centre
        )

    def narrowest(self) -> BetaPrior:
        """The draw whose Beta is worth most rows."""
        return self.take(np.array([(self.a + self.b).argmax()]))

    def bounded(self) -> BetaPrior:
        """Parameters of at least one half: no pole of the density of θ."""
        return BetaPrior(np.maximum(self.a, 0.5), np.maximum(self.b, 0.5), self.entropy, self.centre)


def beta_prior(alpha: Floats, n_draws: int, entropy: float = 0.0, centre: Floats | None = None) -> BetaPrior:
    """From Dirichlet parameters (2,) or (S, 2), first class first."""
    alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (n_draws, 2))
    middle = np.full(2, 0.5) if centre is None else np.maximum(centre, 1e-12)
    return BetaPrior(alpha[:, 1].copy(), alpha[:, 0].copy(), float(entropy), middle)


def relative_columns(M: Floats) -> Floats:
    """Each column of M (..., K, m) relative to its largest entry, so that none is too small to compute with."""
    largest = M.max(axis=-2, keepdims=True)
    return np.asarray(M / np.where(largest > 0, largest, 1.0))


def interval(quantiles: Quantiles, level: float) -> tuple[Floats, Floats]:
    """Equal-tailed in θ; one-sided where the posterior leans on an end, so that the end is inside.

    Whether it leans is asked at fixed probabilities: intervals of different levels are nested.
    """
    tail = (1 - level) / 2
    low5, middle, high5 = quantiles(np.array([0.05, 0.5, 0.95]))
    lower, upper = quantiles(np.array([tail, 1 - tail])) if tail != 0.05 else (low5, high5)
    at0 = low5 < LEANING * middle
    at1 = (HALF_PI - high5 < LEANING * (HALF_PI - middle)) & ~at0
    if (at0 | at1).any():
        lower1, upper1 = quantiles(np.array([2 * tail, 1 - 2 * tail]))
        lower = np.where(at0, 0.0, np.where(at1, lower1, lower))
        upper = np.where(at1, HALF_PI, np.where(at0, upper1, upper))
    return lower, upper


def conditional_mode(
    M: Floats, V: Floats, prior: BetaPrior, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Mode and curvature scale in θ for every group and draw, each (B, S). M (S, 2, m), V (B, m).

    Parameters of the prior below one half count as one half, so that the density has one mode.
    """
    S, shape = len(M), (len(V), len(M))
    p = np.full(shape, 0.5) if start is None else np.repeat(start[:, None], S, axis=1)
    low, high = np.zeros(shape), np.ones(shape)
    proper = prior.bounded()
    active = np.ones(shape, dtype=bool)
    for i in range(60):
        if i < 4:  # all of them; then only those that take longer
            p, low, high, active = _newton_step(p, low, high, M[None], V[:, None], proper)
            continue
        b, s = np.nonzero(active)
        if not len(b):
            break
        step = _newton_step(p[b, s], low[b, s], high[b, s], M[s], V[b], proper.take(s))
        p[b, s], low[b, s], high[b, s], active[b, s] = step
    p = np.where(p < 1e-14, 0.0, np.where(p > 1 - 1e-14, 1.0, p))
    theta = np.arcsin(np.sqrt(p))
    slope, bend = derivatives(np.clip(p, 1e-15, 1 - 1e-15), M[None], V[:, None], proper)
    curvature = -bend * np.sin(2 * theta) ** 2 - 2 * slope * np.cos(2 * theta)
    return theta, 1 / np.sqrt(np.maximum(curvature, 1.0))


def _newton_step(
    p: Floats, low: Floats, high: Floats, M: Floats, V: Floats, prior: BetaPrior
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Towards the root of a decreasing function, inside a bracket; and where it is not found yet."""
    slope, bend = derivatives(p, M, V, prior)
    low, high = np.where(slope > 0, p, low), np.where(slope > 0, high, p)
    newton = p - slope / np.minimum(bend, -1e-9)
    following = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
    far = np.abs(following - p) > 1e-3 / np.sqrt(np.maximum(-bend, 1.0))
    return following, low, high, far & (high - low >= 1e-15)


def derivatives(p: Floats, M: Floats, V: Floats, prior: BetaPrior) -> tuple[Floats, Floats]:
    """Slope and curvature, in p, of the log density of θ. M (..., 2, m) and V (..., m) broadcast to p."""
    base, difference = M[..., 0, :], M[..., 1, :] - M[..., 0, :]
    slope, bend = np.zeros(p.shape), np.zeros(p.shape)
    with np.errstate(over="ignore", under="ignore"):
        for j in range(M.shape[-1]):
            r = p * difference[..., j]
            r += base[..., j]
            np.maximum(r, _TINY, out=r)
            np.divide(difference[..., j], r, out=r)
            power = V[..., j] * r
            slope += power
            power *= r
            bend -= power
        x, y = np.maximum(p, 1e-75), np.maximum(1 - p, 1e-75)  # squares stay finite
        left, right = (prior.a - 0.5) / x, (prior.b - 0.5) / -y
        slope += left + right
        bend -= left / x + right / -y
    if prior.entropy:
        slope -= prior.entropy * (np.log(x / prior.centre[1]) - np.log(y / prior.centre[0]))
        bend -= prior.entropy * (1 / x + 1 / y)
    return slope, bend


def first_modes(M: Floats, V: Floats, prior: BetaPrior) -> Floats:
    """p at the mode under the mean of M, kept off the ends, (B,): from here each draw is a few steps away."""
    theta, _ = conditional_mode(M.mean(axis=0, keepdims=True), V, prior.typical())
    return np.asarray(np.clip(np.sin(theta[:, 0]) ** 2, 1e-6, 1 - 1e-6))


def blocks(rows: Rows, size: int) -> Iterator[Rows]:
    """Row numbers in blocks of bounded size."""
    for i in range(0, len(rows), max(1, size)):
        yield rows[i : i + max(1, size)]


def middles(edges: Floats) -> Floats:
    """The middle of every cell."""
    return np.asarray(0.5 * (edges[1:] + edges[:-1]))
