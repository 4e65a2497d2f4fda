"""The sections that reports on probabilities and on categories share: names, table of groups, summaries, details."""

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

from fieldcal.objects import Prevalence, break_even, group_keys, show
from fieldcal.objects.verdict import WORDS
from fieldcal.reporting.evaluation import Evaluation
from fieldcal.types import Floats

NAME_WIDTH = 72  # letters


def shown_name(key: Any) -> str:
    """One line, without control or direction characters, not endless."""
    return group_keys.show(key, width=NAME_WIDTH) or '""'


def interval_words(prev: Prevalence, g: int | None, k: int) -> str:
    """The interval of class k in group g, or in the whole field, in brackets; empty if there is none."""
    held, at = (prev.whole, k) if g is None else (prev, (g, k))
    if held.lower is None or held.upper is None:
        return ""
    return f" ({prev.level:.0%} interval {held.lower[at]:.1%} to {held.upper[at]:.1%})"


def ends_of_whole(prev: Prevalence, k: int) -> dict[str, float | None]:
    """The interval of class k in the whole field, if there is one."""
    ends = {"lower": prev.whole.lower, "upper": prev.whole.upper}
    return {name: None if end is None else float(end[k]) for name, end in ends.items()}


def verdict_section(prev: Prevalence, meaning: str, advice: list[str], last: str) -> dict[str, Any]:
    """The verdict, its reasons, and what to do; the last advice only if it is ok."""
    level = prev.verdict.level
    advice = [*advice, *([last] if level == "ok" else [])]
    return {
        "level": level,
        "headline": WORDS[level],
        "meaning": meaning,
        "reasons": [finding.text for finding in prev.verdict.reported],
        "advice": list(dict.fromkeys(advice)),
    }


def number_or_none(n: int) -> str:
    """How many, in a sentence."""
    return f"{n:,}" if n else "none"


# -- the table of groups ------------------------------------------------------------------------------------

#: Groups times classes beyond which the table of groups holds one class only.
MOST_CELLS = 200_000

_COLUMNS = ("mean_prediction", "estimate", "lower", "upper")


def table_of_groups(prev: Prevalence, k: int, evaluation: Evaluation | None) -> dict[str, Any]:
    """Plain columns; a line is a group, or a class where there is one population. The whole field is by itself.

    First come the lines that most rows depend on: for which the estimate moves most rows from class to class, which is
    so where a group is large or far off. Of values, the highest shares come first.
    """
    more = {"truth": None if evaluation is None else evaluation.truth, "break_even": _break_evens(prev)}
    if not prev.field.grouped:
        return _table_of_classes(prev, more)
    G, K = prev.estimate.shape
    shown = [k] if K == 2 or G * K > MOST_CELLS else [k, *(j for j in range(K) if j != k)]
    change = np.abs(prev.estimate - prev.mean_prediction)
    # Of a regression one interval says little: all of them together.
    share = change.sum(axis=1) / 2 if prev.lab.outcome.noun == "interval" else change[:, k]
    moved = np.asarray(prev.n, dtype=np.float64) * share
    first = prev.estimate[:, k] if prev.is_judged else moved
    order = np.lexsort((np.arange(G), -np.asarray(prev.n), -first))
    labelled = labelled_rows_of(prev)
    return {
        "unit": "group",
        "names": _distinct([shown_name(prev.groups[g]) for g in order]),
        "n": np.asarray(prev.n)[order].tolist(),
        "effect": np.asarray(prev.fit.effect)[order].tolist(),
        "labelled": None if labelled is None else labelled[order].sum(axis=1).tolist(),
        "status": [prev.status[g] for g in order],
        "classes": [
            {"class": shown_name(prev.classes[j]), **_columns_of_class(prev, more, (order, j))} for j in shown
        ],
        "whole": _whole_line(
            prev,
            shown,
            {
                "truth": None if evaluation is None else evaluation.share(),
                "break_even": None if more["break_even"] is None else more["break_even"][-1],
            },
        ),
        "left_out": K - len(shown) if K > 2 else 0,
    }


def _whole_line(prev: Prevalence, shown: list[int], more: dict[str, Floats | None]) -> dict[str, Any]:
    """The whole field, in the columns that groups have: one cell for each."""
    columns = {name: getattr(prev.whole, name) for name in _COLUMNS}
    labelled = labelled_rows_of(prev)
    return {
        "name": prev.words.whole,
        "n": np.sum(prev.n).item(),
        "effect": prev.fit.whole_effect,
        "labelled": None if labelled is None else float(labelled.sum()),
        "status": "",
        "classes": [
            {name: None if p is None else float(p[j]) for name, p in {**columns, **more}.items()}
            for j in shown
        ],
    }


