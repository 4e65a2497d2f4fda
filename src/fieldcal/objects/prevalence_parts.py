"""Parts of an estimate: convergence and fit, the whole field, and the correction of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from fieldcal.core.reweight import BinStep, Step
from fieldcal.core.solve import Solution
from fieldcal.core.trust import Evidence
from fieldcal.objects.artefact import (
    Counts,
    Flags,
    Frozen,
    Numbers,
)
from fieldcal.types import Keys

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Correction:
    """The steps that turn predictions into recalibrated ones, from an estimate or from known prevalences."""

    #: At most two. Weights are (K,) for all groups, or (G, K), or by bin; those by bin come first.
    steps: tuple[Step | BinStep, ...]
    steps_unseen: tuple[Step | BinStep, ...]  # for a group that is not among these
    groups: Keys
    grouped: bool
    n_classes: int
    known: bool = (
        False  # prevalences are the caller's, so there is no whole field to use for an unknown group
    )


class Fit(Frozen):
    """Convergence and goodness of fit of the estimate, per group."""

    gap: Numbers | None  # (G,) optimality gap of the mode, per row; None if the estimate is the mean
    n_iter: Counts | None  # (G,)
    converged: Flags | None  # (G,)
    novel: Counts  # (G,) rows in bins without lab rows
    statistic: Numbers  # (G,) goodness of fit, chi-square under label shift
    df: int
    p_value: Numbers  # (G,)
    adjusted: Numbers  # (G,) p-value under false-discovery control
    effect: Numbers  # (G,) Cohen's w of the misfit
    whole_effect: float  # effect in the field as one population
    whole_p_value: float

    @classmethod
    def of(cls, mode: Solution | None, evidence: Evidence) -> Self:
        """From the goodness of fit, and from the solver if the estimate is the mode."""
        misfit = evidence.misfit
        return cls(
            gap=None if mode is None else mode.gap,
            n_iter=None if mode is None else mode.n_iter,
            converged=None if mode is None else mode.converged,
            novel=evidence.novel,
            statistic=misfit.statistic,
            df=misfit.df,
            p_value=misfit.p_value,
            adjusted=misfit.adjusted,
            effect=misfit.effect,
            whole_effect=float(evidence.whole.effect[0]),
            whole_p_value=float(evidence.whole.p_value[0]),
        )


class WholeField(Frozen):
    """Estimates for the field as one population, one number per class, (K,)."""

    n: float
    mean_prediction: Numbers
    urc: Numbers  # estimate under label shift
    estimate: Numbers  # weighted by trust
    lower: Numbers | None
    upper: Numbers | None
