"""Trust: the probability that label shift holds here. Labels can support it; histograms support little.

Two questions, so two numbers. *Between*: do the groups differ by label shift? That is *rehearsed* where the lab has
groups and labels. *Overall*: did the whole field move by label shift? That cannot be rehearsed, and is read from the
field's histogram, which cannot tell label shift from a covariate shift that tilts the scores alike: see
`Policy.trust_without_labels`, the one rule for all that no label speaks of.

The *size* of a correction is the mean ``KL(C ‖ C')`` between predictions before and after it: what it would cost, in
log loss, if the model was right all along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, entr, logsumexp, stdtrit

from fieldcal.core.goodness_of_fit import (
    ONE_SE,
    Misfit,
    ShiftExplained,
    between_shift,
    effective_number,
    misfit,
    overall_shift,
)
from fieldcal.core.likelihood import novel
from fieldcal.core.policy import POLICY
from fieldcal.core.problem import Problem
from fieldcal.core.response import count_cells
from fieldcal.core.reweight import Step, taken
from fieldcal.core.solve import Solution
from fieldcal.types import Floats, Ints

#: (F, V) -> common prevalence (K,), prevalence per group (G, K)
Estimator = Callable[[Floats, Floats], tuple[Floats, Floats]]

#: Mixing weights that a rehearsal tries.
GRID = np.linspace(0.0, 1.0, 21)
FOLDS = 5

_FLOOR, _TINY = 1e-15, 1e-300


@dataclass(frozen=True)
class Rehearsal:
    """What happened when the lab's own groups played the field."""

    trust: float  # the mixing weight with the best lower bound of the gain; 0 if none is positive
    sure: float  # the same with the stricter bound
    change: float  # mean change of log loss at that trust; negative is better
    change_se: float
    n_groups: int
    n_rows: int
    grid: Floats  # (T,) mixing weights that were tried
    change_by_trust: Floats  # (T,) mean change of log loss at each
    change_by_trust_se: Floats  # (T,) groups as the sampling unit
    size: float  # of the full correction between groups
    excess_variance: (
        Floats | None
    )  # (T, K) variance, on the logit scale, by which group prevalences miss beyond noise


@dataclass(frozen=True)
class Trust:
    """The two probabilities, and whether the caller set them."""

    overall: float  # in the movement of the whole field
    between: float  # in the differences between groups
    set_by_caller: bool = False
    rehearsed: float = 0.0  # the share of `between` that the rehearsal vouches for

    @property
    def nothing(self) -> bool:
        """Whether no prediction is changed."""
        return self.overall == 0 and self.between == 0


@dataclass(frozen=True)
class Evidence:
    """What was measured, once; trust and findings both read it."""

    whole: Misfit  # of the field as one population
    misfit: Misfit  # of every group
    novel: Floats  # (G,) rows in bins that the lab never filled
    overall: ShiftExplained  # the whole field against the lab
    between: ShiftExplained | None  # the groups against each other; None without groups
    rehearsal: Rehearsal | None
    edge: str  # where the strength of the pooling is at the edge of its range
    mode: Solution | None = None  # where the mode is the estimate

    @property
    def unlike_any_mixture(self) -> bool:
        """A field so unlike the lab that nothing learnt there applies: another model, or a fault in scoring."""
        return bool(self.whole.effect[0] > POLICY.large_effect and self.whole.p_value[0] < POLICY.contradicts)

    @property
    def inconsistent(self) -> NDArray[np.bool_]:
        """Groups that no mixture of the classes explains: beyond chance over all groups, and large enough to matter."""
        found = self.misfit.adjusted < POLICY.beyond_noise
        return np.asarray(found & (self.misfit.effect > POLICY.small_effect))

    def refused(self, shift: ShiftExplained, effect: float) -> bool:
        """Whether a movement is inexplicable by label shift beyond noise, and the misfit large."""
        unexplained = shift.shifted and shift.contradicted and shift.upper < POLICY.explained[0]
        return unexplained and effect > POLICY.medium_effect


