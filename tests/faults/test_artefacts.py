"""Damaged, foreign and hostile files (rows 38 to 40 and 66): refused quickly, in our own words.

At load the digest, types, shapes and finite numbers are checked. Content that fits them, written by someone who
computes the digest anew, is taken as it is.
"""

from __future__ import annotations

import functools
import json
import os
import re

import numpy as np
import pytest

import fieldcal
from fieldcal import storage
from fieldcal.errors import ArtefactError, InputError
from fieldcal.objects import Batch

KINDS = {"lab": fieldcal.Lab, "field": fieldcal.Field, "prevalence": fieldcal.Prevalence}


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


def signed(content, kind="lab"):
    """A file with a digest that fits: what someone who knows the format could write."""
    return storage.canonical(
        {"fieldcal": kind, "schema": 1, "digest": storage.digest(content), "content": content}
    )


def edited(kind, path, value):
    """The content with another value at a path such as ``outcome/labels``; of a field's counts, in its batch."""
    content = envelope(kind)["content"]
    *parents, last = path.split("/")
    batched = kind == "field" and path in Batch.model_fields
    where = functools.reduce(
        lambda held, key: held[key], parents, content["batches"][""] if batched else content
    )
    where[last] = value(where[last]) if callable(value) else value
    return content


def refused(kind, data):
    with pytest.raises(ArtefactError) as caught:
        KINDS[kind].from_json(data, name="box.json")
    message = str(caught.value)
    assert "box.json" in message
    assert len(message) < 400
    return message


@pytest.mark.parametrize("kind", KINDS)
def test_fault_38_saving_is_atomic_and_leaves_no_other_file(kind, tmp_path):
    path = tmp_path / "box.json"
    artefact(kind).save(path)
    assert KINDS[kind].load(path) == artefact(kind)
    artefact(kind).save(str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["box.json"]
    assert path.read_bytes() == artefact(kind).to_json()


def test_fault_38_a_failed_write_keeps_the_old_file_and_paths_that_cannot_be_are_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"Cannot write 'box\.json' in"):
        artefact("lab").save(tmp_path / "nowhere" / "box.json")
    with pytest.raises(InputError, match="Cannot write"):
        artefact("lab").save(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ArtefactError, match=r"Cannot read '.*nothing\.json'"):
        fieldcal.Lab.load(tmp_path / "nothing.json")
    with pytest.raises(ArtefactError, match="Cannot read"):
        fieldcal.Lab.load(tmp_path)
    path = tmp_path / "box.json"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        artefact("lab").save(path)
    assert (path.read_text(), [p.name for p in tmp_path.iterdir()]) == ("old", ["box.json"])


