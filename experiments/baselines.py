"""What the paper compares with: naive, CC, ACC/BBSE, PACC, EM, and the linear system solved directly.

Every baseline has the same signature: predictions of the field, shape (n, K), then by keyword predictions of
the lab, shape (n_lab, K), and the class codes ``0 .. K − 1`` of the lab. Each returns prevalences, shape (K,).
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import nnls

from fieldcal.core.response import POOR_CONDITION, conditioning
from fieldcal.errors import IdentifiabilityWarning, InputError
from fieldcal.types import Floats, Ints

#: Where the rates of the classes are linearly dependent: the weight of the distance from the unadjusted count.
RIDGE = 1e-4


def naive(field: Floats, *, lab: Floats | None = None, y: Ints | None = None) -> Floats:
    """The mean of the predictions, the paper's naive estimator.

    For two classes and predictions that are calibrated in the lab it understates every difference from the lab, unless
    they are certain (the paper's sandwich theorem). For three classes and more that is usual and no theorem: there are
    calibrated predictions and label shifts by which it overstates the change of a class, or has its sign wrong.
    """
    return np.asarray(field.mean(axis=0))


def classify_and_count(field: Floats, *, lab: Floats | None = None, y: Ints | None = None) -> Floats:
    """CC: the share of rows whose largest prediction is the class."""
    return np.bincount(field.argmax(axis=1), minlength=field.shape[1]) / len(field)


def adjusted_count(field: Floats, *, lab: Floats, y: Ints) -> Floats:
    """ACC (Gart and Buck; Forman), also known as BBSE with hard predictions.

    For two classes (counted − false positive rate) / (true positive rate − false positive rate), clipped to [0, 1]; for
    more, the prevalences whose confusion matrix fits the counted classes best, in least squares on the simplex, which
    is the same for two. Where the lab's rates are linearly dependent (say a class that is never predicted) there is
    nothing to adjust with: what they leave open stays as it was counted, with an `IdentifiabilityWarning`.

    References
    ----------
    Rogan, W. and Gladen, B. (1978). Estimating prevalence from the results of a screening test. Am. J. Epidemiol. 107.
    Forman, G. (2008). Quantifying counts and costs via classification. Data Min. Knowl. Discov. 17.
    Lipton, Z., Wang, Y.-X. and Smola, A. (2018). Detecting and correcting for label shift. ICML.
    """
    hard = np.eye(field.shape[1])
    return fit_simplex(class_means(hard[lab.argmax(axis=1)], y), classify_and_count(field))


def adjusted_mean(field: Floats, *, lab: Floats, y: Ints) -> Floats:
    """PACC (Bella et al.), also known as BBSE with soft predictions: ACC on mean predictions."""
    return fit_simplex(class_means(lab, y), naive(field))


def em(field: Floats, *, lab: Floats, y: Ints, tolerance: float = 1e-10, max_iter: int = 10_000) -> Floats:
    """Expectation maximisation (Peters and Coberly; Saerens et al.), started at the lab's prevalences.

    It trusts the predictions to be calibrated probabilities, row by row, and needs no bins.

    References
    ----------
    Saerens, M., Latinne, P. and Decaestecker, C. (2002). Adjusting the outputs of a classifier to new a priori
    probabilities. Neural Comput. 14.
    """
    p = p_lab = _rows_per_class(y, field.shape[1]) / len(y)
    for _ in range(max_iter):
        posterior = field * (p / p_lab)
        following = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(following - p).max() < tolerance:
            return np.asarray(following)
        p = following
    return np.asarray(p)


def linear_system(v: Floats, *, M: Floats) -> Floats:
    """Solve ``p @ M = v`` directly (the paper's first lemma), without the constraint to probabilities.

    With more bins than classes, in least squares. The answer may leave [0, 1]: that is why URC minimises a
    likelihood instead. Warns where ``M`` is badly conditioned.
    """
    quality = conditioning(M)
    if not quality.condition_number < POOR_CONDITION:
        warnings.warn(
            f"The linear system p @ M = v has condition number {quality.condition_number:.3g}: small changes "
            "of the histogram move the answer by that factor. Use estimate(…), which has a prior.",
            IdentifiabilityWarning,
            stacklevel=2,
        )
    return np.asarray(np.linalg.lstsq(M.T, v, rcond=None)[0])


def class_means(values: Floats, y: Ints) -> Floats:
    """The mean of each column given the class, for values with one column per class: shape (K, K)."""
    sums = np.zeros((values.shape[1], values.shape[1]))
    np.add.at(sums, y, values)
    return sums / _rows_per_class(y, values.shape[1])[:, None]


def _rows_per_class(y: Ints, n_classes: int) -> Ints:
    rows = np.bincount(y, minlength=n_classes)
    if not rows.all():
        raise InputError(
            f"The lab has no row of class number {int(rows.argmin())}: there is nothing to adjust with. Add rows "
            "of it, or leave the class out of the predictions."
        )
    return rows


def fit_simplex(M: Floats, v: Floats) -> Floats:
    """Least squares ``p @ M ≈ v`` over prevalences, non-negative and summing to one; ``M`` is (K, K).

    As ``p`` sums to one, ``p @ M − v`` is ``p @ (M − v)``: the point of least norm between the rows of ``M − v``.
    That problem is homogeneous, so any weight of the sum gives the same ``p`` once it is normalised.

    Where ``M`` is singular, many ``p`` fit equally well. There a tiny ridge takes the nearest one to ``v`` itself, the
    count without an adjustment (Forman's advice), and it warns. For two classes that is ``v``.
    """
    K = len(M)
    rows = [(M - v).T, np.ones((1, K))]
    rank = conditioning(M).rank
    if rank < K:
        warnings.warn(
            f"The rates at which the {K} classes are predicted in the lab are linearly dependent (rank {rank}): the "
            "count cannot be adjusted in every direction, and is left as it is where it cannot. Use estimate(…), "
            "which takes the predictions and not only the classes, or a lab in which every class is predicted.",
            IdentifiabilityWarning,
            stacklevel=3,
        )
        rows.insert(0, RIDGE * (np.eye(K) - v).T)
    system = np.vstack(rows)
    p, _ = nnls(system, np.eye(len(system))[-1])
    return np.asarray(p / p.sum())
