"""Partitions: how predictions are sent to bins.

A `Recipe` looks at lab predictions and gives a `Partition`; a partition assigns bins to arrays, writes the same bins
as an expression for tables and SQL, and names itself in JSON. To add one, subclass `Partition` and decorate it with
`register_partition`; nothing else asks which partition it is. Bins are right-closed: a score that equals a cut
belongs to the bin below it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.core.backend import Backend, Expr, at_largest, bin_between, clipped, every_class, total
from fieldcal.core.policy import POLICY
from fieldcal.core.simplex import TreeNodes, grow
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.options import as_array
from fieldcal.types import Floats, Ints

_FEW_CUTS = 32  # up to here, counting the cuts below a score beats a binary search
_CHUNK = 65_536  # rows that stay in cache while the cuts are compared
_MOST_BINS = 1_000_000  # more is a slip of the keyboard, and would not fit into memory
_MOST_DIGITS = 17  # enough to tell any two floats apart


class Recipe(ABC):
    """What the caller may ask for as ``partition``: it becomes a partition when it sees lab predictions."""

    #: What it is shown: predicted probabilities, bin ids that the caller worked out, or values that it looks up.
    takes: ClassVar[Literal["probabilities", "ids", "values"]] = "probabilities"
    noun: ClassVar[str] = "bins"  # for people

    @property
    def takes_probabilities(self) -> bool:
        """Whether it is shown probabilities; otherwise the lab's shares of the classes in a bin stand in for them."""
        return self.takes == "probabilities"

    @abstractmethod
    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> Partition:
        """The partition for lab predictions of shape (n,) or (n, K) and their classes ``0 .. n_classes − 1``."""


class Partition(Recipe):
    """A fitted partition: a frozen dataclass of numbers and tuples, with a ``kind`` by which files know it.

    Examples
    --------
    Thirds of the binary score, in every engine and every file:

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> from fieldcal.core.backend import bin_between
    >>> from fieldcal.core.partition import Partition, register_partition
    >>> @register_partition
    ... @dataclass(frozen=True)
    ... class Thirds(Partition):
    ...     kind: ClassVar[str] = "thirds"
    ...     m: ClassVar[int] = 3
    ...
    ...     def assign(self, scores):
    ...         return (scores > 1 / 3).astype(int) + (scores > 2 / 3)
    ...
    ...     def expression(self, backend, columns):
    ...         return bin_between(backend, columns[-1], (1 / 3, 2 / 3))
    >>> import fieldcal
    >>> data = fieldcal.datasets.example().data
    >>> fieldcal.learn(data.proba_lab, data.y_lab, partition=Thirds()).n_bins
    3
    """

    kind: ClassVar[str]
    counts_zeros: ClassVar[bool] = True  # whether a binary score of exactly 0 is in any bin

    @property
    @abstractmethod
    def m(self) -> int:
        """The number of bins."""

    @abstractmethod
    def assign(self, scores: Floats) -> Ints:
        """Bin ids ``0 .. m − 1``, shape (n,), of scores of shape (n,) or (n, K)."""

    @abstractmethod
    def expression(self, backend: Backend, columns: Sequence[Expr]) -> Expr:
        """The bin of a row whose scores are valid, as `assign` gives it.

        Parameters
        ----------
        columns : the second of two classes alone, or all classes
        """

    def most_bins(self, class_rows: Floats, *, ordered: bool) -> int:
        """The most bins of its kind that lab rows (K,) can fill."""
        return most_bins(class_rows, ordered=ordered)

    def below(self, backend: Backend, columns: Sequence[Expr]) -> list[Expr] | None:
        """For each bin but the last, whether a row is in it or in one before it; None to compare bin ids instead."""
        return None

    def labels(self, classes: Sequence[str]) -> list[str]:
        """One short label per bin, for people."""
        return [f"bin {j + 1}" for j in range(self.m)]

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> Self:
        """Itself: there is nothing left to learn."""
        return self

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, **{name: _lists(value) for name, value in vars(self).items()}}

    @classmethod
    def from_spec(cls, values: Mapping[str, Any]) -> Self:
        """From what `spec` gave, without its kind; a ValueError or TypeError where that makes no partition."""
        return cls(**{name: _tuples(value) for name, value in values.items()})


