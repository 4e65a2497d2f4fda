"""Two classes: what the posterior is made of, before anything is integrated.

The prior of every draw of ``M``, the derivatives of the log density in ``θ = arcsin √p``, its modes, and the rule by
which an interval reaches an end. `posterior` builds on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, rel_entr

from fieldcal.types import Floats

Rows = NDArray[np.intp]
#: Three or more levels of probability -> as many arrays (..., ) of ``θ``.
Quantiles = Callable[[Floats], list[Floats]]
HALF_PI = np.pi / 2
#: The posterior touches an end where its 5 % point is below this share of its median, in ``θ``: the histogram does
#: not rule the end out. A half-normal in ``θ`` has .09, one in ``p`` .3, and a normal in ``p`` .45 if its mode is 1.64
#: standard deviations from the end. (decision 13)
TOUCHING = 0.4
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

    def log_density(self, p: Floats) -> Floats:
        """Of θ at p (B, S), but for a constant; off the ends by what numbers can tell."""
        inside = np.clip(p, 1e-15, 1 - 1e-15)
        beta = (self.a - 0.5) * np.log(inside) + (self.b - 0.5) * np.log1p(-inside)
        return np.asarray(beta + self.tilt(inside))

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
    """Equal-tailed in θ; an end that the posterior touches is inside, and the other end stays where it is.

    Whether it touches is asked at fixed probabilities: intervals of different levels are nested.
    """
    tail = (1 - level) / 2
    low5, middle, high5 = quantiles(np.array([0.05, 0.5, 0.95]))
    lower, upper = quantiles(np.array([tail, 1 - tail])) if tail != 0.05 else (low5, high5)
    at0 = low5 < TOUCHING * middle
    at1 = HALF_PI - high5 < TOUCHING * (HALF_PI - middle)
    return np.where(at0, 0.0, lower), np.where(at1, HALF_PI, upper)


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


#: Shared cells; a group needs a scale of at least `RESOLVED` cells, `FINER` times that within `NEAR` scales of an end.
SIZES = (48, 96, 192)
RESOLVED, NEAR, FINER = 1.1, 3.0, 2.0
#: Log-likelihoods of more rows than this lose too much in single precision.
SINGLE_ROWS = 1e5
#: Own cells per group and draw, and how many scales they reach from the mode.
OWN_CELLS, REACH = 24, 5.0
_CELLS = 1_000_000  # floats per work array

#: A block of groups: mean, sd, and the quantiles in θ.
Part = tuple[Rows, Floats, Floats, Quantiles]


def binary_summary(
    M: Floats,
    V: Floats,
    alpha: Floats,
    *,
    level: float = 0.9,
    entropy: float = 0.0,
    centre: Floats | None = None,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean, standard deviation and interval of the second class, each (G,).

    Parameters
    ----------
    M : (S, 2, m) draws of the response matrix
    V : (G, m) field counts
    alpha : (2,) or (S, 2) Dirichlet parameters of the prior
    """
    M, V = relative_columns(M), np.asarray(V, dtype=np.float64)
    prior = beta_prior(alpha, len(M), entropy, centre)
    out = np.empty((4, len(V)))
    with np.errstate(under="ignore"):
        for edges, rows in tiers(M, V, prior):
            if edges is None:
                _fill(out, rows, _own_parts(M, V, prior, rows), level)
            else:
                _fill(out, rows, _shared_parts(M, V, prior, rows, edges), level)
    mean, sd, lower, upper = out
    return mean, sd, np.sin(lower) ** 2, np.sin(upper) ** 2


def binary_draws(
    M: Floats,
    V: Floats,
    alpha: Floats,
    rng: np.random.Generator,
    *,
    per_draw: int = 1,
    entropy: float = 0.0,
    centre: Floats | None = None,
) -> Floats:
    """Joint draws (G, S * per_draw, 2): those of draw s use the same ``M_s`` in every group."""
    M, V = relative_columns(M), np.asarray(V, dtype=np.float64)
    prior = beta_prior(alpha, len(M), entropy, centre)
    theta = np.empty((len(V), len(M), per_draw))
    with np.errstate(under="ignore"):
        for edges, rows in tiers(M, V, prior):
            for block, cells in (
                _own_blocks(M, V, prior, rows) if edges is None else _shared_blocks(M, V, prior, rows, edges)
            ):
                theta[block] = cells.draw(rng, per_draw)
    p = np.sin(theta.reshape(len(V), len(M) * per_draw)) ** 2
    return np.stack([1 - p, p], axis=-1)


