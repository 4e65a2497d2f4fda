"""Damaged, foreign and hostile files (rows 38 to 40 of the table of faults): refused quickly, in our own words."""

from __future__ import annotations

import functools
import json
import os

import numpy as np
import pytest

import fieldcal
from fieldcal import storage
from fieldcal.errors import ArtefactError, FieldcalError, InputError
from fieldcal.objects import Batch

KINDS = {"lab": fieldcal.Lab, "field": fieldcal.Field, "prevalence": fieldcal.Prevalence}
NODES = ("feature", "threshold", "left", "right", "leaf")
EIGHT_BINS = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


@functools.cache
def artefact(kind):
    data = fieldcal.datasets.label_shift(n_lab=400, n_field=200, random_state=3)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=8, smoothing=1.0)
    if kind == "lab":
        return lab
    field = fieldcal.count(lab, data.proba_field, groups=[f"group {g}" for g in data.groups_field])
    return field if kind == "field" else fieldcal.estimate(lab, field, prior="flat", trust=1)


def envelope(kind):
    return json.loads(artefact(kind).to_json())


def classes(labels):
    """The outcome of a lab of classes, as it stands in a file."""
    return {"kind": "classes", "labels": labels, "ordered": False}


def signed(content, kind="lab"):
    """A file with a digest that fits: what someone who knows the format could write."""
    return storage.canonical(
        {"fieldcal": kind, "schema": 1, "digest": storage.digest(content), "content": content}
    )


def edited(kind, name, value):
    """The content with another value; of a field's counts, in the batch that holds them."""
    content = envelope(kind)["content"]
    (content["batches"][""] if kind == "field" and name in Batch.model_fields else content)[name] = value
    return content


def refused(kind, data):
    with pytest.raises(ArtefactError) as caught:
        KINDS[kind].from_json(data, name="box.json")
    message = str(caught.value)
    assert "box.json" in message
    assert len(message) < 400
    return message


# 38: writing


@pytest.mark.parametrize("kind", KINDS)
def test_fault_38_saving_is_atomic_and_leaves_no_other_file(kind, tmp_path):
    path = tmp_path / "box.json"
    artefact(kind).save(path)
    assert KINDS[kind].load(path) == artefact(kind)
    artefact(kind).save(str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["box.json"]
    assert path.read_bytes() == artefact(kind).to_json()


def test_fault_38_a_failed_write_keeps_the_old_file_and_removes_the_half_one(tmp_path, monkeypatch):
    path = tmp_path / "box.json"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        artefact("lab").save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["box.json"]


def test_fault_38_targets_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(InputError, match=r"Cannot write 'box\.json' in"):
        artefact("lab").save(tmp_path / "nowhere" / "box.json")
    with pytest.raises(InputError, match="Cannot write"):
        artefact("lab").save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_fault_38_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ArtefactError, match=r"Cannot read '.*nothing\.json'"):
        fieldcal.Lab.load(tmp_path / "nothing.json")
    with pytest.raises(ArtefactError, match="Cannot read"):
        fieldcal.Lab.load(tmp_path)


# 39: damage


@pytest.mark.parametrize("kind", KINDS)
def test_fault_39_a_truncated_file_is_corrupt(kind):
    data = artefact(kind).to_json()
    step = max(1, len(data) // 150)
    for end in (*range(0, len(data) - 1, step), len(data) - 2):  # the last byte is a line end
        assert "corrupt" in refused(kind, data[:end])


@pytest.mark.parametrize("kind", KINDS)
def test_fault_39_a_flipped_bit_is_found(kind):
    data = artefact(kind).to_json()
    rng = np.random.default_rng(0)
    for at in (*rng.integers(len(data) - 1, size=250).tolist(), *range(len(data) - 120, len(data) - 1)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        try:
            read = KINDS[kind].from_json(bytes(flipped))
        except ArtefactError:
            continue
        # 1e-05 and 1E-05, 0.30000000000000004 and …05 are one number: nothing was lost.
        assert read.to_json() == data
        assert chr(flipped[at]) in "eE0123456789"


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("lab", b'"smoothing":1.0', b'"smoothing":2.0'),
        ("lab", b'"smoothing":1.0', b'"smoothing":1'),
        ("lab", b'"labels":[0,1]', b'"labels":[1,0]'),
        ("lab", b'"labels":[0,1]', b'"labels":[0,1.0]'),
        ("field", b'"group 0"', b'"group O"'),
        ("field", b'"dropped":0', b'"dropped":1'),
        ("prevalence", b'"level":0.9', b'"level":0.8'),
    ],
)
def test_fault_39_a_number_edited_by_hand_is_found_by_the_digest(kind, old, new):
    data = artefact(kind).to_json()
    assert old in data
    assert "corrupt: its content does not match its digest" in refused(kind, data.replace(old, new, 1))


