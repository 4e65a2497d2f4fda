"""What labelled rows of the field decide, and whether they are what they are said to be."""

from __future__ import annotations

import numpy as np

from fieldcal.core.hypotheses import KINDS, Kind
from fieldcal.core.policy import POLICY
from fieldcal.core.trust import correction_size
from fieldcal.objects import Finding, group_keys, show
from fieldcal.objects.from_model import FieldLabels, FromModel, PriorPredictive
from fieldcal.objects.verdict import State
from fieldcal.types import Floats
from fieldcal.verbs.findings.evidence import BINS, BY_CLASS, BY_SCORE, Seen

#: Findings that speak of predictions and decisions, not of the estimate; and doubts that labels have answered.
_TO_WEIGH = ("uncalibrated", "recall_lost", "errors_traded", "misfit", "some_class_rows")
#: Doubts about the differences of groups that labels have answered where they decided for label shift between them.
_OF_GROUPS = ("beyond_rehearsal", "trust_withheld", "rehearsed")
_MORE = "See fieldcal plan for how many more labels would decide, and which rows to label."


#: The hypotheses in codes of findings.
_CODES: dict[Kind, str] = {"label_shift": "label_shift", "unchanged": "same", "other": "other"}


def moved(seen: Seen, question: str) -> Finding | None:
    """How the whole field moved, as far as its labels tell; None without labels, or where the caller set the trust."""
    model, labels = seen.by_model, seen.labels
    if model is None or labels is None or seen.trust.set_by_caller or not _enough(labels):
        return None
    rows = f"{show.amount(labels.n)} labelled rows"
    kind, weight = _likeliest(model)
    little = _size(seen) < POLICY.harmless and model.weight("other") < 1 - POLICY.decided
    if not seen.evidence.overall.shifted and kind != "other":
        return _unmoved(labels, question, rows, little=little)
    if kind != "other" and little:
        text = f"It moved little, and its {rows} need not decide why: the hypotheses hardly differ ({_odds(model)})."
        return Finding(code="labels_unmoved", question=question, state="ok", text=text)
    if weight < POLICY.decided:
        text = f"{rows[0].upper()}{rows[1:]} do not decide: {_odds(model)}."
        return Finding(code="labels_undecided", question=question, state="care", text=text, remedy=_MORE)
    words = {
        "label_shift": "the classes are mixed in other shares, and nothing else changed",
        "unchanged": "the classes of a prediction are as in the lab, although predictions moved",
        "other": "neither label shift nor the lab's classes explain them; the estimate rests on the labels",
    }
    state: State = "ok" if kind == "label_shift" else "care"
    text = f"Decided by {rows}: {words[kind]} (probability {weight:.2f})."
    return Finding(code=f"labels_say_{_CODES[kind]}", question=question, state=state, text=text)


def _unmoved(labels: FieldLabels, question: str, rows: str, *, little: bool) -> Finding:
    still = "The field has not moved from the lab beyond noise"
    if little and _tells_of_shares(labels) and not _surprising(labels.same):
        text = f"{still}, and its {rows} do not say otherwise."
        return Finding(code="labels_unmoved", question=question, state="ok", text=text)
    if _surprising(labels.same):
        text = f"{still}, but the classes of its {rows} are not those that the lab has for such predictions."
    elif not _tells_of_shares(labels):
        text = f"{still}, but most of its {rows} were chosen by class, and do not tell of the shares."
    else:
        text = f"{still}, but there is much of that: {rows} do not rule out a movement."
    return Finding(code="labels_undecided", question=question, state="care", text=text, remedy=_MORE)


def between(seen: Seen, question: str) -> Finding | None:
    """How groups differ, as far as labels tell; None where a rehearsal or the caller speaks, or there are no labels."""
    if seen.labels is None or seen.trust.set_by_caller or seen.evidence.rehearsal is not None:
        return None
    if not _enough(seen.labels):
        return None
    if seen.evidence.between is None or not seen.evidence.between.shifted:
        return None
    trust, rows = seen.trust.between, seen.labels.n
    if max(trust, 1 - trust) < POLICY.decided:
        text = f"{show.amount(rows)} labelled rows do not decide: label shift between them has probability {trust:.2f}."
        return Finding(
            code="labels_between_undecided", question=question, state="care", text=text, remedy=_MORE
        )
    if trust < 0.5:
        text = f"Not so, say {show.amount(rows)} labelled rows (probability {1 - trust:.2f}): these are not followed."
        return Finding(code="labels_between_other", question=question, state="care", text=text)
    text = f"So say {show.amount(rows)} labelled rows (probability {trust:.2f})."
    return Finding(code="labels_between", question=question, state="ok", text=text)


def contradicted(seen: Seen) -> Finding | None:
    """Labels that are not what label shift foretold; for a trust that the caller set, whatever it is."""
    labels = seen.labels
    if labels is None or labels.observed is None:
        return None
    question = "Do the labels agree with what was foretold of them?"
    told = labels.label_shift if labels.label_shift is not None else labels.same
    if told is None or not _surprising(told):
        return Finding(code="labels_agree", question=question, state="ok", text=_agreement(seen, labels))
    k = _shown(labels.observed - told.expected)
    who = "label shift" if told is labels.label_shift else "the lab's classes"
    text = f"Of the labelled rows {_percent(labels.observed[k])} are {_class(seen, k)}; {who} foretold "
    text += f"{_percent(told.expected[k])} (a difference that chance makes in {told.rarity} of cases)"
    if labels.same is not None and told is not labels.same:
        text += f", the lab's classes {_percent(labels.same.expected[k])}"
    if (
        seen.by_model is not None
        and seen.by_model.weight("label_shift") >= POLICY.decided
        and not seen.trust.set_by_caller
    ):
        text += "; label shift is the likeliest explanation all the same."
        return Finding(code="labels_agree", question=question, state="ok", text=text)
    text += "."
    return Finding(code="labels_contradict", question=question, state="care", text=text)


