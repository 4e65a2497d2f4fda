"""L_nll: the negative log-likelihood of field histograms, its gradient and its information.

Up to the multinomial coefficient, which does not depend on ``p``, ``L_nll(p) = −Σ_j V_j log (p @ M)_j``. It is
convex: a sum of negative logarithms of functions linear in ``p``, with non-negative weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from fieldcal.types import Floats

_LABEL_FLOOR = 1e-12  # keeps the logarithm of an impossible label finite


def nll(p: Floats, M: Floats, V: Floats) -> Floats:
    """L_nll without the multinomial coefficient, one value per group.

    A bin that is impossible under ``M`` (a column of zeros) carries no information on ``p`` and is left out;
    `novel` counts what falls there.
    """
    return np.asarray(-np.sum(xlogy(np.where(_possible(M), V, 0.0), p @ M), axis=-1))


def log_coefficient(V: Floats) -> Floats:
    """Logarithm of the multinomial coefficient.

    Differs from the paper: it is taken over the sample size, ``n! / Π V_j!``.
    """
    return np.asarray(gammaln(V.sum(axis=-1) + 1) - gammaln(V + 1).sum(axis=-1))


def gradient(p: Floats, M: Floats, V: Floats) -> Floats:
    """Gradient of L_nll with respect to ``p``, shape of ``p``."""
    return -_ratio(V, p @ M) @ M.T


def information(p: Floats, M: Floats, V: Floats) -> Floats:
    """Observed information (the Hessian of L_nll) on ``p``, shape (G, K, K)."""
    q = p @ M
    weight = _ratio(V, q * q)
    return np.asarray(np.einsum("ij,gj,kj->gik", M, weight, M, optimize=True))


def novel(M: Floats, V: Floats) -> Floats:
    """Field rows per group in bins that the lab makes impossible."""
    return np.asarray(np.where(_possible(M), 0.0, V).sum(axis=-1))


def with_labels(M: Floats, V: Floats, labelled: Floats | None) -> tuple[Floats, Floats]:
    """Append one bin per class for field rows whose label is known: the likelihood of a label is ``p_i``.

    Parameters
    ----------
    M : (S, K, m) draws of the response matrix
    V : (G, m) field counts
    labelled : (G, K) labelled field rows, or None
    """
    if labelled is None:
        return M, V
    S, K, _ = M.shape
    sure = np.broadcast_to(np.maximum(np.eye(K), _LABEL_FLOOR), (S, K, K))
    return np.concatenate([M, sure], axis=2), np.concatenate([V, labelled], axis=1)


def _possible(M: Floats) -> NDArray[np.bool_]:
    return np.asarray(M.max(axis=0) > 0)


def _ratio(V: Floats, q: Floats) -> Floats:
    """V / q where there are rows, 0 elsewhere and where the bin is impossible."""
    return np.divide(V, q, out=np.zeros(np.broadcast_shapes(V.shape, q.shape)), where=(V > 0) & (q > 0))
