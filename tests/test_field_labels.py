"""Labels of field rows: counted with the field, per design, and merged, taken out and saved like everything else."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fieldcal
from fieldcal import Field
from fieldcal.errors import FieldcalError


@functools.cache
def world(n=400):
    data = fieldcal.datasets.label_shift(n_lab=1000, n_field=n, n_groups=5, random_state=3)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=5)
    rng = np.random.default_rng(5)
    y = [
        label if seen else None
        for label, seen in zip(data.y_field.tolist(), rng.random(n) < 0.2, strict=True)
    ]
    return lab, data.proba_field, data.groups_field, y


def test_labels_are_counted_per_group_class_and_bin():
    lab, proba, groups, y = world()
    field = fieldcal.count(lab, proba, groups=groups, y=y)
    bins = lab.partition.assign(proba)
    expected = np.zeros((len(field.groups), 2, lab.n_bins))
    for g, j, label in zip(groups, bins, y, strict=True):
        if label is not None:
            expected[field.groups.index(g), label, j] += 1
    found = field.labelled["random"]
    assert found.at.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found.counts, expected)
    assert field.n_labelled == sum(label is not None for label in y)


def test_labels_do_not_change_what_else_is_counted():
    lab, proba, groups, y = world()
    plain, field = (fieldcal.count(lab, proba, groups=groups, y=given) for given in (None, y))
    for name in ("V", "score_sums", "weight_squares"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(field, name))
    assert fieldcal.count(lab, proba, groups=groups, y=[None] * len(y)).to_json() == plain.to_json()


def test_a_second_table_of_labels_is_merged_into_what_one_call_gives():
    lab, proba, groups, y = world()
    known = [i for i, label in enumerate(y) if label is not None]
    later = fieldcal.count(lab, proba[known], groups=groups[known], y=[y[i] for i in known], only_labels=True)
    both = fieldcal.count(lab, proba, groups=groups) + later
    assert both.to_json() == fieldcal.count(lab, proba, groups=groups, y=y).to_json()


def test_a_saved_field_loads_with_its_labels():
    lab, proba, groups, y = world()
    field = fieldcal.count(lab, proba, groups=groups, y=y, design="by_class", batch="monday")
    assert Field.from_json(field.to_json()) == field
    assert set(field.labelled) == {"by_class"}


def test_a_label_that_is_no_class_is_refused_with_its_row():
    lab, *_ = world()
    with pytest.raises(FieldcalError, match="label 7 in row 2 is not among the classes"):
        fieldcal.count(lab, [0.1, 0.2, 0.3], y=[None, 1, 7])