# 40: foreign and hostile files


@pytest.mark.parametrize("schema", [2, 99, 10**30])
def test_fault_40_a_newer_schema_asks_for_an_upgrade(schema):
    message = refused("lab", json.dumps(envelope("lab") | {"schema": schema}).encode())
    assert str(schema) in message
    assert "Upgrade" in message


@pytest.mark.parametrize("schema", [0, -1, 1.0, True, "1", None, [1]])
def test_fault_40_a_schema_that_never_was_is_refused(schema):
    assert "schema" in refused("lab", json.dumps(envelope("lab") | {"schema": schema}).encode())


@pytest.mark.parametrize("kind", KINDS)
def test_fault_40_unknown_fields_are_refused_anywhere(kind):
    assert "unknown field" in refused(kind, json.dumps(envelope(kind) | {"note": 1}).encode())
    content = envelope(kind)["content"] | {"note": "hello"}
    assert "note" in refused(kind, signed(content, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_fault_40_a_field_left_out_is_refused(kind):
    content = envelope(kind)["content"]
    required = {name for name, field in KINDS[kind].model_fields.items() if field.is_required()}
    for name in required:
        rest = {k: v for k, v in content.items() if k != name}
        assert name in refused(kind, signed(rest, kind))


@pytest.mark.parametrize(
    "literal", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1" + b"0" * 5000]
)
def test_fault_40_numbers_that_are_none_are_refused(literal):
    data = artefact("lab").to_json().replace(b'"smoothing":1.0', b'"smoothing":' + literal)
    assert "corrupt" in refused("lab", data)


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")], ids=["list", "object"])
@pytest.mark.parametrize("depth", [20, 60, 100, 300, 500, 900, *range(940, 1010, 5), 3000, 100_000])
def test_fault_40_deep_nesting_is_refused_at_every_depth(depth, brackets):
    start, end = brackets
    deep = start * depth + ("1" if start != "[" else "") + end * depth
    refused("lab", deep.encode())
    refused("lab", f'{{"content":{deep},"digest":"0","fieldcal":"lab","schema":1}}'.encode())
    refused("lab", f'{{"content":1,"digest":{deep},"fieldcal":"lab","schema":1}}'.encode())


@pytest.mark.parametrize("depth", [17, 63, 65, 200, 450, 900])
@pytest.mark.parametrize("place", ["outcome", "partition", "F", "n", "bin_scores"])
def test_fault_40_deep_nesting_with_a_fitting_digest_is_refused(depth, place):
    deep: list = []
    for _ in range(depth):
        deep = [deep]
    content = envelope("lab")["content"]
    content[place] = {"outcome": classes([deep, 1]), "partition": {"kind": "edges", "edges": deep}}.get(
        place, deep
    )
    refused("lab", signed(content))


def test_fault_40_a_very_long_list_is_refused():
    long = b"[" + b"0," * 3_000_000 + b"0]"
    assert "corrupt" in refused("lab", b'{"content":' + long + b',"digest":"0","fieldcal":"lab","schema":1}')
    assert "not a fieldcal artefact" in refused("lab", long)


def test_fault_40_a_file_larger_than_any_artefact_is_not_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(3 * 2**30)  # sparse: it takes no space
    with pytest.raises(ArtefactError, match=r"huge\.json.*3,221,225,472 bytes.*not read"):
        fieldcal.Lab.load(path)


def test_fault_40_duplicate_keys_are_refused():
    data = artefact("lab").to_json().replace(b'"schema":1', b'"schema":1,"schema":1')
    assert "'schema' appears twice" in refused("lab", data)
    data = artefact("lab").to_json().replace(b'"smoothing":1.0', b'"smoothing":1.0,"smoothing":5.0')
    assert "'smoothing' appears twice" in refused("lab", data)


def test_fault_40_one_duplicate_among_many_keys_is_found_without_comparing_all_pairs():
    names = ",".join(f'"{i}":0' for i in range(300_000))
    assert "'299999' appears twice" in refused("lab", f'{{{names},"299999":1}}'.encode())


@pytest.mark.parametrize("kind", KINDS)
def test_fault_40_an_artefact_of_another_kind_is_named(kind):
    for other in set(KINDS) - {kind}:
        message = refused(kind, artefact(other).to_json())
        assert repr(other) in message
        assert repr(kind) in message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"\xff\xfe{}",
        b"null",
        b"[]",
        b"{}",
        b'"lab"',
        b"PK\x03\x04",
        b"\x80\x04\x95",
        b"\xef\xbb\xbf{}",
        b'{"fieldcal":"lab"}',
        b'{"fieldcal":["lab"],"schema":1,"digest":"","content":{}}',
        b'{"fieldcal":"lab","schema":1,"digest":{},"content":null}',
    ],
    ids=repr,
)
def test_fault_40_what_is_no_artefact_at_all_is_refused(data):
    refused("lab", data)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("lab", "outcome", classes([0, 0])),
        ("lab", "outcome", classes([0])),
        ("lab", "outcome", classes(5)),
        ("lab", "outcome", classes([{"decimal": "abc"}, 1])),
        ("lab", "outcome", classes([{"decimal": "NaN"}, 1])),
        ("lab", "outcome", classes([{"decimal": "sNaN"}, 1])),
        ("lab", "outcome", classes([{"date": "2020-99-99"}, 1])),
        ("lab", "outcome", classes([{"date": "20200101"}, 1])),
        ("lab", "outcome", classes([{"date": 3}, 1])),
        ("lab", "outcome", classes([{"uuid": "x"}, 1])),
        ("lab", "outcome", classes([{"bytes": "zz"}, 1])),
        ("lab", "outcome", classes([{"pickle": "x"}, 1])),
        ("lab", "outcome", classes([{}, 1])),
        ("lab", "outcome", classes([{"date": "2020-01-01", "uuid": ""}, 1])),
        ("lab", "outcome", None),
        ("lab", "outcome", {"labels": [0, 1], "ordered": False}),
        ("lab", "outcome", {"kind": "numbers", "labels": [0, 1], "ordered": False}),
        ("lab", "outcome", {"kind": ["classes"], "labels": [0, 1], "ordered": False}),
        ("lab", "outcome", {"kind": "intervals", "labels": [0, 1]}),
        ("lab", "outcome", {"kind": "intervals", "points": [1.0, 0.0], "before": [False, False]}),
        ("lab", "outcome", {"kind": "intervals", "points": [0.0], "before": [0]}),
        ("lab", "outcome", {"kind": "intervals", "points": [], "before": []}),
        ("lab", "outcome", {"kind": "intervals", "points": [0.0, 1.0], "before": [False, False]}),
        ("lab", "partition", None),
        ("lab", "partition", 5),
        ("lab", "partition", {}),
        ("lab", "partition", {"kind": "edges"}),
        ("lab", "partition", {"kind": "edges", "edges": 5}),
        ("lab", "partition", {"kind": "edges", "edges": [0.5, 0.4]}),
        ("lab", "partition", {"kind": "edges", "edges": ["a"]}),
        ("lab", "partition", {"kind": "edges", "edges": [0.5], "more": 1}),
        ("lab", "partition", {"kind": ["edges"], "edges": [0.5]}),
        ("lab", "partition", {"kind": "exec", "edges": [0.5]}),
        ("lab", "partition", {"kind": "argmax", "edges": [[0.5, 0.6, 0.7, 0.8, 0.9, 0.95], []]}),
        ("lab", "partition", {"kind": "simplex", "feature": 5}),
        ("lab", "partition", {"kind": "simplex", **dict.fromkeys(NODES, 5)}),
        ("lab", "partition", {"kind": "expected", "values": [0.0, 1.0], "edges": 5}),
        ("lab", "partition", {"kind": "expected", "values": [0.0, 1.0], "edges": EIGHT_BINS[::-1]}),
        ("lab", "partition", {"kind": "bins", "n": 10**30}),
        ("lab", "partition", {"kind": "bins", "n": "8"}),
        ("lab", "F", [[1, 2], [3]]),
        ("lab", "F", [["a"] * 8] * 2),
        ("lab", "F", [[True] * 8] * 2),
        ("lab", "F", [[-1] * 8] * 2),
        ("lab", "F", [[10**30] * 8] * 2),
        ("lab", "F", None),
        ("lab", "F", {}),
        ("lab", "n", "400"),
        ("lab", "n", True),
        ("lab", "n", -1),
        ("lab", "smoothing", -1.0),
        ("lab", "loss", "low"),
        ("field", "groups", ["a", "a", "b", "c"]),
        ("field", "groups", "abcd"),
        ("field", "V", [[1] * 8] * 3),
        ("field", "V", []),
        ("field", "n_bins", 7),
        ("field", "n_bins", 0),
        ("field", "grouped", 1),
        ("field", "score_sums", [[1]] * 4),
        ("field", "batches", [1]),
        ("field", "batches", {"": 1}),
        ("field", "dropped", -1),
        ("prevalence", "level", 1.0),
        ("prevalence", "status", [1, 2, 3, 4]),
        ("prevalence", "urc", "many"),
        ("prevalence", "fit", {}),
        ("prevalence", "lab", None),
    ],
)
def test_fault_40_impossible_content_with_a_fitting_digest_is_refused(kind, name, value):
    refused(kind, signed(edited(kind, name, value), kind))


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("lab", "bin_scores", [[1]]),
        ("lab", "bin_scores", []),
        ("lab", "F", [[0] * 8] * 2),
        ("lab", "outcome", classes([0, None])),
        ("field", "groups", 5),
        ("field", "groups", []),
        ("prevalence", "urc", [[0.5, 0.5]]),
        ("prevalence", "estimate", []),
        ("prevalence", "urc", [[-1.0, 1.0]] * 4),
        ("prevalence", "whole", {"n": 5.0}),
        ("prevalence", "status", ["ok"]),
        ("prevalence", "trust", {"overall": 0.5, "between": 2.0, "set_by_caller": False, "rehearsed": 0.0}),
        ("prevalence", "point", "median"),
    ],
)
def test_fault_40_tables_that_do_not_fit_together_are_refused(kind, name, value):
    refused(kind, signed(edited(kind, name, value), kind))


