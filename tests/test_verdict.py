"""May this be used? Each level from data that deserve it, with reasons a person understands."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from scipy.special import expit

import fieldcal
from fieldcal.errors import TrustWarning
from fieldcal.objects import Finding, Verdict

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.PoolingWarning")


@functools.cache
def by_label(prevalence=None, n_lab=4000, n_field=4000, seed=0):
    d = fieldcal.datasets.label_shift(
        n_lab=n_lab, n_field=n_field, n_groups=20, concentration=2.0, prevalence=prevalence, random_state=seed
    )
    return (d.proba_lab, d.y_lab, d.groups_lab), (d.proba_field, d.groups_field)


@functools.cache
def by_covariate(spread_of_means=1.0, spread=1.0, seed=0):
    """Groups of lab and field differ in x, and P(y | x) is the same; the field's x may have another spread."""
    rng = np.random.default_rng(seed)
    mean = spread_of_means * rng.standard_normal(20)
    groups = np.repeat(np.arange(20), 200)

    def draw(scale):
        score = expit(1.5 * (mean[groups] + scale * rng.standard_normal(len(groups))) - 0.3)
        return score, (rng.random(len(groups)) < score).astype(int)

    (scores, y), (new, _) = draw(1.0), draw(spread)
    return (scores, y, groups), (new, groups)


def judged(world, *, groups_in_lab=True, grouped=True, **options):
    (scores, y, lab_groups), (new, groups) = world
    lab = fieldcal.learn(scores, y, groups=lab_groups if groups_in_lab else None)
    field = fieldcal.count(lab, new, groups=groups if grouped else None)
    verdict = fieldcal.check(lab, field, **options)
    assert all((r[0].isupper() or r[0].isdigit()) and r[-1] in ".?" for r in verdict.reasons), "sentences"
    assert not any(word in repr(verdict) for word in ("nan", "inf ", "None", "tau", "σ", "τ"))
    return verdict


# ok


def test_groups_that_differ_by_label_shift_in_the_lab_are_ok():
    verdict = judged(by_label(seed=3))
    assert verdict.level == "ok"
    (found,) = (f for f in verdict.findings if f.code == "lab_groups")
    assert found.state == "ok"
    assert found.text.startswith(
        "The model's error per group is learned from 4,000 lab rows of 20 of the field's 20 groups (100% of the rows)"
    )


def test_one_population_that_has_not_moved_is_ok_and_says_so():
    p = ((0.5, 0.5),)
    verdict = judged(by_label(p, seed=2), grouped=False)
    assert verdict.level == "ok"
    assert verdict.reasons == (
        "The field has not shifted from the lab beyond noise; predictions are left unchanged.",
    )


# care


def test_one_population_that_moved_by_label_shift_needs_care_and_is_told_what_would_decide():
    verdict = judged(by_label(((0.8, 0.2),)), groups_in_lab=False, grouped=False)
    assert verdict.level == "care"
    (told,) = (r for r in verdict.reasons if "of the shift of the whole field" in r)
    assert "Label shift explains 100%" in told
    assert "label shift is given probability 0.5" in told
    assert told.endswith("would decide; fieldcal plan estimates how many.")


def test_groups_without_a_rehearsal_need_care_at_best():
    verdict = judged(by_label(n_field=40_000), groups_in_lab=False)
    assert verdict.level == "care"
    assert any(
        "not cross-validated over lab groups" in r and "learn(…, groups=…)" in r for r in verdict.reasons
    )


def test_trust_by_hand_is_care_whatever_the_data():
    for trust in (0, 0.5, 1):
        verdict = judged(by_label(seed=3), trust=trust)
        assert verdict.level == "care"
        assert f"holds with probability {trust:g}" in verdict.reasons[0].replace("taken to hold", "holds")
        assert "assumed, not tested" in verdict.reasons[0]
        assert ("Does the class cause the features" in verdict.reasons[0]) == (trust > 0)


def test_groups_some_of_which_no_mixture_explains_need_care():
    (scores, y, lab_groups), (new, groups) = by_label(seed=3, n_field=12_000)
    odd = (groups < 3) & (np.random.default_rng(0).random(len(new)) < 0.5)
    drifted = np.where(odd, np.random.default_rng(1).uniform(0.45, 0.55, len(new)), new)
    verdict = judged(((scores, y, lab_groups), (drifted, groups)))
    assert verdict.level == "care"
    assert any("3 of 20 groups (15%) do not look like any mixture" in r for r in verdict.reasons)


# do_not_use


def test_groups_that_differ_by_a_covariate_are_not_corrected_for_label_shift():
    (scores, y, lab_groups), (new, groups) = by_covariate()
    lab = fieldcal.learn(scores, y, groups=lab_groups)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, new, groups=groups))
    assert prev.verdict.level == "care"
    assert prev.trust_between < 0.2
    assert (
        np.abs(prev.estimate - prev.mean_prediction).max() < np.abs(prev.urc - prev.mean_prediction).max() / 2
    )


def test_without_a_rehearsal_groups_that_no_mixture_explains_are_not_to_be_used():
    """Every group is squeezed to the middle by an amount of its own."""
    (scores, y, lab_groups), (new, groups) = by_label(seed=3, n_field=20_000)
    logits = np.log(new / (1 - new)) * np.linspace(0.1, 0.6, 20)[groups]
    verdict = judged(((scores, y, lab_groups), (expit(logits), groups)), groups_in_lab=False)
    assert verdict.level == "do_not_use"


