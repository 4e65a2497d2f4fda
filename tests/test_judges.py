"""Shares behind the verdicts of a judge: designs, slices, pairs, comparisons, published rates."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, norm

import fieldcal
from fieldcal import Lab
from fieldcal.errors import GroupWarning, InputError, InputTypeError


def judged(n=900, labels=200, share=0.7, slices=3, seed=0, sensitivity=0.9, specificity=0.8):
    """Verdicts, labels of some rows, and slices."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    v = np.where(y, rng.random(n) < sensitivity, rng.random(n) > specificity)
    human = np.full(n, None, dtype=object)
    human[:labels] = np.where(y[:labels], "pass", "fail")
    return np.where(v, "pass", "fail"), human, [f"s{i % slices}" for i in range(n)]


def estimated(verdict, human, groups=None, *, design="random", **options):
    lab = fieldcal.learn(verdict, human, kind="values", design=design)
    y = human if design != "by_class" else None
    return fieldcal.estimate(lab, fieldcal.count(lab, verdict, y=y, groups=groups), **options)


def test_labels_that_are_not_counted_with_the_field_tell_of_the_judge_alone():
    """The next month has other shares: labels of this one say nothing of them."""
    verdict, human, _ = judged(labels=200, share=0.8)
    lab = fieldcal.learn(verdict, human, kind="values", design="random")
    later, _, _ = judged(share=0.4, seed=1)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, later), level=0.95)
    assert prev.whole.lower[1] < 0.4 < prev.whole.upper[1] < 0.6
    assert prev.verdict.finding("judge_assumed").state == "care"
    by_score = fieldcal.learn(verdict, human, kind="values", design="by_score")
    with pytest.raises(InputError, match="Count them with their labels"):
        fieldcal.estimate(by_score, fieldcal.count(by_score, later))


def only_some_checked(value, n=100):
    """Rows with one value checked, and no others: 2,000 rows of which 60 % pass."""
    verdict, _, _ = judged(n=2000, labels=0, share=0.6)
    truth, human = judged(n=2000, labels=2000, share=0.6)[1], np.full(2000, None, dtype=object)
    some = np.flatnonzero(verdict == value)[:n]
    human[some] = truth[some]
    return verdict, human


def test_who_checks_only_the_fails_is_told_that_the_share_is_a_guess():
    verdict, human = only_some_checked("fail")
    lab = fieldcal.learn(verdict, human, kind="values", design="by_score")
    prev = fieldcal.estimate(lab, fieldcal.count(lab, verdict, y=human, design="by_score"))
    assert prev.verdict.level == "do_not_use"
    share = np.mean(verdict == "pass")
    assert (
        f"No row with the category pass was checked, which {share:.0%} of the rows have"
        in prev.verdict.finding("values_unchecked").text
    )


def test_labels_of_these_rows_earn_the_verdict_and_labels_from_elsewhere_do_not():
    verdict, human, groups = judged()
    here, elsewhere = estimated(verdict, human), estimated(verdict, human, design="by_class")
    assert here.verdict.finding("labelled_here").state == "ok"
    assert elsewhere.verdict.finding("judge_assumed").state == "care"
    assert elsewhere.whole.upper[1] - elsewhere.whole.lower[1] > here.whole.upper[1] - here.whole.lower[1]
    slices = estimated(verdict, human, groups, design="by_class")
    assert slices.verdict.finding("judge_not_rehearsed") is not None


def test_rows_chosen_by_class_that_are_counted_with_the_field_are_its_own_and_count_once():
    verdict, human, _ = judged()
    lab = fieldcal.learn(verdict, human, kind="values", design="by_class")
    elsewhere = fieldcal.estimate(lab, fieldcal.count(lab, verdict))
    here = fieldcal.estimate(lab, fieldcal.count(lab, verdict, y=human))
    assert np.array_equal(here.judged.given, lab.F)
    assert np.array_equal(here.estimate, elsewhere.estimate)
    assert here.verdict.finding("labelled_by_class").state == "ok"
    some = human.copy()
    some[100:] = None
    part = fieldcal.estimate(lab, fieldcal.count(lab, verdict, y=some))
    assert np.array_equal(part.judged.given, lab.F)


