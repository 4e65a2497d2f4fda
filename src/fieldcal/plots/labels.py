"""Bins and classes in words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np

from fieldcal import keys
from fieldcal.artefacts import sealed
from fieldcal.core.partition import Edges
from fieldcal.core.trees import SimplexTrees
from fieldcal.objects import Lab, Support

NAME_WIDTH = 28
_IN_BIN = 12  # a class name inside the label of a bin
_MOST_DIGITS = 17  # enough to tell any two floats apart


def names(given: Sequence[Hashable]) -> list[str]:
    """Group or class keys for people, short and on one line; an empty text is seen as such."""
    return [keys.show(key, width=NAME_WIDTH).strip() or '""' for key in given]


def class_labels(lab: Lab) -> list[str]:
    """The classes under an axis; intervals with as few digits as keep their ends apart, three at least."""
    if lab.support is None:
        return names(lab.classes)
    points = lab.support.points
    for digits in range(3, _MOST_DIGITS + 1):
        short = np.array([float(f"{x:.{digits}g}") for x in points])
        if len(np.unique(short)) == len(np.unique(points)):
            break
    return list(Support(points=sealed(short), before=lab.support.before).labels)


def bin_labels(lab: Lab) -> list[str]:
    """One short label per bin of the lab's partition."""
    partition = lab.partition
    if isinstance(partition, Edges):
        ends = _numbers([0.0, *partition.edges, 1.0])
        return [f"{low}–{high}" for low, high in pairwise(ends)]
    if isinstance(partition, SimplexTrees):
        return [
            f"{keys.show(name, width=_IN_BIN)} {j + 1}"  # from unsure to sure
            for name, tree in zip(lab.classes, partition.trees, strict=True)
            for j in range(tree.m)
        ]
    return [f"bin {j + 1}" for j in range(lab.n_bins)]


def _numbers(ends: Sequence[float]) -> list[str]:
    """As few digits as keep neighbours apart, two at least."""
    texts: list[str] = []
    for digits in range(2, _MOST_DIGITS + 1):
        texts = [f"{end:.{digits}g}" for end in ends]
        if len(set(texts)) == len(texts):
            break
    return texts
