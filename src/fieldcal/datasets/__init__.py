"""A generator with known truth, and one small real data set."""

from fieldcal.datasets.portal import Portal, portal
from fieldcal.datasets.synthetic import ShiftedData, label_shift

__all__ = ["Portal", "ShiftedData", "label_shift", "portal"]
