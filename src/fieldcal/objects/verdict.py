"""Finding: the answer to one question about an estimate. Verdict: all findings, and the worst state among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from fieldcal.objects import group_keys, show
from fieldcal.objects.artefact import Frozen, KeyTuple

if TYPE_CHECKING:
    from rich.console import Group

Level = Literal["ok", "care", "do_not_use"]
#: "ask" is for questions that only people can answer: such a finding is on the checklist, and decides nothing.
State = Literal["ok", "ask", "care", "do_not_use"]

WORDS = {"ok": "OK to use", "care": "Use with care", "do_not_use": "Do not use"}
_ORDER: tuple[State, ...] = ("ok", "ask", "care", "do_not_use")
#: Reported among the reasons although nothing is wrong: what the probability of label shift rests on.
_REPORTED = ("rehearsed", "unmoved", "labels_unmoved", "labels_say_label_shift", "labels_between")


class Finding(Frozen):
    """The answer to one question about an estimate.

    Attributes
    ----------
    code : stable and documented, such as ``"not_rehearsed"``
    question : such as "Did only the class prevalences of the whole field change?"
    state : ``"ok"``, ``"care"``, ``"do_not_use"``; ``"ask"`` if only people can know
    text : the answer, with its numbers
    remedy : what to do next; empty if there is nothing to do
    groups : the groups that it concerns, the worst first, at most twenty; empty if it concerns all
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
    def reported(self) -> tuple[Finding, ...]:
        """The findings against use, the worst first, and those that the probability of label shift rests on."""
        found = [f for f in self.findings if f.state in ("care", "do_not_use") or f.code in _REPORTED]
        return tuple(sorted(found, key=lambda f: -_ORDER.index(f.state)))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Text and remedy of the reported findings."""
        return tuple(f"{f.text} {f.remedy}".strip() for f in self.reported)

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to do next, for the worst findings first, each once."""
        ranked = sorted(self.findings, key=lambda f: -_ORDER.index(f.state))
        return tuple(dict.fromkeys(f.remedy for f in ranked if f.remedy))

    def finding(self, code: str) -> Finding | None:
        """The finding with this code; None if there is none."""
        return next((f for f in self.findings if f.code == code), None)

    def text(self, reasons: Sequence[str] | None = None) -> str:
        """The verdict, and below it its reasons: those given, or `reasons`."""
        # They may come from a file: each is kept on one line, without commands to the terminal.
        shown = self.reasons if reasons is None else reasons
        return "\n".join([WORDS[self.level], *(f"  - {group_keys.show(why, width=1_000)}" for why in shown)])

    def __repr__(self) -> str:
        return self.text()

    def __rich__(self) -> Group:
        return show.stacked(show.verdict_parts(self))

    def _repr_html_(self) -> str:
        return show.verdict_page(self)
