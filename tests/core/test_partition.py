from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings
from numpy.testing import assert_array_equal

from confidence import confidence_cells
from fieldcal.core.partition import (
    Bins,
    Edges,
    Expected,
    ExpectedEdges,
    Quantiles,
    Simplex,
    cut,
    default_recipe,
    fit_partition,
    quantile_cuts,
)
from fieldcal.core.simplex import TreeNodes
from fieldcal.errors import InputError, InputTypeError

relaxed = settings(deadline=None, derandomize=True, max_examples=60)

unit = st.floats(0, 1)
few_values = st.sampled_from([0.0, 1e-320, 0.1, 0.25, 0.5, 0.7, 1 - 2**-53, 1.0])
scores_1d = st.lists(unit | few_values, min_size=1, max_size=60).map(np.array)
#: Anything that looks at lab predictions to make bins, for two classes.
RECIPES = [Quantiles(4), Quantiles(7), Simplex(2), Simplex(6), Simplex(6, min_rows=8), Simplex(7, min_rows=4)]


def lab(seed: int, n: int = 120, n_classes: int = 2, digits: int | None = None):
    """Scores and labels; fewer digits make more ties."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), n)
    y = (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, n_classes - 1)
    y[:n_classes] = np.arange(n_classes)
    if digits is not None:
        proba = np.round(proba, digits)
        proba[:, -1] = 1 - proba[:, :-1].sum(axis=1)
    return (proba[:, 1] if n_classes == 2 else proba), y


@relaxed
@given(st.lists(unit, min_size=1, max_size=45, unique=True).map(sorted), st.data())
def test_a_score_is_in_the_bin_whose_right_edge_is_the_first_not_below_it(edges, data):
    near = [f(e) for e in edges for f in (float, lambda e: np.nextafter(e, 0), lambda e: np.nextafter(e, 1))]
    scores = np.array([0.0, 1.0, *data.draw(st.lists(unit | st.sampled_from(near), max_size=30))])
    ends = [*(e for e in edges if 0 < e < 1), 1.0]
    expected = [next(j for j, right in enumerate(ends) if s <= right) for s in scores]
    assert_array_equal(Edges(edges).assign(scores), expected)


def test_counting_cuts_and_searching_them_give_the_same_bins_on_long_columns():
    for n_cuts in (1, 32, 33, 300):
        cuts = np.arange(1, n_cuts + 1) / (n_cuts + 1)
        scores = np.concatenate([cuts, np.random.default_rng(0).random(140_000), [0.0, 1.0]])
        bins = cut(scores, cuts)
        assert bins.dtype == np.intp
        assert_array_equal(bins, np.searchsorted(cuts, scores, side="left"))


def test_edges_may_leave_out_the_ends_of_the_scale_and_must_increase():
    for ends in ([0, 0.2, 0.5, 1], [0.2, 0.5, 1], [0, 0.2, 0.5]):
        assert Edges(ends) == Edges([0.2, 0.5])
    for edges in ([0.5, 0.2], [0.2, 0.2], [1, 0.5, 0], [0.5, 0], [-0.1], [1.1], [np.nan]):
        with pytest.raises(InputError, match="Edges must"):
            Edges(edges)
    partition = Edges([5e-324, 0.5, 1 - 2**-53])
    assert partition.assign(np.array([0.0, 1.0])).tolist() == [0, partition.m - 1]


def test_two_columns_are_cut_by_the_second_and_three_classes_refused():
    scores, y = lab(0)
    columns = np.column_stack([1 - scores, scores])
    assert_array_equal(Edges([0.3, 0.6]).assign(columns), Edges([0.3, 0.6]).assign(scores))
    assert Quantiles(5).fit(columns, y, 2) == Quantiles(5).fit(scores, y, 2)
    scores, y = lab(0, n_classes=3)
    with pytest.raises(InputError, match="3 classes"):
        Edges([0.5]).assign(scores)
    with pytest.raises(InputError, match="3 classes"):
        Quantiles(4).fit(scores, y, 3)


@relaxed
@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 1000))
def test_quantile_bins_are_the_papers_when_they_divide_the_rows(m, per_bin, seed):
    n = m * per_bin
    scores = np.random.default_rng(seed).permutation(np.linspace(0.01, 0.99, n))
    # The paper's equation: (i − 1)/m < P(C ≤ score) ≤ i/m, in whole numbers.
    rank = np.argsort(np.argsort(scores)) + 1
    bins = Quantiles(m).fit(scores, np.zeros(n, dtype=int), 2).assign(scores)
    assert_array_equal(bins, -(-m * rank // n) - 1)
    assert_array_equal(np.bincount(bins, minlength=m), per_bin)


@relaxed
@given(st.integers(2, 12), st.integers(0, 80), st.integers(0, 1000))
def test_each_quantile_cut_is_at_most_one_row_from_its_share(m, more, seed):
    n = m + more
    scores = np.random.default_rng(seed).random(n)
    below = (scores[:, None] <= quantile_cuts(scores, m)).sum(axis=0)
    assert below.shape == (m - 1,)
    assert np.all(np.abs(below - n * np.arange(1, m) / m) <= 1)


@relaxed
@given(scores_1d, st.integers(1, 10))
@example(np.array([1.0]), 2)
@example(np.array([0.0, 0.0]), 3)
def test_ties_merge_so_that_no_bin_is_without_lab_rows(scores, m):
    partition = Quantiles(m).fit(scores, np.zeros(len(scores), dtype=int), 2)
    assert partition.m <= m
    assert np.bincount(partition.assign(scores), minlength=partition.m).min() > 0


def test_a_cut_between_exact_zeros_and_the_rest_survives_the_merging_of_ties():
    scores = np.array([0.0, 0.0, 0.0, 0.4, 0.6])
    bins = Quantiles(8).fit(scores, np.zeros(5, dtype=int), 2).assign(scores)
    assert bins.tolist() == [0, 0, 0, 1, 2]


def test_a_weight_of_two_is_the_row_twice():
    for recipe in RECIPES:
        for seed in range(8):
            scores, y = lab(seed, digits=None if seed % 2 else 2)
            weight = np.random.default_rng(seed).integers(1, 4, len(y))
            often = np.repeat(np.arange(len(y)), weight)
            weighted = recipe.fit(scores, y, 2, weight=weight.astype(float))
            assert_array_equal(
                weighted.assign(scores)[often], recipe.fit(scores[often], y[often], 2).assign(scores[often])
            )
    for recipe in (Simplex(3), Simplex(9, min_rows=3)):
        scores, y = lab(5, n_classes=3)
        weight = np.random.default_rng(5).integers(0, 4, len(y))
        often = np.repeat(np.arange(len(y)), weight)
        weighted = recipe.fit(scores, y, 3, weight=weight.astype(float))
        assert_array_equal(
            weighted.assign(scores)[often], recipe.fit(scores[often], y[often], 3).assign(scores[often])
        )


@relaxed
@given(scores_1d, st.integers(2, 9), st.data())
def test_weighted_quantiles_are_those_of_the_repeated_rows(scores, m, data):
    weight = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(scores), max_size=len(scores))))
    weight[0] += 1
    assert_array_equal(
        quantile_cuts(scores, m, weight.astype(float)), quantile_cuts(np.repeat(scores, weight), m)
    )


def test_unit_weights_are_no_weights_and_rows_without_weight_are_dropped():
    for recipe in RECIPES:
        scores, y = lab(3)
        assert recipe.fit(scores, y, 2, weight=np.ones(len(y))) == recipe.fit(scores, y, 2)
    for recipe in (*RECIPES, "auto"):
        for fractions in (False, True):
            for seed in range(4):
                rng = np.random.default_rng(seed)
                scores, y = lab(seed)
                weight = rng.random(len(y)) * 3 if fractions else rng.integers(1, 3, len(y)).astype(float)
                weight[scores > 0.6] = 0.0
                weight[rng.random(len(y)) < 0.3] = 0.0
                used = weight > 0
                assert fit_partition(recipe, scores, y, 2, weight=weight) == fit_partition(
                    recipe, scores[used], y[used], 2, weight=weight[used]
                )


def test_fractional_weights_put_an_equal_share_of_the_weight_in_each_quantile_bin():
    for seed in range(5):
        scores, y = lab(seed, n=400)
        weight = np.random.default_rng(seed).random(400)
        bins = Quantiles(5).fit(scores, y, 2, weight=weight).assign(scores)
        shares = np.bincount(bins, weights=weight) / weight.sum()
        assert np.all(np.abs(shares - 0.2) <= 2 * weight.max() / weight.sum())
        assert Quantiles(5).fit(scores, y, 2, weight=weight / 7).assign(scores).tolist() == bins.tolist()


def test_cuts_of_the_confidence_are_right_closed_and_few_rows_get_fewer_cells():
    partition = confidence_cells(((0.5,), (), (0.6, 0.8)))
    assert (partition.m, partition.offsets) == (6, (0, 2, 3))
    scores = np.array(
        [[0.5, 0.3, 0.2], [0.51, 0.3, 0.19], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.1, 0.2, 0.7], [0, 0, 1.0]]
    )
    assert partition.assign(scores).tolist() == [0, 1, 2, 3, 4, 5]
    scores = np.vstack([np.tile([0.7, 0.2, 0.1], (45, 1)), np.tile([0.1, 0.7, 0.2], (15, 1))])
    scores += np.linspace(0, 0.05, 60)[:, None] * np.array([1, -1, 0])
    partition = Simplex(12, min_rows=20).fit(scores, np.zeros(60, dtype=int), 3)
    assert [tree.m for tree in partition.trees] == [2, 1, 1]


def test_a_binary_score_and_its_two_columns_share_the_bins_and_regions_of_three_refuse_it():
    for recipe in (Simplex(2), Simplex(5)):
        scores, y = lab(2)
        columns = np.column_stack([1 - scores, scores])
        assert recipe.fit(scores, y, 2) == recipe.fit(columns, y, 2)
        assert_array_equal(recipe.fit(scores, y, 2).assign(scores), recipe.fit(columns, y, 2).assign(columns))
    with pytest.raises(InputError, match="3 classes, but the predictions have 2"):
        Simplex(3).fit(*lab(0, n_classes=3), 3).assign(np.array([0.2]))


def test_given_bin_ids_are_the_bins_and_others_are_refused():
    ids = np.array([2, 0, 1, 2], dtype=np.uint8)
    assert Bins(3).fit(ids, ids, 2).assign(ids).tolist() == [2, 0, 1, 2]
    for ids in (np.array([0, 3]), np.array([-1, 0])):
        with pytest.raises(InputError, match=r"0 \.\. 2"):
            Bins(3).assign(ids)
    for ids in (np.array([0.0, 1.0]), np.array([[0], [1]]), np.array(["0"])):
        with pytest.raises(InputTypeError, match="bin ids"):
            Bins(3).assign(ids)


@pytest.mark.parametrize(
    ("n_classes", "ordered", "recipe"),
    [
        (2, False, Quantiles(8)),
        (2, True, Quantiles(8)),
        (3, False, Simplex(8, min_rows=1)),
        (3, True, Expected(8)),
        (5, False, Simplex(8, min_rows=1)),
        (5, True, Expected(8)),
    ],
)
def test_a_number_is_that_many_bins_for_any_number_of_classes(n_classes, ordered, recipe):
    for number in (8, np.int64(8)):
        scores, y = lab(0, n_classes=n_classes)
        partition = fit_partition(number, scores, y, n_classes, ordered=ordered)
        assert partition == recipe.fit(scores, y, n_classes)
        assert partition.m == 8
        assert np.unique(partition.assign(scores)).tolist() == list(range(8))


def test_fewer_bins_than_classes_are_refused_unless_the_classes_have_an_order():
    for n_classes, number in ((3, 1), (3, 2), (5, 4), (9, 8)):
        scores, y = lab(0, n_classes=n_classes)
        with pytest.raises(InputError, match=f"partition={number} .*{n_classes} classes.* at least"):
            fit_partition(number, scores, y, n_classes)
        assert fit_partition(number, scores, y, n_classes, ordered=True).m == number
        regions = fit_partition(n_classes, scores, y, n_classes)
        assert_array_equal(regions.assign(scores), scores.argmax(axis=1))


def test_numbers_that_count_no_bins_are_refused():
    for n_classes in (2, 3, 5):
        for ordered in (False, True):
            for number in (0, -1):
                scores, y = lab(0, n_classes=n_classes)
                with pytest.raises(InputError, match="at least"):
                    fit_partition(number, scores, y, n_classes, ordered=ordered)
    for recipe in (Quantiles, Simplex, Expected, Bins):
        for wrong in (0, -1, 2.5, True, "3"):
            with pytest.raises(InputError, match=r"^\w+\(\w+=…\) must be a whole number of at least 1"):
                recipe(wrong)


def test_a_fitted_partition_stands_for_itself_and_anything_else_is_refused():
    for fitted in (Edges([0.5]), confidence_cells(((), ())), ExpectedEdges((0.0, 1.0), (0.5,)), Bins(2)):
        assert fit_partition(fitted, np.array([0, 1]), np.array([0, 1]), 2) is fitted
    tree = TreeNodes((-1,), (0.0,), (-1,), (-1,), (0,))
    for wrong in ("quantiles", None, True, 2.0, [0.2, 0.5], np.array([0.2, 0.5]), tree):
        scores, y = lab(0)
        with pytest.raises(InputTypeError, match="partition must be"):
            fit_partition(wrong, scores, y, 2)


def test_the_default_has_more_bins_the_more_rows_and_some_to_test_the_assumption_with():
    for rarest in (2, 10, 30, 100, 1000, 10**6):
        bins = [default_recipe(np.array([10**6, rows])).n for rows in (rarest, 2 * rarest)]
        assert 4 <= bins[0] <= bins[1] <= 8
    assert default_recipe(np.array([5, 3])) == Quantiles(4)
    assert default_recipe(np.array([10**5, 10**5])) == Quantiles(8)
    for n_classes in (3, 5, 8, 20):
        recipe = default_recipe(np.full(n_classes, 1000))
        assert isinstance(recipe, Simplex)
        assert recipe.cells >= n_classes + 2
    for n_classes in (3, 5, 12, 26):
        cells = [default_recipe(np.full(n_classes, rows)).cells for rows in (5, 100, 500, 10**6)]
        assert cells == sorted(cells)
        assert cells[0] == 2 * n_classes
        assert cells[-1] <= 6 * n_classes
