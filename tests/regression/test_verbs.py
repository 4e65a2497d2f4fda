"""Regression: recovery of a shifted distribution, nothing lost without a shift, and the paper's facts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import fieldcal
from fieldcal import regression
from fieldcal.errors import InputError, InputTypeError
from fieldcal.regression.intervals import choose_support, indistinguishable_neighbours

NOISE = 0.7
SLOPE = 1 / (1 + NOISE**2)
SD = np.sqrt(1 - SLOPE)
LEVELS = np.arange(1, 40) / 40


def seen(y, rng):
    """The number through noise; the lab's posterior of it is known exactly."""
    return y + NOISE * rng.standard_normal(len(y))


def predicted(x, form="moments"):
    if form == "moments":
        return regression.from_moments(SLOPE * x, np.full(len(x), SD))
    return regression.from_quantiles(SLOPE * x[:, None] + SD * norm.ppf(LEVELS), LEVELS)


def world(
    n_lab=5000, n=5000, mean=0.0, sd=1.0, seed=0, form="moments", groups=None, lab_groups=None, **options
):
    rng = np.random.default_rng(seed)
    y_lab, y = rng.standard_normal(n_lab), mean + sd * rng.standard_normal(n)
    lab = fieldcal.learn(predicted(seen(y_lab, rng), form), y_lab, groups=lab_groups)
    x = seen(y, rng)
    field = fieldcal.count(lab, predicted(x, form), groups=groups)
    prev = fieldcal.estimate(lab, field, **{"trust": 1, **options})
    return prev, predicted(x, form), y, x


def oracle(x, mean, sd):
    """What a model that knew the field would say."""
    variance = 1 / (1 / sd**2 + 1 / NOISE**2)
    return regression.from_moments(
        variance * (mean / sd**2 + x / NOISE**2), np.full(len(x), np.sqrt(variance))
    )


def covered(distribution, y, coverage):
    low, high = distribution.interval(coverage).T
    return ((low <= y) & (y <= high)).mean()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["moments", "quantiles"])
@pytest.mark.parametrize(("mean", "sd"), [(0.8, 0.7), (-0.6, 1.0)])
def test_crps_and_coverage_come_back_to_those_of_a_model_that_knew_the_field(mean, sd, form):
    ratios, misses = [], []
    for seed in range(2):
        prev, old, y, x = world(mean=mean, sd=sd, seed=seed, form=form)
        new, best = fieldcal.recalibrate(prev, old), oracle(x, mean, sd)
        ratios.append(new.crps(y).mean() / best.crps(y).mean())
        assert new.crps(y).mean() < old.crps(y).mean()
        misses += [covered(new, y, c) - covered(best, y, c) for c in (0.5, 0.8, 0.9)]
    assert np.mean(ratios) < 1.05
    assert np.abs(np.mean(misses)) < 0.02


@pytest.mark.slow
def test_the_estimated_distribution_approaches_the_truth_as_lab_and_field_grow():
    errors = []
    for n in (300, 3000, 30_000):
        found = []
        for seed in range(3):
            prev, *_ = world(n_lab=n, n=n, mean=0.5, sd=0.9, seed=seed)
            points = prev.lab.outcome.points
            truth = np.diff(np.concatenate([[0], norm.cdf((points - 0.5) / 0.9), [1]]))
            found.append(np.abs(np.cumsum(prev.urc[0] - truth)).max())
        errors.append(np.mean(found))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.03


def test_two_intervals_are_the_binary_classifier_exactly():
    rng = np.random.default_rng(1)
    y_lab, y = rng.standard_normal(2000), 0.5 + rng.standard_normal(1000)
    dist_lab, dist = predicted(seen(y_lab, rng)), predicted(seen(y, rng))
    lab = fieldcal.learn(dist_lab, y_lab, intervals=[0.3])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, dist), trust=1)
    above = 1 - dist.cdf([0.3])[:, 0]
    plain = fieldcal.learn(1 - dist_lab.cdf([0.3])[:, 0], y_lab > 0.3)
    other = fieldcal.estimate(plain, fieldcal.count(plain, above), trust=1)
    assert_array_equal(lab.F, plain.F)
    assert_allclose(prev.urc, other.urc, atol=1e-9)
    new = fieldcal.recalibrate(prev, dist)
    assert_allclose(1 - new.cdf([0.3])[:, 0], fieldcal.recalibrate(other, above), atol=1e-9)


