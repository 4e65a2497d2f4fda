"""Shares followed over windows of time: a walk of log-odds with small and large steps, on the counts' own likelihood.

The log-odds of a class in a group change from window to window by a normal step, or, with a small probability, to a
value drawn from the distribution of all windows; that is a jump. Both sizes are learned over all groups by marginal
likelihood. On a grid of log-odds the filter is exact for two classes, and so are draws of whole paths (forward
filtering, backward sampling). Of more classes each is followed against the others, whose mixture is profiled out, and
the shares are normalised.

A draw of a path has one draw of M and one of the step sizes, the same for all groups and windows: the noise of M moves
all windows of a draw together, so that changes are known better than levels.

References
----------
Kitagawa, G. (1987). Non-Gaussian state-space modeling of nonstationary time series. J. Am. Stat. Assoc. 82.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fieldcal.core.response import response_draws
from fieldcal.types import Floats, Ints

#: Standard deviations of small steps, and probabilities of a jump, among which the marginal likelihood decides.
STEPS = (0.015, 0.03, 0.07, 0.15, 0.3, 0.6, 1.2)
JUMPS = (0.002, 0.01, 0.05, 0.25, 1.0)
#: Draws of M and of the step sizes, and paths for each.
DRAWS_OF_M, PATHS = 16, 16
#: Group-windows up to which there are so many paths; above, a quarter.
_MANY = 100_000
_EDGE = 7.0  # log-odds at which a share is as good as 0 or 1
_COARSE = np.linspace(-_EDGE, _EDGE, 85)
_FINEST, _MOST_POINTS, _POINTS_OF_ONE = 0.1, 161, 801
#: Windows that the wide part of the distribution of levels counts for.
_WIDE = 3.0
#: Rows of a window, at most, by which it informs the distribution of levels.
_ROWS = 400.0
#: Group-windows from which the step sizes are learned, and numbers in memory at a time.
_TEACHING, _NUMBERS = 2_600, 6_000_000
#: More than two classes: draws of each against the rest lie this much too near their mean, by simulation (0027).
_AGAINST_THE_REST = 1.25
#: Pseudo-rows that keep the mixture of the other classes near that of the group.
_COMPOSITION = 2.0


@dataclass(frozen=True)
class Series:
    """Counts of G groups in T windows."""

    V: Floats  # (G, T, m) effective rows without a label
    labels: Floats  # (G, T, K) labelled rows, not chosen by their class

    def take(self, rows: Ints) -> Series:
        """Some of the groups."""
        return Series(self.V[rows], self.labels[rows])

    @property
    def seen(self) -> NDArray[np.bool_]:
        """(G, T) windows with rows."""
        return np.asarray(self._rows > 0)

    @property
    def parts(self) -> Floats:
        """(G, T) share of the rows of each window in those of its group."""
        n = np.where(self._rows.sum(axis=1, keepdims=True) > 0, self._rows, 1.0)
        return np.asarray(n / n.sum(axis=1, keepdims=True))

    @property
    def _rows(self) -> Floats:
        return np.asarray(self.V.sum(axis=2) + self.labels.sum(axis=2))


@dataclass(frozen=True)
class Paths:
    """Joint draws of the shares of some groups in all windows."""

    rows: Ints  # positions of the groups
    shares: Floats  # (groups, draws, T, K)
    filtered: Floats  # (groups, T, K) means given the windows up to each


def follow(series: Series, A: Floats, *, seed: int, draws: int | None = None) -> Iterator[Paths]:
    """Draws of the paths of all groups under label shift, in blocks of groups.

    Draw ``s`` of every group has the same draw of M, so that draws of two groups, as of two windows, may be subtracted.

    Parameters
    ----------
    A : (K, m) Dirichlet parameters of the rows of M
    draws : of each group; by default `DRAWS_OF_M` × `PATHS`, and fewer of many group-windows
    """
    G, T, K = series.labels.shape
    n = draws_of(G, T) if draws is None else draws
    rng = np.random.default_rng([seed, 71])
    M = response_draws(A, DRAWS_OF_M, rng)
    mean = A / A.sum(axis=1, keepdims=True)
    classes = [1] if K == 2 else list(range(K))
    models = [_Model.learned(series, mean, k, rng) for k in classes]
    order = np.argsort(models[-1].centre, kind="stable")
    for block in _blocks(order, T, models[0].points):
        part, each, start = series.take(block), max(1, n // len(M)), int(block[0])
        found = [
            model.paths(part, mean, M, each, np.random.default_rng([seed, 73, start, model.k]))
            for model in models
        ]
        shares, filtered = (np.stack([f[i] for f in found], axis=-1) for i in range(2))
        if K == 2:
            shares, filtered = (np.concatenate([1 - x, x], axis=-1) for x in (shares, filtered))
        else:
            shares, filtered = _normalised(shares), filtered / filtered.sum(axis=-1, keepdims=True)
        yield Paths(block, shares, filtered)


def draws_of(groups: int, windows: int) -> int:
    """How many draws each group has."""
    return DRAWS_OF_M * (PATHS if groups * windows <= _MANY else PATHS // 4)


def _normalised(draws: Floats) -> Floats:
    """Draws of each class against the rest, moved to where their means sum to one.

    Dividing each draw by its sum would take the classes' errors for independent, and make intervals too narrow.
    """
    mean = draws.mean(axis=1, keepdims=True)
    moved = mean / mean.sum(axis=-1, keepdims=True) + _AGAINST_THE_REST * (draws - mean)
    return np.asarray(np.clip(moved, 1e-6, 1 - 1e-6))


def _blocks(order: Ints, T: int, points: int) -> Iterator[Ints]:
    step = max(1, min(256, _NUMBERS // (T * points)))
    return (order[i : i + step] for i in range(0, len(order), step))


@dataclass(frozen=True)
class _Model:
    """The walk of one class against the others: step sizes with their weights, and the distribution of levels."""

    k: int
    centre: Floats  # (G,) log-odds around which a group moves
    level: Floats  # density of log-odds over all windows, on the coarse grid
    weights: Floats  # of the pairs of STEPS and JUMPS
    points: int

    @classmethod
    def learned(cls, series: Series, M: Floats, k: int, rng: np.random.Generator) -> _Model:
        G, T, _ = series.labels.shape
        points = _MOST_POINTS if G > 1 else _POINTS_OF_ONE
        teaching = np.sort(rng.permutation(G)[: max(1, min(G, _TEACHING // T))])
        some = series.take(teaching)
        level = _levels(_tempered(some), M, k)
        X = _grid(some, M, k, points)
        L, pool = _likelihood(some, M[None], k, X)(0), _on(level, X)
        logs = np.array([[_filter(L, X, q, e, pool)[0].sum() for e in JUMPS] for q in STEPS])
        weights = np.exp(logs - logs.max())
        total = Series(series.V.sum(axis=1, keepdims=True), series.labels.sum(axis=1, keepdims=True))
        centre = np.concatenate(
            [
                _COARSE[_likelihood(total.take(rows), M[None], k, _COARSE)(0)[:, 0].argmax(axis=1)]
                for rows in np.array_split(np.arange(G), 1 + G // 2_000)
            ]
        )
        return cls(k, centre, level, weights / weights.sum(), points)

    def paths(
        self, series: Series, mean: Floats, M: Floats, each: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Draws (groups, draws, T) of the share, and its filtered mean (groups, T)."""
        X = _grid(series, mean, self.k, self.points)
        pool, of = _on(self.level, X), _likelihood(series, M, self.k, X)
        pairs = [(q, e) for q in STEPS for e in JUMPS]
        ends = np.cumsum(self.weights.ravel())
        chosen = rng.permutation(np.searchsorted(ends / ends[-1], (np.arange(len(M)) + 0.5) / len(M)))
        shares, filtered = [], np.zeros(series.seen.shape)
        for s in range(len(M)):
            q, e = pairs[min(int(chosen[s]), len(pairs) - 1)]
            _, f = _filter(of(s), X, q, e, pool)
            filtered += f @ expit(X) / len(M)
            shares.append(_sampled(f, X, q, e, pool, each, rng))
        return np.concatenate(shares, axis=1), filtered


