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

from fieldcal.core.goodness_of_fit import ONE_SE, Movement, common_movement, effective_number, group_movement
from fieldcal.core.response import count_cells
from fieldcal.types import Floats, Ints

#: (F, V) -> common prevalence (K,), prevalence per group (G, K)
Estimator = Callable[[Floats, Floats], tuple[Floats, Floats]]

EXPONENTS = np.linspace(0.0, 1.0, 21)
FOLDS = 5
#: The bound that a rehearsed exponent must meet when the field is plainly another population than the lab.
SURE = 0.95
#: Explained share (lower bound) below which nothing is believed, and above which everything is.
RAMP = (0.85, 0.95)
#: The same for one population, whose user came for URC, on the most that its misfit leaves possible.
ALONE = (0.9, 1.0)
#: The most that evidence without labels can earn for groups.
CAP = 0.9
#: Harm in log loss that may be risked on weak evidence.
TOLERANCE = 0.002
#: A rehearsal vouches for corrections up to this many times the size it has seen.
REACH = 2.0
#: Mean and standard deviation of an exponent before any rehearsal.
PRIOR = (0.5, 0.5)
#: Lab groups smaller than this say nothing about how far group prevalences miss.
WIDTH_ROWS = 20

_FLOOR = 1e-15


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
    curve: Floats  # (T,) mean change of log loss at each exponent
    curve_se: Floats  # (T,) groups as the sampling unit
    slope: float  # the exponent that the slope at 0 points to, unbounded
    slope_se: float
    size: float  # of the full correction between groups
    excess: Floats | None  # (T, K) variance, on the logit scale, by which group prevalences miss beyond noise


@dataclass(frozen=True)
class Trust:
    """The two exponents and where they come from."""

    common: float  # σ
    groups: float  # τ
    movement: Movement  # of the whole field
    group_movement: Movement | None  # of the field's groups, where there was no rehearsal


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
    F: Floats,
    V: Floats,
    *,
    p_lab: Floats,
    common: Floats,
    each: Floats,
    centres: Floats,
    offset: Floats,
    rehearsal: Rehearsal | None,
    grouped: bool,
    smoothing: float,
) -> Trust:
    """The two exponents, from counts and estimates alone.

    Parameters
    ----------
    F, V : lab and field counts
    p_lab, common, each : prevalences of the lab (K,), the whole field (K,), the groups (G, K)
    centres : (m, K) mean prediction in each bin
    offset : (K,) what the model's implied prior lacks in the lab, see `calibration_offset`
    rehearsal : the lab's, if it has one
    grouped : whether the field has groups; one population alone is URC's own case
    """
    total = V.sum(axis=0)
    movement = common_movement(F, total, smoothing=smoothing)
    explained = _ramp(movement.lower) if movement.moved else 1.0
    shift = np.log(common) - np.log(p_lab)
    size = correction_size(centres, total[None], shift[None])
    if not grouped:
        # URC's own case: trusted unless the misfit contradicts it, and then as far as that leaves possible.
        alone = _ramp(movement.upper, ALONE) if movement.moved else 1.0
        if rehearsal is not None and movement.moved:
            alone *= _held_back(rehearsal, size)
        return Trust(alone, alone, movement, None)
    ratio = np.log(each) - np.log(common)
    sigma = CAP * explained if movement.moved else 0.0
    spread = None
    if rehearsal is None:
        spread = group_movement(F, V, smoothing=smoothing)
        tau = CAP * _ramp(spread.lower) if spread.moved else 0.0
    else:
        group_size = correction_size(centres, V, ratio)
        reach = min(1.0, np.sqrt(REACH * rehearsal.size / max(group_size, 1e-12)))
        # A field that moved inexplicably is another population: only the sure part, or what cannot hurt much.
        timid = max(reach * rehearsal.tau_sure, min(reach * rehearsal.tau, _bounded_harm(group_size)))
        tau = explained * reach * rehearsal.tau + (1 - explained) * timid
        sigma = max(sigma * _held_back(rehearsal, size), min(tau, _bounded_harm(size)))
    sigma += _opposition(offset, p_lab, shift)
    return Trust(float(np.clip(sigma, 0, 1)), float(np.clip(tau, 0, 1)), movement, spread)


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
    one, sure = student.ppf(ONE_SE, groups - 1), student.ppf(SURE, groups - 1)
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
        curve=mean,
        curve_se=se,
        slope=float(-mean[1] / scale),
        slope_se=float(one * se[1] / scale),
        size=size,
        excess=excess,
    )


def _excess(share: Floats, centres: Floats, V: Floats, log_ratio: Floats) -> Floats | None:
    """Per exponent and class: how far lab groups miss beyond noise, as a variance on the logit scale.

    An upper bound by the Q-profile: the variance at which the standardised squares are as small as they are in
    one of six cases; wide by itself when groups are few.
    """
    used = V.sum(axis=1) >= WIDTH_ROWS
    share, V, log_ratio = share[used], V[used], log_ratio[used]
    if len(V) < 2:
        return None
    table = np.empty((len(EXPONENTS), share.shape[1]))
    quantile = chi2.ppf(1 - ONE_SE, len(V))
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


def _ramp(share: float, ends: tuple[float, float] = RAMP) -> float:
    return float(np.clip((share - ends[0]) / (ends[1] - ends[0]), 0, 1))


def _bounded_harm(size: float) -> float:
    """The exponent ``s`` with ``size · (s² + s) = TOLERANCE``.

    Near zero the change of log loss is about ``size · (s² − 2 s s*)``; this is its value where the truth ``s*`` lies
    half a full correction in the other direction.
    """
    return float((np.sqrt(1 + 4 * TOLERANCE / max(size, 1e-12)) - 1) / 2)


def _held_back(rehearsal: Rehearsal, size: float) -> float:
    """What a rehearsal leaves of the trust in a common movement; it can only hold back."""
    weight = 1 / rehearsal.slope_se**2 if 0 < rehearsal.slope_se < np.inf else 0.0
    prior = 1 / PRIOR[1] ** 2
    mean = (rehearsal.slope * weight + PRIOR[0] * prior) / (weight + prior)
    deviation = (weight + prior) ** -0.5
    doubt = min(1.0, 2 * float(np.clip(mean + deviation, 0, 1)))  # even read kindly, the groups disobey
    beyond = 1 - (1 - float(np.clip(mean, 0, 1))) * np.sqrt(min(1.0, rehearsal.size / max(size, 1e-12)))
    return float(doubt * beyond)


def _opposition(offset: Floats, p_lab: Floats, shift: Floats) -> float:
    """The part of the common correction that a model miscalibrated in the lab has already made, −1 to 0."""

    def covariance(x: Floats, z: Floats) -> float:
        return float(p_lab @ (x * z) - (p_lab @ x) * (p_lab @ z))

    return float(np.clip(covariance(offset, shift) / max(covariance(shift, shift), 1e-12), -1, 0))
