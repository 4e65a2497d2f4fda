"""How the classes of a field may have come about, before a label is seen: what `core.labels` weighs.

*Label shift*: every group has URC's prevalences. *Same*: the lab's classes in every bin. *Other*: anything around the
two. For groups the question is asked of the whole field, and of how its groups differ; a rehearsal answers the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fieldcal.core.intervals import spread_on_logs
from fieldcal.core.labelled_rows import KINDS, Explanation, Kind
from fieldcal.core.policy import POLICY
from fieldcal.core.reweight import safe_log
from fieldcal.core.trust import Rehearsal, Trust, excess_variance
from fieldcal.types import Floats

_LEAST = 1e-4  # of a share whose logarithm is taken
_CLOSEST = 0.02  # standard deviation of what a group has alone, however well the lab's own groups were met
_WIDEST = 3.0  # standard deviation of a tilt: anything at all


@dataclass(frozen=True)
class Belief:
    """What is known of a field without its labels."""

    p_lab: Floats  # (K,)
    urc: Floats  # (G, K)
    sd: Floats  # (G, K) of URC's posterior
    whole: Floats  # (K,) URC's estimate of the whole field
    whole_sd: Floats  # (K,)
    trust: Trust
    moved: bool
    grouped: bool
    rehearsal: Rehearsal | None = None
    by_class: bool = (
        False  # whether all labels were chosen by class, so that none tells of the shares themselves
    )

    def explanations(self) -> list[Explanation]:
        """All that are possible; their weights sum to one."""
        place = 0 if self.moved else 1
        scales = POLICY.bins_off, POLICY.bins_off_weights[place]
        if self.grouped:
            scales = POLICY.group_bins_off, POLICY.group_bins_off_weights[place]
        return [
            Explanation(kind, weight * part * share, tilt, variance, own, off, between, group_off)
            for kind, weight, common, variance in self._overall()
            for part, between, apart, own, group_off in self._between()
            for tilt in [common + apart]
            for off, share in zip(*scales, strict=True)
        ]

    def _overall(self) -> Iterator[tuple[Kind, float, Floats, Floats]]:
        """Of the whole field: what each kind says, its tilt (1, K), and how far that may be off (K,)."""
        place = 0 if self.moved else 1
        moved = centred(self.whole, self.p_lab)
        noise = log_variance(self.whole, self.whole_sd)
        untested = POLICY.untested_off[place] ** 2 if self.by_class else 0.0
        told = {
            "label_shift": (moved, noise + POLICY.label_shift_off[place] ** 2 + untested),
            "same": (0 * moved, POLICY.same_off[place] ** 2 + untested + self._unseen(noise)),
            "other": (moved / 2, (np.abs(moved) / 2 + POLICY.other_off[place]) ** 2),
        }
        for kind, weight in zip(KINDS, self._weights(), strict=True):
            if weight > 0:
                tilt, variance = told[kind]
                yield kind, weight, tilt[None], variance

    def _unseen(self, noise: Floats) -> Floats:
        """Variance of a movement that the histogram could not have shown, where it shows none, (K,)."""
        return 0 * noise if self.moved else POLICY.unseen_by_histogram * np.minimum(noise, 1.0)

    def _weights(self) -> tuple[float, float, float]:
        """Of the kinds; a caller's trust leaves no third."""
        if self.trust.set_by_caller:
            return self.trust.overall, 1 - self.trust.overall, 0.0
        return POLICY.explanations[0 if self.moved else 1]

    def _between(self) -> Iterator[tuple[float, float, Floats, Floats | None, float | None]]:
        """Of groups: a weight, how much of their differences is followed, these (G, K), and how far each may be off."""
        if not self.grouped:
            yield 1.0, 0.0, np.zeros((1, len(self.p_lab))), None, None
            return
        apart, noise = centred(self.urc, self.whole), log_variance(self.urc, self.sd)
        trust, seen = self.trust, min(self.trust.rehearsed, POLICY.rehearsal_heard)
        if self.rehearsal is not None and seen > 0:
            t = trust.between
            excess = spread_on_logs(
                self.urc, excess_variance(self.rehearsal, t) * (self.urc * (1 - self.urc)) ** 2
            )
            yield seen, t, t * apart, t**2 * noise + np.maximum(excess**2, _CLOSEST**2), None
        follow = trust.between if trust.set_by_caller else max(trust.between, POLICY.story_label_shift)
        for weight, z in ((1 - follow, 0.0), (follow, 1.0)):
            for off, share in zip(POLICY.group_off, POLICY.group_off_weights, strict=True):
                if (part := (1 - seen) * weight * share) > 0:
                    yield part, z, z * apart, z * noise + off**2, off


def centred(p: Floats, base: Floats) -> Floats:
    """``log p / base``, with mean zero over the classes."""
    logs = safe_log(np.maximum(p, _LEAST)) - safe_log(np.maximum(base, _LEAST))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def log_variance(p: Floats, sd: Floats) -> Floats:
    """Variance of independent noise on the logarithms of shares p that have this standard deviation."""
    return np.asarray(np.minimum(spread_on_logs(np.clip(p, _LEAST, 1.0), sd**2), _WIDEST) ** 2)
