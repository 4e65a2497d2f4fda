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
from fieldcal.core.reweight import Step, matched_tilt
from fieldcal.errors import InputError, Option
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
        weight = self.n / self.n.sum()
        whole, each = np.zeros((self.posterior.n_draws, K)), []
        for i in range(0, G, _BLOCK):
            rows = np.arange(i, min(i + _BLOCK, G))
            draws = self.posterior.draws(rows)
            whole += np.einsum("g,gnk->nk", weight[rows], draws)
            each.append(summarise_draws(draws, level, touching=POLICY.touching))
        parts = zip(*((s.mean, s.sd, s.lower, s.upper) for s in each), strict=True)
        together = summarise_draws(whole[None], level, touching=POLICY.touching)
        return Summary(*(np.concatenate(part) for part in parts)), together

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
        return rows[order[own[order] > POLICY.surely_of_its_own]]

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
    return (Step(1.0, np.exp(matched_tilt(lab.bin_classes, V, shares))),)


def verdicts_of(lab: Lab, field: Field, *, design_effect: float = 1.0) -> Verdicts:
    """The rows of lab and field, each counted once.

    The labelled rows of a lab whose design is "random" or "by_score" are rows of the field, and are told of by the
    field's own labels. Where it has none, those drawn at random tell of the judge alone, as if from elsewhere; of
    those chosen by value nothing can be told. Rows that were chosen by class tell of the judge, and where lab and
    field have some, one may hold the other's: the larger number of each class and value counts.
    """
    problem = as_problem(lab, field, design_effect=design_effect)
    V, (G, K, m) = problem.V, problem.shape
    known, by_class = np.zeros((G, K, m)), np.zeros((G, K, m))
    if field.labelled:
        labels = labelled_rows(field, problem)
        known[labels.groups], by_class[labels.groups] = labels.given_bin, labels.by_class
    elif lab.design == "by_score":
        raise InputError(
            "The labelled rows of this lab were chosen by their values: they tell of the rows that they were chosen "
            "from, and these were counted without labels. Count them with their labels, ",
            Option("y"),
            ".",
        )
    outside = (lab.design == "by_class" and not has_labels_of(lab, field)) or not field.labelled
    given_class = by_class.sum(axis=0)
    if outside or not (known.any() or given_class.any()):
        given_class = np.maximum(in_class_rows(lab.F, lab.n_effective), given_class)
    spread = np.asarray(lab.judge_spread) if outside and lab.judge_spread is not None else None
    if field.grouped and by_class.any(axis=(1, 2)).sum() > 1:
        spread = spread_of_judges(by_class)
    own = known.sum(axis=1)
    # Labels of rows that were not counted are rows besides.
    among = (own <= V + 1e-9).all(axis=1, keepdims=True)
    rest = np.maximum(np.where(among, V - own, V), 0.0)
    by_value = set(field.labelled) == {"by_score"}
    return Verdicts(given_class, known, rest, field.grouped, outside, spread, by_value)


def _root(correlations: Floats) -> Floats:
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root / np.sqrt(np.square(root).sum(axis=1, keepdims=True)))
