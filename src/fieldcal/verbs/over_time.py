"""Shares over windows: the level is the estimate of the whole time, the changes are those of the walk (0027)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from fieldcal.core.goodness_of_fit import misfit
from fieldcal.core.over_time import Paths, Series, draws_of, follow
from fieldcal.core.problem import Problem
from fieldcal.objects import Prevalence
from fieldcal.objects.over_time import OverTime
from fieldcal.objects.problem import as_problem
from fieldcal.objects.windows import Windows, windows_of
from fieldcal.types import Floats, Ints
from fieldcal.verbs.posteriors import DEFAULT_LEVEL

_LEAST = 1e-5  # shares nearer to 0 or 1 count as this far from it


def over_time(prev: Prevalence) -> OverTime | None:
    """Shares of the groups of an estimate in the windows of its field; None of a field without windows."""
    windows = windows_of(prev.field)
    if windows is None:
        return None
    problem = (
        prev.judged.problem
        if prev.is_judged
        else as_problem(prev.lab, prev.field, design_effect=prev.design_effect)
    )
    rows = _Rows.of(prev, problem, windows)
    A, draws = problem.A, draws_of(*rows.each.seen.shape)
    whole = next(follow(rows.whole, A, seed=prev.seed, draws=draws))
    parts = [_part(prev, problem, rows, whole, whole)]
    if prev.field.grouped:
        parts += [_part(prev, problem, rows, found, whole) for found in follow(rows.each, A, seed=prev.seed)]
    return _put_together(prev, problem, rows, windows, parts)


@dataclass(frozen=True)
class _Rows:
    """Effective rows of the groups and of the whole field by window."""

    each: Series
    whole: Series
    n: Floats  # (1 + G, T) rows

    @classmethod
    def of(cls, prev: Prevalence, problem: Problem, windows: Windows) -> _Rows:
        total = windows.V.sum(axis=(1, 2))
        worth = np.divide(
            problem.V.sum(axis=1), np.asarray(prev.field.n, float), out=np.ones(len(total)), where=total > 0
        )
        labels = windows.labels * worth[:, None, None, None]
        V = np.maximum(windows.V * worth[:, None, None] - labels.sum(axis=2), 0.0)
        each = Series(V, labels.sum(axis=3))
        kept = slice(None) if problem.outlying is None else ~problem.outlying
        whole = Series(each.V[kept].sum(axis=0, keepdims=True), each.labels[kept].sum(axis=0, keepdims=True))
        n = windows.V.sum(axis=2)
        return cls(each, whole, np.vstack([n.sum(axis=0), n]) if prev.field.grouped else n)


@dataclass(frozen=True)
class _Part:
    """Some groups, or the whole field: shares under label shift, and the estimate with its draws."""

    at: Ints
    is_whole: bool
    urc: Floats  # (groups, T, K)
    estimate: Floats
    filtered: Floats
    draws: Floats  # (groups, draws, T, K)


def _part(prev: Prevalence, problem: Problem, rows: _Rows, found: Paths, whole: Paths) -> _Part:
    """The level of the estimate of the whole time, and the changes of the walk."""
    is_whole, urc = found is whole, found.shares.mean(axis=1)
    if prev.is_judged or _alone(prev):
        return _Part(found.rows, is_whole, urc, urc, found.filtered, found.shares)
    n = (rows.whole if is_whole else rows.each).take(found.rows)
    trust = (prev.trust_overall, prev.trust_between if prev.field.grouped else prev.trust_overall)
    model = problem.M @ prev.lab.bin_means  # (K, K) mean predictions of the rows of each class
    change = _Change(model, n.parts, rows.whole.parts)
    mean, level = whole.shares.mean(axis=1)[:, None], _level(prev, found.rows, is_whole)
    points = [change(x[:, None], urc[:, None], mean, *trust)[:, 0] for x in (urc, found.filtered)]
    estimate, filtered = (expit(level.estimate[:, None] + x) for x in points)
    D = found.shares.shape[1]
    u = (np.arange(D) + 0.5) / D
    seeds = ([prev.seed, 83, i] for i in range(2))
    chosen = [
        np.random.default_rng(seed).permutation(u < t)[None, :, None, None]
        for seed, t in zip(seeds, trust, strict=True)
    ]
    rng = np.random.default_rng([prev.seed, 79, int(found.rows[0]), is_whole])
    z = ndtri(rng.permuted(np.tile(u, (len(urc), 1)), axis=1))[..., None]
    levels = level.estimate[:, None] + np.where(z > 0, level.above[:, None], level.below[:, None]) * z
    draws = expit(levels[:, :, None] + change(found.shares, found.shares, whole.shares, *chosen))
    if draws.shape[-1] > 2:
        estimate, filtered = (x / x.sum(axis=-1, keepdims=True) for x in (estimate, filtered))
    return _Part(found.rows, is_whole, urc, estimate, filtered, draws)


def _alone(prev: Prevalence) -> bool:
    """Whether the caller left label shift alone."""
    return (
        prev.by_model is None and prev.trust.set_by_caller and prev.trust_overall == prev.trust_between == 1.0
    )


@dataclass(frozen=True)
class _Level:
    """Log-odds of the shares over the whole time, (groups, K), and standard deviations to both sides."""

    estimate: Floats
    below: Floats
    above: Floats


def _level(prev: Prevalence, at: Ints, is_whole: bool) -> _Level:
    held = prev.whole if is_whole else prev
    shares = [_logit(np.atleast_2d(x)[at]) for x in (held.estimate, held.lower, held.upper) if x is not None]
    if len(shares) == 1:
        return _Level(shares[0], 0 * shares[0], 0 * shares[0])
    z = ndtri((1 + (prev.level or DEFAULT_LEVEL)) / 2)
    return _Level(shares[0], (shares[0] - shares[1]) / z, (shares[2] - shares[0]) / z)


@dataclass(frozen=True)
class _Change:
    """Differences of log-odds to those of the whole time, (groups, draws, T, K)."""

    model: Floats
    parts: Floats  # (groups, T) share of the rows of each window
    whole_parts: Floats  # (1, T)

    def __call__(
        self, shares: Floats, base: Floats, whole: Floats, overall: Floats | float, between: Floats | float
    ) -> Floats:
        """The change of the whole field is label shift with probability ``overall``, what groups change beyond it with
        ``between``; otherwise predictions keep their meaning, and the mean prediction changes as the shares make it.
        """
        own, own_mean = (self._since(x, y, self.parts) for x, y in self._both(shares, base))
        all_, all_mean = (self._since(x, y, self.whole_parts) for x, y in self._both(whole, whole))
        joint = overall * all_ + (1 - overall) * all_mean
        return np.asarray(joint + between * (own - all_) + (1 - between) * (own_mean - all_mean))

    def _both(self, shares: Floats, base: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        return (shares, base), (shares @ self.model, base @ self.model)

    def _since(self, shares: Floats, base: Floats, parts: Floats) -> Floats:
        return _logit(shares) - _logit((base * parts[:, None, :, None]).sum(axis=2, keepdims=True))


def _logit(p: Floats) -> Floats:
    return np.asarray(logit(np.clip(p, _LEAST, 1 - _LEAST)))


def _put_together(
    prev: Prevalence, problem: Problem, rows: _Rows, windows: Windows, parts: list[_Part]
) -> OverTime:
    K, (R, T), grouped = len(prev.classes), rows.n.shape, prev.field.grouped
    tables, draws = _tables(parts, (R, T, K), prev.level or DEFAULT_LEVEL)
    V = np.concatenate([rows.whole.V, rows.each.V]) if grouped else rows.whole.V
    p = tables["urc"].reshape(R * T, K)
    fit = misfit(problem.M, V.reshape(R * T, -1), p, rows=problem.A.sum(axis=1))
    sums, labelled = (_with_whole(x, grouped) for x in (windows.score_sums, windows.labels.sum(axis=3)))
    return OverTime(
        every=windows.every,
        starts=windows.starts,
        ends=windows.ends,
        groups=(None, *prev.groups) if grouped else (None,),
        classes=prev.classes,
        n=rows.n,
        mean_prediction=_shares(sums),
        **tables,
        labelled=labelled.sum(axis=2),
        labelled_share=_shares(labelled),
        misfit=np.asarray(fit.p_value).reshape(R, T),
        effect=np.asarray(fit.effect).reshape(R, T),
        level=prev.level or DEFAULT_LEVEL,
        histograms=V,
        response=problem.M,
        draws=draws,
    )


def _tables(
    parts: list[_Part], shape: tuple[int, int, int], level: float
) -> tuple[dict[str, Floats], NDArray[np.float32]]:
    """Estimates with their ends, (R, T, K), and draws of them; parts are removed as they are read."""
    R, T, K = shape
    tables = {name: np.zeros(shape) for name in ("urc", "estimate", "filtered", "lower", "upper")}
    draws = np.zeros((R, parts[0].draws.shape[1], T, 1 if K == 2 else K), dtype=np.float32)
    tail = (1 - level) / 2
    while parts:
        part = parts.pop()
        at = part.at + (0 if part.is_whole else 1)
        ends = np.quantile(part.draws, [tail, 1 - tail], axis=1)
        for name in ("urc", "estimate", "filtered"):
            tables[name][at] = getattr(part, name)
        tables["lower"][at] = np.minimum(ends[0], part.estimate)
        tables["upper"][at] = np.maximum(ends[1], part.estimate)
        draws[at] = part.draws[..., 1:] if K == 2 else part.draws
    return tables, draws


def _with_whole(table: Floats, grouped: bool) -> Floats:
    return np.concatenate([table.sum(axis=0, keepdims=True), table]) if grouped else table


def _shares(sums: Floats) -> Floats:
    """Rows as shares; NaN where there is nothing."""
    total = sums.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0))
