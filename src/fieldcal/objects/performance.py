"""Rows, precision and recall of the model's decisions in the field, without labels, from the posterior draws."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from fieldcal.core.priors import N_DRAWS
from fieldcal.core.response import rake, response_draws
from fieldcal.objects.derived import Assume, Interval, interval, points
from fieldcal.types import Floats

if TYPE_CHECKING:
    from fieldcal.objects.lab import Lab
    from fieldcal.objects.prevalence import Prevalence

_TINY = 1e-300


def performance(prev: Prevalence, group: Hashable, *, assume: Assume) -> dict[str, dict[Hashable, Interval]]:
    """Performance in one group, or in the whole field if it is ``...``."""
    at = list(prev.groups) if group is ... else [group]
    rows = np.array([prev.row_of(g) for g in at])
    size = np.asarray(prev.n[rows], dtype=np.float64)
    p = np.average(prev.draws(at, assume=assume), axis=0, weights=np.maximum(size, _TINY))  # (D, K)
    if assume == "label_shift":
        joint = p[:, :, None] * _confusion_draws(prev.lab, prev.seed, len(p))
    else:
        v = np.asarray(prev.field.V[rows], dtype=np.float64).sum(axis=0)
        joint = _raked_decisions(prev.lab, prev.seed, p, v)
    hits, decided, own = np.einsum("dkk->dk", joint), joint.sum(axis=1), joint.sum(axis=2)
    tables = {
        "count": p * size.sum(),
        "precision": hits / np.maximum(decided, _TINY),
        "recall": hits / np.maximum(own, _TINY),
    }
    if assume == "trust":  # conditional on these rows, not on a superpopulation
        rng = np.random.default_rng([prev.seed, 2])
        tables["precision"] = realised(tables["precision"], decided * size.sum(), rng)
        tables["recall"] = realised(tables["recall"], own * size.sum(), rng)
    centres = {name: table.mean(axis=0) for name, table in tables.items()}
    centres["count"] = size @ points(prev, assume)[rows]
    return {
        name: {
            c: interval(prev, centres[name][k], table[:, k], 0.0, assume) for k, c in enumerate(prev.classes)
        }
        for name, table in tables.items()
    }


def realised(share: Floats, rows: Floats, rng: np.random.Generator) -> Floats:
    """Share of rows with a property that each has with this probability, by binomial draws."""
    return np.asarray(rng.beta(share * rows + 0.1, (1 - share) * rows + 0.1))


def _raked_decisions(lab: Lab, seed: int, p: Floats, v: Floats) -> Floats:
    """Class-by-decision tables of shares, (D, K, K), for draws p (D, K) of the prevalences and a histogram v (m,)."""
    M = response_draws(lab.A, N_DRAWS, np.random.default_rng(seed))
    cells = rake(
        np.repeat(M, len(p) // len(M), axis=0) * lab.p_lab[:, None],
        rows=p,
        columns=v / max(v.sum(), _TINY),
    )
    share = lab.decisions.sum(axis=0) + 1e-3
    within = lab.decisions + 0.5 * share / share.sum(axis=1, keepdims=True)
    return _decided(cells, within / within.sum(axis=2, keepdims=True))


def _confusion_draws(lab: Lab, seed: int, n_draws: int) -> Floats:
    """Draws of P(decision | class), (D, K, K), that share their M with the draws of the prevalences."""
    rng = np.random.default_rng(seed)
    M = response_draws(lab.A, N_DRAWS, rng)
    share = lab.decisions.sum(axis=0) + 1e-3
    rows = lab.decisions * (lab.n_effective / lab.F.sum(axis=1))[:, None, None]
    within = rows + 0.5 * share / share.sum(axis=1, keepdims=True)  # half a row per class and bin

    def one(M: Floats) -> Floats:  # one draw at a time, as all of them need too much memory with many classes
        D = rng.standard_gamma(within) + _TINY
        return np.asarray(_decided(M[None], D / D.sum(axis=2, keepdims=True))[0])

    rounds = [[one(own) for own in M] for _ in range(n_draws // len(M))]
    return np.stack(rounds, axis=1).reshape(n_draws, *lab.confusion.shape)


def _decided(cells: Floats, within: Floats) -> Floats:
    """Class-by-decision tables from class-by-bin tables (D, K, m) and decisions in each cell (K, m, K)."""
    return np.asarray((cells.swapaxes(0, 1) @ within).swapaxes(0, 1))
