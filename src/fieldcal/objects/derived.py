"""Quantities derived from an estimate: differences, ratios, comparisons, rankings and totals of groups.

All are functions of an estimate and its joint draws; the methods of `Prevalence` document them. Each has an interval
and the verdict of the estimate.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import group_keys, show
from fieldcal.objects.outcome import place_of_class
from fieldcal.objects.verdict import WORDS, Level
from fieldcal.options import as_array, as_number, check_level, check_options
from fieldcal.types import Floats, Ints, Keys

if TYPE_CHECKING:
    from fieldcal.objects.prevalence import Prevalence

#: Assumption behind derived quantities: the estimate after trust, or label shift.
Assume = Literal["trust", "label_shift"]

_MOST_COMPARED = 100  # groups whose pairs are all compared
_NOTHING = 1e-12  # shares below this are not divided by


def check_assume(assume: object) -> None:
    check_options(assume=assume)


def rests_on(assume: Assume, verdict: Level) -> str:
    """The assumption or the verdict behind a derived quantity, in words."""
    return "if label shift holds" if assume == "label_shift" else f"verdict: {WORDS[verdict].lower()}"


@dataclass(frozen=True)
class Interval:
    """A derived quantity: estimate, interval, posterior probability of exceeding the neutral value, and verdict."""

    estimate: float
    lower: float
    upper: float
    probability: float  # that a difference is above 0, or a ratio above 1
    level: float
    verdict: Level  # of the estimate that it comes from
    assume: Assume = "trust"

    def __str__(self) -> str:
        ends = f"{self.level:.0%} interval {self.lower:.3f} to {self.upper:.3f}"
        return f"{self.estimate:.3f} ({ends}; {rests_on(self.assume, self.verdict)})"

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The probability of each group to have the highest prevalence of a class."""

    groups: Keys
    probability: Floats  # (G,), sums to one
    of: Hashable
    verdict: Level
    assume: Assume = "trust"

    def __repr__(self) -> str:
        first = show.largest(self.probability, 5)
        named = ", ".join(
            f"{group_keys.show(self.groups[g], width=30)} {self.probability[g]:.2f}" for g in first
        )
        more = ", …" if len(self.groups) > len(first) else ""
        of = group_keys.show(self.of, width=30)
        return f"Highest prevalence of {of}: {named}{more} ({rests_on(self.assume, self.verdict)})"

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = [group_keys.show(g) for g in self.groups]
        probability = dict(zip(names, self.probability.tolist(), strict=True))
        return {"of": self.of, "probability": probability, "verdict": self.verdict, "assume": self.assume}


@dataclass(frozen=True)
class Difference:
    """Difference between the shares of a class in two groups.

    Attributes
    ----------
    estimate, lower, upper : of a minus b, with a marginal interval
    all_lower, all_upper : simultaneous interval over all differences
    probability : that a exceeds b
    found : whether the marginal interval excludes zero and the difference passes the error control of `Comparison`
    """

    a: Hashable
    b: Hashable
    estimate: float
    lower: float
    upper: float
    all_lower: float
    all_upper: float
    probability: float
    found: bool


@dataclass(frozen=True, eq=False)
class Comparison:
    """Differences between groups, most certain first.

    Attributes
    ----------
    differences : each with its marginal and its simultaneous interval
    errors : upper bound on the expected share of wrong signs among the differences that are found
    """

    differences: tuple[Difference, ...]
    of: Hashable
    level: float
    errors: float
    verdict: Level
    assume: Assume = "trust"

    @property
    def found(self) -> tuple[Difference, ...]:
        """Differences whose interval excludes zero, as many of the most certain as ``errors`` allows."""
        return tuple(d for d in self.differences if d.found)

    def __repr__(self) -> str:
        of, n = group_keys.show(self.of, width=30), len(self.differences)
        head = f"{len(self.found):,} of {n:,} differences in {of} found ({rests_on(self.assume, self.verdict)}; of "
        head += f"those found, * below, the interval excludes 0 and at most {self.errors:.0%} are expected to have the "
        head += "wrong sign)"
        lines = [
            f"{'*' if d.found else ' '} {show.name(d.a)} – {show.name(d.b)}: {d.estimate:+.3f} "
            f"({d.lower:+.3f} to {d.upper:+.3f})"
            for d in self.differences[:12]
        ]
        return "\n".join([head, *lines, *(["  …"] if n > 12 else [])])

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        rows = [asdict(d) | {"a": group_keys.show(d.a), "b": group_keys.show(d.b)} for d in self.differences]
        return {
            "of": self.of,
            "level": self.level,
            "errors": self.errors,
            "verdict": self.verdict,
            "assume": self.assume,
            "differences": rows,
        }