def tiers(M: Floats, V: Floats, prior: BetaPrior) -> Iterator[tuple[Floats | None, Rows]]:
    """Which groups need which cells: edges of shared cells, or None, and rows of V."""
    low, high = prior.window()
    theta, scale = _overview(M, V, prior.narrowest())
    # A group that contradicts the prior may lie outside its window.
    inside = (theta - 4 * scale > low) | (low < scale)
    inside &= (theta + 4 * scale < high) | (HALF_PI - high < scale)
    inside &= V.sum(axis=1) < SINGLE_ROWS
    # A mode next to an end may be flat on top (quartic in θ), and the prior may have a pole there.
    near = np.minimum(theta, HALF_PI - theta) < NEAR * scale
    needed = RESOLVED * np.where(near, FINER, 1.0)
    left = np.ones(len(V), dtype=bool)
    for n_cells in SIZES:
        now = left & inside & (scale >= needed * (high - low) / n_cells)
        left &= ~now
        if now.any():
            yield np.linspace(low, high, n_cells + 1), np.flatnonzero(now)
    if left.any():
        yield None, np.flatnonzero(left)


def _overview(M: Floats, V: Floats, prior: BetaPrior) -> tuple[Floats, Floats]:
    """Mode and scale of every group under the mean of M, (G,)."""
    base, step = M.mean(axis=0, keepdims=True), _CELLS // 50
    parts = [conditional_mode(base, V[i : i + step], prior) for i in range(0, max(len(V), 1), step)]
    theta, scale = (np.concatenate(column)[:, 0] for column in zip(*parts, strict=True))
    return theta, scale


@dataclass(frozen=True)
class Cells:
    """Masses of cells of equal width in θ: every group and draw, shared or own cells."""

    left: Floats  # () or (B, S) left edge of the first cell
    width: Floats  # () or (B, S)
    mass: NDArray[np.floating]  # (B, S, T), sums to one over T
    p: Floats  # (S, T) or (B, S, T), where the likelihood was taken

    def draw(self, rng: np.random.Generator, per_draw: int) -> Floats:
        """θ, (B, S, per_draw): uniform inside a cell.

        The levels of a group are dealt evenly over all its draws, so that few of them make a smooth distribution; each
        group has its own deal, so that groups are independent given M.
        """
        n_cells = self.mass.shape[-1]
        upto = np.cumsum(self.mass, axis=-1, dtype=np.float64)
        upto /= upto[..., -1:]
        out = np.empty((*upto.shape[:2], per_draw))
        B, S = upto.shape[:2]
        deal = rng.permuted(np.broadcast_to(np.arange(S * per_draw), (B, S * per_draw)), axis=1)
        levels = ((deal + rng.random(deal.shape)) / deal.shape[1]).reshape(B, S, per_draw)
        for c in range(per_draw):
            u = levels[..., c]
            j = np.minimum((upto < u[..., None]).sum(axis=-1), n_cells - 1)
            right = np.take_along_axis(upto, j[..., None], -1)[..., 0]
            mass = np.maximum(np.take_along_axis(self.mass, j[..., None], -1)[..., 0], _TINY)
            out[..., c] = self.left + self.width * (j + 1 - np.clip((right - u) / mass, 0, 1))
        return out


def _fill(out: Floats, rows: Rows, parts: Iterator[Part], level: float) -> None:
    """Mean, sd and interval (in θ) of every block."""
    for block, mean, sd, quantiles in parts:
        out[:, block] = mean, sd, *interval(quantiles, level)


