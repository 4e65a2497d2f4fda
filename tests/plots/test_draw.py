"""Pictures: the table's numbers are in the artists, and no name or number breaks them."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

import fieldcal
from fieldcal import plots
from fieldcal.errors import InputError, InputTypeError, MissingExtraError
from fieldcal.plots import draw, style, tables

OF_AN_ESTIMATE = ["forest", "bins", "curve", "changes"]
OF_A_LAB = ["reliability", "response"]


def axes():
    return Figure(figsize=(7, 5), layout="constrained").subplots()


def drawn(ax, kind="svg"):
    """The picture as bytes; characters that the font lacks are allowed."""
    out = io.BytesIO()
    with style.quiet():
        ax.figure.savefig(out, format=kind)
    return out.getvalue()


def points(ax, color, marker=None):
    """x and y of all lines of a colour, and perhaps of a marker."""
    return [
        line.get_xydata()
        for line in ax.lines
        if colors.to_hex(line.get_color()) == color and (marker is None or line.get_marker() == marker)
    ]


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# numbers


def test_a_rehearsal_is_drawn_with_its_band_and_marks(binary):
    table = tables.trust(binary.lab, used=0.3)
    ax = draw.trust(table, ax=axes())
    curve, chosen = points(ax, style.ESTIMATE)
    assert_allclose(curve, np.column_stack([table["trust"], table["change"]]))
    assert chosen[0, 0] == table["chosen"]
    ((used,),) = points(ax, style.INK)
    assert_allclose(used, [0.3, np.interp(0.3, table["trust"], table["change"])])
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert_allclose(band.min(), np.subtract(table["change"], table["se"]).min())
    assert f"chosen: {table['chosen']:.2f}" in texts(ax)
    assert "used: 0.30" in texts(ax)


def test_explanations_are_pairs_of_bars_below_their_names(hostile):
    table = tables.explanations(hostile)
    ax = draw.explanations(table, ax=axes())
    hollow, filled = ax.containers
    assert_allclose([bar.get_width() for bar in hollow], table["before"])
    assert_allclose([bar.get_width() for bar in filled], table["after"])
    assert {colors.to_hex(bar.get_facecolor()) for bar in filled} == {style.ESTIMATE}
    assert not any(bar.get_fill() and bar.get_facecolor()[3] for bar in hollow)
    written = [text.get_text() for text in ax.texts]
    assert written[:3] == [
        "label shift: only the class shares changed",
        "unchanged: class probabilities given a prediction are those of the lab",
        "other: neither",
    ]
    assert written[3:] == [f"{share:.2f}" for share in [*table["before"], *table["after"]]]
    assert texts(ax) == ["before labels", "after 125 labelled rows"]


def test_a_forest_has_points_intervals_and_names(binary):
    table = tables.forest(binary)
    ax = draw.forest(table, ax=axes())
    y = np.arange(25)
    column = {
        name: [table["whole"][name], *table[name]]
        for name in ("mean_prediction", "estimate", "lower", "upper")
    }
    (mean_prediction,) = points(ax, style.MEAN_PREDICTION)
    assert_allclose(mean_prediction, np.column_stack([column["mean_prediction"], y]))
    assert any(
        np.array_equal(p, np.column_stack([column["estimate"], y])) for p in points(ax, style.ESTIMATE)
    )
    bars = ax.collections[1].get_segments()
    assert_allclose([bar[:, 0] for bar in bars], np.column_stack([column["lower"], column["upper"]]))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["whole field", *table["groups"]]
    bottom, top = ax.get_ylim()
    assert bottom > top, "the first line is on top"
    assert f"whole field {table['whole']['estimate']:.3f}" in texts(ax)


def test_labels_are_diamonds_and_flags_are_said(hostile):
    table = tables.forest(hostile)
    table["status"][1] = "few_rows,inconsistent"
    ax = draw.forest(table, ax=axes())
    (labels,) = points(ax, style.TRUTH, "D")
    assert_allclose(labels[:, 0], [table["whole"]["labelled"], *table["labelled"]])
    assert any("few rows, inconsistent" in text.get_text() for text in ax.texts)


def test_an_interval_far_wider_than_the_rest_is_cut_with_an_arrow(binary):
    table = tables.forest(binary)
    table["estimate"] = [0.01] * 24
    table["mean_prediction"] = table["urc"] = [0.02] * 24
    table["lower"], table["upper"] = [0.0] * 24, [0.03] * 23 + [1.0]
    table["lab"] = 0.015
    table["whole"] |= {"mean_prediction": 0.02, "estimate": 0.015, "lower": 0.01, "upper": 0.02}
    ax = draw.forest(table, ax=axes())
    assert ax.get_xlim()[1] < 0.2
    (arrow,) = [p for p in points(ax, style.ESTIMATE, ">") if len(p)]
    assert arrow[0, 1] == 24


def test_bins_show_observed_expected_and_the_lab(binary):
    table = tables.bins(binary)
    ax = draw.bins(table, ax=axes())
    (observed,) = points(ax, style.MEAN_PREDICTION)
    (expected,) = points(ax, style.ESTIMATE)
    assert_allclose(observed[:, 1], table["observed"])
    assert_allclose(expected[:, 1], table["expected"])
    assert_allclose(ax.patches[0].get_data().values, table["lab"])
    assert f"Cohen's w {table['effect']:.2f}" in ax.get_xlabel()
    assert [label.get_text() for label in ax.get_xticklabels()] == table["labels"]


def test_curves_are_the_tables_curves(binary):
    table = tables.curve(binary, limit=4)
    ax = draw.curve(table, ax=axes())
    (whole,) = points(ax, style.ESTIMATE)
    assert_allclose(whole, np.column_stack([table["old"], table["whole"]]))
    assert_allclose([p[:, 1] for p in points(ax, style.MUTED)], [line["new"] for line in table["curves"]])
    assert ax.get_legend().get_title().get_text() == "4 of 24 groups (rows)"
    assert texts(ax)[0] == "whole field"


def test_reliability_before_and_after_differ_in_colour_and_shape(binary_data):
    score = binary_data.proba_field
    ax = plots.reliability_of(score, score**2, binary_data.y_field, classes=(0, 1), ax=axes())
    table = tables.reliability_of(score, score**2, binary_data.y_field, classes=(0, 1))
    for series, color in zip(table["series"], (style.MEAN_PREDICTION, style.ESTIMATE), strict=True):
        (seen,) = points(ax, color)
        assert_allclose(seen, np.column_stack([series["mean"], series["share"]]))
    hollow = [line.get_markerfacecolor() for line in ax.lines if line.get_marker() == "o"]
    assert hollow[0] == "none" != hollow[1]


def test_few_cells_hold_their_numbers_and_many_are_a_raster(three, twelve):
    few = plots.response(three.lab, ax=axes())
    assert_allclose(few.collections[0].get_array(), three.lab.M)
    assert len(few.texts) == three.lab.M.size <= 120
    assert few.texts[0].get_text() == f"{three.lab.M[0, 0]:.2f}".removeprefix("0")
    many = plots.response(twelve.lab, ax=axes())
    assert twelve.lab.M.size > 120
    assert not many.texts
    M = np.full((20, 30), 1 / 30)
    names = [f"class {k}" for k in range(20)]
    table = {"classes": names, "labels": [f"bin {j}" for j in range(30)], "M": M.tolist(), "rows": [5] * 20}
    assert draw.response(table, ax=axes()).collections[0].get_rasterized()
    assert not few.collections[0].get_rasterized()


def test_changes_are_bars_of_the_share_of_rows(many):
    table = tables.changes(many)
    ax = draw.changes(table, ax=axes())
    values, edges, _ = ax.patches[0].get_data()
    assert_allclose(values, table["rows_share"])
    assert_allclose(edges, table["edges"])
    assert f"lower in {table['down']} of 300 groups" in ax.texts[0].get_text()


def test_a_distribution_has_points_bars_and_the_lab(ordered):
    table = tables.distribution(ordered, group="a")
    ax = draw.distribution(table, ax=axes())
    (mean_prediction,) = points(ax, style.MEAN_PREDICTION, "o")
    (value,) = points(ax, style.ESTIMATE, "o")
    assert_allclose(mean_prediction[:, 1], table["mean_prediction"])
    assert_allclose(value[:, 1], table["estimate"])
    bars = ax.collections[0].get_segments()
    assert_allclose([bar[:, 1] for bar in bars], np.column_stack([table["lower"], table["upper"]]))
    assert_allclose(ax.patches[0].get_data().values, table["lab"])
    assert [label.get_text() for label in ax.get_xticklabels()] == table["labels"]
    assert texts(ax) == ["mean prediction", "estimate with 90% interval", "lab"]


def test_the_transform_is_drawn_as_bars_before_and_after_with_the_band(number_rows):
    table = tables.pit(*number_rows)
    ax = draw.pit(table, ax=axes())
    before, after = ax.containers
    assert_allclose([bar.get_height() for bar in before], table["before"])
    assert_allclose([bar.get_height() for bar in after], table["after"])
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert_allclose([band.min(), band.max()], [0.1 - table["noise"], 0.1 + table["noise"]])


def test_coverage_is_drawn_against_what_it_should_be(number_rows):
    table = tables.coverage(*number_rows)
    ax = draw.coverage(table, ax=axes())
    for name, color in (("before", style.MEAN_PREDICTION), ("after", style.ESTIMATE)):
        (seen,) = points(ax, color)
        assert_allclose(seen, np.column_stack([table["nominal"], table[name]]))


# names, shapes of data


@pytest.mark.parametrize("picture", [*OF_AN_ESTIMATE, *OF_A_LAB, "explanations"])
def test_hostile_names_are_drawn_as_they_are(picture, hostile):
    ax = getattr(plots, picture)(hostile.lab if picture in OF_A_LAB else hostile, ax=axes())
    with plt.rc_context({"svg.fonttype": "none"}):
        assert b"<img" not in drawn(ax)
        assert drawn(ax), "ticks are made anew, and it can be drawn again"


def test_mathematics_in_names_is_shown_and_not_read(hostile):
    ax = plots.forest(hostile, ax=axes())
    drawn(ax)
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert r"$\frac{$" in shown
    assert r"$\frac{$ and $\nothing$" in shown
    assert not any(label.get_parse_math() or label.get_usetex() for label in ax.get_yticklabels())
    legend = plots.curve(hostile, limit=10, ax=axes()).get_legend().get_texts()
    assert any("_nolegend_" in text.get_text() for text in legend)
    assert not any(text.get_parse_math() for text in legend)


@pytest.mark.parametrize("name", ["single", "empty_group", "twelve"])
@pytest.mark.parametrize("picture", OF_AN_ESTIMATE)
def test_every_shape_of_estimate_is_drawn(picture, name, request):
    assert drawn(getattr(plots, picture)(request.getfixturevalue(name), ax=axes()), "png")


def test_an_estimate_without_intervals_or_of_one_group_is_drawn(binary):
    lab = binary.lab
    field = fieldcal.count(lab, [0.1, 0.4, 0.8] * 40, groups=["only"] * 120)
    prev = fieldcal.estimate(lab, field, point="mode", level=None, trust=1)
    for picture in OF_AN_ESTIMATE:
        ax = getattr(plots, picture)(prev, ax=axes())
        assert drawn(ax, "png")
    assert "estimate" in texts(plots.forest(prev, ax=axes()))


@pytest.mark.parametrize("picture", ["forest", "explanations"])
def test_only_the_agreed_colours_are_used_and_nothing_is_transparent(picture, hostile):
    svg = drawn(getattr(plots, picture)(hostile, ax=axes())).decode()
    agreed = {
        style.INK,
        style.MUTED,
        style.GRID,
        style.ESTIMATE,
        style.MEAN_PREDICTION,
        style.TRUTH,
        style.BAND,
    }
    paper = "#ffffff"  # which is the caller's
    assert set(re.findall(r": (#[0-9a-f]{6})\b", svg)) <= {*agreed, paper}
    assert not re.findall(r"opacity: 0\.\d+", svg)


# figures of their own, and matplotlib itself


def test_a_dict_that_is_no_table_is_refused(binary):
    with pytest.raises(InputTypeError, match="prev must be a Prevalence"):
        plots.forest({"prev": binary}, ax=axes())


def test_without_axes_there_is_a_new_figure_as_high_as_needed(binary):
    ax = plots.forest(binary)
    try:
        assert ax.figure.get_size_inches().tolist() == list(style.size("forest", tables.forest(binary)))
        assert ax.figure in map(plt.figure, plt.get_fignums())
    finally:
        plt.close(ax.figure)


def test_a_wrong_class_is_refused_before_a_figure_is_made(three):
    before = plt.get_fignums()
    with pytest.raises(InputError, match="There is no class 'horse'"):
        plots.forest(three, of="horse")
    assert plt.get_fignums() == before


def test_without_matplotlib_the_error_says_how_to_get_it(binary, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is needed to draw.*fieldcal\[report\]"):
        plots.forest(binary)


@pytest.mark.slow
def test_importing_the_plots_and_making_tables_loads_no_matplotlib():
    code = """
import sys, fieldcal.plots
from fieldcal.plots import tables
lab = fieldcal.learn([.2, .2, .2, .2, .2, .8, .8, .8, .8, .8] * 9, [0, 0, 0, 0, 1, 1, 1, 1, 1, 0] * 9)
tables.response(lab)
assert not [m for m in sys.modules if m.startswith("matplotlib")]
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_quiet_silences_missing_glyphs_and_nothing_afterwards():
    ax = axes()
    ax.set_xlabel("\U000e0041 \uabcd")
    drawn(ax, "png")
    with pytest.warns(UserWarning, match="[Gg]lyph"):
        ax.figure.savefig(io.BytesIO(), format="png")
