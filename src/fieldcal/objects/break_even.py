"""Break-even of conclusions about shares: how wrong the assumption behind an estimate may be before they change."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import break_even as core
from fieldcal.core.policy import POLICY
from fieldcal.errors import InputError, option
from fieldcal.objects import derived, group_keys, show
from fieldcal.objects.outcome import place_of_class
from fieldcal.objects.problem import as_problem
from fieldcal.options import as_number
from fieldcal.types import Floats, Ints, Keys

if TYPE_CHECKING:
    from fieldcal.objects.lab import Lab
    from fieldcal.objects.prevalence import Prevalence

_SHOWN = 12
_WHOLE = -1  # in place of a group's position
#: Rows of a lab group from which its violation is measured, and most groups that are.
_ROWS, _MOST_GROUPS = 200, 2_000
_MOST_PROGRAMS = 20_000  # of a table: about 8 seconds
#: Violations for which `breakdown` gives the possible shares.
CHANGES = (0.02, 0.05, 0.1)


@dataclass(frozen=True)
class Reference:
    """Violations that were measured with labels, to compare a break-even with.

    Attributes
    ----------
    violations : (n,) of the lab's own groups; None for the table of groups of other real files
    """

    violations: Floats | None

    @property
    def groups(self) -> str:
        """The groups in words."""
        return "real groups" if self.violations is None else "groups of the lab"

    def below(self, change: float) -> float:
        """The share of these groups whose violation is below a change."""
        if self.violations is None:
            return core.reference_share(change)
        return float((self.violations < change).mean())

    def tenths(self, change: float) -> int:
        """How many of ten of these groups have a violation below a change, rounded down."""
        return int(10 * self.below(change) + 1e-9)

    def quantiles(self, shares: tuple[float, ...] = (0.1, 0.5, 0.9)) -> list[float]:
        """Violations below which these shares of the groups are, rounded up to an edge of the table."""
        if self.violations is not None:
            return [float(x) for x in np.quantile(self.violations, shares)]
        cumulated = np.cumsum(core.REFERENCE_GROUPS) / np.sum(core.REFERENCE_GROUPS)
        return [core.REFERENCE_EDGES[int(np.searchsorted(cumulated, share))] for share in shares]


@dataclass(frozen=True, eq=False)
class BreakEven:
    """How wrong the assumption may be before each of some conclusions can change.

    Attributes
    ----------
    groups : (N,) the groups, None for the whole field; pairs of groups for contrasts
    of : the class
    against : (N,) what the share is compared with: "the lab", "the whole field", "the threshold" or "the other group"
    threshold : (N,) shares that are compared with; 0 for contrasts
    above : (N,) whether the conclusion is that the share is above
    rows : (N,) break-even: the share of rows that must be scored differently than rows of their class in the lab,
        beyond the misfit, before the conclusion can be wrong; 0 if it is not the conclusion under label shift. Of a
        contrast, in each of the two groups
    lower : (N,) lower bound of ``rows``, allowing for the noise of field and lab: the lower end of an interval at
        ``level``
    misfit : (N,) share of rows that must be scored differently whatever the shares are
    unchanged : (N,) break-even of the same conclusion if it is drawn from mean predictions: the share of rows whose
        class must differ from that of such predictions in the lab; NaN for categories
    reference : violations that were measured with labels, to compare with
    """

    groups: Keys
    of: Hashable
    against: tuple[str, ...]
    threshold: Floats
    above: NDArray[np.bool_]
    rows: Floats
    lower: Floats
    misfit: Floats
    unchanged: Floats
    level: float
    reference: Reference

    def __len__(self) -> int:
        return len(self.groups)

    def text(self, i: int = 0) -> str:
        """Conclusion ``i`` and its break-even, as a sentence."""
        return f"{self.conclusion(i)}: {self.condition(i)}"

    def conclusion(self, i: int = 0) -> str:
        """Conclusion ``i`` in words."""
        where, side = self.groups[i], "above" if self.above[i] else "below"
        of = f"share of {group_keys.show(self.of, width=30)}"
        if self.against[i] == "the other group":
            assert isinstance(where, tuple)
            a, b = (group_keys.show(g, width=30) for g in where)
            return f"{of} in {a} {side} that in {b}"
        name = "the whole field" if where is None else group_keys.show(where, width=30)
        other = "" if self.against[i] == "the threshold" else f"{self.against[i]}'s "
        return f"{of} in {name} {side} {other}{self.threshold[i]:.1%}"

    def condition(self, i: int = 0) -> str:
        """How wrong label shift may be for conclusion ``i`` to hold, in words."""
        if np.isnan(self.rows[i]):
            return "no rows"
        if self.rows[i] <= 0:
            return "does not hold if rows are scored as in the lab"
        rows = "the rows of each" if self.against[i] == "the other group" else "rows"
        noise = f"at least {self.lower[i]:.1%}" if self.lower[i] > 0 else "within noise of 0"
        return (
            f"holds unless {self.rows[i]:.1%} of {rows} are scored differently than in the lab ({noise}); in "
            f"{self.reference.tenths(float(self.rows[i]))} of 10 {self.reference.groups} fewer are"
        )

    def __repr__(self) -> str:
        lines = [self.text(i) for i in range(min(len(self), _SHOWN))]
        return "\n".join([*lines, *([show.more(len(self), _SHOWN)] if len(self) > _SHOWN else [])])

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as plain lists, with the share of reference groups whose violation is below each break-even."""
        numbers = {name: getattr(self, name).tolist() for name in ("rows", "lower", "misfit", "unchanged")}
        return {
            "group": [list(g) if isinstance(g, tuple) else g for g in self.groups],
            "class": [self.of] * len(self),
            "against": list(self.against),
            "threshold": self.threshold.tolist(),
            "above": self.above.tolist(),
            **{name: [None if x != x else x for x in column] for name, column in numbers.items()},
            "reference_below": [None if x != x else self.reference.below(x) for x in numbers["rows"]],
        }


