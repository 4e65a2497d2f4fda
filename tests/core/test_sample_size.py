"""Where the width of an interval comes from, and what would halve it."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fieldcal
from fieldcal.core.planning import prevalence_variance, rows_to_reach, width_parts
from fieldcal.core.priors import Flat
from fieldcal.core.solve import solve
from known import known

M2 = np.array([[0.35, 0.25, 0.18, 0.12, 0.07, 0.03], [0.03, 0.07, 0.12, 0.18, 0.25, 0.35]])
P = np.array([0.7, 0.3])


@functools.cache
def learnt(n_lab, K=2, seed=0):
    p_lab = (0.6, 0.4) if K == 2 else (0.5, 0.3, 0.2)
    d = fieldcal.datasets.label_shift(n_lab=n_lab, n_field=1, p_lab=p_lab, random_state=seed)
    return fieldcal.learn(d.proba_lab, d.y_lab)


def test_the_predicted_variance_is_that_of_estimates_over_many_labs_and_fields():
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(800):
        F = rng.multinomial([300, 200], M2) + 1e-3
        V = rng.multinomial(400, P @ M2)[None].astype(float)
        M = F / F.sum(axis=1, keepdims=True)
        estimates.append(solve(M, V, Flat().penalty(known(M, P))).p[0, 1])
    predicted = prevalence_variance(M2, P, n=400, rows=np.array([300.0, 200.0]))[1]
    assert np.var(estimates) == pytest.approx(predicted, rel=0.12)


def test_the_parts_add_up_and_two_classes_alike_leave_the_third_alone():
    parts = width_parts(M2, P, k=1, n=500, rows=np.array([400.0, 400.0]))
    assert parts.sampling == pytest.approx(0.7 * 0.3 / 500)
    assert parts.sampling + parts.separability + parts.lab == pytest.approx(parts.variance)
    perfect = width_parts(np.eye(2), P, k=1, n=500, rows=np.full(2, 1e9))
    assert perfect.separability == pytest.approx(0, abs=1e-6)
    assert perfect.variance == pytest.approx(0.7 * 0.3 / 500, rel=1e-3)
    M = np.array([[0.6, 0.2, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    variance = prevalence_variance(M, np.full(3, 1 / 3), n=1000, rows=np.full(3, 1000.0))
    assert (variance[:2] > 1e3).all()
    assert variance[2] < 0.01


def test_the_shares_of_a_plan_sum_to_one_and_follow_the_rows():
    for K in (2, 3):
        for n in (50, 1000, 10**6):
            for of in range(K):
                plan = fieldcal.plan(learnt(2000, K), n=n, of=of)
                shares = (plan.from_field, plan.from_separability, plan.from_lab)
                assert min(shares) >= 0
                assert sum(shares) == pytest.approx(1)
                assert plan.of == of
    by_lab = [fieldcal.plan(learnt(n), n=1000).from_lab for n in (200, 1000, 5000, 20_000)]
    assert (np.diff(by_lab) < 0).all()
    by_field = [fieldcal.plan(learnt(1000), n=n).from_lab for n in (100, 1000, 10_000)]
    assert (np.diff(by_field) > 0).all()


def test_the_suggested_field_and_lab_rows_halve_the_width():
    lab = learnt(20_000)
    for n in (30, 300, 3000):
        now = fieldcal.plan(lab, n=n)
        then = fieldcal.plan(lab, n=now.field_rows)
        assert then.width_if_label_shift == pytest.approx(now.width_if_label_shift / 2, rel=0.01)
    M, rows, n = M2, np.array([60.0, 40.0]), 1e6
    variance = prevalence_variance(M, P, n=n, rows=rows)[1]
    _, times = rows_to_reach(variance / 4, M, P, k=1, n=n, rows=rows)
    assert prevalence_variance(M, P, n=n, rows=times * rows)[1] == pytest.approx(variance / 4, rel=1e-6)
    small = learnt(300)
    plan = fieldcal.plan(small, n=10**9)
    assert 4 * 300 <= plan.lab_rows <= 4.2 * 300
    now = fieldcal.plan(learnt(20_000), n=3)
    assert now.width_if_label_shift == 1
    then = fieldcal.plan(learnt(20_000), n=now.field_rows)
    assert then.width_if_label_shift == pytest.approx(0.5, rel=0.1)


def test_where_no_number_of_rows_can_halve_the_width_the_answer_is_none():
    drowned_in_lab_noise = fieldcal.plan(learnt(200), n=10**7)
    assert drowned_in_lab_noise.field_rows is None
    assert drowned_in_lab_noise.lab_rows is not None
    starved_of_field = fieldcal.plan(learnt(20_000), n=50)
    assert starved_of_field.lab_rows is None
    assert starved_of_field.field_rows is not None
    assert "no number of lab rows" in repr(starved_of_field)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.IdentifiabilityWarning")
@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
def test_a_model_that_cannot_tell_classes_apart_has_no_plan_but_its_own_improvement():
    y = np.repeat([0, 1], 200)
    for scores in (np.full(400, 0.5), np.tile([0.3, 0.4, 0.5, 0.6, 0.7], 80)):
        plan = fieldcal.plan(fieldcal.learn(scores, y), n=1000, assume="label_shift")
        assert plan.width == plan.width_if_label_shift == 1
        assert plan.from_separability > 0.8
        assert plan.field_rows is None
        assert plan.lab_rows is None


@pytest.mark.parametrize("n", [200, 2000])
def test_the_planned_width_is_that_of_the_posterior_for_a_large_lab(n):
    for K in (2, 3):
        lab = learnt(30_000, K)
        prevalence = np.array([0.5, 0.5] if K == 2 else [0.3, 0.3, 0.4])
        widths = []
        for seed in range(4):
            d = fieldcal.datasets.label_shift(
                n_lab=1, n_field=n, p_lab=lab_prevalence(K), prevalence=prevalence[None], random_state=seed
            )
            prev = fieldcal.estimate(lab, fieldcal.count(lab, d.proba_field), prior="flat", trust=1)
            widths.append((prev.upper - prev.lower)[0])
        for k, width in enumerate(np.mean(widths, axis=0)):
            plan = fieldcal.plan(lab, n=n, prevalence=prevalence, of=k, assume="label_shift")
            assert plan.width == pytest.approx(width, rel=0.2)


def field(prevalence, n, seed, groups=1):
    return fieldcal.datasets.label_shift(
        n_lab=1,
        n_field=n,
        n_groups=groups,
        p_lab=lab_prevalence(2),
        prevalence=np.tile(prevalence, (groups, 1)),
        random_state=seed,
    )


@pytest.mark.parametrize("prevalence", [(0.6, 0.4), (0.3, 0.7)], ids=["still", "moved"])
def test_the_planned_width_is_that_of_the_estimate_after_trust(prevalence):
    lab, widths = learnt(5000), []
    for seed in range(6):
        prev = fieldcal.estimate(lab, fieldcal.count(lab, field(prevalence, 1000, seed).proba_field))
        widths.append((prev.upper - prev.lower)[0, 1])
    assert fieldcal.plan(lab, n=1000, prevalence=prevalence).width == pytest.approx(
        np.median(widths), rel=0.25
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prevalence", "rehearsed", "options"),
    [
        *(((0.6, 0.4), True, {}), ((0.3, 0.7), False, {}), ((0.3, 0.7), True, {"level": 0.6})),
        *(((0.3, 0.7), False, {"method": "paper"}), ((0.6, 0.4), True, {"trust": 1})),
        *(((0.3, 0.7), True, {"trust": 0.5}), ((0.3, 0.7), False, {"trust": 0})),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_an_estimate_plans_the_width_that_its_whole_field_has(prevalence, rehearsed, options):
    d = fieldcal.datasets.label_shift(n_lab=3000, n_field=1, n_groups=6, p_lab=(0.6, 0.4), random_state=0)
    lab = fieldcal.learn(d.proba_lab, d.y_lab, groups=d.groups_lab if rehearsed else None)
    rows = field(prevalence, 1500, 1, groups=6)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, rows.proba_field, groups=rows.groups_field), **options)
    planned = fieldcal.plan(prev)
    assert (planned.n, planned.level) == (prev.whole.n, prev.level)
    assert planned.width == pytest.approx((prev.whole.upper - prev.whole.lower)[1], rel=0.1)
    if options.get("trust") == 1:
        assert planned.width == fieldcal.plan(prev, assume="label_shift").width


def test_more_rows_do_not_decide_and_labels_do():
    few, many = (fieldcal.plan(learnt(5000), n=n, prevalence=[0.3, 0.7]) for n in (1000, 10**7))
    assert many.width > 0.5 * few.width
    assert 20 <= few.labels <= 500
    assert f"about {few.labels:,} labelled rows drawn at random tell the two shares apart" in repr(few)
    assert fieldcal.plan(learnt(5000), n=1000).labels is None, "nothing moves, so nothing is to decide"


@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
def test_a_lab_with_groups_plans_for_a_group_like_them():
    """Groups that were missed in the rehearsal are missed in the plan."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 200)

    def lab(spread):
        x = spread * rng.standard_normal(20)[groups] + rng.standard_normal(4000)
        seen = x if spread == 0 else x - 0.5 * spread * rng.standard_normal(20)[groups]
        scores = 1 / (1 + np.exp(-1.5 * seen))
        y = (rng.random(4000) < 1 / (1 + np.exp(-1.5 * x))).astype(int)
        return fieldcal.learn(scores, y, groups=groups)

    assert fieldcal.plan(lab(1.0), n=500).width > 1.3 * fieldcal.plan(lab(0.0), n=500).width


def lab_prevalence(K):
    return (0.6, 0.4) if K == 2 else (0.5, 0.3, 0.2)


def test_a_higher_level_is_wider_and_the_edges_of_the_simplex_have_a_finite_plan():
    widths = [fieldcal.plan(learnt(2000), n=500, level=level).width for level in (0.5, 0.9, 0.99)]
    assert widths == sorted(set(widths))
    for prevalence in ([1, 0], [0, 1], [1 - 1e-12, 1e-12]):
        plan = fieldcal.plan(learnt(1000), n=10**12, prevalence=prevalence)
        assert 0 < plan.width_if_label_shift < 0.2
        assert plan.width_if_label_shift <= plan.width <= 1
