"""Verdict: may this be used, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fieldcal.objects import group_keys, show
from fieldcal.objects.artefact import Frozen, Texts

if TYPE_CHECKING:
    from rich.console import Group

Level = Literal["ok", "care", "do_not_use"]


class Verdict(Frozen):
    """Whether to use recalibrated predictions: ``ok``, ``care`` or ``do_not_use``, with reasons in plain words.

    Examples
    --------
    >>> from fieldcal import Verdict
    >>> Verdict(level="care", reasons=("The trust was set by hand.",))
    Use with care
      - The trust was set by hand.
    """

    level: Level
    reasons: Texts

    def __repr__(self) -> str:
        words = {"ok": "OK to use", "care": "Use with care", "do_not_use": "Do not use"}
        # They may come from a file: none of them is two lines, or a command to the terminal.
        reasons = [f"  - {group_keys.show(reason, width=1_000)}" for reason in self.reasons]
        return "\n".join([words[self.level], *reasons])

    def __rich__(self) -> Group:
        return show.stacked(show.verdict_parts(self))

    def _repr_html_(self) -> str:
        return show.verdict_page(self)
