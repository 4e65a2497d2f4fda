"""plan for values: how many rows to label for a width, or to tell two slices apart; and widths with more labels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from fieldcal.core import categories, field_posterior, judge_plan
from fieldcal.core.judge import Posterior
from fieldcal.core.judge_plan import largest, part_of
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Prevalence, group_keys, show
from fieldcal.objects.judged import Judged, LabelledRows
from fieldcal.options import as_number, check_whole
from fieldcal.types import Design, Floats, Ints

_MOST_LABELS = 1_000_000
_STEPS = 7  # of a search among the numbers of labels, at most
_POWER = 0.8  # the probability with which two slices are told apart


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
    """Numbers of labels to plan for."""
    if not isinstance(labels, (list, tuple, np.ndarray)):
        raise InputTypeError(
            f"labels must be a list of whole numbers, such as [50, 100], but got {labels!r:.60}."
        )
    for number in labels:
        check_whole("labels", number, least=1, most=_MOST_LABELS)
    return tuple(int(number) for number in labels)


def label_lines(more_labels: tuple[MoreLabels, ...]) -> Iterator[str]:
    """A table of widths, for people."""
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
class ValuesPlan:
    """What labels would make of the shares behind values.

    Attributes
    ----------
    labels : rows that have one
    width, group_width : of the interval now: of the whole field, and of a typical slice (the median), if there are any
    more_labels : the widths that further labels of each design would leave
    wanted : the width that was asked for, of a typical slice where there are slices, otherwise of the whole field
    labels_for_width : random labels more that give it; None where labels alone do not, and more rows are needed
    apart : the two slices that are to be told apart
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


def plan_values(
    prev: Prevalence,
    *,
    k: int,
    level: float,
    labels: Sequence[int],
    width: Any = None,
    apart: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> ValuesPlan:
    """Of class k: the widths with more labels, and how many are needed for one, or to tell two slices apart."""
    data = prev.judged.verdicts
    rows = largest(data)
    pair = None if apart is None else _pair(prev, apart)
    if pair is not None:
        rows = np.union1d(rows, pair)
    outlook: Outlook = (
        _LabelledRows.of(prev.judged, rows)
        if isinstance(prev.judged, LabelledRows)
        else _Judge.of(prev.judged, rows, np.asarray(prev.n, dtype=np.float64)[rows])
    )
    open_rows = int(data.rest[rows].sum())

    planned = [n for n in labels if n <= open_rows]
    steps = len(planned) * len(outlook.designs) + ((width is not None) + (pair is not None)) * _STEPS
    done = 0

    @functools.cache  # a search for a width and one for two slices ask for the same numbers
    def after(n: int, design: Design = "random") -> Any:
        nonlocal done
        found = outlook.after(n, design)
        done = min(done + (n > 0), steps)
        if progress is not None:
            progress(done, steps)
        return found

    @functools.cache
    def widths(n: int, design: Design = "random") -> tuple[float, float | None]:
        z = 2 * float(ndtri((1 + level) / 2))  # steadier than the quantiles of draws
        whole, each = outlook.deviations(after(n, design), k)
        return z * whole, z * each if prev.field.grouped else None

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

        def told(n: int) -> bool:
            return outlook.difference(after(n), int(a), int(b), k) <= needed

        plan |= {"apart": tuple(prev.groups[g] for g in pair), "difference": difference}
        plan |= {"labels_to_tell": _fewest(told, open_rows)}
    more = [MoreLabels(int(n), design, *widths(n, design)) for n in planned for design in outlook.designs]
    return ValuesPlan(
        of=prev.classes[k],
        level=level,
        labels=float(
            data.known.sum() + sum(x.counts.sum() for d, x in prev.field.labelled.items() if d == "by_class")
        ),
        width=found[0],
        group_width=found[1],
        more_labels=tuple(more),
        **plan,
    )


class Outlook(Protocol):
    """What further labels leave open."""

    @property
    def designs(self) -> tuple[Design, ...]:
        """How further rows may be chosen."""

    def after(self, n: int, design: Design) -> Any:
        """The posterior with so many labels more."""

    def deviations(self, posterior: Any, k: int) -> tuple[float, float]:
        """Standard deviations of the share of class k: of all rows, and of a typical slice."""

    def difference(self, posterior: Any, a: int, b: int, k: int) -> float:
        """That of the difference of two slices."""


@dataclass(frozen=True)
class _Judge:
    """Under the model of one judge, more or less."""

    expected: judge_plan.Expected
    given: Floats
    size: Floats
    designs: tuple[Design, ...] = ("random", "by_class")

    @classmethod
    def of(cls, judged: Judged, rows: Ints, size: Floats) -> _Judge:
        data = judged.verdicts
        every = len(rows) == len(data.rest)
        now = judged.posterior if every else Posterior.of(part_of(data, rows), seed=judged.seed)
        expected = judge_plan.Expected(now)
        return cls(expected, expected.classes(), size)

    def after(self, n: int, design: Design) -> Posterior:
        return self.expected.posterior if n == 0 else self.expected.after(n, design, self.given)

    def deviations(self, posterior: Posterior, k: int) -> tuple[float, float]:
        draws = posterior.draws(np.arange(len(self.size)))[..., k]
        whole = (self.size / max(self.size.sum(), 1e-300)) @ draws
        return float(whole.std()), float(np.median(draws.std(axis=1)))

    def difference(self, posterior: Posterior, a: int, b: int, k: int) -> float:
        draws = posterior.draws(np.array([a, b]))[..., k]
        return float((draws[0] - draws[1]).std())


@dataclass(frozen=True)
class _LabelledRows:
    """Labels of the field's rows; all open rows labelled leave nothing open."""

    expected: categories.Expected
    designs: tuple[Design, ...] = ("random",)

    @classmethod
    def of(cls, judged: LabelledRows, rows: Ints) -> _LabelledRows:
        counts, now = judged.model.model.counts, judged.model
        if len(rows) < len(counts.V):
            now = field_posterior.posterior_of(
                categories.model_of(counts.field[rows], counts.V[rows]), judged.seed
            )
        return cls(categories.Expected(now))

    def after(self, n: int, design: Design) -> field_posterior.Posterior:
        return self.expected.posterior if n == 0 else self.expected.after(n)

    def deviations(self, posterior: field_posterior.Posterior, k: int) -> tuple[float, float]:
        whole, each = (found.deviation[:, k] for found in (posterior.whole(), posterior.shares()))
        return float(whole[0]), float(np.median(each))

    def difference(self, posterior: field_posterior.Posterior, a: int, b: int, k: int) -> float:
        draws = posterior.draws(np.array([a, b]), 1_024)[..., k]
        return float((draws[0] - draws[1]).std())


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
