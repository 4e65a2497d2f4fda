"""Comparison: many differences at once, with what may be said of all of them together."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fieldcal.objects import group_keys, show
from fieldcal.objects.derived import Assume, rests_on
from fieldcal.objects.verdict import Level
from fieldcal.types import Floats


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
