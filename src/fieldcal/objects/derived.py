"""Numbers that are derived from an estimate: each with its interval, the verdict it inherits, and what it rests on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from fieldcal.objects import group_keys, show
from fieldcal.objects.verdict import WORDS, Level
from fieldcal.options import check_choice
from fieldcal.types import Floats, Keys

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
