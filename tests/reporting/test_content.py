"""The content of a report: plain data with the numbers of the estimate, and words that follow from them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

import fieldcal
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Finding
from fieldcal.reporting import sections
from reporting.real import hostile, judged, reported, simple

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


def state(content, question):
    (found,) = (item["state"] for item in content["checklist"] if question in item["question"])
    return found


@pytest.mark.parametrize("level", ["ok", "care", "do_not_use"])
def test_real_data_of_each_verdict_say_what_to_do(level):
    prev, _ = judged(level)
    verdict = reported(prev).dict()["verdict"]
    assert verdict["level"] == prev.verdict.level == level
    assert verdict["reasons"] == [finding.text for finding in prev.verdict.reported]
    first = {"ok": "Apply it", "care": "Resolve the points below", "do_not_use": "Keep using the raw"}[level]
    assert verdict["advice"][0].startswith(first)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_where_labels_would_decide_the_advice_has_their_number():
    data = fieldcal.datasets.label_shift(n_lab=600, n_field=6000, n_groups=1, random_state=3)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field))
    number = fieldcal.plan(prev, labels=[10]).labels
    assert any(
        f"About {number:,} labelled rows" in line for line in reported(prev).dict()["verdict"]["advice"]
    )


def test_the_content_is_plain_json_and_knows_no_nan():
    for prev in (simple()[0], simple(1)[0], simple(6, 3)[0], hostile(), judged("care")[0]):
        text = reported(prev).json()
        assert json.loads(text) == reported(prev).dict()
        assert "NaN" not in text
        assert "Infinity" not in text


def test_lines_come_in_the_order_of_rows_that_change_class_and_have_the_numbers_of_the_estimate():
    prev, _ = simple(40)
    table = reported(prev).dict()["groups"]
    at = [prev.groups.index(int(name)) for name in table["names"]]
    moved = (prev.n * np.abs(prev.estimate - prev.mean_prediction)[:, 1])[at]
    assert (np.diff(moved) <= 1e-12).all()
    assert table["n"] == prev.n[at].tolist()
    (only,) = table["classes"]
    assert only["class"] == "1"
    for name in ("mean_prediction", "estimate", "lower", "upper"):
        assert only[name] == getattr(prev, name)[at, 1].tolist()
    assert table["effect"] == prev.fit.effect[at].tolist()
    assert table["status"] == [prev.status[g] for g in at]


def test_all_classes_are_told_until_there_are_too_many_cells(monkeypatch):
    prev, _ = simple(6, 4)
    table = reported(prev, of=2).dict()["groups"]
    assert [c["class"] for c in table["classes"]] == ["2", "0", "1", "3"]
    assert table["left_out"] == 0
    monkeypatch.setattr(sections, "MOST_CELLS", 20)
    table = reported(prev, of=2).dict()["groups"]
    assert [c["class"] for c in table["classes"]] == ["2"]
    assert table["left_out"] == 3


def test_the_whole_field_stands_beside_the_groups_in_their_columns():
    prev, _ = simple(6, 4)
    table = reported(prev, of=2).dict()["groups"]
    whole = table["whole"]
    assert (whole["name"], whole["n"], whole["effect"]) == (
        "whole field",
        prev.n.sum(),
        prev.fit.whole_effect,
    )
    for cells, columns in zip(whole["classes"], table["classes"], strict=True):
        for name in ("mean_prediction", "estimate", "lower", "upper"):
            assert cells[name] == getattr(prev.whole, name)[int(columns["class"])]
        assert cells["truth"] is None
    assert reported(simple(1, 3)[0]).dict()["groups"]["whole"] is None


def test_what_is_not_recommended_is_not_told_as_an_improvement():
    prev, _ = simple()
    bad = Finding(code="bad", question="Is it bad?", state="do_not_use", text="It is.")
    said = reported(prev.model_copy(update={"verdict": fieldcal.Verdict(findings=(bad,))})).dict()
    assert said["changes"][0].startswith("Not recommended")
    assert "Keep using the raw predictions" in said["verdict"]["advice"][0]
    assert not any("Not recommended" in text for text in reported(prev).dict()["changes"])


def test_names_are_cut_and_cleaned_but_stay_distinct():
    long = ["a" * 200 + str(i) for i in range(3)]
    lab = simple()[0].lab
    field = fieldcal.count(lab, [0.2, 0.5, 0.9, 0.4], groups=[*long, "a\u202eb"])
    names = reported(fieldcal.estimate(lab, field, trust=1)).dict()["groups"]["names"]
    assert len(set(names)) == 4
    assert "a·b" in names
    assert max(map(len, names)) < 80


def test_nothing_changed_is_said_where_trust_is_zero():
    content = reported(simple(trust=0)[0]).dict()
    assert content["summary"]["untouched"]
    assert content["changes"] == [
        "Nothing: trust is 0, so predictions are unchanged and every estimate is the mean prediction."
    ]
    assert "stay unchanged" in content["verdict"]["meaning"]
    prev, rows = simple(trust=0)
    compared = reported(prev, proba=rows.proba_field, y=rows.y_field, groups=rows.groups_field).dict()[
        "labelled"
    ]
    assert "unchanged" in compared["sentences"][0]


def test_what_changes_is_counted_as_one_would_by_hand():
    prev, _ = simple(30, level=0.3)
    text = " ".join(reported(prev).dict()["changes"])
    up, down = (prev.estimate > prev.mean_prediction)[:, 1], (prev.estimate < prev.mean_prediction)[:, 1]
    assert f"above the mean prediction in {up.sum()} and below it in {down.sum()} of 30 groups" in text
    outside = (prev.mean_prediction < prev.lower)[:, 1] | (prev.mean_prediction > prev.upper)[:, 1]
    rows = f"{prev.n[outside].sum() / prev.n.sum():.0%} of the rows"
    assert f"In {outside.sum()} groups ({rows})" in text
    within, _ = simple(30, level=0.999)
    assert "All 30 mean predictions lie within" in " ".join(reported(within).dict()["changes"])


def test_the_checklist_is_the_findings_of_the_estimate_in_their_order():
    for prev in (*(judged(level)[0] for level in ("ok", "care", "do_not_use")), simple(1, 3)[0], hostile()):
        said = reported(prev).dict()
        found = prev.verdict.findings
        for name in ("code", "question", "state", "text", "remedy"):
            assert [item[name] for item in said["checklist"]] == [getattr(finding, name) for finding in found]
        assert [len(item["groups"]) for item in said["checklist"]] == [len(f.groups) for f in found]
        assert set(prev.verdict.remedies) <= set(said["verdict"]["advice"])


def test_the_section_of_trust_has_both_trusts_and_what_was_found_about_them():
    prev, _ = judged("care")
    said = reported(prev).dict()["trust"]
    assert f"the differences between groups with probability {prev.trust_between:.2f}" in said[0]
    assert said[1] == prev.verdict.finding("lab_groups").text
    assert (
        f"Label shift explains the change of the whole field with probability {prev.trust_overall:.2f}."
        in said
    )
    assert said[-1] == prev.verdict.finding("unmoved").text


def test_protected_groups_a_foreign_field_and_a_tiny_class_stand_out():
    prev, _ = simple(protected=True)
    assert state(reported(prev).dict(), "May decisions depend") == "ask"
    assert "do not change predictions" in reported(prev).dict()["verdict"]["advice"][0]
    lab = prev.lab
    foreign = fieldcal.estimate(lab, fieldcal.count(lab, [0.4999, 0.5001] * 500))
    assert state(reported(foreign).dict(), "mixture of the lab's classes") == "do_not_use"
    tiny = fieldcal.learn([0.1, 0.2, 0.3, 0.9] * 4, ([0, 0, 0, 1] + [0] * 4) * 2)
    few = reported(fieldcal.estimate(tiny, fieldcal.count(tiny, [0.2, 0.8]), trust=1)).dict()
    assert state(few, "enough rows") == "care"
    assert "Label more rows of this class." in few["verdict"]["advice"]


def test_dropped_rows_are_counted_and_named():
    lab = simple()[0].lab
    field = fieldcal.count(lab, [0.1, np.nan, 0.7, np.nan, 0.3], missing="drop")
    content = reported(fieldcal.estimate(lab, field, trust=1)).dict()
    (dropped,) = (line for line in content["quality"] if line["what"] == "Field rows dropped")
    assert dropped["count"] == 2
    assert state(content, "have a prediction") == "care"


def test_labels_are_compared_with_predictions_before_and_after():
    prev, (proba, y, plots) = judged("ok")
    content = reported(prev, proba=proba, y=y, groups=plots).dict()
    codes = (y == "wanted").astype(int)
    new = fieldcal.recalibrate(prev, proba, groups=plots)
    (loss,) = (m for m in content["labelled"]["measures"] if m["measure"] == "log loss")
    assert loss["before"] == pytest.approx(log_loss(codes, proba))
    assert loss["after"] == pytest.approx(log_loss(codes, new))
    assert "are better" in content["labelled"]["sentences"][0]
    table = content["groups"]
    at = int(table["names"][3])
    assert table["classes"][0]["truth"][3] == pytest.approx(codes[plots == at].mean())
    forest = content["figures"]["forest"]
    assert forest["labelled"][0] == pytest.approx(codes[plots == int(forest["groups"][0])].mean())


def test_a_table_with_columns_in_another_order_is_evaluated_in_the_order_of_the_classes():
    prev, data = simple(1, 3)
    rows = pd.DataFrame(data.proba_field, columns=[0, 1, 2])
    one = reported(prev, proba=rows, y=data.y_field).json()
    assert one == reported(prev, proba=rows[[2, 0, 1]], y=data.y_field).json()
    assert one == reported(prev, proba=data.proba_field, y=data.y_field).json()


def test_labels_of_groups_that_were_never_counted_do_not_stop_the_report():
    prev, data = simple()
    strange = np.where(data.groups_field == 0, 99, data.groups_field)
    content = reported(prev, proba=data.proba_field, y=data.y_field, groups=strange).dict()
    truth = dict(zip(content["groups"]["names"], content["groups"]["classes"][0]["truth"], strict=True))
    assert truth["0"] is None
    assert truth["1"] is not None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"y": [0, 1]}, "proba is missing"),
        ({"proba": [0.1]}, "y is missing"),
        ({"proba": [0.1, 0.2], "y": [0], "groups": [0, 1]}, "2 predictions but 1 labels"),
        ({"proba": [0.1], "y": ["cat"], "groups": [0]}, "'cat' is not among the classes"),
        ({"proba": [0.1], "y": [0]}, "pass groups="),
        ({"proba": [], "y": [], "groups": []}, "no labelled rows"),
        ({"of": "cat"}, "no class 'cat'"),
    ],
)
def test_what_cannot_be_reported_is_refused_in_words(more, message):
    with pytest.raises(InputError, match=message):
        reported(simple()[0], **more)


def test_a_report_wants_an_estimate_and_says_what_it_got():
    prev = simple()[0]
    for other in (prev.lab, prev.field, None):
        with pytest.raises(InputTypeError, match=f"takes a Prevalence.*got {type(other).__name__}"):
            fieldcal.report(other)


def test_a_lab_of_given_bins_is_reported_without_a_picture_of_its_calibration():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    ids = np.clip(y * 2 + rng.integers(0, 2, 400), 0, 3)
    lab = fieldcal.learn(ids, y, partition=fieldcal.partitions.Bins(4))
    prev = fieldcal.estimate(lab, fieldcal.count(lab, ids[:100]), trust=1)
    found = reported(prev)
    assert found.dict()["figures"]["reliability"] is None
    assert "<!doctype html>" in found.html()