def _tempered(series: Series) -> Series:
    """The same with at most so many rows a window: the distribution of levels needs no more."""
    n = np.maximum(series.V.sum(axis=2) + series.labels.sum(axis=2), 1e-9)
    less = np.minimum(1.0, _ROWS / n)[..., None]
    return Series(series.V * less, series.labels * less)


def _grid(series: Series, M: Floats, k: int, most: int) -> Floats:
    """Log-odds that hold what the windows leave possible, as fine as their likelihoods ask for."""
    L = _likelihood(series, M[None], k, _COARSE)(0)[series.seen]  # (windows, coarse)
    if not len(L):
        return _COARSE
    near = np.exp(-9.0) < L
    low = _COARSE[np.maximum(near.argmax(axis=1) - 1, 0)].min()
    high = _COARSE[np.minimum(len(_COARSE) - near[:, ::-1].argmax(axis=1), len(_COARSE) - 1)].max()
    p = expit(_COARSE[L.argmax(axis=1)])
    rest = np.delete(M, k, axis=0).mean(axis=0)
    q = p[:, None] * M[k] + (1 - p[:, None]) * rest
    information = (np.square(M[k] - rest) / q).sum(axis=1) * np.square(p * (1 - p))
    rows = (series.V.sum(axis=2) + series.labels.sum(axis=2))[series.seen]
    sd = 1 / np.sqrt(np.maximum(rows * information, 1e-9))
    step = min(_FINEST, 0.6 * float(np.quantile(sd, 0.1)))
    return np.linspace(low, high, int(np.clip(np.ceil((high - low) / step) + 1, 21, most)))


