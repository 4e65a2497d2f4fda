"""Points at which the multilevel model is integrated: values of everything that Laplace's method leaves open.

References
----------
Rue, H., Martino, S. and Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian models by using
integrated nested Laplace approximations. JRSS B 71.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtri, gammaln, logsumexp, ndtri
from scipy.stats import qmc

from fieldcal.core.field_model import RANGE, Components, Model
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.multilevel import Fitted, Labels, fit
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


def points_of(model: Model, seed: int) -> tuple[Point, ...]:
    """Weighted points around the mode of the variance components, for every likely hypothesis and persistence."""
    if not len(model.teaching):
        return _without_labels(model, seed)
    return _Explorer(model, seed).points()


@dataclass(frozen=True)
class _Explorer:
    """Points by importance sampling, from the labels of the groups that the model learns from."""

    model: Model
    seed: int

    @cached_property
    def labels(self) -> Labels:
        """Of these groups."""
        return self.model.labels(self.model.teaching, self.model.labelled)

    def _evidence(self, hypothesis: Hypothesis, rho: float) -> Callable[[Floats], Floats]:
        """Log of the posterior density of θ (P, 3), but for a constant; each call starts where the last one ended."""
        mean, sd = _prior(self.model)
        precision = self.model.design.precision(hypothesis.covariance)
        start: list[Fitted] = []

        def of(theta: Floats) -> Floats:
            found = self._fitted(Components.of(theta, rho), hypothesis, precision, start)
            best = int(np.argmax(found.log_evidence))
            start[:] = [_one(found, best)]
            return np.asarray(found.log_evidence - 0.5 * (((theta - mean) / sd) ** 2).sum(axis=1))

        return of

    def _fitted(
        self,
        components: Components,
        hypothesis: Hypothesis,
        precision: Floats,
        start: list[Fitted],
    ) -> Fitted:
        model, P = self.model, len(components.beta)
        shift = np.broadcast_to(hypothesis.mean, (P, len(hypothesis.mean)))
        wide = np.broadcast_to(precision, (P, *precision.shape))
        priors = model.priors(model.teaching, components, shift, wide, model.labelled)
        return fit(self.labels, priors, _start(start[0], P) if start else None)

    def _explored(self) -> tuple[Floats, Floats]:
        """Points θ (P, 3) and the logarithms of their weights; the last is label shift between groups alone."""
        lead = max(self.model.hypotheses, key=lambda h: float(np.trace(h.covariance)))
        density = self._evidence(lead, self.model.persistence.mean)
        mode, root = _mode(density, *_prior(self.model))
        rng = np.random.default_rng([self.seed, 29])
        even = np.clip(qmc.Sobol(len(mode) + 1, rng=rng).random(_POINTS), 1e-6, 1 - 1e-6)
        z, chi = ndtri(even[:, 1:]), chdtri(_FREEDOM, even[:, 0]) / _FREEDOM
        theta = mode + (z / np.sqrt(chi)[:, None]) @ root.T
        D, nu = len(mode), _FREEDOM
        drawn = -0.5 * (nu + D) * np.log1p((z**2).sum(axis=1) / chi / nu)
        drawn += gammaln((nu + D) / 2) - gammaln(nu / 2) - 0.5 * D * np.log(nu * np.pi)
        drawn -= np.linalg.slogdet(root)[1]
        sd = _prior(self.model)[1]
        normal = 0.5 * D * np.log(2 * np.pi) + np.log(sd).sum()
        logs = density(theta) - normal - drawn - np.log(_POINTS) + np.log1p(-POLICY.label_shift_between)
        alone = np.array([[1.0, RANGE[0], RANGE[0]]])
        mean, scale = _prior(self.model)
        back = 0.5 * (((alone - mean) / scale) ** 2).sum(axis=1)  # it is an atom: no density of θ
        extra = density(alone) + back + np.log(POLICY.label_shift_between)
        return np.concatenate([theta, alone]), np.concatenate([_capped(logs), extra])

    def points(self) -> tuple[Point, ...]:
        """All that have a weight."""
        theta, logs = self._explored()
        weights = np.exp(logs - logsumexp(logs))
        chosen, share = _resampled(
            weights,
            _KEPT if self.model.counts.shape[1] == 2 else _KEPT_OF_MANY,
            np.random.default_rng([self.seed, 31]),
        )
        rhos = self.model.persistence.likely()
        points = []
        grid = [(i, r) for i in range(len(chosen)) for r in range(len(rhos.values))]
        at, r = np.array(grid).T
        components = Components.of(theta[chosen[at]], rhos.values[r])
        prior = np.log(share[at]) + np.log(rhos.weights[r])
        start: list[Fitted] = []
        fits = []
        for hypothesis in self.model.hypotheses:
            precision = self.model.design.precision(hypothesis.covariance)
            found = self._fitted(components, hypothesis, precision, start)
            fits.append(found)
            start = [_one(found, 0)]
        lead = int(np.argmax([float(np.trace(h.covariance)) for h in self.model.hypotheses]))
        # The points were drawn under one hypothesis and the mean persistence: the others are weighed against that.
        reference = np.array(
            [
                np.average(fits[lead].log_evidence[at == i], weights=rhos.weights[r[at == i]])
                for i in range(len(chosen))
            ]
        )
        for hypothesis, found in zip(self.model.hypotheses, fits, strict=True):
            change = found.log_evidence - reference[at] if self.model.labelled_field else np.zeros(len(at))
            for p in range(len(at)):
                log = float(prior[p] + change[p])
                points.append(
                    (
                        hypothesis,
                        components.take(np.array([p])),
                        found.d[p],
                        np.asarray(np.linalg.inv(found.S[p])),
                        log,
                    )
                )
        return _weighed(points)


def _prior(model: Model) -> tuple[Floats, Floats]:
    """Means and standard deviations of (β, log σ, log τ)."""
    mean, sd = zip(*model.components, strict=True)
    return np.array(mean), np.array(sd)


def _without_labels(model: Model, seed: int) -> tuple[Point, ...]:
    """Nothing but the prior."""
    rng = np.random.default_rng([seed, 37])
    mean, sd = _prior(model)
    theta = mean + sd * ndtri(np.clip(qmc.Sobol(3, rng=rng).random(_KEPT), 1e-6, 1 - 1e-6))
    points = []
    for hypothesis in model.hypotheses:
        covariance = np.asarray(np.linalg.inv(model.design.precision(hypothesis.covariance)))
        zero = np.zeros(len(covariance))
        points += [
            (hypothesis, Components.of(theta[i : i + 1], 0.0), zero, covariance, 0.0) for i in range(_KEPT)
        ]
    return _weighed(points)


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


def _weighed(points: list[tuple[Hypothesis, Components, Floats, Floats, float]]) -> tuple[Point, ...]:
    """Points with their weights in the interval and in the estimate, each summing to one."""
    logs = np.array([log for *_, log in points])
    wide, near = (
        np.exp(logs - logs.max()) * np.array([getattr(h, name) for h, *_ in points])
        for name in ("weight", "estimate")
    )
    wide, near = wide / wide.sum(), near / max(near.sum(), _TINY)
    return tuple(
        Point(c, h, d, S, float(w), float(e))
        for (h, c, d, S, _), w, e in zip(points, wide, near, strict=True)
        if max(w, e) > 1e-4
    )
