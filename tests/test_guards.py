"""It must not say yes when it does not know: each guard sees its fault, and not the nearest innocent case."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

import fieldcal
from fieldcal import tables
from fieldcal.core import guards
from fieldcal.core.partition import Quantiles, Simplex, most_bins
from fieldcal.errors import (
    BinsWarning,
    CalibrationWarning,
    FieldcalWarning,
    IdentifiabilityWarning,
    InputError,
    RecalibratedWarning,
)
from fieldcal.tables.sql import count_statement

SEEDS = range(2)
FAULTS = {"other_units", "swapped", "recalibrated_before"}


def scored(n, share, *, distance=1.5, p_lab=0.3, seed=0):
    """Scores of a calibrated model on a share of positives: normal classes, so many deviations apart."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    x = distance * y + rng.standard_normal(n)
    return expit(distance * x - distance**2 / 2 + logit(p_lab)), y


def skewed(n, share, *, p_lab=0.3, seed=0):
    """The same with classes of different shapes, as those of real models are."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    x = np.where(y == 1, rng.gamma(3.0, 1.0, n), rng.gamma(1.3, 1.0, n)) + 1e-9
    return expit(1.7 * np.log(x) - np.log(2 / 0.897) + logit(p_lab)), y


@functools.cache
def lab_of(world, seed, n=4000):
    return quietly(fieldcal.learn, *world(n, 0.3, seed=seed))


def quietly(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldcalWarning)
        return call(*args, **options)


def verdict(lab, scores, groups=None, **options):
    return quietly(fieldcal.check, lab, fieldcal.count(lab, scores, groups=groups), **options)


def codes(lab, scores, groups=None, **options):
    found = verdict(lab, scores, groups, **options).findings
    return {finding.code for finding in found if finding.state != "ok"}


# a. Predictions that cannot separate


def test_fault_71_a_model_next_to_chance_is_not_to_be_used():
    for seed in SEEDS:
        scores, y = scored(4000, 0.3, distance=0.07, seed=seed)  # AUC .52
        with pytest.warns(IdentifiabilityWarning, match=r"hardly separate 0 and 1: AUC 0\.5"):
            lab = fieldcal.learn(scores, y)
        found = verdict(lab, scored(4000, 0.5, distance=0.07, seed=seed + 100)[0]).finding("cannot_separate")
        assert found.state == "do_not_use"
        assert found.remedy
        scores, y = scored(4000, 0.3, distance=0.55, seed=seed)  # AUC .65
        assert "cannot_separate" not in codes(fieldcal.learn(scores, y), scores)


def test_fault_71_two_classes_of_three_that_look_alike_ask_for_care():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=6000)
    third = expit(3.0 * ((y == 2) + rng.standard_normal(6000) / np.sqrt(3) - 0.5) - np.log(2))
    part = 0.5 + 0.01 * rng.standard_normal(6000)  # says nothing about 0 or 1
    lab = fieldcal.learn(np.column_stack([(1 - third) * part, (1 - third) * (1 - part), third]), y)
    found = verdict(lab, np.full((100, 3), 1 / 3), point="mode", level=None).finding("cannot_separate")
    assert found.state == "care", "the third is known"
    assert "hardly separate 0 and 1" in found.text


def test_the_area_under_the_curve_is_that_of_the_bins():
    scores, y = scored(3000, 0.3, seed=1)
    lab = fieldcal.learn(scores, y)
    found = guards.separation(lab.F.astype(float), lab.bin_means)
    expected = roc_auc_score(y, lab.bin_means[lab.partition.assign(scores), 1])
    np.testing.assert_allclose(found.auc, [expected])
    labs = [lab_of(scored, seed, 500) for seed in range(60)]
    drawn = [guards.separation(lab.F.astype(float), lab.bin_means) for lab in labs]
    assert 0.7 < np.std([one.auc[0] for one in drawn]) / drawn[0].error[0] < 1.4


# b. Another unit


@pytest.mark.parametrize("world", [scored, skewed])
def test_fault_72_other_units_are_seen_and_named(world):
    for seed in SEEDS:
        found = verdict(lab_of(world, seed), world(4000, 0.5, seed=seed + 100)[0] / 100).finding(
            "other_units"
        )
        assert found.state == "do_not_use"
        assert "divided by 100" in found.text
        assert "same units" in found.remedy


def test_fault_72_fifty_label_shifts_raise_no_alarm():
    rng = np.random.default_rng(5)
    alarms = 0
    for seed in range(50):
        world = (scored, skewed)[seed % 2]
        n_lab, n_field = (int(10 ** rng.uniform(2.7, 4)) for _ in range(2))
        share, p_lab = rng.uniform(0.02, 0.98, 2)
        lab = quietly(fieldcal.learn, *world(n_lab, np.clip(p_lab, 0.05, 0.95), p_lab=p_lab, seed=seed))
        V = fieldcal.count(lab, world(n_field, share, p_lab=p_lab, seed=seed + 1000)[0]).V
        alarms += len(guards.suspicions(as_scores(lab, V), grouped=False))
    assert alarms == 0


def as_scores(lab, V):
    edges, counts = np.asarray(lab.partition.edges), np.asarray(V, dtype=float)
    return guards.Scores(lab.M, lab.n_effective, lab.p_lab, edges, counts)


# c. Swapped classes


@pytest.mark.parametrize("world", [scored, skewed])
def test_fault_73_swapped_classes_are_seen(world):
    for seed in SEEDS:
        for share in (0.2, 0.3, 0.6):
            found = verdict(lab_of(world, seed), 1 - world(4000, share, seed=seed + 100)[0]).finding(
                "swapped"
            )
            assert found is not None
            assert "order of the columns" in found.remedy


def test_a_lab_that_is_its_own_mirror_cannot_tell_and_says_nothing():
    """Equally frequent classes of mirrored shapes: a swapped field is a possible one."""
    lab = fieldcal.learn(*scored(4000, 0.5, p_lab=0.5, seed=0))
    field = scored(4000, 0.2, p_lab=0.5, seed=1)[0]
    assert "swapped" not in codes(lab, field)
    assert "swapped" not in codes(lab, 1 - field)


@functools.cache
def three(prevalence, seed, n=6000):
    """Three classes that are not alike: the first is easy, the others are often taken for each other."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=prevalence)
    x = np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 1.2]])[y] + rng.standard_normal((n, 2))
    far = ((x[:, None] - np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 1.2]])) ** 2).sum(axis=2)
    density = np.array([0.2, 0.5, 0.3]) * np.exp(-far / 2)
    return density / density.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("order", [[1, 0, 2], [2, 1, 0], [1, 2, 0]])
