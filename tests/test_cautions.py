"""The paper's contraindications: each always has its sentence, with numbers that fresh rows confirm."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.special import expit, logit

import fieldcal
from fieldcal.core import guards
from fieldcal.core.reweight import Step, reweight_binary
from fieldcal.datasets import label_shift
from fieldcal.errors import FieldcalWarning

QUESTIONS = {
    "Is the model free of bias for these groups?",
    "May decisions depend on the group?",
    "Is every class still predicted in hard decisions?",
    "Were raw predictions counted?",
    "Do hard decisions make the same errors as before?",
}


def estimated(lab, scores, groups=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldcalWarning)
        return fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=groups), **options)


def learnt(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldcalWarning)
        return fieldcal.learn(*args, **options)


def biased(n=20_000, shift=0.4, york=0.25, seed=0):
    """Four sites with the same share; a model that is too high for York, which is a share of the rows."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    site = rng.choice(["Bath", "Hull", "Leeds", "York"], n, p=[*[(1 - york) / 3] * 3, york])
    logits = 1.5 * (1.5 * y + rng.standard_normal(n)) - 1.125 + logit(0.3)
    return expit(logits + shift * (site == "York")), y, site


# Always on the checklist


@pytest.fixture(scope="module")
def cases():
    two = label_shift(n_lab=1500, n_field=1500, n_groups=3)
    three = label_shift(n_lab=1500, n_field=1500, n_groups=3, p_lab=(0.5, 0.3, 0.2))
    lab, grouped = (learnt(two.proba_lab, two.y_lab, groups=g) for g in (None, two.groups_lab))
    hard = learnt(two.proba_lab > 0.5, two.y_lab)
    rng = np.random.default_rng(0)
    y = rng.standard_normal(2000)
    numbers = fieldcal.regression.from_moments(
        (y + 0.7 * rng.standard_normal(2000)) / 1.49, np.full(2000, 0.57)
    )
    short = {"point": "mode", "level": None}
    return {
        "one population": estimated(lab, two.proba_field),
        "in full": estimated(lab, two.proba_field, trust=1),
        "groups": estimated(lab, two.proba_field, two.groups_field),
        "lab groups": estimated(grouped, two.proba_field, two.groups_field, trust=1),
        "lab groups alone": estimated(grouped, two.proba_field),
        "protected": estimated(lab, two.proba_field, two.groups_field, trust=1, protected=True),
        "left alone": estimated(lab, two.proba_field, two.groups_field, trust=0),
        "hard decisions": estimated(hard, two.proba_field > 0.5, trust=1),
        "two bins": estimated(learnt(two.proba_lab, two.y_lab, partition=2), two.proba_field, trust=1),
        "three classes": estimated(learnt(three.proba_lab, three.y_lab), three.proba_field, trust=1, **short),
        "bin ids": estimated(
            learnt(np.arange(1500) % 5, two.y_lab, partition=fieldcal.partitions.Bins(5)),
            np.arange(40) % 5,
            trust=1,
        ),
        "a number": estimated(learnt(numbers, y, groups=y > 0), numbers, y > 0, trust=1, **short),
    }


def test_every_caution_has_a_sentence_in_json_and_markdown(cases):
    for prev in cases.values():
        found = fieldcal.report(prev)
        said = {item["question"]: item["text"] for item in found.dict()["checklist"]}
        assert set(said) >= QUESTIONS
        for question in QUESTIONS:
            assert said[question].endswith(".")
            assert question in found.markdown()
        codes = [finding.code for finding in prev.verdict.findings]
        assert len(codes) == len(set(codes))


def test_what_does_not_apply_says_why(cases):
    told = {
        "one population": "Does not apply: without groups",
        "left alone": "Does not apply: predictions are not changed",
        "hard decisions": "Does not apply: predictions of 0 and 1 do not change",
        "a number": "Does not apply: a number is predicted",
    }
    for name, words in told.items():
        assert any(words in finding.text for finding in cases[name].verdict.findings), name


# 1. A model with a bias for some groups


def test_a_biased_group_is_named_with_its_bias_and_what_becomes_of_it():
    scores, y, site = biased()
    prev = estimated(learnt(scores, y, groups=site), scores, site, trust=1)
    found = prev.verdict.finding("biased")
    assert found.state == "care"
    assert found.groups[0] == "York"
    assert "4.1 ± 0.3 points too high in group York, given the class" in found.text
    assert prev.verdict.finding("heterogeneous") is None, "one thing, not two"


