"""From the numbers of a rule to a finding in words.

A template holds values as ``{name:format}``, formatted as Python does, or by one of `FORMATS`. ``{name:one|other}`` is
the first text where the value is 1 or true, and the second elsewhere; each may hold values, but no other choice.
Options are named in capitals: ``{GROUPS}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from string import Formatter
from typing import Any, NamedTuple

from fieldcal.errors import option, spelled
from fieldcal.objects import Finding, group_keys, show
from fieldcal.objects.verdict import State
from fieldcal.types import Keys

#: Options that templates name, as marked text.
OPTIONS = {
    "BALANCED": option("goal", "balanced", verb="decide"),
    "BINS": option("shape", "bins", verb="recalibrate"),
    "BY_CLASS": option("design", "by_class"),
    "BY_SCORE": option("design", "by_score"),
    "CATEGORIES": option("kind", "values", verb="learn", flag="predictions COLUMN"),
    "CLASSES": option("classes"),
    "DESIGN_EFFECT": option("design_effect"),
    "GROUPS": option("groups", verb="learn"),
    "ISOTONIC": option("calibration", "isotonic", verb="learn"),
    "MAX_ITER": option("max_iter"),
    "POSITIVE": option("positive"),
    "PROTECTED": option("protected", True),
    "SIGMOID": option("calibration", "sigmoid", verb="learn"),
}
_LARGE_FACTOR = 10.0  # larger ones are not worth a number: shares end at 0 and 1
_NAMES = 6  # in a sentence


class Message(NamedTuple):
    """A finding in words: its states, and templates of its text and remedy, or several by the case a rule names."""

    states: tuple[State, ...]
    text: str | dict[str, str]
    remedy: str | dict[str, str] = ""

    def templates(self) -> Iterator[str]:
        for words in (self.text, self.remedy):
            yield from [words] if isinstance(words, str) else words.values()


OK: Callable[..., Message] = partial(Message, ("ok",))
ASK: Callable[..., Message] = partial(Message, ("ask",))
CARE: Callable[..., Message] = partial(Message, ("care",))
DO_NOT_USE: Callable[..., Message] = partial(Message, ("do_not_use",))
OK_OR_ASK: Callable[..., Message] = partial(Message, ("ok", "ask"))
OK_OR_CARE: Callable[..., Message] = partial(Message, ("ok", "care"))
CARE_OR_ASK: Callable[..., Message] = partial(Message, ("care", "ask"))
CARE_OR_WORSE: Callable[..., Message] = partial(Message, ("care", "do_not_use"))


class Raised(NamedTuple):
    """What a rule found: the code of a message, and the values that belong into its templates."""

    code: str
    values: Mapping[str, Any]
    case: str = ""
    state: State | None = None  # where the message has several
    groups: Keys = ()


def raised(
    code: str, case: str = "", *, state: State | None = None, groups: Iterable[Any] = (), **values: Any
) -> Raised:
    return Raised(code, values, case, state, tuple(groups))


def in_words(found: Raised, question: str, message: Message) -> Finding:
    """The finding, with options in Python's spelling."""
    state = found.state or message.states[0]
    assert state in message.states, (found.code, state)
    text, remedy = (
        words if isinstance(words, str) else words.get(found.case, "")
        for words in (message.text, message.remedy)
    )
    return Finding(
        code=found.code,
        question=question,
        state=state,
        text=spelled(filled_in(text, found.values)),
        remedy=spelled(filled_in(remedy, found.values)),
        groups=found.groups,
    )


def marked(finding: Finding, message: Message | None) -> str:
    """The text and remedy of a finding, with the options that its message names as marked text."""
    text = f"{finding.text} {finding.remedy}".strip()
    templates = "" if message is None else "".join(message.templates())
    for name, words in OPTIONS.items():
        if f"{{{name}}}" in templates:
            text = text.replace(spelled(words), words)
    return text


def filled_in(template: str, values: Mapping[str, Any]) -> str:
    return "".join(
        literal if name is None else literal + _value(name, spec or "", conversion, values)
        for literal, name, spec, conversion in Formatter().parse(template)
    )


def _value(name: str, spec: str, conversion: str | None, values: Mapping[str, Any]) -> str:
    if name in OPTIONS:
        return OPTIONS[name]
    value = values[name]
    if "|" in spec:
        one, _, other = spec.partition("|")
        return filled_in(one if value == 1 else other, values)
    if spec in FORMATS:
        return FORMATS[spec](value)
    return format(repr(value) if conversion == "r" else value, spec)


def _name(key: Any) -> str:
    return group_keys.show(key, width=30)


def _names(keys: Any) -> str:
    return ", ".join(map(_name, keys[:_NAMES])) + (", …" if len(keys) > _NAMES else "")


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def _factor(factor: float) -> str:
    return f"{factor:.1f}" if factor < _LARGE_FACTOR else f"{_LARGE_FACTOR:.0f} or more"


def _share(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.0%}"


def _changes(recalls: Any) -> str:
    return ", ".join(f"{_name(name)} from {before:.2f} to {after:.2f}" for name, before, after in recalls)


#: Formats of values beside Python's.
FORMATS: dict[str, Callable[[Any], str]] = {
    "amount": show.amount,
    "name": _name,
    "names": _names,
    "p": _p_value,
    "factor": _factor,
    "share": _share,
    "changes": _changes,
}
