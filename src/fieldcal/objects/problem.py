"""From artefacts to arrays: the lab's and the field's counts as effective rows, in core's letters."""

from __future__ import annotations

import numpy as np

from fieldcal.core.problem import Problem
from fieldcal.core.response import row_per_weight
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.types import Floats, Ints


def as_problem(
    lab: Lab,
    field: Field,
    *,
    labelled: Floats | None = None,
    design_effect: float = 1.0,
    rows: Ints | slice = slice(None),
) -> Problem:
    """What is asked, of all groups or of some rows of them.

    Weights enter with Kish's effective sample size, on both sides; rows of the field that are not independent with
    their design effect.
    """
    sizes = np.asarray(field.n[rows], dtype=np.float64)
    scale = row_per_weight(sizes, field.weight_squares[rows]) / design_effect
    return Problem(
        lab.F_effective,
        field.V[rows] * scale[:, None],
        lab.smoothing,
        field.grouped,
        None if labelled is None else labelled[rows],
        class_rows=lab.n_effective,
        sizes=sizes,
    )
