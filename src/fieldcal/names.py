"""Names that people mistype: close matches for messages, and names that appear twice."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fieldcal.errors import InputError


def did_you_mean(value: Any, options: Sequence[Any]) -> str:
    """A sentence with the closest option; empty if none is close."""
    close = difflib.get_close_matches(str(value), [str(o) for o in options], n=1)
    return f" Did you mean {close[0]!r:.60}?" if close and close[0] != str(value) else ""


def refuse_repeats(names: Sequence[Any]) -> None:
    """Every column name must say which column is meant."""
    twice = [(name, times) for name, times in Counter(names).items() if times > 1]
    if twice:
        listed = ", ".join(f"{name!r:.60} ({times} times)" for name, times in twice[:6])
        raise InputError(
            f"Column names appear more than once: {listed}{', …' if len(twice) > 6 else ''}. Rename or drop them."
        )