def measure(
    problem: Problem,
    *,
    urc: Floats,
    whole: Floats,
    rehearsal: Rehearsal | None = None,
    edge: str = "",
    mode: Solution | None = None,
) -> Evidence:
    """Fit, shift and rehearsal of a field whose prevalences under label shift are urc (G, K), together whole (K,)."""
    rows, total = problem.A.sum(axis=1), problem.total
    F, smoothing = problem.F, problem.smoothing
    return Evidence(
        whole=misfit(problem.M, total[None], whole[None], rows=rows),
        misfit=misfit(problem.M, problem.V, urc, rows=rows),
        novel=novel(F, problem.V),
        overall=overall_shift(
            F if problem.F_typical is None else problem.F_typical, total, smoothing=smoothing
        ),
        between=between_shift(F, problem.typical, smoothing=smoothing) if problem.grouped else None,
        rehearsal=rehearsal,
        edge=edge,
        mode=mode,
    )


def rehearse(
    proba: Floats,
    y: Ints,
    groups: Ints,
    bins: Ints,
    *,
    n_bins: int,
    estimate: Estimator,
    weight: Floats | None = None,
    random_state: int = 0,
) -> Rehearsal | None:
    """Let the lab's groups play the field: cross-fitted, scored on labels that were held out.

    ``F`` comes from the other folds, the histograms of the groups from all lab rows without their labels: pretend
    groups are as large as they are. Only the differences between groups are applied, so that mending a model that is
    miscalibrated everywhere cannot pose as knowledge about groups. Groups are the sampling unit of the error.

    Returns None if there are too few groups, rows, or rows of a class to rehearse with.
    """
    if (
        weight is not None and not weight.all()
    ):  # a row without weight is no row, nor a group of such rows one
        used = weight > 0
        proba, y, bins, weight = proba[used], y[used], bins[used], weight[used]
        groups = np.unique(groups[used], return_inverse=True)[1]
    n_classes, n_groups = proba.shape[1], int(groups.max()) + 1
    size = np.ones(len(y)) if weight is None else weight
    if n_groups < 2 or len(y) < 10 * FOLDS or np.bincount(y, minlength=n_classes).min() < 2:
        return None
    V = _floats(count_cells(groups, bins, shape=(n_groups, n_bins), weight=weight))
    fold = _deal(y, groups, np.random.default_rng(random_state))
    change = np.zeros((n_groups, len(GRID)))
    squares = np.zeros(len(GRID))
    log_ratio = np.zeros((n_groups, n_classes))
    for k in range(FOLDS):
        out = fold == k
        kept = None if weight is None else weight[~out]
        F = count_cells(y[~out], bins[~out], shape=(n_classes, n_bins), weight=kept)
        common, each = estimate(_floats(F), V)
        ratio = np.log(each) - np.log(common)
        log_ratio += ratio / FOLDS
        gain = _gain(proba[out], ratio[groups[out]], y[out])
        own, rows_out = groups[out], size[out]
        gain -= 1
        for i, t in enumerate(GRID[1:], 1):
            lost = -rows_out * np.log1p(t * gain)
            change[:, i] += np.bincount(own, lost, minlength=n_groups)
            squares[i] += np.square(lost).sum()
    rows = np.bincount(groups, weights=size, minlength=n_groups).astype(np.float64)
    centres = bin_centres(proba, bins, n_bins, weight)
    share = _floats(count_cells(groups, y, shape=(n_groups, n_classes), weight=weight)) / rows[:, None]
    excess = _excess(share, centres, V, log_ratio)
    return _summary(change, squares, rows, correction_size(centres, V, log_ratio), excess)


