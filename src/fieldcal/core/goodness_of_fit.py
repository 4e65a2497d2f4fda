"""Does the field look like a mixture of the lab's classes? Goodness of fit, effect sizes, identifiability.

With more bins than classes the consistency assumption leaves a trace that can be tested: a histogram that no
mixture of the rows of ``M`` explains. The test knows that ``M`` itself was estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, chndtr, ndtr, ndtri, stdtrit

from fieldcal.core.likelihood import gradient
from fieldcal.core.policy import POLICY
from fieldcal.core.problem import Penalty
from fieldcal.core.response import response_matrix
from fieldcal.core.solve import solve
from fieldcal.types import Floats

#: Lower bounds are one standard error below: this point of a distribution.
ONE_SE = float(ndtr(1))
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

    References
    ----------
    Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. J. R. Stat. Soc. B 57.
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
        p_value = np.where(n > 0, chdtrc(df, statistic), 1.0)
    return Misfit(statistic, df, p_value, false_discovery_adjusted(p_value), effect, free, free_se)


def false_discovery_adjusted(p_values: Floats) -> Floats:
    """p-values (n,) adjusted so that rejecting those below a level holds the false discovery rate there.

    References
    ----------
    Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. J. R. Stat. Soc. B 57.
    """
    order = np.argsort(p_values)
    scaled = p_values[order] * (len(order) / np.arange(1, len(order) + 1))
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.clip(adjusted, 0.0, 1.0)


def outlying(M: Floats, V: Floats, *, rows: Floats, p_lab: Floats) -> NDArray[np.bool_] | None:
    """Groups (G,) that miss every mixture by so much that they must be broken; None if there are none, or too many.

    Where more than one in five is like that, the assumption is wrong and not a group.
    """
    found = misfit(M, V, np.tile(p_lab, (len(V), 1)), rows=rows)
    broken = (found.adjusted < POLICY.contradicts) & (found.effect > POLICY.large_effect)
    few = 0 < broken.sum() <= POLICY.large_share * len(V)
    return broken if few and V[~broken].sum() > 0 else None


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
        statistic, df, float(chdtrc(df, statistic)), float(np.sqrt(excess / (total * smallest)))
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
    return Calibration(error, float(chdtrc(df, terms.sum())))


@dataclass(frozen=True)
class ShiftExplained:
    """How far something moved, and which share of that label shift explains."""

    p_value: float  # that it did not move at all
    share: float  # explained by label shift, noise removed; 1 where nothing moved
    lower: float  # the same, one standard error lower
    groups: float  # effective number of groups behind it
    upper: float = 1.0  # the most that the misfit leaves possible, unless by a chance of one in a hundred
    testable: bool = True  # whether there are more bins than classes, so that something could contradict
    contradicted: bool = False  # whether what label shift leaves unexplained is beyond noise

    @property
    def shifted(self) -> bool:
        """Whether the shift is beyond noise."""
        return self.p_value < POLICY.beyond_noise


@dataclass(frozen=True)
class _Distances:
    """Squared distances of each histogram in the metric ``1 / h``, and what noise alone would make of them."""

    fit: Floats  # to the nearest mixture of the classes
    move: Floats  # to the reference
    along: Floats  # of that, along the mixtures
    own: Floats  # noise of the fit from the group's own rows
    shared: Floats  # noise of the fit from M, the same draw for all groups
    noise: Floats  # noise of the movement from the group's own rows
    df: int
    h: Floats
    away: Floats  # (m, m) projection on the directions that no mixture reaches, in the same metric
    p: Floats  # (G, K) the nearest mixtures


def overall_shift(F: Floats, v: Floats, *, smoothing: float) -> ShiftExplained:
    """The whole field against the lab: F (K, m), v (m,)."""
    lab_rows, m = F.sum(), F.shape[1]
    if not v.sum() or m < 2:
        return ShiftExplained(1.0, 1.0, 1.0, 1.0)
    h_lab = F.sum(axis=0) / lab_rows
    d = _distances(F, v[None], h_lab, smoothing)
    fit_noise = float(d.own[0] + d.shared[0])
    move_noise = float(d.noise[0] + (h_lab * (1 - h_lab) / d.h).sum() / lab_rows)
    move = float(d.move[0])
    if move_noise <= 0:  # all rows of lab and field in one and the same bin
        return ShiftExplained(1.0, 1.0, 1.0, 1.0)
    p_value = float(chdtrc(m - 1, (m - 1) * move / move_noise))
    beyond = move - move_noise
    if p_value >= POLICY.beyond_noise or beyond <= 0:
        return ShiftExplained(p_value, 1.0, 1.0, 1.0)
    if d.df == 0:  # as many bins as classes: nothing is left over to test with
        return ShiftExplained(p_value, 1.0, 0.0, 1.0, testable=False)
    fit, df = float(d.fit[0]), _fit_df(d, F, v, smoothing)
    unit = fit_noise / df
    worst, best = (_noncentrality(fit / unit, df, at) * unit for at in (1 - ONE_SE, 1 - POLICY.contradicts))
    return ShiftExplained(
        p_value,
        share=1 - max(fit - fit_noise, 0.0) / beyond,
        lower=1 - worst / beyond,
        groups=1.0,
        upper=1 - best / beyond,
        contradicted=bool(chdtrc(df, fit / unit) < POLICY.contradicts),
    )


def between_shift(F: Floats, V: Floats, *, smoothing: float) -> ShiftExplained:
    """The field's groups against their common histogram: F (K, m), V (G, m).

    Groups count by how far they moved along the mixtures; that direction is orthogonal to the misfit, so the
    weights do not favour groups that fit. The error comes from leaving out one group at a time, and the noise of
    M, which all groups share, is added in full.
    """
    V = V[V.sum(axis=1) > 0]
    if len(V) < 2 or F.shape[1] < 2:
        return ShiftExplained(1.0, 1.0, 1.0, float(len(V)))
    G, n = len(V), V.sum(axis=1)
    d = _distances(F, V, V.sum(axis=0) / n.sum(), smoothing)
    p_value = homogeneity(V[:, None]).p_value  # in the field's own metric: h leans to the lab
    along = np.maximum(n * d.along / (len(F) - 1) - 1, 0.0)
    weight = n * along / (1 + along)
    away = weight * (d.fit - d.own - d.shared)
    moved = weight * (d.move - d.noise * (1 - n / n.sum()))
    rest = moved.sum() - moved
    if p_value >= POLICY.beyond_noise or d.df == 0 or (rest <= 0).any():
        return ShiftExplained(p_value, 1.0, 0.0, effective_number(moved), testable=d.df > 0)
    share = 1 - away.sum() / moved.sum()
    without = 1 - (away.sum() - away) / rest
    jackknife = np.sqrt((G - 1) / G * ((without - without.mean()) ** 2).sum())
    own = np.sqrt(2 / d.df * ((weight * d.own) ** 2).sum()) / moved.sum()
    shared = np.sqrt(2 / d.df) * (weight * d.shared).sum() / moved.sum()
    error = float(np.hypot(max(jackknife, own), shared))
    groups = effective_number(moved)
    one, all_but = (stdtrit(groups - 1, at) * error for at in (ONE_SE, 1 - POLICY.contradicts))
    return ShiftExplained(
        p_value,
        share=float(share),
        lower=float(min(share, 1.0) - one),
        groups=groups,
        upper=float(min(share + all_but, 1.0)),
        contradicted=bool(share + all_but < 1),
    )


def effective_number(weights: Floats) -> float:
    """How many equal groups would carry as much: one huge group is not many groups. At least 2."""
    w = np.maximum(weights, 0.0)
    return max(2.0, float(w.sum() ** 2 / max(np.square(w).sum(), 1e-300)))


def _distances(F: Floats, V: Floats, reference: Floats, smoothing: float) -> _Distances:
    K, m = F.shape
    M = response_matrix(F, smoothing=max(smoothing, 1e-6))
    n = V.sum(axis=1)
    H = V / n[:, None]
    h = (F.sum(axis=0) + V.sum(axis=0) + 0.5) / (F.sum() + V.sum() + 0.5 * m)
    root = 1 / np.sqrt(h)
    p = solve(M, V, Penalty(np.zeros(m), np.zeros(K), 0.0, np.full(K, 1 / K))).p
    fit = np.square((H - p @ M) * root).sum(axis=1)
    move = np.square((H - reference) * root).sum(axis=1)
    _, s, basis = np.linalg.svd((M[1:] - M[0]) * root, full_matrices=False)
    basis = basis[s > 1e-6 * s[0]]
    away = np.eye(m) - basis.T @ basis  # the directions that no mixture reaches

    def trace(D: Floats, A: Floats) -> Floats:
        """Expected squared length, within A, of the multinomial noise of one row drawn from each D."""
        scaled = D * root
        return np.asarray((np.diag(A) * root**2 * D).sum(axis=1) - ((scaled @ A) * scaled).sum(axis=1))

    shared = p**2 @ (trace(M, away) / np.maximum(F.sum(axis=1), 1.0))
    return _Distances(
        fit=fit,
        move=move,
        along=np.square((H - reference) * root @ basis.T).sum(axis=1),
        own=trace(H, away) / n,
        shared=shared,
        noise=trace(H, np.eye(m)) / n,
        df=max(m - 1 - len(basis), 0),
        h=h,
        away=away,
        p=p,
    )


def _fit_df(d: _Distances, F: Floats, v: Floats, smoothing: float) -> float:
    """Degrees of freedom of the misfit's noise that give it its variance (Satterthwaite).

    As many as there are directions where the noise is the same in all of them. That of a class with few lab rows is
    not: it lies where the class is, so that large misfits are less rare than a chi-square of `df` has them.
    """
    M, rows = response_matrix(F, smoothing=max(smoothing, 1e-6)), np.maximum(F.sum(axis=1), 1.0)
    sources = [(v / v.sum(), 1 / v.sum()), *zip(M, d.p[0] ** 2 / rows, strict=True)]
    covariance = sum(
        w * (np.diag(D / d.h) - np.outer(D, D) / np.sqrt(np.outer(d.h, d.h))) for D, w in sources
    )
    noise = d.away @ covariance @ d.away
    return float(np.clip(np.trace(noise) ** 2 / np.square(noise).sum(), 1.0, d.df))


def _noncentrality(x: float, df: float, at: float) -> float:
    """The noncentrality with which values up to x have the probability ``at``; 0 where none is small enough."""
    if chdtr(df, x) <= at:
        return 0.0
    from scipy.optimize import brentq

    if x > 1e4:  # normal by now, and out of reach of the exact distribution
        return float(x - df - ndtri(at) * np.sqrt(2 * (2 * x - df)))
    return float(brentq(lambda excess: chndtr(x, df, excess) - at, 0.0, 10 * x + 50))


def chance_of(counts: Floats, expected: Floats, *, least: float = 5.0) -> float:
    """p-value of counts (m,) by chi-square; neighbours are taken together until each cell expects a few rows."""
    edges, room = [], 0.0
    for j, rows in enumerate(expected):
        room += rows
        if room >= least:
            edges.append(j + 1)
            room = 0.0
    if len(edges) < 2:
        return 1.0
    starts = np.array([0, *edges[:-1]])
    seen, due = np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
    return float(chdtrc(len(due) - 1, (np.square(seen - due) / due).sum()))
