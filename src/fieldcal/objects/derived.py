"""Numbers that are derived from an estimate: intervals, rankings, comparisons of groups, and what pairs of items add.

Each has its interval, the verdict it inherits, and what it rests on.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import group_keys, show
from fieldcal.objects.judged import Judged
from fieldcal.objects.verdict import WORDS, Level
from fieldcal.options import check_choice
from fieldcal.types import Floats, Ints, Keys

#: What derived numbers rest on: the estimate after trust, or label shift.
Assume = Literal["trust", "label_shift"]


def check_assume(assume: object) -> None:
    """Refuse what is neither."""
    check_choice("assume", assume, ("trust", "label_shift"))


def realised(share: Floats, rows: Floats, rng: np.random.Generator) -> Floats:
    """Shares that so many rows may have by chance, each of them with this probability."""
    return np.asarray(rng.beta(share * rows + 0.1, (1 - share) * rows + 0.1))


def rests_on(assume: Assume, verdict: Level) -> str:
    """In words, for people."""
    return "if label shift holds" if assume == "label_shift" else f"verdict: {WORDS[verdict].lower()}"


@dataclass(frozen=True)
class Interval:
    """A number with its interval, the probability that it is above the point where nothing differs, and the verdict."""

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
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Ranking:
    """How likely each group is the one with the highest prevalence of a class, and the verdict behind it."""

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
        """For JSON."""
        names = [group_keys.show(g) for g in self.groups]
        probability = dict(zip(names, self.probability.tolist(), strict=True))
        return {"of": self.of, "probability": probability, "verdict": self.verdict, "assume": self.assume}


@dataclass(frozen=True)
class Difference:
    """Of the share of a class in two groups.

    Attributes
    ----------
    estimate, lower, upper : of a less b, with an interval of its own
    all_lower, all_upper : an interval that holds together with those of all other differences
    probability : that a is above b
    found : whether its own interval excludes zero and it is among the surest, see `Comparison`
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
    """Differences between groups, the surest first.

    Attributes
    ----------
    differences : each with its interval, alone and together with all others
    errors : of the differences that are found, the share whose sign is expected to be wrong, at most
    """

    differences: tuple[Difference, ...]
    of: Hashable
    level: float
    errors: float
    verdict: Level
    assume: Assume = "trust"

    @property
    def found(self) -> tuple[Difference, ...]:
        """Those whose interval excludes zero, as many of the surest as keep to ``errors``."""
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
        """For JSON."""
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
    """Of pairs (a, b) whose differences have estimates (D,) and draws (D, n); the surest first."""
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


NONE = -1  # in place of a bin or a class


@dataclass(frozen=True, eq=False)
class Pairs:
    """What was said of every item in every group. Made by `fieldcal.pairs`.

    Attributes
    ----------
    groups : the groups
    bins, classes : (items, G) the bin of the value, and the class where it is known; −1 for none
    lab : digest of the lab whose bins these are
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

    def correlations(self, judged: Judged, groups: list[Hashable], rows: Ints, of: int) -> Floats:
        """(G, G) correlations of the noise that rows bring into the shares of a class, between groups.

        A row moves the estimate of its group by a score: ``P(k | value) / p_k − 1``, or ``1 / p_k − 1`` and −1 where
        the class is known. Over shared items the scores of two groups correlate; the rest of their rows do not. What is
        not known of a group's own judge is no noise of rows, and does not correlate.
        """
        at = group_keys.positions(self.groups, tuple(map(group_keys.normalize, groups)))
        if (at < 0).any():
            missing = groups[int(np.argmax(at < 0))]
            raise InputError(
                f"No item of the pairs is of group {group_keys.show(missing)!r:.60}. Make pairs of the same rows "
                "that were counted."
            )
        scores, residuals = (
            np.stack([ask(judged, int(g), int(row), of) for g, row in zip(at, rows, strict=True)], axis=1)
            for ask in (self._scores, self._residuals)
        )
        return judged.together(scores, residuals, rows)

    def _scores(self, judged: Judged, group: int, row: int, of: int) -> Floats:
        """(items,) of one group; NaN for items that it does not have."""
        M = judged.rates.mean(axis=0)
        p = judged.draws(np.array([row]))[0].mean(axis=0)
        bins, classes = self.bins[:, group], self.classes[:, group]
        by_value = M[of] / np.maximum(p @ M, 1e-12) - 1
        by_class = np.where(np.arange(len(p)) == of, 1 / max(p[of], 1e-12), 0.0) - 1
        scores = np.where(classes >= 0, by_class[classes], by_value[bins])
        scores = np.where(bins >= 0, scores, np.nan)
        return np.asarray(scores - np.nanmean(scores) if (bins >= 0).any() else scores)

    def _residuals(self, judged: Judged, group: int, row: int, of: int) -> Floats:
        """(items,) of labelled rows, by how much they differ from the probability of the class given their category."""
        bins, classes = self.bins[:, group], self.classes[:, group]
        expected = judged.classes(np.array([row]))[0, bins, of]
        return np.where((classes >= 0) & (bins >= 0), (classes == of) - expected, np.nan)