@pytest.mark.slow
def test_a_judge_that_is_kinder_to_some_slices_is_called_so_and_one_that_is_not_is_not():
    rng = np.random.default_rng(2)
    n, G = 3_000, 20
    g, y = np.arange(n) % G, rng.random(n) < 0.6
    human = np.where(np.arange(n) < 1_500, y.astype(object), None)

    def finding(sensitivity):
        v = np.where(y, rng.random(n) < sensitivity[g], rng.random(n) > 0.85)
        return estimated(v.astype(int), human, g).verdict

    differ = finding(np.where(np.arange(G) < 10, 0.98, 0.6)).finding("judges_differ")
    assert differ is not None
    assert "the judge favours some groups" in differ.text
    assert differ.groups
    assert finding(np.full(G, 0.85)).finding("judge_same") is not None


def test_an_estimate_of_values_is_saved_whole_and_its_draws_are_made_anew():
    verdict, human, groups = judged()
    prev = estimated(verdict, human, groups)
    again = fieldcal.Prevalence.from_json(prev.to_json())
    assert again == prev
    assert np.array_equal(again.draws(["s1"]), prev.draws()[[1]])
    assert "as judged" in repr(prev)
    assert "trust" not in repr(prev)


def test_a_caller_s_own_prior_is_urc_and_hears_no_labels():
    verdict, human, _ = judged()
    lab = fieldcal.learn(verdict, human, kind="values", design="by_class")
    prev = fieldcal.estimate(lab, fieldcal.count(lab, verdict), prior="flat")
    assert prev.prior["name"] == "flat"
    assert prev.trust_overall == 1
    with pytest.raises(InputError, match="default prior"):
        fieldcal.estimate(lab, fieldcal.count(lab, verdict, y=human), prior="flat")
    with pytest.raises(InputError, match="level"):
        fieldcal.estimate(lab, fieldcal.count(lab, verdict), level=None)


def test_classes_given_values_have_the_estimated_shares_in_every_slice():
    verdict, human, groups = judged()
    prev = estimated(verdict, human, groups)
    new = fieldcal.recalibrate(prev, verdict, groups=groups)
    for g, name in enumerate(prev.groups):
        assert new[np.array(groups) == name].mean(axis=0) == pytest.approx(prev.estimate[g], abs=1e-6)
    assert 0 < new.min() < new.max() < 1
    alone = estimated(verdict, human)
    assert fieldcal.recalibrate(alone, verdict).mean(axis=0) == pytest.approx(alone.whole.estimate, abs=1e-6)
    with pytest.raises(InputError, match="Leave it out"):
        fieldcal.recalibrate(prev, verdict, groups=groups, shape="bins")


# Pairs ------------------------------------------------------------------------------------------------------


def two_systems(n=300, labels=100, seed=0, shared=0.6, a=0.7, b=0.6):
    rng = np.random.default_rng(seed)
    hard = rng.standard_normal(n)
    y = np.concatenate(
        [norm.cdf(np.sqrt(shared) * hard + np.sqrt(1 - shared) * rng.standard_normal(n)) < p for p in (a, b)]
    )
    v = np.where(y, rng.random(2 * n) < 0.9, rng.random(2 * n) > 0.85).astype(int)
    human = np.full(2 * n, None, dtype=object)
    known = np.r_[np.arange(labels), n + np.arange(labels)]
    human[known] = y[known].astype(int)
    return v, human, np.repeat(["a", "b"], n), np.tile(np.arange(n), 2)


def test_items_that_both_were_judged_on_make_the_difference_narrower():
    widths = []
    for seed in range(
        6
    ):  # shares are of the counted rows, where items matter only for rows whose class is open
        v, human, system, item = two_systems(seed=seed)
        prev = estimated(v, human, system)
        shuffled = np.r_[item[:300], np.random.default_rng(0).permutation(300)]
        pairs, none_in_common = (fieldcal.pairs(prev.lab, v, system, of, y=human) for of in (item, shuffled))
        paired, plain = prev.contrast("a", "b", pairs=pairs), prev.contrast("a", "b")
        assert paired.estimate == plain.estimate
        widths.append((paired.upper - paired.lower, plain.upper - plain.lower))
    assert np.mean(widths, axis=0)[0] < np.mean(widths, axis=0)[1]
    alike = prev.contrast("a", "b", pairs=none_in_common)
    assert alike.upper - alike.lower == pytest.approx(plain.upper - plain.lower, rel=0.08)
    assert prev.ranking(pairs=pairs).probability.sum() == pytest.approx(1)


