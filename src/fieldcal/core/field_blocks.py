"""Points at which the multilevel model is integrated, and its groups there: log-odds of bins, moments and draws.

Points are values of everything that Laplace's method leaves open.

References
----------
Rue, H., Martino, S. and Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian models by using
integrated nested Laplace approximations. JRSS B 71.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from scipy.special import chdtri, gammaln, logsumexp, ndtr, ndtri, softmax

from fieldcal.core.field_model import MANY, RANGE, Components, Counts, Model
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.intervals import spread_on_logs
from fieldcal.core.multilevel import Fitted, fit
from fieldcal.core.offsets import slopes_of, with_first
from fieldcal.core.policy import POLICY
from fieldcal.types import Floats, Ints

_POINTS = 32  # around the mode of the variance components
_KEPT, _KEPT_OF_MANY = 8, 4  # of them for shares; of more than two classes
_FREEDOM = 8.0  # of the distribution that the points are drawn from
_STEP, _WIDE_STEP = 0.02, 0.08  # of differences: for slopes, and for curvatures
_TINY = 1e-300


@dataclass(frozen=True)
class Point:
    """One value of everything that is not integrated by Laplace's method."""

    components: Components  # of this point alone
    hypothesis: Hypothesis
    d: Floats  # (D,) common effects
    S: Floats  # (D, D) their covariance
    weight: float  # in the interval
    estimate: float  # in the estimate
    log_evidence: float  # of the labels


def points_of(model: Model, seed: int) -> tuple[Point, ...]:
    """Weighted points around the mode of the variance components, for every likely hypothesis and persistence."""
    if not model.grouped:
        deviations, weights = (np.array(x) for x in model.changes)
        return _fitted_points(model, Components.of_one_population(deviations**2), np.log(weights))
    _, K, m = model.counts.shape
    if model.counts.free_base and m * (K - 1) > MANY:
        return _fitted_points(model, Components.of(_prior(model)[0][None], 0.0, 0.0), np.zeros(1))
    if not len(model.teaching):
        return _without_labels(model, seed)
    theta, logs, evidence = _explored(model, seed)
    rng = np.random.default_rng([seed, 31])
    most = _KEPT if model.counts.shape[1] == 2 else _KEPT_OF_MANY
    chosen, share = _resampled(np.exp(logs - logsumexp(logs)), most, rng)
    rhos, changes = model.persistence.likely(), np.array(model.changes)
    grid = np.indices((len(chosen), len(rhos.values), changes.shape[1])).reshape(3, -1)
    at, r, c = grid
    components = Components.of(theta[chosen[at]], rhos.values[r], changes[0, c] ** 2)
    prior = np.log(share[at]) + np.log(rhos.weights[r]) + np.log(changes[1, c])
    return _fitted_points(model, components, prior, drawn=evidence[chosen[at]])


def _fitted_points(
    model: Model, components: Components, prior: Floats, drawn: Floats | None = None
) -> tuple[Point, ...]:
    """Every hypothesis at points with logarithms of prior weights (P,), weighed by their evidence.

    ``drawn`` (P,): logarithms of the evidence in proportion to which θ was drawn already.
    """
    fits: list[Fitted] = []
    for hypothesis in model.hypotheses:
        fits.append(_fit(model, components, hypothesis, fits[-1] if fits else None))
    evidence = np.array([found.log_evidence for found in fits])
    change = evidence.copy()
    if not model.n_field_labels:
        change[:] = 0.0
    elif drawn is not None:
        change -= drawn
    points = [
        Point(
            components.take(np.array([p])),
            hypothesis,
            found.d[p],
            np.linalg.inv(found.S[p]),
            hypothesis.weight,
            0.0,
            float(found.log_evidence[p]),
        )
        for hypothesis, found in zip(model.hypotheses, fits, strict=True)
        for p in range(len(prior))
    ]
    return _weighed(model, points, (prior + change).ravel())


