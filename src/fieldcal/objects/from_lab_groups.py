"""FromLabGroups: what the labels of the lab's own groups make of an estimate, with field labels or without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.field_model import Counts, Model
from fieldcal.core.field_posterior import Posterior
from fieldcal.core.goodness_of_fit import outlying
from fieldcal.core.hypotheses import hypotheses
from fieldcal.core.labelled_rows import LabelledRows
from fieldcal.core.offsets import Offsets, offsets_of
from fieldcal.core.partition import Partition
from fieldcal.core.persistence import persistence
from fieldcal.core.policy import POLICY
from fieldcal.core.priors import Pooled
from fieldcal.core.problem import Problem
from fieldcal.core.reweight import BinStep, Step, matched_tilt
from fieldcal.core.trust import Trust
from fieldcal.objects import group_keys
from fieldcal.objects.artefact import Frozen, Numbers
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.problem import labelled_rows
from fieldcal.types import Floats

#: "auto", or how far groups of the same name keep their errors from lab to field, from 0 to 1.
PersistenceLike = float | Literal["auto"]

_LEAST = 1e-4  # of a prediction whose logarithm is taken
_FEWEST = 0.5  # of the variance of all predictions: that of a group is no smaller


class FromLabGroups(Frozen):
    """What was learned from the lab's groups, and what predictions are reweighted by."""

    lab_rows: Numbers  # (G,) labelled lab rows of each group of the field
    persistence: float  # expected correlation of a group's error between lab and field
    given_persistence: float | None  # as the caller set it
    between: float  # β: how much of the differences between groups is label shift
    group_sd: float  # σ: standard deviation of the model's error for a group, log-odds
    bin_sd: float  # τ: the same of a bin of a group
    weights: dict[str, float]  # probabilities of the hypotheses about the whole field
    moved: bool
    urc_sd: Numbers  # (G, K) standard deviation of the shares under label shift
    whole_sd: Numbers  # (K,)
    tilt: Numbers  # (G, K) logarithms of class weights of each group
    whole_tilt: Numbers  # (K,) of a group that was never seen
    bins: Numbers  # (m, K) logarithms of class weights of every bin
    bins_tilt: Numbers  # (G, K) what comes on top of these
    whole_bins_tilt: Numbers  # (K,)

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        lab: Lab,
        field: Field,
        *,
        sd: tuple[Floats, Floats],
        moved: bool,
        given: float | None,
    ) -> FromLabGroups:
        """From the posterior: predictions are tilted until their mean in a group is its estimate."""
        counts, each = posterior.model.counts, posterior.shares().estimate
        G = len(each)
        rows = counts.lab[:G].sum(axis=(1, 2))
        size = counts.V.sum(axis=1)
        raw, total, bins = counts.base, counts.V.sum(axis=0), posterior.classes_by_bin()
        V = np.where(size[:, None] > 0, counts.V, total)
        whole = posterior.whole().estimate
        kinds = ("label_shift", "unchanged", "other")
        return cls(
            lab_rows=rows,
            persistence=posterior.model.persistence.mean,
            given_persistence=given,
            between=posterior.mean("beta"),
            group_sd=float(np.sqrt(posterior.mean("group"))),
            bin_sd=float(np.sqrt(posterior.mean("bins"))),
            weights={kind: posterior.weight(kind) for kind in kinds},
            moved=moved,
            urc_sd=sd[0],
            whole_sd=sd[1],
            tilt=matched_tilt(raw, V, each),
            whole_tilt=matched_tilt(raw, total[None], whole)[0],
            bins=np.log(np.maximum(bins, 1e-9)) - np.log(raw),
            bins_tilt=matched_tilt(bins, V, each),
            whole_bins_tilt=matched_tilt(bins, total[None], whole)[0],
        )

    def fits(self, *, n_groups: int, n_bins: int, n_classes: int) -> bool:
        """Whether the tables are of so many groups, bins and classes, and finite."""
        by_group = dict.fromkeys(("urc_sd", "tilt", "bins_tilt"), (n_groups, n_classes))
        whole = dict.fromkeys(("whole_sd", "whole_tilt", "whole_bins_tilt"), (n_classes,))
        shapes = {**by_group, **whole, "bins": (n_bins, n_classes), "lab_rows": (n_groups,)}
        tables = {name: getattr(self, name) for name in shapes}
        return all(tables[n].shape == shape and np.isfinite(tables[n]).all() for n, shape in shapes.items())

    def steps(self, *, unseen: bool) -> tuple[Step, ...]:
        """Class weights of every group, or of one that was never seen."""
        return (Step(1.0, _weights(self.whole_tilt if unseen else self.tilt)),)

    def steps_by_bin(self, partition: Partition, *, unseen: bool) -> tuple[BinStep | Step, ...]:
        """The calibration that all groups have in common, bin by bin, and class weights of the group."""
        tilt = self.whole_bins_tilt if unseen else self.bins_tilt
        return BinStep(partition, _weights(self.bins)), Step(1.0, _weights(tilt))

    def summary(self) -> dict[str, Any]:
        """For people, as plain data."""
        return {
            "persistence": self.persistence,
            "between": self.between,
            "group_sd": self.group_sd,
            "hypotheses": dict(self.weights),
        }


