"""What must not change an answer: the order of rows, the names of groups and classes, a file in between."""

from __future__ import annotations

import itertools
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal

import fieldcal
from fieldcal.errors import FieldcalWarning

few = settings(deadline=None, derandomize=True, max_examples=12)
worlds = st.builds(
    lambda K, G, seed: World(K, G, seed), st.integers(2, 4), st.integers(0, 4), st.integers(0, 99)
)
seeds = st.integers(0, 2**32 - 1)
DRAWN, MODE = {}, {"point": "mode", "level": None}


class World:
    """A lab and a field of K classes; rows of the field in G groups, or in none."""

    def __init__(self, K, G, seed):
        rng = np.random.default_rng([K, G, seed])
        data = fieldcal.datasets.label_shift(
            n_lab=400, n_field=150, p_lab=rng.dirichlet(np.full(K, 8.0)), random_state=seed
        )
        self.K, self.G, self.rng = K, G, rng
        self.proba, self.y, self.field = data.proba_lab, data.y_lab, data.proba_field
        self.groups = [f"g{i}" for i in rng.integers(0, G, len(self.field))] if G else None

    def __repr__(self):
        return f"World({self.K} classes, {self.G} groups)"


def quiet(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldcalWarning)
        return call(*args, **options)


def learnt(world, **options):
    return quiet(fieldcal.learn, world.proba, world.y, **options)


def estimated(lab, world, groups="given", **options):
    groups = world.groups if groups == "given" else groups
    field = quiet(fieldcal.count, lab, world.field, groups=groups)
    return quiet(fieldcal.estimate, lab, field, **options)


def intervals(prev):
    return np.stack([prev.lower, prev.upper])


@settings(few, max_examples=7)
@given(worlds.filter(lambda w: w.G > 1), st.permutations(["north", "", "g0", "é", "1"]))
def test_the_names_of_groups_change_no_estimate(world, names):
    """Draws are another matter: those of three classes and more are handed out in the order of the names."""
    options, told = (DRAWN, ("estimate", "lower", "upper")) if world.K == 2 else (MODE, ("estimate", "urc"))
    lab = learnt(world)
    renamed = estimated(lab, world, [names[int(g[1:])] for g in world.groups], **options)
    original = estimated(lab, world, **options)
    at = [renamed.groups.index(names[int(g[1:])]) for g in original.groups]
    for name in told:
        assert_allclose(getattr(renamed, name)[at], getattr(original, name), rtol=0, atol=1e-9)


@few
@given(worlds.filter(lambda w: w.K > 2), seeds)
def test_the_order_of_classes_permutes_the_estimate(world, seed):
    order = np.random.default_rng(seed).permutation(world.K)
    original = estimated(learnt(world, classes=range(world.K)), world, **MODE)
    lab = quiet(fieldcal.learn, world.proba[:, order], np.argsort(order)[world.y], classes=range(world.K))
    field = quiet(fieldcal.count, lab, world.field[:, order], groups=world.groups)
    other = quiet(fieldcal.estimate, lab, field, **MODE)
    assert_allclose(other.estimate, original.estimate[:, order], rtol=0, atol=1e-6)


@few
@given(worlds, seeds)
def test_a_whole_weight_counts_like_a_row_repeated(world, seed):
    weight = np.random.default_rng(seed).integers(1, 5, len(world.field))
    lab = learnt(world)
    options = {} if world.groups is None else {"groups": world.groups}
    weighed = quiet(fieldcal.count, lab, world.field, sample_weight=weight, **options)
    copies = {name: np.repeat(values, weight) for name, values in options.items()}
    repeated = quiet(fieldcal.count, lab, np.repeat(world.field, weight, axis=0), **copies)
    assert_array_equal(weighed.V, repeated.V)
    assert_array_equal(weighed.mean_prediction, repeated.mean_prediction)
    flat = {"prior": "flat", "point": "mode", "level": None, "trust": 1.0}
    one, two = (quiet(fieldcal.estimate, lab, field, **flat) for field in (weighed, repeated))
    assert_allclose(one.urc, two.urc, rtol=0, atol=1e-7)


@few
@given(worlds.filter(lambda w: not w.G))
def test_the_lab_itself_as_the_field_changes_nothing(world):
    lab = learnt(world, smoothing=0.0)
    field = quiet(fieldcal.count, lab, world.proba)
    prev = quiet(fieldcal.estimate, lab, field, prior="flat", point="mode", level=None, trust=1.0)
    assert_allclose(prev.urc[0], lab.p_lab, rtol=0, atol=1e-6)
    assert_allclose(quiet(fieldcal.recalibrate, prev, world.field), world.field, rtol=0, atol=1e-5)


@few
@given(worlds)
def test_without_trust_predictions_stay_as_they_are(world):
    prev = estimated(learnt(world), world, trust=0.0)
    new = quiet(fieldcal.recalibrate, prev, world.field, groups=world.groups)
    assert_allclose(new, world.field, rtol=0, atol=1e-15)


@few
@given(
    st.builds(World, st.just(2), st.integers(0, 4), st.integers(0, 99)),
    st.sampled_from(["auto", 0.0, 0.3, 1.0]),
    st.lists(st.floats(0, 1), min_size=2, max_size=30),
)
def test_within_a_group_a_higher_prediction_stays_higher(world, trust, scores):
    prev = estimated(learnt(world), world, trust=trust)
    scores = np.sort(scores)
    for group in [None] if world.groups is None else set(world.groups):
        groups = None if group is None else [group] * len(scores)
        new = quiet(fieldcal.recalibrate, prev, scores, groups=groups)
        assert (np.diff(new) >= -1e-15).all()
        assert new.min() >= 0
        assert new.max() <= 1


@pytest.mark.slow
@few
@given(worlds, st.sampled_from(["auto", 0.0, 1.0]))
def test_a_higher_level_gives_an_interval_around_that_of_a_lower_one(world, trust):
    lab = learnt(world)
    nested = [intervals(estimated(lab, world, level=level, trust=trust)) for level in (0.5, 0.8, 0.9, 0.99)]
    for inner, outer in itertools.pairwise(nested):
        assert (outer[0] <= inner[0] + 1e-9).all()
        assert (outer[1] >= inner[1] - 1e-9).all()


@few
@given(worlds)
def test_what_is_saved_loads_and_saves_to_the_same_bytes(tmp_path_factory, world):
    lab = learnt(world)
    field = quiet(fieldcal.count, lab, world.field, groups=world.groups)
    prev = quiet(fieldcal.estimate, lab, field)
    folder = tmp_path_factory.mktemp("saved")
    for made in (lab, field, prev):
        made.save(folder / "one.json")
        loaded = type(made).load(folder / "one.json")
        loaded.save(folder / "two.json")
        assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()
        assert loaded == made
        assert loaded.digest == made.digest
    again = quiet(fieldcal.recalibrate, loaded, world.field, groups=world.groups)
    assert_array_equal(again, quiet(fieldcal.recalibrate, prev, world.field, groups=world.groups))
