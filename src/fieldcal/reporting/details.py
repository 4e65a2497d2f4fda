"""What every report ends with: the checklist, the quality of the data, settings, versions and digests."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import platform
import re
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from fieldcal.objects import Prevalence, show
from fieldcal.reporting.names import shown_name

STATUS_NOTES = {
    "prior_only": "no rows, or nothing to tell classes apart by: the prior speaks",
    "few_rows": "so few rows that they lean on the other groups",
    "no_labels": "no labelled row of their own, while other groups have some",
    "not_in_lab": "the lab has no rows of them",
    "novel": "rows where the lab had none",
    "inconsistent": "look like no mixture of the classes",
    "boundary": "the best fit lies outside 0 and 1",
    "not_converged": "the solver stopped at its limit",
}


def about_section(
    prev: Prevalence, *, data: str | None, model: str | None, period: str | None
) -> dict[str, str]:
    """What the report is about, and when it was made; the period by default from batches named by their time."""
    days = [name[:10] for name in prev.field.batch_ids if re.match(r"\d{4}-\d\d-\d\d", name)]
    if period is None and days and len(days) == len(prev.field.batch_ids):
        period = min(days) if min(days) == max(days) else f"{min(days)} to {max(days)}"
    made = os.environ.get("SOURCE_DATE_EPOCH")  # as reproducible builds do
    now = dt.datetime.now(dt.UTC) if made is None else dt.datetime.fromtimestamp(int(made), dt.UTC)
    given = {"Data": data, "Model": model, "Period": period, "Made": f"{now:%Y-%m-%d}"}
    return {what: shown_name(text) for what, text in given.items() if text}


def checklist_section(prev: Prevalence) -> list[dict[str, Any]]:
    """Every finding: what was asked, what was seen, what can be done, and which groups it is about."""
    return [
        {
            "code": finding.code,
            "question": finding.question,
            "state": finding.state,
            "text": finding.text,
            "remedy": finding.remedy,
            "groups": [shown_name(key) for key in finding.groups],
        }
        for finding in prev.verdict.findings
    ]


def quality_section(prev: Prevalence) -> list[dict[str, Any]]:
    """Rows that were left out or changed, and how many groups have each status."""
    lab, field = prev.lab, prev.field
    counts: list[tuple[str, float, str]] = [
        ("Field rows counted", float(field.n.sum()), "with their weights, if they had any"),
        ("Field rows dropped", field.dropped, "no prediction"),
        ("Field predictions moved into [0, 1]", field.clipped, "off by rounding only"),
        ("Lab rows", lab.n, ""),
        ("Lab predictions moved into [0, 1]", lab.clipped, "off by rounding only"),
        ("Field rows in bins that the lab never filled", float(np.sum(prev.fit.novel)), "status novel"),
    ]
    if field.batch_ids:
        first, last = (shown_name(field.batch_ids[i]) for i in (0, -1))
        counts.append(("Batches", len(field.batch_ids), f"{first} … {last}"))
    if field.grouped:
        flags = Counter(flag for status in prev.status for flag in status.split(","))
        counts += [
            (f"Groups “{show.status(flag)}”", flags[flag], note) for flag, note in STATUS_NOTES.items()
        ]
    return [{"what": what, "count": count, "note": note} for what, count, note in counts]


def settings_section(prev: Prevalence) -> dict[str, str]:
    """What was asked for and what was learnt, for whoever repeats it."""
    lab = prev.lab
    labelled = "none" if not prev.field.labelled else f"{show.amount(prev.field.n_labelled)}"
    return {
        "bins": f"{lab.n_bins} ({type(lab.partition).__name__})",
        "smoothing of the response matrix": f"{lab.smoothing:.4g} pseudo-rows per class",
        "condition number": f"{lab.conditioning.condition_number:.3g}",
        "prior": prior_in_words(prev),
        "estimate": f"posterior {prev.point}",
        "interval": "none" if prev.level is None else f"{prev.level:.0%}",
        "trust between groups": f"{prev.trust_between:.3f}",
        "trust overall": f"{prev.trust_overall:.3f}",
        "labelled field rows in the estimate": labelled,
        "protected groups": "yes" if prev.protected else "no",
        "seed": str(prev.seed),
        "group columns": ", ".join(shown_name(c) for c in prev.field.by) or "from arrays",
    }


def prior_in_words(prev: Prevalence) -> str:
    """Its name, its parameters, and the numbers that the field taught of it; tables are left out."""
    parts = [", ".join([part["name"], *_parameters(part)]) for part in prev.prior.get("parts", [prev.prior])]
    return ", ".join([" + ".join(parts), *_parameters(prev.learnt)])


def _parameters(given: dict[str, Any]) -> list[str]:
    """Names and numbers in one order: a file has forgotten the one they were made in."""
    numbers = {key: given[key] for key in sorted(given) if isinstance(given[key], (int, float))}
    return [f"{key} {value:.4g}" for key, value in numbers.items()]


def versions_section() -> dict[str, str]:
    """Of what the numbers and the pictures depend on."""
    # Its own, which a source tree has without being installed, and which the package may not import by name.
    own = str(importlib.import_module("fieldcal").__version__)
    others = {name: _version(name) for name in ("numpy", "scipy", "matplotlib")}
    return {"python": platform.python_version(), "fieldcal": own, **others}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def digests_section(prev: Prevalence) -> dict[str, str]:
    """By which the three objects are known."""
    return {"lab": prev.lab.digest, "field": prev.field.digest, "prevalence": prev.digest}
