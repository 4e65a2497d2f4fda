"""Two classes, one population: the posterior mean with the noise of M in the likelihood.

Averaging over draws of M, as intervals do, attenuates the point: a noisy M looks as if it separated the classes better
than it does, once through the lab's own noise and once more through that of the draws. Here M is its estimate, and
what is not known of it makes the histogram Dirichlet-multinomial around ``p @ M`` instead of multinomial, with the
concentration ``1 / Σ_k p_k² / (rows_k + 1) − 1``: as much wider as M's noise makes it, where the classes look alike.
A prevalence with few lab rows behind it predicts the histogram less sharply, and the likelihood knows.

A misfit must not pass for that noise: it would drive p to the class with the fewest lab rows, as if the field had bent
M. So what a histogram has of it beyond what noise explains is taken out first (`clipped_to_noise`).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from fieldcal.types import Floats

#: Rows beyond which a field or a lab says no more: sums of log gammas of larger counts lose their digits.
MOST_ROWS = 1e9

HALF_PI = np.pi / 2

_JEFFREYS = np.array([0.5, 0.5])
_PASSES = 3
_NODES = 200
_ZOOMS = 6
_DEEP = 40.0  # natural logs below the top at which a density is over


def dispersed_mean(A: Floats, v: Floats, alpha: Floats, *, p_lab: Floats) -> float:
    """Posterior mean of the second class's prevalence.

    Parameters
    ----------
    A : (2, m) lab counts plus smoothing
    v : (m,) field counts; bins that A rules out say nothing
    alpha : (S, 2) Dirichlet parameters; the mean is over them
    p_lab : (2,) prevalences in the lab, where the search for the first estimate starts
    """
    counts = np.where(A.max(axis=0) > 0, v, 0.0)
    counts *= min(1.0, MOST_ROWS / max(float(counts.sum()), 1.0))
    p = float(p_lab[1])
    for _ in range(_PASSES):
        p = _mean(A, counts, _JEFFREYS, at=concentration(A, np.array([p])))
    counts = clipped_to_noise(A, counts, p)
    kinds, times = np.unique(alpha, axis=0, return_counts=True)
    return float(times @ [_mean(A, counts, a) for a in kinds] / times.sum())


def concentration(A: Floats, p: Floats) -> Floats:
    """Rows that a histogram is worth at most at each prevalence p (T,), because M is known from so few."""
    rows = A.sum(axis=1) + 1
    return np.asarray(np.minimum(1 / ((1 - p) ** 2 / rows[0] + p**2 / rows[1]) - 1, MOST_ROWS))


def clipped_to_noise(A: Floats, counts: Floats, p: float) -> Floats:
    """The histogram, no farther from the mixture p than noise alone would bring it."""
    n, df = float(counts.sum()), np.count_nonzero(A.max(axis=0) > 0) - 2
    if n <= 0 or df < 1:
        return counts
    M = A / A.sum(axis=1, keepdims=True)
    q = np.maximum((1 - p) * M[0] + p * M[1], 1e-300)
    distance = float((np.square(counts / n - q) / q).sum())
    noise = df * (1 / n + 1 / float(concentration(A, np.array([p]))[0]))
    return np.asarray(counts if distance <= noise else n * (q + np.sqrt(noise / distance) * (counts / n - q)))


def log_likelihood(A: Floats, v: Floats, p: Floats, at: Floats | None = None) -> Floats:
    """Log likelihood, but for a constant, of each prevalence p (T,); ``at`` fixes the concentration for all of them."""
    both, c = np.stack([1 - p, p], axis=1), concentration(A, p) if at is None else at
    seen = v > 0
    a = np.maximum(c[:, None] * (both @ (A / A.sum(axis=1, keepdims=True)))[:, seen], 1e-300)
    return np.asarray(gammaln(c) - gammaln(c + v.sum()) + (gammaln(a + v[seen]) - gammaln(a)).sum(axis=1))


def _mean(A: Floats, v: Floats, alpha: Floats, *, at: Floats | None = None) -> float:
    """By sums over nodes that are even in θ, p = sin² θ; a grid that turns out too coarse is drawn anew, narrower."""
    low, high = 0.0, HALF_PI
    for _ in range(_ZOOMS):
        edges = np.linspace(low, high, _NODES + 1)
        theta = 0.5 * (edges[1:] + edges[:-1])
        sine, cosine = np.sin(theta), np.cos(theta)
        log_density = log_likelihood(A, v, sine**2, at)
        log_density += (2 * alpha[1] - 1) * np.log(sine) + (2 * alpha[0] - 1) * np.log(cosine)
        log_density[0] += _pole(alpha[1]) if low == 0 else 0.0
        log_density[-1] += _pole(alpha[0]) if high == HALF_PI else 0.0
        inside = np.flatnonzero(log_density > log_density.max() - _DEEP)
        if len(inside) > _NODES // 4:
            break
        low, high = edges[max(inside[0] - 1, 0)], edges[min(inside[-1] + 2, _NODES)]
    weight = np.exp(log_density - log_density.max())
    return float(weight @ sine**2 / weight.sum())


def _pole(a: float) -> float:
    """Log of what a cell at an end holds of ``θ^(2a − 1)``, next to its width times the density in its middle."""
    return float((2 * a - 1) * np.log(2) - np.log(2 * a)) if a < 0.5 else 0.0
