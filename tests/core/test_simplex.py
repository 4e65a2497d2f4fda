"""Trees of cuts in the regions of the predicted class, grown on the predictions alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.test_partition import lab
from fieldcal.core import simplex
from fieldcal.core.partition import Simplex, SimplexTrees
from fieldcal.core.simplex import TreeNodes


def belief(bins: np.ndarray, proba: np.ndarray) -> float:
    """What the bins say about the class that the model believes in: mutual information, in nats."""
    joint = np.array([proba[bins == j].sum(axis=0) for j in range(bins.max() + 1)]) / len(proba)
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return float((joint[joint > 0] * np.log(joint[joint > 0] / outer[joint > 0])).sum())


def test_as_many_cells_as_classes_are_the_predicted_class():
    for n_classes in (2, 3, 6):
        scores, y = lab(1, n=300, n_classes=n_classes)
        columns = scores if n_classes > 2 else np.column_stack([1 - scores, scores])
        for cells in (1, n_classes):
            partition = Simplex(cells).fit(scores, y, n_classes)
            assert partition.m == n_classes
            assert_array_equal(partition.assign(scores), columns.argmax(axis=1))


def test_cells_refine_the_predicted_class_and_a_cut_leaves_rows_on_both_sides():
    for min_rows in (1, 10, 40):
        scores, y = lab(0, n=400, n_classes=4)
        partition = Simplex(15, min_rows=min_rows).fit(scores, y, 4)
        bins, top = partition.assign(scores), scores.argmax(axis=1)
        assert 4 < partition.m <= 15
        assert np.bincount(bins, minlength=partition.m).min() >= min_rows
        first = np.array([*partition.offsets, partition.m])
        assert_array_equal(np.searchsorted(first, bins, side="right") - 1, top)


def test_more_cells_refine_the_bins_and_say_more_about_the_model_s_belief():
    for seed in range(4):
        scores, y = lab(seed, n=500, n_classes=3)
        fits = [Simplex(cells, min_rows=5).fit(scores, y, 3) for cells in range(3, 14)]
        bins = [fit.assign(scores) for fit in fits]
        assert [fit.m for fit in fits] == list(range(3, 14))
        assert np.all(np.diff([belief(b, scores) for b in bins]) > 0)
        for coarse, fine in itertools.pairwise(bins):
            assert len(np.unique(np.column_stack([coarse, fine]), axis=0)) == fine.max() + 1


def test_the_first_cut_says_most_about_the_model_s_belief_of_all():
    for seed in range(6):
        scores, y = lab(seed, n=80, n_classes=3, digits=2)
        top = scores.argmax(axis=1)
        best = max(
            belief(np.where((top == region) & (scores[:, k] > t), 3, top), scores)
            for region in range(3)
            for k in range(3)
            for t in np.unique(scores[top == region, k])[:-1]
            if 7 <= (scores[top == region, k] <= t).sum() <= (top == region).sum() - 7
        )
        cut = Simplex(4, min_rows=7).fit(scores, y, 3).assign(scores)
        assert belief(cut, scores) == pytest.approx(best, rel=1e-12)


def test_each_row_walks_from_the_root_of_its_predicted_class_to_a_leaf():
    scores, y = lab(8, n=500, n_classes=4)
    partition = Simplex(15, min_rows=5).fit(scores, y, 4)

    def walk(row: np.ndarray) -> int:
        tree, node = partition.trees[row.argmax()], 0
        while tree.feature[node] >= 0:
            low = row[tree.feature[node]] <= tree.threshold[node]
            node = tree.left[node] if low else tree.right[node]
        return partition.offsets[row.argmax()] + tree.leaf[node]

    for tree in partition.trees:
        assert sorted(leaf for leaf in tree.leaf if leaf >= 0) == list(range(tree.m))
    assert partition.m == 15
    assert_array_equal(partition.assign(scores), [walk(row) for row in scores])
    scores, y = lab(7, n=500, n_classes=3)
    partition = Simplex(10).fit(scores, y, 3)
    assert SimplexTrees.of(partition.trees) == partition
    assert sum(tree.m for tree in partition.trees) == partition.m == 10


def test_nothing_is_cut_where_the_model_believes_the_same_and_neighbouring_floats_are_told_apart():
    assert Simplex(5, min_rows=1).fit(np.full(50, 0.4), np.arange(50) % 2, 2).m == 2
    assert Simplex(9, min_rows=1).fit(np.eye(3)[np.arange(60) % 3], np.arange(60) % 3, 3).m == 3
    first, second = [0.5, 0.4, 0.1], [np.nextafter(0.5, 1), 0.1, 0.4]
    scores = np.repeat([first, second], 30, axis=0)
    partition = Simplex(4).fit(scores, np.zeros(60, dtype=int), 3)
    assert (partition.feature[0][0], partition.threshold[0][0]) == (0, 0.5)
    assert partition.assign(scores).tolist() == [0] * 30 + [1] * 30
    tree = TreeNodes((1, -1, -1), (0.5, 0.0, 0.0), (1, -1, -1), (2, -1, -1), (-1, 0, 1))
    scores = np.array([0.5, np.nextafter(0.5, 1)])
    assert tree.assign(np.column_stack([1 - scores, scores])).tolist() == [0, 1]


def test_cells_depend_neither_on_labels_nor_on_the_order_of_rows():
    scores, y = lab(3, n=300, n_classes=3)
    assert Simplex(9).fit(scores, y, 3) == Simplex(9).fit(scores, np.zeros_like(y), 3)
    for digits in (None, 2):
        for n in (80, 200, 600):
            for seed in range(4):
                scores, y = lab(seed, n=n, n_classes=4, digits=digits)
                shuffled = np.random.default_rng(seed).permutation(n)
                assert Simplex(14).fit(scores, y, 4) == Simplex(14).fit(scores[shuffled], y[shuffled], 4)


def test_the_cells_of_a_class_go_from_unsure_to_sure_and_one_never_predicted_has_one():
    scores, y = lab(5, n=2000, n_classes=3)
    partition = Simplex(12).fit(scores, y, 3)
    bins = partition.assign(scores)
    for k, (first, tree) in enumerate(zip(partition.offsets, partition.trees, strict=True)):
        means = [scores[bins == first + j, k].mean() for j in range(tree.m)]
        assert means == sorted(means)
    scores = np.random.default_rng(0).dirichlet([5, 5, 0.1], size=300)
    scores[:, 2] = 0.0
    scores /= scores.sum(axis=1, keepdims=True)
    partition = Simplex(8).fit(scores, np.zeros(300, dtype=int), 3)
    assert [tree.m for tree in partition.trees][2] == 1
    assert np.bincount(partition.assign(scores), minlength=partition.m)[-1] == 0


def test_cells_of_a_lab_with_very_many_rows_are_grown_on_a_part_of_them(monkeypatch):
    monkeypatch.setattr(simplex, "GROWN_ON", 5000)
    scores, y = lab(6, n=40_000, n_classes=3)
    part, whole = (Simplex(12).fit(scores[:n], y[:n], 3) for n in (40_000, 5000))
    rows = np.bincount(part.assign(scores), minlength=12)
    assert part.m == whole.m == 12
    assert rows.min() > 0
    assert belief(part.assign(scores), scores) == pytest.approx(
        belief(whole.assign(scores), scores), rel=0.02
    )