def test_fault_40_a_prevalence_whose_field_is_of_another_lab_is_refused():
    content = envelope("prevalence")["content"]
    content["field"] = content["field"] | {"lab": "0" * 64}
    refused("prevalence", signed(content, "prevalence"))


def test_fault_40_a_tree_that_runs_in_circles_is_refused():
    tree = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0.0, 0.0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "leaf": [-1, 0, 1],
    }
    more = tree | {"threshold": [0.2, 0.0, 0.0]}

    def content(*trees, kind="simplex"):
        columns = {name: [one[name] for one in trees] for name in tree}
        return envelope("lab")["content"] | {
            "F": [[10, 20, 6, 4], [4, 6, 20, 10]],
            "bin_scores": [[n * 2**29] * 2 for n in (14, 26, 26, 14)],
            "weight_squares": [40, 40],
            "decisions": [[[10, 0], [20, 0], [0, 6], [0, 4]], [[4, 0], [6, 0], [0, 20], [0, 10]]],
            "partition": {"kind": kind, **columns},
        }

    sound = fieldcal.Lab.from_json(signed(content(tree, more))).partition
    assert sound.assign(np.array([0.2, 0.5, 0.7, 0.9])).tolist() == [1, 0, 3, 2]
    for damage in (
        {"left": [0, -1, -1]},
        {"right": [7, -1, -1]},
        {"leaf": [-1, 0, 0]},
        {"leaf": [-1, 0, 9]},
        {"threshold": [0.5]},
        {"feature": ["0", -1, -1]},
    ):
        refused("lab", signed(content(tree | damage, more)))
        refused("lab", signed(content(tree, more | damage)))
    refused("lab", signed(content(tree, more, kind="tree")))


def test_fault_40_random_edits_with_a_fitting_digest_never_escape():
    """Whatever stands in place of whatever: our own error, or an object that saves and loads again."""
    junk = [None, True, -1, 0, 2.5, 1e308, 10**40, "", "x", [], [[]], [[1]], {}, {"kind": "edges"}, ["ok"]]
    rng = np.random.default_rng(1)
    for _ in range(400):
        kind = list(KINDS)[rng.integers(3)]
        content = envelope(kind)["content"]
        _replace_somewhere(content, junk[rng.integers(len(junk))], rng)
        try:
            read = KINDS[kind].from_json(signed(content, kind))
        except FieldcalError:
            continue
        assert KINDS[kind].from_json(read.to_json()) == read


def _replace_somewhere(content, value, rng):
    here = content
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(here[key], (dict, list)) or not here[key] or rng.random() < 0.4:
            here[key] = value
            return
        here = here[key]
