"""A generator with known prevalences, and a small real data set."""

from fieldcal.datasets.synthetic import Example, Portal, ShiftedData, example, label_shift, portal

__all__ = ["Example", "Portal", "ShiftedData", "example", "label_shift", "portal"]