@dataclass(frozen=True)
class _Histograms:
    """The histograms of groups, as shares, and the lab's distributions that they are compared with."""

    V: Floats  # (N, m)
    n: Floats  # (N,) effective rows
    A: Floats  # (K, m) Dirichlet parameters

    @property
    def M(self) -> Floats:
        return np.asarray(self.A / self.A.sum(axis=1, keepdims=True))

    @classmethod
    def of(cls, prev: Prevalence, at: Ints) -> _Histograms:
        """Of the groups at these positions; −1 is the whole field."""
        if prev.lab.outcome.kind == "intervals":
            raise InputError(
                "break_even is for classes: intervals of a number are estimated by smoothing between neighbours, so "
                "that no single interval has a share that could be compared without the others."
            )
        counted = np.asarray(prev.field.V, dtype=np.float64)
        if prev.is_judged:
            problem, A = prev.judged.problem, _concentrations(prev.judged.rates)
        else:
            every = np.arange(len(prev.groups))  # outlying groups are part of the whole field
            problem = as_problem(prev.lab, prev.field, design_effect=prev.design_effect, rows=every)
            A = problem.A
        V = np.vstack([counted, counted.sum(axis=0)])[at]
        n = np.append(problem.V.sum(axis=1), problem.total.sum())[at]
        total = V.sum(axis=1, keepdims=True)
        return cls(np.divide(V, total, out=np.full(V.shape, np.nan), where=total > 0), n, A)


def _concentrations(rates: Floats) -> Floats:
    """Dirichlet parameters (K, m) with the mean and the total variance of draws (n, K, m)."""
    mean, variance = rates.mean(axis=0), rates.var(axis=0).sum(axis=1)
    rows = (mean * (1 - mean)).sum(axis=1) / np.maximum(variance, 1e-12) - 1
    return np.asarray(mean * np.maximum(rows, 1.0)[:, None])


def break_even(
    prev: Prevalence,
    *,
    share_above: float | None,
    share_below: float | None,
    group: Hashable,
    contrast: tuple[Hashable, Hashable] | None,
    of: Hashable,
    level: float | None,
) -> BreakEven:
    """Break-even of conclusions about the share of a class."""
    k, level = place_of_class(prev.classes, of), derived.level_of(prev, level)
    given = {"share_above": share_above, "share_below": share_below, "contrast": contrast}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"{named[0]} and {named[1]} are two conclusions. Ask for one at a time.")
    if contrast is not None:
        if group is not ...:
            raise InputError("contrast names its two groups. Leave out group.")
        return _contrast(prev, contrast, k, level)
    at = _asked_rows(prev, group)
    shares = np.vstack([prev.estimate, prev.whole.estimate])[at, k]
    if named:
        c = as_number(named[0], given[named[0]], least=0.0, most=1.0, words="a share from 0 to 1")
        above = np.full(len(at), share_above is not None)
        return _thresholds(prev, at, k, np.full(len(at), c), above, ("the threshold",) * len(at), level)
    # Labelled rows of categories are no population to compare with.
    lab = at[:0] if prev.is_judged else at
    whole = at[at != _WHOLE] if prev.field.grouped else at[:0]
    if not len(lab) + len(whole):
        raise InputError(
            "There is no lab population and no whole field to compare this share with. Give "
            f"{option('share_above')} or {option('share_below')}."
        )
    c = np.r_[np.full(len(lab), prev.lab.p_lab[k]), np.full(len(whole), prev.whole.estimate[k])]
    both = np.r_[lab, whole]
    position = {g: i for i, g in enumerate(at.tolist())}
    above = shares[[position[g] for g in both.tolist()]] >= c
    against = ("the lab",) * len(lab) + ("the whole field",) * len(whole)
    return _thresholds(prev, both, k, c, above, against, level)


