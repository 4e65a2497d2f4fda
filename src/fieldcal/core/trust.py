"""Trust: should URC be applied here, and how much?

Predictions of group ``g`` are multiplied by ``(p_common / p_lab)^σ · (p_g / p_common)^τ``. Two exponents, because
two questions: ``τ``, do the groups differ by label shift, can be *rehearsed* where the lab has groups and labels;
``σ``, did the whole field move by label shift, cannot, and is read from the field's histogram, with caution.

The *size* of a correction is the mean ``KL(C ‖ C')`` between predictions before and after it: what it would cost, in
log loss, if the model was right all along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import chi2
from scipy.stats import t as student

from fieldcal.core.goodness_of_fit import (
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
from fieldcal.core.solve import Solution
from fieldcal.types import Floats, Ints

#: (F, V) -> common prevalence (K,), prevalence per group (G, K)
Estimator = Callable[[Floats, Floats], tuple[Floats, Floats]]

EXPONENTS = np.linspace(0.0, 1.0, 21)
FOLDS = 5

_FLOOR, _TINY = 1e-15, 1e-300


@dataclass(frozen=True)
class Rehearsal:
    """What happened when the lab's own groups played the field."""

    tau: float  # the exponent with the best lower bound of the gain; 0 if none is positive
    tau_sure: float  # the same with the stricter bound
    change: float  # mean change of log loss at tau; negative is better
    change_se: float
    n_groups: int
    n_rows: int
    exponents: Floats  # (T,)
    change_by_exponent: Floats  # (T,) mean change of log loss at each exponent
    change_by_exponent_se: Floats  # (T,) groups as the sampling unit
    slope: float  # the exponent that the slope at 0 points to, unbounded
    slope_se: float
    size: float  # of the full correction between groups
    excess_variance: (
        Floats | None
    )  # (T, K) variance, on the logit scale, by which group prevalences miss beyond noise