def test_one_population_that_no_mixture_explains_is_not_to_be_used():
    verdict = judged(by_covariate(spread_of_means=0.0, spread=0.3), groups_in_lab=False, grouped=False)
    assert verdict.level == "do_not_use"
    assert any("another population, not another mixture" in r for r in verdict.reasons)
    assert any("does not look like any mixture" in r for r in verdict.reasons)


# All together


@pytest.mark.filterwarnings("ignore::fieldcal.errors.TrustWarning")
def test_a_small_lab_is_never_told_that_label_shift_explains_all_and_the_field_is_another_population():
    for seed in range(15):
        verdict = judged(
            by_label(((0.8, 0.2),), n_lab=200, n_field=600, seed=seed), groups_in_lab=False, grouped=False
        )
        for reason in verdict.reasons:
            explained = [int(share) for share in re.findall(r"(\d+)%", reason)]
            if "another population" in reason:
                assert explained[0] < 85
            if "may be only" in reason:
                assert explained[1] < min(85, explained[0])


@pytest.mark.filterwarnings("ignore::fieldcal.errors.TrustWarning")
@pytest.mark.parametrize("world", [by_label(seed=3), by_covariate()], ids=["label", "covariate"])
def test_check_is_the_verdict_of_estimate(world):
    for options in ({}, {"trust": 1}, {"prior": "flat", "trust": 0.5}):
        (scores, y, lab_groups), (new, groups) = world
        lab = fieldcal.learn(scores, y, groups=lab_groups)
        field = fieldcal.count(lab, new, groups=groups)
        prev = fieldcal.estimate(lab, field, **options)
        assert fieldcal.check(lab, field, **options) == prev.verdict
        assert repr(prev).endswith(repr(prev.verdict))


def finding(state, text, remedy=""):
    return Finding(code="made_up", question="Is it?", state=state, text=text, remedy=remedy)


def test_a_verdict_is_as_bad_as_its_worst_finding_and_what_people_must_answer_decides_nothing():
    ok, ask, care, no = (finding(state, state) for state in ("ok", "ask", "care", "do_not_use"))
    levels = [Verdict(findings=f).level for f in ((), (ok, ask), (ask, care), (care, no, ok))]
    assert levels == ["ok", "ok", "care", "do_not_use"]
    assert Verdict(findings=(care, no)).reasons == ("do_not_use", "care")
    assert (
        repr(Verdict(findings=(finding("care", "One.", "Do this."), ok)))
        == "Use with care\n  - One. Do this."
    )
    with pytest.raises((TypeError, ValueError, AttributeError)):
        Verdict().findings = ()
    with pytest.raises(ValueError, match="state"):
        finding("fine", "No such state.")


def test_groups_that_differ_more_than_those_rehearsed_are_told_and_their_intervals_hold_the_truth():
    """Labels speak for part of the differences only; the truth must stay inside."""
    covered, levels = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        place = (np.arange(10) - 4.5) / 10

        def draw(rows, prevalence, rng=rng):
            y = rng.random((len(prevalence), rows)) < prevalence[:, None]
            score = expit(2 * rng.normal(np.where(y, 1, -1), 1.2) / 1.44 + np.log(0.3 / 0.7))
            return score.ravel(), y.ravel().astype(int), np.repeat(np.arange(len(prevalence)), rows)

        truth = np.clip(0.3 + 0.8 * place, 0.03, 0.97)
        scores, y, groups = draw(300, 0.3 + 0.3 * place)
        lab = fieldcal.learn(scores, y, groups=groups)
        scores, _, groups = draw(500, truth)
        prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=groups))
        covered.append((prev.lower[:, 1] <= truth) & (truth <= prev.upper[:, 1]))
        levels.append(prev.verdict.level)
        assert any(
            "The groups differ more in the field than in the lab" in reason for reason in prev.verdict.reasons
        )
    assert set(levels) == {"care"}
    assert np.mean(covered) > 0.8


def test_a_group_is_ok_only_if_the_verdict_is():
    data = fieldcal.datasets.label_shift(n_lab=4000, n_field=4000, n_groups=6, random_state=0)
    for groups in (data.groups_lab, None):
        lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=groups)
        prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field))
        plain = {status for status in prev.status if status in ("ok", "care", "do_not_use")}
        assert plain <= {prev.verdict.level}


@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
def test_groups_that_the_lab_has_no_rows_of_are_marked_also_after_merging_and_saving(tmp_path):
    data = fieldcal.datasets.label_shift(n_lab=3000, n_field=3000, n_groups=5, random_state=0)
    parts = [data.groups_lab < 2, (data.groups_lab >= 2) & (data.groups_lab < 4)]
    first = fieldcal.learn(data.proba_lab[parts[0]], data.y_lab[parts[0]], groups=data.groups_lab[parts[0]])
    second = fieldcal.learn(
        data.proba_lab[parts[1]],
        data.y_lab[parts[1]],
        groups=data.groups_lab[parts[1]],
        partition=first.partition,
    )
    with pytest.warns(TrustWarning, match="Both labs were rehearsed"):
        lab = first + second
    lab.save(tmp_path / "lab.json")
    lab = fieldcal.Lab.load(tmp_path / "lab.json")
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field))
    assert lab.groups == (0, 1, 2, 3)
    assert ["not_in_lab" in status for status in prev.status] == [False] * 4 + [True]