def differences(
    pairs: list[tuple[Hashable, Hashable]], points: Floats, draws: Floats, *, level: float, errors: float
) -> tuple[Difference, ...]:
    """Differences of pairs (a, b) from estimates (D,) and draws (D, n), most certain first."""
    tail = (1 - level) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=1)
    sd = np.maximum(draws.std(axis=1), 1e-12)
    middle = draws.mean(axis=1)
    reach = float(np.quantile(np.abs((draws - middle[:, None]) / sd[:, None]).max(axis=0), level))
    above = (draws > 0).mean(axis=1)
    wrong = np.minimum(above, 1 - above)
    order = np.lexsort((-np.abs(points), wrong))
    share = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    n_found = int(np.flatnonzero(share <= errors).max(initial=-1)) + 1
    return tuple(
        Difference(
            a=pairs[i][0],
            b=pairs[i][1],
            estimate=float(points[i]),
            lower=float(min(lower[i], points[i])),
            upper=float(max(upper[i], points[i])),
            all_lower=float(min(middle[i] - max(reach * sd[i], middle[i] - lower[i]), points[i])),
            all_upper=float(max(middle[i] + max(reach * sd[i], upper[i] - middle[i]), points[i])),
            probability=float(above[i]),
            found=place < n_found and not lower[i] <= 0 <= upper[i],
        )
        for place, i in enumerate(order)
    )


NONE = -1  # no bin, or no class


@dataclass(frozen=True, eq=False)
class Pairs:
    """Category of every item in every group. Made by `fieldcal.pairs`.

    Attributes
    ----------
    groups : the groups
    bins, classes : (items, G) the bin of the category, and the class if it is known; −1 for none
    lab : digest of the lab with these bins
    """

    groups: Keys
    bins: Ints
    classes: Ints
    lab: str

    def __repr__(self) -> str:
        both = int(((self.bins >= 0).sum(axis=1) > 1).sum())
        return (
            f"Pairs: {len(self.bins):,} items, {both:,} of them in two or more of {len(self.groups):,} groups"
        )

    def correlations(self, prev: Prevalence, groups: list[Hashable], rows: Ints, of: int) -> Floats:
        """(G, G) correlations between groups of the sampling noise in the shares of a class.

        A row contributes a score to the estimate of its group: ``P(k | category) / p_k − 1``, or ``1 / p_k − 1`` and
        −1 if the class is known. Over shared items the scores of two groups correlate; their other rows do not.
        Uncertainty about a group's own judge is not noise of rows, and does not correlate.
        """
        at = group_keys.positions(self.groups, tuple(map(group_keys.normalize, groups)))
        if (at < 0).any():
            missing = groups[int(np.argmax(at < 0))]
            raise InputError(
                f"No item of the pairs is of group {group_keys.show(missing)!r:.60}. Make pairs of the same rows "
                "that were counted."
            )
        judged, p = prev.judged, prev.estimate[rows]
        M = judged.rates.mean(axis=0)
        scores = np.stack(
            [self._scores(M, share, int(g), of) for g, share in zip(at, p, strict=True)], axis=1
        )
        residuals = np.full(scores.shape, np.nan)
        if judged.by_labels:
            classes = judged.posterior.classes(rows)[..., of]
            residuals = np.stack(
                [self._residuals(c, int(g), of) for g, c in zip(at, classes, strict=True)], 1
            )
        return judged.correlations(scores, residuals, rows)

    def _scores(self, M: Floats, p: Floats, group: int, of: int) -> Floats:
        """Scores of one group with shares p, (items,); NaN for items that it does not have."""
        bins, classes = self.bins[:, group], self.classes[:, group]
        by_value = M[of] / np.maximum(p @ M, 1e-12) - 1
        by_class = np.where(np.arange(len(p)) == of, 1 / max(p[of], 1e-12), 0.0) - 1
        scores = np.where(classes >= 0, by_class[classes], by_value[bins])
        scores = np.where(bins >= 0, scores, np.nan)
        return np.asarray(scores - np.nanmean(scores) if (bins >= 0).any() else scores)

    def _residuals(self, probability: Floats, group: int, of: int) -> Floats:
        """Residuals of labelled rows, (items,): the label minus the probability (m,) of the class in its bin."""
        bins, classes = self.bins[:, group], self.classes[:, group]
        return np.where((classes >= 0) & (bins >= 0), (classes == of) - probability[bins], np.nan)


