"""Which rows to label: as many as asked for, none twice, the same in any order, and better than random ones."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fieldcal
from fieldcal.errors import InputError


@functools.cache
def world(n_groups=1, n_classes=2):
    p_lab = np.full(n_classes, 1 / n_classes)
    data = fieldcal.datasets.label_shift(
        n_lab=2000, n_field=1500, n_groups=max(n_groups, 2), p_lab=p_lab, random_state=0
    )
    groups = data.groups_field if n_groups > 1 else None
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    return data, groups, fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=groups))


CASES = pytest.mark.parametrize(("n_groups", "n_classes"), [(1, 2), (5, 2), (1, 3), (5, 3)])


@CASES
def test_as_many_rows_as_asked_for_and_none_twice(n_groups, n_classes):
    for n in (1, 40, 1500):
        data, groups, prev = world(n_groups, n_classes)
        rows = fieldcal.rows_to_label(prev, data.proba_field, n, groups=groups)
        assert len(rows) == len(set(rows.tolist())) == n
        assert (np.diff(rows) > 0).all()


@CASES
def test_the_order_of_the_rows_does_not_matter(n_groups, n_classes):
    data, groups, prev = world(n_groups, n_classes)
    order = np.random.default_rng(0).permutation(1500)
    shuffled = None if groups is None else groups[order]
    there = fieldcal.rows_to_label(prev, data.proba_field[order], 60, groups=shuffled)
    here = fieldcal.rows_to_label(prev, data.proba_field, 60, groups=groups)
    assert np.sort(order[there]).tolist() == here.tolist()


def test_the_same_seed_gives_the_same_rows_and_another_one_others():
    data, groups, prev = world(5)
    first, again, other = (
        fieldcal.rows_to_label(prev, data.proba_field, 60, groups=groups, random_state=seed)
        for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist() != other.tolist()
    with pytest.raises(InputError, match="pass groups"):
        fieldcal.rows_to_label(prev, data.proba_field, 10)
    gaps = data.proba_field.copy()
    gaps[::2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        fieldcal.rows_to_label(prev, gaps, 10, groups=groups)
    chosen = fieldcal.rows_to_label(prev, gaps, 700, groups=groups, missing="drop")
    assert (chosen % 2 == 1).all()


def test_rows_with_a_label_are_not_chosen_again_and_groups_that_have_many_get_fewer():
    data, groups, prev = world(5)
    y = np.where((groups == 0) & (np.arange(1500) % 3 > 0), data.y_field, np.nan)
    known = fieldcal.estimate(prev.lab, fieldcal.count(prev.lab, data.proba_field, groups=groups, y=y))
    rows = fieldcal.rows_to_label(known, data.proba_field, 100, groups=groups, y=y)
    assert np.isnan(y[rows]).all()
    before = fieldcal.rows_to_label(prev, data.proba_field, 100, groups=groups)
    assert (groups[rows] == 0).sum() < (groups[before] == 0).sum()


def test_more_rows_than_there_are_without_a_label_are_refused():
    data, _, prev = world()
    y = np.where(np.arange(1500) < 1400, data.y_field, np.nan)
    assert (fieldcal.rows_to_label(prev, data.proba_field, 100, y=y) == np.arange(1400, 1500)).all()
    with pytest.raises(
        InputError, match="n is 101, but there are 100 rows with a prediction and without a label"
    ):
        fieldcal.rows_to_label(prev, data.proba_field, 101, y=y)


def test_chosen_rows_spread_over_the_predictions_of_every_bin():
    data, _, prev = world()
    rows = fieldcal.rows_to_label(prev, data.proba_field, 300)
    bins = prev.lab.partition.assign(data.proba_field)
    for j in range(prev.lab.n_bins):
        mine, chosen = data.proba_field[bins == j], data.proba_field[rows][bins[rows] == j]
        assert abs(mine.mean() - chosen.mean()) < 2 * np.ptp(mine) / len(chosen)


@pytest.mark.slow
def test_chosen_rows_beat_random_ones_on_average():
    data, _, prev = world()
    truth, rng = data.y_field.mean(), np.random.default_rng(0)

    def error(rows):
        y = np.full(1500, np.nan)
        y[rows] = data.y_field[rows]
        field = fieldcal.count(prev.lab, data.proba_field, y=y, design="by_score")
        return (fieldcal.estimate(prev.lab, field).whole.estimate[1] - truth) ** 2

    chosen = [error(fieldcal.rows_to_label(prev, data.proba_field, 150, random_state=s)) for s in range(30)]
    random = [error(rng.choice(1500, 150, replace=False)) for _ in range(30)]
    assert np.mean(chosen) < np.mean(random)
