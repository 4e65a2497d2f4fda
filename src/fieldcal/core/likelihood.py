"""L_nll: the negative log-likelihood of field histograms, its gradient and its information; written here alone.

Up to the multinomial coefficient, which does not depend on ``p``, ``L_nll(p) = −Σ_j V_j log (p @ M)_j``. It is
convex: a sum of negative logarithms of functions linear in ``p``, with non-negative weights.

``p`` is (G, K) with ``M`` (K, m), or (S, G, K) with draws ``M`` (S, K, m); ``V`` is (G, m) either way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from fieldcal.types import Floats

_TINY = 1e-300


def nll(p: Floats, M: Floats, V: Floats) -> Floats:
    """L_nll without the multinomial coefficient, one value per group.

    A bin that is impossible under ``M`` (a column of zeros) carries no information on ``p`` and is left out;
    `novel` counts what falls there.
    """
    return np.asarray(-np.sum(xlogy(np.where(_possible(M), V, 0.0), p @ M), axis=-1))


def log_likelihood(p: Floats, M: Floats, V: Floats) -> Floats:
    """−L_nll, finite everywhere: what cannot be is as improbable as numbers can say."""
    return np.asarray((V * np.log(np.maximum(p @ M, _TINY))).sum(axis=-1))


def log_coefficient(V: Floats) -> Floats:
    """Logarithm of the multinomial coefficient.

    Differs from the paper: it is taken over the sample size, ``n! / Π V_j!``.
    """
    return np.asarray(gammaln(V.sum(axis=-1) + 1) - gammaln(V + 1).sum(axis=-1))


def gradient(p: Floats, M: Floats, V: Floats) -> Floats:
    """Gradient of L_nll with respect to ``p``, shape of ``p``."""
    return -_ratio(V, p @ M) @ M.swapaxes(-1, -2)


def expected_rows(p: Floats, M: Floats, V: Floats) -> Floats:
    """Field rows of each class, given the bins they are in: the E step of EM (Dempster, Laird and Rubin 1977)."""
    return np.asarray(p * ((V / np.maximum(p @ M, _TINY)) @ M.swapaxes(-1, -2)))


def information(p: Floats, M: Floats, V: Floats) -> Floats:
    """Observed information (the Hessian of L_nll) on ``p``, shape (..., K, K)."""
    if M.ndim > 2:  # one draw at a time: what stands between is too large to hold for all of them
        return np.stack([information(own, one, V) for own, one in zip(p, M, strict=True)])
    return weighted_products(M, _ratio(V, np.square(p @ M)))


def weighted_products(M: Floats, weight: Floats) -> Floats:
    """``Σ_j w_j M_ij M_kj`` for every row of weights (..., m), shape (..., K, K)."""
    K = len(M)
    if len(weight) < K:  # a matrix for each group is smaller than all pairs of classes, which groups share
        root = M * np.sqrt(weight)[..., None, :]
        return np.asarray(root @ root.swapaxes(-1, -2))
    pairs = (M[:, None] * M[None]).reshape(K * K, -1)
    return np.asarray((weight @ pairs.T).reshape(*weight.shape[:-1], K, K))


def novel(M: Floats, V: Floats) -> Floats:
    """Field rows per group in bins that the lab makes impossible."""
    return np.asarray(np.where(_possible(M), 0.0, V).sum(axis=-1))


def _possible(M: Floats) -> NDArray[np.bool_]:
    return np.asarray(M.max(axis=-2) > 0)


def _ratio(V: Floats, q: Floats) -> Floats:
    """V / q where there are rows, 0 elsewhere and where the bin is impossible."""
    return np.divide(V, q, out=np.zeros(np.broadcast_shapes(V.shape, q.shape)), where=(V > 0) & (q > 0))