def _weights(logs: Floats) -> Floats:
    return np.asarray(np.exp(logs - logs.max(axis=-1, keepdims=True)))


def model_of_lab_groups(
    lab: Lab,
    field: Field,
    problem: Problem,
    *,
    urc: tuple[Floats, Floats],
    sd: tuple[Floats, Floats],
    trust: Trust,
    moved: bool,
    given: float | None,
    labelled: LabelledRows | None = None,
) -> Model:
    """The model of groups that lab and field share, or not.

    ``urc``, ``sd``: what label shift implies, and its standard deviation, of groups (G, K) and of the whole (K,).
    ``labelled``: in place of the field's own labelled rows.
    """
    at = group_keys.positions(lab.groups, field.groups)
    if given == 0:  # groups of the same name are other groups
        at = np.full_like(at, -1)
    only = np.setdiff1d(np.arange(len(lab.groups)), at)
    places = np.concatenate([at, only])
    # In rows that they are worth, as everything else.
    rows = lab.group_counts(places) * lab.effective_per_row
    of_lab = _lab_offsets(lab, rows.sum(axis=1), places >= 0, problem)
    groups = np.where(np.arange(len(places)) < len(at), np.arange(len(places)), -1)
    # Where the field moved as no mixture of classes does, it is another population: what the lab's groups teach of
    # differences between groups is no evidence for groups that the lab has never seen.
    explained = trust.overall / POLICY.most_without_labels if moved else 1.0
    follow = np.where(places >= 0, 1.0, min(explained, 1.0))
    base = np.clip(lab.bin_means, _LEAST, 1.0)
    base = base / base.sum(axis=1, keepdims=True)
    shift = Offsets.of(urc[1][None], sd[1][None], lab.p_lab)
    labels = np.zeros(rows.shape)
    if field.labelled:
        found_labels = labelled_rows(field, problem) if labelled is None else labelled
        labels[found_labels.groups] = found_labels.given_bin
    found = hypotheses(
        shift.mean[0], shift.covariance[0], trust=trust.overall, moved=moved, labels=float(labels.sum())
    )
    counts = Counts(
        base,
        rows,
        labels,
        problem.V,
        of_lab,
        Offsets.of(urc[0], sd[0], urc[1]).take(groups).followed(follow),
        ((places >= 0) & (groups >= 0) & rows.any(axis=(1, 2))).astype(np.float64),
        np.where((places >= 0) | (not moved), 1.0, POLICY.calibration_of_new),
    )
    shared = at >= 0
    if problem.outlying is not None:
        shared &= ~problem.outlying
    resembling = persistence(
        _deviations(base, rows[: len(at)].sum(axis=1)[shared], np.asarray(lab.F_effective.sum(axis=0))),
        _deviations(base, problem.V[shared], problem.total),
        given=given,
    )
    return Model(counts, found, resembling)


def _lab_offsets(lab: Lab, V: Floats, known: NDArray[np.bool_], problem: Problem) -> Offsets:
    """What label shift implies for the lab's groups, from their histograms V (A, m) alone."""
    places = np.where(known, np.cumsum(known) - 1, -1)
    of_groups = Problem(problem.F, V[known], problem.smoothing, True, class_rows=problem.class_rows)
    rows = of_groups.A.sum(axis=1)
    of_groups = replace(
        of_groups, outlying=outlying(of_groups.M, of_groups.V, rows=rows, p_lab=of_groups.p_lab)
    )
    return offsets_of(Pooled().posterior(of_groups, random_state=0), lab.p_lab).take(places)


def _deviations(centres: Floats, V: Floats, total: Floats) -> tuple[Floats, Floats]:
    """Of the mean predictions of groups (n, m) from that of all rows (m,), and their variances; (n, K) each."""
    n = np.maximum(V.sum(axis=1, keepdims=True), 1e-9)
    share = total / max(total.sum(), 1e-9)
    mean, overall = V / n @ centres, share @ centres
    within = np.maximum(V / n @ centres**2 - mean**2, _FEWEST * (share @ centres**2 - overall**2))
    return mean - overall, within / n
