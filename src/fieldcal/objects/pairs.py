"""Pairs: items that several systems were judged on, so that what two of them share is taken off their difference."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import group_keys
from fieldcal.objects.judged import Judged
from fieldcal.types import Floats, Ints, Keys

NONE = -1  # in place of a bin or a class


@dataclass(frozen=True, eq=False)
class Pairs:
    """What was said of every item in every group. Made by `fieldcal.pairs`.

    Attributes
    ----------
    groups : the groups
    bins, classes : (items, G) the bin of the value, and the class where it is known; −1 for none
    lab : digest of the lab whose bins these are
    """

    groups: Keys
    bins: Ints
    classes: Ints
    lab: str

    def __repr__(self) -> str:
        both = int(((self.bins >= 0).sum(axis=1) > 1).sum())
        return (
            f"Pairs: {len(self.bins):,} items, {both:,} of them in two or more of {len(self.groups):,} groups"
        )

    def correlations(self, judged: Judged, groups: list[Hashable], rows: Ints, of: int) -> Floats:
        """(G, G) correlations of the noise that rows bring into the shares of a class, between groups.

        A row moves the estimate of its group by a score: ``P(k | value) / p_k − 1``, or ``1 / p_k − 1`` and −1 where
        the class is known. Over shared items the scores of two groups correlate; the rest of their rows do not. What is
        not known of a group's own judge is no noise of rows, and does not correlate.
        """
        at = group_keys.positions(self.groups, tuple(map(group_keys.normalize, groups)))
        if (at < 0).any():
            missing = groups[int(np.argmax(at < 0))]
            raise InputError(
                f"No item of the pairs is of group {group_keys.show(missing)!r:.60}. Make pairs of the same rows "
                "that were counted."
            )
        scores = [self._scores(judged, int(g), int(row), of) for g, row in zip(at, rows, strict=True)]
        worth = np.sqrt([_rows_are_noise(judged, int(row)) for row in rows])
        found = np.eye(len(groups))
        for a in range(len(groups)):
            for b in range(a):
                both = np.isfinite(scores[a]) & np.isfinite(scores[b])
                norm = np.sqrt(np.nansum(scores[a] ** 2) * np.nansum(scores[b] ** 2))
                shared = float(scores[a][both] @ scores[b][both]) / norm if norm > 0 else 0.0
                found[a, b] = found[b, a] = np.clip(shared, -0.99, 0.99) * worth[a] * worth[b]
        return found

    def _scores(self, judged: Judged, group: int, row: int, of: int) -> Floats:
        """(items,) of one group; NaN for items that it does not have."""
        M = judged.posterior.phi.M.mean(axis=0)
        p = judged.posterior.draws(np.array([row]))[0].mean(axis=0)
        bins, classes = self.bins[:, group], self.classes[:, group]
        by_value = M[of] / np.maximum(p @ M, 1e-12) - 1
        by_class = np.where(np.arange(len(p)) == of, 1 / max(p[of], 1e-12), 0.0) - 1
        scores = np.where(classes >= 0, by_class[classes], by_value[bins])
        scores = np.where(bins >= 0, scores, np.nan)
        return np.asarray(scores - np.nanmean(scores) if (bins >= 0).any() else scores)


def _rows_are_noise(judged: Judged, row: int) -> float:
    """The share of a slice's variance that its rows bring, and not what is unknown of its judge."""
    posterior = judged.posterior
    if posterior.phi.kappa is None:
        return 1.0
    n, p = posterior.data.rest[row].sum(), posterior.draws(np.array([row]))[0]
    known = posterior.data.known[row].sum(axis=1)
    q = np.einsum("nk,nkj->nj", p, posterior.phi.M)
    own = (posterior.phi.M * (1 - posterior.phi.M)).sum(axis=2) / (posterior.phi.kappa[:, None] + known + 1)
    ratio = (q * (1 - q)).sum(axis=1) / np.maximum((p**2 * own).sum(axis=1), 1e-12)
    return float(np.mean(1 / (1 + max(n - 1, 0) / ratio)))