def _table_of_classes(prev: Prevalence, more: dict[str, Floats | None]) -> dict[str, Any]:
    order = np.argsort(-np.abs(prev.estimate[0] - prev.mean_prediction[0]), kind="stable")
    K, labelled = len(order), labelled_rows_of(prev)
    return {
        "unit": prev.lab.outcome.noun,
        "names": _distinct([shown_name(prev.classes[j]) for j in order]),
        "n": np.repeat(prev.n, K).tolist(),
        "effect": np.repeat(prev.fit.effect, K).tolist(),
        "labelled": None if labelled is None else labelled[0, order].tolist(),
        "status": [prev.status[0]] * K,
        "classes": [{"class": "", **_columns_of_class(prev, more, (0, order))}],
        "whole": None,
        "left_out": 0,
    }


def labelled_rows_of(prev: Prevalence) -> Floats | None:
    """Of values: rows that have a label, by group and class, (G, K); None where none has."""
    if not prev.is_judged or not prev.field.labelled:
        return None
    rows = np.zeros(prev.estimate.shape)
    for labels in prev.field.labelled.values():
        rows[labels.at] += labels.counts.sum(axis=2)
    return rows


def _columns_of_class(prev: Prevalence, more: dict[str, Floats | None], at: Any) -> dict[str, Any]:
    """The numbers of one class; ``at`` says which cells of the (G, K) tables. JSON has no NaN."""
    columns = {name: getattr(prev, name) for name in _COLUMNS}
    return {
        name: None if table is None else [None if v != v else v for v in table[at].tolist()]
        for name, table in {**columns, **more}.items()
    }


def _break_evens(prev: Prevalence) -> Floats | None:
    """Break-even against the lab's share, (G + 1, K), with the whole field last; None where there is none."""
    table = break_even.against_lab(prev)["break_even"]
    return None if np.isnan(table).all() else table


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) == len(names):
        return names
    total, seen, found = Counter(names), Counter[str](), []
    for text in names:
        seen[text] += 1
        found.append(text if total[text] == 1 else f"{text} #{seen[text]}")
    return found


# -- one sentence for each folded part ----------------------------------------------------------------------

Content = dict[str, Any]

#: Findings that summarise the sections on the fit and on the model.
_FIT_CODES = ("looks_alike", "unlike_any_mixture", "mixture_untestable", "groups_inconsistent")
_MODEL_CODES = ("told_apart", "one_bin", "confusable_classes", "calibrated", "uncalibrated")
_STATES = {
    "do_not_use": ("is against use", "are against use"),
    "care": ("needs attention", "need attention"),
    "ask": ("is for you to answer", "are for you to answer"),
    "ok": ("is fine", "are fine"),
}


def section_summaries(content: Content) -> dict[str, str]:
    """A summary sentence of every section in a report on predictions."""
    return {
        "pictures": _pictures(content),
        "trust": _trust(content["summary"]),
        **({"labels": _labels(content)} if content["labels"] else {}),
        **({"labelled": content["labelled"]["result"]} if content["labelled"] else {}),
        "fit": _texts(content, _FIT_CODES),
        "predictions": _predictions(content),
        "model": _texts(content, _MODEL_CODES),
        **_ends(content),
    }


def judge_section_summaries(content: Content) -> dict[str, str]:
    """A summary sentence of every section in a report on categories."""
    differences, judge = content["differences"], _judge(content)
    return {
        **({} if differences is None else {"differences": differences["best"]}),
        "judge": judge or " ".join(content["judge"]["same"]),
        "rests": _labelled_rows(content),
        **_ends(content),
    }


def _ends(content: Content) -> dict[str, str]:
    (rows, dropped), by = content["quality"][:2], Counter(item["state"] for item in content["checklist"])
    counted = [f"{by[state]} {words[by[state] > 1]}" for state, words in _STATES.items() if by[state]]
    return {
        "checklist": f"Of {sum(by.values())} questions {_listed(counted)}.",
        "details": f"{show.amount(rows['count'])} rows counted, {show.amount(dropped['count'])} dropped. Settings, "
        "versions, digests, and how to read this.",
    }