def _likelihood(series: Series, M: Floats, k: int, X: Floats) -> _Likelihood:
    return _Likelihood(series, M, k, X)


@dataclass(frozen=True)
class _Likelihood:
    """Of every window at every point, (G, T, N), relative to its largest, given a draw of M (S, K, m)."""

    series: Series
    M: Floats
    k: int
    X: Floats

    def __call__(self, s: int) -> Floats:
        p, own, rest = expit(self.X), self.M[s, self.k], np.delete(self.M[s], self.k, axis=0)
        if len(rest) == 1:
            q = np.outer(p, own) + np.outer(1 - p, rest[0])
            logs = self.series.V @ np.log(np.maximum(q, 1e-300)).T
        else:
            part = _composition(self.series, self.M[s], self.k, self.X)
            q = (1 - p)[:, None] * (part @ rest) + np.outer(p, own)
            logs = np.einsum("gtm,gtnm->gtn", self.series.V, np.log(np.maximum(q, 1e-300)))
        mine = self.series.labels[..., self.k]
        others = self.series.labels.sum(axis=2) - mine
        logs = logs + mine[..., None] * np.log(p) + others[..., None] * np.log1p(-p)
        return np.asarray(np.exp(logs - logs.max(axis=2, keepdims=True)))


def _composition(series: Series, M: Floats, k: int, X: Floats) -> Floats:
    """(G, T, N, K − 1) mixture of the other classes that fits best at every point, kept near that of the group."""
    rest, total = np.delete(M, k, axis=0), series.V.sum(axis=1)
    whole = np.full((len(total), len(M)), 1 / len(M))
    for _ in range(50):
        whole = whole * ((total / np.maximum(whole @ M, 1e-300)) @ M.T) + 1.0
        whole = whole / whole.sum(axis=1, keepdims=True)
    prior = np.delete(whole, k, axis=1)
    prior = (_COMPOSITION * prior / prior.sum(axis=1, keepdims=True))[:, None, None]
    pseudo = prior + np.delete(series.labels, k, axis=2)[:, :, None]

    def fitted(part: Floats, X: Floats, steps: int) -> Floats:
        p = expit(X)
        own, others = np.outer(p, M[k]), (1 - p)[:, None]
        for _ in range(steps):
            q = np.maximum(own + others * (part @ rest), 1e-300)
            part = part * ((series.V[:, :, None] / q) @ rest.T) * others + pseudo
            part = part / part.sum(axis=3, keepdims=True)
        return part

    nodes = np.linspace(X[0], X[-1], 15)
    start = np.broadcast_to(prior / _COMPOSITION, (*series.seen.shape, len(nodes), len(rest)))
    part = fitted(start, nodes, 15)
    at = np.clip(np.searchsorted(nodes, X, side="right") - 1, 0, len(nodes) - 2)
    share = ((X - nodes[at]) / (nodes[at + 1] - nodes[at]))[:, None]
    # Between the nodes linear, and again some steps: what is left would make the nodes more likely than the rest.
    return fitted((1 - share) * part[:, :, at] + share * part[:, :, at + 1], X, 6)


