"""Which class a single column is the probability of: said by the caller, or the second in sorted order."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import CalibrationWarning, FieldcalError
from fieldcal.objects import show


@pytest.fixture(scope="module")
def data():
    return fieldcal.datasets.label_shift(n_lab=600, n_field=600, n_groups=3, random_state=0)


@pytest.fixture(scope="module")
def words(data):
    return np.where(data.y_lab == 1, "ja", "nein")


def frame(data, words, column="p"):
    return pl.DataFrame({column: data.proba_lab, "label": words, "site": data.groups_lab})


def test_a_column_of_the_class_that_comes_first_is_learnt_as_if_its_labels_were_numbers(data, words):
    by_name = fieldcal.learn(data.proba_lab, words, positive="ja")
    by_number = fieldcal.learn(data.proba_lab, data.y_lab)
    assert by_name.classes == ("nein", "ja")
    np.testing.assert_array_equal(by_name.F, by_number.F)
    assert by_name == fieldcal.learn(data.proba_lab, words, positive="ja", classes=["nein", "ja"])


def test_tables_take_it_too_and_the_lab_remembers_the_column(data, words):
    for scores in ("p", ["p"]):
        lab = tables.learn(frame(data, words), scores=scores, label="label", positive="ja")
        assert (lab.classes, lab.positive_column) == (("nein", "ja"), "p")
    assert fieldcal.learn(data.proba_lab, words, positive="ja").positive_column is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positive": "Ja"}, r"positive='Ja' is none of the labels, \['ja', 'nein'\]"),
        (
            {"positive": "ja", "classes": ["ja", "nein"]},
            "second class, but classes=… is .*Leave one of them out",
        ),
        ({"positive": object()}, "positive must be one of the labels"),
        (
            {"positive": "ja", "kind": "values", "design": "random"},
            "does not go with values.*order of the classes",
        ),
    ],
)
def test_what_it_cannot_be_is_refused(data, words, options, message):
    with pytest.raises(FieldcalError, match=message):
        fieldcal.learn(data.proba_lab, words, **options)


def test_it_is_about_one_column_of_two_classes(data, words):
    both = np.column_stack([data.proba_lab, 1 - data.proba_lab])
    with pytest.raises(FieldcalError, match="a single column of probabilities, but there are 2"):
        fieldcal.learn(both, words, positive="ja")
    three = np.where(np.arange(len(words)) % 3 == 0, "vielleicht", words)
    with pytest.raises(FieldcalError, match="the labels hold 3"):
        fieldcal.learn(data.proba_lab, three, positive="ja")
    two = frame(data, words).with_columns(p_ja=pl.col("p"), p_nein=1 - pl.col("p"))
    with pytest.raises(FieldcalError, match="but there are 2 columns"):
        tables.learn(two, scores="p_*", label="label", positive="ja")


def test_the_wrong_way_round_is_told_with_the_option_that_mends_it(data, words):
    with pytest.warns(CalibrationWarning) as caught:
        fieldcal.learn(data.proba_lab, words)
    told = " ".join(str(warning.message) for warning in caught)
    assert "read as the probability of 'nein'. If it is that of 'ja'" in told
    assert "name that class with positive=…" in told


@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
def test_a_column_named_after_the_other_class_is_refused_until_somebody_says_which_it_is(data, words):
    rows = frame(data, words, "p_ja")
    with pytest.raises(FieldcalError, match=r"named after the class 'ja'.*positive='ja' or positive='nein'"):
        tables.learn(rows, scores="p_ja", label="label")
    assert tables.learn(rows, scores="p_ja", label="label", positive="ja").classes[1] == "ja"
    assert tables.learn(rows, scores="p_ja", label="label", positive="nein").classes[1] == "nein"
    with pytest.raises(FieldcalError, match=r"a column of 'ja' alone. Say so: scores='p_ja' positive='ja'"):
        tables.learn(rows, scores="p_*", label="label")


def test_people_are_told_which_class_the_column_is_about(data, words):
    told = tables.learn(frame(data, words), scores="p", label="label", positive="ja")
    assert show.positive_text(told) == "p is the probability of ja, as given"
    numbers = tables.learn(frame(data, data.y_lab), scores="p", label="label")
    text = "p is the probability of 1, the second class in sorted order"
    assert show.positive_text(numbers) == text
    field = tables.count(numbers, pl.DataFrame({"p": data.proba_field}))
    prev = fieldcal.estimate(numbers, field)
    assert text in repr(prev)
    assert text in prev._repr_html_()
    assert text in numbers._repr_html_()


def test_a_pattern_that_finds_the_column_of_one_class_is_not_told_another(data, words):
    table = frame(data, np.where(words == "ja", "sick", "fit"), "p_sick")
    with pytest.raises(FieldcalError, match="the column of 'sick', but positive='fit' names"):
        tables.learn(table, scores="p_*", label="label", positive="fit")
    lab = tables.learn(table, scores="p_*", label="label", positive="sick")
    assert lab.classes == ("fit", "sick")


def test_fractions_as_labels_of_values_are_no_swapped_arguments():
    with pytest.raises(FieldcalError, match="whole number"):
        fieldcal.learn(["a", "b"] * 50, [0.25, 0.75] * 50, kind="values", design="random")
