"""Tables of the plots that compare predictions with labels: reliability, PIT and coverage."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.alignment import check_alignment
from fieldcal.core.partition import as_columns, cut, quantile_cuts
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Lab
from fieldcal.objects.outcome import place_of_class
from fieldcal.options import as_array, check_kind
from fieldcal.plots.style import Table, numbers, short_names
from fieldcal.types import Floats

#: Central intervals whose coverage is drawn.
NOMINAL = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


_PIT_BARS = 10


def reliability(lab: Lab, *, of: Hashable = None) -> Table:
    """Mean prediction and share of a class per bin of the lab; by default the second of two, or the largest."""
    check_kind("lab", lab, Lab)
    if not lab.partition.takes_probabilities:
        given = "values" if lab.of_values else "bin ids"
        raise InputError(
            f"This lab was learnt from {given}, so there are no predictions to compare with the labels. "
            "Learn it from probabilities to see how reliable they are."
        )
    k = _class_at(lab.classes, of, lab.p_lab)
    n = lab.F.sum(axis=0).astype(np.float64)
    series = _series("lab", lab.bin_means[:, k] * n, lab.F[k].astype(np.float64), n)
    return {"class": short_names(lab.classes)[k], "series": [series]}


def reliability_of(
    before: ArrayLike,
    after: ArrayLike,
    y: ArrayLike,
    *,
    classes: Sequence[Hashable],
    of: Hashable = None,
    bins: int = 10,
) -> Table:
    """Mean prediction and share of a class among labelled rows, before and after, in bins of equal size.

    By default for the second of two classes, or the one whose predictions changed most.
    """
    check_alignment(before=before, after=after, y=y)
    if not isinstance(classes, (list, tuple, np.ndarray)):
        raise InputTypeError(f"classes must be a list of the classes in order, but got {classes!r:.60}.")
    old, new = (as_columns(as_array(name, p)) for name, p in {"before": before, "after": after}.items())
    codes = _codes(y)
    _check_labelled(old, new, codes, len(classes))
    k = _class_at(tuple(classes), of, np.abs(new.sum(axis=0) - old.sum(axis=0)))
    hit = (codes == k).astype(np.float64)
    series = [_binned(name, p[:, k], hit, bins) for name, p in (("before", old), ("after", new))]
    return {"class": short_names(tuple(classes))[k], "series": series}


def _binned(name: str, score: Floats, hit: Floats, bins: int) -> Table:
    """Series in bins of equal size; equal scores share a bin, so the order of the rows does not matter."""
    at = cut(score, quantile_cuts(score, bins))
    scores, hits = (np.bincount(at, column).astype(np.float64) for column in (score, hit))
    return _series(name, scores, hits, np.bincount(at).astype(np.float64))


def _series(name: str, scores: Floats, hits: Floats, n: Floats) -> Table:
    """Points from sums per bin, by increasing mean prediction; empty bins are skipped."""
    used = np.flatnonzero(n > 0)
    used = used[np.argsort(scores[used] / n[used], kind="stable")]
    scores, hits, n = scores[used], hits[used], n[used]
    # Two pseudo-rows of each kind for the standard error, which must not vanish at a share of 0 or 1.
    near = (hits + 2.0) / (n + 4.0)
    return {
        "name": name,
        "mean": numbers(scores / n),
        "share": numbers(hits / n),
        "se": numbers(np.sqrt(near * (1.0 - near) / (n + 4.0))),
        "n": numbers(n),
    }


def _class_at(classes: tuple[Hashable, ...], of: Hashable, weight: Floats) -> int:
    """Position of the requested class; else of the second of two, or of the one with the largest weight."""
    usual = 1 if len(classes) == 2 else int(np.argmax(weight))
    return usual if of is None else place_of_class(classes, of)


def _codes(y: Any) -> NDArray[Any]:
    try:
        codes = np.asarray(y)
    except ValueError:
        codes = np.empty(())
    if codes.ndim != 1:
        raise InputTypeError(f"y must be the position of a class for every row, but got {y!r:.60}.")
    return codes


def _check_labelled(old: Floats, new: Floats, codes: NDArray[Any], n_classes: int) -> None:
    shape = (len(codes), n_classes)
    if old.shape != shape or new.shape != shape:
        raise InputError(
            f"before and after must be probabilities of the same {len(codes):,} labelled rows and {n_classes} classes, "
            f"but have the shapes {old.shape} and {new.shape}."
        )
    if not len(codes):
        raise InputError("There are no labelled rows to draw. Give at least one.")
    if codes.dtype.kind not in "iub" or codes.min() < 0 or codes.max() >= n_classes:
        raise InputError(
            f"y must be the positions of the classes, 0 to {n_classes - 1}, but holds {codes.tolist()!r:.60}. "
            "Look each label up in classes first."
        )


def pit(before: Any, after: Any, y: ArrayLike) -> Table:
    """Histogram of the probability integral transform before and after, with the standard error of uniform draws."""
    truth = _numbers_of(before, after, y)
    edges = np.linspace(0.0, 1.0, _PIT_BARS + 1)
    n = len(truth)
    shares = [np.histogram(_transform(p, truth), edges)[0] / n for p in (before, after)]
    even = 1.0 / _PIT_BARS
    return {
        "edges": numbers(edges),
        "before": numbers(shares[0]),
        "after": numbers(shares[1]),
        "noise": float(2.0 * np.sqrt(even * (1.0 - even) / n)),
        "n": n,
    }


def coverage(before: Any, after: Any, y: ArrayLike) -> Table:
    """Coverage of central intervals before and after, with the standard error ``se`` of calibrated predictions."""
    truth = _numbers_of(before, after, y)
    nominal = np.array(NOMINAL)
    return {
        "nominal": numbers(nominal),
        "before": numbers(_held(before, truth)),
        "after": numbers(_held(after, truth)),
        "se": numbers(np.sqrt(nominal * (1.0 - nominal) / len(truth))),
        "n": len(truth),
    }


def _transform(predicted: Any, y: Floats) -> Floats:
    """The probability integral transform; at an atom the middle of the jump."""
    at = y[:, None]
    middle = (predicted.cdf(at, before=True) + predicted.cdf(at))[:, 0] / 2.0
    return np.asarray(np.clip(middle, 0.0, 1.0))


def _held(predicted: Any, y: Floats) -> Floats:
    share = np.array(NOMINAL)
    ends = predicted.ppf(np.concatenate([1.0 - share, 1.0 + share]) / 2.0)
    lower, upper = np.hsplit(ends, 2)
    inside = (lower <= y[:, None]) & (y[:, None] <= upper)
    return np.asarray(inside.mean(axis=0))


def _numbers_of(before: Any, after: Any, y: ArrayLike) -> Floats:
    for predicted in (before, after):
        if not all(hasattr(predicted, name) for name in ("cdf", "ppf", "__len__")):
            raise InputTypeError(
                f"before and after must be predictive distributions, but got {type(predicted).__name__}. "
                "Make them with fieldcal.regression.from_quantiles, from_moments and so on."
            )
    try:
        truth = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(f"y must be numbers, but holds {str(y)[:60]!r}.") from None
    if truth.ndim != 1 or not len(before) == len(after) == len(truth):
        raise InputError(
            f"before, after and y must be of the same rows, but there are {len(before):,} and {len(after):,} "
            f"predictions and y has shape {truth.shape}."
        )
    if not len(truth):
        raise InputError("There are no numbers to draw. Give at least one.")
    if not np.isfinite(truth).all():
        raise InputError(
            f"{int((~np.isfinite(truth)).sum()):,} of the numbers y are missing or infinite. Drop those rows."
        )
    return truth
