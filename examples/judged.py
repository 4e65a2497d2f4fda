"""Answers of several systems to the same questions, marked by an imperfect judge, with known true rates."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.types import Floats

_CUTS = (-1.2, -0.6, 0.0, 0.8)  # of the impression, between the ratings 1 to 5: 4 and 5 are a pass
_SHARED = 0.5  # share of the variance of success that is the question's
_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class JudgedData:
    """One row per answer: every system answers every item.

    Attributes
    ----------
    system, item : who answered, and what
    verdict, rating : what the judge says, "pass" or "fail", and 1 to 5
    second : the verdict of another judge, whose errors are its own
    human : "pass" or "fail" where a person checked, else None
    truth : "pass" or "fail", which nobody has
    rates : the probability of a good answer, by system
    """

    system: NDArray[np.str_]
    item: NDArray[np.intp]
    verdict: NDArray[np.str_]
    rating: NDArray[np.intp]
    second: NDArray[np.str_]
    human: NDArray[np.object_]
    truth: NDArray[np.str_]
    rates: dict[str, float]

    def columns(self) -> dict[str, list[Any]]:
        """What an evaluator has, as columns of a table: all but the truth."""
        names = ("system", "item", "verdict", "rating", "second", "human")
        return {name: getattr(self, name).tolist() for name in names}


def judged(
    *,
    n_items: int = 400,
    rates: ArrayLike = (0.5, 0.6, 0.7, 0.8),
    n_labels: int = 300,
    sensitivity: float = 0.9,
    specificity: float = 0.75,
    kinder: float = 0.0,
    random_state: int = 0,
) -> JudgedData:
    """Simulate a table of judged answers, of which people checked some, drawn at random.

    Parameters
    ----------
    n_items : questions, each answered by every system
    rates : the probability that an answer is good, one per system, at most 26 of them
    n_labels : rows that a person checked
    sensitivity, specificity : the share of good answers that the judge passes, and of bad ones that it fails
    kinder : how many more of the bad answers of system A, of its own family, it passes
    random_state : seed
    """
    p = np.asarray(rates, dtype=np.float64)
    passed = np.full((len(p), 2), [1 - specificity, sensitivity])
    passed[0, 0] += kinder

    rng = np.random.default_rng(random_state)
    shape = (n_items, len(p))
    luck = np.sqrt(_SHARED) * rng.standard_normal((n_items, 1))
    luck = luck + np.sqrt(1 - _SHARED) * rng.standard_normal(shape)
    good = (luck < _quantiles(p)).astype(np.intp)
    middle = _quantiles(passed)[np.arange(len(p)), good]
    impression, other = (middle + rng.standard_normal(shape) for _ in range(2))
    n = good.size
    human: NDArray[np.object_] = np.full(n, None, dtype=object)
    truth = _in_words(good)
    checked = rng.choice(n, size=n_labels, replace=False)
    human[checked] = truth[checked]
    names = list(_NAMES[: len(p)])
    return JudgedData(
        system=np.tile(np.array(names), n_items),
        item=np.repeat(np.arange(n_items), len(p)),
        verdict=_in_words(impression > 0),
        rating=1 + np.searchsorted(_CUTS, impression.ravel()),
        second=_in_words(other > 0),
        human=human,
        truth=truth,
        rates=dict(zip(names, p.tolist(), strict=True)),
    )


def _quantiles(p: Floats) -> Floats:
    return np.array([NormalDist().inv_cdf(x) for x in p.ravel().tolist()]).reshape(p.shape)


def _in_words(good: Any) -> NDArray[np.str_]:
    return np.where(np.asarray(good).ravel(), "pass", "fail")
