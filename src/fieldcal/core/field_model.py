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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtri, digamma, gammaln, logsumexp, ndtr, ndtri, polygamma, softmax
from scipy.stats import qmc

from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.log_odds import against_first, slopes_of, with_first
from fieldcal.core.multilevel import Fitted, Labels, Priors, fit, inverse
from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Posterior as LabelShiftPosterior
from fieldcal.core.stories import spread_on_logs
from fieldcal.types import Floats, Ints

_FINE = 24  # bins times free classes up to which bins have effects of their own
_TEACHING = 256  # groups that the variance components are learned from, those with most labels
_TEACHING_NUMBERS = 400_000  # the same, as groups times bins times the square of free classes
_POINTS, _KEPT, _KEPT_OF_MANY = (
    32,
    8,
    4,
)  # points around the mode of the variance components; those kept for shares
_FREEDOM = 8.0  # of the distribution that the points are drawn from
_STEP, _WIDE_STEP = 0.02, 0.08  # of differences: for slopes, and for curvatures
_LEAST = 1e-4  # of a share whose logarithm is taken
_LEAST_ROWS = 0.5  # pseudo-rows behind such a share
_NUMBERS = 4_000_000  # in memory at a time
_DRAWN_TOGETHER = 64  # groups
_TINY = 1e-300
_RANGE = (-6.0, 2.0)  # of the logarithms of standard deviations


@dataclass(frozen=True)
class Offsets:
    """Log-ratios of classes against the first, with their error."""

    mean: Floats  # (n, K − 1)
    covariance: Floats  # (n, K − 1, K − 1)

    @classmethod
    def of(cls, p: Floats, sd: Floats, base: Floats) -> Offsets:
        """Of shares p (n, K) with posterior standard deviations sd, relative to a base (K,).

        The moments of logarithms of the Beta that has the mean and the standard deviation of each share.
        """
        p = np.clip(p, _LEAST, 1 - _LEAST)
        strength = np.clip(p * (1 - p) / np.maximum(sd, 1e-6) ** 2 - 1, 0.2, 1e7)
        a, b = np.maximum(p * strength, _LEAST_ROWS), np.maximum((1 - p) * strength, _LEAST_ROWS)
        variance = polygamma(1, a)
        mean = against_first(digamma(a) - digamma(a + b)) - against_first(np.log(np.maximum(base, _LEAST)))
        free = np.eye(p.shape[1] - 1)
        return cls(mean, variance[:, 1:, None] * free + variance[:, :1, None])

    def take(self, rows: Ints) -> Offsets:
        """Some of them; an unknown one, −1, is 0 without an error."""
        known = rows >= 0
        return Offsets(
            np.where(known[:, None], self.mean[rows], 0.0),
            np.where(known[:, None, None], self.covariance[rows], 0.0),
        )

    def followed(self, share: Floats) -> Offsets:
        """Shrunk to a share (n,) of each; what is not followed adds to its error."""
        left = (1 - share)[:, None] * self.mean
        return Offsets(share[:, None] * self.mean, self.covariance + left[:, :, None] * left[:, None, :])


def offsets_of(posterior: LabelShiftPosterior, base: Floats) -> Offsets:
    """Of groups under label shift; of more than two classes from the mode and the curvature there, which is fast."""
    if posterior.M.shape[1] == 2:
        found = posterior.summary(0.9)
        return Offsets.of(found.mean, found.sd, base)
    p = np.clip(posterior.mode().p, _LEAST, 1.0)
    p = p / p.sum(axis=1, keepdims=True)
    M, strength = posterior.problem.M, float(np.median(posterior.alpha.sum(axis=1)))
    expected = np.maximum(p @ M, _TINY)
    slopes = slopes_of(p)[..., 1:]  # (n, K, K − 1) of shares with their log-ratios
    through = np.einsum("gka,kj->gja", slopes, M)
    information = np.einsum("gj,gja,gjb->gab", posterior.V / expected**2, through, through, optimize=True)
    information += strength * slopes_of(p)[:, 1:, 1:] + 1e-3 * np.eye(p.shape[1] - 1)
    mean = against_first(np.log(p)) - against_first(np.log(np.maximum(base, _LEAST)))
    return Offsets(mean, np.linalg.inv(information))


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

    @classmethod
    def of(cls, theta: Floats, rho: Floats | float) -> Components:
        """From numbers (P, 3) that may be anything: β is not negative."""
        scales = np.exp(2 * np.clip(theta[:, 1:3], *_RANGE))
        beta = np.logaddexp(0.0, 8 * theta[:, 0]) / 8
        return cls(
            beta, scales[:, 0], scales[:, 1] + 1e-6, np.broadcast_to(np.asarray(rho, float), (len(theta),))
        )

    def take(self, rows: Ints) -> Components:
        """Some of the points."""
        return Components(self.beta[rows], self.group[rows], self.bins[rows], self.rho[rows])


