"""The section on labelled rows: what came and what was foretold, the explanations, and a judge that did not teach."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import beta

import fieldcal
from fieldcal.core.hypotheses import KINDS
from fieldcal.reporting import labels as section
from fieldcal.types import DESIGNS
from reporting.real import HOSTILE, reported, simple

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.fixture(autouse=True)
def _nothing_planned(monkeypatch):
    """To plan takes seconds, and one test asks for it."""
    monkeypatch.setattr(section, "MORE_LABELS", ())


@functools.cache
def labelled(n=150, *, n_groups=1, classes=(0, 1), shares=(0.85, 0.15), weight=None, by_class=0):
    """An estimate of a field with n labels at random, and with some of each class."""
    p_lab = (1 / len(classes),) * len(classes)
    data = fieldcal.datasets.label_shift(
        n_lab=2000, n_field=3000, p_lab=p_lab, prevalence=[list(shares)] * n_groups, random_state=0
    )
    names = np.array(classes, dtype=object)
    lab = fieldcal.learn(data.proba_lab, names[data.y_lab])
    chosen = set(np.random.default_rng(0).choice(3000, n, replace=False).tolist())
    y = [names[k] if i in chosen else None for i, k in enumerate(data.y_field)]
    groups = data.groups_field if n_groups > 1 else None
    field = fieldcal.count(
        lab, data.proba_field, groups=groups, y=y, sample_weight=weight and [weight] * 3000
    )
    if by_class:
        at = np.concatenate([np.flatnonzero(data.y_field == k)[:by_class] for k in range(len(classes))])
        field = field + fieldcal.count(
            lab, data.proba_field[at], y=names[data.y_field[at]], design="by_class", only_labels=True
        )
    return fieldcal.estimate(lab, field), data


def test_without_labels_there_is_no_such_section():
    found = reported(simple()[0])
    assert found.dict()["labels"] is None
    assert found.dict()["figures"]["explanations"] is None
    for text in (found.html(), found.markdown()):
        assert "Labelled rows and what they support" not in text


def test_the_section_has_the_numbers_of_the_estimate():
    prev, _ = labelled(n_groups=5)
    said = reported(prev).dict()["labels"]
    assert said["rows"] == {"random": 150}
    assert [said["before"][kind] for kind in KINDS] == prev.labels.prior.tolist()
    assert [said["after"][kind] for kind in KINDS] == prev.by_model.weights.tolist()
    assert [line["class"] for line in said["shares"]] == ["0", "1"]
    assert [line["observed"] for line in said["shares"]] == prev.labels.observed.tolist()
    assert [line["label_shift"] for line in said["shares"]] == prev.labels.label_shift.expected.tolist()
    assert [line["same"] for line in said["shares"]] == prev.labels.same.expected.tolist()


def test_shares_among_labels_are_those_of_the_labels_and_have_a_binomial_interval():
    prev, _ = labelled()
    (first, second) = reported(prev).dict()["labels"]["shares"]
    counts = prev.field.labelled["random"].counts.sum(axis=(0, 2))
    assert_allclose([first["observed"], second["observed"]], counts / 150)
    exact = beta(counts[1] + 0.5, counts[0] + 0.5).ppf([0.05, 0.95])  # Jeffreys'
    assert_allclose([second["lower"], second["upper"]], exact, atol=0.006)


def test_it_is_judged_as_cross_validation_says():
    prev, _ = labelled()
    found = fieldcal.cross_validate(prev, random_state=prev.seed)
    said = reported(prev).dict()["labels"]
    assert said["cross_validation"] == json.loads(json.dumps(found.to_dict()))
    (text,) = said["judged"]
    assert (
        f"are {found.tilt.word}: log loss changes by {found.tilt.change:+.3f} ± {found.tilt.se:.3f}" in text
    )
    assert "By cross-validation over 150 labelled rows in 5 folds" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 6}, "6 labelled rows are too few to evaluate"),
        ({"weight": 0.7}, "weights, of which only the sums are known"),
    ],
)
def test_where_labels_cannot_judge_the_report_says_why(options, words):
    found = reported(labelled(**options)[0])
    said = found.dict()["labels"]
    assert said["cross_validation"] is None
    assert words in said["judged"][0]
    assert "Before recalibration" not in found.html()
    assert found.markdown()


def test_rows_chosen_by_class_are_counted_apart_and_do_not_judge():
    said = reported(labelled(by_class=30)[0]).dict()["labels"]
    assert said["rows"] == {"random": 150, "by_class": 60}
    assert said["sentences"][0].endswith("150 chosen at random and 60 chosen by class.")
    assert "The 60 rows chosen by class are used for fitting only." in said["judged"][0]
    assert said["cross_validation"]["rows"] == 150


def test_rows_that_were_all_chosen_by_class_have_no_shares_to_compare():
    prev, data = labelled()
    at = np.concatenate([np.flatnonzero(data.y_field == k)[:40] for k in (0, 1)])
    more = fieldcal.count(
        prev.lab, data.proba_field[at], y=data.y_field[at], design="by_class", only_labels=True
    )
    field = fieldcal.count(prev.lab, data.proba_field) + more
    found = reported(fieldcal.estimate(prev.lab, field))
    said = found.dict()["labels"]
    assert said["shares"] == []
    assert "chosen by class" in said["sentences"][0]
    assert "too few to evaluate" in said["judged"][0]
    assert "Predicted by label shift" not in found.html()


def test_rows_given_to_evaluate_are_no_judge_if_they_taught():
    prev, data = labelled()
    rows = {"proba": data.proba_field[:200], "y": data.y_field[:200]}
    words = "The estimate uses 150 labelled rows. They are not an independent test of it"
    found = fieldcal.report(prev, **rows)
    assert found.dict()["labelled"]["sentences"][0].startswith(words)
    assert words in found.html()
    without = fieldcal.estimate(prev.lab, fieldcal.count(prev.lab, data.proba_field))
    assert "independent" not in fieldcal.report(without, **rows).dict()["labelled"]["sentences"][0]


def test_page_and_markdown_tell_the_same_numbers():
    found = reported(labelled()[0])
    said = found.dict()["labels"]
    cv = said["cross_validation"]
    numbers = [f"{cv['log_loss']:.4f}", f"{cv['tilt']['change']:+.4f} ± {cv['tilt']['se']:.4f}"]
    numbers += [f"{cv['bins']['log_loss']:.4f}", f"{said['shares'][0]['label_shift']:.1%}"]
    page, markdown = found.html(), found.markdown().replace("\\", "")
    for number in numbers:
        assert number in page
        assert number in markdown
    assert "|label shift: only the class shares changed|" in markdown
    for sentence in said["sentences"] + said["judged"]:
        assert sentence in markdown


@pytest.mark.slow
def test_what_more_labels_would_buy_is_what_a_plan_says(monkeypatch):
    monkeypatch.setattr(section, "MORE_LABELS", (1_000,))
    prev, _ = labelled(30)
    prev = fieldcal.estimate(prev.lab, prev.field, level=0.8)
    found = reported(prev, of=0)
    said = found.dict()["labels"]["more"]
    planned = fieldcal.plan(prev, of=0, labels=[1_000]).more_labels
    assert {(line["labels"], design): line[design] for line in said["widths"] for design in DESIGNS} == {
        (more.labels, more.design): more.width for more in planned
    }
    assert_allclose(said["now"], prev.whole.upper[0] - prev.whole.lower[0])
    assert said["widths"][0]["random"] < said["now"]
    words = f"the 80% interval of 0 in the whole field is {100 * said['now']:.1f} percentage"
    assert words in said["sentence"]
    for text in (found.html(), found.markdown()):
        assert "1,000" in text
        assert f"{100 * said['widths'][0]['by_score']:.1f}" in text
        assert said["sentence"].split(" (")[0] in text.replace("\\", "")


def test_hostile_classes_are_escaped_and_many_are_cut(monkeypatch):
    names = (HOSTILE[0], HOSTILE[2], HOSTILE[7], "=1+1")
    prev, _ = labelled(classes=names, shares=(0.1, 0.2, 0.3, 0.4))
    found = reported(prev)
    assert len(found.dict()["labels"]["shares"]) == 4
    assert "<img src=x" not in found.html()
    monkeypatch.setattr(section, "MOST_CLASSES", 2)
    shown = reported(prev).dict()["labels"]["shares"]
    assert len(shown) == 2


def test_numbers_speak_of_intervals():
    rng = np.random.default_rng(0)
    y = rng.normal(size=3000)
    predicted = fieldcal.regression.from_moments((y + 0.7 * rng.normal(size=3000)) / 1.49, 0.573)
    lab = fieldcal.learn(predicted, y, intervals=[-1, 0, 1])
    kept = np.flatnonzero(y > -0.2)[:1200]
    truth = np.where(np.arange(1200) % 6 == 0, y[kept], np.nan)
    content = reported(fieldcal.estimate(lab, fieldcal.count(lab, predicted.take(kept), y=truth))).dict()
    assert content["figures"]["explanations"]["meanings"][0] == "only the interval shares changed"
    assert not any("classes" in text for text in content["labels"]["sentences"])
