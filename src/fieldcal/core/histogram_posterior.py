"""The posterior of shares where no row of the field has a label: one normal per hypothesis, in closed form.

Under *label shift* a share is that of the URC posterior, if predictions are *unchanged* it is their mean, and it is
around the middle of both if *neither* holds. Groups have the first two twice: the shift of the whole field, and the
differences between groups. The estimate is the mean weighted by trust, the interval that of the mixture of all
hypotheses, and a draw is from one of them, the same for all groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logit, softmax

from fieldcal.core.hypotheses import ShareHypothesis, share_hypotheses
from fieldcal.core.intervals import Shares, beta_interval, interval_of_mixture, perturbed
from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Summary
from fieldcal.core.reweight import Step, safe_log
from fieldcal.core.trust import Trust
from fieldcal.types import Floats


@dataclass(frozen=True)
class HistogramShares(Shares):
    """Of hypotheses that no label weighs, beside the posterior under label shift."""

    label_shift: Summary | None  # None where no interval is asked for
    follow: float  # probability of hypotheses in which groups differ by label shift
    alone: bool  # whether the caller left label shift alone, so that the interval is that of its posterior

    def interval(self, level: float, n: Floats) -> tuple[Floats, Floats]:
        """Equal-tailed, of shares of so many rows (n,); one hypothesis alone is a Beta."""
        means, variances, found = list(self.means), list(self.variances), self.label_shift
        if found is not None and self.alone:
            return found.lower, found.upper
        if len(means) == 1:
            return beta_interval(means[0], variances[0], level, n=n, holds=self.estimate)
        ends = None
        # An end that label shift leaves possible is possible, if the interval must hold it; then the other end has the
        # whole tail.
        if found is not None and self.follow >= 1 - level:
            ends = found.lower <= 0, found.upper >= 1
        return interval_of_mixture(means, variances, self.weights, level, n=n, holds=self.estimate, ends=ends)


@dataclass(frozen=True)
class Histograms:
    """Shares of G groups under either hypothesis, as their histograms imply them, and what they are uncertain by."""

    mean_prediction: Floats  # (G, K)
    urc: Floats  # (G, K) under label shift
    average: Floats  # (K,) mean prediction of the whole field
    whole: Floats  # (K,) of the whole field under label shift
    n: Floats  # (G,) effective rows
    label_shift: Summary | None  # the posterior under label shift
    steps: tuple[Step, ...]  # that predictions take
    noise: Floats  # (G, K) variance of shares of the rows around their mean recalibrated prediction
    miscalibrated: Floats  # (K,) distance between mean predictions and shares in the lab
    #: (K,) variance on the logit scale by which estimates of lab groups missed beyond noise in cross-validation; None
    #: without one
    excess: Floats | None = None

    def shares(self, overall: float, between: float, urc: Floats | None = None) -> Floats:
        """Prevalences (…, G, K) if the shift of the whole field, and the differences of groups, are label shift so far.

        ``urc``: draws (…, G, K) of the shares under label shift, in place of the estimate.
        """
        urc = self.urc if urc is None else urc
        cells = ((x * y, o, b) for o, x in _either(overall) for b, y in _either(between))
        return np.asarray(sum(w * self._corner(o, b, urc) for w, o, b in cells if w > 0))

    def _corner(self, overall: bool, between: bool, urc: Floats) -> Floats:
        if overall == between:
            return urc if overall else np.broadcast_to(self.mean_prediction, urc.shape)
        shifted, average = safe_log(self.whole), safe_log(self.average)
        if overall:
            moved = softmax(safe_log(self.mean_prediction) + shifted - average, axis=-1)
            return np.broadcast_to(moved, urc.shape)
        return np.asarray(softmax(average + safe_log(urc) - shifted, axis=-1))

    def middle(self) -> tuple[Floats, Floats]:
        """Between unchanged predictions and label shift on the logit scale, and its standard deviation there."""
        ends = [logit(np.clip(p, 1e-6, 1 - 1e-6)) for p in (self.mean_prediction, self.urc)]
        middle, distance = expit((ends[0] + ends[1]) / 2), np.abs(ends[1] - ends[0])
        return middle / middle.sum(axis=1, keepdims=True), POLICY.other_sd + distance / 2


def _either(probability: float) -> tuple[tuple[bool, float], tuple[bool, float]]:
    return (False, 1 - probability), (True, probability)


@dataclass(frozen=True)
class HistogramPosterior:
    """Shares of groups, or of one population, without labels."""

    histograms: Histograms
    trust: Trust
    shifted: bool  # whether the field's histogram differs from the lab's beyond noise
    grouped: bool

    @cached_property
    def hypotheses(self) -> tuple[ShareHypothesis, ...]:
        validated = self.histograms.excess is not None
        return share_hypotheses(self.trust, shifted=self.shifted, grouped=self.grouped, validated=validated)

    @property
    def alone(self) -> bool:
        """Whether the caller left no hypothesis but label shift, so that the URC posterior itself is the answer."""
        given = self.trust.set_by_caller and self.histograms.excess is None
        return given and self.trust.overall == self.trust.between == 1.0

    def shares(self) -> Shares:
        found = self.histograms
        sd = 0.0 if found.label_shift is None else found.label_shift.sd
        weights = np.array([h.weight for h in self.hypotheses])
        return HistogramShares(
            weights / weights.sum(),
            np.array([self._centre(h, found.urc) for h in self.hypotheses]),
            np.array([self._variance(h, sd) + (h.between * sd) ** 2 for h in self.hypotheses]),
            found.shares(self.trust.overall, self.trust.between if self.grouped else self.trust.overall),
            label_shift=found.label_shift,
            follow=float(sum(h.weight for h in self.hypotheses if h.between > 0)),
            alone=self.alone,
        )

    def draws(self, urc: Floats, rng: np.random.Generator) -> Floats:
        """Joint draws (G, D, K) from draws of the URC posterior: every draw is under one hypothesis for all groups."""
        if self.alone:
            return urc
        weights, D = np.array([h.weight for h in self.hypotheses]), urc.shape[1]
        place = np.searchsorted(np.cumsum(weights / weights.sum()), (np.arange(D) + 0.5) / D)
        chosen = rng.permutation(place)
        draws = np.empty(urc.shape)
        for i, hypothesis in enumerate(self.hypotheses):
            at = np.flatnonzero(np.minimum(chosen, len(weights) - 1) == i)
            if len(at):
                centre = self._centre(hypothesis, np.moveaxis(urc[:, at], 1, 0))
                variance = self._variance(hypothesis, urc.std(axis=1))[:, None, :]
                draws[:, at] = perturbed(np.moveaxis(centre, 0, 1), variance, rng)
        return draws

    def _centre(self, hypothesis: ShareHypothesis, urc: Floats) -> Floats:
        if hypothesis.kind == "other":
            return np.broadcast_to(self.histograms.middle()[0], urc.shape)
        return self.histograms.shares(hypothesis.overall, hypothesis.between, urc)

    def _variance(self, hypothesis: ShareHypothesis, sd: Floats | float) -> Floats:
        """(G, K) around the centre, beside the posterior's own under label shift, with standard deviations sd."""
        found = self.histograms
        if hypothesis.kind == "other":
            middle, sd = found.middle()
            return np.asarray(found.noise + (middle * (1 - middle) * sd) ** 2)
        if hypothesis.kind == "lab_groups":
            p = found.shares(hypothesis.overall, hypothesis.between)
            return np.asarray(
                found.noise + (p * (1 - p)) ** 2 * (0.0 if found.excess is None else found.excess)
            )
        if hypothesis.between:
            return np.asarray(found.urc * (1 - found.urc) / np.maximum(found.n, 1.0)[:, None])
        p = found.shares(hypothesis.overall, 0.0)
        small = (POLICY.shift_sd * p * (1 - p)) ** 2
        if not self.shifted:  # it may have shifted within the noise of its histogram
            small = small * np.square(sd) / np.maximum(small + np.square(sd), 1e-300)
        return np.asarray(found.noise + small + found.miscalibrated**2)