def updated(model: Model, points: Sequence[Point]) -> tuple[Point, ...]:
    """The same points with other labels, weighed by the change of the evidence."""
    found: list[Point] = []
    logs: list[float] = []
    for hypothesis in dict.fromkeys(p.hypothesis for p in points):
        some = [p for p in points if p.hypothesis is hypothesis]
        fitted = _fit(model, _components(some), hypothesis, None)
        for p, d, S, log in zip(some, fitted.d, fitted.S, fitted.log_evidence, strict=True):
            found.append(replace(p, d=d, S=np.linalg.inv(S), log_evidence=float(log)))
            logs.append(float(log) - p.log_evidence)
    return _weighed(model, found, np.array(logs))


def _components(points: Sequence[Point]) -> Components:
    return Components(
        *(np.concatenate([getattr(p.components, f.name) for p in points]) for f in fields(Components))
    )


def _widest(model: Model) -> Hypothesis:
    """The hypothesis that leaves the shift of the whole field most open."""
    return max(model.hypotheses, key=lambda h: float(np.trace(h.covariance)))


def _fit(model: Model, components: Components, hypothesis: Hypothesis, near: Fitted | None) -> Fitted:
    """All effects at P points, starting at the first of others."""
    P = len(components.beta)
    shift = np.broadcast_to(hypothesis.mean, (P, len(hypothesis.mean)))
    precision = model.design.precision(hypothesis.covariance, components.change)
    priors = model.priors(model.teaching, components, shift, precision, model.labelled)
    labels = replace(model.labels(model.teaching, model.labelled), term=model.by_class(components, shift))
    return fit(labels, priors, None if near is None else _start(_one(near, 0), P))


def _evidence(model: Model) -> Callable[[Floats], Floats]:
    """Log of the evidence of θ (P, 3) under one hypothesis; each call starts where the last one ended."""
    lead = _widest(model)
    change = float(np.average(np.square(model.changes[0]), weights=model.changes[1]))
    last: list[Fitted] = []

    def of(theta: Floats) -> Floats:
        components = Components.of(theta, model.persistence.mean, change)
        found = _fit(model, components, lead, last[0] if last else None)
        last[:] = [_one(found, int(np.argmax(found.log_evidence)))]
        return found.log_evidence

    return of


def _explored(model: Model, seed: int) -> tuple[Floats, Floats, Floats]:
    """Points θ (P, 3), the logarithms of their weights, and of their evidence; the last is label shift alone."""
    evidence, (mean, sd) = _evidence(model), _prior(model)

    def prior(theta: Floats) -> Floats:
        return np.asarray(-0.5 * (((theta - mean) / sd) ** 2).sum(axis=1))

    mode, root = _mode(lambda theta: evidence(theta) + prior(theta), mean, sd)
    rng = np.random.default_rng([seed, 29])
    even = np.clip(_sobol(len(mode) + 1, _POINTS, rng), 1e-6, 1 - 1e-6)
    z, chi = ndtri(even[:, 1:]), chdtri(_FREEDOM, even[:, 0]) / _FREEDOM
    theta = mode + (z / np.sqrt(chi)[:, None]) @ root.T
    D, nu = len(mode), _FREEDOM
    drawn = -0.5 * (nu + D) * np.log1p((z**2).sum(axis=1) / chi / nu)
    drawn += gammaln((nu + D) / 2) - gammaln(nu / 2) - 0.5 * D * np.log(nu * np.pi)
    drawn -= np.linalg.slogdet(root)[1]
    normal = 0.5 * D * np.log(2 * np.pi) + np.log(sd).sum()
    found = evidence(theta)
    logs = found + prior(theta) - normal - drawn - np.log(_POINTS) + np.log1p(-POLICY.label_shift_between)
    alone = np.array([[1.0, RANGE[0], RANGE[0]]])
    other = evidence(alone)
    logs = np.append(_capped(logs), other + np.log(POLICY.label_shift_between))
    return np.concatenate([theta, alone]), logs, np.append(found, other)


def _prior(model: Model) -> tuple[Floats, Floats]:
    """Means and standard deviations of (β, log σ, log τ)."""
    mean, sd = zip(*model.components, strict=True)
    return np.array(mean), np.array(sd)