def _pictures(content: Content) -> str:
    figures, summary = content["figures"], content["summary"]
    parts = []
    if figures["changes"]:
        up, down = figures["changes"]["up"], figures["changes"]["down"]
        sentence = (
            f"The estimate of the share of {summary['class']} is above the mean prediction in {up:,} groups"
        )
        parts.append(f"{sentence} and below it in {down:,}.")
    if len(figures["distributions"]) > 1:
        names = [table["group"] for table in figures["distributions"][1:]]
        parts.append(f"Distributions in the groups with the largest differences: {_listed(names)}.")
    if not parts:
        parts.append(f"Mean prediction and estimate of every {summary['outcome']}.")
    return " ".join(parts)


def _trust(summary: dict[str, Any]) -> str:
    groups = "" if summary["groups"] is None else f", between groups {summary['trust_between']:.2f}"
    return f"Probability of label shift: whole field {summary['trust_overall']:.2f}{groups}."


def _labels(content: Content) -> str:
    hypotheses, helps = content["figures"]["explanations"], content["labels"]["helps"]
    before, after = (
        hypotheses[when][hypotheses["names"].index("label shift")] for when in ("before", "after")
    )
    sentence = (
        f"With {show.amount(hypotheses['rows'])} labelled rows label shift has probability {after:.2f}, "
    )
    return f"{sentence}without them {before:.2f}." + (
        f" Recalibrated predictions are {helps}." if helps else ""
    )


def _predictions(content: Content) -> str:
    if content["summary"]["untouched"]:
        return "Predictions stay unchanged."
    curve = content["figures"]["curve"]
    half = len(curve["old"]) // 2
    sentence = (
        f"A prediction of {curve['old'][half]:.0%} for {curve['class']} becomes {curve['whole'][half]:.0%}"
    )
    if content["summary"]["only_calibrated"]:
        return f"{sentence}: calibrated on the lab, not recalibrated."
    if not curve["curves"]:
        return f"{sentence}."
    ends = sorted((line["new"][half], line["name"]) for line in curve["curves"])
    (low, lowest), (high, highest) = ends[0], ends[-1]
    return f"{sentence} over the whole field, {low:.0%} in group {lowest} and {high:.0%} in group {highest}."


def _judge(content: Content) -> str:
    which, judge = content["summary"]["class"], content["judge"]
    if not judge["rates"] or which not in judge["values"]:
        return ""
    j = judge["values"].index(which)
    of = [f"{line['cells'][j]['rate']:.0%} of the rows that are {line['class']}" for line in judge["rates"]]
    return f"It says {which} of {_listed(of)}."


def _labelled_rows(content: Content) -> str:
    rows = content["summary"]["labelled_rows"]
    return f"On {show.amount(rows)} labelled rows." if rows else content["rests_on"][0]


def _texts(content: Content, codes: tuple[str, ...]) -> str:
    return " ".join(item["text"] for item in content["checklist"] if item["code"] in codes)


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


# -- checklist, quality of the data, settings, versions, digests --------------------------------------------

Line = tuple[str, float, str]  # what, how many, and a note

STATUS_NOTES = {
    "prior_only": "no rows, or one bin only: the estimate is that of the prior",
    "few_rows": "few rows: the estimate borrows from other groups",
    "no_labels": "no labelled rows, while other groups have some",
    "not_in_lab": "the lab has no rows of them",
    "novel": "rows in bins without lab rows",
    "inconsistent": "fit no mixture of the classes",
    "boundary": "the best fit is at a share of 0 or 1",
    "not_converged": "the solver reached its iteration limit",
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
    counts: list[Line] = [
        ("Field rows counted", float(field.n.sum()), "with their weights, if they had any"),
        ("Field rows dropped", field.dropped, "no prediction"),
        ("Field predictions moved into [0, 1]", field.clipped, "off by rounding only"),
        ("Lab rows", lab.n, ""),
        ("Lab predictions moved into [0, 1]", lab.clipped, "off by rounding only"),
        ("Field rows in bins that the lab never filled", float(np.sum(prev.fit.novel)), "status novel"),
    ]
    return quality_lines(prev, counts, "Groups", STATUS_NOTES)


def quality_lines(
    prev: Prevalence, counts: list[Line], groups: str, notes: dict[str, str]
) -> list[dict[str, Any]]:
    """The counts, the batches, and how many groups have each status."""
    ids = prev.field.batch_ids
    if ids:
        counts.append(("Batches", len(ids), f"{shown_name(ids[0])} … {shown_name(ids[-1])}"))
    if prev.field.grouped:
        flags = Counter(flag for status in prev.status for flag in status.split(","))
        counts += [(f"{groups} “{show.status(flag)}”", flags[flag], note) for flag, note in notes.items()]
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