def test_fault_73_columns_in_another_order_are_seen(order):
    for seed in SEEDS:
        lab = fieldcal.learn(*three((0.2, 0.5, 0.3), seed))
        found = verdict(lab, three((0.2, 0.5, 0.3), seed + 100)[0][:, order], point="mode", level=None)
        assert found.finding("swapped").state == "do_not_use"


@pytest.mark.parametrize("prevalence", [(0.5, 0.2, 0.3), (0.3, 0.5, 0.2), (0.05, 0.15, 0.8)])
def test_fault_73_another_mix_of_three_classes_is_no_swap(prevalence):
    for seed in SEEDS:
        lab = fieldcal.learn(*three((0.2, 0.5, 0.3), seed))
        assert "swapped" not in codes(lab, three(prevalence, seed + 100)[0], point="mode", level=None)


# d. Recalibrated before


@pytest.mark.parametrize("world", [scored, skewed])
def test_fault_74_a_field_that_was_recalibrated_is_seen_and_the_raw_one_is_fine(world):
    for seed in SEEDS:
        for share in (0.08, 0.6):
            lab, raw = lab_of(world, seed), world(4000, share, seed=seed + 100)[0]
            prev = quietly(fieldcal.estimate, lab, fieldcal.count(lab, raw), trust=1)
            assert not FAULTS & codes(lab, raw)
            found = verdict(lab, fieldcal.recalibrate(prev, raw)).finding("recalibrated_before")
            assert "raw" in found.question
            assert "made twice" in found.remedy


def test_fault_74_groups_that_were_recalibrated_each_by_itself_are_seen():
    lab, groups = lab_of(skewed, 0), np.repeat(["a", "b", "c", "d"], 1500)
    shares = np.array([0.05, 0.1, 0.6, 0.8])
    raw = np.concatenate([skewed(1500, share, seed=i)[0] for i, share in enumerate(shares)])
    prev = quietly(fieldcal.estimate, lab, fieldcal.count(lab, raw, groups=groups), trust=1)
    assert not FAULTS & codes(lab, raw, groups)
    again = fieldcal.recalibrate(prev, raw, groups=groups)
    assert "recalibrated_before" in codes(lab, again, groups)


