"""Where the width of an interval comes from: field rows, lab rows, or a model that cannot tell the classes apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import beta

from fieldcal.core.goodness_of_fit import histogram_covariance
from fieldcal.types import Floats

_FOREVER = 1e12  # rows that nobody will ever have
_LIMIT = 1e6  # times as many rows as there are
_NOTHING = 1e-9  # information that leaves a share of one anywhere


@dataclass(frozen=True)
class Width:
    """Variance of one class's estimated prevalence, and its three parts."""

    variance: float
    sampling: float  # what labels on the field rows themselves would leave
    separability: float  # added because predictions are not labels
    lab: float  # added because M was estimated from few lab rows


def prevalence_variance(M: Floats, p: Floats, *, n: float, rows: Floats) -> Floats:
    """Variances of the estimated prevalences (K,), from ``n`` field rows and ``rows`` lab rows per class.

    Where no histogram shows a direction of p, the variance is huge and not infinite.
    """
    keep = slice(0, M.shape[1] - 1)
    S = histogram_covariance(M, p[None], np.array([float(n)]), rows=rows)[0, keep, keep]
    B = (M[:-1] - M[-1])[:, keep]
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))  # the information is the same, the numbers are tamer
    information = (B / scale) @ np.linalg.pinv(S / np.outer(scale, scale), hermitian=True) @ (B / scale).T
    values, vectors = np.linalg.eigh(information)
    classes = np.vstack([np.eye(len(B)), np.full(len(B), -1.0)])  # the last is what the others leave
    return np.asarray((np.square(classes @ vectors) / np.maximum(values, _NOTHING)).sum(axis=1))


def width_parts(M: Floats, p: Floats, *, k: int, n: float, rows: Floats) -> Width:
    """The three parts of the variance of class ``k``."""
    total = float(prevalence_variance(M, p, n=n, rows=rows)[k])
    known_lab = float(prevalence_variance(M, p, n=n, rows=np.full(len(M), _FOREVER))[k])
    labels = float(p[k] * (1 - p[k]) / n)
    return Width(total, min(labels, total), max(known_lab - labels, 0.0), max(total - known_lab, 0.0))


def rows_to_reach(
    target: float, M: Floats, p: Floats, *, k: int, n: float, rows: Floats
) -> tuple[float | None, float | None]:
    """How many times the field rows, and how many times the lab rows, bring the variance of class ``k`` down to the
    target; None if none can.
    """

    def more_field(times: float) -> float:
        return float(prevalence_variance(M, p, n=n * times, rows=rows)[k])

    def more_lab(times: float) -> float:
        return float(prevalence_variance(M, p, n=n, rows=rows * times)[k])

    return _times(more_field, target), _times(more_lab, target)


def _times(variance: Callable[[float], float], target: float) -> float | None:
    """The factor at which a falling variance meets the target; None if it does not within `_LIMIT`."""
    if variance(_LIMIT) > target:
        return None
    if variance(1.0) <= target:
        return 1.0
    return float(np.exp(brentq(lambda c: variance(float(np.exp(c))) - target, 0.0, np.log(_LIMIT))))


def labels_to_decide(one: Floats, other: Floats, *, power: float = 0.9, most: int = 100_000) -> int | None:
    """Labelled rows, drawn at random, that tell two prevalences (K,) apart; None if no number that anyone has does.

    For the class that tells most: a one-sided test at 5 % with this power.
    """
    middle = np.clip((one + other) / 2, 1e-6, 1 - 1e-6)
    apart = float((np.square(one - other) / (middle * (1 - middle))).max())
    n = (ndtri(0.95) + ndtri(power)) ** 2 / max(apart, 1e-300)
    return int(np.ceil(max(n, 10.0))) if n <= most else None


def rows_behind(rate: float, width: float, level: float) -> float | None:
    """How many rows give a rate an interval of this width, by a Beta with Jeffreys' prior; None if none does."""
    ends = np.array([(1 - level) / 2, (1 + level) / 2])

    def surplus(log_rows: float) -> float:
        rows = np.exp(log_rows)
        low, high = beta.ppf(ends, rate * rows + 0.5, (1 - rate) * rows + 0.5)
        return float(high - low - width)

    few, many = np.log(1e-3), np.log(_FOREVER)
    if surplus(few) <= 0:
        return None
    return float(np.exp(brentq(surplus, few, many))) if surplus(many) < 0 else _FOREVER
