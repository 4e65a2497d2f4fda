"""What labels that nobody has yet would buy: narrower intervals, and a decision between the explanations.

What every explanation says of the classes now is taken for the truth in turn, as often as it is probable. Labels are
drawn from it, and the posterior with them is made: its interval is as wide as it will be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fieldcal.core.allocation import cells_to_label, rounded
from fieldcal.core.labelled_rows import KINDS, Kind, LabelledRows
from fieldcal.core.labels import Learnt, Piece
from fieldcal.core.policy import POLICY
from fieldcal.types import Design, Floats, Ints

_TINY = 1e-300
_OPEN = 0.1  # an explanation of less probability is not reckoned with
#: Numbers of labels among which the one is sought that settles it.
_GRID = np.unique(np.round(np.geomspace(10, 100_000, 41), -1)).astype(int)


@dataclass(frozen=True)
class Outlook:
    """A posterior, and what further labels would make of it."""

    learnt: Learnt
    worth: float = 1.0  # effective rows that a row is worth

    @cached_property
    def _rest(self) -> Floats:
        """(G, m) rows that have no label."""
        return self.learnt.model.rest / self.worth

    @cached_property
    def _held(self) -> Floats:
        """(G,) rows that have one."""
        return np.asarray(self.learnt.model.known.sum(axis=1) / self.worth)

    def widths(
        self, n: int, design: Design, *, level: float, draws: int, seed: int = 0
    ) -> tuple[Floats, Floats | None]:
        """Of the intervals with n labels more: of the whole field (K,), and of a typical group (K,), if any."""
        found = [
            self._width(piece, n, design, level, np.random.default_rng([seed, i]))
            for i, piece in enumerate(self._truths(draws))
        ]
        groups = [group for _, group in found if group is not None]
        return np.mean([whole for whole, _ in found], axis=0), np.mean(groups, axis=0) if groups else None

    def _truths(self, n: int) -> Iterator[Piece]:
        """Explanations that hold in n cases."""
        pieces = self.learnt.likely
        at = np.searchsorted(np.cumsum([piece.weight for piece in pieces]), (np.arange(n) + 0.5) / n)
        return (pieces[i] for i in np.minimum(at, len(pieces) - 1))

    def _width(
        self, truth: Piece, n: int, design: Design, level: float, rng: np.random.Generator
    ) -> tuple[Floats, Floats | None]:
        after = self._after(self._drawn(truth, n, design, rng))
        whole, group = after.whole_shares().interval(level), None
        if self.learnt.model.grouped:
            has_rows = self.learnt.model.V.sum(axis=1) > 0
            group = np.median(np.subtract(*after.shares().interval(level)[::-1])[has_rows], axis=0)
        return (whole[1] - whole[0])[0], group

    def _drawn(self, truth: Piece, n: int, design: Design, rng: np.random.Generator) -> LabelledRows:
        """n labels of rows that have none, as they would come if this explanation held."""
        rest, n = self._rest, min(n, int(self._rest.sum()))
        if design == "by_score":
            cells = cells_to_label(self.learnt, rest, n, held=self._held)
        else:
            cells = rng.multinomial(n, (rest / max(rest.sum(), _TINY)).ravel()).reshape(rest.shape)
        at = np.flatnonzero(cells.any(axis=1))
        Q, cells = self.learnt.classes(truth, at), cells[at]
        if design != "by_class":
            drawn = rng.multinomial(cells, Q).swapaxes(1, 2)  # (L, K, m)
            return self._rows(at, drawn)
        K = Q.shape[2]
        share = (
            cells.sum(axis=1, keepdims=True)
            * rest[at]
            / np.maximum(rest[at].sum(axis=1, keepdims=True), _TINY)
        )
        joint = (share[:, :, None] * Q).reshape(-1, K).T  # (K, L·m)
        each = rounded(np.full(K, n / K))
        drawn = rng.multinomial(each, joint / joint.sum(axis=1, keepdims=True))
        return self._rows(at, drawn.reshape(K, len(at), -1).swapaxes(0, 1), by_class=True)

    def _rows(self, at: Ints, drawn: Floats | Ints, *, by_class: bool = False) -> LabelledRows:
        table = np.asarray(drawn * self.worth, dtype=np.float64)
        none = np.zeros(table.shape)
        return LabelledRows(at, none, table) if by_class else LabelledRows(at, table, none)

    def _after(self, more: LabelledRows) -> Learnt:
        """The posterior with these labels beside those that are known."""
        model = self.learnt.model
        labels = _together(model.labels, more)
        return replace(model, labels=labels).learn(list(self.learnt.told))

    def labels_to_settle(self) -> int | None:
        """Random labels more after which that one has been decided for which holds: label shift, or the same.

        0 where it has been; None where no number of labels in reach would: the two say nearly the same.
        """
        if max(self.learnt.weight(kind) for kind in KINDS) >= POLICY.decided:
            return 0
        open_ = [kind for kind in KINDS if kind != "other" and self.learnt.weight(kind) >= _OPEN]
        low, high = 0, len(_GRID) if open_ else 0
        while low < high:
            middle = (low + high) // 2
            settled = all(self._settles(kind, int(_GRID[middle])) for kind in open_)
            low, high = (low, middle) if settled else (middle + 1, high)
        return int(_GRID[low]) if open_ and low < len(_GRID) else None

    def _settles(self, kind: Kind, n: int) -> bool:
        return self._after(self._expected(kind, n)).weight(kind) >= POLICY.decided

    def _expected(self, kind: Kind, n: int) -> LabelledRows:
        """What n random labels are on average, if an explanation holds."""
        rest = self._rest
        size = rest.sum(axis=1)
        per_group = rounded(n * size / max(size.sum(), _TINY))
        at = np.flatnonzero(per_group)
        pieces = [piece for piece in self.learnt.pieces if piece.explanation.kind == kind]
        total = sum(piece.weight for piece in pieces)
        Q = sum(piece.weight / total * self.learnt.classes(piece, at) for piece in pieces)
        cells = (per_group / np.maximum(size, _TINY))[at, None] * rest[at]
        return self._rows(at, (cells[:, :, None] * Q).swapaxes(1, 2))


def _together(a: LabelledRows, b: LabelledRows) -> LabelledRows:
    """All labels of both."""
    groups = np.union1d(a.groups, b.groups)
    tables = [np.zeros((len(groups), *a.given_bin.shape[1:])) for _ in range(2)]
    for rows in (a, b):
        at = np.searchsorted(groups, rows.groups)
        for table, part in zip(tables, (rows.given_bin, rows.by_class), strict=True):
            table[at] += part
    return LabelledRows(groups, *tables)
