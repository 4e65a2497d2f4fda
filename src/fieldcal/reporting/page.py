"""The report as a document: HTML, Markdown or JSON, made of one content through one template engine.

The HTML is one file with everything in it, for which nothing is ever fetched. Its Content-Security-Policy allows one
script and one style sheet, by their hashes, and nothing else: a script that came in with a name would not run even if
it got past the escaping. In both templates every value is escaped unless the template says otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import re
import zlib
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fieldcal import storage
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Prevalence, show
from fieldcal.objects.derived import Pairs
from fieldcal.options import check_kind
from fieldcal.reporting.content import report_content
from fieldcal.reporting.evaluation import evaluate
from fieldcal.reporting.figures import Picture, pictures
from fieldcal.reporting.sections import about_section
from fieldcal.storage import require, write_atomically

#: Lines of the table of groups that are in the HTML without JavaScript, and on paper; and in Markdown.
STATIC_LINES, MARKDOWN_LINES = 400, 30
#: Lines of it that are seen at first.
FIRST_LINES = 10
#: Prevalences on the page are whole multiples of this.
STEP = 1e-5
#: How the state of a finding looks: a sign, and words.
STATES = {
    "ok": ("✓", "fine"),
    "care": ("!", "look at it"),
    "do_not_use": ("✗", "speaks against"),
    "ask": ("?", "only you can know"),
}

_FRAME_HEIGHT = 800  # of the page in a notebook, in pixels
_NUMBERS = ("mean_prediction", "estimate", "lower", "upper", "truth", "break_even")
#: What Markdown, or HTML inside it, would read as something other than itself.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&@])")


@dataclass(frozen=True)
class Report:
    """What was found, for people: as a page, as Markdown, or as data.

    Made by `fieldcal.report`. Equal inputs give equal bytes.

    Examples
    --------
    >>> import fieldcal
    >>> found = fieldcal.report(fieldcal.datasets.example().prev)
    >>> found
    Report: Use with care; 4,000 field rows, 2 groups
    >>> found.html().startswith("<!doctype html>"), found.markdown().startswith("# Recalibration report")
    (True, True)
    >>> sorted(found.dict())[:3]
    ['about', 'changes', 'checklist']
    """

    content: dict[str, Any] = field(repr=False)

    def dict(self) -> dict[str, Any]:
        """Everything on the page as plain data, pictures as the tables behind them; a copy."""
        copy: dict[str, Any] = json.loads(self.json())
        return copy

    def json(self) -> str:
        """The same as JSON text, in one spelling."""
        return storage.canonical(self.content).decode("ascii")

    def markdown(self) -> str:
        """The words and the table as Markdown, without pictures."""
        return as_markdown(self.content)

    def html(self) -> str:
        """The page: complete in itself, nothing is fetched."""
        return self._page

    @cached_property
    def _page(self) -> str:
        require("matplotlib", "report", purpose="to draw a report")
        return as_html(self.content, pictures(self.content))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, atomically; its ending says what: .html, .md or .json."""
        storage.as_path(path)
        ending = Path(path).suffix.lower()
        kinds = {".html": self.html, ".htm": self.html, ".md": self.markdown, ".json": self.json}
        if ending not in kinds:
            raise InputError(
                f"A report is saved as .html, .md or .json, but the file is {os.fspath(path)!r}. Add an ending."
            )
        write_atomically(path, kinds[ending]().encode("utf-8"))

    def _repr_html_(self) -> str:
        """In a frame of its own, so that page and notebook leave each other alone."""
        return (
            f'<iframe srcdoc="{html.escape(self.html())}" width="100%" height="{_FRAME_HEIGHT}" '
            'sandbox="allow-scripts allow-downloads" title="fieldcal report"></iframe>'
        )

    def __repr__(self) -> str:
        verdict, summary = self.content["verdict"], self.content["summary"]
        rows = "rows" if "judge" in self.content else "field rows"
        groups = "" if summary["groups"] is None else f", {summary['groups']:,} groups"
        return f"Report: {verdict['headline']}; {summary['field_rows']:,.0f} {rows}{groups}"


