"""The sentences of folded parts say what their part says; and no report speaks in codes, or of a change over time."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from examples.judged import judged as verdicts

import fieldcal
from reporting.real import judged, reported, simple
from reporting.test_labels import labelled
from reporting.test_page import Page
from reporting.test_regression_report import told as numbers

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.fixture(autouse=True)
def _nothing_planned(monkeypatch):
    """To plan takes seconds."""
    monkeypatch.setattr("fieldcal.reporting.labels.MORE_LABELS", ())
    monkeypatch.setattr("fieldcal.reporting.judges.MORE_LABELS", ())


def judge():
    data = verdicts(n_items=150, n_labels=120)
    lab = fieldcal.learn(data.verdict, data.human, kind="values", design="random", groups=data.system)
    return reported(
        fieldcal.estimate(lab, fieldcal.count(lab, data.verdict, y=data.human, groups=data.system))
    )


def evaluated():
    prev, (proba, y, plots) = judged("care")
    return reported(prev, proba=proba, y=y, groups=plots)


KINDS = {
    "evaluated": evaluated,
    "one population": lambda: reported(simple(1)[0]),
    "three classes": lambda: reported(simple(5, 3)[0]),
    "labels": lambda: reported(labelled()[0]),
    "numbers": numbers,
    "judge": judge,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_report_speaks_in_codes_and_every_folded_part_has_a_sentence(kind):
    found = KINDS[kind]()
    for text in (Page(found.html()).words(), found.markdown()):
        strange = (
            r"→|\burc\b|\bnaive\b|common_trust|\b(few|prior)_(rows|only)\b|changed? from|goes? from [\d.]+%"
        )
        assert re.findall(strange, text) == []
        assert kind == "judge" or not re.search(r"(?<!p-)\bvalues?\b", text)

    tags = Page(found.html()).tags
    parts = [a["id"] for tag, a in tags if tag == "div" and a.get("class") == "folded"]
    short = found.dict()["in_short"]
    assert set(parts) == set(short) - ({"pictures"} - set(parts))
    assert len(parts) == len(set(parts))


def test_the_mean_prediction_and_the_estimate_stand_side_by_side_by_their_names():
    prev, _ = judged("care")
    mean_prediction, estimate = prev.whole.mean_prediction[1], prev.whole.estimate[1]
    lower, upper = prev.whole.lower[1], prev.whole.upper[1]
    words = Page(reported(prev).html()).words()
    tile = f"Mean prediction {mean_prediction:.1%} Estimate {estimate:.1%} {lower:.1%} to {upper:.1%}"
    assert tile in words
    assert (
        f"the mean prediction of wanted is {mean_prediction:.1%}; the estimate of its share is {estimate:.1%} "
        f"(90% interval {lower:.1%} to {upper:.1%})"
    ) in words


def test_the_sentence_on_the_checklist_counts_its_states():
    prev, _ = judged("do_not_use")
    by = Counter(finding.state for finding in prev.verdict.findings)
    said = reported(prev).dict()["in_short"]["checklist"]
    assert re.findall(r"\d+", said) == [
        str(n) for n in (by.total(), *(by[s] for s in ("do_not_use", "care", "ask", "ok")))
    ]


def test_the_sentence_on_predictions_is_what_recalibrate_does():
    prev, _ = simple(6)
    said = reported(prev).dict()["in_short"]["predictions"]
    new = {g: fieldcal.recalibrate(prev, [0.5], groups=[g])[0] for g in prev.groups}
    low, high = min(new, key=new.get), max(new, key=new.get)
    assert said.endswith(f"{new[low]:.0%} in group {low} and {new[high]:.0%} in group {high}.")
    assert "stay unchanged" in reported(simple(trust=0)[0]).dict()["in_short"]["predictions"]


def test_the_sentence_on_labels_has_the_probability_with_and_without_them():
    prev, _ = labelled()
    said = reported(prev).dict()["in_short"]["labels"]
    before, after = prev.labels.prior, prev.by_model.weights
    assert f"150 labelled rows label shift has probability {max(after):.2f}" in said
    assert f"without them {before[0]:.2f}" in said


def test_the_sentence_on_the_judge_has_its_two_rates():
    found = judge()
    line, other = found.dict()["judge"]["rates"]
    said = found.dict()["in_short"]["judge"]
    assert said == (
        f"It says pass of {line['cells'][1]['rate']:.0%} of the rows that are {line['class']} and "
        f"{other['cells'][1]['rate']:.0%} of the rows that are {other['class']}."
    )
