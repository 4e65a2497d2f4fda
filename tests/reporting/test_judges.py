"""The report of values: shares and slices, the judge, and nothing of recalibrated probabilities."""

from __future__ import annotations

import functools
import json
import re
import warnings

import numpy as np
import pytest
from examples.judged import judged
from numpy.testing import assert_allclose

import fieldcal
from fieldcal.datasets import label_shift
from fieldcal.errors import InputError
from fieldcal.reporting import judges as section
from fieldcal.reporting.figures import pictures

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")

#: Words of the report on probabilities that have no place where values were judged.
STRANGE = ("trust", "label shift", "reliab", "recalibrat", "calibration curve", "mean prediction", "misfit")


@pytest.fixture(autouse=True)
def _nothing_planned(monkeypatch):
    """To plan takes seconds, and one test asks for it."""
    monkeypatch.setattr(section, "MORE_LABELS", ())


@pytest.fixture(scope="module", autouse=True)
def _made():
    """What most tests share is made before a test is timed."""
    with warnings.catch_warnings(action="ignore", category=fieldcal.FieldcalWarning):
        sliced()


@functools.cache
def sliced(kinder=0.2, design="random", names=None):
    """An estimate of four systems, and its data."""
    data = judged(n_items=250, n_labels=240, kinder=kinder)
    system = (
        data.system
        if names is None
        else np.array([names[ord(s) - ord("A")] for s in data.system], dtype=object)
    )
    lab = fieldcal.learn(data.verdict, data.human, kind="values", design=design, groups=system)
    field = fieldcal.count(lab, data.verdict, y=data.human, groups=system)
    return fieldcal.estimate(lab, field), data


@functools.cache
def ratings():
    data = judged(n_items=250, n_labels=240)
    lab = fieldcal.learn(data.rating, data.human, kind="values", design="random")
    return fieldcal.estimate(lab, fieldcal.count(lab, data.rating))


@functools.cache
def survey():
    lab = fieldcal.Lab.from_rates(sensitivity=0.9, specificity=0.97, n=(120, 400))
    return fieldcal.estimate(lab, fieldcal.count(lab, ["positive"] * 60 + ["negative"] * 940))


@functools.cache
def reported(make):
    prev = make()
    return fieldcal.report(prev[0] if isinstance(prev, tuple) else prev)


def words(page):
    """What a reader reads of a page."""
    return re.sub(r"<(style|script)\b.*?</\1>|<[^>]+>", " ", page, flags=re.S).lower()


@pytest.mark.parametrize("make", [sliced, ratings, survey])
def test_the_page_is_whole_and_says_nothing_of_trust_or_recalibrated_probabilities(make):
    report = reported(make)
    for text in (words(report.html()), report.markdown().lower()):
        for word in STRANGE:
            assert word not in text, word

    assert json.loads(report.json()) == report.dict()
    page = report.html()
    links = set(re.findall(r'href="#([a-z]+)"', page))
    assert links <= set(re.findall(r'id="([a-z]+)"', page)), "every link has a place to go to"
    assert all(title for title in re.findall(r"<h2[^>]*>(.*?)</h2>", page, re.S))


def test_one_sentence_says_what_the_judge_says_and_what_is_so():
    prev, _ = sliced()
    k = prev.classes.index("pass")
    said = reported(sliced).dict()["changes"][0]
    assert said == (
        f"The judge says pass of {prev.whole.mean_prediction[k]:.1%} of 1,000 rows; the true share is "
        f"{prev.whole.estimate[k]:.1%} (90% interval {prev.whole.lower[k]:.1%} to {prev.whole.upper[k]:.1%})."
    )


def test_ratings_are_not_called_what_they_are_not():
    said = reported(ratings).dict()
    assert said["changes"][0].startswith("The true share of pass in 1,000 rows is")
    assert said["summary"]["says_classes"] is False
    assert said["judge"]["by_slice"] == []
    assert [len(line["cells"]) for line in said["judge"]["rates"]] == [5, 5]
    assert said["differences"] is None
    assert "Differences between groups" not in reported(ratings).html()


def test_the_table_of_slices_has_the_numbers_of_the_estimate_the_highest_first():
    prev, data = sliced()
    k = prev.classes.index("pass")
    table = reported(sliced).dict()["groups"]
    shares = table["classes"][0]["estimate"]
    assert shares == sorted(shares, reverse=True)
    for name, n, labelled, share in zip(table["names"], table["n"], table["labelled"], shares, strict=True):
        own = data.system == name
        assert n == own.sum()
        assert labelled == sum(label is not None for label in data.human[own])
        assert share == prev.estimate[prev.groups.index(name), k]
    assert table["whole"]["labelled"] == 240


def test_the_differences_are_those_of_compare_and_the_best_that_of_ranking():
    prev, _ = sliced()
    said, compared = reported(sliced).dict()["differences"], prev.compare(of="pass")
    assert said["compared"] == 6
    assert said["found"] == len(compared.found)
    for line, d in zip(said["lines"], compared.differences, strict=True):
        assert (line["a"], line["b"], line["estimate"], line["all_lower"]) == (
            d.a,
            d.b,
            d.estimate,
            d.all_lower,
        )
    chance = prev.ranking(of="pass").probability
    assert said["ranking"][0]["probability"] == chance.max()
    assert said["best"].startswith(f"{prev.groups[int(chance.argmax())]} has the highest share of pass")