_REGISTERED: dict[str, type[Partition]] = {}
P = TypeVar("P", bound=type[Partition])


def register_partition(cls: P) -> P:
    """Let files that hold this ``kind`` be read; a decorator of the class."""
    known = _REGISTERED.setdefault(cls.kind, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InputError(
            f"The kind {cls.kind!r} is that of {known.__module__}.{known.__qualname__}. Choose another."
        )
    _REGISTERED[cls.kind] = cls  # a class that was defined again, as in a notebook
    return cls


def from_spec(values: Any) -> Partition:
    """The partition that JSON holds.

    Examples
    --------
    >>> from_spec({"kind": "edges", "edges": [0.2, 0.5]})
    Edges(edges=(0.2, 0.5))
    """
    try:
        rest = dict(values)
        kind = rest.pop("kind")
        if kind not in _REGISTERED:
            raise ValueError(f"the kind {kind!r:.40} is unknown; if it is your own, import its module first")
        return _REGISTERED[kind].from_spec(rest)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"not a partition: {error}") from None


def is_registered(partition: Partition) -> bool:
    """Whether a file that holds this partition could be read."""
    return type(partition) is _REGISTERED.get(getattr(partition, "kind", ""))


def gives_bins(partition: object) -> TypeGuard[Partition]:
    """Whether rows come with their bins, as ids or as values that were looked up, in place of predictions."""
    return isinstance(partition, Partition) and not partition.takes_probabilities


def takes_ids(partition: object) -> TypeGuard[Partition]:
    """Whether the caller gives bin ids in place of predictions."""
    return isinstance(partition, Partition) and partition.takes == "ids"


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _lists(value: Any) -> Any:
    return list(map(_lists, value)) if isinstance(value, tuple) else value


@register_partition
@dataclass(frozen=True)
class Edges(Partition):
    """Intervals of the binary score, cut at given edges.

    Parameters
    ----------
    edges : sequence of float
        Strictly increasing cut points inside (0, 1). The ends 0 and 1 may be given or left out.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.partitions import Edges
    >>> Edges([0.2, 0.5]).assign(np.array([0.0, 0.2, 0.21, 0.5, 1.0])).tolist()
    [0, 0, 1, 1, 2]
    >>> Edges([0, 0.2, 0.5, 1]) == Edges([0.2, 0.5])
    True
    """

    edges: tuple[float, ...]
    kind: ClassVar[str] = "edges"

    def __init__(self, edges: ArrayLike) -> None:
        cuts = as_array("edges", edges).ravel()
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
        return len(self.edges) + 1

    def assign(self, scores: Floats) -> Ints:
        """Bin ids of the binary score, shape (n,), or of its two columns, shape (n, 2)."""
        if scores.ndim != 1 and scores.shape[1] != 2:
            raise InputError(
                "Edges cut the score of a binary classifier, but these predictions have "
                f"{scores.shape[1]} classes. Use Simplex(…) for more."
            )
        return cut(_second_class(scores), np.asarray(self.edges))

    def expression(self, backend: Backend, columns: Sequence[Expr]) -> Expr:
        return bin_between(backend, columns[-1], self.edges)

    def below(self, backend: Backend, columns: Sequence[Expr]) -> list[Expr]:
        """The score itself is compared: no column of bins is needed."""
        return [columns[-1] <= backend.number(edge) for edge in self.edges]

    def labels(self, classes: Sequence[str]) -> list[str]:
        """The ends of each interval, with as few digits as keep neighbours apart, two at least."""
        ends = [0.0, *self.edges, 1.0]
        for digits in range(2, _MOST_DIGITS + 1):
            texts = [f"{end:.{digits}g}" for end in ends]
            if len(set(texts)) == len(texts):
                break
        return [f"{low}–{high}" for low, high in pairwise(texts)]


