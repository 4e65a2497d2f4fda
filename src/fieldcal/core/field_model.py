"""One multilevel model of the field: lab groups, field labels and hypotheses about the whole field together.

The log-odds of class k against the first, for a row of bin j in group g, are

    b_j + c_j                    in the lab,
    b_j + c_j + a + β t_g + u_g + e_gj   in the field, with its own t, u and e

``b`` is the model's own prediction and ``c`` its calibration error, common to all groups; ``a`` the shift of the whole
field, about which there are up to three hypotheses; ``t_g`` the difference of the group that label shift implies, ``β``
how much of it is followed; ``u`` and ``e`` the error of the model for the group, and for a bin of it. The lab's groups
have the same terms but ``a``, so that their labels teach β, the sizes of u and e, and u and e themselves. From lab to
field a group keeps them, and its place among the others, with correlation ρ (persistence).

``t_g`` carries its own error, both where β is fitted and where it is used; the errors of one group in lab and field are
correlated as far as the group persists. The variance components are integrated on weighted points around their mode.
The derivation is in `docs/explanation/model.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from fieldcal.core.hypotheses import ByClass, Hypothesis
from fieldcal.core.multilevel import Labels, Priors, inverse
from fieldcal.core.offsets import Offsets, Persistence, against_first
from fieldcal.core.policy import POLICY
from fieldcal.types import Floats, Ints

_FINE = 24  # bins times free classes up to which bins of a group have effects of their own
_COMMON = 256  # the same of changes of calibration that are common to all groups
MANY = 120  # log-odds of categories above which a search for the variance components takes minutes
_TEACHING = 256  # groups that the variance components are learned from, those with most labels
_TEACHING_NUMBERS = 400_000  # the same, as groups times bins times the square of free classes
RANGE = (-6.0, 2.0)  # of the logarithms of standard deviations


@dataclass(frozen=True)
class Counts:
    """What the model sees: G groups of the field, and those that only the lab has, after them."""

    base: Floats  # (m, K) the model's own prediction in each bin, or the lab's share of each class
    lab: Floats  # (A, K, m) labelled lab rows of all groups
    field: Floats  # (A, K, m) labelled field rows, drawn at random or by looking at their predictions
    V: Floats  # (G, m) rows of the field's groups, the labelled ones among them
    t_lab: Offsets  # (A) differences of groups under label shift
    t_field: Offsets  # (A)
    known: Floats  # (A,) whether lab and field both have rows of the group
    calibrated: (
        Floats  # (A,) probability that the lab's calibration error, common to its groups, is the group's too
    )
    free_base: bool = False  # whether nothing is known of the classes in a bin but field labels
    loose: Floats | None = None  # (A,) variance of u in the field beyond σ²
    base_noise: Floats | None = (
        None  # (m, K) variance of log P(class | bin), where the base is the lab's own counts
    )
    by_class: Floats | None = None  # (K, m) labelled field rows that were chosen by class
    #: (A,) groups whose field histograms are far from every mixture: the spread of groups under label shift is not
    #: learned from them, nor, where the lab has no labels of groups, anything else about the others
    outlying: NDArray[np.bool_] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Groups of the field, classes, bins."""
        return len(self.V), self.base.shape[1], self.base.shape[0]


@dataclass(frozen=True)
class Components:
    """Variance components at P points, with their weights."""

    beta: Floats  # (P,)
    group: Floats  # (P,) σ², variance of u on the log-odds scale
    bins: Floats  # (P,) τ², variance of e
    rho: Floats  # (P,) persistence
    change: Floats  # (P,) δ², variance of the change of calibration of a bin between lab and field

    @classmethod
    def of(cls, theta: Floats, rho: Floats | float, change: Floats | float) -> Components:
        """From numbers (P, 3) that may be anything: β is not negative."""
        scales = np.exp(2 * np.clip(theta[:, 1:3], *RANGE))
        beta = np.logaddexp(0.0, 8 * theta[:, 0]) / 8
        rho, change = (np.broadcast_to(np.asarray(x, float), (len(theta),)) for x in (rho, change))
        return cls(beta, scales[:, 0], scales[:, 1] + 1e-6, rho, change)

    @classmethod
    def of_one_population(cls, change: Floats) -> Components:
        nothing = np.zeros(len(change))
        return cls(nothing, nothing, nothing, nothing, change)

    def take(self, rows: Ints) -> Components:
        return Components(*(getattr(self, field.name)[rows] for field in fields(self)))


