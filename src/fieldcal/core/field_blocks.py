"""Groups of the multilevel model at its points: log-odds of their bins, moments of their shares, and draws of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.special import ndtr, softmax

from fieldcal.core.field_model import Components, Counts, Model
from fieldcal.core.field_points import Point
from fieldcal.core.intervals import spread_on_logs
from fieldcal.core.log_odds import slopes_of, with_first
from fieldcal.core.multilevel import fit
from fieldcal.types import Floats, Ints

_DRAWN_TOGETHER = 64  # groups


@dataclass(frozen=True)
class Block:
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
    def of(cls, model: Model, points: Sequence[Point], rows: Ints) -> Block:
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
        rest, known, n = open_rows(counts, rows)
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


def open_rows(counts: Counts, rows: Ints) -> tuple[Floats, Floats, Floats]:
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


def drawn_shares(
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
        block = Block.of(model, [point], np.arange(start, min(start + _DRAWN_TOGETHER, G)))
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
    block: Block, g: int, d: Floats, place: Floats, rng: np.random.Generator
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
