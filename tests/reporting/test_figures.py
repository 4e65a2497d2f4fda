"""Pictures inside the page: the same bytes every time, nothing that a policy forbids, names as they are."""

from __future__ import annotations

from xml.etree import ElementTree

import matplotlib
import pytest

from fieldcal.plots import draw, tables
from fieldcal.plots.style import quiet, size
from fieldcal.reporting.figures import as_svg, pictures
from reporting.real import hostile, judged, reported, simple

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


def drawn(prev=None, **more):
    content = reported(prev or judged("care")[0], **more).dict()
    return [picture for section in pictures(content).values() for picture in section]


def elements(text):
    return list(ElementTree.fromstring(text).iter())


def test_every_picture_is_one_svg_element_with_a_name_for_who_cannot_see_it():
    proba, y, plots = judged("care")[1]
    found = drawn(proba=proba, y=y, groups=plots)
    assert {p.name for p in found} >= {
        *("forest", "changes", "bins-0", "bins-3"),
        *("curve", "reliability", "labelled", "response"),
    }
    for picture in found:
        root, *_ = elements(picture.svg)
        assert root.tag == "svg"
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"] == picture.caption


def test_no_styles_no_scripts_no_links_and_only_ids_that_are_used_once_on_the_page():
    seen = set()
    for picture in drawn():
        for element in elements(picture.svg):
            assert element.tag not in {"style", "script", "metadata", "a", "foreignObject"}
            assert not any(key == "style" or key.startswith("on") or "}" in key for key in element.attrib)
            links = [v for k, v in element.attrib.items() if k == "href"]
            assert all(link.startswith(("#", "data:image/png")) for link in links)
            name = element.attrib.get("id")
            if name is not None:
                assert name not in seen
                seen.add(name)
                assert f"#{name}" in picture.svg


def test_what_matplotlib_wrote_is_still_there():
    """Each drawn element keeps its place, its colour and its text."""
    from matplotlib.figure import Figure

    table = tables.forest(simple()[0])
    ours = as_svg("forest", table, name="forest", label="label")
    with quiet(), matplotlib.rc_context({"svg.fonttype": "none"}):
        figure = Figure(figsize=size("forest", table))
        ax = draw.forest(table, ax=figure.add_subplot())
        labels = [text.get_text() for text in ax.get_yticklabels()]
    texts = ["".join(e.itertext()) for e in elements(ours) if e.tag == "text"]
    assert set(labels) <= set(texts)
    used = {v for e in elements(ours) for v in e.attrib.values() if v.startswith("#") and len(v) == 7}
    assert {"#0072b2", "#d55e00"} <= used
    sizes = [e.attrib["font-size"] for e in elements(ours) if e.tag == "text"]
    assert all(float(s.removesuffix("px")) >= 7 for s in sizes)


def test_the_same_table_gives_the_same_bytes_whatever_style_the_user_has():
    table = tables.bins(simple()[0])
    usual = as_svg("bins", table, name="bins", label="label")
    with matplotlib.rc_context(
        {
            "svg.hashsalt": "mine",
            "font.size": 30,
            "axes.facecolor": "red",
            "lines.linewidth": 9,
            "text.usetex": True,
        }
    ):
        assert as_svg("bins", table, name="bins", label="label") == usual


@pytest.mark.slow
def test_hostile_names_are_text_and_nothing_else():
    for picture in drawn(hostile()):
        for element in elements(picture.svg):
            assert element.tag not in {"img", "script"}
        assert "<img" not in picture.svg
    (forest,) = (p for p in drawn(hostile()) if p.name == "forest")
    texts = ["".join(e.itertext()) for e in elements(forest.svg) if e.tag == "text"]
    assert r"$\frac{$" in texts
    assert "עברית וגם العربية" in texts
    assert any(text.startswith("</script><img src=x") for text in texts)
    assert max(map(len, texts)) < 60


def test_the_numbers_of_a_picture_are_those_of_its_table():
    prev = judged("care")[0]
    content = reported(prev).dict()
    found = pictures(content)
    table = content["figures"]["bins"][0]
    shown = [tuple(map(float, row[1:])) for row in found["bins"][0].rows]
    for i, columns in enumerate(zip(*shown, strict=True)):
        name = ("observed", "expected", "lab")[i]
        assert columns == pytest.approx(table[name], abs=5e-4)
    assert len(found["curve"][0].rows[0]) == len(found["curve"][0].head)


def test_millions_of_rows_are_written_in_full_and_flagged_groups_are_marked_on_a_phone_too():
    table = tables.forest(simple()[0])
    table["n"][0] = 4_999_980.0
    table["status"][1] = "few_rows,not_in_lab"
    (forest,) = pictures({"figures": {"forest": table}})["forest"]
    wide, phone = (
        ["".join(e.itertext()) for e in elements(svg) if e.tag == "text"]
        for svg in (forest.svg, forest.narrow)
    )
    assert any("4,999,980" in text for text in wide)
    assert any(text.endswith("few rows, not in lab") for text in wide)
    assert sum(text.endswith("*") for text in phone) == 1
    assert "star" in forest.caption


def test_a_change_that_rounds_to_zero_has_no_minus_sign():
    table = tables.trust(judged("care")[0].lab)
    table["change"][0] = -1e-9
    (trust,) = pictures({"figures": {"trust": table}})["trust"]
    assert trust.rows[0][1] == "+0.0000"