def _unit(free: int) -> Floats:
    """Covariance of log-odds against the first class, of equal effects of all classes; 1 for two classes."""
    return np.asarray((np.eye(free) + 1) / 2)


@dataclass(frozen=True)
class Design:
    """Common effects: what they are, how they enter the lab and the field, and their covariance beforehand."""

    X: Floats  # (2, m, K − 1, D) of lab and field
    covariance: Floats  # (D, D) with that of the shift, and of changes of the bins, at zero
    shift: slice  # where a is
    change: (
        slice  # where changes of the calibration of bins between lab and field are; empty if there are none
    )

    @classmethod
    def of(cls, counts: Counts, *, changed: bool) -> Design:
        """``changed``: whether the calibration of a bin may change between lab and field."""
        _, K, m = counts.shape
        k, unit = K - 1, _unit(K - 1)
        each = np.broadcast_to(np.eye(k), (m, k, k))
        bins = np.eye(m * k).reshape(m, k, m * k)
        fine = m * k <= _FINE
        # In the lab, in the field, covariance.
        blocks: list[tuple[Floats, Floats, Floats]] = [(0 * each, each, 0 * unit)]
        change = np.zeros((m * k, m * k))
        if counts.base_noise is not None:
            slope, fine = _slope(counts, centred=True), m * k <= _COMMON
            blocks.append((0 * slope, slope, np.array([[POLICY.slope_change**2]])))
            change = _of_bins(counts.base_noise)
        else:
            slope = _slope(counts, centred=False)
            bin_sd = POLICY.calibration_bin
            if counts.free_base:
                bin_sd = POLICY.free_base if m * k <= MANY else POLICY.free_base_of_many
            blocks.append((each, each, POLICY.shift_sd**2 * unit))
            blocks.append((slope, slope, np.array([[POLICY.calibration_slope**2]])))
            if fine or counts.free_base:
                blocks.append((bins, bins, np.asarray(bin_sd**2 * np.kron(np.eye(m), unit))))
        if changed and fine and not counts.free_base:
            blocks.append((0 * bins, bins, change))
        X = np.stack([np.concatenate([b[f] for b in blocks], axis=2) for f in (0, 1)])
        ends = np.cumsum([len(part) for *_, part in blocks])
        last = slice(int(ends[-1]) - len(change), int(ends[-1])) if blocks[-1][2] is change else slice(0, 0)
        return cls(X, block_diag(*(part for *_, part in blocks)), slice(0, k), last)

    def precision(self, shift: Floats, change: Floats) -> Floats:
        """(P, D, D) under a hypothesis with this covariance of a, with variances (P,) of changes of the bins."""
        covariance = np.tile(self.covariance, (len(change), 1, 1))
        covariance[:, self.shift, self.shift] = shift + 1e-8 * np.eye(len(shift))
        k = len(shift)
        bins = (self.change.stop - self.change.start) // k
        covariance[:, self.change, self.change] += change[:, None, None] * np.kron(np.eye(bins), _unit(k))
        return np.asarray(np.linalg.inv(covariance))


def _slope(counts: Counts, *, centred: bool) -> Floats:
    """(m, K − 1, 1) how log-odds change if the model is more, or less, sure of itself."""
    logs = np.log(counts.base)
    slope = against_first(logs - logs.mean(axis=1, keepdims=True))
    if centred:  # without a shift of the whole field
        rows = counts.V.sum(axis=0)
        slope = slope - rows @ slope / max(float(rows.sum()), 1e-300)
    return np.asarray(slope[:, :, None])


def _of_bins(variance: Floats) -> Floats:
    """Covariance of log-odds against the first class, of independent logarithms with variances (m, K)."""
    parts = (np.diag(v[1:]) + v[0] for v in variance)
    return np.asarray(block_diag(*parts))


def of_new_groups(follow: float) -> tuple[tuple[float, float], ...]:
    """Means and standard deviations of (β, log σ, log τ) where no lab group informs β."""
    return (follow, POLICY.components[0][1]), *POLICY.components[1:]


