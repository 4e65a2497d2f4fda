"""Categories of a judge or a test with labels on field rows: the multilevel model where nothing else is known.

Bins are categories. No lab tells their classes, so that the base of each is free and learned from the labels; groups
differ from it by β times what label shift implies (`label_shift`), and by effects of their own. The shift of the whole
field is in the base: there is one hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from fieldcal.core.field_model import Counts, Model, of_new_groups
from fieldcal.core.field_posterior import Posterior, posterior_of
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.log_odds import against_first, slopes_of, with_first
from fieldcal.core.offsets import Offsets
from fieldcal.core.persistence import Persistence
from fieldcal.core.policy import POLICY
from fieldcal.types import Floats

_STEPS, _ENOUGH, _LARGEST = 30, 1e-6, 1.0  # of Newton's method, on the log-odds scale
_TINY = 1e-300


def model_of(known: Floats, V: Floats) -> Model:
    """The model of groups with labelled rows (G, K, m) among all rows (G, m)."""
    G, K, m = known.shape
    t = label_shift(known, V)
    nothing = Offsets(np.zeros((G, K - 1)), np.zeros((G, K - 1, K - 1)))
    base = np.full((m, K), 1 / K)
    loose = np.where(known.any(axis=(1, 2)), 0.0, POLICY.free_unlabelled**2)
    lab = np.zeros_like(known)
    counts = Counts(base, lab, known, V, nothing, t, np.zeros(G), np.ones(G), free_base=True, loose=loose)
    still = Hypothesis("unchanged", 1.0, 1.0, np.zeros(K - 1), 1e-6 * np.eye(K - 1))
    return Model(
        counts,
        (still,),
        Persistence(np.zeros(1), np.ones(1)),
        components=of_new_groups(POLICY.least_label_shift),
    )


@dataclass(frozen=True)
class Expected:
    """A posterior, and what further labels at random are on average if it is right."""

    posterior: Posterior

    @cached_property
    def given(self) -> Floats:
        """(G, K, m) P(class | category) of rows without a label."""
        groups = np.arange(len(self.posterior.model.counts.V))
        return self.posterior.classes(groups).swapaxes(1, 2)

    @property
    def rest(self) -> Floats:
        """(G, m) rows without a label."""
        counts = self.posterior.model.counts
        return np.asarray(np.maximum(counts.V - counts.field.sum(axis=1), 0.0))

    def after(self, n: float) -> Posterior:
        """With n labels more, all rows at most."""
        counts, rest = self.posterior.model.counts, self.rest
        part = min(1.0, n / max(float(rest.sum()), _TINY))
        known = counts.field + part * rest[:, None] * self.given
        return posterior_of(model_of(known, counts.V), self.posterior.seed)


def pooled_classes(known: Floats, V: Floats) -> tuple[Floats, Floats]:
    """P(category | class), (K, m), and the shares of the classes in all rows, (K,), from the labels of all groups."""
    rows, categories = known.sum(axis=0), V.sum(axis=0)
    categories = categories / max(categories.sum(), _TINY)
    M = rows + categories  # a row of each class spread over categories as all rows are
    share = rows.sum(axis=1) + 0.5
    given = rows + (share / share.sum())[:, None]
    return M / M.sum(axis=1, keepdims=True), (given / given.sum(axis=0)) @ categories


def label_shift(known: Floats, V: Floats) -> Offsets:
    """Log-ratios of the classes of each group to those of all rows if categories given a class are alike everywhere.

    Mode and curvature of the log-ratios, which are normal around those of all rows beforehand. Groups follow label
    shift more or less closely: the error has a part in proportion to the difference.
    """
    M, p = pooled_classes(known, V)
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
