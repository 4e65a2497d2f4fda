"""change_prevalence: the paper's lemma for a known bias, on arrays, in every engine and in SQL."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from fieldcal import change_prevalence, tables
from fieldcal.errors import InputError, InputTypeError

positive = st.floats(0.01, 1.0)
three = st.tuples(positive, positive, positive)


def bayes(proba, old, new):
    """From the definition: the joint distribution of class and prediction, with its classes reweighted."""
    joint = [
        [
            float(c) * float(n) / (float(o) / sum(old)) / sum(new)
            for c, o, n in zip(row, old, new, strict=True)
        ]
        for row in proba
    ]
    return [[x / sum(row) for x in row] for row in joint]


@given(three, three, st.lists(three, min_size=1, max_size=5))
def test_it_is_bayes_rule(old, new, rows):
    proba = [[x / sum(row) for x in row] for row in rows]
    assert_allclose(change_prevalence(proba, old=old, new=new), bayes(proba, old, new), rtol=1e-12)


@given(positive, positive, st.floats(0, 1), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_only_ratios_count_and_the_way_back_leads_back(a, b, score, one, other):
    old, new = np.array([1.0, a]), np.array([b, 1.0])
    there = change_prevalence([score], old=old, new=new)
    assert_allclose(change_prevalence([score], old=one * old, new=other * new), there, rtol=1e-12)
    assert_allclose(change_prevalence(there, old=new, new=old), [score], rtol=1e-9)
    assert_allclose(change_prevalence([score], old=old, new=old), [score], rtol=1e-15)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0, 1))
def test_one_number_is_of_the_second_class_and_one_column_equals_two(old, new, score):
    one = change_prevalence([score], old=old, new=new)
    two = change_prevalence([[1 - score, score]], old=[1 - old, old], new=[1 - new, new])
    assert_allclose(two[:, 1], one, rtol=1e-12)


def test_groups_have_prevalences_of_their_own():
    scores, places = np.array([0.5, 0.9, 0.5]), ["forest", "meadow", "meadow"]
    answer = change_prevalence(scores, old=0.5, new={"meadow": 0.1, "forest": [0.1, 0.9]}, groups=places)
    assert_allclose(answer, [0.9, 0.5, 0.1])
    answer = change_prevalence([0.0, 1.0, np.nan], old=0.5, new=0.01, missing="keep")
    assert answer[:2].tolist() == [0, 1]
    assert np.isnan(answer[2])
    assert change_prevalence([[0.2, 0.3, 0.5]], old=[1, 1, 1], new=[1, 0, 1])[0, 1] == 0


def test_class_weights_and_undersampling_are_undone():
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=60_000) < 0.05).astype(int)
    x = rng.normal(y[:, None] * [1.0, 0.7], 1.0)
    plain = LogisticRegression(C=1e6).fit(x, y)
    weighted = LogisticRegression(C=1e6, class_weight={0: 1, 1: 19}).fit(x, y)
    kept = (y == 1) | (rng.uniform(size=len(y)) < 0.1)
    sampled = LogisticRegression(C=1e6).fit(x[kept], y[kept])
    wanted = plain.predict_proba(x)
    unweighted = change_prevalence(weighted.predict_proba(x), old=[1, 19], new=[1, 1])
    unsampled = change_prevalence(sampled.predict_proba(x), old=np.bincount(y[kept]), new=np.bincount(y))
    for found in (unweighted, unsampled):
        assert np.abs(found - wanted).mean() < 0.002  # three fits of one model, none of them exact
        assert_allclose(found.mean(axis=0), np.bincount(y) / len(y), atol=0.003)


def test_what_cannot_be_is_refused_by_its_name():
    for options, words in (
        ({"old": 0.5, "new": 1.5}, "new must be a share, or one number per class, .* but got 1.5"),
        ({"old": [1, 0], "new": [1, 1]}, "old is 0 for class number 1"),
        ({"old": [1, 2, 3], "new": [1, 2]}, "old has 3 classes and new has 2"),
        (
            {"old": {"a": 1, "b": 1}, "new": 0.5},
            "old names classes, but their order is not known. Pass classes=",
        ),
        ({"old": {"a": 1, "c": 1}, "new": 0.5, "classes": ["a", "b"]}, "'b' is missing"),
        ({"old": 0.5, "new": 0.2, "groups": ["x"]}, "With groups, new must be a mapping"),
        (
            {"old": 0.5, "new": {"y": 0.2}, "groups": ["x"]},
            r"No prevalence was given for 1 groups \(1 rows, the first is 'x'\)",
        ),
        ({"old": 0.5, "new": [-1, 2]}, "none negative"),
        ({"old": [0.2, 0.3, 0.5], "new": [0.2, 0.3, 0.5]}, "2 classes, but there are 3"),
    ):
        with pytest.raises((InputError, InputTypeError), match=words):
            change_prevalence([0.5], **options)


# Tables ---------------------------------------------------------------------------------------------------


def known_rows(n=60):
    rng = np.random.default_rng(1)
    proba = rng.dirichlet([1, 1, 1], n)
    return pa.table(
        {
            "id": np.arange(n),
            "place": rng.choice(["forest", "meadow"], n),
            "p": rng.uniform(size=n),
            **{f"p_{name}": proba[:, k] for k, name in enumerate(("ant", "bee", "fly"))},
        }
    )


@pytest.mark.conformance
def test_every_engine_does_what_arrays_do(engine):
    rows = known_rows()
    new = engine.read(tables.change_prevalence(engine.make(rows), scores="p", old=0.5, new=0.1))
    assert new["id"] == rows["id"].to_pylist()
    assert_allclose(
        new["p_recalibrated"], change_prevalence(rows["p"].to_numpy(), old=0.5, new=0.1), rtol=1e-12
    )


def test_a_pattern_says_the_classes_and_groups_have_their_own(engine):
    rows = known_rows()
    old = {"fly": 5, "ant": 3, "bee": 2}
    new = {"forest": [1, 2, 3], "meadow": {"bee": 0.5, "ant": 0.4, "fly": 0.1}}
    made = engine.read(
        tables.change_prevalence(engine.make(rows), scores="p_*", old=old, new=new, by="place")
    )
    proba = np.column_stack([rows[f"p_{name}"].to_numpy() for name in ("ant", "bee", "fly")])
    answer = change_prevalence(
        proba, old=old, new=new, groups=rows["place"].to_pylist(), classes=["ant", "bee", "fly"]
    )
    found = np.column_stack([made[f"p_{name}_recalibrated"] for name in ("ant", "bee", "fly")])
    assert_allclose(found, answer, rtol=1e-12)


def test_groups_without_a_prevalence_are_refused_or_left_alone(local_engine):
    rows = known_rows()
    options = {"scores": "p", "old": 0.5, "new": {"forest": 0.1}, "by": "place"}
    with pytest.raises(
        InputError, match=r"No prevalence was given for the groups of \d+ rows \(one is 'meadow'\)"
    ):
        tables.change_prevalence(local_engine.make(rows), **options)
    made = local_engine.read(tables.change_prevalence(local_engine.make(rows), unseen="raw", **options))
    left = [place == "meadow" for place in made["place"]]
    assert_allclose(np.array(made["p_recalibrated"])[left], np.array(made["p"])[left])


def test_columns_that_do_not_fit_are_refused():
    for options, words in (
        ({"scores": "q_*", "old": 0.5, "new": 0.1}, "'q_\\*' fits 0 of the columns"),
        ({"scores": "p", "old": [1, 1, 1], "new": [1, 1, 1]}, "prevalences of 3 classes, but 1 columns"),
        (
            {"scores": ["p_ant", "p_bee"], "old": 0.5, "new": 0.1, "classes": ["a"]},
            "2 columns of scores for 1",
        ),
        ({"scores": "pp", "old": 0.5, "new": 0.1}, "'pp'.* Did you mean 'p'"),
    ):
        with pytest.raises(InputError, match=words):
            tables.change_prevalence(known_rows(), **options)


def test_a_statement_does_what_arrays_do():
    rows = known_rows()
    old, new = [3, 2, 5], {"forest": [1, 2, 3], "meadow": [0.4, 0.5, 0.1]}
    names = ["p_ant", "p_bee", "p_fly"]
    statement = tables.sql_change_prevalence(
        "rows", dialect="duckdb", scores=names, old=old, new=new, by="place"
    )
    with duckdb.connect() as link:
        link.register("rows", rows)
        found = link.sql(f"SELECT * FROM ({statement}) ORDER BY id").to_arrow_table()
    proba = np.column_stack([rows[n].to_numpy() for n in names])
    answer = change_prevalence(proba, old=old, new=new, groups=rows["place"].to_pylist())
    made = np.column_stack([found[f"{n}_recalibrated"].to_numpy() for n in names])
    assert_allclose(made, answer, rtol=1e-12)


# What is named goes by its name ----------------------------------------------------------------------------


def test_a_series_goes_by_its_index_and_not_by_its_order():
    y = pd.Series([1] * 90 + [0] * 10)
    by_name = change_prevalence([0.5, 0.9], old=y.value_counts(), new=[0.5, 0.5], classes=[0, 1])
    assert_allclose(by_name, change_prevalence([0.5, 0.9], old=[10, 90], new=[0.5, 0.5]))
    with pytest.raises(InputError, match="old names classes, but their order is not known"):
        change_prevalence([0.5, 0.9], old=y.value_counts(), new=[0.5, 0.5])
    places = pd.Series({"meadow": 0.1, "forest": 0.9})
    answer = change_prevalence([0.5, 0.9], old=0.5, new=places, groups=["forest", "meadow"])
    assert_allclose(answer, [0.9, 0.5])
