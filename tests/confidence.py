"""Predicted class × confidence, as trees: the plain partition that the default is held against."""

from __future__ import annotations

from collections.abc import Sequence

from fieldcal.core.partition import SimplexTrees
from fieldcal.core.simplex import TreeNodes


def confidence_cells(cuts: Sequence[Sequence[float]]) -> SimplexTrees:
    """``cuts[k]`` cuts the score of class ``k`` where it is the largest."""
    return SimplexTrees.of([_halved(k, list(of_class)) for k, of_class in enumerate(cuts)])


def _halved(k: int, cuts: Sequence[float]) -> TreeNodes:
    """One tree, its cuts found by halves."""
    feature, threshold, left, right, leaf = nodes = [], [], [], [], []

    def grow(low: int, high: int) -> int:
        """The node over ``cuts[low:high]``, hence over the bins ``low .. high``."""
        node, middle = len(feature), (low + high) // 2
        for column, value in zip(nodes, (-1, 0.0, -1, -1, low), strict=True):
            column.append(value)
        if low < high:
            feature[node], threshold[node], leaf[node] = k, cuts[middle], -1
            left[node], right[node] = grow(low, middle), grow(middle + 1, high)
        return node

    grow(0, len(cuts))
    return TreeNodes(*map(tuple, nodes))