def _shared_blocks(
    M: Floats, V: Floats, prior: BetaPrior, rows: Rows, edges: Floats
) -> Iterator[tuple[Rows, Cells]]:
    """All groups on the same cells: log-likelihood and log prior are one product."""
    S, T = len(M), len(edges) - 1
    p, log_prior = prior.cells(edges)
    q = M[:, :1] + p[..., None] * (M[:, 1:] - M[:, :1])  # S, T, m
    log_q = np.log(np.maximum(q, _TINY)).reshape(S * T, -1)
    table = np.column_stack([log_q - log_q.mean(axis=0), log_prior.ravel()]).T.astype(np.float32)
    for block in blocks(rows, 4 * _CELLS // (S * T)):
        counts = np.column_stack([V[block], np.ones(len(block))]).astype(np.float32)
        mass = (counts @ table).reshape(-1, S, T)
        mass -= mass.max(axis=2, keepdims=True)
        np.exp(mass, out=mass)
        mass /= mass.sum(axis=2, keepdims=True)
        yield block, Cells(edges[0], edges[1] - edges[0], mass, p)


def _shared_parts(M: Floats, V: Floats, prior: BetaPrior, rows: Rows, edges: Floats) -> Iterator[Part]:
    middle = np.sin(middles(edges)) ** 2
    ends = [*range(END - 1), *range(1 - END, 0)]
    for block, cells in _shared_blocks(M, V, prior, rows, edges):
        mass = cells.mass.mean(axis=1).astype(np.float64)
        mass /= mass.sum(axis=1, keepdims=True)
        offset = cells.p[:, ends] - middle[ends]  # the nodes there are not in the middle
        mean = mass @ middle + (cells.mass[:, :, ends] * offset).sum(axis=(1, 2)) / len(M)
        variance = (mass * (middle - mean[:, None]) ** 2).sum(axis=1)
        yield block, mean, np.sqrt(variance), partial(_shared_quantiles, mass, edges)


def _refined(mass: Floats) -> tuple[Floats, Floats]:
    """Distribution function at the edges of cells (..., T + 1), and how the density changes across each (..., T).

    Midpoints are off by ``h²/24`` times the slope of the density (Euler–Maclaurin), which neighbours tell. At the ends
    masses are exact already.
    """
    upto = np.zeros((*mass.shape[:-1], mass.shape[-1] + 1))
    np.cumsum(mass, axis=-1, out=upto[..., 1:])
    upto[..., 2:-2] += (mass[..., 2:-1] - mass[..., 1:-2]) / 24
    change = np.zeros(mass.shape)
    change[..., 1:-1] = 0.5 * (mass[..., 2:] - mass[..., :-2])
    return upto, np.clip(change, -1.9 * mass, 1.9 * mass)


def _shared_quantiles(mass: Floats, edges: Floats, levels: Floats) -> list[Floats]:
    """Quantiles of cell masses (B, T); the density is linear inside a cell."""
    upto, change = _refined(mass)
    rows, out = np.arange(len(mass)), []
    for level in levels:
        j = np.clip((upto[:, 1:] < level).sum(axis=1), 0, mass.shape[1] - 1)
        below, size = upto[rows, j], np.maximum(upto[rows, j + 1] - upto[rows, j], _TINY)
        t = np.clip((level - below) / size, 0, 1)
        bend = np.clip(change[rows, j] / size, -1.9, 1.9)
        start = 1 - 0.5 * bend
        inside = 2 * t / (start + np.sqrt(start**2 + 2 * bend * t))
        out.append(edges[0] + (edges[1] - edges[0]) * (j + inside))
    return out


def _own_blocks(M: Floats, V: Floats, prior: BetaPrior, rows: Rows) -> Iterator[tuple[Rows, Cells]]:
    for block in blocks(rows, _CELLS // (2 * OWN_CELLS * len(M))):
        yield block, own_cells(M, V[block], prior)


def _own_parts(M: Floats, V: Floats, prior: BetaPrior, rows: Rows) -> Iterator[Part]:
    for block, cells in _own_blocks(M, V, prior, rows):
        mean = (cells.mass * cells.p).sum(axis=-1).mean(axis=1)
        variance = (cells.mass * (cells.p - mean[:, None, None]) ** 2).sum(axis=-1).mean(axis=1)
        yield block, mean, np.sqrt(variance), partial(_own_quantiles, cells)


def own_cells(M: Floats, V: Floats, prior: BetaPrior) -> Cells:
    """Cells around the mode of every group and draw. M (S, 2, m), V (B, m)."""
    theta, scale = conditional_mode(M, V, prior, first_modes(M, V, prior))
    scale = _shorter(M, V, prior, theta, scale)
    left = np.maximum(theta - REACH * scale, 0.0)
    width = (np.minimum(theta + REACH * scale, HALF_PI) - left) / OWN_CELLS
    p, mass = _own_prior(left[..., None], width[..., None], prior)  # B, S, T
    mass += _relative_likelihood(M, V, p, np.sin(theta) ** 2)
    mass -= mass.max(axis=-1, keepdims=True)
    np.exp(mass, out=mass)
    mass /= mass.sum(axis=-1, keepdims=True)
    return Cells(left, width, mass, p)


def _relative_likelihood(M: Floats, V: Floats, p: Floats, p0: Floats) -> Floats:
    """Log-likelihood at p (B, S, T) relative to p0 (B, S): nothing cancels at 1e12 rows."""
    difference = M[:, 1] - M[:, 0]
    dp = p - p0[..., None]
    total = np.zeros(p.shape)
    with np.errstate(over="ignore"):
        for j in range(M.shape[2]):
            r = difference[:, j] / np.maximum(M[:, 0, j] + p0 * difference[:, j], _TINY)
            total += V[:, j, None, None] * np.log1p(np.maximum(dp * r[..., None], -1 + 1e-16))
    return total


def _shorter(M: Floats, V: Floats, prior: BetaPrior, theta: Floats, scale: Floats) -> Floats:
    """The scale where a mode next to an end is flat on top (quartic in θ): from the drop two scales inwards."""
    inwards = theta + 2 * scale * np.where(theta < HALF_PI / 2, 1, -1)
    inside = np.sin(np.clip(inwards, 0, HALF_PI)) ** 2
    top = np.sin(theta) ** 2
    drop = -_relative_likelihood(M, V, inside[..., None], top)[..., 0]
    drop += prior.bounded().log_density(top) - prior.bounded().log_density(inside)
    return np.asarray(scale * (2 / np.maximum(drop, 2)) ** 0.25)


def _own_prior(left: Floats, width: Floats, prior: BetaPrior) -> tuple[Floats, Floats]:
    """Nodes p and log prior masses of own cells: the power law in cells next to an end, the density elsewhere."""
    a, b = prior.a[:, None], prior.b[:, None]
    middle = left + width * (np.arange(OWN_CELLS) + 0.5)
    p = np.sin(middle) ** 2
    near0, near1 = left <= 0, left + OWN_CELLS * width >= HALF_PI
    with np.errstate(divide="ignore", invalid="ignore"):
        if near0.any():
            node0, power0, steep0 = _power_law(middle, width, a)
            p = np.where(near0 & steep0, node0, p)
        if near1.any():
            node1, power1, steep1 = _power_law(HALF_PI - middle, width, b)
            p = np.where(near1 & steep1, 1 - node1, p)
        log_p, log_1p = np.log(p), np.log1p(-p)
        mass = (a - 0.5) * log_p + (b - 0.5) * log_1p + np.log(2 * width)
        if near0.any():
            mass = np.where(near0 & steep0, power0 + (b - 1) * log_1p, mass)
        if near1.any():
            mass = np.where(near1 & steep1, power1 + (a - 1) * log_p, mass)
    return p, mass + prior.tilt(p)


def _power_law(middle: Floats, width: Floats, c: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Mean, log mass of ``x^(c − 1)`` in cells of ``√x = sin θ``, and where it is too steep for their middles."""
    inner, outer = np.sin(np.maximum(middle - 0.5 * width, 0.0)) ** 2, np.sin(middle + 0.5 * width) ** 2
    ratio = inner / outer
    below = -np.expm1(c * np.log(ratio))
    mean = outer * c / (c + 1) * -np.expm1((c + 1) * np.log(ratio)) / below
    return mean, c * np.log(outer) + np.log(below / c), ratio < 0.5


def _own_quantiles(cells: Cells, levels: Floats) -> list[Floats]:
    """Quantiles of the mixture over draws: bisection on the mean of their distribution functions."""
    n_cells = cells.mass.shape[-1]
    upto, change = (x.ravel() for x in _refined(np.asarray(cells.mass, dtype=np.float64)))
    first = np.arange(cells.left.size).reshape(cells.left.shape) * (n_cells + 1)
    out = []
    for level in levels:
        low, high = cells.left.min(axis=1), (cells.left + n_cells * cells.width).max(axis=1)
        for _ in range(18):
            x = 0.5 * (low + high)
            position = np.clip((x[:, None] - cells.left) / cells.width, 0, n_cells)
            j = np.minimum(position.astype(np.intp), n_cells - 1)
            below, above, u = upto[first + j], upto[first + j + 1], position - j
            bend = 0.5 * change[first - first // (n_cells + 1) + j]
            less = (below + u * (above - below - bend * (1 - u))).mean(axis=1) < level
            low, high = np.where(less, x, low), np.where(less, high, x)
        out.append(0.5 * (low + high))
    return out
