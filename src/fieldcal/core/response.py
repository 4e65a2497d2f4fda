"""F and M: how predictions are distributed given the class.

``F`` holds the lab's counts and is what gets stored; ``M`` is derived from it, smoothed so that no cell is
zero. The rank and conditioning of ``M`` say how well the bins tell the classes apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv

from fieldcal.types import Floats, Ints

#: Singular values below this share of the largest count as zero.
RANK_TOLERANCE = 1e-9
#: Condition numbers above this deserve a warning: the estimate is then mostly prior.
POOR_CONDITION = 1e3


def response_counts(
    bins: Ints, y: Ints, *, n_classes: int, n_bins: int, weight: Floats | None = None
) -> NDArray[np.float64] | NDArray[np.int64]:
    """F: rows per class and bin, shape (K, m); integers unless weighted."""
    return count_cells(y, bins, shape=(n_classes, n_bins), weight=weight)


def count_cells(
    row: Ints, column: Ints, *, shape: tuple[int, int], weight: Floats | None = None
) -> NDArray[np.float64] | NDArray[np.int64]:
    """A table of counts (or weights) from row and column numbers; weighted sums that are whole stay whole."""
    cells = np.bincount(row * shape[1] + column, weights=weight, minlength=shape[0] * shape[1])
    return whole(cells.reshape(shape))


def whole(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64] | NDArray[np.int64]:
    """As integers where that loses nothing."""
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    if np.all(values == np.floor(values)) and np.all(np.abs(values) < 2.0**53):
        return values.astype(np.int64)
    return values


def square_sums(
    row: Ints, *, size: int, weight: Floats | None = None
) -> NDArray[np.float64] | NDArray[np.int64]:
    """Sums of squared weights, (size,), from row numbers; the number of rows where they have none."""
    return count_cells(row, np.zeros_like(row), shape=(size, 1), weight=_squared(weight))[:, 0]


def _squared(weight: Floats | None) -> Floats | None:
    return None if weight is None else np.square(weight)


def row_per_weight(weights: ArrayLike, squares: ArrayLike) -> Floats:
    """How many rows of equal weight a weight of 1 stands for: ``Σ w / Σ w²``, exactly 1 where all weights are 1.

    A sum of weights times this is Kish's effective sample size.

    References
    ----------
    Kish, L. (1965). Survey Sampling. Wiley.
    """
    given = np.asarray(squares, dtype=np.float64)
    return np.asarray(np.divide(weights, given, out=np.ones(given.shape), where=given > 0))


def rows_worth(V: Floats, squares: Floats, M: Floats, p: Floats) -> Floats:
    """How many rows of equal weight say as much about the prevalences as histograms V (G, m) of weighted rows, (G,).

    Kish's effective sample size in the direction that matters: what a class adds to the log likelihood of a bin is
    ``a = M_k / (p @ M)``, and the variance of its mean is ``Σ a² · squares``, a centred. Of several classes the one
    that is known least.

    Parameters
    ----------
    squares : (G, m) sums of the squared weights
    M : (K, m)
    p : (K,) where it is asked
    """
    n = V.sum(axis=1)
    a = M / np.maximum(p @ M, 1e-300)  # K, m
    centred = np.square(a[None] - (V @ a.T / np.maximum(n, 1e-300)[:, None])[:, :, None])  # G, K, m
    seen, noise = (np.einsum("gkj,gj->gk", centred, counts) for counts in (V, squares))
    total = squares.sum(axis=1)[:, None]
    kish = np.broadcast_to(row_per_weight(n, total[:, 0])[:, None], seen.shape)
    ratio = np.divide(seen, noise, out=kish.copy(), where=noise > 1e-12 * total)
    return np.asarray(n * ratio.min(axis=1))


def in_class_rows(F: NDArray[Any], rows: Floats) -> Floats:
    """F with so many rows of each class, (K,), spread over the bins as they were; F itself where it has them."""
    return np.asarray(F * (rows / F.sum(axis=1))[:, None])


def equal_rows(weight: Floats | None) -> Floats | None:
    """Weights scaled to sum up to the effective sample size; those that are all equal become exactly 1."""
    if weight is None:
        return None
    used = weight[weight > 0]
    if not len(used) or (used == used[0]).all():
        return (weight > 0).astype(np.float64)
    return np.asarray(weight * row_per_weight(used.sum(), np.square(used).sum()))


def auto_smoothing(F: NDArray[np.float64] | NDArray[np.int64]) -> float:
    """Pseudo-rows per class: half a row per cell (Jeffreys) for two classes, one row in all for more."""
    return 0.5 * F.shape[1] if len(F) == 2 else 1.0


def smoothing_cells(F: NDArray[np.float64] | NDArray[np.int64], smoothing: float) -> Floats:
    """The pseudo-counts added to F: ``smoothing`` rows per class, spread like the pooled lab histogram.

    Half of them are spread evenly, so that a bin that the whole lab left empty is possible too.
    """
    pooled = F.sum(axis=0) / F.sum()
    spread = 0.5 * pooled + 0.5 / F.shape[1]
    return np.broadcast_to(smoothing * spread, F.shape).astype(np.float64)


def response_matrix(F: NDArray[np.float64] | NDArray[np.int64], *, smoothing: float) -> Floats:
    """M: each row of the (smoothed) counts as probabilities."""
    counts = F + smoothing_cells(F, smoothing)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Conditioning:
    """How well the bins tell the classes apart."""

    rank: int
    condition_number: float
    smallest_singular_value: float

    @property
    def full_rank(self) -> bool:
        """Whether every mixture of classes gives its own histogram."""
        return bool(np.isfinite(self.condition_number))


def conditioning(M: Floats) -> Conditioning:
    """Rank, condition number and smallest singular value of M."""
    s = np.linalg.svd(M, compute_uv=False)
    rank = int((s > RANK_TOLERANCE * s[0]).sum())
    smallest = float(s[-1]) if M.shape[1] >= M.shape[0] else 0.0
    full = rank == M.shape[0]
    return Conditioning(rank, float(s[0] / smallest) if full else float("inf"), smallest)


def confusable_classes(M: Floats, *, tolerance: float = 1e-6) -> list[tuple[int, int]]:
    """Pairs of classes with (almost) equal rows of M: no histogram can tell them apart."""
    apart = [np.abs(M[k + 1 :] - row).sum(axis=1) for k, row in enumerate(M)]
    return [(k, k + 1 + j) for k, row in enumerate(apart) for j in np.flatnonzero(row <= tolerance).tolist()]


def response_draws(A: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draws of M, (S, K, m), with rows Dirichlet(A_k), that never see the field ("cut").

    References
    ----------
    Plummer, M. (2015). Cuts in Bayesian graphical models. Stat. Comput. 25.
    """
    u = _even_points(A.size, n_draws, rng).reshape(n_draws, *A.shape)
    g = np.maximum(gammaincinv(np.maximum(A, 1e-3), np.clip(u, 1e-12, 1 - 1e-12)), 1e-300)
    return np.asarray(g / g.sum(axis=2, keepdims=True))


