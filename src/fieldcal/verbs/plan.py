"""plan: what would make the intervals narrower, and what would decide which explanation holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from fieldcal.core.goodness_of_fit import overall_shift
from fieldcal.core.planning import Outlook, labels_to_decide, prevalence_variance, rows_to_reach, width_parts
from fieldcal.core.posterior import Summary
from fieldcal.core.trust import Trust, skill, without_labels
from fieldcal.errors import InputError, option
from fieldcal.objects import Lab, Prevalence, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.objects.derived import Assume, check_assume
from fieldcal.objects.outcome import place_of_class
from fieldcal.options import as_array, as_number, check_level, check_options
from fieldcal.types import DESIGNS, Floats
from fieldcal.verbs.estimate import DEFAULT_LEVEL, check_progress
from fieldcal.verbs.plan_categories import (
    CategoriesPlan,
    MoreLabels,
    checked_labels,
    label_lines,
    plan_categories,
)
from fieldcal.verbs.posteriors import histograms

#: Numbers of further labels that an estimate is planned for.
LABELS = (50, 100, 200)
#: Groups of a field up to which the labels that settle it are found within a second or two.
_QUICK_GROUPS = 100


@dataclass(frozen=True)
class Plan:
    """Where the width of an interval comes from, what would halve it, and what would decide.

    Attributes
    ----------
    width : of the interval that ``n`` field rows will give, after trust
    width_if_label_shift : the same if label shift is known to hold
    from_field, from_separability, from_lab : shares of the variance under label shift; they sum to one
    field_rows, lab_rows : in all, that would halve the width under label shift, each alone; None where no number can
    labels : of field rows drawn at random. With an estimate, that would settle the verdict if they come as expected,
        beside those that are there: 0 where nothing is to decide, None where no number does, as shares are nearly the
        same either way. Of a lab alone, that tell the share under label shift from the mean prediction in nine of ten
        cases
    more_labels : with an estimate, the widths that further labels of each design would leave
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
    more_labels: tuple[MoreLabels, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self) | {"more_labels": [asdict(more) for more in self.more_labels]}

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
        return "\n".join([*lines, *self._deciding(), *label_lines(self.more_labels)])

    def _deciding(self) -> Iterator[str]:
        if self.labels and not self.more_labels:
            yield f"  whether it holds: about {self.labels:,} labelled rows drawn at random tell the two shares apart"
        elif self.labels:
            yield f"  whether it holds, about {self.labels:,} labelled rows drawn at random would decide if they come"
            yield "  as expected; by chance it can take several times as many"
        elif self.labels == 0:
            yield "  whether it holds need not be decided by more labels"
        elif self.more_labels:
            yield "  whether it holds, no number of labels would decide: shares are nearly the same either way"


