"""A: from predictions to bins.

Bins are right-closed, ``(a, b]``, the lowest closed on both sides, and edges are compared in float64. A
prediction that equals an edge belongs to the bin below it. A *fitted* partition is plain data, so that any
engine can express it; a *recipe* (`Quantiles`, `Argmax`, `Tree`) becomes one by looking at lab predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.core.cuts import cut, quantile_cuts
from fieldcal.core.expected import Expected, ExpectedEdges
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
                f"{scores.shape[1]} classes. Use Argmax(…) or Tree(…) for more than two classes."
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
        _at_least("Quantiles", "n", self.n, 1)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> Edges:
        """Cut lab scores of shape (n,) or (n, 2) into ``n`` intervals; merge ties."""
        _needs_binary("Quantiles", n_classes)
        return Edges(quantile_cuts(_second_class(scores), self.n, weight))


@dataclass(frozen=True)
class ArgmaxEdges:
    """Argmax class × confidence: bins of the largest score within each predicted class (fitted).

    ``edges[k]`` cuts the confidence of the rows whose largest score is class ``k`` (the first of several
    equal ones). Bins of class 0 come first.
    """

    edges: tuple[tuple[float, ...], ...]
    kind: ClassVar[Literal["argmax"]] = "argmax"

    @property
    def m(self) -> int:
        """The number of bins."""
        return sum(len(cuts) + 1 for cuts in self.edges)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The first bin of each class."""
        sizes = [len(cuts) + 1 for cuts in self.edges]
        return tuple(np.cumsum([0, *sizes[:-1]]).tolist())

    def assign(self, scores: Floats) -> Ints:
        """Bin ids, shape (n,)."""
        proba = as_columns(scores)
        if proba.shape[1] != len(self.edges):
            raise InputError(
                f"This partition knows {len(self.edges)} classes, but the predictions have {proba.shape[1]}."
            )
        top = proba.argmax(axis=1)
        confidence = np.take_along_axis(proba, top[:, None], axis=1)[:, 0]
        bins: Ints = np.asarray(self.offsets, dtype=np.intp)[top]
        for k, cuts in enumerate(self.edges):
            if cuts:
                rows = np.flatnonzero(top == k)
                bins[rows] += cut(confidence[rows], np.asarray(cuts))
        return bins


