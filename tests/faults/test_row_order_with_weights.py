"""Fault 69: rows in another order give the same bytes, also where their weights are fractions."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fieldcal
from fieldcal import regression

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
relaxed = settings(deadline=None, max_examples=6, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


@functools.cache
def data(K):
    return fieldcal.datasets.label_shift(
        n_lab=400, n_field=200, p_lab=[1 / K] * K, n_groups=3, random_state=1
    )


def weights(n, seed, ties):
    """Fractions over many magnitudes; with ties, of few values, so that rows differ in their weight alone."""
    rng = np.random.default_rng(seed)
    return rng.choice([0.1, 0.3, 1 / 3], n) if ties else rng.lognormal(sigma=3, size=n)


@pytest.mark.parametrize("partition", ["auto", 5], ids=["fault_69_auto", "fault_69_five_bins"])
@pytest.mark.parametrize("K", [2, 3])
@relaxed
@given(seed=seeds, ties=st.booleans(), decimals=st.sampled_from([1, 12]))
def test_a_lab_and_its_field_have_one_digest_in_any_order_of_their_rows(partition, K, seed, ties, decimals):
    world, rng = data(K), np.random.default_rng(seed)
    if partition == 5 and K == 3:
        partition = fieldcal.partitions.Simplex(5)
    proba, moved = world.proba_lab.round(decimals), world.proba_field.round(decimals)
    weight, moved_weight = weights(400, seed, ties), weights(200, seed + 1, ties)
    labs, fields = [], []
    for rows, field_rows in ((np.arange(400), np.arange(200)), (rng.permutation(400), rng.permutation(200))):
        options = {"groups": world.groups_lab[rows], "sample_weight": weight[rows], "partition": partition}
        labs.append(fieldcal.learn(proba[rows], world.y_lab[rows], **options, normalize=K > 2))
        options = {"groups": world.groups_field[field_rows], "sample_weight": moved_weight[field_rows]}
        fields.append(fieldcal.count(labs[-1], moved[field_rows], **options, normalize=K > 2))
    assert labs[0].to_json() == labs[1].to_json()
    assert fields[0].to_json() == fields[1].to_json()


@pytest.mark.parametrize("weighted", [True, False], ids=["fault_69_weighted_numbers", "fault_69_numbers"])
@relaxed
@given(seed=seeds)
def test_a_lab_of_numbers_has_one_digest_in_any_order_of_its_rows(weighted, seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=400)
    mean, weight = (y + 0.7 * rng.normal(size=400)) / 1.49, weights(400, seed, False) if weighted else None
    digests = set()
    for rows in (np.arange(400), rng.permutation(400)):
        predicted = regression.from_moments(mean[rows], np.full(400, 0.57))
        given = None if weight is None else weight[rows]
        lab = fieldcal.learn(predicted, y[rows], sample_weight=given, intervals=[-1, 0, 1])
        digests.add((lab.digest, fieldcal.count(lab, predicted, sample_weight=given).digest))
    assert len(digests) == 1


def test_fault_69_named_shards_have_one_digest_in_any_order_of_merging():
    world, lab = data(2), fieldcal.learn(data(2).proba_lab, data(2).y_lab)
    weight = weights(200, 3, False)
    shards = [
        fieldcal.count(lab, world.proba_field[i::4], sample_weight=weight[i::4], batch=f"shard {i}")
        for i in range(4)
    ]
    assert sum(shards).digest == sum(shards[::-1]).digest
