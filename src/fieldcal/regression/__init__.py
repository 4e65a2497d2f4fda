"""Predictive distributions of a number, in the forms people have them, and with new masses of intervals."""

from fieldcal.regression.parametric import Moments, as_predictions, from_distribution, from_moments
from fieldcal.regression.piecewise import (
    GridCDF,
    IntervalMasses,
    Quantiles,
    Samples,
    from_cdf,
    from_masses,
    from_quantiles,
    from_samples,
)
from fieldcal.regression.predictions import Predictions
from fieldcal.regression.reshaped import Reshaped

__all__ = [
    "GridCDF",
    "IntervalMasses",
    "Moments",
    "Predictions",
    "Quantiles",
    "Reshaped",
    "Samples",
    "as_predictions",
    "from_cdf",
    "from_distribution",
    "from_masses",
    "from_moments",
    "from_quantiles",
    "from_samples",
]
