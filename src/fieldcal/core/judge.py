"""True shares behind the verdicts of an imperfect judge or test: one posterior for every way of labelling rows.

A row of slice g has class k with probability ``p_gk``, and is given value j with probability ``M_gkj``. Slices share a
judge, more or less: ``M_gk ~ Dirichlet(κ·M_k)``, and have shares of their own, ``p_g ~ Dirichlet(α)``. Rows whose class
is known because they were drawn at random, or by looking at their value, are rows like all others, with nothing
missing. Rows that were chosen by their class tell of ``M`` alone. With a small probability a slice has a judge of its
own, far from all others.

``φ = (M, κ, α)`` is few numbers. Given ``φ`` the slices are independent, and each is integrated by itself (`slices`).
``φ`` is drawn around its mode, and the draws are weighed by the posterior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import chdtri, gammaln, logsumexp, ndtr, ndtri, softmax
from scipy.stats import qmc

from fieldcal.core.policy import POLICY
from fieldcal.core.slices import Integrated, Slices, integrate
from fieldcal.types import Floats, Ints

#: Where the likelihood of κ is kept, as logarithms: from judges that have nothing in common to one and the same.
LOG_KAPPAS = np.linspace(np.log(2.0), np.log(5_000.0), 24)

_POINTS, _POINTS_OF_FEW, _FEW_SLICES = 512, 1_024, 4  # draws of φ: more where they cost little
_ROUNDS, _ENOUGH = 3, 0.3  # they are drawn again around themselves while fewer than this share count
_FREEDOM = 6.0  # degrees of freedom of what they are drawn from
_STEP, _WIDE_STEP = 1e-4, 2e-2  # of differences: for slopes, and for curvatures
_LEAST_CURVATURE = 0.15  # of the posterior of φ, on the logit scale
_MOST_NUMBERS = 60  # of φ: more are not searched
_SLICES = 200  # that teach φ; more would add time, not knowledge
#: Fields of so many slices at most, and draws of each.
DRAWS = ((100, 2_048), (2_000, 512), (np.inf, 256))
_BLOCK = 40_000  # slices times points at a time
_RANGE = (-3.0, 14.0)  # of log κ and log Σ α


@dataclass(frozen=True)
class Verdicts:
    """What is known of the rows: of K classes, m values and G slices."""

    given_class: Floats  # (K, m) rows that tell of the judge given the class, and of nothing else
    known: Floats  # (G, K, m) rows of the slices whose class is known
    rest: Floats  # (G, m) their other rows
    grouped: bool  # whether they are slices of one field
    outside: bool = False  # whether rows given the class are from elsewhere: the judge may have been another
    spread: Floats | None = None  # log likelihood of κ, at LOG_KAPPAS, from labelled slices elsewhere
    by_value: bool = (
        False  # whether all known rows were chosen by their value: which values they have says nothing
    )
    counted: NDArray[np.bool_] | None = None  # (G,) whether known rows are among those that were counted

    @property
    def among(self) -> NDArray[np.bool_]:
        """The same; by default they are."""
        return np.ones(len(self.known), dtype=bool) if self.counted is None else self.counted

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, K, m."""
        G, K, m = self.known.shape
        return G, K, m

    @cached_property
    def judges_differ(self) -> bool:
        """Whether slices may have judges of their own; one population may, if its labels can tell it from elsewhere.

        Labels that were chosen by value cannot: a judge that says "fail" of everything would explain best that only
        fails were checked.
        """
        return self.grouped or (self.outside and bool(self.known.any()) and not self.by_value)

    def take(self, rows: Ints) -> Slices:
        """Some of the slices."""
        return Slices(self.known[rows], self.rest[rows])

    @property
    def mostly_labels(self) -> float:
        """From 0 to 1: how far labels of the field's own rows, and not the histogram, tell of the shares."""
        return float(1 - np.exp(-self.known.sum() / POLICY.labels_that_tell))


@dataclass(frozen=True)
class Phi:
    """What slices have in common, S times."""

    M: Floats  # (S, K, m)
    kappa: Floats | None  # (S,); None where there is one judge
    alpha: Floats  # (S, K)


