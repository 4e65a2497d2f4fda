"""Anything that stands for predictive distributions, as Predictions."""

from __future__ import annotations

from typing import Any

from fieldcal.errors import InputTypeError
from fieldcal.regression.distributions import from_distribution, has_functions, is_frozen
from fieldcal.regression.predictions import Predictions


def as_predictions(thing: Any) -> Predictions:
    """Predictions as they are; distributions of scipy and skpro wrapped; anything else refused with the way out.

    Examples
    --------
    >>> from scipy import stats
    >>> from fieldcal.regression import as_predictions
    >>> len(as_predictions(stats.norm([0.0, 1.0, 2.0])))
    3
    """
    if isinstance(thing, Predictions):
        return thing
    objects = isinstance(thing, (list, tuple)) and len(thing) and has_functions(thing[0], rows=False)
    if is_frozen(thing) or has_functions(thing) or objects:
        return from_distribution(thing)
    raise InputTypeError(
        f"A {type(thing).__name__} does not say which predictive distributions it stands for. Use "
        "from_quantiles(values, levels), from_cdf(values, grid), from_samples(samples), from_masses(masses, support), "
        "from_moments(mean, sd) or from_distribution(dist)."
    )
