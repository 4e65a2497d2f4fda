"""What a few labelled rows of the field say: one posterior, from no label to many.

A row of bin j and group g has class k with ``P(k | j, g) ∝ P_lab(k | j) · exp(a_gk + e_jk)``. The tilt ``a`` has three
explanations before labels are seen: *label shift* (``log p_urc / p_lab``), *same* (no tilt), and *other* (anything
around the two). ``e`` is what no tilt explains, per bin, of a scale δ that is itself unknown, and the lab's own noise.
Labelled rows weigh the explanations by their evidence, and move each. As labels grow, this becomes poststratification
by score; where they are few, it is what was believed without them.

Rows that were drawn at random, or by looking at their predictions, tell of ``P(k | j, g)``. Rows that were chosen by
their class tell of ``P(j | k) ∝ v_j P(k | j)`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import softmax
from scipy.stats import chi2

from fieldcal.core.intervals import perturbed
from fieldcal.core.labelled_rows import (
    Base,
    ByClass,
    Explanation,
    Foretold,
    Kind,
    LabelledRows,
    Shares,
)
from fieldcal.core.laplace import Cells, Gaussian, fit
from fieldcal.core.log_odds import against_first, precisions, slopes_of, spread_noise, with_first
from fieldcal.core.policy import POLICY
from fieldcal.core.reweight import safe_log
from fieldcal.types import Floats, Ints

#: Effects of bins are common to all groups while they are fewer than this; beyond, groups have none of them.
_DENSE = 256
_CELLS = 2_000_000  # numbers in memory at a time
_HOPELESS = 9.0  # natural logs below the likeliest at which an explanation is not pursued
_SMALL = 1e-3  # explanations of less weight are left out of what is shown
_TINY = 1e-300


@dataclass(frozen=True)
class Piece:
    """An explanation after labels were seen."""

    weight: float
    explanation: Explanation
    gaussian: Gaussian


@dataclass(frozen=True)
class Model:
    """A field and its labels; explanations are fitted to it one by one."""

    base: Base
    V: Floats  # (G, m) as effective rows, those with labels among them
    labels: LabelledRows
    grouped: bool

    @cached_property
    def known(self) -> Floats:
        """(G, K) rows whose class is known; not those that were chosen by it, after which others are not like them."""
        return self._spread(self.labels.given_bin.sum(axis=2) * self.among[:, None])

    @cached_property
    def rest(self) -> Floats:
        """(G, m) all other rows."""
        return np.maximum(self.V - self._spread(self.labels.given_bin.sum(axis=1) * self.among[:, None]), 0.0)

    @cached_property
    def among(self) -> NDArray[np.bool_]:
        """(L,) whether the labelled rows of a group can be rows of its histogram: no bin has more of them than rows."""
        n = self.labels.given_bin.sum(axis=1)
        return np.asarray((n <= self.V[self.labels.groups] * (1 + 1e-9) + 1e-9).all(axis=1))

    @cached_property
    def standing(self) -> tuple[Floats, Floats]:
        """Rows whose class is open (G, m), or known (G, K), that shares are of; a group without any has the field's."""
        empty = self.V.sum(axis=1, keepdims=True) <= 0
        total = self.V.sum(axis=0)
        field = total if total.sum() > 0 else np.ones(len(total))
        return np.where(empty, field, self.rest), np.where(empty, 0.0, self.known)

    @cached_property
    def block(self) -> Ints:
        """(G,) where the group's own effect is among the blocks; −1 for a group without labels."""
        place = np.full(len(self.V), -1, dtype=np.intp)
        if self.grouped:
            given = self.labels.given_bin.any(axis=(1, 2))
            place[self.labels.groups[given]] = np.arange(given.sum())
        return place

    def _spread(self, table: Floats) -> Floats:
        full = np.zeros((len(self.V), table.shape[1]))
        full[self.labels.groups] = table
        return full

    @property
    def bins_are_common(self) -> bool:
        """Whether the effects of bins are among the common ones; otherwise they are blocks, or there are none."""
        few = self.base.logs.size <= _DENSE
        return few and (self.grouped or bool(self.labels.by_class.any()))

    @property
    def bins_are_blocks(self) -> bool:
        """One population whose labels all tell of P(k | j)."""
        return not self.grouped and not self.labels.by_class.any()

    @cached_property
    def Z(self) -> Floats:
        """(m, K − 1, K) how tilt and slope enter the log-odds of each bin, against the first class."""
        m, K = self.base.logs.shape
        tilt = np.broadcast_to(np.eye(K - 1), (m, K - 1, K - 1))
        return np.concatenate([tilt, against_first(self.base.slope)[:, :, None]], axis=2)

    @property
    def all_Z(self) -> Floats:
        """(m, K, D) the same of all common effects, and of the first class too, which has none."""
        m, free, _ = self.Z.shape
        parts = [self.Z]
        if self.bins_are_common:
            parts.append(np.einsum("ij,kl->ikjl", np.eye(m), np.eye(free)).reshape(m, free, m * free))
        return np.concatenate(
            [np.zeros((m, 1, sum(part.shape[2] for part in parts))), np.concatenate(parts, axis=2)], axis=1
        )

    def effects(self, d: Floats) -> Floats:
        """Of common effects (…, D) on the bins, (…, m, K)."""
        m, free, q = self.Z.shape
        effects = np.einsum("jkq,...q->...jk", self.Z, d[..., :q])
        return with_first(
            effects + d[..., q:].reshape(*d.shape[:-1], m, free) if self.bins_are_common else effects
        )

    @cached_property
    def _cells(self) -> tuple[Floats, Ints, Ints, Ints]:
        """Counts (I, K), group, bin and block of every cell."""
        counts = self.labels.given_bin.swapaxes(1, 2)  # (L, m, K)
        if not self.grouped:
            bins = np.arange(counts.shape[1])
            return counts.sum(axis=0), np.zeros(len(bins), dtype=np.intp), bins, bins
        at, bins = np.nonzero(counts.any(axis=2))
        groups = self.labels.groups[at]
        return counts[at, bins], groups, bins, self.block[groups]

    def precision(self, explanation: Explanation) -> Floats:
        """(D, D) of the common effects before labels are seen."""
        parts = [precisions(explanation.variance[None]), np.full((1, 1, 1), POLICY.slope**-2)]
        if self.bins_are_common:
            parts.append(precisions(explanation.off**2 + self.base.noise))
        return np.asarray(block_diag(*(block for part in parts for block in part)))

    def fitted(self, explanation: Explanation, near: tuple[Explanation, Gaussian] | None = None) -> Gaussian:
        """The explanation after labels were seen, with its evidence; near another that is known already."""
        counts, groups, bins, block = self._cells
        K = counts.shape[1]
        tilt = np.broadcast_to(explanation.tilt, (len(self.V), K))
        own = np.zeros((0, K - 1, K - 1))
        if self.grouped and explanation.own is not None:
            own = precisions(np.broadcast_to(explanation.own, tilt.shape)[self.block >= 0])
        elif self.bins_are_blocks:
            own = precisions(explanation.off**2 + self.base.noise)
        n_columns = len(self.base.logs) if self.bins_are_common else 0
        offset = against_first(self.base.logs[bins] + tilt[groups])
        cells = Cells(counts, offset, self.Z[bins], block, len(own), bins, n_columns)
        term = None
        if self.labels.by_class.any():
            v = self.V.sum(axis=0)
            common = np.average(tilt, axis=0, weights=np.maximum(self.V.sum(axis=1), _TINY))
            term = ByClass(self.labels.by_class.sum(axis=0), safe_log(v), self.base.logs + common, self.all_Z)
        return fit(
            cells,
            precision=self.precision(explanation),
            own=own,
            term=term,
            start=self._start(explanation, near),
        )

    def _start(
        self, explanation: Explanation, near: tuple[Explanation, Gaussian] | None
    ) -> tuple[Floats, Floats] | None:
        """Effects that leave the log-odds of the labels where another explanation found them."""
        if near is None:
            return None
        other, found = near
        apart = against_first(other.tilt - explanation.tilt)
        if self.grouped and len(found.b):
            return found.d, found.b + np.broadcast_to(apart, (len(self.V), apart.shape[1]))[self.block >= 0]
        d = found.d.copy()
        d[: apart.shape[1]] += apart.mean(axis=0)
        return d, found.b

    def foretold(self, explanation: Explanation) -> Foretold | None:
        """What an explanation says of the labels before it has seen them; None if all rows were chosen by class."""
        counts, groups, bins, _ = self._cells
        n = counts.sum(axis=1)
        if not n.sum():
            return None
        tilt = np.broadcast_to(explanation.tilt, self.known.shape)
        Q = softmax(self.base.logs[bins] + tilt[groups], axis=1)
        slopes = n[:, None, None] * slopes_of(Q)
        common = slopes.sum(axis=0)
        noise = common + (common * explanation.variance) @ common  # of the labels, and of the tilt of all
        if explanation.own is not None:
            own = np.broadcast_to(explanation.own, tilt.shape)
            noise = noise + spread_noise(slopes, groups, own[np.unique(groups)])
        noise = noise + spread_noise(slopes, bins, (explanation.off**2 + self.base.noise)[np.unique(bins)])
        slope = np.einsum("ikl,il->k", slopes, self.base.slope[bins])
        noise = noise + POLICY.slope**2 * np.outer(slope, slope)
        left, K = (counts - n[:, None] * Q).sum(axis=0), counts.shape[1]
        distance = left @ np.linalg.pinv(noise, rcond=1e-9, hermitian=True) @ left
        total = n.sum()
        return Foretold(counts.sum(axis=0) / total, n @ Q / total, float(chi2.sf(distance, K - 1)))

    def learn(self, explanations: list[Explanation]) -> Learnt:
        """All explanations, weighed by the evidence for each; those that others rule out are not fitted."""
        tried, told = _Tried(self), [x for x in explanations if x.weight > 0]
        first = max(told, key=lambda x: x.weight)
        tried.fit(x for x in told if x.story == first.story)
        off = tried.best.off  # how far bins are off is much the same for all
        tried.fit(x for x in told if x.off == off)
        tried.fit(x for x in told if not tried.rules_out(x))
        weights = softmax(tried.logs)
        pieces = (
            Piece(float(w), x, y if w >= _SMALL else y.alone())
            for w, (x, y) in zip(weights, tried.fits, strict=True)
        )
        return Learnt(self, tuple(pieces), tuple(explanations))


