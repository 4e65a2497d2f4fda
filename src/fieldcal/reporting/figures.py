"""A picture as SVG that stands inside a page: the same bytes every time, no styles, no scripts, no ids but its own.

matplotlib writes ``style`` attributes, which a Content-Security-Policy worth having forbids, and fixed colours, which
do not suit a dark page. So every style becomes a presentation attribute, which the page's own style sheet can answer.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from fieldcal.plots import draw
from fieldcal.plots.style import INK, quiet, size

#: Pixels per point: texts of 9 points are as large as the page's captions.
SCALE = 1.5

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"(?:(\d+|bold)\s+)?([\d.]+)px")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_DROPPED = {"metadata", "style"}
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: small, found by a search, read aloud
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def as_svg(picture: str, table: dict[str, Any], *, name: str, label: str) -> str:
    """Draw a table and return the SVG element.

    Parameters
    ----------
    picture : function of `fieldcal.plots.draw`
    table : what it draws
    name : unique on the page; the ids inside come from it
    label : what a screen reader says in its place
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    # From the defaults, whatever the user's own style is: the page must not depend on it.
    with style.context(["default", {**_SETTINGS, "svg.hashsalt": f"fieldcal {name}"}]), quiet():
        figure = Figure(figsize=size(picture, table), layout="constrained")
        getattr(draw, picture)(table, figure.add_subplot())
        text = io.BytesIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _inline(ElementTree.fromstring(text.getvalue()), label)


def _inline(root: ElementTree.Element, label: str) -> str:
    """The element as it stands in HTML, with a name for who cannot see it."""
    used = {match for e in root.iter() for v in e.attrib.values() for match in _references(v)}
    _tidy(root, used)
    box = root.attrib["viewBox"]
    width, height = (f"{SCALE * float(side):.0f}" for side in box.split()[2:])
    root.attrib = {"viewBox": box, "width": width, "height": height, "role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _references(value: str) -> list[str]:
    return [value[1:]] if value.startswith("#") else _REFERENCE.findall(value)


def _tidy(element: ElementTree.Element, used: set[str]) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    element.attrib = _attributes(element.attrib, used)
    element.tail = None
    if element.tag != "text" and element.tag != "tspan":
        element.text = None
    for child in list(element):
        if child.tag.rpartition("}")[2] in _DROPPED:
            element.remove(child)
        else:
            _tidy(child, used)


def _attributes(given: dict[str, str], used: set[str]) -> dict[str, str]:
    """Without styles, long numbers and ids that nothing refers to."""
    kept: dict[str, str] = {}
    for key, value in given.items():
        if key == "style":
            kept |= _declarations(value)
        elif key == "id":
            kept |= {"id": value} if value in used else {}
        else:
            plain = key.removeprefix(_LINK)
            kept[plain] = value if plain in ("href", "clip-path") else _shorter(value)
    return kept


def _declarations(style: str) -> dict[str, str]:
    """``fill: #fff; stroke-width: 2`` as attributes; the family of a font is the page's."""
    found: dict[str, str] = {}
    for declaration in filter(None, map(str.strip, style.split(";"))):
        key, _, value = declaration.partition(":")
        key, value = key.strip(), value.strip()
        font = _FONT.search(value) if key == "font" else None
        if font:
            found["font-size"] = font[2]
            found |= {"font-weight": font[1]} if font[1] else {}
        elif not key.startswith("font-family"):
            found[key] = value if _references(value) else _shorter(value)
    return found


def _shorter(value: str) -> str:
    """A hundredth of a point is more than anybody sees."""
    return _NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)


@dataclass(frozen=True)
class Picture:
    """A picture with what is said below it, and its numbers for who cannot see it."""

    name: str
    svg: str
    caption: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def pictures(content: dict[str, Any]) -> dict[str, list[Picture]]:
    """All pictures by section; a section without one has an empty list."""
    tables = content["figures"]
    return {
        "trust": [_trust(tables["trust"])] if tables["trust"] else [],
        "forest": [_forest(tables["forest"])],
        "changes": [_changes(tables["changes"])] if tables["changes"] else [],
        "bins": [_bins(table, i) for i, table in enumerate(tables["bins"])],
        "curve": [_curve(tables["curve"])],
        "reliability": [_reliability(tables["reliability"], "reliability")] if tables["reliability"] else [],
        "labelled": [_reliability(tables["labelled"], "labelled")] if tables["labelled"] else [],
        "response": [_response(tables["response"])],
        "distributions": [_distribution(table, i) for i, table in enumerate(tables["distributions"])],
        "pit": [_pit(tables["pit"])] if tables["pit"] else [],
        "coverage": [_coverage(tables["coverage"])] if tables["coverage"] else [],
    }


def _trust(table: dict[str, Any]) -> Picture:
    caption = (
        f"Rehearsal on {table['groups']:,} groups of the lab: change of log loss when predictions are corrected with "
        "more and more strength. Below zero is better; the band is one standard error, groups as the unit."
    )
    rows = zip(table["exponents"], table["change"], table["se"], strict=True)
    return Picture(
        "trust",
        as_svg("trust", table, name="trust", label=caption),
        caption,
        ("strength", "change of log loss", "standard error"),
        tuple((f"{t:.2f}", f"{c:+.4f}", f"{s:.4f}") for t, c, s in rows),
    )


def _forest(table: dict[str, Any]) -> Picture:
    shown, total = table["shown"], table["total"]
    which = f"{shown:,} of {total:,}: the largest and those that changed most. " if shown < total else ""
    interval = "" if table["level"] is None else f" with its {table['level']:.0%} interval"
    caption = (
        f"{which}Hollow: the mean prediction. Filled: the estimate{interval}. All of them are in the table below, "
        "where they can be searched."
    )
    svg = as_svg("forest", table, name="forest", label=caption)
    return Picture("forest", svg, caption)


