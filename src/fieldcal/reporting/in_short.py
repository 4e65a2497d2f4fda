"""What each folded part of a report says, in a sentence: so that a reader knows whether to open it.

Made of the content of a report and of nothing else, so that a sentence cannot say another thing than its part.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from fieldcal.objects import show

Content = dict[str, Any]

#: Findings of which the parts on the fit and on the model are the long form.
_FIT = ("looks_alike", "unlike_any_mixture", "mixture_untestable", "groups_inconsistent")
_MODEL = ("told_apart", "one_bin", "confusable_classes", "calibrated", "uncalibrated")
_STATES = {
    "do_not_use": ("speaks against", "speak against"),
    "care": ("is to be looked at", "are to be looked at"),
    "ask": ("only you can know", "only you can know"),
    "ok": ("is fine", "are fine"),
}


def in_short(content: Content) -> dict[str, str]:
    """A sentence for every part of a report on predictions that is there."""
    return {
        "pictures": _pictures(content),
        "trust": _trust(content["summary"]),
        **({"labels": _labels(content)} if content["labels"] else {}),
        **({"labelled": content["labelled"]["result"]} if content["labelled"] else {}),
        "fit": _texts(content, _FIT),
        "predictions": _predictions(content),
        "model": _texts(content, _MODEL),
        **_ends(content),
    }


def judged_in_short(content: Content) -> dict[str, str]:
    """The same of a report on values."""
    found, judge = content["differences"], _judge(content)
    return {
        **({} if found is None else {"differences": found["best"]}),
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
        said = (
            f"The estimate of the share of {summary['class']} is above the mean prediction in {up:,} groups"
        )
        parts.append(f"{said} and below it in {down:,}.")
    if len(figures["distributions"]) > 1:
        names = [table["group"] for table in figures["distributions"][1:]]
        parts.append(f"The distributions in the groups where the two differ most: {_listed(names)}.")
    if not parts:
        parts.append(f"Mean prediction and estimate of every {summary['outcome']}.")
    return " ".join(parts)


def _trust(summary: dict[str, Any]) -> str:
    groups = (
        "" if summary["groups"] is None else f", and that groups differ by it {summary['trust_between']:.2f}"
    )
    return f"That the whole field moved by label shift has the probability {summary['trust_overall']:.2f}{groups}."


def _labels(content: Content) -> str:
    told, helps = content["figures"]["explanations"], content["labels"]["helps"]
    before, after = (told[when][told["names"].index("label shift")] for when in ("before", "after"))
    said = f"With {show.amount(told['rows'])} labelled rows label shift has the probability {after:.2f}, without them "
    return f"{said}{before:.2f}." + (f" Recalibrated predictions are {helps}." if helps else "")


def _predictions(content: Content) -> str:
    if content["summary"]["untouched"]:
        return "Nothing: predictions stay as they are."
    curve = content["figures"]["curve"]
    half = len(curve["old"]) // 2
    said = f"A prediction of {curve['old'][half]:.0%} for {curve['class']} becomes {curve['whole'][half]:.0%}"
    if content["summary"]["only_calibrated"]:
        return f"{said}: calibrated on the lab, not recalibrated."
    if not curve["curves"]:
        return f"{said}."
    ends = sorted((line["new"][half], line["name"]) for line in curve["curves"])
    (low, lowest), (high, highest) = ends[0], ends[-1]
    return f"{said} over the whole field, {low:.0%} in group {lowest} and {high:.0%} in group {highest}."


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
