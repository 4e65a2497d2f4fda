"""What is asked, in arrays alone: the lab's counts, the field's histograms, and what is believed before (L_reg)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr, xlogy

from fieldcal.core.response import in_class_rows, smoothing_cells
from fieldcal.errors import InputError
from fieldcal.types import Floats, Ints


@dataclass(frozen=True)
class Problem:
    """Lab and field, as everything below `estimate` takes them."""

    F: Floats  # (K, m) lab counts, as effective rows
    V: Floats  # (G, m) field counts, as effective rows
    smoothing: float  # pseudo-rows per class behind M
    grouped: bool  # whether the rows of V are groups of one field
    #: One population that will be compared with groups: its point averages over M as theirs do.
    averages_over_M: bool = False
    class_rows: Floats | None = None  # (K,) effective rows of each class behind M; None for those of F
    together: Floats | None = None  # (m,) the whole field, as effective rows; None for the sum of V
    #: (G,) groups unlike any mixture, such as a frozen sensor: the others learn nothing from them
    outlying: NDArray[np.bool_] | None = None
    #: F without the lab rows of outlying groups, with which the field without them is compared; None for F
    F_typical: Floats | None = None

    @cached_property
    def A(self) -> Floats:
        """F plus smoothing: the Dirichlet parameters of M's own posterior."""
        F = self.F if self.class_rows is None else in_class_rows(self.F, self.class_rows)
        return np.asarray(F + smoothing_cells(self.F, self.smoothing))

    @cached_property
    def M(self) -> Floats:
        return np.asarray(self.A / self.A.sum(axis=1, keepdims=True))

    @cached_property
    def p_lab(self) -> Floats:
        return np.asarray(self.F.sum(axis=1) / self.F.sum())

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.V), *self.F.shape

    @cached_property
    def total(self) -> Floats:
        """The histogram of the field as one population, (m,), as effective rows; without outlying groups."""
        return np.asarray(self.typical.sum(axis=0)) if self.together is None else self.together

    @property
    def typical(self) -> Floats:
        """V of the groups that are not outlying."""
        return self.V if self.outlying is None else self.V[~self.outlying]

    def whole(self) -> Problem:
        return replace(
            self,
            V=self.total[None],
            grouped=False,
            averages_over_M=self.grouped,
            together=None,
            outlying=None,
            F_typical=None,
        )

    def take(self, rows: Ints) -> Problem:
        return replace(self, V=self.V[rows], together=None, outlying=None, F_typical=None)


class Term(Protocol):
    """One more summand of L_reg: a convex function of p with its gradient."""

    def value(self, p: Floats) -> Floats:
        """(..., K) → (...)."""

    def gradient(self, p: Floats) -> Floats:
        """(..., K) → (..., K)."""


@dataclass(frozen=True)
class Penalty:
    """L_reg as a sum, each summand convex in p, so that the combined loss has no local minima.

    - ``−Σ_j E_j log (p @ M)_j``: pseudo-rows ``E`` per bin, like the likelihood itself;
    - ``−Σ_i D_i log p_i``: pseudo-rows ``D`` per class;
    - ``s Σ_i p_i log (p_i / c_i)``: negative entropy plus a linear function;
    - `terms`: any others.

    By the paper's combined-loss theorem the minimum is the maximum a posteriori estimate. Differs from the paper: the
    prior is proportional to ``exp(−L_reg)``.
    """

    bins: Floats  # E, (m,)
    classes: Floats  # D, (K,) or (G, K)
    entropy: float  # s
    centre: Floats  # c, (K,)
    terms: tuple[Term, ...] = field(default=())

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        bins: Floats | float = 0.0,
        classes: Floats | float = 0.0,
        entropy: float = 0.0,
        centre: Floats | None = None,
        terms: tuple[Term, ...] = (),
    ) -> Penalty:
        """What is not named is nothing; the centre is the lab's prevalences."""
        _, K, m = problem.shape
        return cls(
            np.broadcast_to(np.asarray(bins, dtype=np.float64), (m,)),
            np.asarray(classes, dtype=np.float64) + np.zeros(K),
            float(entropy),
            problem.p_lab if centre is None else centre,
            terms,
        )

    def __add__(self, other: Penalty) -> Penalty:
        return Penalty(
            self.bins + other.bins,
            self.classes + other.classes,
            self.entropy + other.entropy,
            _common_centre(self, other),
            self.terms + other.terms,
        )

    def value(self, p: Floats, M: Floats) -> Floats:
        """L_reg, one value per group (up to a constant)."""
        loss = -xlogy(self.bins, p @ M).sum(axis=-1) - xlogy(self.classes, p).sum(axis=-1)
        if self.entropy > 0:  # the divergence may be infinite, and zero times that is not a number
            loss = loss + self.entropy * rel_entr(p, self.centre).sum(axis=-1)
        return np.asarray(sum((term.value(p) for term in self.terms), start=loss))


