"""From artefacts to arrays: the lab's and the field's counts as effective rows, in core's letters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.goodness_of_fit import chance_of, outlying
from fieldcal.core.labelled_rows import LabelledRows
from fieldcal.core.problem import Problem
from fieldcal.core.response import row_per_weight, rows_worth
from fieldcal.objects import group_keys
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.types import Design, Floats, Ints


def as_problem(
    lab: Lab, field: Field, *, design_effect: float = 1.0, rows: Ints | slice = slice(None)
) -> Problem:
    """What is asked, of all groups or of some rows of them.

    Weights enter with Kish's effective sample size, on both sides; rows of the field that are not independent with
    their design effect.
    """
    V, squares = (np.asarray(counts[rows], dtype=np.float64) for counts in (field.V, field.weight_squares))
    whole = V
    if field.weighted:
        # A group whose weights are unequal has fewer effective rows, but is no smaller a part of the field.
        V = _worth(lab, V, squares)
    problem = Problem(
        lab.F_effective, V / design_effect, lab.smoothing, field.grouped, class_rows=lab.n_effective
    )
    odd = None
    if field.grouped and len(V) > 1 and isinstance(rows, slice):
        odd = outlying(problem.M, problem.V, rows=problem.A.sum(axis=1), p_lab=problem.p_lab)
    together = None
    if field.weighted:
        kept = slice(None) if odd is None else ~odd
        sums = (table[kept].sum(axis=0, keepdims=True) for table in (whole, squares))
        together = _worth(lab, *sums)[0] / design_effect
    return replace(problem, together=together, outlying=odd, F_typical=_without(lab, field, odd))


def _without(lab: Lab, field: Field, odd: NDArray[np.bool_] | None) -> Floats | None:
    """The lab's effective rows without those of some groups of the field; None if it has none of them."""
    if odd is None or lab.by_group is None:
        return None
    at = group_keys.positions(lab.groups, field.groups)[odd]
    left = lab.F_effective - lab.group_counts(at).sum(axis=0) * lab.effective_per_row
    return np.maximum(left, 0.0) if (left.sum(axis=1) > 1).all() else None


def labelled_rows(field: Field, problem: Problem) -> LabelledRows:
    """The labelled rows of a field, worth as much as its other rows are."""
    given, (_, K, m) = field.labelled, problem.shape
    groups = np.unique(np.concatenate([np.zeros(0, np.intp), *(found.at for found in given.values())]))
    worth = _label_worth(field, problem, groups)

    def of(*designs: Design) -> Floats:
        table = np.zeros((len(groups), K, m))
        for design in designs:
            if design in given:
                table[np.searchsorted(groups, given[design].at)] += given[design].counts
        return np.asarray(table * worth[:, None, None])

    return LabelledRows(groups, of("random", "by_score"), of("by_class"))


def _label_worth(field: Field, problem: Problem, groups: Ints) -> Floats:
    """How many effective rows a labelled row of these groups is worth: as many as another row of the group."""
    n = np.asarray(field.n, dtype=np.float64)[groups]
    typical = problem.V.sum() / max(float(np.sum(field.n)), 1e-300)
    worth = np.full(len(n), typical or 1.0)
    return np.asarray(np.divide(problem.V.sum(axis=1)[groups], n, out=worth, where=n > 0))


def label_rows(field: Field) -> dict[Design, float]:
    """How many rows of each design have a label; of weighted ones, how many of equal weight would say as much."""
    n, squares = float(np.sum(field.n)), float(np.sum(field.weight_squares, dtype=np.float64))
    worth = float(row_per_weight(n, squares)) if field.weighted and n > 0 else 1.0
    return {design: worth * float(found.counts.sum()) for design, found in field.labelled.items()}


def looks_random(lab: Lab, field: Field) -> float | None:
    """p-value of rows that are said to be drawn at random, if they are, by where their predictions fall.

    Within groups: how many rows each group has is the caller's choice. Neighbouring bins of few rows count together.
    """
    found = field.labelled.get("random")
    if found is None:
        return None
    problem = as_problem(lab, field)
    seen = (found.counts * _label_worth(field, problem, found.at)[:, None, None]).sum(axis=1)  # (L, m)
    V = problem.V[found.at]
    known = V.sum(axis=1) > 0
    expected = (V[known] / V[known].sum(axis=1, keepdims=True) * seen[known].sum(axis=1, keepdims=True)).sum(
        axis=0
    )
    return chance_of(seen[known].sum(axis=0), expected)


def _worth(lab: Lab, V: Floats, squares: Floats) -> Floats:
    """Histograms (G, m) of weighted rows, scaled to the rows that they are worth."""
    n = V.sum(axis=1)
    worth = rows_worth(V, squares, lab.M, lab.p_lab)
    return np.asarray(V * np.divide(worth, n, out=np.ones_like(n), where=n > 0)[:, None])
