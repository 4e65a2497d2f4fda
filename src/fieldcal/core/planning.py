"""How wide intervals will be: with more field or lab rows, with further labels, and which cells to label next.

With labels, each hypothesis is taken for the truth in turn, as often as it is probable. Further labels are those
expected under it; the posterior with them has the interval that they would leave.

The next labels go where each takes most from the variance of the share of the whole field, by the joint covariance of
the class shares of the bins under the posterior: to bins with many rows and mixed classes. Where the posterior is wrong
about the bins, the labels that would show it are missing. So only as many labels are chosen this way as the likeliest
hypothesis is probable, without changes of single bins; the others follow the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from fieldcal.core.field_posterior import ModelPosterior
from fieldcal.core.goodness_of_fit import histogram_covariance
from fieldcal.core.hypotheses import KINDS, Kind
from fieldcal.core.policy import POLICY
from fieldcal.types import Design, Floats, Ints

_FOREVER = 1e12  # rows that nobody will ever have
_LIMIT = 1e6  # times as many rows as there are
_NOTHING = 1e-9  # information that leaves a share of one anywhere


@dataclass(frozen=True)
class Width:
    """Variance of one class's estimated prevalence, and its three parts."""

    variance: float
    sampling: float  # what labels on the field rows themselves would leave
    separability: float  # added because predictions are not labels
    lab: float  # added because M was estimated from few lab rows


def prevalence_variance(M: Floats, p: Floats, *, n: float, rows: Floats) -> Floats:
    """Variances of the estimated prevalences (K,), from ``n`` field rows and ``rows`` lab rows per class.

    Where no histogram shows a direction of p, the variance is huge and not infinite.
    """
    keep = slice(0, M.shape[1] - 1)
    S = histogram_covariance(M, p[None], np.array([float(n)]), rows=rows)[0, keep, keep]
    B = (M[:-1] - M[-1])[:, keep]
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))  # the information is the same, the numbers are tamer
    information = (B / scale) @ np.linalg.pinv(S / np.outer(scale, scale), hermitian=True) @ (B / scale).T
    values, vectors = np.linalg.eigh(information)
    classes = np.vstack([np.eye(len(B)), np.full(len(B), -1.0)])  # the last is what the others leave
    return np.asarray((np.square(classes @ vectors) / np.maximum(values, _NOTHING)).sum(axis=1))


def width_parts(M: Floats, p: Floats, *, k: int, n: float, rows: Floats) -> Width:
    """The three parts of the variance of class ``k``."""
    total = float(prevalence_variance(M, p, n=n, rows=rows)[k])
    known_lab = float(prevalence_variance(M, p, n=n, rows=np.full(len(M), _FOREVER))[k])
    labels = float(p[k] * (1 - p[k]) / n)
    return Width(total, min(labels, total), max(known_lab - labels, 0.0), max(total - known_lab, 0.0))


def rows_to_reach(
    target: float, M: Floats, p: Floats, *, k: int, n: float, rows: Floats
) -> tuple[float | None, float | None]:
    """How many times the field rows, and how many times the lab rows, bring the variance of class ``k`` down to the
    target; None if none can.
    """

    def more_field(times: float) -> float:
        return float(prevalence_variance(M, p, n=n * times, rows=rows)[k])

    def more_lab(times: float) -> float:
        return float(prevalence_variance(M, p, n=n, rows=rows * times)[k])

    return _times(more_field, target), _times(more_lab, target)


def _times(variance: Callable[[float], float], target: float) -> float | None:
    """The factor at which a falling variance meets the target; None if it does not within `_LIMIT`."""
    from scipy.optimize import brentq

    if variance(_LIMIT) > target:
        return None
    if variance(1.0) <= target:
        return 1.0
    return float(np.exp(brentq(lambda c: variance(float(np.exp(c))) - target, 0.0, np.log(_LIMIT))))


def labels_to_decide(one: Floats, other: Floats, *, power: float = 0.9, most: int = 100_000) -> int | None:
    """Labelled rows, drawn at random, that tell two prevalences (K,) apart; None if no number that anyone has does.

    For the class that tells most: a one-sided test at 5 % with this power.
    """
    middle = np.clip((one + other) / 2, 1e-6, 1 - 1e-6)
    apart = float((np.square(one - other) / (middle * (1 - middle))).max())
    n = (ndtri(0.95) + ndtri(power)) ** 2 / max(apart, 1e-300)
    return int(np.ceil(max(n, 10.0))) if n <= most else None


def rows_behind(rate: float, width: float, level: float) -> float | None:
    """How many rows give a rate an interval of this width, by a Beta with Jeffreys' prior; None if none does."""
    from scipy.optimize import brentq

    ends = np.array([(1 - level) / 2, (1 + level) / 2])

    def surplus(log_rows: float) -> float:
        rows = np.exp(log_rows)
        low, high = betaincinv(rate * rows + 0.5, (1 - rate) * rows + 0.5, ends)
        return float(high - low - width)

    few, many = np.log(1e-3), np.log(_FOREVER)
    if surplus(few) <= 0:
        return None
    return float(np.exp(brentq(surplus, few, many))) if surplus(many) < 0 else _FOREVER


