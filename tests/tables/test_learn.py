"""learn on tables: the Lab of the same rows as arrays, and the names of the columns."""

from __future__ import annotations

import functools
import math

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalError, InputError, InputTypeError
from fieldcal.objects import Columns
from tables import truth

CLASSES = ("cat", "dog", "eel")
UNCALIBRATED = "ignore:The model is not calibrated:fieldcal.errors.CalibrationWarning"


@functools.cache
def binary_rows(n=600):
    data = fieldcal.datasets.label_shift(n_lab=n, n_field=10, random_state=4)
    sites = np.array(["a", "b", "c", None], dtype=object)[np.arange(n) % 4]
    return pa.table(
        {
            "y": pa.array(data.y_lab, pa.int8()),
            "p": data.proba_lab,
            "q": 1 - data.proba_lab,
            "site": pa.array(sites, pa.string()),
            "year": pa.array(2020 + np.arange(n) % 3),
        }
    )


@functools.cache
def pet_rows(n=600):
    data = fieldcal.datasets.label_shift(
        n_lab=n, n_field=10, p_lab=(0.5, 0.3, 0.2), prevalence=[(0.5, 0.3, 0.2)], random_state=4
    )
    columns = {f"p_{c}": data.proba_lab[:, k].copy() for k, c in enumerate(CLASSES)}
    return pa.table({"p_eel": columns["p_eel"], **columns, "y": np.array(CLASSES)[data.y_lab]})


def pets(engine=None):
    return pet_rows() if engine is None else engine.make(pet_rows())


def same_but_for_the_columns(lab, truth_lab):
    assert lab.model_copy(update={"columns": None}).to_json() == truth_lab.to_json()


@pytest.mark.conformance
def test_the_lab_is_that_of_arrays_and_knows_its_columns(engine):
    rows = binary_rows()
    lab = tables.learn(engine.make(rows), scores="p", label="y", by=["site", "year"])
    assert lab.columns == Columns(scores=("p",), label="y", by=("site", "year"))
    by_hand = fieldcal.learn(
        truth.proba(rows, ["p"]), rows["y"].to_pylist(), groups=truth.groups(rows, ["site", "year"])
    )
    assert by_hand.rehearsal is not None
    same_but_for_the_columns(lab, by_hand)
    lab, names = tables.learn(pets(engine), scores="p_*", label="y"), ["p_cat", "p_dog", "p_eel"]
    assert (lab.classes, lab.columns) == (CLASSES, Columns(scores=tuple(names), label="y"))
    same_but_for_the_columns(lab, fieldcal.learn(truth.proba(pet_rows(), names), pet_rows()["y"].to_pylist()))


def test_options_go_through_to_the_learning_of_arrays(local_engine):
    rows, simplex, edges = (
        binary_rows(),
        fieldcal.partitions.Simplex(4),
        fieldcal.partitions.Edges([0.3, 0.6]),
    )
    for options in (
        {"partition": edges},
        {"partition": simplex, "smoothing": 0},
        {"ordered": True, "random_state": 3},
    ):
        lab = tables.learn(local_engine.make(rows), scores="p", label="y", by="site", **options)
        arrays = truth.proba(rows, ["p"]), rows["y"].to_pylist()
        same_but_for_the_columns(lab, fieldcal.learn(*arrays, groups=truth.groups(rows, ["site"]), **options))


@pytest.mark.conformance
@pytest.mark.filterwarnings(UNCALIBRATED)
def test_labels_of_every_type_are_those_of_arrays(local_engine):
    for labels in (
        pa.array([0, 1] * 60, pa.uint8()),
        pa.array([False, True] * 60),
        pa.array(["no", "yes"] * 60),
        pa.array(["no", "yes"] * 60).dictionary_encode(),
        pa.array([0.0, 1.0] * 60),
    ):
        p = np.tile([0.2, 0.7, 0.4, 0.6], 30)
        lab = tables.learn(local_engine.make(y=labels, p=p), scores="p", label="y")
        same_but_for_the_columns(lab, fieldcal.learn(p, labels.to_pylist()))
        assert list(map(type, lab.classes)) == [
            int if type(v) is float else type(v) for v in labels.to_pylist()[:2]
        ]


def test_rows_that_come_in_another_order_at_every_reading_keep_their_labels():
    """A lazy table is a query: a join, a sample or many threads may give its rows in any order, each time anew."""
    rows = binary_rows()
    wanted = tables.learn(rows, scores="p", label="y", by="site").to_json()
    connection = duckdb.connect()
    connection.register("log", rows)
    restless = connection.sql("SELECT * FROM log ORDER BY random()")
    assert restless.fetchall() != restless.fetchall()
    assert tables.learn(restless, scores="p", label="y", by="site").to_json() == wanted
    shuffled = pl.LazyFrame(rows).map_batches(lambda frame: frame.sample(fraction=1, shuffle=True))
    assert not shuffled.collect().equals(shuffled.collect())
    assert tables.learn(shuffled, scores="p", label="y", by="site").to_json() == wanted


def test_later_verbs_take_the_names_from_the_lab_if_it_has_any(local_engine):
    rows = binary_rows()
    frame = local_engine.make(rows)
    lab = tables.learn(frame, scores="p", label="y", by="site")
    field = tables.count(lab, frame)
    truth.assert_same_counts(field, truth.count(lab, rows, ["site"]))
    prev = fieldcal.estimate(lab, field, **truth.PLAIN)
    new = local_engine.read(tables.recalibrate(prev, frame))
    truth.assert_same_values(new, ["p_recalibrated"], truth.recalibrate(prev, rows))
    assert tables.count(lab, frame, by=[]).groups == (None,)
    lab = fieldcal.learn(truth.proba(binary_rows(), ["p"]), binary_rows()["y"].to_pylist())
    with pytest.raises(InputError, match=r"learnt from arrays and knows no column names.*scores="):
        tables.count(lab, local_engine.make(binary_rows()))
    assert tables.count(lab, local_engine.make(binary_rows()), scores="p").n.tolist() == [600]