def _common_centre(one: Penalty, two: Penalty) -> Floats:
    """Two divergences are one, from the geometric mean of their centres, but for a constant."""
    total = one.entropy + two.entropy
    if not total:
        return one.centre
    logs = sum(x.entropy / total * np.log(np.maximum(x.centre, 1e-300)) for x in (one, two))
    centre = np.exp(logs)
    return np.asarray(centre / centre.sum())


@dataclass(frozen=True)
class Squares:
    """``strength × Σ (p_{k+1} − p_k)²``: the paper's continuity term."""

    strength: float

    def value(self, p: Floats) -> Floats:
        return np.asarray(self.strength * (np.diff(p, axis=-1) ** 2).sum(axis=-1))

    def gradient(self, p: Floats) -> Floats:
        """What each class feels of the steps on both sides of it."""
        steps = np.diff(p, axis=-1)
        ends = np.zeros((*steps.shape[:-1], 1))
        return np.asarray(-2 * self.strength * np.diff(np.concatenate([ends, steps, ends], axis=-1), axis=-1))


@dataclass(frozen=True)
class Function:
    """A caller's own convex function of the prevalences, with its gradient."""

    of: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]

    def value(self, p: Floats) -> Floats:
        """Checked to be one number per group."""
        found = np.asarray(self.of(p), dtype=np.float64)
        if found.shape != p.shape[:-1]:
            raise InputError(
                f"A penalty must give one number for each row of prevalences, shape {p.shape[:-1]}, but gave "
                f"{found.shape}. Sum over the last axis."
            )
        return found

    def gradient(self, p: Floats) -> Floats:
        """Checked to be one number per group and class."""
        found = np.asarray(self.slope(p), dtype=np.float64)
        if found.shape != p.shape:
            raise InputError(
                f"The gradient of a penalty must have the shape of the prevalences, {p.shape}, but has {found.shape}."
            )
        return found


def curvature(term: Term, p: Floats, step: float = 1e-6) -> Floats:
    """Second derivatives of a term, (..., K, K), from differences of its gradient, symmetric.

    Steps are shorter than what a class has: where it has next to nothing, a term may still take its logarithm.
    """
    p = np.maximum(p, 1e-200)
    h = np.minimum(step, 0.1 * p)
    steps = np.eye(p.shape[-1]) * h[..., None, :]  # (..., K, K)
    columns = [
        (term.gradient(p + steps[..., k, :]) - term.gradient(p - steps[..., k, :])) / (2 * h[..., k : k + 1])
        for k in range(p.shape[-1])
    ]
    H = np.stack(columns, axis=-1)
    return np.asarray(0.5 * (H + H.swapaxes(-1, -2)))


def check_gradient(term: Term, *, n_classes: int) -> None:
    """Refuse a gradient that is not that of the function, along the simplex, at a few points inside it.

    Raises
    ------
    InputError
    """
    rng, h = np.random.default_rng(0), 1e-5
    p = 0.8 * rng.dirichlet(np.ones(n_classes), 8) + 0.2 / n_classes
    d = rng.standard_normal(p.shape) / n_classes
    d -= d.mean(axis=-1, keepdims=True)
    given = (term.gradient(p) * d).sum(axis=-1)
    found = (term.value(p + h * d) - term.value(p - h * d)) / (2 * h)
    if not (np.isfinite(given) & np.isfinite(found)).all():
        raise InputError(
            f"The penalty or its gradient is not finite inside the simplex, as at {p[0].round(3).tolist()}."
        )
    values = term.value(p)
    rounding = 1e-6 * np.ptp(values) + 1e-10 * np.abs(values).max()
    off = np.abs(given - found) > 1e-3 * (np.abs(given) + np.abs(found)) + rounding
    if off.any():
        at = int(off.argmax())
        raise InputError(
            f"The gradient is not that of the penalty: at {p[at].round(3).tolist()} the penalty changes by "
            f"{found[at]:.4g} per unit along {d[at].round(3).tolist()}, but the gradient says {given[at]:.4g}. Check "
            "its sign and its factors."
        )
