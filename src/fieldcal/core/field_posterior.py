"""Shares, classes by bin and joint draws of the multilevel model, as mixtures over its points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, softmax

from fieldcal.core.field_blocks import Block, Point, drawn_shares, points_of, updated
from fieldcal.core.field_model import Model
from fieldcal.core.histogram_posterior import HistogramPosterior
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.intervals import Shares as Shares
from fieldcal.core.offsets import against_first, with_first
from fieldcal.types import Floats, Ints

_NUMBERS = 4_000_000  # in memory at a time
_TINY = 1e-300


@dataclass(frozen=True)
class ModelPosterior:
    """The model's answer: points, each with a normal posterior of all effects."""

    model: Model
    points: tuple[Point, ...]
    seed: int

    @cached_property
    def kinds(self) -> tuple[Hypothesis, ...]:
        """Hypotheses that are not ruled out."""
        return tuple(h for h in self.model.hypotheses if any(p.hypothesis is h for p in self.points))

    def weight(self, kind: str) -> float:
        """The probability of a hypothesis about the whole field."""
        return float(sum(p.weight for p in self.points if p.hypothesis.kind == kind))

    @property
    def unchanged(self) -> float:
        """The probability that a prediction means what it meant in the lab, in every group."""
        kept = (p for p in self.points if p.hypothesis.kind == "unchanged")
        return float(sum(p.weight * max(0.0, 1 - p.components.beta[0]) for p in kept))

    @property
    def change(self) -> float:
        """Standard deviation of changes of the calibration of bins between lab and field, on the log-odds scale."""
        return float(np.sqrt(self.mean("change")))

    def probability_of_change(self, least: float) -> float:
        """That its standard deviation is at least this much."""
        return float(sum(p.weight for p in self.points if p.components.change[0] >= least**2))

    def mean(self, name: str) -> float:
        return float(sum(p.weight * getattr(p.components, name)[0] for p in self.points))

    @cached_property
    def _solved(self) -> tuple[Shares, Shares, Floats, Floats]:
        model, counts = self.model, self.model.counts
        G, K, m = counts.shape
        H = len(self.kinds)
        mean, square, inner = (np.zeros((H, G, K)) for _ in range(3))
        whole_mean, whole_square, whole_inner = (np.zeros((H, 1, K)) for _ in range(3))
        estimate, rates, tables = np.zeros((G, K)), np.zeros((G, K)), np.zeros((m, K))
        total = max(float(counts.V.sum()), _TINY)
        part = counts.V.sum(axis=1) / total
        where = np.array([self.kinds.index(p.hypothesis) for p in self.points])
        one = np.eye(H)[:, where]  # (H, P) which point is under which hypothesis
        wide, near = (np.array([getattr(p, name) for p in self.points]) for name in ("weight", "estimate"))
        weights, wide_of = one @ wide, one * wide
        P, D = len(self.points), len(self.points[0].d)
        S = np.zeros((P, D + 1, D + 1))
        S[:, :D, :D], S[:, D, D] = [p.S for p in self.points], 1.0
        every, sensitivity, own_variance = np.zeros((P, K)), np.zeros((P, K, D + 1)), np.zeros((P, K))
        for rows in self._blocks(P):
            block = Block.of(model, self.points, np.arange(rows.start, rows.stop))
            share, own, common = block.moments()
            variance = own + np.einsum("pgkd,pde,pgke->pgk", common, S, common, optimize=True)
            mean[:, rows] = np.einsum("hp,pgk->hgk", wide_of, share)
            square[:, rows] = np.einsum("hp,pgk->hgk", wide_of, share**2)
            inner[:, rows] = np.einsum("hp,pgk->hgk", wide_of, variance)
            estimate[rows] = np.einsum("p,pgk->gk", near, share)
            classes, V = np.einsum("p,pgjk->gjk", near, block.classes), counts.V[rows]
            rates[rows] = np.einsum("gj,gjk->gk", V, classes)
            tables += np.einsum("gj,gjk->jk", V, classes)
            every += np.einsum("g,pgk->pk", part[rows], share)
            sensitivity += np.einsum("g,pgkd->pkd", part[rows], common)
            own_variance += np.einsum("g,pgk->pk", part[rows] ** 2, own)
        own_variance += np.einsum("pkd,pde,pke->pk", sensitivity, S, sensitivity, optimize=True)
        whole_mean[:, 0], whole_square[:, 0] = wide_of @ every, wide_of @ every**2
        whole_inner[:, 0] = wide_of @ own_variance
        each = _mixture(weights, mean, square, inner, estimate)
        together = _mixture(weights, whole_mean, whole_square, whole_inner, (part @ estimate)[None])
        return each, together, rates, tables / np.maximum(tables.sum(axis=1, keepdims=True), _TINY)

    def shares(self) -> Shares:
        return self._solved[0]

    def whole(self) -> Shares:
        return self._solved[1]

    def rates(self) -> Floats:
        """How probable the classes are for a row that comes next, (G, K), whatever the known rows are."""
        rates, total = self._solved[2], self.classes_by_bin() * self.model.counts.V.sum(axis=0)[:, None]
        rates = np.where(rates.sum(axis=1, keepdims=True) > 0, rates, total.sum(axis=0))
        return np.asarray(rates / rates.sum(axis=1, keepdims=True))

    def classes_by_bin(self) -> Floats:
        """P(class | bin) in the whole field, (m, K); the model's own prediction in bins without rows."""
        table = self._solved[3]
        return np.where(table.sum(axis=1, keepdims=True) > 0, table, self.model.counts.base)

    def classes(self, rows: Ints) -> Floats:
        """P(class | bin) in some groups, (groups, m, K), of rows without a label."""
        near = np.array([p.estimate for p in self.points])
        return np.asarray(np.einsum("p,pgjk->gjk", near, Block.of(self.model, self.points, rows).classes))

    def classes_under(self, kind: str, rows: Ints) -> Floats:
        """P(class | bin) in some groups, (groups, m, K), if a hypothesis holds."""
        points = [p for p in self.points if p.hypothesis.kind == kind]
        weights = np.array([p.weight for p in points])
        classes = Block.of(self.model, points, rows).classes
        return np.asarray(np.einsum("p,pgjk->gjk", weights / weights.sum(), classes))

    def bin_draws(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws of P(class | bin) in the whole field, (n, m, K)."""
        ends = np.floor(np.cumsum([p.weight for p in self.points]) * n + 0.5).astype(int)
        base, found = against_first(np.log(self.model.counts.base)), []
        for point, size in zip(self.points, np.diff(ends, prepend=0), strict=True):
            d = rng.multivariate_normal(point.d, point.S, size=int(size), method="cholesky")
            logs = base + point.hypothesis.mean + np.einsum("mkd,nd->nmk", self.model.design.X[1], d)
            found.append(softmax(with_first(logs), axis=2))
        return np.concatenate(found)

    def with_counts(self, field: Floats, by_class: Floats | None) -> ModelPosterior:
        """The same with other labelled rows of the field, (A, K, m) and (K, m)."""
        model = replace(self.model, counts=replace(self.model.counts, field=field, by_class=by_class))
        return ModelPosterior(model, updated(model, self.points), self.seed)

    def open_rows(self) -> Floats:
        counts = self.model.counts
        G, V = len(counts.V), counts.V
        given = counts.field[:G].sum(axis=1)
        among = (given <= V * (1 + 1e-9) + 1e-9).all(axis=1, keepdims=True)
        return np.where(among, np.maximum(V - given, 0.0), V)

    def normality(self, rows: Ints) -> Floats:
        """Weight of the normal prior of some groups, (groups,): far below 1 for outlying ones."""
        wide = np.array([p.weight for p in self.points])
        return np.asarray(wide @ Block.of(self.model, self.points, rows).scale)

    def _blocks(self, points: int) -> Iterator[slice]:
        G, K, m = self.model.counts.shape
        q = 2 * (K - 1)
        step = max(1, _NUMBERS // (points * m * q * max(q, len(self.points[0].d))))
        return (slice(i, min(i + step, G)) for i in range(0, G, step))

    def draws(self, rows: Ints, n: int, together: Floats | None = None) -> Floats:
        """Joint draws of the shares of some groups, (groups, n, K): draw s of every group is under the same point.

        ``together``: a root (groups, groups) of the correlations of the noise of their open rows.
        """
        rng = np.random.default_rng([self.seed, 41])
        weights = np.array([p.weight for p in self.points])
        place = np.searchsorted(np.cumsum(weights / weights.sum()), (np.arange(n) + 0.5) / n)
        chosen = rng.permutation(np.minimum(place, len(weights) - 1))
        draws = np.empty((len(rows), n, self.model.counts.shape[1]))
        for i, point in enumerate(self.points):
            at = np.flatnonzero(chosen == i)
            if len(at):
                common = rng.standard_normal((len(at), len(point.d) + 1))
                draws[:, at] = drawn_shares(self.model, point, rows, common, [self.seed, 43, i], together)
        return draws


@dataclass(frozen=True)
class FieldPosterior:
    """Shares of the groups and of the whole field, from histograms, from labels, or from few labels beside both."""

    histograms: HistogramPosterior  # of the groups
    whole_histogram: HistogramPosterior  # of the field as one population
    labelled: ModelPosterior | None = (
        None  # the multilevel model; None without labels of lab groups or of the field
    )
    left: float = 1.0  # weight of the histograms beside labels

    def shares(self) -> Shares:
        if self.labelled is None:
            return self.histograms.shares()
        return self.labelled.shares().beside(self.left, self.histograms.shares())

    def whole(self) -> Shares:
        if self.labelled is None:
            return self.whole_histogram.shares()
        return self.labelled.whole().beside(self.left, self.whole_histogram.shares())

    def rates(self) -> Floats:
        """How probable the classes are for a row that comes next, (G, K)."""
        if self.labelled is None:
            return self.shares().estimate
        if not self.left:
            return self.labelled.rates()
        return np.asarray(
            (1 - self.left) * self.labelled.rates() + self.left * self.histograms.shares().estimate
        )


@dataclass(frozen=True)
class Predicted:
    """Prior predictive of the shares of the classes among labelled rows, given their predictions."""

    expected: Floats  # (K,)
    p_value: float  # of so large a difference between observed and expected shares


def prior_predictive(posterior: ModelPosterior, kind: str) -> Predicted | None:
    """Of labelled rows under a hypothesis, before they were seen; None without such rows or hypothesis."""
    model, counts = posterior.model, posterior.model.counts
    rows = np.flatnonzero(counts.field[: len(counts.V)].any(axis=(1, 2)))
    asked = next((h for h in model.hypotheses if h.kind == kind), None)
    if not len(rows) or asked is None:
        return None
    # A hypothesis that labels ruled out has no points left: those of the others take its place.
    points = tuple(p for p in posterior.points if p.hypothesis is asked)
    points = points or tuple(replace(p, hypothesis=asked) for p in posterior.points)
    unseen = replace(
        model,
        counts=replace(counts, field=np.zeros(counts.field.shape), by_class=None),
        hypotheses=(asked,),
    )
    points = updated(unseen, points)
    block = Block.of(unseen, points, rows)
    labels = counts.field[rows]
    n = labels.sum()
    block = replace(
        block,
        rest=labels.sum(axis=1) / n,
        known=np.zeros((len(rows), labels.shape[1])),
        n=np.full(len(rows), n),
    )
    weights = np.array([p.weight for p in points]) / sum(p.weight for p in points)
    share, own, common = (x.sum(axis=1) for x in block.moments())
    S = np.zeros((len(points), common.shape[-1], common.shape[-1]))
    S[:, :-1, :-1], S[:, -1, -1] = block.S, 1.0
    variance = own + np.einsum("pkd,pde,pke->pk", common, S, common)
    expected = weights @ share
    sd = np.sqrt(weights @ (variance + (share - expected) ** 2))
    distance = np.abs(labels.sum(axis=(0, 2)) / n - expected) / np.maximum(sd, 1e-9)
    classes = 1 if len(expected) == 2 else len(expected)
    return Predicted(expected, float(min(1.0, 2 * classes * ndtr(-distance).min())))


def posterior_of(model: Model, seed: int = 0) -> ModelPosterior:
    """The posterior of a model, as weighted points."""
    return ModelPosterior(model, points_of(model, seed), seed)


def _mixture(weights: Floats, mean: Floats, square: Floats, inner: Floats, estimate: Floats) -> Shares:
    w = np.maximum(weights, _TINY)[:, None, None]
    means = mean / w
    estimate = estimate / estimate.sum(axis=1, keepdims=True)
    return Shares(
        weights / weights.sum(), means, np.maximum(square / w - means**2, 0.0) + inner / w, estimate
    )