def random_sample(seen: Seen) -> Finding | None:
    """Rows that are said to be drawn at random, and do not look like it."""
    if seen.labels is None or seen.labels.looks_random is None:
        return None
    question = "Do the labelled rows look like a random sample of the field?"
    chance = seen.labels.looks_random
    if chance >= POLICY.beyond_doubt:
        text = f"As far as their predictions tell (p = {chance:.2f})."
        return Finding(code="labels_random", question=question, state="ok", text=text)
    text = f"No: their predictions are distributed otherwise than those of the field (p = {chance:.1g})."
    remedy = f"If they were chosen by their predictions, say {BY_SCORE}, which changes nothing here; if by "
    remedy += f"their class, {BY_CLASS}, which does."
    return Finding(code="labels_not_random", question=question, state="care", text=text, remedy=remedy)


def scores_hold(seen: Seen) -> Finding | None:
    """Scores that mean something else in the field, which no reweighting of the classes mends."""
    if seen.labels is None:
        return None
    question, labels = "Do scores mean the same in the field, but for the mix of classes?", seen.labels
    if seen.trust.set_by_caller:  # labels speak of scores under what the caller believes
        return None
    if labels.changed < POLICY.sure:
        text = "As far as the labels tell."
        return Finding(code="scores_hold", question=question, state="ok", text=text)
    text = f"Scores mean something else in the field: they are off by about {labels.change:.1f} on the logit scale, "
    text += f"beside any reweighting of the classes (probability {labels.changed:.2f})."
    return Finding(
        code="scores_off",
        question=question,
        state="care",
        text=text,
        remedy=f"Recalibrate each bin by its labels: {BINS}.",
    )


def for_people(seen: Seen, finding: Finding) -> Finding:
    """Once labels have earned the estimate, what decisions make of it is no doubt about it, but for people to weigh."""
    if seen.labels is None or finding.state != "care" or finding.code not in (*_TO_WEIGH, *_OF_GROUPS):
        return finding
    earned = moved(seen, "")
    if earned is None or earned.state != "ok":
        return finding
    if finding.code in _OF_GROUPS and seen.trust.between < POLICY.decided:
        return finding
    remedy = (
        f"Recalibrate each bin by its labels: {BINS}." if finding.code == "uncalibrated" else finding.remedy
    )
    return finding.model_copy(update={"state": "ask", "remedy": remedy})


def _size(seen: Seen) -> float:
    """Of the full correction of the whole field, in log loss: what it would cost if the lab's classes were right."""
    if seen.whole is None:
        return np.inf
    ratio = np.log(np.maximum(seen.whole.urc, 1e-12)) - np.log(np.maximum(seen.lab.p_lab, 1e-12))
    V = np.asarray(seen.field.V, dtype=np.float64).sum(axis=0, keepdims=True)
    return correction_size(seen.lab.bin_means, V, ratio[None])


def among_the_rows(seen: Seen) -> Finding | None:
    """Labelled rows that cannot be rows of the field."""
    if seen.labels is None or not seen.labels.beyond:
        return None
    n = seen.labels.beyond
    whom = "It has" if not seen.field.grouped else f"{n:,} groups have" if n > 1 else "A group has"
    return Finding(
        code="labels_beyond_rows",
        question="Are the labelled rows rows of this field?",
        state="care",
        text=f"{whom} more labelled rows in a bin of predictions than rows: not all of them were counted.",
        remedy="Count the labelled rows too, or, if they come from elsewhere, extend the lab by them in Python: "
        "lab.extended(field).",
    )


def _tells_of_shares(labels: FieldLabels) -> bool:
    return labels.n - labels.rows.get("by_class", 0.0) >= POLICY.enough


def _surprising(found: PriorPredictive | None) -> bool:
    return found is not None and found.p_value < POLICY.contradicts


def _enough(labels: FieldLabels) -> bool:
    return labels.n >= POLICY.enough


def _likeliest(model: FromModel) -> tuple[Kind, float]:
    kind = max(KINDS, key=model.weight)
    return kind, model.weight(kind)


def _odds(model: FromModel) -> str:
    shift, same, other = (model.weight(kind) for kind in KINDS)
    return f"label shift has probability {shift:.2f}, the lab's classes {same:.2f}, neither {other:.2f}"


def _agreement(seen: Seen, labels: FieldLabels) -> str:
    assert labels.observed is not None
    told = labels.label_shift if labels.label_shift is not None else labels.same
    if told is None:
        return "There is nothing to compare."
    k = _shown(labels.observed - told.expected)
    text = f"Of the labelled rows {_percent(labels.observed[k])} are {_class(seen, k)}, "
    return f"{text}where {_percent(told.expected[k])} were foretold."


def _shown(difference: Floats) -> int:
    return 1 if len(difference) == 2 else int(np.abs(difference).argmax())


def _class(seen: Seen, k: int) -> str:
    return group_keys.show(seen.lab.classes[k], width=30)


def _percent(share: float) -> str:
    return f"{share:.1%}"
