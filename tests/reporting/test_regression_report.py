"""Reports of regressions: the numbers are those of independent counting, and other reports stay as they were."""

from __future__ import annotations

import functools
import html
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fieldcal
from fieldcal import regression
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects.prevalence_table import shown_class
from reporting.real import judged, reported, simple

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")

ROWS = 3000


def predicted(rng, y):
    """What a calibrated model says of numbers that are N(0, 1) in the lab and seen with noise of .7."""
    x = y + 0.7 * rng.normal(size=len(y))
    return regression.from_moments(x / 1.49, np.full(len(y), 0.573))


@functools.cache
def numbers(n_groups=4, trust=1):
    """An estimate, and the field's rows: predictions, numbers, groups."""
    rng = np.random.default_rng(0)
    y_lab = rng.normal(size=4000)
    lab = fieldcal.learn(predicted(rng, y_lab), y_lab, intervals=[-1.5, -0.7, 0, 0.7, 1.5])
    groups = rng.integers(0, n_groups, ROWS) if n_groups > 1 else None
    y = rng.normal(0.8, 0.7, ROWS) + (0.0 if groups is None else 0.3 * (groups - 1.5))
    rows = predicted(rng, y)
    field = fieldcal.count(lab, rows, groups=groups)
    return fieldcal.estimate(lab, field, trust=trust), rows, y, groups


@functools.cache
def told(n_groups=4):
    prev, rows, y, groups = numbers(n_groups)
    return reported(prev, proba=rows, y=y, groups=groups)


@functools.cache
def changed(n_groups=4):
    prev, rows, _, groups = numbers(n_groups)
    return fieldcal.recalibrate(prev, rows, groups=groups)


@pytest.fixture(scope="module", autouse=True)
def _made():
    """What most tests share is made before a test is timed."""
    with warnings.catch_warnings(action="ignore", category=fieldcal.FieldcalWarning):
        told()
        changed()


def measure(content, name):
    (found,) = (m for m in content["labelled"]["measures"] if m["measure"] == name)
    return found["before"], found["after"]


def total_variation(one, two):
    return 0.5 * np.abs(np.asarray(one) - np.asarray(two)).sum(axis=-1)


# distributions


def test_the_distribution_of_one_population_is_the_estimate_itself():
    prev, *_ = numbers(1)
    (table,) = told(1).dict()["figures"]["distributions"]
    assert table["group"] is None
    assert table["labels"] == list(prev.classes)
    for name in ("mean_prediction", "estimate", "lower", "upper"):
        assert table[name] == getattr(prev, name)[0].tolist()
    assert table["lab"] == prev.lab.p_lab.tolist()


@pytest.mark.slow
def test_groups_whose_distribution_changes_most_are_shown_beside_the_whole_field():
    prev, *_ = numbers()
    whole, *rest = told().dict()["figures"]["distributions"]
    for name in ("mean_prediction", "estimate", "lower", "upper"):
        assert whole[name] == getattr(prev.whole, name).tolist()
    assert_allclose(whole["mean_prediction"], (prev.n / prev.n.sum()) @ prev.mean_prediction)
    assert whole["n"] == ROWS
    most = np.argsort(-total_variation(prev.mean_prediction, prev.estimate))[:3]
    assert [table["group"] for table in rest] == [str(prev.groups[g]) for g in most]
    for table, g in zip(rest, most, strict=True):
        assert table["estimate"] == prev.estimate[g].tolist()
        assert table["upper"] == prev.upper[g].tolist()


def test_ordered_classes_have_distributions_and_their_old_words():
    data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1500, p_lab=(0.3, 0.4, 0.3), random_state=3)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=True)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    found = reported(prev, proba=data.proba_field, y=data.y_field)
    content = found.dict()
    (table,) = content["figures"]["distributions"]
    assert table["estimate"] == prev.estimate[0].tolist()
    assert content["figures"]["pit"] is content["figures"]["coverage"] is content["summary"]["moved"] is None
    assert "the estimate of its share" in content["changes"][0]
    assert content["labelled"]["measures"][0]["measure"] == "log loss"
    assert 'class="picture distribution-0"' in found.html()
    assert content["figures"]["forest"]["groups"] == ["0", "1", "2"], "in their order"


def test_the_words_tell_how_far_the_distribution_moves_and_for_whom():
    prev, *_ = numbers()
    content = told().dict()
    moved = total_variation(prev.whole.mean_prediction, prev.whole.estimate)
    assert_allclose(content["summary"]["moved"], moved)
    each = total_variation(prev.mean_prediction, prev.estimate)
    words = " ".join(content["changes"])
    assert f"moves {moved:.1%} of the rows to other intervals" in words
    assert f"the maximum is in {each.argmax()} ({prev.n[each.argmax()]} rows): {each.max():.1%}" in words
    assert content["summary"]["outcome"] == "interval"
    assert "fieldcal.recalibrate" in content["verdict"]["advice"][0]


# labels