def test_columns_find_their_class_by_name_in_whatever_order_and_template():
    for scores in (
        "p_*",
        ["p_cat", "p_dog", "p_eel"],
        ["p_eel", "p_cat", "p_dog"],
        ("p_dog", "p_eel", "p_cat"),
        {"eel": "p_eel", "cat": "p_cat", "dog": "p_dog"},
    ):
        assert tables.learn(pets(), scores=scores, label="y").columns.scores == ("p_cat", "p_dog", "p_eel")
    for template in ("{}", "score of {}", "{}.prob", "p({})", "x{}x", "*{}"):
        renamed = pet_rows().rename_columns(
            [*(template.format(c.removeprefix("p_")) for c in pet_rows().column_names[:3]), "y"]
        )
        wanted = tuple(template.format(c) for c in CLASSES)
        assert tables.learn(renamed, scores=wanted[::-1], label="y").columns.scores == wanted
    rows = pa.table({"p_1": binary_rows()["p"], "y": binary_rows()["y"]})
    assert tables.learn(rows, scores="p_*", label="y").columns.scores == ("p_1",)


def test_the_order_of_classes_is_kept_and_taken_for_columns_that_do_not_tell_theirs():
    lab = tables.learn(pets(), scores=["p_cat", "p_dog", "p_eel"], label="y", classes=["eel", "dog", "cat"])
    assert (lab.classes, lab.columns.scores) == (("eel", "dog", "cat"), ("p_eel", "p_dog", "p_cat"))
    names = ["p_eel", "p_dog", "p_cat"]
    by_hand = fieldcal.learn(
        truth.proba(pet_rows(), names), pet_rows()["y"].to_pylist(), classes=["eel", "dog", "cat"]
    )
    same_but_for_the_columns(lab, by_hand)
    rows = pet_rows().rename_columns(["z", "x", "w", "y"])  # eel, cat, dog
    with pytest.raises(
        InputError, match=r"\['z', 'x', 'w'\] do not contain the names of their classes.*classes="
    ):
        tables.learn(rows, scores=["z", "x", "w"], label="y")
    lab = tables.learn(rows, scores=["z", "x", "w"], label="y", classes=["eel", "cat", "dog"])
    assert (lab.classes, lab.columns.scores) == (("eel", "cat", "dog"), ("z", "x", "w"))


def test_what_cannot_be_matched_is_refused_with_what_is_there():
    for options, message in (
        ({"scores": "p_horse", "label": "y"}, r"no column 'p_horse' for the scores"),
        ({"scores": "p_*", "label": "Y"}, r"no column 'Y' for the label"),
        ({"scores": "p_*", "label": "y", "by": "site"}, r"no column 'site' .* The table has 'p_eel'"),
        ({"scores": "prob_*", "label": "y"}, r"'prob_\*' and the classes .* ask for a column 'prob_cat'"),
        ({"scores": ["p_cat", "p_dog"], "label": "y"}, r"2 columns of scores for 3 classes"),
        ({"scores": ["p_cat", "p_dog", "p_cat"], "label": "y"}, r"do not contain|twice|once"),
        ({"scores": {"cat": "p_cat", "dog": "p_dog"}, "label": "y"}, r"no column for the class 'eel'"),
        ({"scores": "p_cat", "label": "y"}, r"classes"),
        ({"scores": "p_*", "label": "y", "classes": ["cat", "dog"]}, r"'eel' is not among the classes"),
        ({"scores": "p_*", "label": "y", "classes": ["cat", "dog", "eel", "fox"]}, r"'p_fox'"),
        ({"scores": "p_*", "label": "y", "by": ["y", "y"]}, r"name one twice"),
        ({"scores": [], "label": "y"}, r"0 columns of scores"),
    ):
        with pytest.raises(InputError, match=message):
            tables.learn(pets(), **options)


def test_lab_scores_labels_and_groups_that_are_none_are_refused(local_engine):
    for column, message in (
        (pa.array([0.2, None] * 60), r"60 .*(missing|no score)"),
        (pa.array([0.2, math.nan] * 60), r"60 .*(missing|no score)"),
        (pa.array([20.0, 70.0] * 60), r"percent"),
        (pa.array(["0.2", "0.7"] * 60), r"'p' must be numbers"),
    ):
        with pytest.raises(FieldcalError, match=message):
            tables.learn(local_engine.make(p=column, y=[0, 1] * 60), scores="p", label="y")
    for labels in (pa.array([0, None] * 60), pa.array(["a", None] * 60), pa.array([True, None] * 60)):
        with pytest.raises(InputError, match="60 labels are missing"):
            tables.learn(local_engine.make(p=[0.2, 0.7] * 60, y=labels), scores="p", label="y")
    with pytest.raises(InputError, match="single class"):
        tables.learn(local_engine.make(p=[0.2, 0.7], y=[1, 1]), scores="p", label="y")
    with pytest.raises(InputError):
        tables.learn(
            local_engine.make(p=pa.array([], pa.float64()), y=pa.array([], pa.int64())), scores="p", label="y"
        )
    frame = local_engine.make(p=[0.2, 0.7] * 60, y=[0, 1] * 60, g=[1.5, 2.5] * 60)
    with pytest.raises(InputTypeError, match=r"'g' holds decimal fractions"):
        tables.learn(frame, scores="p", label="y", by="g")