@register_partition
@dataclass(frozen=True, init=False)
class EdgesAboveZero(Edges):
    """The same as the authors' R code cuts them: open at the lower end, so that a score of exactly 0 is in no bin.

    Rows with such a score are left out of every count.
    """

    kind: ClassVar[str] = "edges_above_zero"
    counts_zeros: ClassVar[bool] = False


@dataclass(frozen=True)
class Quantiles(Recipe):
    """Intervals of the binary score that are equally likely in the lab: the paper's suggestion.

    Differs from the paper: a cut lies between two neighbouring lab scores (linear interpolation, as in the
    authors' code) where the paper's equation puts it on the lower of them. Tied cuts merge, so fewer bins
    may come out than were asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.partitions import Quantiles
    >>> Quantiles(2).fit(np.array([.125, .25, .5, .75]), np.array([0, 0, 1, 1]), 2).edges
    (0.375,)
    """

    n: int

    def __post_init__(self) -> None:
        number_of_bins("Quantiles", "n", self.n)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> Edges:
        """Cut lab scores of shape (n,) or (n, 2) into ``n`` intervals; merge ties."""
        _needs_binary("Quantiles", n_classes)
        return Edges(quantile_cuts(_second_class(scores), self.n, weight))


@dataclass(frozen=True)
class QuantilesAboveZero(Quantiles):
    """The same, with no bin for scores of exactly 0, which are among the scores that are cut."""

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> EdgesAboveZero:
        return EdgesAboveZero(super().fit(scores, y, n_classes, weight=weight).edges)


@register_partition
@dataclass(frozen=True)
class ExpectedEdges(Partition):
    """Intervals of ``Σ_k values_k · C_k``, cut at given edges (fitted). Values and edges lie in [0, 1]."""

    values: tuple[float, ...]
    edges: tuple[float, ...]
    kind: ClassVar[str] = "expected"

    def __post_init__(self) -> None:
        numbers = np.array([*self.values, *self.edges])
        if len(self.values) < 2 or not (
            np.isfinite(numbers).all() and ((numbers >= 0) & (numbers <= 1)).all()
        ):
            raise InputError(
                "The values and edges of an expectation must lie in [0, 1], two values at least."
            )
        if np.any(np.diff(self.edges) <= 0):
            raise InputError(
                f"Edges must strictly increase, but got {self.edges!r:.80}. Sort them, drop repeats."
            )

    @property
    def m(self) -> int:
        return len(self.edges) + 1

    def assign(self, scores: Floats) -> Ints:
        return cut(expected(columns_of(scores, len(self.values)), self.values), np.asarray(self.edges))

    def expression(self, backend: Backend, columns: Sequence[Expr]) -> Expr:
        """The expected value, added up as `expected` adds it, and a tree of comparisons."""
        proba = every_class(backend, columns)
        terms = [x * backend.number(v) for x, v in zip(proba, self.values, strict=True)]
        return bin_between(backend, clipped(backend, total(terms)), self.edges)


@dataclass(frozen=True)
class Expected(Recipe):
    """Bins of the expected value, equally likely in the lab: for classes that have an order.

    Parameters
    ----------
    n : number of bins; more than there are classes is fine
    values : what each class counts as, by default its place in the order

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.partitions import Expected
    >>> proba = np.array([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])
    >>> Expected(2).fit(proba, np.array([0, 1, 2, 0]), 3).assign(proba).tolist()
    [0, 1, 1, 0]
    """

    n: int
    values: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        number_of_bins("Expected", "n", self.n)
        if self.values is not None:
            as_array("values", self.values)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> ExpectedEdges:
        """Cut at quantiles of the lab's expected values."""
        values = np.asarray(range(n_classes) if self.values is None else self.values, dtype=np.float64)
        if values.shape != (n_classes,) or not np.isfinite(values).all() or np.ptp(values) == 0:
            raise InputError(
                f"Expected(values=…) must be {n_classes} finite numbers, not all the same, but got {self.values!r:.80}."
            )
        scaled = tuple(((values - values.min()) / np.ptp(values)).tolist())
        scores = as_columns(scores)
        return ExpectedEdges(scaled, tuple(quantile_cuts(expected(scores, scaled), self.n, weight).tolist()))


