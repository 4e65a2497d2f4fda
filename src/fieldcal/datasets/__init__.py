"""Synthetic generators with known truth, and one small real data set."""

from fieldcal.datasets.judges import JudgedData, judged
from fieldcal.datasets.portal import Portal, portal
from fieldcal.datasets.quantification import QuantificationData, quantification
from fieldcal.datasets.synthetic import ShiftedData, label_shift

__all__ = [
    "JudgedData",
    "Portal",
    "QuantificationData",
    "ShiftedData",
    "judged",
    "label_shift",
    "portal",
    "quantification",
]