def level_of(prev: Prevalence, level: float | None) -> float:
    """The requested level, by default that of the estimate."""
    level = prev.level or 0.9 if level is None else level
    check_level(level)
    return level


def points(prev: Prevalence, assume: Assume) -> Floats:
    """Point estimates (G, K) under the assumption."""
    check_assume(assume)
    return np.asarray(prev.estimate if assume == "trust" else prev.urc)


def interval(
    prev: Prevalence, point: float, draws: Floats, neutral: float, assume: Assume, level: float | None = None
) -> Interval:
    """Point and interval of draws, widened to contain the point: a mode may lie at an end that no draw reaches."""
    level = level_of(prev, level)
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(
        estimate=float(point),
        lower=float(min(lower, point)),
        upper=float(max(upper, point)),
        probability=float((draws > neutral).mean()),
        level=level,
        verdict=prev.verdict.level,
        assume=assume,
    )


def contrast(
    prev: Prevalence,
    a: Hashable,
    b: Hashable,
    *,
    of: Hashable,
    kind: Literal["difference", "ratio"],
    assume: Assume,
    level: float | None,
    pairs: Pairs | None,
) -> Interval:
    """The difference or ratio of a class's shares in two groups."""
    check_options(kind=kind)
    k = place_of_class(prev.classes, of)
    at = [prev.row_of(a), prev.row_of(b)]
    if at[0] == at[1]:
        raise InputError(
            f"contrast compares two groups, but got {group_keys.show(a)!r:.60} twice. Name another."
        )
    shares = points(prev, assume)[at, k]
    draws = _paired_draws(prev, [a, b], k, pairs, assume)
    if kind == "difference":
        return interval(prev, shares[0] - shares[1], draws[0] - draws[1], 0.0, assume, level)
    if shares[1] < _NOTHING:
        raise InputError(
            f"The estimate of group {group_keys.show(b)!r:.60} is 0, so the ratio is undefined. Use "
            f"{option('kind', 'difference')}."
        )
    ratios = draws[0] / np.maximum(draws[1], _NOTHING)
    return interval(prev, shares[0] / shares[1], ratios, 1.0, assume, level)


def compare(
    prev: Prevalence,
    reference: Hashable,
    *,
    of: Hashable,
    pairs: Pairs | None,
    errors: float,
    assume: Assume,
    level: float | None,
) -> Comparison:
    """Differences of all groups to a reference, or of all pairs if it is ``...``."""
    errors = as_number("errors", errors, least=0, most=1, words="a share from 0 to 1")
    k, level = place_of_class(prev.classes, of), level_of(prev, level)
    a, b = _compared(prev, reference).T
    draws = _paired_draws(prev, list(prev.groups), k, pairs, assume)
    shares = points(prev, assume)[:, k]
    swap = shares[a] < shares[b] if reference is ... else np.zeros(len(a), dtype=bool)
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    compared = differences(
        [(prev.groups[i], prev.groups[j]) for i, j in zip(a, b, strict=True)],
        shares[a] - shares[b],
        draws[a] - draws[b],
        level=level,
        errors=errors,
    )
    return Comparison(compared, prev.classes[k], level, errors, prev.verdict.level, assume)