class _Tried:
    """Explanations that were fitted so far."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.fits: list[tuple[Explanation, Gaussian]] = []
        self.logs: list[float] = []  # of weight times evidence

    @property
    def best(self) -> Explanation:
        """The likeliest."""
        return self.fits[int(np.argmax(self.logs))][0]

    def fit(self, explanations: Iterable[Explanation]) -> None:
        """Those that were not fitted before."""
        for explanation in explanations:
            if any(explanation is x for x, _ in self.fits):
                continue
            found = self.model.fitted(explanation, self.fits[-1] if self.fits else None)
            self.fits.append((explanation, found))
            self.logs.append(float(np.log(explanation.weight)) + found.log_evidence)

    def rules_out(self, explanation: Explanation) -> bool:
        """Whether it was hopeless with bins that are off otherwise."""
        known = [
            log
            for log, (x, _) in zip(self.logs, self.fits, strict=True)
            if (x.story, x.group_off) == (explanation.story, explanation.group_off)
        ]
        return bool(known) and max(known) < max(self.logs) - _HOPELESS


@dataclass(frozen=True)
class Learnt:
    """The posterior: a mixture of explanations, each a Gaussian."""

    model: Model
    pieces: tuple[Piece, ...]
    told: tuple[Explanation, ...]  # all that were possible before

    def foretold(self, kind: Kind) -> Foretold | None:
        """What the likeliest explanation of a kind said of the labels before they were seen; None if there is none."""
        of_kind = [piece.explanation for piece in self.pieces if piece.explanation.kind == kind]
        return self.model.foretold(max(of_kind, key=lambda x: x.weight)) if of_kind else None

    def weight(self, kind: Kind) -> float:
        """The probability of an explanation."""
        return float(sum(piece.weight for piece in self.pieces if piece.explanation.kind == kind))

    @property
    def between(self) -> float:
        """How much of the differences between groups is followed."""
        return float(sum(piece.weight * piece.explanation.between for piece in self.pieces))

    @property
    def unchanged(self) -> float:
        """The probability that the classes of a prediction are the lab's, in every group."""
        same = (piece for piece in self.pieces if piece.explanation.kind == "same")
        return float(min(sum(piece.weight * (1 - piece.explanation.between) for piece in same), 1.0))

    @property
    def off(self) -> float:
        """The scale of what no tilt explains, on the logit scale: how far the scores themselves are off."""
        return float(np.sqrt(sum(piece.weight * piece.explanation.off**2 for piece in self.pieces)))

    @property
    def off_for_sure(self) -> float:
        """The probability that the scores are clearly off."""
        clearly = (piece.weight for piece in self.pieces if piece.explanation.off >= POLICY.bins_clearly_off)
        return float(min(sum(clearly), 1.0))

    @cached_property
    def likely(self) -> tuple[Piece, ...]:
        """Those that matter, their weights scaled to one."""
        kept = [piece for piece in self.pieces if piece.weight >= _SMALL]
        total = sum(piece.weight for piece in kept)
        return tuple(replace(piece, weight=piece.weight / total) for piece in kept)

    def effects(self, piece: Piece) -> Floats:
        """Of the bins, (m, K): everything beside the tilts of the groups."""
        effects = self.model.effects(piece.gaussian.d)
        return effects + with_first(piece.gaussian.b) if self.model.bins_are_blocks else effects

    def tilts(self, piece: Piece, rows: slice | Ints = slice(None)) -> Floats:
        """Of groups, (G, K), beside what all have in common."""
        model = self.model
        tilt = np.broadcast_to(piece.explanation.tilt, model.known.shape)[rows]
        block = model.block[rows]
        if not len(piece.gaussian.b) or model.bins_are_blocks:
            return np.asarray(tilt)
        return np.asarray(tilt + np.where(block[:, None] >= 0, with_first(piece.gaussian.b)[block], 0.0))

    def shares(self) -> Shares:
        """Of the classes in every group: mean and variance under each of the likely explanations."""
        weights = np.array([piece.weight for piece in self.likely])
        means, variances = zip(*(self._moments(piece) for piece in self.likely), strict=True)
        return Shares(weights, means, variances, self.model.V.sum(axis=1))

    def _moments(self, piece: Piece) -> tuple[Floats, Floats]:
        parts = [self._of_rows(piece, rows) for rows in self._chunks()]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([var for _, var in parts])

    def _chunks(self) -> Iterator[slice]:
        G, (m, K) = len(self.model.V), self.model.base.logs.shape
        step = max(1, _CELLS // (m * K * K))
        return (slice(i, i + step) for i in range(0, G, step))

    def _of_rows(self, piece: Piece, rows: slice) -> tuple[Floats, Floats]:
        Q = self.classes(piece, rows)
        rest, known = (table[rows] for table in self.model.standing)
        n = (rest.sum(axis=1) + known.sum(axis=1))[:, None]
        mean = (np.einsum("gj,gjk->gk", rest, Q) + known) / n
        chance = np.einsum("gj,gjk->gk", rest / n, Q * (1 - Q)) / n
        return mean, chance + self._variance(piece, (rest / n)[:, :, None, None] * slopes_of(Q), rows)

    def rates(self) -> Floats:
        """How probable the classes are for a row of each group that comes next, (G, K), whatever its known rows are."""
        v = self.model.V + np.where(self.model.V.sum(axis=1, keepdims=True) > 0, 0.0, self.model.standing[0])
        v = v / v.sum(axis=1, keepdims=True)
        parts = [
            sum(
                piece.weight * np.einsum("gj,gjk->gk", v[rows], self.classes(piece, rows))
                for piece in self.likely
            )
            for rows in self._chunks()
        ]
        return np.concatenate(parts)

    def classes(self, piece: Piece, rows: slice | Ints) -> Floats:
        """P(class | bin) in these groups, (G, m, K)."""
        logs = self.model.base.logs + self.effects(piece) + self.tilts(piece, rows)[:, None, :]
        return np.asarray(softmax(logs, axis=2))

    def _of_common(self, slopes: Floats, own: Floats) -> Floats:
        """How shares change with the common effects, (G, K, D), from slopes (G, m, K, K) and their sums over bins."""
        parts = [own[..., 1:], np.einsum("gjkl,jl->gk", slopes, self.model.base.slope)[:, :, None]]
        if self.model.bins_are_common:
            parts.append(slopes[..., 1:].swapaxes(1, 2).reshape(*own.shape[:2], -1))
        return np.concatenate(parts, axis=2)

    def _variance(self, piece: Piece, slopes: Floats, rows: slice) -> Floats:
        """Of shares that change by slopes (G, m, K, K) with the log-odds of the bins."""
        model, found = self.model, piece.gaussian
        own = slopes.sum(axis=1)  # (G, K, K)
        common = self._of_common(slopes, own)
        if model.bins_are_blocks:
            return found.variance(common[0], slopes[0, ..., 1:])[None]
        if piece.explanation.own is None:
            return found.common_variance(common)
        block = model.block[rows]
        labelled = block >= 0
        apriori = np.broadcast_to(piece.explanation.own, model.known.shape)[rows]
        variance = np.einsum("gkl,gl->gk", own**2, apriori) + found.common_variance(common)
        variance[labelled] = found.variance_by_block(common[labelled], own[labelled, :, 1:], block[labelled])
        return np.asarray(variance)

    def whole_shares(self) -> Shares:
        """The same of the field as one population."""
        if len(self.model.V) == 1:
            return self.shares()
        weights = np.array([piece.weight for piece in self.likely])
        means, variances = zip(*(self._whole_moments(piece) for piece in self.likely), strict=True)
        return Shares(weights, means, variances, self.model.V.sum(keepdims=True)[0])

    def _whole_moments(self, piece: Piece) -> tuple[Floats, Floats]:
        """Of all rows together: what groups have in common does not average out."""
        model, K = self.model, self.model.known.shape[1]
        total = max(float(model.rest.sum() + model.known.sum()), _TINY)
        mean, chance, alone = model.known.sum(axis=0), np.zeros(K), np.zeros(K)
        common, own = np.zeros((K, len(piece.gaussian.d))), np.zeros((len(piece.gaussian.b), K, K - 1))
        apriori = np.broadcast_to(
            np.zeros(1) if piece.explanation.own is None else piece.explanation.own, model.known.shape
        )
        for rows in self._chunks():
            Q, rest, block = self.classes(piece, rows), model.rest[rows], model.block[rows]
            mean = mean + np.einsum("gj,gjk->k", rest, Q)
            chance = chance + np.einsum("gj,gjk->k", rest, Q * (1 - Q))
            slopes = rest[:, :, None, None] * slopes_of(Q) / total
            mine = slopes.sum(axis=1)
            common += self._of_common(slopes, mine).sum(axis=0)
            own[block[block >= 0]] = mine[block >= 0][..., 1:]
            alone += np.einsum("gkl,gl->k", mine[block < 0] ** 2, apriori[rows][block < 0])
        variance = piece.gaussian.variance(common, own) + alone + chance / total / total
        return (mean / total)[None], variance[None]

    def bins(self) -> Floats:
        """P(class | bin) in the whole field, (m, K), in the mean over the explanations."""
        v = np.maximum(self.model.V.sum(axis=1), _TINY)
        table = np.zeros(self.model.base.logs.shape)
        for piece in self.likely:
            tilt = np.average(self.tilts(piece), axis=0, weights=v)
            table += piece.weight * softmax(self.model.base.logs + self.effects(piece) + tilt, axis=1)
        return table

    def draws(self, rows: Ints, n: int, rng: np.random.Generator) -> Floats:
        """Joint draws of the shares of some groups, (groups, n, K)."""
        weights = np.array([piece.weight for piece in self.likely])
        place = np.searchsorted(np.cumsum(weights / weights.sum()), (np.arange(n) + 0.5) / n)
        chosen = rng.permutation(np.minimum(place, len(weights) - 1))
        draws = np.empty((len(rows), n, self.model.known.shape[1]))
        for i, piece in enumerate(self.likely):
            at = np.flatnonzero(chosen == i)
            if len(at):
                draws[:, at] = self._drawn(piece, rows, len(at), rng)
        return draws

    def _drawn(self, piece: Piece, rows: Ints, n: int, rng: np.random.Generator) -> Floats:
        model, K = self.model, self.model.known.shape[1]
        blocks = np.arange(len(piece.gaussian.b)) if model.bins_are_blocks else model.block[rows]
        labelled = blocks >= 0
        d, b = piece.gaussian.draws(n, blocks[labelled], rng)
        effects = model.effects(d)
        own = np.zeros((len(rows), n, K))
        if model.bins_are_blocks:
            effects = effects + with_first(b.swapaxes(0, 1))
        elif piece.explanation.own is not None:
            own[labelled] = with_first(b)
            apriori = np.broadcast_to(piece.explanation.own, model.known.shape)[rows][~labelled]
            own[~labelled] = np.sqrt(apriori)[:, None, :] * rng.standard_normal((len(apriori), n, K))
        tilt = np.broadcast_to(piece.explanation.tilt, model.known.shape)[rows]
        shares = np.empty((len(rows), n, K))
        for g, row in enumerate(
            rows
        ):  # one at a time: bins and draws of all groups would not fit into memory
            Q = softmax(model.base.logs + effects + (tilt[g] + own[g])[:, None, :], axis=2)
            rest, known = (table[row] for table in model.standing)
            total = rest.sum() + known.sum()
            mean = (np.einsum("j,njk->nk", rest, Q) + known) / total
            chance = np.einsum("j,njk->nk", rest / total, Q * (1 - Q)) / total
            shares[g] = perturbed(mean, chance, rng)
        return shares
