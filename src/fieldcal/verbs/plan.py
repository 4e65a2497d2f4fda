"""plan: what would make the intervals narrower."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from fieldcal.core.sample_size import rows_to_reach, width_parts
from fieldcal.errors import InputError
from fieldcal.objects import Lab, group_keys


@dataclass(frozen=True)
class Plan:
    """Where the width of an interval comes from, and what would halve it.

    Attributes
    ----------
    width : of the interval that ``n`` field rows will give
    from_field, from_separability, from_lab : shares of its variance; they sum to one
    field_rows, lab_rows : in all, that would halve the width, each alone; None where no number can
    """

    of: Hashable
    n: int
    level: float
    width: float
    from_field: float
    from_separability: float
    from_lab: float
    field_rows: int | None
    lab_rows: int | None

    def __repr__(self) -> str:
        def rows(number: int | None, what: str) -> str:
            return f"no number of {what} rows" if number is None else f"{number:,} {what} rows"

        return (
            f"Plan: {self.n:,} field rows give a {self.level:.0%} interval for {group_keys.show(self.of)} of width "
            f"{self.width:.3f}\n"
            f"  its variance: {self.from_field:.0%} from the number of field rows, {self.from_separability:.0%} "
            f"because predictions are not labels, {self.from_lab:.0%} from the noise of the lab\n"
            f"  half the width takes {rows(self.field_rows, 'field')}, or {rows(self.lab_rows, 'lab')}"
        )


def plan(lab: Lab, *, n: int, prevalence: Any = None, of: Hashable = None, level: float = 0.9) -> Plan:
    """Where will the width of an interval come from, and how many more rows of which kind would halve it?

    Parameters
    ----------
    lab : Lab
    n : int
        Field rows of the population or group.
    prevalence : (K,), optional
        The prevalences to plan for; by default the lab's.
    of : class, by default the last
    level : float

    Returns
    -------
    Plan

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=400, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> small, large = fieldcal.plan(lab, n=100), fieldcal.plan(lab, n=100_000)
    >>> small.from_lab < large.from_lab
    True
    """
    p = lab.p_lab if prevalence is None else np.asarray(prevalence, dtype=np.float64)
    if p.shape != (len(lab.classes),) or not np.isclose(p.sum(), 1) or p.min() < 0:
        raise InputError(f"prevalence must be {len(lab.classes)} shares that sum to one, but got {p}.")
    if not isinstance(n, (int, float, np.number)) or not 1 <= n < np.inf or not 0 < level < 1:
        raise InputError(
            f"plan needs at least one field row and a level between 0 and 1, but got {n!r} and {level!r}."
        )
    k = (
        len(lab.classes) - 1
        if of is None
        else int(group_keys.positions(lab.classes, (group_keys.normalize(of),))[0])
    )
    if k < 0:
        raise InputError(f"There is no class {of!r}. The classes are {lab.classes!r:.200}.")
    rows = lab.A.sum(axis=1)
    parts = width_parts(lab.M, p, k=k, n=n, rows=rows)
    z = float(ndtri((1 + level) / 2))
    width = min(1.0, 2 * z * float(np.sqrt(parts.variance)))
    more_field, more_lab = rows_to_reach((width / (4 * z)) ** 2, lab.M, p, k=k, n=n, rows=rows)
    whole = parts.sampling + parts.separability + parts.lab
    return Plan(
        of=lab.classes[k],
        n=int(n),
        level=level,
        width=width,
        from_field=parts.sampling / whole,
        from_separability=parts.separability / whole,
        from_lab=parts.lab / whole,
        field_rows=None if more_field is None else int(np.ceil(more_field * n)),
        lab_rows=None if more_lab is None else int(np.ceil(more_lab * lab.n)),
    )
