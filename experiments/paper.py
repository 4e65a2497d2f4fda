"""The paper's estimator in fieldcal's words: plain bins, maximum likelihood, and full trust."""

from __future__ import annotations

from typing import Any

#: Options of `fieldcal.estimate`. The mode under a flat prior is the maximum of the likelihood.
ESTIMATE: dict[str, Any] = {"prior": "flat", "point": "mode", "trust": 1, "level": None}


def learn(bins: int) -> dict[str, Any]:
    """Options of `fieldcal.learn`: so many bins, equally filled in the lab, counted as they are."""
    return {"partition": bins, "smoothing": 0}
