"""Correction: what is done to the predictions of every group, whoever found the prevalences."""

from __future__ import annotations

from dataclasses import dataclass

from fieldcal.core.reweight import BinStep, Step
from fieldcal.types import Keys


@dataclass(frozen=True)
class Correction:
    """The steps that predictions take: those of an estimate, or of prevalences that the caller knows."""

    #: At most two; the weights of each are (K,), the same for all, or (G, K), or of bins, which come first.
    steps: tuple[Step | BinStep, ...]
    steps_unseen: tuple[Step | BinStep, ...]  # of a group that is not among these
    groups: Keys
    grouped: bool
    n_classes: int
    known: bool = False  # by the caller: there is no whole field that an unseen group could go with
