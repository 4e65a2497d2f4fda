"""Columns: where a table has the predictions, the label and the groups."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, model_validator
from pydantic import Field as Slot

from fieldcal.artefacts import Frozen, Texts

Levels = Annotated[tuple[float, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]


class Columns(Frozen):
    """The names of the columns that a lab was learnt from, so that later steps need none.

    ``scores`` holds one name per class in the order of the classes, or the one name of the second of two. In a
    regression it holds the names of the quantile columns, and ``levels`` their levels, which increase.
    """

    scores: Texts = Slot(min_length=1)
    label: str
    by: Texts = ()
    levels: Levels | None = None

    @model_validator(mode="after")
    def _one_level_each(self) -> Self:
        levels = self.levels
        if levels is None:
            return self
        if len(levels) != len(self.scores):
            raise ValueError(f"{len(levels)} levels for {len(self.scores)} columns of quantiles")
        if list(levels) != sorted(set(levels)) or levels[0] <= 0.0 or levels[-1] >= 1.0:
            raise ValueError("levels must increase, between 0 and 1")
        return self
