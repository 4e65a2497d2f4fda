"""Finding: one thing that was seen, judged once. Verdict: all of them, and the worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from fieldcal.objects import group_keys, show
from fieldcal.objects.artefact import Frozen, KeyTuple

if TYPE_CHECKING:
    from rich.console import Group

Level = Literal["ok", "care", "do_not_use"]
#: Only people can answer where it says "ask": such a finding is on the checklist, and decides nothing.
State = Literal["ok", "ask", "care", "do_not_use"]

WORDS = {"ok": "OK to use", "care": "Use with care", "do_not_use": "Do not use"}
_ORDER: tuple[State, ...] = ("ok", "ask", "care", "do_not_use")
#: What is told among the reasons although nothing is wrong with it: what trust rests on.
_TOLD = ("rehearsed", "unmoved", "labels_unmoved", "labels_say_label_shift", "labels_between")


class Finding(Frozen):
    """All that is ever said about an estimate, in one shape.

    Attributes
    ----------
    code : stable and documented, such as ``"not_rehearsed"``
    question : what was asked, such as "Did the whole field move only in its mix of classes?"
    state : ``"ok"``, ``"care"``, ``"do_not_use"``; ``"ask"`` where only people can know
    text : what was seen, with its numbers
    remedy : what to do next; empty where there is nothing to do
    groups : whom it concerns, the worst first, at most twenty; empty for all
    """

    code: str
    question: str
    state: State
    text: str
    remedy: str = ""
    groups: KeyTuple = ()


Findings = Annotated[
    tuple[Finding, ...], BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
]


class Verdict(Frozen):
    """Whether to use recalibrated predictions: ``ok``, ``care`` or ``do_not_use``, and every finding behind it.

    Examples
    --------
    >>> from fieldcal import Verdict
    >>> from fieldcal.objects import Finding
    >>> by_hand = Finding(code="assumed", question="Was it tested?", state="care", text="Assumed, not tested.")
    >>> Verdict(findings=(by_hand,))
    Use with care
      - Assumed, not tested.
    """

    findings: Findings = ()

    @property
    def level(self) -> Level:
        """The worst state of all findings."""
        states = {finding.state for finding in self.findings}
        return "do_not_use" if "do_not_use" in states else "care" if "care" in states else "ok"

    @property
    def told(self) -> tuple[Finding, ...]:
        """The findings that speak against use, the weightiest first, and those that trust rests on."""
        found = [f for f in self.findings if f.state in ("care", "do_not_use") or f.code in _TOLD]
        return tuple(sorted(found, key=lambda f: -_ORDER.index(f.state)))

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against use and what to do about it, the weightiest first; and what trust rests on."""
        return tuple(f"{f.text} {f.remedy}".strip() for f in self.told)

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to do next, the weightiest first, each once."""
        ranked = sorted(self.findings, key=lambda f: -_ORDER.index(f.state))
        return tuple(dict.fromkeys(f.remedy for f in ranked if f.remedy))

    def finding(self, code: str) -> Finding | None:
        """The finding of this code, if it was made."""
        return next((f for f in self.findings if f.code == code), None)

    def text(self, reasons: Sequence[str] | None = None) -> str:
        """The verdict, and below it its reasons, as they are or in other words."""
        # They may come from a file: none of them is two lines, or a command to the terminal.
        told = self.reasons if reasons is None else reasons
        return "\n".join([WORDS[self.level], *(f"  - {group_keys.show(why, width=1_000)}" for why in told)])

    def __repr__(self) -> str:
        return self.text()

    def __rich__(self) -> Group:
        return show.stacked(show.verdict_parts(self))

    def _repr_html_(self) -> str:
        return show.verdict_page(self)