def against_lab(prev: Prevalence) -> dict[str, Floats]:
    """Break-even of every class and group against the lab's share, and its lower bound, (G + 1, K).

    The last row is the whole field. The conclusion is that of the estimate. NaN where nothing is compared: categories,
    intervals of a number, and more than two classes in very many groups, each of which takes a linear program.
    """
    at, K = np.append(np.arange(len(prev.groups)), _WHOLE), len(prev.classes)
    found = {name: np.full((len(at), K), np.nan) for name in ("break_even", "break_even_lower")}
    many = K > 2 and len(at) * K > _MOST_PROGRAMS
    if many or prev.is_judged or prev.lab.outcome.kind == "intervals":
        return found
    held, shares = _Histograms.of(prev, at), np.vstack([prev.estimate, prev.whole.estimate])
    level = derived.level_of(prev, None)
    best = None
    # The second of two classes is the first with the sides swapped.
    for k in [1] if K == 2 else range(K):
        c = np.full(len(at), prev.lab.p_lab[k])
        rows, lower, _, best = _solved(held, np.arange(len(at)), k, c, shares[:, k] >= c, level, best)
        found["break_even"][:, k], found["break_even_lower"][:, k] = rows, lower
    if K == 2:
        for table in found.values():
            table[:, 0] = table[:, 1]
    return found


def against_lab_of(prev: Prevalence, group: Hashable, k: int) -> BreakEven | None:
    """That of one class in a group, or in the whole field if it is ``...``; None where nothing is compared."""
    at = np.array([_WHOLE if group is ... else prev.row_of(group)])
    share, c = np.vstack([prev.estimate, prev.whole.estimate])[at, k], prev.lab.p_lab[[k]]
    if prev.is_judged or prev.lab.outcome.kind == "intervals" or not _rows(prev)[at].all():
        return None
    return _thresholds(prev, at, k, c, share >= c, ("the lab",), derived.level_of(prev, None))


def sheet(prev: Prevalence, k: int) -> show.Sheet | None:
    """Break-even of class k against the lab: the whole field and the largest groups; None without any."""
    grouped = prev.field.grouped
    if prev.is_judged or prev.lab.outcome.kind == "intervals" or not _rows(prev)[-1]:
        return None
    at = np.array([_WHOLE, *(show.largest(prev.n, _SHOWN) if grouped else [])], dtype=np.intp)
    shares, c = np.vstack([prev.estimate, prev.whole.estimate])[at, k], np.full(len(at), prev.lab.p_lab[k])
    level = derived.level_of(prev, None)
    found = _thresholds(prev, at, k, c, shares >= c, ("the lab",) * len(at), level)
    rows = [
        [
            "whole field" if name is None else show.name(name),
            "above" if found.above[i] else "below",
            *("–" if x != x else f"{x:.1%}" for x in (found.rows[i], found.lower[i], found.unchanged[i])),
            "–" if np.isnan(found.rows[i]) else f"{found.reference.tenths(float(found.rows[i]))} of 10",
        ]
        for i, name in enumerate(found.groups)
    ]
    return show.Sheet(
        f"Break-even: rows scored differently than in the lab that undo a share of {show.name(prev.classes[k])} above "
        f"or below the lab's {c[0]:.1%}",
        [
            "group",
            "share",
            "break-even",
            "at least",
            "by mean prediction",
            f"{found.reference.groups} with fewer",
        ],
        rows,
        (show.more(len(prev.groups), len(at) - 1) if grouped else "",),
        names=2,
    )


def breakdown(prev: Prevalence, group: Hashable, k: int, changes: Floats) -> Floats:
    """The lowest and highest share of class k, (E, 2), by how many rows beyond the misfit are scored differently."""
    held = _Histograms.of(prev, np.array([_WHOLE if group is ... else prev.row_of(group)]))
    if not held.n[0]:
        return np.tile([0.0, 1.0], (len(changes), 1))
    return core.share_bounds(held.V[0], held.M, k, changes)