_TINY = 1e-300
_OPEN = 0.1  # a hypothesis of less probability is left out
#: Numbers of labels among which the one is searched that settles which hypothesis holds.
_GRID = np.unique(np.round(np.geomspace(10, 100_000, 41), -1)).astype(int)


@dataclass(frozen=True)
class Outlook:
    """A posterior, and what further labels would make of it."""

    posterior: ModelPosterior
    rows_per_row: float = 1.0  # effective rows of a row

    @cached_property
    def _rest(self) -> Floats:
        return self.posterior.open_rows() / self.rows_per_row

    @cached_property
    def _held(self) -> Floats:
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

    def _after(self, kind: Kind, n: int, design: Design) -> ModelPosterior:
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


_DRAWS, _STEPS, _HALVINGS = 512, 500, 100
_LEAST = 1e-9  # of a weight, against the largest: cells that say nothing come last
_TINY = 1e-300


def rounded(amounts: Floats) -> Ints:
    """Whole numbers with the same sum, which is whole: each, and each run of them, within one of what it was."""
    ends = np.round(np.cumsum(amounts), 6)  # whole but for the last digits is whole
    return np.asarray(np.diff(np.floor(ends + 0.5), prepend=0.0), dtype=np.int64)


def filled(weight: Floats, *, held: Floats, room: Floats, n: Floats) -> Floats:
    """Amounts (…, c) that bring what is held up to multiples of the weights, n in all, as far as there is room."""
    largest = np.max(weight, axis=-1, keepdims=True, initial=0.0)
    weight = np.maximum(weight / np.where(largest > 0, largest, 1.0), _LEAST)
    n = np.minimum(n, room.sum(axis=-1))
    low, high = np.zeros(n.shape), ((held + room) / weight).max(axis=-1, initial=0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = np.clip(middle[..., None] * weight - held, 0.0, room).sum(axis=-1) >= n
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(np.clip(high[..., None] * weight - held, 0.0, room))


def cells_to_label(posterior: ModelPosterior, room: Floats, n: int, *, held: Floats | None = None) -> Ints:
    """How many rows of each cell to label, (G, m), n in all or as many as there is room for.

    Groups get labels by the square root of their size: by size is best for the whole field, alike for the mean group.

    Parameters
    ----------
    room : (G, m) rows without a label, of any groups
    held : (G,) rows of these groups that have one
    """
    held = np.zeros(len(room)) if held is None else held
    free = room.sum(axis=1)
    per_group = filled(np.sqrt(free + held), held=held, room=free, n=np.asarray(float(n)))
    total = room.sum(axis=0)
    rate = bins_to_label(posterior, total, n) / np.maximum(total, _TINY)
    sure = sure_of_bins(posterior)
    rate = sure * rate + (1 - sure) * n / max(total.sum(), _TINY)
    cells = filled(room * rate, held=np.zeros(room.shape), room=room, n=per_group)
    return rounded(cells.ravel()).reshape(room.shape)


def sure_of_bins(posterior: ModelPosterior) -> float:
    """The probability of the likeliest account of the classes in the bins: one hypothesis, no bin changed."""
    least = min(float(p.components.change[0]) for p in posterior.points)
    sure = [p for p in posterior.points if p.components.change[0] == least]
    return float(max(sum(p.weight for p in sure if p.hypothesis.kind == kind) for kind in KINDS))


def bins_to_label(posterior: ModelPosterior, room: Floats, n: int) -> Floats:
    """How many of n rows of the whole field to label in each bin (m,), one after the other."""
    Q = posterior.bin_draws(_DRAWS, np.random.default_rng(0))
    apart = (Q - Q.mean(axis=0)).transpose(2, 1, 0)  # (K, m, draws)
    C = apart @ apart.swapaxes(1, 2) / _DRAWS
    noise = (Q * (1 - Q)).mean(axis=0).T + _TINY  # (K, m) of one label
    v, left = room / max(room.sum(), _TINY), np.floor(room)
    n = int(min(n, left.sum()))
    while n > 0:
        own = np.diagonal(C, axis1=1, axis2=2)
        gain = np.where(left > 0, (np.square(C @ v) / (own + noise)).sum(axis=0), -1.0)
        j = int(gain.argmax())
        step = min(max(1, n // _STEPS), int(left[j]))
        C = C - C[:, :, j, None] * C[:, None, j, :] / (C[:, j, j] + noise[:, j] / step)[:, None, None]
        left[j], n = left[j] - step, n - step
    return np.floor(room) - left


def spaced(rank: Ints, *, size: Ints, take: Ints, start: Ints) -> NDArray[np.bool_]:
    """Which rows of a cell are taken, evenly spaced, by their rank in it from 0 on; exactly as many as asked for."""
    return np.asarray((take * (rank + 1) + start) // size > (take * rank + start) // size)
