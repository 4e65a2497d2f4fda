"""Types that signatures share, so that each is written once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
#: Of groups or classes: distinct, in canonical order.
Keys = tuple[Hashable, ...]

#: What to do with rows that have no prediction, where there is a choice.
Missing = Literal["error", "drop", "keep"]
#: What to do with rows of groups that the estimate never saw.
Unseen = Literal["global", "raw", "error"]
#: Which number of a posterior is the estimate.
Point = Literal["mean", "mode"]
PointLike = Literal["auto"] | Point
#: How labelled rows of the field were chosen: as a random sample of it, or of a group; by looking at predictions or
#: groups; or by their class.
Design = Literal["random", "by_score", "by_class"]
DESIGNS: tuple[Design, ...] = get_args(Design)
#: What predictions are: probabilities (or distributions), or values such as the verdicts of a judge.
Kind = Literal["probabilities", "values"]
#: What predictions are multiplied with where the field has labels: class weights of the row's group, or also those of
#: its bin.
Shape = Literal["auto", "tilt", "bins"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
#: What to do with rows whose quantiles decrease.
Crossing = Literal["error", "sort"]


class DistributionLike(Protocol):
    """A predictive distribution, or one per row, by what it can do."""

    def cdf(self, x: Any, /) -> Any:
        """The probability of a number up to x."""

    def ppf(self, u: Any, /) -> Any:
        """The smallest number whose distribution function reaches u."""