def test_pairs_that_cannot_be_are_refused():
    v, human, system, item = two_systems(n=40, labels=20)
    prev = estimated(v, human, system)
    with pytest.raises(InputError, match="2 times in the group 'a'"):
        fieldcal.pairs(prev.lab, v, system, np.r_[0, 0, item[2:]])
    with pytest.warns(GroupWarning, match="No item is in two groups"):
        fieldcal.pairs(prev.lab, v, system, np.arange(80))
    with pytest.raises(InputError, match="No item of the pairs is of group 'b'"):
        prev.contrast("a", "b", pairs=fieldcal.pairs(prev.lab, v, ["a"] * 40 + ["c"] * 40, item))
    with pytest.raises(InputTypeError, match=r"from fieldcal\.pairs"):
        prev.contrast("a", "b", pairs=[(0, 1)])
    other = fieldcal.learn(v[::-1][:60], human[::-1][:60], kind="values", design="random")
    with pytest.raises(InputError, match="another lab"):
        prev.contrast("a", "b", pairs=fieldcal.pairs(other, v, system, item))
    scores = fieldcal.datasets.label_shift(n_lab=200)
    with pytest.raises(InputTypeError, match="Lab of values"):
        fieldcal.pairs(fieldcal.learn(scores.proba_lab, scores.y_lab), v, system, item)


def test_items_make_differences_narrower_also_where_no_row_of_the_field_has_a_label():
    v, human, system, item = two_systems(labels=100)
    lab = fieldcal.learn(v, human, kind="values", design="by_class")
    prev = fieldcal.estimate(lab, fieldcal.count(lab, v, groups=system))
    pairs = fieldcal.pairs(lab, v, system, item)
    alone, together = (prev.contrast("a", "b", pairs=p) for p in (None, pairs))
    assert together.upper - together.lower < alone.upper - alone.lower
    assert together.estimate == alone.estimate


# Plans ------------------------------------------------------------------------------------------------------


def test_a_plan_for_a_judge_that_was_checked_elsewhere_knows_both_ways_to_label():
    verdict, human, groups = judged(n=1_500)
    lab = fieldcal.learn(verdict, human, kind="values", design="by_class")
    prev = fieldcal.estimate(lab, fieldcal.count(lab, verdict, groups=groups))
    plan = fieldcal.plan(prev, labels=[100, 400], width=0.12, apart=("s0", "s1"))
    widths = {(more.design, more.labels): more.width for more in plan.more_labels}
    assert {design for design, _ in widths} == {"random", "by_class"}
    for design in ("random", "by_class"):
        assert widths[design, 400] < widths[design, 100] < 1.05 * plan.width
    assert plan.labels_for_width is None or plan.labels_for_width > 0
    assert plan.labels == 0


# Comparisons ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_differences_that_are_found_have_few_wrong_signs_and_intervals_hold_together():
    rng = np.random.default_rng(5)
    p, n = np.linspace(0.4, 0.8, 8), 300
    g = np.repeat(np.arange(8), n)
    y = rng.random(8 * n) < p[g]
    v = np.where(y, rng.random(8 * n) < 0.9, rng.random(8 * n) > 0.9).astype(int)
    human = np.where(rng.random(8 * n) < 0.1, y.astype(int).astype(object), None)
    prev = estimated(v, human, g)
    found = prev.compare()
    assert len(found.differences) == 28
    wrong = [min(d.probability, 1 - d.probability) for d in found.differences]
    assert wrong == sorted(wrong)
    assert np.mean([w for w, d in zip(wrong, found.differences, strict=True) if d.found]) <= 0.05
    for d in found.differences:
        assert d.all_lower <= d.lower <= d.estimate <= d.upper <= d.all_upper
    assert found.found[0].a == 7
    against = prev.compare(0, of=1)
    assert {d.b for d in against.differences} == {0}
    alone = prev.contrast(7, 0, of=1)
    same = next(d for d in against.differences if d.a == 7)
    assert (same.estimate, same.lower, same.upper) == (alone.estimate, alone.lower, alone.upper)
    assert prev.compare(errors=0).found == tuple(d for d in found.differences if d.probability == 1)
    assert "expected to have the wrong sign" in repr(found)
    assert len(found.to_dict()["differences"]) == 28
    with pytest.raises(InputError, match="nothing to compare"):
        estimated(v, human).compare()


