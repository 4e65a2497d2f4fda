"""Where the width of an interval comes from: field rows, lab rows, or a model that cannot tell the classes apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from fieldcal.core.checks import histogram_covariance

Floats = NDArray[np.float64]

_FOREVER = 1e12  # rows that nobody will ever have


@dataclass(frozen=True)
class Width:
    """Variance of one class's estimated prevalence, and its three parts."""

    variance: float
    sampling: float  # what labels on the field rows themselves would leave
    separability: float  # added because predictions are not labels
    lab: float  # added because M was estimated from few lab rows


def prevalence_variance(M: Floats, p: Floats, *, n: float, rows: Floats) -> Floats:
    """Variances of the estimated prevalences (K,), from ``n`` field rows and ``rows`` lab rows per class."""
    keep = slice(0, M.shape[1] - 1)
    S = histogram_covariance(M, p[None], np.array([float(n)]), rows=rows)[0, keep, keep]
    B = (M[:-1] - M[-1])[:, keep]
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))  # the information is the same, the numbers are tamer
    information = (B / scale) @ np.linalg.pinv(S / np.outer(scale, scale), hermitian=True) @ (B / scale).T
    covariance = np.linalg.pinv(information, hermitian=True)
    return np.append(np.diag(covariance), covariance.sum())


def width_parts(M: Floats, p: Floats, *, k: int, n: float, rows: Floats) -> Width:
    """The three parts of the variance of class ``k``."""
    total = float(prevalence_variance(M, p, n=n, rows=rows)[k])
    known_lab = float(prevalence_variance(M, p, n=n, rows=np.full(len(M), _FOREVER))[k])
    labels = float(p[k] * (1 - p[k]) / n)
    return Width(total, min(labels, total), max(known_lab - labels, 0.0), max(total - known_lab, 0.0))


def rows_to_halve(
    M: Floats, p: Floats, *, k: int, n: float, rows: Floats
) -> tuple[float | None, float | None]:
    """How many times the field rows, and how many times the lab rows, halve the width; None if none can."""
    target = float(prevalence_variance(M, p, n=n, rows=rows)[k]) / 4

    def surplus(field: float, lab: float) -> float:
        return float(prevalence_variance(M, p, n=n * field, rows=rows * lab)[k]) - target

    limit = 1e6
    more_field = (
        None
        if surplus(limit, 1.0) > 0
        else brentq(lambda c: surplus(float(np.exp(c)), 1.0), 0.0, np.log(limit))
    )
    more_lab = (
        None
        if surplus(1.0, limit) > 0
        else brentq(lambda c: surplus(1.0, float(np.exp(c))), 0.0, np.log(limit))
    )
    return tuple(None if c is None else float(np.exp(c)) for c in (more_field, more_lab))  # type: ignore[return-value]