def plan(
    lab: Lab | Prevalence,
    *,
    n: int | None = None,
    prevalence: Any = None,
    of: Hashable = None,
    level: float | None = None,
    assume: Assume = "trust",
    labels: Sequence[int] | None = None,
    width: float | None = None,
    apart: tuple[Hashable, Hashable] | None = None,
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Plan | CategoriesPlan:
    """Where will the width of an interval come from, and what would more rows, or more labels, make of it?

    Parameters
    ----------
    lab : Lab or Prevalence
        What to plan with. An estimate is of its whole field, and plans with the trust that it has.
    n : int, optional with an estimate
        Field rows of the population, or of the group where a lab alone has groups; by default those of the estimate.
    prevalence : (K,), optional
        The prevalences to plan for; by default the estimate's under label shift, or the lab's.
    of : class, by default the last
    level : float, by default that of the estimate, or 0.9
    assume : "trust", or "label_shift"
        Whether ``width`` is that of the estimate after trust, or of the one if label shift holds.
    labels : whole numbers, optional
        With an estimate: numbers of labels beside those that it has, for which to predict the widths of the intervals,
        for each way to choose the rows. By default 50, 100 and 200; ``()`` leaves it out. It is of the field as it
        is, so that ``n`` and ``prevalence`` do not go with it. Labels are drawn from what each explanation of the
        estimate says, as often as it is probable, and the estimate is made with them.
    width : float, optional
        Of values: a width of the interval, for which to find how many labels it takes; of a typical group if there
        are groups, otherwise of the whole field.
    apart : two groups, optional
        Of values: two groups, for which to find how many labels it takes to distinguish them.
    random_state : int
        Seed of these labels.
    progress : callable, optional
        Called with the number of steps that are done and the number of all, as in `estimate`: with many classes, each
        number of labels takes seconds.

    Returns
    -------
    Plan
        Of values a `CategoriesPlan`: `n`, `prevalence` and `assume` do not go with it.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=400, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> small, large = fieldcal.plan(lab, n=100), fieldcal.plan(lab, n=100_000)
    >>> small.from_lab < large.from_lab
    True
    """
    check_call("fieldcal.plan(prev) or fieldcal.plan(lab, n=1000)", (lab, (Lab, Prevalence)))
    prev, lab = (lab, lab.lab) if isinstance(lab, Prevalence) else (None, lab)
    level = (prev.level if prev else None) or DEFAULT_LEVEL if level is None else level
    check_level(level)
    usual = lab.p_lab if prev is None else prev.whole.urc
    p = usual if prevalence is None else as_array("prevalence", prevalence)
    if p.shape != (len(lab.classes),) or not np.isclose(p.sum(), 1) or p.min() < 0:
        raise InputError(f"prevalence must be {len(lab.classes)} shares that sum to one, but got {p}.")
    if prev is None and n is None:
        raise InputError(
            "A lab alone has no field to plan for. Say how many rows it will have: fieldcal.plan(lab, n=1000)."
        )
    size = as_number(
        "n", prev.whole.n if prev is not None and n is None else n, least=1, words="a number of field rows"
    )
    k = place_of_class(lab.classes, of)
    check_assume(assume)
    check_options(random_state=random_state)
    check_progress(progress)
    if prev is not None and prev.is_judged:
        if n is not None or prevalence is not None or assume != "trust":
            raise InputError(
                "Of values, the field of the estimate is planned for: neither n, prevalence nor assume."
            )
        numbers = checked_labels(LABELS if labels is None else labels)
        return plan_categories(
            prev, k=k, level=level, labels=numbers, width=width, apart=apart, progress=progress
        )
    if width is not None or apart is not None:
        raise InputError(
            f"{option('width')} and {option('apart')} are planned for an estimate of values, by default."
        )
    outlook, numbers = _outlook(
        prev, labels, other_field=n is not None or prevalence is not None or assume != "trust"
    )
    rows = lab.A.sum(axis=1)
    parts = width_parts(lab.M, p, k=k, n=size, rows=rows)
    z = float(ndtri((1 + level) / 2))
    width = min(1.0, 2 * z * float(np.sqrt(parts.variance)))
    more_field, more_lab = rows_to_reach((width / (4 * z)) ** 2, lab.M, p, k=k, n=size, rows=rows)
    whole = parts.sampling + parts.separability + parts.lab
    mean_prediction = p @ lab.M @ lab.bin_means
    planned = _Planned.expected(lab, size * p @ lab.M) if prev is None else _Planned.of(prev)
    as_it_is = prev is not None and n is None and prevalence is None
    if assume == "label_shift":
        after_trust = width
    elif prev is not None and prev.rests_on_lab_groups and as_it_is:
        after_trust = _width_with_lab_groups(prev, level)[k]
    else:
        after_trust = planned.width(lab, p, size, level)[k]
    return Plan(
        of=lab.classes[k],
        n=int(size),
        level=level,
        width=float(after_trust),
        width_if_label_shift=width,
        from_field=parts.sampling / whole,
        from_separability=parts.separability / whole,
        from_lab=parts.lab / whole,
        field_rows=None if more_field is None else int(np.ceil(more_field * size)),
        lab_rows=None if more_lab is None else int(np.ceil(more_lab * lab.n)),
        labels=labels_to_decide(mean_prediction, p) if outlook is None else outlook.labels_to_settle(),
        more_labels=() if outlook is None else tuple(_more_labels(outlook, numbers, k, level, progress)),
    )


def _outlook(
    prev: Prevalence | None, labels: Sequence[int] | None, *, other_field: bool
) -> tuple[Outlook | None, tuple[int, ...]]:
    """What further labels are planned with, and how many of them; None where that is not asked for.

    ``other_field``: whether another field is planned for than that of the estimate.
    """
    if labels is None:
        labels = () if other_field or prev is None else LABELS
    labels = checked_labels(labels)
    if len(labels) and (prev is None or other_field):
        raise InputError(
            f"{option('labels')} are planned for the field of an estimate, as it is. Give a Prevalence, and neither "
            "n, prevalence nor assume."
        )
    if prev is None or not len(labels) or not float(np.sum(prev.n)):
        return None, ()
    posterior = prev.open_posterior
    return Outlook(posterior, float(posterior.model.counts.V.sum() / np.sum(prev.n))), labels


def _more_labels(
    outlook: Outlook,
    numbers: Sequence[int],
    k: int,
    level: float,
    progress: Callable[[int, int], None] | None,
) -> Iterator[MoreLabels]:
    steps = [(n, design) for n in numbers for design in DESIGNS]
    for done, (n, design) in enumerate(steps):
        if progress is not None:
            progress(done, len(steps))
        whole, group = outlook.widths(n, design, level=level)
        yield MoreLabels(n, design, float(whole[k]), None if group is None else float(group[k]))


def labels_to_settle(prev: Prevalence) -> int | None:
    """Labels drawn at random that would settle the verdict, where that is soon computed: two classes, few groups."""
    if prev.is_judged or len(prev.classes) > 2 or len(prev.groups) > _QUICK_GROUPS:
        return None
    outlook, _ = _outlook(prev, LABELS, other_field=False)
    return None if outlook is None else outlook.labels_to_settle()


def _width_with_lab_groups(prev: Prevalence, level: float) -> Floats:
    """Of the whole field of an estimate that rests on the labels of the lab's groups, (K,)."""
    lower, upper = prev.posterior.whole().interval(level, np.array([float(np.sum(prev.n))]))
    return np.asarray((upper - lower)[0])


@dataclass(frozen=True)
class _Planned:
    """What is planned for: one population that moved, or one more group like those of the lab."""

    trust: Trust
    moved: bool
    grouped: bool

    @classmethod
    def expected(cls, lab: Lab, V: Floats) -> _Planned:
        """What a lab would make of this histogram (m,)."""
        shift = overall_shift(np.asarray(lab.F_effective), V, smoothing=lab.smoothing)
        if lab.rehearsal is not None:
            return cls(Trust(0.0, lab.rehearsal.trust, rehearsed=1.0), moved=False, grouped=True)
        alone = without_labels(shift, skill(np.asarray(lab.F_effective)))
        return cls(Trust(alone, alone), moved=shift.shifted, grouped=False)

    @classmethod
    def of(cls, prev: Prevalence) -> _Planned:
        return cls(prev.trust, moved=prev.overall_shift.shifted, grouped=False)

    def width(self, lab: Lab, p: Floats, n: float, level: float) -> Floats:
        """Of the interval of each class, (K,), that the expected histogram would get."""
        mean, at_lab = (q @ lab.M @ lab.bin_means for q in (p, lab.p_lab))
        sd = np.sqrt(prevalence_variance(lab.M, p, n=n, rows=lab.A.sum(axis=1)))
        half = ndtri((1 + level) / 2) * sd
        spread = Summary(*(x[None] for x in (p, sd, p - half, p + half)))
        whole, average = (lab.p_lab, at_lab) if self.grouped else (p, mean)
        V = n * (p @ lab.M)[None]
        options: dict[str, Any] = {"shifted": self.moved, "grouped": self.grouped, "summary": spread}
        found = histograms(lab, V, mean[None], average, p[None], whole, self.trust, **options)
        if found.alone:
            return np.minimum(1.0, 2 * half)
        lower, upper = found.shares().interval(level, V.sum(axis=1))
        return np.asarray((upper - lower)[0])