def report(
    prev: Prevalence,
    *,
    of: Hashable = None,
    proba: Any = None,
    y: Any = None,
    groups: Any = None,
    title: str | None = None,
    pairs: Pairs | None = None,
    data: str | None = None,
    model: str | None = None,
    period: str | None = None,
) -> Report:
    """A page for people: may I use this, where did it change, how sure is it?

    Parameters
    ----------
    prev : Prevalence
        What `fieldcal.estimate` returns; it holds its lab and its field.
    of : class, optional
        The class that pictures and table are about; by default the second of two, or the one that is corrected most.
    proba, y, groups : array-like, optional
        Field rows whose labels are known: predictions, labels, and the group of each row if there are groups. The
        report then shows predictions before and after against the truth. They change no estimate. Leave out rows that
        were counted with their labels: they taught the estimate, and are cross-validated (`fieldcal.cross_validate`).
        Of a lab of `fieldcal.regression`: predictive distributions, and numbers.
    title : str, optional
    pairs : Pairs, optional
        Of values, the items that groups were judged on, from `fieldcal.pairs`: groups are compared on the same ones.
    data, model, period : str, optional
        Names of the data and of the model, and the time that the field covers, shown below the title beside the date
        of the report. By default the period is that of the field's batches if these are named by dates.

    Returns
    -------
    Report
        With ``html()``, ``markdown()``, ``json()``, ``dict()`` and ``save(path)``.

    Examples
    --------
    >>> import fieldcal
    >>> data, *_, prev = fieldcal.datasets.example()
    >>> labelled = {"proba": data.proba_field, "y": data.y_field, "groups": data.groups_field}
    >>> found = fieldcal.report(prev, **labelled, title="Week 12")
    >>> found.dict()["labelled"]["rows"]
    4000
    """
    if not isinstance(prev, Prevalence):
        raise InputTypeError(
            f"report takes a Prevalence, as fieldcal.estimate returns it, but got {type(prev).__name__}."
        )
    if (proba is None) != (y is None):
        missing = "y" if y is None else "proba"
        raise InputError(
            f"Labelled rows need predictions and labels: {missing} is missing. Give both or none."
        )
    for name, text in {"title": title, "data": data, "model": model, "period": period}.items():
        if text is not None and not isinstance(text, str):
            raise InputTypeError(f"{name} must be text, but got {text!r:.60}.")
    about = about_section(prev, data=data, model=model, period=period)
    if pairs is not None:
        check_kind("pairs", pairs, Pairs)
        if not prev.is_judged:
            raise InputError(f"{option('pairs')} go with values of a judge or a test. Leave them out.")
    if y is not None and prev.is_judged:
        raise InputError(
            "Labels of values are part of the estimate, so that they do not go with its report. Count them: "
            f"fieldcal.count(lab, values, {option('y')})."
        )
    evaluation = None if y is None else evaluate(prev, proba, y, groups)
    return Report(report_content(prev, of=of, evaluation=evaluation, title=title, about=about, pairs=pairs))


# -- the two templates -----------------------------------------------------------------------------------------


def as_html(content: dict[str, Any], drawn: dict[str, list[Picture]]) -> str:
    script, sheet = _asset("page.js"), _asset("page.css")
    groups = content["groups"]
    return str(
        _environment("html")
        .get_template("judge.html" if "judge" in content else "page.html")
        .render(
            content=content,
            pictures=drawn,
            policy=_security_policy(script, sheet),
            script=script,
            sheet=sheet,
            data=_packed(groups),
            lines=_lines(groups, STATIC_LINES),
            first_lines=FIRST_LINES,
            states=STATES,
            statuses=sorted(
                {flag for s in groups["status"] for flag in s.split(",")},
                key=lambda flag: (flag != "ok", flag),
            ),
        )
    )


def as_markdown(content: dict[str, Any]) -> str:
    """The same words, and the first lines of the table."""
    lines = _lines(content["groups"], MARKDOWN_LINES)
    template = _environment("markdown").get_template("judge.md" if "judge" in content else "report.md")
    return str(template.render(content=content, lines=lines, states=STATES))


def escaped(value: Any) -> str:
    """Text that shows as it is in Markdown, on one line.

    Examples
    --------
    >>> from fieldcal.reporting.page import escaped
    >>> print(escaped("a|b <i> *c*"))
    a\\|b \\<i\\> \\*c\\*
    """
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