def test_fault_74_a_column_that_recalibrate_named_is_not_counted_without_a_word():
    scores, y = scored(2000, 0.3)
    lab = tables.learn(pl.DataFrame({"p": scores, "y": y}), scores="p", label="y")
    field = pl.DataFrame({"p": scores, "p_recalibrated": scores})
    with pytest.warns(RecalibratedWarning, match=r"'p_recalibrated' .* recalibrated before.*scores=…"):
        tables.count(lab, field, scores="p_recalibrated")
    with pytest.warns(RecalibratedWarning):
        count_statement(lab, "leads", dialect="duckdb", scores="p_recalibrated")
    assert tables.count(lab, field).n.sum() == 2000


# e. Hard decisions


def test_fault_75_hard_decisions_are_called_that_with_the_right_remedy():
    scores, y = scored(2000, 0.3)
    with pytest.warns(CalibrationWarning, match=r"hard decisions, not probabilities.*predict_proba") as told:
        lab = fieldcal.learn(scores > 0.5, y)
    assert len(told) == 1, "nothing about calibrating what are no probabilities"
    assert lab.n_bins == 2
    field, truth = scored(20_000, 0.6, seed=1)
    prev = quietly(fieldcal.estimate, lab, fieldcal.count(lab, field > 0.5))
    assert prev.verdict.finding("hard_decisions").state == "care"
    assert abs(prev.urc[0, 1] - truth.mean()) < 0.05, "the adjusted count works"
    proba, y = three((0.2, 0.5, 0.3), 0)
    with pytest.warns(CalibrationWarning, match="hard decisions"):
        fieldcal.learn(np.eye(3)[proba.argmax(axis=1)], y)


# f. More bins than the lab can fill


def test_fault_59_bins_are_limited_by_the_rows_of_the_lab():
    scores, y = scored(2000, 0.3)
    for asked in (1000, Quantiles(1000)):
        with pytest.warns(BinsWarning, match=r"more than the lab's 2,000 rows can fill.*partition=\d+"):
            lab = fieldcal.learn(scores, y, partition=asked)
        assert lab.n_bins == y.sum() // 10
        with pytest.warns(BinsWarning):
            same = tables.learn(pl.DataFrame({"p": scores, "y": y}), scores="p", label="y", partition=asked)
        assert same.partition == lab.partition
    assert most_bins(np.array([5.0, 3.0])) == 4
    assert most_bins(np.array([100.0, 5000.0])) >= 8


def test_fault_59_bins_beyond_reason_are_refused():
    for recipe in (int, Quantiles, Simplex, fieldcal.partitions.Bins, fieldcal.partitions.Expected):
        with pytest.raises(InputError, match="1,000,000"):
            fieldcal.learn(*scored(100, 0.5), partition=recipe(10**9))


def test_edges_of_the_caller_are_kept_and_found():
    scores, y = scored(2000, 0.3)
    lab = fieldcal.learn(scores, y, partition=fieldcal.partitions.Edges(np.linspace(0, 1, 101)))
    assert lab.n_bins == 100
    found = verdict(lab, scored(2000, 0.3, seed=1)[0], point="mode", level=None).finding("many_bins")
    assert found.state == "care"
    assert "100 bins" in found.text


# g. Intervals that say nothing


def test_fault_76_an_interval_over_nearly_everything_is_told():
    scores, y = scored(60, 0.5, distance=0.5, p_lab=0.5, seed=2)
    lab = quietly(fieldcal.learn, scores, y)
    found = verdict(lab, scored(8, 0.5, distance=0.5, p_lab=0.5, seed=3)[0], trust=1).finding("says_nothing")
    assert found.state == "care"
    assert "next to no information" in found.text
    assert "says_nothing" not in codes(lab_of(scored, 0), scored(100, 0.5, seed=1)[0])


def test_fault_76_groups_that_nothing_is_known_of_are_named():
    lab = quietly(fieldcal.learn, *scored(4000, 0.3, distance=0.8))
    big = [scored(2000, share, distance=0.8, seed=i)[0] for i, share in enumerate((0.02, 0.98))]
    small = scored(2, 0.5, distance=0.8, seed=7)[0]
    groups = ["low"] * 2000 + ["high"] * 2000 + ["tiny"] * 2
    found = verdict(lab, np.concatenate([*big, small]), groups, trust=1).finding("says_nothing")
    assert found.groups == ("tiny",)


# h. A class that disappears from hard decisions


def test_fault_76_no_recall_is_lost_where_little_moves_or_nothing_is_corrected():
    lab = lab_of(scored, 0)
    assert "recall_lost" not in codes(lab, scored(4000, 0.25, seed=1)[0], trust=1)
    assert "recall_lost" not in codes(lab, scored(4000, 0.03, seed=1)[0], trust=0)
