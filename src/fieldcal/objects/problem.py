"""From Lab and Field to core's arrays: counts in effective rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.goodness_of_fit import chance_of, outlying
from fieldcal.core.hypotheses import LabelledRows
from fieldcal.core.problem import Problem
from fieldcal.core.response import in_class_rows, row_per_weight, rows_worth
from fieldcal.errors import InputError, option
from fieldcal.objects import group_keys
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.next_lab import has_labels_of
from fieldcal.types import Design, Floats, Ints


def as_problem(
    lab: Lab, field: Field, *, design_effect: float = 1.0, rows: Ints | slice = slice(None)
) -> Problem:
    """The estimation problem of all groups, or of some.

    Weights enter by Kish's effective sample size, in lab and field; dependent rows of the field by their design
    effect. With categories, the lab's counts are those of rows given their class.
    """
    problem = _counted(lab, field, design_effect, rows)
    given = given_class(lab, field, problem) if lab.of_values else np.zeros(0)
    return replace(problem, F=given, class_rows=None) if given.any() else problem


def labelled_here(field: Field) -> bool:
    """Whether rows of the field have a label that were not chosen by their class."""
    return any(design != "by_class" for design in field.labelled)


def given_class(lab: Lab, field: Field, problem: Problem) -> Floats:
    """(K, m) rows of a field of categories that inform what the judge says of each class, and nothing else.

    Each counts once. The labelled rows of a lab whose design is "random" or "by_score" are rows of the field, and enter
    with the field's own labels. Where it has none, those drawn at random are rows from elsewhere; those chosen by
    category say nothing of other rows. Of rows chosen by class in lab and field, one may hold the other's: the larger
    number of each class and category counts.
    """
    if lab.design == "by_score" and not field.labelled:
        raise InputError(
            "The labelled rows of this lab were chosen by their categories, so they describe the rows that they were "
            f"chosen from, and these were counted without labels. Count them with their labels, {option('y')}."
        )
    by_class = labelled_rows(field, problem).by_class.sum(axis=0)
    elsewhere = lab.design == "by_class" and not has_labels_of(lab, field)
    if elsewhere or not field.labelled or not (labelled_here(field) or by_class.any()):
        by_class = np.maximum(in_class_rows(lab.F, lab.n_effective), by_class)
    return np.asarray(by_class)


def _counted(lab: Lab, field: Field, design_effect: float, rows: Ints | slice) -> Problem:
    V, squares = (np.asarray(counts[rows], dtype=np.float64) for counts in (field.V, field.weight_squares))
    whole = V
    if field.weighted:
        # Unequal weights reduce the effective rows of a group, but not its share of the field.
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
    """Labelled rows of a field, in the same effective rows as its other rows."""
    given, (_, K, m) = field.labelled, problem.shape
    groups = np.unique(np.concatenate([np.zeros(0, np.intp), *(labelled.at for labelled in given.values())]))
    effective = _label_worth(field, problem, groups)

    def of(*designs: Design) -> Floats:
        table = np.zeros((len(groups), K, m))
        for design in designs:
            if design in given:
                table[np.searchsorted(groups, given[design].at)] += given[design].counts
        return np.asarray(table * effective[:, None, None])

    return LabelledRows(groups, of("random", "by_score"), of("by_class"))


def _label_worth(field: Field, problem: Problem, groups: Ints) -> Floats:
    """Effective rows per labelled row of these groups."""
    n = np.asarray(field.n, dtype=np.float64)[groups]
    typical = problem.V.sum() / max(float(np.sum(field.n)), 1e-300)
    effective = np.full(len(n), typical or 1.0)
    return np.asarray(np.divide(problem.V.sum(axis=1)[groups], n, out=effective, where=n > 0))


def label_rows(field: Field) -> dict[Design, float]:
    """Labelled rows of each design; for weighted ones, the effective sample size."""
    n, squares = float(np.sum(field.n)), float(np.sum(field.weight_squares, dtype=np.float64))
    effective = float(row_per_weight(n, squares)) if field.weighted and n > 0 else 1.0
    return {design: effective * float(labelled.counts.sum()) for design, labelled in field.labelled.items()}


def looks_random(lab: Lab, field: Field) -> float | None:
    """p-value for labelled rows being a random sample of their group, by their histogram.

    Within groups, because the caller chooses how many rows each group has. Neighbouring bins of few rows are merged.
    """
    labelled = field.labelled.get("random")
    if labelled is None:
        return None
    problem = as_problem(lab, field)
    seen = (labelled.counts * _label_worth(field, problem, labelled.at)[:, None, None]).sum(axis=1)  # (L, m)
    V = problem.V[labelled.at]
    known = V.sum(axis=1) > 0
    expected = (V[known] / V[known].sum(axis=1, keepdims=True) * seen[known].sum(axis=1, keepdims=True)).sum(
        axis=0
    )
    return chance_of(seen[known].sum(axis=0), expected)


def _worth(lab: Lab, V: Floats, squares: Floats) -> Floats:
    """Histograms (G, m) of weighted rows, scaled to their effective sample size."""
    n = V.sum(axis=1)
    effective = rows_worth(V, squares, lab.M, lab.p_lab)
    return np.asarray(V * np.divide(effective, n, out=np.ones_like(n), where=n > 0)[:, None])
