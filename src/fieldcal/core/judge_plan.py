"""What labels that nobody has yet would tell of the shares behind values: the posterior with what is expected."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fieldcal.core.judge import Posterior, Verdicts
from fieldcal.types import Design, Floats, Ints

#: Slices that a plan reckons with; of more, those that are largest.
_MOST = 200


@dataclass(frozen=True)
class Expected:
    """A posterior, and what further labels are on average if it is right."""

    posterior: Posterior

    def classes(self) -> Floats:
        """(G, m, K) P(class | value) of rows without a label, in the mean."""
        G = len(self.posterior.data.rest)
        p, own = self.posterior.draws(np.arange(G)).mean(axis=1), self.posterior.judges(np.arange(G))
        joint = (p[:, :, None] * own).swapaxes(1, 2)
        return np.asarray(joint / np.maximum(joint.sum(axis=2, keepdims=True), 1e-300))

    def after(self, n: float, design: Design, given: Floats) -> Posterior:
        """With n labels more, of classes (G, m, K): as many of each class, or drawn at random, all rows at most."""
        data = self.posterior.data
        if design == "by_class":
            M = self.posterior.phi.M.mean(axis=0)
            return self._with(replace(data, given_class=data.given_class + n / len(M) * M))
        cells = data.rest * min(1.0, n / max(float(data.rest.sum()), 1e-300))
        labels = (cells[:, :, None] * given).swapaxes(1, 2)
        return self._with(replace(data, known=data.known + labels, rest=data.rest - cells))

    def _with(self, data: Verdicts) -> Posterior:
        return Posterior.of(data, seed=self.posterior.seed)


def largest(data: Verdicts) -> Ints:
    """The slices that are reckoned with."""
    size = data.rest.sum(axis=1) + data.known.sum(axis=(1, 2))
    return np.sort(np.argsort(-size, kind="stable")[:_MOST])


def part_of(data: Verdicts, rows: Ints) -> Verdicts:
    """The field of these slices alone."""
    return replace(data, known=data.known[rows], rest=data.rest[rows], counted=data.among[rows])