@dataclass(frozen=True)
class Model:
    """The posterior density of φ, as numbers (S, D) that may be anything."""

    data: Verdicts
    learnt_from: Ints  # the slices that teach φ

    @classmethod
    def of(cls, data: Verdicts) -> Model:
        """All slices, or those with most labels and rows."""
        size = data.known.sum(axis=(1, 2)) * 1e6 + data.rest.sum(axis=1)
        return cls(data, np.sort(np.argsort(-size, kind="stable")[:_SLICES]))

    @cached_property
    def prior(self) -> tuple[Floats, Floats]:
        """Pseudo-rows of the cells of M, and of the classes of one population.

        A row of each class where histograms tell of the shares; a row in all, as Perks has it, where labels do.
        """
        _, K, m = self.data.shape
        share = self.data.mostly_labels
        cell = (1 - share) * POLICY.rows_of_a_cell + share / (K * m)
        return np.full((K, m), cell), np.full(K, (1 - share) * 1.0 + share / K)

    @property
    def _kappa(self) -> tuple[float, float]:
        """Middle and standard deviation of log κ before: of slices, or of one population beside rows from elsewhere."""
        return POLICY.log_kappa if self.data.grouped else POLICY.log_kappa_elsewhere

    @property
    def size(self) -> int:
        """D."""
        _, K, m = self.data.shape
        return K * (m - 1) + self.data.judges_differ + self.data.grouped * K

    def phi(self, x: Floats) -> Phi:
        """From numbers (S, D)."""
        _, K, m = self.data.shape
        S, n = len(x), K * (m - 1)
        M = softmax(np.concatenate([np.zeros((S, K, 1)), x[:, :n].reshape(S, K, m - 1)], axis=2), axis=2)
        kappa = None
        if self.data.judges_differ:
            kappa, n = np.exp(np.clip(x[:, n], *_RANGE)), n + 1
        if not self.data.grouped:
            return Phi(M, kappa, np.broadcast_to(self.prior[1], (S, K)))
        mean = softmax(np.concatenate([np.zeros((S, 1)), x[:, n + 1 :]], axis=1), axis=1)
        return Phi(M, kappa, np.exp(np.clip(x[:, n], *_RANGE))[:, None] * mean)

    def start(self) -> Floats:
        """Numbers (D,) to start from."""
        known = self.data.known.sum(axis=0)
        logs = np.log(self.data.given_class + known + 0.5)
        parts = [(logs[:, 1:] - logs[:, :1]).ravel()]
        if self.data.judges_differ:
            parts.append(np.array([self._kappa[0]]))
        if self.data.grouped:
            rows = np.log(known.sum(axis=1) + 1.0)
            parts += [np.array([POLICY.log_alpha[0]]), rows[1:] - rows[0]]
        return np.concatenate(parts)

    def log_density(self, x: Floats) -> Floats:
        """(S,), but for a constant."""
        phi, data = self.phi(x), self.data
        log_M = np.log(np.maximum(phi.M, 1e-300))
        density = np.einsum("kj,skj->s", data.given_class + self.prior[0], log_M)
        if phi.kappa is None:
            density += np.einsum("kj,skj->s", data.known.sum(axis=0), log_M)
        else:
            density += self._of_kappa(phi.kappa)
            density += log_values_given_class(self._other_known, phi.M, phi.kappa).sum(axis=1)
        if data.grouped:
            mean = phi.alpha / phi.alpha.sum(axis=1, keepdims=True)
            strength = np.log(phi.alpha.sum(axis=1))
            density += np.log(np.maximum(mean, 1e-300)).sum(axis=1)
            density -= 0.5 * ((strength - POLICY.log_alpha[0]) / POLICY.log_alpha[1]) ** 2
        for rows in blocks(self.learnt_from, len(x)):
            density += integrated(phi, data.take(rows), grouped=data.grouped).log_evidence.sum(axis=1)
        return np.asarray(density)

    def _of_kappa(self, kappa: Floats) -> Floats:
        """Of κ before any label of the field."""
        logs = np.log(kappa)
        middle, sd = self._kappa
        density = -0.5 * ((logs - middle) / sd) ** 2
        if self.data.spread is not None:
            density += np.interp(logs, LOG_KAPPAS, self.data.spread)
        return np.asarray(density)

    @cached_property
    def _other_known(self) -> Floats:
        """Rows of known class that no mixture of judges speaks of: of one population, or of slices beyond those."""
        if not self.data.grouped:
            return self.data.known
        others = np.setdiff1d(np.flatnonzero(self.data.known.any(axis=(1, 2))), self.learnt_from)
        return self.data.known[others]

    @cached_property
    def mode(self) -> Floats:
        """(D,)."""
        steps = _STEP * np.eye(self.size)

        def slope(x: Floats) -> tuple[float, Floats]:
            found = self.log_density(np.vstack([x[None], x + steps, x - steps]))
            up, down = np.split(found[1:], 2)
            return -float(found[0]), -(up - down) / (2 * _STEP)

        found = minimize(
            slope, self.start(), jac=True, method="BFGS", options={"gtol": 0.02, "maxiter": 60}
        ).x
        return np.asarray(found)

    def curvature(self) -> Floats:
        """(D, D) at the mode, from differences."""
        D = self.size
        steps = _WIDE_STEP * np.eye(D)
        i, j = np.triu_indices(D)
        corners = [self.mode + a * steps[i] + b * steps[j] for a in (1, -1) for b in (1, -1)]
        one, two, three, four = np.split(self.log_density(np.concatenate(corners)), 4)
        H = np.zeros((D, D))
        H[i, j] = H[j, i] = -(one - two - three + four) / (4 * _WIDE_STEP**2)
        return H

    def draws(self, n: int, rng: np.random.Generator) -> Phi:
        """n draws of φ, equally likely."""
        if not self.size:
            return self.phi(np.zeros((n, 0)))
        if self.size > _MOST_NUMBERS:
            return self._drawn_from_labels(n, rng)
        x, weights = self.sample(rng)
        place = np.searchsorted(np.cumsum(weights), (np.arange(n) + rng.random()) / n)
        return self.phi(rng.permutation(x[np.minimum(place, len(x) - 1)]))

    def _drawn_from_labels(self, n: int, rng: np.random.Generator) -> Phi:
        """Of many classes and values, whose numbers no search could handle: M as rows of known class tell it.

        These rows, or values of all rows and the classes of each, are Dirichlet. κ is what it is before, and slices'
        shares are drawn together as far as they are before.
        """
        data, (cell, own) = self.data, self.prior
        known = data.known.sum(axis=0)
        if data.given_class.sum() >= known.sum():
            cells = rng.standard_gamma(data.given_class + known + cell, (n, *cell.shape))
        else:
            given = rng.standard_gamma(known + cell, (n, *cell.shape)) + 1e-300
            rows = rng.standard_gamma(
                known.sum(axis=0) + data.rest.sum(axis=0) + cell.sum(axis=0), (n, cell.shape[1])
            )
            cells = given / given.sum(axis=1, keepdims=True) * rows[:, None, :]
        M = (cells + 1e-300) / (cells + 1e-300).sum(axis=2, keepdims=True)
        kappa = np.exp(rng.normal(*self._kappa, n)) if data.judges_differ else None
        mean = (known.sum(axis=1) + own) / (known.sum() + own.sum())
        alpha = np.exp(POLICY.log_alpha[0]) * mean if data.grouped else own
        return Phi(M, kappa, np.tile(alpha, (n, 1)))

    def sample(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draws (S, D) and their weights (S,), which sum to one."""
        values, vectors = np.linalg.eigh(self.curvature())
        root = vectors / np.sqrt(np.maximum(values, _LEAST_CURVATURE))
        x, weights = self._drawn(self.mode, root, rng)
        for _ in range(_ROUNDS - 1):
            if effective(weights) >= _ENOUGH:
                break
            centre = weights @ x
            spread = (weights * (x - centre).T) @ (x - centre) + 0.1 * root @ root.T
            again = self._drawn(centre, np.linalg.cholesky(spread), rng)
            if effective(again[1]) > effective(weights):
                x, weights = again
        return x, weights

    def _drawn(self, centre: Floats, root: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Around a centre, from Student's t distribution, weighed by the posterior."""
        S = _POINTS_OF_FEW if len(self.learnt_from) <= _FEW_SLICES else _POINTS
        # More evenly than by chance.
        even = np.clip(qmc.Sobol(self.size + 1, rng=rng).random(S), 1e-9, 1 - 1e-9)
        z, chi = ndtri(even[:, 1:]), chdtri(_FREEDOM, even[:, 0]) / _FREEDOM
        x = centre + (z / np.sqrt(chi)[:, None]) @ root.T
        drawn = -0.5 * (_FREEDOM + self.size) * np.log1p((z**2 / chi[:, None]).sum(axis=1) / _FREEDOM)
        logs = self.log_density(x) - drawn
        weights = np.exp(logs - logs.max())
        weights = np.minimum(weights, weights.mean() * np.sqrt(S))  # no draw speaks for all
        return x, weights / weights.sum()


@dataclass(frozen=True)
class Posterior:
    """Of the shares of every slice."""

    data: Verdicts
    phi: Phi  # equally likely
    seed: int

    @classmethod
    def of(cls, data: Verdicts, *, seed: int) -> Posterior:
        """Learnt from the rows."""
        rng = np.random.default_rng([seed, 11])
        n = next(n for most, n in DRAWS if len(data.rest) <= most)
        return cls(data, Model.of(data).draws(n, rng), seed)

    def judges(self, rows: Ints) -> Floats:
        """The judge of each slice in the mean, (G, K, m): as all have it, or its own, after its labelled rows."""
        M, known = self.phi.M.mean(axis=0), self.data.known[rows]
        if self.phi.kappa is None:
            return np.broadcast_to(M, known.shape)
        share, n = self.own_judge(rows)[:, None, None], known.sum(axis=2, keepdims=True)
        kappa = float(np.median(self.phi.kappa))
        near, own = ((k * M + known) / (k + n) for k in (kappa, POLICY.kappa_of_its_own))
        return np.asarray(share * own + (1 - share) * near)

    def own_judge(self, rows: Ints) -> Floats:
        """The probability that slices have a judge of their own, (G,)."""
        if self.phi.kappa is None or not self.data.grouped or not len(rows):
            return np.zeros(len(rows))
        found = (
            integrated(self.phi, self.data.take(part), grouped=True) for part in blocks(rows, self.n_draws)
        )
        return np.concatenate([mixed.own_share.mean(axis=0) for mixed in found])  # type: ignore[attr-defined]

    @property
    def n_draws(self) -> int:
        """How many there are."""
        return len(self.phi.M)

    def normals(self, rows: Ints) -> Floats:
        """What draws of slices are made from, (n, G, K): of a slice the same, whatever others are asked for."""
        K, n = self.data.shape[1], self.n_draws
        levels = ndtri((np.arange(n) + 0.5) / n)
        drawn = [np.random.default_rng([self.seed, 13, int(g)]) for g in rows]
        return np.stack([np.stack([r.permutation(levels) for _ in range(K)], axis=1) for r in drawn], 1)

    def draws(self, rows: Ints, normals: Floats | None = None) -> Floats:
        """Joint draws of the shares, (G, n, K): draw s of every slice is under the same judge."""
        normals, phi = self.normals(rows) if normals is None else normals, self.phi
        parts = [
            integrated(phi, self.data.take(rows[at]), grouped=self.data.grouped).draws(normals[:, at])
            for at in blocks(np.arange(len(rows)), self.n_draws)
        ]
        return np.concatenate(parts, axis=1).swapaxes(0, 1)


def blocks(rows: Ints, points: int) -> Iterator[Ints]:
    """Slices in portions that fit into memory, for so many points."""
    step = max(1, _BLOCK // points)
    return (rows[i : i + step] for i in range(0, len(rows), step))


def effective(weights: Floats) -> float:
    """The share of draws that count, Kish's."""
    return float(1 / np.square(weights).sum() / len(weights))


@dataclass(frozen=True)
class Mixed:
    """Slices that share the judge, or have one of their own, each with its probability."""

    common: Integrated
    own: Integrated
    own_share: Floats  # (S, G) the probability of a judge of its own
    log_evidence: Floats

    def draws(self, normals: Floats) -> Floats:
        """From one of the two; the last of the normal numbers (S, G, K) decides from which."""
        rest = normals[..., :-1]
        own = ndtr(normals[..., -1]) < self.own_share
        return np.where(own[..., None], self.own.draws(rest), self.common.draws(rest))


def integrated(phi: Phi, slices: Slices, *, grouped: bool) -> Integrated:
    """Every slice under every φ: its judge is near the common one, or with a small probability its own."""
    common = integrate(phi.M, phi.kappa, phi.alpha, slices)
    if phi.kappa is None or not grouped:
        return common
    log_common = common.log_evidence + log_values_given_class(slices.known, phi.M, phi.kappa)
    alone = np.full_like(phi.kappa, POLICY.kappa_of_its_own)
    own = integrate(phi.M, alone, phi.alpha, slices)
    log_own = own.log_evidence + log_values_given_class(slices.known, phi.M, alone)
    share = POLICY.judge_of_its_own
    logs = np.logaddexp(np.log1p(-share) + log_common, np.log(share) + log_own)
    return Mixed(common, own, np.exp(np.log(share) + log_own - logs), logs)


def log_values_given_class(known: Floats, M: Floats, kappa: Floats) -> Floats:
    """(S, G) log likelihood of rows (G, K, m) of known class, if a slice has a judge ``Dirichlet(κ·M)``."""
    cells = np.maximum(kappa[:, None, None] * M, 1e-300)[:, None]
    found = (gammaln(cells + known) - gammaln(cells)).sum(axis=(2, 3))
    strength = kappa[:, None, None]
    return np.asarray(found + (gammaln(strength) - gammaln(strength + known.sum(axis=2))).sum(axis=2))


def spread_of_judges(known: Floats) -> Floats:
    """(24,) log likelihood of κ, at LOG_KAPPAS, from labelled slices (G, K, m) alone."""
    rows = known.sum(axis=0) + 0.5
    M = np.broadcast_to(rows / rows.sum(axis=1, keepdims=True), (len(LOG_KAPPAS), *rows.shape))
    found = log_values_given_class(known, M, np.exp(LOG_KAPPAS)).sum(axis=1)
    return np.asarray(found - logsumexp(found))
