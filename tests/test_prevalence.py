"""Prevalence: value and interval, contrasts, ranking, poststratification, performance, tables, labels."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fieldcal
from fieldcal.errors import InputError

PRIORS = ["auto", "flat", "kl", "dirichlet"]

# One of the labs is small, and fields differ as much as they like.
pytestmark = pytest.mark.filterwarnings(
    "ignore::fieldcal.errors.PoolingWarning", "ignore::fieldcal.errors.TrustWarning"
)


@functools.cache
def data(K=2, n_lab=3000, n_field=3000, n_groups=6, seed=1):
    p_lab = (0.6, 0.4) if K == 2 else (0.5, 0.3, 0.2)
    return fieldcal.datasets.label_shift(
        n_lab=n_lab, n_field=n_field, n_groups=n_groups, p_lab=p_lab, concentration=2.0, random_state=seed
    )


@functools.cache
def counted(K=2, rehearsed=False, **options):
    d = data(K, **options)
    lab = fieldcal.learn(d.proba_lab, d.y_lab, groups=d.groups_lab if rehearsed else None)
    return lab, fieldcal.count(lab, d.proba_field, groups=d.groups_field)


def labelled(lab, every, group=None):
    """The field of two classes, with the class of some rows, of one group or of all."""
    d = data(2)
    places = [i for i, g in enumerate(d.groups_field) if group in (None, g)][::every]
    y = np.full(len(d.y_field), np.nan)
    y[places] = d.y_field[places]
    return fieldcal.count(lab, d.proba_field, groups=d.groups_field, y=y)


@functools.cache
def full(K=2, prior="auto", **options):
    """URC at full trust."""
    return fieldcal.estimate(*counted(K, **options), trust=1, prior=prior)


# The value and its interval


@pytest.mark.parametrize("rehearsed", [False, True])
def test_the_value_is_naive_at_trust_0_urcs_at_trust_1_and_a_distribution_always(rehearsed):
    for K in (2, 3):
        lab, field = counted(K, rehearsed)
        for trust in (0, 0.3, 1, "auto"):
            prev = fieldcal.estimate(lab, field, trust=trust)
            np.testing.assert_allclose(prev.estimate.sum(axis=1), 1, atol=1e-12)
            assert (prev.estimate >= 0).all()
            if trust == 0:
                np.testing.assert_array_equal(prev.estimate, prev.mean_prediction)
            if trust == 1:
                np.testing.assert_array_equal(prev.estimate, prev.urc)
            if K == 2 and trust == 0.3:
                low, high = (
                    np.minimum(prev.mean_prediction, prev.urc),
                    np.maximum(prev.mean_prediction, prev.urc),
                )
                assert ((low <= prev.estimate) & (prev.estimate <= high)).all()


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("prior", PRIORS)
def test_the_interval_holds_the_value_inside_0_and_1_and_has_a_width(K, prior):
    for point in ("mean", "mode"):
        lab, field = counted(K)
        for trust in (0.5, 1):
            prev = fieldcal.estimate(lab, field, trust=trust, prior=prior, point=point)
            assert ((prev.lower >= 0) & (prev.upper <= 1)).all()
            assert ((prev.lower <= prev.estimate) & (prev.estimate <= prev.upper)).all()
            assert (prev.upper > prev.lower).all()


def test_the_interval_covers_the_prevalence_of_groups_where_the_assumption_holds():
    inside = []
    for seed in range(12):
        d = data(seed=seed, n_lab=1500, n_groups=10)
        prev = full(n_lab=1500, n_groups=10, seed=seed)
        inside.append((prev.lower <= d.prevalence) & (d.prevalence <= prev.upper))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.09)


# Draws


@pytest.mark.parametrize(
    "prior", [*PRIORS, fieldcal.priors.Dirichlet(300.0), fieldcal.priors.KL(300.0)], ids=str
)
def test_draws_are_of_the_posterior_that_the_interval_is_of(prior):
    for K in (2, 3):
        prev = full(K, prior)
        draws = prev.draws()
        np.testing.assert_allclose(draws.sum(axis=2), 1, atol=1e-9)
        np.testing.assert_allclose(draws.mean(axis=1), prev.urc, atol=0.03)
        width = np.diff(np.quantile(draws, [0.05, 0.95], axis=1), axis=0)[0]
        np.testing.assert_allclose(width, prev.upper - prev.lower, rtol=0.35, atol=0.01)


def test_draws_are_the_same_after_saving_and_loading_and_in_any_order_of_groups(tmp_path):
    prev = full()
    prev.save(tmp_path / "prevalence.json")
    again = fieldcal.Prevalence.load(tmp_path / "prevalence.json")
    np.testing.assert_array_equal(again.draws(), prev.draws())
    assert again.contrast(0, 3) == prev.contrast(0, 3)
    np.testing.assert_array_equal(prev.draws([4, 1, 1]), prev.draws([1, 4])[[1, 0, 0]])


# Contrasts


def test_a_contrast_turned_round_changes_its_sign():
    prev = full()
    there, back = prev.contrast(0, 3), prev.contrast(3, 0)
    assert there.estimate == -back.estimate
    assert (there.lower, there.upper) == pytest.approx((-back.upper, -back.lower))
    assert there.probability == pytest.approx(1 - back.probability)
    ratio = prev.contrast(0, 3, of=1, kind="ratio")
    assert ratio.estimate == prev.urc[0, 1] / prev.urc[3, 1]
    assert ratio.lower < ratio.estimate < ratio.upper
    assert ratio.probability == pytest.approx(there.probability)
    ranking = prev.ranking(of=1)
    assert ranking.groups == prev.groups
    assert ranking.probability.sum() == pytest.approx(1)
    assert ranking.probability.argmax() == prev.urc[:, 1].argmax()


@functools.cache
def answers_of(case):
    """Estimates that the mean of their draws is not."""
    if case == "mode at the edge":
        d = fieldcal.datasets.label_shift(
            prevalence=[[1.0, 0.0], [0.3, 0.7]], n_lab=400, n_field=40, random_state=0
        )
        lab = fieldcal.learn(d.proba_lab, d.y_lab)
        field = fieldcal.count(lab, d.proba_field, groups=d.groups_field)
        return fieldcal.estimate(lab, field, method="paper")
    lab, field = counted(3 if case == "three classes" else 2)
    if case == "no level":
        return fieldcal.estimate(lab, field, trust=1, level=None, point="mode")
    return fieldcal.estimate(lab, labelled(lab, every=30) if case == "labels" else field)


CASES = ["mode at the edge", "three classes", "labels", "no level"]


@pytest.fixture(params=CASES)
def answers(request):
    return answers_of(request.param)


@pytest.mark.parametrize("assume", ["trust", "label_shift"])
def test_every_derived_share_is_that_of_the_table_and_lies_in_its_interval(answers, assume):
    prev = answers
    table = prev.estimate if assume == "trust" else prev.urc
    sizes = np.arange(1, len(prev.groups) + 1)
    for k, of in enumerate(prev.classes):
        shares = prev.shares(of=of, assume=assume)
        asked = prev.shares([1, 0], of=of, assume=assume, level=0.8)
        difference = prev.contrast(0, 1, of=of, assume=assume)
        mix = prev.poststratify(sizes, of=of, assume=assume)
        rows = prev.performance(1, assume=assume)["count"][of]
        np.testing.assert_array_equal([share.estimate for share in shares], table[:, k])
        assert [share.estimate for share in asked] == [table[1, k], table[0, k]]
        assert difference.estimate == table[0, k] - table[1, k]
        assert mix.estimate == pytest.approx(np.average(table[:, k], weights=sizes), abs=1e-12)
        assert rows.estimate == pytest.approx(table[1, k] * prev.n[1], rel=1e-12)
        for found in (*shares, *asked, difference, mix, rows):
            assert found.lower <= found.estimate <= found.upper


@pytest.mark.parametrize("case", CASES[:-1])
def test_shares_at_the_level_of_the_estimate_have_the_intervals_of_the_table(case):
    prev = answers_of(case)
    for level in (None, prev.level):
        shares = prev.shares(level=level)
        np.testing.assert_array_equal([share.lower for share in shares], prev.lower[:, -1])
        np.testing.assert_array_equal([share.upper for share in shares], prev.upper[:, -1])
    assert prev.shares([1], level=0.2)[0].upper < prev.upper[1, -1]


@pytest.mark.slow
def test_a_contrast_covers_the_difference_and_is_narrower_than_two_intervals_of_a_small_lab():
    inside, narrower = [], []
    for seed in range(25):
        d = data(n_lab=300, n_field=4000, n_groups=2, seed=seed)
        prev = full(n_lab=300, n_field=4000, n_groups=2, seed=seed)
        difference = prev.contrast(0, 1)
        truth = d.prevalence[0, 1] - d.prevalence[1, 1]
        inside.append(difference.lower <= truth <= difference.upper)
        width = (prev.upper - prev.lower)[:, 1]
        narrower.append((difference.upper - difference.lower) / np.hypot(*width))
    assert np.mean(inside) > 0.75
    assert np.mean(narrower) < 0.85


def test_contrasts_of_unknown_groups_classes_and_kinds_and_of_a_group_with_itself_are_refused():
    prev, edge = full(), answers_of("mode at the edge")
    for asked, words in (
        (lambda: prev.contrast(0, "x"), "no group 'x' among the 6"),
        (lambda: prev.contrast(0, 1, of=7), r"no class 7\. The classes are \(0, 1\)"),
        (lambda: prev.contrast(0, 1, kind="odds"), "'difference' or 'ratio'"),
        (lambda: prev.contrast(2, np.int64(2)), r"compares two groups, but got '2' twice\. Name another\."),
        (lambda: edge.contrast(1, 0, kind="ratio"), r"group '0' is 0, .* Use kind='difference'\."),
    ):
        with pytest.raises(InputError, match=words):
            asked()
    assert edge.contrast(0, 1, kind="ratio").estimate == pytest.approx(0, abs=1e-9)


# Ranking and other populations


def test_a_population_of_one_group_has_the_interval_of_that_group():
    prev = full()
    for g in range(6):
        for totals in (np.eye(6)[g] * 70, {g: 5000}):
            found = prev.poststratify(totals)
            assert found.estimate == prev.urc[g, 1]
            assert found.lower == pytest.approx(prev.lower[g, 1], abs=0.02)
            assert found.upper == pytest.approx(prev.upper[g, 1], abs=0.02)


def test_totals_that_make_no_population_are_refused():
    for totals in ([1, 2], [0] * 6, [-1, 1, 1, 1, 1, 1], [np.nan] * 6, {"x": 3}):
        with pytest.raises(InputError):
            full().poststratify(totals)


# Performance without labels


@functools.cache
def confusion():
    """P(decision | class) of the model of `label_shift`, from many rows."""
    d = data(n_lab=300_000, n_field=1)
    decided = d.proba_lab > 0.5
    return np.array([[(decided[d.y_lab == k] == j).mean() for j in (0, 1)] for k in (0, 1)])


@pytest.mark.slow
def test_intervals_of_precision_recall_and_count_cover_the_truth():
    covered = {"precision": [], "recall": [], "count": []}
    for seed in range(40):
        prevalence = np.random.default_rng(seed).dirichlet([4, 4], size=1)
        d = fieldcal.datasets.label_shift(
            n_lab=1000, n_field=800, p_lab=(0.6, 0.4), prevalence=prevalence, random_state=seed
        )
        lab = fieldcal.learn(d.proba_lab, d.y_lab)
        found = fieldcal.estimate(lab, fieldcal.count(lab, d.proba_field), trust=1).performance()
        joint = prevalence[0][:, None] * confusion()
        truth = {
            "precision": np.diag(joint) / joint.sum(axis=0),
            "recall": np.diag(confusion()),
            "count": 800 * prevalence[0],
        }
        for name, values in truth.items():
            covered[name] += [found[name][k].lower <= values[k] <= found[name][k].upper for k in (0, 1)]
    # 80 intervals of nominal 90 %: three standard errors below are .80; the lab's noise is shared by both classes.
    for name, hits in covered.items():
        assert np.mean(hits) > (0.82 if name == "precision" else 0.78), name


def test_the_performance_of_a_group_follows_its_prevalence_and_of_all_their_sum():
    prev = full()
    low, high = prev.urc[:, 1].argmin(), prev.urc[:, 1].argmax()
    rare, frequent = (prev.performance(int(g), assume="label_shift") for g in (low, high))
    assert rare["precision"][1].estimate < frequent["precision"][1].estimate
    assert rare["recall"][1].estimate == pytest.approx(frequent["recall"][1].estimate, abs=0.01)
    whole = prev.performance()["count"][1].estimate
    assert whole == pytest.approx((prev.urc[:, 1] * prev.n).sum(), rel=0.02)


# Tables and text


def test_to_frame_has_the_whole_field_and_one_row_per_group_and_class_in_every_library():
    for backend, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)):
        for K in (2, 3):
            prev = full(K)
            table = prev.to_frame(backend)
            assert isinstance(table, kind)
            columns = plain_columns(table)
            assert columns["scope"] == ["whole"] * K + ["group"] * 6 * K
            assert columns["group"] == [None] * K + np.repeat(range(6), K).tolist()
            assert columns["class"] == list(range(K)) * 7
            assert columns["n"] == [3000] * K + np.repeat(prev.n, K).tolist()
            for name in ("mean_prediction", "urc", "estimate", "lower", "upper"):
                both = [getattr(prev.whole, name), getattr(prev, name).ravel()]
                np.testing.assert_allclose(columns[name], np.concatenate(both))
            assert columns["status"] == [None] * K + [s for s in prev.status for _ in range(K)]


def plain_columns(table):
    """Columns as Python's values, null as None."""
    if isinstance(table, pd.DataFrame):
        return {c: [None if pd.isna(v) else v for v in table[c].tolist()] for c in table.columns}
    return table.to_pydict() if isinstance(table, pa.Table) else table.to_dict(as_series=False)


