"""A picture as SVG that stands inside a page: the same bytes every time, no styles, no scripts, no ids but its own.

matplotlib writes ``style`` attributes, which a Content-Security-Policy worth having forbids, and fixed colours, which
do not suit a dark page. So every style becomes a presentation attribute, which the page's own style sheet can answer.
"""

from __future__ import annotations

import io
import re
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
