"""Synthetic generators with known truth, and one small real data set."""

from fieldcal.datasets.portal import Portal, portal
from fieldcal.datasets.quantification import QuantificationData, quantification
from fieldcal.datasets.synthetic import ShiftedData, label_shift

__all__ = ["Portal", "QuantificationData", "ShiftedData", "label_shift", "portal", "quantification"]
