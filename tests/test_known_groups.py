"""Groups that the lab knows by name: what their lab labels do to estimates, verdicts, files and predictions."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

import fieldcal
from fieldcal import Prevalence, tables
from fieldcal.errors import InputError
from fieldcal.objects import Columns
from fieldcal.tables.sql import recalibrate_statement

pytestmark = [  # a model that errs by group is what these tests are about
    pytest.mark.filterwarnings(f"ignore::fieldcal.errors.{name}")
    for name in ("CalibrationWarning", "PoolingWarning", "TrustWarning", "UnseenGroupWarning")
]
NAMES = np.array([f"site {i:02}" for i in range(14)])
BOTH = pytest.mark.parametrize("K", [2, 3])


@cache
def rows(seed=0, K=2, off=0.6, n_lab=2800, n_field=2800, new=0):
    """(predictions, classes, groups) of lab and field: the model errs for each site by an offset that stays."""
    rng = np.random.default_rng([seed, K])
    error = np.column_stack([np.zeros(14), off * rng.normal(size=(14, K - 1))])
    error[:, 1:] -= error[:, 1:].mean(axis=0)
    centre = np.column_stack([np.zeros(14), 0.4 * rng.normal(size=(14, K - 1))])
    found = []
    for phase, n in enumerate((n_lab, n_field)):
        g = rng.integers(0, 14, n)
        logits = centre[g] + 1.2 * np.column_stack([np.zeros(n), rng.normal(size=(n, K - 1))])
        p = softmax(logits + error[g], axis=1)
        y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
        names = NAMES[g].astype(object)
        if phase and new:
            names[g < new] = [f"new {i:02}" for i in g[g < new]]
        q = softmax(logits, axis=1)
        found.append((q[:, 1] if K == 2 else q, y, names))
    return found


def learnt(seed=0, K=2, *, take=slice(None), groups=True, **options):
    p, y, g = rows(seed, K)[0]
    options = {"partition": 6, "smoothing": 1.0, **options} if K == 2 else options
    return fieldcal.learn(p[take], y[take], groups=g[take] if groups else None, **options)


@cache
def lab_of(seed=0, K=2):
    return learnt(seed, K)


@cache
def estimated(seed=0, K=2, new=0, **options):
    lab, (p, _, g) = lab_of(seed, K), rows(seed, K, new=new)[1]
    return fieldcal.estimate(lab, fieldcal.count(lab, p, groups=g), **options)


def truth(prev, seed=0, K=2, new=0):
    _, y, g = rows(seed, K, new=new)[1]
    return np.array([[np.mean(y[g == name] == k) for k in range(K)] for name in prev.groups])


@BOTH
def test_estimates_of_known_groups_are_nearer_the_truth_than_those_without_lab_groups(K):
    errors = []
    for seed in range(2 if K == 2 else 1):
        with_groups = estimated(seed, K)
        p, _, g = rows(seed, K)[1]
        lab = learnt(seed, K, groups=False)
        without = fieldcal.estimate(lab, fieldcal.count(lab, p, groups=g))
        assert not without.rests_on_lab_groups
        errors.append(
            [np.abs(prev.estimate - truth(prev, seed, K)).mean() for prev in (with_groups, without)]
        )
    known, unknown = np.mean(errors, axis=0)
    assert known < 0.6 * unknown


def test_intervals_of_known_groups_hold_the_truth_and_are_narrower_than_without():
    inside, widths = [], []
    for seed in range(2):
        prev, wide = estimated(seed), estimated(seed, persistence=0)
        shares = truth(prev, seed)
        inside.append((prev.lower <= shares) & (shares <= prev.upper))
        widths.append([(found.upper - found.lower).mean() for found in (prev, wide)])
    assert np.mean(inside) > 0.85
    known, none = np.mean(widths, axis=0)
    assert known < 0.75 * none


@pytest.mark.parametrize("given", [0, 0.5, 1, np.float64(0.25), "auto"])
def test_persistence_may_be_auto_or_a_number_from_0_to_1(given):
    found = estimated(persistence=given).by_model
    if given == "auto":
        assert found.given_persistence is None
        assert found.persistence > 0.6
    else:
        assert found.given_persistence == found.persistence == float(given)


@pytest.mark.parametrize("given", [-0.1, 1.1, "most", None, True, float("nan"), [0.5]])
def test_another_persistence_is_refused_with_its_name_and_value(given):
    lab, (p, _, g) = lab_of(), rows()[1]
    field = fieldcal.count(lab, p, groups=g)
    with pytest.raises(InputError, match=r"^persistence must be 'auto' or a number from 0 .* but got"):
        fieldcal.estimate(lab, field, persistence=given)


def test_with_less_persistence_estimates_follow_the_lab_less():
    p, y, g = rows()[0]
    in_lab = np.array([y[g == name].mean() - p[g == name].mean() for name in estimated().groups])
    field = rows()[1]
    mean = np.array([field[0][field[2] == name].mean() for name in estimated().groups])
    slopes = [
        np.polyfit(in_lab, estimated(persistence=rho).estimate[:, 1] - mean, 1)[0] for rho in (0, 0.5, 1)
    ]
    assert slopes[0] < 0.35 < slopes[1] < slopes[2]


def tabular(K):
    lab, (p, _, g) = lab_of(0, K), rows(0, K, new=2)[1]
    names = ("p",) if K == 2 else ("a", "b", "c")
    lab = lab.model_copy(update={"columns": Columns(scores=names, label="y", by=("site",))})
    columns = p[:, None] if K == 2 else p
    frame = pd.DataFrame({**dict(zip(names, columns.T, strict=True)), "site": g}).iloc[:600]
    return lab, frame, names


@BOTH
@pytest.mark.parametrize("shape", ["auto", "tilt", "bins"])
def test_arrays_engines_and_printed_sql_give_equal_bits(K, shape):
    import duckdb
    import polars as pl

    lab, frame, names = tabular(K)
    prev = fieldcal.estimate(lab, tables.count(lab, frame, by="site"))
    assert prev.rests_on_lab_groups
    new = [f"{name}_recalibrated" for name in names]
    scores = frame[list(names)].to_numpy()
    expected = fieldcal.recalibrate(
        prev, scores[:, 0] if K == 2 else scores, groups=frame["site"].to_numpy(), shape=shape
    ).reshape(len(frame), -1)
    assert np.abs(expected - scores).max() > 0.05
    in_pandas = tables.recalibrate(prev, frame, shape=shape)[new].to_numpy()
    assert_allclose(in_pandas, expected, rtol=0, atol=1e-12)
    in_polars = tables.recalibrate(prev, pl.from_pandas(frame), shape=shape).select(new).to_numpy()
    assert_array_equal(in_polars, in_pandas)
    connection = duckdb.connect()
    connection.register("rows", frame)
    relation = tables.recalibrate(prev, connection.table("rows"), shape=shape)
    assert_array_equal(relation.df()[new].to_numpy(), in_pandas)
    printed = recalibrate_statement(prev, "rows", dialect="duckdb", shape=shape)
    assert_array_equal(connection.sql(printed).df()[new].to_numpy(), in_pandas)


def test_auto_is_bins_where_lab_groups_correct_the_calibration_and_a_tilt_elsewhere():
    (p, _, g), prev = rows()[1], estimated()
    auto, bins, tilt = (
        fieldcal.recalibrate(prev, p, groups=g, shape=shape) for shape in ("auto", "bins", "tilt")
    )
    assert_array_equal(auto, bins)
    assert np.abs(auto - tilt).max() > 1e-3
    other = estimated(trust=1)
    assert_array_equal(
        fieldcal.recalibrate(other, p, groups=g), fieldcal.recalibrate(other, p, groups=g, shape="tilt")
    )


@BOTH
def test_recalibrated_predictions_have_the_estimate_as_their_mean_in_each_group(K):
    """Up to predictions that differ within a bin."""
    (p, _, g), prev = rows(0, K)[1], estimated(0, K)
    for shape, tolerance in (("tilt", 0.03), ("bins", 0.03)):
        new = fieldcal.recalibrate(prev, p, groups=g, shape=shape)
        new = np.column_stack([1 - new, new]) if K == 2 else new
        mean = np.array([new[g == name].mean(axis=0) for name in prev.groups])
        assert_allclose(mean, prev.estimate, atol=tolerance)


def test_recalibrating_known_groups_improves_their_log_loss():
    (p, y, g), prev = rows()[1], estimated()
    new = fieldcal.recalibrate(prev, p, groups=g)
    before, after = (-np.log(np.where(y == 1, x, 1 - x)).mean() for x in (p, new))
    assert after < before - 0.008


@BOTH
def test_an_estimate_by_lab_groups_survives_json_with_its_draws(K):
    prev = estimated(0, K)
    back = Prevalence.model_validate_json(prev.model_dump_json())
    assert back.by_model.persistence == prev.by_model.persistence
    assert_array_equal(back.by_model.bins_tilt, prev.by_model.bins_tilt)
    assert_array_equal(back.draws(prev.groups[:2]), prev.draws(prev.groups[:2]))


def test_tables_that_do_not_fit_the_groups_are_refused_when_a_file_is_read():
    data = json.loads(estimated().model_dump_json())
    data["by_model"]["lab_rows"] = data["by_model"]["lab_rows"][:-1]
    with pytest.raises(ValueError, match="by_model"):
        Prevalence.model_validate_json(json.dumps(data))


def test_draws_of_the_share_agree_with_the_estimate_and_its_interval():
    prev = estimated()
    draws = prev.draws(prev.groups)
    assert (np.abs(draws.mean(axis=1) - prev.estimate) < 0.25 * draws.std(axis=1)).all()
    inside = (draws >= prev.lower[:, None]) & (draws <= prev.upper[:, None])
    assert inside.mean() == pytest.approx(0.9, abs=0.04)


def test_the_table_has_how_many_labels_each_estimate_rests_on():
    prev = estimated(new=2)
    table = prev.to_frame("pandas").query("scope == 'group'").drop_duplicates("group").set_index("group")
    _, _, g = rows()[0]
    for name in prev.groups:
        assert table.loc[name, "lab_labels"] == pytest.approx(np.sum(g == name))
        assert table.loc[name, "field_labels"] == 0
    assert table["lab_labels"].eq(0).sum() == 2


def test_protected_groups_are_estimated_from_their_labels_but_not_applied():
    prev = estimated(protected=True)
    assert_array_equal(prev.estimate, estimated().estimate)
    p, _, g = rows()[1]
    with pytest.raises(InputError, match="protected"):
        fieldcal.recalibrate(prev, p, groups=g)
    assert np.isfinite(fieldcal.recalibrate(prev, p, groups=g, acknowledge=True)).all()


def test_a_field_without_any_known_group_is_estimated_with_wide_intervals_and_not_ok():
    lab, (p, _, g) = lab_of(), rows()[1]
    renamed = np.array([f"other {name}" for name in g])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, p, groups=renamed))
    assert not any(prev.to_dict()["lab_labels"])
    assert (prev.upper - prev.lower).mean() > 1.3 * (estimated().upper - estimated().lower).mean()
    assert prev.verdict.level != "ok"


def test_a_group_that_the_lab_does_not_know_has_a_wider_interval_than_known_ones_beside_it():
    prev = estimated(new=3)
    new = np.array([name.startswith("new") for name in prev.groups])
    width = (prev.upper - prev.lower)[:, 1]
    assert new.sum() == 3
    assert width[new].min() > 1.3 * np.median(width[~new])


def test_groups_of_one_row_and_of_none_have_finite_estimates():
    lab, (p, _, g) = lab_of(), rows()[1]
    kept = np.concatenate(
        [[np.flatnonzero(g == name)[0]] for name in NAMES[:5]] + [np.flatnonzero(g == NAMES[6])]
    )
    prev = fieldcal.estimate(lab, fieldcal.count(lab, p[kept], groups=g[kept]))
    assert np.isfinite(prev.estimate).all()
    assert ((prev.lower >= 0) & (prev.lower <= prev.estimate) & (prev.estimate <= prev.upper)).all()


def test_a_lab_with_a_calibration_map_uses_its_groups():
    lab = learnt(calibration="sigmoid")
    p, _, g = rows()[1]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, p, groups=g))
    assert prev.rests_on_lab_groups
    assert np.abs(prev.estimate - truth(prev)).mean() < 0.06


def test_equal_weights_are_the_same_as_none():
    y = rows()[0][1]
    weighted = learnt(sample_weight=np.full(len(y), 2.5))
    field = rows()[1]
    prev = fieldcal.estimate(weighted, fieldcal.count(weighted, field[0], groups=field[2]))
    assert_allclose(prev.estimate, estimated().estimate, atol=1e-6)
    assert_allclose(prev.by_model.lab_rows, estimated().by_model.lab_rows)


@pytest.mark.parametrize(
    "options",
    [{"trust": 1}, {"trust": 0.4}, {"method": "paper"}, {"point": "mode"}, {"level": None, "point": "mode"}],
    ids=str,
)
def test_what_a_caller_set_leaves_lab_groups_out(options):
    lab, (p, _, g) = lab_of(), rows()[1]
    field = fieldcal.count(lab, p, groups=g)
    with_groups = fieldcal.estimate(lab, field, **options)
    assert not with_groups.rests_on_lab_groups
    again = fieldcal.estimate(lab, field, persistence=0.9, **options)
    assert_array_equal(with_groups.estimate, again.estimate)


def test_the_paper_is_unchanged_by_labels_of_lab_groups():
    lab, (p, _, g) = lab_of(), rows()[1]
    plain = learnt(groups=False)
    one, two = (fieldcal.estimate(x, fieldcal.count(x, p, groups=g), method="paper") for x in (lab, plain))
    assert_array_equal(one.estimate, two.estimate)


def test_ordered_classes_and_numbers_leave_lab_groups_out():
    p, y, g = rows(0, 3)[0]
    lab = fieldcal.learn(p, y, groups=g, ordered=True)
    q, _, h = rows(0, 3)[1]
    assert not fieldcal.estimate(lab, fieldcal.count(lab, q, groups=h)).rests_on_lab_groups


def test_one_population_leaves_lab_groups_out():
    lab, (p, _, _) = lab_of(), rows()[1]
    assert not fieldcal.estimate(lab, fieldcal.count(lab, p)).rests_on_lab_groups


@pytest.mark.parametrize("seed", range(3))
def test_less_information_gives_no_better_verdict(seed):
    order = ("do_not_use", "care", "ok")
    full = order.index(estimated(seed).verdict.level)
    p, _, g = rows(seed)[1]
    few = np.isin(rows(seed)[0][2], NAMES[:7])
    for lab in (learnt(seed, groups=False), learnt(seed, take=few)):
        less = fieldcal.estimate(lab, fieldcal.count(lab, p, groups=g))
        assert order.index(less.verdict.level) <= full


def test_the_verdict_has_how_many_labels_and_what_persistence_it_rests_on():
    found = estimated().verdict.finding("lab_groups")
    assert found.state == "ok"
    assert "2,800 lab rows of 14 of the field's 14 groups (100% of the rows)" in found.text
    assert estimated(persistence=0).verdict.finding("lab_groups").state == "care"
    assert "0.90, as set by the caller" in estimated(persistence=0.9).verdict.finding("lab_groups").text