def _compared(prev: Prevalence, reference: Hashable) -> Ints:
    """(D, 2) positions of the compared groups."""
    G = len(prev.groups)
    if G < 2:
        raise InputError(
            f"There is nothing to compare: the estimate has {G} group(s). Count by a group column."
        )
    if reference is not ...:
        base = prev.row_of(reference)
        return np.array([(g, base) for g in range(G) if g != base])
    if G > _MOST_COMPARED:
        raise InputError(
            f"Every two of {G:,} groups are too many to compare. Name a {option('reference')} group."
        )
    return np.column_stack(np.triu_indices(G, 1))


def shares_of(prev: Prevalence, g: int) -> dict[Hashable, Interval]:
    """Share of every class in a group, with its interval."""
    lower, upper = (
        np.full(len(prev.classes), np.nan) if x is None else x[g] for x in (prev.lower, prev.upper)
    )
    level, verdict = prev.level or np.nan, prev.verdict.level
    return {
        c: Interval(float(prev.estimate[g, k]), float(lower[k]), float(upper[k]), 1.0, level, verdict)
        for k, c in enumerate(prev.classes)
    }


def shares(
    prev: Prevalence, groups: list[Hashable] | None, *, of: Hashable, assume: Assume, level: float | None
) -> tuple[Interval, ...]:
    """Share of a class in each of several groups."""
    k, level = place_of_class(prev.classes, of), level_of(prev, level)
    draws = prev.draws(groups, assume=assume)[..., k]
    rows = range(len(prev.groups)) if groups is None else [prev.row_of(group) for group in groups]
    values = points(prev, assume)[:, k]
    intervals = (
        interval(prev, values[g], own, 0.0, assume, level) for g, own in zip(rows, draws, strict=True)
    )
    if prev.lower is None or prev.upper is None or assume != "trust" or level != prev.level:
        return tuple(intervals)
    return tuple(
        replace(share, lower=float(prev.lower[g, k]), upper=float(prev.upper[g, k]))
        for g, share in zip(rows, intervals, strict=True)
    )


def ranking(prev: Prevalence, *, of: Hashable, assume: Assume, pairs: Pairs | None) -> Ranking:
    """Probability of each group to have the highest share of a class."""
    k = place_of_class(prev.classes, of)
    top = _paired_draws(prev, list(prev.groups), k, pairs, assume).argmax(axis=0)
    probability = np.bincount(top, minlength=len(prev.groups)) / len(top)
    return Ranking(prev.groups, probability, prev.classes[k], prev.verdict.level, assume)


def poststratify(
    prev: Prevalence, totals: Any, *, of: Hashable, assume: Assume, level: float | None
) -> Interval:
    """Share of a class in a population with other group sizes."""
    if hasattr(totals, "items"):
        size = np.zeros(len(prev.groups))
        for group, n in totals.items():
            size[prev.row_of(group)] = n
    else:
        size = as_array("totals", totals)
    sized = size.shape == (len(prev.groups),) and np.isfinite(size).all() and size.min() >= 0
    if not sized or not size.sum():
        raise InputError(
            f"totals must be one size per group ({len(prev.groups)}), finite, not negative and not all zero."
        )
    k, weight = place_of_class(prev.classes, of), size / size.sum()
    draws = prev.draws(assume=assume)[..., k]
    return interval(prev, weight @ points(prev, assume)[:, k], weight @ draws, 0.0, assume, level)


def _paired_draws(
    prev: Prevalence, groups: list[Hashable], k: int, pairs: Pairs | None, assume: Assume
) -> Floats:
    """Joint draws of the share of a class, (groups, draws), with the correlation of shared items."""
    if pairs is None:
        return np.asarray(prev.draws(groups, assume=assume)[..., k])
    if not isinstance(pairs, Pairs):
        raise InputTypeError(f"pairs must come from fieldcal.pairs, but got {type(pairs).__name__}.")
    if pairs.lab != prev.lab.digest:
        raise InputError("These pairs were made with another lab. Make them with the lab of this estimate.")
    rows = np.array([prev.row_of(group) for group in groups], dtype=np.intp)
    return prev.draws_together(rows, pairs.correlations(prev, groups, rows, k), k)