def _levels(series: Series, M: Floats, k: int, steps: int = 60) -> Floats:
    """Density of the log-odds of all windows, (coarse,): a mixture of what they support, and a wide normal."""
    wide = np.exp(-0.5 * np.square(_COARSE / 3))
    wide = wide / wide.sum()
    L = _likelihood(series, M[None], k, _COARSE)(0)[series.seen]
    level = wide
    for _ in range(steps if len(L) else 0):
        w = L * level
        w /= w.sum(axis=1, keepdims=True)
        level = np.convolve(w.sum(axis=0), [0.25, 0.5, 0.25], "same") + _WIDE * wide
        level = np.asarray(level / level.sum())
    return np.asarray(level)


def _on(level: Floats, X: Floats) -> Floats:
    found = np.interp(X, _COARSE, level)
    return np.asarray(found / found.sum())


def _kernel(X: Floats, step: float) -> Floats:
    """Probabilities of a small step, (to, from); one far below the grid's is one to the next point, now and then."""
    h = X[1] - X[0]
    if step < 0.6 * h:
        k = np.eye(len(X)) * (1 - (step / h) ** 2)
        k += (np.eye(len(X), k=1) + np.eye(len(X), k=-1)) * (step / h) ** 2 / 2
    else:
        k = np.exp(-0.5 * np.square((X[:, None] - X[None]) / step))
    return np.asarray(k / k.sum(axis=0))


def _filter(L: Floats, X: Floats, step: float, jump: float, pool: Floats) -> tuple[Floats, Floats]:
    """Log evidence (G,), and the posterior given the windows up to each, (G, T, N)."""
    G, T, N = L.shape
    k, f, evidence = _kernel(X, step).T, np.empty_like(L), np.zeros(G)
    p = np.broadcast_to(pool, (G, N))
    for t in range(T):
        a = p * L[:, t]
        total = a.sum(axis=1, keepdims=True)
        f[:, t] = a / total
        evidence += np.log(total[:, 0])
        p = jump * pool if jump == 1 else (1 - jump) * (f[:, t] @ k) + jump * pool
    return evidence, f


def _sampled(
    f: Floats, X: Floats, step: float, jump: float, pool: Floats, each: int, rng: np.random.Generator
) -> Floats:
    """Draws of whole paths, (G, each, T), as shares: backwards from the filtered posteriors."""
    G, T, _ = f.shape
    k = ((1 - jump) * _kernel(X, step) + jump * pool[:, None]).astype(np.float32)
    f = f.astype(np.float32)
    paths = np.empty((G, each, T))
    w = np.broadcast_to(f[:, T - 1, None], (G, each, len(X)))
    for t in range(T - 1, -1, -1):
        cumulated = np.cumsum(w, axis=2)
        u = rng.random((G, each, 1), dtype=np.float32) * cumulated[..., -1:]
        at = np.minimum((cumulated < u).sum(axis=2), len(X) - 1)
        paths[..., t] = X[at]
        if t:
            w = k[at] * f[:, t - 1, None]
    return np.asarray(expit(paths + (X[1] - X[0]) * (rng.random(paths.shape) - 0.5)))
