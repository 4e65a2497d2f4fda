"""Lab, Field and Prevalence: frozen, exactly mergeable, the same bytes for the same content."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json

import numpy as np
import pytest
from pydantic import ValidationError

import fieldcal
from fieldcal.errors import InputError
from fieldcal.objects import Classes

URC = {"prior": "flat", "point": "mode", "trust": 1}
GROUPS_OF_ALL_KINDS = (
    1,
    "1",
    True,
    -3,
    10**30,
    "",
    "a|b",
    "Zürich\n\u202e🐭",
    None,
    ("a", "b"),
    ("a|b",),
    ("a", (1, None)),
    (),
    dt.date(2020, 2, 29),
    dt.datetime(2020, 2, 29, 12, 30, 0, 5),
    dt.datetime(2020, 2, 29, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
)


@functools.cache
def data():
    return fieldcal.datasets.label_shift(
        n_lab=600, n_field=400, p_lab=(0.5, 0.3, 0.2), n_groups=3, random_state=4
    )


@functools.cache
def lab():
    return fieldcal.learn(data().proba_lab, data().y_lab)


@functools.cache
def field():
    return fieldcal.count(lab(), data().proba_field, groups=data().groups_field)


@functools.cache
def prevalence():
    return fieldcal.estimate(lab(), field(), **URC)


def all_three():
    return [lab(), field(), prevalence()]


# Merging


def test_a_batch_can_be_counted_once():
    monday = fieldcal.count(lab(), data().proba_field, batch="monday")
    with pytest.raises(InputError, match="'monday' is in both"):
        monday + monday
    loaded = fieldcal.Field.from_json(monday.to_json())
    with pytest.raises(InputError, match="'monday' is in both"):
        loaded + monday


# Files


def test_group_keys_of_all_kinds_survive_saving_byte_for_byte(tmp_path):
    n = len(GROUPS_OF_ALL_KINDS)
    counted = fieldcal.count(lab(), data().proba_field[:n], groups=list(GROUPS_OF_ALL_KINDS))
    assert len(counted.groups) == n, "none merged with another"
    prev = fieldcal.estimate(lab(), counted, **URC)
    for made, kind in ((counted, fieldcal.Field), (prev, fieldcal.Prevalence)):
        first, second = tmp_path / "first.json", tmp_path / "second.json"
        made.save(first)
        again = kind.load(first)
        again.save(second)
        assert first.read_bytes() == second.read_bytes()
        assert [repr(k) for k in again.groups] == [repr(k) for k in made.groups]
        assert again == made
        assert hash(again) == hash(made)
    expected = fieldcal.recalibrate(prev, data().proba_field[:n], groups=list(GROUPS_OF_ALL_KINDS))
    loaded = fieldcal.Prevalence.load(second)
    new = fieldcal.recalibrate(
        loaded, data().proba_field[:n], groups=list(GROUPS_OF_ALL_KINDS), unseen="error"
    )
    np.testing.assert_array_equal(new, expected)


def test_classes_of_all_kinds_survive_saving():
    for classes in (
        ("a", "b"),
        (0, 1),
        (False, True),
        (1.0, 2.0),
        (dt.date(2020, 1, 1), dt.date(2021, 1, 1)),
        (1, "1"),
    ):
        rng = np.random.default_rng(0)
        scores = rng.random(100)
        made = fieldcal.learn(scores, [classes[int(one)] for one in rng.random(100) < scores])
        again = fieldcal.Lab.from_json(made.to_json())
        assert [repr(c) for c in again.classes] == [repr(c) for c in made.classes]
        assert again.classes == classes
        assert again.to_json() == made.to_json()


def test_every_partition_survives_saving_and_assigns_the_same_bins():
    for partition in (
        "auto",
        3,
        6,
        fieldcal.partitions.Simplex(3),
        fieldcal.partitions.Simplex(9),
        fieldcal.partitions.Expected(7),
    ):
        made = fieldcal.learn(data().proba_lab, data().y_lab, partition=partition)
        again = fieldcal.Lab.from_json(made.to_json())
        assert again.partition == made.partition
        assert again.to_json() == made.to_json()
        assert fieldcal.count(again, data().proba_field) == fieldcal.count(made, data().proba_field)


def test_the_file_is_plain_ascii_json_with_a_version_and_the_digest_of_its_content():
    for made in all_three():
        envelope = json.loads(made.to_json().decode("ascii"))
        assert set(envelope) == {"fieldcal", "schema", "digest", "content"}
        assert envelope["fieldcal"] == type(made).__name__.lower()
        text = json.dumps(envelope["content"], sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == envelope["digest"] == made.digest


def test_the_digest_changes_with_every_field_of_the_content():
    changes = {
        "smoothing": 0.5,
        "n": 601,
        "clipped": 1,
        "loss": lab().loss + 1,
        "outcome": Classes(labels=(0, 1, 3)),
        "F": lab().F[:, ::-1],
        "bin_scores": lab().bin_scores + 1,
        "decisions": lab().decisions[:, :, ::-1],
        "partition": fieldcal.partitions.Bins(lab().n_bins),
    }
    with_it = {"F": {"decisions": lab().decisions[:, ::-1], "bin_scores": lab().bin_scores[::-1]}}
    digests = {lab().digest}
    for name, value in changes.items():
        changed = fieldcal.Lab(**{**_fields(lab()), name: value, **with_it.get(name, {})})
        assert changed != lab(), name
        digests.add(changed.digest)
    assert len(digests) == len(changes) + 1


# Frozen


def _fields(made):
    return {name: getattr(made, name) for name in type(made).model_fields}


def test_nothing_can_be_assigned_or_deleted():
    for made in all_three():
        for name in type(made).model_fields:
            with pytest.raises((ValidationError, AttributeError, TypeError)):
                setattr(made, name, getattr(made, name))
            with pytest.raises((ValidationError, AttributeError, TypeError)):
                delattr(made, name)
        with pytest.raises((ValidationError, AttributeError, TypeError)):
            made.surprise = 1


def test_the_arrays_that_are_stored_are_read_only():
    for made in all_three():
        parts = [made, *getattr(made, "batches", {}).values()]
        stored = [v for part in parts for v in _fields(part).values() if isinstance(v, np.ndarray)]
        assert stored
        derived = [name for name in ("M", "p_lab", "V", "n", "mean_prediction") if hasattr(made, name)]
        own = [getattr(type(made).from_json(made.to_json()), name) for name in derived]
        for array in (*stored, *(a for a in own if isinstance(a, np.ndarray))):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_an_object_does_not_share_memory_with_what_it_was_made_from():
    counts = np.array([[5, 3], [2, 6]])
    made = fieldcal.Lab(
        outcome=Classes(labels=("a", "b")),
        partition=fieldcal.partitions.Bins(2),
        F=counts,
        weight_squares=counts.sum(axis=1),
        smoothing=1.0,
        bin_scores=np.array([[7, 7], [9, 9]]) * 2**29,
        decisions=np.stack([counts, 0 * counts], axis=2),
        n=16,
    )
    digest = made.digest
    counts[0, 0] = 99
    assert made.F[0, 0] == 5
    assert fieldcal.Lab(**_fields(made)).digest == digest


def test_equal_content_is_equal_and_other_kinds_are_not():
    again = fieldcal.learn(data().proba_lab, data().y_lab)
    assert again == lab()
    assert len({again, lab()}) == 1
    assert lab() != field()
    assert lab() != "lab"
    shifted = fieldcal.datasets.label_shift(random_state=2)  # two columns count like the second alone
    columns = np.column_stack([1 - shifted.proba_lab, shifted.proba_lab])
    assert fieldcal.learn(shifted.proba_lab, shifted.y_lab) == fieldcal.learn(columns, shifted.y_lab)


def test_the_mean_prediction_is_exact_to_2_to_the_minus_30():
    np.testing.assert_allclose(
        field().mean_prediction,
        [data().proba_field[data().groups_field == g].mean(axis=0) for g in field().groups],
        atol=2e-9,
    )