@pytest.mark.parametrize("york", [0.05, 0.25, 0.5, 0.75])
def test_what_is_said_to_become_of_the_bias_becomes_of_it(york):
    """Whatever the share of York in the lab, which learns the more of its bias the larger it is."""
    for trust in (1, 0.5):
        scores, y, site = biased(york=york)
        prev = estimated(
            learnt(scores, y, groups=site), scores, site, trust=trust, prior="flat", point="mode", level=None
        )
        found = prev.verdict.finding("biased")
        g = prev.groups.index(found.groups[0])
        share = y[site == found.groups[0]].mean()
        numbers = [float(x) for x in re.findall(r"(?:about|by) (\d+\.\d)", found.text)]
        full, before = (abs(table[g, 1] - share) for table in (prev.urc, prev.mean_prediction))
        errors = [full, before, *([abs(prev.estimate[g, 1] - share)] if trust < 1 else [])]
        np.testing.assert_allclose(numbers, 100 * np.array(errors), rtol=0.03, atol=0.1)


def test_a_lab_without_groups_says_that_it_is_unknown_and_what_would_measure_it():
    scores, y, site = biased()
    found = estimated(learnt(scores, y), scores, site, trust=1).verdict.finding("maybe_biased")
    assert found.state == "ask"
    assert "Unknown" in found.text
    assert "learn(…, groups=…) measures it" in found.text


def test_groups_that_obey_label_shift_raise_no_alarm():
    for seed in range(4):
        data = label_shift(n_lab=4000, n_field=500, n_groups=20, concentration=2.0, random_state=seed)
        prev = estimated(
            learnt(data.proba_lab, data.y_lab, groups=data.groups_lab),
            data.proba_field,
            data.groups_field,
            point="mode",
            level=None,
        )
        assert prev.verdict.finding("unbiased").state == "ok"


# 2. Groups that must not matter


def test_the_same_score_in_two_groups_is_told_as_recalibrate_makes_it():
    data = label_shift(n_lab=4000, n_field=8000, prevalence=[[0.8, 0.2], [0.4, 0.6]], n_groups=2)
    groups = np.array(["A", "B"])[data.groups_field]
    prev = estimated(learnt(data.proba_lab, data.y_lab), data.proba_field, groups, trust=1, protected=True)
    assert (
        "a prediction of 62% for class 1 becomes 28% in A and 72% in B"
        in prev.verdict.finding("protected").text
    )
    new = fieldcal.recalibrate(prev, [0.62, 0.62], groups=["A", "B"], acknowledge=True)
    np.testing.assert_allclose(new, [0.28, 0.72], atol=0.005)


def test_no_two_groups_and_no_score_are_further_apart():
    for trusts in ((1.0,), (0.5, 0.8)):
        rng = np.random.default_rng(0)
        weights = [rng.dirichlet([1, 1]), rng.dirichlet([1, 1], size=30)][-len(trusts) :]
        steps = tuple(Step(trust, w) for trust, w in zip(trusts, weights, strict=True))
        found = guards.most_unequal(steps, np.zeros((1, 2)))
        scores = np.arange(1, 100) / 100
        all_of_them = []
        for g in range(30):
            new = scores
            for step in steps:
                own = step.weights if step.weights.ndim == 1 else step.weights[g]
                new = new + step.trust * (reweight_binary(new, own) - new)
            all_of_them.append(new)
        np.testing.assert_allclose(found.after[1] - found.after[0], np.ptp(all_of_them, axis=0).max())


# 3. A rare class that disappears from hard decisions


def trial(prevalence, **options):
    data = label_shift(n_lab=4000, n_field=20_000, prevalence=prevalence, **options)
    return learnt(data.proba_lab, data.y_lab), data


def test_the_trial_in_which_recall_fell_from_two_thirds_to_nothing():
    lab, data = trial([[0.99, 0.01]], p_lab=(0.6, 0.4), separation=1.0, random_state=8)
    prev = estimated(lab, data.proba_field, trust=1)
    rare = data.y_field == 1
    assert 0.6 < (data.proba_field > 0.5)[rare].mean() < 0.7
    assert fieldcal.decide(prev, data.proba_field)[rare].mean() < 0.01
    found = prev.verdict.finding("recall_lost")
    assert "1 from 0.68 to 0.01" in found.text
    assert "decide(…, goal='balanced')" in found.remedy
    assert fieldcal.decide(prev, data.proba_field, goal="balanced")[rare].mean() > 0.7


