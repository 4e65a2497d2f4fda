"""The figures of a report: an SVG element with a caption each, and its numbers as a table for screen readers.

matplotlib writes ``style`` attributes, which the page's Content-Security-Policy forbids, and fixed colours, which do
not suit a dark page. So every style becomes presentation attributes, which the page's style sheet overrides. The
element has reproducible bytes, no scripts, and no ids except those it refers to.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fieldcal.objects import show
from fieldcal.objects.verdict import WORDS
from fieldcal.plots import draw
from fieldcal.plots.draw_evaluation import SERIES
from fieldcal.plots.style import INK, all_shortened, quiet, size

Table = dict[str, Any]

#: Pixels per point: text of 9 points is as large as the page's captions.
SCALE = 1.5
#: Inches: a narrower figure can be read on a phone. Figures of many bins or classes are wider.
PHONE, WIDE = 4.9, 6.6
#: Letters of a name beside lines on a phone.
SHORT_NAME = 15

#: matplotlib's own style sheet, metadata and indentation, which are removed.
_DROPPED = re.compile(r"<style.*?</style>|<metadata>.*?</metadata>|(?<=\n) +", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")  # names contain no angle brackets: they are escaped
_STYLE = re.compile(r' style="([^"]*)"')
_UNUSED = re.compile(
    r' id="[\w.]+_\d{1,4}"'
)  # such as axes_1: nothing refers to it, and every picture has one
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: small, searchable, readable aloud
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_MOST_NUMBERS = 600  # most cells of a response matrix listed as numbers


@dataclass(frozen=True)
class Picture:
    """A figure with its caption and its numbers; with a narrow version if it is too wide for a phone."""

    name: str
    svg: str
    caption: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    narrow: str = ""


def pictures(content: dict[str, Any]) -> dict[str, list[Picture]]:
    """All figures by section; a section without one has an empty list."""
    figures = content["figures"]
    one = {
        "trust": _trust,
        "breakdown": _breakdown,
        "explanations": _explanations,
        "forest": _forest,
        "changes": _changes,
        "curve": _curve,
        "reliability": _reliability_in_the_lab,
        "labelled": _reliability_in_the_field,
        "response": _response,
        "pit": _pit,
        "coverage": _coverage,
    }
    several = {"bins": _bins, "distributions": _distribution, "over_time": _over_time}
    figures = {**figures, "over_time": (content.get("over_time") or {}).get("panels", [])}
    return {
        **{name: [make(figures[name])] if figures.get(name) else [] for name, make in one.items()},
        **{
            name: [make(table, i) for i, table in enumerate(figures.get(name, []))]
            for name, make in several.items()
        },
    }


def _picture(
    kind: str,
    table: Table,
    caption: str,
    head: Sequence[str] = (),
    rows: Iterable[tuple[str, ...]] = (),
    *,
    name: str | None = None,
) -> Picture:
    """The figure drawn by the function ``kind`` of `fieldcal.plots.draw`."""
    name = name or kind
    return Picture(name, as_svg(kind, table, name=name, label=caption), caption, tuple(head), tuple(rows))


def _trust(table: Table) -> Picture:
    caption = (
        f"Cross-validation over {table['groups']:,} groups of the lab: change of log loss by trust, the weight of "
        "the correction. Negative is an improvement; the band is one standard error, with groups as the "
        "unit."
    )
    points = zip(table["trust"], table["change"], table["se"], strict=True)
    rows = ((f"{t:.2f}", f"{round(c, 4) + 0.0:+.4f}", f"{s:.4f}") for t, c, s in points)
    return _picture("trust", table, caption, ("trust", "change of log loss", "standard error"), rows)


def _breakdown(table: Table) -> Picture:
    groups = table["reference_groups"]
    caption = (
        f"Which shares of {table['class']} in the whole field are possible if some rows are scored differently than "
        "rows of their class in the lab, beyond those that no share explains. Ticks: violations that one, five and "
        f"nine of ten {groups} stay below, measured with labels."
    )
    points = zip(table["changes"], table["lower"], table["upper"], strict=True)
    rows = ((f"{change:.1%}", f"{low:.1%}", f"{high:.1%}") for change, low, high in points)
    return _picture("breakdown", table, caption, ("scored differently", "share at least", "at most"), rows)


def _explanations(table: Table) -> Picture:
    caption = (
        "Probability of each hypothesis about the field, before and after its labels "
        f"{show.amount(table['rows'])} of them."
    )
    lines = zip(table["names"], table["meanings"], table["before"], table["after"], strict=True)
    rows = ((f"{name}: {meaning}", f"{old:.3f}", f"{new:.3f}") for name, meaning, old, new in lines)
    return _picture("explanations", table, caption, ("explanation", "before labels", "after labels"), rows)


def _forest(table: Table) -> Picture:
    shown, total = table["shown"], table["total"]
    which = f" {shown:,} of {total:,} are drawn: the largest, and those with the largest differences." * (
        shown < total
    )
    hollow, filled = (
        ("as judged", "the estimated share") if table["judged"] else ("the mean prediction", "the estimate")
    )
    caption = (
        f"Hollow: {hollow}. Filled: {filled}{_with_interval(table)}.{which} The table below has all of them "
        "and can be searched."
    )
    if any(status not in WORDS for status in table["status"]):
        caption += " For a word or star beside the rows, see the column Status of that table."
    short = as_svg("forest", _narrowed(table), name="forest-narrow", label=caption, width=PHONE)
    return replace(_picture("forest", table, caption), narrow=short)


def _narrowed(table: Table) -> Table:
    """The table with short names, and a star for a status; the table of groups has both in full."""
    return {
        **table,
        "groups": all_shortened(table["groups"], SHORT_NAME),
        "status": [status if status in WORDS else "*" for status in table["status"]],
    }


def _over_time(table: Table, i: int) -> Picture:
    who = "the whole field" if table["group"] is None else table["group"]
    caption = f"Share of {table['class']} over time, {who}{_with_interval(table)}."
    if any(share is not None for share in table["labelled_share"]):
        caption += " Labelled shares of windows with five labelled rows or more."
    if table["alarms"]:
        caption += f" Alarms: {', '.join(table['windows'][t] for t in table['alarms'])}."
    columns = ("n", "mean_prediction", "estimate", "lower", "upper")
    rows = zip(table["windows"], *(table[name] for name in columns), strict=True)
    shown = ((w, show.amount(n), *map(_three_digits, shares)) for w, n, *shares in rows)
    head = ("window", "rows", "mean prediction", "estimate", "from", "to")
    return _picture("over_time", table, caption, head, shown, name=f"over-time-{i}")


def _changes(table: Table) -> Picture:
    caption = (
        f"How far the estimate of {table['class']} is from the mean prediction, over {table['groups']:,} groups: "
        "share of the field's rows."
    )
    bars = zip(table["edges"], table["edges"][1:], table["rows_share"], strict=False)
    rows = ((f"{a:+.3f}", f"{b:+.3f}", f"{s:.1%}") for a, b, s in bars)
    return _picture("changes", table, caption, ("difference of at least", "and below", "share of rows"), rows)


def _bins(table: Table, i: int) -> Picture:
    misfit = ""
    if table["df"] > 0 and table["effect"] is not None and table["p_value"] is not None:
        misfit = f"Misfit: Cohen's w {table['effect']:.2f} beyond noise, p = {table['p_value']:.2g}."
    caption = (
        f"{_who(table)}: distribution of predictions, observed and expected if only the class shares had changed. "
        f"{misfit}"
    )
    cells = zip(table["labels"], table["observed"], table["expected"], table["lab"], strict=True)
    rows = ((label, *map(_three_digits, numbers)) for label, *numbers in cells)
    return _picture("bins", table, caption, ("bin", "observed", "expected", "lab"), rows, name=f"bins-{i}")


def _curve(table: Table) -> Picture:
    caption = (
        f"Recalibrated against raw probability of {table['class']}. On the diagonal it is unchanged; "
        "above, it is raised."
    )
    lines = [{"name": "whole field", "new": table["whole"]}, *table["curves"]]
    points = list(enumerate(table["old"]))[::5]
    rows = ((f"{old:.2f}", *(f"{line['new'][i]:.3f}" for line in lines)) for i, old in points)
    return _picture("curve", table, caption, ("raw prediction", *(line["name"] for line in lines)), rows)


def _reliability_in_the_lab(table: Table) -> Picture:
    return _reliability(table, "The lab, before any recalibration", "reliability")


def _reliability_in_the_field(table: Table) -> Picture:
    return _reliability(table, "Labelled field rows", "labelled")


def _reliability(table: Table, where: str, name: str) -> Picture:
    caption = (
        f"{where}: mean prediction of {table['class']} against its share, by bins of the prediction, ± 2 standard "
        "errors. On the diagonal predictions are calibrated."
    )
    rows = (
        (SERIES[series["name"]][1], f"{mean:.3f}", f"{share:.3f}", f"{show.amount(n)}")
        for series in table["series"]
        for mean, share, n in zip(series["mean"], series["share"], series["n"], strict=True)
    )
    return _picture(
        "reliability", table, caption, ("series", "mean prediction", "share", "rows"), rows, name=name
    )


def _response(table: Table) -> Picture:
    caption = (
        "The response matrix: of the lab rows of each class, the share whose prediction falls into "
        "each bin. Classes with similar rows cannot be distinguished."
    )
    if len(table["classes"]) * len(table["labels"]) > _MOST_NUMBERS:
        return _picture("response", table, caption)
    cells = zip(table["classes"], table["M"], strict=True)
    rows = ((name, *map(_three_digits, shares)) for name, shares in cells)
    return _picture("response", table, caption, ("class", *table["labels"]), rows)


def _distribution(table: Table, i: int) -> Picture:
    caption = (
        f"{_who(table)}: the estimated distribution{_with_interval(table)}, against the mean of the predictions "
        "themselves. Grey: the lab."
    )
    columns = [table[name] for name in ("mean_prediction", "estimate", "lower", "upper", "lab")]
    rows = (
        (label, *map(_three_digits, cells)) for label, *cells in zip(table["labels"], *columns, strict=True)
    )
    head = ("", "mean prediction", "estimate", "at least", "at most", "lab")
    return _picture("distribution", table, caption, head, rows, name=f"distribution-{i}")


def _pit(table: Table) -> Picture:
    caption = (
        f"Position of {table['n']:,} true numbers in their predicted distributions. Calibrated predictions have bars "
        "of equal height, within the band; a slope means bias, a hump means predictions that are too wide."
    )
    bars = zip(table["edges"], table["edges"][1:], table["before"], table["after"], strict=False)
    rows = ((f"{a:.1f}", f"{b:.1f}", f"{old:.1%}", f"{new:.1%}") for a, b, old, new in bars)
    return _picture("pit", table, caption, ("at least", "and below", "raw", "recalibrated"), rows)


def _coverage(table: Table) -> Picture:
    caption = (
        "Coverage of central intervals against their nominal level. Above the line intervals are "
        "too wide, below it too narrow."
    )
    points = zip(table["nominal"], table["before"], table["after"], strict=True)
    rows = ((f"{share:.0%}", f"{old:.1%}", f"{new:.1%}") for share, old, new in points)
    return _picture("coverage", table, caption, ("should hold", "raw", "recalibrated"), rows)


def _who(table: Table) -> str:
    who = "The whole field" if table["group"] is None else table["group"]
    return f"{who}, {show.amount(table['n'])} rows"


def _with_interval(table: Table) -> str:
    return "" if table["level"] is None else f" with its {table['level']:.0%} interval"


def _three_digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


# -- SVG that stands inside a page -----------------------------------------------------------------------------


def as_svg(picture: str, table: dict[str, Any], *, name: str, label: str, width: float | None = None) -> str:
    """The SVG element of a table.

    Parameters
    ----------
    picture : function of `fieldcal.plots.draw`
    table : its data
    name : unique on the page; prefix of the ids inside
    label : text for screen readers
    width : in inches; by default as needed, at least that of a phone
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    # From matplotlib's defaults, so that the page does not depend on the user's style.
    with style.context(["default", {**_SETTINGS, "svg.hashsalt": f"fieldcal {name}"}]), quiet():
        across, down = size(picture, table)
        across = width or (min(across, PHONE) if across < WIDE else across)
        figure = Figure(figsize=(across, down), layout="constrained")
        getattr(draw, picture)(table, ax=figure.add_subplot())
        text = io.BytesIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _inline(text.getvalue().decode("utf-8"), label)


def _inline(text: str, label: str) -> str:
    """The element as inline HTML, with a label for screen readers."""
    root = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text)
    assert root is not None
    width, height = (f"{SCALE * float(side):.0f}" for side in root[1].split()[2:])
    head = f'<svg viewBox="{root[1]}" width="{width}" height="{height}" role="img" aria-label="{html.escape(label)}">'
    body = _DROPPED.sub("", text[root.end() :])
    return head + _TAG.sub(_plain_tag, body).strip()


def _plain_tag(tag: re.Match[str]) -> str:
    return _STYLE.sub(_as_attributes, _UNUSED.sub("", tag[0]).replace(" xlink:href=", " href="))


def _as_attributes(style: re.Match[str]) -> str:
    """``fill: #fff; stroke-width: 2`` as attributes; of a font only the size, as its family is the page's."""
    attributes = dict(
        part.strip().split(": ", 1) for part in style[1].replace(":", ": ").split(";") if part.strip()
    )
    font = re.search(r"([\d.]+)px", attributes.pop("font", ""))
    attributes |= {"font-size": font[1]} if font else {}
    return "".join(f' {key}="{value.strip()}"' for key, value in attributes.items())
