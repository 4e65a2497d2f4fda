"""What labels will buy, foretold before they are there."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fieldcal
from fieldcal.core.planning import Outlook
from fieldcal.errors import InputError


@functools.cache
def world(prevalence=(0.5, 0.5), n_groups=1):
    data = fieldcal.datasets.label_shift(
        n_lab=2000, n_field=3000, prevalence=[list(prevalence)] * max(n_groups, 2), random_state=0
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    groups = data.groups_field if n_groups > 1 else None
    return data, lab, groups, fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=groups))


def seen(n, rng, prevalence, n_groups=1):
    data, lab, groups, _ = world(prevalence, n_groups)
    y = np.full(3000, np.nan)
    rows = rng.choice(3000, n, replace=False)
    y[rows] = data.y_field[rows]
    return fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=groups, y=y))


@pytest.mark.parametrize("prevalence", [(0.5, 0.5), (0.2, 0.8)], ids=["still", "moved"])
def test_the_planned_width_is_that_which_labels_leave(prevalence):
    outlook, rng = Outlook(world(prevalence)[3].open_posterior), np.random.default_rng(1)
    for n in (50, 200):
        planned = outlook.widths(n, "random", level=0.9)[0][1]
        found = [seen(n, rng, prevalence) for _ in range(6)]
        width = np.mean([p.whole.upper[1] - p.whole.lower[1] for p in found])
        assert planned == pytest.approx(width, rel=0.25)


def test_the_planned_width_of_a_typical_group_is_that_which_labels_leave():
    outlook, rng = Outlook(world((0.3, 0.7), 4)[3].open_posterior), np.random.default_rng(2)
    planned = outlook.widths(100, "random", level=0.9)[1][1]
    found = [seen(100, rng, (0.3, 0.7), 4) for _ in range(4)]
    width = np.mean([np.median(p.upper[:, 1] - p.lower[:, 1]) for p in found])
    assert planned == pytest.approx(width, rel=0.3)


@pytest.mark.parametrize("design", ["random", "by_score", "by_class"])
def test_more_labels_leave_less_width_and_all_rows_labelled_none(design):
    outlook = Outlook(world((0.2, 0.8))[3].open_posterior)
    widths = [outlook.widths(n, design, level=0.9)[0][1] for n in (20, 200, 2000)]
    assert (np.diff(widths) < 0).all()
    outlook = Outlook(world()[3].open_posterior)
    assert outlook.widths(10**6, "by_score", level=0.9)[0].max() < 1e-6


@pytest.mark.slow
def test_about_as_many_labels_as_planned_settle_the_verdict():
    planned = fieldcal.plan(world((0.2, 0.8))[3], labels=[5])
    assert 10 <= planned.labels < 1000
    assert f"about {planned.labels:,} labelled rows" in repr(planned)
    rng = np.random.default_rng(0)
    before, few, many = (
        [seen(n, rng, (0.2, 0.8)).by_model.weight("label_shift") for _ in range(6)]
        for n in (planned.labels // 4, planned.labels, 5 * planned.labels)
    )
    assert np.median(before) < np.median(few) < np.median(many)
    assert np.median(few) > 0.55
    assert np.median(many) > 0.75


def test_nothing_is_to_settle_where_explanations_agree():
    planned = fieldcal.plan(world((0.45, 0.55))[3], labels=[50])
    assert planned.labels is None
    assert "no number of labels would decide" in repr(planned)


def test_nothing_is_to_settle_where_nothing_moved():
    _, lab, _, prev = world()
    planned = fieldcal.plan(prev, labels=[50])
    assert planned.labels == 0
    assert "need not be decided" in repr(planned)
    sure = fieldcal.estimate(lab, prev.field, trust=1)
    assert Outlook(sure.open_posterior).labels_to_settle() == 0


def test_a_plan_says_every_width_in_words_and_as_numbers():
    planned = fieldcal.plan(world((0.3, 0.7), 4)[3], labels=(30,))
    told = planned.to_dict()["more_labels"]
    assert [(more["labels"], more["design"]) for more in told] == [
        (30, design) for design in ("random", "by_score", "by_class")
    ]
    for more in told:
        assert f"{more['width']:.3f}, {more['group_width']:.3f}" in repr(planned)


@pytest.mark.slow
def test_a_plan_is_the_same_every_time():
    assert fieldcal.plan(world()[3], labels=[30]) == fieldcal.plan(world()[3], labels=[30])


def test_labels_are_planned_for_the_field_of_an_estimate_only():
    _, lab, _, prev = world()
    for call in (
        lambda: fieldcal.plan(lab, n=100, labels=[50]),
        lambda: fieldcal.plan(prev, n=100, labels=[50]),
        lambda: fieldcal.plan(prev, assume="label_shift", labels=[50]),
    ):
        with pytest.raises(InputError, match="are planned for the field of an estimate"):
            call()
    assert fieldcal.plan(prev, labels=()).more_labels == fieldcal.plan(prev, n=100).more_labels == ()
