"""Lab: what labelled predictions teach."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import model_validator

from fieldcal import keys
from fieldcal.artefacts import Artefact, Counts, KeyTuple, PartitionField
from fieldcal.core.response import Conditioning, conditioning, response_matrix


class Lab(Artefact):
    """What the lab teaches: how predictions are distributed given the class.

    Made by `fieldcal.learn`. Holds the counts `F` behind `M`, the partition, and what was seen on the way.
    """

    kind: ClassVar[str] = "lab"

    classes: KeyTuple
    partition: PartitionField
    F: Counts
    smoothing: float = Slot(ge=0)
    bin_scores: Counts  # (m, K) sums of the predictions in each bin, in units of SCORE_UNIT
    n: int = Slot(ge=0)
    clipped: int = Slot(default=0, ge=0)
    log_loss: float | None = None
    accuracy: float | None = None

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        shape = (len(self.classes), self.partition.m)
        if self.F.shape != shape:
            raise ValueError(f"F has shape {self.F.shape}, but classes and bins need {shape}")
        return self

    @cached_property
    def M(self) -> NDArray[np.float64]:
        """The response matrix: `M[i, j]` is the probability of bin `j` given class `i`."""
        return response_matrix(self.F, smoothing=self.smoothing)

    @cached_property
    def p_lab(self) -> NDArray[np.float64]:
        """Class prevalences in the lab."""
        return np.asarray(self.F.sum(axis=1) / self.F.sum())

    @cached_property
    def conditioning(self) -> Conditioning:
        """Rank, condition number and smallest singular value of M."""
        return conditioning(self.M)

    @property
    def n_bins(self) -> int:
        """The number of bins that the partition really has."""
        return int(self.partition.m)

    def __repr__(self) -> str:
        classes = ", ".join(
            f"{keys.show(c, width=20)} {p:.1%}" for c, p in zip(self.classes[:6], self.p_lab, strict=False)
        )
        more = ", …" if len(self.classes) > 6 else ""
        quality = self.conditioning
        return (
            f"Lab: {self.n:,} rows, {len(self.classes)} classes ({classes}{more}), {self.n_bins} bins, "
            f"condition number {quality.condition_number:.3g}"
        )