def decide_trust(
    problem: Problem, evidence: Evidence, *, urc: Floats, whole: Floats, centres: Floats
) -> Trust:
    """The two probabilities, from counts and estimates alone.

    Parameters
    ----------
    problem, evidence : lab and field, and what was measured of them
    urc, whole : prevalences of the groups (G, K) and of the whole field (K,) under label shift
    centres : (m, K) mean prediction in each bin
    """
    if len(centres) == 1 or evidence.unlike_any_mixture:
        return Trust(0.0, 0.0)
    known, rehearsal = skill(problem.F), evidence.rehearsal
    overall = without_labels(evidence.overall, known)
    if (
        rehearsal is not None
    ):  # where label shift holds between the lab's groups for sure, it may hold here as surely
        overall *= max(1.0, rehearsal.sure / POLICY.most_without_labels)
    if not problem.grouped:
        return Trust(overall, overall)
    assert evidence.between is not None
    # Of several groups the share has an error of its own: it counts at its lower bound.
    between = without_labels(replace(evidence.between, share=evidence.between.lower), known)
    if rehearsal is None:
        return Trust(overall, between)
    apart = np.log(np.maximum(urc, _TINY)) - np.log(np.maximum(whole, _TINY))
    # Differences within noise are not larger than any that were rehearsed.
    size = correction_size(centres, problem.V, apart) if evidence.between.shifted else 0.0
    seen = reach(rehearsal, size)
    return Trust(
        overall, seen * _supported(rehearsal, evidence.overall) + (1 - seen) * between, rehearsed=seen
    )


def skill(F: Floats) -> float:
    """The share of the classes' entropy that the bins explain in the lab, 0 to 1.

    Differs from the plug-in estimate by the first-order correction of its bias.

    References
    ----------
    Miller, G. A. (1955). Note on the bias of information estimates. Information Theory in Psychology.
    """
    n, rows = F.sum(), F.sum(axis=0)
    classes = entr(F.sum(axis=1) / n).sum()
    if classes <= 0:
        return 0.0
    given = (entr(F / np.maximum(rows, _TINY)).sum(axis=0) * rows).sum() / n
    bias = (len(F) - 1) * (np.count_nonzero(rows) - 1) / (2 * n)
    return float(np.clip(1 - (given + bias) / classes, 0.0, 1.0))


def without_labels(shift: ShiftExplained, known: float) -> float:
    """Trust that histograms support: none if nothing shifted beyond noise."""
    if not shift.shifted:
        return 0.0
    return POLICY.trust_without_labels(share=shift.share, least=shift.lower, most=shift.upper, skill=known)


def reach(rehearsal: Rehearsal, size: float) -> float:
    """How far a rehearsal vouches for a correction between groups of this size, 0 to 1."""
    return float(min(1.0, POLICY.rehearsed_reach * rehearsal.size / size)) if size > 0 else 1.0


def excess_variance(rehearsal: Rehearsal, trust: float) -> Floats:
    """How far lab groups missed beyond noise at this trust, as a variance on the logit scale, (K,) or one for all."""
    if rehearsal.excess_variance is None:
        return np.zeros(1)
    return np.array([np.interp(trust, rehearsal.grid, column) for column in rehearsal.excess_variance.T])


def _supported(rehearsal: Rehearsal, overall: ShiftExplained) -> float:
    """The rehearsal's trust; the stricter one as far as label shift does not explain the field."""
    full = without_labels(overall, 1.0) / POLICY.most_without_labels if overall.shifted else 1.0
    return full * rehearsal.trust + (1 - full) * rehearsal.sure


def correction_size(centres: Floats, V: Floats, log_weights: Floats) -> float:
    """Mean ``KL(C ‖ C')`` over the field, predictions standing at the centres of their bins."""
    # KL(c ‖ c·w / Z) = log Z − c·log w
    log_z = logsumexp(np.log(np.maximum(centres, _FLOOR))[None] + log_weights[:, None, :], axis=2)
    return float(max(0.0, (V * (log_z - log_weights @ centres.T)).sum() / max(V.sum(), 1e-300)))


def bin_centres(proba: Floats, bins: Ints, n_bins: int, weight: Floats | None = None) -> Floats:
    """The mean prediction in each bin, (m, K); of all rows where a bin is empty."""
    n = np.bincount(bins, weights=weight, minlength=n_bins).astype(np.float64)
    sums = np.column_stack(
        [np.bincount(bins, c if weight is None else c * weight, minlength=n_bins) for c in proba.T]
    )
    return np.where(n[:, None] > 0, sums / np.maximum(n, 1e-300)[:, None], sums.sum(axis=0) / n.sum())


def _floats(counts: NDArray[np.float64] | NDArray[np.int64]) -> Floats:
    return counts.astype(np.float64)


