"""Parts of an estimate: the multilevel model, field labels, the whole field, fit, and the correction of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fieldcal.core.hypotheses import KINDS, Kind
from fieldcal.core.partition import Partition
from fieldcal.core.policy import POLICY
from fieldcal.core.reweight import BinStep, Step
from fieldcal.core.solve import Solution
from fieldcal.core.trust import Evidence, Trust
from fieldcal.objects import show
from fieldcal.objects.artefact import (
    Counts,
    Flags,
    Frozen,
    Numbers,
    record,
)
from fieldcal.types import Design, Floats, Keys

#: Short names of the hypotheses.
HYPOTHESES: dict[Kind, str] = {"label_shift": "label shift", "unchanged": "unchanged", "other": "other"}


class PriorPredictive(Frozen):
    """Prior predictive distribution of the class shares among labelled rows under a hypothesis, from their
    predictions.
    """

    expected: Numbers  # (K,)
    p_value: float  # of the difference between expected and observed shares


class FieldLabels(Frozen):
    """Evidence of the labelled field rows about the hypotheses."""

    rows: dict[Design, float]  # labelled, by their design
    before: record(Trust)  # type: ignore[valid-type]  # trust without labels
    prior: Numbers  # (3,) prior weights of the hypotheses of `KINDS`
    unchanged: float  # probability that the class probabilities given the prediction are those of the lab
    change: float  # change of calibration between lab and field beyond offsets, sd of log-odds
    changed: float  # probability that this change is large
    observed: Numbers | None  # (K,) shares of the classes of labelled rows; None if all were chosen by class
    label_shift: PriorPredictive | None  # None if the hypothesis is excluded
    same: PriorPredictive | None  # under unchanged predictions
    looks_random: float | None  # p-value of "random" rows being a random sample, by their predictions
    beyond: int  # groups with more labels than rows in some bin: not all labels are rows of the field

    @property
    def n(self) -> float:
        return sum(self.rows.values())


class FromModel(Frozen):
    """Results learned from lab groups and field labels, and the class weights that reweight predictions."""

    lab_rows: Numbers | None  # (G,) labelled lab rows of each group of the field; None without lab groups
    labels: FieldLabels | None  # None without field labels
    persistence: float  # expected correlation of a group's error between lab and field
    given_persistence: float | None  # if set by the caller
    between: float  # β: how much of the differences between groups is label shift
    group_sd: float  # σ: standard deviation of the model's error for a group, log-odds
    bin_sd: float  # τ: the same per bin of a group
    weights: Numbers  # (3,) probabilities of the hypotheses of `KINDS`
    urc_sd: Numbers  # (G, K) standard deviation of the shares under label shift
    whole_sd: Numbers  # (K,)
    trust: float  # exponent of the reweighting with ``shape="tilt"``
    tilt: Numbers  # (G, K) logarithms of class weights of each group
    whole_tilt: Numbers  # (K,) for a group that is not in the field
    bins: Numbers  # (m, K) logarithms of class weights of every bin
    bins_tilt: Numbers  # (G, K) logarithms of additional class weights of each group
    whole_bins_tilt: Numbers  # (K,)

    def fits(self, *, n_groups: int, n_bins: int, n_classes: int) -> bool:
        """Whether the tables are finite and have the right shape."""
        by_group = dict.fromkeys(("urc_sd", "tilt", "bins_tilt"), (n_groups, n_classes))
        whole = dict.fromkeys(("whole_sd", "whole_tilt", "whole_bins_tilt"), (n_classes,))
        shapes: dict[str, tuple[int, ...]] = {**by_group, **whole, "bins": (n_bins, n_classes)}
        if self.lab_rows is not None:
            shapes["lab_rows"] = (n_groups,)
        if self.labels is not None:
            per_class = (
                self.labels.observed,
                *(p.expected for p in (self.labels.label_shift, self.labels.same) if p),
            )
            if any(len(table) != n_classes for table in per_class if table is not None):
                return False
        tables = {name: getattr(self, name) for name in shapes}
        return all(tables[n].shape == shape and np.isfinite(tables[n]).all() for n, shape in shapes.items())

    def weight(self, kind: Kind) -> float:
        """Weight of a hypothesis about the whole field."""
        return float(self.weights[KINDS.index(kind)])

    def steps(self, *, unseen: bool) -> tuple[Step, ...]:
        """Class weights of every group, or of an unknown one."""
        if self._nothing:
            return ()
        return (Step(self.trust, _weights(self.whole_tilt if unseen else self.tilt)),)

    def steps_by_bin(self, partition: Partition, *, unseen: bool) -> tuple[BinStep | Step, ...]:
        """Class weights of the bins, common to all groups, and of the group."""
        if self._nothing:
            return ()
        tilt = self.whole_bins_tilt if unseen else self.bins_tilt
        return BinStep(partition, _weights(self.bins)), Step(1.0, _weights(tilt))

    @property
    def _nothing(self) -> bool:
        """Whether the caller set a trust of 0, so that predictions do not change."""
        return bool(
            self.labels is not None and self.labels.before.set_by_caller and self.labels.before.nothing
        )

    def trust_after(self, before: Trust, *, grouped: bool) -> Trust:
        """Posterior probability of label shift, overall and between groups."""
        if self.labels is None:
            return Trust(before.overall, min(self.between, 1.0), before.set_by_caller, before.rehearsed)
        left = weight_without_labels(self.labels.n)
        overall = left * before.overall + (1 - left) * self.weight("label_shift")
        between = left * before.between + (1 - left) * self.between if grouped else overall
        return Trust(min(overall, 1.0), min(between, 1.0), before.set_by_caller, before.rehearsed)

    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = {
            "hypotheses": dict(zip(KINDS, self.weights.tolist(), strict=True)),
            "between": self.between,
            "group_sd": self.group_sd,
        }
        if self.lab_rows is not None:
            summary["persistence"] = self.persistence
        if self.labels is not None:
            before = dict(zip(KINDS, self.labels.prior.tolist(), strict=True))
            summary |= {"rows": dict(self.labels.rows), "before": before}
        return summary

    def __str__(self) -> str:
        weights = ", ".join(f"{HYPOTHESES[kind]} {self.weight(kind):.2f}" for kind in KINDS)
        rows = "" if self.labels is None else f"{show.amount(self.labels.n)} labelled rows: "
        return rows + weights


def weight_without_labels(n: float) -> float:
    """Weight of the estimate without labels beside n labels, of which few cannot decide much."""
    return float(np.exp(-n / POLICY.first_labels))


def _weights(logs: Floats) -> Floats:
    """Weights from their logarithms; the largest of each row is one."""
    return np.asarray(np.exp(logs - logs.max(axis=-1, keepdims=True)))


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


@dataclass(frozen=True)
class Words:
    """What people call the parts of an estimate."""

    share: str
    title: str  # of one population
    mean_prediction: str
    estimate: str
    whole: str
    lab: bool  # whether shares in the lab, and under label shift, are beside them


PREVALENCE = Words("Prevalence", "Prevalence", "mean prediction", "estimate", "whole field", True)
#: Of categories: labelled rows are a selection, or rows of the field.
SHARES = Words("Share", "Shares behind the values", "as judged", "share", "all rows", False)


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
