"""Fields drawn from the prior of the field model itself, with the truth that estimates must cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from fieldcal.core.field_model import Counts, Model
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.offsets import Offsets, Persistence
from fieldcal.core.policy import POLICY


@dataclass(frozen=True)
class World:
    counts: Counts
    hypotheses: tuple[Hypothesis, ...]
    persistence: Persistence
    truth: np.ndarray  # (G, K) shares of the rows of the field's groups
    beta: float


def unit(free):
    """Covariance of log-odds against the first class of independent effects of variance ½ of every class."""
    return (np.eye(free) + 1) / 2


NEW = Persistence(np.zeros(1), np.ones(1))


def without_lab_groups(
    base, noise, V, field=None, *, hypotheses, changes, by_class=None, t=None, grouped=None
):
    """The model of a field whose groups the lab does not know, as `objects.model_of` builds it."""
    (G, m), K = V.shape, base.shape[1]
    nothing = Offsets(np.zeros((G, K - 1)), np.zeros((G, K - 1, K - 1)))
    none = np.zeros((G, K, m))
    counts = Counts(
        base,
        none,
        none if field is None else np.asarray(field, float),
        np.asarray(V, float),
        nothing,
        nothing if t is None else t,
        np.zeros(G),
        np.ones(G),
        base_noise=noise,
        by_class=by_class,
    )
    return Model(counts, hypotheses, NEW, grouped=G > 1 if grouped is None else grouped, changes=changes)


def new_field(seed, *, G, hypotheses, changes, labels=100, by_class=0, K=2, m=8, rows=4000):
    """A field without lab groups from the prior of its model: ``labels`` rows drawn at random, ``by_class`` by class.

    Returns the model and the true shares (G, K).
    """
    rng = np.random.default_rng([seed, K, m, G])
    k = K - 1
    base = 0.9 * rng.dirichlet(np.full(K, 0.7), m) + 0.1 / K
    noise = rng.uniform(0.002, 0.02, (m, K))
    V = rng.multinomial(rows // G, rng.dirichlet(np.full(m, 3.0), G))
    shift = hypotheses[rng.choice(len(hypotheses), p=[h.weight for h in hypotheses])]
    slope = np.log(base) - np.log(base).mean(axis=1, keepdims=True)
    slope = slope[:, 1:] - slope[:, :1]
    slope = slope - V.sum(axis=0) @ slope / V.sum()
    bins = rng.normal(0, np.sqrt(noise))
    common = bins[:, 1:] - bins[:, :1] + rng.normal(0, POLICY.slope_change) * slope
    common = common + rng.choice(changes[0], p=changes[1]) * rng.multivariate_normal(np.zeros(k), unit(k), m)
    common = common + rng.multivariate_normal(shift.mean, shift.covariance)
    eta = np.broadcast_to(np.log(base[:, 1:] / base[:, :1]) + common, (G, m, k))
    t = None
    if G > 1:
        effects, t = _new_groups(rng, G, m, k)
        eta = eta + effects
    p = softmax(np.concatenate([np.zeros((G, m, 1)), eta], axis=2), axis=2)
    classes = rng.multinomial(V, p).swapaxes(1, 2)  # (G, K, m)
    field = rng.multivariate_hypergeometric(classes.ravel(), labels).reshape(classes.shape)
    chosen = None
    if by_class:
        left = (classes - field).sum(axis=0)
        chosen = np.stack([rng.multivariate_hypergeometric(x, by_class // K) for x in left]).astype(float)
    model = without_lab_groups(
        base, noise, V, field, hypotheses=hypotheses, changes=changes, by_class=chosen, t=t
    )
    return model, classes.sum(axis=2) / V.sum(axis=1, keepdims=True)


def _new_groups(rng, G, m, k, spread=0.25, noise=0.1):
    """Effects (G, m, k) of groups and their bins, and what label shift implies for each."""
    beta, sigma, tau = _components(rng)
    seen = Offsets(
        rng.multivariate_normal(np.zeros(k), spread * unit(k), G), np.tile(noise * unit(k), (G, 1, 1))
    )
    t = seen.mean + rng.multivariate_normal(np.zeros(k), noise * unit(k), G)
    heavy = np.sqrt(rng.chisquare(POLICY.outlying_freedom, G) / POLICY.outlying_freedom)
    # The error of t has the heavy tails of the group's own effects.
    u = beta * (t - seen.mean) + rng.multivariate_normal(np.zeros(k), sigma**2 * unit(k), G)
    e = rng.multivariate_normal(np.zeros(k), tau**2 * unit(k), (G, m))
    return beta * seen.mean[:, None] + (u[:, None] + e) / heavy[:, None, None], seen


def world(
    seed,
    *,
    K=2,
    m=4,
    G=20,
    lab_rows=80,
    field_labels=0,
    field_rows=400,
    spread=0.25,
    noise=0.1,
    hypotheses=None,
):
    """Everything from the prior: variance components, persistence, hypothesis, common effects, groups, labels."""
    rng = np.random.default_rng([seed, K, m])
    k = K - 1
    beta, sigma, tau = _components(rng)
    values, weights = (np.array(x) for x in POLICY.persistence)
    rho = rng.choice(values, p=weights)
    chosen = hypotheses or (Hypothesis("unchanged", 1.0, 1.0, np.zeros(k), 0.01 * unit(k)),)
    shift = chosen[rng.choice(len(chosen), p=[h.weight for h in chosen])]
    base = rng.dirichlet(np.full(K, 1.5), m)
    base = 0.9 * base + 0.1 / K
    logs = np.log(base)
    common = _calibration(rng, logs, change=POLICY.calibration_change[1] if field_labels else 0.0)
    a = rng.multivariate_normal(shift.mean, shift.covariance)
    t = _correlated(rng, rho, spread * unit(k), G)  # (2, G, k)
    seen = t + rng.multivariate_normal(np.zeros(k), noise * unit(k), (2, G))
    offsets = [
        Offsets(
            x * spread / (spread + noise), np.tile(spread * noise / (spread + noise) * unit(k), (G, 1, 1))
        )
        for x in seen
    ]
    heavy = np.sqrt(rng.chisquare(POLICY.outlying_freedom, G) / POLICY.outlying_freedom)
    u = _correlated(rng, rho, sigma**2 * unit(k), G) / heavy[:, None]
    e = _correlated(rng, rho, tau**2 * unit(k), G * m).reshape(2, G, m, k) / heavy[:, None, None]
    free = logs[:, 1:] - logs[:, :1]
    V = (
        rng.multinomial(field_rows, rng.dirichlet(np.full(m, 2.0), G))
        if field_rows
        else np.zeros((G, m), int)
    )
    lab = np.zeros((G, K, m))
    field = np.zeros((G, K, m))
    truth = np.empty((G, K))
    for g in range(G):
        p = [
            softmax(
                np.column_stack([np.zeros(m), free + common[f] + f * a + beta * t[f, g] + u[f, g] + e[f, g]]),
                axis=1,
            )
            for f in (0, 1)
        ]
        n = rng.integers(0, 2 * lab_rows + 1) if lab_rows else 0
        lab[g] = _classes(rng, rng.multinomial(n, rng.dirichlet(np.full(m, 2.0))), p[0])
        labelled = rng.multivariate_hypergeometric(V[g], min(field_labels, V[g].sum()))
        field[g] = _classes(rng, labelled, p[1])
        truth[g] = (field[g] + _classes(rng, V[g] - labelled, p[1])).sum(axis=1) / V[g].sum()
    counts = Counts(
        base, lab, field, V.astype(float), *offsets, lab.any(axis=(1, 2)).astype(float), np.ones(G)
    )
    return World(counts, chosen, Persistence(values, weights), truth, beta)


def _components(rng):
    if rng.random() < POLICY.label_shift_between:
        return 1.0, np.exp(-6.0), np.exp(-6.0)
    mean, sd = (np.array(x) for x in zip(*POLICY.components, strict=True))
    theta = rng.normal(mean, sd)
    return np.logaddexp(0.0, 8 * theta[0]) / 8, *np.exp(np.clip(theta[1:], -6, 2))


def _calibration(rng, logs, *, change):
    """(2, m, k) calibration errors in lab and field."""
    m, K = logs.shape
    k = K - 1
    centred = logs - logs.mean(axis=1, keepdims=True)
    common = rng.multivariate_normal(np.zeros(k), POLICY.shift_sd**2 * unit(k))
    common = common + rng.normal(0, POLICY.calibration_slope) * (centred[:, 1:] - centred[:, :1])
    common = common + rng.multivariate_normal(np.zeros(k), POLICY.calibration_bin**2 * unit(k), m)
    later = rng.multivariate_normal(np.zeros(k), change**2 * unit(k), m) if change else 0.0
    return np.stack([common, common + later])


def _correlated(rng, rho, covariance, n):
    """(2, n, k) pairs with correlation rho."""
    one, two = rng.multivariate_normal(np.zeros(len(covariance)), covariance, (2, n))
    return np.stack([one, rho * one + np.sqrt(1 - rho**2) * two])


def _classes(rng, n, p):
    """(K, m) rows of bins with n rows each."""
    return rng.multinomial(n, p).T.astype(float)
