"""Quality of predictions and prevalences, as the paper reports it, where `sklearn.metrics` has no function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.alignment import check_alignment
from fieldcal.errors import InputError, InputTypeError
from fieldcal.options import MOST, as_array, check_whole
from fieldcal.types import Floats

__all__ = [
    "BrierParts",
    "absolute_error",
    "brier_parts",
    "calibration_error",
    "relative_absolute_error",
]


@dataclass(frozen=True)
class BrierParts:
    """The Brier score and its two parts, by deciles of the prediction, as the paper reports them."""

    score: float
    calibration: float
    refinement: float


def brier_parts(proba: ArrayLike, y: ArrayLike, *, bins: int = 10) -> BrierParts:
    """Brier score with its calibration and refinement parts, over equally filled bins of the prediction.

    Calibration is the mean squared difference between the mean prediction and the observed share in each bin;
    refinement the mean of ``share · (1 − share)``. Their sum is the score up to the spread of predictions within bins.
    Binary only.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.metrics import brier_parts
    >>> parts = brier_parts(np.repeat([0.25, 0.75], 4), [0, 0, 0, 1, 0, 1, 1, 1], bins=2)
    >>> parts.calibration, parts.refinement
    (0.0, 0.1875)
    """
    proba, codes = _checked(proba, y)
    if proba.shape[1] != 2:
        raise InputError(
            f"The parts of the Brier score are defined for two classes, but there are {proba.shape[1]}. "
            "Compute them for each class against the rest."
        )
    score, hit = proba[:, 1], codes.astype(np.float64)
    inside = _equal_bins(score, bins)
    n = np.bincount(inside)
    mean, share = np.bincount(inside, score) / n, np.bincount(inside, hit) / n
    return BrierParts(
        float(((score - hit) ** 2).mean()),
        float(np.average((mean - share) ** 2, weights=n)),
        float(np.average(share * (1 - share), weights=n)),
    )


def calibration_error(proba: ArrayLike, y: ArrayLike, *, bins: int = 10) -> float:
    """Expected calibration error: mean absolute difference of prediction and share over equally filled bins.

    Binary: for the probability of class 1. More classes: averaged over the classes, each against the rest.

    Examples
    --------
    >>> from fieldcal.metrics import calibration_error
    >>> round(calibration_error([0.9, 0.9, 0.1, 0.1], [1, 1, 0, 0], bins=2), 3)
    0.1
    """
    proba, codes = _checked(proba, y)
    classes = [1] if proba.shape[1] == 2 else range(proba.shape[1])
    errors = []
    for k in classes:
        inside = _equal_bins(proba[:, k], bins)
        n = np.bincount(inside)
        distance = np.bincount(inside, proba[:, k] - (codes == k)) / n
        errors.append(np.average(np.abs(distance), weights=n))
    return float(np.mean(errors))


def absolute_error(estimate: ArrayLike, truth: ArrayLike) -> Floats:
    """AE: mean over classes of ``|estimate − truth|``, one value per group.

    Examples
    --------
    >>> from fieldcal.metrics import absolute_error
    >>> absolute_error([[0.5, 0.5], [0.9, 0.1]], [[0.4, 0.6], [0.9, 0.1]]).round(3).tolist()
    [0.1, 0.0]
    """
    p, truth = _pair(estimate, truth)
    return np.asarray(np.abs(p - truth).mean(axis=-1))


def relative_absolute_error(estimate: ArrayLike, truth: ArrayLike, *, n: ArrayLike) -> Floats:
    """RAE: mean over classes of ``|estimate − truth| / truth``, smoothed by ``1 / (2 n)`` for rare classes.

    Examples
    --------
    >>> from fieldcal.metrics import relative_absolute_error
    >>> relative_absolute_error([0.5, 0.5], [0.4, 0.6], n=1000).round(2).tolist()
    0.21
    """
    p, truth = _pair(estimate, truth)
    rows = as_array("n", n)
    if not (rows > 0).all():
        raise InputError(f"n must be numbers of rows above 0, but got {n!r:.60}.")
    smooth = 1.0 / (2.0 * rows)[..., None]
    scale = 1.0 + smooth * p.shape[-1]
    p, truth = (p + smooth) / scale, (truth + smooth) / scale
    return np.asarray((np.abs(p - truth) / truth).mean(axis=-1))


def _checked(proba: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[np.intp]]:
    check_alignment(proba=proba, y=y)
    p = as_array("proba", proba)
    if p.ndim not in (1, 2):
        raise InputError(f"proba must have shape (n,) or (n, K), but has shape {p.shape}.")
    p = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    try:
        codes = np.asarray(y)
    except ValueError:
        raise InputTypeError(f"y must be one class code per row, but got {y!r:.60}.") from None
    if codes.shape != (len(p),):
        raise InputError(f"There are {len(p)} predictions but labels of shape {codes.shape}. Give one each.")
    if codes.dtype.kind not in "biu" or (len(codes) and (codes.min() < 0 or codes.max() >= p.shape[1])):
        raise InputError(
            f"Metrics take class codes 0 .. {p.shape[1] - 1}, but got {codes.dtype} labels. "
            "Use np.searchsorted(classes, y)."
        )
    return p, codes.astype(np.intp)


def _equal_bins(score: Floats, bins: int) -> NDArray[np.intp]:
    """Bin numbers 0, 1, … without gaps; equal scores share a bin."""
    check_whole("bins", bins, least=1, most=MOST)
    if not len(score):
        raise InputError("There are no rows to measure. Give at least one.")
    cuts = np.unique(np.quantile(score, np.arange(1, bins) / bins))
    return np.unique(np.searchsorted(cuts, score, side="left"), return_inverse=True)[1]


def _pair(estimate: ArrayLike, truth: ArrayLike) -> tuple[Floats, Floats]:
    check_alignment(estimate=estimate, truth=truth)
    p, t = as_array("estimate", estimate), as_array("truth", truth)
    if p.shape != t.shape:
        raise InputError(f"Estimate and truth must have one shape, but have {p.shape} and {t.shape}.")
    return p, t