# Rates ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.55, 1.0),
    st.floats(0.55, 1.0),
    st.integers(0, 1_000),
    st.integers(1, 10_000),
    st.integers(1, 10_000),
)
def test_rates_with_a_flat_prior_are_rogan_and_gladen_s_estimator(sensitivity, specificity, positive, n1, n0):
    lab = Lab.from_rates(sensitivity=sensitivity, specificity=specificity, n=(n1, n0))
    assume(positive > 0 or specificity < 1)
    field = fieldcal.count(lab, ["positive"] * positive + ["negative"] * (1_000 - positive))
    found = fieldcal.estimate(lab, field, prior="flat", point="mode", level=None).urc[0, 1]
    closed = (positive / 1_000 + specificity - 1) / (sensitivity + specificity - 1)
    assert found == pytest.approx(np.clip(closed, 0, 1), abs=1e-9)


def test_a_confusion_matrix_of_rows_is_one_of_shares_with_their_number():
    rows, classes = np.array([[80, 15, 5], [10, 70, 20], [2, 8, 40]]), ["bad", "fair", "good"]
    one = Lab.from_rates(confusion=rows, classes=classes)
    shares = rows / rows.sum(axis=1, keepdims=True)
    two = Lab.from_rates(confusion=shares, n=[100, 100, 50], classes=classes)
    assert np.allclose(one.F, two.F)
    assert one.design == "by_class"
    prev = fieldcal.estimate(one, fieldcal.count(one, ["bad"] * 50 + ["fair"] * 30 + ["good"] * 40))
    assert prev.estimate.sum() == pytest.approx(1)
    assert fieldcal.Lab.from_json(one.to_json()) == one
    ends = beta(0.9 * 120 + 0.5, 0.1 * 120 + 0.5).ppf([0.025, 0.975])
    lab = Lab.from_rates(sensitivity=0.9, specificity=0.5, intervals=(ends, (0.4, 0.6)))
    assert lab.n_effective[1] == pytest.approx(120, rel=1e-6)


def test_rates_that_cannot_be_are_refused():
    for options, message in (
        ({}, "Give sensitivity"),
        ({"sensitivity": 0.9}, "Give sensitivity"),
        ({"sensitivity": 0.9, "specificity": 0.9}, "need their precision"),
        (
            {"sensitivity": 0.9, "specificity": 0.9, "n": (10, 20), "intervals": ((0.8, 1), (0.8, 1))},
            "not both",
        ),
        ({"sensitivity": 90, "specificity": 0.9, "n": (10, 20)}, "at most 1"),
        ({"sensitivity": 0.9, "specificity": 0.9, "n": 10}, "2 numbers of rows"),
        ({"sensitivity": 0.9, "specificity": 0.9, "n": (0, 10)}, "at least 1"),
        ({"sensitivity": 0.9, "specificity": 0.9, "intervals": ((0.92, 0.95), (0.8, 1))}, "must hold it"),
        ({"sensitivity": 0.5, "specificity": 0.9, "intervals": ((0, 1), (0.8, 1))}, "wider than if nothing"),
        ({"sensitivity": 0.9, "specificity": 0.9, "intervals": (0.8, 1)}, "two pairs"),
        ({"confusion": [[0.9, 0.1], [0.2, 0.8]]}, "shares"),
        ({"confusion": [[9, 1], [2, 8]], "n": (10, 10)}, "sum to one"),
        ({"confusion": [[9, 1]]}, "two classes"),
        ({"confusion": [[9, 1], [2, 8]], "intervals": ((0.8, 1), (0.8, 1))}, "go with sensitivity"),
        ({"confusion": [[9, 1, 0], [2, 8, 4]]}, "3 columns of values"),
        ({"confusion": [[9, 1], [2, 8]], "classes": ["a"]}, "2 classes in the rates"),
    ):
        with pytest.raises(InputError, match=message):
            Lab.from_rates(**options)


def test_fault_77_a_slice_without_labels_is_marked_and_the_verdict_names_it():
    verdict, human, groups = judged(n=1200, labels=400)
    human[[g == "s2" for g in groups]] = None
    prev = estimated(verdict, human, groups)
    assert prev.status[prev.groups.index("s2")] == "no_labels"
    found = prev.verdict.finding("groups_without_labels")
    assert (prev.verdict.level, found.state, found.groups) == ("care", "care", ("s2",))
    assert "1 of 3 groups has no labelled row (s2)" in found.text


@pytest.mark.slow
def test_a_difference_is_found_only_where_its_interval_excludes_zero():
    verdict, human, groups = judged(n=900, labels=300, slices=9)
    found = estimated(verdict, human, groups).compare(errors=0.5)
    assert not any(d.found and d.lower <= 0 <= d.upper for d in found.differences)
    assert sum(d.probability > 0.5 for d in found.differences) > len(found.found)
    assert "the interval excludes 0" in repr(found)
