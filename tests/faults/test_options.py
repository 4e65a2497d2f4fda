"""Faults 53, 60 and 62: options and arguments that cannot be, each refused by name before any work."""

from __future__ import annotations

import functools

import pytest

import fieldcal
from fieldcal.cli.main import main
from fieldcal.errors import FieldcalError

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@functools.cache
def made():
    data = fieldcal.datasets.label_shift(n_lab=500, n_field=300, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    field = fieldcal.count(lab, data.proba_field)
    return data, lab, field, fieldcal.estimate(lab, field)


def learn(**options):
    data, *_ = made()
    return fieldcal.learn(data.proba_lab, data.y_lab, **options)


def count(**options):
    data, lab, *_ = made()
    return fieldcal.count(lab, data.proba_field, **options)


def estimate(**options):
    _, lab, field, _ = made()
    return fieldcal.estimate(lab, field, **options)


def plan(**options):
    return fieldcal.plan(made()[1], **{"n": 100} | options)


def recalibrate(**options):
    return fieldcal.recalibrate(made()[3], made()[0].proba_field, **options)


@pytest.mark.parametrize(
    ("verb", "name", "value"),
    [
        (learn, "classes", 5),
        (learn, "classes", "ab"),
        (learn, "ordered", "x"),
        (learn, "normalize", "x"),
        (learn, "random_state", -1),
        (learn, "random_state", "x"),
        (learn, "smoothing", "x"),
        (learn, "partition", "x"),
        (learn, "partition", 10**9),
        (learn, "groups", 5),
        (learn, "sample_weight", "x"),
        (count, "missing", 1),
        (count, "normalize", "x"),
        (count, "batch", 3),
        (count, "groups", 5),
        (estimate, "level", "x"),
        (estimate, "level", True),
        (estimate, "level", 90),
        (estimate, "random_state", -1),
        (estimate, "random_state", 1.5),
        (estimate, "max_iter", "x"),
        (estimate, "max_iter", 0),
        (estimate, "point", 3),
        (estimate, "protected", "x"),
        (estimate, "design_effect", 0.5),
        (estimate, "trust", "x"),
        (estimate, "trust", 1.5),
        (estimate, "prior", 3),
        (plan, "level", "x"),
        (plan, "n", "x"),
        (plan, "prevalence", "x"),
        (plan, "assume", "x"),
        (recalibrate, "unseen", 3),
        (recalibrate, "missing", 3),
    ],
)
def test_fault_60_an_option_that_cannot_be_is_refused_by_its_name(verb, name, value):
    with pytest.raises(FieldcalError, match=name) as refused:
        verb(**{name: value})
    assert isinstance(refused.value, (ValueError, TypeError))


def test_fault_60_totals_that_are_no_numbers_are_refused():
    with pytest.raises(FieldcalError, match="totals must be numbers"):
        made()[3].poststratify("x")


def test_fault_62_arguments_in_the_wrong_order_are_told_the_right_call():
    data, lab, field, prev = made()
    with pytest.raises(FieldcalError, match=r"fieldcal\.count\(lab, predictions\)"):
        fieldcal.count(data.proba_field, lab)
    with pytest.raises(FieldcalError, match="takes a Lab and a Field, in this order, but got Field and Lab"):
        fieldcal.estimate(field, lab)
    with pytest.raises(
        FieldcalError, match=r"takes a Prevalence and predictions, in this order.*recalibrate\(prev, pred"
    ):
        fieldcal.recalibrate(data.proba_field, prev)
    with pytest.raises(FieldcalError, match="plan takes a Lab or a Prevalence, but got Field"):
        fieldcal.plan(field, n=10)
    with pytest.raises(FieldcalError, match=r"Say how many rows it will have: fieldcal\.plan\(lab, n=1000\)"):
        fieldcal.plan(lab)


def test_fault_62_what_was_made_by_another_verb_is_told_which_verb_makes_it():
    data, lab, field, prev = made()
    for call, words in (
        (lambda: fieldcal.estimate(lab, data.proba_field), r"A Field comes from fieldcal\.count\(lab, pred"),
        (lambda: fieldcal.recalibrate(lab, data.proba_field), r"A Prevalence comes from fieldcal\.estimate"),
        (lambda: fieldcal.decide(data.proba_field, prev), r"Write fieldcal\.decide\(prev, predictions\)"),
        (lambda: fieldcal.count(lab, field), r"a Lab and predictions, in this order, but got Lab and Field"),
        (lambda: fieldcal.learn(lab, data.y_lab), r"Write fieldcal\.learn\(predictions, y\)"),
        (lambda: fieldcal.learn(data.y_lab, data.proba_lab), "predictions first and then the labels"),
        (lambda: fieldcal.learn(data.proba_lab, "y"), r"name of a column.*tables\.learn\(…, label='y'\)"),
        (lambda: fieldcal.rows_to_label(data.proba_field, prev, 3), r"rows_to_label\(prev, predictions, n\)"),
        (lambda: fieldcal.change_prevalence(prev, old=0.5, new=0.1), "takes predictions, but got Prevalence"),
        (lambda: fieldcal.cross_validate(lab), r"must be a Prevalence, but got Lab.*fieldcal\.estimate"),
        (lambda: lab + field, r"A Lab and a Field do not add up.*lab\.extended\(field\)"),
        (lambda: field + lab, "A Field and a Lab do not add up"),
    ):
        with pytest.raises(FieldcalError, match=words):
            call()


@pytest.mark.parametrize("table", ["out.json", "./out.json", "folder/../out.json"])
def test_fault_53_one_path_for_two_outputs_is_refused_before_any_work(tmp_path, monkeypatch, capsys, table):
    _, lab, field, _ = made()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    lab.save("lab.json")
    field.save("field.json")
    with pytest.raises(SystemExit) as ended:
        main(["estimate", "lab.json", "field.json", "-o", "out.json", "--csv", table])
    assert ended.value.code == 1
    assert "would both be written to" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["field.json", "folder", "lab.json"]