def _sobol(dimension: int, size: int, rng: np.random.Generator) -> Floats:
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(dimension, rng=rng).random(size))


def _without_labels(model: Model, seed: int) -> tuple[Point, ...]:
    """Nothing but the prior of the variance components; rows chosen by class inform the common effects alone."""
    rng = np.random.default_rng([seed, 37])
    mean, sd = _prior(model)
    theta = mean + sd * ndtri(np.clip(_sobol(3, _KEPT, rng), 1e-6, 1 - 1e-6))
    change = float(np.average(np.square(model.changes[0]), weights=model.changes[1]))
    return _fitted_points(model, Components.of(theta, 0.0, change), np.full(_KEPT, -np.log(_KEPT)))


def _mode(density: Callable[[Floats], Floats], mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Of θ, and a root of its covariance, by differences."""
    from scipy.optimize import minimize

    D, step = len(mean), _STEP * np.eye(len(mean))

    def slope(x: Floats) -> tuple[float, Floats]:
        found = density(np.concatenate([x[None], x + step, x - step]))
        up, down = np.split(found[1:], 2)
        return -float(found[0]), -(up - down) / (2 * _STEP)

    mode = np.asarray(minimize(slope, mean, jac=True, method="BFGS", options={"gtol": 0.05, "maxiter": 30}).x)
    wide = _WIDE_STEP * np.eye(D)
    i, j = np.triu_indices(D)
    corners = [mode + a * wide[i] + b * wide[j] for a in (1, -1) for b in (1, -1)]
    one, two, three, four = np.split(density(np.concatenate(corners)), 4)
    H = np.zeros((D, D))
    H[i, j] = H[j, i] = -(one - two - three + four) / (4 * _WIDE_STEP**2)
    values, vectors = np.linalg.eigh(H)
    return mode, vectors / np.sqrt(np.maximum(values, 1 / sd.max() ** 2))


def _capped(logs: Floats) -> Floats:
    """No point has more weight than the square root of their number times the mean."""
    weights = np.exp(logs - logs.max())
    most = weights.mean() * np.sqrt(len(weights))
    kept = np.minimum(weights, most)
    return np.asarray(np.log(kept / kept.sum() * weights.sum() + _TINY) + logs.max())


def _resampled(weights: Floats, n: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """About n of the points, each as often as it weighs; the last point, an atom, keeps its own weight."""
    atom = weights[-1]
    place = np.searchsorted(np.cumsum(weights[:-1]), (np.arange(n) + rng.random()) / n * weights[:-1].sum())
    chosen, times = np.unique(np.minimum(place, len(weights) - 2), return_counts=True)
    share = times / n * (1 - atom)
    if atom < 1e-3:
        return chosen, share / share.sum()
    return np.append(chosen, len(weights) - 1), np.append(share, atom)


def _one(found: Fitted, p: int) -> Fitted:
    return replace(found, d=found.d[p : p + 1], u=found.u[p : p + 1], e=found.e[p : p + 1])


def _start(found: Fitted, P: int) -> tuple[Floats, Floats, Floats]:
    d, u, e = (np.broadcast_to(x, (P, *x.shape[1:])) for x in (found.d, found.u, found.e))
    return d, u, e


def _weighed(model: Model, points: Sequence[Point], logs: Floats) -> tuple[Point, ...]:
    """Points with their weights times exp(logs), and those in the estimate; each sum to one."""
    wide = np.exp(logs - logs.max()) * np.array([p.weight for p in points])
    n = model.n_field_labels
    near = wide * np.array([p.hypothesis.in_estimate(n) / p.hypothesis.weight for p in points])
    wide, near = wide / max(wide.sum(), _TINY), near / max(near.sum(), _TINY)
    kept = np.maximum(wide, near) > 1e-4
    wide, near = (x / max(x[kept].sum(), _TINY) for x in (wide, near))
    return tuple(
        replace(points[int(i)], weight=float(wide[i]), estimate=float(near[i])) for i in np.flatnonzero(kept)
    )


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