@pytest.mark.slow
def test_slices_are_compared_on_the_same_items_where_these_are_given():
    prev, data = sliced()
    same = fieldcal.pairs(prev.lab, data.verdict, data.system, data.item, y=data.human)
    said = fieldcal.report(prev, pairs=same).dict()["differences"]
    paired = prev.compare(of="pass", pairs=same)
    assert [line["lower"] for line in said["lines"]] == [d.lower for d in paired.differences]
    assert "the same items" in said["sentences"][-1]
    assert "the same items" not in " ".join(reported(sliced).dict()["differences"]["sentences"])


def test_items_go_with_values_alone():
    prev, data = sliced()
    same = fieldcal.pairs(prev.lab, data.verdict, data.system, data.item)
    scores = label_shift(n_lab=500, n_field=500)
    lab = fieldcal.learn(scores.proba_lab, scores.y_lab)
    other = fieldcal.estimate(lab, fieldcal.count(lab, scores.proba_field))
    with pytest.raises(InputError, match="go with values of a judge"):
        fieldcal.report(other, pairs=same)


def test_the_judge_is_shown_by_its_labelled_rows_and_its_rates_with_intervals():
    _, data = sliced()
    lines = reported(sliced).dict()["judge"]["rates"]
    assert [line["class"] for line in lines] == ["fail", "pass"]
    for line in lines:
        own = data.human == line["class"]
        passed = [float((data.verdict[own] == value).sum()) for value in ("fail", "pass")]
        assert [cell["rows"] for cell in line["cells"]] == passed
        assert_allclose(sum(cell["rate"] for cell in line["cells"]), 1)
        for cell in line["cells"]:
            assert cell["lower"] < cell["rate"] < cell["upper"]
            assert cell["rate"] == pytest.approx(cell["rows"] / line["rows"], abs=0.1)


def test_a_judge_kinder_to_one_system_is_said_to_be_and_of_which_rows():
    prev, _ = sliced(kinder=0.6)
    assert prev.verdict.finding("judges_differ") is not None
    said = fieldcal.report(prev).dict()["judge"]
    assert "the judge favours some groups" in said["same"][0]
    assert said["kinder"].startswith("It says pass most often in A: of ")
    assert "rows there that are fail" in said["kinder"]
    first = said["by_slice"][0]
    assert first["group"] == "A"
    assert first["rates"][0] > said["overall"][0]


@pytest.mark.parametrize(
    ("design", "told"),
    [
        ("random", "a random sample of these rows"),
        ("by_class", "but not the shares"),
        ("by_score", "by their values"),
    ],
)
def test_what_the_shares_rest_on_names_the_design(design, told):
    assert told in fieldcal.report(sliced(0.2, design)[0]).dict()["rests_on"][0]


def test_rates_from_elsewhere_are_said_to_be_assumed():
    said = reported(survey).dict()
    assert said["verdict"]["level"] == "care"
    assert any(
        "From the assumption that the judge makes the same errors" in text for text in said["rests_on"]
    )
    assert said["groups"]["labelled"] is None
    assert "Labelled rows</th>" not in reported(survey).html()


def test_the_picture_has_a_hollow_mark_for_the_verdicts_and_a_filled_one_for_the_share():
    (picture,) = pictures(reported(sliced).content)["forest"]
    assert picture.caption.startswith("Hollow: as judged. Filled: the estimated share with its 90% interval.")
    assert "as judged" in picture.svg
    assert "share with 90% interval" in picture.svg
    assert ">lab " not in picture.svg


@pytest.mark.slow
def test_what_more_labels_would_buy_is_told_where_it_can_be_planned(monkeypatch):
    monkeypatch.setattr(section, "MORE_LABELS", (50,))

    class More:
        design, labels, width, group_width = "random", 50, 0.06, 0.11

    class Planned:
        level, width, more_labels = 0.9, 0.075, (More,)

    monkeypatch.setattr(section, "plan", lambda *_, **__: Planned)
    report = fieldcal.report(sliced()[0])
    assert "now 7.5 percentage points wide" in report.dict()["more"]["sentence"]
    assert "6.0 (11.0)" in report.html()
    assert "6.0 (11.0)" in report.markdown()

    monkeypatch.setattr(section, "MOST_PLANNED", 3)
    assert fieldcal.report(sliced()[0]).dict()["more"] is None, "four groups are too many"
    monkeypatch.setattr(section, "MOST_PLANNED", 4)

    def refuses(*_, **__):
        raise InputError("No plan.")

    monkeypatch.setattr(section, "plan", refuses)
    report = fieldcal.report(sliced()[0])
    assert report.dict()["more"] is None
    assert "Effect of more labels" not in report.html()


def test_labels_of_values_go_into_the_estimate_and_not_beside_the_report():
    prev, data = sliced()
    with pytest.raises(InputError, match="part of the estimate"):
        fieldcal.report(prev, proba=data.verdict, y=data.human)


def test_equal_estimates_give_equal_bytes_also_from_a_file(tmp_path):
    prev, _ = sliced()
    prev.save(tmp_path / "prevalence.json")
    again = fieldcal.Prevalence.load(tmp_path / "prevalence.json")
    assert fieldcal.report(again).json() == reported(sliced).json()
