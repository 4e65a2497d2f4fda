"""Verdicts made up for tests."""

from __future__ import annotations

from fieldcal.objects import Finding, Verdict


def verdict_of(level, *reasons):
    """A verdict of this level whose reasons are these texts."""
    code = "rehearsed" if level == "ok" else "made_up"  # what is ok is told only where trust rests on it
    return Verdict(
        findings=tuple(Finding(code=code, question="Is it?", state=level, text=text) for text in reasons)
        or (Finding(code="made_up", question="Is it?", state=level, text=""),)
    )
