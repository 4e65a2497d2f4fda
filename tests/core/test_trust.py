"""The rehearsal and what follows from it, in worlds where it is known whether groups differ by label shift."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

import fieldcal
from fieldcal.core.partition import fit_partition
from fieldcal.core.policy import POLICY
from fieldcal.core.problem import Problem
from fieldcal.core.response import auto_smoothing, count_cells
from fieldcal.core.shrinkage import approximate_posterior_mean
from fieldcal.core.trust import GRID, decide_trust, measure, rehearse, skill

# Groups that differ by a covariate look like groups that differ more than prevalences can: that is meant.
pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")


@dataclasses.dataclass(frozen=True)
class World:
    """Lab and field rows of a calibrated model."""

    lab: tuple[np.ndarray, np.ndarray, np.ndarray]  # scores, labels, groups
    field: tuple[np.ndarray, np.ndarray, np.ndarray]


@functools.cache
def by_label(seed, n_groups=20, rows=150):
    """Groups are drawn by their labels alone: the assumption holds."""
    d = fieldcal.datasets.label_shift(
        n_lab=n_groups * rows,
        n_field=n_groups * rows,
        n_groups=n_groups,
        concentration=2.0,
        random_state=seed,
    )
    return World((d.proba_lab, d.y_lab, d.groups_lab), (d.proba_field, d.y_field, d.groups_field))


@functools.cache
def by_covariate(seed, n_groups=20, rows=150, shift=1.0):
    """Groups differ in a feature x, and P(y | x) is the same in all: the model is right, and URC is wrong."""
    rng = np.random.default_rng(seed)
    mean = shift * rng.standard_normal(n_groups)
    groups = np.repeat(np.arange(n_groups), rows)

    def draw():
        x, z = mean[groups] + rng.standard_normal(len(groups)), rng.standard_normal(len(groups))
        score = expit(1.5 * x + z - 0.3)
        return score, (rng.random(len(groups)) < score).astype(int), groups

    return World(draw(), draw())


def at_random(seed, n_groups=20, rows=150):
    return by_covariate(seed, n_groups, rows, shift=0.0)


def rehearsed(scores, y, groups, **options):
    proba = np.column_stack([1 - scores, scores])
    partition = fit_partition("auto", scores, y, 2)
    bins = partition.assign(scores)

    def estimate(F, V):
        return approximate_posterior_mean(F, V, smoothing=auto_smoothing(F), p_lab=F.sum(axis=1) / F.sum())

    return rehearse(proba, y, groups, bins, n_bins=partition.m, estimate=estimate, **options)


def change(world, *, groups_in_lab=True, **options):
    """Change of log loss in the field; negative is better."""
    scores, y, groups = world.lab
    lab = fieldcal.learn(scores, y, groups=groups if groups_in_lab else None)
    scores, y, groups = world.field
    prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=groups), **options)
    return log_loss(y, fieldcal.recalibrate(prev, scores, groups=groups)) - log_loss(y, scores)


def test_groups_drawn_by_label_alone_rehearse_to_nearly_full_trust():
    for seed in range(3):
        found = rehearsed(*by_label(seed).lab)
        assert found.trust >= 0.8
        assert found.sure >= 0.6
        assert found.change < -2 * found.change_se < 0
        assert (found.n_groups, found.n_rows) == (20, 3000)


def test_groups_that_differ_by_a_covariate_rehearse_to_little_or_no_trust():
    for shift in (0.5, 1.0):
        for seed in range(3):
            found = rehearsed(*by_covariate(seed, shift=shift).lab)
            assert found.trust <= 0.1
            assert found.change <= 0
            assert found.change_by_trust[-1] > 0.02, "full URC would have done harm"


@pytest.mark.slow
def test_groups_that_do_not_differ_cannot_do_harm():
    """Whatever trust noise picks: groups alike are pooled, and nothing is left to apply."""
    for seed in range(10):
        found = rehearsed(*at_random(seed).lab)
        assert found.size < 0.002
        assert found.change > -0.002
        if found.trust:
            assert change(at_random(seed)) < 0.001


@pytest.mark.parametrize("world", [by_covariate, at_random], ids=["covariate", "random"])
def test_a_lab_of_80_rows_mostly_ends_at_no_trust(world):
    found = [rehearsed(*world(seed, n_groups=4, rows=20).lab) for seed in range(20)]
    assert np.mean([f.trust == 0 for f in found]) >= 0.8
    assert all(f.excess_variance is not None for f in found)


def test_relabelling_within_bins_takes_all_trust_away():
    """The same histograms of groups, the same F; only the labels held out can tell that groups no longer differ by
    label."""
    scores, y, groups = by_label(0).lab
    before = rehearsed(scores, y, groups)
    rng = np.random.default_rng(0)
    mixed = y.copy()
    bins = fit_partition("auto", scores, y, 2).assign(scores)
    for b in np.unique(bins):
        rows = np.flatnonzero(bins == b)
        mixed[rows] = y[rng.permutation(rows)]
    after = rehearsed(scores, mixed, groups)
    assert before.trust >= 0.8
    assert after.trust == 0
    assert after.change_by_trust[-1] > 0.01


def test_mending_a_model_that_is_wrong_everywhere_does_not_pose_as_knowledge_about_groups():
    scores, y, groups = at_random(0).lab
    wrong = scores * 0.2 / (scores * 0.2 + (1 - scores) * 0.8)
    found = rehearsed(wrong, y, groups)
    assert log_loss(y, wrong) > log_loss(y, scores) + 0.1
    assert found.change_by_trust.min() > -0.002


def test_the_rows_that_score_an_estimate_had_no_part_in_its_response_matrix():
    scores, y, groups = by_label(0).lab
    seen = []

    def spy(F, V):
        seen.append((F, V))
        return np.full(2, 0.5), np.full((len(V), 2), 0.5)

    bins = np.minimum((scores * 8).astype(int), 7)
    rehearse(np.column_stack([1 - scores, scores]), y, groups, bins, n_bins=8, estimate=spy)
    whole = count_cells(y, bins, shape=(2, 8))
    histograms = count_cells(groups, bins, shape=(20, 8))
    np.testing.assert_array_equal(sum(F for F, _ in seen), 4 * whole)
    for F, V in seen:
        np.testing.assert_array_equal(V, histograms)
        assert (whole >= F).all()
        assert F.sum() == pytest.approx(0.8 * len(y), abs=1)


def test_a_trust_of_0_changes_nothing_and_the_excess_of_two_classes_is_the_same_for_both():
    found = rehearsed(*by_label(1).lab)
    assert found.change_by_trust[0] == found.change_by_trust_se[0] == 0
    assert found.grid.tolist() == GRID.tolist()
    at = found.grid.tolist().index(found.trust)
    assert found.change == found.change_by_trust[at]
    assert found.change_se == found.change_by_trust_se[at]
    assert found.sure <= found.trust
    found = rehearsed(*by_label(0).lab)
    assert found.excess_variance.shape == (len(GRID), 2)
    np.testing.assert_allclose(*found.excess_variance.T, rtol=1e-6, atol=1e-12)
    scores, y, _ = by_label(0).lab
    assert rehearsed(scores, y, np.arange(len(y)) // 9).excess_variance is None


def test_the_expected_change_is_what_the_field_then_shows():
    expected, seen = [], []
    for seed in range(3):
        world = by_label(seed)
        expected.append(rehearsed(*world.lab).change)
        seen.append(change(world))
    assert np.mean(seen) == pytest.approx(np.mean(expected), rel=0.35)


def test_there_is_no_rehearsal_without_groups_or_rows_and_those_without_weight_take_no_part():
    scores, y, groups = by_label(0).lab
    assert rehearsed(scores, y, np.zeros_like(groups)) is None
    assert rehearsed(scores[:40], y[:40], groups[:40]) is None
    rare = np.zeros_like(y)
    rare[0] = 1
    assert rehearsed(scores, rare, groups) is None
    scores, y, groups = by_label(1, n_groups=8).lab
    weight = np.where(groups == 3, 0.0, 1.0)
    weight[::7] = 0
    kept = weight > 0
    weighted = fieldcal.learn(scores, y, groups=groups, sample_weight=weight)
    without = fieldcal.learn(scores[kept], y[kept], groups=groups[kept])
    assert weighted.rehearsal.n_groups == 7
    np.testing.assert_allclose(weighted.rehearsal.change_by_trust, without.rehearsal.change_by_trust)
    np.testing.assert_allclose(weighted.rehearsal.excess_variance, without.rehearsal.excess_variance)


def test_one_huge_group_beside_small_ones_is_not_many_groups():
    """One group carries almost all rows: the error is that of two groups, and nothing is sure."""
    scores, y, groups = by_label(0, n_groups=12, rows=400).lab
    even = rehearsed(scores, y, groups)
    rng = np.random.default_rng(0)
    lopsided = (groups == 0) | (rng.random(len(groups)) < 0.05)
    some = rehearsed(scores[lopsided], y[lopsided], groups[lopsided])
    assert even.sure > 0.5
    assert some.sure == 0


def test_the_excess_is_small_at_full_trust_where_the_assumption_holds_and_large_where_it_does_not():
    holds = [rehearsed(*by_label(s, rows=400).lab).excess_variance for s in range(3)]
    broken = [rehearsed(*by_covariate(s, rows=400).lab).excess_variance for s in range(3)]
    for held, broke in zip(holds, broken, strict=True):
        assert (held[-1] < 0.05).all()
        assert (held[0] > 3 * held[-1]).all(), "left alone, predictions miss the groups' prevalences"
        assert (broke[0] < 0.05).all()
        assert (broke[-1] > 0.5).all()


def decided(F, V, *, rehearsal=None, grouped=True):
    """Trust, and the evidence for it, from true prevalences: what remains is the decision."""
    F, V = np.asarray(F, dtype=float), np.asarray(V, dtype=float)
    problem = Problem(F, V, auto_smoothing(F), grouped)
    whole, urc = approximate_posterior_mean(F, V, smoothing=problem.smoothing, p_lab=problem.p_lab)
    evidence = measure(problem, urc=urc, whole=whole, rehearsal=rehearsal)
    return decide_trust(problem, evidence, urc=urc, whole=whole, centres=(F / F.sum(axis=0)).T), evidence


def counts(world, part):
    scores, y, groups = world.lab
    partition = fit_partition("auto", scores, y, 2)
    if part == "lab":
        return count_cells(y, partition.assign(scores), shape=(2, partition.m)).astype(float)
    scores, _, groups = world.field
    return count_cells(groups, partition.assign(scores), shape=(groups.max() + 1, partition.m)).astype(float)


M = np.array([[0.35, 0.25, 0.18, 0.12, 0.07, 0.03], [0.03, 0.07, 0.12, 0.18, 0.25, 0.35]])
MIDDLE = np.array([0.0, 0.0, 0.5, 0.5, 0.0, 0.0])


def test_one_population_earns_by_histograms_what_it_can_and_no_more():
    trust, evidence = decided(5000 * M, [20_000 * np.array([0.8, 0.2]) @ M], grouped=False)
    assert trust.overall == trust.between == POLICY.most_without_labels < 0.65
    assert evidence.overall.shifted
    trust, evidence = decided(5000 * M, [20_000 * np.array([0.5, 0.5]) @ M], grouped=False)
    assert (trust.overall, trust.between) == (0, 0)
    assert not evidence.overall.shifted
    trust, _ = decided(5000 * M, [20_000 * (0.5 * M[0] + 0.5 * MIDDLE)], grouped=False)
    assert (trust.overall, trust.between) == (0, 0)


def test_less_evidence_or_knowledge_never_earns_more_trust():
    """In every one of its four pieces the rule rises."""
    best = {"share": 1.0, "least": 1.0, "most": 1.0, "skill": 1.0}
    for name in best:
        values = [POLICY.trust_without_labels(**best | {name: x}) for x in np.linspace(-1, 1, 41)]
        assert np.all(np.diff(values) >= 0)
        assert values[0] == 0
        assert values[-1] == POLICY.most_without_labels
    # Bins that are mixed towards their mean: the same prevalences, seen less sharply.
    for known in (0.0, 0.1, 0.2):
        blurred = 0.5 * M.sum(axis=0) + np.sqrt(known) * (M - 0.5 * M.sum(axis=0))
        trust, _ = decided(50_000 * blurred, [200_000 * np.array([0.9, 0.1]) @ blurred], grouped=False)
        sharp, _ = decided(50_000 * M, [200_000 * np.array([0.9, 0.1]) @ M], grouped=False)
        assert trust.overall < sharp.overall


def test_skill_is_the_share_of_the_entropy_that_the_bins_explain():
    assert skill(1e6 * np.eye(3)) == pytest.approx(1, abs=1e-4)
    assert skill(1000 * np.ones((2, 8))) == 0
    F = 1e6 * M
    joint = F / F.sum()
    information = (joint * np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))).sum()
    assert skill(F) == pytest.approx(information / np.log(2), rel=1e-4)


def test_without_a_rehearsal_histograms_of_groups_decide_and_never_earn_full_trust():
    world = by_label(0, n_groups=40, rows=1000)
    trust, evidence = decided(counts(world, "lab"), counts(world, "field"))
    assert evidence.between.shifted
    assert 0.3 <= trust.between <= POLICY.most_without_labels
    world = at_random(0, n_groups=40, rows=200)
    trust, evidence = decided(counts(world, "lab"), counts(world, "field"))
    assert not evidence.between.shifted
    assert trust.between == 0
    rng = np.random.default_rng(0)
    share = rng.uniform(0, 0.6, size=(30, 1))
    V = rng.multinomial(2000, (1 - share) * (0.5 * M.sum(axis=0)) + share * MIDDLE)
    trust, evidence = decided(5000 * M, V)
    assert evidence.between.shifted
    assert trust.between == 0


def groups_around_the_lab(spread=8.0, n=500, n_groups=30):
    rng = np.random.default_rng(1)
    return rng.multinomial(n, rng.dirichlet([spread, spread], size=n_groups) @ M)


def test_a_rehearsal_decides_over_groups_like_the_labs_and_less_over_larger_corrections():
    rehearsal = rehearsed(*by_label(0).lab)
    V = groups_around_the_lab(spread=30.0)
    trust, _ = decided(5000 * M, V, rehearsal=rehearsal)
    assert trust.rehearsed == 1
    assert trust.between == pytest.approx(rehearsal.trust)
    nothing = dataclasses.replace(rehearsal, trust=0.0, sure=0.0)
    assert decided(5000 * M, V, rehearsal=nothing)[0].between == 0
    small = dataclasses.replace(rehearsal, size=rehearsal.size / 20)
    near, _ = decided(5000 * M, groups_around_the_lab(), rehearsal=rehearsal)
    far, _ = decided(5000 * M, groups_around_the_lab(), rehearsal=small)
    assert near.rehearsed == 1
    assert far.rehearsed < 0.5
    assert far.between < near.between


def test_a_field_that_moved_inexplicably_keeps_the_sure_part_which_lets_others_be_followed_further():
    rehearsal = dataclasses.replace(rehearsed(*by_label(0).lab), trust=0.9, sure=0.2)
    V = groups_around_the_lab(n=2000) + 600 * MIDDLE
    trust, evidence = decided(5000 * M, V, rehearsal=rehearsal)
    assert evidence.overall.contradicted
    assert trust.between == pytest.approx(0.2)
    assert trust.overall == 0
    V = groups_around_the_lab(n=2000) + 2000 * np.array([0.9, 0.1]) @ M
    without, _ = decided(5000 * M, V)
    rehearsal = dataclasses.replace(rehearsed(*by_label(0).lab), sure=0.9)
    sure, _ = decided(5000 * M, V, rehearsal=rehearsal)
    unsure, _ = decided(5000 * M, V, rehearsal=dataclasses.replace(rehearsal, trust=0.0, sure=0.0))
    assert without.overall == unsure.overall == pytest.approx(POLICY.most_without_labels)
    assert sure.overall == pytest.approx(0.9)


def test_predictions_are_mixed_twice_one_inside_the_other_as_documented():
    around = np.random.default_rng(3).dirichlet([6, 2], size=20)
    data = fieldcal.datasets.label_shift(
        n_lab=3000, n_field=3000, n_groups=20, prevalence=around, random_state=3
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    lab = lab.model_copy(
        update={"by_group": None}
    )  # the mixture is that of labs that kept no counts by group
    scores, groups = data.proba_field, data.groups_field
    prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=groups))
    assert 0 < prev.trust_overall < 1
    assert 0 < prev.trust_between != prev.trust_overall
    at = np.searchsorted(prev.groups, groups)

    def corrected(p, up, down):
        return p * up / (p * up + (1 - p) * down)

    moved = corrected(scores, prev.whole.urc[1] / lab.p_lab[1], prev.whole.urc[0] / lab.p_lab[0])
    once = (1 - prev.trust_overall) * scores + prev.trust_overall * moved
    own = prev.urc[at] / prev.whole.urc
    twice = (1 - prev.trust_between) * once + prev.trust_between * corrected(once, own[:, 1], own[:, 0])
    np.testing.assert_allclose(fieldcal.recalibrate(prev, scores, groups=groups), twice, rtol=1e-12)