def _changes(table: dict[str, Any]) -> Picture:
    caption = (
        f"How far the estimate of {table['class']} is from the mean prediction, over {table['groups']:,} groups: "
        "share of the field's rows."
    )
    bars = zip(table["edges"], table["edges"][1:], table["rows_share"], strict=False)
    return Picture(
        "changes",
        as_svg("changes", table, name="changes", label=caption),
        caption,
        ("change from", "to", "share of rows"),
        tuple((f"{a:+.3f}", f"{b:+.3f}", f"{s:.1%}") for a, b, s in bars),
    )


def _bins(table: dict[str, Any], i: int) -> Picture:
    who = "The whole field" if table["group"] is None else table["group"]
    tested = table["df"] > 0 and table["effect"] is not None and table["p_value"] is not None
    misfit = (
        f"Misfit: Cohen's w {table['effect']:.2f} beyond noise, p = {table['p_value']:.2g}." if tested else ""
    )
    caption = (
        f"{who}, {table['n']:,.6g} rows: where predictions fall, against where they should if only the mix of classes "
        f"had changed. {misfit}"
    )
    rows = zip(table["labels"], table["observed"], table["expected"], table["lab"], strict=True)
    return Picture(
        f"bins-{i}",
        as_svg("bins", table, name=f"bins {i}", label=caption),
        caption,
        ("bin", "observed", "expected", "lab"),
        tuple((label, "–" if o is None else f"{o:.3f}", f"{e:.3f}", f"{x:.3f}") for label, o, e, x in rows),
    )


def _curve(table: dict[str, Any]) -> Picture:
    caption = (
        f"What becomes of a predicted probability of {table['class']}. On the diagonal nothing changes; above it "
        "predictions rise."
    )
    return Picture(
        "curve",
        as_svg("curve", table, name="curve", label=caption),
        caption,
        ("before", *(c["name"] for c in _lines(table))),
        tuple(
            (f"{x:.2f}", *(f"{c['new'][i]:.3f}" for c in _lines(table)))
            for i, x in enumerate(table["old"])
            if i % 5 == 0
        ),
    )


def _lines(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "whole field", "new": table["whole"]}, *table["curves"]]


def _reliability(table: dict[str, Any], name: str) -> Picture:
    where = "Labelled field rows" if name == "labelled" else "The lab, before any recalibration"
    caption = (
        f"{where}: mean prediction of {table['class']} against its share, by bins of the prediction, ± 2 standard "
        "errors. On the diagonal predictions are what they say."
    )
    rows = [
        (s["name"], f"{m:.3f}", f"{share:.3f}", f"{n:,.6g}")
        for s in table["series"]
        for m, share, n in zip(s["mean"], s["share"], s["n"], strict=True)
    ]
    return Picture(
        name,
        as_svg("reliability", table, name=name, label=caption),
        caption,
        ("series", "mean prediction", "share", "rows"),
        tuple(rows),
    )


def _response(table: dict[str, Any]) -> Picture:
    K, m = len(table["classes"]), len(table["labels"])
    caption = (
        "The partition and the response matrix: of the lab rows of each class, the share whose prediction falls into "
        "each bin. Rows that look alike are classes that cannot be told apart."
    )
    svg = as_svg("response", table, name="response", label=caption)
    if K * m > 600:
        return Picture("response", svg, caption)
    rows = ((c, *(f"{x:.3f}" for x in row)) for c, row in zip(table["classes"], table["M"], strict=True))
    return Picture("response", svg, caption, ("class", *table["labels"]), tuple(rows))


def _distribution(table: dict[str, Any], i: int) -> Picture:
    who = "The whole field" if table["group"] is None else table["group"]
    interval = "" if table["level"] is None else f" with its {table['level']:.0%} interval"
    caption = (
        f"{who}, {table['n']:,.6g} rows: the estimated distribution{interval}, against the mean of the predictions "
        "themselves. Grey: the lab."
    )
    columns = [table[name] for name in ("mean_prediction", "estimate", "lower", "upper", "lab")]
    rows = zip(table["labels"], *columns, strict=True)
    return Picture(
        f"distribution-{i}",
        as_svg("distribution", table, name=f"distribution {i}", label=caption),
        caption,
        ("", "mean prediction", "estimate", "from", "to", "lab"),
        tuple((label, *("–" if x is None else f"{x:.3f}" for x in numbers)) for label, *numbers in rows),
    )


def _pit(table: dict[str, Any]) -> Picture:
    caption = (
        f"Where {table['n']:,} true numbers fall in their predicted distributions. Calibrated predictions have bars of "
        "one height, within the band; a slope means too low or too high, a hump too wide."
    )
    bars = zip(table["edges"], table["edges"][1:], table["before"], table["after"], strict=False)
    return Picture(
        "pit",
        as_svg("pit", table, name="pit", label=caption),
        caption,
        ("from", "to", "before", "after"),
        tuple((f"{a:.1f}", f"{b:.1f}", f"{old:.1%}", f"{new:.1%}") for a, b, old, new in bars),
    )


def _coverage(table: dict[str, Any]) -> Picture:
    caption = (
        "How many of the numbers central intervals hold, against how many they should. Above the line intervals are "
        "wider than needed, below it they promise too much."
    )
    rows = zip(table["nominal"], table["before"], table["after"], strict=True)
    return Picture(
        "coverage",
        as_svg("coverage", table, name="coverage", label=caption),
        caption,
        ("should hold", "before", "after"),
        tuple((f"{share:.0%}", f"{old:.1%}", f"{new:.1%}") for share, old, new in rows),
    )
