"""Which cells of a field, groups by bins, the next labels should come from: where a label narrows most.

The shares of the classes in the bins are uncertain together: a label in one bin tells of all others as far as a tilt
moves them alike, and of its own bin alone as far as nothing does. From the joint covariance of these shares under the
posterior, each label goes where it takes most from the variance of the share of the whole field: to bins in which many
rows lie and classes are mixed. That trusts what is believed of the bins, and where it is wrong, the labels that would
show it are missing. So it gets only as many of them as the likeliest explanation is probable, by itself and without
bins that are off; the others go to the bins by their rows, whatever is believed.

References
----------
Goldstein, M. and Wooff, D. (2007). Bayes Linear Statistics: Theory and Methods. Wiley.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.field_posterior import Posterior
from fieldcal.core.hypotheses import KINDS
from fieldcal.types import Floats, Ints

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


def cells_to_label(posterior: Posterior, room: Floats, n: int, *, held: Floats | None = None) -> Ints:
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


def sure_of_bins(posterior: Posterior) -> float:
    """The probability of the likeliest account of the classes in the bins: one hypothesis, no bin changed."""
    least = min(float(p.components.change[0]) for p in posterior.points)
    sure = [p for p in posterior.points if p.components.change[0] == least]
    return float(max(sum(p.weight for p in sure if p.hypothesis.kind == kind) for kind in KINDS))


def bins_to_label(posterior: Posterior, room: Floats, n: int) -> Floats:
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
