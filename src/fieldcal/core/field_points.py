"""Points at which the multilevel model is integrated: values of everything that Laplace's method leaves open.

References
----------
Rue, H., Martino, S. and Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian models by using
integrated nested Laplace approximations. JRSS B 71.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtri, gammaln, logsumexp, ndtri
from scipy.stats import qmc

from fieldcal.core.field_model import MANY, RANGE, Components, Model
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.multilevel import Fitted, fit
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
    even = np.clip(qmc.Sobol(len(mode) + 1, rng=rng).random(_POINTS), 1e-6, 1 - 1e-6)
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


def _without_labels(model: Model, seed: int) -> tuple[Point, ...]:
    """Nothing but the prior of the variance components; rows chosen by class inform the common effects alone."""
    rng = np.random.default_rng([seed, 37])
    mean, sd = _prior(model)
    theta = mean + sd * ndtri(np.clip(qmc.Sobol(3, rng=rng).random(_KEPT), 1e-6, 1 - 1e-6))
    change = float(np.average(np.square(model.changes[0]), weights=model.changes[1]))
    return _fitted_points(model, Components.of(theta, 0.0, change), np.full(_KEPT, -np.log(_KEPT)))


def _mode(density: Callable[[Floats], Floats], mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Of θ, and a root of its covariance, by differences."""
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