@dataclass(frozen=True)
class Model:
    """The model of one field; `field_posterior.posterior_of` solves it."""

    counts: Counts
    hypotheses: tuple[Hypothesis, ...]
    persistence: Persistence
    grouped: bool = True
    #: Means and standard deviations of (β, log σ, log τ) beforehand.
    components: tuple[tuple[float, float], ...] = POLICY.components
    #: Possible standard deviations of changes of the calibration of a bin, and their probabilities.
    changes: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,), (1.0,))

    @cached_property
    def design(self) -> Design:
        return Design.of(self.counts, changed=any(self.changes[0]))

    @property
    def fine(self) -> bool:
        """Whether bins have effects of their own; with many classes and bins labels would be too few for them."""
        _, K, m = self.counts.shape
        return m * (K - 1) <= _FINE

    @cached_property
    def n_field_labels(self) -> float:
        """How many field rows have a label, those that were chosen by class among them."""
        by_class = self.counts.by_class
        return float(self.counts.field.sum() + (0.0 if by_class is None else by_class.sum()))

    @property
    def lab_groups(self) -> bool:
        """Whether the lab has labels of groups."""
        return self.counts.base_noise is None and not self.counts.free_base

    @cached_property
    def spreads(self) -> tuple[float, float]:
        """Variance of the differences between groups under label shift, in the lab and in the field."""
        counts, (_, K, _) = self.counts, self.counts.shape
        unit, found = _unit(K - 1), []
        typical = self._in_field if counts.outlying is None else self._in_field & ~counts.outlying
        for t, rows in ((counts.t_lab, counts.lab.any(axis=(1, 2))), (counts.t_field, typical)):
            if rows.sum() > 2:
                both = np.cov(t.mean[rows].T).reshape(K - 1, K - 1) + t.covariance[rows].mean(axis=0)
                found.append(max(float(np.trace(np.linalg.solve(unit, both))) / (K - 1), 1e-3))
        lab, field = found if len(found) == 2 else [np.mean(found) if found else POLICY.group_spread**2] * 2
        return float(lab), float(field)

    @cached_property
    def _in_field(self) -> NDArray[np.bool_]:
        in_field = np.zeros(len(self.counts.lab), dtype=bool)
        in_field[: len(self.counts.V)] = True
        return in_field

    @cached_property
    def teaching(self) -> Ints:
        """Groups that teach the variance components and the common effects."""
        size = self.counts.lab.sum(axis=(1, 2)) + self.counts.field.sum(axis=(1, 2))
        if self.counts.outlying is not None and not self.lab_groups:
            size = np.where(self.counts.outlying, 0.0, size)
        _, K, m = self.counts.shape
        most = int(np.clip(_TEACHING_NUMBERS // (m * (K - 1) ** 2), 8, _TEACHING))
        order = np.argsort(-size, kind="stable")[:most]
        return np.sort(order[size[order] > 0])

    @cached_property
    def labelled(self) -> list[int]:
        """Phases that have labels: 0 the lab, 1 the field."""
        return [f for f, table in enumerate((self.counts.lab, self.counts.field)) if table.any()] or [1]

    def by_class(self, components: Components, shift: Floats) -> ByClass | None:
        """Labelled rows that were chosen by class, at P points under a shift of the field (P, K − 1)."""
        if self.counts.by_class is None:
            return None
        V = self.counts.V.sum(axis=0)
        base = against_first(np.log(self.counts.base)) + shift[:, None]
        return ByClass(self.counts.by_class, np.log(np.maximum(V, 1e-300)), base, self.design.X[1])

    def labels(self, rows: Ints, phases: Sequence[int]) -> Labels:
        counts = np.stack([(self.counts.lab, self.counts.field)[f][rows] for f in phases], axis=1)
        return Labels(counts.swapaxes(2, 3), self.design.X[phases])

    def priors(
        self, rows: Ints, components: Components, shift: Floats, precision: Floats, phases: Sequence[int]
    ) -> Priors:
        """Of some groups at P points, under a shift of the field (P, K − 1) with precision (P, D, D) of d."""
        counts, (_, K, m) = self.counts, self.counts.shape
        k, P, L = K - 1, len(components.beta), len(rows)
        t_lab = counts.t_lab.take(rows)
        beta = components.beta[:, None, None, None]
        unit = _unit(k)
        group = np.empty((P, L, 2, k, 2, k))
        group[:, :, 0, :, 0] = components.group[:, None, None, None] * unit + beta**2 * t_lab.covariance
        carried, mean, covariance = self._carried(rows, components.rho)
        group[:, :, 1, :, 1] = components.group[:, None, None, None] * unit + beta**2 * covariance
        if counts.loose is not None:
            group[:, :, 1, :, 1] += counts.loose[rows, None, None] * unit
        cross = (components.rho * components.group)[:, None, None, None] * unit
        cross = cross * counts.known[rows][None, :, None, None]
        cross = cross + beta**2 * np.einsum("plab,lbc->plac", carried, t_lab.covariance)
        group[:, :, 1, :, 0], group[:, :, 0, :, 1] = cross, cross.swapaxes(2, 3)
        base = against_first(np.log(counts.base))
        offset = np.empty((P, L, 2, m, k))
        offset[:, :, 0] = base + beta * t_lab.mean[None, :, None, :]
        offset[:, :, 1] = base + shift[:, None, None, :] + beta * mean[:, :, None, :]
        rho = components.rho
        link = np.stack([np.stack([np.ones(P), rho], axis=1), np.stack([rho, np.ones(P)], axis=1)], axis=1)
        bins = np.einsum("p,pfh,ab->pfahb", components.bins, link, unit).reshape(P, 2 * k, 2 * k)
        bins = bins + 1e-9 * np.eye(2 * k)
        kept = np.concatenate([np.arange(f * k, (f + 1) * k) for f in phases])
        group = group.reshape(P, L, 2 * k, 2 * k)[..., kept[:, None], kept] + 1e-9 * np.eye(len(kept))
        bins = bins[:, kept[:, None], kept]
        own_bins = inverse(bins) if self.fine else None
        return Priors(offset[:, :, phases], precision, inverse(group), own_bins, POLICY.outlying_freedom)

    def _carried(self, rows: Ints, rho: Floats) -> tuple[Floats, Floats, Floats]:
        """How the field's t of groups follows that of the lab: the slope, the mean and the covariance, (P, L, …).

        A group's place t among all others is normal with variance `spreads`, and has correlation ρ between lab and
        field; each histogram measures it with an error of its own.
        """
        counts = self.counts
        t_lab, t_field = counts.t_lab.take(rows), counts.t_field.take(rows)
        known, k = counts.known[rows].astype(bool), t_field.mean.shape[1]
        in_lab, in_field = self.spreads
        spread = in_field * _unit(k)
        P, L = len(rho), len(rows)
        slope, mean = np.zeros((P, L, k, k)), np.broadcast_to(t_field.mean, (P, L, k)).copy()
        covariance = np.broadcast_to(t_field.covariance, (P, L, k, k)).copy()
        if not known.any():
            return slope, mean, covariance
        own = inverse(t_field.covariance[known] + 1e-9 * np.eye(k))
        values, vectors = np.linalg.eigh(own - np.linalg.inv(spread))
        measured = np.einsum(
            "lab,lb,lcb->lac", vectors, np.maximum(values, 0.0), vectors
        )  # by the histogram alone
        pull = np.einsum("lab,lb->la", own, t_field.mean[known])
        left = np.linalg.inv(np.maximum(1 - rho**2, 1e-3)[:, None, None] * spread)  # (P, k, k)
        after = inverse(left[:, None] + measured)
        follows = rho * np.sqrt(in_field / in_lab)
        slope[:, known] = follows[:, None, None, None] * np.einsum("plab,pbc->plac", after, left)
        mean[:, known] = np.einsum("plab,lb->pla", slope[:, known], t_lab.mean[known])
        mean[:, known] += np.einsum("plab,lb->pla", after, pull)
        lab_error = t_lab.covariance[known]
        covariance[:, known] = after + np.einsum(
            "plab,lbc,pldc->plad", slope[:, known], lab_error, slope[:, known]
        )
        return slope, mean, covariance
