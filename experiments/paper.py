"""The paper's estimator in fieldcal's words, without intervals, which no experiment of the paper has."""

from __future__ import annotations

from typing import Any

#: Options of `fieldcal.estimate`.
ESTIMATE: dict[str, Any] = {"method": "paper", "level": None}


def learn(partition: Any) -> dict[str, Any]:
    """Options of `fieldcal.learn`: so many bins, equally filled in the lab, or other cuts."""
    return {"method": "paper", "partition": partition}