@pytest.mark.parametrize("kind", KINDS)
def test_fault_39_truncated_files_and_flipped_bits_are_found(kind):
    data = artefact(kind).to_json()
    step = max(1, len(data) // 150)
    for end in (*range(0, len(data) - 1, step), len(data) - 2):  # the last byte is a line end
        assert "corrupt" in refused(kind, data[:end])
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


def test_fault_40_schemas_and_numbers_that_never_were_are_refused():
    for schema in (2, 10**30):
        message = refused("lab", json.dumps(envelope("lab") | {"schema": schema}).encode())
        assert str(schema) in message
        assert "Upgrade" in message
    for schema in (0, -1, 1.0, True, "1", None, [1]):
        assert "schema" in refused("lab", json.dumps(envelope("lab") | {"schema": schema}).encode())
    for literal in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1" + b"0" * 5000):
        data = artefact("lab").to_json().replace(b'"smoothing":1.0', b'"smoothing":' + literal)
        assert "corrupt" in refused("lab", data)


@pytest.mark.parametrize("kind", KINDS)
def test_fault_40_fields_that_are_unknown_or_left_out_and_other_kinds_are_refused(kind):
    assert "unknown field" in refused(kind, json.dumps(envelope(kind) | {"note": 1}).encode())
    content = envelope(kind)["content"] | {"note": "hello"}
    assert "note" in refused(kind, signed(content, kind))
    content = envelope(kind)["content"]
    required = {name for name, field in KINDS[kind].model_fields.items() if field.is_required()}
    for name in required:
        rest = {k: v for k, v in content.items() if k != name}
        assert name in refused(kind, signed(rest, kind))
    for other in set(KINDS) - {kind}:
        message = refused(kind, artefact(other).to_json())
        assert repr(other) in message
        assert repr(kind) in message


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")], ids=["list", "object"])
def test_fault_40_deep_nesting_is_refused_at_every_depth_and_place(brackets):
    start, end = brackets
    for depth in (20, 100, 500, *range(940, 1010, 10), 3000, 100_000):
        deep = start * depth + ("1" if start != "[" else "") + end * depth
        refused("lab", deep.encode())
        refused("lab", f'{{"content":{deep},"digest":"0","fieldcal":"lab","schema":1}}'.encode())


@pytest.mark.parametrize("place", ["outcome/labels", "partition/edges", "F", "n"])
def test_fault_40_deep_nesting_with_a_fitting_digest_is_refused(place):
    for depth in (17, 65, 450, 900):
        deep = functools.reduce(lambda inner, _: [inner], range(depth), [])
        refused("lab", signed(edited("lab", place, deep)))


def test_fault_40_huge_files_are_not_read_and_duplicate_keys_found_without_comparing_all_pairs(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(3 * 2**30)  # sparse: it takes no space
    with pytest.raises(ArtefactError, match=r"huge\.json.*3,221,225,472 bytes, more than any artefact"):
        fieldcal.Lab.load(path)
    data = artefact("lab").to_json().replace(b'"schema":1', b'"schema":1,"schema":1')
    assert "'schema' appears twice" in refused("lab", data)
    data = artefact("lab").to_json().replace(b'"smoothing":1.0', b'"smoothing":1.0,"smoothing":5.0')
    assert "'smoothing' appears twice" in refused("lab", data)
    names = ",".join(f'"{i}":0' for i in range(300_000))
    assert "'299999' appears twice" in refused("lab", f'{{{names},"299999":1}}'.encode())


def test_fault_40_what_is_no_artefact_and_very_long_lists_are_refused():
    for data in (
        *(b"", b"\x00" * 100, b"\xff\xfe{}", b"null", b"[]", b"{}", b'"lab"', b"PK\x03\x04", b"\x80\x04\x95"),
        b"\xef\xbb\xbf{}",
        b'{"fieldcal":"lab"}',
        b'{"fieldcal":["lab"],"schema":1,"digest":"","content":{}}',
        b'{"fieldcal":"lab","schema":1,"digest":{},"content":null}',
    ):
        refused("lab", data)
    long = b"[" + b"0," * 3_000_000 + b"0]"
    assert "corrupt" in refused("lab", b'{"content":' + long + b',"digest":"0","fieldcal":"lab","schema":1}')
    assert "not a fieldcal artefact" in refused("lab", long)


WRONG = {
    "labels_twice": ("lab", "outcome/labels", [0, 0], "a key appears twice"),
    "one_label": ("lab", "outcome/labels", [0], "at least two"),
    "label_without_a_type": ("lab", "outcome/labels", [{"pickle": "x"}, 1], "unknown kind"),
    "outcome_without_a_kind": ("lab", "outcome", {"labels": [0, 1], "ordered": False}, "outcome"),
    "boundaries_without_flags": (
        "lab",
        "outcome",
        {"kind": "intervals", "points": [0.0], "before": []},
        "one flag for each boundary",
    ),
    "unknown_partition": ("lab", "partition", {"kind": "exec", "edges": [0.5]}, "partition: .*'exec'"),
    "edges_not_sorted": ("lab", "partition/edges", lambda x: x[::-1], "partition: .*strictly increase"),
    "edges_too_few": ("lab", "partition/edges", lambda x: x[1:], "F has shape"),
    "bins_beyond_integers": ("lab", "partition", {"kind": "bins", "n": 10**30}, "partition"),
    "rows_of_unequal_length": ("lab", "F", [[1, 2], [3]], "unequal length"),
    "counts_as_text": ("lab", "F", [["a"] * 8] * 2, "numbers expected"),
    "counts_below_zero": ("lab", "F", [[-1] * 8] * 2, "must not be negative"),
    "counts_beyond_floats": ("lab", "F", [[10**400] * 8] * 2, "F"),
    "counts_too_large": ("lab", "F", [[1e300] * 8] * 2, "F: counts must be zero, or between"),
    "n_as_text": ("lab", "n", "400", "n: "),
    "no_rows": ("lab", "n", 0, "n: Input should be greater"),
    "loss_of_other_classes": ("lab", "loss", [1, 2, 3], r"loss has shape \(3,\), not \(2,\)"),
    "scores_of_other_bins": ("lab", "bin_scores", [[1]], "bin_scores has shape"),
    "groups_twice": ("field", "groups", ["a", "a", "b", "c"], "a key appears twice"),
    "groups_in_another_order": ("field", "groups", lambda x: x[::-1], "not in canonical order"),
    "groups_without_rows": ("field", "V", [[1] * 8] * 3, "V has shape"),
    "other_bins": ("field", "n_bins", 7, "V has shape"),
    "dropped_below_zero": ("field", "dropped", -1, "dropped"),
    "level_of_one": ("prevalence", "level", 1.0, "level"),
    "status_of_other_groups": ("prevalence", "status", ["ok"], "status does not fit"),
    "shares_of_other_groups": ("prevalence", "urc", [[0.5, 0.5]], "urc has shape"),
    "fit_of_other_groups": ("prevalence", "fit/p_value", [0.5], "fit: p_value has shape"),
    "trust_as_text": ("prevalence", "trust/overall", "yes", "overall of a Trust is 'yes'"),
    "point_of_another_kind": ("prevalence", "point", "median", "point"),
    "unknown_verdict": ("prevalence", "verdict", {"findings": [{"state": "fine"}]}, "verdict.findings.0"),
    "field_of_another_lab": ("prevalence", "field/lab", "0" * 64, "counted with another lab"),
}


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"), WRONG.values(), ids=[f"fault_66_{n}" for n in WRONG]
)
def test_content_of_another_type_or_shape_is_refused_at_load_with_its_place(kind, path, value, words):
    message = refused(kind, signed(edited(kind, path, value), kind))
    assert message.startswith("box.json is corrupt: ")
    assert re.search(words, message), message
    assert "\n" not in message


def test_fault_66_a_name_of_two_lines_makes_an_error_of_one_and_half_a_sign_a_question_mark():
    message = refused("lab", signed(envelope("lab")["content"] | {"a\nb" * 200: 1}))
    assert re.match(r"box\.json is corrupt: a·b.*…: Extra inputs are not permitted", message)
    assert len(message) < 200
    lab = artefact("lab")
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [0.1, 0.9], groups=["a", "\ud800"]))
    for library in ("pandas", "polars", "pyarrow"):
        assert "?" in str(prev.to_frame(library)["group"])


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
