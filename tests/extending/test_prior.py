"""A prior that is not fieldcal's: forty lines, none of them in src, and it is a prior like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fieldcal
from extending.census import Census
from fieldcal.core.priors import N_DRAWS, register
from fieldcal.core.problem import Penalty
from fieldcal.errors import InputError

SHARES = {2: (0.3, 0.7), 3: (0.2, 0.3, 0.5)}
PRIORS = [Census(SHARES[3], rows=200), Census(SHARES[3], rows=20, most=0.45)]


def counted(n_classes=3, groups=4, rows=60):
    """A lab, and a small field that looks like it."""
    p_lab = np.arange(n_classes, 0, -1) / np.arange(n_classes, 0, -1).sum()
    data = fieldcal.datasets.label_shift(
        n_lab=1000,
        n_field=max(groups, 1) * rows,
        n_groups=max(groups, 1),
        p_lab=p_lab,
        prevalence=np.tile(p_lab, (max(groups, 1), 1)),
        random_state=0,
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    return lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field if groups else None)


@pytest.mark.parametrize("point", ["mean", "mode"])
@pytest.mark.parametrize("groups", [0, 4])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_followed_the_more_the_stronger_it_is(n_classes, groups, point):
    lab, field = counted(n_classes, groups)
    shares = np.array(SHARES[n_classes])
    distance = []
    for rows in (0, 50, 1e6):
        prior = Census(tuple(shares), rows=rows)
        prev = fieldcal.estimate(lab, field, prior=prior, point=point, trust=1)
        assert prev.prior["name"] == "census"
        assert ((prev.lower <= prev.urc) & (prev.urc <= prev.upper)).all()
        distance.append(np.abs(prev.urc - shares).max())
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 1e-3


def test_as_pseudo_rows_it_is_the_built_in_prior_where_the_census_is_the_lab():
    lab, field = counted()
    own, built_in = (
        fieldcal.estimate(lab, field, prior=prior, trust=1)
        for prior in (Census(tuple(lab.p_lab), rows=30), fieldcal.priors.Dirichlet(30))
    )
    assert_allclose(own.urc, built_in.urc, rtol=0, atol=1e-12)
    assert_allclose(own.lower, built_in.lower, rtol=0, atol=1e-12)
    assert_allclose(own.draws(), built_in.draws(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("point", ["mean", "mode"])
def test_a_term_of_its_own_keeps_classes_below_what_it_allows(point):
    lab, field = counted()
    free, held = (
        fieldcal.estimate(lab, field, prior=Census(SHARES[3], rows=1, most=most), point=point, trust=1)
        for most in (1.0, 0.35)
    )
    assert free.urc.max() > 0.45
    assert held.urc.max() < 0.41


@pytest.mark.parametrize(
    "prior", [*PRIORS, PRIORS[1] + fieldcal.priors.KL(5)], ids=lambda prior: prior.spec()["name"]
)
def test_it_survives_a_file_with_its_draws(prior, tmp_path):
    lab, field = counted()
    prev = fieldcal.estimate(lab, field, prior=prior, trust=1)
    before = prev.draws([2, 0])
    prev.save(tmp_path / "prev.json")
    again = fieldcal.Prevalence.load(tmp_path / "prev.json")
    assert again == prev
    assert_array_equal(again.draws([2, 0]), before)
    assert_array_equal(prev.draws([2, 0]), before)
    assert again.contrast(2, 0) == prev.contrast(2, 0)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "prev.json").read_bytes()


@dataclass(frozen=True)
class Unregistered(fieldcal.priors.Prior):
    name: ClassVar[str] = "unregistered"

    def penalty(self, problem):
        return Penalty.of(problem, classes=2.0)


OWN = fieldcal.priors.Custom(lambda p: 20 * (p**2).sum(axis=-1), lambda p: 40 * p)


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (Unregistered(), "is not known here. Import the module that defines it"),
        (OWN, "whose functions are not in the file"),
        (fieldcal.priors.KL(3) + OWN, "whose functions are not in the file"),
    ],
    ids=["unregistered", "custom", "kl + custom"],
)
def test_what_a_file_cannot_describe_is_drawn_from_in_memory_and_refused_after_loading(prior, said, tmp_path):
    lab, field = counted()
    prev = fieldcal.estimate(lab, field, prior=prior, trust=1)
    assert_array_equal(prev.draws(), prev.draws())
    assert_allclose(prev.draws().mean(axis=1), prev.urc, atol=0.05)
    prev.save(tmp_path / "prev.json")
    again = fieldcal.Prevalence.load(tmp_path / "prev.json")
    assert again == prev
    assert_array_equal(again.urc, prev.urc)
    with pytest.raises(InputError, match=said):
        again.draws()


@register
@dataclass(frozen=True)
class Typical(fieldcal.priors.Prior):
    """Learns from the field: pseudo-rows at the mean histogram's own maximum likelihood."""

    rows: float = 40.0
    name: ClassVar[str] = "typical"
    learns: ClassVar[bool] = True

    def posterior(self, problem, *, random_state, learnt=None):
        if learnt is None:
            common = fieldcal.priors.Flat().posterior(problem.whole(), random_state=0).mode().p[0]
            learnt = {"centre": common}
        # What is learnt is a Dirichlet prior from then on.
        prior = Census(tuple(learnt["centre"]), rows=self.rows)
        found = prior.posterior(problem, random_state=random_state)
        found.learnt.update(learnt)
        return found


def test_one_that_learns_from_the_field_is_told_again_what_it_learnt(tmp_path):
    lab, field = counted()
    prev = fieldcal.estimate(lab, field, prior=Typical(), trust=1)
    assert prev.prior == {"name": "typical", "rows": 40.0}
    assert prev.learnt["centre"].shape == (3,)
    everything = prev.draws()
    assert everything.shape == (4, 16 * N_DRAWS, 3)
    prev.save(tmp_path / "prev.json")
    again = fieldcal.Prevalence.load(tmp_path / "prev.json")
    assert again == prev
    assert_array_equal(again.draws(), everything)
    # Two groups alone would have taught it something else.
    assert_array_equal(again.draws([3, 1]), prev.draws([3, 1]))
    assert_allclose(prev.draws([3]).mean(axis=1), everything[3:].mean(axis=1), atol=0.03)
    with pytest.raises(InputError, match="'typical' learns its numbers from the field and stands alone"):
        Typical() + fieldcal.priors.KL(1)
