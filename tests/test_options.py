"""One row per option: from it come flags, checks, messages and the parameters of estimators."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from fieldcal.errors import FieldcalError, InputError, InputTypeError, spelled
from fieldcal.estimators import RecalibratedClassifier, Recalibrator
from fieldcal.estimators.regressor import RecalibratedRegressor
from fieldcal.options import OPTIONS, PREDICTED, check_goes_with, check_options


def test_options_of_other_predictions_are_refused_and_unset_ones_are_not():
    check_goes_with("probabilities", intervals="auto", crossing="error", normalize=True, classes=["a"])
    check_goes_with("distributions", classes=None, ordered=np.bool_(False), missing="error", intervals=[0.0])
    check_goes_with("values", method="default", classes=["a"], missing="drop")
    for predicted, given, words in (
        (
            "probabilities",
            {"intervals": np.array([0.0, 1.0])},
            r"intervals=.* does not go with probabilities",
        ),
        ("distributions", {"classes": np.array(["a"])}, r"classes=.* does not go .*Use intervals=…"),
        (
            "values",
            {"positive": "a"},
            r"positive='a' does not go with values.*order of the classes with classes=…",
        ),
        ("values", {"scores": "p"}, r"Name the columns with predictions=…"),
    ):
        with pytest.raises(InputError, match=words):
            check_goes_with(predicted, **given)


def test_an_option_that_goes_with_some_predictions_has_a_way_out_for_the_others():
    for name, row in OPTIONS.items():
        for predicted in set(PREDICTED) - set(row.goes_with):
            with pytest.raises(InputError, match=rf"^{name}=.* does not go with .*[.]"):
                check_goes_with(predicted, **{name: "given"})


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("trust", ["auto", 0, 1, np.float64(0.5)], ["all", -0.1, 2, True, float("nan"), None]),
        ("random_state", [0, np.int64(3)], [-1, 1.5, True, "1"]),
        ("point", ["mean", "auto"], ["median", None, 3]),
        ("level", [None, 0.9], [0, 1, 90, "x", True]),
        ("smoothing", ["auto", 0, 2.5], [-1, float("nan"), "x"]),
        ("protected", [True, np.bool_(False)], ["yes", 1, None]),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_the_name_of_its_option(name, right, wrong):
    for value in right:
        check_options(**{name: value})
    for value in wrong:
        with pytest.raises((InputError, InputTypeError), match=f"^{name} must ") as refused:
            check_options(**{name: value})
        assert isinstance(refused.value, FieldcalError)


@pytest.mark.parametrize("made", [Recalibrator, RecalibratedClassifier, RecalibratedRegressor])
def test_the_parameters_of_an_estimator_are_documented_as_the_table_has_them(made):
    documented = " ".join(made.__doc__.split())
    for parameter in inspect.signature(made).parameters.values():
        row = OPTIONS.get(parameter.name)
        if row is not None:
            default = repr(parameter.default).replace("'", '"')
            text = f"{parameter.name} : {row.kind}, default={default} {spelled(row.doc or row.help)}"
            assert text in documented


def test_the_kinds_that_are_documented_have_all_words_of_the_option():
    for name, row in OPTIONS.items():
        if row.kind and row.choices:
            assert all(f'"{word}"' in row.kind for word in row.choices), name
