"""Verdict: may this be used, and why."""

from __future__ import annotations

from typing import Literal

from fieldcal.artefacts import Frozen, Texts

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
        return "\n".join([words[self.level], *(f"  - {reason}" for reason in self.reasons)])
