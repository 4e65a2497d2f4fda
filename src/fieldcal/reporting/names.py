"""Names from the data, and words for codes and numbers, as a report shows them."""

from __future__ import annotations

from typing import Any

from fieldcal.objects import group_keys

NAME_WIDTH = 72  # letters


def shown_name(key: Any) -> str:
    """One line, without control or direction characters, not endless."""
    return group_keys.show(key, width=NAME_WIDTH) or '""'


def number_or_none(n: int) -> str:
    """How many, in a sentence."""
    return f"{n:,}" if n else "none"