def _deal(y: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """Folds that every group, and within it every class, is dealt to evenly."""
    order = np.argsort((groups * (int(y.max()) + 1) + y) + rng.random(len(y)), kind="stable")
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = (np.arange(len(y)) + rng.integers(FOLDS)) % FOLDS
    return fold


def _gain(proba: Floats, log_weights: Floats, y: Ints) -> Floats:
    """How many times more probable the full correction makes each row's own class, (n,): ``w_y / Σ C_k w_k``."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    total = np.maximum((proba * weights).sum(axis=1), _FLOOR)
    return np.asarray(weights[np.arange(len(y)), y] / total)


def _summary(change: Floats, squares: Floats, rows: Floats, size: float, excess: Floats | None) -> Rehearsal:
    """The mixing weight with the best lower bound of the gain."""
    G, N = len(rows), rows.sum()
    mean = change.sum(axis=0) / N
    between = G / (G - 1) * np.square(change - rows[:, None] * mean).sum(axis=0)
    se = np.sqrt(np.maximum(between, squares)) / N  # groups as the unit, and never less than rows
    groups = effective_number(rows)
    one, sure = (stdtrit(groups - 1, p) for p in (POLICY.rehearsed, POLICY.sure))
    best, best_sure = int(np.argmin(mean + one * se)), int(np.argmin(mean + sure * se))
    return Rehearsal(
        trust=float(GRID[best]),
        sure=float(GRID[best_sure]),
        change=float(mean[best]),
        change_se=float(se[best]),
        n_groups=G,
        n_rows=int(N),
        grid=GRID,
        change_by_trust=mean,
        change_by_trust_se=se,
        size=size,
        excess_variance=excess,
    )


def _excess(share: Floats, centres: Floats, V: Floats, log_ratio: Floats) -> Floats | None:
    """Per mixing weight and class: how far lab groups miss beyond noise, as a variance on the logit scale.

    An upper bound by the Q-profile: the variance at which the standardised squares are as small as they are in
    one of six cases; wide by itself when groups are few. Differs from the reference: one-sided, at one standard error.

    References
    ----------
    Viechtbauer, W. (2007). Confidence intervals for the amount of heterogeneity in meta-analysis. Stat. Med. 26.
    """
    used = V.sum(axis=1) >= POLICY.few
    share, V, log_ratio = share[used], V[used], log_ratio[used]
    if len(V) < 2:
        return None
    table = np.empty((len(GRID), share.shape[1]))
    quantile = float(chdtri(len(V), ONE_SE))
    weights = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
    for i, t in enumerate(GRID):
        value, variance = mean_recalibrated(centres, V, (Step(t, weights),))
        s = np.maximum(value * (1 - value), 1e-9)
        for k in range(share.shape[1]):
            squares, noise = ((share[:, k] - value[:, k]) / s[:, k]) ** 2, variance[:, k] / s[:, k] ** 2
            noise = np.maximum(noise, _TINY)  # predictions of exactly 0 or 1 leave none
            table[i, k] = _q_profile(squares, noise, quantile)
    return table


def _q_profile(squares: Floats, noise: Floats, quantile: float) -> float:
    from scipy.optimize import brentq

    def surplus(extra: float) -> float:
        return float((squares / (noise + extra)).sum() - quantile)

    return float(brentq(surplus, 0.0, squares.sum() / quantile + 1.0)) if surplus(0.0) > 0 else 0.0


def mean_recalibrated(centres: Floats, V: Floats, steps: tuple[Step, ...]) -> tuple[Floats, Floats]:
    """Mean recalibrated prediction per group, (G, K), and the variance of the label share around it.

    Predictions stand at the centres of their bins, (m, K).
    """
    G, K = len(V), centres.shape[1]
    n = np.maximum(V.sum(axis=1), 1e-300)[:, None]
    mean, variance = np.empty((G, K)), np.empty((G, K))
    chunk = max(1, 2_000_000 // centres.size)
    for start in range(0, G, chunk):
        part = slice(start, start + chunk)
        here = np.broadcast_to(centres, (len(V[part]), *centres.shape))
        Q = taken((step.of(part) for step in steps), here)
        h = V[part] / n[part]
        mean[part] = np.einsum("gj,gjk->gk", h, Q)
        variance[part] = np.einsum("gj,gjk->gk", h, Q * (1 - Q)) / n[part]
    return mean, variance
