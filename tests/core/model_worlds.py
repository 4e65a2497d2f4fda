"""Fields drawn from the prior of the field model itself, with the truth that estimates must cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from fieldcal.core.field_model import Counts
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.offsets import Offsets
from fieldcal.core.persistence import Persistence
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
    common = _calibration(rng, logs, change=POLICY.calibration_change[0] if field_labels else 0.0)
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
    common = rng.multivariate_normal(np.zeros(k), POLICY.calibration_shift**2 * unit(k))
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
