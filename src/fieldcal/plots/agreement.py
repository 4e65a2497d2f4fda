"""The table of reliability: what was predicted, and what was so."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal import keys
from fieldcal.core.cuts import as_columns, cut, quantile_cuts
from fieldcal.core.partition import Bins
from fieldcal.errors import InputError
from fieldcal.objects import Lab
from fieldcal.plots.labels import names
from fieldcal.plots.numbers import Table, plain

Floats = NDArray[np.float64]


def reliability(lab: Lab, *, of: Hashable = None) -> Table:
    """Mean prediction and share of a class in each bin of the lab; by default the second of two, or the largest."""
    if isinstance(lab.partition, Bins):
        raise InputError(
            "This lab was learnt from bin ids, so there are no predictions to compare with the labels. "
            "Learn it from probabilities to see how reliable they are."
        )
    k = _class_at(lab.classes, of, lab.p_lab)
    n = lab.F.sum(axis=0).astype(np.float64)
    series = _series("lab", lab.bin_means[:, k] * n, lab.F[k].astype(np.float64), n)
    return {"class": names(lab.classes)[k], "series": [series]}


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

    By default of the second of two classes, or of the one whose predictions changed most.
    """
    old, new = (as_columns(np.asarray(p, dtype=np.float64)) for p in (before, after))
    codes = np.asarray(y)
    _check_labelled(old, new, codes, len(classes))
    k = _class_at(tuple(classes), of, np.abs(new.sum(axis=0) - old.sum(axis=0)))
    hit = (codes == k).astype(np.float64)
    series = [_binned(name, p[:, k], hit, bins) for name, p in (("before", old), ("after", new))]
    return {"class": names(tuple(classes))[k], "series": series}


def _binned(name: str, score: Floats, hit: Floats, bins: int) -> Table:
    """Equal scores stay together, so the order of the rows does not matter."""
    at = cut(score, quantile_cuts(score, bins))
    scores, hits = (np.bincount(at, column).astype(np.float64) for column in (score, hit))
    return _series(name, scores, hits, np.bincount(at).astype(np.float64))


def _series(name: str, scores: Floats, hits: Floats, n: Floats) -> Table:
    """Points from sums per bin, by rising mean prediction; bins without rows are left out."""
    used = np.flatnonzero(n > 0)
    used = used[np.argsort(scores[used] / n[used], kind="stable")]
    scores, hits, n = scores[used], hits[used], n[used]
    # Two rows of each kind are added for the error: a share of 0 or 1 is not free of noise.
    near = (hits + 2.0) / (n + 4.0)
    return {
        "name": name,
        "mean": plain(scores / n),
        "share": plain(hits / n),
        "se": plain(np.sqrt(near * (1.0 - near) / (n + 4.0))),
        "n": plain(n),
    }


def _class_at(classes: tuple[Hashable, ...], of: Hashable, weight: Floats) -> int:
    """The class asked for; else the second of two, or the heaviest."""
    if of is None:
        return 1 if len(classes) == 2 else int(np.argmax(weight))
    at = int(keys.positions(classes, (keys.normalize(of),))[0])
    if at < 0:
        raise InputError(f"There is no class {of!r:.60}. The classes are {classes!r:.200}.")
    return at


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
