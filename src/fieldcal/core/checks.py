"""Does the field look like a mixture of the lab's classes? Goodness of fit, effect sizes, identifiability.

With more bins than classes the consistency assumption leaves a trace that can be tested: a histogram that no
mixture of the rows of ``M`` explains. The test knows that ``M`` itself was estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, false_discovery_control

from fieldcal.core.likelihood import gradient

Floats = NDArray[np.float64]

_CELLS = 2_000_000  # floats per work array


@dataclass(frozen=True)
class Misfit:
    """How far each group's histogram is from every mixture of the classes."""

    statistic: Floats  # (G,) chi-square with df degrees of freedom if the assumption holds
    df: int
    p_value: Floats  # (G,)
    adjusted: Floats  # (G,) p-values under false-discovery control over the groups
    effect: Floats  # (G,) Cohen's w of the misfit beyond noise: 0.1 small, 0.3 medium, 0.5 large
    free: Floats  # (G, K) prevalences that fit best without the constraint to [0, 1]
    free_se: Floats  # (G, K) their standard errors


def misfit(M: Floats, V: Floats, p: Floats, *, rows: Floats) -> Misfit:
    """Test each group's histogram against its best mixture of the classes.

    The residual ``V / n − p @ M`` is compared with its covariance under the assumption: the multinomial noise of
    the field plus ``Σ_k p_k² Cov(M_k)``, the noise of the lab. The prevalences are refitted without constraint in
    that metric, so that ``m − rank`` degrees of freedom are left.

    Parameters
    ----------
    M : (K, m) response matrix
    V : (G, m) field counts
    p : (G, K) estimated prevalences, where the covariance starts from
    rows : (K,) lab rows behind each row of M
    """
    possible = M.max(axis=0) > 0
    M, V = M[:, possible], V[:, possible]
    m = M.shape[1]
    rank = int(np.linalg.matrix_rank(M, tol=1e-9))
    df = m - rank
    p = _own_fit(M, V, p)
    parts = []
    step = max(1, _CELLS // (m * m))
    for start in range(0, max(len(V), 1), step):
        parts.append(_chunk(M, V[start : start + step], p[start : start + step], rows))
    statistic, effect, free, free_se = (np.concatenate(column) for column in zip(*parts, strict=True))
    n = V.sum(axis=1)
    if df <= 0:
        statistic, effect, p_value = np.zeros(len(V)), np.zeros(len(V)), np.ones(len(V))
    else:
        p_value = np.where(n > 0, chi2.sf(statistic, df), 1.0)
    adjusted = false_discovery_control(p_value) if len(V) else p_value
    return Misfit(statistic, df, p_value, np.asarray(adjusted), effect, free, free_se)


def _own_fit(M: Floats, V: Floats, p: Floats, steps: int = 3) -> Floats:
    """A few steps of EM from p towards what fits the group alone.

    A prior may make a row next to impossible that a small group then has; its square over next to nothing is no
    evidence of misfit, but of the prior.
    """
    for _ in range(steps):
        following = p * -gradient(p, M, V)
        total = following.sum(axis=1, keepdims=True)
        p = np.where(total > 0, following / np.maximum(total, 1e-300), p)
    return p


def histogram_covariance(M: Floats, p: Floats, n: Floats, *, rows: Floats) -> Floats:
    """Covariance of ``V / n`` around ``p @ M``, (G, m, m): noise of the field and noise of the lab."""
    q = p @ M
    lab = p**2 / (rows + 1.0)  # (G, K)
    diagonal = q / n[:, None] + lab @ M
    S = -np.einsum("gi,gj->gij", q, q / n[:, None]) - np.einsum("gk,ki,kj->gij", lab, M, M, optimize=True)
    i = np.arange(M.shape[1])
    S[:, i, i] += diagonal
    return np.asarray(S)


def _chunk(M: Floats, V: Floats, p: Floats, rows: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Statistic, effect and unconstrained prevalences by generalised least squares."""
    n = np.maximum(V.sum(axis=1), 1e-300)
    keep = slice(0, M.shape[1] - 1)  # histograms sum to one: the last bin adds nothing
    S = histogram_covariance(M, p, n, rows=rows)[:, keep, keep]
    i = np.arange(S.shape[1])
    S[:, i, i] += 1e-12 / n[:, None] + 1e-300
    B = (M[:-1] - M[-1])[:, keep]  # how the histogram moves with each class, against the last class
    x = (V / n[:, None])[:, keep] - M[-1, keep]
    solved = np.linalg.solve(
        S, np.concatenate([np.broadcast_to(B.T, (len(V), *B.T.shape)), x[..., None]], axis=2)
    )
    SB, Sx = solved[..., :-1], solved[..., -1]
    information = np.einsum("ij,gjk->gik", B, SB)
    inverse = np.linalg.pinv(information, hermitian=True)
    score = Sx @ B.T
    first = np.einsum("gik,gk->gi", inverse, score)
    statistic = np.maximum((x * Sx).sum(axis=1) - (score * first).sum(axis=1), 0.0)
    free = np.column_stack([first, 1.0 - first.sum(axis=1)])
    variance = np.einsum("gii->gi", inverse)
    last = inverse.sum(axis=(1, 2))
    effect = _effect(x - first @ B, S - B.T @ inverse @ B, p @ M)
    return statistic, effect, free, np.sqrt(np.maximum(np.column_stack([variance, last]), 0.0))


def _effect(residual: Floats, covariance: Floats, q: Floats) -> Floats:
    """Cohen's w beyond noise: ``√(Σ residual² / q − its expectation)``.

    It measures the field, not the evidence: with few lab rows, the statistic of a huge group stops growing with n.
    """
    # The last bin is what the others leave.
    squares = np.column_stack([residual**2, residual.sum(axis=1) ** 2])
    noise = np.column_stack([np.einsum("gjj->gj", covariance), covariance.sum(axis=(1, 2))])
    return np.asarray(np.sqrt(np.maximum(((squares - noise) / np.maximum(q, 1e-12)).sum(axis=1), 0.0)))


@dataclass(frozen=True)
class Homogeneity:
    """Whether the lab's own groups share one ``P(bin | class)``."""

    statistic: float
    df: int
    p_value: float
    effect: float  # Cramér's V


def homogeneity(tables: NDArray[np.float64] | NDArray[np.int64]) -> Homogeneity:
    """Chi-square test that bins do not depend on the group, given the class.

    Parameters
    ----------
    tables : (L, K, m) lab counts per group, class and bin
    """
    statistic, df, total, smallest = 0.0, 0, 0.0, 1
    for k in range(tables.shape[1]):
        table = tables[:, k].astype(np.float64)
        table = table[table.sum(axis=1) >= 5][:, table.sum(axis=0) > 0]
        table = table[:, table.sum(axis=0) > 0]
        if min(table.shape) < 2:
            continue
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        statistic += float(((table - expected) ** 2 / expected).sum())
        df += (table.shape[0] - 1) * (table.shape[1] - 1)
        total += float(table.sum())
        smallest = max(smallest, min(table.shape) - 1)
    if df == 0:
        return Homogeneity(0.0, 0, 1.0, 0.0)
    excess = max(statistic - df, 0.0)
    return Homogeneity(
        statistic, df, float(chi2.sf(statistic, df)), float(np.sqrt(excess / (total * smallest)))
    )


@dataclass(frozen=True)
class Calibration:
    """Predictions against labels in the lab, bin by bin."""

    error: float  # mean distance between mean prediction and share, over bins and classes
    p_value: float


def bin_calibration(F: Floats, bin_means: Floats) -> Calibration:
    """Compare the mean prediction of each bin with the share of each class in it.

    Parameters
    ----------
    F : (K, m) lab counts
    bin_means : (m, K) mean prediction in each bin
    """
    n = F.sum(axis=0)
    used = n > 0
    n, share, mean = n[used], (F[:, used] / n[used]).T, bin_means[used]
    error = float(np.average(np.abs(share - mean).mean(axis=1), weights=n))
    terms = ((share - mean) ** 2 / np.maximum(mean, 1e-9)).sum(axis=1) * n  # 0 was promised never to happen
    df = len(n) * (F.shape[0] - 1)
    return Calibration(error, float(chi2.sf(terms.sum(), df)))
