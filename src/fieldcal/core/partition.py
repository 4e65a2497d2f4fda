"""A: from predictions to bins.

Bins are right-closed, ``(a, b]``, the lowest closed on both sides, and edges are compared in float64. A
prediction that equals an edge belongs to the bin below it. A *fitted* partition is plain data, so that any
engine can express it; a *recipe* (`Quantiles`, `Simplex`, `Expected`) becomes one by looking at lab predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.core.cuts import at_least, cut, quantile_cuts
from fieldcal.core.expected import Expected, ExpectedEdges
from fieldcal.core.trees import Simplex, SimplexTrees
from fieldcal.errors import InputError, InputTypeError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Edges:
    """Intervals of the binary score, cut at given edges.

    Parameters
    ----------
    edges : sequence of float
        Strictly increasing cut points inside (0, 1). The ends 0 and 1 may be given or left out.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import Edges
    >>> Edges([0.2, 0.5]).assign(np.array([0.0, 0.2, 0.21, 0.5, 1.0])).tolist()
    [0, 0, 1, 1, 2]
    >>> Edges([0, 0.2, 0.5, 1]) == Edges([0.2, 0.5])
    True
    """

    edges: tuple[float, ...]
    kind: ClassVar[Literal["edges"]] = "edges"

    def __init__(self, edges: ArrayLike) -> None:
        cuts = np.asarray(edges, dtype=np.float64).ravel()
        if not np.all(np.isfinite(cuts)) or np.any((cuts < 0) | (cuts > 1)):
            raise InputError(f"Edges must lie in [0, 1], but got {_short(cuts)}. Scores are probabilities.")
        if np.any(np.diff(cuts) <= 0):
            raise InputError(
                f"Edges must strictly increase, but got {_short(cuts)}. Sort them, drop repeats."
            )
        inside = cuts[(cuts != 0.0) & (cuts != 1.0)]
        object.__setattr__(self, "edges", tuple(inside.tolist()))

    @property
    def m(self) -> int:
        """The number of bins."""
        return len(self.edges) + 1

    def assign(self, scores: Floats) -> Ints:
        """Bin ids of the binary score, shape (n,), or of its two columns, shape (n, 2)."""
        if scores.ndim != 1 and scores.shape[1] != 2:
            raise InputError(
                "Edges cut the score of a binary classifier, but these predictions have "
                f"{scores.shape[1]} classes. Use Simplex(…) for more."
            )
        return cut(_second_class(scores), np.asarray(self.edges))


@dataclass(frozen=True)
class Quantiles:
    """Intervals of the binary score that are equally likely in the lab: the paper's suggestion.

    Differs from the paper: a cut lies between two neighbouring lab scores (linear interpolation, as in the
    authors' code) where the paper's equation puts it on the lower of them. Tied cuts merge, so fewer bins
    may come out than were asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import Quantiles
    >>> Quantiles(2).fit(np.array([.125, .25, .5, .75]), np.array([0, 0, 1, 1]), 2).edges
    (0.375,)
    """

    n: int

    def __post_init__(self) -> None:
        at_least("Quantiles", "n", self.n, 1)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> Edges:
        """Cut lab scores of shape (n,) or (n, 2) into ``n`` intervals; merge ties."""
        _needs_binary("Quantiles", n_classes)
        return Edges(quantile_cuts(_second_class(scores), self.n, weight))


@dataclass(frozen=True)
class Bins:
    """The caller gives bin ids ``0 .. n − 1`` in place of predictions.

    For scores that are no probabilities, or several of them: any function of what the model says will do,
    as long as lab and field use the same one.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import Bins
    >>> Bins(3).assign(np.array([0, 2, 1])).tolist()
    [0, 2, 1]
    """

    n: int
    kind: ClassVar[Literal["bins"]] = "bins"

    def __post_init__(self) -> None:
        at_least("Bins", "n", self.n, 1)

    @property
    def m(self) -> int:
        """The number of bins."""
        return self.n

    def assign(self, scores: NDArray[np.float64] | NDArray[np.integer]) -> Ints:
        """The ids themselves, checked."""
        ids = np.asarray(scores)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise InputTypeError(
                f"With Bins({self.n}) the predictions are bin ids, integers of shape (n,), but got "
                f"{ids.dtype} of shape {ids.shape}."
            )
        if len(ids) and (ids.min() < 0 or ids.max() >= self.n):
            raise InputError(
                f"Bin ids must lie in 0 .. {self.n - 1}, but they span {ids.min()} .. {ids.max()}. "
                "Count bins from 0, or raise the number of bins."
            )
        return ids.astype(np.intp)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> Bins:
        """Nothing to learn: the ids are given."""
        return self


FittedPartition = Edges | SimplexTrees | ExpectedEdges | Bins
PartitionLike = Literal["auto"] | int | Quantiles | Simplex | Expected | FittedPartition


def fit_partition(
    partition: PartitionLike,
    scores: Floats,
    y: Ints,
    n_classes: int,
    *,
    weight: Floats | None = None,
    ordered: bool = False,
) -> FittedPartition:
    """Turn what the caller asked for into a fitted partition."""
    if isinstance(partition, str) and partition == "auto":
        partition = default_recipe(np.bincount(y, weights=weight, minlength=n_classes), ordered=ordered)
    elif isinstance(partition, (int, np.integer)) and not isinstance(partition, bool):
        partition = _as_many(int(partition), n_classes, ordered=ordered)
    if isinstance(partition, (Quantiles, Simplex, Expected, Bins)):
        return partition.fit(scores, y, n_classes, weight=weight)
    if isinstance(partition, (Edges, SimplexTrees, ExpectedEdges)):
        return partition
    raise InputTypeError(
        f"partition must be 'auto', a number of bins, or one of Quantiles, Edges, Simplex, Expected, Bins, but got "
        f"{partition!r}."
    )


def _as_many(n: int, n_classes: int, *, ordered: bool) -> Quantiles | Simplex | Expected:
    """The recipe for so many bins, whatever the number of classes."""
    if n_classes == 2:
        return Quantiles(n)
    if ordered:
        return Expected(n)
    if n < n_classes:
        raise InputError(
            f"partition={n} asks for fewer bins than the {n_classes} classes, which they could not tell apart. Ask for "
            f"{n_classes} at least."
        )
    return Simplex(n, min_rows=1)


def default_recipe(
    class_rows: NDArray[np.integer] | Floats, *, ordered: bool = False
) -> Quantiles | Simplex | Expected:
    """The default partition: enough bins to see the shape, few enough for the lab to fill.

    Binary: 8 quantile bins from 800 lab rows, 4 at 200, and a dozen rows of the rarest class behind each; never fewer
    than 4, so that something is left over to test the assumption with. More bins on a small lab bias the estimate:
    noise in M blurs the classes. More classes: the regions of the predicted class, cut further, with 14 lab rows of an
    average class behind each bin; two bins per class at least, and four to six at most. Ordered classes: quantiles of
    the expected place in the order.
    """
    rows = np.asarray(class_rows, dtype=np.float64)
    if ordered and len(rows) > 2:
        return Expected(int(np.clip(rows.sum() / 50, 4, max(8, 3 * len(rows) // 2))))
    if len(rows) == 2:
        return Quantiles(int(np.clip(min(np.sqrt(rows.sum() / 12.5), rows.min() / 12), 4, 8)))
    K = len(rows)
    return Simplex(int(np.clip(rows.mean() / 14, 2 * K, min(6 * K, max(30, 4 * K)))))


def _second_class(scores: Floats) -> Floats:
    """The binary score of shape (n,), also of predictions with two columns."""
    return scores if scores.ndim == 1 else np.ascontiguousarray(scores[:, 1])


def _needs_binary(name: str, n_classes: int) -> None:
    if n_classes != 2:
        raise InputError(
            f"{name} cuts the score of a binary classifier, but there are {n_classes} classes. "
            "Use Simplex(cells)."
        )


def _short(values: Floats) -> str:
    shown = ", ".join(f"{v:g}" for v in values[:6])
    return f"[{shown}{', …' if len(values) > 6 else ''}]"