def test_groups_of_several_columns_get_a_column_each():
    d, (lab, _) = data(), counted()
    groups = [("north|south"[6 * (g % 2) :][:5], int(g)) for g in d.groups_field]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, d.proba_field, groups=groups), trust=1)
    table = prev.to_frame("polars")
    assert table.columns[:4] == ["scope", "group_1", "group_2", "class"]
    assert table["group_1"].dtype == pl.String
    assert table["group_2"].dtype == pl.Int64
    assert list(zip(table["group_1"], table["group_2"], strict=True))[2::2] == list(prev.groups)


def test_a_group_is_looked_up_by_its_name_and_has_the_intervals_of_the_table():
    prev = fieldcal.datasets.example().prev
    assert 0 in prev
    assert "Leeds" not in prev
    for k, label in enumerate(prev.classes):
        found = prev[1][label]
        assert (found.lower, found.estimate, found.upper) == (
            prev.lower[1, k],
            prev.estimate[1, k],
            prev.upper[1, k],
        )
    with pytest.raises(InputError, match="no group"):
        prev["Leeds"]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_the_wide_table_has_the_numbers_of_the_long_one_with_a_row_per_group(backend):
    prev = fieldcal.datasets.example().prev
    read = {
        "pandas": lambda frame: frame.to_dict("list"),
        "polars": lambda frame: frame.to_dict(as_series=False),
        "pyarrow": lambda frame: frame.to_pydict(),
    }[backend]
    long, wide = (read(prev.to_frame(backend, wide=w)) for w in (False, True))
    assert [None if g != g else g for g in wide["group"]] == [None, *prev.groups]
    for name in ("mean_prediction", "urc", "estimate", "lower", "upper"):
        for label in prev.classes:
            held = [v for v, c in zip(long[name], long["class"], strict=True) if c == label]
            assert wide[f"{name}_{label}"] == held