@register_partition
@dataclass(frozen=True)
class SimplexTrees(Partition):
    """The regions of the predicted class, each with a tree of its own (fitted).

    The same arrays as in `TreeNodes`, one per class. Bins of class 0 come first; within a class, from unsure to sure.
    """

    feature: tuple[tuple[int, ...], ...]
    threshold: tuple[tuple[float, ...], ...]
    left: tuple[tuple[int, ...], ...]
    right: tuple[tuple[int, ...], ...]
    leaf: tuple[tuple[int, ...], ...]
    kind: ClassVar[str] = "simplex"

    @classmethod
    def of(cls, trees: Sequence[TreeNodes]) -> SimplexTrees:
        columns = zip(*((t.feature, t.threshold, t.left, t.right, t.leaf) for t in trees), strict=True)
        return cls(*(tuple(column) for column in columns))

    @property
    def trees(self) -> tuple[TreeNodes, ...]:
        """One tree per class, its bins counted from 0."""
        columns = (self.feature, self.threshold, self.left, self.right, self.leaf)
        return tuple(TreeNodes(*nodes) for nodes in zip(*columns, strict=True))

    @property
    def offsets(self) -> tuple[int, ...]:
        """The first bin of each class."""
        return tuple(np.cumsum([0, *(tree.m for tree in self.trees[:-1])]).tolist())

    @property
    def m(self) -> int:
        return sum(tree.m for tree in self.trees)

    def assign(self, scores: Floats) -> Ints:
        proba = columns_of(scores, len(self.feature))
        top = proba.argmax(axis=1)
        bins: Ints = np.asarray(self.offsets, dtype=np.intp)[top]
        for k, tree in enumerate(self.trees):
            rows = np.flatnonzero(top == k)
            bins[rows] += tree.assign(proba[rows])
        return bins

    def expression(self, backend: Backend, columns: Sequence[Expr]) -> Expr:
        """The tree of the predicted class, its comparisons nested."""
        proba = every_class(backend, columns)
        roots = zip(self.trees, self.offsets, strict=True)
        return at_largest(backend, proba, [tree.expression(backend, proba, first) for tree, first in roots])

    def labels(self, classes: Sequence[str]) -> list[str]:
        """The predicted class and a number, from unsure to sure."""
        sizes = zip(classes, self.trees, strict=True)
        return [f"{name} {j + 1}" for name, tree in sizes for j in range(tree.m)]

    @classmethod
    def from_spec(cls, values: Mapping[str, Any]) -> Self:
        """Node arrays are checked here: those that `grow` made need it not."""
        partition = super().from_spec(values)
        for tree in partition.trees:
            tree.check(len(partition.feature))
        return partition


@dataclass(frozen=True)
class Simplex(Recipe):
    """The regions of the predicted class, cut further where the predictions themselves change most.

    Best-first growth over all regions at once: the next cut is the one that says most about which class the model
    believes in, until there are ``cells`` bins. No bin that a cut makes has fewer than ``min_rows`` lab rows. Labels
    are not looked at: M, counted in these bins afterwards, is not flattered by them. The default for three and more
    classes.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.partitions import Simplex
    >>> proba = np.random.default_rng(0).dirichlet(np.ones(3), size=1000)
    >>> partition = Simplex(8).fit(proba, np.zeros(1000, dtype=int), 3)
    >>> partition.m, bool((partition.assign(proba) < 8).all())
    (8, True)
    """

    cells: int
    min_rows: int = 20

    def __post_init__(self) -> None:
        number_of_bins("Simplex", "cells", self.cells)
        at_least("Simplex", "min_rows", self.min_rows, 1)

    def fit(self, scores: Floats, y: Ints, n_classes: int, *, weight: Floats | None = None) -> SimplexTrees:
        """Grow a tree in each region on lab predictions; at least one bin for every class."""
        return SimplexTrees.of(grow(as_columns(scores), self.cells, self.min_rows, n_classes, weight))


