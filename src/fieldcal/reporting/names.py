"""Names from the data, as a report shows them."""

from __future__ import annotations

from typing import Any

from fieldcal.objects import group_keys

NAME_WIDTH = 72  # letters


def shown_name(key: Any) -> str:
    """One line, without control or direction characters, not endless."""
    return group_keys.show(key, width=NAME_WIDTH) or '""'
