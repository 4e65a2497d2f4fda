from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fieldcal.core.response import (
    auto_smoothing,
    conditioning,
    confusable_classes,
    count_cells,
    response_counts,
    response_matrix,
    smoothing_cells,
    whole,
)

SPARSE = np.array([[5, 0, 0, 2], [0, 9, 0, 1], [3, 3, 0, 0]])


def rows(seed: int, n: int = 200):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n), rng.integers(0, 3, n)


def test_counts_are_rows_or_weights_per_class_and_bin():
    bins, y = rows(0)
    F = response_counts(bins, y, n_classes=3, n_bins=5)
    assert F.dtype == np.int64
    assert_array_equal(F, [[((y == i) & (bins == j)).sum() for j in range(5)] for i in range(3)])
    bins, y = rows(1)
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = response_counts(bins, y, n_classes=3, n_bins=4, weight=weight.astype(float))
    twice = response_counts(np.repeat(bins, weight), np.repeat(y, weight), n_classes=3, n_bins=4)
    assert weighted.dtype == np.int64
    assert_array_equal(weighted, twice)
    cells = count_cells(
        np.array([0, 0, 1]), np.array([1, 1, 0]), shape=(2, 2), weight=np.array([0.5, 0.25, 2])
    )
    assert_allclose(cells, [[0, 0.75], [2, 0]], rtol=0, atol=0)
    assert whole(np.array([2.0**53 - 1])).dtype == np.int64
    assert whole(np.array([2.0**53])).dtype == np.float64
    assert whole(np.array([1.5])).dtype == np.float64


def test_the_response_goes_from_the_shares_of_each_class_to_those_of_the_lab():
    assert_allclose(
        response_matrix(SPARSE, smoothing=0), SPARSE / SPARSE.sum(axis=1, keepdims=True), rtol=0, atol=0
    )
    pooled = SPARSE.sum(axis=0) / SPARSE.sum()
    M = response_matrix(SPARSE, smoothing=1e12)
    assert_allclose(M, np.tile(0.5 * pooled + 0.125, (3, 1)), rtol=1e-9)
    M = SPARSE / SPARSE.sum(axis=1, keepdims=True)
    distance = [np.abs(response_matrix(SPARSE * k, smoothing=1.0) - M).max() for k in (1, 10, 100)]
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 2e-3


def test_smoothing_leaves_no_cell_empty_and_adds_its_number_of_rows_to_each_class():
    for smoothing in (1e-6, 1.0, 50.0):
        M = response_matrix(SPARSE, smoothing=smoothing)
        assert M.min() > 0
        assert_allclose(M.sum(axis=1), 1, rtol=1e-14)
    for F in (SPARSE, SPARSE[:2], np.array([[1, 0], [0, 1]])):
        assert 0 < auto_smoothing(F) <= 0.5 * F.shape[1]
        assert response_matrix(F, smoothing=auto_smoothing(F)).min() > 0
    cells = smoothing_cells(SPARSE, 3.0)
    assert_allclose(cells.sum(axis=1), 3.0, rtol=1e-14)
    counts = SPARSE + cells
    assert_allclose(response_matrix(SPARSE, smoothing=3.0), counts / counts.sum(axis=1, keepdims=True))


def test_conditioning_is_that_of_numpy_and_none_where_mixtures_are_not_told_apart():
    M = np.random.default_rng(0).dirichlet(np.ones(6), 4)
    quality = conditioning(M)
    assert quality.full_rank
    assert quality.rank == np.linalg.matrix_rank(M)
    assert_allclose(quality.condition_number, np.linalg.cond(M))
    assert_allclose(quality.smallest_singular_value, np.linalg.svd(M)[1].min())
    for M in (
        np.array([[0.5, 0.5, 0], [0.2, 0.2, 0.6], [0.35, 0.35, 0.3]]),
        np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]),
        np.array([[1.0], [1.0]]),
    ):
        quality = conditioning(M)
        assert not quality.full_rank
        assert quality.rank < len(M)
        assert quality.condition_number == np.inf
        assert quality.smallest_singular_value == pytest.approx(0, abs=1e-15)
    M = np.array([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5], [0.1, 0.9 + 1e-9]])
    assert (confusable_classes(M), confusable_classes(M[:2])) == ([(0, 2), (1, 3)], [])
