"""Categories of a judge or a test, which are bins.

With labels on field rows: the multilevel model where nothing else is known. No lab tells the classes of a category, so
that the base of each is free and learned from the labels; groups differ from it by β times what label shift implies
(`label_shift`), and by effects of their own. The shift of the whole field is in the base: there is one hypothesis. Rows
given their class inform the base as far as they are like those of the field.

Without: rows given their class are the lab, and label shift is assumed (`Judge`, `judges_differ`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from fieldcal.core.field_model import MANY, Counts, Model, of_new_groups
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.offsets import Offsets, Persistence, against_first, slopes_of, with_first
from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Posterior
from fieldcal.core.priors import Flat, Pooled, Prior
from fieldcal.core.problem import Penalty, Problem
from fieldcal.core.solve import solve
from fieldcal.types import Floats

_STEPS, _ENOUGH, _LARGEST = 30, 1e-6, 1.0  # of Newton's method, on the log-odds scale
_TINY = 1e-300


def model_of(known: Floats, V: Floats, by_class: Floats | None = None) -> Model:
    """The model of groups with labelled rows (G, K, m) among all rows (G, m), and rows given their class (K, m)."""
    G, K, m = known.shape
    t = label_shift(known, V, by_class)
    nothing = Offsets(np.zeros((G, K - 1)), np.zeros((G, K - 1, K - 1)))
    base = np.full((m, K), 1 / K)
    if m * (K - 1) > MANY:  # most cells have no row
        base = classes_given_category(known).T
    loose = np.where(known.any(axis=(1, 2)), 0.0, POLICY.free_unlabelled**2)
    lab = np.zeros_like(known)
    counts = Counts(
        base,
        lab,
        known,
        V,
        nothing,
        t,
        np.zeros(G),
        np.ones(G),
        free_base=True,
        loose=loose,
        by_class=by_class,
    )
    still = Hypothesis("unchanged", 1.0, 1.0, np.zeros(K - 1), 1e-6 * np.eye(K - 1))
    return Model(
        counts,
        (still,),
        Persistence(np.zeros(1), np.ones(1)),
        components=of_new_groups(POLICY.least_label_shift),
    )


@dataclass(frozen=True)
class Judge(Prior):
    """Shares behind categories whose rows given their class are from elsewhere, or were chosen by class.

    How many these rows are of each class says nothing of the shares. So one population has a flat prior; groups are
    pooled.
    """

    name: ClassVar[str] = "judge"
    learns: ClassVar[bool] = True

    def posterior(
        self, problem: Problem, *, random_state: int, learnt: Mapping[str, Any] | None = None
    ) -> Posterior:
        """With pseudo-rows for each category of a class."""
        problem = replace(problem, smoothing=POLICY.rows_of_a_cell * problem.F.shape[1])
        pooled = problem.grouped and len(problem.V) > 1 if learnt is None else "alpha" in learnt
        prior = Pooled() if pooled else Flat()
        return prior.posterior(problem, random_state=random_state, learnt=learnt)


def judges_differ(problem: Problem) -> Problem:
    """Groups with the rows that their histograms are worth, as each has a judge ``M_gk ~ Dirichlet(κ·M_k)``.

    That spreads a histogram beyond the noise of its rows, as a design effect does. Over groups it averages out.
    """
    M, total = problem.M, problem.total
    if not problem.grouped or not total.sum():
        return problem
    p = solve(M, total[None], Penalty.of(problem, classes=1.0)).p[0]
    spread = float(p**2 @ (1 - (M**2).sum(axis=1))) / (POLICY.kappa_elsewhere + 1)
    n, q = problem.V.sum(axis=1), p @ M
    effect = 1 + np.maximum(n - 1, 0.0) * spread / max(1 - float(q @ q), 1e-12)
    together = total * float(n.sum() / (n @ effect))
    return replace(problem, V=problem.V / effect[:, None], together=together)


def pooled_classes(known: Floats, V: Floats, by_class: Floats | None = None) -> tuple[Floats, Floats]:
    """P(category | class), (K, m), and the shares of the classes in all rows, (K,), from the labels of all groups."""
    rows, categories = known.sum(axis=0), V.sum(axis=0)
    categories = categories / max(categories.sum(), _TINY)
    M = (
        rows + (0.0 if by_class is None else by_class) + categories
    )  # a row of each class spread over categories as all rows are
    return M / M.sum(axis=1, keepdims=True), classes_given_category(known) @ categories


def classes_given_category(known: Floats) -> Floats:
    """P(class | category), (K, m), from the labels of all groups, and a row of each category as all labels are."""
    rows = known.sum(axis=0)
    share = rows.sum(axis=1) + 0.5
    given = rows + (share / share.sum())[:, None]
    return np.asarray(given / given.sum(axis=0))


def label_shift(known: Floats, V: Floats, by_class: Floats | None = None) -> Offsets:
    """Log-ratios of the classes of each group to those of all rows if categories given a class are alike everywhere.

    Mode and curvature of the log-ratios, which are normal around those of all rows beforehand. Groups follow label
    shift more or less closely: the error has a part in proportion to the difference.
    """
    M, p = pooled_classes(known, V, by_class)
    K, n = len(p), V.sum(axis=1)
    centre = against_first(np.log(np.maximum(p, _TINY)))
    precision = np.linalg.inv(POLICY.group_spread**2 * (np.eye(K - 1) + 1) / 2)
    z = np.tile(centre, (len(V), 1))
    for _ in range(_STEPS):
        slope, H = _derivatives(z, M, V, n)
        slope, H = slope - (z - centre) @ precision, H + precision
        step = np.clip(np.linalg.solve(H, slope[..., None])[..., 0], -_LARGEST, _LARGEST)
        z = z + step
        if np.abs(step).max(initial=0.0) < _ENOUGH:
            break
    t = z - centre
    covariance = np.linalg.inv(_derivatives(z, M, V, n)[1] + precision)
    return Offsets(t, covariance + POLICY.free_looseness**2 * t[:, :, None] * t[:, None, :])


def _derivatives(z: Floats, M: Floats, V: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Slope (G, K − 1) and information (G, K − 1, K − 1) of counts V on log-ratios, the latter not below zero."""
    p = softmax(with_first(z), axis=-1)
    q = np.maximum(p @ M, _TINY)
    given = p * ((V / q) @ M.T)  # (G, K) expected rows of each class
    through = np.einsum("gka,kj->gja", slopes_of(p)[..., 1:], M)
    expected = np.einsum("gj,gja,gjb->gab", n[:, None] / q, through, through, optimize=True)
    return (given - n[:, None] * p)[:, 1:], expected
