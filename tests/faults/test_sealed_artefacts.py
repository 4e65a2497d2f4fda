"""Artefacts that were edited and sealed anew (row 66): the digest fits, the content cannot be, and loading says so."""

from __future__ import annotations

import copy
import re

import pytest

import fieldcal
from faults import fuzz
from fieldcal.errors import ArtefactError


def loaded(kind, content):
    return fuzz.KINDS[kind].from_json(fuzz.sealed(kind, content), name="box.json")


def edited(name, path, value):
    """The kind and the content of an artefact of `fuzz.artefacts`, with another value at a path such as ``lab.n``."""
    envelope = fuzz.artefacts()[name]
    content = copy.deepcopy(envelope["content"])
    *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
    where = content
    for parent in parents:
        where = where[parent]
    where[last] = value(where[last]) if callable(value) else value
    return envelope["fieldcal"], content


LAB, FIELD, PREV = "lab of two classes", "field in batches", "prevalence of groups"
DAY = "batches/2020-01-01"
CASES = {
    "thresholds_not_sorted": (LAB, "partition/edges", lambda x: x[::-1], "partition: .*strictly increase"),
    "thresholds_outside": (LAB, "partition/edges/0", -3.0, "partition: .*lie in"),
    "thresholds_too_few": (LAB, "partition/edges", lambda x: x[1:], "F has shape"),
    "a_tree_of_another_class": (
        "lab of five classes",
        "partition/feature/0/0",
        5,
        "asks for the score of class 5",
    ),
    "a_tree_beyond_one": ("lab of five classes", "partition/threshold/0/0", 1e308, "must lie in"),
    "values_of_other_classes": ("lab of grades", "partition/values", [0.0, 1.0], "does not fit 5 classes"),
    "a_giant_count": (LAB, "F/0/0", 10**18, "decisions do not add up to F"),
    "a_giant_float": ("lab with weights", "F/0/0", 1e300, "F: counts must be zero, or between"),
    "a_tiny_float": ("lab with weights", "F/0/0", 5e-324, "F: counts must be zero, or between"),
    "an_integer_beyond_floats": (LAB, "n", 10**400, "n: "),
    "rows_without_end": (LAB, "n", 2**62, "n: Input should be less than"),
    "no_rows": (LAB, "n", 0, "n: Input should be greater"),
    "a_giant_smoothing": (LAB, "smoothing", 1e308, "smoothing: Input should be less"),
    "a_negative_loss": (LAB, "loss/0", -1, "loss: .*counts must not be negative"),
    "a_loss_of_other_classes": (LAB, "loss", [1, 2, 3], "loss must be 2 sums, one per class"),
    "decisions_of_other_rows": (LAB, "decisions/0/0/0", lambda x: x + 1, "decisions do not add up to F"),
    "sums_of_predictions": (
        LAB,
        "bin_scores/0",
        lambda x: [9 * v for v in x],
        "bin_scores, the sums .* do not add up",
    ),
    "squares_too_small": (LAB, "weight_squares/0", 1, "weight_squares are such as no weights"),
    "squares_too_large": (LAB, "weight_squares/0", 10**9, "weight_squares are such as no weights"),
    "rehearsed_trust": (LAB, "rehearsal/trust", 1.5, "rehearsal: trust and sure must be probabilities"),
    "rehearsed_text": (LAB, "rehearsal/trust", "much", "trust of a Rehearsal is 'much'"),
    "rehearsed_truth_value": (LAB, "rehearsal/n_groups", True, "n_groups of a Rehearsal is True"),
    "rehearsed_fraction": (LAB, "rehearsal/n_rows", 2.5, "n_rows of a Rehearsal is 2.5"),
    "a_grid_that_falls": (LAB, "rehearsal/grid", lambda x: x[::-1], "rehearsal: grid must increase"),
    "a_grid_too_short": (LAB, "rehearsal/grid", [0.0, 1.0], "one number for each of the grid"),
    "a_negative_error": (LAB, "rehearsal/change_se", -1.0, "standard errors must not be negative"),
    "a_giant_change": (LAB, "rehearsal/change", 1e308, "no larger than"),
    "excess_of_other_classes": (
        LAB,
        "rehearsal/excess_variance",
        [[1.0]],
        "excess_variance must be one number",
    ),
    "homogeneity": (LAB, "homogeneity/p_value", 7.0, "homogeneity: a p-value is no probability"),
    "boundaries_that_fall": (
        "lab of numbers",
        "outcome/points",
        [1.0, 0.0, -1.0],
        "boundaries must increase",
    ),
    "a_boundary_too_many": ("lab of numbers", "outcome/before", [False], "one flag for each boundary"),
    "groups_twice": (FIELD, f"{DAY}/groups", [0, 0, 1, 2], "a key appears twice"),
    "groups_in_another_order": (FIELD, f"{DAY}/groups", [3, 2, 1, 0], "in another order than ours"),
    "a_group_of_another_type": (FIELD, f"{DAY}/groups/0", 1.5, "A group key of unknown kind"),
    "a_negative_field_count": (FIELD, f"{DAY}/V/0/0", -1, "counts must not be negative"),
    "predictions_of_other_rows": (
        FIELD,
        f"{DAY}/score_sums/0/0",
        2**60,
        "score_sums, .* add up to more than its rows",
    ),
    "squares_beyond_the_sum": (
        "field with weights",
        "batches//weight_squares/0/0",
        1e9,
        "larger than the square",
    ),
    "dropped_without_end": (FIELD, f"{DAY}/dropped", 10**30, "dropped: Input should be less than"),
    "bins_of_another_lab": (PREV, "field/n_bins", 7, "field"),
    "an_estimate_above_one": (PREV, "estimate/0", [0.9, 0.9], "estimate must be shares of the classes"),
    "a_giant_estimate": (PREV, "urc/0", [1e308, 1e308], "urc must be shares of the classes"),
    "an_interval_reversed": (
        PREV,
        "lower/0",
        [1.0, 1.0],
        "lower and upper must be probabilities, and in this order",
    ),
    "an_interval_without_level": (PREV, "level", None, "lower and upper must be there if there is a level"),
    "half_an_interval": (PREV, "whole/lower", None, "whole.lower and upper must be there"),
    "another_size": (PREV, "whole/n", 5.0, "whole does not fit the field"),
    "a_p_value": (PREV, "fit/p_value/0", 3.0, "p-value"),
    "a_negative_df": (PREV, "fit/df", -1, "negative"),
    "an_unknown_verdict": (PREV, "verdict/findings/0/state", "fine", "verdict.findings.0.state"),
    "trust_as_text": (PREV, "trust/overall", "yes", "overall of a Trust is 'yes'"),
    "trust_beyond_one": (PREV, "trust/between", 2.0, "trust must be probabilities"),
    "a_negative_seed": (PREV, "seed", -1, "seed: Input should be greater"),
    "a_prior_without_a_name": (PREV, "prior", {}, "prior: it has no name"),
    "a_prior_with_other_numbers": (
        PREV,
        "prior",
        {"name": "kl", "strength": "x"},
        "prior: The strength of a prior",
    ),
    "draws_of_other_classes": (PREV, "learnt/alpha", [[1.0, 1.0]], "learnt: alpha has the shape"),
    "draws_below_zero": (PREV, "learnt/alpha/0/0", -1.0, "learnt: alpha must be numbers, none negative"),
    "draws_lost": (PREV, "learnt", {}, "learnt: alpha must be numbers"),
    "a_giant_design_effect": (PREV, "design_effect", 1e300, "design_effect: Input should be less"),
    "labels_below_zero": (
        "field with labels",
        "batches//labelled/random/counts/0/0/0",
        -4,
        "counts must not be negative",
    ),
}