@dataclass(frozen=True)
class Trust:
    """The two exponents, and whether the caller set them."""

    overall: float  # σ, of the whole field
    between: float  # τ, of the differences between groups
    set_by_caller: bool = False

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
    between: ShiftExplained | None  # the groups against each other, where no rehearsal says more
    rehearsal: Rehearsal | None
    edge: str  # where the strength of the pooling is at the edge of its range
    mode: Solution | None = None  # where the mode is the estimate

    @property
    def unlike_any_mixture(self) -> bool:
        """A field so unlike the lab that nothing learnt there applies: another model, or a fault in scoring."""
        return bool(self.whole.effect[0] > POLICY.large_effect and self.whole.p_value[0] < POLICY.noise)

    @property
    def inconsistent(self) -> NDArray[np.bool_]:
        """Groups that no mixture of the classes explains: beyond chance over all groups, and large enough to matter."""
        found = self.misfit.adjusted < POLICY.false_discoveries
        return np.asarray(found & (self.misfit.effect > POLICY.small_effect))

    def another_population(self, *, alone: bool) -> bool:
        """Whether the misfit speaks against label shift so plainly that nothing of it is believed."""
        shift = self.overall
        refused = shift.upper < POLICY.explained_alone[0] if alone else shift.share < POLICY.explained[0]
        return shift.contradicted and refused


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
    unrehearsed = problem.grouped and rehearsal is None
    return Evidence(
        whole=misfit(problem.M, total[None], whole[None], rows=rows),
        misfit=misfit(problem.M, problem.V, urc, rows=rows),
        novel=novel(F, problem.V),
        overall=overall_shift(F, total, smoothing=smoothing),
        between=between_shift(F, problem.V, smoothing=smoothing) if unrehearsed else None,
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
    log_proba = np.log(np.maximum(proba, _FLOOR))
    change = np.zeros((n_groups, len(EXPONENTS)))
    squares = np.zeros(len(EXPONENTS))
    log_ratio = np.zeros((n_groups, n_classes))
    for k in range(FOLDS):
        out = fold == k
        kept = None if weight is None else weight[~out]
        F = count_cells(y[~out], bins[~out], shape=(n_classes, n_bins), weight=kept)
        common, each = estimate(_floats(F), V)
        ratio = np.log(each) - np.log(common)
        log_ratio += ratio / FOLDS
        for i, t in enumerate(EXPONENTS[1:], 1):
            gain = size[out] * _change(log_proba[out], t * ratio[groups[out]], y[out])
            change[:, i] += np.bincount(groups[out], gain, minlength=n_groups)
            squares[i] += np.square(gain).sum()
    rows = np.bincount(groups, weights=size, minlength=n_groups).astype(np.float64)
    centres = bin_centres(proba, bins, n_bins, weight)
    share = _floats(count_cells(groups, y, shape=(n_groups, n_classes), weight=weight)) / rows[:, None]
    excess = _excess(share, centres, V, log_ratio)
    return _summary(change, squares, rows, correction_size(centres, V, log_ratio), excess)


def decide_trust(
    problem: Problem, evidence: Evidence, *, urc: Floats, whole: Floats, centres: Floats, offset: Floats
) -> Trust:
    """The two exponents, from counts and estimates alone.

    Parameters
    ----------
    problem, evidence : lab and field, and what was measured of them
    urc, whole : prevalences of the groups (G, K) and of the whole field (K,) under label shift
    centres : (m, K) mean prediction in each bin
    offset : (K,) what the model's implied prior lacks in the lab, see `calibration_offset`
    """
    if len(centres) == 1 or evidence.unlike_any_mixture:
        return Trust(0.0, 0.0)
    overall, rehearsal = evidence.overall, evidence.rehearsal
    whole, urc = np.maximum(whole, _TINY), np.maximum(urc, _TINY)
    shift = np.log(whole) - np.log(problem.p_lab)
    size = correction_size(centres, problem.total[None], shift[None])
    if not problem.grouped:
        # URC's own case: trusted unless the misfit contradicts it, and then as far as that leaves possible.
        alone = _ramp(overall.upper, POLICY.explained_alone) if overall.shifted else 1.0
        if rehearsal is not None and overall.shifted:
            alone *= _withheld(rehearsal, size)
        return Trust(alone, alone)
    explained = _ramp(overall.lower) if overall.shifted else 1.0
    sigma = POLICY.most_unrehearsed * explained if overall.shifted else 0.0
    if rehearsal is None:
        between = evidence.between
        tau = (
            POLICY.most_unrehearsed * _ramp(between.lower) if between is not None and between.shifted else 0.0
        )
    else:
        group_size = correction_size(centres, problem.V, np.log(urc) - np.log(whole))
        reach = min(1.0, np.sqrt(POLICY.rehearsed_reach * rehearsal.size / max(group_size, 1e-12)))
        # A field that moved inexplicably is another population: only the sure part, or what cannot hurt much.
        cautious = max(reach * rehearsal.tau_sure, min(reach * rehearsal.tau, _bounded_harm(group_size)))
        tau = explained * reach * rehearsal.tau + (1 - explained) * cautious
        sigma = max(sigma * _withheld(rehearsal, size), min(tau, _bounded_harm(size)))
    sigma += _already_corrected(offset, problem.p_lab, shift)
    return Trust(float(np.clip(sigma, 0, 1)), float(np.clip(tau, 0, 1)))


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


def calibration_offset(centres: Floats, bin_rows: Floats, p_lab: Floats) -> Floats:
    """Log weights that make the mean prediction of the lab equal to its prevalences: zero if it already is."""
    log_centres = np.log(np.maximum(centres, _FLOOR))
    offset = np.zeros(len(p_lab))
    for _ in range(200):
        tilted = log_centres + offset
        mean = np.average(np.exp(tilted - logsumexp(tilted, axis=1, keepdims=True)), axis=0, weights=bin_rows)
        step = np.log(p_lab) - np.log(np.maximum(mean, 1e-300))
        offset += step
        if np.abs(step).max() < 1e-6:
            break
    return np.asarray(offset - offset @ p_lab)


def _floats(counts: NDArray[np.float64] | NDArray[np.int64]) -> Floats:
    return counts.astype(np.float64)


def _deal(y: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """Folds that every group, and within it every class, is dealt to evenly."""
    order = np.lexsort((rng.random(len(y)), y, groups))
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = (np.arange(len(y)) + rng.integers(FOLDS)) % FOLDS
    return fold


def _change(log_proba: Floats, log_weights: Floats, y: Ints) -> Floats:
    """Change of log loss per row when predictions are multiplied by weights."""
    tilted = log_proba + log_weights
    top = tilted.max(axis=1)
    log_z = np.log(np.exp(tilted - top[:, None]).sum(axis=1)) + top
    return np.asarray(log_z - log_weights[np.arange(len(y)), y])


def _summary(change: Floats, squares: Floats, rows: Floats, size: float, excess: Floats | None) -> Rehearsal:
    """The exponent with the best lower bound of the gain."""
    G, N = len(rows), rows.sum()
    mean = change.sum(axis=0) / N
    between = G / (G - 1) * np.square(change - rows[:, None] * mean).sum(axis=0)
    se = np.sqrt(np.maximum(between, squares)) / N  # groups as the unit, and never less than rows
    groups = effective_number(rows)
    one, sure = student.ppf(POLICY.one_se, groups - 1), student.ppf(POLICY.sure, groups - 1)
    best, best_sure = int(np.argmin(mean + one * se)), int(np.argmin(mean + sure * se))
    scale = 2 * max(size, 1e-12) * EXPONENTS[1]
    return Rehearsal(
        tau=float(EXPONENTS[best]),
        tau_sure=float(EXPONENTS[best_sure]),
        change=float(mean[best]),
        change_se=float(se[best]),
        n_groups=G,
        n_rows=int(N),
        exponents=EXPONENTS,
        change_by_exponent=mean,
        change_by_exponent_se=se,
        slope=float(-mean[1] / scale),
        slope_se=float(one * se[1] / scale),
        size=size,
        excess_variance=excess,
    )


def _excess(share: Floats, centres: Floats, V: Floats, log_ratio: Floats) -> Floats | None:
    """Per exponent and class: how far lab groups miss beyond noise, as a variance on the logit scale.

    An upper bound by the Q-profile: the variance at which the standardised squares are as small as they are in
    one of six cases; wide by itself when groups are few. Differs from the reference: one-sided, at one standard error.

    References
    ----------
    Viechtbauer, W. (2007). Confidence intervals for the amount of heterogeneity in meta-analysis. Stat. Med. 26.
    """
    used = V.sum(axis=1) >= POLICY.rows_of_a_miss
    share, V, log_ratio = share[used], V[used], log_ratio[used]
    if len(V) < 2:
        return None
    table = np.empty((len(EXPONENTS), share.shape[1]))
    quantile = chi2.ppf(1 - POLICY.one_se, len(V))
    for i, t in enumerate(EXPONENTS):
        value, variance = mean_recalibrated(centres, V, t * log_ratio)
        s = np.maximum(value * (1 - value), 1e-9)
        for k in range(share.shape[1]):
            squares, noise = ((share[:, k] - value[:, k]) / s[:, k]) ** 2, variance[:, k] / s[:, k] ** 2
            table[i, k] = _q_profile(squares, noise, quantile)
    return table


def _q_profile(squares: Floats, noise: Floats, quantile: float) -> float:
    def surplus(extra: float) -> float:
        return float((squares / (noise + extra)).sum() - quantile)

    return float(brentq(surplus, 0.0, squares.sum() / quantile + 1.0)) if surplus(0.0) > 0 else 0.0


def mean_recalibrated(centres: Floats, V: Floats, log_weights: Floats) -> tuple[Floats, Floats]:
    """Mean recalibrated prediction per group, (G, K), and the variance of the label share around it."""
    n = np.maximum(V.sum(axis=1), 1e-300)[:, None]
    mean, variance = np.empty(log_weights.shape), np.empty(log_weights.shape)
    log_centres = np.log(np.maximum(centres, _FLOOR))
    step = max(1, 2_000_000 // centres.size)
    for start in range(0, len(V), step):
        part = slice(start, start + step)
        tilted = log_centres[None] + log_weights[part, None, :]
        Q = np.exp(tilted - tilted.max(axis=2, keepdims=True))
        Q /= Q.sum(axis=2, keepdims=True)
        h = V[part] / n[part]
        mean[part] = np.einsum("gj,gjk->gk", h, Q)
        variance[part] = np.einsum("gj,gjk->gk", h, Q * (1 - Q)) / n[part]
    return mean, variance


def _ramp(share: float, ends: tuple[float, float] = POLICY.explained) -> float:
    return float(np.clip((share - ends[0]) / (ends[1] - ends[0]), 0, 1))


def _bounded_harm(size: float) -> float:
    """The exponent ``s`` with ``size · (s² + s) = POLICY.tolerated_harm``.

    Near zero the change of log loss is about ``size · (s² − 2 s s*)``; this is its value where the truth ``s*`` lies
    half a full correction in the other direction.
    """
    return float((np.sqrt(1 + 4 * POLICY.tolerated_harm / max(size, 1e-12)) - 1) / 2)


def _withheld(rehearsal: Rehearsal, size: float) -> float:
    """What a rehearsal leaves of the trust in a shift of the whole field; it can only withhold."""
    weight = 1 / rehearsal.slope_se**2 if 0 < rehearsal.slope_se < np.inf else 0.0
    prior = 1 / POLICY.exponent_prior[1] ** 2
    mean = (rehearsal.slope * weight + POLICY.exponent_prior[0] * prior) / (weight + prior)
    deviation = (weight + prior) ** -0.5
    doubt = min(1.0, 2 * float(np.clip(mean + deviation, 0, 1)))  # even read kindly, the groups disobey
    beyond = 1 - (1 - float(np.clip(mean, 0, 1))) * np.sqrt(min(1.0, rehearsal.size / max(size, 1e-12)))
    return float(doubt * beyond)


def _already_corrected(offset: Floats, p_lab: Floats, shift: Floats) -> float:
    """The part of the common correction that a model miscalibrated in the lab has already made, −1 to 0."""

    def covariance(x: Floats, z: Floats) -> float:
        return float(p_lab @ (x * z) - (p_lab @ x) * (p_lab @ z))

    return float(np.clip(covariance(offset, shift) / max(covariance(shift, shift), 1e-12), -1, 0))
