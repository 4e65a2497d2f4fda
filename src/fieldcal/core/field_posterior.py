"""Shares, classes by bin and joint draws of the multilevel model, as mixtures over its points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, softmax

from fieldcal.core.field_model import Components, Counts, Model
from fieldcal.core.field_points import Point, points_of, updated
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.intervals import interval_of_mixture, spread_on_logs
from fieldcal.core.log_odds import against_first, slopes_of, with_first
from fieldcal.core.multilevel import fit
from fieldcal.types import Floats, Ints

_NUMBERS = 4_000_000  # in memory at a time
_DRAWN_TOGETHER = 64  # groups
_TINY = 1e-300


@dataclass(frozen=True)
class Shares:
    """Of the classes, as a mixture over hypotheses: one normal each on the logit scale."""

    weights: Floats  # (H,)
    means: Floats  # (H, n, K)
    variances: Floats  # (H, n, K)
    estimate: Floats  # (n, K)

    def beside(self, weight: float, other: Shares) -> Shares:
        """The same beside another mixture, which has this weight."""
        return Shares(
            np.concatenate([(1 - weight) * self.weights, weight * other.weights]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.variances, other.variances]),
            (1 - weight) * self.estimate + weight * other.estimate,
        )

    def interval(self, level: float, n: Floats) -> tuple[Floats, Floats]:
        """Equal-tailed, of shares of so many rows (n,)."""
        return interval_of_mixture(
            list(self.means), list(self.variances), self.weights, level, n=n, holds=self.estimate
        )

    @property
    def deviation(self) -> Floats:
        """(n, K) standard deviations around the estimate."""
        square = self.variances + (self.means - self.estimate) ** 2
        return np.asarray(np.sqrt(np.einsum("h,hnk->nk", self.weights, square)))


@dataclass(frozen=True)
class Posterior:
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
        """Of a variance component."""
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
            block = _Block.of(model, self.points, np.arange(rows.start, rows.stop))
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
        """Of every group of the field."""
        return self._solved[0]

    def whole(self) -> Shares:
        """Of the field as one population."""
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
        return np.asarray(np.einsum("p,pgjk->gjk", near, _Block.of(self.model, self.points, rows).classes))

    def classes_under(self, kind: str, rows: Ints) -> Floats:
        """P(class | bin) in some groups, (groups, m, K), if a hypothesis holds."""
        points = [p for p in self.points if p.hypothesis.kind == kind]
        weights = np.array([p.weight for p in points])
        classes = _Block.of(self.model, points, rows).classes
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

    def with_counts(self, field: Floats, by_class: Floats | None) -> Posterior:
        """The same with other labelled rows of the field, (A, K, m) and (K, m)."""
        model = replace(self.model, counts=replace(self.model.counts, field=field, by_class=by_class))
        return Posterior(model, updated(model, self.points), self.seed)

    def open_rows(self) -> Floats:
        """(G, m) rows without a label."""
        counts = self.model.counts
        G, V = len(counts.V), counts.V
        given = counts.field[:G].sum(axis=1)
        among = (given <= V * (1 + 1e-9) + 1e-9).all(axis=1, keepdims=True)
        return np.where(among, np.maximum(V - given, 0.0), V)

    def normality(self, rows: Ints) -> Floats:
        """Weight of the normal prior of some groups, (groups,): far below 1 for outlying ones."""
        wide = np.array([p.weight for p in self.points])
        return np.asarray(wide @ _Block.of(self.model, self.points, rows).scale)

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
                draws[:, at] = _drawn(self.model, point, rows, common, [self.seed, 43, i], together)
        return draws


@dataclass(frozen=True)
class Predicted:
    """Prior predictive of the shares of the classes among labelled rows, given their predictions."""

    expected: Floats  # (K,)
    p_value: float  # of so large a difference between observed and expected shares


def prior_predictive(posterior: Posterior, kind: str) -> Predicted | None:
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
    block = _Block.of(unseen, points, rows)
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


def posterior_of(model: Model, seed: int = 0) -> Posterior:
    """The posterior of a model, as weighted points."""
    return Posterior(model, points_of(model, seed), seed)


def _mixture(weights: Floats, mean: Floats, square: Floats, inner: Floats, estimate: Floats) -> Shares:
    w = np.maximum(weights, _TINY)[:, None, None]
    means = mean / w
    estimate = estimate / estimate.sum(axis=1, keepdims=True)
    return Shares(
        weights / weights.sum(), means, np.maximum(square / w - means**2, 0.0) + inner / w, estimate
    )


@dataclass(frozen=True)
class _Block:
    """Some groups at P points: log-odds of the field's bins, and their covariance in parts."""

    eta: Floats  # (P, g, m, K − 1)
    of_lab: Floats  # (P, m, K − 1) the part that is the lab's calibration error
    calibrated: Floats  # (g,) probability that it is the group's too
    of_bin: Floats  # (P, g, m, k, k) covariance of a bin alone
    group: Floats  # (P, g, q, q) covariance of u
    by_group: Floats  # (P, g, m, k, q) how u moves a bin
    common: Floats  # (P, g, m, k, D) how d moves a bin
    S: Floats  # (P, D, D)
    rest: Floats  # (g, m) rows whose class is open, as shares of the group's rows
    known: Floats  # (g, K) rows of known class, likewise
    n: Floats  # (g,)
    scale: Floats  # (P, g) weight of the normal prior

    @classmethod
    def of(cls, model: Model, points: Sequence[Point], rows: Ints) -> _Block:
        """With d at its mode; its error enters through `common`."""
        counts, X = model.counts, model.design.X
        phases = [1] if model.labelled == [1] else [0, 1]
        free = counts.base.shape[1] - 1
        components = Components(
            *(np.concatenate([getattr(p.components, f.name) for p in points]) for f in fields(Components))
        )
        d, S, shift = (
            np.array(x) for x in zip(*((p.d, p.S, p.hypothesis.mean) for p in points), strict=True)
        )
        priors = model.priors(rows, components, shift, S, phases)  # d is held: its precision is of no account
        found = fit(model.labels(rows, phases), priors, at=d)
        design = np.concatenate([X[f] for f in phases], axis=1)  # (m, q, D)
        own = slice(len(phases) * free - free, len(phases) * free)  # the field's coordinates
        moved = -found.U @ found.C  # u with d
        common, by_group = X[1] + moved[:, :, None, own], np.eye(len(phases) * free)[own]
        if model.fine:
            EA = found.E[..., own, :] @ found.A
            common, by_group = common - EA @ (design + moved[:, :, None]), by_group - EA
        by_group = np.broadcast_to(by_group, (*common.shape[:-1], len(phases) * free))
        effects = (found.u[:, :, None] + found.e)[..., own]
        eta = priors.offset[:, :, -1] + np.einsum("mkd,pd->pmk", X[1], d)[:, None] + effects
        rest, known, n = _open_rows(counts, rows)
        of_lab = np.einsum(
            "mkd,pd->pmk", X[1][..., model.design.shift.stop :], d[:, model.design.shift.stop :]
        )
        return cls(
            eta,
            of_lab,
            counts.calibrated[rows],
            found.E[..., own, own],
            found.U,
            by_group,
            common,
            S,
            rest,
            known,
            n,
            found.scale,
        )

    @cached_property
    def classes(self) -> Floats:
        """P(class | bin) in each group, (P, g, m, K), over the uncertainty of the log-odds."""
        found, other, sure = *self._classes, self.calibrated[:, None, None]
        return found if other is found else sure * found + (1 - sure) * other

    @cached_property
    def _classes(self) -> tuple[Floats, Floats]:
        """With the lab's calibration error, and without it; the same where it is certainly the group's."""
        covariance = self.of_bin + self.by_group @ self.group[:, :, None] @ self.by_group.swapaxes(-1, -2)
        covariance = covariance + self.common @ self.S[:, None, None] @ self.common.swapaxes(-1, -2)
        found = expected_softmax(self.eta, covariance)
        if (self.calibrated == 1).all():
            return found, found
        return found, expected_softmax(self.eta - self.of_lab[:, None], covariance)

    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Shares (P, g, K), their variance given what is common, and how they move with that, (P, g, K, D + 1).

        Common are d, and last whether the lab's calibration error is that of groups where it may not be.
        """
        Q = self.classes
        share = np.einsum("gj,pgjk->pgk", self.rest, Q) + self.known
        slopes = self.rest[:, :, None, None] * slopes_of(softmax(with_first(self.eta), axis=-1))[..., 1:]
        variance = ((slopes @ self.of_bin) * slopes).sum(axis=(2, 4))
        with_group = (slopes @ self.by_group).sum(axis=2)  # (P, g, K, q)
        variance += ((with_group @ self.group) * with_group).sum(axis=3)
        variance += np.einsum("gj,pgjk->pgk", self.rest, Q * (1 - Q)) / self.n[:, None]
        found, other = self._classes
        either = np.einsum("gj,pgjk->pgk", self.rest, found - other)
        either *= np.sqrt(self.calibrated * (1 - self.calibrated))[:, None]
        common = np.concatenate([(slopes @ self.common).sum(axis=2), either[..., None]], axis=3)
        return share, variance, common


def _open_rows(counts: Counts, rows: Ints) -> tuple[Floats, Floats, Floats]:
    """Rows whose class is open (g, m) and known (g, K), as shares of their sum (g,), which is 1 where there are none.

    A group without rows has the bins of the whole field.
    """
    V, labels = counts.V[rows], counts.field[rows]
    given = labels.sum(axis=1)
    among = (given <= V * (1 + 1e-9) + 1e-9).all(axis=1, keepdims=True)
    rest = np.where(among, np.maximum(V - given, 0.0), V)
    known = np.where(among, labels.sum(axis=2), 0.0)
    empty = V.sum(axis=1, keepdims=True) <= 0
    total = counts.V.sum(axis=0)
    rest = np.where(empty, total if total.sum() > 0 else 1.0, rest)
    known = np.where(empty, 0.0, known)
    n = rest.sum(axis=1) + known.sum(axis=1)
    return rest / n[:, None], known / n[:, None], np.where(empty[:, 0], 1.0, n)


def expected_softmax(eta: Floats, covariance: Floats) -> Floats:
    """Mean of the softmax of normal log-odds against the first class, (…, K), by sigma points."""
    k = eta.shape[-1]
    if k <= 2:
        nodes = np.concatenate([np.zeros((1, k)), np.sqrt(3) * np.eye(k), -np.sqrt(3) * np.eye(k)])
        weights = np.array([1 - k / 3] + [1 / 6] * (2 * k))
    else:
        nodes, weights = (
            np.concatenate([np.sqrt(k) * np.eye(k), -np.sqrt(k) * np.eye(k)]),
            np.full(2 * k, 0.5 / k),
        )
    root = (
        np.sqrt(np.maximum(covariance, 0.0)) if k == 1 else np.linalg.cholesky(covariance + 1e-10 * np.eye(k))
    )
    mean = sum(
        w * softmax(with_first(eta + np.einsum("...ab,b->...a", root, z)), axis=-1)
        for z, w in zip(nodes, weights, strict=True)
    )
    mean = np.maximum(mean, 1e-15)
    return np.asarray(mean / mean.sum(axis=-1, keepdims=True))


def _drawn(
    model: Model, point: Point, rows: Ints, common: Floats, seed: list[int], together: Floats | None = None
) -> Floats:
    """Shares (groups, n, K) with what is common of standard normals (n, D + 1); noise of a group is the group's own.

    ``together`` (groups, groups): a root of the correlations of the noise of the groups' rows.
    """
    root = np.linalg.cholesky(point.S + 1e-12 * np.eye(len(point.S)))
    d, n, place = common[:, :-1] @ root.T, len(common), ndtr(common[:, -1])
    G = len(model.counts.V)
    mean, chance, noise = (np.empty((len(rows), n, model.counts.shape[1])) for _ in range(3))
    for start in np.unique(rows // _DRAWN_TOGETHER) * _DRAWN_TOGETHER:
        # The same groups are solved together whichever are asked for, so that draws do not depend on the others.
        block = _Block.of(model, [point], np.arange(start, min(start + _DRAWN_TOGETHER, G)))
        for i in np.flatnonzero(rows // _DRAWN_TOGETHER * _DRAWN_TOGETHER == start):
            rng = np.random.default_rng([*seed, int(rows[i])])
            mean[i], chance[i] = _drawn_of_group(block, int(rows[i] - start), d, place, rng)
            noise[i] = rng.standard_normal((n, mean.shape[2]))
    if together is not None:
        noise = np.einsum("hg,gnk->hnk", together, noise)
    return np.asarray(
        softmax(np.log(np.clip(mean, 1e-12, 1.0)) + spread_on_logs(mean, chance) * noise, axis=-1)
    )


def _drawn_of_group(
    block: _Block, g: int, d: Floats, place: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Shares (n, K) of one group of a block, of changes (n, D) of the common effects, and the variance of its rows.

    ``place`` (n,): above the group's probability of having the lab's calibration error, it has none.
    """
    q, (m, k), n = block.group.shape[-1], block.eta.shape[2:], len(d)
    u = rng.standard_normal((n, q)) @ np.linalg.cholesky(block.group[0, g] + 1e-12 * np.eye(q)).T
    bins = np.linalg.cholesky(block.of_bin[0, g] + 1e-12 * np.eye(k))
    move = np.einsum("mab,nmb->nma", bins, rng.standard_normal((n, m, k)))
    move += np.einsum("mkq,nq->nmk", block.by_group[0, g], u)
    move += np.einsum("mkd,nd->nmk", block.common[0, g], d)
    move -= (place > block.calibrated[g])[:, None, None] * block.of_lab[0]
    Q = softmax(with_first(block.eta[0, g] + move), axis=-1)
    mean = np.einsum("m,nmk->nk", block.rest[g], Q) + block.known[g]
    return mean, np.einsum("m,nmk->nk", block.rest[g], Q * (1 - Q)) / block.n[g]
