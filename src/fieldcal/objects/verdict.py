"""Finding: the result of one check. Verdict: all findings, and the worst of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from fieldcal.objects import group_keys, show
from fieldcal.objects.artefact import Frozen, KeyTuple

if TYPE_CHECKING:
    from rich.console import Group

Level = Literal["ok", "care", "do_not_use"]
#: Findings in state "ask" are questions that only people can answer; they do not affect the verdict.
State = Literal["ok", "ask", "care", "do_not_use"]

WORDS = {"ok": "OK to use", "care": "Use with care", "do_not_use": "Do not use"}
_ORDER: tuple[State, ...] = ("ok", "ask", "care", "do_not_use")
#: Codes listed among the reasons even if they are not a problem: the basis of trust.
_BASIS_OF_TRUST = ("rehearsed", "unmoved", "labels_unmoved", "labels_say_label_shift", "labels_between")


class Finding(Frozen):
    """The result of one check of an estimate.

    Attributes
    ----------
    code : stable and documented, such as ``"not_rehearsed"``
    question : the question of the check, such as "Did the whole field move only in its mix of classes?"
    state : ``"ok"``, ``"care"``, ``"do_not_use"``; ``"ask"`` if only people can answer
    text : the answer, with its numbers
    remedy : what to do next; empty if there is nothing to do
    groups : the groups concerned, the worst first, at most twenty; empty for all
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
    def main_findings(self) -> tuple[Finding, ...]:
        """Findings against use, most severe first, and those that trust rests on."""
        relevant = [
            f for f in self.findings if f.state in ("care", "do_not_use") or f.code in _BASIS_OF_TRUST
        ]
        return tuple(sorted(relevant, key=lambda f: -_ORDER.index(f.state)))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons against use and their remedies, most severe first; then the basis of trust."""
        return tuple(f"{f.text} {f.remedy}".strip() for f in self.main_findings)

    @property
    def remedies(self) -> tuple[str, ...]:
        """Distinct remedies, most severe first."""
        ranked = sorted(self.findings, key=lambda f: -_ORDER.index(f.state))
        return tuple(dict.fromkeys(f.remedy for f in ranked if f.remedy))

    def finding(self, code: str) -> Finding | None:
        """The finding with this code, or None."""
        return next((f for f in self.findings if f.code == code), None)

    def text(self, reasons: Sequence[str] | None = None) -> str:
        """The verdict, followed by its reasons, or by others if given."""
        # Reasons may come from a file: `show` removes line breaks and terminal commands.
        shown = self.reasons if reasons is None else reasons
        return "\n".join([WORDS[self.level], *(f"  - {group_keys.show(why, width=1_000)}" for why in shown)])

    def __repr__(self) -> str:
        return self.text()

    def __rich__(self) -> Group:
        return show.stacked(show.verdict_parts(self))

    def _repr_html_(self) -> str:
        return show.verdict_page(self)