def test_interval_masses_obey_the_lemma_and_shapes_inside_are_kept():
    prev, old, _, _ = world(n=200, mean=0.5)
    support = prev.lab.outcome
    new = fieldcal.recalibrate(prev, old)
    weighted = old.masses(support) * prev.urc[0] / prev.lab.p_lab
    assert_allclose(new.masses(support), weighted / weighted.sum(axis=1, keepdims=True), atol=1e-9)
    low, high = support.points[3:5]
    inside = np.linspace(low, high, 7)

    def shape(d):
        c = d.cdf(inside)
        return (c - c[:, :1]) / (c[:, -1:] - c[:, :1])

    assert_allclose(shape(new), shape(old), atol=1e-7)


# Intervals


def test_intervals_are_filled_alike_and_an_atom_has_one_of_its_own():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(4000) < 0.3, 0.0, rng.exponential(size=4000))
    support = choose_support(y, 8, "auto", None)
    codes = support.codes(y)
    rows = np.bincount(codes, minlength=support.size)
    atom = support.codes([0.0])[0]
    assert rows[atom] == (y == 0).sum()
    assert support.labels[atom] == "≤ 0"  # nothing lies below
    others = np.delete(rows, atom)
    assert len(others) == 7
    assert others.max() < 1.1 * others.min()


def test_as_many_intervals_as_predictions_can_tell_apart():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(4000)
    sharp = fieldcal.learn(
        regression.from_moments(y + 0.1 * rng.standard_normal(4000), np.full(4000, 0.1)), y
    )
    blurred = fieldcal.learn(
        regression.from_moments(0.2 * (y + 2 * rng.standard_normal(4000)), np.full(4000, 0.9)), y
    )
    assert sharp.outcome.size == 20
    assert 2 <= blurred.outcome.size < 12
    assert indistinguishable_neighbours(
        rng.standard_normal(4000), blurred.outcome.codes(y), blurred.outcome.size
    )


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_predictions_that_say_nothing_are_not_to_be_used():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(1000)
    same = regression.from_moments(np.zeros(1000), np.ones(1000))
    with pytest.raises(InputError, match=r"cannot tell the intervals .* apart"):
        fieldcal.learn(same, y, intervals=5)
    lab = fieldcal.learn(same, y)
    assert lab.outcome.size == 2
    assert fieldcal.check(lab, fieldcal.count(lab, same)).level == "do_not_use"


def test_what_cannot_be_learnt_is_refused_in_words():
    for change, message in (
        ({"y": np.zeros(10)}, "100 predictions but 10 numbers"),
        ({"y": np.full(100, np.nan)}, "100 of the numbers y are missing"),
        ({"y": np.full(100, 3.0)}, "All 100 numbers are the same, 3"),
        ({"y": ["a"] * 100}, "must be numbers"),
        ({"y": np.zeros((100, 2))}, "one column"),
        ({"intervals": "many"}, "'auto', a number or edges"),
        ({"intervals": 1}, "intervals must be two at least"),
        ({"intervals": [1.0, 0.0]}, "strictly increase"),
        ({"intervals": [50.0]}, "No number of the lab lies in the interval > 50"),
        ({"predicted": [1, 2, 3]}, "from_quantiles"),
    ):
        y = np.random.default_rng(0).standard_normal(100)
        given = {"predicted": regression.from_moments(y, np.ones(100)), "y": y, **change}
        with pytest.raises((InputError, InputTypeError), match=message):
            fieldcal.learn(given.pop("predicted"), given.pop("y"), **{"intervals": 5, **given})


def test_a_lab_of_classes_has_no_intervals():
    data = fieldcal.datasets.label_shift(n_lab=200)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, [0.2, 0.7] * 20), trust=1)
    for verb, given in ((fieldcal.count, lab), (fieldcal.recalibrate, prev), (fieldcal.decide, prev)):
        for distributions in (regression.from_moments([0.0], [1.0]), norm([0.0], 1.0), [norm(0.0, 1.0)]):
            with pytest.raises(
                InputTypeError, match=r"class probabilities, .* \[0, 1\], .* fieldcal\.learn\(distrib"
            ):
                verb(given, distributions)


def test_a_lab_of_numbers_takes_no_probabilities_and_decides_nothing():
    prev, old, _, _ = world(n_lab=500, n=200)
    for verb, given in ((fieldcal.count, prev.lab), (fieldcal.recalibrate, prev)):
        with pytest.raises(InputTypeError, match="cannot be read as predictive distributions"):
            verb(given, np.full((10, prev.lab.outcome.size), 1 / prev.lab.outcome.size))
        with pytest.raises(InputError, match=r"normalize=.* does not go with distributions of a number"):
            verb(given, old, normalize=True)
    with pytest.raises(InputError, match=r"missing=.* does not go with distributions"):
        fieldcal.count(prev.lab, old, missing="drop")
    with pytest.raises(InputError, match=r"this estimate is of a number.*\.mean\(\)"):
        fieldcal.decide(prev, old)