@register_partition
@dataclass(frozen=True)
class Bins(Partition):
    """The caller gives bin ids ``0 .. n − 1`` in place of predictions.

    For scores that are no probabilities, or several of them: any function of what the model says will do,
    as long as lab and field use the same one.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.partitions import Bins
    >>> Bins(3).assign(np.array([0, 2, 1])).tolist()
    [0, 2, 1]
    """

    n: int
    kind: ClassVar[str] = "bins"
    takes: ClassVar[Literal["probabilities", "ids", "values"]] = "ids"

    def __post_init__(self) -> None:
        number_of_bins("Bins", "n", self.n)

    @property
    def m(self) -> int:
        return self.n

    def assign(self, scores: NDArray[np.float64] | NDArray[np.integer]) -> Ints:
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

    def expression(self, backend: Backend, columns: Sequence[Expr]) -> Expr:
        return columns[0]


PartitionLike = Literal["auto"] | int | Recipe


def fit_partition(
    partition: PartitionLike,
    scores: Floats,
    y: Ints,
    n_classes: int,
    *,
    weight: Floats | None = None,
    ordered: bool = False,
) -> Partition:
    """Turn what the caller asked for into a fitted partition."""
    if isinstance(partition, str) and partition == "auto":
        partition = default_recipe(np.bincount(y, weights=weight, minlength=n_classes), ordered=ordered)
    elif isinstance(partition, (int, np.integer)) and not isinstance(partition, bool):
        partition = _as_many(int(partition), n_classes, ordered=ordered)
    if not isinstance(partition, Recipe):
        raise InputTypeError(
            f"partition must be 'auto', a number of bins, or one of Quantiles, Edges, Simplex, Expected, Bins, but got "
            f"{partition!r}."
        )
    return partition.fit(scores, y, n_classes, weight=weight)