def test_a_class_that_survives_in_the_field_and_not_in_a_group_names_the_group():
    lab, data = trial([[0.99, 0.01], [0.5, 0.5], [0.4, 0.6]], n_groups=3, separation=1.2)
    groups = np.array(["Ely", "Hull", "York"])[data.groups_field]
    prev = estimated(lab, data.proba_field, groups, trust=1)
    assert prev.verdict.finding("recall_lost") is None
    found = prev.verdict.finding("recall_lost_in_groups")
    assert (found.state, found.groups) == ("ask", ("Ely",))
    assert "goal='balanced'" in found.remedy
    own = (groups == "Ely") & (data.y_field == 1)
    after = fieldcal.decide(prev, data.proba_field, groups=groups)[own].mean()
    told = float(found.text.rstrip(".").split()[-1])
    assert abs(after - told) < 0.06


# 5. False alarms against misses


@pytest.mark.parametrize("grouped", [False, True])
def test_false_alarms_and_misses_are_those_of_fresh_rows(grouped):
    for share in (0.05, 0.2, 0.6, 0.9):
        shares = [[1 - share, share], [0.7, 0.3]] if grouped else [[1 - share, share]]
        lab, data = trial(shares, p_lab=(0.6, 0.4), n_groups=2, random_state=1)
        groups = data.groups_field if grouped else None
        prev = estimated(lab, data.proba_field, groups, trust=1)
        (found,) = (f for f in prev.verdict.findings if f.code in ("errors_traded", "errors_kept"))
        told = [float(word.strip("%,.")) / 100 for word in found.text.split() if "%" in word]
        y, after = data.y_field, fieldcal.decide(prev, data.proba_field, groups=groups)
        decided = (after, data.proba_field > 0.5)
        expected = [*(d[y == 0].mean() for d in decided), *(1 - d[y == 1].mean() for d in decided)]
        np.testing.assert_allclose(told, expected, atol=0.035)


def test_a_small_exchange_is_information_a_larger_one_is_asked_about_and_a_large_one_needs_care():
    lab, moderate = trial([[0.35, 0.65]], separation=1.2, random_state=0)
    states = [estimated(lab, moderate.proba_field, trust=t).verdict for t in (0.2, 1)]
    assert states[0].finding("errors_kept").state == "ok"
    assert states[1].finding("errors_traded").state == "ask"
    lab, large = trial([[0.2, 0.8]], separation=1.0, random_state=0)
    found = estimated(lab, large.proba_field, trust=1).verdict
    assert found.finding("recall_lost") is None
    assert found.finding("errors_traded").state == "care"
    assert "costs" in found.finding("errors_traded").remedy


def test_inside_a_bin_shares_have_the_mean_of_the_bin_and_at_its_edges_they_are_exact():
    M, edges = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), np.array([0.3, 0.97])
    means = np.array([0.05, 0.95, 0.99])
    np.testing.assert_allclose(guards._below(edges, M, means, edges), M.cumsum(axis=1)[:, :-1].T)
    fine = np.linspace(0, 1, 200_001)
    below = guards._below(fine, M, means, edges)
    assert (np.diff(below, axis=0) >= 0).all()
    np.testing.assert_allclose((fine[1:, None] * np.diff(below, axis=0)).sum(axis=0), M @ means, atol=1e-4)


# 4. Recalibrated predictions that are counted again


@pytest.mark.parametrize("trust", [1, "auto"])
def test_predictions_that_were_recalibrated_as_by_default_are_seen_too(trust):
    for share in (0.1, 0.8):
        for seed in range(2):
            lab, data = trial([[1 - share, share]], p_lab=(0.6, 0.4), random_state=seed)
            prev = estimated(lab, data.proba_field, trust=trust)
            assert prev.verdict.finding("counted_raw").state == "ok"
            again = estimated(lab, fieldcal.recalibrate(prev, data.proba_field))
            assert again.verdict.finding("recalibrated_before").state != "ok"


@pytest.mark.parametrize("prevalence", [(0.05, 0.8, 0.15), (0.1, 0.2, 0.7)])
def test_three_classes_that_were_recalibrated_are_seen_and_not_taken_for_raw(prevalence):
    rng = np.random.default_rng(1)
    means, p = np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 1.2]]), np.array([0.2, 0.5, 0.3])

    def draw(q):
        y = rng.choice(3, size=6000, p=q)
        x = means[y] + rng.standard_normal((6000, 2))
        density = p * np.exp(-((x[:, None] - means) ** 2).sum(axis=2) / 2)
        return density / density.sum(axis=1, keepdims=True), y

    lab, (raw, _) = learnt(*draw(p)), draw(prevalence)
    short = {"point": "mode", "level": None}
    prev = estimated(lab, raw, trust=1, **short)
    assert prev.verdict.finding("maybe_recalibrated").state == "ask"
    found = estimated(lab, fieldcal.recalibrate(prev, raw), **short).verdict.finding("recalibrated_before")
    assert found.state == "do_not_use"
    assert "made twice" in found.remedy
