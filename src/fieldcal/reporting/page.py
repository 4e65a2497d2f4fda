"""The page: one HTML file with everything in it, for which nothing is ever fetched.

The Content-Security-Policy allows one script and one style sheet, by their hashes, and nothing else: a script that
came in with a name would not run even if it got past the escaping.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from functools import cache
from importlib.resources import files
from typing import Any

from fieldcal.extras import require
from fieldcal.reporting.pictures import Picture

#: Lines of the table of groups that are there without JavaScript, and on paper.
STATIC_LINES = 400
#: Prevalences on the page are whole multiples of this.
STEP = 1e-5

_NUMBERS = ("naive", "value", "lower", "upper", "truth")
STATES = {
    "fine": ("✓", "fine"),
    "look": ("!", "look at it"),
    "against": ("✗", "speaks against"),
    "ask": ("?", "only you can know"),
}


def page(content: dict[str, Any], pictures: dict[str, list[Picture]]) -> str:
    """The HTML of a report."""
    script, sheet = _asset("page.js"), _asset("page.css")
    return str(
        _environment()
        .get_template("page.html")
        .render(
            content=content,
            pictures=pictures,
            policy=policy(script, sheet),
            script=script,
            sheet=sheet,
            data=packed(content["groups"]),
            lines=lines(content["groups"]),
            states=STATES,
            statuses=sorted({flag for s in content["groups"]["status"] for flag in s.split(",")} - {"ok"}),
        )
    )


def policy(script: str, sheet: str) -> str:
    """What the browser may load: the two things that are here, and pictures that are written out."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(sheet)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def packed(groups: dict[str, Any]) -> str:
    """The table of groups for the script: JSON, deflated, in base64, which no name can break out of."""
    columns = {
        **{key: groups[key] for key in ("unit", "names", "status", "n")},
        "effect": [round(x, 3) for x in groups["effect"]],
        "classes": [
            {"class": c["class"], **{key: _steps(c[key]) for key in _NUMBERS}} for c in groups["classes"]
        ],
        "step": STEP,
    }
    text = json.dumps(columns, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def lines(groups: dict[str, Any]) -> list[dict[str, Any]]:
    """The first lines of the table, numbers and texts, for who has no script.

    Texts are made of the same whole steps as in the script, and with halves up: no line changes when it takes over.
    """
    first = groups["classes"][0]
    return [
        _line(
            {
                "name": groups["names"][i],
                **{key: groups[key][i] for key in ("n", "effect", "status")},
                **{key: None if first[key] is None else first[key][i] for key in _NUMBERS},
            }
        )
        for i in range(min(len(groups["names"]), STATIC_LINES))
    ]


def _line(given: dict[str, Any]) -> dict[str, Any]:
    steps = {key: _step(given[key]) for key in _NUMBERS}
    n, value, naive = given["n"], steps["value"] or 0, steps["naive"] or 0
    ends = [_share(steps["lower"]), _share(steps["upper"])]
    return {
        **given,
        "rows": f"{n:,.0f}" if n == int(n) else f"{math.floor(10 * n + 0.5) / 10:,.1f}",
        "predicted": _share(naive),
        "estimate": _share(value),
        "interval": "" if steps["lower"] is None else " – ".join(ends),
        "change": f"{'-' if value < naive else '+'}{_tenths(abs(value - naive))}",
        "labels": _share(steps["truth"]),
        "misfit": f"{math.floor(100 * round(given['effect'], 3) + 0.5) / 100:.2f}",
    }


def _tenths(steps: int) -> str:
    """Steps in percent, to a tenth."""
    tenth = round(0.001 / STEP)
    return f"{(2 * steps + tenth) // (2 * tenth) / 10:.1f}"


def _share(steps: int | None) -> str:
    return "–" if steps is None else f"{_tenths(steps)}%"


def _step(value: float | None) -> int | None:
    return None if value is None else round(value / STEP)


def _steps(values: list[float | None] | None) -> list[int | None] | None:
    return None if values is None else list(map(_step, values))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@cache
def _asset(name: str) -> str:
    return (files("fieldcal.reporting") / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    jinja2 = require("jinja2", "report", purpose="to write a report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "count": _count}
    return environment


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
