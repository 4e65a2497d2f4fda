"""Predictive distributions of a number, from several forms of input, and their reweighting over intervals."""

from fieldcal.regression.parametric import Distribution, as_predictions, from_distribution, from_moments
from fieldcal.regression.piecewise import PiecewiseLinear, from_cdf, from_masses, from_quantiles, from_samples
from fieldcal.regression.predictions import Predictions

__all__ = [
    "Distribution",
    "PiecewiseLinear",
    "Predictions",
    "as_predictions",
    "from_cdf",
    "from_distribution",
    "from_masses",
    "from_moments",
    "from_quantiles",
    "from_samples",
]