@dataclass(frozen=True)
class Persistence:
    """How far groups keep their errors from lab to field: values and their probabilities."""

    values: Floats  # (R,)
    weights: Floats  # (R,)

    @property
    def mean(self) -> float:
        """The expected persistence."""
        return float(self.values @ self.weights)

    def likely(self, least: float = 0.02) -> Persistence:
        """Without values that hardly matter."""
        kept = self.weights >= least * self.weights.max()
        return Persistence(self.values[kept], self.weights[kept] / self.weights[kept].sum())


def persistence(
    lab: tuple[Floats, Floats], field: tuple[Floats, Floats], *, given: float | None = None
) -> Persistence:
    """From how well the groups' mean predictions in the field resemble those in the lab, beyond noise.

    Parameters
    ----------
    lab, field : deviations of mean predictions (n, K) of groups known to both from those of all, and their variances
    given : a value that the caller set
    """
    if given is not None:
        return Persistence(np.array([given]), np.ones(1))
    values, prior = (np.array(x) for x in POLICY.persistence)
    logs = np.log(prior)
    (z_lab, noise_lab), (z_field, noise_field) = lab, field
    n, K = z_lab.shape
    if n > 2:
        own = np.maximum(z_lab.var(axis=0) - noise_lab.mean(axis=0), 1e-7)
        later = np.maximum(z_field.var(axis=0) - noise_field.mean(axis=0), 1e-7)
        for i, rho in enumerate(values):
            a, b, c = own + noise_lab, later + noise_field, rho * np.sqrt(own * later)
            det = a * b - c**2
            square = (b * z_lab**2 - 2 * c * z_lab * z_field + a * z_field**2) / det
            logs[i] -= 0.5 * (np.log(det) + square).sum() / (K if K == 2 else K - 1)  # classes sum to one
    return Persistence(values, np.exp(logs - logsumexp(logs)))


def _unit(free: int) -> Floats:
    """Covariance of log-odds against the first class, of equal effects of all classes; 1 for two classes."""
    return np.asarray((np.eye(free) + 1) / 2)


@dataclass(frozen=True)
class _Design:
    """Common effects: what they are, how they enter the lab and the field, and their covariance beforehand."""

    X: Floats  # (2, m, K − 1, D) of lab and field
    covariance: Floats  # (D, D) with that of the shift at zero
    shift: slice  # where a is

    @classmethod
    def of(cls, counts: Counts, scale: float) -> _Design:
        """``scale``: standard deviation of a change of calibration between lab and field, per bin; 0 for none."""
        _, K, m = counts.shape
        k, logs = K - 1, np.log(counts.base)
        unit, bins = _unit(k), np.zeros((m, k, m * k))
        for j in range(m):
            bins[j, :, j * k : (j + 1) * k] = np.eye(k)
        eye = np.broadcast_to(np.eye(k), (m, k, k))
        slope = against_first(logs - logs.mean(axis=1, keepdims=True))[:, :, None]
        nothing = np.zeros((m, k, k))
        bin_sd = POLICY.free_base if counts.free_base else POLICY.calibration_bin
        fine = m * k <= _FINE
        blocks = [  # in the lab, in the field, covariance
            (nothing, eye, 0 * unit),
            (eye, eye, POLICY.calibration_shift**2 * unit),
            (slope, slope, np.array([[POLICY.calibration_slope**2]])),
        ]
        if fine or counts.free_base:
            blocks.append((bins, bins, bin_sd**2 * np.kron(np.eye(m), unit)))
        if scale and fine:
            blocks.append((0 * bins, bins, scale**2 * np.kron(np.eye(m), unit)))
        X = np.stack([np.concatenate([b[f] for b in blocks], axis=2) for f in (0, 1)])
        covariance = np.zeros((X.shape[3], X.shape[3]))
        at = 0
        for *_, part in blocks:
            covariance[at : at + len(part), at : at + len(part)] = part
            at += len(part)
        return cls(X, covariance, slice(0, k))

    def precision(self, shift: Floats) -> Floats:
        """(D, D) under a hypothesis with this covariance of a."""
        covariance = self.covariance.copy()
        covariance[self.shift, self.shift] = shift + 1e-8 * np.eye(len(shift))
        return np.asarray(np.linalg.inv(covariance))


