"""What a prevalence may be until labels decide: a few stories, each with its weight.

*Same*: the model is right, and the share is its mean prediction. *Label shift*: the share is URC's. *Other*: neither.
For groups the first two are told twice, of the movement of the whole field and of the difference of the group. The
estimate is the mean over the stories that trust weighs, the interval that of their mixture, and a draw is a draw from
one of them, the same for all groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from fieldcal.core.intervals import beta_interval, interval_of_mixture, perturbed
from fieldcal.core.policy import POLICY
from fieldcal.core.reweight import Step, safe_log
from fieldcal.core.trust import Trust
from fieldcal.types import Floats


@dataclass(frozen=True)
class Parts:
    """What the estimate of every group is made of."""

    mean_prediction: Floats  # (G, K)
    urc: Floats  # (G, K) URC's estimate
    whole: Floats  # (K,) URC's estimate of the whole field
    average: Floats  # (K,) the mean prediction of the whole field
    n: Floats  # (G,) rows that the group is worth

    def corner(self, overall: bool, between: bool, urc: Floats | None = None) -> Floats:
        """The prevalence (…, G, K) if the whole field moved by label shift or not, and the groups differ by it or not.

        ``urc``: draws of it, in place of the estimate.
        """
        urc = self.urc if urc is None else urc
        if overall == between:
            return urc if overall else np.broadcast_to(self.mean_prediction, urc.shape)
        moved, average = safe_log(self.whole), safe_log(self.average)
        if overall:
            return np.broadcast_to(
                softmax(safe_log(self.mean_prediction) + moved - average, axis=-1), urc.shape
            )
        return np.asarray(softmax(average + safe_log(urc) - moved, axis=-1))

    def mixed(self, overall: float, between: float, urc: Floats | None = None) -> Floats:
        """The mean over the four corners, weighed by the trust in each question."""
        corners = ((w, o, b) for o, x in _either(overall) for b, y in _either(between) if (w := x * y) > 0)
        return np.asarray(sum(w * self.corner(o, b, urc) for w, o, b in corners))


def _either(trust: float) -> tuple[tuple[bool, float], tuple[bool, float]]:
    return (False, 1 - trust), (True, trust)


@dataclass(frozen=True)
class Story:
    """One answer to what the prevalence is, and how sure it would be."""

    weight: float
    centre: Callable[[Floats], Floats]  # of URC's prevalences, or of draws of them: (…, G, K)
    variance: Floats  # (G, K) around that
    follows: float = 0.0  # how much of the posterior's own spread it has

    def weighed(self, share: float) -> Story:
        """The same with a share of its weight."""
        return replace(self, weight=share * self.weight)


@dataclass(frozen=True)
class Doubt:
    """Everything that makes a prevalence uncertain beside the question which story holds."""

    parts: Parts
    spread: Floats  # (G, K) standard deviation of URC's posterior
    at_zero: NDArray[np.bool_]  # (G, K) where URC's own interval reaches 0
    at_one: NDArray[np.bool_]
    labels: Floats  # (G, K) variance of the label share around the mean recalibrated prediction
    steps: tuple[Step, ...]  # that predictions take
    miscalibrated: Floats  # (K,) by how much the mean prediction misses the lab's own shares
    #: (K,) variance of a rehearsed group beyond noise, on the logit scale; None where nothing was rehearsed
    excess: Floats | None = None

    def same(self, overall: bool, moved: bool) -> Floats:
        """Variance of the mean prediction, or of what the movement of the whole field makes of it."""
        value = self.parts.corner(overall, False)
        loose = POLICY.same_logit[0 if moved else 1] * value * (1 - value)
        noise = self.labels * (1.0 if moved else 1 + POLICY.unseen_movement**2)
        return np.asarray(noise + loose**2 + self.miscalibrated**2)

    def label_shift(self) -> Floats:
        """Variance of the realised share around URC's, beside the posterior's own."""
        p = self.parts.urc
        return np.asarray(p * (1 - p) / np.maximum(self.parts.n, 1.0)[:, None])

    def other(self, weight: float) -> Story:
        """Neither: somewhere around the middle of the two, as far as they are apart and further."""
        ends = [logit(np.clip(p, 1e-6, 1 - 1e-6)) for p in (self.parts.mean_prediction, self.parts.urc)]
        middle, apart = expit((ends[0] + ends[1]) / 2), np.abs(ends[1] - ends[0])
        middle = middle / middle.sum(axis=1, keepdims=True)
        alone, share = POLICY.other_logit
        variance = self.labels + (middle * (1 - middle) * (alone + share * apart)) ** 2
        return Story(weight, lambda urc: np.broadcast_to(middle, urc.shape), variance)


def posterior_alone(doubt: Doubt, trust: Trust) -> bool:
    """Whether the caller leaves no story but label shift, so that URC's posterior itself is the answer."""
    return trust.set_by_caller and trust.overall == trust.between == 1.0 and doubt.excess is None


def tell(doubt: Doubt, trust: Trust, *, moved: bool, grouped: bool) -> list[Story]:
    """The stories of a field: those that its caller weighs, those that a rehearsal leaves, or all."""
    if trust.set_by_caller:
        return _told_by_caller(doubt, trust, moved=moved, grouped=grouped)
    seen = trust.rehearsed if grouped else 0.0
    told = [story.weighed(1 - seen) for story in _undecided(doubt, trust, moved=moved, grouped=grouped)]
    return _after_rehearsal(doubt, trust, moved=moved) + (told if seen < 1 else []) if seen > 0 else told