def _even_points(dimension: int, size: int, rng: np.random.Generator) -> Floats:
    """Points in the unit cube, (size, dimension): a scrambled Sobol set, so that few of them go far."""
    from scipy.stats import qmc  # half of the time that it takes to load fieldcal

    if dimension > qmc.Sobol.MAXDIM:
        return rng.random((size, dimension))
    power = 1 << int(np.ceil(np.log2(max(size, 2))))
    points = qmc.Sobol(dimension, scramble=True, seed=rng).random(power)
    return np.asarray(points[rng.permutation(power)[:size]])


def rake(tables: Floats, *, rows: Floats, columns: Floats, max_iter: int = 200) -> Floats:
    """Tables (D, K, m) scaled by rows and columns in turns until they have these sums, (D, K) and (m,).

    References
    ----------
    Deming, W. and Stephan, F. (1940). On a least squares adjustment of a sampled frequency table. Ann. Math. Stat. 11.
    """
    tables = np.maximum(tables, 1e-12)
    for _ in range(max_iter):
        tables = tables * (columns / np.maximum(tables.sum(axis=1), 1e-300))[:, None, :]
        ratio = rows / np.maximum(tables.sum(axis=2), 1e-300)
        tables = tables * ratio[:, :, None]
        if np.abs(ratio - 1).max() < 1e-6:
            break
    return np.asarray(tables)
