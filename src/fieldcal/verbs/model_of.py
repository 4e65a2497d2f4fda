"""From artefacts to the multilevel model: counts of lab and field, what label shift implies, and the hypotheses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.field_model import Counts, Model, of_new_groups
from fieldcal.core.goodness_of_fit import outlying
from fieldcal.core.hypotheses import hypotheses, lab_base
from fieldcal.core.offsets import Offsets, Persistence, offsets_of, persistence
from fieldcal.core.policy import POLICY
from fieldcal.core.priors import Pooled
from fieldcal.core.problem import Problem
from fieldcal.core.trust import Trust
from fieldcal.objects import group_keys
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.problem import labelled_rows
from fieldcal.types import Floats

#: "auto", or how far groups of the same name keep their errors from lab to field, from 0 to 1.
PersistenceLike = float | Literal["auto"]

_LEAST = 1e-4  # of a prediction whose logarithm is taken
_FEWEST = 0.5  # of the variance of all predictions: that of a group is no smaller


@dataclass(frozen=True)
class UnderLabelShift:
    """Shares that label shift implies and their standard deviations, of groups (G, K) and of the whole field (K,)."""

    urc: Floats
    sd: Floats
    whole: Floats
    whole_sd: Floats


def knows_groups(lab: Lab, field: Field) -> bool:
    """Whether the lab has labels of groups that the field could have, too."""
    has_labels = lab.by_group is not None and len(lab.by_group.cells) > 0
    same_columns = lab.columns is None or not field.by or lab.columns.by == field.by
    several_bins = lab.n_bins > 1 and lab.outcome.kind == "classes" and not lab.of_values
    ordered = lab.ordered and len(lab.classes) > 2
    return has_labels and field.grouped and same_columns and several_bins and not ordered


def model_of(
    lab: Lab,
    field: Field,
    problem: Problem,
    *,
    shift: UnderLabelShift,
    trust: Trust,
    shifted: bool,
    given: float | None = None,
    weighed: bool | None = None,
) -> Model:
    """The model of a field, with the lab's groups where it knows some.

    Parameters
    ----------
    given : the persistence that the caller set
    weighed : whether labels of the field weigh the hypotheses, now or later; by default if there are some
    """
    labels = labelled_rows(field, problem)
    weighed = labels.n > 0 if weighed is None else weighed
    offset = Offsets.of(shift.whole[None], shift.whole_sd[None], lab.p_lab)
    found = hypotheses(
        offset.mean[0], offset.covariance[0], trust=trust, shifted=shifted, labels=labels, weighed=weighed
    )
    if knows_groups(lab, field) and not trust.set_by_caller:
        counts, resembling = _with_lab_groups(lab, field, problem, shift, trust, shifted=shifted, given=given)
        model = Model(counts, found, resembling)
    else:
        model = _without_lab_groups(lab, field, problem, shift, trust)
        model = replace(model, hypotheses=found)
    if not weighed:
        return model
    changed = POLICY.indifferent if shifted else POLICY.beyond_noise
    changes = POLICY.calibration_change, (1 - changed, changed)
    table = np.zeros(model.counts.field.shape)
    table[labels.groups] = labels.given_bin
    by_class = labels.by_class.sum(axis=0) if labels.by_class.any() else None
    return replace(model, counts=replace(model.counts, field=table, by_class=by_class), changes=changes)


def _without_lab_groups(
    lab: Lab, field: Field, problem: Problem, shift: UnderLabelShift, trust: Trust
) -> Model:
    """Of groups that the lab does not know, or of one population; hypotheses are to come."""
    (G, K), m = shift.urc.shape, lab.n_bins
    base, noise = lab_base(problem.F, lab.bin_means)
    nothing, free = np.broadcast_to(0.0, (G, K, m)), K - 1
    t = Offsets(np.broadcast_to(0.0, (G, free)), np.broadcast_to(0.0, (G, free, free)))
    in_field = Offsets.of(shift.urc, shift.sd, shift.whole) if field.grouped else t
    counts = Counts(base, nothing, nothing, problem.V, t, in_field, np.zeros(G), np.ones(G), base_noise=noise)
    follow = trust.between if trust.set_by_caller else max(trust.between, POLICY.least_label_shift)
    if problem.outlying is not None:
        counts = _apart(counts, problem.outlying)
    new = Persistence(np.zeros(1), np.ones(1))
    return Model(counts, (), new, grouped=field.grouped, components=of_new_groups(follow))


def _with_lab_groups(
    lab: Lab,
    field: Field,
    problem: Problem,
    shift: UnderLabelShift,
    trust: Trust,
    *,
    shifted: bool,
    given: float | None,
) -> tuple[Counts, Persistence]:
    """Of groups that lab and field share, or not, and how far they persist."""
    at = group_keys.positions(lab.groups, field.groups)
    if given == 0:  # groups of the same name are other groups
        at = np.full_like(at, -1)
    only = np.setdiff1d(np.arange(len(lab.groups)), at)
    places = np.concatenate([at, only])
    # In effective rows, as everything else.
    rows = lab.group_counts(places) * lab.effective_per_row
    of_lab = _lab_offsets(lab, rows.sum(axis=1), places >= 0, problem)
    groups = np.where(np.arange(len(places)) < len(at), np.arange(len(places)), -1)
    # Where the field shifted as no mixture of classes does, it is another population: what the lab's groups show of
    # differences between groups is no evidence for groups that the lab has never seen.
    explained = min(trust.overall / POLICY.most_without_labels, 1.0) if shifted else 1.0
    follow, calibrated = (
        np.where(places >= 0, 1.0, max(explained, least)) for least in (0.0, POLICY.least_label_shift)
    )
    base = np.clip(lab.bin_means, _LEAST, 1.0)
    base = base / base.sum(axis=1, keepdims=True)
    counts = Counts(
        base,
        rows,
        np.zeros(rows.shape),
        problem.V,
        of_lab,
        Offsets.of(shift.urc, shift.sd, shift.whole).take(groups).followed(follow),
        ((places >= 0) & (groups >= 0) & rows.any(axis=(1, 2))).astype(np.float64),
        calibrated,
    )
    shared = at >= 0
    if problem.outlying is not None:
        shared &= ~problem.outlying
        counts = replace(counts, outlying=np.append(problem.outlying, np.zeros(len(only), dtype=bool)))
    resembling = persistence(
        _deviations(base, rows[: len(at)].sum(axis=1)[shared], np.asarray(lab.F_effective.sum(axis=0))),
        _deviations(base, problem.V[shared], problem.total),
        given=given,
    )
    return counts, resembling


def _lab_offsets(lab: Lab, V: Floats, known: NDArray[np.bool_], problem: Problem) -> Offsets:
    """What label shift implies for the lab's groups, from their histograms V (A, m) alone."""
    places = np.where(known, np.cumsum(known) - 1, -1)
    of_groups = Problem(problem.F, V[known], problem.smoothing, True, class_rows=problem.class_rows)
    rows = of_groups.A.sum(axis=1)
    of_groups = replace(
        of_groups, outlying=outlying(of_groups.M, of_groups.V, rows=rows, p_lab=of_groups.p_lab)
    )
    return offsets_of(Pooled().posterior(of_groups, random_state=0), lab.p_lab).take(places)


def _apart(counts: Counts, odd: NDArray[np.bool_]) -> Counts:
    """With groups (A,) that are no mixture of the classes: label shift implies nothing for them."""
    t_field = counts.t_field.take(np.where(odd, -1, np.arange(len(odd))))
    return replace(counts, t_field=t_field, loose=np.where(odd, POLICY.group_spread**2, 0.0), outlying=odd)


def _deviations(centres: Floats, V: Floats, total: Floats) -> tuple[Floats, Floats]:
    """Of the mean predictions of groups (n, m) from that of all rows (m,), and their variances; (n, K) each."""
    n = np.maximum(V.sum(axis=1, keepdims=True), 1e-9)
    share = total / max(total.sum(), 1e-9)
    mean, overall = V / n @ centres, share @ centres
    within = np.maximum(V / n @ centres**2 - mean**2, _FEWEST * (share @ centres**2 - overall**2))
    return mean - overall, within / n


def centres_of(lab: Lab, model: Model) -> Floats:
    """Predictions (m, K) that are reweighted: those of the bins, inside (0, 1)."""
    return np.asarray(model.counts.base if model.lab_groups else np.maximum(lab.bin_means, 1e-6))
