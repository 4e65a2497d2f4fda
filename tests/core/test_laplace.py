"""Laplace's approximation with an arrow of effects, against dense computations of the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, logsumexp

from fieldcal.core.laplace import Cells, fit

K, BLOCKS, COLUMNS, Q = 3, 4, 3, 2


def cells(seed=0, columns=COLUMNS):
    rng = np.random.default_rng(seed)
    block, column = (x.ravel() for x in np.meshgrid(np.arange(BLOCKS), np.arange(COLUMNS), indexing="ij"))
    n = len(block)
    counts, offset = rng.poisson(6.0, (n, K)).astype(float), rng.normal(size=(n, K - 1))
    return Cells(counts, offset, rng.normal(size=(n, K - 1, Q)), block, BLOCKS, column, columns)


def priors(seed=0, columns=COLUMNS):
    rng = np.random.default_rng(seed)
    D = Q + columns * (K - 1)
    root, roots = rng.normal(size=(D, D)), rng.normal(size=(BLOCKS, K - 1, K - 1))
    return root @ root.T + np.eye(D), roots @ roots.swapaxes(1, 2) + np.eye(K - 1)


def negative_log(x, given, precision, own):
    """The whole posterior, written out row by row."""
    D = len(precision)
    d, b = x[:D], x[D:].reshape(BLOCKS, K - 1)
    total = 0.5 * d @ precision @ d + 0.5 * sum(v @ P @ v for v, P in zip(b, own, strict=True))
    for i, counts in enumerate(given.counts):
        logs = given.offset[i] + given.Z[i] @ d[:Q] + b[given.block[i]]
        if given.n_columns:
            logs = logs + d[Q:].reshape(-1, K - 1)[given.column[i]]
        logs = np.append(0.0, logs)
        total -= counts @ (logs - logsumexp(logs))
    return total


def dense(found):
    """The precision of (d, b) as one matrix."""
    D, free = len(found.d), found.b.shape[1]
    H = np.zeros((D + found.b.size, D + found.b.size))
    H[:D, :D] = found.S
    for i, (C, B) in enumerate(zip(found.C, found.B, strict=True)):
        at = slice(D + i * free, D + (i + 1) * free)
        H[:D, :D] += C @ np.linalg.solve(B, C.T)
        H[:D, at], H[at, :D], H[at, at] = C, C.T, B
    return H


@pytest.mark.parametrize("columns", [0, pytest.param(COLUMNS, marks=pytest.mark.slow)])
def test_the_mode_is_where_a_general_optimizer_finds_it_and_the_precision_its_second_derivative(columns):
    given, (precision, own) = cells(columns=columns), priors(columns=columns)
    found = fit(given, precision=precision, own=own)
    start = np.zeros(len(precision) + own.shape[0] * own.shape[1])
    best = minimize(negative_log, start, (given, precision, own), method="BFGS", options={"gtol": 1e-7})
    assert_allclose(np.concatenate([found.d, found.b.ravel()]), best.x, atol=2e-4)
    x = np.concatenate([found.d, found.b.ravel()])

    def gradient(at):
        return approx_fprime(at, negative_log, 1e-6, given, precision, own)

    numeric = np.array([(gradient(x + h) - gradient(x - h)) / 2e-3 for h in 1e-3 * np.eye(len(x))])
    assert_allclose(dense(found), numeric, atol=0.02 * np.abs(numeric).max())


def test_variances_of_functions_and_of_draws_are_those_of_the_dense_covariance():
    given, (precision, own) = cells(), priors()
    found, rng = fit(given, precision=precision, own=own), np.random.default_rng(1)
    covariance = np.linalg.inv(dense(found))
    common, mine = rng.normal(size=(BLOCKS, 2, len(found.d))), rng.normal(size=(BLOCKS, 2, K - 1))
    wide = np.zeros((BLOCKS, 2, BLOCKS, K - 1))
    wide[np.arange(BLOCKS), :, np.arange(BLOCKS)] = mine
    each = np.concatenate([common, wide.reshape(BLOCKS, 2, -1)], axis=2)
    expected = np.einsum("nqi,ij,nqj->nq", each, covariance, each)
    assert_allclose(found.variance_by_block(common, mine, np.arange(BLOCKS)), expected, rtol=1e-9)
    every = np.concatenate([common[0], mine.swapaxes(0, 1).reshape(2, -1)], axis=1)
    expected = np.einsum("qi,ij,qj->q", every, covariance, every)
    assert_allclose(found.variance(common[0], mine), expected, rtol=1e-9)
    found = fit(given, precision=precision, own=own)
    d, b = found.draws(40_000, np.array([2, 0]), np.random.default_rng(0))
    seen = np.hstack([d, b[0], b[1]])
    D, free = len(found.d), K - 1
    at = np.r_[0:D, D + 2 * free : D + 3 * free, D : D + free]
    assert_allclose(seen.mean(axis=0), np.concatenate([found.d, found.b[2], found.b[0]]), atol=0.02)
    assert_allclose(np.cov(seen.T), np.linalg.inv(dense(found))[np.ix_(at, at)], atol=0.02)


@pytest.mark.parametrize("counts", [(3, 9), (40, 10), (0, 5)])
def test_the_evidence_of_one_effect_is_the_integral_over_it(counts):
    sd, offset = 0.8, 0.3
    one, at = np.ones((1, 1, 1)), np.zeros(1, dtype=int)
    given = Cells(np.array([counts], dtype=float), np.array([[offset]]), one, at, 0, at, 0)
    found = fit(given, precision=np.array([[sd**-2]]), own=np.zeros((0, 1, 1)))

    def density(d):
        p = expit(offset + d)
        return (
            p ** counts[1] * (1 - p) ** counts[0] * np.exp(-0.5 * (d / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
        )

    exact = quad(density, -12 * sd, 12 * sd, points=[0.0])[0]
    assert found.log_evidence == pytest.approx(np.log(exact), abs=0.05)
