"""The next lab: Lab + Lab is the lab of all rows, and labelled field rows become lab rows for what they are worth."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import fieldcal
from fieldcal import Lab, regression, tables
from fieldcal.errors import InputError, TrustWarning

#: Everything of a lab that adds up.
SUMS = ("F", "weight_squares", "bin_scores", "decisions", "loss", "left_out")
DERIVED = ("M", "A", "p_lab", "n_effective", "bin_means", "confusion", "miscalibration")


@functools.cache
def rows(n=900, n_classes=2):
    more = {} if n_classes == 2 else {"p_lab": np.full(n_classes, 1 / n_classes)}
    return fieldcal.datasets.label_shift(n_lab=n, n_field=600, n_groups=6, random_state=2, **more)


def learnt(take, partition, n_classes=2, **options):
    data = rows(n_classes=n_classes)
    options = {
        name: value[take] if isinstance(value, np.ndarray) else value for name, value in options.items()
    }
    return fieldcal.learn(data.proba_lab[take], data.y_lab[take], partition=partition, **options)


def numbers(take, partition=None):
    rng = np.random.default_rng(0)
    y = rng.normal(size=900)
    means = (y + 0.7 * rng.normal(size=900)) / 1.49
    predicted = regression.from_moments(means[take], np.full(len(means[take]), 0.57))
    return fieldcal.learn(predicted, y[take], intervals=[-0.5, 0.5], partition=partition or "auto")


def given_bins(take, partition=None):
    data = rows()
    bins = np.digitize(data.proba_lab, [0.2, 0.5, 0.8])
    return fieldcal.learn(bins[take], data.y_lab[take], partition=fieldcal.partitions.Bins(4))


def with_zeros(take, partition=None):
    data = rows()
    scores = np.where(data.proba_lab < 0.1, 0.0, data.proba_lab)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fieldcal.learn(
            scores[take], data.y_lab[take], method="reference", partition=partition or "auto"
        )


KINDS = {
    "two_classes": lambda take, partition=None: learnt(take, partition or 6),
    "three_classes": lambda take, partition=None: learnt(take, partition or 6, n_classes=3),
    "ordered_classes": lambda take, partition=None: learnt(take, partition or 6, 3, ordered=True),
    "whole_weights": lambda take, partition=None: learnt(
        take, partition or 6, sample_weight=np.arange(900) % 4 + 1.0
    ),
    "numbers": numbers,
    "given_bins": given_bins,
    "zeros_left_out": with_zeros,
}


def thirds(kind):
    """The lab of all rows, and of each third of them, with the same bins."""
    whole = KINDS[kind](slice(None))
    places = np.arange(900)
    return whole, [KINDS[kind](places % 3 == i, whole.partition) for i in range(3)]


def assert_same_sums(one, two):
    for name in SUMS:
        mine, its = getattr(one, name), getattr(two, name)
        assert (mine is None) == (its is None), name
        if mine is not None:
            np.testing.assert_array_equal(mine, its, err_msg=name)
            assert mine.dtype == its.dtype, name


# Lab + Lab


def test_labs_of_parts_add_up_to_the_lab_of_all_rows_to_the_last_byte():
    for kind in KINDS:
        whole, (a, b, c) = thirds(kind)
        assert_same_sums(a + b + c, whole)
        expected = whole.to_json()
        assert all(other.to_json() == expected for other in (a + b + c, b + (c + a), sum([c, a, b])))
        assert Lab.from_json(expected) == a + b + c


def test_fractions_of_weights_add_up_but_for_rounding():
    weight = np.random.default_rng(0).uniform(0.2, 3.0, 900)
    whole = learnt(slice(None), 6, sample_weight=weight)
    places = np.arange(900)
    merged = sum(learnt(places % 3 == i, whole.partition, sample_weight=weight) for i in range(3))
    for name in (*SUMS[:-1], *DERIVED):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-12, atol=1e-15)
    assert (merged.log_loss, merged.accuracy) == pytest.approx((whole.log_loss, whole.accuracy), rel=1e-12)


def rehearsed(n_rows, seed):
    data = fieldcal.datasets.label_shift(n_lab=n_rows, n_groups=6, random_state=seed)
    return fieldcal.learn(
        data.proba_lab, data.y_lab, groups=data.groups_lab, partition=fieldcal.partitions.Edges([0.3, 0.6])
    )


def test_the_larger_rehearsal_is_kept_in_any_order():
    small, large, as_large = rehearsed(400, 0), rehearsed(800, 1), rehearsed(800, 2)
    plain = learnt(slice(None), fieldcal.partitions.Edges([0.3, 0.6]))
    with pytest.warns(TrustWarning, match="Both labs were rehearsed, with 400 and 800 rows"):
        merged = small + large
    for each in (merged, large + plain, plain + large):
        for name in ("rehearsal", "homogeneity", "bias", "bias_groups"):
            assert each.content()[name] == large.content()[name]
    with pytest.warns(TrustWarning):
        assert (small + large + as_large + plain).to_json() == (plain + as_large + (large + small)).to_json()


def test_names_of_columns_are_kept_where_one_lab_has_them():
    data = rows()
    frame = pd.DataFrame({"p": data.proba_lab, "y": data.y_lab})
    edges = fieldcal.partitions.Edges([0.3, 0.6])
    named = tables.learn(frame, scores="p", label="y", partition=edges)
    plain = learnt(slice(None), edges)
    assert (named + plain).columns == (plain + named).columns == named.columns
    other = tables.learn(frame.rename(columns={"p": "q"}), scores="q", label="y", partition=edges)
    with pytest.raises(InputError, match="columns of different names"):
        named + other


def test_labs_that_do_not_belong_together_are_refused():
    for other, words in (
        (lambda: learnt(slice(None), 4), "different bins, 6 and 4"),
        (lambda: learnt(slice(0, 800), 6), "Learn the second with partition"),
        (lambda: learnt(slice(None), 6, n_classes=3), "have different outcomes"),
        (lambda: learnt(slice(None), 6, smoothing=1.0), "smoothed by 3 and 1 rows"),
        (lambda: numbers(slice(None)), "have different outcomes"),
    ):
        with pytest.raises(InputError, match=words):
            learnt(slice(None), 6) + other()


# Labelled rows of the field


def field_of(lab, y=None, take=slice(None), **options):
    data = rows()
    given = data.y_field if y is None else y
    return fieldcal.count(lab, data.proba_field[take], y=given[take], **options)


def test_rows_of_a_random_sample_are_lab_rows():
    data, lab, weight = rows(), learnt(slice(None), 6), np.full(600, 2.5)
    y = np.where(np.arange(600) % 3 == 0, data.y_field, np.nan)
    for options in ({}, {"groups": data.groups_field}, {"sample_weight": weight}):
        new = lab.extended(field_of(lab, y, **options))
        weights = [np.ones(900), weight[::3] if "sample_weight" in options else np.ones(200)]
        both = fieldcal.learn(
            np.concatenate([data.proba_lab, data.proba_field[::3]]),
            np.concatenate([data.y_lab, data.y_field[::3]]),
            sample_weight=np.concatenate(weights),
            partition=lab.partition,
        )
        assert new.n == both.n
        for name in ("F", "weight_squares", "M", "A", "p_lab", "n_effective"):
            np.testing.assert_allclose(getattr(new, name), getattr(both, name), rtol=1e-12)
        np.testing.assert_allclose(new.bin_means, both.bin_means, atol=0.02)
        assert (new.log_loss, new.accuracy) == pytest.approx((both.log_loss, both.accuracy), abs=0.02)


def test_rows_chosen_by_score_are_weighted_back_to_the_field():
    data = fieldcal.datasets.label_shift(n_lab=200, n_field=20_000, n_groups=1, random_state=8)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=fieldcal.partitions.Edges([0.25, 0.5, 0.75]))
    chosen = np.random.default_rng(0).random(20_000) < np.where(data.proba_field > 0.75, 0.9, 0.1)
    y = np.where(chosen, data.y_field, np.nan)
    joint = np.zeros((2, 4))
    np.add.at(joint, (data.y_field, lab.partition.assign(data.proba_field)), 1 / 20_000)
    for design, off in (("by_score", (0, 0.01)), ("random", (0.05, 1))):  # a wrong design is a wrong lab
        more = lab.extended(fieldcal.count(lab, data.proba_field, y=y, design=design)).F - lab.F
        assert off[0] <= np.abs(more / more.sum() - joint).max() < off[1]


def test_labels_of_one_bin_leave_the_classes_of_other_bins_as_they_were():
    data = rows()
    lab = learnt(slice(None), 6)
    top = lab.partition.assign(data.proba_field) == 5
    new = lab.extended(field_of(lab, np.where(top, data.y_field, np.nan), design="by_score"))
    shares, before = (found.F / found.F.sum(axis=0) for found in (new, lab))
    np.testing.assert_allclose(shares[:, :5], before[:, :5], rtol=1e-9)
    worth = (new.F - lab.F).sum()
    assert 0 < worth <= top.sum() * top.mean() * (1 + 1e-9)  # the other bins add no knowledge
    assert new.n == lab.n + top.sum()


def test_rows_chosen_by_class_leave_the_prevalence_and_sharpen_the_bins():
    data = rows()
    lab = learnt(slice(None), 6)
    half = np.concatenate([np.flatnonzero(data.y_field == k)[:60] for k in (0, 1)])
    y = np.full(600, np.nan)
    y[half] = data.y_field[half]
    new = lab.extended(field_of(lab, y, design="by_class"))
    np.testing.assert_allclose(new.p_lab, lab.p_lab, rtol=1e-12)
    np.testing.assert_allclose(new.n_effective, lab.n_effective + 60, rtol=1e-12)
    counts = np.zeros((2, 6))
    np.add.at(counts, (data.y_field[half], lab.partition.assign(data.proba_field[half])), 1)
    pooled = lab.F + counts
    np.testing.assert_allclose(
        new.F / new.F.sum(axis=1, keepdims=True), pooled / pooled.sum(axis=1, keepdims=True), rtol=1e-12
    )
    one = lab.extended(field_of(lab, np.where(y == 1, 1.0, np.nan), design="by_class"))
    np.testing.assert_array_equal(one.F[0], lab.F[0])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_lab_extends_to_one_that_files_hold_and_verbs_take(kind):
    for design in ("random", "by_score", "by_class"):
        lab = KINDS[kind](slice(None))
        data = rows(n_classes=len(lab.classes))
        predictions, y = data.proba_field, data.y_field
        if kind == "numbers":
            means = np.random.default_rng(1).normal(size=600)
            predictions, y = regression.from_moments(means, np.full(600, 0.57)), means
        if kind == "given_bins":
            predictions = np.digitize(predictions, [0.2, 0.5, 0.8])
        known = np.where(np.arange(600) % 4 == 0, y, np.nan)
        new = lab.extended(fieldcal.count(lab, predictions, y=known, design=design))
        assert Lab.from_json(new.to_json()) == new
        assert new.n == lab.n + 150
        assert new.n_effective.sum() > lab.n_effective.sum()
        field = fieldcal.count(new, predictions)
        assert fieldcal.estimate(new, field).estimate.shape == (1, len(lab.classes))


def test_a_field_that_cannot_extend_a_lab_is_refused():
    lab = learnt(slice(None), 6)
    for field, words in (
        (fieldcal.count(lab, [0.1, 0.9]), "no labelled rows"),
        (field_of(learnt(slice(None), 4)), "counted with another lab"),
        (field_of(lab, design="by_score", only_labels=True), "no rows in their bins"),
    ):
        with pytest.raises(InputError, match=words):
            lab.extended(field)
    with pytest.raises(InputError, match="counted with another lab"):  # no label counts twice
        lab.extended(field_of(lab)).extended(field_of(lab))


def test_a_lab_that_learnt_from_the_field_estimates_a_like_field_better():
    """The field's classes look otherwise than the lab's: labels of it teach how."""
    rng = np.random.default_rng(4)

    def drawn(n, share, shift):
        y = (rng.random(n) < share).astype(int)
        return 1 / (1 + np.exp(-2 * (rng.normal(size=n) + 2 * y - 1 + shift))), y

    proba, y = drawn(500, 0.5, 0.0)
    lab = fieldcal.learn(proba, y, partition=fieldcal.partitions.Edges([0.2, 0.4, 0.6, 0.8]))
    field, truth = drawn(4000, 0.3, 1.0)
    new = lab.extended(fieldcal.count(lab, field, y=truth, design="by_class"))
    later, later_y = drawn(4000, 0.15, 1.0)
    before, after = (
        fieldcal.estimate(found, fieldcal.count(found, later), trust=1.0).estimate[0, 1]
        for found in (lab, new)
    )
    assert abs(after - later_y.mean()) < 0.05 < abs(before - later_y.mean())
