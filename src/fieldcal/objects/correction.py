"""Correction: what is done to the predictions of every group, whoever found the prevalences."""

from __future__ import annotations

from dataclasses import dataclass

from fieldcal.core.reweight import Step
from fieldcal.types import Keys


@dataclass(frozen=True)
class Correction:
    """The steps that predictions take: those of an estimate, or of prevalences that the caller knows."""

    steps: tuple[Step, ...]  # at most two; the weights of each are (K,), the same for all, or (G, K)
    steps_unseen: tuple[Step, ...]  # of a group that is not among these
    groups: Keys
    grouped: bool
    n_classes: int
    known: bool = False  # by the caller: there is no whole field that an unseen group could go with