@pytest.mark.parametrize(
    ("name", "path", "value", "words"), CASES.values(), ids=[f"fault_66_{slug}" for slug in CASES]
)
def test_content_that_cannot_be_is_refused_at_load_with_its_field(name, path, value, words):
    kind, content = edited(name, path, value)
    with pytest.raises(ArtefactError) as caught:
        loaded(kind, content)
    message = str(caught.value)
    assert message.startswith("box.json is corrupt: ")
    assert re.search(words, message), message
    assert "\n" not in message


def test_fault_66_a_name_of_two_lines_makes_an_error_of_one():
    content = fuzz.artefacts()[LAB]["content"] | {"a\nb" * 200: 1}
    with pytest.raises(
        ArtefactError, match=r"^box\.json is corrupt: a·b.*…: Extra inputs are not permitted"
    ) as caught:
        loaded("lab", content)
    assert len(str(caught.value)) < 200


def test_fault_66_half_a_sign_in_a_key_stands_as_a_question_mark_in_a_frame():
    lab = loaded("lab", fuzz.artefacts()[LAB]["content"])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [0.1, 0.9], groups=["a", "\ud800"]))
    for library in ("pandas", "polars", "pyarrow"):
        assert "?" in str(prev.to_frame(library)["group"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", list(fuzz.artefacts()), ids=lambda n: f"fault_66_sound_{n.replace(' ', '_')}"
)
def test_what_was_not_edited_is_loaded_and_used(name):
    envelope = fuzz.artefacts()[name]
    data = fuzz.sealed(envelope["fieldcal"], envelope["content"])
    assert fuzz.judged("artefact content", envelope["fieldcal"], data) == fuzz.Outcome(fuzz.ACCEPTED)
