"""Two classes, narrow posteriors away from the ends: a normal with the next three terms, per draw of ``M``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fieldcal.core.binary import HALF_PI, BetaPrior, Floats, Rows, blocks, derivatives, first_modes, interval

#: The expansion needs this many scales to either end, and third and fourth derivatives below these.
CLEAR, SKEW, KURTOSIS = 12.0, 0.15, 0.1
_TINY = 1e-300
_CELLS = 1_000_000  # floats per work array


@dataclass(frozen=True)
class Expansion:
    """Cumulants of θ for every group and draw, (B, S), from the derivatives at the mode."""

    mean: Floats
    sd: Floats
    skew: Floats
    kurtosis: Floats
    good: NDArray[np.bool_]  # (B,) the expansion holds in every draw

    def take(self, rows: NDArray[np.bool_]) -> Expansion:
        """Some of the groups."""
        return Expansion(
            self.mean[rows], self.sd[rows], self.skew[rows], self.kurtosis[rows], self.good[rows]
        )

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of p over all draws, (B,)."""
        s, c = np.sin(2 * self.mean), np.cos(2 * self.mean)
        third = self.skew * self.sd**3
        mean = np.sin(self.mean) ** 2 + c * self.sd**2 - 2 / 3 * s * third
        variance = (s * self.sd) ** 2 + 2 * s * c * third + 2 * c**2 * self.sd**4
        return mean.mean(axis=1), np.sqrt(mean.var(axis=1) + variance.mean(axis=1))

    def points(self, z: Floats) -> Floats:
        """Cornish–Fisher: θ at the normal quantiles z (S, T), sorted over all draws, (B, S * T)."""
        h2, h3, h33 = (z**2 - 1) / 6, (z**3 - 3 * z) / 24, (2 * z**3 - 5 * z) / 36
        x = z + self.skew[..., None] * h2
        x += self.kurtosis[..., None] * h3
        x -= (self.skew**2)[..., None] * h33
        x *= self.sd[..., None]
        x += self.mean[..., None]
        x = x.reshape(len(x), -1)
        x.sort(axis=1)
        return np.asarray(x)

    def distribution(self, x: Floats) -> tuple[Floats, Floats]:
        """Distribution function and density of the mixture at θ = x, each (B,): Cornish–Fisher the other way."""
        y = np.clip((x[:, None] - self.mean) / self.sd, -6, 6)
        y2 = y * y
        z = y - self.skew * (y2 - 1) / 6 - self.kurtosis / 24 * y * (y2 - 3)
        z += self.skew**2 / 36 * y * (4 * y2 - 7)
        density = np.exp(-0.5 * z * z) / (np.sqrt(2 * np.pi) * self.sd)
        return ndtr(z).mean(axis=1), density.mean(axis=1)


def expand(M: Floats, V: Floats, prior: BetaPrior) -> Expansion:
    """Expand the log density of θ at its mode, to the fourth order."""
    p = np.repeat(first_modes(M, V, prior)[:, None], len(M), axis=1)
    for _ in range(3):  # where that is not enough, the slope below tells
        f1, f2 = derivatives(p, M[None], V[:, None], prior, order=2)
        p = np.clip(p - f1 / np.minimum(f2, -1.0), 0.2 * p, 0.8 + 0.2 * p)
    theta = np.arcsin(np.sqrt(p))
    f1, f2, f3, f4 = derivatives(p, M[None], V[:, None], prior, order=4)
    s, c = np.sin(2 * theta), np.cos(2 * theta)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        d1 = f1 * s
        d2 = f2 * s**2 + 2 * f1 * c
        d3 = f3 * s**3 + 6 * f2 * s * c - 4 * f1 * s
        d4 = f4 * s**4 + 12 * f3 * s**2 * c + f2 * (12 * c**2 - 16 * s**2) - 8 * f1 * c
        scale = np.where(d2 < 0, 1 / np.sqrt(np.maximum(-d2, _TINY)), np.inf)
        g1, g3, g4 = d1 * scale, d3 * scale**3, d4 * scale**4
        clear = np.minimum(theta, HALF_PI - theta) > CLEAR * scale
        good = clear & (np.abs(g1) < 0.05) & (np.abs(g3) < SKEW) & (np.abs(g4) < KURTOSIS)
        sd = scale * np.sqrt(np.maximum(1 + g4 / 2 + g3**2, 0.1))
        mean = theta + scale * (g1 + 0.5 * g3 * (1 + g1**2))
        return Expansion(mean, sd, g3, g4 + 3 * g3**2, np.asarray(good.all(axis=1)))


def expanded(M: Floats, V: Floats, prior: BetaPrior, rows: Rows, level: float, out: Floats) -> Rows:
    """Answer what the expansion can, and return the rest."""
    z = _staggered(len(M), level)
    rest = []
    for block in blocks(rows, min(_CELLS // z.size, 16_000 // len(M))):
        found = expand(M, V[block], prior)
        good = found.good
        rest.append(block[~good])
        if good.any():
            found = found.take(good)
            ends = interval(partial(_mixed_quantiles, found, found.points(z)), level)
            out[:, block[good]] = *found.moments(), *ends
    return np.concatenate(rest)


def _staggered(n_draws: int, level: float) -> Floats:
    """Normal quantiles (S, T), a different comb for every draw: S·T even steps where all draws agree."""
    wanted = np.clip(25 / max(1 - level, 1e-6), 512, 16_384)
    T = int(np.ceil(wanted / n_draws))
    shift = (np.random.default_rng(0).permutation(n_draws) + 0.5) / n_draws
    return np.asarray(ndtri((np.arange(T) + shift[:, None]) / T))


def _mixed_quantiles(found: Expansion, points: Floats, levels: Floats) -> list[Floats]:
    """Quantiles of the mixture: from its sorted points (B, N), then one Newton step on its distribution function."""
    N = points.shape[1]
    near = N // 100 + 2
    out = []
    for level in levels:
        position = float(np.clip(level * N - 0.5, 0, N - 1))
        j = min(int(position), N - 2)
        x = points[:, j] + (position - j) * (points[:, j + 1] - points[:, j])
        upto, density = found.distribution(x)
        step = (level - upto) / np.maximum(density, _TINY)
        out.append(np.clip(x + step, points[:, max(j - near, 0)], points[:, min(j + near, N - 1)]))
    return out
