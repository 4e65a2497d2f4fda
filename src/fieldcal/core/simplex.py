"""A partition of the simplex: in each region of the predicted class a tree of cuts ``score of class k <= threshold``.

Labels are not asked where to cut: the trees grow where the model's own belief changes most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldcal.core.backend import Backend, Expr
from fieldcal.types import Floats, Ints

#: Rows that a partition is grown on, at most: finding cuts costs a sort per class and leaf.
GROWN_ON = 100_000
#: Classes whose scores may cut a leaf, at most: those that its rows believe in most. (decision 14)
CUT_BY = 20
_TINY = 1e-300


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

    @property
    def m(self) -> int:
        return sum(f < 0 for f in self.feature)

    def assign(self, proba: Floats) -> Ints:
        """Bin ids, shape (n,), of predictions (n, K)."""
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

    def expression(self, backend: Backend, proba: Sequence[Expr], first: int = 0, node: int = 0) -> Expr:
        """The bin of a row, counted from ``first``, for engines other than numpy."""
        if self.feature[node] < 0:
            return backend.integer(first + self.leaf[node])
        low = proba[self.feature[node]] <= backend.number(self.threshold[node])
        children = (self.left[node], self.right[node])
        return backend.when(low, *(self.expression(backend, proba, first, child) for child in children))

    def check(self, n_classes: int) -> None:
        """Refuse node arrays, read from a file, in which a row would walk for ever or to no bin."""
        columns = (self.threshold, self.left, self.right, self.leaf)
        nodes = list(zip(self.feature, *columns, strict=True))
        whole = (*self.feature, *self.left, *self.right, *self.leaf)
        if not nodes or not all(
            type(number) is int and -1 <= number < len(nodes) + n_classes for number in whole
        ):
            raise ValueError("a tree has no nodes, or numbers of nodes that are none")
        if not all(type(cut) in (int, float) and 0 <= cut <= 1 for cut in self.threshold):
            raise ValueError("the thresholds of a tree must lie in [0, 1]")
        if max(self.feature) >= n_classes:
            raise ValueError(f"a tree asks for the score of class {max(self.feature)} of {n_classes}")
        for i, (feature, _, left, right, _) in enumerate(nodes):
            if feature >= 0 and not (i < left < len(nodes) and i < right < len(nodes)):
                raise ValueError(f"node {i} of the tree has no place for its children")
        if sorted(node[4] for node in nodes if node[0] < 0) != list(range(self.m)):
            raise ValueError("the leaves of the tree are not numbered")


@dataclass(frozen=True)
class _Sample:
    """The lab rows that trees are grown on: predictions and weights."""

    proba: Floats  # (n, K)
    weight: Floats  # (n,)

    @classmethod
    def of(cls, proba: Floats, weight: Floats | None) -> _Sample:
        """Rows of weight zero count as absent; of very many rows, `GROWN_ON` are drawn."""
        rows = cls(proba, np.ones(len(proba)) if weight is None else weight)
        rows = rows[np.flatnonzero(rows.weight > 0)]
        if len(rows.proba) > GROWN_ON:
            rows = rows[np.random.default_rng(0).permutation(len(rows.proba))[:GROWN_ON]]
        return rows

    def __getitem__(self, at: Ints) -> _Sample:
        return _Sample(self.proba[at], self.weight[at])


@dataclass
class _Growing:
    """A tree while it grows, with the rows in each of its leaves."""

    rows: dict[int, Ints]
    feature: list[int]
    threshold: list[float]
    left: list[int]
    right: list[int]

    @classmethod
    def from_root(cls, rows: Ints) -> _Growing:
        return cls({0: rows}, [-1], [0.0], [-1], [-1])

    def split(self, node: int, k: int, threshold: float, scores: Floats) -> tuple[int, int]:
        """Cut a leaf in two; the numbers of its children."""
        rows = self.rows.pop(node)
        low = scores[rows] <= threshold
        children = len(self.feature), len(self.feature) + 1
        self.feature[node], self.threshold[node] = k, threshold
        self.left[node], self.right[node] = children
        for child, part in zip(children, (rows[low], rows[~low]), strict=True):
            self.rows[child] = part
            self.feature.append(-1)
            self.threshold.append(0.0)
            self.left.append(-1)
            self.right.append(-1)
        return children

    def by_confidence(self, scores: Floats, weight: Floats) -> TreeNodes:
        """Fitted, its leaves numbered by the mean score of their rows."""
        mean = {i: scores[r] @ weight[r] / max(weight[r].sum(), 1e-300) for i, r in self.rows.items()}
        number = {node: j for j, node in enumerate(sorted(mean, key=mean.__getitem__))}
        leaf = tuple(number.get(i, -1) for i in range(len(self.feature)))
        return TreeNodes(
            tuple(self.feature), tuple(self.threshold), tuple(self.left), tuple(self.right), leaf
        )


def grow(
    proba: Floats, cells: int, min_rows: int, n_classes: int, weight: Floats | None = None
) -> list[TreeNodes]:
    """One tree in the region of each predicted class, with so many leaves in all."""
    rows = _Sample.of(proba, weight)
    top = rows.proba.argmax(axis=1)
    grown = _grow(rows, [np.flatnonzero(top == k) for k in range(n_classes)], cells, min_rows)
    return [tree.by_confidence(rows.proba[:, k], rows.weight) for k, tree in enumerate(grown)]


def _grow(rows: _Sample, roots: list[Ints], leaves: int, min_rows: int) -> list[_Growing]:
    """Best-first growth of one tree per root."""
    trees = [_Growing.from_root(root) for root in roots]
    best = {(t, 0): _best_split(rows[root], min_rows) for t, root in enumerate(roots)}
    for _ in range(leaves - len(roots)):
        t, node = max(best, key=lambda at: best[at][0])
        gain, k, threshold = best.pop((t, node))
        if gain <= 0:
            break
        for child in trees[t].split(node, k, threshold, rows.proba[:, k]):
            best[t, child] = _best_split(rows[trees[t].rows[child]], min_rows)
    return trees


def _best_split(rows: _Sample, min_rows: int) -> tuple[float, int, float]:
    """The largest drop in entropy (in nats, summed over rows) and where it is: gain, class, threshold."""
    best = (0.0, -1, 0.0)
    shares, total = rows.proba * rows.weight[:, None], rows.weight.sum()
    whole = shares.sum(axis=0)
    before = _entropy(whole[None])
    for k in np.sort(np.argsort(-np.round(whole, 9), kind="stable")[:CUT_BY]):
        order = np.argsort(rows.proba[:, k], kind="stable")
        x = rows.proba[order, k]
        size = rows.weight[order].cumsum()[:-1]
        possible = np.flatnonzero((size >= min_rows) & (total - size >= min_rows) & (x[1:] > x[:-1]))
        if not len(possible):
            continue
        below = shares[order].cumsum(axis=0)[possible]
        gain = before - _entropy(below) - _entropy(whole - below)
        # Rounded, the first of equals is the same in whatever order the rows came.
        best_here = int(np.round(gain, 9).argmax())
        if gain[best_here] > best[0] + 1e-9:
            i = int(possible[best_here])
            middle = 0.5 * (x[i] + x[i + 1])
            best = (float(gain[best_here]), int(k), float(middle if x[i] < middle < x[i + 1] else x[i]))
    return best


def _entropy(counts: Floats) -> Floats:
    """Entropy of each row of counts, times its total."""
    counts = np.maximum(counts, _TINY)  # zero, or a difference of weighted sums that rounds below it
    total = counts.sum(axis=1)
    return np.asarray(total * np.log(total) - np.einsum("ij,ij->i", counts, np.log(counts)))
