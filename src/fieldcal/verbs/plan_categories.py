"""plan for values: how many rows to label for a width, or to distinguish two groups; and widths with more labels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from fieldcal.core.categories import Judge, model_of
from fieldcal.core.field_posterior import posterior_of
from fieldcal.core.problem import Problem
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Prevalence, group_keys, show
from fieldcal.objects.judged import Judged
from fieldcal.options import as_number, check_whole
from fieldcal.types import Design, Floats, Ints

_MOST_LABELS = 1_000_000
_STEPS = 7  # of a search among the numbers of labels, at most
_POWER = 0.8  # the probability with which two groups are distinguished
_MOST = 200  # groups that are planned for
_TINY = 1e-300


@dataclass(frozen=True)
class MoreLabels:
    """How wide intervals will be, on average, with so many labels more.

    Attributes
    ----------
    design : how the rows are chosen: at random, by `rows_to_label` ("by_score"), or as many of each class ("by_class")
    width : of the interval of the whole field
    group_width : of that of a typical group, the median; None without groups
    """

    labels: int
    design: Design
    width: float
    group_width: float | None


def checked_labels(labels: Any) -> tuple[int, ...]:
    if not isinstance(labels, (list, tuple, np.ndarray)):
        raise InputTypeError(
            f"labels must be a list of whole numbers, such as [50, 100], but got {labels!r:.60}."
        )
    for number in labels:
        check_whole("labels", number, least=1, most=_MOST_LABELS)
    return tuple(int(number) for number in labels)


def label_lines(more_labels: tuple[MoreLabels, ...]) -> Iterator[str]:
    if not more_labels:
        return
    groups = more_labels[0].group_width is not None
    yield "  with more labels the interval will be about so wide" + (
        ", and that of a typical group:" if groups else ":"
    )
    designs = dict.fromkeys(more.design for more in more_labels)
    yield f"{'labels':>12}" + "".join(f"{_DESIGN_WORDS[design]:>24}" for design in designs)
    for n in dict.fromkeys(more.labels for more in more_labels):
        cells = {more.design: more for more in more_labels if more.labels == n}
        yield f"{n:>12,}" + "".join(f"{_widths(cells[design]):>24}" for design in designs)


_DESIGN_WORDS: dict[Design, str] = {
    "random": "drawn at random",
    "by_score": "by rows_to_label",
    "by_class": "as many of each class",
}


def _widths(more: MoreLabels) -> str:
    return f"{more.width:.3f}" + ("" if more.group_width is None else f", {more.group_width:.3f}")


@dataclass(frozen=True)
class CategoriesPlan:
    """What labels would make of the shares behind values.

    Attributes
    ----------
    labels : rows that have one
    width, group_width : of the interval now: of the whole field, and of a typical group (the median), if there are any
    more_labels : the widths that further labels of each design would leave
    wanted : the width that was asked for, of a typical group if there are groups, otherwise of the whole field
    labels_for_width : random labels more that give it; None where labels alone do not, and more rows are needed
    apart : the two groups that are compared
    difference : of their shares, as estimated now
    labels_to_tell : random labels more that tell them apart in four of five cases, if they differ as they seem to
    """

    of: Hashable
    level: float
    labels: float
    width: float
    group_width: float | None
    more_labels: tuple[MoreLabels, ...] = ()
    wanted: float | None = None
    labels_for_width: int | None = None
    apart: tuple[Hashable, Hashable] | None = None
    difference: float | None = None
    labels_to_tell: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        apart = None if self.apart is None else [group_keys.show(name) for name in self.apart]
        return asdict(self) | {"more_labels": [asdict(more) for more in self.more_labels], "apart": apart}

    def __repr__(self) -> str:
        slices = "" if self.group_width is None else f", that of a typical slice {self.group_width:.3f}"
        lines = [
            f"Plan: with {show.amount(self.labels)} labelled rows the {self.level:.0%} interval of "
            f"{group_keys.show(self.of)} has the width {self.width:.3f}{slices}"
        ]
        if self.wanted is not None:
            whose = "" if self.group_width is None else " of a typical slice"
            lines.append(f"  a width{whose} of {self.wanted:g} takes {_rows(self.labels_for_width)}")
        if self.apart is not None:
            a, b = (group_keys.show(name, width=30) for name in self.apart)
            lines.append(
                f"  to tell {a} from {b}, which seem to differ by {self.difference:+.3f}, takes "
                f"{_rows(self.labels_to_tell)}"
            )
        return "\n".join([*lines, *label_lines(self.more_labels)])


def _rows(number: int | None) -> str:
    if number is None:
        return "more rows: to label all of these would not do"
    return f"about {number:,} labels more, drawn at random" if number else "no more labels"


def plan_categories(
    prev: Prevalence,
    *,
    k: int,
    level: float,
    labels: Sequence[int],
    width: Any = None,
    apart: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> CategoriesPlan:
    """Of class k: the widths with more labels, and how many are needed for one, or to distinguish two groups."""
    judged = prev.judged
    rows = _largest(judged)
    pair = None if apart is None else _pair(prev, apart)
    if pair is not None:
        rows = np.union1d(rows, pair)
    outlook = _Outlook.of(prev, rows)
    open_rows = int(outlook.rest.sum())

    planned = [n for n in labels if n <= open_rows]
    steps = len(planned) * len(outlook.designs) + ((width is not None) + (pair is not None)) * _STEPS
    done = 0

    @functools.cache  # a search for a width and one for two slices ask for the same numbers
    def after(n: int, design: Design = "random") -> _Uncertainty:
        nonlocal done
        found = outlook.after(n, design, k)
        done = min(done + (n > 0), steps)
        if progress is not None:
            progress(done, steps)
        return found

    @functools.cache
    def widths(n: int, design: Design = "random") -> tuple[float, float | None]:
        z = 2 * float(ndtri((1 + level) / 2))  # steadier than the quantiles of draws
        left = after(n, design)
        return z * left.whole, z * left.group if prev.field.grouped else None

    wanted = None if width is None else as_number("width", width, least=1e-6, most=1, words="a width")
    found = widths(0)
    plan: dict[str, Any] = {}
    if wanted is not None:
        at = 1 if prev.field.grouped else 0
        plan |= {"wanted": wanted, "labels_for_width": _fewest(lambda n: widths(n)[at] <= wanted, open_rows)}  # type: ignore[operator]
    if pair is not None:
        a, b = np.searchsorted(rows, pair)
        difference = float(prev.estimate[pair[0], k] - prev.estimate[pair[1], k])
        needed = abs(difference) / float(ndtri((1 + level) / 2) + ndtri(_POWER))

        def distinguished(n: int) -> bool:
            first, second = after(n).draws(np.array([a, b]))
            return float((first - second).std()) <= needed

        plan |= {"apart": tuple(prev.groups[g] for g in pair), "difference": difference}
        plan |= {"labels_to_tell": _fewest(distinguished, open_rows)}
    more = [MoreLabels(int(n), design, *widths(n, design)) for n in planned for design in outlook.designs]
    return CategoriesPlan(
        of=prev.classes[k],
        level=level,
        labels=float(
            judged.known.sum()
            + sum(x.counts.sum() for d, x in prev.field.labelled.items() if d == "by_class")
        ),
        width=found[0],
        group_width=found[1],
        more_labels=tuple(more),
        **plan,
    )


@dataclass(frozen=True)
class _Uncertainty:
    """What labels leave open in the share of a class."""

    whole: float  # standard deviations: of all rows,
    group: float  # and of a typical group
    draws: Callable[[Ints], Floats]  # of some groups, (groups, draws)


@dataclass(frozen=True)
class _Outlook:
    """Counts of some groups, and what further labels are on average if the estimate is right."""

    known: Floats  # (G, K, m)
    given: Floats  # (K, m)
    V: Floats  # (G, m)
    classes: Floats  # (G, K, m) P(class | category)
    M: Floats  # (K, m)
    by_labels: bool
    problem: Problem
    seed: int

    @classmethod
    def of(cls, prev: Prevalence, rows: Ints) -> _Outlook:
        judged = prev.judged
        M = judged.rates.mean(axis=0)
        if judged.by_labels:
            classes = judged.posterior.classes(rows).swapaxes(1, 2)
        else:
            joint = prev.estimate[rows][:, :, None] * M
            classes = joint / np.maximum(joint.sum(axis=1, keepdims=True), _TINY)
        known, problem = judged.known[rows], judged.problem.take(rows)
        V = np.asarray(prev.field.V, dtype=np.float64)[rows] if not judged.by_labels else problem.V
        return cls(known, judged.given, V, classes, M, judged.by_labels, problem, judged.seed)

    @property
    def designs(self) -> tuple[Design, ...]:
        return ("random",) if self.by_labels else ("random", "by_class")

    @property
    def rest(self) -> Floats:
        return np.asarray(np.maximum(self.V - self.known.sum(axis=1), 0.0))

    def after(self, n: float, design: Design, k: int) -> _Uncertainty:
        """With so many labels more, all rows at most."""
        if design == "by_class" or not (n or self.by_labels):
            return self._under_label_shift(n, k)
        part = min(1.0, n / max(float(self.rest.sum()), _TINY))
        known = self.known + part * self.rest[:, None] * self.classes
        given = self.given if self.given.any() else None
        found = posterior_of(model_of(known, self.V, given), self.seed)
        whole, each = (shares.deviation[:, k] for shares in (found.whole(), found.shares()))
        return _Uncertainty(
            float(whole[0]), float(np.median(each)), lambda at: found.draws(at, 1_024)[..., k]
        )

    def _under_label_shift(self, n: float, k: int) -> _Uncertainty:
        problem = replace(self.problem, F=self.given + n / len(self.M) * self.M)
        found = Judge().posterior(problem, random_state=self.seed)
        whole = Judge().posterior(problem.whole(), random_state=self.seed).summary(0.9).sd[0, k]
        each = found.summary(0.9).sd[:, k]
        return _Uncertainty(
            float(whole), float(np.median(each)), lambda at: found.draws(per_draw=16)[at][..., k]
        )


def _largest(judged: Judged) -> Ints:
    """The groups that are planned for: of many, those with most rows."""
    return np.sort(np.argsort(-judged.n, kind="stable")[:_MOST])


def _pair(prev: Prevalence, apart: Any) -> Ints:
    if not isinstance(apart, (list, tuple)) or len(apart) != 2:
        raise InputTypeError(f"apart must be two groups, such as ('a', 'b'), but got {apart!r:.60}.")
    at = np.array([prev.row_of(group) for group in apart], dtype=np.intp)
    if at[0] == at[1]:
        raise InputError(f"{option('apart')} names one group twice. Name two.")
    return at


def _fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """The fewest labels that are enough, to two digits; None where not even all are."""
    if enough(0):
        return 0
    grid = np.unique([*(int(float(f"{x:.2g}")) for x in np.geomspace(5, max(most, 6), 25)), most])
    grid = grid[grid <= most]
    if not len(grid) or not enough(int(grid[-1])):
        return None
    low, high = 0, len(grid) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(int(grid[middle])) else (middle + 1, high)
    return int(grid[low])
