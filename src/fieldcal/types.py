"""Type aliases and literals that signatures share."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
#: Groups or classes: distinct, in canonical order.
Keys = tuple[Hashable, ...]

#: What to do with rows without a prediction, where there is a choice.
Missing = Literal["error", "drop", "keep"]
#: What to do with rows of groups that are not in the estimate.
Unseen = Literal["global", "raw", "error"]
#: Which summary of a posterior is the estimate.
Point = Literal["mean", "mode"]
PointLike = Literal["auto"] | Point
#: How labelled field rows were chosen: at random from the field or from a group; by their predictions or groups; or by
#: their class.
Design = Literal["random", "by_score", "by_class"]
DESIGNS: tuple[Design, ...] = get_args(Design)
#: Predictions are probabilities (or distributions), or values, that is categories such as the verdicts of a judge.
Kind = Literal["probabilities", "values"]
#: Predictions are multiplied by class weights of the row's group ("tilt"), or also by those of its bin ("bins"), if the
#: estimate uses labels.
Shape = Literal["auto", "tilt", "bins"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
#: What to do with rows whose quantiles decrease.
Crossing = Literal["error", "sort"]


class DistributionLike(Protocol):
    """A predictive distribution, or one per row."""

    def cdf(self, x: Any, /) -> Any:
        """The probability of a number up to x."""

    def ppf(self, u: Any, /) -> Any:
        """The smallest number whose distribution function reaches u."""
