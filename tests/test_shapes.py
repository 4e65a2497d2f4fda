"""Estimates with labels applied to predictions: class weights of the group alone, or of the row's bin too."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from scipy.special import expit, logit

import fieldcal
from fieldcal import Prevalence, regression
from fieldcal.errors import ArtefactError, InputError, UnseenGroupWarning
from fieldcal.partitions import Bins


def moved(n, rng, *, n_classes=2):
    """Rows of a field whose scores are themselves off: too sure of themselves, and shifted. Scores and classes."""
    if n_classes == 2:
        truth = expit(rng.normal(-0.5, 1.2, n))
        return expit(2.0 * logit(truth) + 0.7), (rng.uniform(size=n) < truth).astype(int)
    logs = rng.normal(0, 1.2, (n, n_classes))
    truth = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    off = truth**2 * np.exp(0.4 * np.arange(n_classes))
    y = (truth.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(0, n_classes - 1)
    return off / off.sum(axis=1, keepdims=True), y


@functools.cache
def case(n_classes=2, grouped=False, partition="auto"):
    """Predictions, classes, groups, and the estimate with 200 labels of 2,000 rows."""
    rng = np.random.default_rng(n_classes)
    data = fieldcal.datasets.label_shift(
        n_lab=2000, n_field=10, p_lab=[1 / n_classes] * n_classes, random_state=3
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=partition)
    proba, y = moved(2000, rng, n_classes=n_classes)
    groups = np.array(["York", "Leeds", "Hull"])[rng.integers(0, 3, 2000)] if grouped else None
    known = [c if i % 10 == 0 else None for i, c in enumerate(y.tolist())]
    prev = estimate(lab, proba, groups, known)
    return proba, y, groups, prev


def estimate(lab, proba, groups, known, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.FieldcalWarning)
        return fieldcal.estimate(lab, fieldcal.count(lab, proba, groups=groups, y=known, **options))


def columns(proba):
    return np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba


def by_hand(prev, proba, groups):
    """C · exp(bins of the row's bin) · exp(bins_tilt of its group), made to sum to one."""
    model = prev.by_model
    row = [0] * len(proba) if groups is None else [prev.groups.index(g) for g in groups]
    logs = model.bins[prev.lab.partition.assign(proba)] + model.bins_tilt[row]
    new = columns(proba) * np.exp(logs)
    return new / new.sum(axis=1, keepdims=True)


def with_model(prev, **changed):
    """The same estimate with other weights from labels."""
    copy = prev.model_copy(update={"by_model": prev.by_model.model_copy(update=changed)})
    for remembered in ("steps", "steps_unseen"):
        vars(copy).pop(remembered, None)
    return copy


def in_whole(prev):
    """The same estimate, sure that the lab's classes do not hold: a tilt then leaves no share of a prediction alone."""
    return with_model(prev, trust=1.0)


EVERY = pytest.mark.parametrize(
    ("n_classes", "grouped"), [(2, False), (2, True), (3, False), (3, True)], ids=str
)


@EVERY
def test_each_row_is_multiplied_with_the_weights_of_its_bin_and_its_group(n_classes, grouped, tmp_path):
    proba, _, groups, prev = case(n_classes, grouped)
    new = fieldcal.recalibrate(prev, proba, groups=groups, shape="bins")
    assert new.shape == proba.shape
    np.testing.assert_allclose(columns(new), by_hand(prev, proba, groups), rtol=0, atol=1e-12)
    prev.save(tmp_path / "prevalence.json")
    again = Prevalence.load(tmp_path / "prevalence.json")
    np.testing.assert_array_equal(fieldcal.recalibrate(again, proba, groups=groups, shape="bins"), new)


@EVERY
def test_bins_without_weights_of_their_own_do_what_a_tilt_does(n_classes, grouped):
    proba, _, groups, prev = case(n_classes, grouped)
    prev, model = in_whole(prev), prev.by_model
    level = with_model(
        prev,
        bins=np.full(model.bins.shape, 3.0),  # the same for all classes
        bins_tilt=model.tilt,
        whole_bins_tilt=model.whole_tilt,
    )
    tilted = fieldcal.recalibrate(prev, proba, groups=groups)
    np.testing.assert_allclose(
        fieldcal.recalibrate(level, proba, groups=groups, shape="bins"), tilted, rtol=0, atol=1e-14
    )


@EVERY
def test_the_mean_of_new_predictions_is_the_share_of_rows_to_come_where_they_stand_at_the_centres_of_bins(
    n_classes, grouped
):
    for shape in ("tilt", "bins"):
        prev = in_whole(case(n_classes, grouped)[-1])
        rates = prev.posterior.rates()
        centres = prev.lab.bin_means[:, 1] if n_classes == 2 else prev.lab.bin_means
        for g, key in enumerate(prev.groups):
            where = None if key is None else [key] * len(centres)
            new = columns(fieldcal.recalibrate(prev, centres, groups=where, shape=shape))
            share = prev.field.V[g] @ new / prev.field.V[g].sum()
            np.testing.assert_allclose(share, rates[g], rtol=0, atol=1e-9)
            np.testing.assert_allclose(
                share, prev.estimate[g], rtol=0, atol=0.03
            )  # of these rows, some of them known


def test_where_scores_are_off_bins_mend_what_a_tilt_does_not():
    for n_classes in (2, 3):
        proba, y, _, prev = case(n_classes)
        loss = {
            shape: -np.log(
                columns(fieldcal.recalibrate(prev, proba, shape=shape))[np.arange(len(y)), y]
            ).mean()
            for shape in ("tilt", "bins")
        }
        assert loss["bins"] < loss["tilt"] - 0.02


@EVERY
def test_two_columns_missing_rows_and_certain_ones(n_classes, grouped):
    proba, _, groups, prev = case(n_classes, grouped)
    some, where = columns(proba)[:40].copy(), None if groups is None else groups[:40]
    some[3], some[4], some[5, 0] = np.eye(n_classes)[0], np.eye(n_classes)[-1], np.nan
    new = fieldcal.recalibrate(prev, some, groups=where, shape="bins", missing="keep")
    assert np.isnan(new[5]).all()
    np.testing.assert_array_equal(new[3:5], some[3:5])
    rest = np.r_[0:3, 6:40]
    expected = by_hand(prev, proba[rest], None if groups is None else groups[rest])
    np.testing.assert_allclose(new[rest], expected, rtol=0, atol=1e-12)


def test_groups_never_seen_go_with_the_whole_field_or_stay():
    for shape in ("tilt", "bins"):
        proba, _, groups, prev = case(2, grouped=True)
        prev, model = in_whole(prev), prev.by_model
        some, where = proba[:30], [*groups[:20], *["Ripon"] * 10]
        with pytest.warns(UnseenGroupWarning):
            new = fieldcal.recalibrate(prev, some, groups=where, shape=shape)
        raw = fieldcal.recalibrate(prev, some, groups=where, shape=shape, unseen="raw")
        np.testing.assert_array_equal(raw, [*new[:20], *some[20:]])
        logs = model.whole_tilt
        if shape == "bins":
            logs = model.bins[prev.lab.partition.assign(some[20:])] + model.whole_bins_tilt
        expected = columns(some[20:]) * np.exp(logs)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(columns(new[20:]), expected, atol=1e-12)
        with pytest.raises(InputError, match="Ripon"):
            fieldcal.recalibrate(prev, some, groups=where, shape=shape, unseen="error")


@EVERY
def test_decisions_are_those_of_the_new_predictions(n_classes, grouped):
    for shape in ("tilt", "bins"):
        proba, _, groups, prev = case(n_classes, grouped)
        new = columns(fieldcal.recalibrate(prev, proba, groups=groups, shape=shape))
        best = fieldcal.decide(prev, proba, groups=groups, shape=shape)
        np.testing.assert_array_equal(best, new.argmax(axis=1))
        share = prev.estimate[0] if groups is None else prev.estimate[[prev.groups.index(g) for g in groups]]
        balanced = fieldcal.decide(prev, proba, groups=groups, shape=shape, goal="balanced")
        np.testing.assert_array_equal(balanced, (new / share).argmax(axis=1))


def test_of_bin_ids_the_shares_of_each_bin_are_corrected():
    for grouped in (False, True):
        rng = np.random.default_rng(0)
        y_lab, y = rng.integers(0, 2, 800), rng.integers(0, 2, 600)
        lab = fieldcal.learn(rng.binomial(3, 0.3 + 0.4 * y_lab), y_lab, partition=Bins(4))
        ids = rng.binomial(3, 0.5 + 0.3 * y)
        groups = np.array(["York", "Leeds"])[rng.integers(0, 2, 600)] if grouped else None
        prev = estimate(lab, ids, groups, [c if i % 4 == 0 else None for i, c in enumerate(y.tolist())])
        new = fieldcal.recalibrate(prev, ids, groups=groups, shape="bins")
        row = [0] * 600 if groups is None else [prev.groups.index(g) for g in groups]
        expected = lab.bin_means[ids] * np.exp(prev.by_model.bins[ids] + prev.by_model.bins_tilt[row])
        np.testing.assert_allclose(new, expected / expected.sum(axis=1, keepdims=True), rtol=0, atol=1e-12)
        with pytest.raises(InputError, match="needs to know the bin of each row"):
            fieldcal.recalibrate(prev, np.full((600, 2), 0.5), groups=groups, shape="bins")


def test_distributions_of_a_number_are_corrected_by_the_bin_of_their_masses():
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(2, 900))
    predicted, y = regression.from_moments(x, np.full(900, 0.8)), x + 0.8 * noise
    lab = fieldcal.learn(predicted, y, intervals=[-0.5, 0.5])
    known = np.where(np.arange(900) % 5 == 0, y + 1.0, np.nan)
    prev = estimate(lab, predicted, None, known)
    new = fieldcal.recalibrate(prev, predicted, shape="bins")
    old, got = lab.outcome.masses(predicted), lab.outcome.masses(new)
    np.testing.assert_allclose(got, by_hand(prev, old, None), rtol=0, atol=1e-9)
    np.testing.assert_allclose(got.mean(axis=0), prev.estimate[0], rtol=0, atol=0.03)


def test_without_labels_the_shape_is_refused_and_what_to_do_is_said():
    proba, _, _, prev = case()
    plain = fieldcal.estimate(prev.lab, fieldcal.count(prev.lab, proba), trust=1)
    for verb in (fieldcal.recalibrate, fieldcal.decide):
        with pytest.raises(
            InputError, match=r"shape='bins'.*labels of the field.*Label some rows \(see fieldcal plan\)"
        ):
            verb(plain, proba, shape="bins")
        with pytest.raises(InputError, match="shape must be"):
            verb(prev, proba, shape="bin")


def test_a_file_whose_weights_do_not_fit_the_estimate_is_refused():
    *_, prev = case(grouped=True)
    for table in ("tilt", "bins", "whole_bins_tilt"):
        short = with_model(prev, **{table: getattr(prev.by_model, table)[:-1]})
        with pytest.raises(ArtefactError, match="by_model does not fit"):
            Prevalence.from_json(short.to_json())
