"""Values: what judges and tests say, in place of probabilities."""

from __future__ import annotations

import numpy as np
import pytest

import fieldcal
from fieldcal import Bins, Lab, Values
from fieldcal.errors import FieldcalError


def judged(n=600, *, labelled=200, groups=3, seed=0):
    """Rows of which a judge says pass or fail, and people say good or bad of the first."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.7
    verdict = np.where(rng.random(n) < np.where(good, 0.9, 0.2), "pass", "fail")
    human = [("good" if g else "bad") if i < labelled else None for i, g in enumerate(good)]
    return verdict, human, rng.integers(groups, size=n)


def learnt(verdict, human, **options):
    return fieldcal.learn(verdict, human, **{"kind": "values", "design": "random", **options})


def test_values_teach_the_same_as_bin_ids_that_were_worked_out_by_hand():
    verdict, human, groups = judged()
    ids = (verdict == "pass").astype(int)
    known = np.array([h is not None for h in human])
    by_hand = fieldcal.learn(ids[known], [h for h in human if h is not None], partition=Bins(2))
    lab = learnt(verdict, human, groups=groups)
    assert np.array_equal(lab.F, by_hand.F)
    assert lab.n == by_hand.n == 200
    ours = fieldcal.count(lab, verdict, groups=groups, y=human)
    theirs = fieldcal.count(by_hand, ids, groups=groups, y=human)
    assert np.array_equal(ours.V, theirs.V)
    assert np.array_equal(ours.labelled["random"].counts, theirs.labelled["random"].counts)


def test_a_lab_of_values_comes_back_from_its_file():
    verdict, human, groups = judged()
    lab = learnt(verdict, human, groups=groups, design="by_class")
    again = Lab.from_json(lab.to_json())
    assert again == lab
    assert (again.design, again.of_values, again.partition) == ("by_class", True, Values(["fail", "pass"]))


def test_a_design_has_no_default():
    verdict, human, _ = judged()
    with pytest.raises(FieldcalError, match=r"design='random'.*design='by_score'.*design='by_class'"):
        fieldcal.learn(verdict, human, kind="values")