def test_coverage_is_what_one_counts():
    _, rows, y, _ = numbers()
    content = told().dict()
    table = content["figures"]["coverage"]
    assert table["nominal"] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    for name, given in (("before", rows), ("after", changed())):
        for share, held in zip(table["nominal"], table[name], strict=True):
            low, high = given.interval(share).T
            assert held == sum(a <= x <= b for a, x, b in zip(low, y, high, strict=True)) / ROWS
    assert measure(content, "share in 80% intervals") == (table["before"][3], table["after"][3])
    assert measure(content, "share in 90% intervals") == (table["before"][4], table["after"][4])
    assert f"contain {table['before'][4]:.1%} of the numbers in the raw predictions" in " ".join(
        content["labelled"]["sentences"]
    )


def test_the_transform_is_that_of_the_distribution_function():
    _, rows, y, _ = numbers()
    table = told().dict()["figures"]["pit"]
    for name, given in (("before", rows), ("after", changed())):
        level = np.array([given.take([i]).cdf([y[i]])[0, 0] for i in range(0, ROWS, 100)])
        assert_allclose(level, given.cdf(y[:, None])[::100, 0])
        bars = [((given.cdf(y[:, None]) * 10).astype(int) == i).mean() for i in range(10)]
        assert_allclose(table[name], bars)
    off = [np.abs(np.array(table[name]) - 0.1).max() for name in ("before", "after")]
    assert off[1] < off[0] / 3, "recalibration makes the bars even"


def test_scores_are_those_of_the_distributions_and_of_the_intervals():
    prev, rows, y, groups = numbers()
    content = told().dict()
    assert_allclose(measure(content, "mean CRPS"), [rows.crps(y).mean(), changed().crps(y).mean()])
    codes = prev.lab.outcome.codes(y)
    loss = [
        -np.log(given.masses(prev.lab.outcome)[np.arange(ROWS), codes]).mean() for given in (rows, changed())
    ]
    assert_allclose(measure(content, "log score of the intervals"), loss)
    assert loss[1] < loss[0]
    assert "are better: the log score of the intervals" in content["labelled"]["sentences"][0]
    truth = dict(zip(content["groups"]["names"], content["groups"]["classes"][0]["truth"], strict=True))
    k = shown_class(prev)
    assert_allclose([truth[str(g)] for g in range(4)], [(codes[groups == g] == k).mean() for g in range(4)])


def test_numbers_with_an_atom_are_reported():
    rng = np.random.default_rng(1)
    y = np.where(rng.random(3000) < 0.3, 0.0, rng.gamma(2.0, size=3000))
    zero = np.where((y > 0) == (rng.random(3000) < 0.8), 0.05, 0.65)[:, None]
    draws = np.where(rng.random((3000, 200)) < zero, 0.0, rng.gamma(2.0, size=(3000, 200)))
    rows = regression.from_samples(draws)
    lab = fieldcal.learn(rows, y)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, rows), trust=1)
    figures = reported(prev, proba=rows, y=y).dict()["figures"]
    level = (np.array([(draws[i] < y[i]).mean() + (draws[i] <= y[i]).mean() for i in range(3000)])) / 2
    assert_allclose(figures["pit"]["before"], np.histogram(level, np.linspace(0, 1, 11))[0] / 3000)
    assert figures["distributions"][0]["labels"][0] in ("0", "≤ 0")


# page, Markdown, JSON


@pytest.mark.slow
@pytest.mark.parametrize("n_groups", [1, 4])
def test_the_page_has_the_pictures_where_they_belong(n_groups):
    text = told(n_groups).html()
    names = ("changes", "groups", "pictures", "trust", "labelled", "fit")
    places = [text.index(f'id="{name}"') for name in names]
    assert places[0] < text.index("picture distribution-0") < places[1]
    assert places[2] < text.index("picture forest") < places[3]
    assert places[4] < text.index("picture pit") < text.index("picture coverage") < places[5]
    assert text.count('class="picture distribution-') == (1 if n_groups == 1 else 4)
    assert "a mixture of the lab's intervals?" in html.unescape(text)
    assert "Moved to other intervals" in text
    assert ("All intervals" in text) == (n_groups == 1)
    assert ">From – to</th>" in text, "the interval of an estimate is not mistaken for one of numbers"


@pytest.mark.slow
def test_reports_of_classes_have_nothing_of_it():
    prev, (proba, y, plots) = judged("ok")
    for found in (reported(prev, proba=proba, y=y, groups=plots), reported(simple(1, 3)[0])):
        content = found.dict()
        assert content["figures"]["pit"] is content["figures"]["coverage"] is None
        assert content["figures"]["distributions"] == []
        assert (content["summary"]["outcome"], content["summary"]["moved"]) == ("class", None)
        for text in (found.html(), found.markdown()):
            assert "other intervals" not in text
            assert "CRPS" not in text


# what can go wrong


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda rows, y: (rows, y[:5]), InputError, "3000 predictions but 5 labels"),
        (lambda rows, y: (rows, np.full(ROWS, np.nan)), InputError, "NaN or infinity"),
        (lambda rows, y: (rows, ["high"] * ROWS), InputTypeError, "must be numbers"),
        (lambda rows, y: (rows.take([]), []), InputError, "no labelled rows"),
        (lambda rows, y: (np.full((ROWS, 6), 1 / 6), y), InputTypeError, r"from_masses\(masses, support\)"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(given, error, message):
    prev, rows, y, _ = numbers(1)
    proba, truth = given(rows, y)
    with pytest.raises(error, match=message):
        reported(prev, proba=proba, y=truth)
