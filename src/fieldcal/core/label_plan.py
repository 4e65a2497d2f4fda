"""What further labels would do: narrower intervals, and a decision between the hypotheses.

Each hypothesis is taken for the truth in turn, as often as it is probable. Further labels are those expected under it;
the posterior with them has the interval that they would leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldcal.core.allocation import cells_to_label
from fieldcal.core.field_posterior import Posterior
from fieldcal.core.hypotheses import KINDS, Kind
from fieldcal.core.policy import POLICY
from fieldcal.types import Design, Floats

_TINY = 1e-300
_OPEN = 0.1  # a hypothesis of less probability is left out
#: Numbers of labels among which the one is searched that settles which hypothesis holds.
_GRID = np.unique(np.round(np.geomspace(10, 100_000, 41), -1)).astype(int)


@dataclass(frozen=True)
class Outlook:
    """A posterior, and what further labels would make of it."""

    posterior: Posterior
    rows_per_row: float = 1.0  # effective rows of a row

    @cached_property
    def _rest(self) -> Floats:
        """(G, m) rows that have no label."""
        return self.posterior.open_rows() / self.rows_per_row

    @cached_property
    def _held(self) -> Floats:
        """(G,) rows that have one."""
        counts = self.posterior.model.counts
        return np.asarray(counts.field[: len(counts.V)].sum(axis=(1, 2)) / self.rows_per_row)

    def widths(self, n: int, design: Design, *, level: float) -> tuple[Floats, Floats | None]:
        """Of the intervals with n labels more: of the whole field (K,), and of a typical group (K,), if any."""
        kinds = [kind for kind in KINDS if self.posterior.weight(kind) >= _OPEN]
        weights = np.array([self.posterior.weight(kind) for kind in kinds])
        found = [self._width(kind, n, design, level) for kind in kinds]
        whole = np.average([w for w, _ in found], axis=0, weights=weights)
        if not self.posterior.model.grouped:
            return whole, None
        return whole, np.average([g for _, g in found], axis=0, weights=weights)

    def _width(self, kind: Kind, n: int, design: Design, level: float) -> tuple[Floats, Floats]:
        after = self._after(kind, n, design)
        rows = after.model.counts.V.sum(axis=1)
        lower, upper = after.whole().interval(level, rows.sum(keepdims=True))
        of_groups = np.subtract(*after.shares().interval(level, rows)[::-1])
        return (upper - lower)[0], np.median(of_groups[rows > 0], axis=0)

    def _after(self, kind: Kind, n: int, design: Design) -> Posterior:
        """The posterior with n labels more of rows that have none, as a hypothesis expects them."""
        counts, rest = self.posterior.model.counts, self._rest
        G, n = len(counts.V), min(n, int(rest.sum()))
        Q = self.posterior.classes_under(kind, np.arange(G))
        if design == "by_class":
            joint = np.einsum("gj,gjk->kj", rest, Q)
            joint = n / len(joint) * joint / np.maximum(joint.sum(axis=1, keepdims=True), _TINY)
            known = 0.0 if counts.by_class is None else counts.by_class
            return self.posterior.with_counts(np.asarray(counts.field), known + self.rows_per_row * joint)
        if design == "by_score":
            cells = cells_to_label(self.posterior, rest, n, held=self._held).astype(np.float64)
        else:
            cells = n * rest / max(float(rest.sum()), _TINY)
        field = np.array(counts.field)
        field[:G] += self.rows_per_row * (cells[:, :, None] * Q).swapaxes(1, 2)
        return self.posterior.with_counts(field, counts.by_class)

    def labels_to_settle(self) -> int | None:
        """Random labels more after which it is decided which holds: label shift, or unchanged predictions.

        0 where it is; None where no number of labels in reach would decide, as both imply nearly the same shares.
        """
        if max(self.posterior.weight(kind) for kind in KINDS) >= POLICY.decided:
            return 0
        open_ = [kind for kind in KINDS if kind != "other" and self.posterior.weight(kind) >= _OPEN]
        low, high = 0, len(_GRID) if open_ else 0
        while low < high:
            middle = (low + high) // 2
            settled = all(self._settles(kind, int(_GRID[middle])) for kind in open_)
            low, high = (low, middle) if settled else (middle + 1, high)
        return int(_GRID[low]) if open_ and low < len(_GRID) else None

    def _settles(self, kind: Kind, n: int) -> bool:
        return self._after(kind, n, "random").weight(kind) >= POLICY.decided
