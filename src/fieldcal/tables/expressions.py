"""What happens to a row, written once: for narwhals' expressions and for SQL.

An engine's expression supports ``<= < >= > == & | + - * /``; the few words beyond are in `Words`. Every comparison is
made in float64, bins are right-closed, and the rules are those of the arrays, so that counts agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

from fieldcal.core.partition import Bins, Edges, ExpectedEdges, FittedPartition
from fieldcal.core.simplex import TreeNodes
from fieldcal.objects import SCORE_UNIT
from fieldcal.validation import CLIP, SUM_TOLERANCE

#: An expression of narwhals or of sqlglot; neither has a type that the other shares.
Expr = Any


class Words(Protocol):
    """What engines spell differently."""

    def number(self, value: float) -> Expr:
        """A float64 constant."""

    def integer(self, value: int) -> Expr:
        """A whole constant."""

    def when(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """Then, if the condition is true; otherwise, if it is false or null."""

    def floor(self, value: Expr) -> Expr:
        """The largest whole number not above, as int64."""

    def largest(self, values: Sequence[Expr]) -> Expr:
        """The largest of several, none of them null."""


def total(columns: Sequence[Expr]) -> Expr:
    """The sum from left to right: the order is part of the answer's last bit."""
    return reduce(lambda a, b: a + b, columns)


def inside(words: Words, columns: Sequence[Expr], *, slack: float = 0.0) -> Expr:
    """Whether all scores of a row are numbers in [0, 1]; false for NaN in every engine."""
    parts = [(x >= words.number(-slack)) & (x <= words.number(1.0 + slack)) for x in columns]
    return reduce(lambda a, b: a & b, parts)


def is_one(words: Words, value: Expr) -> Expr:
    """Whether a row's total is one, as far as rounding goes."""
    return (value >= words.number(1.0 - SUM_TOLERANCE)) & (value <= words.number(1.0 + SUM_TOLERANCE))


def clipped(words: Words, x: Expr) -> Expr:
    """Rounding beyond 0 and 1 taken off."""
    below = words.when(x < words.number(0.0), words.number(0.0), x)
    return words.when(x > words.number(1.0), words.number(1.0), below)


def is_rounding(words: Words, x: Expr) -> Expr:
    """Whether a score lies beyond 0 or 1 by no more than rounding."""
    low = (x < words.number(0.0)) & (x >= words.number(-CLIP))
    return low | ((x > words.number(1.0)) & (x <= words.number(1.0 + CLIP)))


def units(words: Words, x: Expr) -> Expr:
    """A score in whole units, rounded half up: sums of them are exact in any order."""
    return words.floor(x * words.number(1.0 / SCORE_UNIT) + words.number(0.5))


def bin_of(words: Words, partition: FittedPartition, columns: Sequence[Expr]) -> Expr:
    """The bin of a row whose scores are valid. ``columns``: the second class alone, or all classes."""
    if isinstance(partition, Edges):
        return _cut(words, columns[-1], partition.edges, 0)
    if isinstance(partition, Bins):
        return columns[0]
    proba = columns if len(columns) > 1 else [words.number(1.0) - columns[0], columns[0]]
    if isinstance(partition, ExpectedEdges):
        mean = clipped(
            words, total([x * words.number(v) for x, v in zip(proba, partition.values, strict=True)])
        )
        return _cut(words, mean, partition.edges, 0)
    roots = zip(partition.trees, partition.offsets, strict=True)
    return _argmax(words, proba, [_node(words, tree, proba, 0, first) for tree, first in roots])


def below(words: Words, partition: FittedPartition, columns: Sequence[Expr], bins: Expr) -> list[Expr]:
    """For each bin but the last, whether the row lies in it or in one before it."""
    if isinstance(partition, Edges):
        return [columns[-1] <= words.number(c) for c in partition.edges]
    return [bins <= words.integer(j) for j in range(partition.m - 1)]


def recalibrated(words: Words, columns: Sequence[Expr], ratios: Sequence[Expr]) -> list[Expr]:
    """The known-bias lemma. ``ratios``: the weight of every class but the first, over the first's."""
    if len(columns) == 1:
        up = columns[0] * ratios[0]
        return [up / (up + (words.number(1.0) - columns[0]))]
    parts = scaled(columns, ratios)
    whole = total(parts)
    return [x / whole for x in parts]


def scaled(columns: Sequence[Expr], ratios: Sequence[Expr]) -> list[Expr]:
    """The scores of several classes times their weights, before they are made to sum to one."""
    return [columns[0], *(x * r for x, r in zip(columns[1:], ratios, strict=True))]


def _cut(words: Words, x: Expr, cuts: Sequence[float], first: int) -> Expr:
    """A balanced tree of comparisons: a chain would overflow some engines' stacks."""
    if not cuts:
        return words.integer(first)
    middle = len(cuts) // 2
    low = _cut(words, x, cuts[:middle], first)
    high = _cut(words, x, cuts[middle + 1 :], first + middle + 1)
    return words.when(x <= words.number(cuts[middle]), low, high)


def _argmax(words: Words, proba: Sequence[Expr], bins: Sequence[Expr]) -> Expr:
    """The bin in the region of the first of the largest scores, which is found by halves."""
    if len(proba) == 1:
        return bins[0]
    middle = len(proba) // 2
    left, right = words.largest(proba[:middle]), words.largest(proba[middle:])
    halves = [_argmax(words, proba[part], bins[part]) for part in (slice(middle), slice(middle, None))]
    return words.when(left >= right, *halves)


def _node(words: Words, tree: TreeNodes, proba: Sequence[Expr], i: int, first: int) -> Expr:
    if tree.feature[i] < 0:
        return words.integer(first + tree.leaf[i])
    low = proba[tree.feature[i]] <= words.number(tree.threshold[i])
    children = (_node(words, tree, proba, child, first) for child in (tree.left[i], tree.right[i]))
    return words.when(low, *children)