def _told_by_caller(doubt: Doubt, trust: Trust, *, moved: bool, grouped: bool) -> list[Story]:
    """The corners with the caller's weights, or the one mixture with what the rehearsal adds to it."""
    if doubt.excess is not None:
        return [_rehearsed(doubt, trust.overall, trust.between, 1.0)]
    corners = _corners(trust.overall, trust.between, grouped=grouped)
    return [_corner(doubt, w, o, b, moved=moved) for o, b, w in corners if w > 0]


def _corners(overall: float, between: float, *, grouped: bool) -> list[tuple[bool, bool, float]]:
    """Whether label shift holds overall and between groups, and how probable that is; "neither" comes first."""
    if not grouped:  # one question alone
        return [(o, o, x) for o, x in _either(overall)]
    return [(o, b, x * y) for o, x in _either(overall) for b, y in _either(between)]


def _after_rehearsal(doubt: Doubt, trust: Trust, *, moved: bool) -> list[Story]:
    """Groups differ as the lab's own did; how the whole field moved is still open."""
    up = max(trust.overall, POLICY.story_label_shift) if moved else 0.0
    rest = POLICY.story_other if moved else 0.0
    weights = {0.0: (1 - up) * (1 - rest), 1.0: up}
    told = [_rehearsed(doubt, o, trust.between, trust.rehearsed * w) for o, w in weights.items() if w > 0]
    unknown = trust.rehearsed * (1 - up) * rest
    return told + ([doubt.other(unknown)] if unknown > 0 else [])


def _undecided(doubt: Doubt, trust: Trust, *, moved: bool, grouped: bool) -> list[Story]:
    """The stories of a field that no label speaks of."""
    least = POLICY.story_label_shift
    # Groups of a field that has not moved have no story of how it moved.
    up = max(trust.overall, least) if moved or not grouped else 0.0
    corners = _corners(up, max(trust.between, least), grouped=grouped)
    rest = POLICY.story_other if moved or grouped else 0.0
    told = [
        _corner(doubt, w * (1.0 if o or b else 1 - rest), o, b, moved=moved) for o, b, w in corners if w > 0
    ]
    unknown = corners[0][2] * rest
    return told + ([doubt.other(unknown)] if unknown > 0 else [])


def _corner(doubt: Doubt, weight: float, overall: bool, between: bool, *, moved: bool) -> Story:
    variance = doubt.label_shift() if between else doubt.same(overall, moved)
    return Story(weight, lambda urc: doubt.parts.corner(overall, between, urc), variance, float(between))


def _rehearsed(doubt: Doubt, overall: float, between: float, weight: float) -> Story:
    """Groups that do as the lab's own did: the mixture itself, missed as far as it was missed there."""
    value = doubt.parts.mixed(overall, between)
    excess = 0.0 if doubt.excess is None else doubt.excess
    variance = doubt.labels + (value * (1 - value)) ** 2 * excess
    return Story(weight, lambda urc: doubt.parts.mixed(overall, between, urc), variance, between)


def moments(stories: list[Story], doubt: Doubt) -> tuple[list[Floats], list[Floats], Floats]:
    """Means (G, K) and variances (G, K) of the stories, and their weights."""
    weights = np.array([story.weight for story in stories])
    means = [story.centre(doubt.parts.urc) for story in stories]
    variances = [story.variance + (story.follows * doubt.spread) ** 2 for story in stories]
    return means, variances, weights / weights.sum()


def mixture_interval(
    stories: list[Story], doubt: Doubt, level: float, *, estimate: Floats
) -> tuple[Floats, Floats]:
    """Equal-tailed interval of the mixture; to 0 or 1 where it comes within half a row of it.

    Each story is normal on the logit scale, where a million groups cost seconds; one story alone is a Beta.
    """
    means, variances, weights = moments(stories, doubt)
    n = doubt.parts.n
    if len(stories) == 1:
        return beta_interval(means[0], variances[0], level, n=n, holds=estimate)
    # What a story that is not ruled out leaves possible is possible; then the other end has the whole tail.
    heard = sum(story.weight * (story.follows > 0) for story in stories) >= POLICY.story_heard
    ends = heard & doubt.at_zero, heard & doubt.at_one
    return interval_of_mixture(means, variances, weights, level, n=n, holds=estimate, ends=ends)


def story_draws(stories: list[Story], urc: Floats, rng: np.random.Generator) -> Floats:
    """Joint draws (G, D, K): every draw tells one story of all groups; urc (G, D, K) are draws of URC's posterior."""
    weights = np.array([story.weight for story in stories])
    D = urc.shape[1]
    chosen = rng.permutation(np.searchsorted(np.cumsum(weights / weights.sum()), (np.arange(D) + 0.5) / D))
    draws = np.empty(urc.shape)
    for i, story in enumerate(stories):
        at = np.flatnonzero(np.minimum(chosen, len(stories) - 1) == i)
        if len(at):
            centre = np.moveaxis(story.centre(np.moveaxis(urc[:, at], 1, 0)), 0, 1)
            draws[:, at] = perturbed(centre, story.variance[:, None, :], rng)
    return draws
