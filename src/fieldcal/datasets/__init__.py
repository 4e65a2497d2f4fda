"""A generator with known prevalences, and a small real data set."""

from fieldcal.datasets.portal import Portal, portal
from fieldcal.datasets.synthetic import Example, ShiftedData, example, label_shift

__all__ = ["Example", "Portal", "ShiftedData", "example", "label_shift", "portal"]
