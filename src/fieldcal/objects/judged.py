"""Judged: what labelled rows say of a judge, and the posterior of the shares from labels of field rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.categories import judges_differ, model_of
from fieldcal.core.field_posterior import ModelPosterior, posterior_of
from fieldcal.core.policy import POLICY
from fieldcal.core.problem import Problem
from fieldcal.core.reweight import Step, matched_tilt
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.problem import as_problem, given_class, labelled_here, labelled_rows
from fieldcal.types import Floats, Ints

_RATES = 512  # draws of the judge's rates
_MOST_ASKED = 2_000  # labelled groups that are asked whether they are unlike the others


@dataclass(frozen=True)
class Judged:
    """A field of categories."""

    problem: Problem
    n: Floats  # (G,) rows
    known: Floats  # (G, K, m) labelled rows of the field, drawn at random or by their category
    given: Floats  # (K, m) labelled rows that were chosen by their class, or are from elsewhere
    by_labels: bool  # whether the shares are estimated from the former
    seed: int

    @classmethod
    def of(cls, lab: Lab, field: Field, *, design_effect: float = 1.0, seed: int = 0) -> Judged:
        """Each labelled row of lab and field counts once."""
        problem = as_problem(lab, field, design_effect=design_effect)
        known = np.zeros(problem.shape)
        labels = labelled_rows(field, problem)
        known[labels.groups] = labels.given_bin
        given, n = given_class(lab, field, problem), np.asarray(field.n, dtype=np.float64)
        if not labelled_here(field):
            problem = judges_differ(problem)
        return cls(problem, n, known, given, labelled_here(field), seed)

    @cached_property
    def posterior(self) -> ModelPosterior:
        """From labels of field rows: known classes are exact, and shares are those of the rows that were counted."""
        given = self.given if self.given.any() else None
        return posterior_of(model_of(self.known, self.problem.V, given), self.seed)

    @cached_property
    def rates(self) -> Floats:
        """Draws (n, K, m) of how often the judge gives each category, given the class, over all groups."""
        rng = np.random.default_rng([self.seed, 47])
        known, K = self.known.sum(axis=0), len(self.given)
        if not self.by_labels:
            rows = (
                rng.standard_gamma(self.given + POLICY.rows_of_a_cell, (_RATES, *self.given.shape)) + 1e-300
            )
            return np.asarray(rows / rows.sum(axis=2, keepdims=True))
        pseudo = (known.sum(axis=1) + 0.5) / (known.sum() + 0.5 * K)
        rows = rng.standard_gamma(known + pseudo[:, None], (_RATES, *known.shape)) + 1e-300
        cells = rows / rows.sum(axis=1, keepdims=True) * (self.problem.V.sum(axis=0) + 1e-300)
        return np.asarray(cells / cells.sum(axis=2, keepdims=True))

    def rates_of(self, rows: Ints) -> Floats:
        """The same in some groups, in the mean, (G, K, m)."""
        if not self.by_labels:
            return np.broadcast_to(self.rates.mean(axis=0), (len(rows), *self.given.shape))
        V = self.problem.V[rows]
        V = np.where(V.sum(axis=1, keepdims=True) > 0, V, 1.0)
        cells = (self.posterior.classes(rows) * V[:, :, None]).swapaxes(1, 2)
        return np.asarray(cells / np.maximum(cells.sum(axis=2, keepdims=True), 1e-300))

    @cached_property
    def spread(self) -> Floats | None:
        """Draws of how far a rate of .9 varies between groups: standard deviations; None for one population."""
        if not self.problem.grouped:
            return None
        if not self.by_labels:
            return np.sqrt(0.09 / (np.array([POLICY.kappa_elsewhere]) + 1))
        points = self.posterior.points  # by .09 times the deviation of log-odds
        each = [0.09 * np.sqrt(float(p.components.group[0] + p.components.bins[0])) for p in points]
        times = np.round(np.array([p.weight for p in points]) * _RATES).astype(int)
        return np.repeat(each, np.maximum(times, 1))

    @property
    def labelled(self) -> Floats:
        """(G,) rows of the field whose class is known, drawn at random or by category."""
        return np.asarray(self.known.sum(axis=(1, 2)))

    @property
    def unchecked(self) -> NDArray[np.bool_]:
        """(m,) categories of which no row has a known class."""
        return np.asarray(self.known.sum(axis=(0, 1)) + self.given.sum(axis=0) == 0)

    def farthest(self) -> Ints:
        """Groups in which the errors differ most from the common ones, given their labels; at most five."""
        own = self.rates_of(np.arange(len(self.known)))
        distance = np.abs(own - self.rates.mean(axis=0)).sum(axis=(1, 2))
        order = np.argsort(-distance, kind="stable")[:5]
        return np.asarray(order[distance[order] > 0])

    @cached_property
    def outlying(self) -> Ints:
        """Labelled groups that differ from the others by far more than these among themselves, the surest first."""
        rows = np.flatnonzero(self.known.any(axis=(1, 2)))[:_MOST_ASKED]
        if not self.problem.grouped or len(rows) < 3:
            return rows[:0]
        weight = self.posterior.normality(rows)
        order = np.argsort(weight, kind="stable")
        return rows[order[weight[order] < POLICY.outlying]]

    @property
    def separation(self) -> Floats:
        """Draws of how well the judge separates the two most alike classes: half the distance of their categories."""
        M = self.rates
        K = M.shape[1]
        apart = [0.5 * np.abs(M[:, a] - M[:, b]).sum(axis=1) for a in range(K) for b in range(a)]
        return np.asarray(np.min(apart, axis=0))

    def correlations(self, scores: Floats, residuals: Floats, rows: Ints) -> Floats:
        """(G, G) correlations of what the rows of some groups leave open in their shares, from rows of the same items.

        Parameters
        ----------
        scores : (items, G) by how much a row moves the estimate of its group; NaN for items that a group does not have
        residuals : (items, G) of labelled rows, what they differ from ``P(class | category)``; NaN elsewhere
        """
        if self.by_labels:
            return _of_residuals(scores, residuals)
        # Judges of groups differ, which correlates with nothing: the share of the variance that rows bring.
        n = np.maximum(self.n[rows], 1e-300)
        worth = np.sqrt(np.minimum(self.problem.V[rows].sum(axis=1) / n, 1.0))
        left = np.nan_to_num(scores)
        norm = np.sqrt(np.maximum((left**2).sum(axis=0), 1e-300))
        shared = np.clip(left.T @ left / (norm[:, None] * norm), -0.99, 0.99)
        return np.asarray(np.where(np.eye(len(rows)) > 0, 1.0, shared * worth[:, None] * worth))


def _of_residuals(scores: Floats, residuals: Floats) -> Floats:
    """What is open are classes given categories, and so are the residuals of labelled rows.

    One correlation for all pairs of groups, from items that are labelled in both; ten pairs more have none.
    """
    has = np.isfinite(residuals)
    left, known = np.where(has, residuals, 0.0), has.astype(float)
    products, pairs = left.T @ left, known.T @ known
    squares = (left**2).T @ known
    off = ~np.eye(scores.shape[1], dtype=bool)
    both = 0.5 * (squares + squares.T)[off].sum()
    more = 20 * both / max(pairs[off].sum(), 1.0)  # every pair is there twice
    rho = float(np.clip(products[off].sum() / max(both + more, 1e-300), 0.0, 0.99))
    still = (np.isfinite(scores) & ~has).astype(float)
    n = np.sqrt(np.maximum(still.sum(axis=0), 1.0))
    return np.asarray(np.where(off, rho * (still.T @ still) / (n[:, None] * n), 1.0))


def root_of(correlations: Floats) -> Floats:
    """A root of the nearest correlations that are not below zero."""
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root / np.sqrt(np.square(root).sum(axis=1, keepdims=True)))


def reordered(draws: Floats, correlations: Floats, *, of: int, per_draw: int, seed: int) -> Floats:
    """Draws (G, S · per_draw, K), independent under each draw of M, so ordered that shares of a class correlate.

    References
    ----------
    Iman, R. L. and Conover, W. J. (1982). A distribution-free approach to inducing rank correlation among input
    variables. Communications in Statistics B 11.
    """
    G, D, _ = draws.shape
    rng = np.random.default_rng([seed, 53])

    normals = root_of(correlations) @ rng.standard_normal((G, D))
    ranks = np.argsort(np.argsort(normals.reshape(G, -1, per_draw), axis=2), axis=2)
    order = np.argsort(draws[..., of].reshape(G, -1, per_draw), axis=2)
    place = np.take_along_axis(order, ranks, axis=2) + per_draw * np.arange(D // per_draw)[:, None]
    return np.take_along_axis(draws, place.reshape(G, D, 1), axis=1)


def step_to_shares(lab: Lab, V: NDArray[Any], shares: Floats) -> Step:
    """What makes the classes that the lab gives to each category those of groups with counts V and shares (G, K)."""
    V = np.asarray(V, dtype=np.float64)
    V = np.where(V.sum(axis=1, keepdims=True) > 0, V, 1.0)
    return Step(1.0, np.exp(matched_tilt(lab.bin_classes, V, shares)))