@dataclass(frozen=True)
class Argmax:
    """Bins by the predicted class, each split by confidence into intervals equally likely in the lab.

    ``Argmax(1)`` is the argmax alone: the confusion matrix of classify-and-count.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import Argmax
    >>> proba = np.array([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
    >>> Argmax(2).fit(proba, np.array([0, 0, 1, 2]), 3).assign(proba).tolist()
    [1, 0, 2, 3]
    """

    confidence_bins: int = 1
    min_rows: int = 0

    def __post_init__(self) -> None:
        _at_least("Argmax", "confidence_bins", self.confidence_bins, 1)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> ArgmaxEdges:
        """Cut the confidence within each predicted class; fewer cuts where it has few lab rows."""
        proba = as_columns(scores)
        top = proba.argmax(axis=1)
        confidence = proba.max(axis=1)
        edges = []
        for k in range(n_classes):
            rows = np.flatnonzero(top == k)
            inside = None if weight is None else weight[rows]
            size = len(rows) if inside is None else inside.sum()
            affordable = int(size // self.min_rows) if self.min_rows else self.confidence_bins
            bins = max(1, min(self.confidence_bins, affordable))
            edges.append(tuple(quantile_cuts(confidence[rows], bins, inside).tolist()) if size else ())
        return ArgmaxEdges(tuple(edges))


@dataclass(frozen=True)
class TreeNodes:
    """A binary tree of cuts ``score of class k <= threshold`` over the simplex (fitted).

    Node arrays, parents before their children: ``feature[i] < 0`` marks a leaf, otherwise rows with
    ``scores[:, feature[i]] <= threshold[i]`` go to ``left[i]``, the others to ``right[i]``. ``leaf[i]`` is the
    bin of a leaf.
    """

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    leaf: tuple[int, ...]
    kind: ClassVar[Literal["tree"]] = "tree"

    @property
    def m(self) -> int:
        """The number of bins."""
        return sum(f < 0 for f in self.feature)

    def assign(self, scores: Floats) -> Ints:
        """Bin ids, shape (n,)."""
        proba = as_columns(scores)
        if max(self.feature) >= proba.shape[1]:
            raise InputError(
                f"This partition asks for the score of class number {max(self.feature)}, but the predictions "
                f"have {proba.shape[1]} classes."
            )
        bins = np.empty(len(proba), dtype=np.intp)
        waiting = [(0, np.arange(len(proba)))]
        while waiting:
            node, rows = waiting.pop()
            if self.feature[node] < 0:
                bins[rows] = self.leaf[node]
                continue
            low = proba[rows, self.feature[node]] <= self.threshold[node]
            waiting.append((self.left[node], rows[low]))
            waiting.append((self.right[node], rows[~low]))
        return bins


@dataclass(frozen=True)
class Tree:
    """A tree partition of the simplex: each split is the cut that tells the classes apart best.

    Best-first growth: among all leaves, the split with the largest gain in (weighted) entropy of the class
    is made next, until there are ``leaves`` bins. No leaf has fewer than ``min_rows`` lab rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import Tree
    >>> score = np.linspace(0, 1, 100)
    >>> bins = Tree(2).fit(score, (score > 0.3).astype(int), 2).assign(np.array([0.1, 0.2, 0.4]))
    >>> bool(bins[0] == bins[1] != bins[2])
    True
    """

    leaves: int
    min_rows: int = 20

    def __post_init__(self) -> None:
        _at_least("Tree", "leaves", self.leaves, 1)
        _at_least("Tree", "min_rows", self.min_rows, 1)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> TreeNodes:
        """Grow the tree on lab predictions."""
        proba, labels = as_columns(scores), np.eye(n_classes)[y]
        if weight is not None:  # a row without weight is no row
            used = weight > 0
            proba, labels = proba[used], labels[used] * weight[used, None]
        return _grow(proba, labels, self.leaves, self.min_rows)


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
        _at_least("Bins", "n", self.n, 1)

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


FittedPartition = Edges | ArgmaxEdges | TreeNodes | ExpectedEdges | Bins
PartitionLike = Literal["auto"] | int | Quantiles | Argmax | Tree | Expected | FittedPartition


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
        several = Expected(int(partition)) if ordered else Argmax(int(partition))
        partition = Quantiles(int(partition)) if n_classes == 2 else several
    if isinstance(partition, (Quantiles, Argmax, Tree, Expected, Bins)):
        return partition.fit(scores, y, n_classes, weight=weight)
    if isinstance(partition, (Edges, ArgmaxEdges, TreeNodes, ExpectedEdges)):
        return partition
    raise InputTypeError(
        f"partition must be 'auto', a number of bins, or one of Quantiles, Edges, Argmax, Tree, Expected, Bins, "
        f"but got {partition!r}."
    )


def default_recipe(
    class_rows: NDArray[np.integer] | Floats, *, ordered: bool = False
) -> Quantiles | Argmax | Expected:
    """The default partition: enough bins to see the shape, few enough for the lab to fill.

    Binary: 8 quantile bins from 800 lab rows, 4 at 200, and a dozen rows of the rarest class behind each; never fewer
    than 4, so that something is left over to test the assumption with. More bins on a small lab bias the estimate:
    noise in M blurs the classes. More classes: argmax × confidence bins, 4 of them up to five classes and 2 beyond,
    fewer where a predicted class has few lab rows. Ordered classes: quantiles of the expected place in the order.
    """
    rows = np.asarray(class_rows, dtype=np.float64)
    if ordered and len(rows) > 2:
        return Expected(int(np.clip(rows.sum() / 50, 4, max(8, 3 * len(rows) // 2))))
    if len(rows) == 2:
        return Quantiles(int(np.clip(min(np.sqrt(rows.sum() / 12.5), rows.min() / 12), 4, 8)))
    return Argmax(4 if len(rows) <= 5 else 2, min_rows=30)


def as_columns(scores: Floats) -> Floats:
    """Predictions with one column per class; a binary score becomes two columns."""
    return np.column_stack([1.0 - scores, scores]) if scores.ndim == 1 else scores


def _second_class(scores: Floats) -> Floats:
    """The binary score of shape (n,), also of predictions with two columns."""
    return scores if scores.ndim == 1 else np.ascontiguousarray(scores[:, 1])


def _grow(proba: Floats, labels: Floats, leaves: int, min_rows: int) -> TreeNodes:
    """Best-first growth of a classification tree on the scores; ``labels`` are (weighted) indicators."""
    feature, threshold, left, right = [-1], [0.0], [-1], [-1]
    rows_of = {0: np.arange(len(proba))}
    best = {0: _best_split(proba, labels, min_rows)}
    for _ in range(leaves - 1):
        node = max(best, key=lambda k: best[k][0])
        gain, k, t = best.pop(node)
        if gain <= 0:
            break
        rows = rows_of.pop(node)
        low = proba[rows, k] <= t
        feature[node], threshold[node] = k, t
        for side, part in ((left, rows[low]), (right, rows[~low])):
            child = side[node] = len(feature)
            for column, empty in ((feature, -1), (threshold, 0.0), (left, -1), (right, -1)):
                column.append(empty)  # type: ignore[arg-type]
            rows_of[child] = part
            best[child] = _best_split(proba[part], labels[part], min_rows)
    numbers = iter(range(len(feature)))
    leaf = tuple(next(numbers) if f < 0 else -1 for f in feature)
    return TreeNodes(tuple(feature), tuple(threshold), tuple(left), tuple(right), leaf)


def _best_split(proba: Floats, labels: Floats, min_rows: int) -> tuple[float, int, float]:
    """The largest drop in entropy (in nats, summed over rows) and where it is: gain, class, threshold."""
    best = (0.0, -1, 0.0)
    whole = labels.sum(axis=0)
    for k in range(proba.shape[1]):
        order = np.argsort(proba[:, k], kind="stable")
        x = proba[order, k]
        below = labels[order].cumsum(axis=0)[:-1]
        gain = _entropy(whole[None]) - _entropy(below) - _entropy(whole - below)
        rows = below.sum(axis=1)
        gain[(rows < min_rows) | (whole.sum() - rows < min_rows) | (x[1:] == x[:-1])] = -np.inf
        i = int(gain.argmax()) if len(gain) else -1
        if i >= 0 and gain[i] > best[0] + 1e-9:
            middle = 0.5 * (x[i] + x[i + 1])
            best = (float(gain[i]), k, float(middle if x[i] < middle < x[i + 1] else x[i]))
    return best


def _entropy(counts: Floats) -> Floats:
    """Entropy of each row of counts, times its total."""
    counts = np.maximum(counts, 0.0)  # differences of weighted sums may round below zero
    total = counts.sum(axis=1, keepdims=True)
    share = np.divide(counts, total, out=np.ones_like(counts), where=counts > 0)
    return np.asarray(-(counts * np.log(share)).sum(axis=1))


def _needs_binary(name: str, n_classes: int) -> None:
    if n_classes != 2:
        raise InputError(
            f"{name} cuts the score of a binary classifier, but there are {n_classes} classes. "
            "Use Argmax(confidence_bins) or Tree(leaves)."
        )


def _at_least(owner: str, name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{owner}({name}=…) must be a whole number of at least {least}, but got {value!r}.")


def _short(values: Floats) -> str:
    shown = ", ".join(f"{v:g}" for v in values[:6])
    return f"[{shown}{', …' if len(values) > 6 else ''}]"