def reference_of(lab: Lab) -> Reference:
    """Violations of the lab's own groups, each against the lab without it; otherwise the table of other files."""
    at = np.flatnonzero(lab.group_rows * lab.effective_per_row >= _ROWS)[:_MOST_GROUPS]
    if lab.of_values or len(at) < POLICY.few:
        return Reference(None)
    H = lab.group_counts(at) * lab.effective_per_row
    cells = lab.A - lab.F * (lab.n_effective / lab.F.sum(axis=1))[:, None]
    others = np.maximum(lab.F_effective - H, 0.0) + np.maximum(cells, 1e-9)
    return Reference(core.violations(H, others))


def _rows(prev: Prevalence) -> Floats:
    """Rows of the groups and of the whole field."""
    n = np.asarray(prev.n, dtype=np.float64)
    return np.append(n, n.sum())


def _asked_rows(prev: Prevalence, group: Hashable) -> Ints:
    if group is not ...:
        return np.array([prev.row_of(group)])
    return np.append(np.arange(len(prev.groups)), _WHOLE) if prev.field.grouped else np.array([_WHOLE])


def _thresholds(
    prev: Prevalence,
    at: Ints,
    k: int,
    c: Floats,
    above: NDArray[np.bool_],
    against: tuple[str, ...],
    level: float,
) -> BreakEven:
    distinct, back = np.unique(at, return_inverse=True)
    rows, lower, misfit, _ = _solved(_Histograms.of(prev, distinct), back, k, c, above, level)
    mean = np.vstack([prev.mean_prediction, prev.whole.mean_prediction])[at, k]
    unchanged = np.maximum(np.where(above, mean - c, c - mean), 0.0)
    if prev.is_judged:
        unchanged = np.full(len(at), np.nan)
    named = (*prev.groups, None)
    groups = tuple(named[g] for g in at.tolist())
    return BreakEven(
        groups,
        prev.classes[k],
        against,
        c,
        above,
        rows,
        lower,
        misfit,
        unchanged,
        level,
        reference_of(prev.lab),
    )


def _solved(
    held: _Histograms,
    at: Ints,
    k: int,
    c: Floats,
    above: NDArray[np.bool_],
    level: float,
    best: core.Flip | None = None,
) -> tuple[Floats, Floats, Floats, core.Flip]:
    """Break-even, lower end and misfit, (N,), of conclusions about the histograms at these positions; the best fits."""
    empty = held.n <= 0
    V, M = np.where(empty[:, None], 1 / held.A.shape[1], held.V), held.M
    best = core.closest(V, M) if best is None else best
    fit = core.Flip(best.change[at], best.p[at], best.y[at])
    flip = core.flip(V[at], M, k, c, above, fit)
    rows = np.where(empty[at], np.nan, np.maximum(flip.change - fit.change, 0.0))
    lower = core.lower_end(rows, core.standard_error(flip, V[at], held.n[at], held.A), level)
    return rows, lower, np.where(empty[at], np.nan, fit.change), best


def _contrast(prev: Prevalence, contrast: tuple[Hashable, Hashable], k: int, level: float) -> BreakEven:
    if not isinstance(contrast, tuple) or len(contrast) != 2:
        raise InputError(f"contrast must be two groups, (a, b), but got {contrast!r:.60}.")
    at = np.array([prev.row_of(group) for group in contrast])
    if at[0] == at[1]:
        raise InputError(
            f"contrast compares two groups, but got {group_keys.show(contrast[0])!r:.60} twice. Name another."
        )
    above = bool(prev.estimate[at[0], k] >= prev.estimate[at[1], k])
    if not above:
        at = at[::-1]
    held = _Histograms.of(prev, at)
    some = bool(held.n.all())
    found = core.meeting(held.V, held.M, k, held.n, held.A) if some else core.Meeting(np.nan, np.nan)
    change = np.array([found.change])
    lower = core.lower_end(change, np.array([found.error]), level)
    mean = prev.mean_prediction[at, k]
    unchanged = np.nan if prev.is_judged else max(float(mean[0] - mean[1]) / 2, 0.0)
    return BreakEven(
        (tuple(contrast),),
        prev.classes[k],
        ("the other group",),
        np.zeros(1),
        np.array([above]),
        change,
        lower,
        np.array([core.closest(held.V, held.M).change.max() if some else np.nan]),
        np.array([unchanged]),
        level,
        reference_of(prev.lab),
    )
