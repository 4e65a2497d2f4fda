"""What histograms say about the consistency assumption: how much of a movement label shift explains.

A histogram that moved from a reference may have moved *along* the mixtures of the lab's classes, as label shift
would move it, or *away* from all of them. The share that lies along the mixtures, corrected for noise, is the
evidence that unlabelled data can give. It is one-sided: a movement away refutes label shift, but a covariate
shift can hide along the mixtures, so nothing here proves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2, norm
from scipy.stats import t as student

from fieldcal.core.checks import homogeneity
from fieldcal.core.priors import Flat
from fieldcal.core.response import response_matrix
from fieldcal.core.solve import solve

Floats = NDArray[np.float64]

#: Lower bounds are one standard error below: this point of Student's t, or of a noncentral chi-square.
ONE_SE = 0.8413
#: A movement, or what label shift leaves of it, must be this improbable as noise before it means anything.
NOISE = 0.01


@dataclass(frozen=True)
class Movement:
    """How far something moved, and which share of that label shift explains."""

    p_value: float  # that it did not move at all
    share: float  # explained by label shift, noise removed; 1 where nothing moved
    lower: float  # the same, one standard error lower
    groups: float  # effective number of groups behind it
    upper: float = 1.0  # the most that the misfit leaves possible, unless by a chance of one in a hundred
    testable: bool = True  # whether there are more bins than classes, so that something could contradict
    contradicted: bool = False  # whether what label shift leaves unexplained is beyond noise

    @property
    def moved(self) -> bool:
        """Whether the movement is beyond noise."""
        return self.p_value < NOISE


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


def common_movement(F: Floats, v: Floats, *, smoothing: float) -> Movement:
    """The whole field against the lab: F (K, m), v (m,)."""
    lab_rows, m = F.sum(), F.shape[1]
    if not v.sum() or m < 2:
        return Movement(1.0, 1.0, 1.0, 1.0)
    h_lab = F.sum(axis=0) / lab_rows
    d = _distances(F, v[None], h_lab, smoothing)
    fit_noise = float(d.own[0] + d.shared[0])
    move_noise = float(d.noise[0] + (h_lab * (1 - h_lab) / d.h).sum() / lab_rows)
    move = float(d.move[0])
    if move_noise <= 0:  # all rows of lab and field in one and the same bin
        return Movement(1.0, 1.0, 1.0, 1.0)
    p_value = float(chi2.sf((m - 1) * move / move_noise, m - 1))
    beyond = move - move_noise
    if p_value >= NOISE or beyond <= 0:
        return Movement(p_value, 1.0, 1.0, 1.0)
    if d.df == 0:  # as many bins as classes: nothing is left over to test with
        return Movement(p_value, 1.0, 0.0, 1.0, testable=False)
    fit, df = float(d.fit[0]), _fit_df(d, F, v, smoothing)
    unit = fit_noise / df
    worst, best = (_noncentrality(fit / unit, df, at) * unit for at in (1 - ONE_SE, 1 - NOISE))
    return Movement(
        p_value,
        share=1 - max(fit - fit_noise, 0.0) / beyond,
        lower=1 - worst / beyond,
        groups=1.0,
        upper=1 - best / beyond,
        contradicted=bool(chi2.sf(fit / unit, df) < NOISE),
    )


def group_movement(F: Floats, V: Floats, *, smoothing: float) -> Movement:
    """The field's groups against their common histogram: F (K, m), V (G, m).

    Groups count by how far they moved along the mixtures; that direction is orthogonal to the misfit, so the
    weights do not favour groups that fit. The error comes from leaving out one group at a time, and the noise of
    M, which all groups share, is added in full.
    """
    V = V[V.sum(axis=1) > 0]
    if len(V) < 2 or F.shape[1] < 2:
        return Movement(1.0, 1.0, 1.0, float(len(V)))
    G, n = len(V), V.sum(axis=1)
    d = _distances(F, V, V.sum(axis=0) / n.sum(), smoothing)
    p_value = homogeneity(V[:, None]).p_value  # in the field's own metric: h leans to the lab
    along = np.maximum(n * d.along / (len(F) - 1) - 1, 0.0)
    weight = n * along / (1 + along)
    away = weight * (d.fit - d.own - d.shared)
    moved = weight * (d.move - d.noise * (1 - n / n.sum()))
    rest = moved.sum() - moved
    if p_value >= NOISE or d.df == 0 or (rest <= 0).any():
        return Movement(p_value, 1.0, 0.0, effective_number(moved))
    share = 1 - away.sum() / moved.sum()
    without = 1 - (away.sum() - away) / rest
    jackknife = np.sqrt((G - 1) / G * ((without - without.mean()) ** 2).sum())
    own = np.sqrt(2 / d.df * ((weight * d.own) ** 2).sum()) / moved.sum()
    shared = np.sqrt(2 / d.df) * (weight * d.shared).sum() / moved.sum()
    error = float(np.hypot(max(jackknife, own), shared))
    groups = effective_number(moved)
    lower = min(share, 1.0) - student.ppf(ONE_SE, groups - 1) * error
    return Movement(p_value, float(share), float(lower), groups)


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
    p = solve(M, V, Flat().penalty(M, np.full(K, 1 / K))).p
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
    if chi2.cdf(x, df) <= at:
        return 0.0
    if x > 1e4:  # normal by now, and out of reach of the exact distribution
        return float(x - df - norm.ppf(at) * np.sqrt(2 * (2 * x - df)))
    return float(brentq(lambda excess: ncx2.cdf(x, df, excess) - at, 0.0, 10 * x + 50))
