"""learn, count, estimate, recalibrate, decide: what goes in, what comes out."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss

import fieldcal
from fieldcal.errors import InputError

URC = {"prior": "flat", "point": "mode", "trust": 1}  # the paper's plain estimator


@functools.cache
def binary():
    return fieldcal.datasets.label_shift(
        n_lab=4000, n_field=6000, prevalence=[[0.9, 0.1], [0.3, 0.7]], random_state=11
    )


@functools.cache
def three():
    return fieldcal.datasets.label_shift(
        n_lab=6000,
        n_field=6000,
        p_lab=(0.5, 0.3, 0.2),
        prevalence=[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]],
        separation=2.0,
        random_state=12,
    )


@functools.cache
def learnt(K):
    data = binary() if K == 2 else three()
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    return data, lab, field, fieldcal.estimate(lab, field, **URC)


# learn


def test_options_are_keyword_only_and_data_comes_first():
    data_first = {
        "learn": ["predictions", "y"],
        "count": ["lab", "predictions"],
        "estimate": ["lab", "field"],
        "recalibrate": ["prev", "predictions"],
        "decide": ["prev", "predictions"],
    }
    for name, expected in data_first.items():
        parameters = inspect.signature(getattr(fieldcal, name)).parameters.values()
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == expected
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters if p.name not in expected)


def test_a_lab_holds_counts_and_derives_M_and_the_prevalences():
    for K in (2, 3):
        data, lab, _, _ = learnt(K)
        assert lab.classes == tuple(range(K))
        assert lab.F.shape == lab.M.shape == (K, lab.n_bins)
        assert lab.F.sum() == lab.n == len(data.y_lab)
        assert lab.F.sum(axis=1).tolist() == np.bincount(data.y_lab).tolist()
        np.testing.assert_allclose(lab.M.sum(axis=1), 1)
        assert (lab.M > 0).all()
        np.testing.assert_allclose(lab.p_lab, np.bincount(data.y_lab) / len(data.y_lab))
        assert lab.conditioning.rank == K
        assert 0 < lab.log_loss < np.log(K)
        assert 1 / K < lab.accuracy < 1


def test_classes_can_be_given_in_the_order_of_the_columns():
    data = three()
    names = np.array(["c", "a", "b"])  # of the columns 0, 1, 2
    lab = fieldcal.learn(data.proba_lab, names[data.y_lab], classes=["c", "a", "b"])
    assert lab.classes == ("c", "a", "b")
    assert lab.F.tolist() == learnt(3)[1].F.tolist()


def test_every_partition_recovers_the_prevalence():
    for partition in (
        3,
        fieldcal.partitions.Quantiles(10),
        fieldcal.partitions.Edges([0.2, 0.5, 0.8]),
        fieldcal.partitions.Edges([0, 0.2, 0.5, 0.8, 1]),
        fieldcal.partitions.Expected(8),
        fieldcal.partitions.Simplex(2),
        fieldcal.partitions.Simplex(9),
    ):
        data = binary()
        lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=partition)
        field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
        prev = fieldcal.estimate(lab, field, **URC)
        np.testing.assert_allclose(prev.urc, data.prevalence, atol=0.06)


# count


def test_a_field_is_a_histogram_per_group():
    for K in (2, 3):
        data, lab, field, _ = learnt(K)
        assert field.groups == (0, 1)
        assert field.V.shape == (2, lab.n_bins)
        assert field.n.tolist() == np.bincount(data.groups_field).tolist()
        assert field.lab == lab.digest
        bins = lab.partition.assign(data.proba_field)
        for g in (0, 1):
            expected = np.bincount(bins[data.groups_field == g], minlength=lab.n_bins)
            assert field.V[g].tolist() == expected.tolist()


def test_tables_are_matched_by_column_name_in_every_verb():
    data, _, counted, prev = learnt(3)
    names, turned = np.array(["ant", "bee", "fly"]), [2, 0, 1]
    expected = fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field)
    for table in (pd.DataFrame, pl.DataFrame, pa.table):
        in_lab, in_field = (
            table({names[k]: proba[:, k] for k in turned}) for proba in (data.proba_lab, data.proba_field)
        )
        lab = fieldcal.learn(in_lab, names[data.y_lab])
        field = fieldcal.count(lab, in_field, groups=data.groups_field)
        assert field.V.tolist() == counted.V.tolist()
        same = fieldcal.estimate(lab, field, **URC)
        np.testing.assert_array_equal(same.urc, prev.urc)
        new = fieldcal.recalibrate(same, in_field, groups=data.groups_field)
        np.testing.assert_array_equal(new, expected[:, turned], err_msg="in the order of the table")
        decided = fieldcal.decide(same, in_field, groups=data.groups_field)
        assert decided.tolist() == names[expected.argmax(axis=1)].tolist()


def test_a_column_named_after_the_first_class_is_not_taken_for_the_second():
    scores = pd.Series([0.1, 0.2, 0.8, 0.9] * 10, name="healthy")
    labels = ["healthy", "healthy", "sick", "sick"] * 10
    with pytest.raises(InputError, match="named 'healthy', the first class"):
        fieldcal.learn(scores, labels)
    with pytest.raises(InputError, match="named 'healthy', the first class"):
        fieldcal.learn(scores.to_frame(), labels)
    assert fieldcal.learn(scores.rename("sick"), labels).n == 40


# estimate


@pytest.mark.parametrize("options", [URC, {"prior": "kl", "trust": 1}, {"prior": "dirichlet", "trust": 1}])
def test_the_prevalences_are_recovered_and_lie_in_their_interval(options):
    for K in (2, 3):
        data, lab, field, _ = learnt(K)
        prev = fieldcal.estimate(lab, field, **options)
        np.testing.assert_allclose(prev.urc, data.prevalence, atol=0.05)
        np.testing.assert_allclose(prev.urc.sum(axis=1), 1)
        assert np.abs(prev.mean_prediction - data.prevalence).max() > 0.1, "naive is biased towards the lab"
        assert ((prev.lower <= prev.estimate) & (prev.estimate <= prev.upper)).all()
        assert (prev.classes, prev.groups, prev.level) == (lab.classes, field.groups, 0.9)
        assert prev.n.tolist() == field.n.tolist()
        assert len(prev.status) == 2


def test_without_pooling_a_group_does_not_depend_on_the_others():
    data, lab, _, prev = learnt(3)
    rows = data.groups_field == 1
    alone = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field[rows]), **URC)
    np.testing.assert_allclose(alone.urc[0], prev.urc[1], atol=1e-9)


def test_without_a_level_there_is_no_interval_and_the_same_mode():
    data, lab, field, prev = learnt(3)
    quick = fieldcal.estimate(lab, field, **URC, level=None)
    assert quick.lower is None
    assert quick.upper is None
    np.testing.assert_array_equal(quick.urc, prev.urc)
    assert fieldcal.Prevalence.from_json(quick.to_json()) == quick
    np.testing.assert_array_equal(
        fieldcal.recalibrate(quick, data.proba_field, groups=data.groups_field),
        fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field),
    )
    with pytest.raises(InputError, match=r"point='mode'"):
        fieldcal.estimate(lab, field, level=None)


# recalibrate


def test_recalibrate_is_the_known_bias_lemma():
    data, lab, _, prev = learnt(3)
    ratio = prev.urc[data.groups_field] / lab.p_lab
    expected = data.proba_field * ratio
    expected /= expected.sum(axis=1, keepdims=True)
    new = fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field)
    np.testing.assert_allclose(new, expected, atol=1e-12)


def test_recalibrating_improves_log_loss_where_the_assumption_holds():
    for K in (2, 3):
        data, _, _, prev = learnt(K)
        new = fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field)
        before = log_loss(data.y_field, data.proba_field)
        assert log_loss(data.y_field, new) < before - 0.03


def test_recalibrate_answers_in_the_shape_it_was_given():
    data, _, _, prev = learnt(2)
    scores, groups = data.proba_field[:5], data.groups_field[:5]
    plain = fieldcal.recalibrate(prev, scores, groups=groups)
    assert plain.shape == (5,)
    for column in (scores[:, None], scores[:, None].tolist(), pd.DataFrame({"p": scores})):
        new = fieldcal.recalibrate(prev, column, groups=groups)
        assert new.shape == (5, 1)
        np.testing.assert_array_equal(new[:, 0], plain)
    both = np.column_stack([1 - scores, scores])
    new = fieldcal.recalibrate(prev, both, groups=groups)
    assert new.shape == (5, 2)
    np.testing.assert_allclose(new[:, 1], plain, atol=1e-15)
    np.testing.assert_allclose(new.sum(axis=1), 1)
    for same in (scores.tolist(), pd.Series(scores), pl.Series(scores), pa.array(scores)):
        np.testing.assert_array_equal(fieldcal.recalibrate(prev, same, groups=groups), plain)
    assert fieldcal.recalibrate(prev, [], groups=[]).shape == (0,)
    assert fieldcal.recalibrate(prev, np.empty((0, 2)), groups=[]).shape == (0, 2)


# decide


def mean_recall(decided, y, K):
    return np.mean([(decided[y == k] == k).mean() for k in range(K)])


def test_decide_for_accuracy_takes_the_most_probable_class():
    for K in (2, 3):
        data, _, _, prev = learnt(K)
        decided = fieldcal.decide(prev, data.proba_field, groups=data.groups_field)
        new = fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field)
        likeliest = new.argmax(axis=1) if K > 2 else (new > 0.5).astype(int)
        assert decided.tolist() == likeliest.tolist()
        raw = data.proba_field.argmax(axis=1) if K > 2 else (data.proba_field > 0.5).astype(int)
        assert (decided == data.y_field).mean() > (raw == data.y_field).mean() + 0.02


def test_the_balanced_decision_has_the_best_mean_recall_of_all_thresholds():
    data = fieldcal.datasets.label_shift(
        n_lab=20_000, n_field=20_000, p_lab=(0.8, 0.2), prevalence=[[0.3, 0.7]], random_state=3
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), **URC)
    decided = fieldcal.decide(prev, data.proba_field, goal="balanced")
    thresholds = np.linspace(0.01, 0.99, 99)
    every = [mean_recall((data.proba_field > t).astype(int), data.y_field, 2) for t in thresholds]
    balanced = mean_recall(decided, data.y_field, 2)
    assert balanced == pytest.approx(max(every), abs=0.005)
    accurate = fieldcal.decide(prev, data.proba_field)
    assert (accurate == data.y_field).mean() > (decided == data.y_field).mean()
    assert mean_recall(accurate, data.y_field, 2) < balanced


def test_the_balanced_decision_for_unseen_groups_left_alone_assumes_the_lab():
    data, lab, _, prev = learnt(3)
    rows = data.proba_field[:50]
    decided = fieldcal.decide(prev, rows, groups=["new"] * 50, goal="balanced", unseen="raw")
    assert decided.tolist() == (rows / lab.p_lab).argmax(axis=1).tolist()


def test_decide_for_costs_takes_the_cheapest_class_in_expectation():
    data, _, _, prev = learnt(3)
    costs = np.array([[0, 1, 4], [2, 0, 1], [9, 3, 0]])
    decided = fieldcal.decide(prev, data.proba_field, groups=data.groups_field, goal=costs)
    new = fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field)
    paid = [sum(p[i] * costs[i, d] for i in range(3)) for p, d in zip(new, decided, strict=True)]
    assert np.allclose(paid, (new @ costs).min(axis=1))
    equal = fieldcal.decide(prev, data.proba_field, groups=data.groups_field, goal=1 - np.eye(3))
    accurate = fieldcal.decide(prev, data.proba_field, groups=data.groups_field)
    assert equal.tolist() == accurate.tolist()


def test_goals_that_cannot_be_are_refused():
    data, _, _, prev = learnt(3)
    for goal in ([[0, 1]], np.ones((2, 2)), np.full((3, 3), np.nan), [1, 2, 3], "recall"):
        with pytest.raises(InputError, match=r"costs must be a finite|goal must be"):
            fieldcal.decide(prev, data.proba_field, groups=data.groups_field, goal=goal)


def test_decisions_are_the_classes_themselves():
    for names, dtype in ((("no", "yes"), "U"), ((0, 1), "i"), ((False, True), "b"), ((1, "1"), "O")):
        data = binary()
        lab = fieldcal.learn(data.proba_lab, [names[k] for k in data.y_lab])
        prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), **URC)
        decided = fieldcal.decide(prev, [0.01, 0.99])
        assert decided.dtype.kind == dtype
        assert [repr(d) for d in decided.tolist()] == [repr(n) for n in names]
        again = fieldcal.decide(prev, [[0.99, 0.01], [0.01, 0.99]])
        assert decided.tolist() == again.tolist()


def test_groups_declared_protected_are_estimated_and_not_applied_unless_acknowledged():
    data, lab, field, prev = learnt(2)
    shielded = fieldcal.estimate(lab, field, **URC, protected=True)
    np.testing.assert_array_equal(shielded.urc, prev.urc)
    rows = {"predictions": data.proba_field[:9], "groups": data.groups_field[:9]}
    for verb in (fieldcal.recalibrate, fieldcal.decide):
        with pytest.raises(InputError, match=r"protected.*acknowledge=True"):
            verb(shielded, **rows)
        np.testing.assert_array_equal(verb(shielded, **rows, acknowledge=True), verb(prev, **rows))
    loaded = fieldcal.Prevalence.from_json(shielded.to_json())
    with pytest.raises(InputError, match="protected"):
        fieldcal.recalibrate(loaded, **rows)


@pytest.mark.parametrize("K", [2, 3])
def test_recalibrating_to_the_lab_prevalence_changes_nothing(K):
    data = binary() if K == 2 else three()
    lab = fieldcal.learn(data.proba_lab, data.y_lab, smoothing=0)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_lab), **URC)
    np.testing.assert_allclose(prev.urc[0], lab.p_lab, atol=1e-6)
    np.testing.assert_allclose(fieldcal.recalibrate(prev, data.proba_field), data.proba_field, atol=1e-5)
