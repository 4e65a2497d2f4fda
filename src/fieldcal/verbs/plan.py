"""plan: what would make the intervals narrower, and what would decide which story holds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from fieldcal.core.goodness_of_fit import overall_shift
from fieldcal.core.posterior import Summary
from fieldcal.core.sample_size import labels_to_decide, prevalence_variance, rows_to_reach, width_parts
from fieldcal.core.stories import mixture_interval, tell
from fieldcal.core.trust import Trust, skill, without_labels
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Lab, group_keys
from fieldcal.objects.derived import Assume, check_assume
from fieldcal.objects.problem import Rows
from fieldcal.options import as_array, as_number, check_level
from fieldcal.types import Floats


@dataclass(frozen=True)
class Plan:
    """Where the width of an interval comes from, what would halve it, and what would decide.

    Attributes
    ----------
    width : of the interval that ``n`` field rows will give, after trust
    width_if_label_shift : the same if label shift is known to hold
    from_field, from_separability, from_lab : shares of the variance under label shift; they sum to one
    field_rows, lab_rows : in all, that would halve the width under label shift, each alone; None where no number can
    labels : of field rows drawn at random, that would decide whether label shift holds; None where nothing is to decide
    """

    of: Hashable
    n: int
    level: float
    width: float
    width_if_label_shift: float
    from_field: float
    from_separability: float
    from_lab: float
    field_rows: int | None
    lab_rows: int | None
    labels: int | None

    def __repr__(self) -> str:
        def rows(number: int | None, what: str) -> str:
            return f"no number of {what} rows" if number is None else f"{number:,} {what} rows"

        lines = [
            f"Plan: {self.n:,} field rows give a {self.level:.0%} interval for {group_keys.show(self.of)} of width "
            f"{self.width:.3f}",
            f"  if label shift is known to hold, of width {self.width_if_label_shift:.3f}; of its variance "
            f"{self.from_field:.0%} comes from the number of field rows, {self.from_separability:.0%} from predictions "
            f"that are not labels, {self.from_lab:.0%} from the noise of the lab",
            f"  half of that takes {rows(self.field_rows, 'field')}, or {rows(self.lab_rows, 'lab')}",
        ]
        if self.labels is not None:
            lines.append(
                f"  whether it holds, about {self.labels:,} labelled rows drawn at random would decide"
            )
        return "\n".join(lines)


def plan(
    lab: Lab,
    *,
    n: int,
    prevalence: Any = None,
    of: Hashable = None,
    level: float = 0.9,
    assume: Assume = "trust",
) -> Plan:
    """Where will the width of an interval come from, and how many more rows of which kind would halve it?

    Parameters
    ----------
    lab : Lab
    n : int
        Field rows of the population, or of the group where the lab has groups.
    prevalence : (K,), optional
        The prevalences to plan for; by default the lab's.
    of : class, by default the last
    level : float
    assume : "trust", or "label_shift"
        Whether ``width`` is that of the estimate after trust, or of the one if label shift holds.

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
    >>> fieldcal.plan(lab, n=1000, prevalence=[0.7, 0.3]).labels
    227
    """
    if not isinstance(lab, Lab):
        raise InputTypeError(f"plan takes a Lab first, but got {type(lab).__name__}. Learn one first.")
    check_level(level)
    p = lab.p_lab if prevalence is None else as_array("prevalence", prevalence)
    if p.shape != (len(lab.classes),) or not np.isclose(p.sum(), 1) or p.min() < 0:
        raise InputError(f"prevalence must be {len(lab.classes)} shares that sum to one, but got {p}.")
    as_number("n", n, least=1, words="a number of field rows")
    k = (
        len(lab.classes) - 1
        if of is None
        else int(group_keys.positions(lab.classes, (group_keys.normalize(of),))[0])
    )
    if k < 0:
        raise InputError(f"There is no class {of!r}. The classes are {lab.classes!r:.200}.")
    check_assume(assume)
    rows = lab.A.sum(axis=1)
    parts = width_parts(lab.M, p, k=k, n=n, rows=rows)
    z = float(ndtri((1 + level) / 2))
    width = min(1.0, 2 * z * float(np.sqrt(parts.variance)))
    more_field, more_lab = rows_to_reach((width / (4 * z)) ** 2, lab.M, p, k=k, n=n, rows=rows)
    whole = parts.sampling + parts.separability + parts.lab
    lower, upper, mean_prediction = _after_trust(lab, p, float(n), level)
    return Plan(
        of=lab.classes[k],
        n=int(n),
        level=level,
        width=width if assume == "label_shift" else float(upper[k] - lower[k]),
        width_if_label_shift=width,
        from_field=parts.sampling / whole,
        from_separability=parts.separability / whole,
        from_lab=parts.lab / whole,
        field_rows=None if more_field is None else int(np.ceil(more_field * n)),
        lab_rows=None if more_lab is None else int(np.ceil(more_lab * lab.n)),
        labels=labels_to_decide(mean_prediction, p),
    )


def _after_trust(lab: Lab, p: Floats, n: float, level: float) -> tuple[Floats, Floats, Floats]:
    """The interval (K,) that the expected histogram would get, and its mean prediction.

    Of one population that moved to p; or, where the lab has groups, of one more group like them.
    """
    V, grouped = n * p @ lab.M, lab.rehearsal is not None
    mean, at_lab = (q @ lab.M @ lab.bin_means for q in (p, lab.p_lab))
    sd = np.sqrt(prevalence_variance(lab.M, p, n=n, rows=lab.A.sum(axis=1)))
    spread = Summary(
        *(x[None] for x in (p, sd, p - ndtri((1 + level) / 2) * sd, p + ndtri((1 + level) / 2) * sd))
    )
    shift = overall_shift(np.asarray(lab.F_effective), V, smoothing=lab.smoothing)
    alone = without_labels(shift, skill(np.asarray(lab.F_effective)))
    trust = Trust(alone, alone)
    if lab.rehearsal is not None:
        trust = Trust(0.0, lab.rehearsal.trust, rehearsed=1.0)
    whole, average = (lab.p_lab, at_lab) if grouped else (p, mean)
    doubt = Rows(lab, V[None], mean[None], average, grouped).doubt(p[None], whole, trust, spread=spread)
    stories = tell(doubt, trust, moved=shift.shifted and not grouped, grouped=grouped)
    value = doubt.parts.mixed(trust.overall, trust.between)
    lower, upper = mixture_interval(stories, doubt, level, estimate=value)
    return lower[0], upper[0], mean