def _as_many(n: int, n_classes: int, *, ordered: bool) -> Recipe:
    """The recipe for so many bins, whatever the number of classes."""
    if n > _MOST_BINS:
        raise InputError(
            f"{option('partition', n)} asks for more than {_MOST_BINS:,} bins. Ask for a few, 8 for instance."
        )
    if n_classes == 2:
        return Quantiles(n)
    if ordered:
        return Expected(n)
    if n < n_classes:
        raise InputError(
            f"{option('partition', n)} asks for fewer bins than the {n_classes} classes, which they could not tell "
            f"apart. Ask for {n_classes} at least."
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


def most_bins(class_rows: Floats, *, ordered: bool = False) -> int:
    """The most bins that these lab rows can fill; never fewer than the default has."""
    usual = default_recipe(class_rows, ordered=ordered)
    rows = class_rows.min() if len(class_rows) == 2 else class_rows.mean()
    return max(usual.cells if isinstance(usual, Simplex) else usual.n, int(rows // POLICY.few))


def with_fewer_bins(partition: PartitionLike, most: int) -> PartitionLike:
    """The same with so many bins at most; as it is where the caller cut by hand, or wrote it."""
    if isinstance(partition, (int, np.integer)) and not isinstance(partition, bool):
        return partition if partition > _MOST_BINS else min(int(partition), most)
    if isinstance(partition, Simplex):
        return replace(partition, cells=min(partition.cells, most))
    if isinstance(partition, (Quantiles, Expected)):
        return replace(partition, n=min(partition.n, most))
    return partition


def quantile_cuts(scores: Floats, n: int, weight: Floats | None = None) -> Floats:
    """Interior cuts at the ``1/n, 2/n, …`` quantiles, ties merged, empty bins avoided."""
    if weight is not None:  # rows of weight zero count as absent
        scores, weight = scores[weight > 0], weight[weight > 0]
    if n == 1 or not len(scores):
        return np.empty(0)
    at = np.arange(1, n) / n
    cuts = np.quantile(scores, at) if weight is None else _weighted_quantile(scores, at, weight)
    inner = scores[(scores > 0.0) & (scores < 1.0)]
    low, high = (inner.min(), inner.max()) if len(inner) else (1.0, 0.0)
    # Many scores of exactly 0 or 1 are a bin of their own: the cut lies between them and the next score.
    cuts = np.where(cuts <= 0.0, 0.5 * low, np.where(cuts >= 1.0, 0.5 * (1.0 + high), cuts))
    cuts = np.unique(cuts[(cuts > 0.0) & (cuts < 1.0)])
    # Two cuts with no score between them would leave a bin without lab rows, as would one beyond all scores.
    below, first = np.unique(np.searchsorted(np.sort(scores), cuts, side="right"), return_index=True)
    return np.asarray(cuts[first[(below > 0) & (below < len(scores))]])


def _weighted_quantile(values: Floats, at: Floats, weight: Floats) -> Floats:
    """Interpolated quantiles where a weight of 2 is the value twice; fractions are scaled to a mean of one."""
    if np.any(weight != np.floor(weight)):
        weight = weight * (len(weight) / weight.sum())
    order = np.argsort(values, kind="stable")
    ends = weight[order].cumsum()
    place = at * (ends[-1] - 1.0)
    below = np.floor(place)
    last = len(values) - 1
    low = values[order][np.minimum(np.searchsorted(ends, below, side="right"), last)]
    high = values[order][np.minimum(np.searchsorted(ends, below + 1.0, side="right"), last)]
    share = place - below  # the two sums round as in np.quantile, so that repeated rows get the same cuts
    return np.asarray(np.where(share < 0.5, low + share * (high - low), high - (1.0 - share) * (high - low)))


def cut(scores: Floats, cuts: Floats) -> Ints:
    """The number of cuts strictly below each score: right-closed bins."""
    if len(cuts) > _FEW_CUTS:
        return np.searchsorted(cuts, scores, side="left").astype(np.intp, copy=False)
    bins = np.zeros(len(scores), dtype=np.uint8)
    for start in range(0, len(scores), _CHUNK):
        part, out = scores[start : start + _CHUNK], bins[start : start + _CHUNK]
        for c in cuts:
            out += part > c
    return bins.astype(np.intp)


def expected(scores: NDArray[np.float64], values: tuple[float, ...]) -> Floats:
    """``Σ_k values_k · C_k``, class after class: every engine adds in this order, to the last bit."""
    total = scores[:, 0] * values[0]
    for k in range(1, len(values)):
        total = total + scores[:, k] * values[k]
    return np.asarray(np.clip(total, 0.0, 1.0))


def as_columns(scores: Floats) -> Floats:
    """Predictions with one column per class; a binary score becomes two columns."""
    return np.column_stack([1.0 - scores, scores]) if scores.ndim == 1 else scores


def columns_of(scores: Floats, n_classes: int) -> Floats:
    """Predictions with one column per class, for a partition that knows so many classes."""
    proba = as_columns(scores)
    if proba.shape[1] != n_classes:
        raise InputError(
            f"This partition knows {n_classes} classes, but the predictions have {proba.shape[1]}."
        )
    return proba


def at_least(owner: str, name: str, value: int, least: int) -> None:
    """Refuse what is no whole number, or too small."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{owner}({name}=…) must be a whole number of at least {least}, but got {value!r}.")


def number_of_bins(owner: str, name: str, value: int) -> None:
    """Refuse what is no number of bins."""
    at_least(owner, name, value, 1)
    if value > _MOST_BINS:
        raise InputError(
            f"{owner}({name}=…) must be at most {_MOST_BINS:,}, but got {value!r}. A few are enough, 8 for instance."
        )


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
