"""Alarms over windows whose rate of false ones is stated for a whole trajectory, however often somebody looks.

**The share changed.** The statistic of a window is linear in its histogram: the score of a share, so that nothing but
an unchanged histogram is assumed under the null hypothesis. With means around an unknown level, and a change by δ from
window τ on, the likelihood ratio of what does not depend on the level is a martingale under the null hypothesis, and so
is its mixture over τ and δ: an e-process. By Ville's inequality it ever exceeds 1/α with a probability of at most α.
If shares may move within a band as wide as the margin, the margin is taken off every window from τ on: no path within
the band exceeds what an unchanged share gives.

Over groups an alarm is a rejection of the e-Benjamini–Hochberg procedure at level α in any window. If no group
changed, the mean of their e-processes is at least 1/α wherever one is rejected, so that all groups together have a
false alarm over the whole trajectory with a probability of at most α.

**p-values** of single windows (misfit, volume) are compared with ``α / (R t (t + 1))`` in window t of R groups.

References
----------
Ramdas, A., Grünwald, P., Vovk, V. and Shafer, G. (2023). Game-theoretic statistics and safe anytime-valid inference.
Stat. Sci. 38.
Wang, R. and Ramdas, A. (2022). False discovery rate control with e-values. J. R. Stat. Soc. B 84.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, stdtr

from fieldcal.core.policy import POLICY
from fieldcal.types import Floats, Ints

#: Changes of a share in the mixture, all of the same weight.
SIZES = np.geomspace(0.01, 0.8, 14)
#: Windows back to which a change is looked for; leaving out earlier ones makes e-values smaller.
_BACK = 60
#: Windows after which a change is as likely as not, in one half of the mixture; the other half goes on for ever.
_USUAL = 50.0
#: Windows from which the volume is compared with earlier ones, and the smallest factor that counts.
_VOLUMES, _FACTOR = 4, 1.5


@dataclass(frozen=True)
class Evidence:
    """For a change of the share of one class in each group, given the windows up to each."""

    log_e: Floats  # (R, T)
    change: Ints  # (R, T) window in which the change is most probable
    up: NDArray[np.bool_]  # (R, T) whether the share rose


def evidence_of_change(V: Floats, M: Floats, p: Floats, k: int, *, margin: float) -> Evidence:
    """E-processes of all groups.

    Parameters
    ----------
    V : (R, T, m) effective rows
    p : (R, K) shares over the whole time, where the score is taken
    k : the class
    margin : width of the band within which shares may move
    """
    y, v, largest = _scores(V, M, p, k)
    R, T = y.shape
    w = np.where(np.isfinite(v), 1 / v, 0.0)
    A, B = np.cumsum(w, axis=1), np.cumsum(w * y, axis=1)
    before_A, before_B = (np.concatenate([np.zeros((R, 1)), x[:, :-1]], axis=1) for x in (A, B))
    start = np.arange(1, T + 1)
    decay = np.exp(-start / _USUAL)
    weights = 0.5 / (start * (start + 1.0)) + 0.5 * decay / (1 / np.expm1(1 / _USUAL))
    log_e, change, up = np.zeros((R, T)), np.zeros((R, T), np.intp), np.zeros((R, T), bool)
    for t in range(1, T):
        at = np.arange(max(1, t + 1 - _BACK), t + 1)
        after_A, after_B = A[:, t, None] - before_A[:, at], B[:, t, None] - before_B[:, at]
        J = after_A * before_A[:, at] / np.maximum(A[:, t, None], 1e-300)
        S = after_B - after_A * (B[:, t] / np.maximum(A[:, t], 1e-300))[:, None]
        both = np.stack([_log_ratio(sign * S - margin * J, J, largest) for sign in (1, -1)])  # (2, R, τ)
        terms = both + np.log(weights[at - 1] / 2)
        never = np.log1p(-min(weights[:t].sum(), 1 - 1e-12))
        log_e[:, t] = np.logaddexp(logsumexp(terms, axis=(0, 2)), never)
        change[:, t] = at[terms.max(axis=0).argmax(axis=1)]
        up[:, t] = terms[0].max(axis=1) >= terms[1].max(axis=1)
    return Evidence(log_e, change, up)


def _log_ratio(S: Floats, J: Floats, largest: Floats) -> Floats:
    """Log likelihood ratio of a positive change, averaged over its size.

    A window of few rows is no normal variable: its cumulants are at most those of a bounded one (Bennett's inequality).
    """
    x = SIZES * largest[:, None]  # (R, sizes)
    heavier = 2 * (np.expm1(x) - x) / x**2
    parts = S[..., None] * SIZES - 0.5 * J[..., None] * (SIZES**2 * heavier)[:, None]
    return np.asarray(logsumexp(parts, axis=-1) - np.log(len(SIZES)))


def _scores(V: Floats, M: Floats, p: Floats, k: int) -> tuple[Floats, Floats, Floats]:
    """(R, T) linear statistic of each window, in units of the share, and its variance; infinite without rows. And (R,)
    the largest score of a row over its variance.
    """
    q = np.maximum(p @ M, 1e-12)
    others = p.copy()
    others[:, k] = 0
    slope = M[k] - others @ M / np.maximum(others.sum(axis=1, keepdims=True), 1e-12)
    a = slope / q
    a = a / np.maximum((a * slope).sum(axis=1, keepdims=True), 1e-12)
    n, total = V.sum(axis=2), V.sum(axis=1)
    observed = total / np.maximum(total.sum(axis=1, keepdims=True), 1e-12)
    variance = np.maximum(*((h * a**2).sum(axis=1) - (h * a).sum(axis=1) ** 2 for h in (q, observed)))
    y = np.einsum("rtm,rm->rt", V, a) / np.maximum(n, 1e-12)
    variance = np.maximum(variance, 1e-12)
    largest = np.abs(a - (q * a).sum(axis=1, keepdims=True)).max(axis=1) / variance
    with np.errstate(divide="ignore"):
        return y, variance[:, None] / n, np.minimum(largest, 100.0)


def e_rejected(log_e: Floats, rate: float) -> NDArray[np.bool_]:
    """e-Benjamini–Hochberg in each window: (R, T) rejected groups."""
    R = len(log_e)
    order = np.argsort(-log_e, axis=0, kind="stable")
    ranked = np.take_along_axis(log_e, order, axis=0)
    enough = ranked >= np.log(R / rate) - np.log(np.arange(1, R + 1))[:, None]
    last = np.where(enough.any(axis=0), R - 1 - enough[::-1].argmax(axis=0), -1)
    rejected = np.zeros(log_e.shape, dtype=bool)
    np.put_along_axis(rejected, order, np.arange(R)[:, None] <= last, axis=0)
    return rejected


def levels(shape: tuple[int, int], rate: float) -> Floats:
    """(1, T) levels of p-values, which sum over groups and windows to the rate at most."""
    t = np.arange(1, shape[1] + 1)
    return np.asarray((rate / (shape[0] * t * (t + 1.0)))[None])


def broken(misfit: Floats, effect: Floats, rate: float) -> NDArray[np.bool_]:
    """(R, T) windows that no mixture of the classes explains, by more than a medium effect."""
    return np.asarray((misfit < levels(misfit.shape, rate)) & (effect > POLICY.medium_effect))


def unusual_volume(n: Floats, rate: float) -> tuple[NDArray[np.bool_], Floats]:
    """(R, T) windows with another number of rows than before, and the factor; groups relative to the first row.

    Logarithms are compared with those of the earlier windows by Student's t; the first row, the whole field, is judged
    by its own, and in the newest window, which may not be complete, only if it has more rows.
    """
    R, T = n.shape
    relative = np.log(n + 0.5)
    relative[1:] -= np.log(n[0] + 0.5)
    unusual, factor = np.zeros((R, T), dtype=bool), np.ones((R, T))
    for t in range(_VOLUMES, T):
        seen = n[:, :t] > 0
        count = seen.sum(axis=1)
        mean = np.where(seen, relative[:, :t], 0).sum(axis=1) / np.maximum(count, 1)
        spread = np.where(seen, (relative[:, :t] - mean[:, None]) ** 2, 0).sum(axis=1) / np.maximum(
            count - 1, 1
        )
        usual = np.median(np.where(seen, n[:, :t], np.nan), axis=1) if seen.all() else _median(n[:, :t])
        floor = 1 / np.maximum(usual, 1.0) + 0.05**2
        z = (relative[:, t] - mean) / np.sqrt(np.maximum(spread, floor) * (1 + 1 / np.maximum(count, 1)))
        p = 2 * stdtr(np.maximum(count - 1, 1), -np.abs(z))
        factor[:, t] = np.exp(relative[:, t] - mean)
        far = (factor[:, t] > _FACTOR) | (factor[:, t] < 1 / _FACTOR)
        unusual[:, t] = (count >= _VOLUMES) & (p < levels(n.shape, rate)[0, t]) & far & (n[0, t] > 0)
    if T:
        unusual[0, -1] &= factor[0, -1] > 1
    return unusual, factor


def silent(n: Floats) -> NDArray[np.bool_]:
    """(R, T) windows without a row of a group that usually has some, while the field has rows."""
    usual = np.stack([_median(n[:, : max(t, 1)]) for t in range(n.shape[1])], axis=1)
    return np.asarray((n == 0) & (usual >= POLICY.few) & (n[:1] > 0))


def _median(n: Floats) -> Floats:
    """(R,) median of the windows with rows; 0 without any."""
    shown = np.where((n > 0).any(axis=1, keepdims=True), np.where(n > 0, n, np.nan), 0.0)
    return np.asarray(np.nanmedian(shown, axis=1))
