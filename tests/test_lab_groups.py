"""Lab rows by group: they sum up to F, merge exactly, and survive files."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from pydantic import ValidationError

import fieldcal
from fieldcal import Lab, regression
from fieldcal.errors import InputError, TrustWarning
from fieldcal.objects.lab_groups import GroupCounts

N = 900
GROUPS = np.array(["Leeds", "York", None, "Hull"], dtype=object)[np.arange(N) % 7 % 4]
FRACTIONS = np.random.default_rng(5).uniform(0.2, 3.0, N)


@functools.cache
def rows(n_classes=2):
    more = {} if n_classes == 2 else {"p_lab": np.full(n_classes, 1 / n_classes)}
    return fieldcal.datasets.label_shift(n_lab=N, n_field=600, n_groups=6, random_state=2, **more)


def learnt(take=slice(None), *, n_classes=2, proba=None, y=None, groups=GROUPS, partition=6, **options):
    data = rows(n_classes)
    given = data.proba_lab if proba is None else proba
    known = data.y_lab if y is None else y
    options = {k: v[take] if isinstance(v, np.ndarray) else v for k, v in options.items()}
    return fieldcal.learn(
        given[take],
        known[take],
        groups=None if groups is None else groups[take],
        partition=partition,
        **options,
    )


def values(take=slice(None), **options):
    said = np.array(["pass", "fail", "unsure"], dtype=object)[np.digitize(rows().proba_lab, [0.3, 0.7])]
    y = np.array([None if i % 3 == 0 else "good" if k else "bad" for i, k in enumerate(rows().y_lab)])
    more = {"kind": "values", "design": "random", "partition": "auto", **options}
    return learnt(take, proba=said, y=y, **more)


def numbers(take=slice(None), **options):
    y = np.random.default_rng(0).normal(size=N)
    means = (y + 0.7 * np.random.default_rng(1).normal(size=N)) / 1.49
    predicted = regression.from_moments(means[take], np.full(len(means[take]), 0.57))
    return fieldcal.learn(
        predicted, y[take], groups=GROUPS[take], **{"intervals": [-0.5, 0.5], "partition": 5, **options}
    )


def given_bins(take=slice(None), **options):
    ids = np.digitize(rows().proba_lab, [0.2, 0.5, 0.8])
    return learnt(take, proba=ids, **{**options, "partition": fieldcal.partitions.Bins(4)})


KINDS = {
    "two_classes": learnt,
    "three_classes": functools.partial(learnt, n_classes=3),
    "whole_weights": functools.partial(learnt, sample_weight=np.arange(N) % 4 + 1.0),
    "values": values,
    "numbers": numbers,
    "given_bins": given_bins,
}


def shuffled(**options):
    order = np.random.default_rng(3).permutation(N)
    given = {"proba": rows().proba_lab, "y": rows().y_lab, "groups": GROUPS, **options}
    return learnt(**{k: v[order] if isinstance(v, np.ndarray) else v for k, v in given.items()})


@pytest.mark.parametrize("kind", KINDS)
def test_the_groups_of_a_lab_sum_up_to_F_and_each_is_the_lab_of_its_rows(kind):
    lab = KINDS[kind]()
    assert lab.groups == ("Hull", "Leeds", "York", None)
    counts = lab.group_counts()
    assert counts.shape == (4, *lab.F.shape)
    np.testing.assert_array_equal(counts.sum(axis=0), lab.F)
    np.testing.assert_array_equal(counts.sum(axis=(1, 2)), lab.group_rows)
    for g, key in enumerate(lab.groups):
        alone = KINDS[kind](np.flatnonzero(np.equal(GROUPS, key)), partition=lab.partition)
        np.testing.assert_array_equal(counts[g], alone.F)
        assert lab.row_of_group(key) == g
        means = alone.bin_scores.sum(axis=0) / alone.bin_scores.sum()
        if lab.partition.takes_probabilities:
            np.testing.assert_array_equal(lab.group_mean_predictions[g], means)
    if lab.partition.takes_probabilities:
        np.testing.assert_array_equal(lab.by_group.prediction_sums.sum(axis=0), lab.bin_scores.sum(axis=0))
    else:
        assert lab.by_group.prediction_sums is None
        expected = counts.sum(axis=1) @ lab.bin_predictions / lab.group_rows[:, None]
        np.testing.assert_allclose(lab.group_mean_predictions, expected, rtol=1e-12)


def test_rows_without_a_bin_or_a_weight_are_in_no_group():
    zero = np.where(np.equal(GROUPS, "Leeds"), 0.0, rows().proba_lab)
    with pytest.warns(fieldcal.errors.BinsWarning):
        lab = learnt(proba=zero, method="reference", partition="auto")
    assert lab.rehearsal.n_groups == 3
    assert lab.groups == ("Hull", "York", None)
    np.testing.assert_array_equal(lab.group_counts().sum(axis=0), lab.F)
    weight = np.where(np.equal(GROUPS, None), 0.0, FRACTIONS)
    lab = learnt(sample_weight=weight)
    assert lab.groups == ("Hull", "Leeds", "York")
    np.testing.assert_allclose(lab.group_counts().sum(axis=0), lab.F, rtol=1e-12)
    np.testing.assert_allclose(lab.effective_per_row * lab.F, lab.F_effective, rtol=1e-15)


@pytest.mark.parametrize("options", [{}, {"calibration": "sigmoid"}], ids=["plain", "calibrated"])
def test_the_order_of_rows_changes_nothing_even_with_fractional_weights_and_ties(options):
    tied = np.round(rows().proba_lab, 1)
    for weight in (None, FRACTIONS):
        given = {
            "proba": tied,
            "partition": fieldcal.partitions.Edges([0.25, 0.55]),
            "sample_weight": weight,
            **options,
        }
        assert shuffled(**given).by_group == learnt(**given).by_group


@pytest.mark.filterwarnings("ignore:Both labs were rehearsed")
@pytest.mark.parametrize("kind", KINDS)
def test_labs_add_up_group_by_group_in_any_order(kind):
    whole, places = KINDS[kind](), np.arange(N)
    parts = [
        KINDS[kind](places[start:stop], partition=whole.partition)
        for start, stop in ((0, 300), (300, 500), (500, N))
    ]
    a, b, c = parts
    for merged in (a + b + c, b + (c + a), sum([c, a, b])):
        assert merged.groups == whole.groups
        assert merged.by_group == whole.by_group


def test_groups_that_one_lab_alone_has_are_kept_and_labs_without_groups_leave_none():
    north = learnt(slice(0, 450))
    south = learnt(slice(450, N), groups=np.full(N, "Bath", dtype=object), partition=north.partition)
    both = north + south
    assert both.groups == ("Bath", *north.groups)
    np.testing.assert_array_equal(both.group_counts([0])[0], south.F)
    np.testing.assert_array_equal(both.group_counts(np.arange(1, 5)), north.group_counts())
    plain = learnt(slice(450, N), groups=None, partition=north.partition)
    assert ((north + plain).groups, (plain + north).by_group) == ((), None)


def test_files_hold_the_counts_and_a_lab_without_groups_says_nothing_of_them():
    for lab in (learnt(), learnt(sample_weight=FRACTIONS), values()):
        again = Lab.from_json(lab.to_json())
        assert again.to_json() == lab.to_json()
        np.testing.assert_array_equal(again.group_counts(), lab.group_counts())
        np.testing.assert_array_equal(again.group_mean_predictions, lab.group_mean_predictions)
    older = Lab.from_json(learnt().model_copy(update={"by_group": None}).to_json())  # as files were before
    assert (older.groups, older.group_rows.tolist()) == (learnt().groups, [0.0] * 4)
    rates = Lab.from_rates(sensitivity=0.9, specificity=0.8, n=(50, 60))
    for plain in (learnt(groups=None), rates):
        assert not {"groups", "by_group"} & set(json.loads(plain.to_json())["content"])
        assert plain.group_counts().shape == (0, *plain.F.shape)
        assert plain.row_of_group("Leeds") == -1


def test_counts_that_do_not_fit_the_lab_are_refused():
    lab = learnt()
    fields = {name: getattr(lab, name) for name in Lab.model_fields}
    cells, counts = lab.by_group.cells, lab.by_group.rows
    with pytest.raises(ValidationError, match="ascending"):
        GroupCounts(cells=cells[::-1], rows=counts)
    with pytest.raises(ValidationError, match="rows has shape"):
        GroupCounts(cells=cells, rows=counts[1:])
    for wrong in (
        GroupCounts(cells=cells + 48, rows=counts),
        GroupCounts(cells=cells, rows=counts, prediction_sums=np.ones((3, 2))),
    ):
        with pytest.raises(ValidationError, match="by_group"):
            Lab(**{**fields, "by_group": wrong})
    with pytest.raises(InputError, match="positions from -1 to 3"):
        lab.group_counts([4])


def test_some_groups_are_read_without_the_others():
    n = 20_000
    rng = np.random.default_rng(0)
    proba = rng.random(n)
    y, groups = (rng.random(n) < proba).astype(int), rng.integers(0, n // 3, n)
    lab = fieldcal.learn(proba, y, groups=groups)
    assert len(lab.by_group.cells) <= n
    chosen = [lab.row_of_group(int(groups[7])), -1, 0, 0]
    expected = np.zeros((4, *lab.F.shape))
    for i, key in ((0, groups[7]), (2, groups.min()), (3, groups.min())):
        np.add.at(expected[i], (y[groups == key], lab.partition.assign(proba[groups == key])), 1)
    np.testing.assert_array_equal(lab.group_counts(chosen), expected)


def test_groups_of_a_row_each_are_counted_though_nothing_is_rehearsed():
    with pytest.warns(TrustWarning, match="fewer than two each"):
        lab = learnt(groups=np.arange(N))
    assert lab.rehearsal is None
    assert lab.groups == tuple(range(N))
    np.testing.assert_array_equal(lab.group_rows, 1)


# Labelled rows of the field


def field_of(lab, groups, design, chosen=slice(None, None, 3)):
    y = np.full(600, np.nan)
    y[chosen] = rows().y_field[chosen]
    return fieldcal.count(lab, rows().proba_field, y=y, groups=groups, design=design)


NEW = np.array(["Bath", "York", None], dtype=object)[np.arange(600) % 3 % 2 + np.arange(600) % 5 // 4]


def test_random_labels_join_their_groups_and_bring_new_ones():
    lab, data = learnt(), rows()
    new = lab.extended(field_of(lab, NEW, "random"))
    taken = slice(None, None, 3)
    both = fieldcal.learn(
        np.concatenate([data.proba_lab, data.proba_field[taken]]),
        np.concatenate([data.y_lab, data.y_field[taken]]),
        groups=np.concatenate([GROUPS, NEW[taken]]),
        partition=lab.partition,
    )
    assert new.groups == both.groups
    np.testing.assert_array_equal(new.group_counts(), both.group_counts())
    assert new.by_group.rows.dtype == np.int64
    np.testing.assert_allclose(new.group_mean_predictions, both.group_mean_predictions, atol=0.05)
    untouched = new.row_of_group("Leeds"), lab.row_of_group("Leeds")
    np.testing.assert_array_equal(
        new.group_mean_predictions[untouched[0]], lab.group_mean_predictions[untouched[1]]
    )
    assert Lab.from_json(new.to_json()) == new


def test_labels_chosen_by_score_join_their_groups_as_they_join_F():
    lab = learnt()
    new = lab.extended(field_of(lab, NEW, "by_score"))
    np.testing.assert_allclose(new.group_counts().sum(axis=0), new.F, rtol=1e-12)
    top = np.flatnonzero(lab.partition.assign(rows().proba_field) == 5)
    new = lab.extended(field_of(lab, NEW, "by_score", top))
    rest = new.F - new.group_counts().sum(axis=0)
    np.testing.assert_allclose(rest[:, 5], 0, atol=1e-9)
    assert (rest[:, :5] > 0).all(), "rows that stand for bins without a label are of no group"


def test_labels_chosen_by_class_leave_the_shares_of_classes_in_groups_as_they_were():
    lab = learnt()
    ones = np.flatnonzero(rows().y_field == 1)[:60]
    new = lab.extended(field_of(lab, NEW, "by_class", ones))
    kept = [new.row_of_group(key) for key in lab.groups]
    np.testing.assert_array_equal(new.group_counts(kept), lab.group_counts())
    np.testing.assert_allclose(new.group_counts().sum(axis=(0, 2)), new.F.sum(axis=1), rtol=1e-12)


def test_a_lab_chosen_by_class_takes_labels_chosen_by_class_into_its_groups():
    lab = values(design="by_class")
    said = np.array(["pass", "fail", "unsure"], dtype=object)[np.digitize(rows().proba_field, [0.3, 0.7])]
    y = [("good" if k else "bad") if i % 4 == 0 else None for i, k in enumerate(rows().y_field)]
    new = lab.extended(fieldcal.count(lab, said, y=y, groups=NEW, design="by_class"))
    np.testing.assert_allclose(new.group_counts().sum(axis=0), new.F, rtol=1e-12)


def test_labels_of_one_population_are_lab_rows_of_no_group():
    lab = learnt()
    new = lab.extended(field_of(lab, None, "random"))
    assert new.groups == lab.groups
    np.testing.assert_array_equal(new.group_counts(), lab.group_counts())
    assert new.F.sum() == lab.F.sum() + 200
    plain = learnt(groups=None)
    assert plain.extended(field_of(plain, NEW, "random")).by_group is None
