"""Two classes, one population: the posterior mean with M integrated out.

Averaging over draws of M, as intervals do, attenuates the point: a noisy M looks as if it told the classes apart better
than it does, once through the lab's own noise and once more through that of the draws. Integrating M out instead
lets the likelihood know that a prevalence with few lab rows behind it predicts the histogram less sharply. With M
``Dirichlet(A)`` the histogram is, to two moments and exactly where the classes look alike, Dirichlet-multinomial
around ``p @ M`` with the concentration ``1 / Σ_k p_k² / (rows_k + 1) − 1``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

Floats = NDArray[np.float64]

#: Rows beyond which a field says no more: sums of log gammas of larger counts lose their digits.
MOST_ROWS = 1e9

_NODES = 200
_ZOOMS = 6
_DEEP = 40.0  # natural logs below the top at which a density is over
_HALF_PI = np.pi / 2


def marginal_mean(A: Floats, v: Floats, alpha: Floats) -> float:
    """Posterior mean of the second class's prevalence.

    Parameters
    ----------
    A : (2, m) lab counts plus smoothing
    v : (m + L,) field counts; further columns are labels, one per class
    alpha : (S, 2) Dirichlet parameters; the mean is over them
    """
    kinds, times = np.unique(alpha, axis=0, return_counts=True)
    means = [_mean(A, v, a) for a in kinds]
    return float(times @ means / times.sum())


def log_likelihood(A: Floats, v: Floats, p: Floats) -> Floats:
    """Log likelihood, but for a constant, of each prevalence p (T,) of the second class."""
    m = A.shape[1]
    rows = A.sum(axis=1)
    both = np.stack([1 - p, p], axis=1)
    concentration = 1 / (both**2 / (rows + 1)).sum(axis=1) - 1
    a = concentration[:, None] * (both @ (A / rows[:, None]))
    counts, labels = v[:m] * min(1.0, MOST_ROWS / max(float(v[:m].sum()), 1.0)), v[m:]
    seen = counts > 0
    fit = (gammaln(a[:, seen] + counts[seen]) - gammaln(a[:, seen])).sum(axis=1)
    found = gammaln(concentration) - gammaln(concentration + counts.sum()) + fit
    return np.asarray(found + (xlogy(labels, both).sum(axis=1) if len(labels) else 0.0))


def _mean(A: Floats, v: Floats, alpha: Floats) -> float:
    """By sums over nodes that are even in θ, p = sin² θ; a grid that turns out too coarse is drawn anew, narrower."""
    low, high = 0.0, _HALF_PI
    for _ in range(_ZOOMS):
        edges = np.linspace(low, high, _NODES + 1)
        theta = 0.5 * (edges[1:] + edges[:-1])
        sine, cosine = np.sin(theta), np.cos(theta)
        log_density = log_likelihood(A, v, sine**2)
        log_density += (2 * alpha[1] - 1) * np.log(sine) + (2 * alpha[0] - 1) * np.log(cosine)
        inside = np.flatnonzero(log_density > log_density.max() - _DEEP)
        if len(inside) > _NODES // 4:
            break
        low, high = edges[max(inside[0] - 1, 0)], edges[min(inside[-1] + 2, _NODES)]
    weight = np.exp(log_density - log_density.max())
    return float(weight @ sine**2 / weight.sum())
