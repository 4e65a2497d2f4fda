"""A question for every method: what a judge said of rows, and what people said of a few of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FIRST_PASS = 4  # ratings 1 to 5 pass from here on, for methods that know pass and fail only


@dataclass(frozen=True)
class Rows:
    """Rows with their class, what the judge said, and their slice."""

    y: np.ndarray
    values: np.ndarray
    slices: np.ndarray

    def __getitem__(self, at: np.ndarray) -> Rows:
        return Rows(self.y[at], self.values[at], self.slices[at])

    def __len__(self) -> int:
        return len(self.y)

    def __add__(self, more: Rows) -> Rows:
        return Rows(
            np.concatenate([self.y, more.y]),
            np.concatenate([self.values, more.values]),
            np.concatenate([self.slices, more.slices]),
        )


Draw = Callable[[np.random.Generator, int], Rows]


@dataclass(frozen=True)
class Trial:
    """The rows in question; which of them a person saw; labelled rows beside them; and the truth."""

    rows: Rows
    labelled: np.ndarray  # places in rows
    beside: Rows  # labelled rows of the same population that are none of those in question
    design: str
    truth: np.ndarray  # rate of each class
    slice_truth: np.ndarray  # (slices, classes)
    seed: int
    ratings: bool = False

    @property
    def asked(self) -> range:
        """Of two classes the second says it all."""
        return range(1, 2) if len(self.truth) == 2 else range(len(self.truth))

    @property
    def human(self) -> np.ndarray:
        """Class of each row in question, missing where no person looked."""
        known = np.full(len(self.rows), np.nan)
        known[self.labelled] = self.rows.y[self.labelled]
        return known

    @property
    def calibration(self) -> Rows:
        """All rows with a label."""
        return self.rows[self.labelled] + self.beside

    @property
    def unlabelled(self) -> Rows:
        """Rows in question without a label; all of them where the labels were chosen by class, since the others are
        no sample of the population any more."""
        if self.design == "by_class":
            return self.rows
        return self.rows[np.setdiff1d(np.arange(len(self.rows)), self.labelled)]

    def score(self, rows: Rows, k: int) -> np.ndarray:
        """What the judge says of class k, as a number from 0 to 1."""
        return (rows.values - 1) / 4 if self.ratings else self.verdict(rows, k)

    def verdict(self, rows: Rows, k: int) -> np.ndarray:
        said = rows.values >= FIRST_PASS if self.ratings else rows.values == k
        return said.astype(float)


def trial_of(
    draw: Draw,
    rng: np.random.Generator,
    *,
    design: str,
    truth: np.ndarray,
    slice_truth: np.ndarray | None = None,
    rows: int = 1000,
    labels: int = 100,
    ratings: bool = False,
) -> Trial:
    """Rows of a population, and labels at random or as many of each class."""
    asked = draw(rng, rows)
    beside = asked[np.arange(0)]
    if design == "random":
        labelled = rng.choice(rows, labels, replace=False)
    else:
        labelled, beside = by_class(draw, asked, np.flatnonzero(truth > 0), labels // len(truth), rng)
    slice_truth = truth[None] if slice_truth is None else slice_truth
    seed = int(rng.integers(2**31))
    return Trial(asked, labelled, beside, design, truth, slice_truth, seed, ratings)


def by_class(
    draw: Draw, asked: Rows, classes: np.ndarray, each: int, rng: np.random.Generator
) -> tuple[np.ndarray, Rows]:
    """So many of every class: of the rows in question as far as there are, then of further rows of the population."""
    each, labelled, beside = max(each, 1), [], asked[np.arange(0)]
    for k in classes:
        found = rng.permutation(np.flatnonzero(asked.y == k))[:each]
        labelled.append(found)
        lacking = each - len(found)
        while lacking:
            more = draw(rng, 1000)
            more = more[np.flatnonzero(more.y == k)[:lacking]]
            beside, lacking = beside + more, lacking - len(more)
    return np.concatenate(labelled), beside
