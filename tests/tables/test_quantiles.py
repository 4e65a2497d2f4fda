"""Tables with quantile columns give the numbers of the arrays they hold."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm

import fieldcal
from fieldcal import regression, tables
from fieldcal.errors import InputError, InputTypeError, UnseenGroupWarning
from fieldcal.objects import Columns
from fieldcal.tables.quantile_columns import levels_by_pattern

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
NAMES = tuple(f"q_{u:g}" for u in LEVELS)
EDGES = [-1.0, 0.0, 1.0]


def simulated(n, *, shift=0.0, seed=0):
    """Numbers that a calibrated model sees with noise: quantiles, numbers, sites."""
    rng = np.random.default_rng(seed)
    site = rng.integers(3, size=n)
    y = rng.normal(size=n) + shift * (site - 1)
    middle = (y + 0.7 * rng.normal(size=n)) / 1.49
    return middle[:, None] + 0.57 * norm.ppf(LEVELS), y, np.array(["Bath", "Leeds", "York"])[site]


def frame(quantiles, **more):
    return pl.DataFrame({**more, **dict(zip(NAMES, quantiles.T, strict=True))})


def as_pandas(table):
    rows = table.to_pandas()
    return rows.set_index(pd.Index(range(len(rows), 0, -1), name="from the end"))


def as_nullable(table):
    return table.to_pandas().convert_dtypes()


def as_relation(table):
    import duckdb

    return duckdb.connect().from_arrow(table.to_arrow())


IN_MEMORY = {
    "polars": lambda t: t,
    "pandas": as_pandas,
    "nullable": as_nullable,
    "pyarrow": pl.DataFrame.to_arrow,
}
ELSEWHERE = {"lazy": pl.DataFrame.lazy, "duckdb": as_relation}


@pytest.fixture(scope="module")
def known():
    quantiles, y, site = simulated(2400)
    return quantiles, y, site, frame(quantiles, y=y, site=site)


@pytest.fixture(scope="module")
def lab(known):
    return tables.learn(known[3], quantiles="q_*", label="y", by="site", intervals=EDGES)


@pytest.fixture(scope="module")
def unknown():
    quantiles, y, site = simulated(900, shift=0.8, seed=1)
    return quantiles, site, frame(quantiles, row=np.arange(900), site=site, y=y)


@pytest.fixture(scope="module")
def prev(lab, unknown):
    return fieldcal.estimate(lab, tables.count(lab, unknown[2]), trust=1)


@pytest.mark.parametrize("kind", ["polars", "pandas", "duckdb"])
def test_a_lab_of_a_table_is_that_of_its_arrays_and_knows_the_columns(kind, known, lab):
    quantiles, y, site, rows = known
    arrays = fieldcal.learn(
        regression.from_quantiles(quantiles, LEVELS), y, groups=site, intervals=EDGES, random_state=0
    )
    native = (IN_MEMORY | ELSEWHERE)[kind](rows)
    found = tables.learn(native, quantiles="q_*", label="y", by="site", intervals=EDGES)
    assert found.columns == Columns(scores=NAMES, label="y", by=("site",), levels=LEVELS)
    assert found == lab
    assert found.model_copy(update={"columns": None}).to_json() == arrays.to_json()
    assert fieldcal.Lab.from_json(found.to_json()) == found


def test_a_field_of_a_table_is_that_of_its_arrays(lab, unknown):
    for kind in IN_MEMORY | ELSEWHERE:
        quantiles, site, rows = unknown
        arrays = fieldcal.count(lab, regression.from_quantiles(quantiles, LEVELS), groups=site)
        field = tables.count(lab, (IN_MEMORY | ELSEWHERE)[kind](rows))
        assert field.by == ("site",)
        assert field.model_copy(update={"by": ()}).to_json() == arrays.to_json()
        assert fieldcal.Field.from_json(field.to_json()) == field


def test_recalibrated_columns_are_those_of_the_arrays_in_a_table_in_memory(prev, unknown):
    for kind in IN_MEMORY:
        quantiles, site, rows = unknown
        wanted = fieldcal.recalibrate(prev, regression.from_quantiles(quantiles, LEVELS), groups=site)
        given = IN_MEMORY[kind](rows)
        answer = tables.recalibrate(prev, given)
        assert type(answer) is type(given)
        new = [f"{n}_recalibrated" for n in NAMES]
        got = np.column_stack([np.asarray(answer[n], dtype=np.float64) for n in new])
        np.testing.assert_allclose(got, wanted.values, rtol=0, atol=1e-12)
        assert np.abs(got - quantiles).max() > 0.1
        assert list(getattr(answer, "column_names", answer.columns)) == [*rows.columns, *new]
        if kind == "pandas":
            pd.testing.assert_frame_equal(answer[rows.columns], given)
    for kind in ELSEWHERE:
        with pytest.raises(InputError, match=r"needs a table in memory, but got .* Collect it first"):
            tables.recalibrate(prev, ELSEWHERE[kind](unknown[2]))


def test_new_columns_are_named_as_told_and_never_over_others(prev, unknown):
    rows = unknown[2]
    assert tables.recalibrate(prev, rows, name="new {}").columns[-1] == "new q_0.95"
    again = tables.recalibrate(prev, rows)
    with pytest.raises(InputError, match=r"'q_0.05_recalibrated', which the table already has"):
        tables.recalibrate(prev, again)
    # What was added does not disturb the pattern.
    assert tables.count(prev.lab, again, quantiles="q_*") == prev.field


def test_null_is_a_group_and_several_columns_make_tuples(lab, unknown):
    rows = unknown[2].with_columns(
        site=pl.when(pl.col("row") % 9 == 0).then(None).otherwise("site"),
        day=pl.Series([dt.date(2026, 1, 1 + i % 2) for i in range(900)]),
    )
    field = tables.count(lab, rows)
    assert (field.groups, field.n[-1]) == (("Bath", "Leeds", "York", None), 100)
    both = tables.count(lab, rows, by=["site", "day"])
    assert both.by == ("site", "day")
    assert (None, dt.date(2026, 1, 1)) in both.groups
    prev = fieldcal.estimate(lab, field, trust=1)
    answer = tables.recalibrate(prev, rows)
    nowhere = np.array([s is None for s in rows["site"]])
    groups = rows["site"].to_list()
    predicted = regression.from_quantiles(unknown[0], LEVELS)
    wanted = fieldcal.recalibrate(prev, predicted, groups=groups).values[nowhere, 0]
    np.testing.assert_allclose(answer["q_0.05_recalibrated"].to_numpy()[nowhere], wanted, atol=1e-12)


def test_unseen_groups_are_warned_of_and_groups_of_another_type_refused(prev, unknown):
    rows = unknown[2].with_columns(site=pl.lit("Hull"))
    with pytest.warns(UnseenGroupWarning, match="Hull"):
        tables.recalibrate(prev, rows)
    raw = tables.recalibrate(prev, rows, unseen="raw")
    np.testing.assert_allclose(raw["q_0.5_recalibrated"], rows["q_0.5"], atol=1e-9)
    with pytest.raises(InputError, match="none can match"):
        tables.recalibrate(prev, unknown[2].with_columns(site=pl.col("row")))


def test_a_pattern_understands_levels_and_percentages_and_what_can_be_misread_is_refused():
    for names, levels in (
        (["q0.05", "q0.5", "q.95"], [0.05, 0.5, 0.95]),
        (["q05", "q50", "q95"], [0.05, 0.5, 0.95]),
        (["q95", "q5", "q50", "quality", "q", "q5_recalibrated", "q-1", "qnan"], [0.05, 0.5, 0.95]),
        (["q1", "q2.5", "q97.5", "q99"], [0.01, 0.025, 0.975, 0.99]),
        (["q2.3", "q50"], [0.023, 0.5]),
    ):
        assert sorted(levels_by_pattern("q*", names)) == levels
    for pattern, names, message in (
        ("q*", ["q0.5", "q5", "q50"], "'q50' looks like a percentage and 'q0.5' like a level. Say it"),
        ("q*", ["q025", "q500", "q975"], "finds 975, which is neither a level nor a percentage"),
        ("q*", ["q5", "q05", "q50"], "'q5' and 'q05' are both of level 0.05"),
        ("q*", ["q5", "p50"], "finds only 'q5' .* at least two .* The table has 'q5', 'p50'"),
        ("p_*", ["q5", "q50"], "finds no column with a number"),
        ("q", ["q5", "q50"], r"must have one \*"),
        ("*q*", ["q5", "q50"], r"must have one \*"),
    ):
        with pytest.raises(InputError, match=message):
            levels_by_pattern(pattern, names)


def test_a_mapping_says_the_level_of_any_column_in_any_order(known, lab):
    rows = known[3].rename({"q_0.05": "low", "q_0.95": "high"})
    asked = {0.95: "high", 0.5: "q_0.5", 0.05: "low", np.float64(0.25): "q_0.25", 0.75: "q_0.75"}
    found = tables.learn(rows, quantiles=asked, label="y", by="site", intervals=EDGES)
    assert found.columns.scores == ("low", "q_0.25", "q_0.5", "q_0.75", "high")
    assert found.columns.levels == LEVELS
    np.testing.assert_array_equal(found.F, lab.F)


def test_wrong_columns_are_told_by_name(known):
    for change, error, message in (
        ({"quantiles": {0.1: "q_0.5", 0.9: "q_0.59"}}, InputError, "no column 'q_0.59' .* mean 'q_0.5'"),
        ({"quantiles": {0.1: "q_0.5", 0.9: "q_0.5"}}, InputError, "'q_0.5' is given for two levels"),
        ({"quantiles": {10: "q_0.05", 90: "q_0.95"}}, InputError, "Divide percent by 100"),
        ({"quantiles": {"low": "q_0.05", "high": "q_0.95"}}, InputTypeError, "levels .*, but one is 'low'"),
        ({"quantiles": {0.1: "q_0.05", 0.9: "site"}}, InputTypeError, "'site' must be numbers, but are"),
        ({"quantiles": ["q_0.05", "q_0.95"]}, InputTypeError, r"a pattern such as 'q_\*' or a mapping"),
        ({"label": "yy"}, InputError, "no column 'yy' for the label. Did you mean 'y'"),
        ({"label": "site"}, InputTypeError, "The label in column 'site' must be numbers"),
        ({"by": "sites"}, InputError, "no column 'sites' for the groups. Did you mean 'site'"),
    ):
        asked = {"quantiles": "q_*", "label": "y", "by": "site", **change}
        with pytest.raises(error, match=message):
            tables.learn(known[3], **asked)


def test_rows_without_a_quantile_or_a_number_are_refused_with_their_number(lab, unknown, known):
    for kind in IN_MEMORY | ELSEWHERE:
        for nothing in (None, float("nan")):
            rows = unknown[2].with_columns(
                pl.when(pl.col("row") < 3).then(nothing).otherwise("q_0.5").alias("q_0.5")
            )
            with pytest.raises(InputError, match=r"3 of 900 rows have a quantile that is null.* 'q_0.5'"):
                tables.count(lab, (IN_MEMORY | ELSEWHERE)[kind](rows))
    for kind in IN_MEMORY | ELSEWHERE:
        rows = known[3].with_columns(y=pl.when(pl.col("y") > 2).then(None).otherwise("y"))
        missing = int((known[1] > 2).sum())
        with pytest.raises(InputError, match=f"{missing} of 2,400 rows have no number in the label"):
            tables.learn((IN_MEMORY | ELSEWHERE)[kind](rows), quantiles="q_*", label="y")


def test_quantiles_that_cross_are_refused_or_sorted(known, prev, unknown):
    rows = unknown[2].rename({"q_0.25": "q_0.75", "q_0.75": "q_0.25"})
    with pytest.raises(InputError, match=r"cross in 900 of 900 rows.*crossing='sort'"):
        tables.count(prev.lab, rows)
    with pytest.raises(InputError, match="cross"):
        tables.recalibrate(prev, rows)
    with pytest.raises(InputError, match="cross"):
        tables.learn(known[3].rename({"q_0.25": "q_0.75", "q_0.75": "q_0.25"}), quantiles="q_*", label="y")
    assert tables.count(prev.lab, rows, crossing="sort") == prev.field
    answer = tables.recalibrate(prev, rows, crossing="sort")
    wanted = tables.recalibrate(prev, unknown[2])
    new = [f"{n}_recalibrated" for n in NAMES]
    assert answer.select(new).equals(wanted.select(new))


def test_a_lab_from_arrays_asks_for_the_columns_and_an_empty_table_stays_empty(known, unknown, lab, prev):
    arrays = fieldcal.learn(regression.from_quantiles(known[0], LEVELS), known[1], intervals=EDGES)
    with pytest.raises(InputError, match=r"knows no quantile columns. Pass quantiles="):
        tables.count(arrays, unknown[2])
    field = tables.count(arrays, unknown[2], quantiles="q_*", by="site")
    assert field.groups == ("Bath", "Leeds", "York")
    nothing = unknown[2].head(0)
    assert tables.count(lab, nothing).groups == ()
    assert tables.recalibrate(prev, nothing).shape == (0, unknown[2].width + 5)
    with pytest.raises(InputError, match="The field is empty"):
        tables.count(lab, nothing, by=[])


def test_labs_of_classes_and_of_numbers_are_not_mixed_up(lab, prev, unknown):
    data = fieldcal.datasets.label_shift(n_lab=500, random_state=0)
    classes = fieldcal.learn(data.proba_lab, data.y_lab)
    with pytest.raises(InputError, match=r"quantiles=.* does not go with probabilities.*with scores="):
        tables.count(classes, unknown[2], quantiles="q_*")
    for verb, given in ((tables.count, lab), (tables.recalibrate, prev), (tables.read_labelled, prev)):
        with pytest.raises(InputError, match=r"scores=.* does not go with distributions.*with quantiles="):
            verb(given, unknown[2], scores="q_0.5")
    for refused in (
        lambda: tables.sql_count(lab, "log", dialect="postgres"),
        lambda: tables.sql_recalibrate(prev, "log", dialect="postgres"),
    ):
        with pytest.raises(InputError, match=r"of a regression.*no SQL.*fieldcal count"):
            refused()


def test_columns_levels_and_intervals_have_to_fit(lab):
    with pytest.raises(ValueError, match="levels"):
        Columns(scores=NAMES, label="y", levels=LEVELS[:-1])
    content = lab.content()
    classes = {"kind": "classes", "labels": list(lab.classes), "ordered": True}
    with pytest.raises(ValueError, match="levels of quantiles, but the outcome is classes"):
        fieldcal.Lab.model_validate({**content, "outcome": classes})
    with pytest.raises(ValueError, match="quantiles without their levels"):
        fieldcal.Lab.model_validate({**content, "columns": {**content["columns"], "levels": None}})


def test_options_of_the_other_kind_are_refused(known, lab, unknown):
    for options, message in (
        ({}, "none is given, but one is needed: the first names columns"),
        ({"scores": "q_0.5", "quantiles": "q_*"}, "scores and quantiles are given"),
        ({"quantiles": "q_*", "classes": ["a", "b"]}, r"classes=.* does not go with .* Use intervals="),
        ({"quantiles": "q_*", "normalize": True}, "normalize=.* does not go with distributions of a number"),
        ({"quantiles": "q_*", "ordered": True}, "in order anyway"),
        ({"scores": "q_0.5", "intervals": 3}, "intervals=.* does not go with probabilities of classes"),
        ({"scores": "q_0.5", "atoms": [0.0]}, "atoms=.* does not go with probabilities of classes"),
        ({"scores": "q_0.5", "crossing": "sort"}, "crossing=.* does not go with probabilities of classes"),
    ):
        with pytest.raises(InputError, match=message):
            tables.learn(known[3], label="y", **options)
    for options, message in (
        ({"missing": "drop"}, "missing=.* does not go .* Drop rows without a prediction first"),
        ({"normalize": True}, "normalize=.* does not go"),
        ({"time": "day", "every": "1d"}, r"time=.* does not go .* with batch=…"),
    ):
        with pytest.raises(InputError, match=message):
            tables.count(lab, unknown[2], **options)
