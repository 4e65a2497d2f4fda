"""Judged: true shares behind values, from the rows of a lab and a field whose class is known, and from all others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.judge import Posterior, Verdicts, spread_of_judges
from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Summary, summarise_draws
from fieldcal.core.response import in_class_rows
from fieldcal.core.reweight import Step
from fieldcal.core.tilt import matched_tilt
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.next_lab import has_labels_of
from fieldcal.objects.problem import as_problem, labelled_rows
from fieldcal.types import Floats, Ints

_BLOCK = 1_000  # slices whose draws are in memory at a time
_MOST_ASKED = 2_000  # labelled slices that are asked whether their judge is their own


@dataclass(frozen=True)
class Judged:
    """The posterior of a field of values."""

    posterior: Posterior
    n: Floats  # (G,) rows

    @classmethod
    def of(cls, lab: Lab, field: Field, *, design_effect: float = 1.0, seed: int = 0) -> Judged:
        """Learnt from all rows."""
        verdicts = verdicts_of(lab, field, design_effect=design_effect)
        return cls(Posterior.of(verdicts, seed=seed), np.asarray(field.n, dtype=np.float64))

    @property
    def verdicts(self) -> Verdicts:
        """The rows."""
        return self.posterior.data

    def summaries(self, level: float) -> tuple[Summary, Summary]:
        """Of every slice, and of the whole field."""
        G, K, _ = self.verdicts.shape
        weight = self.n / max(float(self.n.sum()), 1e-300)
        whole, each = np.zeros((self.posterior.n_draws, K)), []
        for i in range(0, G, _BLOCK):
            rows = np.arange(i, min(i + _BLOCK, G))
            draws = self.posterior.draws(rows)
            whole += np.einsum("g,gnk->nk", weight[rows], draws)
            each.append(summarise_draws(draws, level, touching=POLICY.touching))
        parts = zip(*((s.mean, s.sd, s.lower, s.upper) for s in each), strict=True)
        columns = [np.concatenate(part) for part in parts] if each else [np.zeros((0, whole.shape[1]))] * 4
        return Summary(*columns), summarise_draws(whole[None], level, touching=POLICY.touching)

    def draws(self, rows: Ints, together: Floats | None = None) -> Floats:
        """Joint draws of some slices, (G, n, K); ``together`` are correlations (G, G) of the noise of their rows."""
        normals = self.posterior.normals(rows)
        if together is not None:
            paired = np.einsum("ngk,hg->nhk", normals[..., :-1], _root(together))
            normals = np.concatenate([paired, normals[..., -1:]], axis=2)
        return self.posterior.draws(rows, normals)

    @property
    def spread(self) -> Floats | None:
        """Draws of how far a rate of .9 varies between slices: standard deviations; None where there is one judge."""
        kappa = self.posterior.phi.kappa
        return None if kappa is None or not self.verdicts.grouped else np.asarray(np.sqrt(0.09 / (kappa + 1)))

    @cached_property
    def unlike_others(self) -> Ints:
        """Labelled slices that probably have a judge of their own, the surest first."""
        rows = np.flatnonzero(self.verdicts.known.any(axis=(1, 2)))[:_MOST_ASKED]
        own = self.posterior.own_judge(rows) if len(rows) else np.zeros(0)
        order = np.argsort(-own, kind="stable")
        return rows[order[own[order] > 0.5]]

    @property
    def separation(self) -> Floats:
        """Draws of how well the judge tells the two most alike classes apart: half the distance of their values."""
        M = self.posterior.phi.M
        K = M.shape[1]
        apart = [0.5 * np.abs(M[:, a] - M[:, b]).sum(axis=1) for a in range(K) for b in range(a)]
        return np.asarray(np.min(apart, axis=0))

    def learnt(self) -> dict[str, Any]:
        """What was learnt of the judge, for people."""
        found: dict[str, Any] = {"separation": float(self.separation.mean())}
        if self.spread is not None:
            found["spread"] = float(np.median(self.spread))
        return found


def steps_to_shares(lab: Lab, V: NDArray[Any], shares: Floats) -> tuple[Step]:
    """What makes the classes that the lab gives to each value those of slices with values V and shares (G, K)."""
    V = np.asarray(V, dtype=np.float64)
    V = np.where(V.sum(axis=1, keepdims=True) > 0, V, 1.0)
    tilt = matched_tilt(lab.bin_classes, V, shares)
    return (Step(1.0, np.exp(tilt - tilt.max(axis=1, keepdims=True))),)


def verdicts_of(lab: Lab, field: Field, *, design_effect: float = 1.0) -> Verdicts:
    """The rows of lab and field, each counted once.

    The labelled rows of a lab whose design is "random" or "by_score" are rows of the field: with the field's own labels
    they are there already, slice by slice; without, they are rows of one population, or tell of the judge alone. Those
    of the design "by_class" are from elsewhere, unless the field's labels are the very same. Rows of the field that
    were chosen by class are known, but the others are not like them: shares are told of these, and then of all.
    """
    problem = as_problem(lab, field, design_effect=design_effect)
    V, (G, K, m) = problem.V, problem.shape
    known, given_class = np.zeros((G, K, m)), np.zeros((K, m))
    lab_rows = in_class_rows(lab.F, lab.n_effective)
    outside = lab.design == "by_class" and not has_labels_of(lab, field)
    by_class = None
    if field.labelled:
        labels = labelled_rows(field, problem)
        known[labels.groups] = labels.given_bin
        by_class = np.zeros_like(known)
        by_class[labels.groups] = labels.by_class
        given_class += by_class.sum(axis=0)
    elif not outside and not field.grouped and (lab_rows.sum(axis=0) <= V[0] + 1e-9).all():
        known[0] = lab_rows
    if outside or not (known.any() or given_class.any()):
        given_class += lab_rows
    spread = np.asarray(lab.judge_spread) if outside and lab.judge_spread is not None else None
    if by_class is not None and by_class.any() and field.grouped:
        told = spread_of_judges(by_class)
        spread = told if spread is None else spread + told
    own, chosen = known.sum(axis=1), None
    if by_class is not None and not known.any() and not outside:
        own, chosen = by_class.sum(axis=1), by_class.sum(axis=2)
    among = (own <= V + 1e-9).all(axis=1)  # labels of rows that were not counted are rows besides
    if chosen is not None and not among.all():
        own, chosen = np.zeros_like(V), None
    rest = np.maximum(np.where(among[:, None], V - own, V), 0.0)
    return Verdicts(given_class, known, rest, field.grouped, outside, spread, chosen)


def _root(correlations: Floats) -> Floats:
    """Of a matrix of correlations, the nearest that can be."""
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root / np.sqrt(np.square(root).sum(axis=1, keepdims=True)))