@dataclass(frozen=True)
class _Point:
    """One value of everything that is not integrated by Laplace's method."""

    components: Components  # of this point alone
    hypothesis: Hypothesis
    d: Floats  # (D,) common effects
    S: Floats  # (D, D) their covariance
    weight: float  # in the interval
    estimate: float  # in the estimate


@dataclass(frozen=True)
class Model:
    """The model of one field; `solve` makes its posterior."""

    counts: Counts
    hypotheses: tuple[Hypothesis, ...]
    persistence: Persistence
    grouped: bool = True
    components: tuple[tuple[float, float], ...] = (
        POLICY.components
    )  # means and standard deviations beforehand

    @cached_property
    def design(self) -> _Design:
        """Of the common effects."""
        moved = any(h.kind != "unchanged" for h in self.hypotheses)
        scale = (
            POLICY.calibration_change[0 if moved else 1]
            if self.labelled_field and not self.counts.free_base
            else 0
        )
        return _Design.of(self.counts, scale)

    @property
    def fine(self) -> bool:
        """Whether bins have effects of their own; with many classes and bins labels would be too few for them."""
        _, K, m = self.counts.shape
        return m * (K - 1) <= _FINE

    @cached_property
    def labelled_field(self) -> bool:
        """Whether any field row has a label."""
        return bool(self.counts.field.any())

    @cached_property
    def spreads(self) -> tuple[float, float]:
        """Variance of the differences between groups under label shift, in the lab and in the field."""
        counts, (_, K, _) = self.counts, self.counts.shape
        unit, found = _unit(K - 1), []
        for t, rows in ((counts.t_lab, counts.lab.any(axis=(1, 2))), (counts.t_field, self._in_field)):
            if rows.sum() > 2:
                both = np.cov(t.mean[rows].T).reshape(K - 1, K - 1) + t.covariance[rows].mean(axis=0)
                found.append(max(float(np.trace(np.linalg.solve(unit, both))) / (K - 1), 1e-3))
        lab, field = found if len(found) == 2 else [np.mean(found) if found else POLICY.group_spread] * 2
        return float(lab), float(field)

    @cached_property
    def _in_field(self) -> Floats:
        in_field = np.zeros(len(self.counts.lab), dtype=bool)
        in_field[: len(self.counts.V)] = True
        return in_field

    @cached_property
    def teaching(self) -> Ints:
        """Groups that teach the variance components and the common effects."""
        size = self.counts.lab.sum(axis=(1, 2)) + self.counts.field.sum(axis=(1, 2))
        _, K, m = self.counts.shape
        most = int(np.clip(_TEACHING_NUMBERS // (m * (K - 1) ** 2), 8, _TEACHING))
        order = np.argsort(-size, kind="stable")[:most]
        return np.sort(order[size[order] > 0])

    @cached_property
    def labelled(self) -> list[int]:
        """Phases that have labels: 0 the lab, 1 the field."""
        return [f for f, table in enumerate((self.counts.lab, self.counts.field)) if table.any()]

    def labels(self, rows: Ints, phases: Sequence[int]) -> Labels:
        """Of some groups in some phases."""
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
        field; each histogram has told of it with an error of its own.
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
        told = np.einsum(
            "lab,lb,lcb->lac", vectors, np.maximum(values, 0.0), vectors
        )  # by the histogram alone
        pull = np.einsum("lab,lb->la", own, t_field.mean[known])
        left = np.linalg.inv(np.maximum(1 - rho**2, 1e-3)[:, None, None] * spread)  # (P, k, k)
        after = inverse(left[:, None] + told)
        follows = rho * np.sqrt(in_field / in_lab)
        slope[:, known] = follows[:, None, None, None] * np.einsum("plab,pbc->plac", after, left)
        mean[:, known] = np.einsum("plab,lb->pla", slope[:, known], t_lab.mean[known])
        mean[:, known] += np.einsum("plab,lb->pla", after, pull)
        lab_error = t_lab.covariance[known]
        covariance[:, known] = after + np.einsum(
            "plab,lbc,pldc->plad", slope[:, known], lab_error, slope[:, known]
        )
        return slope, mean, covariance

    # -- the variance components ----------------------------------------------------------------------------

    @property
    def _prior(self) -> tuple[Floats, Floats]:
        """Means and standard deviations of (β, log σ, log τ)."""
        return tuple(np.array(x) for x in zip(*self.components, strict=True))  # type: ignore[return-value]

    def solve(self, seed: int = 0) -> Posterior:
        """The posterior, as weighted points."""
        if not len(self.teaching):
            return self._without_labels(seed)
        theta, logs, extra = self._explored(seed)
        return self._posterior(theta, logs, extra, seed)

    def _evidence(self, hypothesis: Hypothesis, rho: float) -> Callable[[Floats], Floats]:
        """Log of the posterior density of θ (P, 3), but for a constant; each call starts where the last one ended."""
        labels, (mean, sd) = self.labels(self.teaching, self.labelled), self._prior
        precision = self.design.precision(hypothesis.covariance)
        start: list[Fitted] = []

        def of(theta: Floats) -> Floats:
            found = self._fitted(labels, Components.of(theta, rho), hypothesis, precision, start)
            best = int(np.argmax(found.log_evidence))
            start[:] = [_one(found, best)]
            return np.asarray(found.log_evidence - 0.5 * (((theta - mean) / sd) ** 2).sum(axis=1))

        return of

    def _fitted(
        self,
        labels: Labels,
        components: Components,
        hypothesis: Hypothesis,
        precision: Floats,
        start: list[Fitted],
    ) -> Fitted:
        P = len(components.beta)
        shift = np.broadcast_to(hypothesis.mean, (P, len(hypothesis.mean)))
        wide = np.broadcast_to(precision, (P, *precision.shape))
        priors = self.priors(self.teaching, components, shift, wide, self.labelled)
        return fit(labels, priors, _start(start[0], P) if start else None)

    def _explored(self, seed: int) -> tuple[Floats, Floats, Floats]:
        """Points θ (P, 3), the logarithms of their weights, and the same of label shift between groups alone."""
        lead = max(self.hypotheses, key=lambda h: float(np.trace(h.covariance)))
        density = self._evidence(lead, self.persistence.mean)
        mode, root = _mode(density, *self._prior)
        rng = np.random.default_rng([seed, 29])
        even = np.clip(qmc.Sobol(len(mode) + 1, rng=rng).random(_POINTS), 1e-6, 1 - 1e-6)
        z, chi = ndtri(even[:, 1:]), chdtri(_FREEDOM, even[:, 0]) / _FREEDOM
        theta = mode + (z / np.sqrt(chi)[:, None]) @ root.T
        D, nu = len(mode), _FREEDOM
        drawn = -0.5 * (nu + D) * np.log1p((z**2).sum(axis=1) / chi / nu)
        drawn += gammaln((nu + D) / 2) - gammaln(nu / 2) - 0.5 * D * np.log(nu * np.pi)
        drawn -= np.linalg.slogdet(root)[1]
        sd = self._prior[1]
        normal = 0.5 * D * np.log(2 * np.pi) + np.log(sd).sum()
        logs = density(theta) - normal - drawn - np.log(_POINTS) + np.log1p(-POLICY.label_shift_between)
        alone = np.array([[1.0, _RANGE[0], _RANGE[0]]])
        mean, scale = self._prior
        back = 0.5 * (((alone - mean) / scale) ** 2).sum(axis=1)  # it is an atom: no density of θ
        extra = density(alone) + back + np.log(POLICY.label_shift_between)
        return np.concatenate([theta, alone]), np.concatenate([_capped(logs), extra]), alone

    def _posterior(self, theta: Floats, logs: Floats, alone: Floats, seed: int) -> Posterior:
        weights = np.exp(logs - logsumexp(logs))
        chosen, share = _resampled(
            weights, _KEPT if self.counts.shape[1] == 2 else _KEPT_OF_MANY, np.random.default_rng([seed, 31])
        )
        rhos = self.persistence.likely()
        labels, points = self.labels(self.teaching, self.labelled), []
        grid = [(i, r) for i in range(len(chosen)) for r in range(len(rhos.values))]
        at, r = np.array(grid).T
        components = Components.of(theta[chosen[at]], rhos.values[r])
        prior = np.log(share[at]) + np.log(rhos.weights[r])
        start: list[Fitted] = []
        fits = []
        for hypothesis in self.hypotheses:
            precision = self.design.precision(hypothesis.covariance)
            found = self._fitted(labels, components, hypothesis, precision, start)
            fits.append(found)
            start = [_one(found, 0)]
        lead = int(np.argmax([float(np.trace(h.covariance)) for h in self.hypotheses]))
        # The points were drawn under one hypothesis and the mean persistence: the others are weighed against that.
        reference = np.array(
            [
                np.average(fits[lead].log_evidence[at == i], weights=rhos.weights[r[at == i]])
                for i in range(len(chosen))
            ]
        )
        for hypothesis, found in zip(self.hypotheses, fits, strict=True):
            change = found.log_evidence - reference[at] if self.labelled_field else np.zeros(len(at))
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
        return Posterior(self, _weighed(points), seed)

    def _without_labels(self, seed: int) -> Posterior:
        """Nothing but the prior."""
        rng = np.random.default_rng([seed, 37])
        mean, sd = self._prior
        theta = mean + sd * ndtri(np.clip(qmc.Sobol(3, rng=rng).random(_KEPT), 1e-6, 1 - 1e-6))
        points = []
        for hypothesis in self.hypotheses:
            covariance = np.asarray(np.linalg.inv(self.design.precision(hypothesis.covariance)))
            zero = np.zeros(len(covariance))
            points += [
                (hypothesis, Components.of(theta[i : i + 1], 0.0), zero, covariance, 0.0)
                for i in range(_KEPT)
            ]
        return Posterior(self, _weighed(points), seed)


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


def _weighed(points: list[tuple[Hypothesis, Components, Floats, Floats, float]]) -> tuple[_Point, ...]:
    """Points with their weights in the interval and in the estimate, each summing to one."""
    logs = np.array([log for *_, log in points])
    wide, near = (
        np.exp(logs - logs.max()) * np.array([getattr(h, name) for h, *_ in points])
        for name in ("weight", "estimate")
    )
    wide, near = wide / wide.sum(), near / max(near.sum(), _TINY)
    return tuple(
        _Point(c, h, d, S, float(w), float(e))
        for (h, c, d, S, _), w, e in zip(points, wide, near, strict=True)
        if max(w, e) > 1e-4
    )


@dataclass(frozen=True)
class Shares:
    """Of the classes, as a mixture over hypotheses: one normal each on the logit scale."""

    weights: Floats  # (H,)
    means: Floats  # (H, n, K)
    variances: Floats  # (H, n, K)
    estimate: Floats  # (n, K)

    @property
    def deviation(self) -> Floats:
        """(n, K) standard deviations around the estimate."""
        square = self.variances + (self.means - self.estimate) ** 2
        return np.asarray(np.sqrt(np.einsum("h,hnk->nk", self.weights, square)))


@dataclass(frozen=True)
class Posterior:
    """The model's answer: points, each with a normal posterior of all effects."""

    model: Model
    points: tuple[_Point, ...]
    seed: int

    @cached_property
    def kinds(self) -> tuple[Hypothesis, ...]:
        """Hypotheses that are not ruled out."""
        return tuple(h for h in self.model.hypotheses if any(p.hypothesis is h for p in self.points))

    def weight(self, kind: str) -> float:
        """The probability of a hypothesis about the whole field."""
        return float(sum(p.weight for p in self.points if p.hypothesis.kind == kind))

    def mean(self, name: str) -> float:
        """Of a variance component."""
        return float(sum(p.weight * getattr(p.components, name)[0] for p in self.points))

    @cached_property
    def _solved(self) -> tuple[Shares, Shares, Floats]:
        model, counts = self.model, self.model.counts
        G, K, m = counts.shape
        H = len(self.kinds)
        mean, square, inner = (np.zeros((H, G, K)) for _ in range(3))
        whole_mean, whole_square, whole_inner = (np.zeros((H, 1, K)) for _ in range(3))
        estimate, tables = np.zeros((G, K)), np.zeros((m, K))
        total = max(float(counts.V.sum()), _TINY)
        part = counts.V.sum(axis=1) / total
        where = np.array([self.kinds.index(p.hypothesis) for p in self.points])
        one = np.eye(H)[:, where]  # (H, P) which point is under which hypothesis
        wide, near = (np.array([getattr(p, name) for p in self.points]) for name in ("weight", "estimate"))
        weights, wide_of = one @ wide, one * wide
        P, D = len(self.points), len(self.points[0].d)
        S = np.zeros((P, D + 1, D + 1))
        S[:, :D, :D], S[:, D, D] = [p.S for p in self.points], 1.0
        every, sensitivity, own_variance = np.zeros((P, K)), np.zeros((P, K, D + 1)), np.zeros((P, K))
        for rows in self._blocks(P):
            block = _Block.of(model, self.points, np.arange(rows.start, rows.stop))
            share, own, common = block.moments()
            variance = own + np.einsum("pgkd,pde,pgke->pgk", common, S, common, optimize=True)
            mean[:, rows] = np.einsum("hp,pgk->hgk", wide_of, share)
            square[:, rows] = np.einsum("hp,pgk->hgk", wide_of, share**2)
            inner[:, rows] = np.einsum("hp,pgk->hgk", wide_of, variance)
            estimate[rows] = np.einsum("p,pgk->gk", near, share)
            tables += np.einsum("p,gj,pgjk->jk", near, counts.V[rows], block.classes, optimize=True)
            every += np.einsum("g,pgk->pk", part[rows], share)
            sensitivity += np.einsum("g,pgkd->pkd", part[rows], common)
            own_variance += np.einsum("g,pgk->pk", part[rows] ** 2, own)
        own_variance += np.einsum("pkd,pde,pke->pk", sensitivity, S, sensitivity, optimize=True)
        whole_mean[:, 0], whole_square[:, 0] = wide_of @ every, wide_of @ every**2
        whole_inner[:, 0] = wide_of @ own_variance
        each = _mixture(weights, mean, square, inner, estimate)
        together = _mixture(weights, whole_mean, whole_square, whole_inner, (part @ estimate)[None])
        return each, together, tables / np.maximum(tables.sum(axis=1, keepdims=True), _TINY)

    def shares(self) -> Shares:
        """Of every group of the field."""
        return self._solved[0]

    def whole(self) -> Shares:
        """Of the field as one population."""
        return self._solved[1]

    def classes_by_bin(self) -> Floats:
        """P(class | bin) in the whole field, (m, K); the model's own prediction in bins without rows."""
        table = self._solved[2]
        return np.where(table.sum(axis=1, keepdims=True) > 0, table, self.model.counts.base)

    def classes(self, rows: Ints) -> Floats:
        """P(class | bin) in some groups, (groups, m, K), of rows without a label."""
        near = np.array([p.estimate for p in self.points])
        return np.asarray(np.einsum("p,pgjk->gjk", near, _Block.of(self.model, self.points, rows).classes))

    def normality(self, rows: Ints) -> Floats:
        """Weight of the normal prior of some groups, (groups,): far below 1 for outlying ones."""
        wide = np.array([p.weight for p in self.points])
        return np.asarray(wide @ _Block.of(self.model, self.points, rows).scale)

    def _blocks(self, points: int) -> Iterator[slice]:
        G, K, m = self.model.counts.shape
        q = 2 * (K - 1)
        step = max(1, _NUMBERS // (points * m * q * max(q, len(self.points[0].d))))
        return (slice(i, min(i + step, G)) for i in range(0, G, step))

    def draws(self, rows: Ints, n: int, together: Floats | None = None) -> Floats:
        """Joint draws of the shares of some groups, (groups, n, K): draw s of every group is under the same point.

        ``together``: a root (groups, groups) of the correlations of the noise of their open rows.
        """
        rng = np.random.default_rng([self.seed, 41])
        weights = np.array([p.weight for p in self.points])
        place = np.searchsorted(np.cumsum(weights / weights.sum()), (np.arange(n) + 0.5) / n)
        chosen = rng.permutation(np.minimum(place, len(weights) - 1))
        draws = np.empty((len(rows), n, self.model.counts.shape[1]))
        for i, point in enumerate(self.points):
            at = np.flatnonzero(chosen == i)
            if len(at):
                common = rng.standard_normal((len(at), len(point.d) + 1))
                draws[:, at] = _drawn(self.model, point, rows, common, [self.seed, 43, i], together)
        return draws


def _mixture(weights: Floats, mean: Floats, square: Floats, inner: Floats, estimate: Floats) -> Shares:
    w = np.maximum(weights, _TINY)[:, None, None]
    means = mean / w
    estimate = estimate / estimate.sum(axis=1, keepdims=True)
    return Shares(
        weights / weights.sum(), means, np.maximum(square / w - means**2, 0.0) + inner / w, estimate
    )


@dataclass(frozen=True)
class _Block:
    """Some groups at P points: log-odds of the field's bins, and their covariance in parts."""

    eta: Floats  # (P, g, m, K − 1)
    of_lab: Floats  # (P, m, K − 1) the part that is the lab's calibration error
    calibrated: Floats  # (g,) probability that it is the group's too
    of_bin: Floats  # (P, g, m, k, k) covariance of a bin alone
    group: Floats  # (P, g, q, q) covariance of u
    by_group: Floats  # (P, g, m, k, q) how u moves a bin
    common: Floats  # (P, g, m, k, D) how d moves a bin
    S: Floats  # (P, D, D)
    rest: Floats  # (g, m) rows whose class is open, as shares of the group's rows
    known: Floats  # (g, K) rows of known class, likewise
    n: Floats  # (g,)
    scale: Floats  # (P, g) weight of the normal prior

    @classmethod
    def of(cls, model: Model, points: Sequence[_Point], rows: Ints) -> _Block:
        """With d at its mode; its error enters through `common`."""
        counts, X = model.counts, model.design.X
        phases = [1] if model.labelled == [1] else [0, 1]
        free = counts.base.shape[1] - 1
        components = Components(
            *(np.concatenate([getattr(p.components, f.name) for p in points]) for f in fields(Components))
        )
        d, S, shift = (
            np.array(x) for x in zip(*((p.d, p.S, p.hypothesis.mean) for p in points), strict=True)
        )
        priors = model.priors(rows, components, shift, S, phases)  # d is held: its precision is of no account
        found = fit(model.labels(rows, phases), priors, at=d)
        design = np.concatenate([X[f] for f in phases], axis=1)  # (m, q, D)
        own = slice(len(phases) * free - free, len(phases) * free)  # the field's coordinates
        moved = -found.U @ found.C  # u with d
        common, by_group = X[1] + moved[:, :, None, own], np.eye(len(phases) * free)[own]
        if model.fine:
            EA = found.E[..., own, :] @ found.A
            common, by_group = common - EA @ (design + moved[:, :, None]), by_group - EA
        by_group = np.broadcast_to(by_group, (*common.shape[:-1], len(phases) * free))
        effects = (found.u[:, :, None] + found.e)[..., own]
        eta = priors.offset[:, :, -1] + np.einsum("mkd,pd->pmk", X[1], d)[:, None] + effects
        rest, known, n = _open_rows(counts, rows)
        of_lab = np.einsum(
            "mkd,pd->pmk", X[1][..., model.design.shift.stop :], d[:, model.design.shift.stop :]
        )
        return cls(
            eta,
            of_lab,
            counts.calibrated[rows],
            found.E[..., own, own],
            found.U,
            by_group,
            common,
            S,
            rest,
            known,
            n,
            found.scale,
        )

    @cached_property
    def classes(self) -> Floats:
        """P(class | bin) in each group, (P, g, m, K), over the uncertainty of the log-odds."""
        found, other, sure = *self._classes, self.calibrated[:, None, None]
        return found if other is found else sure * found + (1 - sure) * other

    @cached_property
    def _classes(self) -> tuple[Floats, Floats]:
        """With the lab's calibration error, and without it; the same where it is certainly the group's."""
        covariance = self.of_bin + self.by_group @ self.group[:, :, None] @ self.by_group.swapaxes(-1, -2)
        covariance = covariance + self.common @ self.S[:, None, None] @ self.common.swapaxes(-1, -2)
        found = expected_softmax(self.eta, covariance)
        if (self.calibrated == 1).all():
            return found, found
        return found, expected_softmax(self.eta - self.of_lab[:, None], covariance)

    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Shares (P, g, K), their variance given what is common, and how they move with that, (P, g, K, D + 1).

        Common are d, and last whether the lab's calibration error is that of groups where it may not be.
        """
        Q = self.classes
        share = np.einsum("gj,pgjk->pgk", self.rest, Q) + self.known
        slopes = self.rest[:, :, None, None] * slopes_of(softmax(with_first(self.eta), axis=-1))[..., 1:]
        variance = ((slopes @ self.of_bin) * slopes).sum(axis=(2, 4))
        with_group = (slopes @ self.by_group).sum(axis=2)  # (P, g, K, q)
        variance += ((with_group @ self.group) * with_group).sum(axis=3)
        variance += np.einsum("gj,pgjk->pgk", self.rest, Q * (1 - Q)) / self.n[:, None]
        found, other = self._classes
        either = np.einsum("gj,pgjk->pgk", self.rest, found - other)
        either *= np.sqrt(self.calibrated * (1 - self.calibrated))[:, None]
        common = np.concatenate([(slopes @ self.common).sum(axis=2), either[..., None]], axis=3)
        return share, variance, common


def _open_rows(counts: Counts, rows: Ints) -> tuple[Floats, Floats, Floats]:
    """Rows whose class is open (g, m) and known (g, K), as shares of their sum (g,), which is 1 where there are none.

    A group without rows has the bins of the whole field.
    """
    V, labels = counts.V[rows], counts.field[rows]
    given = labels.sum(axis=1)
    among = (given <= V * (1 + 1e-9) + 1e-9).all(axis=1, keepdims=True)
    rest = np.where(among, np.maximum(V - given, 0.0), V)
    known = np.where(among, labels.sum(axis=2), 0.0)
    empty = V.sum(axis=1, keepdims=True) <= 0
    total = counts.V.sum(axis=0)
    rest = np.where(empty, total if total.sum() > 0 else 1.0, rest)
    known = np.where(empty, 0.0, known)
    n = rest.sum(axis=1) + known.sum(axis=1)
    return rest / n[:, None], known / n[:, None], np.where(empty[:, 0], 1.0, n)


def expected_softmax(eta: Floats, covariance: Floats) -> Floats:
    """Mean of the softmax of normal log-odds against the first class, (…, K), by sigma points."""
    k = eta.shape[-1]
    if k <= 2:
        nodes = np.concatenate([np.zeros((1, k)), np.sqrt(3) * np.eye(k), -np.sqrt(3) * np.eye(k)])
        weights = np.array([1 - k / 3] + [1 / 6] * (2 * k))
    else:
        nodes, weights = (
            np.concatenate([np.sqrt(k) * np.eye(k), -np.sqrt(k) * np.eye(k)]),
            np.full(2 * k, 0.5 / k),
        )
    root = (
        np.sqrt(np.maximum(covariance, 0.0)) if k == 1 else np.linalg.cholesky(covariance + 1e-10 * np.eye(k))
    )
    mean = sum(
        w * softmax(with_first(eta + np.einsum("...ab,b->...a", root, z)), axis=-1)
        for z, w in zip(nodes, weights, strict=True)
    )
    mean = np.maximum(mean, 1e-15)
    return np.asarray(mean / mean.sum(axis=-1, keepdims=True))


def _drawn(
    model: Model, point: _Point, rows: Ints, common: Floats, seed: list[int], together: Floats | None = None
) -> Floats:
    """Shares (groups, n, K) with what is common of standard normals (n, D + 1); noise of a group is the group's own.

    ``together`` (groups, groups): a root of the correlations of the noise of the groups' rows.
    """
    root = np.linalg.cholesky(point.S + 1e-12 * np.eye(len(point.S)))
    d, n, place = common[:, :-1] @ root.T, len(common), ndtr(common[:, -1])
    G = len(model.counts.V)
    mean, chance, noise = (np.empty((len(rows), n, model.counts.shape[1])) for _ in range(3))
    for start in np.unique(rows // _DRAWN_TOGETHER) * _DRAWN_TOGETHER:
        # The same groups are solved together whichever are asked for, so that draws do not depend on the others.
        block = _Block.of(model, [point], np.arange(start, min(start + _DRAWN_TOGETHER, G)))
        for i in np.flatnonzero(rows // _DRAWN_TOGETHER * _DRAWN_TOGETHER == start):
            rng = np.random.default_rng([*seed, int(rows[i])])
            mean[i], chance[i] = _drawn_of_group(block, int(rows[i] - start), d, place, rng)
            noise[i] = rng.standard_normal((n, mean.shape[2]))
    if together is not None:
        noise = np.einsum("hg,gnk->hnk", together, noise)
    return np.asarray(
        softmax(np.log(np.clip(mean, 1e-12, 1.0)) + spread_on_logs(mean, chance) * noise, axis=-1)
    )


def _drawn_of_group(
    block: _Block, g: int, d: Floats, place: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Shares (n, K) of one group of a block, of changes (n, D) of the common effects, and the variance of its rows.

    ``place`` (n,): above the group's probability of having the lab's calibration error, it has none.
    """
    q, (m, k), n = block.group.shape[-1], block.eta.shape[2:], len(d)
    u = rng.standard_normal((n, q)) @ np.linalg.cholesky(block.group[0, g] + 1e-12 * np.eye(q)).T
    bins = np.linalg.cholesky(block.of_bin[0, g] + 1e-12 * np.eye(k))
    move = np.einsum("mab,nmb->nma", bins, rng.standard_normal((n, m, k)))
    move += np.einsum("mkq,nq->nmk", block.by_group[0, g], u)
    move += np.einsum("mkd,nd->nmk", block.common[0, g], d)
    move -= (place > block.calibrated[g])[:, None, None] * block.of_lab[0]
    Q = softmax(with_first(block.eta[0, g] + move), axis=-1)
    mean = np.einsum("m,nmk->nk", block.rest[g], Q) + block.known[g]
    return mean, np.einsum("m,nmk->nk", block.rest[g], Q * (1 - Q)) / block.n[g]
