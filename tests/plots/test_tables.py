"""The tables under the pictures: right numbers, plain types."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fieldcal
from fieldcal import regression
from fieldcal.core.goodness_of_fit import misfit
from fieldcal.core.trust import Trust
from fieldcal.errors import InputError, InputTypeError, UnseenGroupWarning
from fieldcal.objects.prevalence_table import shown_class
from fieldcal.plots import tables

ESTIMATES = ["binary", "single", "three", "many", "hostile", "empty_group", "twelve"]


def all_tables(prev):
    yield tables.forest(prev)
    yield tables.bins(prev)
    yield tables.bins(prev, group=prev.groups[-1])
    yield tables.curve(prev)
    yield tables.changes(prev)
    yield tables.reliability(prev.lab)
    yield tables.response(prev.lab)


@pytest.mark.parametrize("name", ESTIMATES)
def test_every_table_survives_json_unchanged(name, request):
    for table in all_tables(request.getfixturevalue(name)):
        assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_the_rehearsal_is_told_as_it_was(binary):
    table = tables.trust(binary.lab, used=0.25)
    rehearsal = binary.lab.rehearsal
    assert table["trust"] == rehearsal.grid.tolist()
    assert table["change"] == rehearsal.change_by_trust.tolist()
    assert table["se"] == rehearsal.change_by_trust_se.tolist()
    assert (table["chosen"], table["used"]) == (rehearsal.trust, 0.25)
    assert (table["groups"], table["rows"]) == (24, 4000)
    json.dumps(table, allow_nan=False)


def test_a_lab_without_a_rehearsal_says_what_to_do(single):
    with pytest.raises(InputError, match=r"no cross-validation over groups.*groups=…"):
        tables.trust(single.lab)


def test_explanations_are_told_as_labels_left_them(hostile, ordered):
    table = tables.explanations(hostile)
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    assert table["before"] == hostile.labels.prior.tolist()
    assert table["after"] == hostile.by_model.weights.tolist()
    assert table["rows"] == 125
    with pytest.raises(InputError, match=r"no labels that could decide.*y=…"):
        tables.explanations(ordered)


# which class


def test_by_default_the_class_is_the_second_of_two_or_the_one_that_is_corrected_most(binary, three):
    assert tables.focus(binary) == 1
    assert tables.focus(binary, 0) == 0
    shown = tables.forest(three)["class"]
    assert shown == three.classes[shown_class(three)]
    assert tables.curve(three)["class"] == tables.changes(three)["class"] == shown
    assert tables.curve(three, of="ox")["class"] == "ox"


def test_an_unknown_class_or_group_is_refused_elsewhere_too(three):
    with pytest.raises(InputError, match="There is no class 'horse'"):
        tables.reliability(three.lab, of="horse")
    with pytest.raises(InputError, match="There is no group 'nowhere'"):
        tables.bins(three, group="nowhere")


# forest


def test_a_forest_of_few_groups_has_them_all_by_falling_value(binary):
    table = tables.forest(binary)
    order = np.argsort(-binary.estimate[:, 1], kind="stable")
    assert table["groups"] == [str(binary.groups[g]) for g in order]
    assert table["n"] == binary.n[order].tolist()
    for name in ("mean_prediction", "estimate", "lower", "upper", "urc"):
        assert table[name] == getattr(binary, name)[order, 1].tolist()
    assert (table["shown"], table["total"], table["level"]) == (24, 24, 0.9)
    assert table["labelled"] == [None] * 24
    assert (table["whole"]["n"], table["whole"]["labelled"]) == (12_000, None)
    for name in ("mean_prediction", "estimate", "lower", "upper", "urc"):
        assert table["whole"][name] == getattr(binary.whole, name)[1]
    assert_allclose(table["lab"], binary.lab.p_lab[1])


def test_a_forest_of_many_groups_has_the_largest_and_those_that_surely_moved(many):
    table = tables.forest(many, limit=10)
    assert (table["shown"], table["total"]) == (10, 300)
    shown = {int(name) for name in table["groups"]}
    assert len(shown) == 10
    largest = np.argsort(-many.n, kind="stable")[:5]
    assert shown >= {many.groups[g] for g in largest}
    mean_prediction, lower, upper = many.mean_prediction[:, 1], many.lower[:, 1], many.upper[:, 1]
    beyond = np.maximum(lower - mean_prediction, mean_prediction - upper)
    most = [many.groups[g] for g in np.argsort(-beyond) if g not in largest]
    odd = {g for g, status in zip(many.groups, many.status, strict=True) if "inconsistent" in status}
    assert shown >= set(most[:3])
    assert shown <= {many.groups[g] for g in largest} | set(most[:5]) | odd
    assert table["estimate"] == sorted(table["estimate"], reverse=True)


def test_groups_that_fit_badly_are_among_the_lines(many):
    odd = 7
    assert many.n[odd] < np.median(many.n)
    status = tuple("few_rows,inconsistent" if g == odd else "ok" for g in range(300))
    fit = many.fit.model_copy(update={"effect": np.where(np.arange(300) == odd, 0.9, 0.0)})
    table = tables.forest(many.model_copy(update={"status": status, "fit": fit}), limit=10)
    assert str(many.groups[odd]) in table["groups"]
    assert table["status"][table["groups"].index(str(many.groups[odd]))] == "few_rows,inconsistent"


def test_one_population_has_a_line_per_class(twelve):
    table = tables.forest(twelve)
    order = np.argsort(-twelve.estimate[0])
    assert table["groups"] == [twelve.classes[k] for k in order]
    assert table["estimate"] == twelve.estimate[0][order].tolist()
    assert table["lab_each"] == twelve.lab.p_lab[order].tolist()
    assert (table["class"], table["whole"], table["lab"]) == (None, None, None)
    assert table["n"] == [3000] * 12
    assert tables.forest(twelve, limit=4)["shown"] == 4


def test_labelled_rows_become_shares_where_there_are_any(hostile):
    table = tables.forest(hostile, of="_<b>")
    k = hostile.classes.index("_<b>")
    order = np.argsort(-hostile.estimate[:, k], kind="stable")
    found = hostile.field.labelled["random"]
    counts = np.zeros(hostile.estimate.shape)
    counts[found.at] = found.counts.sum(axis=2)
    assert_allclose(table["labelled"], (counts[:, k] / counts.sum(axis=1))[order])


def test_names_are_short_on_one_line_and_never_empty(hostile):
    names = tables.forest(hostile)["groups"]
    assert all(0 < len(name) <= 28 and name.isprintable() for name in names)
    assert '""' in names
    assert "(null)" in names


@pytest.mark.parametrize("limit", [0, 2.5])
def test_a_limit_below_one_is_refused(limit, binary):
    with pytest.raises(InputError, match="limit must be"):
        tables.forest(binary, limit=limit)
    with pytest.raises(InputError, match="limit must be"):
        tables.curve(binary, limit=limit)


# bins


def test_expected_bins_are_the_mixture_of_the_estimate(binary):
    table = tables.bins(binary)
    V = binary.field.V.sum(axis=0)
    assert_allclose(table["expected"], binary.whole.urc @ binary.lab.M)
    assert_allclose(table["observed"], V / V.sum())
    assert_allclose(table["lab"], binary.lab.F.sum(axis=0) / 4000)
    q = np.array(table["expected"])
    assert_allclose(table["noise"], 2 * np.sqrt(q * (1 - q) / 12_000))
    urc = binary.whole.urc[None]
    whole = misfit(binary.lab.M, V[None].astype(float), urc, rows=binary.lab.A.sum(axis=1))
    assert (table["effect"], table["p_value"], table["df"]) == (whole.effect[0], whole.p_value[0], whole.df)
    assert (table["group"], table["n"]) == (None, 12_000)


def test_bins_of_a_group_are_its_own(binary):
    table = tables.bins(binary, group=3)
    assert_allclose(table["expected"], binary.urc[3] @ binary.lab.M)
    assert_allclose(table["observed"], binary.field.V[3] / binary.n[3])
    assert (table["effect"], table["p_value"]) == (binary.fit.effect[3], binary.fit.p_value[3])
    assert (table["group"], table["n"]) == ("3", int(binary.n[3]))


def test_a_group_without_rows_has_nothing_observed(empty_group):
    table = tables.bins(empty_group, group=3)
    assert table["n"] == 0
    assert set(table["observed"]) == set(table["noise"]) == {None}
    assert "3" in tables.forest(empty_group)["groups"]
    assert tables.changes(empty_group)["groups"] == 3


def test_bin_labels_say_what_falls_into_a_bin(binary_data, three, three_data):
    def labels(partition):
        return tables.bin_labels(
            fieldcal.learn(binary_data.proba_lab, binary_data.y_lab, partition=partition)
        )

    assert labels(fieldcal.partitions.Edges([0.123456, 0.5])) == ["0–0.12", "0.12–0.5", "0.5–1"]
    assert labels(fieldcal.partitions.Edges([0.5, 0.998, 0.9991])) == [
        "0–0.5",
        "0.5–0.998",
        "0.998–0.999",
        "0.999–1",
    ]
    assert labels(fieldcal.partitions.Expected(3)) == ["bin 1", "bin 2", "bin 3"]
    simplex = tables.bin_labels(three.lab)
    assert len(simplex) == three.lab.n_bins
    assert simplex[:2] == ["cat 1", "cat 2"]
    assert simplex[-1].startswith("ox ")
    argmax = fieldcal.learn(three_data.proba_lab, three_data.y_lab, partition=fieldcal.partitions.Simplex(3))
    assert tables.bin_labels(argmax) == ["0 1", "1 1", "2 1"]


# curve


def test_the_curve_is_what_recalibrate_does(binary):
    table = tables.curve(binary)
    old = table["old"]
    assert len(old) == 51
    for line in table["curves"]:
        new = fieldcal.recalibrate(binary, old, groups=[int(line["name"])] * len(old))
        assert_allclose(line["new"], new, atol=1e-12)
        assert line["n"] == binary.n[int(line["name"])]
    with pytest.warns(UnseenGroupWarning):
        assert_allclose(
            table["whole"], fieldcal.recalibrate(binary, old, groups=["never seen"] * 51), atol=1e-12
        )


def test_curves_are_the_lowest_the_highest_and_the_largest(many):
    table = tables.curve(many, limit=6)
    mean = many.mean_prediction[:, 1]
    moved = fieldcal.recalibrate(many, mean, groups=list(many.groups))
    shift = np.log(moved / (1 - moved)) - np.log(mean / (1 - mean))
    names = [int(line["name"]) for line in table["curves"]]
    assert len(names) == len(set(names)) == 6
    assert {shift.argmin(), shift.argmax(), many.n.argmax()} <= set(names)
    assert table["total"] == 300
    heights = [line["new"][25] for line in table["curves"]]
    assert heights == sorted(heights, reverse=True)


@pytest.mark.parametrize("of", ["cat"])
def test_a_curve_of_three_classes_is_what_both_steps_make_of_a_row(three, of):
    mixed = three.model_copy(update={"trust": Trust(0.3, 0.6)})
    for remembered in ("steps", "steps_unseen"):
        vars(mixed).pop(remembered, None)
    table, k = tables.curve(mixed, of=of), three.classes.index(of)
    for line in table["curves"]:
        g, old = int(line["name"]), np.array(table["old"])
        rows = np.outer(1 - old, np.delete(three.mean_prediction[g], k) / (1 - three.mean_prediction[g, k]))
        new = fieldcal.recalibrate(
            mixed, np.insert(rows, k, old, axis=1), groups=[three.groups[g]] * len(old)
        )
        assert_allclose(line["new"], new[:, k], atol=1e-12)


# reliability


def test_reliability_of_a_lab_is_bin_by_bin(binary_data):
    lab = fieldcal.learn(
        binary_data.proba_lab, binary_data.y_lab, partition=fieldcal.partitions.Edges([0.2, 0.5])
    )
    table = tables.reliability(lab)
    (series,) = table["series"]
    score, y = binary_data.proba_lab, binary_data.y_lab
    rows = [score <= 0.2, (score > 0.2) & (score <= 0.5), score > 0.5]
    assert table["class"] == "1"
    assert series["name"] == "lab"
    assert series["n"] == [r.sum() for r in rows]
    assert_allclose(series["mean"], [score[r].mean() for r in rows], atol=1e-6)
    assert_allclose(series["share"], [y[r].mean() for r in rows])


def test_reliability_before_and_after_has_bins_of_equal_size(binary_data):
    before = binary_data.proba_field
    table = tables.reliability_of(before, before**2, binary_data.y_field, classes=("no", "yes"))
    assert table["class"] == "yes"
    assert [series["name"] for series in table["series"]] == ["before", "after"]
    order = np.argsort(before).reshape(10, -1)
    for series, score in zip(table["series"], (before, before**2), strict=True):
        assert series["n"] == [1200] * 10
        assert_allclose(series["mean"], score[order].mean(axis=1))
        assert_allclose(series["share"], binary_data.y_field[order].mean(axis=1))
    json.dumps(table, allow_nan=False)


def test_labelled_rows_that_do_not_match_are_refused(three_data):
    proba, y = three_data.proba_field, three_data.y_field
    classes = ("cat", "dog", "ox")
    with pytest.raises(InputError, match="the same 5,999 labelled rows"):
        tables.reliability_of(proba, proba, y[1:], classes=classes)
    with pytest.raises(InputError, match="positions of the classes"):
        tables.reliability_of(proba, proba, y + 1, classes=classes)
    with pytest.raises(InputError, match="no labelled rows"):
        tables.reliability_of(proba[:0], proba[:0], y[:0], classes=classes)


def test_a_lab_of_bin_ids_has_no_reliability():
    lab = fieldcal.learn([0, 1, 2] * 40, [0, 1, 1, 1, 0, 1] * 20, partition=fieldcal.partitions.Bins(3))
    with pytest.raises(InputError, match="learnt from bin ids"):
        tables.reliability(lab)


# response, changes


def test_the_response_is_the_matrix_itself(three):
    table = tables.response(three.lab)
    assert table["M"] == three.lab.M.tolist()
    assert table["rows"] == three.lab.F.sum(axis=1).tolist()
    assert table["classes"] == ["cat", "dog", "ox"]


@pytest.mark.parametrize("name", ["many", "single"])
def test_changes_add_up_to_all_rows_in_at_most_thirty_bars(name, request):
    prev = request.getfixturevalue(name)
    table = tables.changes(prev)
    k = tables.focus(prev)
    change = (prev.estimate - prev.mean_prediction)[:, k]
    edges = np.array(table["edges"])
    assert len(table["rows_share"]) == len(edges) - 1 <= 30
    assert_allclose(sum(table["rows_share"]), 1.0)
    assert edges[0] <= change.min() + 1e-12
    assert edges[-1] >= change.max() - 1e-12
    middle = (edges[:-1] + edges[1:]) / 2
    assert np.abs(middle).min() < 1e-12
    assert (table["up"], table["down"]) == ((change > 0).sum(), (change < 0).sum())
    at = np.searchsorted(edges, change, side="right") - 1
    assert_allclose(table["rows_share"], np.bincount(at, prev.n, minlength=len(middle)) / prev.n.sum())


# distributions


def test_the_distribution_of_a_group_and_of_the_whole_field_is_its_estimate(ordered):
    table = tables.distribution(ordered, group="a")
    g = ordered.groups.index("a")
    assert (table["group"], table["n"], table["level"]) == ("a", ordered.n[g], 0.9)
    for name in ("mean_prediction", "estimate", "lower", "upper"):
        assert table[name] == getattr(ordered, name)[g].tolist()
    assert table["lab"] == ordered.lab.p_lab.tolist()
    whole = tables.distribution(ordered)
    assert (whole["group"], whole["level"], whole["n"]) == (None, 0.9, ordered.n.sum())
    for name in ("mean_prediction", "estimate", "lower", "upper"):
        assert whole[name] == getattr(ordered.whole, name).tolist()
    share = ordered.n / ordered.n.sum()
    assert_allclose(whole["mean_prediction"], share @ ordered.mean_prediction)
    for table in (whole, tables.distribution(ordered, group="b")):
        assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_intervals_are_told_with_few_digits_but_apart(ordered):
    assert tables.distribution(ordered)["labels"][:2] == ["≤ -1.23", "(-1.23, -0.5]"]
    rng = np.random.default_rng(0)
    y = rng.normal(5e4, 1.0, size=2000)
    rows = regression.from_moments(y + 0.1 * rng.normal(size=2000), 0.1)
    lab = fieldcal.learn(rows, y, intervals=[49999.5, 50000.25, 50001.125])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, rows), trust=1)
    labels = ["≤ 49999.5", "(49999.5, 50000.2]", "(50000.2, 50001.1]", "> 50001.1"]
    assert tables.distribution(prev)["labels"] == labels


def test_classes_without_an_order_have_no_distribution(three):
    with pytest.raises(InputError, match="have no order"):
        tables.distribution(three)


def test_the_transform_is_counted_by_the_distribution_function(number_rows):
    before, after, y = number_rows
    table = tables.pit(before, after, y)
    for name, rows in (("before", before), ("after", after)):
        assert_allclose(table[name], np.histogram(rows.cdf(y[:, None]), np.linspace(0, 1, 11))[0] / 2000)
    assert table["edges"][0] == 0.0
    assert table["edges"][-1] == 1.0
    assert_allclose(table["noise"], 2 * np.sqrt(0.1 * 0.9 / 2000))
    assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_at_an_atom_the_middle_of_the_jump_counts():
    coins = regression.from_samples([[0.0] * 3 + [1.0]] * 8)
    table = tables.pit(coins, coins, [0.0] * 6 + [1.0] * 2)
    assert table["before"] == [0, 0, 0, 0.75, 0, 0, 0, 0, 0.25, 0]  # 0.375 and 0.875


def test_coverage_is_counted_row_by_row(number_rows):
    before, after, y = number_rows
    table = tables.coverage(before, after, y)
    for name, rows in (("before", before), ("after", after)):
        for share, held in zip(table["nominal"], table[name], strict=True):
            low, high = rows.interval(share).T
            assert held == ((low <= y) & (y <= high)).mean()
    assert_allclose(table["se"][4], np.sqrt(0.9 * 0.1 / 2000))
    assert json.loads(json.dumps(table, allow_nan=False)) == table


@pytest.mark.parametrize("picture", [tables.pit, tables.coverage])
def test_numbers_that_do_not_belong_to_the_predictions_are_refused(picture, number_rows):
    before, after, y = number_rows
    with pytest.raises(InputError, match="of the same rows, but there are 2,000 and 3 predictions"):
        picture(before, after.take([0, 1, 2]), y)
    with pytest.raises(InputError, match=r"y has shape \(5,\)"):
        picture(before, after, y[:5])
    with pytest.raises(InputError, match="1 of the numbers y are missing"):
        picture(before.take([0, 1]), after.take([0, 1]), [0.0, np.nan])
    with pytest.raises(InputError, match="no numbers to draw"):
        picture(before.take([]), after.take([]), [])
    with pytest.raises(InputTypeError, match="predictive distributions, but got list"):
        picture([0.1], after, y)
    with pytest.raises(InputTypeError, match="y must be numbers"):
        picture(before, after, ["high"] * 2000)
