"""Predictive distributions of a number, in the forms people have them, and with new masses of intervals."""

from fieldcal.regression.distributions import from_distribution
from fieldcal.regression.forms import as_predictions
from fieldcal.regression.frames import count_table, learn_table, read_labelled, recalibrate_table
from fieldcal.regression.masses import IntervalMasses, from_masses
from fieldcal.regression.moments import Moments, from_moments
from fieldcal.regression.predictions import Predictions
from fieldcal.regression.regressor import RecalibratedRegressor
from fieldcal.regression.reshaped import Reshaped
from fieldcal.regression.samples import Samples, from_samples
from fieldcal.regression.tabulated import GridCDF, Quantiles, from_cdf, from_quantiles
from fieldcal.regression.verbs import count, learn, recalibrate

__all__ = [
    "GridCDF",
    "IntervalMasses",
    "Moments",
    "Predictions",
    "Quantiles",
    "RecalibratedRegressor",
    "Reshaped",
    "Samples",
    "as_predictions",
    "count",
    "count_table",
    "from_cdf",
    "from_distribution",
    "from_masses",
    "from_moments",
    "from_quantiles",
    "from_samples",
    "learn",
    "learn_table",
    "read_labelled",
    "recalibrate",
    "recalibrate_table",
]