@cache
def _environment(kind: Literal["html", "markdown"]) -> Any:
    """Whatever a template prints is escaped: by jinja2 in HTML, by `escaped` in Markdown."""
    jinja2 = require("jinja2", "report", purpose="to write a report")
    escaping: dict[str, dict[str, Any]] = {
        "html": {"autoescape": True},
        "markdown": {"autoescape": False, "finalize": escaped},
    }
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **escaping[kind],
    )
    environment.filters |= {"percent": _percent, "count": show.amount, "status": show.status}
    return environment


@cache
def _asset(name: str) -> str:
    return (files("fieldcal.reporting") / "templates" / name).read_text(encoding="utf-8")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _security_policy(script: str, sheet: str) -> str:
    """What the browser may load: the two things that are here, and pictures that are written out."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(sheet)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


# -- the table of groups ---------------------------------------------------------------------------------------


def _packed(groups: dict[str, Any]) -> str:
    """All lines for the script: JSON, deflated, in base64, which no name can break out of."""
    columns = {
        **{key: groups[key] for key in ("unit", "names", "status", "n", "labelled")},
        "effect": [round(x, 3) for x in groups["effect"]],
        "classes": [
            {
                "class": c["class"],
                **{key: None if c[key] is None else list(map(_step, c[key])) for key in _NUMBERS},
            }
            for c in groups["classes"]
        ],
        "whole": _packed_whole(groups["whole"]),
        "step": STEP,
    }
    text = json.dumps(columns, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def _packed_whole(whole: dict[str, Any] | None) -> dict[str, Any] | None:
    if whole is None:
        return None
    classes = [{key: _step(c[key]) for key in _NUMBERS} for c in whole["classes"]]
    effect = round(whole["effect"], 3)
    return {
        "names": whole["name"],
        "n": whole["n"],
        "effect": effect,
        "labelled": whole["labelled"],
        "status": whole["status"],
        "classes": classes,
    }


def _lines(groups: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """The whole field, where there are groups, and the first lines."""
    whole = groups["whole"]
    lines = first_lines(groups, most)
    if whole is None:
        return lines
    given = {key: whole[key] for key in ("name", "n", "effect", "labelled", "status")}
    return [_line({**given, **whole["classes"][0]}), *lines]


def first_lines(groups: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """The first lines, numbers and texts, for who has no script.

    Texts are made of the same whole steps as in the script, and with halves up: no line changes when it takes over.
    """
    first = groups["classes"][0]
    return [
        _line(
            {
                "name": groups["names"][i],
                **{key: groups[key][i] for key in ("n", "effect", "status")},
                "labelled": None if groups["labelled"] is None else groups["labelled"][i],
                **{key: None if first[key] is None else first[key][i] for key in _NUMBERS},
            }
        )
        for i in range(min(len(groups["names"]), most))
    ]


def _line(given: dict[str, Any]) -> dict[str, Any]:
    steps = {key: _step(given[key]) for key in _NUMBERS}
    n, after, before = given["n"], steps["estimate"] or 0, steps["mean_prediction"] or 0
    ends = [_share(steps["lower"]), _share(steps["upper"])]
    return {
        **given,
        "rows": _rows(n),
        "labelled_rows": "" if given["labelled"] is None else _rows(given["labelled"]),
        "predicted": _share(before),
        "estimated": _share(after),
        "interval": "" if steps["lower"] is None else " – ".join(ends),
        "change": _points(after - before),
        "labels": _share(steps["truth"]),
        "breaks_even": _share(steps["break_even"]),
        "misfit": f"{math.floor(100 * round(given['effect'], 3) + 0.5) / 100:.2f}",
    }


def _rows(n: float) -> str:
    return f"{math.floor(10 * n + 0.5) / 10:,.1f}".removesuffix(".0")


def _tenths(steps: int) -> str:
    tenth = round(0.001 / STEP)
    return f"{(2 * steps + tenth) // (2 * tenth) / 10:.1f}"


def _points(steps: int) -> str:
    size = _tenths(abs(steps))
    return size if size == "0.0" else f"{'-' if steps < 0 else '+'}{size}"


def _share(steps: int | None) -> str:
    return "–" if steps is None else f"{_tenths(steps)}%"


def _step(value: float | None) -> int | None:
    return None if value is None else round(value / STEP)
